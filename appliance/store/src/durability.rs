//! What a commit outlives.

/// How far a commit has gone when it is acknowledged.
///
/// [`Durability::PowerCut`] is the only one that keeps the appliance's promise, and nothing that a
/// user can set changes it. The others are there for the tests that watch the promise from outside
/// (system calls), so that they can be seen to fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The change is on the disk, which was flushed and confirmed it.
    #[default]
    PowerCut,
    /// The change is with the kernel; the disk is flushed at a checkpoint only.
    ProcessDeath,
    /// The change is with the kernel; the disk is never flushed.
    Nothing,
}

impl Durability {
    /// SQLite's name for it, the value of `PRAGMA synchronous` in WAL mode.
    #[must_use]
    pub const fn synchronous(self) -> &'static str {
        match self {
            Self::PowerCut => "FULL",
            Self::ProcessDeath => "NORMAL",
            Self::Nothing => "OFF",
        }
    }
}
