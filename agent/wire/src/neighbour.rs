//! Who is at the other end of a cable: what a switch says of itself by the Link Layer Discovery Protocol (IEEE
//! 802.1AB-2016). A claim of the frame's sender, not a proof.

use serde::{Deserialize, Serialize};

use crate::inventory::InventoryVlan;
use crate::limits::{NEIGHBOURS_BYTES_MAX, NICS_MAX};
use crate::parts::is_zero;

/// Empty texts and zeros are what was not said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Neighbour {
    /// The NIC's name in this boot.
    pub nic: String,
    /// The NIC's address as the inventory has it.
    pub mac: String,
    /// A MAC address with colons, an IP address, or a text, by what the switch chose.
    pub switch_id: String,
    pub port_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub port_description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub switch_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub switch_description: String,
    /// Where the switch is managed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// VLAN of frames without a tag.
    #[serde(skip_serializing_if = "is_zero")]
    pub port_vlan: u16,
    /// VLANs of the port that have a name, by number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<InventoryVlan>,
    /// The port is one of several in an aggregation right now.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub aggregated: bool,
    /// Largest frame in bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub frame_bytes_max: u16,
}

/// Takes from a list what a report has no room for: VLANs first, then all but switch and port.
pub fn fit(neighbours: &mut Vec<Neighbour>) {
    neighbours.truncate(NICS_MAX);
    let sacrifices: [fn(&mut Neighbour); 2] = [
        |one| one.vlans.clear(),
        |one| {
            one.addresses.clear();
            one.port_description.clear();
            one.switch_description.clear();
        },
    ];
    for sacrifice in sacrifices {
        if serde_json::to_vec(neighbours).is_ok_and(|bytes| bytes.len() <= NEIGHBOURS_BYTES_MAX) {
            return;
        }
        neighbours.iter_mut().for_each(sacrifice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{FIELD_BYTES_MAX, NEIGHBOUR_ADDRESSES_MAX, VLANS_MAX};

    #[test]
    fn whatever_switches_say_a_report_has_room_for_it() {
        // Each byte of it takes two in JSON.
        let long = "\"".repeat(FIELD_BYTES_MAX);
        let worst = Neighbour {
            nic: "enp129s0f1np1".into(),
            mac: "52:54:00:00:00:01".into(),
            switch_id: long.clone(),
            port_id: long.clone(),
            port_description: long.clone(),
            switch_name: long.clone(),
            switch_description: long.clone(),
            addresses: vec![long.clone(); NEIGHBOUR_ADDRESSES_MAX],
            vlans: vec![InventoryVlan { id: 4094, name: long.clone() }; VLANS_MAX],
            ..Neighbour::default()
        };
        let mut all = vec![worst; 2 * NICS_MAX];
        fit(&mut all);
        let bytes = serde_json::to_vec(&all).map_or(usize::MAX, |bytes| bytes.len());
        assert!(bytes <= NEIGHBOURS_BYTES_MAX, "{bytes}");
        assert_eq!((all.len(), all[0].switch_name.len()), (NICS_MAX, FIELD_BYTES_MAX));

        let usual = Neighbour {
            switch_id: "00:1c:73:aa:bb:cc".into(),
            vlans: vec![InventoryVlan::default()],
            ..Neighbour::default()
        };
        let mut all = vec![usual; NICS_MAX];
        let before = all.clone();
        fit(&mut all);
        assert_eq!(all, before);
    }
}
