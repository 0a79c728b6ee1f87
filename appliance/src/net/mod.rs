//! The network services' drivers: sockets and tasks around engines that know neither.

pub mod dhcp;
pub mod leases;
pub mod named;
mod packet;
pub mod rogue;
pub mod seldom;
pub mod tftp;

pub use packet::check as check_packet;
