//! What can go wrong, by action.

use std::io;
use std::path::PathBuf;

use rusqlite::{ErrorCode, ffi};

use crate::damage::Damage;
use crate::meter::Exceeded;
use crate::seal::KeyId;
use crate::types::{GroupResource, ObjectKey, Op, Revision, WritePrecondition};

#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    #[error("cannot lock {path}: another process has this store open")]
    Lock {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot open the database {path}")]
    Database {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    /// It can be opened, and what it says of itself cannot be believed.
    #[error("the database {path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
    #[error("the database {path} has schema {found}, this program knows up to {known}: use a newer program")]
    Schema { path: PathBuf, found: i64, known: i64 },
    /// `given` are the keys of the keyring; none where there was no keyring.
    #[error("the database {path} has values sealed by the key {needed}; {}", given_in_words(.given))]
    Key { path: PathBuf, needed: KeyId, given: Vec<KeyId> },
    #[error("cannot start a thread of the store")]
    Thread(#[source] io::Error),
}

impl StoreOpenError {
    /// Whether the file itself is of no use: another try, another key or another program changes nothing.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Database { source, .. } => {
                use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, OutOfMemory};
                let may_pass = matches!(source.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked | OutOfMemory));
                !may_pass && !disk_is_full(source)
            }
            Self::Lock { .. } | Self::Schema { .. } | Self::Key { .. } | Self::Thread(_) => false,
        }
    }

    /// Whether nothing was read of the file: it, or a file beside it, cannot be opened or made. What is in it may be
    /// sound.
    pub fn is_out_of_reach(&self) -> bool {
        use rusqlite::ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
        let Self::Database { source, .. } = self else { return false };
        matches!(source.sqlite_error_code(), Some(CannotOpen | PermissionDenied | ReadOnly))
    }
}

fn given_in_words(given: &[KeyId]) -> String {
    match given {
        [] => "no key was given".into(),
        [id] => format!("the key that was given is {id}"),
        ids => {
            format!("the keys that were given are {}", ids.iter().map(KeyId::to_string).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Why values could not be sealed again.
#[derive(Debug, thiserror::Error)]
pub enum ResealError {
    /// What was changed may or may not have become durable; both keys are needed.
    #[error("cannot write to the database: {0}")]
    Database(String),
    /// The values are sealed by the new key; free space of the file may still hold what was before.
    #[error(
        "all values are sealed by the new key, but what was before may still be in free space of the database: {0}"
    )]
    Scrub(String),
    /// What was to be sealed stays as it is.
    #[error("could not seal the values: {0}")]
    Damaged(String),
    #[error("the store has no keyring")]
    NoKeyring,
    #[error("the store is closed")]
    Closed,
}

#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("{key} already exists at revision {current}")]
    Exists { key: ObjectKey, current: Revision },
    #[error("{key} stands at revision {current}, not at the expected one")]
    Conflict { key: ObjectKey, current: Revision },
    #[error("{key} does not exist")]
    NotFound { key: ObjectKey },
    /// A [`crate::WritePrecondition`] does not hold; `current` is where its object stands.
    #[error("the condition on {key} does not hold")]
    Guard { key: ObjectKey, current: Option<Revision> },
    /// It adds more than may stand in its namespace.
    #[error("{key} is more than a quota of its namespace allows")]
    Exceeds { key: ObjectKey, exceeded: Vec<Exceeded> },
    #[error("{key} has {bytes} bytes, more than the store takes")]
    TooLarge { key: ObjectKey, bytes: usize },
    /// There is no room, and nothing was stored.
    #[error("cannot write to the database: {0}")]
    Full(String),
    /// The change may or may not have become durable: read before trying again.
    #[error("cannot write to the database: {0}")]
    Database(String),
    /// Nothing was changed: what would be changed, or the file around it, is damaged.
    #[error("could not make the change: {0}")]
    Damaged(String),
    #[error("the store is closed")]
    Closed,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreReadError {
    /// The state at the asked revision is gone; `oldest` is the first that can still be read.
    #[error("the revision is compacted; the oldest one is {oldest}")]
    Compacted { oldest: Revision },
    /// The asked revision has not happened yet.
    #[error("the revision is in the future; the current one is {current}")]
    Future { current: Revision },
    #[error("cannot read the database: {0}")]
    Database(String),
    /// These objects are there, and their values are not what was written.
    #[error("{}", damages_in_words(.0))]
    Damaged(Vec<Damage>),
    /// Nothing is answered about the kind: objects of it would seem to be absent.
    #[error("the list of {kind} is damaged: {why}")]
    Broken { kind: GroupResource, why: String },
    /// The file itself is damaged where it was to be read.
    #[error("could not read the database: {0}")]
    Structure(String),
    #[error("the store is closed")]
    Closed,
}

/// How many damaged values an error names one by one.
const DAMAGES_SHOWN: usize = 20;

fn damages_in_words(damages: &[Damage]) -> String {
    let mut words: Vec<String> = damages.iter().take(DAMAGES_SHOWN).map(ToString::to_string).collect();
    if damages.len() > DAMAGES_SHOWN {
        words.push(format!("and {} more", damages.len() - DAMAGES_SHOWN));
    }
    words.join("; ")
}

/// Why a watch ended. All but `Closed` are cured by a new one: from the last revision seen after
/// `Lagged`, from a new list after `Compacted` and `Damaged`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    #[error("the revision is compacted; the oldest one is {oldest}")]
    Compacted { oldest: Revision },
    #[error("the watcher is slower than the changes; it was cut off")]
    Lagged,
    #[error("cannot read the database: {0}")]
    Database(String),
    /// A change, or what was before it, cannot be read. What stands now may be sound.
    #[error("could not read a change: {0}")]
    Damaged(String),
    #[error("the store is closed")]
    Closed,
}

impl From<StoreReadError> for WatchError {
    fn from(error: StoreReadError) -> Self {
        match error {
            StoreReadError::Compacted { oldest } => Self::Compacted { oldest },
            StoreReadError::Database(text) => Self::Database(text),
            StoreReadError::Damaged(_) | StoreReadError::Broken { .. } | StoreReadError::Structure(_) => {
                Self::Damaged(error.to_string())
            }
            StoreReadError::Future { .. } | StoreReadError::Closed => Self::Closed,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("cannot write the copy {path}")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot copy the database")]
    Database(#[source] rusqlite::Error),
    #[error("a store in memory has no file to copy")]
    InMemory,
}

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("this is no database of a Firesteel store")]
    NotOurs,
    #[error("the backup's database has schema {found}, this program knows up to {known}: use a newer program")]
    Schema { found: i64, known: i64 },
    #[error("the backup's database is damaged: {what}")]
    Damaged { what: String },
    #[error("cannot use the backup's database")]
    Database {
        #[source]
        source: rusqlite::Error,
    },
    #[error("cannot write the restored database to disk")]
    Sync {
        #[source]
        source: io::Error,
    },
}

impl Op {
    /// Where the object stands if the change may be made to one that stands at `current`; zero if it does
    /// not exist.
    pub(crate) fn check(&self, current: Option<Revision>) -> Result<Revision, CommitError> {
        let key = || self.key().clone();
        match (self, current) {
            (Self::Create { .. }, None) => Ok(Revision(0)),
            (Self::Create { .. }, Some(current)) => Err(CommitError::Exists { key: key(), current }),
            (Self::Update { .. } | Self::Delete { .. }, None) => Err(CommitError::NotFound { key: key() }),
            (Self::Update { expected, .. } | Self::Delete { expected, .. }, Some(current)) if *expected == current => {
                Ok(current)
            }
            (Self::Update { .. } | Self::Delete { .. }, Some(current)) => {
                Err(CommitError::Conflict { key: key(), current })
            }
        }
    }
}

impl WritePrecondition {
    /// Whether it holds for an object that stands at `current`.
    pub(crate) fn check(&self, current: Option<Revision>) -> Result<(), CommitError> {
        let holds = match self {
            Self::Absent(_) => current.is_none(),
            Self::Present(_) => current.is_some(),
            Self::At(_, expected) => current == Some(*expected),
        };
        if holds { Ok(()) } else { Err(CommitError::Guard { key: self.key().clone(), current }) }
    }
}

/// Whether an error says that the disk is full: also where that came out when the index of the log grew.
pub fn disk_is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || error.sqlite_extended_error_code() == Some(ffi::SQLITE_IOERR_SHMSIZE)
}

/// Whether the disk is full while the files beside the database are made.
pub fn disk_is_full_at_start(error: &rusqlite::Error) -> bool {
    disk_is_full(error) || error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}
