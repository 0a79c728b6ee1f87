//! SMBIOS identity, firmware mode and Secure Boot.

use firesteel_wire::{Firmware, FirmwareMode, System};

use super::{Roots, attribute, bytes};

/// The variable that says whether Secure Boot is enforced (UEFI specification 2.10, section 3.3),
/// in efivarfs: four bytes of attributes, then one byte.
const SECURE_BOOT: &str = "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

#[must_use]
pub fn read_system(roots: &Roots) -> System {
    let dmi = roots.sys.join("class/dmi/id");
    let said = |name: &str| {
        let text = attribute(&dmi.join(name));
        if is_placeholder(&text) { String::new() } else { text }
    };
    System {
        manufacturer: said("sys_vendor"),
        product: said("product_name"),
        serial: said("product_serial"),
        uuid: said("product_uuid").to_ascii_lowercase(),
    }
}

/// What boards say whose maker did not fill in the field. Two hosts must not be one for it.
fn is_placeholder(text: &str) -> bool {
    const PLACEHOLDERS: [&str; 8] = [
        "to be filled by o.e.m.",
        "default string",
        "not specified",
        "system serial number",
        "none",
        "0123456789",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ];
    PLACEHOLDERS.contains(&text.to_ascii_lowercase().as_str())
}

#[must_use]
pub fn read_firmware(roots: &Roots) -> Firmware {
    let dmi = roots.sys.join("class/dmi/id");
    let uefi = roots.sys.join("firmware/efi").is_dir();
    let secure_boot = bytes(&roots.sys.join(SECURE_BOOT)).and_then(|data| data.get(4).map(|&state| state == 1));
    Firmware {
        mode: if uefi { FirmwareMode::Uefi } else { FirmwareMode::Bios },
        vendor: attribute(&dmi.join("bios_vendor")),
        version: attribute(&dmi.join("bios_version")),
        date: attribute(&dmi.join("bios_date")),
        secure_boot: if uefi { secure_boot } else { None },
    }
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
        assert_eq!(read_firmware(&roots).mode, FirmwareMode::Bios);
        let dmi = folder.path().join("class/dmi/id");
        fs::create_dir_all(&dmi).unwrap();
        fs::write(dmi.join("product_serial"), "Default string\n").unwrap();
        fs::write(dmi.join("product_uuid"), "4C4C4544-0046-3310-8051-B4C04F564432\n").unwrap();
        let system = read_system(&roots);
        assert_eq!((system.serial.as_str(), system.uuid.as_str()), ("", "4c4c4544-0046-3310-8051-b4c04f564432"));
        let variable = folder.path().join(SECURE_BOOT);
        fs::create_dir_all(variable.parent().unwrap()).unwrap();
        assert_eq!(read_firmware(&roots).secure_boot, None);
        fs::write(&variable, [6, 0, 0, 0, 1]).unwrap();
        assert_eq!(read_firmware(&roots).secure_boot, Some(true));
        fs::write(&variable, [6, 0, 0, 0, 0]).unwrap();
        assert_eq!(read_firmware(&roots).secure_boot, Some(false));
    }
}
