//! The agent in one boot: the real mind ([`decider`](firesteel_agent::decider)), notice board and
//! choice of disk, with a small model of the conversation
//! ([`session`](firesteel_agent::session)) and of the steps around them.
//!
//! It owns no clock: [`Do`]s go out, ticks and answers come in.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_agent::decider::{AgentAction, AgentDecider, PlanEnd, retry_after};
use firesteel_contents::{OwnershipClaim, objections};
use firesteel_steps::Exit;
use firesteel_steps::board::ReportBoard;
use firesteel_steps::disk::resolve;
use firesteel_steps::gate::{ReplyFreshness, freshness};
use firesteel_tests::honest;
use firesteel_wire::erasure::{ErasureEvidence, Grade, Samples};
use firesteel_wire::limits::{REPLY_LOST, REPORT_INTERVAL};
use firesteel_wire::{
    self as wire, AgentPlan, AgentReport, Evidence, Hello, HelloReply, PlanStep, PublicKey, RefusalReply, ReportReply,
    Seed, SmbiosIdentity,
};

use crate::appliance::AGENT;
use crate::disk::{Disk, Installed, Touch, seen};
use crate::network::Ask;

/// Parts in which an image is written, each with its own look at the gate.
const CHUNKS: u32 = 3;

/// What the machine has to do for its agent.
#[derive(Debug)]
pub(crate) enum Do {
    Ask(Ask),
    /// Come back when it is time for the next report.
    Tick(Duration),
    /// Come back for the next part of the step.
    Work(Duration),
    Go(Exit),
}

/// How a host lies about its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Shows something else of a write than its plan asks for, with each plan another thing.
    Write,
    /// Claims to be done and shows nothing.
    NoReceipt,
    /// Claims to be another machine.
    Identity,
    /// Claims that whatever it read back is what was sent.
    Perfect,
    /// Shows that disks were erased that it did not touch, and stays on where it is to switch the host off.
    Wipe,
}

#[derive(Debug)]
struct Job {
    plan: AgentPlan,
    index: usize,
    chunk: u32,
    /// The disk that the step works on, by its truth.
    disk: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) seed: Seed,
    pub(crate) key: PublicKey,
    boot_id: String,
    started: Duration,
    board: ReportBoard,
    mind: Option<AgentDecider>,
    sequence: u64,
    last_reply: Duration,
    failures: u32,
    told: Option<String>,
    /// Why nothing may be destroyed, by the newest reply.
    hold: Option<String>,
    job: Option<Job>,
    ending: Option<PlanEnd>,
    leaving_since: Option<Duration>,
    /// What the last reply named.
    stored: Vec<wire::ReceiptPlace>,
    /// A report or hello is on its way.
    pub(crate) busy: bool,
    pub(crate) tick: u64,
    pub(crate) lie: Option<Lie>,
    /// A planted bug: writes to whatever disk comes first.
    pub(crate) careless: bool,
    /// Sees no partition table.
    pub(crate) blind: bool,
    /// A planted bug: it does not see what stands on a disk, and guards nothing.
    pub(crate) guardless: bool,
    /// A planted bug: goes on whatever replies say of a hold.
    pub(crate) deaf: bool,
    /// A planted bug: does a step again.
    pub(crate) forgetful: bool,
    /// A planted bug: tells old news as new.
    pub(crate) muddled: bool,
    old_news: Option<(u32, Vec<wire::StepReport>)>,
    /// The disk that the firmware is told to boot.
    pub(crate) boot_entry: Option<String>,
    pub(crate) attempt: u64,
    macs: Vec<String>,
    uuid: String,
}

impl Agent {
    pub(crate) fn new(seed: Seed, key: [u8; 32], boot_id: String, uuid: String, now: Duration) -> Self {
        let macs = vec![seed.boot_mac.clone()];
        Self {
            seed,
            key: PublicKey(key),
            boot_id,
            started: now,
            board: ReportBoard::new(None),
            mind: None,
            sequence: 0,
            last_reply: now,
            failures: 0,
            told: None,
            hold: None,
            job: None,
            ending: None,
            leaving_since: None,
            stored: Vec::new(),
            busy: false,
            tick: 0,
            lie: None,
            careless: false,
            blind: false,
            guardless: false,
            deaf: false,
            forgetful: false,
            muddled: false,
            old_news: None,
            boot_entry: None,
            attempt: 0,
            macs,
            uuid,
        }
    }

    pub(crate) fn is_greeted(&self) -> bool {
        self.mind.is_some()
    }

    pub(crate) fn is_working(&self) -> bool {
        self.job.is_some()
    }

    /// The worker dies and is replaced, as the supervisor does it: the key and the board stay, and the
    /// new one says hello again.
    pub(crate) fn die(&mut self) -> Vec<Do> {
        self.board.fail_interrupted("the worker died", 0);
        (self.job, self.mind, self.ending, self.told, self.busy) = (None, None, None, None, false);
        self.stored.clear();
        vec![Do::Tick(Duration::from_secs(1))]
    }

    pub(crate) fn hello(&mut self, now: Duration) -> Ask {
        self.busy = true;
        let (uuid, boot_mac) = match self.lie {
            Some(Lie::Identity) => ("00000000-0000-4000-8000-000000000666".to_owned(), "02:66:66:66:66:66".to_owned()),
            Some(Lie::Write | Lie::NoReceipt | Lie::Perfect | Lie::Wipe) | None => {
                (self.uuid.clone(), self.seed.boot_mac.clone())
            }
        };
        Ask::Hello(Box::new(Hello {
            token: self.seed.token.clone(),
            key: self.key,
            identity: SmbiosIdentity { uuid, boot_mac, macs: self.macs.clone(), ..SmbiosIdentity::default() },
            agent_version: "sim".into(),
            kernel_version: "sim".into(),
            uptime_ms: millis(now.saturating_sub(self.started)),
            boot_id: self.boot_id.clone(),
            network: None,
            program: wire::Program { sha256: AGENT.to_string(), abilities: vec![wire::Program::ERASE_DISK.into()] },
        }))
    }

    fn uptime(&self, now: Duration) -> Duration {
        now.saturating_sub(self.started)
    }

    fn unix_ms(&self, now: Duration) -> u64 {
        self.board.unix_ms(self.uptime(now))
    }

    fn learn(&mut self, time_ms: u64, hold: Option<&str>, now: Duration) {
        self.hold = hold.filter(|_| !self.deaf).map(str::to_owned);
        self.board.set_time(time_ms, self.uptime(now));
        self.last_reply = now;
        self.failures = 0;
    }

    pub(crate) fn greeted(&mut self, reply: Result<&HelloReply, Option<&RefusalReply>>, now: Duration) -> Vec<Do> {
        self.busy = false;
        match reply {
            Ok(reply) => {
                self.learn(reply.time_ms, reply.hold.as_deref(), now);
                self.attempt = reply.attempt;
                let mut mind = AgentDecider::new(reply.attempt, self.board.read().plan);
                let next = mind.handle_verdict(&reply.verdict, false);
                self.mind = Some(mind);
                self.go_on(next, now)
            }
            Err(refusal) => {
                if let Some(refusal) = refusal
                    && let AgentAction::Go(exit) = AgentDecider::new(0, 0).handle_refusal(refusal.reason)
                {
                    return vec![Do::Go(exit)];
                }
                if now.saturating_sub(self.started) > REPLY_LOST {
                    return vec![Do::Go(Exit::Reboot)];
                }
                self.failures += 1;
                vec![Do::Tick(retry_after(self.failures - 1))]
            }
        }
    }

    pub(crate) fn answered(&mut self, reply: Result<&ReportReply, Option<&RefusalReply>>, now: Duration) -> Vec<Do> {
        self.busy = false;
        let Some(mut mind) = self.mind.take() else { return Vec::new() };
        let (next, failed) = match reply {
            Ok(reply) => {
                self.learn(reply.time_ms, reply.hold.as_deref(), now);
                self.stored.clone_from(&reply.stored);
                (mind.handle_verdict(&reply.verdict, mind.is_leaving()), false)
            }
            Err(Some(refusal)) => (mind.handle_refusal(refusal.reason), true),
            Err(None) => {
                let silent_for = self.leaving_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
                (mind.handle_silence(silent_for), true)
            }
        };
        self.mind = Some(mind);
        if next != AgentAction::Nothing {
            return self.go_on(next, now);
        }
        if self.ending.is_some() {
            return self.tick(now);
        }
        self.failures = if failed { self.failures + 1 } else { 0 };
        vec![Do::Tick(if failed { retry_after(1) } else { REPORT_INTERVAL })]
    }

    /// The wait is over: the plan ended, or the next report is due.
    pub(crate) fn tick(&mut self, now: Duration) -> Vec<Do> {
        if self.busy {
            return Vec::new();
        }
        let Some(mind) = &mut self.mind else { return vec![Do::Ask(self.hello(now))] };
        let next = match self.ending.take() {
            Some(ending) => mind.handle_ending(ending),
            None => AgentAction::Nothing,
        };
        self.go_on(next, now)
    }

    /// Does what was decided, then reports.
    fn go_on(&mut self, next: AgentAction, now: Duration) -> Vec<Do> {
        let mut todo = Vec::new();
        match next {
            AgentAction::Nothing | AgentAction::SendLastReport(_) => {}
            AgentAction::Start(plan) => {
                self.board.plan_started(&plan);
                self.job = Some(Job { plan, index: 0, chunk: 0, disk: None });
                todo.push(Do::Work(Duration::from_millis(100)));
            }
            AgentAction::Reject(plan, why) => self.board.plan_rejected(&plan, &why, self.unix_ms(now)),
            AgentAction::Stop(reason) => self.told = Some(reason),
            AgentAction::Go(exit) => return vec![Do::Go(exit)],
        }
        let Some(mind) = &self.mind else { return todo };
        if mind.is_leaving() && self.leaving_since.is_none() {
            self.leaving_since = Some(now);
        }
        self.sequence += 1;
        self.busy = true;
        let notices = self.board.read();
        let mut report = AgentReport {
            token: self.seed.token.clone(),
            key: self.key,
            boot_id: self.boot_id.clone(),
            sequence: self.sequence,
            uptime_ms: millis(self.uptime(now)),
            plan: notices.plan,
            steps: notices.steps,
            receipts: notices.receipts.into_iter().filter(|one| !self.stored.contains(&one.place())).collect(),
            neighbours: Vec::new(),
            idle: mind.is_idle(),
            leaving: mind.is_leaving(),
            log: Vec::new(),
        };
        self.lie_in(&mut report);
        if self.muddled {
            self.muddle(&mut report);
        }
        todo.push(Do::Ask(Ask::Report(Box::new(report))));
        todo
    }

    /// Every other report says again what ran first in this plan.
    fn muddle(&mut self, report: &mut AgentReport) {
        match &self.old_news {
            Some((plan, steps)) if *plan == report.plan && report.sequence.is_multiple_of(2) => {
                report.steps.clone_from(steps);
            }
            Some((plan, _)) if *plan == report.plan => {}
            _ if report.steps.iter().any(|step| step.state == wire::StepState::Running) => {
                self.old_news = Some((report.plan, report.steps.clone()));
            }
            _ => {}
        }
    }

    fn lie_in(&self, report: &mut AgentReport) {
        let is_write = |receipt: &wire::StepReceipt| matches!(receipt.evidence, Evidence::ImageWritten { .. });
        match self.lie {
            Some(Lie::NoReceipt) => report.receipts.retain(|receipt| !is_write(receipt)),
            Some(Lie::Write) => {
                let plan = report.plan;
                let choice = report.boot_id.bytes().map(u32::from).sum::<u32>() + plan;
                let of_plan = report.receipts.iter_mut().filter(|receipt| receipt.plan == plan);
                of_plan.for_each(|receipt| lie_of_write(receipt, choice % 6));
            }
            Some(Lie::Identity | Lie::Perfect | Lie::Wipe) | None => {}
        }
    }

    /// One part of the running step; what it did to disks goes into `touched`.
    pub(crate) fn work(&mut self, disks: &mut [Disk], touched: &mut Vec<Touch>, now: Duration) -> Vec<Do> {
        let Some(mut job) = self.job.take() else { return Vec::new() };
        let Some(step) = job.plan.steps.get(job.index).cloned() else {
            return self.end(PlanEnd::Done);
        };
        let index = u32::try_from(job.index).unwrap_or(0);
        if job.chunk == 0 {
            self.board.step_started(index, self.uptime(now));
        }
        if let Some(reason) = &self.told {
            let error = format!("stopped by the appliance: {reason}");
            self.give_up(&mut job, disks, &error, now);
            return self.end(PlanEnd::Failed);
        }
        if step.is_destructive() {
            match freshness(now.saturating_sub(self.last_reply)) {
                ReplyFreshness::Fresh => {
                    if let Some(why) = &self.hold {
                        self.board.activity(index, &format!("paused: {why}"));
                        self.job = Some(job);
                        return vec![Do::Work(Duration::from_secs(1))];
                    }
                }
                ReplyFreshness::Paused => {
                    self.job = Some(job);
                    return vec![Do::Work(Duration::from_secs(5))];
                }
                ReplyFreshness::Lost => {
                    self.give_up(&mut job, disks, "no answer from the appliance", now);
                    return self.end(PlanEnd::Failed);
                }
            }
        }
        match self.part(&mut job, &step, disks, touched) {
            Err(error) => {
                self.give_up(&mut job, disks, &error, now);
                self.end(PlanEnd::Failed)
            }
            Ok(None) => {
                job.chunk += 1;
                self.board.progress(index, "writing", u64::from(job.chunk), u64::from(CHUNKS), 0);
                self.job = Some(job);
                vec![Do::Work(Duration::from_millis(1500))]
            }
            Ok(Some(evidence)) => {
                self.board.step_done(index, evidence, self.uptime(now));
                if let PlanStep::Reboot | PlanStep::PowerOff = step {
                    let exit = if step == PlanStep::Reboot { Exit::Reboot } else { Exit::PowerOff };
                    return self.end(PlanEnd::Leave(exit));
                }
                let again = step.is_destructive() && std::mem::take(&mut self.forgetful);
                (job.index, job.chunk, job.disk) = (job.index + usize::from(!again), 0, None);
                self.job = Some(job);
                vec![Do::Work(Duration::from_millis(300))]
            }
        }
    }

    fn end(&mut self, ending: PlanEnd) -> Vec<Do> {
        self.job = None;
        self.ending = Some(ending);
        // At once, unless a report is on its way: its answer finds the ending.
        vec![Do::Tick(Duration::ZERO)]
    }

    /// The step fails; what was begun on the disk is cleared, as the writer does it.
    fn give_up(&mut self, job: &mut Job, disks: &mut [Disk], error: &str, now: Duration) {
        let disk_changed = job.disk.is_some();
        if let Some(disk) = job.disk.and_then(|id| disks.iter_mut().find(|disk| disk.id == id)) {
            disk.clear();
        }
        self.board.step_failed(u32::try_from(job.index).unwrap_or(0), error, disk_changed, self.unix_ms(now));
    }

    /// Compares plan and disks once more.
    fn open<'d>(
        &self,
        job: &mut Job,
        step: &PlanStep,
        disks: &'d mut [Disk],
        touched: &mut Vec<Touch>,
        what: &'static str,
    ) -> Result<&'d mut Disk, String> {
        let wanted = step.disk().ok_or("the step names no disk")?;
        let disk = if self.careless {
            disks.last_mut().ok_or("there is no disk")?
        } else {
            let found = resolve(wanted, &seen(disks)).map_err(|drift| drift.to_string())?;
            disks.iter_mut().find(|disk| disk.serial == found.serial).ok_or("the disk has gone")?
        };
        if job.disk.is_some_and(|id| id != disk.id) {
            return Err("the disk was pulled in the middle of the step".to_owned());
        }
        let (is_guarded, refusal) = guard(step, disk);
        if let Some(refusal) = refusal.filter(|_| !self.guardless && job.disk.is_none()) {
            return Err(refusal);
        }
        if disk.fails {
            disk.fails = false;
            job.disk = Some(disk.id);
            return Err("an I/O error at a block".to_owned());
        }
        touched.push(Touch {
            serial: disk.serial.clone(),
            what,
            attempt: job.plan.attempt,
            plan: job.plan.number,
            token: self.seed.token.clone(),
            over: disk.bootable().map(|installed| installed.disk_guid.clone()),
            first: job.disk.is_none(),
            step: job.index,
            is_guarded,
        });
        job.disk = Some(disk.id);
        Ok(disk)
    }

    fn part(
        &mut self,
        job: &mut Job,
        step: &PlanStep,
        disks: &mut [Disk],
        touched: &mut Vec<Touch>,
    ) -> Result<Option<Evidence>, String> {
        match step {
            PlanStep::Inspect => Ok(Some(Evidence::Inspected { inventory: self.inventory(disks) })),
            PlanStep::ClearMetadata { disk: named, .. } => {
                let disk = self.open(job, step, disks, touched, "clear")?;
                disk.clear();
                Ok(Some(honest::cleared(named)))
            }
            PlanStep::EraseDisk { disk: named, policy, .. } => {
                if self.lie != Some(Lie::Wipe) {
                    self.open(job, step, disks, touched, "erase")?.clear();
                }
                let samples = Samples { canaries: 1, read_back: 1, blank_after: 1, ..Samples::default() };
                let grade = Grade::Clear;
                Ok(Some(Evidence::DiskErased(ErasureEvidence {
                    method: "overwrite".into(),
                    grade,
                    samples,
                    ..honest::erased(named, *policy)
                })))
            }
            PlanStep::WriteImage { disk: named, image, disk_guid, .. } => {
                let chunk = job.chunk;
                let disk = self.open(job, step, disks, touched, "write")?;
                let corrupts = std::mem::take(&mut disk.corrupts);
                if chunk == 0 {
                    disk.clear();
                    disk.body = Some(Installed {
                        raw_sha256: image.raw_sha256.clone(),
                        disk_guid: disk_guid.clone(),
                        intact: true,
                        stub: None,
                    });
                }
                let Some(body) = &mut disk.body else { return Err("the disk was cleared meanwhile".to_owned()) };
                body.intact &= !corrupts;
                if chunk + 1 < CHUNKS {
                    return Ok(None);
                }
                if !body.intact && self.lie != Some(Lie::Perfect) {
                    return Err("what was read back is not what was written".to_owned());
                }
                disk.head = true;
                Ok(Some(honest::written(named, image, disk_guid)))
            }
            PlanStep::HandOff { disk: named, forms, .. } => {
                let on_boot = forms.as_ref().and_then(|forms| forms.boot_partition.as_ref());
                let Some(files) = on_boot.map(|boot| &boot.files) else { return Err("nothing for it".to_owned()) };
                let disk = self.open(job, step, disks, touched, "hand-off")?;
                let stub = files.iter().find(|file| file.path == "ignition/config.ign");
                let stub = stub.and_then(|file| STANDARD.decode(&file.content_base64).ok());
                let Some(body) = &mut disk.body else { return Err("there is no boot partition".to_owned()) };
                body.stub = stub;
                Ok(Some(honest::handed_off(named, &[], forms.as_deref())))
            }
            PlanStep::SetBootEntry { disk: named, .. } => {
                let found = resolve(named, &seen(disks)).map_err(|drift| drift.to_string())?;
                let disk = disks.iter().find(|disk| disk.serial == found.serial);
                self.boot_entry = disk.and_then(|disk| disk.body.as_ref()).map(|body| body.disk_guid.clone());
                Ok(Some(honest::boot_entry()))
            }
            PlanStep::Reboot | PlanStep::PowerOff => Ok(Some(Evidence::Leaving { how: step.name().into() })),
        }
    }

    fn told(&self, disk: wire::InventoryDisk) -> wire::InventoryDisk {
        let table = if self.blind { Some(wire::PartitionTableRecord::None) } else { disk.table.clone() };
        let contents = disk.contents.filter(|_| !self.guardless);
        wire::InventoryDisk { table, contents, ..disk }
    }

    fn inventory(&self, disks: &[Disk]) -> wire::Inventory {
        wire::Inventory {
            system: wire::InventorySystem {
                uuid: self.uuid.clone(),
                serial: "S".into(),
                ..wire::InventorySystem::default()
            },
            firmware: wire::InventoryFirmware { mode: wire::FirmwareMode::Uefi, ..wire::InventoryFirmware::default() },
            cpu: wire::InventoryCpu { arch: "x86_64".into(), ..wire::InventoryCpu::default() },
            memory: wire::InstalledMemory { total_mib: 4096, installed_mib: 4096 },
            disks: seen(disks).into_iter().map(|seen| self.told(seen.disk)).collect(),
            ..wire::Inventory::default()
        }
    }
}

/// Alters one thing that a receipt of a write shows; nothing of other receipts.
fn lie_of_write(receipt: &mut wire::StepReceipt, choice: u32) {
    match &mut receipt.evidence {
        Evidence::ImageWritten { readback_sha256, .. } if choice == 0 => "bad".clone_into(readback_sha256),
        Evidence::ImageWritten { disk, .. } if choice == 1 => disk.serial.push('x'),
        Evidence::ImageWritten { readback_bytes, .. } if choice == 2 => *readback_bytes = 0,
        Evidence::FilesHandedOff { files, .. } if choice == 3 => files.clear(),
        Evidence::BootEntrySet { order, .. } if choice == 4 => order.clear(),
        Evidence::ImageWritten { written_bytes, .. } if choice == 5 => *written_bytes = 0,
        _ => {}
    }
}

/// Whether the disk is a cluster's and the step leaves it its guard; and what the agent says to that.
fn guard(step: &PlanStep, disk: &Disk) -> (bool, Option<String>) {
    let (names, override_guards, was_vacant, is_named) = match step {
        PlanStep::ClearMetadata { own_names, override_guards, was_vacant, is_named, .. }
        | PlanStep::EraseDisk { own_names, override_guards, was_vacant, is_named, .. }
        | PlanStep::WriteImage { own_names, override_guards, was_vacant, is_named, .. } => {
            (own_names, *override_guards, *was_vacant, *is_named)
        }
        _ => return (false, None),
    };
    let reasons = objections(&disk.contents(), OwnershipClaim { names, was_vacant, is_named });
    (disk.foreign && !override_guards, (!reasons.is_empty() && !override_guards).then(|| reasons.join(", ")))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
