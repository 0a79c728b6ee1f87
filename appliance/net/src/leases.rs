//! Leases on disk: a database of their own, so that nothing else delays an ACK.
//!
//! One thread owns the connection. Commits that arrive while it writes go into the next transaction together (group
//! commit); each is answered by its number once it is durable. It must not know why a lease was granted.
//!
//! When room is short, leases of strangers are not written; those of hosts may use the folder's reserve.

mod writer;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use firesteel_dhcp::{CommitId, LEASES_MAX, Lease, LeaseChange, QuarantinedAddress};
use firesteel_facts::Mac;
use firesteel_store::{Durability, HighWater, ReserveUse, StoreRoom, disk_is_full_at_start, file_is_damaged};
use jiff::Timestamp;
use rusqlite::Connection;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use writer::LeaseWriter;

/// The size of the connection's page cache, in KiB.
const CACHE_KIB: usize = 2048;
/// The size of the connection's page cache, in bytes.
pub const CACHE_BYTES: usize = CACHE_KIB * 1024;
/// How long to wait while a person reads the database from outside.
const PATIENCE: Duration = Duration::from_secs(5);
const SCHEMA_VERSION: i64 = 1;
const SCHEMA: &str = "
    CREATE TABLE lease (
        mac BLOB PRIMARY KEY,
        address INTEGER NOT NULL UNIQUE,
        expires_ms INTEGER NOT NULL,
        hostname TEXT
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE rest (
        address INTEGER PRIMARY KEY,
        until_ms INTEGER NOT NULL
    ) STRICT;
    PRAGMA user_version = 1;
";

/// What failed in the lease database.
#[derive(Debug, thiserror::Error)]
pub enum LeaseStoreError {
    #[error("could not open the lease database {path}")]
    Open { path: String, source: rusqlite::Error },
    #[error("the lease database {path} has version {found}; this program knows {SCHEMA_VERSION}")]
    Version { path: String, found: i64 },
    #[error("could not read the leases from {path}")]
    Read { path: String, source: rusqlite::Error },
    #[error("could not start the thread of the lease database")]
    Thread(#[source] std::io::Error),
}

/// The file of a lease database, and how it is written.
#[derive(Clone, Debug)]
pub struct LeaseFile<'a> {
    pub path: &'a Path,
    pub durability: Durability,
    /// The room of the folder, if the caller watches it.
    pub room: Option<Arc<StoreRoom>>,
}

impl<'a> LeaseFile<'a> {
    /// Describes a file whose leases survive a power cut, in a folder whose room is not watched.
    #[must_use]
    pub fn new(path: &'a Path) -> Self {
        Self { path, durability: Durability::PowerCut, room: None }
    }
}

/// The contents of the database at the start.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LoadedLeases {
    pub leases: Vec<Lease>,
    pub rests: Vec<QuarantinedAddress>,
}

struct LeaseCommit {
    id: CommitId,
    changes: Vec<LeaseChange>,
    spending: ReserveUse,
}

impl LeaseStoreError {
    /// Tells whether the file no longer holds what was written to it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Open { source, .. } | Self::Read { source, .. } => file_is_damaged(source),
            Self::Version { .. } | Self::Thread(_) => false,
        }
    }
}

/// A handle of the thread that owns the database.
#[derive(Debug)]
pub struct LeaseStore {
    jobs: mpsc::Sender<LeaseCommit>,
    done: UnboundedReceiver<(CommitId, bool)>,
}

impl LeaseStore {
    /// Opens the database, or makes it, and reads it.
    pub fn open(file: LeaseFile<'_>, now: Timestamp) -> Result<(Self, LoadedLeases), LeaseStoreError> {
        let LeaseFile { path, durability, room } = file;
        let connection = loop {
            match connect(path, durability) {
                Err(LeaseStoreError::Open { source, .. })
                    if disk_is_full_at_start(&source) && room.as_ref().is_some_and(|room| room.release_for_start()) => {
                }
                opened => break opened?,
            }
        };
        let read = |source| LeaseStoreError::Read { path: path.display().to_string(), source };
        let loaded = load(&connection, now).map_err(read)?;
        let water = HighWater::of(path, &connection, PATIENCE, room.clone()).map_err(read)?;
        let (jobs, queue) = mpsc::channel();
        let (answers, done) = unbounded_channel();
        std::thread::Builder::new()
            .name("leases".into())
            .spawn(move || LeaseWriter { connection, room, water }.run(&queue, &answers))
            .map_err(LeaseStoreError::Thread)?;
        Ok((Self { jobs, done }, loaded))
    }

    /// Reads the database, where there is one, and closes it. Nothing else may have it open.
    pub fn read_stored(file: &LeaseFile<'_>, now: Timestamp) -> Result<LoadedLeases, LeaseStoreError> {
        if !file.path.exists() {
            return Ok(LoadedLeases::default());
        }
        let read = |source| LeaseStoreError::Read { path: file.path.display().to_string(), source };
        load(&connect(file.path, file.durability)?, now).map_err(read)
    }

    /// Queues the changes; [`LeaseStore::done`] reports when they are durable. The engine bounds how many are under
    /// way. Returns false if the thread has ended.
    pub fn commit(&self, id: CommitId, changes: Vec<LeaseChange>, spending: ReserveUse) -> bool {
        self.jobs.send(LeaseCommit { id, changes, spending }).is_ok()
    }

    /// Ends the thread once all queued changes are written, and waits until the file is closed.
    pub async fn close(self) {
        let Self { jobs, mut done } = self;
        drop(jobs);
        while done.recv().await.is_some() {}
    }

    /// Waits for the next commit that is durable, or failed; `None` if the thread has ended.
    pub async fn done(&mut self) -> Option<(CommitId, bool)> {
        self.done.recv().await
    }
}

fn connect(path: &Path, durability: Durability) -> Result<Connection, LeaseStoreError> {
    let open = |source| LeaseStoreError::Open { path: path.display().to_string(), source };
    let connection = Connection::open(path).map_err(open)?;
    // Exclusive: a second server with the same leases would hand out the same addresses.
    let synchronous = durability.synchronous();
    connection
        .execute_batch(&format!(
            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};
             PRAGMA cache_size = -{CACHE_KIB};"
        ))
        .map_err(open)?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(open)?;
    match version {
        0 => connection.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;")).map_err(open)?,
        SCHEMA_VERSION => {}
        found => return Err(LeaseStoreError::Version { path: path.display().to_string(), found }),
    }
    Ok(connection)
}

fn load(connection: &Connection, now: Timestamp) -> rusqlite::Result<LoadedLeases> {
    let now_ms = now.as_millisecond();
    // They are not read in any case, so the start does not fail if this does.
    if let Err(error) = connection.execute("DELETE FROM rest WHERE until_ms <= ?1", [now_ms]) {
        tracing::warn!(%error, "could not remove ended rests from the lease database; the next start tries it again");
    }
    let mut loaded = LoadedLeases::default();
    let mut leases =
        connection.prepare("SELECT mac, address, expires_ms, hostname FROM lease ORDER BY expires_ms DESC LIMIT ?1")?;
    let rows = leases.query_map([i64::try_from(LEASES_MAX).unwrap_or(i64::MAX)], |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, u32>(1)?, row.get::<_, i64>(2)?, row.get(3)?))
    })?;
    for row in rows {
        let (mac, address, expires_ms, hostname) = row?;
        let (Ok(mac), Ok(expires_at)) = (<[u8; 6]>::try_from(mac), Timestamp::from_millisecond(expires_ms)) else {
            tracing::warn!("could not read a row of the lease database: it is left out");
            continue;
        };
        loaded.leases.push(Lease { mac: Mac(mac), address: Ipv4Addr::from(address), expires_at, hostname });
    }
    let mut rests = connection.prepare("SELECT address, until_ms FROM rest WHERE until_ms > ?1")?;
    for row in rests.query_map([now_ms], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?)))? {
        let (address, until_ms) = row?;
        if let Ok(until) = Timestamp::from_millisecond(until_ms) {
            loaded.rests.push(QuarantinedAddress { address: Ipv4Addr::from(address), until });
        }
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn lease(number: u8, last: u8) -> Lease {
        Lease {
            mac: Mac([2, 0, 0, 0, 0, number]),
            address: Ipv4Addr::new(10, 0, 0, last),
            expires_at: at(600),
            hostname: (number == 1).then(|| "one".to_owned()),
        }
    }

    /// Commits, waits for the answers, closes, and returns what another start would load.
    async fn run(path: &Path, jobs: Vec<Vec<LeaseChange>>) -> LoadedLeases {
        let (mut store, _) = LeaseStore::open(LeaseFile::new(path), at(0)).unwrap();
        let count = jobs.len();
        for (changes, id) in jobs.into_iter().zip(1..) {
            assert!(store.commit(CommitId(id), changes, ReserveUse::Ordinary));
        }
        for id in 1..=count {
            assert_eq!(store.done().await, Some((CommitId(id as u64), true)));
        }
        let LeaseStore { jobs, mut done } = store;
        drop(jobs);
        assert_eq!(done.recv().await, None, "the thread ends and closes the database");
        LeaseStore::open(LeaseFile::new(path), at(0)).unwrap().1
    }

    #[tokio::test]
    async fn what_was_committed_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let rest = QuarantinedAddress { address: Ipv4Addr::new(10, 0, 0, 99), until: at(60) };
        let jobs = vec![
            vec![LeaseChange::Keep(lease(1, 10))],
            vec![LeaseChange::Keep(lease(2, 11)), LeaseChange::Rest(rest)],
            vec![LeaseChange::Keep(lease(3, 12))],
            vec![LeaseChange::Forget(Mac([2, 0, 0, 0, 0, 3]))],
        ];
        let mut found = run(&path, jobs).await;
        found.leases.sort_by_key(|lease| lease.mac);
        assert_eq!(found, LoadedLeases { leases: vec![lease(1, 10), lease(2, 11)], rests: vec![rest] });
    }

    #[tokio::test]
    async fn a_lease_replaces_its_clients_and_its_addresss_former_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let jobs = [lease(1, 10), lease(2, 11), lease(1, 11)].map(|lease| vec![LeaseChange::Keep(lease)]);
        assert_eq!(run(&path, jobs.into()).await.leases, [lease(1, 11)]);
    }

    /// The pool was empty, and the address was assigned before its time.
    #[tokio::test]
    async fn a_lease_ends_the_rest_of_its_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let rest = |last| QuarantinedAddress { address: Ipv4Addr::new(10, 0, 0, last), until: at(60) };
        let jobs =
            vec![vec![LeaseChange::Rest(rest(10)), LeaseChange::Rest(rest(11))], vec![LeaseChange::Keep(lease(1, 10))]];
        assert_eq!(run(&path, jobs).await, LoadedLeases { leases: vec![lease(1, 10)], rests: vec![rest(11)] });
    }

    #[tokio::test]
    async fn a_rest_that_is_over_is_not_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let over = QuarantinedAddress { address: Ipv4Addr::new(10, 0, 0, 99), until: at(0) };
        assert_eq!(run(&path, vec![vec![LeaseChange::Rest(over)]]).await, LoadedLeases::default());
    }

    /// Strangers get nothing when room is short; hosts do, to the last byte.
    #[tokio::test]
    async fn on_a_full_disk_leases_are_written_for_hosts_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let look = || Ok(firesteel_store::DiskBytes { free: 0, total: 48 << 20 });
        let room = Arc::new(StoreRoom::open(&folder.path().join("reserve"), Box::new(look)));
        let (mut store, _) =
            LeaseStore::open(LeaseFile { path: &path, durability: Durability::Nothing, room: Some(room) }, at(0))
                .unwrap();
        for (number, spending) in [(1, ReserveUse::Ordinary), (2, ReserveUse::Reserved), (3, ReserveUse::Ordinary)] {
            let changes = vec![LeaseChange::Keep(lease(number, 10 + number))];
            assert!(store.commit(CommitId(number.into()), changes, spending));
        }
        let mut answers = Vec::new();
        while answers.len() < 3 {
            answers.extend(store.done().await);
        }
        answers.sort();
        assert_eq!(answers, [(CommitId(1), false), (CommitId(2), true), (CommitId(3), false)]);
        let LeaseStore { jobs, mut done } = store;
        drop(jobs);
        assert_eq!(done.recv().await, None);
        assert_eq!(LeaseStore::open(LeaseFile::new(&path), at(0)).unwrap().1.leases, [lease(2, 12)]);
    }

    #[tokio::test]
    async fn a_second_server_cannot_share_the_leases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let (_store, _) = LeaseStore::open(LeaseFile::new(&path), at(0)).unwrap();
        assert!(LeaseStore::open(LeaseFile::new(&path), at(0)).is_err());
    }

    #[test]
    fn a_database_of_the_future_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
        assert!(matches!(
            LeaseStore::open(LeaseFile::new(&path), at(0)),
            Err(LeaseStoreError::Version { found: 2, .. })
        ));
    }
}
