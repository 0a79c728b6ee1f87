//! The config server: pools are rendered, stubs lead hosts to them, and a host gets the config that its token opens.
//!
//! ```text
//! MachineConfigPool, MachineConfig ─► pools ─► what is served (in memory), status of the pools, stubs in Secrets
//! request of a host ─► requests ─► journal of the host (*fetched*) ─► config
//! hosts (from control, by value) ─► who they are by UID, and how far the machines of each pool are
//! ```
//!
//! [`ConfigController`] is all of it. It needs no other controller: hosts come as [`firesteel_runtime::HostEvent`]s, and a
//! host is looked at again by its key in the queue. What control asks of it when it composes a hand-over, it asks by
//! [`firesteel_runtime::ServedConfigs`].

mod controller;
mod instance_files;
mod pools;
mod refusal;
mod requests;
mod settings;

pub use controller::{ConfigController, ConfigServerConfig};
pub use refusal::ConfigRefusal;
pub use requests::ConfigRequest;
pub use settings::{ConfigSettings, TOKEN_DAYS_DEFAULT};
