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

use firesteel_images::write::{Aborted, AlignedBuffer, Control, Disk, Progress, metadata};

use super::{
    blocking,
    cleaned::{Cleaned, NotCleaned},
    climb::{Climb, Done, Fall, Move, Outcome},
    drive::{Begun, Drive, Poll, chain},
    ladder::{self, Abilities, Method, Policy},
    medium,
    proof::{Check, Sample, Verdict},
    watch::Watch,
    zeroing::{Trial, Way},
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
pub struct Job<'a> {
    pub drive: &'a dyn Drive,
    /// All disks of this drive that the plan names; each is opened exclusively.
    pub disks: &'a [&'a dyn Disk],
    /// NVMe namespaces among them; empty for other drives.
    pub namespaces: &'a BTreeSet<u32>,
    pub policy: Policy,
    /// Random, for this run alone: places and contents of canaries.
    pub seed: [u8; 32],
}

impl std::fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("disks", &self.disks.len()).field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Cleans one drive.
///
/// # Errors
/// It is not clean, or nobody knows; the error says what was tried. The drive holds no password of ours
/// then, unless the text says so.
pub fn clean(job: &Job<'_>, watch: &dyn Watch) -> Result<Cleaned, NotCleaned> {
    let untouched = |error: anyhow::Error| NotCleaned {
        why: chain(error.as_ref()),
        tried: Vec::new(),
        left_out: Vec::new(),
        disk_changed: false,
    };
    job.drive.settle().map_err(untouched)?;
    let abilities = job.drive.examine().map_err(untouched)?;
    let ladder = ladder::build(&abilities, job.namespaces, job.policy);
    let climb = Climb::new(ladder, &abilities, job.policy);
    Run { job, watch, abilities, samples: Vec::new(), disk_changed: false }.climb(climb)
}

struct Run<'a> {
    job: &'a Job<'a>,
    watch: &'a dyn Watch,
    abilities: Abilities,
    /// Of each disk.
    samples: Vec<Vec<Sample>>,
    disk_changed: bool,
}

impl Run<'_> {
    fn climb(mut self, mut climb: Climb) -> Result<Cleaned, NotCleaned> {
        loop {
            let due = climb.due();
            let was_busy = due == Move::Await;
            let ended = match due {
                Move::Done(done) => return self.cleaned(climb, done),
                Move::Stop(why) => Err(why),
                Move::Await => self.follow().map(Outcome::Awaited),
                Move::CheckBlank => self.step("looking at the disk").map(|()| Outcome::Looked(self.check_blank())),
                Move::Plant => self.plant().map(Outcome::Planted),
                Move::Erase(method) => self.erase(method).map(Outcome::Erased),
                Move::Prove(method) => self.step("reading back").map(|()| Outcome::Looked(self.prove(method))),
            };
            match ended {
                Ok(outcome) => climb.take(outcome),
                Err(why) => return Err(self.not_cleaned(climb, why)),
            }
            let goes_on = !matches!(climb.due(), Move::Stop(_));
            if was_busy
                && goes_on
                && let Err(error) = self.relearn(&mut climb)
            {
                return Err(self.not_cleaned(climb, chain(error.as_ref())));
            }
        }
    }

    /// A busy drive says little; now it has ended.
    fn relearn(&mut self, climb: &mut Climb) -> anyhow::Result<()> {
        self.job.drive.settle()?;
        self.abilities = self.job.drive.examine()?;
        climb.relearn(ladder::build(&self.abilities, self.job.namespaces, self.job.policy), &self.abilities);
        Ok(())
    }

    fn not_cleaned(&self, climb: Climb, why: String) -> NotCleaned {
        let why = match self.job.drive.settle() {
            Ok(()) => why,
            Err(error) => format!("{why}; {}", chain(error.as_ref())),
        };
        NotCleaned { why, tried: climb.tried, left_out: climb.left_out, disk_changed: self.disk_changed }
    }

    /// After an erasure tables are cleared all the same: what a crypto erase leaves is noise, which must
    /// not be taken for a table.
    fn cleaned(&self, climb: Climb, done: Done) -> Result<Cleaned, NotCleaned> {
        if let Err(error) = self.job.drive.settle() {
            return Err(self.not_cleaned(climb, chain(error.as_ref())));
        }
        if done.method != Some(Method::Metadata)
            && let Err(why) = self.clear_metadata()
        {
            return Err(self.not_cleaned(climb, format!("the data is erased, but {why}")));
        }
        let mut unverified = match done.method {
            Some(method) => ladder::not_reached(method, &self.abilities),
            None => ladder::not_reached(Method::SanitizeOverwrite, &self.abilities),
        };
        if done.method.is_none() {
            unverified.push("the sanitize was begun before this run: there are no samples from before it".to_owned());
        }
        Ok(Cleaned {
            method: done.method.map_or("sanitize", Method::name),
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
        if let Err(error) = self.job.drive.settle() {
            return Ok(Err(chain(error.as_ref())));
        }
        self.disk_changed = true;
        let planted: Result<Vec<_>, String> =
            self.job.disks.iter().map(|disk| medium::plant(*disk, &self.job.seed)).collect();
        Ok(planted.map(|samples| self.samples = samples))
    }

    fn prove(&self, method: Method) -> Verdict {
        let mut check = Check::new(method.leaves_zeros());
        for (disk, samples) in self.job.disks.iter().zip(&self.samples) {
            if let Some(verdict) = medium::compare(*disk, samples, &mut check) {
                return verdict;
            }
        }
        check.verdict()
    }

    fn check_blank(&self) -> Verdict {
        let mut check = Check::new(false);
        for disk in self.job.disks {
            if let Some(verdict) = medium::compare_blank(*disk, &self.job.seed, &mut check) {
                return verdict;
            }
        }
        check.verdict()
    }

    fn erase(&mut self, method: Method) -> Result<Result<String, Fall>, String> {
        self.step(method.name())?;
        self.disk_changed = true;
        match method {
            Method::Metadata => Ok(self.clear_metadata().map(|()| String::new()).map_err(Fall::Fell)),
            Method::WriteZeroes => self.zero(),
            Method::Overwrite => {
                let zeros = zeros();
                self.each_piece(method, PIECE_BYTES, &|disk, offset, bytes| write_zeros(disk, offset, bytes, &zeros))
            }
            Method::SanitizeCrypto
            | Method::SanitizeBlock
            | Method::SanitizeOverwrite
            | Method::FormatCrypto
            | Method::FormatUserData
            | Method::SecureEraseEnhanced
            | Method::SecureErase => match self.erase_blocking(method)? {
                Err(fall) => Ok(Err(fall)),
                Ok(Begun::Ended(log)) => Ok(Ok(log)),
                Ok(Begun::Running) => self.follow(),
            },
        }
    }

    /// A stop or a pause that came meanwhile is heeded when the drive has answered, and says why not before.
    fn erase_blocking(&self, method: Method) -> Result<Result<Begun, Fall>, String> {
        let ended = blocking::erase(self.job.drive, method, self.total_bytes(), self.watch);
        match &ended.result {
            // It is awaited first.
            Ok(Begun::Running) => {}
            Ok(Begun::Ended(log)) => self.heed(ended.wish.as_ref(), method.name(), Ok(log))?,
            Err(fall) => self.heed(ended.wish.as_ref(), method.name(), Err(fall))?,
        }
        Ok(ended.result)
    }

    /// Stops or pauses, where that was asked for while the drive could not be interrupted.
    fn heed(&self, wish: Option<&String>, activity: &str, ended: Result<&String, &Fall>) -> Result<(), String> {
        if wish.is_none() {
            return Ok(());
        }
        self.step(activity).map_err(|why| {
            let how = match ended {
                Ok(_) => "it ended first, and nothing was proven".to_owned(),
                Err(Fall::Fell(fell) | Fall::Stuck(fell)) => format!("it failed first ({fell})"),
            };
            format!("{why}; the drive cannot be interrupted in {activity}: {how}")
        })
    }

    fn total_bytes(&self) -> u64 {
        self.job.disks.iter().map(|disk| disk.size_bytes()).sum()
    }

    fn each_piece(&self, method: Method, piece: u64, zero: Zero<'_>) -> Result<Result<String, Fall>, String> {
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
    fn zero(&self) -> Result<Result<String, Fall>, String> {
        let zeros = zeros();
        let by_command: Zero<'_> = &|disk, offset, bytes| disk.zero_at(offset, bytes);
        let by_writing: Zero<'_> = &|disk, offset, bytes| write_zeros(disk, offset, bytes, &zeros);
        let ways = |way| match way {
            Way::Command => (ZEROING_BYTES, by_command),
            Way::Writing => (PIECE_BYTES, by_writing),
        };
        let (mut trial, mut before): (Option<Trial>, u64) = (None, 0);
        for disk in self.job.disks {
            let run = |range, way| self.pieces(Method::WriteZeroes, (*disk, before), range, ways(way));
            let mut from = 0;
            if trial.is_none()
                && let Some(bytes) = Trial::bytes_of(disk.size_bytes())
            {
                let mut times = [Duration::ZERO; 2];
                for (time, way) in times.iter_mut().zip([Way::Command, Way::Writing]) {
                    let begun = Instant::now();
                    if let Err(fall) = run(0..bytes, way)? {
                        return Ok(Err(fall));
                    }
                    *time = begun.elapsed();
                }
                trial = Some(Trial { bytes, command: times[0], writing: times[1] });
                from = bytes;
            }
            if let Err(fall) = run(from..disk.size_bytes(), trial.map_or(Way::Command, Trial::winner))? {
                return Ok(Err(fall));
            }
            before += disk.size_bytes();
        }
        Ok(Ok(trial.map(Trial::words).unwrap_or_default()))
    }

    /// Zeroes a part of a disk, before which so many bytes of others are done, and has it stay.
    fn pieces(
        &self,
        method: Method,
        (disk, before): (&dyn Disk, u64),
        range: Range<u64>,
        (piece, zero): (u64, Zero<'_>),
    ) -> Result<Result<(), Fall>, String> {
        let total = self.total_bytes();
        let mut offset = range.start;
        while offset < range.end {
            self.progress(method.name(), before + offset, total)?;
            let bytes = piece.min(range.end - offset);
            if let Err(error) = zero(disk, offset, bytes) {
                return Ok(Err(Fall::Fell(format!("at byte {offset}: {}", chain(&error)))));
            }
            offset += bytes;
        }
        Ok(disk.flush().map_err(|error| Fall::Fell(format!("flushing the disk's cache: {}", chain(&error)))))
    }

    /// Awaits the end of a sanitize. It cannot be interrupted, and a reset could harm the drive, so neither a stop nor a
    /// halt leaves it alone; a run after a killed one awaits it as well.
    fn follow(&self) -> Result<Result<String, Fall>, String> {
        let mut wish = None;
        let ended = self.poll(&mut wish);
        self.heed(wish.as_ref(), SANITIZING, ended.as_ref())?;
        Ok(ended)
    }

    /// Polls the drive until its sanitize ends; `wish`: why the work was to stop or to pause when it was last asked for.
    fn poll(&self, wish: &mut Option<String>) -> Result<String, Fall> {
        let (mut seen, mut still, mut silent) = (None, Duration::ZERO, 0);
        loop {
            match self.job.drive.poll() {
                Ok(Poll::Ended(log)) => return Ok(log),
                Ok(Poll::Failed(why)) => return Err(Fall::Fell(why)),
                Ok(Poll::Idle) => return Err(Fall::Fell("the drive forgot that it was erasing".to_owned())),
                Ok(Poll::Running { progress }) => {
                    silent = 0;
                    if progress != seen {
                        (seen, still) = (progress, Duration::ZERO);
                    }
                    let (done, total) = self.sanitized(progress.unwrap_or(0));
                    *wish = self.watch.tell(&blocking::despite(SANITIZING, wish.as_deref()), done, total);
                }
                Err(error) => {
                    silent += 1;
                    if silent > SILENT_POLLS_MAX {
                        let why = format!("the drive does not say how far it is: {}", chain(error.as_ref()));
                        return Err(Fall::Stuck(why));
                    }
                }
            }
            if still >= STALL_MAX {
                let why = format!("the drive has made no progress for {} minutes", STALL_MAX.as_secs() / 60);
                return Err(Fall::Stuck(why));
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
type Zero<'a> = &'a dyn Fn(&dyn Disk, u64, u64) -> io::Result<()>;

fn zeros() -> AlignedBuffer {
    AlignedBuffer::new(usize::try_from(PIECE_BYTES).unwrap_or_default())
}

/// At most [`PIECE_BYTES`] of them.
fn write_zeros(disk: &dyn Disk, offset: u64, bytes: u64, zeros: &AlignedBuffer) -> io::Result<()> {
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    disk.write_at(offset, zeros.get(..bytes).unwrap_or(zeros))
}

/// The image writer's control on our watch.
struct Checkpoint<'a>(&'a dyn Watch);

impl Control for Checkpoint<'_> {
    fn checkpoint(&self, progress: Progress) -> Result<(), Aborted> {
        self.0.checkpoint(&progress.phase.to_string(), progress.done_bytes, progress.total_bytes)
    }
}
