//! Golden texts of pages and tables, in terminals of 80 and 120 columns and in a pipe: `plan` and `describe` of a host with
//! a consumer, an installed system and six data disks, `get hosts` of a fleet, and `watch` of 60 hosts.
//!
//! After an intended change, `UPDATE_GOLDEN=1 cargo test -p firesteel-cli golden` writes the texts again.
#![allow(clippy::unwrap_used, reason = "tests")]

mod explain;

use firesteel_control::UnknownHost;
use firesteel_plan::host::preview::preview;
use firesteel_plan::host::{ChangedDisk, DiskPlan, HostState, InstalledSystem};
use firesteel_plan::{DiskIdentity, HostMemory, select_disk};
use firesteel_resources::halt::Halt;
use firesteel_resources::hardware::{DiskRecord, TableRecord};
use firesteel_resources::host_journal::{JournalProgress, JournalReason, TimelineEvent};
use firesteel_resources::{
    BareMetalHost, DiscoveredHost, HardwareRecord, HostJournal, Image, ObjectReference, Receipt, RootDeviceHints,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::get::FleetListing;
use super::table::UNBOUNDED;
use super::unowned_machines::Strangers;

const GUID: &str = "f17e57ee-1000-8000-8001-00000000002a";
/// The outputs that pages are compared for: two terminals, and a pipe.
const OUTPUTS: [GoldenOutput; 3] = [
    GoldenOutput { name: "80", width: 80 },
    GoldenOutput { name: "120", width: 120 },
    GoldenOutput { name: "pipe", width: UNBOUNDED },
];

struct GoldenOutput {
    name: &'static str,
    width: usize,
}

fn disk(letter: char, serial: &str, contents: Value) -> DiskRecord {
    DiskRecord {
        device: format!("/dev/sd{letter}"),
        serial: serial.into(),
        model: "DISK".into(),
        size_bytes: 500_000_000_000,
        contents: Some(serde_json::from_value(contents).unwrap()),
        ..DiskRecord::default()
    }
}

fn disks() -> Vec<DiskRecord> {
    let system = json!({
        "guid": GUID,
        "plain": [{"place": "the disk", "name": "gpt"}, {"place": "partition 3", "name": "ext4"}],
    });
    let vmfs = json!({
        "guid": "aa", "plain": [{"place": "the disk", "name": "gpt"}],
        "findings": [{"place": "partition 1", "kind": "vmfs", "name": "datastore1"}],
    });
    let pv = json!({"findings": [{"place": "the disk", "kind": "lvm", "name": "vg0", "owner": {"host": "nas"}}]});
    let ceph = json!({"findings": [
        {"place": "the disk", "kind": "ceph", "name": "ceph-5c2e"},
        {"place": "volume \"ceph-5c2e/osd-block-1\"", "kind": "ceph", "name": "osd.1"},
    ]});
    let why = "a GUID partition table whose checksum is wrong";
    let unread = json!({"unread": [{"place": "the disk", "why": why}]});
    let names = (1..=12).map(|number| json!({"place": format!("volume \"data/lv{number:02}\""), "name": "xfs"}));
    let lvm = json!({
        "findings": [{"place": "the disk", "kind": "lvm", "name": "data", "owner": {"host": "rack1-07"}}],
        "plain": names.collect::<Vec<_>>(),
    });
    let mut root = disk('a', "ROOT", system);
    root.table = Some(TableRecord::Gpt { guid: GUID.into() });
    root.size_bytes = 250_000_000_000;
    vec![
        root,
        disk('b', "VMFS", vmfs),
        disk('c', "PV", pv),
        disk('d', "CEPH", ceph),
        disk('e', "UNREAD", unread),
        disk('f', "LVM", lvm),
        disk('g', "EMPTY", json!({})),
    ]
}

/// Makes the host, the planner's memory of it, and its hardware record.
fn host() -> (BareMetalHost, HostMemory, HardwareRecord) {
    let mut host = BareMetalHost::default();
    host.metadata.name = "rack1-07".into();
    host.spec.online = true;
    host.spec.image = Some(Image { url: "http://images/os".into(), ..Image::default() });
    let consumer = ObjectReference {
        kind: "HostClaim".into(),
        namespace: "tenants".into(),
        name: "one".into(),
        ..ObjectReference::default()
    };
    host.spec.consumer_ref = Some(consumer);
    let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let record = HardwareRecord { attempt: 3, plan: 1, inspected_at: at, disks: disks(), ..HardwareRecord::default() };
    let identity = |disk: &DiskRecord| DiskIdentity {
        serial: disk.serial.clone(),
        model: disk.model.clone(),
        size_bytes: disk.size_bytes,
        ..DiskIdentity::default()
    };
    let all: Vec<DiskIdentity> = record.disks.iter().map(identity).collect();
    let choice = select_disk(&RootDeviceHints::default(), &record.disks).unwrap();
    assert_eq!(choice.disk, all[0]);
    let memory = HostMemory {
        state: HostState::Provisioned,
        attempt: 3,
        disk: Some(DiskPlan { choice, inspected_in: 3, hints: RootDeviceHints::default(), chosen_at: at }),
        disk_dirty: true,
        tenant: Some("HostClaim tenants/one".into()),
        tenant_targets: vec![all[0].clone()],
        vacant_disks: vec![all[0].clone(), all[6].clone()],
        tenant_disks: all,
        names: vec!["rack1-07".into(), "one".into()],
        applied: Some(InstalledSystem {
            image: host.spec.image.clone().unwrap(),
            ready: firesteel_plan::host::ReadyImage::default(),
            disk_guid: GUID.into(),
            attempt: 3,
            at,
            user_data_sha256: None,
            configs: Vec::new(),
            left_properly: true,
        }),
        ..HostMemory::default()
    };
    (host, memory, record)
}

fn compare(name: &str, text: &str) {
    let path = format!("{}/src/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}; set UPDATE_GOLDEN=1"));
    assert_eq!(text, golden, "{path}");
}

/// Compares a page in each output. `words` are texts that must not be cut anywhere; a line break may be in them.
fn compare_outputs(name: &str, words: &[&str], render: impl Fn(usize) -> String) {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for GoldenOutput { name: output, width } in &OUTPUTS {
        let text = render(*width);
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest <= *width, "{name} at {output} has a line of {longest}:\n{text}");
        for word in words {
            assert!(flat(&text).contains(word), "{name} at {output} does not have {word:?}:\n{text}");
        }
        compare(&format!("{name}.{output}"), &text);
    }
}

#[test]
fn plan_shows_what_stands_on_each_disk_and_the_refusal() {
    let (host, memory, record) = host();
    let seen = preview(&host, &memory, Some(&record));
    let why = ["the disk of the installation: tables and signatures; its data stays"];
    compare_outputs("plan", &why, |width| {
        let text = super::plan::render(&seen, width);
        assert!(!text.contains('…'), "nothing of a plan is cut: {text}");
        text
    });
}

#[test]
fn describe_shows_what_stands_on_each_disk_and_what_a_guard_says() {
    let (host, memory, record) = host();
    let at = record.inspected_at;
    let mut journal = HostJournal::default();
    journal.status.memory = serde_json::to_value(&memory).unwrap();
    journal.status.hardware = Some(record);
    compare_outputs("describe", &[], |width| super::describe::render(&host, &journal, at, width));
}

/// A URL that is longer than a terminal is wide.
const LONG_URL: &str = "https://images.example.org/streams/stable/builds/41.20260101.3.0/x86_64/fedora-coreos-41.20260101.3.0-metal.x86_64.raw.xz";

fn machine(name: &str, state: &str, error: &str) -> BareMetalHost {
    let host = json!({
        "metadata": {"name": name, "namespace": "rack1", "creationTimestamp": "2025-12-31T00:00:00Z"},
        "spec": {"online": true, "bootMACAddress": "52:54:00:00:00:07",
                 "bmc": {"address": "redfish://10.0.0.7/redfish/v1/Systems/1", "credentialsName": "bmc"},
                 "consumerRef": {"kind": "HostClaim", "name": "worker-0"}},
        "status": {"poweredOn": true, "errorMessage": error, "provisioning": {"state": state}},
    });
    serde_json::from_value(host).unwrap()
}

/// A fleet with each kind of row: at work, in an error, locked, discovered and stalled; and it is halted.
fn fleet(now: Timestamp) -> FleetListing {
    let error = format!("could not fetch the image: 404 Not Found ({LONG_URL})");
    let mut hosts = vec![machine("rack1-01", "provisioning", ""), machine("rack1-02", "provisioning", &error)];
    hosts.push(machine("rack1-03", "available", ""));
    hosts[2]
        .metadata
        .annotations
        .insert("firesteel.dev/lock".into(), "kept for the audit of the disks until Friday".into());
    let mut journal = HostJournal::default();
    (journal.metadata.name, journal.metadata.namespace) = ("rack1-01".into(), "rack1".into());
    journal.status.progress = Some(JournalProgress { percent: 43, at: now, ..JournalProgress::default() });
    journal.status.reason = Some(JournalReason {
        text: "writing the image to /dev/nvme0n1 (model QEMU NVMe Ctrl, serial LAB01DISK0, 4.29 GB)".into(),
        location: "host/provisioning.rs:120".into(),
        since: now,
    });
    let mut found = DiscoveredHost::default();
    found.status.boot_mac = "52:54:00:00:00:21".into();
    (found.status.manufacturer, found.status.product) = ("QEMU".into(), "Standard PC (Q35 + ICH9, 2009)".into());
    found.status.last_seen = now;
    let stalled = UnknownHost {
        mac: "52:54:00:00:00:22".into(),
        first_seen: now,
        last_seen: now,
        stage: "loader snponly.efi fetched by TFTP".into(),
        stalled: "Secure Boot refuses an unsigned loader".into(),
        hint: "stopped by Secure Boot?".into(),
        ..UnknownHost::default()
    };
    let mut halt = Halt::default();
    (halt.metadata.name, halt.metadata.creation_timestamp) = ("fleet".into(), Some(now));
    (halt.spec.by, halt.spec.reason) = ("ann".into(), "the wrong disks are wiped".into());
    let strangers = Strangers { discovered: vec![found], booting: vec![stalled] };
    FleetListing { hosts, journals: vec![journal], strangers, halts: vec![halt] }
}

#[test]
fn get_hosts_never_cuts_what_is_wrong() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let view = fleet(now);
    let words = [
        "The fleet is halted by ann since 2026-01-01T00:00:00Z: the wrong disks are wiped",
        "`firesteel resume`",
        "LOCKED:",
        "adopt",
    ];
    compare_outputs("get_hosts", &words, |width| view.render(now, width, false, false) + &view.notes(width));
    // However narrow the terminal is, no letter of the error is lost.
    for width in [40, 60, 80, 120] {
        let text = view.render(now, width, false, false);
        let letters: String = text.split_whitespace().collect();
        assert!(letters.contains("404NotFound") && letters.contains(".raw.xz)"), "{text}");
    }
    compare("get_hosts_wide", &view.render(now, UNBOUNDED, true, true));
}

#[test]
fn describe_shows_errors_whole_and_times_with_their_zone() {
    let now: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
    let error = format!("could not fetch the image: 404 Not Found ({LONG_URL})");
    let mut host = machine("rack1-02", "provisioning", &error);
    let condition = json!({"type": "Ready", "status": "False", "reason": "ProvisioningError", "message": error,
                           "lastTransitionTime": "2026-01-01T00:00:00Z"});
    host.status.as_mut().unwrap().conditions = vec![serde_json::from_value(condition).unwrap()];
    let mut journal = fleet(now).journals.remove(0);
    let event = |name: &str, seconds: i64, detail: &str| TimelineEvent {
        attempt: 1,
        event: name.to_owned(),
        at: "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_secs(seconds),
        detail: detail.to_owned(),
        ..TimelineEvent::default()
    };
    journal.status.timeline = vec![
        event("dhcp_ack", 0, "10.0.0.21"),
        event("loader", 2, "snponly.efi by tftp"),
        event(
            "DiskSelected",
            9,
            "writing the image to /dev/nvme0n1 (model QEMU NVMe Ctrl, serial LAB01DISK0, 4.29 GB)",
        ),
    ];
    let words = ["2026-01-01T00:00:09Z +7.0s DiskSelected", "since 2026-01-01T00:05:00Z"];
    compare_outputs("describe_error", &words, |width| {
        let text = super::describe::render(&host, &journal, now, width);
        assert!(!text.contains("provisioning.rs") && !text.contains('…'), "{text}");
        text
    });
}

#[test]
fn receipts_are_listed_whole() {
    let receipt = |host: &str, kind: &str, summary: &str| -> Receipt {
        let status = json!({"host": host, "kind": kind, "summary": summary, "receivedAt": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({"metadata": {"name": "r"}, "status": status})).unwrap()
    };
    let receipts = [
        receipt("rack1-07", "image_written", "/dev/nvme0n1 (serial LAB01DISK0): image written, 4.29 GB read back"),
        receipt(
            "rack1-08",
            "disk_erased",
            "/dev/sda (serial Z1D0X7KQ): NIST SP 800-88 purge by sanitize-crypto; unverified: there is no BMC that shows \
             the power",
        ),
    ];
    let words = ["shows the power"];
    compare_outputs("receipts", &words, |width| super::receipt::table(&receipts, width));
}

#[test]
fn errors_are_broken_between_words_in_terminals_alone() {
    let error = super::usage::wrong_use(
        "--all-namespaces (-A) does not go with a name, which is one of a namespace: give --namespace (-n)",
    );
    let words = ["firesteel: --all-namespaces (-A) does not go with a name"];
    compare_outputs("error", &words, |width| super::output::error_text(&error, width) + "\n");
}

/// A virtio disk as virt-manager makes it; the host's owner chose it by its place.
#[test]
fn describe_shows_a_disk_plan_that_only_a_path_names() {
    let (mut host, mut memory, mut record) = host();
    let mut nameless = disk('v', "", json!({}));
    (nameless.model, nameless.by_path) = (String::new(), "/dev/disk/by-path/pci-0000:04:00.0".into());
    record.disks = vec![nameless];
    let hints = RootDeviceHints { device_name: record.disks[0].by_path.clone(), ..RootDeviceHints::default() };
    let choice = select_disk(&hints, &record.disks).unwrap();
    memory.disk = Some(DiskPlan { choice, inspected_in: 3, hints: hints.clone(), chosen_at: record.inspected_at });
    host.spec.root_device_hints = Some(hints);
    let at = record.inspected_at;
    let mut journal = HostJournal::default();
    journal.status.memory = serde_json::to_value(&memory).unwrap();
    journal.status.hardware = Some(record);
    compare_outputs("describe_path", &[], |width| super::describe::render(&host, &journal, at, width));
}

/// The host right after an installation: the last inspection is older than what is on the disk now.
#[test]
fn a_disk_that_was_installed_since_is_shown_as_that() {
    let (host, mut memory, mut record) = host();
    let theirs = record.disks[1].contents.clone();
    record.disks[0].contents = theirs;
    let shown = |memory: &HostMemory| super::plan::render(&preview(&host, memory, Some(&record)), 120);
    assert!(shown(&memory).contains("guards keep 5 of 7 disks"), "{}", shown(&memory));
    let disk = memory.tenant_targets[0].clone();
    memory.changed_disks = vec![ChangedDisk { disk, attempt: 3, plan: 2 }];
    let text = shown(&memory);
    assert!(text.contains("guards keep 4 of 7 disks") && text.contains("    the host's system, which was"), "{text}");
}

#[test]
fn watch_shows_sixty_hosts_on_a_screen() {
    for picture in super::watch::testing::golden_pictures() {
        compare(picture.name, &picture.text);
    }
}
