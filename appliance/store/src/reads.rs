//! Reading, whichever backend it is: the two answer alike.

use std::sync::{Arc, Weak};

use tokio::sync::{mpsc, oneshot};

use crate::damage::PageRead;
use crate::error::StoreReadError;
use crate::memory::OpenMemoryStore;
use crate::sqlite::{self, CheckedChanges, Database, ReadJob};
use crate::types::{GroupResource, ListRange, ObjectKey, Position, Revision, StoreEvent, StoredObject};

/// A way to read that keeps the store open.
#[derive(Clone, Debug)]
pub(crate) enum Reads {
    Sqlite(mpsc::Sender<ReadJob>),
    Memory(Arc<OpenMemoryStore>),
}

/// A way to read while another owner keeps the store open.
#[derive(Clone, Debug)]
pub(crate) enum WeakReads {
    Sqlite(mpsc::WeakSender<ReadJob>),
    Memory(Weak<OpenMemoryStore>),
}

impl Reads {
    pub(crate) fn downgrade(&self) -> WeakReads {
        match self {
            Self::Sqlite(reads) => WeakReads::Sqlite(reads.downgrade()),
            Self::Memory(opened) => WeakReads::Memory(Arc::downgrade(opened)),
        }
    }

    pub(crate) async fn object(&self, key: &ObjectKey) -> Result<Option<StoredObject>, StoreReadError> {
        match self {
            Self::Sqlite(reads) => {
                let key = key.clone();
                read(reads, move |database| sqlite::object(database, &key)).await
            }
            Self::Memory(opened) => opened.object(key).await,
        }
    }

    /// Objects in order; `remaining` is 1 where there are more.
    pub(crate) async fn page(&self, range: ListRange<'_>, limit: usize) -> Result<PageRead, StoreReadError> {
        match self {
            Self::Sqlite(reads) => {
                let range = OwnedRange::of(range);
                read(reads, move |database| sqlite::page(database, range.as_list_range(), limit)).await
            }
            Self::Memory(opened) => opened.page(range, limit).await,
        }
    }

    pub(crate) async fn count(&self, range: ListRange<'_>) -> Result<u64, StoreReadError> {
        match self {
            Self::Sqlite(reads) => {
                let range = OwnedRange::of(range);
                read(reads, move |database| sqlite::count(database, range.as_list_range())).await
            }
            Self::Memory(opened) => opened.count(range).await,
        }
    }

    /// Compares the next changes after a revision with their checksums. A store in memory has none.
    pub(crate) async fn check_changes(&self, after: Revision) -> Result<CheckedChanges, StoreReadError> {
        match self {
            Self::Sqlite(reads) => read(reads, move |database| sqlite::check_changes(database, after)).await,
            Self::Memory(_) => Ok(CheckedChanges { through: after, is_over: true, ..CheckedChanges::default() }),
        }
    }

    /// The kinds that objects are of, as far as the store has ever seen one.
    pub(crate) async fn kinds(&self) -> Result<Vec<GroupResource>, StoreReadError> {
        match self {
            Self::Sqlite(reads) => read(reads, sqlite::kinds).await,
            Self::Memory(opened) => Ok(opened.kinds()),
        }
    }

    /// The events of a kind in (after, through], at most `limit`, in order.
    pub(crate) async fn history(
        &self,
        kind: &GroupResource,
        after: Revision,
        through: Revision,
        limit: usize,
    ) -> Result<Vec<StoreEvent>, StoreReadError> {
        match self {
            Self::Sqlite(reads) => {
                let kind = kind.clone();
                read(reads, move |database| sqlite::history(database, &kind, after, through, limit)).await
            }
            Self::Memory(opened) => opened.history(kind, after, through, limit).await,
        }
    }
}

impl WeakReads {
    pub(crate) fn upgrade(&self) -> Option<Reads> {
        match self {
            Self::Sqlite(reads) => reads.upgrade().map(Reads::Sqlite),
            Self::Memory(opened) => opened.upgrade().map(Reads::Memory),
        }
    }
}

/// A [`ListRange`] that goes to another thread.
struct OwnedRange {
    kind: GroupResource,
    namespace: Option<String>,
    at: Option<Revision>,
    after: Option<Position>,
}

impl OwnedRange {
    fn of(range: ListRange<'_>) -> Self {
        let ListRange { kind, namespace, at, after } = range;
        Self { kind: kind.clone(), namespace: namespace.map(str::to_owned), at, after: after.cloned() }
    }

    fn as_list_range(&self) -> ListRange<'_> {
        ListRange { kind: &self.kind, namespace: self.namespace.as_deref(), at: self.at, after: self.after.as_ref() }
    }
}

/// Runs a read on a reader thread.
async fn read<T: Send + 'static>(
    reads: &mpsc::Sender<ReadJob>,
    job: impl FnOnce(&mut Database) -> Result<T, StoreReadError> + Send + 'static,
) -> Result<T, StoreReadError> {
    let (answer, result) = oneshot::channel();
    let job: ReadJob = Box::new(move |database| drop(answer.send(job(database))));
    reads.send(job).await.map_err(|_| StoreReadError::Closed)?;
    result.await.map_err(|_| StoreReadError::Closed)?
}
