//! Cleaning of disks with proof. What a drive can do and what the policy asks become an erasure whose evidence was read
//! back from the medium. `firesteel_steps` calls it for a plan's steps, `firesteel_linux_host` for what is on a disk.
//!
//! ```text
//! Drive::examine ─► Abilities ─┐
//! policy, planned namespaces ──┴─► ladder::build ─► rungs, and why others are left out
//!                                      │
//!                 ┌────────────────────▼─────────────────────┐
//!   busy drive ──►│ climb: await │ plant ─► erase ─► prove   │──► done {method, grade, not reached}
//!                 │          ▲           └ fell ┘  └ lied ┘  │──► stopped {why}: never done
//!                 └──────────┴───── the next rung ───────────┘
//! ```
//!
//! - Decide, pure: [`ladder`], [`disk_erasure`], [`proof`], [`foreign`] (what bytes say), [`guard`]. The crate
//!   [`firesteel_drives`] says how commands and answers look.
//! - Perform, on the seams [`drive::Drive`] and `firesteel_images::write::WritableDisk`: [`perform`], [`medium`],
//!   and the drives [`nvme`], [`ata`] and [`scsi`] on [`firesteel_drives::port::Port`], behind which
//!   `firesteel_os::drive` talks to the kernel.
//! - Wire up: [`attached`] finds the drive of a disk, [`disk_access`] how it is reached, [`scan_disks`] what is
//!   on it. [`firesteel_host::assembled`] has the arrays and volumes that the kernel assembled from it.
//!
//! This crate knows neither plans nor the appliance: a caller names the disk and the policy.
//!
//! The simulated drive proves three rules for every sequence of faults. Nothing ends as done while a sector that was
//! there before can still be read where a sample looked; on a disk of at most [`proof::SAMPLES_MAX`] samples that is
//! everywhere. A sanitize that was interrupted is awaited before anything else begins. No drive stays locked by us.

pub mod ata;
pub mod attached;
mod blocking;
pub mod cleaned;
pub mod disk_access;
pub mod disk_erasure;
pub mod drive;
pub mod foreign;
pub mod guard;
pub mod ladder;
pub mod medium;
pub mod nvme;
pub mod perform;
pub mod proof;
pub mod scan_disks;
pub mod scsi;
pub mod watch;
mod zeroing;

#[cfg(test)]
mod simulated;
