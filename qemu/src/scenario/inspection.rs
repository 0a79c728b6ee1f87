//! Inspection of a machine with a disk of each kind agrees with QEMU's configuration, and a switch that speaks
//! long after the inspection is in the record, too.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::lab::{DesiredHost, HostPlan, Lab, LabDiskPlan, PATIENCE};
use crate::machine::{DiskBus, MachineFirmware, MachineSettings};
use crate::os::send_frame;
use crate::progress::print_status;

const GIB: u64 = 1 << 30;
const BUSES: [DiskBus; 4] = [DiskBus::Virtio, DiskBus::Nvme, DiskBus::Sata, DiskBus::Scsi];
/// Switches speak each 30 s; this one is in a hurry.
const SPEAK_EVERY: Duration = Duration::from_secs(1);
const SWITCH: [u8; 6] = [0x00, 0x1c, 0x73, 0xaa, 0xbb, 0xcc];
const PORT: &str = "Ethernet17/1";

pub(super) async fn inspection(lab: &mut Lab) -> anyhow::Result<()> {
    let mut names = Vec::new();
    for firmware in [MachineFirmware::Bios, MachineFirmware::Uefi] {
        let name = format!("{firmware}-1");
        let disks = BUSES.iter().zip(4..).map(|(bus, gib)| LabDiskPlan::plain(*bus, gib * GIB)).collect();
        lab.add_machine(HostPlan { disks, ..HostPlan::new(&name, firmware, DiskBus::Virtio) }).await?;
        lab.apply_host(&name, &DesiredHost::default()).await?;
        names.push(name);
    }
    for name in &names {
        lab.wait_for(name, "the inspection", |view| view.state() == "available").await?;
        let machine = lab.machine(name)?.config();
        let described = lab.appliance.json(&["describe", "host", name]).await?;
        let wrong = disagreements(&machine, &described);
        ensure!(wrong.is_empty(), "{name}: the inspection differs from QEMU's configuration: {}", wrong.join("; "));
        print_status(&format!("{name}: the inspection agrees with QEMU's configuration"));
        speak(lab, name, &machine).await?;
        print_status(&format!("{name}: and the switch was heard afterwards"));
    }
    Ok(())
}

/// Be the switch at the other end of the machine's cable until the appliance knows.
async fn speak(lab: &Lab, name: &str, machine: &MachineSettings) -> anyhow::Result<()> {
    let heard = async {
        loop {
            send_frame(&machine.tap, &frame()).context("sending a frame to the machine")?;
            tokio::time::sleep(SPEAK_EVERY).await;
            let described = lab.appliance.json(&["describe", "host", name]).await?;
            let lldp = &described["hardware"]["spec"]["hardware"]["nics"][0]["lldp"];
            if lldp["switchID"] == "00:1c:73:aa:bb:cc" && lldp["portID"] == PORT {
                return anyhow::Ok(());
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.context("the switch was not heard")?
}

fn frame() -> Vec<u8> {
    let value = |kind: u8, bytes: &[u8]| [&[kind << 1, u8::try_from(bytes.len()).unwrap_or(0)][..], bytes].concat();
    [
        &[0x01, 0x80, 0xc2, 0, 0, 0x0e][..],
        &SWITCH,
        &[0x88, 0xcc],
        &value(1, &[&[4][..], &SWITCH].concat()),
        &value(2, &[&[5][..], PORT.as_bytes()].concat()),
        &value(3, &[0, 120]),
        &value(5, b"leaf-1.lab"),
        &value(0, &[]),
    ]
    .concat()
}

/// Where the host's record is not what the machine was made of; pure.
fn disagreements(machine: &MachineSettings, described: &Value) -> Vec<String> {
    let record = &described["journal"]["status"]["hardware"];
    let mut wrong = Vec::new();
    let mut compare = |what: &str, found: &Value, expected: Value| {
        if *found != expected {
            wrong.push(format!("{what} is {found}, not {expected}"));
        }
    };
    let system = &record["system"];
    compare("manufacturer", &system["manufacturer"], "Firesteel".into());
    compare("product", &system["product"], "Lab".into());
    compare("serial", &system["serial"], format!("LAB-{}", machine.name).into());
    compare("uuid", &system["uuid"], machine.uuid.to_string().into());
    compare("firmware", &record["firmware"]["mode"], machine.firmware.to_string().into());
    compare("processors", &record["cpu"]["count"], 1.into());
    compare("installed memory", &record["memory"]["installedMib"], machine.memory_mib.into());
    let count = |list: &Value| Value::from(list.as_array().map_or(0, Vec::len));
    compare("number of NICs", &count(&record["nics"]), 1.into());
    let nic = &record["nics"][0];
    compare("MAC", &nic["mac"], machine.mac.clone().into());
    compare("NIC's driver", &nic["driver"], "virtio_net".into());
    compare("NIC's speed", &nic["speedMbps"], 10_000.into());
    compare("NIC that was booted from", &nic["boot"], true.into());
    compare("number of disks", &count(&record["disks"]), machine.disks.len().into());
    let shown = &described["hardware"]["spec"]["hardware"];
    compare("number of disks shown", &count(&shown["storage"]), machine.disks.len().into());
    compare("memory shown", &shown["ramMebibytes"], machine.memory_mib.into());
    for disk in &machine.disks {
        let serial = &disk.serial;
        let find = |list: &Value, field: &str| {
            let all = list.as_array().map_or(&[][..], Vec::as_slice);
            all.iter().find(|one| one[field] == **serial).cloned().unwrap_or_default()
        };
        let (found, shown) = (find(&record["disks"], "serial"), find(&shown["storage"], "serialNumber"));
        let bytes = disk.path.metadata().map_or(0, |metadata| metadata.len());
        compare(&format!("{serial}: size"), &found["sizeBytes"], bytes.into());
        compare(&format!("{serial}: size shown"), &shown["sizeBytes"], bytes.into());
        compare(&format!("{serial}: transport"), &found["transport"], disk.bus.to_string().into());
        let by_path = shown["name"].as_str().is_some_and(|name| name.starts_with("/dev/disk/by-path/pci-"));
        compare(&format!("{serial}: name by path"), &by_path.into(), true.into());
        let kind = if disk.bus == DiskBus::Nvme { "NVME" } else { "HDD" };
        // QEMU says of virtio and SATA disks that they turn, and of NVMe that it does not.
        compare(&format!("{serial}: kind"), &shown["type"], kind.into());
        if matches!(disk.bus, DiskBus::Sata | DiskBus::Scsi) {
            compare(&format!("{serial}: WWN"), &found["wwn"], format!("{:#x}", disk.wwn).into());
        }
        if matches!(disk.bus, DiskBus::Nvme | DiskBus::Sata) {
            compare(&format!("{serial}: failing"), &found["health"]["failing"], false.into());
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::machine::{Accel, BootOrder, DiskConfig, NetBoot};

    fn machine() -> MachineSettings {
        MachineSettings {
            name: "host-1".to_owned(),
            uuid: uuid::Uuid::nil(),
            mac: "52:54:00:77:01:01".to_owned(),
            tap: "tap1".to_owned(),
            linked: false,
            switched: None,
            media: None,
            firmware: MachineFirmware::Uefi,
            memory_mib: 512,
            accel: Accel::Tcg,
            boot_order: BootOrder::NetworkFirst,
            net_boot: NetBoot::Pxe,
            disks: vec![DiskConfig {
                bus: DiskBus::Sata,
                path: "/nowhere".into(),
                serial: "S0".to_owned(),
                wwn: 0x5000_c500_0000_0001,
                socket: None,
            }],
            folder: "/m".into(),
        }
    }

    #[test]
    fn what_agrees_and_what_does_not() {
        let mut described = json!({
            "journal": {"status": {"hardware": {
                "system": {"manufacturer": "Firesteel", "product": "Lab", "serial": "LAB-host-1",
                    "uuid": "00000000-0000-0000-0000-000000000000"},
                "firmware": {"mode": "uefi"}, "cpu": {"count": 1}, "memory": {"installedMib": 512},
                "nics": [{"mac": "52:54:00:77:01:01", "driver": "virtio_net", "speedMbps": 10_000, "boot": true}],
                "disks": [{"serial": "S0", "sizeBytes": 0, "transport": "sata", "wwn": "0x5000c50000000001",
                    "health": {"failing": false}}]}}},
            "hardware": {"spec": {"hardware": {"ramMebibytes": 512, "storage": [
                {"serialNumber": "S0", "sizeBytes": 0, "type": "HDD", "name": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}]}}}
        });
        assert_eq!(disagreements(&machine(), &described), Vec::<String>::new());
        described["journal"]["status"]["hardware"]["disks"][0]["wwn"] = "0x5".into();
        described["journal"]["status"]["hardware"]["nics"] = json!([]);
        let wrong = disagreements(&machine(), &described);
        assert!(wrong.iter().any(|line| line.contains("S0: WWN is \"0x5\"")), "{wrong:?}");
        assert!(wrong.iter().any(|line| line == "number of NICs is 0, not 1"), "{wrong:?}");
        assert!(disagreements(&machine(), &Value::Null).len() > 10);
    }
}
