//! The parts of a host, cut to their bounds like everything else that a host says.

use firesteel_resources::hardware::parts::{
    AtaSecurityRecord, BmcNetworkRecord, BoardRecord, CapabilitiesRecord, ChassisRecord, HealthRecord,
    ManagementRecord, MemoryArrayRecord, ModuleRecord, NumaNodeRecord, NvmeControllerRecord, NvmeNamespaceRecord,
    PartsRecord, PciRecord, ProcessorRecord, TpmRecord,
};
use firesteel_wire::{limits, parts as wire};

use super::field;

/// The first `max` of a list, each mapped.
fn some<T, R>(list: &[T], max: usize, map: impl Fn(&T) -> R) -> Vec<R> {
    list.iter().take(max).map(map).collect()
}

pub(super) fn parts(parts: &wire::HardwareParts) -> PartsRecord {
    let wire::HardwareParts { board, chassis, memory, .. } = parts;
    PartsRecord {
        board: record!(BoardRecord of board, texts: manufacturer, product, version, serial, asset_tag; values: ;),
        chassis: record!(ChassisRecord of chassis, texts: manufacturer, kind, serial, asset_tag; values: ;),
        processors: some(&parts.processors, limits::PROCESSORS_MAX, processor),
        memory: record!(MemoryArrayRecord of memory,
            texts: error_correction; values: slots, capacity_mib, mapped_mib;),
        modules: some(&parts.modules, limits::MODULES_MAX, module),
        numa: some(&parts.numa, limits::NUMA_NODES_MAX, numa_node),
        pci: some(&parts.pci, limits::PCI_DEVICES_MAX, pci_device),
        nvme: some(&parts.nvme, limits::NVME_CONTROLLERS_MAX, nvme_controller),
        management: some(&parts.management, limits::MANAGEMENT_MAX, management),
        bmc: some(&parts.bmc, limits::BMC_NETWORKS_MAX, bmc_network),
        tpm: parts.tpm.as_ref().map(|wire::InventoryTpm { version }| TpmRecord { version: field(version) }),
        notes: some(&parts.notes, limits::NOTES_MAX, |note| field(note)),
    }
}

fn processor(processor: &wire::InventoryProcessor) -> ProcessorRecord {
    record!(ProcessorRecord of processor,
        texts: socket, manufacturer, version, serial; values: cores, threads, max_mhz;)
}

fn module(module: &wire::MemoryModule) -> ModuleRecord {
    record!(ModuleRecord of module,
        texts: locator, bank, kind, form, manufacturer, serial, part;
        values: size_mib, speed_mts, configured_mts, ranks, ecc;)
}

fn numa_node(node: &wire::NumaNode) -> NumaNodeRecord {
    record!(NumaNodeRecord of node,
        texts: cpus; values: id, memory_mib;
        distances: some(&node.distances, limits::NUMA_NODES_MAX, |distance| *distance),
    )
}

fn pci_device(device: &wire::PciDevice) -> PciRecord {
    let gpu = is_gpu(device);
    record!(PciRecord of device,
        texts: address, class, class_name, vendor, device, subsystem_vendor, subsystem_device, driver;
        values: numa_node;
        gpu,
    )
}

/// Says whether a device is a display controller or an accelerator by a maker of GPUs. BMCs and virtual machines have
/// display controllers of other makers, except for one that was sold with BMCs long ago.
fn is_gpu(device: &wire::PciDevice) -> bool {
    const NVIDIA: &str = "10de";
    const AMD: &str = "1002";
    const INTEL: &str = "8086";
    const ES1000: &str = "515e";
    let is_kind = device.class.starts_with("03") || device.class.starts_with("12");
    let is_es1000 = device.vendor == AMD && device.device == ES1000;
    is_kind && [NVIDIA, AMD, INTEL].contains(&device.vendor.as_str()) && !is_es1000
}

fn nvme_controller(controller: &wire::NvmeController) -> NvmeControllerRecord {
    let namespace = |namespace: &wire::NvmeNamespace| NvmeNamespaceRecord {
        id: namespace.id,
        attached: namespace.attached,
        size_bytes: namespace.size_bytes,
    };
    record!(NvmeControllerRecord of controller,
        texts: name, model, serial, firmware, transport, pci_address;
        values: namespaces_max, total_bytes, unallocated_bytes, identified;
        namespaces: some(&controller.namespaces, limits::NAMESPACES_MAX, namespace),
    )
}

fn management(interface: &wire::ManagementInterface) -> ManagementRecord {
    match interface {
        wire::ManagementInterface::Ipmi { interface, version } => {
            ManagementRecord::Ipmi { interface: field(interface), version: field(version) }
        }
        wire::ManagementInterface::Redfish { address, port, vlan, hostname } => {
            ManagementRecord::Redfish { address: field(address), port: *port, vlan: *vlan, hostname: field(hostname) }
        }
    }
}

fn bmc_network(network: &wire::BmcNetwork) -> BmcNetworkRecord {
    record!(BmcNetworkRecord of network,
        texts: mac, ipv4; values: channel, prefix_bits;
        vlan: if network.vlan < 4095 { network.vlan } else { 0 },
        ipv6: some(&network.ipv6, limits::NEIGHBOUR_ADDRESSES_MAX, |address| field(address)),
    )
}

pub(super) fn capabilities(can: &wire::DiskCapabilities) -> CapabilitiesRecord {
    let security = |security: &wire::AtaSecurity| {
        record!(AtaSecurityRecord of security,
            texts: ; values: enabled, locked, frozen, enhanced_erase, erase_minutes, enhanced_erase_minutes;)
    };
    // No list is longer than there are values, whatever was sent.
    record!(CapabilitiesRecord of can,
        texts: ; values: discard, write_zeroes, discard_zeroes, identified, hidden_bytes;
        sanitize: some(&can.sanitize, 3, |method| *method),
        format: some(&can.format, 2, |erase| *erase),
        ata_security: can.ata_security.as_ref().map(security),
        hidden_areas: some(&can.hidden_areas, 2, |area| *area),
    )
}

pub(super) fn health(health: &wire::Health) -> HealthRecord {
    record!(HealthRecord of health,
        texts: ;
        values: failing, celsius, power_on_hours, used_percent, spare_percent, unsafe_shutdowns, media_errors;
        warnings: some(&health.warnings, limits::WARNINGS_MAX, |warning| field(warning)),
        reallocated_sectors: health.reallocated,
        pending_sectors: health.pending,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_to_their_bounds_and_texts_cleaned() {
        let long =
            wire::MemoryModule { part: "x".repeat(10_000), serial: "\u{202e}\x1b[2J".into(), ..Default::default() };
        let controller =
            wire::NvmeController { namespaces: vec![wire::NvmeNamespace::default(); 1000], ..Default::default() };
        let record = parts(&wire::HardwareParts {
            modules: vec![long; 10_000],
            processors: vec![wire::InventoryProcessor::default(); 10_000],
            numa: vec![wire::NumaNode { distances: vec![10; 1000], ..Default::default() }; 10_000],
            pci: vec![wire::PciDevice::default(); 10_000],
            nvme: vec![controller; 10_000],
            notes: vec![String::new(); 10_000],
            ..Default::default()
        });
        assert_eq!((record.modules.len(), record.processors.len()), (limits::MODULES_MAX, limits::PROCESSORS_MAX));
        assert_eq!((record.numa.len(), record.pci.len()), (limits::NUMA_NODES_MAX, limits::PCI_DEVICES_MAX));
        assert_eq!((record.nvme.len(), record.notes.len()), (limits::NVME_CONTROLLERS_MAX, limits::NOTES_MAX));
        assert_eq!(record.nvme[0].namespaces.len(), limits::NAMESPACES_MAX);
        assert_eq!(record.numa[0].distances.len(), limits::NUMA_NODES_MAX);
        assert_eq!(record.modules[0].part.len(), limits::FIELD_BYTES_MAX);
        assert!(!record.modules[0].serial.contains(['\u{202e}', '\x1b']));
    }

    #[test]
    fn what_is_a_gpu() {
        for (class, vendor, device, expected) in [
            ("030200", "10de", "20b5", true),
            ("030000", "8086", "46a6", true),
            ("038000", "1002", "740f", true),
            ("120000", "1002", "74a1", true),
            ("120000", "1b36", "0005", false),
            ("030000", "1a03", "2000", false),
            ("030000", "102b", "0534", false),
            ("030000", "1002", "515e", false),
            ("020000", "10de", "20b5", false),
        ] {
            let one = wire::PciDevice {
                class: class.into(),
                vendor: vendor.into(),
                device: device.into(),
                ..Default::default()
            };
            assert_eq!(is_gpu(&one), expected, "{class} {vendor}:{device}");
        }
    }
}
