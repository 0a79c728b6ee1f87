//! Management controllers: power, boot and identity of a server, by Redfish and by IPMI. `firesteel_control` calls it.
//!
//! ```text
//! address       `redfish+https://10.0.0.5/redfish/v1/Systems/1` ─► where to connect, and how to boot  (pure)
//! decide        state as read + what is wanted ─► the one request to send                           (pure)
//! quirks        how vendors differ: rows of one table                                               (pure)
//! model         Redfish's JSON, only the parts used, everything optional                            (data)
//! login         a session, else Basic; a password is shown once per login                       (performs)
//! power_outcome what became of an order                                                             (data)
//! connect       finding the service, the login, finding the system                              (performs)
//! client        identity, power and its read-back                                               (performs)
//! boot          overrides, once and lasting, and their read-back                                (performs)
//! sensors       temperatures, fans, power, drives: found once, then read         (performs, and parses)
//! inventory     versions, health, Secure Boot, memory, processors, interfaces, drives, firmware (performs)
//! http          one request: bounded, never a credential to another origin                      (performs)
//! body          what an answer is encoded as, and what it is where it is no JSON                    (pure)
//! tls           certificates and their keys; what a BMC offers whose TLS is too old             (performs)
//! give_way      a session that is kept only while no other caller is there                      (performs)
//! bmc_queue     how often one BMC is asked, by all callers together                    (pure, and a queue)
//! secret_mask   the login, kept out of what a BMC says                                              (pure)
//! ipmi          IPMI 2.0 over LAN: the same questions by another protocol
//! ```
//!
//! This crate knows no resource kind. Between calls it keeps a login only, and in
//! [`bmc_queue::BmcQueues`] how much each BMC was asked lately. It retries nothing but lost datagrams, and waits for
//! nothing but the read-back of a change: callers own the other deadlines and pauses. What a BMC
//! answers is foreign input: bounded, checked, and made plain before a person sees it. What it does not
//! confirm is called unverified ([`PowerSet`], [`BootSet`]).

pub mod address;
pub mod bmc_queue;
mod body;
mod boot;
mod client;
mod connect;
pub mod decide;
mod error;
mod give_way;
mod http;
pub mod inventory;
pub mod ipmi;
mod login;
pub mod model;
mod power_outcome;
pub mod quirks;
mod response;
mod secret_mask;
pub mod sensors;
mod tls;

pub use bmc_queue::{BmcQueues, BmcSessionLocks};
pub use client::{BmcTimeouts, RedfishClient, SystemReport};
pub use connect::Redfish;
pub use decide::{BmcBootMode, NextBootSource, PowerAction, PowerState, WantedBootOverride};
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
