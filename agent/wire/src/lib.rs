//! The protocol between the agent in the ramdisk and the appliance, version 1. The agent and its steps write and read
//! it at one end, `firesteel_control` at the other.
//!
//! The agent dials out; the appliance never connects to a host. Every message is one HTTPS
//! `POST` with a JSON body, and every body is signed with the key pair that the agent made at
//! start (see [`auth`]). The order of one boot:
//!
//! ```text
//! agent                                   appliance
//!   | POST /agent/v1/hello  {token,key,…}    |   binds the token to the key, answers alike to
//!   |--------------------------------------->|   repeats by the same key, refuses a second key
//!   |<------------------- HelloReply {…}     |
//!   | POST /agent/v1/report {cumulative}     |   every 2 s; held (long poll) while the agent is idle
//!   |--------------------------------------->|
//!   |<------ continue | abort | plan N       |   plans are numbered and immutable
//! ```
//!
//! This crate knows no Kubernetes kind, no disk and no socket: only shapes, bounds and signatures.
//! Bytes of version 1 never change: `tests/v1.rs` pins them.

pub mod auth;
mod disk_names;
pub mod erasure;
pub mod hand_off;
pub mod inventory;
pub mod limits;
pub mod message;
pub mod neighbour;
pub mod network;
pub mod parts;
pub mod plan;
pub mod receipt;
pub mod seed;
pub mod text;

pub use auth::{PublicKey, SIGNATURE_HEADER, signing_input};
pub use firesteel_facts::DiskIdentity;
pub use inventory::{
    FirmwareMode, InstalledMemory, Inventory, InventoryCpu, InventoryDisk, InventoryFirmware, InventoryNic,
    InventorySystem, InventoryVlan, PartitionTableRecord, Transport,
};
pub use message::{
    AgentInstruction, AgentReport, Hello, HelloReply, LogLine, LogSource, Program, RefusalReason, RefusalReply,
    ReportReply, SmbiosIdentity, StepReport, StepState,
};
pub use neighbour::Neighbour;
pub use network::NetworkPlan;
pub use plan::{AgentPlan, HandOffFile, ImageStream, PlanStep};
pub use receipt::{Evidence, ReceiptPlace, StepReceipt};
pub use seed::Seed;

/// Path of [`Hello`] on the appliance's agent listener.
pub const HELLO_PATH: &str = "/agent/v1/hello";
/// Path of [`AgentReport`] on the appliance's agent listener.
pub const REPORT_PATH: &str = "/agent/v1/report";
