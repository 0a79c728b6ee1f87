//! The API over a real store: rules and client in process, and the answers of a real Kubernetes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::wildcard_enum_match_arm, reason = "tests look at the cases that they make")]
#![allow(clippy::print_stdout, reason = "tests that cannot run here say so")]

mod access;
mod apply;
mod client;
mod damaged;
mod differences;
mod facades;
mod forms;
mod golden;
mod http;
mod kubectl;
mod life;
mod limits;
mod lists;
mod quotas;
mod second_kind;
mod toy;
mod values;
mod versions;
mod watches;
