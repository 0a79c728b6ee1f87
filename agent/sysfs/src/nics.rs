//! Network interfaces with a device behind them, by their hardware addresses.

use std::path::Path;

use crate::{Roots, attribute, flag, names};

/// Name of the interface with this hardware address.
#[must_use]
pub fn find_by_mac(roots: &Roots, mac: &str) -> Option<String> {
    let class = roots.sys.join("class/net");
    names(&class).into_iter().find(|name| {
        let folder = class.join(name);
        folder.join("device").exists() && same_mac(&address(&folder), mac)
    })
}

/// Names of all interfaces with a device.
#[must_use]
pub fn physical(roots: &Roots) -> Vec<String> {
    let class = roots.sys.join("class/net");
    names(&class).into_iter().filter(|name| class.join(name).join("device").exists()).collect()
}

/// Hardware addresses of all interfaces with a device.
#[must_use]
pub fn macs(roots: &Roots) -> Vec<String> {
    physical(roots).into_iter().map(|name| address(&roots.sys.join("class/net").join(name))).collect()
}

/// The address by which an inventory names the interface: the permanent one where it is known.
#[must_use]
pub fn mac(roots: &Roots, name: &str, permanent: Option<[u8; 6]>) -> String {
    permanent.map_or_else(|| address(&roots.sys.join("class/net").join(name)), mac_text)
}

/// Compares hardware addresses whatever their case and separator.
#[must_use]
pub fn same_mac(one: &str, other: &str) -> bool {
    let plain = |mac: &str| mac.to_ascii_lowercase().replace('-', ":");
    !one.is_empty() && plain(one) == plain(other)
}

/// Whether the interface has a link.
#[must_use]
pub fn has_carrier(roots: &Roots, interface: &str) -> bool {
    flag(&roots.sys.join("class/net").join(interface).join("carrier"))
}

/// The address that the interface has by itself, in lower case: the member of a bond shows the bond's.
#[must_use]
pub fn address(folder: &Path) -> String {
    let own = attribute(&folder.join("bonding_slave/perm_hwaddr"));
    let shown = if own.is_empty() { attribute(&folder.join("address")) } else { own };
    shown.to_ascii_lowercase()
}

/// A hardware address as text, in lower case with colons.
#[must_use]
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
