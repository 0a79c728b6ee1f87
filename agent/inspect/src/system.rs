//! SMBIOS identity, firmware mode, Secure Boot, the entry that was booted, and the TPM.

use firesteel_efi::load_option;
use firesteel_efi::variables::{EfiVariables, entry_name};
use firesteel_sysfs::{Roots, attribute, names};
use firesteel_wire::{FirmwareMode, InventoryFirmware, InventorySystem, parts::InventoryTpm, text::field};

use super::smbios::platform;

/// What identifies the machine, from the kernel's own files; [`add_model`] adds the rest.
#[must_use]
pub fn read_system(roots: &Roots) -> InventorySystem {
    let dmi = roots.sys.join("class/dmi/id");
    let said = |name: &str| {
        let text = attribute(&dmi.join(name));
        if is_placeholder(&text) { String::new() } else { text }
    };
    InventorySystem {
        manufacturer: said("sys_vendor"),
        product: said("product_name"),
        serial: said("product_serial"),
        uuid: said("product_uuid").to_ascii_lowercase(),
        ..InventorySystem::default()
    }
}

/// Adds what the SMBIOS table says beyond that.
pub fn add_model(system: &mut InventorySystem, smbios: &[u8]) {
    let platform::PlatformModel { version, sku, family } = platform::model(smbios);
    (system.version, system.sku, system.family) = (version, sku, family);
}

/// What boards say whose maker did not fill in the field. Two hosts must not be one for it.
pub(super) fn is_placeholder(text: &str) -> bool {
    const PLACEHOLDERS: [&str; 17] = [
        "to be filled by o.e.m.",
        "default string",
        "not specified",
        "system serial number",
        "system product name",
        "chassis serial number",
        "base board serial number",
        "no asset tag",
        "no asset information",
        "null",
        "not available",
        "unknown",
        "n/a",
        "none",
        "0123456789",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ];
    PLACEHOLDERS.contains(&text.to_ascii_lowercase().as_str())
}

#[must_use]
pub fn read_firmware(roots: &Roots, smbios: &[u8]) -> InventoryFirmware {
    let dmi = roots.sys.join("class/dmi/id");
    let uefi = roots.sys.join("firmware/efi").is_dir();
    let variables = EfiVariables::new(&roots.sys);
    // Both are one byte (UEFI specification 2.10, section 3.3).
    let state = |name: &str| variables.read(name).filter(|_| uefi)?.first().map(|&state| state == 1);
    InventoryFirmware {
        mode: if uefi { FirmwareMode::Uefi } else { FirmwareMode::Bios },
        vendor: attribute(&dmi.join("bios_vendor")),
        version: attribute(&dmi.join("bios_version")),
        date: attribute(&dmi.join("bios_date")),
        secure_boot: state("SecureBoot"),
        setup_mode: state("SetupMode"),
        release: platform::firmware_release(smbios),
        booted_from: if uefi { booted_from(&variables) } else { String::new() },
    }
}

/// Number and description of the entry that the firmware started; empty where it does not say.
fn booted_from(variables: &EfiVariables) -> String {
    let Some(number) = variables.current() else { return String::new() };
    let name = entry_name(number);
    let option = variables.read(&name).and_then(|value| load_option::decode(&value));
    let description = option.map(|option| option.description).unwrap_or_default();
    field(&format!("{name} {description}"))
}

/// The first TPM that a driver has.
#[must_use]
pub fn read_tpm(roots: &Roots) -> Option<InventoryTpm> {
    let class = roots.sys.join("class/tpm");
    let name = names(&class).into_iter().find(|name| name.starts_with("tpm"))?;
    let version = match attribute(&class.join(name).join("tpm_version_major")).as_str() {
        "1" => "1.2",
        "2" => "2.0",
        _ => "",
    };
    Some(InventoryTpm { version: version.to_owned() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    #[test]
    fn firmware_and_placeholders() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { sys: folder.path().into(), ..Roots::default() };
        assert_eq!(read_firmware(&roots, &[]).mode, FirmwareMode::Bios);
        let dmi = folder.path().join("class/dmi/id");
        fs::create_dir_all(&dmi).unwrap();
        fs::write(dmi.join("product_serial"), "Default string\n").unwrap();
        fs::write(dmi.join("product_uuid"), "4C4C4544-0046-3310-8051-B4C04F564432\n").unwrap();
        let system = read_system(&roots);
        assert_eq!((system.serial.as_str(), system.uuid.as_str()), ("", "4c4c4544-0046-3310-8051-b4c04f564432"));
        let variables = folder.path().join("firmware/efi/efivars");
        fs::create_dir_all(&variables).unwrap();
        let variable = |name: &str, value: &[u8]| {
            let path = variables.join(format!("{name}-8be4df61-93ca-11d2-aa0d-00e098032b8c"));
            fs::write(path, [&[6, 0, 0, 0], value].concat()).unwrap();
        };
        let firmware = read_firmware(&roots, &[]);
        assert_eq!((firmware.secure_boot, firmware.setup_mode, firmware.booted_from.as_str()), (None, None, ""));
        for state in [1, 0] {
            variable("SecureBoot", &[state]);
            assert_eq!(read_firmware(&roots, &[]).secure_boot, Some(state == 1));
        }
        variable("SetupMode", &[1]);
        variable("BootCurrent", &[0x0a, 0]);
        assert_eq!(read_firmware(&roots, &[]).booted_from, "Boot000A", "an entry that is gone");
        variable("Boot000A", &load_option::encode("UEFI PXEv4\x1b[2J", &[]));
        let firmware = read_firmware(&roots, &[]);
        assert_eq!((firmware.setup_mode, firmware.booted_from.as_str()), (Some(true), "Boot000A UEFI PXEv4 [2J"));
    }

    #[test]
    fn a_tpm_by_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { sys: folder.path().into(), ..Roots::default() };
        assert_eq!(read_tpm(&roots), None);
        let tpm = folder.path().join("class/tpm/tpm0");
        fs::create_dir_all(&tpm).unwrap();
        assert_eq!(read_tpm(&roots), Some(InventoryTpm { version: String::new() }));
        fs::write(tpm.join("tpm_version_major"), "2\n").unwrap();
        assert_eq!(read_tpm(&roots), Some(InventoryTpm { version: "2.0".into() }));
    }
}
