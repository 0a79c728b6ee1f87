//! A mount that ends with its owner, on every way out.

use std::path::{Path, PathBuf};

use anyhow::Context;
use firesteel_host::Host;
use firesteel_os::confined_folder::Folder;

struct Mounted<'a> {
    host: &'a dyn Host,
    at: PathBuf,
    ended: bool,
}

impl<'a> Mounted<'a> {
    fn new(host: &'a dyn Host, partition: &Path, kind: &str, read_only: bool) -> anyhow::Result<Self> {
        let at = host.mount(partition, kind, read_only)?;
        Ok(Self { host, at, ended: false })
    }

    fn end(mut self) -> anyhow::Result<()> {
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

/// Works in the folder of a mounted partition, and unmounts it whatever came of that; the work's own error comes first.
pub(super) fn within<T>(
    host: &dyn Host,
    partition: &Path,
    kind: &str,
    read_only: bool,
    work: impl FnOnce(&Folder) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mounted = Mounted::new(host, partition, kind, read_only)?;
    let folder =
        Folder::open(&mounted.at).with_context(|| format!("opening the filesystem of {}", partition.display()));
    let done = folder.and_then(|folder| work(&folder));
    let unmounted = mounted.end();
    let done = done?;
    unmounted?;
    Ok(done)
}
