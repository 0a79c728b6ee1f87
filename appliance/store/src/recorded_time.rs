//! What the store records of time.
//!
//! The store has no clock. Its caller says what time it is, and how long the store has been in use; both
//! are kept beside the objects, in backups too, so that the next start can tell whether its clock may be right.

/// Times that stand in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedTime {
    /// The newest time by the clock on the wall, in Unix milliseconds. Zero: none was recorded yet.
    pub newest_ms: i64,
    /// How long the store has been in use, in milliseconds. It goes on with the process and no clock moves it.
    pub age_ms: i64,
}
