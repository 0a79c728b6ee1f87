//! Disks as people have them: which one is written, what names it, and what a disk without a name needs.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_wire::{DiskIdentity, InventoryDisk, PartitionTableRecord, PlanStep, Transport};
use serde_json::{Value, json};

use firesteel_tests::disk_image;

use crate::agent::Agent;
use crate::bench::{self, Bench, say};

const NAME: &str = "host";

fn disk(device: &str, by_path: &str, size_gb: u64) -> InventoryDisk {
    InventoryDisk {
        device: format!("/dev/{device}"),
        by_path: format!("/dev/disk/by-path/{by_path}"),
        size_bytes: size_gb * 1_000_000_000,
        logical_block_bytes: 512,
        physical_block_bytes: 512,
        table: Some(PartitionTableRecord::None),
        ..InventoryDisk::default()
    }
}

/// A host that wants an image, whose machine has these disks, and the agent that runs on it.
fn boot(bench: &Bench, disks: Vec<InventoryDisk>, more: &Value) -> Agent {
    let (_, origin) = bench.bmc(&json!({}));
    let mut spec = json!({"image": disk_image::served()});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    bench.add_with(NAME, &format!("{origin}{}", bench::SYSTEM), &spec);
    bench.until("the host is switched on", || (bench.status(NAME)["poweredOn"] == true).then_some(()));
    Agent::boot(bench, disks)
}

/// The disk that the host's write plan names.
fn written(bench: &Bench, agent: &mut Agent) -> DiskIdentity {
    bench.until("a write plan", || {
        agent.work(bench);
        agent.written()
    })
}

/// The error that the host shows while its agent reports.
fn error(bench: &Bench, agent: &mut Agent) -> String {
    bench.until("an error", || {
        agent.work(bench);
        let error = bench.status(NAME)["errorMessage"].as_str().unwrap_or_default().to_owned();
        (!error.is_empty()).then_some(error)
    })
}

fn is_destroyed(agent: &Agent) -> bool {
    agent.plans.iter().flat_map(|plan| &plan.steps).any(PlanStep::is_destructive)
}

/// A LUN that a BMC shows on USB, and does not call removable.
fn usb() -> InventoryDisk {
    InventoryDisk {
        vendor: "BMC".into(),
        model: "LUN 00 Media".into(),
        serial: "U1".into(),
        transport: Transport::Usb,
        ..disk("sda", "pci-0000:00:14.0-usb-0:1:1.0-scsi-0:0:0:0", 8)
    }
}

#[test]
fn usb_lun_is_smallest_disk() {
    let case = "usb-lun-is-smallest-disk";
    bench::with(move |bench| {
        let sata = InventoryDisk { serial: "S1".into(), ..disk("sdb", "pci-0000:00:17.0-ata-1", 480) };
        let chosen = written(bench, &mut boot(bench, vec![usb(), sata], &json!({})));
        say(case, "the disk inside the host", &chosen.to_string());
        assert_eq!(chosen.serial, "S1");
    });
    bench::with(move |bench| {
        let mut agent = boot(bench, vec![usb()], &json!({}));
        let told = error(bench, &mut agent);
        say(case, "an error that names the only disk, why not, and the hint", &told);
        for part in ["/dev/sda (BMC LUN 00 Media U1 8.0 GB) is on USB", r#"{rootDeviceHints: {serialNumber: "U1"}}"#] {
            assert!(told.contains(part), "{told}");
        }
        assert!(!is_destroyed(&agent));
        bench.edit(NAME, &json!({"rootDeviceHints": {"serialNumber": "U1"}}));
        let chosen = written(bench, &mut agent);
        say(case, "the disk that the hint names", &chosen.to_string());
        assert_eq!(chosen.serial, "U1");
    });
}

#[test]
fn raid_luns_same_short_wwn() {
    bench::with(|bench| {
        let wwn = "0x600508b1001c0000";
        let volume = |device: &str, place: &str, extension: &str| InventoryDisk {
            model: "LOGICAL VOLUME".into(),
            serial: "ARRAY".into(),
            wwn: wwn.into(),
            wwn_with_extension: format!("{wwn}{extension}"),
            ..disk(device, place, 300)
        };
        let volumes = [("sda", "0", "1111222233334444"), ("sdb", "1", "1111222233335555")];
        let volumes = volumes
            .map(|(device, lun, extension)| volume(device, &format!("pci-0000:3b:00.0-scsi-0:1:0:{lun}"), extension));
        let second = volumes[1].wwn_with_extension.clone();
        let hints = json!({"rootDeviceHints": {"wwnWithExtension": second}});
        let chosen = written(bench, &mut boot(bench, volumes.to_vec(), &hints));
        say("raid-luns-same-short-wwn", "the second volume, by its full WWN", &chosen.to_string());
        assert_eq!(chosen.wwn, second);
    });
}

/// What libvirt gives by default: no serial number, no WWN.
#[test]
fn a_disk_without_a_name() {
    let case = "disk-without-serial-and-wwn";
    bench::with(move |bench| {
        let place = "/dev/disk/by-path/pci-0000:04:00.0";
        let virtio = InventoryDisk { transport: Transport::Virtio, ..disk("vda", "pci-0000:04:00.0", 6) };
        let mut agent = boot(bench, vec![virtio], &json!({}));
        let told = error(bench, &mut agent);
        let hint = format!("spec: {{rootDeviceHints: {{deviceName: \"{place}\"}}}}");
        say(case, "an error that says what is missing and what to set", &told);
        assert!(told.contains("neither WWN nor serial number") && told.contains(&hint), "{told}");
        bench.edit(NAME, &json!({"rootDeviceHints": {"deviceName": place}}));
        let installed = agent.finish(bench, NAME);
        say(case, "installed on its place and size", &installed.to_string());
        assert_eq!((installed.by_path.as_str(), installed.size_bytes), (place, 6_000_000_000));
        let page = String::from_utf8(bench.firesteel(&["describe", "host", NAME]).stdout).unwrap();
        assert!(page.contains("named by:") && page.contains("path and size"), "{page}");

        // Deleted: the same disk is cleaned, though no inspection of its first boot says so.
        bench.firesteel(&["release", NAME, "--yes"]);
        let mut agent = agent.boot_again(bench);
        bench.until("the host is gone", || {
            agent.work(bench);
            bench.status(NAME).is_null().then_some(())
        });
        let mut cleared = agent.plans.iter().flat_map(|plan| &plan.steps).filter_map(|step| match step {
            PlanStep::ClearMetadata { disk, .. } | PlanStep::EraseDisk { disk, .. } => Some(disk.by_path.clone()),
            _ => None,
        });
        assert_eq!(cleared.next_back().as_deref(), Some(place));
        say(case, "cleaned and deleted", "cleaned and deleted");
    });
}

/// A bond that the agent needs no word of is the OS's own affair.
#[test]
fn network_data_balance_xor() {
    bench::with(|bench| {
        let document = json!({
            "links": [
                {"id": "p0", "type": "phy", "ethernet_mac_address": "52:54:00:77:03:01"},
                {"id": "p1", "type": "phy", "ethernet_mac_address": "52:54:00:77:03:02"},
                {"id": "b0", "type": "bond", "bond_links": ["p0", "p1"], "bond_mode": "balance-xor"},
            ],
            "networks": [{"id": "n0", "type": "ipv4_dhcp", "link": "b0"}],
        });
        bench.apply(&[json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "net"},
            "stringData": {"networkData": document.to_string()},
        })]);
        let spec = json!({"networkData": {"name": "net", "namespace": "default"}});
        let own = InventoryDisk { serial: "S1".into(), ..disk("sda", "pci-0000:00:17.0-ata-1", 20) };
        let mut agent = boot(bench, vec![own], &spec);
        written(bench, &mut agent);
        let handed = agent.plans.iter().flat_map(|plan| &plan.steps).find_map(|step| match step {
            PlanStep::HandOff { forms: Some(forms), .. } => forms.config_drive.clone(),
            _ => None,
        });
        let files = handed.map(|drive| drive.files).unwrap_or_default();
        let file = files.iter().find(|file| file.path.ends_with("network_data.json")).unwrap();
        let text = String::from_utf8(STANDARD.decode(&file.content_base64).unwrap()).unwrap();
        say("network-data-balance-xor", "the document is handed over", &text);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    });
}
