//! What the climb needs of a drive's own commands; NVMe, ATA and SCSI drives implement it, and
//! [`Commandless`] stands for disks that have none (virtio, MMC).

use std::{error::Error, time::Duration};

use firesteel_sysfs::attach::Queue;

use super::{
    climb::Fall,
    ladder::{Abilities, Method, Offer, Reach},
};

/// A command that the drive took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It has ended already, with the drive's log.
    Ended(String),
    Running,
}

/// How a sanitize stands, by the drive's own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Poll {
    /// In 65536ths, where the drive tells.
    Running {
        progress: Option<u16>,
    },
    Ended(String),
    Failed(String),
    /// The drive knows of none.
    Idle,
}

/// A drive that can be asked and told to erase itself. All are blocking; an erasure runs in a thread of its own,
/// so that its caller can tell of it.
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
    fn erase(&self, method: Method) -> Result<Begun, Fall>;

    /// How long the drive says that a method takes which [`Drive::erase`] waits for to its end; `None` where it
    /// does not say, and for all other methods.
    fn expected(&self, _method: Method) -> Option<Duration> {
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
    fn settle(&self) -> anyhow::Result<()>;
}

/// What the kernel offers for a disk whose drive it need not know.
#[must_use]
pub fn offer(queue: Queue) -> Option<Offer> {
    queue.writes_zeroes.then_some(Offer { method: Method::WriteZeroes, reach: Reach::Disk, barred: None })
}

/// A disk without commands that erase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Commandless {
    pub queue: Queue,
}

impl Drive for Commandless {
    fn examine(&self) -> anyhow::Result<Abilities> {
        Ok(Abilities {
            offers: offer(self.queue).into_iter().collect(),
            rotational: self.queue.rotational,
            ..Abilities::default()
        })
    }

    fn erase(&self, method: Method) -> Result<Begun, Fall> {
        Err(Fall::Fell(format!("this disk has no command for {method}")))
    }

    fn poll(&self) -> anyhow::Result<Poll> {
        Ok(Poll::Idle)
    }

    fn settle(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A command that failed, as a rung that fell.
pub(super) fn fell(error: impl Into<anyhow::Error>) -> Fall {
    let error: anyhow::Error = error.into();
    Fall::Fell(chain(error.as_ref()))
}

/// An error with its causes.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
