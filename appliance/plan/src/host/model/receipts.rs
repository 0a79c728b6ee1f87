//! Receipts of a plan to write, as far as a judge looks at them ([`crate::evidence`]).

use firesteel_resources::host_journal::HandedFile;

use crate::disk::DiskIdentity;

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

impl ReceiptFacts {
    /// The write that it shows, if it shows one.
    pub(crate) fn written(&self) -> Option<&ShownWrite> {
        if let Self::Written(shown) = self { Some(shown) } else { None }
    }
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
