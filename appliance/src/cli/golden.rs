//! Golden texts of `plan` and `describe`, for a host with a consumer, an installed system and six data disks.
//!
//! After an intended change, `UPDATE_GOLDEN=1 cargo test -p firesteel-appliance golden` writes the texts again.
#![allow(clippy::unwrap_used, reason = "tests")]

use firesteel_plan::host::preview::preview;
use firesteel_plan::host::{ChangedDisk, DiskPlan, HostState, InstalledSystem};
use firesteel_plan::{DiskIdentity, HostMemory, select_disk};
use firesteel_resources::hardware::{DiskRecord, TableRecord};
use firesteel_resources::{BareMetalHost, HardwareRecord, HostJournal, Image, ObjectReference, RootDeviceHints};
use jiff::Timestamp;
use serde_json::{Value, json};

const GUID: &str = "f17e57ee-1000-8000-8001-00000000002a";
const WIDTH: usize = 120;

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
    let path = format!("{}/src/cli/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, golden, "{path}");
}

#[test]
fn plan_shows_what_stands_on_each_disk_and_the_refusal() {
    let (host, memory, record) = host();
    let seen = preview(&host, &memory, Some(&record));
    compare("plan", &super::plan::render(&seen, WIDTH));
}

#[test]
fn describe_shows_what_stands_on_each_disk_and_what_a_guard_says() {
    let (host, memory, record) = host();
    let at = record.inspected_at;
    let mut journal = HostJournal::default();
    journal.status.memory = serde_json::to_value(&memory).unwrap();
    journal.status.hardware = Some(record);
    compare("describe", &super::describe::render(&host, &journal, at, WIDTH));
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
    compare("describe_path", &super::describe::render(&host, &journal, at, WIDTH));
}

/// The host right after an installation: the last inspection is older than what is on the disk now.
#[test]
fn a_disk_that_was_installed_since_is_shown_as_that() {
    let (host, mut memory, mut record) = host();
    let theirs = record.disks[1].contents.clone();
    record.disks[0].contents = theirs;
    let shown = |memory: &HostMemory| super::plan::render(&preview(&host, memory, Some(&record)), WIDTH);
    assert!(shown(&memory).contains("guards keep 5 of 7 disks"), "{}", shown(&memory));
    let disk = memory.tenant_targets[0].clone();
    memory.changed_disks = vec![ChangedDisk { disk, attempt: 3, plan: 2 }];
    let text = shown(&memory);
    assert!(text.contains("guards keep 4 of 7 disks") && text.contains("    the host's system, which was"), "{text}");
}
