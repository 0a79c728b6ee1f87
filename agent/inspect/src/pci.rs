//! PCI functions: what they are, whose they are, which driver has them. The reader of the record looks up names of
//! vendors and models; only the class has a name here.

use std::path::Path;

use firesteel_sysfs::{Roots, attribute, link_name, location::PciAddress, names};
use firesteel_wire::{limits::PCI_DEVICES_MAX, parts::PciDevice};

/// The functions in the order of their addresses, and a note where some were left out.
#[must_use]
pub fn read(roots: &Roots) -> (Vec<PciDevice>, Option<String>) {
    let folder = roots.sys.join("bus/pci/devices");
    let mut addresses: Vec<String> =
        names(&folder).into_iter().filter(|name| PciAddress::parse(name).is_some()).collect();
    let total = addresses.len();
    if total > PCI_DEVICES_MAX {
        // Virtual functions are many and alike; bridges are of least use.
        addresses.sort_by_cached_key(|name| {
            let device = folder.join(name);
            (device.join("physfn").exists(), class(&device).starts_with("06"), name.clone())
        });
        addresses.truncate(PCI_DEVICES_MAX);
        addresses.sort();
    }
    let note = (total > PCI_DEVICES_MAX).then(|| {
        format!("{total} PCI functions, of which {PCI_DEVICES_MAX} are listed: virtual ones and bridges come last")
    });
    (addresses.into_iter().map(|address| device(&folder, address)).collect(), note)
}

fn device(folder: &Path, address: String) -> PciDevice {
    let folder = folder.join(&address);
    let alias = attribute(&folder.join("modalias"));
    let class = class(&folder);
    let id = |file: &str, key: &str| {
        let said = digits(&attribute(&folder.join(file)), 4);
        if said.is_empty() { in_alias(&alias, key) } else { said }
    };
    let subsystem_vendor = id("subsystem_vendor", "sv");
    PciDevice {
        class_name: class_name(&class).to_owned(),
        class,
        vendor: id("vendor", "v"),
        device: id("device", "d"),
        // A function without a subsystem says zero.
        subsystem_device: if subsystem_vendor == "0000" { String::new() } else { id("subsystem_device", "sd") },
        subsystem_vendor: if subsystem_vendor == "0000" { String::new() } else { subsystem_vendor },
        driver: link_name(&folder.join("driver")),
        numa_node: attribute(&folder.join("numa_node")).parse().ok(),
        address,
    }
}

fn class(folder: &Path) -> String {
    digits(&attribute(&folder.join("class")), 6)
}

/// `0x0c0330` without its prefix; empty for anything else.
fn digits(text: &str, count: usize) -> String {
    let Some(digits) = text.strip_prefix("0x") else { return String::new() };
    let is_number = digits.len() == count && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_number { digits.to_ascii_lowercase() } else { String::new() }
}

/// The last four of eight digits behind a key of `pci:v00008086d00001521sv00008086sd00005001bc02…`.
#[must_use]
pub fn in_alias(alias: &str, key: &str) -> String {
    const KEYS: [&str; 4] = ["v", "d", "sv", "sd"];
    let Some(mut rest) = alias.strip_prefix("pci:") else { return String::new() };
    for one in KEYS {
        let Some((number, after)) = rest.strip_prefix(one).and_then(|rest| rest.split_at_checked(8)) else { break };
        if !number.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            break;
        }
        if one == key {
            return number[4..].to_ascii_lowercase();
        }
        rest = after;
    }
    String::new()
}

/// The name of a class (PCI Code and ID Assignment Specification, revision 1.15, section 1), by six
/// hexadecimal digits; the class alone where the subclass has none here.
#[must_use]
pub fn class_name(class: &str) -> &'static str {
    let (Some(base), Some(sub)) = (class.get(..2), class.get(2..4)) else { return "" };
    match (base, sub) {
        ("01", _) => storage_name(sub, class.get(4..6).unwrap_or_default()),
        ("02", "00") => "Ethernet controller",
        ("02", "07") => "InfiniBand controller",
        ("02", "08") => "Host fabric controller",
        ("02", _) => "Network controller",
        ("03", "00") => "VGA compatible controller",
        ("03", "02") => "3D controller",
        ("03", _) => "Display controller",
        ("04", "03") => "Audio device",
        ("04", _) => "Multimedia controller",
        ("05", _) => "Memory controller",
        ("06", "00") => "Host bridge",
        ("06", "01") => "ISA bridge",
        ("06", "04") => "PCI bridge",
        ("06", "09") => "Semi-transparent PCI bridge",
        ("06", _) => "Bridge",
        ("07", "00") => "Serial controller",
        ("07", _) => "Communication controller",
        ("08", "06") => "IOMMU",
        ("08", _) => "System peripheral",
        ("09", _) => "Input device",
        ("0a", _) => "Docking station",
        ("0b", "40") => "Co-processor",
        ("0b", _) => "Processor",
        ("0c", "03") => "USB controller",
        ("0c", "04") => "Fibre Channel",
        ("0c", "05") => "SMBus",
        ("0c", "06") => "InfiniBand",
        ("0c", "07") => "IPMI interface",
        ("0c", _) => "Serial bus controller",
        ("0d", _) => "Wireless controller",
        ("0e", _) => "Intelligent controller",
        ("0f", _) => "Satellite communication controller",
        ("10", _) => "Encryption controller",
        ("11", _) => "Signal processing controller",
        ("12", _) => "Processing accelerator",
        ("13", _) => "Non-essential instrumentation",
        _ => "",
    }
}

fn storage_name(sub: &str, interface: &str) -> &'static str {
    match (sub, interface) {
        ("00", _) => "SCSI storage controller",
        ("01", _) => "IDE interface",
        ("02", _) => "Floppy disk controller",
        ("04", _) => "RAID bus controller",
        ("05", _) => "ATA controller",
        ("06", "01") => "SATA controller (AHCI)",
        ("06", _) => "SATA controller",
        ("07", _) => "Serial Attached SCSI controller",
        ("08", "02") => "NVMe controller",
        ("08", _) => "Non-volatile memory controller",
        ("09", _) => "UFS controller",
        _ => "Mass storage controller",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    fn function(folder: &Path, address: &str, class: &str) {
        let folder = folder.join("bus/pci/devices").join(address);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("class"), class).unwrap();
    }

    #[test]
    fn ids_come_from_files_and_from_the_alias() {
        let alias = "pci:v00008086d00001521sv000015D9sd00001521bc02sc00i00";
        assert_eq!(["v", "d", "sv", "sd"].map(|key| in_alias(alias, key)), ["8086", "1521", "15d9", "1521"]);
        for bad in ["", "pci:", "pci:v0000808", "pci:v0000808ä", "usb:v00008086d00001521", "pci:v0000zz86d00001521"] {
            assert_eq!(in_alias(bad, "v"), "", "{bad}");
        }
        assert_eq!(
            (digits("0x0C0330", 6), digits("0x1", 4), digits("8086", 4)),
            ("0c0330".into(), "".into(), "".into())
        );
    }

    #[test]
    fn what_matters_most_stays_where_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { sys: folder.path().into(), ..Roots::default() };
        assert_eq!(read(&roots), (Vec::new(), None));
        for number in 0..PCI_DEVICES_MAX {
            function(folder.path(), &format!("0000:{:02x}:{:02x}.0", number / 32, number % 32), "0x060400\n");
        }
        function(folder.path(), "0001:00:00.0", "0x020000\n");
        function(folder.path(), "not-an-address", "0x020000\n");
        let (found, note) = read(&roots);
        assert_eq!((found.len(), found.last().unwrap().class_name.as_str()), (PCI_DEVICES_MAX, "Ethernet controller"));
        assert!(note.unwrap().starts_with("513 PCI functions, of which 512"));
    }

    #[test]
    fn classes_have_names() {
        for (class, name) in [
            ("010802", "NVMe controller"),
            ("010601", "SATA controller (AHCI)"),
            ("010400", "RAID bus controller"),
            ("020000", "Ethernet controller"),
            ("030200", "3D controller"),
            ("120000", "Processing accelerator"),
            ("ff0000", ""),
            ("00ff00", ""),
            ("ä", ""),
            ("", ""),
        ] {
            assert_eq!(class_name(class), name, "{class}");
        }
    }
}
