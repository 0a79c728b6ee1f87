//! `GET /firesteel.dev/backup`: makes a snapshot on the local disk, then sends it at the client's pace. The snapshot
//! has no name while it is sent, so nothing is left behind however the request ends.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use firesteel_kube::Status;
use firesteel_store::{Damage, DamageReport, GroupResource, Lineage, Store};
use futures_util::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use ring::digest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{format, format::BackupHeader, keys};
use crate::http::body::{ResponseBody, json, refuse};
use crate::serve::sealing::KeyFile;

/// Where the API serves backups.
pub const BACKUP_PATH: &str = "/firesteel.dev/backup";
const CONTENT_TYPE: &str = "application/vnd.firesteel.backup";
/// How much stays free on the disk of the data folder: the store must be able to go on.
const FREE_BYTES_MIN: u64 = 64 << 20;
/// When a client tries again that came while another one was fetching.
const RETRY_SECONDS: u32 = 30;
/// The name of the snapshot while it is made; a file that a killed process left is overwritten.
const SNAPSHOT: &str = "backup.tmp";

/// Makes backups of one store, one at a time: each needs as much of the disk as the database.
#[derive(Clone, Debug)]
pub struct Backups {
    store: Store,
    key_file: Arc<KeyFile>,
    data: PathBuf,
    place: Arc<Semaphore>,
}

struct PreparedBackup {
    file: File,
    begin: Vec<u8>,
    left: u64,
}

impl Backups {
    #[must_use]
    pub fn new(store: Store, key_file: Arc<KeyFile>, data: PathBuf) -> Self {
        Self { store, key_file, data, place: Arc::new(Semaphore::new(1)) }
    }

    /// Answers a request that is authorised.
    pub async fn answer(&self) -> Response<ResponseBody> {
        let Ok(permit) = Arc::clone(&self.place).try_acquire_owned() else {
            let mut status = Status::too_many_requests(RETRY_SECONDS);
            "another backup is being fetched: try again later".clone_into(&mut status.message);
            return refuse(&status);
        };
        let maker = self.clone();
        // The permit goes with the work, which goes on even if the client waits no more.
        let make = move || maker.make(Timestamp::now()).map(|made| (made, permit));
        let (made, permit) = match tokio::task::spawn_blocking(make).await {
            Ok(Ok(made)) => made,
            Ok(Err(error)) => {
                tracing::error!(error = format!("{error:#}"), "could not make a backup; the client gets the reason");
                return unavailable(format!("{error:#}"));
            }
            Err(error) => {
                tracing::error!(%error, "could not make a backup, since the appliance is shutting down");
                return unavailable("the appliance is shutting down");
            }
        };
        let length = made.begin.len() as u64 + made.left + format::END_BYTES as u64;
        let mut response = Response::new(send(made, permit));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// The store's lineage, as JSON.
    #[must_use]
    pub fn lineage(&self) -> Response<ResponseBody> {
        let lineage = self.store.lineage();
        let epochs: Vec<_> = (1..)
            .zip(&lineage.epochs)
            .map(|(number, epoch)| {
                let restored = number > 1;
                serde_json::json!({
                    "epoch": number,
                    "timeline": timeline_text(epoch.timeline),
                    "restoredFromRevision": restored.then_some(epoch.continues.0),
                    "restoredAt": restored.then(|| Timestamp::from_millisecond(epoch.began_ms).ok()).flatten(),
                    "firstRevision": epoch.began.0,
                })
            })
            .collect();
        let revision = self.store.current().0;
        let body = serde_json::json!({
            "store": store_text(lineage.store), "revision": revision, "epochs": epochs, "damage": self.damage(),
        });
        json(StatusCode::OK, &body)
    }

    /// The damage that is known.
    fn damage(&self) -> serde_json::Value {
        let DamageReport { objects, has_more, kinds, structure } = self.store.damage();
        let object = |damage: &Damage| {
            serde_json::json!({
                "object": damage.key.to_string(), "revision": damage.revision.0, "cause": damage.cause.to_string(),
            })
        };
        let kind = |(kind, why): &(GroupResource, String)| serde_json::json!({"kind": kind.to_string(), "cause": why});
        serde_json::json!({
            "objects": objects.iter().map(object).collect::<Vec<_>>(),
            "hasMore": has_more,
            "kinds": kinds.iter().map(kind).collect::<Vec<_>>(),
            "structure": structure,
        })
    }

    /// Makes the snapshot; blocks for as long as the disk needs.
    fn make(&self, now: Timestamp) -> anyhow::Result<PreparedBackup> {
        // The digests must be those of the keys that the copy needs.
        let _unchanging = self.key_file.unchanging();
        let path = self.data.join(SNAPSHOT);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("could not remove {}", path.display()));
            }
            Ok(()) | Err(_) => {}
        }
        self.check_room()?;
        let made = self.store.snapshot(&path).map_err(anyhow::Error::from).and_then(|snapshot| {
            let file = File::open(&path).with_context(|| format!("could not open {}", path.display()))?;
            Ok((snapshot, file))
        });
        // No one else needs the name, whether the snapshot is whole or not.
        drop(std::fs::remove_file(&path));
        let (snapshot, file) = made?;
        let header = BackupHeader {
            store: store_text(snapshot.lineage.store),
            epoch: snapshot.lineage.epochs.len(),
            timeline: timeline_text(snapshot.lineage.timeline()),
            revision: snapshot.revision.0,
            schema: snapshot.schema,
            made_at: now,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            database_bytes: snapshot.bytes,
            keys: keys::digests(&self.data)?,
        };
        tracing::info!(revision = header.revision, bytes = header.database_bytes, "a backup is being fetched");
        Ok(PreparedBackup { file, begin: format::begin(&header)?, left: header.database_bytes })
    }

    fn check_room(&self) -> anyhow::Result<()> {
        let needed = self.store.snapshot_bytes_max()?.saturating_add(FREE_BYTES_MIN);
        let disk = nix::sys::statvfs::statvfs(&self.data).context("could not read the free space on the disk")?;
        let free = disk.blocks_available().saturating_mul(disk.fragment_size());
        anyhow::ensure!(
            free >= needed,
            "a backup needs {needed} free bytes on the disk of the data folder, where {free} are free"
        );
        Ok(())
    }
}

/// The form in which the number of a store is shown to people and written on disks.
fn store_text(store: u32) -> String {
    format!("{store:06x}")
}

fn timeline_text(timeline: u32) -> String {
    format!("{timeline:08x}")
}

/// Logs the lineage once at the start: a reader of old logs must know which changes were lost, and when.
pub fn log_lineage(lineage: &Lineage) {
    let store = store_text(lineage.store);
    for (number, epoch) in (2..).zip(lineage.epochs.iter().skip(1)) {
        let at = Timestamp::from_millisecond(epoch.began_ms).unwrap_or_default();
        tracing::info!(
            store, epoch = number, timeline = timeline_text(epoch.timeline), from_revision = epoch.continues.0,
            first_revision = epoch.began.0, restored_at = %at, "this store was restored from a backup"
        );
    }
}

/// Sends one piece of the answer after the other; `permit` is held until the last one, or until the client goes away.
fn send(made: PreparedBackup, permit: OwnedSemaphorePermit) -> ResponseBody {
    enum BackupPhase {
        Begin(PreparedBackup),
        Middle(Box<(File, u64, digest::Context)>),
        Done,
    }
    let parts = stream::try_unfold((BackupPhase::Begin(made), permit), |(next, permit)| async move {
        let (bytes, next) = match next {
            BackupPhase::Begin(PreparedBackup { file, begin, left }) => {
                let mut hasher = format::hasher();
                hasher.update(&begin);
                (begin, BackupPhase::Middle(Box::new((file, left, hasher))))
            }
            BackupPhase::Middle(state) => {
                let read = tokio::task::spawn_blocking(move || piece(*state)).await;
                match read.map_err(io::Error::other)?? {
                    (bytes, Some(state)) => (bytes, BackupPhase::Middle(Box::new(state))),
                    (bytes, None) => (bytes, BackupPhase::Done),
                }
            }
            BackupPhase::Done => return Ok(None),
        };
        Ok::<_, io::Error>(Some((Frame::data(Bytes::from(bytes)), (next, permit))))
    });
    StreamBody::new(parts).boxed_unsync()
}

/// A refusal that names no time: it ends when someone makes room, or the store serves again.
fn unavailable(why: impl Into<String>) -> Response<ResponseBody> {
    refuse(&Status::with_reason(503, "ServiceUnavailable", why))
}

type Rest = (File, u64, digest::Context);

/// The next piece of the database, or what comes after it.
fn piece((mut file, left, mut hasher): Rest) -> io::Result<(Vec<u8>, Option<Rest>)> {
    if left == 0 {
        return Ok((format::end(&hasher.finish()), None));
    }
    let want = usize::try_from(left).unwrap_or(format::PIECE_BYTES).min(format::PIECE_BYTES);
    let mut bytes = vec![0; want];
    file.read_exact(&mut bytes)?;
    hasher.update(&bytes);
    Ok((bytes, Some((file, left - want as u64, hasher))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::time::Duration;

    use firesteel_store::Durability;

    use super::*;
    use crate::serve::sealing;

    #[tokio::test]
    async fn one_that_nobody_waits_for_keeps_its_place_and_none_is_made_while_the_key_changes() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("resources.db");
        let key_file = Arc::new(KeyFile::open(&folder.path().join(sealing::DEFAULT_FILE), &database).unwrap());
        let store = key_file.open_store(&database, Durability::Nothing).unwrap();
        let backups = Backups::new(store, Arc::clone(&key_file), folder.path().to_owned());
        let changing = tokio::task::spawn_blocking(move || key_file.unchanging()).await.unwrap();
        {
            let first = std::pin::pin!(backups.answer());
            let waited = tokio::time::timeout(Duration::from_millis(50), first).await;
            assert!(waited.is_err(), "a copy while the key changes has the digest of another key");
        }
        let second = tokio::time::timeout(Duration::from_secs(60), backups.answer()).await.unwrap();
        assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS, "the first is still being made");
        drop(changing);
        loop {
            let next = backups.answer().await;
            if next.status() == StatusCode::OK {
                break;
            }
            assert_eq!(next.status(), StatusCode::TOO_MANY_REQUESTS);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
