//! The appliance's working memory: it sees, lets [`firesteel_plan`] decide, and has things done.
//!
//! ```text
//!            edits (API)   reports (agents)   answers (BMC)   fetched images   deadlines
//!                 └───────────────┴────────┬────────┴───────────────┴─────────────┘
//!                                          ▼ wake(host)
//!                                        queue
//!                                          ▼
//!   journal + objects + views ──► Seen ──► plan::host::step ──► Step
//!                                                                │
//!        1. journal (the truth, compare-and-swap)  ◄─────────────┤
//!        2. boot entry published                   ◄─────────────┤
//!        3. BareMetalHost.status (a projection)    ◄─────────────┤
//!        4. effects, each at least once            ◄─────────────┘
//! ```
//!
//! Observations live in memory ([`views`]) where they come again by themselves (an agent reports
//! cumulatively every two seconds, a BMC can be asked), and in the journal where they do not (which key a
//! token is bound to, receipts, what the new OS said). Nothing here opens a socket or decides a state.
//!
//! Other controllers hear of hosts by value ([`firesteel_runtime::HostEvents`]), and control asks the config server and the
//! boot image streams by traits ([`firesteel_runtime::ServedConfigs`], [`firesteel_runtime::ImageIndex`]).
//!
//! What the outside is made of comes in by [`Config`]: time, chance and tasks ([`firesteel_runtime::Runtime`]), the clock as
//! the store knows it ([`firesteel_runtime::StoreClock`]), BMCs ([`BmcDriver`]), images ([`Images`]), the store. A simulation
//! brings its own and runs all of this unchanged.

mod acquired_image;
mod agents;
mod askers;
mod bmc_record;
mod boot;
mod boot_again;
mod boot_record;
mod boot_watch;
mod claimants;
mod clock_doubt;
mod console;
mod control;
mod damaged;
mod discovery;
mod effects;
mod first_boots;
mod halts;
mod hand_off;
mod host;
mod identity;
mod images;
mod instances;
mod known_hosts;
mod leases;
mod logins;
mod logs;
mod map;
mod metrics;
mod network;
mod note_pace;
mod notes;
mod observations;
mod pace;
mod power;
pub mod receipts;
mod remembered;
mod removed_images;
mod said_refusals;
mod seen;
mod shown_write;
mod strangers;
mod token_extension;
mod views;

pub use acquired_image::AcquiredImage;
pub use boot::{BootGrant, BootScript, ScriptKind};
pub use boot_watch::UnknownHost;
pub use console::{CONSOLES_BYTES_MAX, ConsoleText, Listening};
pub use control::{Config, Control};
pub use effects::FIRST_BOOT_FAILED_PATH;
pub use images::{Acquiring, ImageFault, Images};
pub use instances::FAILURE_BYTES_MAX;
pub use leases::LIVE_LEASES_MAX;
pub use logs::{AGENT, CONSOLE, HostLogs, KERNEL, LOG_BYTES_MAX};
pub use metrics::{Fleet, HOSTS_NAMED_MAX, Survey};
pub use network::{Asker, NetworkEvent};
pub use power::{BmcAnswer, BmcConsole, BmcDriver, BmcSession, SchemeDriver};
pub use receipts::verify as verify_receipt;
pub use strangers::DISCOVERED_MAX;

/// Why something is not given to a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
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
