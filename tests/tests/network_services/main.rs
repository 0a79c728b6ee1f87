//! Services of the provisioning network in a real `firesteel serve`, while its object is edited: the cache of the OS image,
//! the certificate of an address that changes, and what a deleted object takes along.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../images/tests/all/file_server.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod file_server;

mod certificates;
mod credentials;
mod handed_out;
mod os_image;
mod removal;
mod site;
mod version;
