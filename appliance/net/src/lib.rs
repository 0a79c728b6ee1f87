//! Drives the network services: sockets and tasks around the engines of DHCP and TFTP, which know neither.
//!
//! It also keeps the leases and names foreign DHCP servers. The appliance brings the decisions about hosts as functions:
//! this crate knows neither kinds nor control.

pub mod arp_socket;
pub mod dhcp;
pub mod leases;
pub mod named_clients;
mod packet;
pub mod rate_limited_warning;
pub mod rogue_server;
pub mod tftp;

pub use packet::check as check_packet;
