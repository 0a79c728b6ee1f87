//! Makes the moves of a climb on real drives and disks, or on simulated ones.
//!
//! One run is one drive with all of its disks: an NVMe controller whose sanitize reaches several
//! namespaces is cleaned once, and every namespace has its samples.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use firesteel_images::write::{Aborted, AlignedBuffer, WritableDisk, WriteControl, WriteProgress, metadata};
use firesteel_wire::erasure::ErasurePolicy;

use super::cleaned::{CleanedDrive, NotCleaned};
use super::disk_erasure::{DiskErasure, ErasureMove, MethodFailure, MoveOutcome, ProvenErasure};
use super::drive::{Drive, DriveCommandProgress, Poll, chain, fell};
use super::ladder::{self, Abilities, ErasureMethod};
use super::proof::{ReadBackCounts, ReadBackVerdict, Sample};
use super::watch::CleaningMonitor;
use super::zeroing::{ZeroingMethod, ZeroingTrial};
use super::{blocking, medium};

/// The pause between two polls of a running sanitize.
const POLL_PAUSE: Duration = Duration::from_secs(2);
/// How long the progress of a sanitize may stand still. Some drives move theirs by whole percents: 1 % of a magnetic
/// disk that takes two days is half an hour.
pub const STALL_MAX: Duration = Duration::from_secs(2 * 60 * 60);
/// Answers in a row that may be missing: a drive that resets itself comes back within seconds.
const SILENT_POLLS_MAX: u32 = 30;
const PIECE_BYTES: u64 = 4 << 20;
/// The activity by which the appliance knows that a drive sanitizes itself.
const SANITIZING: &str = "sanitizing";
/// Zeroing by command goes in larger pieces, so that a command is worth its time, and still small
/// enough to stop and to show progress within seconds.
const ZEROING_BYTES: u64 = 256 << 20;

/// What is to be cleaned.
pub struct CleaningJob<'a> {
    pub drive: &'a dyn Drive,
    /// All disks of this drive that the plan names; each is opened exclusively.
    pub disks: &'a [&'a dyn WritableDisk],
    /// NVMe namespaces among them; empty for other drives.
    pub namespaces: &'a BTreeSet<u32>,
    pub policy: ErasurePolicy,
    /// Random, for this run alone: places and contents of canaries.
    pub seed: [u8; 32],
}

impl std::fmt::Debug for CleaningJob<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CleaningJob")
            .field("disks", &self.disks.len())
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// Cleans one drive.
///
/// # Errors
/// Fails if the drive is not clean or cannot be proven to be. The error says what was tried. The drive holds no
/// password of ours then, unless the text says so.
pub fn clean(job: &CleaningJob<'_>, watch: &dyn CleaningMonitor) -> Result<CleanedDrive, NotCleaned> {
    let untouched = |error: anyhow::Error| NotCleaned { why: chain(error.as_ref()), ..NotCleaned::default() };
    job.drive.undo_incomplete_erasure().map_err(untouched)?;
    let abilities = job.drive.examine().map_err(untouched)?;
    let ladder = ladder::build(&abilities, job.namespaces, job.policy);
    let climb = DiskErasure::new(ladder, &abilities, job.policy);
    CleaningRun { job, watch, abilities, samples: Vec::new(), disk_changed: false }.run_methods(climb)
}

struct CleaningRun<'a> {
    job: &'a CleaningJob<'a>,
    watch: &'a dyn CleaningMonitor,
    abilities: Abilities,
    /// The samples of each disk.
    samples: Vec<Vec<Sample>>,
    disk_changed: bool,
}

impl CleaningRun<'_> {
    fn run_methods(mut self, mut climb: DiskErasure) -> Result<CleanedDrive, NotCleaned> {
        loop {
            let due = climb.due();
            let was_busy = due == ErasureMove::Await;
            let ended = match due {
                ErasureMove::Done(done) => return self.cleaned(climb, done),
                ErasureMove::Stop(why) => return Err(self.not_cleaned(climb, why)),
                ErasureMove::Await => MoveFault::split(self.follow()).map(MoveOutcome::Awaited),
                ErasureMove::CheckBlank => {
                    self.step("looking at the disk").map(|()| MoveOutcome::Looked(self.check_blank()))
                }
                ErasureMove::Plant => MoveFault::split(self.plant()).map(MoveOutcome::Planted),
                ErasureMove::Erase(method) => MoveFault::split(self.erase(method)).map(MoveOutcome::Erased),
                ErasureMove::Prove(method) => {
                    self.step("reading back").map(|()| MoveOutcome::Looked(self.prove(method)))
                }
            };
            match ended {
                Ok(outcome) => climb.take(outcome),
                Err(aborted) => return Err(self.not_cleaned(climb, aborted.to_string())),
            }
            let goes_on = !matches!(climb.due(), ErasureMove::Stop(_));
            if was_busy
                && goes_on
                && let Err(error) = self.reload_ladder(&mut climb)
            {
                return Err(self.not_cleaned(climb, chain(error.as_ref())));
            }
        }
    }

    /// A busy drive says little; now it has ended.
    fn reload_ladder(&mut self, climb: &mut DiskErasure) -> anyhow::Result<()> {
        self.job.drive.undo_incomplete_erasure()?;
        self.abilities = self.job.drive.examine()?;
        climb.replace_ladder(ladder::build(&self.abilities, self.job.namespaces, self.job.policy), &self.abilities);
        Ok(())
    }

    fn not_cleaned(&self, climb: DiskErasure, why: String) -> NotCleaned {
        let why = match self.job.drive.undo_incomplete_erasure() {
            Ok(()) => why,
            Err(error) => format!("{why}; {}", chain(error.as_ref())),
        };
        NotCleaned { why, tried: climb.tried, left_out: climb.left_out, disk_changed: self.disk_changed }
    }

    /// Clears the tables after any other erasure too: a crypto erase leaves noise, which must not be taken for a table.
    fn cleaned(&self, climb: DiskErasure, done: ProvenErasure) -> Result<CleanedDrive, NotCleaned> {
        if let Err(error) = self.job.drive.undo_incomplete_erasure() {
            return Err(self.not_cleaned(climb, chain(error.as_ref())));
        }
        if done.method != Some(ErasureMethod::Metadata)
            && let Err(why) = self.clear_metadata()
        {
            return Err(self.not_cleaned(climb, format!("the data is erased, but {why}")));
        }
        let mut unverified = match done.method {
            Some(method) => ladder::not_reached(method, &self.abilities),
            None => ladder::not_reached(ErasureMethod::SanitizeOverwrite, &self.abilities),
        };
        if done.method.is_none() {
            unverified.push("the sanitize was begun before this run: there are no samples from before it".to_owned());
        }
        Ok(CleanedDrive {
            method: done.method.map_or("sanitize", ErasureMethod::name),
            grade: done.grade,
            drive_log: done.log,
            samples: done.samples,
            tried: climb.tried,
            left_out: climb.left_out,
            unverified,
        })
    }

    /// Passes the gate; the error is the reason to stop.
    fn step(&self, activity: &str) -> Result<(), Aborted> {
        self.watch.checkpoint(activity, 0, 0)
    }

    fn plant(&mut self) -> Result<(), MoveFault> {
        self.step("taking samples")?;
        // A sanitize may have failed since the drive was looked at, and then it takes no writes.
        self.job.drive.undo_incomplete_erasure().map_err(fell)?;
        self.disk_changed = true;
        let planted: Result<_, _> = self.job.disks.iter().map(|disk| medium::plant(*disk, &self.job.seed)).collect();
        self.samples = planted.map_err(fell)?;
        Ok(())
    }

    fn prove(&self, method: ErasureMethod) -> ReadBackVerdict {
        let mut check = ReadBackCounts::new(method.leaves_zeros());
        for (disk, samples) in self.job.disks.iter().zip(&self.samples) {
            if let Some(verdict) = medium::compare(*disk, samples, &mut check) {
                return verdict;
            }
        }
        check.verdict()
    }

    fn check_blank(&self) -> ReadBackVerdict {
        let mut check = ReadBackCounts::new(false);
        for disk in self.job.disks {
            if let Some(verdict) = medium::compare_blank(*disk, &self.job.seed, &mut check) {
                return verdict;
            }
        }
        check.verdict()
    }

    fn erase(&mut self, method: ErasureMethod) -> Result<String, MoveFault> {
        self.step(method.name())?;
        self.disk_changed = true;
        match method {
            ErasureMethod::Metadata => Ok(self.clear_metadata().map(|()| String::new())?),
            ErasureMethod::WriteZeroes | ErasureMethod::Overwrite => self.zero(method),
            ErasureMethod::SanitizeCrypto
            | ErasureMethod::SanitizeBlock
            | ErasureMethod::SanitizeOverwrite
            | ErasureMethod::FormatCrypto
            | ErasureMethod::FormatUserData
            | ErasureMethod::SecureEraseEnhanced
            | ErasureMethod::SecureErase => match self.erase_blocking(method)? {
                DriveCommandProgress::Ended(log) => Ok(log),
                DriveCommandProgress::Running => self.follow(),
            },
        }
    }

    /// Sends a command that cannot be interrupted. A stop or a pause that came meanwhile takes effect when the drive
    /// has answered; the error then says why it did not earlier.
    fn erase_blocking(&self, method: ErasureMethod) -> Result<DriveCommandProgress, MoveFault> {
        let ended = blocking::erase(self.job.drive, method, self.total_bytes(), self.watch);
        // A command that still runs is awaited first.
        if ended.result != Ok(DriveCommandProgress::Running) {
            self.check_stop_request(ended.wish.as_ref(), method.name(), ended.result.as_ref().err())?;
        }
        Ok(ended.result?)
    }

    /// Stops or pauses, where that was asked for while the drive could not be interrupted.
    fn check_stop_request(
        &self,
        wish: Option<&String>,
        activity: &str,
        failure: Option<&MethodFailure>,
    ) -> Result<(), Aborted> {
        if wish.is_none() {
            return Ok(());
        }
        self.step(activity).map_err(|Aborted { reason }| {
            let how = match failure {
                None => "it ended first, and nothing was proven".to_owned(),
                Some(failure) => format!("it failed first ({failure})"),
            };
            Aborted { reason: format!("{reason}; the drive cannot be interrupted in {activity}: {how}") }
        })
    }

    fn total_bytes(&self) -> u64 {
        self.job.disks.iter().map(|disk| disk.size_bytes()).sum()
    }

    /// Overwrites by writing zeros. Other zeroing is by command or by writing, whichever was faster in a trial; see
    /// [`zeroing`](super::zeroing).
    fn zero(&self, method: ErasureMethod) -> Result<String, MoveFault> {
        let zeros = zeros();
        let by_command: Zero<'_> = &|disk, offset, bytes| disk.zero_at(offset, bytes);
        let by_writing: Zero<'_> = &|disk, offset, bytes| write_zeros(disk, offset, bytes, &zeros);
        let pass = |way| match way {
            ZeroingMethod::Command => ZeroingPass { method, piece_bytes: ZEROING_BYTES, zero: by_command },
            ZeroingMethod::Writing => ZeroingPass { method, piece_bytes: PIECE_BYTES, zero: by_writing },
        };
        let is_trial_due = method == ErasureMethod::WriteZeroes;
        let untried = if is_trial_due { ZeroingMethod::Command } else { ZeroingMethod::Writing };
        let (mut trial, mut before): (Option<ZeroingTrial>, u64) = (None, 0);
        for disk in self.job.disks {
            let run = |range, way| self.zero_range(pass(way), *disk, before, range);
            let mut from = 0;
            if is_trial_due
                && trial.is_none()
                && let Some(bytes) = ZeroingTrial::bytes_of(disk.size_bytes())
            {
                let mut times = [Duration::ZERO; 2];
                for (time, way) in times.iter_mut().zip([ZeroingMethod::Command, ZeroingMethod::Writing]) {
                    let begun = Instant::now();
                    run(0..bytes, way)?;
                    *time = begun.elapsed();
                }
                trial = Some(ZeroingTrial { bytes, command: times[0], writing: times[1] });
                from = bytes;
            }
            run(from..disk.size_bytes(), trial.map_or(untried, ZeroingTrial::winner))?;
            before += disk.size_bytes();
        }
        Ok(trial.map(ZeroingTrial::describe).unwrap_or_default())
    }

    /// Zeroes a part of a disk and flushes it. `before` counts the bytes of earlier disks, for the progress.
    fn zero_range(
        &self,
        pass: ZeroingPass<'_>,
        disk: &dyn WritableDisk,
        before: u64,
        range: Range<u64>,
    ) -> Result<(), MoveFault> {
        let total = self.total_bytes();
        let failed = |what: &str, error: io::Error| MethodFailure::Fell(format!("{what}: {}", chain(&error)));
        let mut offset = range.start;
        while offset < range.end {
            self.watch.checkpoint(pass.method.name(), before + offset, total)?;
            let bytes = pass.piece_bytes.min(range.end - offset);
            (pass.zero)(disk, offset, bytes).map_err(|error| failed(&format!("at byte {offset}"), error))?;
            offset += bytes;
        }
        Ok(disk.flush().map_err(|error| failed("flushing the disk's cache", error))?)
    }

    /// Awaits the end of a sanitize. It cannot be interrupted, and a reset could harm the drive, so neither a stop nor
    /// a halt leaves it alone; a run after a killed one awaits it as well.
    fn follow(&self) -> Result<String, MoveFault> {
        let mut wish = None;
        let ended = self.poll(&mut wish);
        self.check_stop_request(wish.as_ref(), SANITIZING, ended.as_ref().err())?;
        Ok(ended?)
    }

    /// Polls the drive until its sanitize ends; `wish`: why the work was to stop or to pause when it was last asked
    /// for.
    fn poll(&self, wish: &mut Option<String>) -> Result<String, MethodFailure> {
        let (mut seen, mut still, mut silent) = (None, Duration::ZERO, 0);
        loop {
            match self.job.drive.poll() {
                Ok(Poll::Ended(log)) => return Ok(log),
                Ok(Poll::Failed(why)) => return Err(MethodFailure::Fell(why)),
                Ok(Poll::Idle) => return Err(MethodFailure::Fell("the drive forgot that it was erasing".to_owned())),
                Ok(Poll::Running { progress }) => {
                    silent = 0;
                    if progress != seen {
                        (seen, still) = (progress, Duration::ZERO);
                    }
                    let (done, total) = self.sanitized(progress.unwrap_or(0));
                    *wish = self.watch.report_progress(&blocking::despite(SANITIZING, wish.as_deref()), done, total);
                }
                Err(error) => {
                    silent += 1;
                    if silent > SILENT_POLLS_MAX {
                        let why = format!("the drive does not say how far it is: {}", chain(error.as_ref()));
                        return Err(MethodFailure::Stuck(why));
                    }
                }
            }
            if still >= STALL_MAX {
                let why = format!("the drive has made no progress for {} minutes", STALL_MAX.as_secs() / 60);
                return Err(MethodFailure::Stuck(why));
            }
            still += POLL_PAUSE;
            self.watch.pause(POLL_PAUSE);
        }
    }

    /// Converts the drive's progress in 65536ths to bytes.
    fn sanitized(&self, progress: u16) -> (u64, u64) {
        let total = self.total_bytes();
        let done = (u128::from(total) * u128::from(progress)) >> 16;
        (u64::try_from(done).unwrap_or(total), total)
    }

    fn clear_metadata(&self) -> Result<(), MethodFailure> {
        for disk in self.job.disks {
            metadata::clear(*disk, &Checkpoint(self.watch)).map_err(|error| {
                MethodFailure::Fell(format!("clearing tables and signatures failed: {}", chain(&error)))
            })?;
        }
        Ok(())
    }
}

/// What ended a move early.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum MoveFault {
    Aborted(#[from] Aborted),
    Method(#[from] MethodFailure),
}

impl MoveFault {
    /// Tells the failure of a method, which the climb judges, from a stop, which ends the run.
    fn split<T>(ended: Result<T, Self>) -> Result<Result<T, MethodFailure>, Aborted> {
        match ended {
            Ok(done) => Ok(Ok(done)),
            Err(Self::Method(failure)) => Ok(Err(failure)),
            Err(Self::Aborted(aborted)) => Err(aborted),
        }
    }
}

/// Makes so many bytes of a disk zero, from an offset on.
type Zero<'a> = &'a dyn Fn(&dyn WritableDisk, u64, u64) -> io::Result<()>;

/// One way to zero a disk, piece by piece.
#[derive(Clone, Copy)]
struct ZeroingPass<'a> {
    method: ErasureMethod,
    piece_bytes: u64,
    zero: Zero<'a>,
}

fn zeros() -> AlignedBuffer {
    AlignedBuffer::new(usize::try_from(PIECE_BYTES).unwrap_or_default())
}

/// Writes zeros, at most [`PIECE_BYTES`] of them.
fn write_zeros(disk: &dyn WritableDisk, offset: u64, bytes: u64, zeros: &AlignedBuffer) -> io::Result<()> {
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    disk.write_at(offset, zeros.get(..bytes).unwrap_or(zeros))
}

/// The image writer's control on our watch.
struct Checkpoint<'a>(&'a dyn CleaningMonitor);

impl WriteControl for Checkpoint<'_> {
    fn checkpoint(&self, progress: WriteProgress) -> Result<(), Aborted> {
        self.0.checkpoint(&progress.phase.to_string(), progress.done_bytes, progress.total_bytes)
    }
}
