//! DHCPv4 without sockets, clocks, files or tasks.
//!
//! - [`Engine`]: the server, with [`Config`] in, [`Output`]s out, and boot answers asked of a function.
//! - [`client`]: the client that the ramdisk's agent runs on the interface that booted it.
//! - [`probe`]: is there another server on the wire?
//! - [`wire`]: messages as bytes; dhcproto is named there and nowhere else.
//!
//! It knows no resource kind and no boot file: who boots what is the caller's answer to a [`Client`].

mod book;
mod classify;
pub mod client;
mod config;
mod hardware;
pub mod probe;
mod quarantine;
mod rate;
mod relay;
mod reply;
mod server;
pub mod wire;

pub use book::{LEASES_MAX, Lease, LeaseChange, OFFER_HOLD, OFFER_HOLD_MIN, OFFERS_MAX, Refusal};
pub use classify::{Class, Client};
pub use config::{
    Config, ConfigError, KNOWN_SHARE, LEASE_TIME_MAX, LEASE_TIME_MIN, Network, POOL_ADDRESSES_MAX, Pool,
    RESERVATIONS_MAX, Reservation, SERVERS_MAX, Subnet,
};
pub use hardware::OtherHardware;
pub use quarantine::{DECLINE_REST, DeclineOutcome, RESTING_MAX, RESTS_PER_CLIENT, Rest};
pub use reply::{BOOT_FILE_BYTES_MAX, BootAnswer, Destination};
pub use server::{
    Arrival, BootAnswers, COMMITS_MAX, COMMITS_STRANGERS_MAX, CommitId, Dropped, Engine, Event, Output, Transmit, What,
};
pub use wire::check;
