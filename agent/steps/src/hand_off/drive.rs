//! A small FAT volume at the end of the disk, for images that look for their configuration by a label.

use anyhow::{Context, bail};
use firesteel_facts::{Guid, Sha256};
use firesteel_host::PartitionPlace;
use firesteel_images::write::WritableDisk as _;
use firesteel_images::write::gpt::Partition;
use firesteel_images::write::partition::{self, NewPartition};
use firesteel_wire::receipt::FileReadBack;

use super::HandOffReadBack;
use super::order::ConfigDriveOrder;
use super::survey::{self};
use super::written_disk::HandOffDisk;
use crate::forms::fat;

/// The size that deployment services give a config drive: room for large user data, and small beside any disk.
const SIZE_BYTES: u64 = 64 << 20;
/// "Basic data", the type of partitions with FAT (UEFI specification 2.10, section 5.3.3).
const TYPE: &str = "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7";

/// Makes the volume, in a partition that has its label already or in a new one, and reads it back.
pub(super) fn hand_over(
    site: &HandOffDisk<'_>,
    label: &str,
    drive: &ConfigDriveOrder,
) -> anyhow::Result<HandOffReadBack> {
    let device = site.open_alone()?;
    let block_bytes = device.block_bytes();
    let there = existing(site, label)?;
    let size_bytes = there.map_or(SIZE_BYTES, |there| there.size_bytes(site.table.block_bytes));
    let files: Vec<(&str, &[u8])> =
        drive.contents.iter().map(|content| (content.path.as_str(), content.bytes.as_slice())).collect();
    let volume = fat::build(label, drive.volume_id, size_bytes, block_bytes, &files)
        .with_context(|| format!("making a volume labelled {label}"))?;
    let (partition, read) = match there {
        Some(there) => {
            tracing::info!(
                "the hand-off of {} files on {}, labelled {label}, begins",
                files.len(),
                survey::name(there)
            );
            (there.clone(), partition::fill(&device, &site.table, there, &volume.bytes)?)
        }
        None => {
            tracing::info!("the hand-off of {} files on a new partition, labelled {label}, begins", files.len());
            partition::add(&device, &site.table, &wanted(site, label)?, &volume.bytes)?
        }
    };
    site.job.host.reread_partitions(&device)?;
    drop(device);
    let place = PartitionPlace {
        number: partition.number,
        offset_bytes: partition.offset_bytes(site.table.block_bytes),
        size_bytes: partition.size_bytes(site.table.block_bytes),
    };
    let device = site.job.host.partition_device(&site.disk, &place)?;
    let digest = |placed: &fat::FatFileExtent| {
        let content =
            read.get(placed.offset..placed.offset + placed.bytes).context("a file lies outside its volume")?;
        let sha256 = Sha256::of(content).to_string();
        Ok(FileReadBack { path: placed.path.clone(), bytes: content.len() as u64, sha256 })
    };
    let files = volume.files.iter().map(digest).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(HandOffReadBack { device: device.to_string_lossy().into_owned(), filesystem: "vfat".to_owned(), files })
}

/// The partition that has this label, or whose filesystem has it.
fn existing<'a>(site: &'a HandOffDisk<'_>, label: &str) -> anyhow::Result<Option<&'a Partition>> {
    let is_labelled = |partition: &&Partition| {
        let mut filesystems = site.found.iter().filter(|found| found.partition.number == partition.number);
        partition.name.eq_ignore_ascii_case(label)
            || filesystems.any(|found| found.filesystem.label.eq_ignore_ascii_case(label))
    };
    let all: Vec<&Partition> = site.table.partitions.iter().filter(is_labelled).collect();
    match all.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        several => {
            let names: Vec<String> = several.iter().map(|one| survey::name(one)).collect();
            bail!(
                "{} are labelled {label}, so it is not clear which of them the system reads. Use an image with one at \
                 most",
                names.join(" and ")
            )
        }
    }
}

/// The new partition. Its GUID follows from the disk's, so that the same hand-off makes the same table.
fn wanted(site: &HandOffDisk<'_>, label: &str) -> anyhow::Result<NewPartition> {
    let mut name = site.table.disk_guid.0.to_vec();
    name.extend(label.as_bytes());
    let mut guid = [0; 16];
    guid.copy_from_slice(&ring::digest::digest(&ring::digest::SHA256, &name).as_ref()[..16]);
    // A UUID of version 8 (RFC 9562, section 5.8), in the byte order of the medium.
    guid[7] = guid[7] & 0x0f | 0x80;
    guid[8] = guid[8] & 0x3f | 0x80;
    Ok(NewPartition { name: label.to_owned(), type_guid: TYPE.parse()?, guid: Guid(guid), size_bytes: SIZE_BYTES })
}
