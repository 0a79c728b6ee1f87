//! Tests of what crosses crates: real clients and peers against the appliance's services, and the fuzz targets of every
//! parser of foreign bytes. The suites are in `tests/`, and this library is what several of them share. It may know
//! every crate; no product knows it.
//!
//! - [`fuzz`]: for the replay test and the fuzzer
//! - [`appliance`]: for every suite of a real client; [`network`] where it serves machines
//! - [`field`]: for suites that are on its wire; [`agent_line`] for those that speak as an agent
//! - [`hostile`], [`flood`]: for suites that attack
//! - [`dialing`]: for suites whose BMCs and origins are on this machine
//! - [`honest`]: for suites whose agents have no machine
//! - [`fake_clock`]: for suites whose appliance has a wrong clock

pub mod agent_line;
pub mod appliance;
pub mod canary;
pub mod dhcp_client;
pub mod dialing;
pub mod disk_image;
pub mod fake_clock;
pub mod field;
pub mod flood;
pub mod fuzz;
pub mod honest;
pub mod hostile;
pub mod network;
