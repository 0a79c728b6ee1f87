//! The one judge of what is proven. Pure: it looks at receipts, and at the plan that they are to prove.
//!
//! ```text
//!   plan, promised files, firmware ─┐
//!   receipts of the plan ───────────┴─► judge_write ─► what is missing, by the check that found it; nothing: proven
//! ```
//!
//! The planner asks it before a host is provisioned, and no other place decides that. What disks show of being erased is
//! judged in [`crate::disk::proof`]. Each check has a name and looks at one thing, so that its test finds one that is taken
//! away.

mod boot;
mod erasure_request;
mod write;

use firesteel_resources::host_journal::HandedFile;

use crate::DiskIdentity;

pub use boot::{BootCase, unseen};
pub use erasure_request::{DiskWork, asks};
pub use write::{PlannedWrite, judge_write};

/// One receipt of an attempt, by what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownReceipt {
    /// Number of its plan.
    pub plan: u32,
    /// Place of its step in the plan.
    pub index: u32,
    /// Name of its step.
    pub step: String,
    /// When the step began and ended, in milliseconds of the agent's monotonic clock; absent from older agents.
    pub span: Option<(u64, u64)>,
    /// The appliance's signature of what is stored is good.
    pub is_signed: bool,
    pub shows: ReceiptFacts,
}

/// What a receipt shows, as far as a judge looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiptFacts {
    /// The tables and signatures of a disk were cleared, and so many bytes read back.
    Cleared {
        disk: DiskIdentity,
        verified_bytes: u64,
    },
    Written(ShownWrite),
    HandedOff(ShownHandOff),
    BootEntry(ShownBootEntry),
    /// The agent is about to leave the ramdisk.
    Leaving,
    /// Nothing that is judged here.
    Other,
}

/// An image that was written and read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownWrite {
    pub disk: DiskIdentity,
    /// Device name in that boot.
    pub device: String,
    pub stream_sha256: String,
    pub stream_bytes: u64,
    pub raw_sha256: String,
    pub raw_bytes: u64,
    /// Bytes that went to the medium.
    pub written_bytes: u64,
    pub readback_sha256: String,
    pub readback_bytes: u64,
    pub disk_guid: String,
    pub write_ms: u64,
    pub readback_ms: u64,
}

/// Files that the OS was handed, as they were read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownHandOff {
    pub disk: DiskIdentity,
    /// The form that was taken.
    pub form: String,
    pub files: Vec<HandedFile>,
    /// Files of the boot loader that have the kernel arguments.
    pub loader_files: usize,
}

/// The entry by which the firmware finds the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownBootEntry {
    /// `uefi`, or `none` where the firmware has no entries.
    pub method: String,
    /// `Boot0007` and its device path.
    pub entry: String,
    /// The order as read back, `0003,0007`.
    pub order: String,
}

/// Something that is not proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingProof {
    /// Name of the check that found it.
    pub check: &'static str,
    /// In words, for people.
    pub text: String,
}

/// Puts what is missing into one line.
#[must_use]
pub fn missing_words(missing: &[MissingProof]) -> String {
    missing.iter().map(|missing| missing.text.as_str()).collect::<Vec<_>>().join("; ")
}
