//! Decisions on what a host needs next: pure functions from what is observed to what is done.
//!
//! There is no clock here, no socket, no file, no task, no store and no protocol: `now` is an
//! argument, observations come in as [`host::HostInputs`], and everything that is to happen goes out as
//! values in [`host::HostStep`]. So a test runs a step in microseconds, and a person reads it in one
//! sitting. The controllers call it: control for hosts, rollout for groups and sets.
//!
//! - [`host`]: the states of one host, one file per state
//! - [`disk`]: which disk is written, by hints or by size, or why none is
//! - [`evidence`]: whether the receipts of an agent show what a plan asked for
//! - [`policy`]: which sets of machines and groups of hosts have their boot images kept current
//! - [`group`]: how a group of hosts comes to a new image, and which one each of its hosts gets
//! - [`skew`]: how old boot images are, and whether that stops an upgrade
//! - [`admission`]: how many hosts are worked on at a time
//! - [`backoff`]: when a failed step is tried again
//! - [`instance`]: until when the token of an installed OS opens its config
//! - [`journal`]: the planner's memory as a host's journal holds it
//! - [`phase`]: how long the phases of a host's work took, and what is typical
//! - [`clock`]: whether the appliance's clock may be right, and what is counted without it

pub mod admission;
pub mod backoff;
pub mod clock;
pub mod disk;
pub mod evidence;
pub mod group;
pub mod host;
pub mod instance;
pub mod journal;
pub mod phase;
pub mod policy;
pub mod skew;

pub use disk::{DiskChoice, DiskIdentity, InstallationMark, NoDisk, select_disk};
pub use host::{HostBootEntry, HostEffect, HostInputs, HostMemory, HostStep, boot_entry, current_plan, project, step};
