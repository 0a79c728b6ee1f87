//! Network interfaces with a device behind them; no bridges, loopbacks or tunnels.

use std::path::Path;

use firesteel_wire::Nic;

use super::{Probe, Roots, attribute, flag, link_name, names, number};

#[must_use]
pub fn read(roots: &Roots, probe: &dyn Probe, boot_mac: &str) -> Vec<Nic> {
    let class = roots.sys.join("class/net");
    let physical = names(&class).into_iter().filter(|name| class.join(name).join("device").exists());
    physical.map(|name| nic(&class.join(&name), name, probe, boot_mac)).collect()
}

fn nic(folder: &Path, name: String, probe: &dyn Probe, boot_mac: &str) -> Nic {
    let current = attribute(&folder.join("address")).to_ascii_lowercase();
    let mac = probe.permanent_mac(&name).map_or_else(|| current.clone(), mac_text);
    let link = flag(&folder.join("carrier"));
    let (pci_address, model) = pci_of(&folder.join("device"));
    Nic {
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
        mac,
        name,
    }
}

/// Address and ids of the PCI function; a virtio NIC's is one step above its device.
fn pci_of(device: &Path) -> (String, String) {
    let Ok(mut folder) = device.canonicalize() else { return Default::default() };
    for _ in 0..2 {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if super::location::PciAddress::parse(&name).is_some() {
            let model = format!("{} {}", attribute(&folder.join("vendor")), attribute(&folder.join("device")));
            return (name, model.trim().to_owned());
        }
        if !folder.pop() {
            break;
        }
    }
    Default::default()
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Compares hardware addresses whatever their case and separator.
#[must_use]
pub fn same_mac(one: &str, other: &str) -> bool {
    let plain = |mac: &str| mac.to_ascii_lowercase().replace('-', ":");
    !one.is_empty() && plain(one) == plain(other)
}

/// Name of the interface with this hardware address.
#[must_use]
pub fn find_by_mac(roots: &Roots, mac: &str) -> Option<String> {
    let class = roots.sys.join("class/net");
    names(&class).into_iter().find(|name| {
        let folder = class.join(name);
        folder.join("device").exists() && same_mac(&attribute(&folder.join("address")), mac)
    })
}

/// Hardware addresses of all interfaces with a device.
#[must_use]
pub fn macs(roots: &Roots) -> Vec<String> {
    let class = roots.sys.join("class/net");
    let physical = names(&class).into_iter().filter(|name| class.join(name).join("device").exists());
    physical.map(|name| attribute(&class.join(name).join("address")).to_ascii_lowercase()).collect()
}

#[must_use]
pub fn has_carrier(roots: &Roots, interface: &str) -> bool {
    flag(&roots.sys.join("class/net").join(interface).join("carrier"))
}
