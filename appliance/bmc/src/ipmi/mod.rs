//! IPMI 2.0 over LAN (RMCP+): power, boot device and identity of servers whose BMC has no Redfish.
//!
//! ```text
//! address  `ipmi://10.0.0.5:623?privilegelevel=OPERATOR` ─► where to knock, and as what   (pure)
//! suite    cipher suites 17 and 3: RAKP's codes, session keys, integrity, AES-CBC-128      (pure)
//! packet   datagrams and the messages in them                                             (pure)
//! engine   set-up of a session, sequence numbers, repetition, keep-alive, close            (pure)
//! command  requests, what answers mean, completion codes in words                          (pure)
//! sol      what a host's serial port says (Serial over LAN), and whether there is one      (pure)
//! fru      the inventory records that tell manufacturer, model and serial number           (pure)
//! client   what callers ask of a BMC, by requests on one connection                     (performs)
//! connection  a UDP socket and a clock for one engine                                   (performs)
//! ```
//!
//! One set-up is: Get Channel Authentication Capabilities (does it speak 2.0 at all?), Open Session
//! (suite 17, then 3), RAKP 1 to 4 (each side proves that it knows the password), Set Session
//! Privilege Level. Only what is both authenticated and encrypted is believed afterwards.
//!
//! A password is judged here, at RAKP 2, before anything that the BMC counts as a failed login: a
//! wrong one locks no account. What the protocol itself gives away: a client that asks a BMC for RAKP 2
//! can guess passwords offline, and a machine that answers in a BMC's place gets such a code of ours too (a
//! RAKP 3 is sent only to a peer that knew the password). IPMI belongs on a network of its own.
//!
//! What IPMI cannot tell stays unsaid: MAC addresses of the host, power states between on and off,
//! boot from HTTP. Source: IPMI 2.0 revision 1.1 (chapters 13, 15, 18, 20, 22, 24, 28, 34), and the Platform
//! Management FRU Information Storage Definition 1.0.

mod client;
pub mod command;
mod connection;
pub mod engine;
pub mod fru;
pub mod packet;
pub mod sol;
pub mod suite;

pub use client::{Ipmi, IpmiClient};
pub use firesteel_facts::bmc_address::{IpmiAddress, Privilege};
pub use sol::{ConsoleData, ConsoleSet};

/// Longest user name in RAKP 1 (section 13.20).
pub const USER_NAME_BYTES_MAX: usize = 16;
/// Longest password of an IPMI 2.0 user (section 22.30).
pub const PASSWORD_BYTES_MAX: usize = 20;
