//! An agent that carries out its plans, without a machine below it, over the appliance's own listeners.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use firesteel_boot::RoutePath;
use firesteel_tests::network::ADDRESS;
use firesteel_wire::{
    Disk, DiskIdentity, Evidence, HELLO_PATH, Hello, HelloReply, Identity, Inventory, Plan, Program, PublicKey,
    REPORT_PATH, Receipt, Report, ReportReply, SIGNATURE_HEADER, Step, StepReport, StepState, Table, Verdict,
    erasure::{Erasure, Grade, Policy, Samples},
    signing_input,
};
use reqwest::Client;
use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
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
    http: Client,
    pair: Ed25519KeyPair,
    token: String,
    /// Counts from 1.
    boot: u8,
    disks: Vec<Disk>,
    reports: u64,
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
        Self::boot_nth(bench, self.boot + 1, self.disks)
    }

    fn boot_nth(bench: &Bench, boot: u8, disks: Vec<Disk>) -> Self {
        let http = client(&fs::read(bench.appliance.data().join("pki/ca.crt")).unwrap());
        let pair = Ed25519KeyPair::from_seed_unchecked(&[boot; 32]).unwrap();
        let mut agent = Self {
            http,
            pair,
            token: String::new(),
            boot,
            disks,
            reports: 0,
            plan: 0,
            steps: Vec::new(),
            receipts: Vec::new(),
            plans: Vec::new(),
            has_left: false,
        };
        let reply = bench.until("the agent may say hello", || {
            agent.token = agent.script_token(bench)?;
            agent.hello(bench)
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

    /// The token of the kernel in the host's boot script.
    fn script_token(&self, bench: &Bench) -> Option<String> {
        let base = format!("http://{ADDRESS}:8080");
        let url = format!("{base}/boot.ipxe?mac={}&platform=efi", MAC.replace(':', "-"));
        let script = bench.runtime.block_on(async { self.http.get(url).send().await.ok()?.text().await.ok() })?;
        let mut paths = script.split_ascii_whitespace().filter_map(|word| word.strip_prefix(base.as_str()));
        paths.find_map(|path| match RoutePath::parse(path) {
            Some(RoutePath::Kernel { token }) => Some(token),
            Some(_) | None => None,
        })
    }

    fn key(&self) -> PublicKey {
        PublicKey(self.pair.public_key().as_ref().try_into().unwrap())
    }

    fn boot_id(&self) -> String {
        format!("boot-{}", self.boot)
    }

    fn hello(&self, bench: &Bench) -> Option<HelloReply> {
        let hello = Hello {
            token: self.token.clone(),
            key: self.key(),
            identity: Identity { boot_mac: MAC.to_owned(), ..Identity::default() },
            agent_version: "0.1.0".to_owned(),
            kernel_version: "6.1".to_owned(),
            uptime_ms: 1000,
            boot_id: self.boot_id(),
            network: None,
            program: Program { sha256: String::new(), abilities: vec![Program::ERASE_DISK.to_owned()] },
        };
        self.say(bench, HELLO_PATH, &hello)
    }

    /// Reports, and carries out what the reply asks for; does nothing once it has left.
    pub(crate) fn work(&mut self, bench: &Bench) {
        if self.has_left {
            return;
        }
        self.reports += 1;
        let is_last = self.receipts.iter().any(|receipt| matches!(receipt.evidence, Evidence::ImageWritten { .. }));
        let report = Report {
            token: self.token.clone(),
            key: self.key(),
            boot_id: self.boot_id(),
            sequence: self.reports,
            uptime_ms: 1000 * (self.reports + 1),
            plan: self.plan,
            steps: self.steps.clone(),
            receipts: self.receipts.clone(),
            neighbours: Vec::new(),
            idle: false,
            leaving: is_last,
            log: Vec::new(),
        };
        let Some(reply) = self.say::<ReportReply>(bench, REPORT_PATH, &report) else { return };
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

    fn say<T: DeserializeOwned>(&self, bench: &Bench, path: &str, message: &impl Serialize) -> Option<T> {
        let body = serde_json::to_vec(message).unwrap();
        let signature = hex::encode(self.pair.sign(&signing_input(path, &body)));
        let request = self.http.post(format!("https://{ADDRESS}:8443{path}")).header(SIGNATURE_HEADER, signature);
        let request = request.header("content-type", "application/json").body(body);
        bench.runtime.block_on(async {
            let answer = request.send().await.unwrap();
            if answer.status() == 200 { answer.json().await.ok() } else { None }
        })
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

fn client(ca_pem: &[u8]) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem).unwrap()).unwrap();
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}
