//! A drive that answers its erase command late: progress is reported meanwhile, and no stop interrupts it.

#![allow(clippy::unwrap_used, reason = "tests")]
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use firesteel_images::write::Aborted;
use firesteel_sysfs::attach::BlockQueueLimits;
use firesteel_wire::erasure::ErasurePolicy;

use super::{tests::faults, *};
use crate::ata::AtaDrive;
use crate::cleaned::{CleanedDrive, NotCleaned};
use crate::disk_erasure::MethodFailure;
use crate::drive::{Drive, DriveCommandProgress, Poll};
use crate::ladder::Abilities;
use crate::perform::{CleaningJob, clean};
use crate::watch::CleaningMonitor;

/// What was reported, and what the monitor answered.
#[derive(Default)]
struct SlowDriveLog {
    words: Mutex<Vec<(String, u64, u64)>>,
    came: Condvar,
    stop: Option<&'static str>,
}

impl CleaningMonitor for SlowDriveLog {
    fn checkpoint(&self, activity: &str, _done: u64, _total: u64) -> Result<(), Aborted> {
        let is_reported = !self.words.lock().unwrap().is_empty();
        match self.stop {
            Some(reason) if is_reported => Err(Aborted { reason: reason.to_owned() }),
            Some(_) | None => {
                assert!(!activity.is_empty());
                Ok(())
            }
        }
    }

    fn pause(&self, _time: Duration) {}

    fn report_progress(&self, activity: &str, done: u64, total: u64) -> Option<String> {
        self.words.lock().unwrap().push((activity.to_owned(), done, total));
        self.came.notify_all();
        self.stop.map(str::to_owned)
    }

    fn beat(&self) -> Duration {
        Duration::from_millis(1)
    }
}

/// Erases only after its progress was reported three times.
struct SlowDrive<'a> {
    drive: AtaDrive<'a>,
    log: &'a SlowDriveLog,
    expected: Option<Duration>,
}

impl Drive for SlowDrive<'_> {
    fn examine(&self) -> anyhow::Result<Abilities> {
        self.drive.examine()
    }

    fn erase(&self, method: ErasureMethod) -> Result<DriveCommandProgress, MethodFailure> {
        let words = self.log.words.lock().unwrap();
        let limit = Duration::from_secs(60);
        let (words, waited) = self.log.came.wait_timeout_while(words, limit, |words| words.len() < 3).unwrap();
        drop(words);
        if waited.timed_out() {
            return Err(MethodFailure::Stuck("no progress was reported".to_owned()));
        }
        self.drive.erase(method)
    }

    fn expected(&self, _method: ErasureMethod) -> Option<Duration> {
        self.expected
    }

    fn poll(&self) -> anyhow::Result<Poll> {
        self.drive.poll()
    }

    fn undo_incomplete_erasure(&self) -> anyhow::Result<()> {
        self.drive.undo_incomplete_erasure()
    }
}

fn run(log: &SlowDriveLog, expected: Option<Duration>) -> (Result<CleanedDrive, NotCleaned>, usize) {
    let disk = SimulatedDrive::new(SimulatedDriveKind::Ata, faults(&[ErasureMethod::SecureErase]));
    let drive = SlowDrive { drive: AtaDrive::new(&disk, BlockQueueLimits::default()), log, expected };
    let job = CleaningJob {
        drive: &drive,
        disks: &[&disk],
        namespaces: &BTreeSet::new(),
        policy: ErasurePolicy::Full,
        seed: [1; 32],
    };
    let ended = clean(&job, log);
    let left = disk.state().left();
    (ended, left)
}

#[test]
fn an_erase_that_blocks_is_told_of_until_it_answers() {
    for (expected, says) in [
        (Some(Duration::from_secs(4 * 3600)), "by the drive's own estimate of 240 min"),
        (None, "the drive does not say how far it is"),
    ] {
        let log = SlowDriveLog::default();
        let (ended, left) = run(&log, expected);
        assert_eq!((ended.unwrap().method, left), ("secure-erase", 0));
        let words = log.words.into_inner().unwrap();
        let total = if expected.is_some() { BYTES as u64 } else { 0 };
        let is_right = |(activity, done, of): &(String, u64, u64)| {
            activity.starts_with("secure-erase")
                && activity.contains(says)
                && (*done < total || total == 0)
                && *of == total
        };
        assert!(words.len() >= 3 && words.iter().all(is_right), "{words:?}");
    }
}

#[test]
fn a_stop_waits_for_the_drive_and_says_so() {
    let log = SlowDriveLog { stop: Some("stopped by the appliance: released"), ..SlowDriveLog::default() };
    let (ended, left) = run(&log, None);
    let error = ended.unwrap_err();
    assert!(error.why.contains("released; the drive cannot be interrupted in secure-erase"), "{error}");
    assert!(error.why.contains("it ended first") && error.disk_changed && left == 0, "{error}");
    let words = log.words.into_inner().unwrap();
    let last = &words.last().unwrap().0;
    assert!(last.ends_with("released, but the drive cannot be interrupted"), "{last}");
}
