//! Plans: what the appliance asks an agent to do. A plan is immutable; a change of mind is a new
//! plan with a higher number.

use firesteel_facts::DiskIdentity;
use serde::{Deserialize, Serialize};

use crate::{erasure::ErasurePolicy, hand_off::Forms};

/// The steps for one part of one attempt. The agent runs them in order and stops at the first
/// that fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentPlan {
    /// Counts from 1 within one attempt. The agent never starts a number twice.
    pub number: u32,
    /// The attempt that this plan belongs to; an agent of another attempt refuses it.
    pub attempt: u64,
    pub steps: Vec<PlanStep>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum PlanStep {
    /// Reads the hardware; nothing is changed.
    Inspect,
    /// Clear both GPTs and old signatures (filesystem, RAID, LVM) of this disk. Refused as [`PlanStep::EraseDisk`]
    /// is. Destructive.
    ClearMetadata {
        #[serde(with = "crate::disk_names")]
        disk: DiskIdentity,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        own_names: Vec<String>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        override_guards: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        was_vacant: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_named: bool,
    },
    /// Erases this whole disk by a method that the drive has, proves it by reading back, and clears what a table could
    /// be taken for. Refused while the disk holds what belongs to a cluster or to another host, is reached over a
    /// network or by several paths, or is a medium to boot from. Steps of this kind that follow one another run at
    /// once. Destructive.
    EraseDisk {
        #[serde(with = "crate::disk_names")]
        disk: DiskIdentity,
        policy: ErasurePolicy,
        /// Names that the host had under its last systems: volumes and arrays that bear them are its own. A name
        /// that is the GUID of the disk's GPT says that all on the disk is of an installation of this host.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        own_names: Vec<String>,
        /// The owner knows what the disk holds, and wants it erased.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        override_guards: bool,
        /// The disk was blank or the host's own when its present owner got it: what that owner broke or planted since
        /// keeps nothing from being erased, but for what is recognised as a cluster's.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        was_vacant: bool,
        /// The owner names this disk in the host's hints: that it is on USB, removable or behind a network is meant.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_named: bool,
    },
    /// Writes the image in the order of design.md ("The order of a write"), reads it back and completes the GPT for the
    /// disk's size. Refused as [`PlanStep::EraseDisk`] is. Destructive.
    WriteImage {
        #[serde(with = "crate::disk_names")]
        disk: DiskIdentity,
        image: ImageStream,
        /// GUID that the GPT of this disk gets, so that later boots find exactly this disk.
        disk_guid: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        own_names: Vec<String>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        override_guards: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        was_vacant: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_named: bool,
    },
    /// Hands the first configuration to the system on the disk just written, and reads it back: files on its boot
    /// partition, or one of the other forms that images read. Files stand either here or in the forms: an agent that
    /// knows none of these asks for `files`, so it refuses the step instead of doing half of it.
    HandOff {
        #[serde(with = "crate::disk_names")]
        disk: DiskIdentity,
        /// The files for the boot partition.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<HandOffFile>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forms: Option<Box<Forms>>,
    },
    /// UEFI: an entry for this disk, behind the network entry that booted the host. BIOS: nothing
    /// to set; the receipt says so.
    SetBootEntry {
        #[serde(with = "crate::disk_names")]
        disk: DiskIdentity,
        label: String,
    },
    /// Leaves the ramdisk by a reboot.
    Reboot,
    /// Leaves the ramdisk by switching the host off.
    PowerOff,
}

impl PlanStep {
    /// Clears a disk that no guard speaks for.
    #[must_use]
    pub fn clear_metadata(disk: DiskIdentity) -> Self {
        Self::ClearMetadata { disk, own_names: Vec::new(), override_guards: false, was_vacant: false, is_named: false }
    }

    /// Whether the step may destroy data. Such a step runs only while replies are fresh, and only
    /// after the disk has been compared with the plan again.
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        match self {
            PlanStep::ClearMetadata { .. }
            | PlanStep::EraseDisk { .. }
            | PlanStep::WriteImage { .. }
            | PlanStep::HandOff { .. } => true,
            PlanStep::Inspect | PlanStep::SetBootEntry { .. } | PlanStep::Reboot | PlanStep::PowerOff => false,
        }
    }

    /// The name under which the step appears in reports, timelines and receipts.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            PlanStep::Inspect => "inspect",
            PlanStep::ClearMetadata { .. } => "clear-metadata",
            PlanStep::EraseDisk { .. } => "erase-disk",
            PlanStep::WriteImage { .. } => "write-image",
            PlanStep::HandOff { .. } => "hand-off",
            PlanStep::SetBootEntry { .. } => "set-boot-entry",
            PlanStep::Reboot => "reboot",
            PlanStep::PowerOff => "power-off",
        }
    }

    /// The disk that the step works on.
    #[must_use]
    pub fn disk(&self) -> Option<&DiskIdentity> {
        match self {
            PlanStep::ClearMetadata { disk, .. }
            | PlanStep::EraseDisk { disk, .. }
            | PlanStep::WriteImage { disk, .. }
            | PlanStep::HandOff { disk, .. }
            | PlanStep::SetBootEntry { disk, .. } => Some(disk),
            PlanStep::Inspect | PlanStep::Reboot | PlanStep::PowerOff => None,
        }
    }
}

/// A compressed raw stream on the appliance: one or more zstd frames of a raw disk image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageStream {
    /// Plain HTTP with an IP literal; integrity comes from the digests, which arrive by TLS.
    pub url: String,
    /// Length of the compressed stream in bytes.
    pub stream_bytes: u64,
    /// `sha256` of the compressed stream, hexadecimal.
    pub stream_sha256: String,
    /// Length of the raw image in bytes; a multiple of 512.
    pub raw_bytes: u64,
    /// `sha256` of the raw image, hexadecimal.
    pub raw_sha256: String,
}

/// A file for the disk just written, on its boot partition or on a volume made for it. Nothing else on the disk is
/// touched.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOffFile {
    /// Relative to the root of its filesystem, `ignition/config.ign`; no `..`, no leading `/`.
    pub path: String,
    /// Permission bits where the filesystem has them.
    pub mode: u32,
    /// Content, base64 (RFC 4648 section 4).
    pub content_base64: String,
}

/// Contents may hold a host's config token, so they never show.
impl std::fmt::Debug for HandOffFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandOffFile").field("path", &self.path).field("mode", &self.mode).finish_non_exhaustive()
    }
}
