//! Volumes of the same label on the host's other disks: a system that looks for its configuration by a label takes
//! whichever it finds. Those disks are only looked at, and none of them stops the hand-off.

use std::path::Path;

use firesteel_images::write::{AlignedBuffer, DiskReader, mbr, read_table};
use firesteel_wire::{DiskIdentity, InventoryDisk};

use super::{survey, written_disk::HandOffDisk};
use crate::disk::boot_partition::{filesystem_at, filesystems};
use crate::disk::label::{FilesystemLabel, START_BYTES};

/// A warning for each other disk that has such a volume, and one for all that cannot be read.
pub(super) fn warnings(site: &HandOffDisk<'_>, label: &str) -> Vec<String> {
    site.job.board.activity(site.job.index, "looking at the other disks");
    let (mut warnings, mut unread) = (Vec::new(), 0);
    for seen in site.job.host.disks() {
        match on(site, &seen.disk, label) {
            Ok(places) if places.is_empty() => {}
            Ok(places) => warnings.push(format!(
                "{} ({}) has a volume labelled {label} too ({}): which one the system reads is unverified. Clear that \
                 disk or take it out if the configuration is not found",
                seen.disk.device,
                identity(&seen.disk),
                places.join(", ")
            )),
            Err(error) => {
                tracing::warn!("{} is not looked into for a volume labelled {label}: {error:#}", seen.disk.device);
                unread += 1;
            }
        }
    }
    if unread > 0 {
        warnings.push(format!(
            "{unread} other disks cannot be read: that none of them has a volume labelled {label} is unverified"
        ));
    }
    warnings
}

fn identity(disk: &InventoryDisk) -> DiskIdentity {
    DiskIdentity {
        wwn: disk.wwn.clone(),
        serial: disk.serial.clone(),
        model: disk.model.clone(),
        size_bytes: disk.size_bytes,
        by_path: disk.by_path.clone(),
    }
}

/// Where a disk has such volumes; nowhere where it is the one that takes the hand-off.
fn on(site: &HandOffDisk<'_>, disk: &InventoryDisk, label: &str) -> anyhow::Result<Vec<String>> {
    let held = site.job.host.inspect_disk(Path::new(&disk.device))?;
    if held.number == site.number() {
        return Ok(Vec::new());
    }
    places(&*held.opened, disk.size_bytes, disk.logical_block_bytes, label)
}

/// The labels of filesystems alone count: by those a system looks.
fn places(reader: &dyn DiskReader, size_bytes: u64, block_bytes: u32, label: &str) -> anyhow::Result<Vec<String>> {
    anyhow::ensure!(block_bytes >= 512 && size_bytes >= START_BYTES as u64, "it does not say how large it is");
    let is_labelled = |filesystem: &FilesystemLabel| filesystem.label.eq_ignore_ascii_case(label);
    // A stick or an image of a CD may have a filesystem over all of it.
    if filesystem_at(reader, 0, size_bytes)?.as_ref().is_some_and(is_labelled) {
        return Ok(vec!["on all of it".to_owned()]);
    }
    if let Some(table) = read_table(reader, size_bytes, block_bytes)? {
        let found = filesystems(reader, &table)?;
        let labelled = found.iter().filter(|found| is_labelled(&found.filesystem));
        return Ok(labelled.map(|found| survey::name(&found.partition)).collect());
    }
    let mut start = AlignedBuffer::new(START_BYTES);
    reader.read_at(0, &mut start)?;
    let mut places = Vec::new();
    for (entry, number) in mbr::parse(&start).unwrap_or_default().into_iter().zip(1..) {
        let [offset, length] = [entry.first, entry.blocks].map(|blocks| blocks.saturating_mul(u64::from(block_bytes)));
        let length = length.min(size_bytes.saturating_sub(offset));
        if filesystem_at(reader, offset, length)?.as_ref().is_some_and(is_labelled) {
            places.push(format!("partition {number}"));
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::io;

    use firesteel_facts::Guid;
    use firesteel_images::write::gpt::{self, Partition};

    use super::*;
    use crate::forms::fat;

    const BYTES: usize = 16 << 20;
    /// Where the volume is, in blocks.
    const FIRST: usize = 2048;

    struct Memory(Vec<u8>);

    impl DiskReader for Memory {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            let start = usize::try_from(offset).map_err(io::Error::other)?;
            let bytes = self.0.get(start..start + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            buffer.copy_from_slice(bytes);
            Ok(())
        }
    }

    /// A disk with a volume of this label at a place.
    fn with_volume(at: usize) -> Vec<u8> {
        let mut disk = vec![0; BYTES];
        let volume = fat::build("config-2", 1, 8 << 20, 512, &[("a", b"b")]).unwrap().bytes;
        disk[at..at + volume.len()].copy_from_slice(&volume);
        disk
    }

    fn found(disk: Vec<u8>, label: &str) -> Vec<String> {
        places(&Memory(disk), BYTES as u64, 512, label).unwrap()
    }

    #[test]
    fn a_volume_is_found_by_its_label_on_any_disk() {
        assert_eq!(found(with_volume(0), "config-2"), ["on all of it"]);
        let partition = Partition {
            number: 1,
            name: "data".into(),
            type_guid: Guid([1; 16]),
            guid: Guid([2; 16]),
            first_lba: FIRST as u64,
            last_lba: FIRST as u64 + (8 << 20) / 512 - 1,
        };
        let (head, _, _) = gpt::create(BYTES as u64, 512, Guid([9; 16]), &[partition]).unwrap();
        let mut disk = with_volume(FIRST * 512);
        disk[..head.len()].copy_from_slice(&head);
        assert_eq!(found(disk.clone(), "config-2"), ["partition 1"]);
        assert!(found(disk, "CIDATA").is_empty());
        let mut disk = with_volume(FIRST * 512);
        let entry = [0, 0, 0, 0, 0x0c, 0, 0, 0, 0, 8, 0, 0, 0, 64, 0, 0];
        disk[446 + 16..446 + 32].copy_from_slice(&entry);
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(found(disk, "config-2").len(), 1);
        assert!(found(vec![0; BYTES], "config-2").is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_not_none() {
        assert!(places(&Memory(vec![0; 1024]), BYTES as u64, 512, "config-2").is_err());
        assert!(places(&Memory(vec![0; BYTES]), BYTES as u64, 0, "config-2").is_err());
    }
}
