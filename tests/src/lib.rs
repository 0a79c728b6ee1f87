//! What crosses crates: real clients and peers against the appliance's services, and the fuzz
//! targets of every parser of foreign bytes. The tests are in `tests/`; [`fuzz`] is shared by the
//! replay test and the fuzzer, [`appliance`] by every suite of a real client, [`network`] by those that need
//! one that serves machines, [`field`] by those that are on its wire, [`agent_line`] by those that speak as an agent,
//! [`hostile`] and [`flood`] by those that attack, [`dialing`] by those whose BMCs and origins are on this machine,
//! [`honest`] by those whose agents have no machine, [`fake_clock`] by those whose appliance has a wrong clock.

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
