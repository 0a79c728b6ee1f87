//! An agent of the machine with the MAC `mac(1)`, in the machines' namespace.

use firesteel_tests::{
    agent_line::AgentLine,
    field::{Field, mac},
};
use firesteel_wire::{Evidence, Inventory, Program, Receipt, ReportReply, StepReport, StepState, System, Verdict};
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
        report.receipts = vec![Receipt { plan: 1, index: 0, step, started_ms: 1, ended_ms: 2, evidence }];
        report.steps = vec![StepReport {
            index: 0,
            step: "inspect".to_owned(),
            state: StepState::Done,
            activity: String::new(),
            done_bytes: 0,
            total_bytes: 0,
            bytes_per_second: 0,
            started_ms: 1,
            ended_ms: 2,
            error: String::new(),
            disk_changed: false,
        }];
        field.there(|| runtime.block_on(line.report(&report)).status().as_u16())
    }

    /// Reports once; the status of the answer.
    pub(crate) fn report(&mut self, field: &Field, is_leaving: bool) -> u16 {
        let Self { runtime, line } = self;
        let mut report = line.next_report();
        report.leaving = is_leaving;
        field.there(|| runtime.block_on(line.report(&report)).status().as_u16())
    }
}
