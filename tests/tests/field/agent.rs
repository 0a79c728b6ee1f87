//! An agent that carries out its plans, without a machine below it, over the appliance's own listeners.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use firesteel_tests::agent_line::AgentLine;
use firesteel_tests::network::ADDRESS;
use firesteel_wire::{
    Disk, DiskIdentity, Evidence, HelloReply, Inventory, Plan, Program, Receipt, ReportReply, Step, StepReport,
    StepState, Table, Verdict,
    erasure::{Erasure, Grade, Policy, Samples},
};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::bench::{Bench, MAC};

const IMAGE_BYTES: usize = 1 << 20;

/// Has a host with this BMC installed, to the end that its agent leaves.
pub(crate) fn install(bench: &Bench, name: &str, address: &str) {
    bench.add_with(name, address, &json!({"image": image()}));
    bench.until("the host is switched on", || (bench.status(name)["poweredOn"] == true).then_some(()));
    Agent::boot(bench, vec![disk()]).finish(bench, name);
}

/// A disk with a name of its own.
fn disk() -> Disk {
    Disk {
        device: "/dev/sda".into(),
        by_path: "/dev/disk/by-path/pci-sda".into(),
        serial: "S1".into(),
        model: "MODEL".into(),
        size_bytes: 20 << 30,
        table: Some(Table::None),
        ..Disk::default()
    }
}

/// A disk image with a partition table, which is served from now on, as a host names it.
pub(crate) fn image() -> Value {
    let (url, sha256) = publish();
    json!({"url": url, "checksum": sha256, "checksumType": "sha256", "format": "raw"})
}

/// Where the image is served, and its digest.
fn publish() -> (String, String) {
    let mut image = vec![0_u8; IMAGE_BYTES];
    // One Linux partition from sector 8 on (MBR).
    image[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 2, 0, 8, 0, 0, 0, 0, 4, 0, 0]);
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    let sha256 = hex::encode(digest(&SHA256, &image));
    let listener = TcpListener::bind((ADDRESS, 0)).unwrap();
    let url = format!("http://{}/disk.raw", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", image.len());
            drop((&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(&image)));
        }
    });
    (url, sha256)
}

pub(crate) struct Agent {
    line: AgentLine,
    disks: Vec<Disk>,
    plan: u32,
    steps: Vec<StepReport>,
    receipts: Vec<Receipt>,
    /// All plans of this boot.
    pub(crate) plans: Vec<Plan>,
    has_left: bool,
}

impl Agent {
    /// Boots the machine with these disks, as soon as the appliance has a token for it.
    pub(crate) fn boot(bench: &Bench, disks: Vec<Disk>) -> Self {
        Self::boot_nth(bench, 1, disks)
    }

    /// Boots the same machine once more.
    pub(crate) fn boot_again(self, bench: &Bench) -> Self {
        Self::boot_nth(bench, self.line.boot() + 1, self.disks)
    }

    fn boot_nth(bench: &Bench, boot: u8, disks: Vec<Disk>) -> Self {
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
            Step::WriteImage { disk, .. } => Some(disk.clone()),
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

    fn obey(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Plan { plan } if plan.number != self.plan => self.carry_out(&plan),
            Verdict::Plan { .. } | Verdict::Continue => {}
            Verdict::Abort { reason } => panic!("the agent is to stop: {reason}"),
        }
    }

    fn carry_out(&mut self, plan: &Plan) {
        self.plan = plan.number;
        self.plans.push(plan.clone());
        self.steps.clear();
        for (index, step) in (0_u32..).zip(&plan.steps) {
            let name = serde_json::to_value(step).unwrap()["step"].as_str().unwrap().to_owned();
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
            if let Some(evidence) = evidence(step, &self.disks) {
                let plan = plan.number;
                self.receipts.push(Receipt { plan, index, step: name, started_ms: 1, ended_ms: 2, evidence });
            }
        }
    }

    /// Has the disk of a step be as the step leaves it.
    fn change_disks(&mut self, step: &Step) {
        let table = match step {
            Step::WriteImage { disk_guid, .. } => Table::Gpt { guid: disk_guid.clone() },
            Step::ClearMetadata { .. } | Step::EraseDisk { .. } => Table::None,
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

/// What an honest agent shows of a step.
fn evidence(step: &Step, disks: &[Disk]) -> Option<Evidence> {
    if let Step::EraseDisk { disk, policy, .. } = step {
        return Some(Evidence::DiskErased(Erasure {
            disk: disk.clone(),
            device: "/dev/vda".into(),
            policy: *policy,
            method: if *policy == Policy::Metadata { "metadata".into() } else { "overwrite".into() },
            grade: if *policy == Policy::Metadata { Grade::None } else { Grade::Clear },
            drive_log: Vec::new(),
            samples: Samples { read_back: 2048, blank_after: 2048, ..Samples::default() },
            tried: Vec::new(),
            left_out: Vec::new(),
            overridden: Vec::new(),
            unverified: Vec::new(),
        }));
    }
    if let Step::ClearMetadata { disk, .. } = step {
        return Some(Evidence::MetadataCleared {
            disk: disk.clone(),
            device: "/dev/vda".into(),
            cleared: vec!["gpt".into()],
            verified_bytes: 1 << 20,
            overridden: Vec::new(),
        });
    }
    if let Step::WriteImage { disk, image, disk_guid, .. } = step {
        return Some(Evidence::ImageWritten {
            disk: disk.clone(),
            device: "/dev/sda".into(),
            stream_sha256: image.stream_sha256.clone(),
            stream_bytes: image.stream_bytes,
            raw_sha256: image.raw_sha256.clone(),
            raw_bytes: image.raw_bytes,
            written_bytes: image.raw_bytes,
            readback_sha256: image.raw_sha256.clone(),
            readback_bytes: image.raw_bytes,
            disk_guid: disk_guid.clone(),
            last_usable_lba: 0,
            write_ms: 1,
            readback_ms: 1,
            overridden: Vec::new(),
        });
    }
    let inventory = Inventory { disks: disks.to_vec(), ..Inventory::default() };
    matches!(step, Step::Inspect).then_some(Evidence::Inspected { inventory })
}
