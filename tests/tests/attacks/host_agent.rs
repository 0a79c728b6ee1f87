//! An agent of a machine in the machines' namespace: of the one with the MAC `mac(1)`, if no other is named.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_tests::agent_line::AgentLine;
use firesteel_tests::field::{Field, mac};
use firesteel_tests::honest;
use firesteel_tests::network::AGENT;
use firesteel_wire::receipt::UptimeSpan;
use firesteel_wire::{
    AgentInstruction, AgentPlan, Evidence, HelloReply, Inventory, InventoryDisk, InventorySystem, LogLine, LogSource,
    PartitionTableRecord, PlanStep, Program, ReportReply, StepReceipt, StepReport, StepState,
};
use ring::digest::{SHA256, digest};
use tokio::runtime::Runtime;

/// What the SMBIOS of the machine says.
const UUID: &str = "4c4c4544-0051-4710-8052-b4c04f4d5a31";
const SERIAL: &str = "SN-0042";

pub(crate) struct HostAgent {
    /// Of one thread at a time, so that its sockets are in the namespace of that thread.
    runtime: Runtime,
    line: AgentLine,
    /// What its inspections find.
    disks: Vec<InventoryDisk>,
    /// The newest plan, and the receipts of all.
    plan: AgentPlan,
    receipts: Vec<StepReceipt>,
    /// What it was answered last.
    verdict: AgentInstruction,
    /// Why it is to change no disk, by that answer.
    hold: Option<String>,
}

impl HostAgent {
    /// In the `boot`-th boot of the machine.
    pub(crate) fn new(field: &Field, boot: u8) -> Self {
        Self::booted(field, 1, boot)
    }

    /// Of the machine with this MAC, in its first boot.
    pub(crate) fn of(field: &Field, machine: u8) -> Self {
        Self::booted(field, machine, machine)
    }

    /// Of a machine in one of its boots. Each boot has a number that no other one of the test has.
    pub(crate) fn booted(field: &Field, machine: u8, boot: u8) -> Self {
        Self {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            line: AgentLine::new(&field.appliance.data(), &mac(machine).to_string(), boot),
            disks: vec![honest::disk()],
            plan: AgentPlan { number: 0, attempt: 0, steps: Vec::new() },
            receipts: Vec::new(),
            verdict: AgentInstruction::Continue,
            hold: None,
        }
    }

    /// Says of its machine what each boot of it says.
    pub(crate) fn is_itself(&mut self) {
        self.line.is_machine(UUID, SERIAL);
    }

    /// Says so of its machine.
    pub(crate) fn is_machine(&mut self, uuid: &str, serial: &str) {
        self.line.is_machine(uuid, serial);
    }

    /// Takes the token of a boot script, and fetches nothing.
    pub(crate) fn take(&mut self, script: &str) {
        self.line.take(script);
    }

    /// Takes the token of a boot script, and fetches what belongs to it.
    pub(crate) fn boot(&mut self, field: &Field, script: &str) {
        self.take(script);
        for file in ["kernel", "initramfs"] {
            assert_eq!(self.fetch(field, file, None), 200, "{file}");
        }
    }

    /// Fetches a file, or a range of it; the status of the answer.
    pub(crate) fn fetch(&self, field: &Field, file: &str, range: Option<&str>) -> u16 {
        let Self { runtime, line, .. } = self;
        field.there(|| runtime.block_on(line.fetch(file, range)).unwrap())
    }

    /// Fetches a whole file; the answer's body.
    pub(crate) fn fetch_bytes(&self, field: &Field, file: &str) -> Vec<u8> {
        let Self { runtime, line, .. } = self;
        let (status, bytes) = field.there(|| runtime.block_on(line.fetch_bytes(file, None)).unwrap());
        assert_eq!(status, 200, "{file}");
        bytes.to_vec()
    }

    /// Says hello; status and body of the answer.
    pub(crate) fn hello(&self, field: &Field, program: Program) -> (u16, String) {
        let Self { runtime, line, .. } = self;
        field.there(|| {
            runtime.block_on(async {
                let answer = line.hello(program).await;
                (answer.status().as_u16(), answer.text().await.unwrap())
            })
        })
    }

    /// Reports until it has a plan.
    pub(crate) fn wait_for_plan(&mut self, field: &Field) {
        loop {
            let Self { runtime, line, .. } = self;
            let mut report = line.next_report();
            report.idle = true;
            let reply: ReportReply =
                field.there(|| runtime.block_on(async { line.report(&report).await.json().await.unwrap() }));
            if let AgentInstruction::Plan { .. } = reply.verdict {
                return;
            }
        }
    }

    /// Reports that it inspected a machine of this UUID and serial number, and leaves; the status of the answer.
    pub(crate) fn inspected(&mut self, field: &Field, uuid: &str, serial: &str) -> u16 {
        let Self { runtime, line, .. } = self;
        let mut report = line.next_report();
        let evidence = Evidence::Inspected { inventory: inventory(uuid, serial) };
        let step = "inspect".to_owned();
        report.plan = 1;
        report.receipts =
            vec![StepReceipt { plan: 1, index: 0, step, started_ms: 1, ended_ms: 2, span: None, evidence }];
        report.steps = vec![step_done(0, "inspect", false)];
        field.there(|| runtime.block_on(line.report(&report)).status().as_u16())
    }

    /// The first digits of its key, as people are shown them.
    pub(crate) fn short_key(&self) -> String {
        self.line.key().to_string()[..16].to_owned()
    }

    /// Reports once; status and body of the answer.
    pub(crate) fn reports(&mut self, field: &Field, is_leaving: bool) -> (u16, String) {
        let Self { runtime, line, .. } = self;
        let mut report = line.next_report();
        report.leaving = is_leaving;
        field.there(|| {
            runtime.block_on(async {
                let answer = line.report(&report).await;
                (answer.status().as_u16(), answer.text().await.unwrap())
            })
        })
    }

    /// Reports once, with nothing to do; status of the answer, and the reply where it was taken.
    pub(crate) fn reply(&mut self, field: &Field) -> (u16, Option<ReportReply>) {
        let (status, body) = self.reports(field, false);
        (status, (status == 200).then(|| serde_json::from_str(&body).unwrap()))
    }

    /// Reports these lines as its log.
    pub(crate) fn logs(&mut self, field: &Field, lines: &[String]) {
        let Self { runtime, line, plan, receipts, .. } = self;
        let mut report = line.next_report();
        (report.plan, report.receipts) = (plan.number, receipts.clone());
        report.log = lines
            .iter()
            .zip(1..)
            .map(|(text, sequence)| LogLine {
                sequence,
                uptime_ms: sequence,
                source: LogSource::Agent,
                severity: 6,
                text: text.clone(),
            })
            .collect();
        let status = field.there(|| runtime.block_on(line.report(&report)).status());
        assert_eq!(status, 200);
    }

    /// Says hello, and carries plans out as they come, up to one that writes an image, which it has begun.
    pub(crate) fn begin_write(&mut self, field: &Field) {
        self.begin(field);
        self.follow(field, writes);
    }

    /// Shows all that an honest agent shows of the plan that it has begun, and leaves.
    pub(crate) fn end_write(&mut self, field: &Field) {
        self.carry_out(|_| {});
        self.show(field, true);
    }

    /// Says hello, carries out the plan to inspect, and returns why it is to change no disk.
    pub(crate) fn inspect(&mut self, field: &Field) -> Option<String> {
        self.begin(field);
        self.follow(field, inspects);
        self.carry_out(|_| {});
        self.show(field, false);
        self.hold.clone()
    }

    /// Goes on after that: carries plans out as they come, up to one that writes an image, and all of that one.
    pub(crate) fn go_on(&mut self, field: &Field) {
        self.work(field, writes, |_| {});
    }

    /// Whether its newest plan writes an image.
    pub(crate) fn is_to_write(&self) -> bool {
        let is_next = match &self.verdict {
            AgentInstruction::Plan { plan } => writes(plan),
            AgentInstruction::Continue | AgentInstruction::Abort { .. } => false,
        };
        is_next || writes(&self.plan)
    }

    /// A file that its newest plan hands over to the boot partition.
    pub(crate) fn handed_over(&self, path: &str) -> String {
        let forms = self.plan.steps.iter().find_map(|step| {
            let PlanStep::HandOff { forms, .. } = step else { return None };
            forms.as_deref()
        });
        let boot = forms.unwrap().boot_partition.as_ref().unwrap();
        let file = boot.files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}"));
        String::from_utf8(STANDARD.decode(&file.content_base64).unwrap()).unwrap()
    }

    /// Reports once; the status of the answer.
    pub(crate) fn report(&mut self, field: &Field, is_leaving: bool) -> u16 {
        let Self { runtime, line, .. } = self;
        let mut report = line.next_report();
        report.leaving = is_leaving;
        field.there(|| runtime.block_on(line.report(&report)).status().as_u16())
    }

    /// Says hello, and carries plans out as they come, up to one that writes an image: it shows what `forge` makes of that
    /// one's receipts, and leaves. Returns the disks as they are then.
    pub(crate) fn install(&mut self, field: &Field, forge: fn(&mut Vec<StepReceipt>)) -> Vec<InventoryDisk> {
        self.begin(field);
        self.work(field, writes, forge);
        self.disks.clone()
    }

    /// Says hello from a machine with these disks, and carries plans out as they come, up to one that erases: it shows
    /// what `forge` makes of that one's receipts, and stays.
    pub(crate) fn erase(&mut self, field: &Field, disks: Vec<InventoryDisk>, forge: fn(&mut Vec<StepReceipt>)) {
        self.disks = disks;
        self.begin(field);
        self.work(field, erases, forge);
    }

    /// Goes on up to the plan that switches its host off, and says that it leaves for that.
    pub(crate) fn switch_off(&mut self, field: &Field) {
        self.work(field, switches_off, |_| {});
    }

    fn begin(&mut self, field: &Field) {
        self.is_itself();
        let sha256 = hex::encode(digest(&SHA256, AGENT.as_bytes()));
        let program = Program { sha256, abilities: vec![Program::ERASE_DISK.to_owned()] };
        let (status, body) = self.hello(field, program);
        assert_eq!(status, 200, "{body}");
        self.verdict = serde_json::from_str::<HelloReply>(&body).unwrap().verdict;
    }

    /// Carries plans out as they come, up to the last one, whose receipts are forged.
    fn work(&mut self, field: &Field, is_last: fn(&AgentPlan) -> bool, forge: fn(&mut Vec<StepReceipt>)) {
        self.follow(field, is_last);
        self.carry_out(forge);
        self.show(field, true);
    }

    /// Carries plans out as they come, up to the last one, which it has begun.
    fn follow(&mut self, field: &Field, is_last: fn(&AgentPlan) -> bool) {
        loop {
            match std::mem::replace(&mut self.verdict, AgentInstruction::Continue) {
                AgentInstruction::Plan { plan } if plan.number != self.plan.number => {
                    self.plan = plan;
                    if is_last(&self.plan) {
                        return;
                    }
                    self.carry_out(|_| {});
                }
                AgentInstruction::Plan { .. } | AgentInstruction::Continue => {}
                AgentInstruction::Abort { reason } => panic!("the agent is to stop: {reason}"),
            }
            self.show(field, false);
        }
    }

    /// Ends the plan that it has begun, with receipts as `forge` leaves them.
    fn carry_out(&mut self, forge: fn(&mut Vec<StepReceipt>)) {
        let mut own = carried_out(&self.plan, &self.disks);
        forge(&mut own);
        self.receipts.extend(own);
        self.change_disks();
    }

    /// Shows what it did, and takes the answer.
    fn show(&mut self, field: &Field, is_over: bool) {
        let Self { runtime, line, plan, receipts, .. } = self;
        let mut report = line.next_report();
        (report.plan, report.steps, report.receipts) = (plan.number, done(plan), receipts.clone());
        (report.leaving, report.idle) = (is_over && leaves(plan), !is_over);
        let answer = field.there(|| {
            runtime.block_on(async {
                let answer = line.report(&report).await;
                assert_eq!(answer.status(), 200);
                answer.json::<ReportReply>().await.unwrap()
            })
        });
        (self.verdict, self.hold) = (answer.verdict, answer.hold);
    }

    /// Has the disks be as a plan leaves them; all plans are about the only one.
    fn change_disks(&mut self) {
        for step in &self.plan.steps {
            let table = match step {
                PlanStep::WriteImage { disk_guid, .. } => PartitionTableRecord::Gpt { guid: disk_guid.clone() },
                PlanStep::ClearMetadata { .. } | PlanStep::EraseDisk { .. } => PartitionTableRecord::None,
                PlanStep::Inspect
                | PlanStep::HandOff { .. }
                | PlanStep::SetBootEntry { .. }
                | PlanStep::Reboot
                | PlanStep::PowerOff => {
                    continue;
                }
            };
            self.disks.iter_mut().for_each(|disk| disk.table = Some(table.clone()));
        }
    }
}

/// What is found in a machine of this UUID and serial number without disks.
fn inventory(uuid: &str, serial: &str) -> Inventory {
    let system = InventorySystem { uuid: uuid.to_owned(), serial: serial.to_owned(), ..InventorySystem::default() };
    Inventory { system, ..Inventory::default() }
}

fn inspects(plan: &AgentPlan) -> bool {
    plan.steps.iter().any(|step| matches!(step, PlanStep::Inspect))
}

fn writes(plan: &AgentPlan) -> bool {
    plan.steps.iter().any(|step| matches!(step, PlanStep::WriteImage { .. }))
}

fn erases(plan: &AgentPlan) -> bool {
    plan.steps.iter().any(|step| matches!(step, PlanStep::EraseDisk { .. }))
}

fn switches_off(plan: &AgentPlan) -> bool {
    plan.steps.iter().any(|step| matches!(step, PlanStep::PowerOff))
}

fn leaves(plan: &AgentPlan) -> bool {
    plan.steps.iter().any(|step| matches!(step, PlanStep::Reboot | PlanStep::PowerOff))
}

/// What an honest agent shows of a plan on a machine with these disks.
fn carried_out(plan: &AgentPlan, disks: &[InventoryDisk]) -> Vec<StepReceipt> {
    let receipt = |(index, step): (u32, &PlanStep)| StepReceipt {
        plan: plan.number,
        index,
        step: step.name().to_owned(),
        started_ms: 1,
        ended_ms: 2,
        span: Some(UptimeSpan { began_ms: 1000 * u64::from(index), ended_ms: 1000 * u64::from(index) + 900 }),
        evidence: match step {
            PlanStep::Inspect => {
                Evidence::Inspected { inventory: Inventory { disks: disks.to_vec(), ..inventory(UUID, SERIAL) } }
            }
            PlanStep::ClearMetadata { .. }
            | PlanStep::EraseDisk { .. }
            | PlanStep::WriteImage { .. }
            | PlanStep::HandOff { .. }
            | PlanStep::SetBootEntry { .. }
            | PlanStep::Reboot
            | PlanStep::PowerOff => honest::evidence(step, disks),
        },
    };
    (0..).zip(&plan.steps).map(receipt).collect()
}

/// All steps of a plan, done.
fn done(plan: &AgentPlan) -> Vec<StepReport> {
    let step = |(index, step): (u32, &PlanStep)| step_done(index, step.name(), step.is_destructive());
    (0..).zip(&plan.steps).map(step).collect()
}

fn step_done(index: u32, step: &str, disk_changed: bool) -> StepReport {
    StepReport {
        index,
        step: step.to_owned(),
        state: StepState::Done,
        activity: String::new(),
        done_bytes: 0,
        total_bytes: 0,
        bytes_per_second: 0,
        started_ms: 1,
        ended_ms: 2,
        error: String::new(),
        disk_changed,
    }
}
