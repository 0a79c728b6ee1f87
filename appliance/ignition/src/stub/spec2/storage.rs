//! The section `storage`: disks, arrays, filesystems, and what is put on them.

use std::collections::HashSet;

use serde_json::Value;

use super::mounts::{MountUnit, Mounts};
use super::nodes::{self, NetworkFile, Spec2FileNode};
use super::{Sectors, Spec2Defaults};
use crate::fields::{FieldError, Fields, SparseObject};

const MIB: i64 = 1 << 20;

pub(super) fn convert(
    storage: &mut Fields,
    network_files: Vec<NetworkFile>,
    mount_units: &[MountUnit],
    context: Spec2Defaults,
) -> Result<SparseObject, FieldError> {
    let disks = storage.objects("disks")?.into_iter().map(|disk| self::disk(disk, context.options.sectors));
    let disks = disks.collect::<Result<Vec<_>, _>>()?;
    let raid = storage.objects("raid")?.into_iter().map(raid).collect::<Result<Vec<_>, _>>()?;
    let files = Spec2FileNode::read_all(storage.objects("files")?)?;
    let directories = Spec2FileNode::read_all(storage.objects("directories")?)?;
    let links = Spec2FileNode::read_all(storage.objects("links")?)?;
    let used: HashSet<String> =
        [&files, &directories, &links].into_iter().flatten().map(|node| node.filesystem.clone()).collect();
    let mounts = Mounts::read(storage.objects("filesystems")?, &used, mount_units)?;
    let files = nodes::files(files, network_files, &mounts, context)?;
    let directories = nodes::directories(directories, &mounts, context)?;
    let links = nodes::links(links, &mounts)?;
    Ok(SparseObject::default()
        .list("disks", disks)
        .list("raid", raid)
        .list("filesystems", mounts.written())
        .list("files", files)
        .list("directories", directories)
        .list("links", links))
}

fn disk(mut disk: Fields, sectors: Sectors) -> Result<SparseObject, FieldError> {
    let partitions = disk.objects("partitions")?.into_iter().map(|one| partition(one, sectors));
    let partitions = partitions.collect::<Result<Vec<_>, _>>()?;
    let written = SparseObject::default()
        .put("device", disk.needed_text("device")?)
        .set("wipeTable", disk.flag("wipeTable")?)
        .list("partitions", partitions);
    disk.end()?;
    Ok(written)
}

fn partition(mut partition: Fields, sectors: Sectors) -> Result<SparseObject, FieldError> {
    let written = SparseObject::default()
        .some("label", partition.text("label")?.filter(|label| !label.is_empty()))
        .some("number", partition.whole("number")?.filter(|number| *number != 0))
        .some("sizeMiB", mib(&mut partition, "size", "sizeMiB", sectors)?)
        .some("startMiB", mib(&mut partition, "start", "startMiB", sectors)?)
        .some("typeGuid", partition.text("typeGuid")?.filter(|guid| !guid.is_empty()))
        .some("guid", partition.text("guid")?.filter(|guid| !guid.is_empty()))
        .set("wipePartitionEntry", partition.flag("wipePartitionEntry")?)
        .some("shouldExist", partition.flag("shouldExist")?);
    partition.end()?;
    Ok(written)
}

/// 0 means "as much as there is" in both units.
fn mib(partition: &mut Fields, old: &str, new: &str, sectors: Sectors) -> Result<Option<i64>, FieldError> {
    let (count, mib) = (partition.whole(old)?, partition.whole(new)?);
    let bytes = match (count, sectors) {
        (None, _) => return Ok(mib),
        (Some(_), _) if mib.is_some() => {
            return Err(partition.error(old, format!("cannot stand beside {new}")));
        }
        (Some(0), _) => return Ok(Some(0)),
        (Some(count), Sectors::Bytes512) => count.checked_mul(512),
        (Some(count), Sectors::Bytes4096) => count.checked_mul(4096),
        (Some(_), Sectors::Unknown) => {
            let reason = format!("is in sectors of the disk, which may have 512 or 4096 bytes: use {new}");
            return Err(partition.error(old, reason));
        }
    };
    match bytes {
        Some(bytes) if bytes > 0 && bytes % MIB == 0 => Ok(Some(bytes / MIB)),
        Some(_) | None => Err(partition.error(old, format!("is no whole number of MiB: use {new}"))),
    }
}

fn raid(mut raid: Fields) -> Result<SparseObject, FieldError> {
    let written = SparseObject::default()
        .put("name", raid.needed_text("name")?)
        .put("level", raid.needed_text("level")?)
        .put("devices", raid.texts("devices")?.into_iter().map(Value::from).collect::<Vec<_>>())
        .some("spares", raid.whole("spares")?.filter(|spares| *spares != 0))
        .list("options", raid.texts("options")?);
    raid.end()?;
    Ok(written)
}
