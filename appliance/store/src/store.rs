//! The handle that everybody uses. One backend today; a second one would sit beside `Sqlite` behind
//! the same functions, and pass the same `conformance` suite.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::{CommitError, OpenError, ReadError, WatchError};
use crate::hub::Hub;
use crate::sqlite::{self, Command, Commit, ReadJob, Sqlite};
use crate::types::{GroupResource, Guard, Key, Object, Op, Page, Position, Revision};
use crate::watch::EventStream;
use crate::{OBJECT_BYTES_MAX, PAGE_OBJECTS_MAX};

/// An open store. Clones share it; it closes with the last one.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    sqlite: Sqlite,
    hub: Arc<Hub>,
}

impl Store {
    /// Opens the database file, or makes it. Blocks for some milliseconds.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (sqlite, hub) = Sqlite::open(path)?;
        Ok(Self { inner: Arc::new(Inner { sqlite, hub }) })
    }

    /// The newest revision that every watcher has been given.
    pub fn current(&self) -> Revision {
        self.inner.hub.published()
    }

    /// Waits until the store has reached a revision.
    pub async fn reached(&self, revision: Revision) -> Result<(), ReadError> {
        let mut progress = self.inner.hub.progress();
        progress.wait_for(|current| *current >= revision).await.map(drop).map_err(|_| ReadError::Closed)
    }

    pub async fn get(&self, key: &Key) -> Result<Option<Object>, ReadError> {
        let key = key.clone();
        read(self.reads()?, move |connection| sqlite::object(connection, &key)).await
    }

    /// Objects of a kind (in one namespace, or in all) in the order of namespace and name, as of the
    /// revision `at` or now; the page after `after`, of at most `limit` objects.
    pub async fn list(
        &self,
        kind: &GroupResource,
        namespace: Option<&str>,
        at: Option<Revision>,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let (kind, namespace, after) = (kind.clone(), namespace.map(str::to_owned), after.cloned());
        let limit = limit.clamp(1, PAGE_OBJECTS_MAX);
        read(self.reads()?, move |connection| {
            sqlite::list(connection, &kind, namespace.as_deref(), at, after.as_ref(), limit)
        })
        .await
    }

    /// Makes one change if it may be made and every guard holds. When this returns `Ok`, the change
    /// is on disk and live watchers have been given it.
    pub async fn commit(&self, op: Op, guards: Vec<Guard>) -> Result<Revision, CommitError> {
        if op.value().len() > OBJECT_BYTES_MAX {
            return Err(CommitError::TooLarge { key: op.key().clone(), bytes: op.value().len() });
        }
        self.command(|answer| Command::Commit(Commit { op, guards, answer })).await
    }

    /// The events of a kind after `from`, without gap or repeat: the history, then live ones.
    pub async fn watch(&self, kind: &GroupResource, from: Revision) -> Result<EventStream, WatchError> {
        let reads = self.reads().map_err(|_| WatchError::Closed)?.clone();
        EventStream::start(self.inner.hub.clone(), reads, kind.clone(), from).await
    }

    /// Forgets the history up to a revision (inclusive), in small steps between other writes. Lists
    /// and watches from before it get `Compacted` from then on; those at it still work.
    pub async fn compact(&self, through: Revision) -> Result<Revision, CommitError> {
        let through = through.min(self.current());
        let mut compacted = Revision(0);
        loop {
            let next = self.command(|answer| Command::Compact { through, answer }).await?;
            if next >= through || next == compacted {
                return Ok(next);
            }
            compacted = next;
        }
    }

    async fn command(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<Revision, CommitError>>) -> Command,
    ) -> Result<Revision, CommitError> {
        let (answer, result) = oneshot::channel();
        let commands = self.inner.sqlite.commands.as_ref().ok_or(CommitError::Closed)?;
        commands.send(command(answer)).await.map_err(|_| CommitError::Closed)?;
        result.await.map_err(|_| CommitError::Closed)?
    }

    fn reads(&self) -> Result<&mpsc::Sender<ReadJob>, ReadError> {
        self.inner.sqlite.reads.as_ref().ok_or(ReadError::Closed)
    }
}

/// Runs a read on a reader thread.
pub(crate) async fn read<T: Send + 'static>(
    reads: &mpsc::Sender<ReadJob>,
    job: impl FnOnce(&mut Connection) -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    let (answer, result) = oneshot::channel();
    let job: ReadJob = Box::new(move |connection| drop(answer.send(job(connection))));
    reads.send(job).await.map_err(|_| ReadError::Closed)?;
    result.await.map_err(|_| ReadError::Closed)?
}
