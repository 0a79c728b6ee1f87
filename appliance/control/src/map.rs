//! Maps between the agent's protocol and the public kinds: neither knows the other.
//!
//! Everything that comes from a host is cut to a bound here, once, so that no later part has to.

/// Makes a record of what a host sent: the named texts are cleaned and bounded, the named values are copied.
macro_rules! record {
    ($record:ident of $from:ident, texts: $($text:ident),*; values: $($value:ident),*; $($rest:tt)*) => {
        $record { $($text: field(&$from.$text),)* $($value: $from.$value,)* $($rest)* }
    };
}

mod parts;

use firesteel_contents::DiskContents;
use firesteel_resources::hardware::neighbour::{NeighbourRecord, NicNeighbour};
use firesteel_resources::hardware::{
    CpuRecord, DiskRecord, FirmwareRecord, HardwareRecord, MemoryRecord, NicRecord, SystemRecord, TableRecord,
};
use firesteel_resources::hardware_data::Vlan;
use firesteel_wire::{self as wire, limits};
use jiff::Timestamp;

pub(crate) use firesteel_runtime::{field, line};

// Of each disk that a host may name, a receipt of its erasure is kept.
const _: () = assert!(limits::DISKS_MAX < firesteel_resources::host_journal::RECEIPTS_MAX);

/// The record of one inspection.
#[must_use]
pub(crate) fn hardware_record(
    inventory: &wire::Inventory,
    attempt: u64,
    plan: u32,
    timeline: u32,
    at: Timestamp,
) -> HardwareRecord {
    let wire::Inventory { system, firmware, cpu, memory, nics, disks, hostname, parts } = inventory;
    HardwareRecord {
        attempt,
        plan,
        inspected_at: at,
        timeline,
        system: record!(SystemRecord of system,
            texts: manufacturer, product, serial, uuid, version, sku, family; values: ;),
        firmware: record!(FirmwareRecord of firmware,
            texts: vendor, version, date, release, booted_from; values: mode, secure_boot, setup_mode;),
        cpu: record!(CpuRecord of cpu,
            texts: arch, model, microcode; values: count, sockets, cores, offline;
            clock_mhz: if cpu.clock_mhz.is_finite() { cpu.clock_mhz } else { 0.0 },
            flags: cpu.flags.iter().take(1024).map(|flag| field(flag)).collect(),
        ),
        memory: MemoryRecord { total_mib: memory.total_mib, installed_mib: memory.installed_mib },
        nics: nics.iter().take(limits::NICS_MAX).map(nic).collect(),
        disks: disks.iter().take(limits::DISKS_MAX).map(disk).collect(),
        hostname: field(hostname),
        parts: parts.as_deref().map(|told| Box::new(parts::parts(told))),
        changes: Vec::new(),
    }
}

fn nic(nic: &wire::InventoryNic) -> NicRecord {
    record!(NicRecord of nic,
        texts: name, mac, driver, model, pci_address, firmware, duplex; values: speed_mbps, link, boot;
        ip: nic.ip.iter().take(64).map(|ip| field(ip)).collect(),
        // What upstream's kind refuses would keep the whole record out.
        vlans: vlans(&nic.vlans),
        neighbour: None,
    )
}

fn vlans(told: &[wire::InventoryVlan]) -> Vec<Vlan> {
    told.iter().filter(|vlan| vlan.id < 4095).take(limits::VLANS_MAX).map(vlan).collect()
}

/// What an agent of this attempt heard on its cables.
#[must_use]
pub(crate) fn neighbours(told: &[wire::Neighbour], attempt: u64) -> Vec<NicNeighbour> {
    let heard = |told: &wire::Neighbour| NicNeighbour {
        nic: field(&told.nic),
        mac: field(&told.mac),
        neighbour: record!(NeighbourRecord of told,
            texts: switch_id, port_id, port_description, switch_name, switch_description;
            values: aggregated, frame_bytes_max;
            attempt,
            addresses: told.addresses.iter().take(limits::NEIGHBOUR_ADDRESSES_MAX).map(|one| field(one)).collect(),
            port_vlan: if told.port_vlan < 4095 { told.port_vlan } else { 0 },
            vlans: vlans(&told.vlans),
        ),
    };
    told.iter().take(limits::NICS_MAX).map(heard).collect()
}

fn vlan(vlan: &wire::InventoryVlan) -> Vlan {
    Vlan { id: vlan.id, name: field(&vlan.name) }
}

fn disk(disk: &wire::InventoryDisk) -> DiskRecord {
    record!(DiskRecord of disk,
        texts: device, by_path, model, vendor, serial, wwn, wwn_with_extension, wwn_vendor_extension, hctl, firmware,
            controller;
        values: size_bytes, logical_block_bytes, physical_block_bytes, rotational, read_only, removable, transport;
        by_id: disk.by_id.iter().take(16).map(|name| field(name)).collect(),
        signatures: disk.signatures.iter().take(64).map(|name| field(name)).collect(),
        contents: disk.contents.as_deref().map(|told| Box::new(contents(told))),
        table: disk.table.as_ref().map(|table| match table {
            wire::PartitionTableRecord::None => TableRecord::None,
            wire::PartitionTableRecord::Gpt { guid } => TableRecord::Gpt { guid: field(guid) },
            wire::PartitionTableRecord::Unreadable { why, damaged } => {
                TableRecord::Unreadable { why: field(why), damaged: *damaged }
            }
        }),
        capabilities: disk.capabilities.as_deref().map(|can| Box::new(parts::capabilities(can))),
        health: disk.health.as_deref().map(|health| Box::new(parts::health(health))),
    )
}

/// What can stop an erasure is kept first, also of an agent whose lists are longer than this end's.
fn contents(told: &DiskContents) -> DiskContents {
    told.clone().bounded().with_texts(&field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_on_a_disk_is_kept_clean_and_within_bounds() {
        use firesteel_contents::{ContentKind, ContentOwner, FINDINGS_MAX, ProtectedContent, UNREAD_MAX};
        let finding = |number: usize| ProtectedContent {
            place: format!("partition {number}\x1b[2J"),
            kind: ContentKind::Lvm,
            name: "v".repeat(1000),
            owner: ContentOwner::Host("nas".into()),
        };
        let vmfs = ProtectedContent { kind: ContentKind::Vmfs, ..finding(100) };
        let told = DiskContents {
            guid: "g".into(),
            findings: (0..100).map(finding).chain([vmfs]).collect(),
            barred: vec!["it is on USB".into(); 100],
            ..DiskContents::default()
        };
        let inventory = wire::Inventory {
            disks: vec![
                wire::InventoryDisk { contents: Some(Box::new(told)), ..wire::InventoryDisk::default() },
                wire::InventoryDisk { contents: Some(Box::default()), ..wire::InventoryDisk::default() },
                wire::InventoryDisk::default(),
            ],
            ..wire::Inventory::default()
        };
        let disks = hardware_record(&inventory, 1, 1, 1, Timestamp::UNIX_EPOCH).disks;
        let kept = disks[0].contents.as_deref().cloned().unwrap_or_default();
        assert_eq!((kept.findings.len(), kept.barred.len(), kept.more), (FINDINGS_MAX, UNREAD_MAX, 69));
        assert_eq!(kept.findings[0].kind, ContentKind::Vmfs);
        assert_eq!((kept.guid.as_str(), kept.findings[0].name.len()), ("g", limits::FIELD_BYTES_MAX));
        assert!(!kept.lines().concat().contains('\x1b'));
        assert!(disks[1].contents.as_ref().is_some_and(|contents| contents.is_blank()));
        assert_eq!(disks[2].contents, None, "an agent that does not tell");
    }

    #[test]
    fn a_host_cannot_fill_the_store_or_a_terminal() {
        let inventory = wire::Inventory {
            system: wire::InventorySystem {
                serial: "x".repeat(100_000),
                product: "a\x1b[2Jb".into(),
                ..Default::default()
            },
            disks: vec![wire::InventoryDisk::default(); 10_000],
            nics: vec![wire::InventoryNic::default(); 10_000],
            ..Default::default()
        };
        let record = hardware_record(&inventory, 1, 1, 1, Timestamp::UNIX_EPOCH);
        assert_eq!(record.system.serial.len(), limits::FIELD_BYTES_MAX);
        assert!(!record.system.product.contains('\x1b'));
        assert_eq!((record.disks.len(), record.nics.len()), (limits::DISKS_MAX, limits::NICS_MAX));
    }
}
