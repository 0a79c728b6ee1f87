//! What single labels say, on disks in memory.

use std::rc::Rc;

use proptest::prelude::*;

use super::label::RecognisedLabel;
use super::volume::{BlockVolume, Disks, VolumeLayout};
use super::*;

/// A disk in memory: zeros but for what is put.
pub(super) fn disk(size: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for (at, part) in parts {
        bytes[*at..*at + part.len()].copy_from_slice(part);
    }
    bytes
}

/// Disks of 512-byte blocks.
pub(super) fn scan_disks(disks: &[&[u8]]) -> Vec<Scan> {
    with_sources(disks, &|sources| scan_all(sources))
}

/// The first of these disks, with the others at hand.
pub(super) fn beside(disks: &[&[u8]]) -> Scan {
    with_sources(disks, &scan_beside).remove(0)
}

fn with_sources(disks: &[&[u8]], look: &dyn Fn(&[&DiskSource<'_>]) -> Vec<Scan>) -> Vec<Scan> {
    let memories: Vec<MemoryDisk<'_>> = disks.iter().map(|bytes| MemoryDisk(bytes)).collect();
    let mut sources = Vec::new();
    for memory in &memories {
        let size_bytes = memory.0.len() as u64;
        sources.push(DiskSource { reader: memory, size_bytes, block_bytes: 512, partitions: vec![] });
    }
    look(&sources.iter().collect::<Vec<_>>())
}

fn seen(bytes: &[u8]) -> RegionLabels {
    let memory = MemoryDisk(bytes);
    let source = DiskSource { reader: &memory, size_bytes: bytes.len() as u64, block_bytes: 512, partitions: vec![] };
    let sources = [&source];
    let disks = Disks::new(&sources);
    let volume = Rc::new(BlockVolume { size_bytes: bytes.len() as u64, layout: VolumeLayout::Disk(0) });
    recognise(&VolumeView::new(&disks, &volume))
}

pub(super) fn look(bytes: &[u8]) -> Vec<RecognisedLabel> {
    seen(bytes).holdings
}

pub(super) fn remarks(bytes: &[u8]) -> Vec<String> {
    seen(bytes).remarks.into_iter().map(|remark| remark.why).collect()
}

#[test]
fn partition_types_are_known_in_either_case() {
    assert_eq!(of_partition_type("AA31E02A-400F-11DB-9590-000C2911D1B8"), Some(ContentKind::Vmfs));
    assert_eq!(of_partition_type("37affc90-ef7d-4e96-91c3-2d7ae055b174"), Some(ContentKind::Gpfs));
    assert_eq!(of_partition_type("381cfccc-7288-11e0-92ee-000c2911d0b2"), Some(ContentKind::Vsan));
    assert_eq!(of_partition_type("e75caf8f-f680-4cee-afa3-b001e56efc2d"), Some(ContentKind::StorageSpaces));
    assert_eq!(of_partition_type("c12a7328-f81f-11d2-ba4b-00a0c93ec93b"), None);
}

#[test]
fn an_empty_disk_holds_nothing() {
    assert_eq!(look(&vec![0; 4 << 20]), []);
    assert_eq!(look(&[]), []);
    assert!(remarks(&vec![0; 4 << 20]).is_empty());
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..70_000)) {
        check(&bytes);
    }
}
