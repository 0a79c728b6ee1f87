//! Spec 3.0 → 2.2.0, as upstream's `v32tov22`, with the losses that it allows made errors.
//!
//! A filesystem's mount point becomes its name, and paths below it become paths on it. In spec 2 a file without
//! contents does not exist; to create an empty file, nothing is appended to it.

use serde_json::{Value, json};

use crate::fields::{FieldError, Fields, SparseObject};
use crate::{SpecVersion, spec3};

const ROOT: &str = "root";

/// Names that only spec 2 gives a meaning to. In spec 3 they are ignored, and so they must not come to life here.
const OLD_NAMES: [&str; 5] = [
    "systemd.units.*.enable",
    "passwd.users.*.create",
    "storage.disks.*.partitions.*.size",
    "storage.disks.*.partitions.*.start",
    "storage.filesystems.*.create",
];

pub(super) fn convert(mut config: Value) -> Result<Value, FieldError> {
    for path in OLD_NAMES {
        spec3::each_surely(&mut config, path, |map, name, _| drop(map.remove(name)));
    }
    let mut root = Fields::of(config, "")?;
    let mut head = root.object("ignition")?;
    let mut storage = root.object("storage")?;
    let mut systemd = root.object("systemd")?;
    let mut passwd = root.object("passwd")?;
    root.end()?;
    let units = systemd.list("units")?;
    let (users, groups) = (passwd.list("users")?, passwd.list("groups")?);
    let written = SparseObject::default()
        .put("ignition", ignition(&mut head)?)
        .object("storage", self::storage(&mut storage)?)
        // Units, users and groups are the same in both, but for what was new in 3.2.
        .object("systemd", SparseObject::default().list("units", units))
        .object("passwd", SparseObject::default().list("users", users).list("groups", groups));
    for section in [head, storage, systemd, passwd] {
        section.end()?;
    }
    Ok(written.into())
}

fn ignition(head: &mut Fields) -> Result<SparseObject, FieldError> {
    drop(head.take("version"));
    let mut config = head.object("config")?;
    let append = config.list("merge")?;
    let replace = config.take("replace");
    config.end()?;
    Ok(SparseObject::default()
        .put("version", SpecVersion::V2_2.text())
        .object("config", SparseObject::default().list("append", append).some("replace", replace))
        .some("timeouts", head.take("timeouts"))
        .some("security", head.take("security")))
}

fn storage(storage: &mut Fields) -> Result<SparseObject, FieldError> {
    let disks = storage.objects("disks")?.into_iter().map(disk).collect::<Result<Vec<_>, _>>()?;
    let raid = storage.list("raid")?;
    let (filesystems, mounts) = filesystems(storage.objects("filesystems")?)?;
    let mut files = Vec::new();
    for fields in storage.objects("files")? {
        file(fields, &mounts, &mut files)?;
    }
    let node = |mut fields: Fields| {
        let (filesystem, path) = place(&mut fields, &mounts)?;
        Ok(fields.into_sparse().put("filesystem", filesystem).put("path", path))
    };
    let directories = storage.objects("directories")?.into_iter().map(node).collect::<Result<Vec<_>, FieldError>>()?;
    let links = storage.objects("links")?.into_iter().map(|link| self::link(link, &mounts));
    let links = links.collect::<Result<Vec<_>, FieldError>>()?;
    Ok(SparseObject::default()
        .list("disks", disks)
        .list("raid", raid)
        .list("filesystems", filesystems)
        .list("files", files)
        .list("directories", directories)
        .list("links", links))
}

/// Spec 2.2 counts in sectors, whose size is not known here; only "as much as there is" is the same.
fn disk(mut disk: Fields) -> Result<SparseObject, FieldError> {
    let mut partitions = Vec::new();
    for mut partition in disk.objects("partitions")? {
        for name in ["sizeMiB", "startMiB"] {
            if partition.whole(name)?.is_some_and(|mib| mib != 0) {
                return Err(partition.error(name, "cannot be said in 2.2.0, which counts in sectors"));
            }
        }
        let wipes = partition.flag("wipePartitionEntry")? == Some(true);
        let removes = partition.flag("shouldExist")? == Some(false);
        if let Some((name, _)) = [("wipePartitionEntry", wipes), ("shouldExist", removes)].iter().find(|(_, set)| *set)
        {
            return Err(partition.error(name, "cannot be said in 2.2.0"));
        }
        partitions.push(partition.into_sparse());
    }
    Ok(disk.into_sparse().list("partitions", partitions))
}

/// Mount points, and the names of their filesystems.
type MountPoints = Vec<(String, String)>;

fn filesystems(list: Vec<Fields>) -> Result<(Vec<SparseObject>, MountPoints), FieldError> {
    let (mut written, mut mounts) = (Vec::new(), MountPoints::new());
    for (index, mut fields) in list.into_iter().enumerate() {
        let path = fields.text("path")?.map(|path| path.trim_end_matches('/').to_owned());
        let name = match &path {
            Some(path) if path.is_empty() => ROOT.to_owned(),
            Some(path) => path.clone(),
            None => format!("unmounted-{index}"),
        };
        let format = fields.text("format")?;
        let format = format.ok_or_else(|| fields.error("format", "is needed by the client's version"))?;
        mounts.extend(path.map(|path| (path, name.clone())));
        let mount = fields.into_sparse().put("format", format);
        written.push(SparseObject::default().put("name", name).object("mount", mount));
    }
    Ok((written, mounts))
}

/// The filesystem that a path lies on, and the path there.
fn split(path: &str, mounts: &MountPoints) -> (String, String) {
    let below = |mount: &str| path.strip_prefix(mount).filter(|rest| rest.starts_with('/'));
    let owner = mounts.iter().filter_map(|(mount, name)| Some((name, below(mount)?)));
    match owner.min_by_key(|(_, rest)| rest.len()) {
        Some((name, rest)) => (name.clone(), rest.to_owned()),
        None => (ROOT.to_owned(), path.to_owned()),
    }
}

fn place(fields: &mut Fields, mounts: &MountPoints) -> Result<(String, String), FieldError> {
    Ok(split(&fields.needed_text("path")?, mounts))
}

fn link(mut fields: Fields, mounts: &MountPoints) -> Result<SparseObject, FieldError> {
    let (filesystem, path) = place(&mut fields, mounts)?;
    let hard = fields.flag("hard")?.unwrap_or(false);
    let mut target = fields.needed_text("target")?;
    if hard && target.starts_with('/') {
        let (other, inner) = split(&target, mounts);
        if other != filesystem {
            return Err(fields.error("target", "is on another filesystem than the hard link"));
        }
        target = inner;
    }
    let written = fields.into_sparse().put("filesystem", filesystem).put("path", path).put("target", target);
    Ok(if hard { written.put("hard", true) } else { written })
}

/// One entry for the contents, one for each piece that is appended.
fn file(mut fields: Fields, mounts: &MountPoints, files: &mut Vec<SparseObject>) -> Result<(), FieldError> {
    let (filesystem, path) = place(&mut fields, mounts)?;
    let overwrite = fields.flag("overwrite")?.unwrap_or(false);
    let contents = fields.take("contents").filter(|contents| contents.get("source").is_some());
    let mut pieces = fields.list("append")?;
    if contents.is_none() && pieces.is_empty() {
        pieces.push(json!({"source": ""}));
    }
    let common = fields.into_sparse().put("filesystem", filesystem).put("path", path);
    let entry = |contents: Value, overwrite: bool| {
        // The default is true there.
        SparseObject(common.0.clone()).put("contents", contents).put("overwrite", overwrite)
    };
    files.extend(contents.map(|contents| entry(contents, overwrite)));
    files.extend(pieces.into_iter().map(|piece| entry(piece, false).put("append", true)));
    Ok(())
}
