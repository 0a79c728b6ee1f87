//! How the writer's caller watches it and stops it.

/// The control that is asked between pieces of work of a few MiB, always from the thread that called the writer.
pub trait WriteControl {
    /// Takes the progress; may block for as long as the work must pause; an error stops the work
    /// at this safe point.
    fn checkpoint(&self, progress: WriteProgress) -> Result<(), Aborted>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteProgress {
    pub phase: WritePhase,
    pub done_bytes: u64,
    pub total_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePhase {
    /// Zeroing old tables and signatures, and reading the zeros back.
    Clearing,
    Writing,
    ReadingBack,
    /// Writing what makes the disk bootable, and reading that back.
    Completing,
}

impl std::fmt::Display for WritePhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WritePhase::Clearing => "clearing old signatures",
            WritePhase::Writing => "writing",
            WritePhase::ReadingBack => "reading back",
            WritePhase::Completing => "completing the partition table",
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

impl WriteControl for Unattended {
    fn checkpoint(&self, _progress: WriteProgress) -> Result<(), Aborted> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_a_name_for_people() {
        let names = [WritePhase::Clearing, WritePhase::Writing, WritePhase::ReadingBack, WritePhase::Completing]
            .map(|phase| phase.to_string());
        assert_eq!(names, ["clearing old signatures", "writing", "reading back", "completing the partition table"]);
    }
}
