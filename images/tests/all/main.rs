//! Tests of the whole crate from outside, in one binary to link once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test that cannot run here says so")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a fault that does not concern an operation is skipped")]

mod artifacts;
mod bombs;
mod bundles;
mod catalogue;
mod clearing;
mod disks;
mod download;
mod faults;
mod file_server;
mod import;
mod killed;
mod looks;
mod parsers;
mod partition;
mod pinned;
mod qcow2;
mod resumed;
mod room;
mod signatures;
mod write;
