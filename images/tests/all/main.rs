//! Tests of the whole crate from outside, in one binary to link once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod disks;
mod faults;
mod write;
