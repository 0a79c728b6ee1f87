//! How the writer's caller watches it and stops it.

/// Asked between pieces of work of a few MiB, always from the thread that called the writer.
pub trait Control {
    /// Takes the progress; may block for as long as the work must pause; an error stops the work
    /// at this safe point.
    fn checkpoint(&self, progress: Progress) -> Result<(), Aborted>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub phase: Phase,
    pub done_bytes: u64,
    pub total_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Zeroing old tables and signatures, and reading the zeros back.
    Clearing,
    Writing,
    ReadingBack,
    /// Writing what makes the disk bootable, and reading that back.
    Completing,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Phase::Clearing => "clearing old signatures",
            Phase::Writing => "writing",
            Phase::ReadingBack => "reading back",
            Phase::Completing => "completing the partition table",
        })
    }
}

/// The caller wants the work to stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped: {reason}")]
pub struct Aborted {
    pub reason: String,
}

/// Watches nothing and never stops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Control for Unattended {
    fn checkpoint(&self, _progress: Progress) -> Result<(), Aborted> {
        Ok(())
    }
}
