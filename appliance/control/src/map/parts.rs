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
    let wire::Mainboard { manufacturer, product, version, serial, asset_tag } = &parts.board;
    let board = BoardRecord {
        manufacturer: field(manufacturer),
        product: field(product),
        version: field(version),
        serial: field(serial),
        asset_tag: field(asset_tag),
    };
    let wire::Chassis { manufacturer, kind, serial, asset_tag } = &parts.chassis;
    let chassis = ChassisRecord {
        manufacturer: field(manufacturer),
        kind: field(kind),
        serial: field(serial),
        asset_tag: field(asset_tag),
    };
    let wire::MemoryArray { slots, capacity_mib, mapped_mib, error_correction } = &parts.memory;
    let memory = MemoryArrayRecord {
        slots: *slots,
        capacity_mib: *capacity_mib,
        mapped_mib: *mapped_mib,
        error_correction: field(error_correction),
    };
    PartsRecord {
        board,
        chassis,
        processors: some(&parts.processors, limits::PROCESSORS_MAX, processor),
        memory,
        modules: some(&parts.modules, limits::MODULES_MAX, module),
        numa: some(&parts.numa, limits::NUMA_NODES_MAX, numa_node),
        pci: some(&parts.pci, limits::PCI_DEVICES_MAX, pci_device),
        nvme: some(&parts.nvme, limits::NVME_CONTROLLERS_MAX, nvme_controller),
        management: some(&parts.management, limits::MANAGEMENT_MAX, management),
        bmc: some(&parts.bmc, limits::BMC_NETWORKS_MAX, bmc_network),
        tpm: parts.tpm.as_ref().map(|wire::Tpm { version }| TpmRecord { version: field(version) }),
        notes: some(&parts.notes, limits::NOTES_MAX, |note| field(note)),
    }
}

fn processor(processor: &wire::InventoryProcessor) -> ProcessorRecord {
    let wire::InventoryProcessor { socket, manufacturer, version, serial, cores, threads, max_mhz } = processor;
    ProcessorRecord {
        socket: field(socket),
        manufacturer: field(manufacturer),
        version: field(version),
        serial: field(serial),
        cores: *cores,
        threads: *threads,
        max_mhz: *max_mhz,
    }
}

fn module(module: &wire::MemoryModule) -> ModuleRecord {
    ModuleRecord {
        locator: field(&module.locator),
        bank: field(&module.bank),
        size_mib: module.size_mib,
        kind: field(&module.kind),
        form: field(&module.form),
        speed_mts: module.speed_mts,
        configured_mts: module.configured_mts,
        ranks: module.ranks,
        ecc: module.ecc,
        manufacturer: field(&module.manufacturer),
        serial: field(&module.serial),
        part: field(&module.part),
    }
}

fn numa_node(node: &wire::NumaNode) -> NumaNodeRecord {
    NumaNodeRecord {
        id: node.id,
        cpus: field(&node.cpus),
        memory_mib: node.memory_mib,
        distances: some(&node.distances, limits::NUMA_NODES_MAX, |distance| *distance),
    }
}

fn pci_device(device: &wire::PciDevice) -> PciRecord {
    PciRecord {
        address: field(&device.address),
        class: field(&device.class),
        class_name: field(&device.class_name),
        vendor: field(&device.vendor),
        device: field(&device.device),
        subsystem_vendor: field(&device.subsystem_vendor),
        subsystem_device: field(&device.subsystem_device),
        driver: field(&device.driver),
        numa_node: device.numa_node,
        gpu: is_gpu(device),
    }
}

/// Display controllers and accelerators of who makes GPUs. BMCs and virtual machines have display
/// controllers of others, but for one that was long ago sold with BMCs.
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
    NvmeControllerRecord {
        name: field(&controller.name),
        model: field(&controller.model),
        serial: field(&controller.serial),
        firmware: field(&controller.firmware),
        transport: field(&controller.transport),
        pci_address: field(&controller.pci_address),
        namespaces_max: controller.namespaces_max,
        total_bytes: controller.total_bytes,
        unallocated_bytes: controller.unallocated_bytes,
        identified: controller.identified,
        namespaces: some(&controller.namespaces, limits::NAMESPACES_MAX, namespace),
    }
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
    BmcNetworkRecord {
        channel: network.channel,
        mac: field(&network.mac),
        ipv4: field(&network.ipv4),
        prefix_bits: network.prefix_bits,
        vlan: if network.vlan < 4095 { network.vlan } else { 0 },
        ipv6: some(&network.ipv6, limits::NEIGHBOUR_ADDRESSES_MAX, |address| field(address)),
    }
}

pub(super) fn capabilities(can: &wire::DiskCapabilities) -> CapabilitiesRecord {
    let security = |security: &wire::AtaSecurity| AtaSecurityRecord {
        enabled: security.enabled,
        locked: security.locked,
        frozen: security.frozen,
        enhanced_erase: security.enhanced_erase,
        erase_minutes: security.erase_minutes,
        enhanced_erase_minutes: security.enhanced_erase_minutes,
    };
    // No list is longer than there are values, whatever was sent.
    CapabilitiesRecord {
        discard: can.discard,
        write_zeroes: can.write_zeroes,
        discard_zeroes: can.discard_zeroes,
        identified: can.identified,
        sanitize: some(&can.sanitize, 3, |method| *method),
        format: some(&can.format, 2, |erase| *erase),
        ata_security: can.ata_security.as_ref().map(security),
        hidden_areas: some(&can.hidden_areas, 2, |area| *area),
        hidden_bytes: can.hidden_bytes,
    }
}

pub(super) fn health(health: &wire::Health) -> HealthRecord {
    HealthRecord {
        failing: health.failing,
        warnings: some(&health.warnings, limits::WARNINGS_MAX, |warning| field(warning)),
        celsius: health.celsius,
        power_on_hours: health.power_on_hours,
        used_percent: health.used_percent,
        spare_percent: health.spare_percent,
        unsafe_shutdowns: health.unsafe_shutdowns,
        media_errors: health.media_errors,
        reallocated_sectors: health.reallocated,
        pending_sectors: health.pending,
    }
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
