//! What others see of a host: its boot entry, status, conditions and figures, and what the next steps would do.

pub(crate) mod boot;
mod conditions;
pub mod counted;
pub mod graph;
pub mod outlook;
pub mod preview;
pub(crate) mod project;
