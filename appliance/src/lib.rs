//! The appliance: one process that takes servers from power-on to a running OS.
//!
//! This crate wires the parts up: sockets, tasks, certificates and signals. The binary `firesteel` of `firesteel-cli` calls
//! it. It decides nothing of hosts: the crates beside it decide, and `docs/dev/architecture.md` draws them.

pub mod access;
pub mod audit;
pub mod backup;
pub mod http;
pub mod image_depot;
pub mod metrics;
pub mod outbound;
pub mod privacy;
pub mod serve;
pub mod text_file;
