//! Who may do what, over HTTPS with real credentials: a table of roles, the ends of rights, and kubectl.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod ends;
mod kubectl;
mod people;
mod table;
