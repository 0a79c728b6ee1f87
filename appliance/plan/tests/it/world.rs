//! A host, its BMC, its agent and the appliance's stores, all of them obedient unless a test says
//! otherwise.

use firesteel_contents::DiskContents;
use firesteel_plan::clock::ClockDoubt;
use firesteel_plan::disk::{CleaningMethod, CleaningProof, Grade};
use firesteel_plan::host::host_counts::{HostCount, counted};
use firesteel_plan::host::{
    AgentInputs, AgentWork, BmcAction, BmcFault, CredentialsInputs, FleetHalt, HostPower, ImageInputs, PlanKind,
    ReadyImage, ReceiptFacts, ShownBootEntry, ShownHandOff, ShownReceipt, ShownWrite, StepEvent, UserDataInputs,
    WritePlan,
};
use firesteel_plan::{DiskIdentity, HostBootEntry, HostEffect, HostInputs, HostMemory, HostStep, boot_entry};
use firesteel_resources::bare_metal_host::{BmcDetails, ProvisioningState};
use firesteel_resources::hardware::DiskRecord;
use firesteel_resources::host_journal::{HandedFile, PromisedForm, PromisedForms, PromisedHandOff, RequestOutcome};
use firesteel_resources::{BareMetalHost, HardwareRecord, Image};
use jiff::{SignedDuration, Timestamp};

mod bmc;

pub(crate) use bmc::HardOff;

pub(crate) const MAC: &str = "52:54:00:00:00:01";

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) seen: HostInputs,
    pub(crate) now: Timestamp,
    pub(crate) states: Vec<ProvisioningState>,
    pub(crate) effects: Vec<HostEffect>,
    pub(crate) last: Option<HostStep>,
    /// All events, and what all steps were counted as.
    pub(crate) events: Vec<StepEvent>,
    pub(crate) counts: Vec<HostCount>,
    /// Whether effects of each sort are carried out.
    pub(crate) bmc_works: bool,
    /// How the BMC refuses each call.
    pub(crate) refuses: Option<BmcFault>,
    /// Otherwise its calls never end.
    pub(crate) bmc_answers: bool,
    /// Otherwise the BMC takes the order and the host does not move.
    pub(crate) power_works: bool,
    /// Otherwise the BMC has no soft power-off.
    pub(crate) soft_off_works: bool,
    pub(crate) hard_off: HardOff,
    pub(crate) images_work: bool,
    pub(crate) agent_works: bool,
    /// Otherwise an agent that says that it switches the host off does not.
    pub(crate) agent_off_works: bool,
    pub(crate) annotations_work: bool,
    /// A boot into the agent was carried out and nobody has said hello yet.
    pub(crate) booting: bool,
    pub(crate) gone: bool,
    /// What an inspection finds, if a test says so.
    pub(crate) disks: Vec<DiskRecord>,
}

pub(crate) fn disk(name: &str, serial: &str, gb: u64) -> DiskRecord {
    DiskRecord {
        device: format!("/dev/{name}"),
        by_path: format!("/dev/disk/by-path/{name}"),
        serial: serial.into(),
        model: "DISK".into(),
        size_bytes: gb * 1_000_000_000,
        ..DiskRecord::default()
    }
}

/// What an honest agent shows for a disk that it cleaned.
pub(crate) fn cleaned(plan: u32, disk: &DiskIdentity, asked: CleaningMethod) -> CleaningProof {
    let grade = if asked == CleaningMethod::Metadata { Grade::None } else { Grade::Clear };
    CleaningProof {
        plan,
        disk: disk.clone(),
        device: String::new(),
        asked,
        by: if asked == CleaningMethod::Metadata { "metadata".into() } else { "overwrite".into() },
        grade,
        read_back_bytes: 4096,
        overridden: Vec::new(),
        unverified: Vec::new(),
    }
}

pub(crate) fn image(name: &str) -> Image {
    Image { url: format!("http://images/{name}"), checksum: "0".repeat(64), ..Image::default() }
}

pub(crate) fn ready() -> ReadyImage {
    ReadyImage { raw_sha256: "raw".into(), raw_bytes: 2_000_000_000, stream_sha256: "stream".into(), stream_bytes: 9 }
}

impl World {
    /// A host with a BMC that is online and wants an image.
    pub(crate) fn new() -> Self {
        let mut host = BareMetalHost::default();
        host.metadata.name = "a".into();
        host.metadata.generation = 1;
        host.spec.online = true;
        host.spec.boot_mac_address = MAC.into();
        let bmc = BmcDetails { address: "redfish://b/1".into(), credentials_name: "s".into(), ..BmcDetails::default() };
        host.spec.bmc = Some(bmc);
        host.spec.image = Some(image("one"));
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut seen = HostInputs::new(host, HostMemory::default(), now, 7);
        seen.credentials = CredentialsInputs::Ready { version: "1".into() };
        seen.user_data = UserDataInputs::Ready { sha256: "user".into(), configs: vec!["worker".into()] };
        seen.hardware = None;
        Self {
            seen,
            now,
            states: vec![ProvisioningState::New],
            effects: Vec::new(),
            last: None,
            events: Vec::new(),
            counts: Vec::new(),
            bmc_works: true,
            refuses: None,
            bmc_answers: true,
            power_works: true,
            soft_off_works: true,
            hard_off: HardOff::Works,
            images_work: true,
            agent_works: true,
            agent_off_works: true,
            annotations_work: true,
            booting: false,
            gone: false,
            disks: Vec::new(),
        }
    }

    pub(crate) fn without_bmc() -> Self {
        let mut world = Self::new();
        world.seen.host.spec.bmc = None;
        world.seen.credentials = CredentialsInputs::Missing;
        world
    }

    pub(crate) fn memory(&self) -> &HostMemory {
        &self.seen.memory
    }

    pub(crate) fn state(&self) -> ProvisioningState {
        self.seen.memory.state.word()
    }

    /// What became of the newest request of this sort.
    pub(crate) fn answer(&self, request: &str) -> Option<(RequestOutcome, &str)> {
        self.seen.answers.of(request).map(|answer| (answer.outcome, answer.message.as_str()))
    }

    pub(crate) fn reason(&self) -> &str {
        self.last.as_ref().map_or("", |step| step.reason.text.as_str())
    }

    pub(crate) fn pass(&mut self, secs: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(secs)).unwrap();
    }

    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut BareMetalHost)) {
        change(&mut self.seen.host);
        self.seen.host.metadata.generation += 1;
    }

    pub(crate) fn annotate(&mut self, key: &str, value: &str) {
        self.seen.host.metadata.annotations.insert(key.into(), value.into());
    }

    pub(crate) fn halt(&mut self) {
        let halt = FleetHalt { who: "ann".into(), why: "wrong disks".into(), since: self.now };
        self.seen.halt.get_or_insert(halt);
    }

    pub(crate) fn doubt_clock(&mut self) {
        self.seen.clock = Some(ClockDoubt::BehindStore { newest: self.now });
    }

    pub(crate) fn delete(&mut self) {
        let now = self.now;
        self.edit(|host| host.metadata.deletion_timestamp = Some(now));
    }

    /// One step, stored before its effects run.
    pub(crate) fn step(&mut self) -> HostStep {
        self.seen.entropy = self.seen.entropy.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(0x9e37_79b9);
        let step = firesteel_plan::step(&self.seen, self.now);
        self.counts.extend(counted(&self.seen, &step));
        self.events.extend(step.events.iter().cloned());
        self.seen.memory = step.memory.clone();
        self.seen.answers = step.answers.clone();
        let status = firesteel_plan::project(&step.memory, &self.seen, &step.reason, self.now);
        self.seen.host.status = Some(status);
        if self.states.last() != Some(&self.state()) {
            self.states.push(self.state());
        }
        self.last = Some(step.clone());
        for effect in &step.effects {
            self.effects.push(effect.clone());
            self.apply(effect);
        }
        step
    }

    /// Steps until nothing more happens at this moment.
    pub(crate) fn settle(&mut self) {
        for _ in 0..200 {
            let before = (self.seen.memory.clone(), self.effects.len());
            self.step();
            let stirred = self.effects.len() != before.1 || self.seen.memory != before.0;
            if self.gone || !stirred {
                return;
            }
        }
        let recent: Vec<&HostEffect> = self.effects.iter().rev().take(5).collect();
        panic!("does not settle in {:?}: {} {recent:?}", self.state(), self.reason());
    }

    /// Settles, and lets a host that boots say hello, until nothing more happens.
    pub(crate) fn run(&mut self) {
        for _ in 0..20 {
            self.settle();
            if self.gone || !self.booting || boot_entry(&self.seen.memory) == HostBootEntry::Wait {
                return;
            }
            self.hello();
        }
        panic!("boots again and again in {:?}: {}", self.state(), self.reason());
    }

    /// The host boots into what is published for it; an agent says hello.
    pub(crate) fn hello(&mut self) {
        let entry = boot_entry(&self.seen.memory);
        // One that waits for its script asks again.
        self.booting = entry == HostBootEntry::Wait;
        let HostBootEntry::Agent { attempt } = entry else { return };
        self.seen.agent = Some(AgentInputs {
            attempt,
            bound_at: self.now,
            last_report_at: self.now,
            plan: 0,
            work: AgentWork::Idle,
            progress_at: self.now,
            left: false,
            left_at: None,
            rebooted: false,
            shown: Vec::new(),
            promised: None,
            unseen: Vec::new(),
            network: None,
            can_erase: true,
            cleaned: Vec::new(),
            cannot_stop: None,
        });
        self.seen.instance = firesteel_plan::host::InstanceInputs::default();
    }

    pub(crate) fn agent(&mut self) -> &mut AgentInputs {
        self.seen.agent.as_mut().unwrap()
    }

    pub(crate) fn count(&self, wanted: impl Fn(&HostEffect) -> bool) -> usize {
        self.effects.iter().filter(|effect| wanted(effect)).count()
    }

    pub(crate) fn net_boots(&self) -> usize {
        let mut tickets: Vec<u64> = self
            .effects
            .iter()
            .filter_map(|effect| match effect {
                HostEffect::Bmc(call) if call.action == BmcAction::NetBoot => Some(call.ticket),
                _ => None,
            })
            .collect();
        tickets.dedup();
        tickets.len()
    }

    fn apply(&mut self, effect: &HostEffect) {
        match effect {
            HostEffect::AddFinalizer => {
                self.seen.host.metadata.finalizers = vec![firesteel_resources::bare_metal_host::FINALIZER.into()];
            }
            HostEffect::RemoveFinalizer => self.gone = true,
            HostEffect::ForgetTombstone => self.seen.uncleaned = None,
            HostEffect::RemoveAnnotation { .. } if !self.annotations_work => {}
            HostEffect::RemoveAnnotation { key, value } => {
                let annotations = &mut self.seen.host.metadata.annotations;
                if annotations.get(key) == Some(value) {
                    annotations.remove(key);
                }
            }
            HostEffect::Bmc(call) => self.bmc(call),
            HostEffect::FetchImage { .. } if self.images_work => self.seen.image = ImageInputs::Ready(ready()),
            HostEffect::IssuePlan { attempt, number, plan } => self.take(*attempt, *number, plan),
            HostEffect::GradeReceipts(verdict) => self.seen.graded = Some(verdict.mark()),
            HostEffect::SaveHardware { attempt, plan } => {
                let mut record = self.seen.hardware.clone().unwrap_or_else(|| HardwareRecord {
                    disks: vec![disk("sda", "A", 20)],
                    ..HardwareRecord::default()
                });
                (record.attempt, record.plan, record.inspected_at) = (*attempt, *plan, self.now);
                record.timeline = self.seen.memory.timeline;
                if !self.disks.is_empty() {
                    record.disks.clone_from(&self.disks);
                }
                self.seen.hardware = Some(record);
                self.seen.hardware_is_shown = true;
            }
            HostEffect::SaveBmcHardware => self.seen.bmc_record_is_shown = true,
            HostEffect::FetchImage { .. }
            | HostEffect::SupplyHardware { .. }
            | HostEffect::AbortAgent { .. }
            | HostEffect::RebootDiscoveryAgent { .. }
            | HostEffect::Tombstone { .. } => {}
        }
    }

    /// An obedient agent carries a plan out in no time.
    fn take(&mut self, attempt: u64, number: u32, plan: &PlanKind) {
        let (now, works) = (self.now, self.agent_works);
        let Some(agent) = self.seen.agent.as_mut().filter(|agent| agent.attempt == attempt && !agent.left) else {
            return;
        };
        if !works || agent.plan >= number {
            return;
        }
        (agent.plan, agent.work, agent.last_report_at, agent.progress_at) = (number, AgentWork::Done, now, now);
        for disk in self.disks.iter_mut().filter(|disk| disk.contents.is_some()) {
            let is_it = |named: &DiskIdentity| named.serial == disk.serial;
            match plan {
                PlanKind::Write(write) if is_it(&write.disk) => {
                    let guid = write.disk_guid.clone();
                    disk.contents = Some(Box::new(DiskContents { guid, ..DiskContents::default() }));
                }
                PlanKind::Clean { disk: named } if is_it(named) => disk.contents = Some(Box::default()),
                PlanKind::Erase(erase) if erase.disks.iter().any(is_it) => disk.contents = Some(Box::default()),
                _ => {}
            }
        }
        match plan {
            PlanKind::Write(write) => {
                agent.left = true;
                (agent.shown, agent.promised) = (shown(number, write), promised(attempt, number));
            }
            PlanKind::Reboot => agent.left = true,
            PlanKind::PowerOff => {
                (agent.left, agent.left_at) = (true, Some(now));
                if self.agent_off_works {
                    self.seen.bmc.power = HostPower::Off;
                }
            }
            PlanKind::Clean { disk } => agent.cleaned.push(cleaned(number, disk, CleaningMethod::Metadata)),
            PlanKind::Erase(erase) => {
                agent.cleaned.extend(erase.disks.iter().map(|disk| cleaned(number, disk, erase.method)));
            }
            PlanKind::Inspect => {}
        }
    }
}

/// Settles with the next plan stuck in the agent: it reports `work` for it and does nothing.
pub(crate) fn with_work(world: &mut World, work: AgentWork) {
    let (attempt, number) = (world.memory().attempt, world.memory().plan_number);
    let now = world.now;
    let agent = world.agent();
    assert_eq!(agent.attempt, attempt);
    (agent.plan, agent.work, agent.last_report_at, agent.progress_at) = (number, work, now, now);
    (agent.left, agent.shown) = (false, Vec::new());
}

/// Runs until the write plan was issued, and undoes what the obedient agent did with it.
pub(crate) fn run_to_write(world: &mut World) {
    for _ in 0..300 {
        if world.booting {
            world.hello();
        }
        let step = world.step();
        let wrote =
            step.effects.iter().any(|effect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Write(_), .. }));
        if wrote {
            with_work(world, AgentWork::Running { step: "write-image".into(), activity: String::new(), percent: 1 });
            return;
        }
    }
    panic!("no write plan in {:?}: {}", world.state(), world.reason());
}

fn file() -> HandedFile {
    HandedFile { path: "ignition/config.ign".into(), bytes: 2, sha256: "44".repeat(32) }
}

/// What the caller keeps on record before the agent gets a plan to write.
pub(crate) fn promised(attempt: u64, plan: u32) -> Option<PromisedHandOff> {
    let form = PromisedForm { files: vec![file()], arguments: false };
    let composed = vec![PromisedForms::from([("boot_partition".to_owned(), form)])];
    Some(PromisedHandOff { attempt, plan, composed })
}

/// What an honest agent shows of a plan to write.
pub(crate) fn shown(number: u32, write: &WritePlan) -> Vec<ShownReceipt> {
    let (disk, image) = (write.disk.clone(), write.image.clone());
    let written = ShownWrite {
        disk: disk.clone(),
        device: "/dev/sda".into(),
        stream_sha256: image.stream_sha256,
        stream_bytes: image.stream_bytes,
        raw_sha256: image.raw_sha256.clone(),
        raw_bytes: image.raw_bytes,
        written_bytes: image.raw_bytes.max(1),
        readback_sha256: image.raw_sha256,
        readback_bytes: image.raw_bytes,
        disk_guid: write.disk_guid.clone(),
        write_ms: 100,
        readback_ms: 100,
    };
    let handed_off =
        ShownHandOff { disk: disk.clone(), form: "boot_partition".into(), files: vec![file()], loader_files: 0 };
    let entry = ShownBootEntry { method: "uefi".into(), entry: "Boot0007".into(), order: "0007".into() };
    let hands_off = write.user_data_sha256.is_some().then_some(("hand-off", ReceiptFacts::HandedOff(handed_off)));
    let steps = [
        Some(("clear-metadata", ReceiptFacts::Cleared { disk, verified_bytes: 1 })),
        Some(("write-image", ReceiptFacts::Written(written))),
        hands_off,
        Some(("set-boot-entry", ReceiptFacts::BootEntry(entry))),
        Some(("reboot", ReceiptFacts::Leaving)),
    ];
    let receipt = |(index, (step, shows)): (u32, (&str, ReceiptFacts))| ShownReceipt {
        plan: number,
        index,
        step: step.to_owned(),
        span: Some((u64::from(index) * 100_000, u64::from(index) * 100_000 + 70_000)),
        is_signed: true,
        shows,
    };
    (0_u32..).zip(steps.into_iter().flatten()).map(receipt).collect()
}
