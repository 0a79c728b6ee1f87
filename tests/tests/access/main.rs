//! Who may do what, over HTTPS with real credentials: a table of roles, the ends of rights, what tenants may
//! have, kubectl, and the record of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test that cannot run here says so")]

mod changes;
mod ends;
mod kubectl;
mod people;
mod quotas;
mod record;
mod table;
