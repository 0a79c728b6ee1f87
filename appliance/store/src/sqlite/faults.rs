//! What a failure of the database says: about its file, about the disk, and to people.

use crate::error::disk_is_full;

/// What happened, and what to do where that is known.
pub(super) fn in_words(error: &rusqlite::Error) -> String {
    if disk_is_full(error) {
        return format!("{error}; free space on the disk of the data folder");
    }
    if is_structural(error) {
        return format!("{error}; the file is damaged: stop the appliance and restore a backup");
    }
    error.to_string()
}

/// Whether the file is not as SQLite wrote it, or the disk does not give it. What it does not take is another matter.
pub(super) fn is_structural(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{self, FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, Unknown};
    use rusqlite::ffi::{SQLITE_IOERR_CORRUPTFS, SQLITE_IOERR_DATA, SQLITE_IOERR_READ, SQLITE_IOERR_SHORT_READ};
    let unread = [SQLITE_IOERR_CORRUPTFS, SQLITE_IOERR_DATA, SQLITE_IOERR_READ, SQLITE_IOERR_SHORT_READ];
    // `Unknown` is a statement that does not fit the tables: statements are always the same.
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase | Unknown))
        || error.sqlite_extended_error_code().is_some_and(|code| unread.contains(&code))
        // A column of a type, or a text of bytes, that was never written.
        || matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..))
        // A statement that names a column that is not there any more.
        || matches!(error, Error::Utf8Error(..) | Error::SqlInputError { .. })
}

/// Whether an error says that a database's file is not what was written to it.
pub fn file_is_damaged(error: &rusqlite::Error) -> bool {
    is_structural(error)
}
