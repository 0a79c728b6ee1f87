//! Management controllers: power, boot and identity of a server, by Redfish and by IPMI.
//!
//! ```text
//! address    `redfish+https://10.0.0.5/redfish/v1/Systems/1` ─► where to knock, and how to boot  (pure)
//! decide     state as read + what is wanted ─► the one request to send                           (pure)
//! quirks     how vendors differ: rows of one table                                               (pure)
//! model      Redfish's JSON, only the parts used, everything optional                            (data)
//! login      a session, else Basic; a password is shown once per login                       (performs)
//! outcome    what became of an order                                                          (data)
//! client     finding the system, identity, power and its read-back                           (performs)
//! boot       overrides, once and lasting, and their read-back                                (performs)
//! inventory  versions, health, Secure Boot, memory, processors, firmware                     (performs)
//! http       one request: bounded, never a credential to another origin                      (performs)
//! body       what an answer is encoded as, and what it is where it is no JSON                    (pure)
//! tls        certificates and their keys; what a BMC offers whose TLS is too old             (performs)
//! limit      how often one BMC is asked, by everybody together                  (pure, and a queue)
//! hidden     the login, kept out of what a BMC says                                              (pure)
//! ipmi       IPMI 2.0 over LAN: the same questions by another protocol
//! ```
//!
//! This crate knows no resource kind and keeps no state between calls but a login and, in
//! [`bmc_queue::BmcQueues`], how much each BMC was asked lately. Nothing is retried here but lost datagrams, and
//! nothing waited for but the read-back of a change: callers own the other deadlines and pauses. What a BMC
//! answers is foreign input: bounded, checked, and made plain before a person sees it. What it does not
//! confirm is called unverified ([`PowerSet`], [`BootSet`]).

pub mod address;
pub mod bmc_queue;
mod body;
mod boot;
mod client;
pub mod decide;
mod error;
mod http;
pub mod inventory;
pub mod ipmi;
mod login;
pub mod model;
mod power_outcome;
pub mod quirks;
mod secret_mask;
mod tls;

pub use bmc_queue::{BmcQueues, BmcSessionLocks};
pub use client::{BmcTimeouts, Redfish, RedfishClient, SystemReport};
pub use decide::{BmcBootMode, BootWish, NextBootSource, PowerAction, PowerState};
pub use error::Error;
pub use firesteel_facts::bmc_address::{AddressError, BmcAddress, BmcUrl, BootVia};
pub use inventory::BmcInventory;
pub use power_outcome::{BootSet, OverrideReading, PowerSent, PowerSet};
pub use tls::Tls;

/// Login of one BMC.
#[derive(Clone, PartialEq, Eq)]
pub struct BmcCredentials {
    pub username: String,
    pub password: String,
}

impl std::fmt::Debug for BmcCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BmcCredentials(…)")
    }
}
