//! The lenient reader of partition tables, for guards alone: the union of what any reader would show. Every copy of a
//! GPT that can be found (first, last block, where a header or the protective entry says), for blocks of 512 and of
//! 4096 bytes, sound or not; classic tables beside them, protective or not, with every logical partition; and the
//! kernel's own list. Entries are judged one by one.
//!
//! A table that is there and has no sound copy, an entry that lies outside of the disk, a chain that is cut or runs in
//! a circle: each is a remark.

mod classic;
mod gpt;

use firesteel_sysfs::disks::KernelPartition;

use super::{ContentKind, VolumeView, label::UnreadLabel};

/// Partitions of one region that are looked at; the kernel shows 256.
pub(super) const PARTITIONS_MAX: usize = 512;

/// A place that some reader would show as a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartitionSlot {
    /// Where it is, such as `partition 3`.
    pub(super) place: String,
    pub(super) offset: u64,
    pub(super) size_bytes: u64,
    /// What its type says.
    pub(super) kind: Option<ContentKind>,
}

/// All that the tables of one region say.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    /// No two with the same place and length, unless their types say different things.
    pub(super) slots: Vec<PartitionSlot>,
    pub(super) remarks: Vec<UnreadLabel>,
    /// GUID of the GPT that systems go by, in lower case; empty where there is none.
    pub(super) guid: String,
    /// GUIDs of the partitions of all copies.
    pub(super) partition_guids: Vec<String>,
    /// Names of the tables that are there: `gpt`, `dos`.
    pub(super) names: Vec<&'static str>,
}

impl Partitions {
    fn remark(&mut self, offset: u64, why: impl Into<String>) {
        self.remarks.push(UnreadLabel { offset, why: why.into(), is_of_another: false });
    }

    /// Adds a place once; the first name that it gets stays. Nothing behind the end counts.
    fn add(&mut self, slot: PartitionSlot, size_bytes: u64) {
        let offset = slot.offset.min(size_bytes);
        let slot = PartitionSlot { offset, size_bytes: slot.size_bytes.min(size_bytes - offset), ..slot };
        let is_same = |known: &PartitionSlot| (known.offset, known.size_bytes) == (slot.offset, slot.size_bytes);
        let is_known =
            self.slots.iter().any(|known| is_same(known) && (slot.kind.is_none() || known.kind == slot.kind));
        if slot.size_bytes > 0 && !is_known {
            self.slots.push(slot);
        }
    }
}

/// Reads the tables of a region with blocks of this size.
pub(super) fn read(view: &VolumeView<'_>, block_bytes: u32, kernel: &[KernelPartition]) -> Partitions {
    let mut found = Partitions::default();
    let mut has_gpt = false;
    for block in [block_bytes, if block_bytes == 4096 { 512 } else { 4096 }] {
        has_gpt |= gpt::read(view, block, &mut found);
    }
    if !has_gpt && gpt::is_announced(view) {
        found.names.push("PMBR");
        found.remark(0, "a protective entry without the GUID partition table that it is for");
    }
    classic::read(view, block_bytes, &mut found);
    for partition in kernel {
        let slot = PartitionSlot {
            place: format!("partition {}", partition.number),
            offset: partition.offset,
            size_bytes: partition.size_bytes,
            kind: None,
        };
        found.add(slot, view.size_bytes());
    }
    if found.slots.len() > PARTITIONS_MAX {
        let more = found.slots.len() - PARTITIONS_MAX;
        found.remark(0, format!("{more} partitions beyond the {PARTITIONS_MAX} that are looked at"));
        // Those whose type says something are kept first.
        found.slots.sort_by_key(|slot| slot.kind.is_none());
        found.slots.truncate(PARTITIONS_MAX);
    }
    found
}

#[cfg(test)]
mod tests;
