//! Receipts: the evidence of one finished step. "Done" means what stands here, nothing more.

use firesteel_facts::DiskIdentity;
use serde::{Deserialize, Serialize};

use crate::erasure::ErasureEvidence;
use crate::hand_off::{HandOffForm, LoaderFile};
use crate::inventory::Inventory;

/// Evidence of one step that ended well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReceipt {
    pub plan: u32,
    /// Index of the step in its plan.
    pub index: u32,
    /// [`crate::PlanStep::name`].
    pub step: String,
    /// Unix time in milliseconds, by the appliance's clock as the agent learnt it.
    pub started_ms: u64,
    pub ended_ms: u64,
    /// Uptime of the host at both; absent from older agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<UptimeSpan>,
    pub evidence: Evidence,
}

/// When a step began and ended, in milliseconds since the kernel's start (CLOCK_BOOTTIME, which no clock that is set
/// moves).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UptimeSpan {
    pub began_ms: u64,
    pub ended_ms: u64,
}

/// Which receipt of a boot it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReceiptPlace {
    pub plan: u32,
    pub index: u32,
}

impl StepReceipt {
    #[must_use]
    pub fn place(&self) -> ReceiptPlace {
        ReceiptPlace { plan: self.plan, index: self.index }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "few of them exist at a time")]
pub enum Evidence {
    Inspected {
        inventory: Inventory,
    },
    MetadataCleared {
        #[serde(with = "crate::disk_names")]
        disk: DiskIdentity,
        /// Device name in this boot, for people.
        device: String,
        /// What was found and cleared, such as `gpt`, `ext4 at 1048576`.
        cleared: Vec<String>,
        /// Bytes read back as zero by a fresh descriptor with O_DIRECT after a flush.
        verified_bytes: u64,
        /// What the owner overrode, as in [`ErasureEvidence::overridden`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        overridden: Vec<String>,
    },
    DiskErased(ErasureEvidence),
    ImageWritten {
        #[serde(with = "crate::disk_names")]
        disk: DiskIdentity,
        device: String,
        /// sha256 of the compressed stream as received.
        stream_sha256: String,
        stream_bytes: u64,
        /// sha256 of the raw image, as the plan promised it and the read-back proved it.
        raw_sha256: String,
        raw_bytes: u64,
        /// Bytes that went to the medium.
        written_bytes: u64,
        /// sha256 of the image area read back by a fresh descriptor with O_DIRECT after a flush,
        /// before the GPT was completed; equals `raw_sha256`.
        readback_sha256: String,
        readback_bytes: u64,
        disk_guid: String,
        /// Last usable LBA after the GPT was completed for the disk's size; 0 where there is no GPT.
        last_usable_lba: u64,
        write_ms: u64,
        readback_ms: u64,
        /// What the owner overrode, as in [`ErasureEvidence::overridden`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        overridden: Vec<String>,
    },
    FilesHandedOff {
        #[serde(with = "crate::disk_names")]
        disk: DiskIdentity,
        device: String,
        filesystem: String,
        /// Path and sha256 of each file as read back from the medium.
        files: Vec<FileReadBack>,
        /// The form that was taken; absent from agents that know only files on a boot partition.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<HandOffForm>,
        /// The signs on the image by which the form was recognised, in words.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        recognised: Vec<String>,
        /// What a person should know of it, in words: a choice among several forms, arguments that stand twice.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
        /// Files of the installed boot loader that have the kernel arguments now.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        loader: Vec<LoaderFile>,
    },
    BootEntrySet {
        /// `uefi` or `none` (BIOS has no entries).
        method: String,
        /// `Boot0007` and the text of its device path, or why nothing was set.
        entry: String,
        /// The order as read back, `0003,0007,0000`.
        order: String,
    },
    /// The agent is about to leave the ramdisk; whether the host came back is another event.
    Leaving {
        how: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReadBack {
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
}
