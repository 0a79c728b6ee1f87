//! The controller of hosts: it gathers what is known, lets [`firesteel_plan`] decide, and has things done.
//!
//! ```text
//!            edits (API)   reports (agents)   answers (BMC)   fetched images   deadlines
//!                 └───────────────┴────────┬────────┴───────────────┴─────────────┘
//!                                          ▼ wake(host)
//!                                        queue
//!                                          ▼
//!   journal + objects + views ──► HostInputs ──► plan::host::step ──► HostStep
//!                                                                      │
//!        1. journal (the truth, compare-and-swap)  ◄───────────────────┤
//!        2. boot entry published                   ◄───────────────────┤
//!        3. BareMetalHost.status (a projection)    ◄───────────────────┤
//!        4. effects, each at least once            ◄───────────────────┘
//! ```
//!
//! Observations are kept in memory ([`views`]) where they come again by themselves (an agent reports
//! cumulatively every two seconds, a BMC can be asked), and in the journal where they do not (which key a
//! token is bound to, receipts, what the new OS said). Nothing here opens a listener or decides a state.
//!
//! [`Control`] is the handle that the appliance's listeners call. Other controllers get hosts by value
//! ([`firesteel_runtime::HostEvents`]). Control asks the config server and the boot image streams by traits
//! ([`firesteel_runtime::ServedConfigs`], [`firesteel_runtime::ImageIndex`]), and knows no other controller.
//!
//! The outside comes in by [`ControlConfig`]: time, chance and tasks ([`firesteel_runtime::Runtime`]),
//! the clock as the store knows it ([`firesteel_runtime::StoreClock`]), BMCs ([`BmcDriver`]), images ([`Images`]), the
//! store. A simulation brings its own and runs all of this unchanged.

mod agent_addresses;
mod agents;
mod binding;
mod bmc_logins;
mod bmc_record;
mod bmc_sensors;
mod bmc_work;
mod boot;
mod boot_observations;
mod boot_record;
mod boot_watch;
mod claimants;
mod clock_doubt;
mod console;
mod control;
mod damaged_hosts;
mod discovered_table;
mod discovered_watch;
mod discovery;
mod discovery_token;
mod disk_identity;
mod effects;
mod first_boots;
mod follow;
mod halt_watch;
mod halts;
mod hand_off;
mod hardware_store;
mod host;
mod host_gate;
mod host_inputs;
mod identity;
mod image_fetches;
mod images;
mod instances;
mod known_hosts;
mod leases;
mod logged_refusals;
mod logins;
mod logs;
mod map;
mod metrics;
mod network;
mod network_log;
mod note_rate;
mod notes;
mod observations;
mod parts;
mod power;
pub mod receipts;
mod reconciler;
mod refusals;
mod refused_hellos;
mod removed_images;
mod report_changes;
mod second_agents;
mod second_boot;
mod shared;
mod standing;
mod step_speed;
mod survey;
mod token_eligibility;
mod token_extension;
mod unowned_machines;
mod unowned_objects;
mod views;
mod write_receipts;

pub use agents::AgentConversations;
pub use bmc_sensors::{SENSOR_READING_MAX, SensorReadError, SensorReads};
pub use boot::{BootDecisions, BootGrant, BootScript, ScriptKind};
pub use boot_observations::BootObserver;
pub use boot_watch::UnknownHost;
pub use console::{CONSOLES_BYTES_MAX, ConsoleText};
pub use control::Control;
pub use effects::FIRST_BOOT_FAILED_PATH;
pub use image_fetches::ImageFetches;
pub use images::{AcquiredImage, Acquiring, ImageFault, Images};
pub use instances::{FAILURE_BYTES_MAX, InstanceReports};
pub use leases::LIVE_LEASES_MAX;
pub use logs::{AGENT, CONSOLE, HostLogs, KERNEL, LOG_BYTES_MAX};
pub use metrics::HOSTS_NAMED_MAX;
pub use network::{DhcpRequestSource, NetworkEvent};
pub use network_log::NetworkLog;
pub use parts::{ControlConfig, ControlParts};
pub use power::{BmcAnswer, BmcConsole, BmcDriver, BmcSession, ConsoleAttachResult, SchemeDriver};
pub use receipts::verify as verify_receipt;
pub use survey::{Fleet, FleetSurvey};
pub use unowned_machines::DISCOVERED_MAX;

/// Why something is not given to a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessDenial {
    #[error("{0}")]
    Token(String),
    /// The token is good, and opens this no more.
    #[error("{0}")]
    Forbidden(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Internal(String),
}
