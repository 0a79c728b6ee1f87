//! Leaf facts that several crates share: one type, one parser and one table for each.
//!
//! Nothing here knows a packet, a resource kind or a file.

pub mod arch;

pub use arch::{Arch, Firmware};
