//! The config server: it renders pools, makes stubs that lead hosts to them, and gives a host the config that its token
//! opens.
//!
//! ```text
//! MachineConfigPool, MachineConfig ─► pools ─► what is served (in memory), status of the pools, stubs in Secrets
//! request of a host ─► requests ─► journal of the host (*fetched*) ─► config
//! hosts (from control, by value) ─► who they are by UID, and how far the machines of each pool are
//! ```
//!
//! [`ConfigController`] is all of it; the appliance starts it, and its listener calls it. It needs no other controller:
//! hosts come as [`firesteel_runtime::HostEvent`]s, and it wakes a host by its key in the queue. When control composes
//! a hand-over, it asks by [`firesteel_runtime::ServedConfigs`].

mod controller;
mod instance_files;
mod pools;
mod refusal;
mod requests;
mod served_configs;
mod settings;

pub use controller::{ConfigController, ConfigServerConfig};
pub use refusal::ConfigRefusal;
pub use requests::ConfigRequest;
pub use settings::{ConfigSettings, TOKEN_DAYS_DEFAULT};
