//! What agents say that hosts are made of, at the appliance's door: records of real machines as they are shown,
//! records that nobody could believe, a second inspection, and switches that speak late.

use std::path::Path;
use std::process::Command;

use firesteel_inspect::{self as inspect, Probe};
use firesteel_kube::ObjectPart;
use firesteel_resources::{HardwareDetails, bare_metal_host::ProvisioningState};
use firesteel_sysfs::Roots;
use firesteel_wire::limits::{DISKS_MAX, FIELD_BYTES_MAX, NICS_MAX, VLANS_MAX};
use firesteel_wire::{
    AgentInstruction, Inventory, InventoryDisk, InventoryNic, InventorySystem, InventoryVlan, Neighbour,
    PartitionTableRecord, PlanStep,
};
use serde_json::Value;

use crate::agent::{Agent, disk};
use crate::appliance::{Appliance, NAMESPACE, until};

const MAC: &str = "02:00:00:00:04:01";
/// What a terminal, a page or a boot loader would obey.
const HOSTILE: &str = "S\x1b[2J\x1b]0;x\x07\r\n${net0/mac}<script>\u{202e}evil\u{200b}\u{9b}31m";

/// What takes the place of a hidden character has three bytes; reasons and details are longer than fields.
const TEXT_BYTES_MAX: usize = 16 * FIELD_BYTES_MAX;

/// Plans are run until the hardware record of this one is shown; every plan is an inspection.
async fn inspected(appliance: &Appliance, agent: &mut Agent, host: &str, plan: u32) {
    let mut verdict = match plan {
        1 => agent.hello(appliance).await.unwrap().verdict,
        _ => AgentInstruction::Continue,
    };
    loop {
        match verdict {
            AgentInstruction::Plan { plan } => {
                assert_eq!(plan.steps, [PlanStep::Inspect], "nothing else is to be done");
                agent.inspect(&plan);
            }
            AgentInstruction::Continue => {}
            AgentInstruction::Abort { reason } => panic!("told to leave: {reason}"),
        }
        let shown = until("the hardware is shown", async || {
            let journal = appliance.journal(host).await.status;
            let stored = journal.hardware.is_some_and(|hardware| hardware.plan == plan);
            stored && appliance.status(host).await.provisioning.state == ProvisioningState::Available
        });
        tokio::select! {
            answer = agent.report(appliance) => verdict = answer.unwrap(),
            () = shown => return,
        }
    }
}

async fn details(appliance: &Appliance, host: &str) -> HardwareDetails {
    appliance.hardware.get(NAMESPACE, host).await.unwrap().unwrap().spec.hardware.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_inspection_replaces_the_record_and_tells_what_changed() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    let disks = vec![disk("sda", "A", 20), disk("sdb", "B", 40)];
    let mut agent = Agent::boot_with(&appliance, MAC, 1, "", disks).await;
    inspected(&appliance, &mut agent, "host", 1).await;
    let before = details(&appliance, "host").await;
    assert_eq!(before.storage.len(), 2);
    assert_eq!(appliance.journal("host").await.status.hardware.unwrap().changes, Vec::<String>::new());

    agent.disks = vec![disk("sda", "A", 20), disk("sdb", "C", 80)];
    let ask = |host: &mut firesteel_resources::BareMetalHost| {
        host.metadata.annotations.insert("inspect.metal3.io".into(), String::new());
    };
    appliance.hosts.modify(NAMESPACE, "host", ObjectPart::Main, ask).await.unwrap();
    inspected(&appliance, &mut agent, "host", 2).await;
    let journal = appliance.journal("host").await.status;
    let changes = journal.hardware.unwrap().changes;
    assert_eq!(
        changes,
        ["disk MODEL serial \"B\" at pci-sdb is gone", "disk MODEL serial \"C\" at pci-sdb was added",]
    );
    let told = journal.timeline.iter().find(|event| event.event == "HardwareChanged").expect("an event tells of it");
    assert_eq!(told.detail, changes.join("; "));
    until("the new record is shown", async || {
        details(&appliance, "host").await.storage.iter().any(|disk| disk.serial_number == "C")
    })
    .await;
    assert_eq!(details(&appliance, "host").await.storage.len(), 2, "replaced, not added to");
    assert!(journal.receipts.iter().all(|receipt| receipt.step == "inspect"), "no disk was touched");
    let host = appliance.hosts.get(NAMESPACE, "host").await.unwrap().unwrap();
    assert!(!host.metadata.annotations.contains_key("inspect.metal3.io"), "asked once, done once");
    let page = appliance.page("host").await;
    assert!(page.contains("changed: disk MODEL serial \"C\" at pci-sdb was added"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_that_speaks_after_the_inspection_is_shown() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    let mut agent = Agent::boot(&appliance, MAC, 1).await;
    agent.inventory.nics = vec![InventoryNic { name: "eth0".into(), mac: MAC.into(), ..InventoryNic::default() }];
    inspected(&appliance, &mut agent, "host", 1).await;
    assert_eq!(details(&appliance, "host").await.nics[0].lldp, None);
    agent.neighbours = vec![Neighbour {
        nic: "eth0".into(),
        mac: MAC.into(),
        switch_id: "00:1c:73:aa:bb:cc".into(),
        port_id: format!("Ethernet1{HOSTILE}"),
        switch_name: "leaf".into(),
        port_vlan: 100,
        vlans: vec![InventoryVlan { id: 7, name: "pxe".into() }, InventoryVlan { id: 4095, name: "none".into() }],
        ..Neighbour::default()
    }];
    let told = async || {
        let shown = details(&appliance, "host").await.nics.remove(0);
        shown.lldp.is_some()
    };
    tokio::select! {
        answer = agent.report(&appliance) => assert_eq!(answer.unwrap(), AgentInstruction::Continue),
        () = until("the switch is shown", told) => {}
    }
    let nic = details(&appliance, "host").await.nics.remove(0);
    let lldp = nic.lldp.unwrap();
    assert_eq!((&*lldp.switch_id, &*lldp.switch_system_name), ("00:1c:73:aa:bb:cc", "leaf"));
    assert_plain(&lldp.port_id);
    assert_eq!((nic.vlan_id, nic.vlans.iter().map(|vlan| vlan.id).collect::<Vec<_>>()), (100, vec![7]));
    let page = appliance.page("host").await;
    assert!(page.contains("leaf (00:1c:73:aa:bb:cc), port Ethernet1"), "{page}");
}

fn assert_plain(text: &str) {
    assert!(!text.chars().any(firesteel_wire::text::is_hidden), "{text:?}");
}

/// Every text of a value, however deep.
fn texts<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => into.push(text),
        Value::Array(list) => list.iter().for_each(|one| texts(one, into)),
        Value::Object(map) => map.values().for_each(|one| texts(one, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_parts_and_texts_that_do_things_are_cut_and_plain() {
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    appliance.add("host", MAC, None).await;
    let twins =
        vec![InventoryDisk { model: HOSTILE.into(), vendor: HOSTILE.repeat(100), ..disk("sda", HOSTILE, 20) }; 3000];
    let mut agent = Agent::boot_with(&appliance, MAC, 1, "", twins).await;
    let vlans = vec![InventoryVlan { id: 5, name: HOSTILE.into() }; 1000];
    let nic = InventoryNic {
        name: HOSTILE.into(),
        mac: HOSTILE.into(),
        ip: vec![HOSTILE.into(); 500],
        vlans,
        ..InventoryNic::default()
    };
    agent.inventory = Inventory {
        system: InventorySystem { serial: HOSTILE.into(), product: HOSTILE.repeat(1000), ..InventorySystem::default() },
        nics: vec![nic; 5000],
        hostname: HOSTILE.into(),
        ..Inventory::default()
    };
    agent.neighbours = vec![Neighbour { mac: HOSTILE.into(), switch_id: HOSTILE.into(), ..Neighbour::default() }; 5000];
    inspected(&appliance, &mut agent, "host", 1).await;
    let journal = appliance.journal("host").await.status;
    let record = journal.hardware.as_ref().unwrap();
    assert_eq!((record.nics.len(), record.disks.len()), (NICS_MAX, DISKS_MAX));
    assert!(record.nics.iter().all(|nic| nic.vlans.len() <= VLANS_MAX && nic.ip.len() <= 64));
    let stored = serde_json::to_value(&journal).unwrap();
    let shown = serde_json::to_value(details(&appliance, "host").await).unwrap();
    for value in [&stored, &shown] {
        let mut all = Vec::new();
        texts(value, &mut all);
        assert!(all.len() > 1000);
        for text in all {
            assert_plain(text);
            assert!(text.len() <= TEXT_BYTES_MAX, "{} bytes", text.len());
        }
    }
    let page = appliance.page("host").await;
    assert!(!page.chars().any(|c| c != '\n' && firesteel_wire::text::is_hidden(c)), "a terminal would obey it");

    // Of thousands of twins none can be told from the others.
    let hints = firesteel_resources::RootDeviceHints::default();
    let error = firesteel_plan::disk::select_disk(&hints, &record.disks).unwrap_err().to_string();
    assert!(error.contains("has the same serial number as another disk"), "{}", &error[..200.min(error.len())]);
}

struct NoSystemCalls;

impl Probe for NoSystemCalls {
    fn permanent_mac(&self, _: &str) -> Option<[u8; 6]> {
        None
    }
    fn addresses(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn table(&self, _: &Path) -> PartitionTableRecord {
        PartitionTableRecord::None
    }
    fn signatures(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
    fn hostname(&self) -> String {
        "recorded".into()
    }
    fn nic_firmware(&self, _: &str) -> String {
        String::new()
    }
    fn nvme_identify(&self, _: &Path, _: u8, _: u32) -> Option<Vec<u8>> {
        None
    }
}

/// What the agent would say on a machine whose `/sys` and `/proc` were recorded.
fn recorded(snapshot: &str) -> Option<Inventory> {
    let archive = firesteel_fixtures::path(&format!("ghw/snapshots/linux-amd64-{snapshot}.tar.gz"))?;
    let folder = tempfile::tempdir().unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--no-same-owner", "-xzf"]).arg(&archive).arg("-C").arg(folder.path());
    assert!(tar.status().unwrap().success());
    let roots = Roots { sys: folder.path().join("sys"), proc: folder.path().join("proc"), dev: "/dev".into() };
    Some(inspect::inventory(&roots, &NoSystemCalls, ""))
}

/// The records were written by hand from the trees' files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_machines_are_shown_as_they_are() {
    let machines = [
        ("laptop", "415ee03b8c4d1c4f07ae2e9d8b3d3d6d", include_str!("records/laptop.json"), 139),
        ("workstation", "61797caf7c0b6bca1725ad7975ed4773", include_str!("records/workstation.json"), 110),
    ];
    let data = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data.path()).await;
    for (number, (name, snapshot, expected, flags)) in machines.into_iter().enumerate() {
        let Some(inventory) = recorded(snapshot) else { return };
        let mac = format!("02:00:00:00:04:1{number}");
        appliance.add(name, &mac, None).await;
        let mut agent = Agent::boot_with(&appliance, &mac, 1, "", inventory.disks.clone()).await;
        agent.inventory = inventory;
        inspected(&appliance, &mut agent, name, 1).await;
        let mut shown = serde_json::to_value(details(&appliance, name).await).unwrap();
        let cpu = shown["cpu"].as_object_mut().unwrap();
        let found = cpu.remove("flags").unwrap();
        let found: Vec<&str> = found.as_array().unwrap().iter().map(|flag| flag.as_str().unwrap()).collect();
        assert!(found.windows(2).all(|two| two[0] < two[1]), "sorted, each once: {found:?}");
        assert_eq!(found.len(), flags, "{name}");
        // The clock of the moment in which it was recorded.
        cpu.remove("clockMegahertz");
        assert_eq!(shown, serde_json::from_str::<Value>(expected).unwrap(), "{name}");
    }
}
