//! Dialogues with the engines on a fake clock.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
mod config;
mod firmware;
mod lab;
mod pool;
mod properties;
mod quarantine;
mod relay;
mod server;
mod wire;
