//! Erase disks, and prove it. What and how is [`firesteel_clean`]'s; this step brings the disks, their drives and
//! the guards together.
//!
//! Steps of this kind that follow one another run at once: each drive in a thread of its own, so many at a time
//! as [`PARALLEL_MAX`]. Namespaces of one NVMe controller are one drive: what its commands reach must all be in
//! the plan, and what it erased is proven on each of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use firesteel_clean::attached;
use firesteel_clean::cleaned::{CleanedDrive, NotCleaned};
use firesteel_clean::drive::Drive;
use firesteel_clean::perform::{self, clean};
use firesteel_clean::watch::CleaningMonitor;
use firesteel_drives::port::{Cdb, Data, NvmeCommand, Port, PortError, ScsiAnswer};
use firesteel_host::HeldDisk;
use firesteel_images::write::Aborted;
use firesteel_sysfs::attach::{self, AttachedDrive, CommandSet, kernel_name};
use firesteel_wire::{Evidence, InventoryDisk, PlanStep, erasure::ErasurePolicy};
use ring::rand::{SecureRandom, SystemRandom};

use super::guard::{DestructiveTarget, GuardedDisk, Pinned};
use super::transfer_rate::TransferRate;
use super::{CONSOLE_INTERVAL, StepContext, StepFailure, StepResult, show_pause};
use crate::board::ReportBoard;
use crate::gate::{Gate, GatePause};

/// Drives that are erased at once. Overwriting takes the host's bus and one buffer for each; eight spinning disks
/// stay below the bandwidth of one controller.
const PARALLEL_MAX: usize = 8;

/// What the plan asks of one disk.
#[derive(Clone, Copy)]
struct DiskEraseRequest<'a> {
    guarded: DestructiveTarget<'a>,
    policy: ErasurePolicy,
}

/// One disk of a drive.
struct DriveDisk<'a> {
    index: u32,
    wanted: DiskEraseRequest<'a>,
    disk: InventoryDisk,
    attached: AttachedDrive,
    /// What its commands reach.
    key: PathBuf,
}

/// How each step ended, in the order of the plan.
pub(super) type Ends = BTreeMap<u32, Result<StepResult, StepFailure>>;

/// Runs these steps, all of this kind, to their ends; `started` and `ended` hear of each as it happens.
pub(super) fn run_all(
    job: &StepContext<'_>,
    steps: &[(u32, &PlanStep)],
    started: &(dyn Fn(u32) + Sync),
    ended: &(dyn Fn(u32, &Result<StepResult, StepFailure>) + Sync),
) -> Ends {
    let ends = Mutex::new(Ends::new());
    let end = |index: u32, result: Result<StepResult, StepFailure>| {
        ended(index, &result);
        ends.lock().unwrap_or_else(PoisonError::into_inner).insert(index, result);
    };
    let mut drives: BTreeMap<(PathBuf, &str), Vec<DriveDisk<'_>>> = BTreeMap::new();
    for (index, step) in steps {
        let PlanStep::EraseDisk { disk, policy, own_names, override_guards, was_vacant, is_named } = step else {
            continue;
        };
        let (override_guards, was_vacant, is_named) = (*override_guards, *was_vacant, *is_named);
        let guarded = DestructiveTarget { disk, own_names, override_guards, was_vacant, is_named };
        match member(job, *index, DiskEraseRequest { guarded, policy: *policy }) {
            Ok(member) => drives.entry((member.key.clone(), policy.name())).or_default().push(member),
            Err(failure) => {
                started(*index);
                end(*index, Err(failure));
            }
        }
    }
    let drives: Vec<Vec<DriveDisk<'_>>> = drives.into_values().collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..drives.len().min(PARALLEL_MAX) {
            scope.spawn(|| {
                while let Some(members) = drives.get(next.fetch_add(1, Ordering::Relaxed)) {
                    members.iter().for_each(|member| started(member.index));
                    for (member, result) in members.iter().zip(erase(job, members)) {
                        end(member.index, result.map(|evidence| StepResult { evidence, exit: None }));
                    }
                }
            });
        }
    });
    ends.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn member<'a>(job: &StepContext<'_>, index: u32, wanted: DiskEraseRequest<'a>) -> Result<DriveDisk<'a>, StepFailure> {
    Ok(attach(job, index, wanted, job.find(wanted.guarded.disk)?))
}

fn attach<'a>(job: &StepContext<'_>, index: u32, wanted: DiskEraseRequest<'a>, disk: InventoryDisk) -> DriveDisk<'a> {
    let attached = attach::read(&job.host.sysfs(), kernel_name(&disk));
    let key = drive_key(job, kernel_name(&disk), attached.commands);
    DriveDisk { index, wanted, disk, attached, key }
}

/// What the same commands reach: the folder above an NVMe namespace is its controller, or its subsystem.
fn drive_key(job: &StepContext<'_>, name: &str, commands: CommandSet) -> PathBuf {
    let folder = job.host.sysfs().join("block").join(name).canonicalize();
    match (commands, folder) {
        (CommandSet::Nvme { .. }, Ok(folder)) => folder.parent().unwrap_or(&folder).to_owned(),
        (_, _) => PathBuf::from(name),
    }
}

/// The disk as it is now, held from now on. Hours may have gone by since the plan's disks were sorted into
/// drives: others were erased before it, or nothing was to be destroyed for a while.
fn hold<'a>(job: &StepContext<'_>, sorted: &DriveDisk<'a>) -> Result<(DriveDisk<'a>, Pinned), StepFailure> {
    let pinned = job.pin(sorted.wanted.guarded.disk)?;
    let now = attach(job, sorted.index, sorted.wanted, pinned.disk.clone());
    let is_same = (&now.disk.device, now.attached.commands, &now.key)
        == (&sorted.disk.device, sorted.attached.commands, &sorted.key);
    if is_same {
        return Ok((now, pinned));
    }
    let error = format!(
        "the kernel found its disks again while this one waited to be erased: {} ({}) was {}. Nothing was changed; \
         ask for it again",
        now.disk.device,
        sorted.wanted.guarded.disk,
        if sorted.disk.device == now.disk.device { "attached otherwise" } else { &sorted.disk.device },
    );
    Err(StepFailure { error, disk_changed: false })
}

/// Erases one drive with all of its disks that the plan names; an answer for each.
fn erase(job: &StepContext<'_>, members: &[DriveDisk<'_>]) -> Vec<Result<Evidence, StepFailure>> {
    let same = |failure: &StepFailure| -> Vec<Result<Evidence, StepFailure>> {
        members.iter().map(|_| Err(failure.clone())).collect()
    };
    if let Err(stop) = job.begin() {
        return same(&stop);
    }
    let held: Vec<Result<(DriveDisk<'_>, Pinned), StepFailure>> =
        members.iter().map(|member| hold(job, member)).collect();
    let Some((first, pinned)) = held.iter().find_map(|held| held.as_ref().ok()) else {
        return held.into_iter().map(|held| held.and_then(|_| Err(not_erased()))).collect();
    };
    let all = held.iter().filter_map(|held| Some(&held.as_ref().ok()?.0));
    let begun = commands(job, first, pinned).and_then(|port| {
        let is_busy = settled(&*attached::drive(&first.attached, &*port, &namespaces(all)))?;
        Ok((port, is_busy))
    });
    let (port, is_busy) = match begun {
        Ok(begun) => begun,
        Err(failure) => return held.into_iter().map(|held| held.and_then(|_| Err(failure.clone()))).collect(),
    };
    let opened: Vec<Result<(DriveDisk<'_>, GuardedDisk), StepFailure>> = held
        .into_iter()
        .map(|held| {
            let (member, pinned) = held?;
            let opened = job.open_pinned(&member.wanted.guarded, &pinned, !is_busy)?;
            Ok((member, opened))
        })
        .collect();
    let passed: Vec<(&DriveDisk<'_>, &GuardedDisk)> =
        opened.iter().flatten().map(|(member, opened)| (member, opened)).collect();
    let cleaned = passed.first().map(|(member, _)| clean_drive(job, &*port, member, &passed));
    opened
        .into_iter()
        .map(|opened| {
            let (member, opened) = opened?;
            evidence(job, &member, opened, cleaned.as_ref().ok_or_else(not_erased)?)
        })
        .collect()
}

fn not_erased() -> StepFailure {
    StepFailure::without_disk_change(anyhow::anyhow!("the drive was not erased"))
}

/// The way of commands to this drive, and to no other.
fn commands(job: &StepContext<'_>, first: &DriveDisk<'_>, pinned: &Pinned) -> Result<Box<dyn Port>, StepFailure> {
    match first.attached.commands {
        CommandSet::None => Ok(Box::new(NoPort)),
        CommandSet::Nvme { .. } | CommandSet::Ata | CommandSet::Scsi => {
            let opened = job.host.commands(Path::new(&first.disk.device)).context("opening the drive for commands");
            let HeldDisk { number, opened } = opened.map_err(StepFailure::without_disk_change)?;
            pinned.check(number)?;
            Ok(opened)
        }
    }
}

/// Takes back what an interrupted erase left; whether the drive is erasing itself at this moment.
fn settled(drive: &dyn Drive) -> Result<bool, StepFailure> {
    // A drive that an interrupted erase left locked can be read again after this.
    drive.undo_incomplete_erasure().map_err(StepFailure::without_disk_change)?;
    Ok(drive.examine().map_err(StepFailure::without_disk_change)?.busy)
}

fn namespaces<'a>(members: impl Iterator<Item = &'a DriveDisk<'a>>) -> BTreeSet<u32> {
    members
        .filter_map(|member| match member.attached.commands {
            CommandSet::Nvme { namespace } => Some(namespace),
            CommandSet::Ata | CommandSet::Scsi | CommandSet::None => None,
        })
        .collect()
}

/// What became of a drive, and whether any of its disks may have been changed.
struct DriveOutcome {
    result: Result<CleanedDrive, NotCleaned>,
    disk_changed: bool,
}

fn clean_drive(
    job: &StepContext<'_>,
    port: &dyn Port,
    first: &DriveDisk<'_>,
    passed: &[(&DriveDisk<'_>, &GuardedDisk)],
) -> DriveOutcome {
    let namespaces = namespaces(passed.iter().map(|(member, _)| *member));
    let mut attached = first.attached;
    for (member, _) in passed {
        attached.queue.writes_zeroes &= member.attached.queue.writes_zeroes;
    }
    for (member, _) in passed {
        let (disk, wanted) = (&member.disk, &member.wanted);
        tracing::info!("the erasure of {} ({}), {}, begins", disk.device, wanted.guarded.disk, wanted.policy.name());
    }
    let untouched = |why: &str| DriveOutcome {
        result: Err(NotCleaned { why: why.to_owned(), ..NotCleaned::default() }),
        disk_changed: false,
    };
    let mut seed = [0; 32];
    if SystemRandom::new().fill(&mut seed).is_err() {
        return untouched("the kernel gives no random bytes");
    }
    let indexes = passed.iter().map(|(member, _)| member.index).collect();
    let device = first.disk.device.clone();
    let uptime = || job.host.uptime();
    let watch = EraseWatch {
        board: job.board,
        gate: job.gate,
        uptime: &uptime,
        indexes,
        device,
        passed: Cell::new(false),
        shown: RefCell::default(),
        pace: RefCell::default(),
    };
    let drive = attached::drive(&attached, port, &namespaces);
    let disks: Vec<&dyn firesteel_images::write::WritableDisk> =
        passed.iter().map(|(_, opened)| &opened.device as &dyn firesteel_images::write::WritableDisk).collect();
    let work = perform::CleaningJob {
        drive: &*drive,
        disks: &disks,
        namespaces: &namespaces,
        policy: first.wanted.policy,
        seed,
    };
    let result = clean(&work, &watch);
    DriveOutcome { result, disk_changed: watch.passed.get() }
}

fn evidence(
    job: &StepContext<'_>,
    member: &DriveDisk<'_>,
    opened: GuardedDisk,
    outcome: &DriveOutcome,
) -> Result<Evidence, StepFailure> {
    let cleaned = outcome.result.as_ref().map_err(|not| StepFailure {
        error: format!("{}: {}", opened.disk.device, not.why),
        disk_changed: not.disk_changed || outcome.disk_changed,
    })?;
    job.host
        .reread_partitions(&opened.device)
        .map_err(|error| StepFailure { error: format!("{error:#}"), disk_changed: true })?;
    let (disk, policy) = (member.wanted.guarded.disk, member.wanted.policy);
    let evidence = cleaned.evidence(disk, &opened.disk.device, policy, opened.overridden);
    tracing::info!("{} is erased by {}: {:?}", opened.disk.device, evidence.method, evidence.grade);
    Ok(Evidence::DiskErased(evidence))
}

/// The port of disks without commands of their own: it is never asked.
struct NoPort;

impl Port for NoPort {
    fn nvme(&self, _: &NvmeCommand, _: Data<'_>) -> Result<u32, PortError> {
        Err(PortError::Lost(std::io::ErrorKind::Unsupported.into()))
    }

    fn scsi(&self, _: &Cdb, _: Data<'_>) -> Result<ScsiAnswer, PortError> {
        Err(PortError::Lost(std::io::ErrorKind::Unsupported.into()))
    }
}

/// Shows how far the erasure is, holds it while replies are stale, stops it when the appliance says so.
struct EraseWatch<'a> {
    board: &'a ReportBoard,
    gate: &'a Gate,
    uptime: &'a dyn Fn() -> Duration,
    /// The steps that this drive's disks are.
    indexes: Vec<u32>,
    device: String,
    passed: Cell<bool>,
    /// What the console showed last, and when.
    shown: RefCell<(String, Duration)>,
    pace: RefCell<TransferRate>,
}

impl EraseWatch<'_> {
    fn progress(&self, activity: &str, done: u64, total: u64) {
        let now = (self.uptime)();
        let rate = self.pace.borrow_mut().take(activity, done, now);
        for index in &self.indexes {
            self.board.progress(*index, activity, done, total, rate);
        }
        self.show(activity, done, total, now);
    }

    fn show(&self, activity: &str, done: u64, total: u64, now: Duration) {
        let mut shown = self.shown.borrow_mut();
        if shown.0 == activity && now.saturating_sub(shown.1) < CONSOLE_INTERVAL {
            return;
        }
        *shown = (activity.to_owned(), now);
        let percent = u128::from(done) * 100;
        match percent.checked_div(u128::from(total)) {
            Some(percent) => tracing::info!("{}: {activity}: {percent} %", self.device),
            None => tracing::info!("{}: {activity}", self.device),
        }
    }
}

impl CleaningMonitor for EraseWatch<'_> {
    fn checkpoint(&self, activity: &str, done: u64, total: u64) -> Result<(), Aborted> {
        self.progress(activity, done, total);
        let mut show =
            |pause: Option<GatePause<'_>>| self.indexes.iter().for_each(|index| show_pause(self.board, *index, pause));
        self.gate.pass(&mut show).map_err(|stop| Aborted { reason: stop.to_string() })?;
        if !self.passed.replace(true) {
            self.indexes.iter().for_each(|index| self.board.disk_changes(*index));
        }
        Ok(())
    }

    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }

    fn report_progress(&self, activity: &str, done: u64, total: u64) -> Option<String> {
        self.progress(activity, done, total);
        self.gate.closed_reason()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_wire::AgentPlan;

    use super::*;

    /// Activity, bytes that are done and bytes in all, of each step.
    fn shown(board: &ReportBoard) -> Vec<(String, u64, u64)> {
        let steps = board.read().steps.into_iter();
        steps.map(|step| (step.activity, step.done_bytes, step.total_bytes)).collect()
    }

    /// What reports say of a step is what the board shows of it.
    #[test]
    fn how_far_a_wipe_is_stands_on_the_board_for_each_disk_of_the_drive() {
        let board = ReportBoard::new(None);
        board.plan_started(&AgentPlan {
            number: 1,
            attempt: 1,
            steps: vec![PlanStep::Inspect, PlanStep::Inspect, PlanStep::PowerOff],
        });
        let gate = Gate::new(|| Duration::ZERO);
        let seconds = Cell::new(0);
        let uptime = || Duration::from_secs(seconds.get());
        let watch = EraseWatch {
            board: &board,
            gate: &gate,
            uptime: &uptime,
            indexes: vec![0, 1],
            device: "/dev/sda".into(),
            passed: Cell::new(false),
            shown: RefCell::default(),
            pace: RefCell::default(),
        };
        let none = (String::new(), 0, 0);
        for done in [0, 1 << 20, 3 << 20] {
            watch.checkpoint("overwrite", done, 4 << 20).unwrap();
            let of_drive = ("overwrite".to_owned(), done, 4 << 20);
            assert_eq!(shown(&board), [of_drive.clone(), of_drive, none.clone()]);
            seconds.set(seconds.get() + 10);
        }
        assert!(board.read().steps[0].bytes_per_second > 0, "the pace is known after 20 s");
        // A command of the drive that nothing interrupts.
        assert_eq!(watch.report_progress("sanitizing", 2 << 20, 4 << 20), None);
        let of_drive = ("sanitizing".to_owned(), 2 << 20, 4 << 20);
        assert_eq!(shown(&board), [of_drive.clone(), of_drive, none]);
        gate.stop("released".into());
        assert!(watch.checkpoint("overwrite", 3 << 20, 4 << 20).is_err());
        assert!(board.read().steps[1].disk_changed && !board.read().steps[2].disk_changed);
    }
}
