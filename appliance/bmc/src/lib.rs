//! Management controllers: power, boot once and identity of a server, by Redfish.
//!
//! ```text
//! address  `redfish+https://10.0.0.5/redfish/v1/Systems/1` ─► where to knock       (pure)
//! decide   state as read + what is wanted ─► the one request to send               (pure; vendor quirks are rows)
//! model    Redfish's JSON, only the parts used, everything optional                (data)
//! client   login, the calls, read-back                                            (performs)
//! http     one request at a time, bounded, never a credential to another origin   (performs)
//! hidden   the login, kept out of what a BMC says                                   (pure)
//! fake     a stateful service for tests, with faults
//! ```
//!
//! This crate knows no resource kind and keeps no state between calls but a login. Nothing is
//! retried here: callers own deadlines and pauses. What a BMC answers is foreign input: bounded,
//! checked, and made plain before a person sees it.

pub mod address;
mod client;
pub mod decide;
mod error;
pub mod fake;
mod hidden;
mod http;
pub mod model;
mod tls;

pub use address::{Address, AddressError};
pub use client::{BmcSeen, BootSet, Client, PowerSent, Redfish};
pub use decide::{BootMode, PowerAction, PowerState, Target};
pub use error::Error;
pub use tls::Tls;

/// Login of one BMC.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub username: String,
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(…)")
    }
}
