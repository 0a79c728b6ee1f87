//! An agent that says what a real one says, without a machine below it.

use std::net::{IpAddr, Ipv4Addr};

use firesteel_boot::{BootFileName, Platform, RoutePath, ScriptRequest};
use firesteel_wire::{
    AgentInstruction, AgentPlan, AgentReport, Evidence, Hello, HelloReply, Inventory, InventoryDisk, Neighbour,
    PlanStep, PublicKey, RefusalReply, SmbiosIdentity, StepReceipt, StepReport, StepState,
};

use crate::appliance::{Appliance, BOOT_FILES, ENDPOINTS};

pub(crate) const REMOTE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77));

pub(crate) fn disk(name: &str, serial: &str, gib: u64) -> InventoryDisk {
    InventoryDisk {
        device: format!("/dev/{name}"),
        by_path: format!("/dev/disk/by-path/pci-{name}"),
        serial: serial.into(),
        model: "MODEL".into(),
        size_bytes: gib << 30,
        ..InventoryDisk::default()
    }
}

/// How the work on a host ended.
pub(crate) enum End {
    /// The agent got a plan that changes a disk.
    WritePlan(AgentPlan),
    /// The host shows an error, and no such plan came.
    Error,
}

pub(crate) struct Agent {
    mac: String,
    uuid: String,
    pub(crate) token: String,
    key: PublicKey,
    boot_id: String,
    pub(crate) disks: Vec<InventoryDisk>,
    /// All but the disks.
    pub(crate) inventory: Inventory,
    pub(crate) neighbours: Vec<Neighbour>,
    plan: u32,
    steps: Vec<StepReport>,
    receipts: Vec<StepReceipt>,
    sequence: u64,
}

/// The script that a machine gets.
pub(crate) async fn script(appliance: &Appliance, mac: &str, uuid: &str) -> String {
    let request = ScriptRequest {
        mac: mac.parse().unwrap(),
        platform: Platform::Bios,
        buildarch: Some("x86_64".into()),
        uuid: Some(uuid.to_owned()).filter(|uuid| !uuid.is_empty()),
        serial: None,
        odd: Vec::new(),
    };
    appliance.control.boots.script(&request, REMOTE).await.text
}

/// The token of the kernel that a script starts.
pub(crate) fn token_in(script: &str) -> Option<String> {
    let base = ENDPOINTS.http_base();
    let mut paths = script.split_ascii_whitespace().filter_map(|word| word.strip_prefix(base.as_str()));
    paths.find_map(|path| match RoutePath::parse(path) {
        Some(RoutePath::Kernel { token }) => Some(token),
        Some(_) | None => None,
    })
}

impl Agent {
    /// Boots a machine with one disk.
    pub(crate) async fn boot(appliance: &Appliance, mac: &str, key: u8) -> Self {
        Self::boot_with(appliance, mac, key, "", vec![disk("sda", "A", 20)]).await
    }

    pub(crate) async fn boot_with(
        appliance: &Appliance,
        mac: &str,
        key: u8,
        uuid: &str,
        disks: Vec<InventoryDisk>,
    ) -> Self {
        let script = script(appliance, mac, uuid).await;
        let token = token_in(&script).unwrap_or_else(|| panic!("no agent for {mac}: {script}"));
        let claims = appliance.control.boots.open_boot(&token).await.unwrap().claims;
        for file in [BootFileName::Kernel, BootFileName::Initramfs] {
            appliance.control.observations.boot_bytes_sent(&claims, file, 0..BOOT_FILES.file(file).bytes);
        }
        Self {
            mac: mac.to_owned(),
            uuid: uuid.to_owned(),
            token,
            key: PublicKey([key; 32]),
            boot_id: format!("boot-{key}"),
            disks,
            inventory: Inventory::default(),
            neighbours: Vec::new(),
            plan: 0,
            steps: Vec::new(),
            receipts: Vec::new(),
            sequence: 0,
        }
    }

    /// The same words with another key, as somebody who has read the token would say them.
    pub(crate) fn stolen_by(&self, key: u8) -> Self {
        Self {
            mac: self.mac.clone(),
            uuid: self.uuid.clone(),
            token: self.token.clone(),
            key: PublicKey([key; 32]),
            boot_id: format!("boot-{key}"),
            disks: self.disks.clone(),
            inventory: self.inventory.clone(),
            neighbours: Vec::new(),
            plan: 0,
            steps: Vec::new(),
            receipts: Vec::new(),
            sequence: 0,
        }
    }

    pub(crate) async fn hello(&self, appliance: &Appliance) -> Result<HelloReply, RefusalReply> {
        let hello = Hello {
            token: self.token.clone(),
            key: self.key,
            identity: SmbiosIdentity {
                boot_mac: self.mac.clone(),
                uuid: self.uuid.clone(),
                ..SmbiosIdentity::default()
            },
            agent_version: "0".into(),
            kernel_version: "0".into(),
            uptime_ms: 1000,
            boot_id: self.boot_id.clone(),
            network: None,
            program: firesteel_wire::Program::default(),
        };
        appliance.control.agents.hello(hello, REMOTE).await
    }

    /// Reports; an idle agent waits here until there is something to do.
    pub(crate) async fn report(&mut self, appliance: &Appliance) -> Result<AgentInstruction, RefusalReply> {
        self.sequence += 1;
        let report = AgentReport {
            token: self.token.clone(),
            key: self.key,
            boot_id: self.boot_id.clone(),
            sequence: self.sequence,
            uptime_ms: 1000 * self.sequence,
            plan: self.plan,
            steps: self.steps.clone(),
            receipts: self.receipts.clone(),
            neighbours: self.neighbours.clone(),
            idle: true,
            leaving: false,
            log: Vec::new(),
        };
        Ok(appliance.control.agents.report(report, REMOTE).await?.verdict)
    }

    /// Inspects as it is told, until the host shows an error or a plan would change a disk.
    pub(crate) async fn work(&mut self, appliance: &Appliance, host: &str) -> End {
        let mut verdict = self.hello(appliance).await.unwrap().verdict;
        loop {
            match verdict {
                AgentInstruction::Plan { plan } if plan.steps.iter().any(PlanStep::is_destructive) => {
                    return End::WritePlan(plan);
                }
                AgentInstruction::Plan { plan } => self.inspect(&plan),
                AgentInstruction::Continue => {}
                AgentInstruction::Abort { reason } => panic!("{host}: told to leave: {reason}"),
            }
            verdict = tokio::select! {
                verdict = self.report(appliance) => verdict.unwrap(),
                _ = appliance.error(host) => return End::Error,
            };
        }
    }

    /// Says from now on that a step ended so, whether anybody asked for it or not.
    pub(crate) fn claim(&mut self, plan: u32, index: u32, evidence: Evidence) {
        let step = "clear-metadata".to_owned();
        self.receipts.push(StepReceipt { plan, index, step, started_ms: 1, ended_ms: 2, span: None, evidence });
    }

    pub(crate) fn inspect(&mut self, plan: &AgentPlan) {
        assert_eq!(plan.steps, [PlanStep::Inspect]);
        self.plan = plan.number;
        self.steps = vec![done(0, "inspect", false)];
        let mut inventory = Inventory { disks: self.disks.clone(), ..self.inventory.clone() };
        // It is the machine that its hello named.
        inventory.system.uuid.clone_from(&self.uuid);
        self.receipts.push(StepReceipt {
            plan: plan.number,
            index: 0,
            step: "inspect".into(),
            started_ms: 1,
            ended_ms: 2,
            span: None,
            evidence: Evidence::Inspected { inventory },
        });
    }
}

/// A step that ended well.
pub(crate) fn done(index: u32, step: &str, disk_changed: bool) -> StepReport {
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
