//! What a BMC told of its machine, into the host's journal.

use firesteel_bmc::{
    BmcBootMode, BmcInventory,
    inventory::{BmcMemoryModule, Socket},
};
use firesteel_resources::host_journal::{BmcModule, BmcProcessor, BmcRecord, BmcVersion};
use jiff::Timestamp;

/// Records what a BMC said of its machine. All texts are plain and bounded already.
pub(crate) fn record(seen: &BmcInventory, at: Timestamp) -> BmcRecord {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let secure_boot = seen.secure_boot.clone().unwrap_or_default();
    BmcRecord {
        at,
        vendor: text(&seen.vendor),
        product: text(&seen.product),
        redfish_version: text(&seen.redfish_version),
        manager_model: text(&seen.manager_model),
        manager_firmware: text(&seen.manager_firmware),
        manager_health: text(&seen.manager_health),
        manufacturer: text(&seen.manufacturer),
        model: text(&seen.model),
        serial: text(&seen.serial),
        uuid: text(&seen.uuid),
        sku: text(&seen.sku),
        asset_tag: text(&seen.asset_tag),
        bios_version: text(&seen.bios_version),
        health: text(&seen.health),
        boot_mode: seen.boot_mode.map(BmcBootMode::as_str).unwrap_or_default().to_owned(),
        secure_boot: secure_boot.is_enabled,
        secure_boot_last: secure_boot.was_enabled,
        secure_boot_mode: text(&secure_boot.mode),
        memory_mib: seen.memory_mib,
        processor_count: seen.processor_count,
        modules: seen.modules.iter().map(module).collect(),
        processors: seen.processors.iter().map(processor).collect(),
        firmware: seen
            .firmware
            .iter()
            .map(|version| BmcVersion { name: version.name.clone(), version: text(&version.version) })
            .collect(),
        left_out: seen.left_out.clone(),
    }
}

fn module(seen: &BmcMemoryModule) -> BmcModule {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    BmcModule {
        slot: seen.slot.clone(),
        mib: seen.mib,
        kind: text(&seen.kind),
        mhz: seen.mhz,
        manufacturer: text(&seen.manufacturer),
        part: text(&seen.part),
        serial: text(&seen.serial),
        health: text(&seen.health),
    }
}

fn processor(seen: &Socket) -> BmcProcessor {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    BmcProcessor {
        socket: seen.socket.clone(),
        manufacturer: text(&seen.manufacturer),
        model: text(&seen.model),
        cores: seen.cores,
        threads: seen.threads,
        mhz: seen.mhz,
        health: text(&seen.health),
    }
}
