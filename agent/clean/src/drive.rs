//! What the climb needs of a drive's own commands; NVMe, ATA and SCSI drives implement it, and
//! [`PlainDrive`] stands for disks that have none (virtio, MMC).

use std::{error::Error, time::Duration};

use firesteel_sysfs::attach::BlockQueueLimits;

use super::disk_erasure::MethodFailure;
use super::ladder::{Abilities, EraseReach, ErasureMethod, MethodOffer};

/// A command that the drive took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveCommandProgress {
    /// It has ended already, with the drive's log.
    Ended(String),
    Running,
}

/// How a sanitize stands, by the drive's own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Poll {
    /// The progress is in 65536ths, where the drive reports it.
    Running {
        progress: Option<u16>,
    },
    Ended(String),
    Failed(String),
    /// The drive knows of none.
    Idle,
}

/// A drive that erases itself on command. All calls block; an erasure runs in a thread of its own, so that its caller
/// can report progress.
pub trait Drive: Sync {
    /// What it can do and how it stands now. Changes nothing.
    ///
    /// # Errors
    /// The drive does not answer, or not what the specification asks for.
    fn examine(&self) -> anyhow::Result<Abilities>;

    /// Begins a method that [`Drive::examine`] offered.
    ///
    /// # Errors
    /// The drive did not take it, or gave up.
    fn erase(&self, method: ErasureMethod) -> Result<DriveCommandProgress, MethodFailure>;

    /// How long the drive says that a method takes which [`Drive::erase`] waits for to its end; `None` where it
    /// does not say, and for all other methods.
    fn expected(&self, _method: ErasureMethod) -> Option<Duration> {
        None
    }

    /// How a running sanitize stands.
    ///
    /// # Errors
    /// The drive does not answer.
    fn poll(&self) -> anyhow::Result<Poll>;

    /// Takes back what an erasure that did not reach its end left behind: a password of ours, a failure
    /// mode. Safe to call at any time; does nothing to a drive in order.
    ///
    /// # Errors
    /// The drive keeps that state; the text says what a person can do.
    fn undo_incomplete_erasure(&self) -> anyhow::Result<()>;
}

/// What the kernel offers for a disk whose drive it need not know.
#[must_use]
pub fn offer(queue: BlockQueueLimits) -> Option<MethodOffer> {
    queue.writes_zeroes.then_some(MethodOffer {
        method: ErasureMethod::WriteZeroes,
        reach: EraseReach::Disk,
        barred: None,
    })
}

/// A disk without commands that erase.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainDrive {
    pub queue: BlockQueueLimits,
}

impl Drive for PlainDrive {
    fn examine(&self) -> anyhow::Result<Abilities> {
        Ok(Abilities {
            offers: offer(self.queue).into_iter().collect(),
            rotational: self.queue.rotational,
            ..Abilities::default()
        })
    }

    fn erase(&self, method: ErasureMethod) -> Result<DriveCommandProgress, MethodFailure> {
        Err(MethodFailure::Fell(format!("this disk has no command for {method}")))
    }

    fn poll(&self) -> anyhow::Result<Poll> {
        Ok(Poll::Idle)
    }

    fn undo_incomplete_erasure(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A command that failed, as a rung that fell.
pub(super) fn fell(error: impl Into<anyhow::Error>) -> MethodFailure {
    let error: anyhow::Error = error.into();
    MethodFailure::Fell(chain(error.as_ref()))
}

/// Returns an error with its causes, each once.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
