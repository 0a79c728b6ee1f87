//! An agent that carries out its plans, without a machine below it, over the appliance's own listeners.

use firesteel_tests::agent_line::AgentLine;
use firesteel_tests::{disk_image, honest};
use firesteel_wire::{
    AgentInstruction, AgentPlan, DiskIdentity, Evidence, HelloReply, InventoryDisk, PartitionTableRecord, PlanStep,
    Program, ReportReply, StepReceipt, StepReport, StepState,
};
use serde_json::json;

use crate::bench::{Bench, MAC};

/// Has a host with this BMC installed, to the end that its agent leaves.
pub(crate) fn install(bench: &Bench, name: &str, address: &str) {
    bench.add_with(name, address, &json!({"image": disk_image::served()}));
    bench.until("the host is switched on", || (bench.status(name)["poweredOn"] == true).then_some(()));
    Agent::boot(bench, vec![honest::disk()]).finish(bench, name);
}

pub(crate) struct Agent {
    line: AgentLine,
    disks: Vec<InventoryDisk>,
    plan: u32,
    steps: Vec<StepReport>,
    receipts: Vec<StepReceipt>,
    /// All plans of this boot.
    pub(crate) plans: Vec<AgentPlan>,
    has_left: bool,
}

impl Agent {
    /// Boots the machine with these disks, as soon as the appliance has a token for it.
    pub(crate) fn boot(bench: &Bench, disks: Vec<InventoryDisk>) -> Self {
        Self::boot_nth(bench, 1, disks)
    }

    /// Boots the same machine once more.
    pub(crate) fn boot_again(self, bench: &Bench) -> Self {
        Self::boot_nth(bench, self.line.boot() + 1, self.disks)
    }

    fn boot_nth(bench: &Bench, boot: u8, disks: Vec<InventoryDisk>) -> Self {
        let mut agent = Self {
            line: AgentLine::new(&bench.appliance.data(), MAC, boot),
            disks,
            plan: 0,
            steps: Vec::new(),
            receipts: Vec::new(),
            plans: Vec::new(),
            has_left: false,
        };
        let reply: HelloReply = bench.until("the agent may say hello", || {
            let program = Program { sha256: String::new(), abilities: vec![Program::ERASE_DISK.to_owned()] };
            bench.runtime.block_on(async {
                let answer = agent.line.come(program).await?;
                if answer.status() == 200 { answer.json().await.ok() } else { None }
            })
        });
        agent.obey(reply.verdict);
        agent
    }

    /// Works until its host is provisioned. Returns the disk that it wrote.
    pub(crate) fn finish(&mut self, bench: &Bench, name: &str) -> DiskIdentity {
        bench.until("the host is provisioned", || {
            self.work(bench);
            (bench.status(name)["provisioning"]["state"] == "provisioned").then_some(())
        });
        self.written().expect("a provisioned host had a write plan")
    }

    /// The disk that its write plan names.
    pub(crate) fn written(&self) -> Option<DiskIdentity> {
        self.plans.iter().flat_map(|plan| &plan.steps).find_map(|step| match step {
            PlanStep::WriteImage { disk, .. } => Some(disk.clone()),
            _ => None,
        })
    }

    /// Reports, and carries out what the reply asks for; does nothing once it has left.
    pub(crate) fn work(&mut self, bench: &Bench) {
        if self.has_left {
            return;
        }
        let is_last = self.receipts.iter().any(|receipt| matches!(receipt.evidence, Evidence::ImageWritten { .. }));
        let mut report = self.line.next_report();
        report.plan = self.plan;
        (report.steps, report.receipts) = (self.steps.clone(), self.receipts.clone());
        report.leaving = is_last;
        let reply: Option<ReportReply> = bench.runtime.block_on(async {
            let answer = self.line.report(&report).await;
            if answer.status() == 200 { answer.json().await.ok() } else { None }
        });
        let Some(reply) = reply else { return };
        self.has_left = is_last;
        self.obey(reply.verdict);
    }

    fn obey(&mut self, verdict: AgentInstruction) {
        match verdict {
            AgentInstruction::Plan { plan } if plan.number != self.plan => self.carry_out(&plan),
            AgentInstruction::Plan { .. } | AgentInstruction::Continue => {}
            AgentInstruction::Abort { reason } => panic!("the agent is to stop: {reason}"),
        }
    }

    fn carry_out(&mut self, plan: &AgentPlan) {
        self.plan = plan.number;
        self.plans.push(plan.clone());
        self.steps.clear();
        for (index, step) in (0_u32..).zip(&plan.steps) {
            let name = step.name().to_owned();
            self.steps.push(StepReport {
                index,
                step: name.clone(),
                state: StepState::Done,
                activity: String::new(),
                done_bytes: 0,
                total_bytes: 0,
                bytes_per_second: 0,
                started_ms: 1,
                ended_ms: 2,
                error: String::new(),
                disk_changed: step.is_destructive(),
            });
            self.change_disks(step);
            let (plan, evidence) = (plan.number, honest::evidence(step, &self.disks));
            self.receipts.push(StepReceipt {
                plan,
                index,
                step: name,
                started_ms: 1,
                ended_ms: 2,
                span: None,
                evidence,
            });
        }
    }

    /// Has the disk of a step be as the step leaves it.
    fn change_disks(&mut self, step: &PlanStep) {
        let table = match step {
            PlanStep::WriteImage { disk_guid, .. } => PartitionTableRecord::Gpt { guid: disk_guid.clone() },
            PlanStep::ClearMetadata { .. } | PlanStep::EraseDisk { .. } => PartitionTableRecord::None,
            _ => return,
        };
        let by_path = step.disk().map(|disk| disk.by_path.clone()).unwrap_or_default();
        let serial = step.disk().map(|disk| disk.serial.clone()).unwrap_or_default();
        for disk in self.disks.iter_mut().filter(|disk| by_path.is_empty() || disk.by_path == by_path) {
            if disk.serial == serial {
                disk.table = Some(table.clone());
            }
        }
    }
}
