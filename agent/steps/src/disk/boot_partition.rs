//! Partitions that matter after a write: the boot partition, which takes the hand-off, and the EFI
//! system partition, from which the firmware starts. Looked for on one disk only, the one that the
//! caller opened.

use std::io;

use firesteel_host::PartitionPlace;
use firesteel_images::write::gpt::{GptTable, Partition};
use firesteel_images::write::{AlignedBuffer, DiskReader};

use super::label::{self, FilesystemLabel, START_BYTES};

/// Name of the boot partition in the GPT, or label of its filesystem; FAT labels are upper case.
const BOOT: &str = "boot";
/// Filesystems that take a hand-off.
const WRITTEN: [&str; 3] = ["ext4", "xfs", "vfat"];
/// Type of EFI system partitions (UEFI specification 2.10, table 5-7).
const ESP_TYPE: &str = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("reading the start of partition {number}")]
    Read { number: u32, source: io::Error },
    #[error(
        "the image has no boot partition: none is named or labelled `boot` and has ext4, xfs or vfat (partitions: {0})"
    )]
    NoBoot(String),
    #[error("the image has {count} boot partitions, so it is not clear which one to use (partitions: {list})")]
    SeveralBoot { count: usize, list: String },
    #[error("the image has no EFI system partition, so UEFI firmware cannot start it (partitions: {0})")]
    NoEsp(String),
}

/// Where in a partition a superblock may be, and what reads it.
type Place = (u64, fn(&[u8]) -> Option<FilesystemLabel>);
const PLACES: [Place; 3] = [(0, label::read), (label::BTRFS_AT, label::btrfs), (label::ISO9660_AT, label::iso9660)];

/// A partition with a filesystem that can be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountablePartition {
    pub partition: Partition,
    pub filesystem: FilesystemLabel,
    pub place: PartitionPlace,
}

/// The one boot partition: by filesystem label first, by partition name otherwise.
pub fn find_boot(reader: &dyn DiskReader, table: &GptTable) -> Result<MountablePartition, FindError> {
    let mut all = filesystems(reader, table)?;
    all.retain(|found| WRITTEN.contains(&found.filesystem.kind));
    let is_labelled = |found: &&MountablePartition| found.filesystem.label.eq_ignore_ascii_case(BOOT);
    let is_named = |found: &&MountablePartition| found.partition.name.eq_ignore_ascii_case(BOOT);
    let mut matching: Vec<_> = all.iter().filter(is_labelled).collect();
    if matching.is_empty() {
        matching = all.iter().filter(is_named).collect();
    }
    match matching.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(FindError::NoBoot(list(table))),
        several => Err(FindError::SeveralBoot { count: several.len(), list: list(table) }),
    }
}

/// The first EFI system partition with a FAT filesystem.
pub fn find_esp(reader: &dyn DiskReader, table: &GptTable) -> Result<MountablePartition, FindError> {
    let is_esp = |found: &MountablePartition| {
        found.partition.type_guid.to_string() == ESP_TYPE && found.filesystem.kind == "vfat"
    };
    filesystems(reader, table)?.into_iter().find(is_esp).ok_or_else(|| FindError::NoEsp(list(table)))
}

/// Every partition with a filesystem that is known here.
pub fn filesystems(reader: &dyn DiskReader, table: &GptTable) -> Result<Vec<MountablePartition>, FindError> {
    let mut all = Vec::new();
    for partition in &table.partitions {
        let (offset_bytes, size_bytes) =
            (partition.offset_bytes(table.block_bytes), partition.size_bytes(table.block_bytes));
        let failed = |source| FindError::Read { number: partition.number, source };
        if let Some(filesystem) = filesystem_at(reader, offset_bytes, size_bytes).map_err(failed)? {
            let place = PartitionPlace { number: partition.number, offset_bytes, size_bytes };
            all.push(MountablePartition { partition: partition.clone(), filesystem, place });
        }
    }
    Ok(all)
}

/// The filesystem of this place on a disk, if it is known here.
pub fn filesystem_at(
    reader: &dyn DiskReader,
    offset_bytes: u64,
    size_bytes: u64,
) -> io::Result<Option<FilesystemLabel>> {
    for (at, read) in PLACES {
        if size_bytes >= at + START_BYTES as u64 {
            let mut start = AlignedBuffer::new(START_BYTES);
            reader.read_at(offset_bytes.saturating_add(at), &mut start)?;
            if let Some(found) = read(&start) {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

fn list(table: &GptTable) -> String {
    let names: Vec<_> =
        table.partitions.iter().map(|partition| format!("{} {:?}", partition.number, partition.name)).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
