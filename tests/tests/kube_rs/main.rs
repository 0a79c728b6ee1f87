//! kube-rs against a real `firesteel serve`, over TLS with the admin's kubeconfig: what controllers are made of.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "a test that cannot run here says so")]

mod controlling;
mod electing;
mod recording;
mod watching;
mod world;
mod writing;
