//! Classic partition tables, protective or not, with every logical partition.

use std::collections::BTreeSet;

use firesteel_images::write::{mbr, signature};

use super::super::{VolumeView, of_classic_type};
use super::{PartitionSlot, Partitions};

/// Links of the chains of logical partitions that are followed.
const LINKS_MAX: usize = 1024;
const SECTOR_BYTES: usize = 512;
/// How much of the start distinguishes a filesystem's boot sector from a table.
const START_BYTES: u64 = 8192;

/// Reads the table, with block numbers of the disk's own size and of the other one.
pub(super) fn read(view: &VolumeView<'_>, block_bytes: u32, found: &mut Partitions) {
    let Some(sector) = view.at(0, SECTOR_BYTES) else { return };
    let Some(entries) = mbr::entries(&sector) else { return };
    let is_plausible = entries.iter().all(|entry| matches!(entry.flag, 0 | 0x80) && entry.first > 0);
    // The code of a filesystem's boot sector stands where entries would.
    let is_boot_sector = signature::in_start(&view.start(START_BYTES))
        .iter()
        .any(|found| matches!(found.name.as_str(), "vfat" | "ntfs" | "exfat" | "BitLocker"));
    if is_boot_sector && !is_plausible {
        return;
    }
    let used: Vec<_> = entries.into_iter().zip(1..).filter(|(entry, _)| entry.kind != mbr::PROTECTIVE).collect();
    if !used.is_empty() {
        found.names.push("dos");
    }
    for (block, is_own) in [(block_bytes, true), (if block_bytes == 4096 { 512 } else { 4096 }, false)] {
        let block = TableBlock { bytes: u64::from(block), is_own };
        for (entry, number) in &used {
            add(view, entry, *number, block, found);
        }
        let extended = used.iter().map(|(entry, _)| entry).filter(|entry| entry.is_extended());
        let mut chain = Chain { view, block, number: 5, links: 0, found };
        extended.for_each(|entry| chain.follow(entry));
    }
}

/// The size of the blocks in which a table is read.
#[derive(Clone, Copy)]
struct TableBlock {
    bytes: u64,
    /// Whether the disk has this block size. What does not fit the other size is no remark.
    is_own: bool,
}

/// Adds a partition. Its type counts only in the disk's own block size, and so only once.
fn add(view: &VolumeView<'_>, entry: &mbr::MbrEntry, number: u32, block: TableBlock, found: &mut Partitions) {
    let offset = entry.first.saturating_mul(block.bytes);
    let kind = of_classic_type(entry.kind).filter(|_| block.is_own && offset < view.size_bytes());
    let is_beside = found.names.contains(&"gpt");
    let place = if is_beside { format!("partition {number} (classic table)") } else { format!("partition {number}") };
    found.add(
        PartitionSlot { place, offset, size_bytes: entry.blocks.saturating_mul(block.bytes), kind },
        view.size_bytes(),
    );
}

/// The logical partitions of all extended ones, which count from 5 whatever there is before them.
struct Chain<'a, 'b> {
    view: &'a VolumeView<'b>,
    block: TableBlock,
    number: u32,
    links: usize,
    found: &'a mut Partitions,
}

impl Chain<'_, '_> {
    /// Each link names logical partitions, relative to itself, and the next links, relative to the extended partition.
    fn follow(&mut self, extended: &mbr::MbrEntry) {
        let (mut next, mut seen) = (vec![extended.first], BTreeSet::new());
        while let Some(at) = next.pop() {
            if !seen.insert(at) {
                self.cut(at, "runs in a circle");
                continue;
            }
            self.links += 1;
            if self.links > LINKS_MAX {
                self.cut(at, "is longer than is followed");
                return;
            }
            let sector = at.checked_mul(self.block.bytes).and_then(|offset| self.view.at(offset, SECTOR_BYTES));
            match sector {
                None => self.cut(at, "leads outside of the disk"),
                Some(sector) => self.link(&sector, at, extended, seen.len() == 1, &mut next),
            }
        }
    }

    fn link(&mut self, sector: &[u8], at: u64, extended: &mbr::MbrEntry, is_first: bool, next: &mut Vec<u64>) {
        let Some(entries) = mbr::entries(sector).filter(|_| sector.ends_with(&mbr::SIGNATURE)) else {
            // An extended partition that nothing was put into yet.
            if !(is_first && sector.iter().all(|byte| *byte == 0)) {
                self.cut(at, "is cut");
            }
            return;
        };
        for inner in entries {
            if inner.is_extended() {
                next.push(extended.first.saturating_add(inner.first));
            } else {
                let logical = mbr::MbrEntry { first: at.saturating_add(inner.first), ..inner };
                add(self.view, &logical, self.number, self.block, self.found);
                self.number += 1;
            }
        }
    }

    fn cut(&mut self, at: u64, how: &str) {
        if self.block.is_own {
            let offset = at.saturating_mul(self.block.bytes);
            self.found.remark(offset, format!("a chain of logical partitions that {how} at block {at}"));
        }
    }
}
