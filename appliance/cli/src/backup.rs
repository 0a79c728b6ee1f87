//! `firesteel backup` and `firesteel restore`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};

use super::confirm::{self, ConfirmOptions, ExpectedAnswer};
use super::table::{bytes, clean};
use super::{ApiClient, print_text};
use firesteel_appliance::backup::format::{BackupHeader, BackupReader, PIECE_BYTES};
use firesteel_appliance::backup::serve::BACKUP_PATH;
use firesteel_appliance::backup::{self, RestoreOptions};

/// The limit of a backup: no appliance has as much in its database.
const BACKUP_BYTES_MAX: u64 = 64 << 30;

/// # Errors
/// When the appliance does not give a backup, or it cannot be written; then there is no file.
pub(crate) async fn fetch(client: &ApiClient, file: &Path) -> anyhow::Result<()> {
    let partial = partial(file)?;
    let fetched = fetch_into(client, &partial).await;
    let header = match fetched {
        Ok(header) => header,
        Err(error) => {
            // No one takes a file of this name for a backup, even if it cannot be removed.
            drop(fs::remove_file(&partial));
            return Err(error);
        }
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let placed = fs::rename(&partial, file).and_then(|()| File::open(folder)?.sync_all());
    placed.with_context(|| format!("could not write {}", file.display()))?;
    let keys: Vec<&str> = header.keys.keys().map(String::as_str).collect();
    print_text(&format!(
        "{}: revision {} of {:.0}, {}\n  not in it, keep them elsewhere: {}\n",
        file.display(),
        header.revision,
        header.made_at,
        bytes(header.database_bytes),
        clean(&keys.join(", ")),
    ));
    Ok(())
}

/// The name of the partial file: in the same folder, and it says what it is.
fn partial(file: &Path) -> anyhow::Result<PathBuf> {
    let name = file.file_name().with_context(|| format!("{} is not the name of a file", file.display()))?;
    Ok(file.with_file_name(format!(".{}.partial-{}", name.to_string_lossy(), std::process::id())))
}

async fn fetch_into(client: &ApiClient, partial: &Path) -> anyhow::Result<BackupHeader> {
    let writing = || format!("could not write {}", partial.display());
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{msg:12} {bytes:>10} {total_bytes:>10} {bytes_per_sec:>12} {eta:>4}")?);
    bar.set_message("copying");
    let (length, chunks) = client.download(BACKUP_PATH).await?;
    bar.set_length(length.unwrap_or(0));
    bar.set_message("fetching");
    let mut out =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(partial).with_context(writing)?;
    let mut chunks = pin!(chunks);
    let mut fetched_bytes = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.context("could not fetch the backup")?;
        fetched_bytes += chunk.len() as u64;
        anyhow::ensure!(
            fetched_bytes <= BACKUP_BYTES_MAX,
            "the backup has no end: check the address in the kubeconfig"
        );
        out.write_all(&chunk).with_context(writing)?;
        bar.inc(chunk.len() as u64);
    }
    out.sync_all().with_context(writing)?;
    bar.finish_and_clear();
    // The check reads what is on disk, not what was received.
    let reader = BackupReader::open(BufReader::with_capacity(PIECE_BYTES, File::open(partial).with_context(writing)?))?;
    Ok(reader.copy(&mut io::sink(), |_| {})?)
}

/// # Errors
/// When there is no such backup, or it cannot be restored there; then nothing was changed.
pub(crate) fn restore(order: RestoreOptions, confirm: ConfirmOptions) -> anyhow::Result<()> {
    if order.force {
        let text = format!(
            "The content of {} is replaced by the backup {}, and kept under another name. What happened after the \
             backup is lost; hosts that were installed after it are frozen.\n",
            order.data.display(),
            order.backup.display()
        );
        confirm::ask("restore --force", &text, ExpectedAnswer::Yes, confirm)?;
    }
    let outcome = backup::restore(&order, &mut |_| {})?;
    print_text(&outcome.to_string());
    Ok(())
}
