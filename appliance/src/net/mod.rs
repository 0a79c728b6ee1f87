//! The network services' drivers: sockets and tasks around engines that know neither.

pub mod dhcp;
pub mod leases;
pub mod named_clients;
mod packet;
pub mod rate_limited_warning;
pub mod rogue_server;
pub mod tftp;

pub use packet::check as check_packet;
