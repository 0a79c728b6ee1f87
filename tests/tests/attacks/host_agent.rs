//! An agent of a machine in the machines' namespace: of the one with the MAC `mac(1)`, if no other is named.

use firesteel_tests::{
    agent_line::AgentLine,
    field::{Field, mac},
    honest,
};
use firesteel_wire::{
    Evidence, HelloReply, Inventory, Plan, Program, Receipt, ReportReply, Step, StepReport, StepState, System, Verdict,
    receipt::UptimeSpan,
};
use tokio::runtime::Runtime;

pub(crate) struct HostAgent {
    /// Of one thread at a time, so that its sockets are in the namespace of that thread.
    runtime: Runtime,
    line: AgentLine,
}

impl HostAgent {
    /// In the `boot`-th boot of the machine.
    pub(crate) fn new(field: &Field, boot: u8) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, line: AgentLine::new(&field.appliance.data(), &mac(1).to_string(), boot) }
    }

    /// Of the machine with this MAC, in its first boot.
    pub(crate) fn of(field: &Field, machine: u8) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, line: AgentLine::new(&field.appliance.data(), &mac(machine).to_string(), machine) }
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
        let Self { runtime, line } = self;
        field.there(|| runtime.block_on(line.fetch(file, range)).unwrap())
    }

    /// Says hello; status and body of the answer.
    pub(crate) fn hello(&self, field: &Field, program: Program) -> (u16, String) {
        let Self { runtime, line } = self;
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
            let Self { runtime, line } = self;
            let mut report = line.next_report();
            report.idle = true;
            let reply: ReportReply =
                field.there(|| runtime.block_on(async { line.report(&report).await.json().await.unwrap() }));
            if let Verdict::Plan { .. } = reply.verdict {
                return;
            }
        }
    }

    /// Reports that it inspected a machine of this UUID and serial number, and leaves; the status of the answer.
    pub(crate) fn inspected(&mut self, field: &Field, uuid: &str, serial: &str) -> u16 {
        let Self { runtime, line } = self;
        let mut report = line.next_report();
        let system = System { uuid: uuid.to_owned(), serial: serial.to_owned(), ..System::default() };
        let evidence = Evidence::Inspected { inventory: Inventory { system, ..Inventory::default() } };
        let step = "inspect".to_owned();
        report.plan = 1;
        report.receipts = vec![Receipt { plan: 1, index: 0, step, started_ms: 1, ended_ms: 2, span: None, evidence }];
        report.steps = vec![step_done(0, "inspect", false)];
        field.there(|| runtime.block_on(line.report(&report)).status().as_u16())
    }

    /// Reports once; the status of the answer.
    pub(crate) fn report(&mut self, field: &Field, is_leaving: bool) -> u16 {
        let Self { runtime, line } = self;
        let mut report = line.next_report();
        report.leaving = is_leaving;
        field.there(|| runtime.block_on(line.report(&report)).status().as_u16())
    }

    /// Says hello, and carries plans out as they come, up to one that writes an image: it shows what `forge` makes of that
    /// one's receipts, and leaves.
    pub(crate) fn install(&mut self, field: &Field, forge: fn(&mut Vec<Receipt>)) {
        let program = Program { abilities: vec![Program::ERASE_DISK.to_owned()], ..Program::default() };
        let (status, body) = self.hello(field, program);
        assert_eq!(status, 200, "{body}");
        let mut verdict = serde_json::from_str::<HelloReply>(&body).unwrap().verdict;
        let (mut plan, mut receipts) = (Plan { number: 0, attempt: 0, steps: Vec::new() }, Vec::new());
        loop {
            match verdict {
                Verdict::Plan { plan: new } if new.number != plan.number => {
                    let mut own = carried_out(&new);
                    if writes(&new) {
                        forge(&mut own);
                    }
                    receipts.extend(own);
                    plan = new;
                }
                Verdict::Plan { .. } | Verdict::Continue => {}
                Verdict::Abort { reason } => panic!("the agent is to stop: {reason}"),
            }
            let Self { runtime, line } = self;
            let mut report = line.next_report();
            (report.plan, report.steps, report.receipts) = (plan.number, done(&plan), receipts.clone());
            (report.leaving, report.idle) = (writes(&plan), !writes(&plan));
            let answer = field.there(|| {
                runtime.block_on(async {
                    let answer = line.report(&report).await;
                    assert_eq!(answer.status(), 200);
                    answer.json::<ReportReply>().await.unwrap()
                })
            });
            if report.leaving {
                return;
            }
            verdict = answer.verdict;
        }
    }
}

fn writes(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| matches!(step, Step::WriteImage { .. }))
}

/// What an honest agent shows of a plan.
fn carried_out(plan: &Plan) -> Vec<Receipt> {
    let receipt = |(index, step): (u32, &Step)| Receipt {
        plan: plan.number,
        index,
        step: step.name().to_owned(),
        started_ms: 1,
        ended_ms: 2,
        span: Some(UptimeSpan { began_ms: 1000 * u64::from(index), ended_ms: 1000 * u64::from(index) + 900 }),
        evidence: honest::evidence(step, &[honest::disk()]),
    };
    (0..).zip(&plan.steps).map(receipt).collect()
}

/// All steps of a plan, done.
fn done(plan: &Plan) -> Vec<StepReport> {
    let step = |(index, step): (u32, &Step)| step_done(index, step.name(), step.is_destructive());
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
