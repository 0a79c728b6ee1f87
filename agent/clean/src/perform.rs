//! Makes the moves of a climb on real drives and disks, or on simulated ones.
//!
//! One run is one drive with all of its disks: an NVMe controller whose sanitize reaches several
//! namespaces is cleaned once, and every namespace has its samples.

use std::{
    collections::BTreeSet,
    io,
    ops::Range,
    time::{Duration, Instant},
};

use firesteel_images::write::{Aborted, AlignedBuffer, WritableDisk, WriteControl, WriteProgress, metadata};

use super::{
    blocking,
    cleaned::{CleanedDrive, NotCleaned},
    disk_erasure::{DiskErasure, ErasureMove, MethodFailure, MoveOutcome, ProvenErasure},
    drive::{Drive, DriveCommandProgress, Poll, chain},
    ladder::{self, Abilities, ErasureMethod, ErasurePolicy},
    medium,
    proof::{Check, ReadBackVerdict, Sample},
    watch::CleaningMonitor,
    zeroing::{ZeroingMethod, ZeroingTrial},
};

/// Between two looks at a running sanitize.
const POLL_PAUSE: Duration = Duration::from_secs(2);
/// A sanitize whose progress stands still for so long is given up. Some drives move theirs by whole
/// percents: 1 % of a magnetic disk that takes two days is half an hour.
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
/// It is not clean, or nobody knows; the error says what was tried. The drive holds no password of ours
/// then, unless the text says so.
pub fn clean(job: &CleaningJob<'_>, watch: &dyn CleaningMonitor) -> Result<CleanedDrive, NotCleaned> {
    let untouched = |error: anyhow::Error| NotCleaned {
        why: chain(error.as_ref()),
        tried: Vec::new(),
        left_out: Vec::new(),
        disk_changed: false,
    };
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
    /// Of each disk.
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
                ErasureMove::Stop(why) => Err(why),
                ErasureMove::Await => self.follow().map(MoveOutcome::Awaited),
                ErasureMove::CheckBlank => {
                    self.step("looking at the disk").map(|()| MoveOutcome::Looked(self.check_blank()))
                }
                ErasureMove::Plant => self.plant().map(MoveOutcome::Planted),
                ErasureMove::Erase(method) => self.erase(method).map(MoveOutcome::Erased),
                ErasureMove::Prove(method) => {
                    self.step("reading back").map(|()| MoveOutcome::Looked(self.prove(method)))
                }
            };
            match ended {
                Ok(outcome) => climb.take(outcome),
                Err(why) => return Err(self.not_cleaned(climb, why)),
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

    /// After an erasure tables are cleared all the same: what a crypto erase leaves is noise, which must
    /// not be taken for a table.
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
    fn step(&self, activity: &str) -> Result<(), String> {
        self.progress(activity, 0, 0)
    }

    fn progress(&self, activity: &str, done: u64, total: u64) -> Result<(), String> {
        self.watch.checkpoint(activity, done, total).map_err(|aborted| aborted.to_string())
    }

    fn plant(&mut self) -> Result<Result<(), String>, String> {
        self.step("taking samples")?;
        // A sanitize may have failed since the drive was looked at, and then it takes no writes.
        if let Err(error) = self.job.drive.undo_incomplete_erasure() {
            return Ok(Err(chain(error.as_ref())));
        }
        self.disk_changed = true;
        let planted: Result<Vec<_>, String> =
            self.job.disks.iter().map(|disk| medium::plant(*disk, &self.job.seed)).collect();
        Ok(planted.map(|samples| self.samples = samples))
    }

    fn prove(&self, method: ErasureMethod) -> ReadBackVerdict {
        let mut check = Check::new(method.leaves_zeros());
        for (disk, samples) in self.job.disks.iter().zip(&self.samples) {
            if let Some(verdict) = medium::compare(*disk, samples, &mut check) {
                return verdict;
            }
        }
        check.verdict()
    }

    fn check_blank(&self) -> ReadBackVerdict {
        let mut check = Check::new(false);
        for disk in self.job.disks {
            if let Some(verdict) = medium::compare_blank(*disk, &self.job.seed, &mut check) {
                return verdict;
            }
        }
        check.verdict()
    }

    fn erase(&mut self, method: ErasureMethod) -> Result<Result<String, MethodFailure>, String> {
        self.step(method.name())?;
        self.disk_changed = true;
        match method {
            ErasureMethod::Metadata => Ok(self.clear_metadata().map(|()| String::new()).map_err(MethodFailure::Fell)),
            ErasureMethod::WriteZeroes => self.zero(),
            ErasureMethod::Overwrite => {
                let zeros = zeros();
                self.each_piece(method, PIECE_BYTES, &|disk, offset, bytes| write_zeros(disk, offset, bytes, &zeros))
            }
            ErasureMethod::SanitizeCrypto
            | ErasureMethod::SanitizeBlock
            | ErasureMethod::SanitizeOverwrite
            | ErasureMethod::FormatCrypto
            | ErasureMethod::FormatUserData
            | ErasureMethod::SecureEraseEnhanced
            | ErasureMethod::SecureErase => match self.erase_blocking(method)? {
                Err(fall) => Ok(Err(fall)),
                Ok(DriveCommandProgress::Ended(log)) => Ok(Ok(log)),
                Ok(DriveCommandProgress::Running) => self.follow(),
            },
        }
    }

    /// A stop or a pause that came meanwhile is heeded when the drive has answered, and says why not before.
    fn erase_blocking(&self, method: ErasureMethod) -> Result<Result<DriveCommandProgress, MethodFailure>, String> {
        let ended = blocking::erase(self.job.drive, method, self.total_bytes(), self.watch);
        match &ended.result {
            // It is awaited first.
            Ok(DriveCommandProgress::Running) => {}
            Ok(DriveCommandProgress::Ended(log)) => {
                self.check_stop_request(ended.wish.as_ref(), method.name(), Ok(log))?
            }
            Err(fall) => self.check_stop_request(ended.wish.as_ref(), method.name(), Err(fall))?,
        }
        Ok(ended.result)
    }

    /// Stops or pauses, where that was asked for while the drive could not be interrupted.
    fn check_stop_request(
        &self,
        wish: Option<&String>,
        activity: &str,
        ended: Result<&String, &MethodFailure>,
    ) -> Result<(), String> {
        if wish.is_none() {
            return Ok(());
        }
        self.step(activity).map_err(|why| {
            let how = match ended {
                Ok(_) => "it ended first, and nothing was proven".to_owned(),
                Err(MethodFailure::Fell(fell) | MethodFailure::Stuck(fell)) => format!("it failed first ({fell})"),
            };
            format!("{why}; the drive cannot be interrupted in {activity}: {how}")
        })
    }

    fn total_bytes(&self) -> u64 {
        self.job.disks.iter().map(|disk| disk.size_bytes()).sum()
    }

    fn each_piece(
        &self,
        method: ErasureMethod,
        piece: u64,
        zero: Zero<'_>,
    ) -> Result<Result<String, MethodFailure>, String> {
        let mut before = 0;
        for disk in self.job.disks {
            if let Err(fall) = self.pieces(method, (*disk, before), 0..disk.size_bytes(), (piece, zero))? {
                return Ok(Err(fall));
            }
            before += disk.size_bytes();
        }
        Ok(Ok(String::new()))
    }

    /// By command or by writing, as the first disk that is worth a trial tells; see [`zeroing`](super::zeroing).
    fn zero(&self) -> Result<Result<String, MethodFailure>, String> {
        let zeros = zeros();
        let by_command: Zero<'_> = &|disk, offset, bytes| disk.zero_at(offset, bytes);
        let by_writing: Zero<'_> = &|disk, offset, bytes| write_zeros(disk, offset, bytes, &zeros);
        let ways = |way| match way {
            ZeroingMethod::Command => (ZEROING_BYTES, by_command),
            ZeroingMethod::Writing => (PIECE_BYTES, by_writing),
        };
        let (mut trial, mut before): (Option<ZeroingTrial>, u64) = (None, 0);
        for disk in self.job.disks {
            let run = |range, way| self.pieces(ErasureMethod::WriteZeroes, (*disk, before), range, ways(way));
            let mut from = 0;
            if trial.is_none()
                && let Some(bytes) = ZeroingTrial::bytes_of(disk.size_bytes())
            {
                let mut times = [Duration::ZERO; 2];
                for (time, way) in times.iter_mut().zip([ZeroingMethod::Command, ZeroingMethod::Writing]) {
                    let begun = Instant::now();
                    if let Err(fall) = run(0..bytes, way)? {
                        return Ok(Err(fall));
                    }
                    *time = begun.elapsed();
                }
                trial = Some(ZeroingTrial { bytes, command: times[0], writing: times[1] });
                from = bytes;
            }
            if let Err(fall) = run(from..disk.size_bytes(), trial.map_or(ZeroingMethod::Command, ZeroingTrial::winner))?
            {
                return Ok(Err(fall));
            }
            before += disk.size_bytes();
        }
        Ok(Ok(trial.map(ZeroingTrial::describe).unwrap_or_default()))
    }

    /// Zeroes a part of a disk, before which so many bytes of others are done, and has it stay.
    fn pieces(
        &self,
        method: ErasureMethod,
        (disk, before): (&dyn WritableDisk, u64),
        range: Range<u64>,
        (piece, zero): (u64, Zero<'_>),
    ) -> Result<Result<(), MethodFailure>, String> {
        let total = self.total_bytes();
        let mut offset = range.start;
        while offset < range.end {
            self.progress(method.name(), before + offset, total)?;
            let bytes = piece.min(range.end - offset);
            if let Err(error) = zero(disk, offset, bytes) {
                return Ok(Err(MethodFailure::Fell(format!("at byte {offset}: {}", chain(&error)))));
            }
            offset += bytes;
        }
        Ok(disk.flush().map_err(|error| MethodFailure::Fell(format!("flushing the disk's cache: {}", chain(&error)))))
    }

    /// Awaits the end of a sanitize. It cannot be interrupted, and a reset could harm the drive, so neither a stop nor a
    /// halt leaves it alone; a run after a killed one awaits it as well.
    fn follow(&self) -> Result<Result<String, MethodFailure>, String> {
        let mut wish = None;
        let ended = self.poll(&mut wish);
        self.check_stop_request(wish.as_ref(), SANITIZING, ended.as_ref())?;
        Ok(ended)
    }

    /// Polls the drive until its sanitize ends; `wish`: why the work was to stop or to pause when it was last asked for.
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

    /// A drive tells 65536ths; people and rates want bytes.
    fn sanitized(&self, progress: u16) -> (u64, u64) {
        let total = self.total_bytes();
        let done = (u128::from(total) * u128::from(progress)) >> 16;
        (u64::try_from(done).unwrap_or(total), total)
    }

    fn clear_metadata(&self) -> Result<(), String> {
        for disk in self.job.disks {
            let cleared = metadata::clear(*disk, &Checkpoint(self.watch));
            cleared.map_err(|error| format!("clearing tables and signatures failed: {}", chain(&error)))?;
        }
        Ok(())
    }
}

/// Makes so many bytes of a disk zero.
type Zero<'a> = &'a dyn Fn(&dyn WritableDisk, u64, u64) -> io::Result<()>;

fn zeros() -> AlignedBuffer {
    AlignedBuffer::new(usize::try_from(PIECE_BYTES).unwrap_or_default())
}

/// At most [`PIECE_BYTES`] of them.
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
