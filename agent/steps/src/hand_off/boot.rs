//! The first configuration as files on the boot partition.

use std::io;

use anyhow::{Context, anyhow, bail};
use firesteel_facts::Sha256;
use firesteel_os::confined_folder::Folder;
use firesteel_wire::{limits::HAND_OFF_FILE_BYTES_MAX, receipt::FileReadBack};

use super::{HandOffReadBack, mounted::within, order::HandOffContent, written_disk::HandOffDisk};
use crate::disk::boot_partition::find_boot;

/// Puts the files there, and reads them from the medium through a new mount, after the kernel has forgotten the old.
pub(super) fn hand_over(site: &HandOffDisk<'_>, contents: &[HandOffContent]) -> anyhow::Result<HandOffReadBack> {
    let boot = find_boot(site.reader(), &site.table)?;
    let partition = site.job.host.partition_device(&site.disk, &boot.place)?;
    let (host, kind) = (site.job.host, boot.filesystem.kind);
    tracing::info!("the hand-off of {} files on {} ({kind}) begins", contents.len(), partition.display());
    within(host, &partition, kind, false, |folder| {
        contents.iter().try_for_each(|content| {
            folder
                .write(&content.path, content.mode, &content.bytes)
                .map_err(|error| explain(error, folder, "the boot partition", &content.path, content.bytes.len()))
        })?;
        folder.sync().context("writing out the boot partition")
    })?;
    site.job.board.activity(site.job.index, "reading back");
    host.forget_cache(&partition)?;
    let files = within(host, &partition, kind, true, |folder| {
        contents.iter().map(|content| compare(folder, content)).collect::<anyhow::Result<Vec<_>>>()
    })?;
    Ok(HandOffReadBack { device: partition.to_string_lossy().into_owned(), filesystem: kind.to_owned(), files })
}

fn compare(folder: &Folder, content: &HandOffContent) -> anyhow::Result<FileReadBack> {
    let path = &content.path;
    let read = folder.read(path, HAND_OFF_FILE_BYTES_MAX as u64 + 1).with_context(|| format!("reading back {path}"))?;
    digest(path, &read, &content.bytes)
}

/// What was read back, if it is what was written.
pub(super) fn digest(path: &str, read: &[u8], written: &[u8]) -> anyhow::Result<FileReadBack> {
    let (found, expected) = (Sha256::of(read), Sha256::of(written));
    if found != expected {
        bail!("{path} was read back with sha256 {found}, not {expected}: the disk did not keep what was written");
    }
    Ok(FileReadBack { path: path.to_owned(), bytes: read.len() as u64, sha256: found.to_string() })
}

/// Explains an error of writing; where the place is full, with the bytes that are needed and free.
pub(super) fn explain(error: io::Error, folder: &Folder, place: &str, path: &str, bytes: usize) -> anyhow::Error {
    if error.kind() == io::ErrorKind::StorageFull {
        let free = folder.free_bytes().unwrap_or(0);
        return anyhow!(
            "{place} is full: {path} has {bytes} bytes, {free} are free. Use an image with a larger boot partition, or \
             a smaller configuration that fetches the rest"
        );
    }
    anyhow::Error::new(error).context(format!("writing {path} on {place}"))
}
