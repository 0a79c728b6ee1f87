//! Leases on disk: a database of their own, so that nothing else delays an ACK.
//!
//! One thread owns the connection. Commits that queue up while it writes go into the next
//! transaction together (group commit); each is answered by its number once it is durable.
//! It must not know why a lease was granted.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::mpsc;

use firesteel_dhcp::{CommitId, LEASES_MAX, Lease, LeaseChange, Mac, Rest};
use firesteel_store::Durability;
use jiff::Timestamp;
use rusqlite::{Connection, Transaction, params};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Commits in one transaction; more would make the first of them wait for the last.
const BATCH_MAX: usize = 256;
/// Pages that the connection keeps, in KiB.
const CACHE_KIB: usize = 2048;
/// The same in bytes.
pub const CACHE_BYTES: usize = CACHE_KIB * 1024;
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

/// What failed with the lease database.
#[derive(Debug, thiserror::Error)]
pub enum LeaseStoreError {
    #[error("opening the lease database {path}")]
    Open { path: String, source: rusqlite::Error },
    #[error("the lease database {path} has version {found}; this program knows {SCHEMA_VERSION}")]
    Version { path: String, found: i64 },
    #[error("reading the leases from {path}")]
    Read { path: String, source: rusqlite::Error },
    #[error("starting the thread of the lease database")]
    Thread(#[source] std::io::Error),
}

/// What was on disk at start.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    pub leases: Vec<Lease>,
    pub rests: Vec<Rest>,
}

type Job = (CommitId, Vec<LeaseChange>);

/// The way to the thread that owns the database.
#[derive(Debug)]
pub struct LeaseStore {
    jobs: mpsc::Sender<Job>,
    done: UnboundedReceiver<(CommitId, bool)>,
}

impl LeaseStore {
    /// Opens or makes the database and reads it.
    pub fn open(path: &Path, now: Timestamp) -> Result<(Self, Loaded), LeaseStoreError> {
        Self::open_with(path, Durability::PowerCut, now)
    }

    /// The same with another durability; see there who may want that.
    pub fn open_with(path: &Path, durability: Durability, now: Timestamp) -> Result<(Self, Loaded), LeaseStoreError> {
        let mut connection = connect(path, durability)?;
        let read = |source| LeaseStoreError::Read { path: path.display().to_string(), source };
        let loaded = load(&mut connection, now).map_err(read)?;
        let (jobs, queue) = mpsc::channel();
        let (answers, done) = unbounded_channel();
        std::thread::Builder::new()
            .name("leases".into())
            .spawn(move || write_all(&mut connection, &queue, &answers))
            .map_err(LeaseStoreError::Thread)?;
        Ok((Self { jobs, done }, loaded))
    }

    /// Queues the changes; [`LeaseStore::done`] tells when they are durable. The engine bounds how
    /// many are on the way. False: the thread is gone.
    pub fn commit(&self, id: CommitId, changes: Vec<LeaseChange>) -> bool {
        self.jobs.send((id, changes)).is_ok()
    }

    /// The next commit that is durable, or failed. `None`: the thread is gone.
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

fn load(connection: &mut Connection, now: Timestamp) -> rusqlite::Result<Loaded> {
    connection.execute("DELETE FROM rest WHERE until_ms <= ?1", [now.as_millisecond()])?;
    let mut loaded = Loaded::default();
    let mut leases =
        connection.prepare("SELECT mac, address, expires_ms, hostname FROM lease ORDER BY expires_ms DESC LIMIT ?1")?;
    let rows = leases.query_map([i64::try_from(LEASES_MAX).unwrap_or(i64::MAX)], |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, u32>(1)?, row.get::<_, i64>(2)?, row.get(3)?))
    })?;
    for row in rows {
        let (mac, address, expires_ms, hostname) = row?;
        let (Ok(mac), Ok(expires_at)) = (<[u8; 6]>::try_from(mac), Timestamp::from_millisecond(expires_ms)) else {
            tracing::warn!("a row of the lease database is no lease and is left out");
            continue;
        };
        loaded.leases.push(Lease { mac: Mac(mac), address: Ipv4Addr::from(address), expires_at, hostname });
    }
    let mut rests = connection.prepare("SELECT address, until_ms FROM rest")?;
    for row in rests.query_map([], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?)))? {
        let (address, until_ms) = row?;
        if let Ok(until) = Timestamp::from_millisecond(until_ms) {
            loaded.rests.push(Rest { address: Ipv4Addr::from(address), until });
        }
    }
    Ok(loaded)
}

/// Runs until the other side is gone.
fn write_all(connection: &mut Connection, queue: &mpsc::Receiver<Job>, answers: &UnboundedSender<(CommitId, bool)>) {
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(BATCH_MAX - 1));
        let ok = match write_batch(connection, &batch) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, leases = batch.len(), "leases could not be written, so none of these is granted");
                false
            }
        };
        for (id, _) in batch {
            if answers.send((id, ok)).is_err() {
                return;
            }
        }
    }
}

fn write_batch(connection: &mut Connection, batch: &[Job]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for change in batch.iter().flat_map(|(_, changes)| changes) {
        write(&transaction, change)?;
    }
    transaction.commit()
}

fn write(transaction: &Transaction<'_>, change: &LeaseChange) -> rusqlite::Result<()> {
    match change {
        // Replaces the row of this client and the row of this address, as `Keep` wants it.
        LeaseChange::Keep(lease) => {
            let address = u32::from(lease.address);
            transaction.prepare_cached("DELETE FROM rest WHERE address = ?1")?.execute(params![address])?;
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO lease (mac, address, expires_ms, hostname) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![lease.mac.0, address, lease.expires_at.as_millisecond(), lease.hostname])?
        }
        LeaseChange::Forget(mac) => {
            transaction.prepare_cached("DELETE FROM lease WHERE mac = ?1")?.execute(params![mac.0])?
        }
        LeaseChange::Rest(rest) => transaction
            .prepare_cached("INSERT OR REPLACE INTO rest (address, until_ms) VALUES (?1, ?2)")?
            .execute(params![u32::from(rest.address), rest.until.as_millisecond()])?,
    };
    Ok(())
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

    /// Commits, waits for the answers, closes, and tells what another start would find.
    async fn run(path: &Path, jobs: Vec<Vec<LeaseChange>>) -> Loaded {
        let (mut store, _) = LeaseStore::open(path, at(0)).unwrap();
        let count = jobs.len();
        for (changes, id) in jobs.into_iter().zip(1..) {
            assert!(store.commit(CommitId(id), changes));
        }
        for id in 1..=count {
            assert_eq!(store.done().await, Some((CommitId(id as u64), true)));
        }
        let LeaseStore { jobs, mut done } = store;
        drop(jobs);
        assert_eq!(done.recv().await, None, "the thread ends and closes the database");
        LeaseStore::open(path, at(0)).unwrap().1
    }

    #[tokio::test]
    async fn what_was_committed_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let rest = Rest { address: Ipv4Addr::new(10, 0, 0, 99), until: at(60) };
        let jobs = vec![
            vec![LeaseChange::Keep(lease(1, 10))],
            vec![LeaseChange::Keep(lease(2, 11)), LeaseChange::Rest(rest)],
            vec![LeaseChange::Keep(lease(3, 12))],
            vec![LeaseChange::Forget(Mac([2, 0, 0, 0, 0, 3]))],
        ];
        let mut found = run(&path, jobs).await;
        found.leases.sort_by_key(|lease| lease.mac);
        assert_eq!(found, Loaded { leases: vec![lease(1, 10), lease(2, 11)], rests: vec![rest] });
    }

    #[tokio::test]
    async fn a_lease_replaces_its_clients_and_its_addresss_former_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let jobs = [lease(1, 10), lease(2, 11), lease(1, 11)].map(|lease| vec![LeaseChange::Keep(lease)]);
        assert_eq!(run(&path, jobs.into()).await.leases, [lease(1, 11)]);
    }

    /// The pool was empty, and the address was given out before its time.
    #[tokio::test]
    async fn a_lease_ends_the_rest_of_its_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let rest = |last| Rest { address: Ipv4Addr::new(10, 0, 0, last), until: at(60) };
        let jobs =
            vec![vec![LeaseChange::Rest(rest(10)), LeaseChange::Rest(rest(11))], vec![LeaseChange::Keep(lease(1, 10))]];
        assert_eq!(run(&path, jobs).await, Loaded { leases: vec![lease(1, 10)], rests: vec![rest(11)] });
    }

    #[tokio::test]
    async fn a_rest_that_is_over_is_not_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let over = Rest { address: Ipv4Addr::new(10, 0, 0, 99), until: at(0) };
        assert_eq!(run(&path, vec![vec![LeaseChange::Rest(over)]]).await, Loaded::default());
    }

    #[tokio::test]
    async fn a_second_server_cannot_share_the_leases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        let (_store, _) = LeaseStore::open(&path, at(0)).unwrap();
        assert!(LeaseStore::open(&path, at(0)).is_err());
    }

    #[test]
    fn a_database_of_the_future_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.db");
        Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
        assert!(matches!(LeaseStore::open(&path, at(0)), Err(LeaseStoreError::Version { found: 2, .. })));
    }
}
