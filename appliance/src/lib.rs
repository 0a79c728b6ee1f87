//! The appliance: one process that takes servers from power-on to a running OS.
//!
//! This crate wires up: sockets, tasks, certificates, signals and the command line. What is decided
//! is decided in the crates beside it; `docs/dev/architecture.md` draws the crates.

pub mod access;
pub mod audit;
pub mod backup;
pub mod cli;
pub mod http;
pub mod image_depot;
pub mod metrics;
pub mod net;
pub mod outbound;
pub mod privacy;
pub mod serve;
pub mod text_file;
