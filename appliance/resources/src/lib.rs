//! The resources that users and the appliance exchange: types with upstream's names, their
//! defaults, their validation and their conditions.
//!
//! This crate is data only. It knows no storage, no HTTP, no clock, no agent protocol and no planner: it says what a
//! resource *is* and when one is wrong. The API learns the kinds from the one table [`kinds::KINDS`]. Each new or
//! changed object goes through the one door [`admit::admit`] before it is stored. Planner, controllers and command line
//! read the types.
//!
//! ```text
//! JSON -> unknown fields go -> defaults come -> shape (types, bounds) -> rules of the kind -> warnings
//! ```

pub mod access_grant;
pub mod admit;
pub mod bare_metal_host;
pub mod boot_image_stream;
pub mod cluster_api;
pub mod cluster_operator;
pub mod companions;
pub mod condition;
pub mod discovered_host;
pub mod halt;
pub mod hardware;
pub mod hardware_data;
pub mod host_claim;
pub mod host_deploy_policy;
pub mod host_group;
pub mod host_journal;
pub mod kind;
pub mod kinds;
mod label;
mod mac;
pub mod machine_config;
pub mod machine_configuration;
pub mod machine_set;
pub mod no_controller;
pub mod provisioning;
pub mod receipt;
mod reference;
pub mod roles;
pub mod schema;
pub mod secret;
pub mod selector;
pub mod shape;
mod url;
mod zero;

pub use access_grant::AccessGrant;
pub use admit::{Admission, admit};
pub use bare_metal_host::{BareMetalHost, BareMetalHostSpec, BareMetalHostStatus, Image, RootDeviceHints};
pub use boot_image_stream::BootImageStream;
pub use condition::{Condition, ConditionStatus, set_condition};
pub use discovered_host::DiscoveredHost;
pub use firesteel_kube_types::{Cause, CauseReason, ObjectMeta, ObjectReference, OwnerReference, SecretReference};
pub use halt::Halt;
pub use hardware::HardwareRecord;
pub use hardware_data::{HardwareData, HardwareDetails};
pub use host_group::HostGroup;
pub use host_journal::HostJournal;
pub use mac::normal_mac;
pub use machine_config::{MachineConfig, pool::MachineConfigPool};
pub use machine_configuration::MachineConfiguration;
pub use provisioning::{NetworkMode, Provisioning};
pub use receipt::Receipt;
pub use secret::Secret;
pub use selector::Selector;
