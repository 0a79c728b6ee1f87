//! Put the first configuration on the boot partition of the disk just written, and read it back
//! from the medium.
//!
//! The partition is looked for on that disk and nowhere else. Its filesystem comes out of an
//! image: it is mounted without devices, set-user-id and programs, and no link in it is followed.

use std::{
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use firesteel_images::{
    Sha256,
    write::{Device, Unattended, metadata},
};
use firesteel_wire::{DiskIdentity, Evidence, HandOffFile, receipt::FileDigest};

use super::{Failure, Job, chain, table_of};
use crate::{
    disk::boot_partition::{Found, find_boot},
    host::Host,
    os::beneath::Folder,
};

/// Longest file: a stub is a few kilobytes, and a reply cannot carry more.
const FILE_BYTES_MAX: usize = 4 << 20;

struct Content<'a> {
    file: &'a HandOffFile,
    bytes: Vec<u8>,
}

pub(super) fn run(job: &Job<'_>, wanted: &DiskIdentity, files: &[HandOffFile]) -> Result<Evidence, Failure> {
    let contents = files.iter().map(content).collect::<Result<Vec<_>, _>>().map_err(Failure::untouched)?;
    let (disk, device) = job.open(wanted)?;
    hand_over(job, disk.device.as_ref(), device, wanted, &contents)
        .map_err(|error| Failure { error: format!("{error:#}; {}", clear(job, wanted)), disk_changed: true })
}

fn hand_over(
    job: &Job<'_>,
    disk: &Path,
    device: Device,
    wanted: &DiskIdentity,
    contents: &[Content<'_>],
) -> anyhow::Result<Evidence> {
    job.board.disk_changes(job.index);
    let found = find(&device)?;
    job.host.reread_partitions(&device)?;
    // The kernel lets nobody mount what is opened exclusively; held otherwise, the name keeps meaning this disk.
    let held = job.host.look_at(disk)?;
    if held.number != device.number() {
        bail!("{} became another disk while it was open", disk.display());
    }
    drop(device);
    let partition = job.host.partition_device(disk, &found.place)?;
    let kind = found.filesystem.kind;
    tracing::info!("handing over {} files on {} ({kind})", contents.len(), partition.display());
    write(job.host, &partition, kind, contents)?;
    let files = read_back(job, &partition, kind, contents)?;
    drop(held);
    Ok(Evidence::FilesHandedOff {
        disk: wanted.clone(),
        device: partition.to_string_lossy().into_owned(),
        filesystem: kind.to_owned(),
        files,
    })
}

/// An installation without its configuration must not boot. Says what became of the disk.
fn clear(job: &Job<'_>, wanted: &DiskIdentity) -> String {
    let cleared = job
        .open(wanted)
        .map_err(|failure| failure.error)
        .and_then(|(_, device)| metadata::clear(&device, &Unattended).map_err(|error| chain(&error)));
    match cleared {
        Ok(_) => "the disk's partition tables are cleared, it boots nothing".to_owned(),
        Err(why) => format!("clearing the disk's partition tables failed ({why})"),
    }
}

fn content(file: &HandOffFile) -> anyhow::Result<Content<'_>> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    if !file.path.split('/').all(is_plain) {
        bail!("the path {:?} is not one below the boot partition", file.path);
    }
    let bytes =
        STANDARD.decode(&file.content_base64).with_context(|| format!("reading the content of {}", file.path))?;
    if bytes.len() > FILE_BYTES_MAX {
        bail!("{} has {} bytes; at most {FILE_BYTES_MAX} are handed over", file.path, bytes.len());
    }
    Ok(Content { file, bytes })
}

fn find(device: &Device) -> anyhow::Result<Found> {
    let (reader, table) = table_of(device)?;
    Ok(find_boot(&*reader, &table)?)
}

fn write(host: &dyn Host, partition: &Path, kind: &str, contents: &[Content<'_>]) -> anyhow::Result<()> {
    let mounted = Mounted::new(host, partition, kind, false)?;
    let folder = Folder::open(&mounted.at).context("opening the boot partition")?;
    let written = contents.iter().try_for_each(|content| {
        folder
            .write(&content.file.path, content.file.mode, &content.bytes)
            .map_err(|error| explain(error, &folder, content))
    });
    let synced = written.and_then(|()| folder.sync().context("writing out the boot partition"));
    drop(folder);
    let unmounted = mounted.end();
    synced.and(unmounted)
}

fn explain(error: io::Error, folder: &Folder, content: &Content<'_>) -> anyhow::Error {
    let path = &content.file.path;
    if error.kind() == io::ErrorKind::StorageFull {
        let free = folder.free_bytes().unwrap_or(0);
        return anyhow!(
            "the boot partition is full: {path} has {} bytes, {free} are free. Use an image with a larger boot \
             partition, or a smaller configuration that fetches the rest",
            content.bytes.len()
        );
    }
    anyhow::Error::new(error).context(format!("writing {path} on the boot partition"))
}

/// Reads every file from the medium through a new mount, after the kernel has forgotten the old one.
fn read_back(job: &Job<'_>, partition: &Path, kind: &str, contents: &[Content<'_>]) -> anyhow::Result<Vec<FileDigest>> {
    job.board.activity(job.index, "reading back");
    job.host.forget_cache(partition)?;
    let mounted = Mounted::new(job.host, partition, kind, true)?;
    let folder = Folder::open(&mounted.at).context("opening the boot partition")?;
    let digests = contents.iter().map(|content| compare(&folder, content)).collect::<anyhow::Result<Vec<_>>>();
    drop(folder);
    let unmounted = mounted.end();
    let digests = digests?;
    unmounted?;
    Ok(digests)
}

fn compare(folder: &Folder, content: &Content<'_>) -> anyhow::Result<FileDigest> {
    let path = &content.file.path;
    let read = folder.read(path, FILE_BYTES_MAX as u64 + 1).with_context(|| format!("reading back {path}"))?;
    let (found, expected) = (Sha256::of(&read), Sha256::of(&content.bytes));
    if found != expected {
        bail!("{path} was read back with sha256 {found}, not {expected}: the disk did not keep what was written");
    }
    Ok(FileDigest { path: path.clone(), bytes: read.len() as u64, sha256: found.to_string() })
}

/// A mount that ends with its owner, on every way out.
pub(super) struct Mounted<'a> {
    host: &'a dyn Host,
    pub(super) at: PathBuf,
    ended: bool,
}

impl<'a> Mounted<'a> {
    pub(super) fn new(host: &'a dyn Host, partition: &Path, kind: &str, read_only: bool) -> anyhow::Result<Self> {
        let at = host.mount(partition, kind, read_only)?;
        Ok(Self { host, at, ended: false })
    }

    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.ended = true;
        self.host.unmount(&self.at)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if !self.ended
            && let Err(error) = self.host.unmount(&self.at)
        {
            tracing::warn!("{error:#}");
        }
    }
}
