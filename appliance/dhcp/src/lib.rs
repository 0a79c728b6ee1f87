//! DHCPv4 without sockets, clocks, files or tasks.
//!
//! - [`client`]: the client that the ramdisk's agent runs on the interface that booted it.

pub mod client;
mod mac;
pub mod wire;

pub use mac::{Mac, ParseMacError};
