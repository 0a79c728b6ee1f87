//! What others see of a host: its boot entry, status, conditions and figures, and what the next steps would do.

pub(crate) mod boot;
pub(crate) mod conditions;
mod health;
pub mod host_counts;
pub mod preview;
pub mod progress_outlook;
pub(crate) mod project;
pub mod transitions;
