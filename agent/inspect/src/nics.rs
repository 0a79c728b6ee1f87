//! Network interfaces with a device behind them; no bridges, loopbacks or tunnels.

use std::{collections::BTreeMap, path::Path};

use firesteel_sysfs::location::PciAddress;
use firesteel_sysfs::nics::{address, mac_text, same_mac};
use firesteel_sysfs::{Roots, attribute, flag, link_name, names, number, text};
use firesteel_wire::limits::{NICS_MAX, VLANS_MAX};
use firesteel_wire::text::field;
use firesteel_wire::{InventoryNic, InventoryVlan};

use super::{Probe, system::is_placeholder};

/// The interfaces by name, and a note where some were left out: the one that the host booted from is
/// always there, and virtual functions go first.
#[must_use]
pub fn read(roots: &Roots, probe: &dyn Probe, boot_mac: &str) -> (Vec<InventoryNic>, Option<String>) {
    let class = roots.sys.join("class/net");
    let mut found: Vec<_> = names(&class).into_iter().filter(|name| class.join(name).join("device").exists()).collect();
    let total = found.len();
    if total > NICS_MAX {
        found.sort_by_cached_key(|name| {
            let folder = class.join(name);
            let booted = same_mac(&address(&folder), boot_mac);
            (!booted, folder.join("device/physfn").exists(), name.clone())
        });
        found.truncate(NICS_MAX);
        found.sort();
    }
    let note = (total > NICS_MAX).then(|| format!("{total} network interfaces, of which {NICS_MAX} are listed"));
    let vlans = vlans(&text(&roots.proc.join("net/vlan/config")));
    let nics = found.into_iter().map(|name| InventoryNic {
        vlans: vlans.get(&name).cloned().unwrap_or_default(),
        ..nic(&class.join(&name), name, probe, boot_mac)
    });
    (nics.collect(), note)
}

/// Lines of `/proc/net/vlan/config` (`eth0.5 | 5 | eth0`) by the interface below, by number, the first few.
#[must_use]
pub fn vlans(config: &str) -> BTreeMap<String, Vec<InventoryVlan>> {
    let mut found: BTreeMap<String, Vec<InventoryVlan>> = BTreeMap::new();
    for line in config.lines() {
        let mut parts = line.split('|').map(str::trim);
        let (Some(name), Some(id), Some(below)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let Some(id) = id.parse().ok().filter(|id| (1..4095).contains(id)) else { continue };
        found.entry(below.to_owned()).or_default().push(InventoryVlan { id, name: field(name) });
    }
    for vlans in found.values_mut() {
        vlans.sort_by_key(|vlan| vlan.id);
        vlans.truncate(VLANS_MAX);
    }
    found
}

fn nic(folder: &Path, name: String, probe: &dyn Probe, boot_mac: &str) -> InventoryNic {
    let current = address(folder);
    let mac = probe.permanent_mac(&name).map_or_else(|| current.clone(), mac_text);
    let link = flag(&folder.join("carrier"));
    let (pci_address, model) = pci_of(&folder.join("device"));
    let duplex = attribute(&folder.join("duplex"));
    InventoryNic {
        boot: same_mac(&current, boot_mac) || same_mac(&mac, boot_mac),
        ip: probe.addresses(&name),
        driver: link_name(&folder.join("device/driver")),
        model,
        pci_address,
        // Without a link drivers give -1 or an error.
        speed_mbps: if link {
            number(&folder.join("speed")).filter(|&mbps| mbps < 1_000_000_000).unwrap_or(0)
        } else {
            0
        },
        link,
        firmware: Some(field(&probe.nic_firmware(&name))).filter(|text| !is_placeholder(text)).unwrap_or_default(),
        duplex: if link && ["half", "full"].contains(&duplex.as_str()) { duplex } else { String::new() },
        vlans: Vec::new(),
        mac,
        name,
    }
}

/// Address and ids of the PCI function; a virtio NIC's is one step above its device.
fn pci_of(device: &Path) -> (String, String) {
    let Ok(mut folder) = device.canonicalize() else { return Default::default() };
    for _ in 0..2 {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if PciAddress::parse(&name).is_some() {
            let model = format!("{} {}", attribute(&folder.join("vendor")), attribute(&folder.join("device")));
            return (name, model.trim().to_owned());
        }
        if !folder.pop() {
            break;
        }
    }
    Default::default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;
    use crate::tests::Answers;

    fn interface(sys: &Path, name: &str, mac: &str, attributes: &[(&str, &str)]) {
        let folder = sys.join("class/net").join(name);
        fs::create_dir_all(folder.join("device")).unwrap();
        fs::write(folder.join("address"), mac).unwrap();
        for (name, value) in attributes {
            fs::write(folder.join(name), value).unwrap();
        }
    }

    #[test]
    fn vlans_by_the_interface_below() {
        let config = "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n\
                      eth0.50        | 50  | eth0\neth0.5         | 5  | eth0\nodd | 5000 | eth0\nx | 7 | eth1\n";
        let found = vlans(config);
        let vlan = |id: u16, name: &str| InventoryVlan { id, name: name.into() };
        assert_eq!(found["eth0"], [vlan(5, "eth0.5"), vlan(50, "eth0.50")]);
        assert_eq!((found["eth1"].as_slice(), found.len()), (&[vlan(7, "x")][..], 2));
    }

    #[test]
    fn link_duplex_and_firmware() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { sys: folder.path().into(), proc: folder.path().into(), ..Roots::default() };
        let up = [("carrier", "1\n"), ("speed", "25000\n"), ("duplex", "full\n")];
        interface(folder.path(), "eth0", "52:54:00:00:00:01\n", &up);
        interface(folder.path(), "eth1", "52:54:00:00:00:02\n", &[("carrier", "0\n"), ("duplex", "unknown\n")]);
        let (found, note) = read(&roots, &Answers { firmware: "9.20 0x8000\x1b[2J".into(), ..Answers::default() }, "");
        assert_eq!((found[0].speed_mbps, found[0].duplex.as_str(), found[0].link), (25_000, "full", true));
        assert_eq!((found[1].speed_mbps, found[1].duplex.as_str(), found[1].link), (0, "", false));
        assert_eq!((found[0].firmware.as_str(), note), ("9.20 0x8000 [2J", None));
        let silent = Answers { firmware: "N/A".into(), ..Answers::default() };
        assert_eq!(read(&roots, &silent, "").0[0].firmware, "", "what drivers say that do not know it");
    }

    #[test]
    fn of_thousands_the_booted_one_and_the_physical_ones_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { sys: folder.path().into(), proc: folder.path().into(), ..Roots::default() };
        for number in 0..2000 {
            interface(folder.path(), &format!("a{number:04}"), "02:00:00:00:00:09\n", &[("device/physfn", "")]);
        }
        interface(folder.path(), "z-physical", "52:54:00:00:00:02\n", &[]);
        interface(folder.path(), "z-virtual", "52:54:00:00:00:01\n", &[("device/physfn", "")]);
        let (found, note) = read(&roots, &Answers::default(), "52:54:00:00:00:01");
        assert_eq!(found.len(), NICS_MAX);
        assert!(found.iter().any(|nic| nic.name == "z-physical"));
        assert!(found.iter().any(|nic| nic.name == "z-virtual" && nic.boot));
        assert_eq!(note.as_deref(), Some("2002 network interfaces, of which 64 are listed"));
    }
}
