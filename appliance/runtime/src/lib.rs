//! What controllers share, so that none of them needs another one.
//!
//! ```text
//!   control ──► HostEvents ──► HostInbox ──► config server, rollout       hosts, by value
//!   config server, rollout ──► HostQueue, StepLocks ──► control's steps   when a host is looked at
//!   each ──► Journals, Events ──► the store                               what is written of hosts
//!   sensors ──► SensorBoard ──► control's steps                           what the sensors of hosts say
//! ```
//!
//! Everything that would make two runs differ comes through [`Runtime`]. [`Handles`] are made once for a process; each
//! controller has what it needs of them. This crate knows no controller and decides nothing of a host.

mod clock;
mod events;
mod follow;
mod foreign_text;
mod handles;
mod host_events;
mod host_key;
mod host_table;
mod image_index;
mod instance_key;
mod journals;
mod live;
mod lock;
mod opaque_debug;
mod process;
mod queue;
mod sensor_board;
mod served_configs;
mod step_locks;
mod tasks;
mod trusted_ca;

pub use clock::{AcceptedClock, ClockNotAccepted, StoreClock, log_doubt};
pub use events::{Events, regarding};
pub use follow::{follow, follow_index, follow_objects};
pub use foreign_text::{field, line};
pub use handles::Handles;
pub use host_events::{HostEvent, HostEvents, HostInbox, SteppedHost};
pub use host_key::{HostKey, key_of};
pub use host_table::{HostTable, KnownHost, undecodable_host};
pub use image_index::{ImageIndex, IndexVersion};
pub use instance_key::InstanceKey;
pub use journals::{Journals, event};
pub use live::Live;
pub use lock::lock;
pub use process::{Ending, Runtime, Task, TaskError, Tokio, sleep, timeout};
pub use queue::HostQueue;
pub use sensor_board::SensorBoard;
pub use served_configs::{ConfigsNotReady, Pending, ServedConfigs};
pub use step_locks::{StepLock, StepLocks};
pub use tasks::{ControllerError, Loop, Tasks};
pub use trusted_ca::{HostTrust, TrustBundle};
