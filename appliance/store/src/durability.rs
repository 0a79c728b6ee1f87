//! What a commit outlives.

/// How far a commit has gone when it is acknowledged.
///
/// [`Durability::PowerCut`] is the only one that keeps the appliance's promise, and nothing that a
/// user can set changes it. The others are there for the tests that watch the promise from outside
/// (system calls), so that they can be seen to fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// On the disk: the disk was told to keep it, and said that it does.
    #[default]
    PowerCut,
    /// With the kernel; the disk is told at a checkpoint only.
    ProcessDeath,
    /// With the kernel; the disk is never told.
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
