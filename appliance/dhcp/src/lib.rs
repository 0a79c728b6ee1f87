//! DHCPv4 without sockets, clocks, files or tasks.
//!
//! - [`DhcpEngine`] is the server. It takes a [`DhcpConfig`], gives [`DhcpOutput`]s, and asks a function for boot
//!   answers.
//! - [`client`] is the client that the ramdisk's agent runs on the interface that booted it.
//! - [`probe`] looks for another server on the wire.
//! - [`wire`] has messages as bytes; dhcproto is named there and nowhere else.
//!
//! The appliance runs the server and the probe, the agent runs the client. This crate knows no resource kind and no
//! boot file: the caller answers what a [`DhcpRequester`] boots.

mod classify;
pub mod client;
mod config;
mod hardware;
mod lease_book;
pub mod probe;
mod quarantine;
mod rate;
mod relay;
mod reply;
mod server;
pub mod wire;

pub use classify::{Class, DhcpRequester};
pub use config::{
    ConfigError, DhcpConfig, Ipv4Network, KNOWN_SHARE, LEASE_TIME_MAX, LEASE_TIME_MIN, POOL_ADDRESSES_MAX, Pool,
    RESERVATIONS_MAX, Reservation, SERVERS_MAX, Subnet,
};
pub use hardware::OtherHardware;
pub use lease_book::{LEASES_MAX, Lease, LeaseChange, LeaseRefusal, OFFER_HOLD, OFFER_HOLD_MIN, OFFERS_MAX};
pub use quarantine::{DECLINE_REST, DeclineOutcome, QuarantinedAddress, RESTING_MAX, RESTS_PER_CLIENT};
pub use reply::{BOOT_FILE_BYTES_MAX, BootAnswer, Destination};
pub use server::{
    BootAnswers, COMMITS_MAX, COMMITS_STRANGERS_MAX, CommitId, DhcpEngine, DhcpEvent, DhcpEventKind, DhcpOutput,
    DropCounts, ReceivedDatagram, ServerDatagram,
};
pub use wire::check;
