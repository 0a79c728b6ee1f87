//! How long a database's write-ahead log may get. SQLite takes it into the database by itself and then writes it from
//! its beginning, but not while a reader uses what is in it: with readers all the time it would grow without end.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// A log that is longer is taken into the database and cut.
pub const LOG_BYTES_MAX: u64 = 8 << 20;
/// What stays of a log's file when it is written from its beginning again.
const LOG_BYTES_KEPT: u64 = 4 << 20;
/// How long readers are waited for. A read takes milliseconds; a backup is read from for longer, and waited for in vain.
const READERS_MAX: Duration = Duration::from_millis(200);
/// Before it is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Watches the log of one database. The only writer asks it after each transaction.
#[derive(Debug)]
pub struct HighWater {
    log: PathBuf,
    bytes_max: u64,
    /// How long writes of others are waited for, which is set again afterwards.
    patience: Duration,
    failed_at: Option<Instant>,
}

impl HighWater {
    /// Has the connection keep a short file, too.
    ///
    /// # Errors
    /// When the database refuses the setting.
    pub fn of(database: &Path, connection: &Connection, patience: Duration) -> rusqlite::Result<Self> {
        let kept = i64::try_from(LOG_BYTES_KEPT).unwrap_or(i64::MAX);
        connection.pragma_update(None, "journal_size_limit", kept)?;
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        Ok(Self { log: log.into(), bytes_max: LOG_BYTES_MAX, patience, failed_at: None })
    }

    /// Takes the log into the database and cuts it, if it is too long.
    pub fn keep(&mut self, connection: &Connection) {
        let is_due = self.failed_at.is_none_or(|at| at.elapsed() >= AGAIN);
        if !is_due || !self.is_exceeded() {
            return;
        }
        self.failed_at = match cut_log(connection, READERS_MAX, self.patience) {
            Ok(true) => None,
            Ok(false) => Some(Instant::now()),
            Err(error) => {
                tracing::warn!(
                    %error, log = %self.log.display(),
                    "could not cut the database's log; trying again in {} s", AGAIN.as_secs()
                );
                Some(Instant::now())
            }
        };
    }

    fn is_exceeded(&self) -> bool {
        std::fs::metadata(&self.log).is_ok_and(|log| log.len() > self.bytes_max)
    }
}

/// Takes the log into the database and cuts its file. Readers are waited for as long as `wait`; afterwards the
/// connection waits as it usually does. Whether it was cut: not while a reader stays.
pub(crate) fn cut_log(connection: &Connection, wait: Duration, usual: Duration) -> rusqlite::Result<bool> {
    connection.busy_timeout(wait)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    connection.busy_timeout(usual)?;
    busy.map(|busy| !busy)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// A reader that stays keeps SQLite from writing the log from its beginning.
    #[test]
    fn a_log_that_grew_under_a_reader_is_cut_when_the_reader_went() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(x)").unwrap();
        let mut water = HighWater::of(&path, &writer, Duration::from_secs(1)).unwrap();
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
}
