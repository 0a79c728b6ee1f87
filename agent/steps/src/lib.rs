//! The steps of a plan, one file each. A step runs in a thread of its own, does its work on the [`Host`], and returns
//! the evidence that it is done, or why not. The session of `firesteel_agent` starts the steps, and so does the lab's
//! guest. A step knows neither the session nor the other steps.
//!
//! ```text
//! plan ─► run, run_at_once ─► inspect | clear_metadata | erase_disk | write_image | hand_off | set_boot_entry | leave
//!                               │ before and while a disk is changed        │ what they decide
//!                               ▼                                           ▼
//!                        gate (go on?), board (how far, receipts)     disk, forms, filesystem: pure
//! ```

pub mod board;
mod clear_metadata;
pub mod disk;
mod erase_disk;
pub mod filesystem;
pub mod forms;
pub mod gate;
mod guard;
mod hand_off;
mod inspect;
mod leave;
mod set_boot_entry;
pub mod tls;
mod transfer_rate;
mod write_image;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use firesteel_clean::drive::chain;
use firesteel_host::Host;
use firesteel_images::write::gpt::GptTable;
use firesteel_images::write::{
    Aborted, DiskReader, ExclusiveDisk, WritableDisk as _, WriteControl, WritePhase, WriteProgress, read_table,
};
use firesteel_sysfs::disks::PresentDisk;
use firesteel_wire::{DiskIdentity, Evidence, InventoryDisk, PlanStep};

use guard::DestructiveTarget;
use transfer_rate::TransferRate;

use crate::board::ReportBoard;
use crate::gate::{Gate, GatePause};

/// How often a long step says on the console how far it is.
const CONSOLE_INTERVAL: Duration = Duration::from_secs(10);

/// A step that did not reach its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct StepFailure {
    /// What happened and what to do, for people.
    pub error: String,
    pub disk_changed: bool,
}

impl StepFailure {
    /// Makes the failure of a step that changed nothing on the disk.
    fn without_disk_change(error: impl Into<anyhow::Error>) -> Self {
        Self { error: format!("{:#}", error.into()), disk_changed: false }
    }
}

/// How the agent leaves the ramdisk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Reboot,
    PowerOff,
}

impl Exit {
    /// The word in receipts.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Exit::Reboot => "reboot",
            Exit::PowerOff => "power-off",
        }
    }
}

/// What a finished step leaves: its evidence, and whether the host leaves now.
#[derive(Debug)]
pub struct StepResult {
    pub evidence: Evidence,
    pub exit: Option<Exit>,
}

/// Everything that a step works with.
#[derive(Clone, Copy)]
pub struct StepContext<'a> {
    pub host: &'a dyn Host,
    pub gate: &'a Gate,
    pub board: &'a ReportBoard,
    /// All steps of the plan.
    pub steps: &'a [PlanStep],
    /// Index of the step in its plan.
    pub index: u32,
    /// The client for the image; it speaks to the appliance only.
    pub http: &'a reqwest::Client,
    /// The appliance's address without port: nothing is fetched from anywhere else.
    pub appliance: &'a str,
}

impl std::fmt::Debug for StepContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepContext").field("index", &self.index).finish_non_exhaustive()
    }
}

/// How many of the steps that are left run at once, the first among them; at least one, where there is one.
#[must_use]
pub fn at_once(steps: &[PlanStep]) -> usize {
    let erasures = steps.iter().take_while(|step| matches!(step, PlanStep::EraseDisk { .. })).count();
    erasures.max(usize::from(!steps.is_empty()))
}

/// Runs steps that may run at once, each to its end; the first one's index is the job's. Calls `started` and `ended`
/// for each as it happens, from any thread. Returns whether all of them reached their ends.
pub fn run_at_once(
    job: &StepContext<'_>,
    steps: &[PlanStep],
    started: &(dyn Fn(u32) + Sync),
    ended: &(dyn Fn(u32, &Result<StepResult, StepFailure>) + Sync),
) -> bool {
    let steps: Vec<(u32, &PlanStep)> = (job.index..).zip(steps).collect();
    erase_disk::run_all(job, &steps, started, ended).values().all(Result::is_ok)
}

/// Runs one step to its end.
pub fn run(job: &StepContext<'_>, step: &PlanStep) -> Result<StepResult, StepFailure> {
    job.gate.check_stop().map_err(StepFailure::without_disk_change)?;
    if step.is_destructive() {
        job.begin()?;
    }
    let evidence = match step {
        PlanStep::Inspect => inspect::run(job),
        PlanStep::ClearMetadata { disk, own_names, override_guards, was_vacant, is_named } => {
            let (override_guards, was_vacant, is_named) = (*override_guards, *was_vacant, *is_named);
            clear_metadata::run(job, &DestructiveTarget { disk, own_names, override_guards, was_vacant, is_named })?
        }
        PlanStep::EraseDisk { .. } => {
            let mut ends = erase_disk::run_all(job, &[(job.index, step)], &|_| {}, &|_, _| {});
            let lost = || StepFailure::without_disk_change(anyhow::anyhow!("the step has no end"));
            return ends.remove(&job.index).unwrap_or_else(|| Err(lost()));
        }
        PlanStep::WriteImage { disk, image, disk_guid, own_names, override_guards, was_vacant, is_named } => {
            let (override_guards, was_vacant, is_named) = (*override_guards, *was_vacant, *is_named);
            let guarded = DestructiveTarget { disk, own_names, override_guards, was_vacant, is_named };
            write_image::run(job, &guarded, image, disk_guid)?
        }
        PlanStep::HandOff { disk, files, forms } => hand_off::run(job, disk, files, forms.as_deref())?,
        PlanStep::SetBootEntry { disk, label } => set_boot_entry::run(job, disk, label)?,
        PlanStep::Reboot => return Ok(leave::run(Exit::Reboot)),
        PlanStep::PowerOff => return Ok(leave::run(Exit::PowerOff)),
    };
    Ok(StepResult { evidence, exit: None })
}

impl StepContext<'_> {
    /// Checks before anything is destroyed.
    fn begin(&self) -> Result<(), StepFailure> {
        self.board.check_kept().map_err(StepFailure::without_disk_change)?;
        self.wait_until_fresh().map_err(StepFailure::without_disk_change)
    }

    fn wait_until_fresh(&self) -> Result<(), crate::gate::GateStop> {
        self.gate.pass(&mut |pause| show_pause(self.board, self.index, pause))
    }

    /// Compares the disks with the plan as they are this moment, and opens the one that it names.
    fn open(&self, wanted: &DiskIdentity) -> Result<(InventoryDisk, ExclusiveDisk), StepFailure> {
        let disk = disk::resolve(wanted, &self.host.disks()).map_err(StepFailure::without_disk_change)?;
        let device = self.host.open_disk(Path::new(&disk.device)).map_err(StepFailure::without_disk_change)?;
        let seen = self.seen(device.number(), &disk.device)?;
        disk::resolve(wanted, &[seen]).map_err(StepFailure::without_disk_change)?;
        if device.size_bytes() != wanted.size_bytes {
            let error = format!(
                "{} has {} bytes now, not {} as the plan says",
                disk.device,
                device.size_bytes(),
                wanted.size_bytes
            );
            return Err(StepFailure { error, disk_changed: false });
        }
        Ok((disk, device))
    }

    /// Finds the disk behind something of it that is open, its identity read again: the name by which it was opened may
    /// have come to mean another one between the look and the opening.
    fn seen(&self, number: u64, device: &str) -> Result<PresentDisk, StepFailure> {
        let seen = self.host.numbered(number).filter(|seen| seen.disk.device == device);
        seen.ok_or_else(|| {
            StepFailure::without_disk_change(anyhow::anyhow!(
                "{device} went away or became another disk while it was opened"
            ))
        })
    }
}

fn show_pause(board: &ReportBoard, index: u32, pause: Option<GatePause<'_>>) {
    match pause {
        Some(pause) => board.activity(index, &format!("paused: {pause}")),
        None => board.activity(index, ""),
    }
}

/// The partition table of an opened disk.
fn table_of(device: &ExclusiveDisk) -> anyhow::Result<(Box<dyn DiskReader>, GptTable)> {
    let reader = device.reader()?;
    let table = read_table(&*reader, device.size_bytes(), device.block_bytes())?
        .ok_or_else(|| anyhow::anyhow!("the image has no GUID partition table, so its partitions cannot be found"))?;
    Ok((reader, table))
}

/// Bytes for people, with one decimal.
fn bytes_text(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let value = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.1} GB", value / 1e9),
    }
}

/// Watches the image writer: shows how far it is, holds it while replies are stale, stops it when
/// the appliance says so.
struct WriteMonitor<'a> {
    job: &'a StepContext<'a>,
    shown: Cell<(Option<WritePhase>, Duration)>,
    passed: Cell<bool>,
    pace: RefCell<TransferRate>,
}

impl<'a> WriteMonitor<'a> {
    fn new(job: &'a StepContext<'a>) -> Self {
        Self { job, shown: Cell::new((None, Duration::ZERO)), passed: Cell::new(false), pace: RefCell::default() }
    }

    /// Whether the work was let through at least once.
    fn passed(&self) -> bool {
        self.passed.get()
    }

    fn show(&self, progress: WriteProgress) {
        let now = self.job.host.uptime();
        let (phase, at) = self.shown.get();
        if phase == Some(progress.phase) && now.saturating_sub(at) < CONSOLE_INTERVAL {
            return;
        }
        self.shown.set((Some(progress.phase), now));
        let percent = progress.done_bytes.saturating_mul(100).checked_div(progress.total_bytes).unwrap_or(0);
        tracing::info!(
            "{}: {} of {} ({percent} %)",
            progress.phase,
            bytes_text(progress.done_bytes),
            bytes_text(progress.total_bytes)
        );
    }
}

impl WriteControl for WriteMonitor<'_> {
    fn checkpoint(&self, progress: WriteProgress) -> Result<(), Aborted> {
        let activity = progress.phase.to_string();
        let rate = self.pace.borrow_mut().take(&activity, progress.done_bytes, self.job.host.uptime());
        self.job.board.progress(self.job.index, &activity, progress.done_bytes, progress.total_bytes, rate);
        self.show(progress);
        self.job.wait_until_fresh().map_err(|stop| Aborted { reason: stop.to_string() })?;
        if !self.passed.replace(true) {
            self.job.board.disk_changes(self.job.index);
        }
        Ok(())
    }
}
