//! What recognisers say of one region.

use std::{fmt, rc::Rc};

use firesteel_contents::ProtectedContent;

use super::{ContentKind, ContentOwner, lvm::VolumeGroup};

/// A label or superblock that was recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecognisedLabel {
    pub(super) kind: ContentKind,
    /// Volume, pool or array, as the format names it; empty where it does not.
    pub(super) name: String,
    pub(super) owner: ContentOwner,
    /// Where its superblock stands, from the start of the region.
    pub(super) offset: u64,
}

/// A label that is there and cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnreadLabel {
    /// The offset from the start of the region.
    pub(super) offset: u64,
    pub(super) why: String,
    /// Whether it belongs to another region by its own word, which may be one that begins elsewhere and ends here.
    pub(super) is_of_another: bool,
}

/// One PV, with every volume group that its areas describe.
#[derive(Clone, Debug)]
pub(super) struct PhysicalVolume {
    /// The UUID as in the text, without hyphens.
    pub(super) uuid: String,
    pub(super) groups: Vec<Rc<VolumeGroup>>,
    /// Whether its header lists no metadata area: another PV of its group has the text.
    pub(super) is_described_elsewhere: bool,
}

/// What a superblock says of its array and of this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArrayMember {
    pub(super) uuid: [u8; 16],
    /// The name as it was found: `data`, `md127`.
    pub(super) name: String,
    pub(super) level: i32,
    pub(super) layout: u32,
    pub(super) chunk_bytes: u64,
    pub(super) members: u32,
    /// The member's role; `None` for a spare.
    pub(super) role: Option<u32>,
    pub(super) data_offset: u64,
    /// How much of this member the array uses.
    pub(super) data_bytes: u64,
}

/// All of one region.
#[derive(Debug, Default)]
pub(super) struct RegionLabels {
    pub(super) holdings: Vec<RecognisedLabel>,
    pub(super) remarks: Vec<UnreadLabel>,
    pub(super) physical_volumes: Vec<PhysicalVolume>,
    pub(super) members: Vec<ArrayMember>,
}

impl RegionLabels {
    pub(super) fn remark(&mut self, offset: u64, why: impl Into<String>) {
        self.remarks.push(UnreadLabel { offset, why: why.into(), is_of_another: false });
    }
}

impl RecognisedLabel {
    /// Describes the finding with its place, for people.
    pub(super) fn finding(&self, place: &str) -> ProtectedContent {
        ProtectedContent {
            place: place.to_owned(),
            kind: self.kind,
            name: self.name.clone(),
            owner: self.owner.clone(),
        }
    }
}

impl fmt::Display for RecognisedLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.finding("").fmt(f)
    }
}
