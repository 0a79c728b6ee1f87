//! How long a database's write-ahead log may get. SQLite takes it into the database by itself and then writes it from
//! its beginning, but not while a reader uses what is in it: with readers all the time it would grow without end.
//!
//! While the disk, with the reserve, has less room than the database would grow by, the log stays as it is: a part of
//! it that is put in its place takes the last free room and gives none back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::store_room::StoreRoom;

/// A log that is longer is taken into the database and cut.
pub const LOG_BYTES_MAX: u64 = 8 << 20;
/// What stays of a log's file when it is written from its beginning again.
const LOG_BYTES_KEPT: u64 = 4 << 20;
/// How long readers are waited for. A read takes milliseconds; a backup is read from for longer, and waited for in
/// vain.
const READERS_MAX: Duration = Duration::from_millis(200);
/// Time before it is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// Pages of a log from which on SQLite takes it into the database by itself: its usual number.
const PAGES_TAKEN: i64 = 1000;

/// Watches the log of one database. The only writer asks it after each transaction.
#[derive(Debug)]
pub struct HighWater {
    log: PathBuf,
    bytes_max: u64,
    /// How long writes of others are waited for, which is set again afterwards.
    patience: Duration,
    failed_at: Option<Instant>,
    /// Without, the disk is not looked at.
    room: Option<Arc<StoreRoom>>,
    /// SQLite takes the log into the database by itself.
    is_taken: bool,
}

impl HighWater {
    /// Has the connection keep a short file, too.
    ///
    /// # Errors
    /// When the database refuses the setting.
    pub fn of(
        database: &Path,
        connection: &Connection,
        patience: Duration,
        room: Option<Arc<StoreRoom>>,
    ) -> rusqlite::Result<Self> {
        let kept = i64::try_from(LOG_BYTES_KEPT).unwrap_or(i64::MAX);
        connection.pragma_update(None, "journal_size_limit", kept)?;
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let log = log.into();
        Ok(Self { log, bytes_max: LOG_BYTES_MAX, patience, failed_at: None, room, is_taken: true })
    }

    /// Has SQLite take the log into the database where there is room for that; to be asked before a transaction.
    ///
    /// # Errors
    /// When the database refuses the setting.
    pub fn look(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let is_taken = self.room.as_ref().is_none_or(|room| room.can_grow(pending_pages(connection)));
        if is_taken != self.is_taken {
            connection.pragma_update(None, "wal_autocheckpoint", if is_taken { PAGES_TAKEN } else { 0 })?;
            self.is_taken = is_taken;
        }
        Ok(())
    }

    /// Takes the log into the database and cuts it, if it is too long.
    pub fn keep(&mut self, connection: &Connection) {
        let has_room = || self.room.as_ref().is_none_or(|room| room.let_grow(pending_pages(connection)));
        if self.waiting_time().is_zero() || !self.is_exceeded() || !has_room() {
            return;
        }
        if let Err(error) = self.cut(connection, READERS_MAX) {
            tracing::warn!(
                %error, log = %self.log.display(),
                "could not cut the database's log; trying again in {} s", AGAIN.as_secs()
            );
        }
    }

    /// Takes the log into the database and cuts it. It waits for readers for as long as `most` at most, but not right
    /// after others were waited for in vain. Returns whether the log was cut: not while a reader stays.
    ///
    /// # Errors
    /// When the database cannot put the log in its place.
    pub(crate) fn cut(&mut self, connection: &Connection, most: Duration) -> rusqlite::Result<bool> {
        let wait = self.waiting_time().min(most);
        let cut = cut_log(connection, wait, self.patience);
        match &cut {
            Ok(true) => self.failed_at = None,
            Ok(false) | Err(_) if !wait.is_zero() => self.failed_at = Some(Instant::now()),
            Ok(false) | Err(_) => {}
        }
        cut
    }

    /// How long readers are waited for now.
    fn waiting_time(&self) -> Duration {
        if self.failed_at.is_none_or(|at| at.elapsed() >= AGAIN) { READERS_MAX } else { Duration::ZERO }
    }

    fn is_exceeded(&self) -> bool {
        std::fs::metadata(&self.log).is_ok_and(|log| log.len() > self.bytes_max)
    }
}

/// Takes the log into the database and cuts its file. Readers are waited for as long as `wait`; afterwards the
/// connection waits as it usually does. Returns whether it was cut: not while a reader stays.
pub(crate) fn cut_log(connection: &Connection, wait: Duration, usual: Duration) -> rusqlite::Result<bool> {
    connection.busy_timeout(wait)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    connection.busy_timeout(usual)?;
    busy.map(|busy| !busy)
}

/// Pages by which the file grows when the log is put in its place.
pub(crate) fn pending_pages(connection: &Connection) -> u64 {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap_or(0);
    let pages = u64::try_from(number("page_count").saturating_mul(number("page_size"))).unwrap_or(0);
    let file = connection.path().and_then(|path| std::fs::metadata(path).ok()).map_or(0, |found| found.len());
    pages.saturating_sub(file)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::store_room::DiskBytes;

    /// A reader that stays keeps SQLite from writing the log from its beginning.
    #[test]
    fn a_log_that_grew_under_a_reader_is_cut_when_the_reader_went() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(x)").unwrap();
        let mut water = HighWater::of(&path, &writer, Duration::from_secs(1), None).unwrap();
        water.bytes_max = 64 << 10;
        let length = || std::fs::metadata(folder.path().join("x.db-wal")).map_or(0, |log| log.len());
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN").unwrap();
        let _: i64 = reader.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        for _ in 0..40 {
            writer.execute("INSERT INTO t VALUES (zeroblob(20000))", []).unwrap();
        }
        water.keep(&writer);
        assert!(water.failed_at.is_some() && length() > 64 << 10, "{}", length());
        reader.execute_batch("COMMIT").unwrap();
        water.keep(&writer);
        assert!(length() > 64 << 10, "not at once again");
        water.failed_at = None;
        water.keep(&writer);
        assert_eq!((length(), water.failed_at), (0, None));
    }

    /// What is free is left to changes: nothing of the log is put in its place until all of it has room.
    #[test]
    fn a_log_that_has_no_room_in_the_database_takes_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let free = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let seen = Arc::clone(&free);
        let look = move || -> std::io::Result<DiskBytes> {
            Ok(DiskBytes { free: seen.load(std::sync::atomic::Ordering::Relaxed), total: 48 << 20 })
        };
        let room = Arc::new(StoreRoom::open(&folder.path().join("reserve"), Box::new(look)));
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(x)").unwrap();
        cut_log(&writer, Duration::ZERO, Duration::ZERO).unwrap();
        let before = std::fs::metadata(&path).unwrap().len();
        let mut water = HighWater::of(&path, &writer, Duration::from_secs(1), Some(room)).unwrap();
        water.bytes_max = 64 << 10;
        writer.execute("INSERT INTO t VALUES (zeroblob(20000))", []).unwrap();
        for _ in 0..300 {
            water.look(&writer).unwrap();
            writer.execute("INSERT INTO t VALUES (zeroblob(20000))", []).unwrap();
            water.keep(&writer);
        }
        assert_eq!((std::fs::metadata(&path).unwrap().len(), water.failed_at), (before, None));
        free.store(pending_pages(&writer), std::sync::atomic::Ordering::Relaxed);
        water.keep(&writer);
        assert!(std::fs::metadata(&path).unwrap().len() > 5 << 20, "it is in its place");
    }
}
