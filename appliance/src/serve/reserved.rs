//! The hosts as DHCP needs them: known MACs, and the addresses that hosts reserve.

use std::collections::BTreeMap;

use firesteel_dhcp as dhcp;
use firesteel_facts::Mac;
use firesteel_kube::ObjectChange;
use firesteel_resources::{BareMetalHost, bare_metal_host::annotations::RESERVED_ADDRESS};
use jiff::Timestamp;

/// The hosts as DHCP needs them, by namespace and name.
pub(super) type DhcpHosts = BTreeMap<String, DhcpHost>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DhcpHost {
    /// When the host was created: of two hosts that reserve an address, the older one gets it.
    since: Option<Timestamp>,
    pub(super) mac: Mac,
    reservation: Option<dhcp::Reservation>,
}

/// Records a host's MAC and its reserved address; returns whether anything changed.
pub(super) fn note_host(known: &mut DhcpHosts, change: ObjectChange<BareMetalHost>) -> bool {
    let (host, wanted) = match change {
        ObjectChange::Applied(host) => {
            let wanted = known_host(&host);
            (host, wanted)
        }
        ObjectChange::Deleted(host) => (host, None),
        ObjectChange::Synced | ObjectChange::Undecodable { .. } => return false,
    };
    let key = format!("{}/{}", host.metadata.namespace, host.metadata.name);
    if known.get(&key) == wanted.as_ref() {
        return false;
    }
    match wanted {
        Some(wanted) => known.insert(key, wanted),
        None => known.remove(&key),
    };
    true
}

fn known_host(host: &BareMetalHost) -> Option<DhcpHost> {
    let mac = host.spec.boot_mac()?.parse().ok()?;
    let address = host.metadata.annotation(RESERVED_ADDRESS).and_then(|address| address.parse().ok());
    let reservation = address.map(|address| dhcp::Reservation { address, hostname: None });
    Some(DhcpHost { since: host.metadata.creation_timestamp, mac, reservation })
}

/// Returns the reserved addresses, that of the oldest host first.
pub(super) fn reservations(known: &DhcpHosts) -> Vec<(Mac, dhcp::Reservation)> {
    let mut hosts: Vec<&DhcpHost> = known.values().collect();
    hosts.sort_by_key(|host| host.since);
    hosts.into_iter().filter_map(|host| Some((host.mac, host.reservation.clone()?))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_that_two_hosts_reserve_is_the_older_hosts() {
        let mut known = DhcpHosts::new();
        for (name, mac, created) in [("a", "52:54:00:00:00:01", 2), ("b", "52:54:00:00:00:02", 1)] {
            let metadata = json!({"name": name, "namespace": "n", "annotations": {RESERVED_ADDRESS: "10.77.0.30"},
                "creationTimestamp": Timestamp::from_second(created).unwrap()});
            let host = json!({"metadata": metadata, "spec": {"online": true, "bootMACAddress": mac}});
            let host: BareMetalHost = serde_json::from_value(host).unwrap();
            assert!(note_host(&mut known, ObjectChange::Applied(host.clone())));
            assert!(!note_host(&mut known, ObjectChange::Applied(host)), "nothing changed");
        }
        let order: Vec<u8> = reservations(&known).iter().map(|(mac, _)| mac.0[5]).collect();
        assert_eq!(order, [2, 1]);
    }
}
