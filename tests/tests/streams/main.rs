//! Boot image streams in a real `firesteel serve`, from a real web server that cuts connections, through kill -9, into a
//! bundle and out of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../images/tests/all/file_server.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod file_server;

mod bundle;
mod followed;
mod site;
