//! The real kubectl against a real `firesteel serve`, over TLS with the admin's kubeconfig: the newest, and the
//! oldest that has to work (1.20, which knows no streaming lists, reads OpenAPI v2 alone and checks objects itself).
//!
//! What is expected stands as a person sees it: texts and exit codes. `./qemu/lab test` brings both programs; a test
//! whose program is not there says so.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test that cannot run here says so")]

mod agent;
mod applying;
mod changing;
mod client;
mod deleting;
mod events;
mod getting;
mod groups;
mod logging;
mod looking_around;
mod metrics;
mod mistakes;
mod own_kinds;
mod scaling;
mod versions;
mod waiting;
