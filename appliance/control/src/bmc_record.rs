//! What a BMC says of its machine, as the host's journal keeps it.

use firesteel_bmc::inventory::{BmcDrive, BmcInterface, BmcMemoryModule, BmcVolume, FirmwareVersion, Socket};
use firesteel_bmc::{BmcBootMode, BmcInventory};
use firesteel_resources::host_journal::{
    BmcDriveRecord, BmcInterfaceRecord, BmcModule, BmcProcessor, BmcRecord, BmcVersion, BmcVolumeRecord,
};
use jiff::Timestamp;

/// Makes a record of what a BMC said: texts that it left out are empty, the named values are copied.
macro_rules! record {
    ($record:ident of $from:ident, texts: $($text:ident),*; values: $($value:ident),*; $($rest:tt)*) => {
        $record {
            $($text: $from.$text.clone().unwrap_or_default(),)*
            $($value: $from.$value.clone(),)*
            $($rest)*
        }
    };
}

/// Records what a BMC said of its machine. All texts are plain and bounded already.
pub(crate) fn record(seen: &BmcInventory, at: Timestamp) -> BmcRecord {
    let secure_boot = seen.secure_boot.clone().unwrap_or_default();
    let version = |version: &FirmwareVersion| record!(BmcVersion of version, texts: version; values: name;);
    record!(BmcRecord of seen,
        texts: vendor, product, redfish_version, manager_model, manager_firmware, manager_health, manufacturer, model,
            serial, uuid, sku, asset_tag, bios_version, health;
        values: memory_mib, processor_count, left_out;
        at,
        boot_mode: seen.boot_mode.map(BmcBootMode::as_str).unwrap_or_default().to_owned(),
        secure_boot: secure_boot.is_enabled,
        secure_boot_last: secure_boot.was_enabled,
        secure_boot_mode: secure_boot.mode.unwrap_or_default(),
        modules: seen.modules.iter().map(module).collect(),
        processors: seen.processors.iter().map(processor).collect(),
        firmware: seen.firmware.iter().map(version).collect(),
        interfaces: seen.interfaces.iter().map(interface).collect(),
        drives: seen.drives.iter().map(drive).collect(),
        volumes: seen.volumes.iter().map(volume).collect(),
    )
}

fn module(seen: &BmcMemoryModule) -> BmcModule {
    record!(BmcModule of seen, texts: kind, manufacturer, part, serial, health; values: slot, mib, mhz;)
}

fn processor(seen: &Socket) -> BmcProcessor {
    record!(BmcProcessor of seen, texts: kind, arch, manufacturer, model, health; values: socket, cores, threads, mhz;)
}

fn interface(seen: &BmcInterface) -> BmcInterfaceRecord {
    record!(BmcInterfaceRecord of seen, texts: ; values: name, mac, mbps, has_link;)
}

fn drive(seen: &BmcDrive) -> BmcDriveRecord {
    record!(BmcDriveRecord of seen,
        texts: media, protocol, manufacturer, model, serial, firmware, wwn, health;
        values: name, bytes;)
}

fn volume(seen: &BmcVolume) -> BmcVolumeRecord {
    record!(BmcVolumeRecord of seen, texts: raid, wwn, health; values: name, bytes;)
}
