//! The hardware of a host on one screen: counts of equal parts, and a line for each disk and NIC.

use std::collections::BTreeMap;

use firesteel_plan::InstallationMark;
use firesteel_plan::host::{contents_lines, objections};
use firesteel_plan::journal::memory;
use firesteel_resources::hardware::neighbour::NeighbourRecord;
use firesteel_resources::hardware::parts::{ManagementRecord, PartsRecord};
use firesteel_resources::hardware::{DiskRecord, HardwareRecord, NicRecord, TableRecord};
use firesteel_resources::host_journal::BmcRecord;
use firesteel_resources::{BareMetalHost, HostJournal};

use super::{TextPage, bytes, first_lines};

pub(super) fn render(page: &mut TextPage, host: &BareMetalHost, journal: &HostJournal) {
    if let Some(bmc) = &journal.status.bmc {
        page.title("What the BMC reports");
        page.line(&format!("  {}", bmc_line(bmc)));
        bmc_parts(page, bmc);
        for text in &bmc.left_out {
            page.item("  not read: ", text, 4);
        }
    }
    let Some(hardware) = &journal.status.hardware else {
        if journal.status.bmc.is_some() {
            page.line(
                "  no agent has inspected this host: no disk is chosen, erased or written by what the BMC reports",
            );
        }
        return;
    };
    page.title("Hardware");
    let system = &hardware.system;
    page.line(&format!("  {} {} serial {}", system.manufacturer, system.product, system.serial));
    page.line(&format!("  {}", processors_and_firmware(hardware)));
    if let Some(parts) = &hardware.parts {
        parts_of(page, parts);
    }
    for nic in &hardware.nics {
        page.line(&format!("  {}", nic_line(nic)));
        if let Some(neighbour) = &nic.neighbour {
            page.line(&format!("    {}", neighbour_line(neighbour)));
        }
    }
    let memory = memory(&journal.status).ok();
    for disk in &hardware.disks {
        disk_lines(page, disk);
        let reasons = memory.as_ref().map(|memory| objections(host, memory, hardware, disk));
        let known = memory.clone().unwrap_or_default();
        // This program may not understand what a newer appliance knows: then it makes no judgement.
        contents(page, &contents_lines(&known, hardware, disk), &reasons.unwrap_or_default());
    }
    for note in hardware.parts.iter().flat_map(|parts| &parts.notes) {
        page.item("  not listed: ", note, 4);
    }
    for change in &hardware.changes {
        page.item("  changed: ", change, 4);
    }
}

/// Interfaces, drives and volumes by the BMC's word. Nothing is chosen, erased or written by it.
fn bmc_parts(page: &mut TextPage, bmc: &BmcRecord) {
    for nic in &bmc.interfaces {
        let speed = nic.mbps.map(|mbps| format!(", {mbps} Mbit/s")).unwrap_or_default();
        let link = nic.has_link.map_or("", |has_link| if has_link { ", link" } else { ", no link" });
        page.line(&format!("  NIC {} {}{speed}{link}", nic.name, nic.mac));
    }
    for drive in &bmc.drives {
        let texts = [&drive.protocol, &drive.media, &drive.model, &drive.wwn];
        let mut parts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).cloned().collect();
        parts.extend((!drive.serial.is_empty()).then(|| format!("serial {}", drive.serial)));
        parts.extend((!drive.health.is_empty()).then(|| format!("health {}", drive.health)));
        let all = parts.join(", ");
        page.line(&format!(
            "  drive {}, {}{}{all}",
            drive.name,
            bytes(drive.bytes),
            if all.is_empty() { "" } else { ", " }
        ));
    }
    for volume in &bmc.volumes {
        let raid = if volume.raid.is_empty() { String::new() } else { format!(", {}", volume.raid) };
        page.line(&format!("  volume {}, {}{raid}", volume.name, bytes(volume.bytes)));
    }
}

/// What the BMC reports of itself and the machine; absent values are left out.
fn bmc_line(bmc: &BmcRecord) -> String {
    let mut parts = Vec::new();
    let mut part = |name: &str, text: &str| {
        if !text.is_empty() {
            parts.push(format!("{name} {text}"));
        }
    };
    part("health", &bmc.health);
    part("BMC", format!("{} {}", bmc.manager_model, bmc.manager_firmware).trim());
    part("BMC's health", &bmc.manager_health);
    part("BIOS", &bmc.bios_version);
    part("boots", &bmc.boot_mode);
    part("Secure Boot", bmc.secure_boot.map_or("", |is_on| if is_on { "on" } else { "off" }));
    part("memory", &bmc.memory_mib.map(|mib| format!("{mib} MiB")).unwrap_or_default());
    part("processors", &bmc.processor_count.map(|count| count.to_string()).unwrap_or_default());
    part("firmware versions", &if bmc.firmware.is_empty() { String::new() } else { bmc.firmware.len().to_string() });
    parts.join(", ")
}

fn processors_and_firmware(hardware: &HardwareRecord) -> String {
    let cpu = &hardware.cpu;
    let mut line = format!("{} CPUs {}", cpu.count, cpu.model);
    if cpu.sockets > 0 {
        line.push_str(&format!(", {} sockets, {} cores", cpu.sockets, cpu.cores));
    }
    if cpu.offline > 0 {
        line.push_str(&format!(", {} CPUs switched off", cpu.offline));
    }
    line.push_str(&format!(", {} MiB, firmware {:?}", hardware.memory.total_mib, hardware.firmware.mode));
    match hardware.firmware.secure_boot {
        Some(true) => line.push_str(", Secure Boot on"),
        Some(false) => line.push_str(", Secure Boot off"),
        None => {}
    }
    match hardware.parts.as_ref().and_then(|parts| parts.tpm.as_ref()) {
        Some(tpm) if !tpm.version.is_empty() => line.push_str(&format!(", TPM {}", tpm.version)),
        Some(_) => line.push_str(", TPM"),
        None => {}
    }
    line
}

fn parts_of(page: &mut TextPage, parts: &PartsRecord) {
    for (module, count) in modules(parts) {
        page.line(&format!("  {count} memory modules of {module}"));
    }
    for gpu in parts.pci.iter().filter(|device| device.gpu) {
        page.line(&format!("  GPU {}:{} ({}) at {}", gpu.vendor, gpu.device, gpu.class_name, gpu.address));
    }
    for interface in &parts.management {
        page.line(&match interface {
            ManagementRecord::Ipmi { interface, version } => format!("  BMC by IPMI {version} ({interface})"),
            ManagementRecord::Redfish { address, port, .. } => {
                format!("  BMC by Redfish at {}:{port}", if address.is_empty() { "?" } else { address })
            }
        });
    }
    for network in &parts.bmc {
        let addresses = [&network.ipv4].into_iter().chain(&network.ipv6).filter(|address| !address.is_empty());
        let addresses: Vec<&str> = addresses.map(String::as_str).collect();
        page.line(&format!("  BMC {} at {}", network.mac, addresses.join(", ")));
    }
    for controller in &parts.nvme {
        for namespace in controller.namespaces.iter().filter(|namespace| !namespace.attached) {
            page.line(&format!(
                "  {} has namespace {} of {}, which is not attached: no disk shows it",
                controller.name,
                namespace.id,
                bytes(namespace.size_bytes)
            ));
        }
    }
}

/// Counts the modules of each kind.
fn modules(parts: &PartsRecord) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for module in &parts.modules {
        let speed = if module.configured_mts > 0 { module.configured_mts } else { module.speed_mts };
        let mut kind = format!("{} MiB", module.size_mib);
        if !module.kind.is_empty() {
            kind.push_str(&format!(" {}", module.kind));
        }
        if speed > 0 {
            kind.push_str(&format!(" at {speed} MT/s"));
        }
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

fn nic_line(nic: &NicRecord) -> String {
    let mut line = format!("NIC {}  {}  {}", nic.name, nic.mac, nic.driver);
    match (nic.link, nic.speed_mbps) {
        (false, _) => line.push_str("  no link"),
        (true, 0) => line.push_str("  link"),
        (true, mbps) => line.push_str(&format!("  {mbps} Mbit/s")),
    }
    if nic.duplex == "half" {
        line.push_str(" half duplex");
    }
    if nic.boot {
        line.push_str("  booted from");
    }
    line
}

fn neighbour_line(neighbour: &NeighbourRecord) -> String {
    let name = if neighbour.switch_name.is_empty() { "a switch" } else { &neighbour.switch_name };
    let mut line = format!("plugged into {name} ({}), port {}", neighbour.switch_id, neighbour.port_id);
    if neighbour.port_vlan > 0 {
        line.push_str(&format!(", VLAN {}", neighbour.port_vlan));
    }
    if neighbour.aggregated {
        line.push_str(", aggregated");
    }
    line
}

fn disk_lines(page: &mut TextPage, disk: &DiskRecord) {
    page.line(&format!(
        "  disk {}  {}  {}  serial {}",
        disk.device.trim_start_matches("/dev/"),
        bytes(disk.size_bytes),
        disk.model,
        if disk.serial.is_empty() { "none" } else { &disk.serial }
    ));
    match &disk.table {
        Some(TableRecord::Gpt { guid }) => page.line(&format!("    GPT {guid}{}", format_guid(guid))),
        Some(TableRecord::Unreadable { why, damaged: true }) => {
            page.line(&format!("    partition table is damaged: {why}"));
        }
        Some(TableRecord::Unreadable { why, damaged: false }) => {
            page.line(&format!("    partition table could not be read: {why}"));
        }
        Some(TableRecord::None) | None => {}
    }
    for warning in disk.health.iter().flat_map(|health| &health.warnings) {
        page.line(&format!("    health: {warning}"));
    }
    if let Some(hidden) = disk.capabilities.as_ref().and_then(|can| can.hidden_bytes).filter(|hidden| *hidden > 0) {
        page.line(&format!("    hides {} behind its end", bytes(hidden)));
    }
}

fn contents(page: &mut TextPage, lines: &[String], reasons: &[String]) {
    for line in first_lines(lines) {
        page.item("    ", &line, 6);
    }
    if !reasons.is_empty() {
        page.item("    guarded: ", &first_lines(reasons).join(", "), 6);
    }
}

/// What the GUID of a disk says of the system that installed it.
fn format_guid(guid: &str) -> String {
    InstallationMark::parse(guid).map(|mark| format!(", installed by {mark}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use firesteel_resources::hardware::CpuRecord;
    use firesteel_resources::hardware::parts::{
        CapabilitiesRecord, HealthRecord, ModuleRecord, NvmeControllerRecord, NvmeNamespaceRecord, PciRecord, TpmRecord,
    };

    use super::*;

    #[test]
    fn one_screen_of_a_server() {
        let module = |size_mib: u64| ModuleRecord { size_mib, kind: "DDR5".into(), ..ModuleRecord::default() };
        let gpu = PciRecord { vendor: "10de".into(), gpu: true, ..PciRecord::default() };
        let controller = NvmeControllerRecord {
            name: "nvme0".into(),
            namespaces: vec![NvmeNamespaceRecord { id: 2, attached: false, size_bytes: 1 << 30 }],
            ..NvmeControllerRecord::default()
        };
        let parts = PartsRecord {
            modules: vec![module(16_384), module(32_768), module(16_384)],
            pci: vec![gpu, PciRecord::default()],
            nvme: vec![controller],
            tpm: Some(TpmRecord { version: "2.0".into() }),
            notes: vec!["2000 network interfaces, of which 64 are listed".into()],
            ..PartsRecord::default()
        };
        let neighbour = NeighbourRecord {
            switch_id: "00:1c:73:aa:bb:cc".into(),
            switch_name: "leaf\x1b[2J".into(),
            port_id: "Ethernet1".into(),
            port_vlan: 7,
            ..NeighbourRecord::default()
        };
        let nic = NicRecord {
            name: "eth0\x1b[2J".into(),
            link: true,
            speed_mbps: 25_000,
            neighbour: Some(Box::new(neighbour)),
            ..NicRecord::default()
        };
        let health = HealthRecord { warnings: vec!["it expects to fail".into()], ..HealthRecord::default() };
        let can = CapabilitiesRecord { hidden_bytes: Some(1 << 30), ..CapabilitiesRecord::default() };
        let disk =
            DiskRecord { health: Some(Box::new(health)), capabilities: Some(Box::new(can)), ..DiskRecord::default() };
        let mut journal = HostJournal::default();
        journal.status.hardware = Some(HardwareRecord {
            cpu: CpuRecord { count: 4, sockets: 2, cores: 2, ..CpuRecord::default() },
            nics: vec![nic],
            disks: vec![disk],
            parts: Some(Box::new(parts)),
            changes: vec!["disk x is gone".into()],
            ..HardwareRecord::default()
        });
        let mut page = TextPage { text: String::new(), width: 100 };
        render(&mut page, &BareMetalHost::default(), &journal);
        for expected in [
            "2 sockets, 2 cores, 0 MiB, firmware Bios, TPM 2.0\n",
            "  2 memory modules of 16384 MiB DDR5\n  1 memory modules of 32768 MiB DDR5\n",
            "  GPU 10de:",
            "nvme0 has namespace 2 of",
            "25000 Mbit/s\n    plugged into leaf",
            "(00:1c:73:aa:bb:cc), port Ethernet1, VLAN 7\n",
            "    health: it expects to fail\n    hides 1",
            "  not listed: 2000 network interfaces, of which 64 are listed\n",
            "  changed: disk x is gone\n",
        ] {
            assert!(page.text.contains(expected), "{expected:?} in\n{}", page.text);
        }
        assert!(!page.text.contains('\x1b') && page.text.matches("GPU").count() == 1);
    }
}
