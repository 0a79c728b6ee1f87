//! kube-rs against a real `firesteel serve`, over TLS with the admin's kubeconfig: what controllers are made of.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod controlling;
mod electing;
mod watching;
mod world;
mod writing;
