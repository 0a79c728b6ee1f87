//! Classes of client addresses on the provisioning network: known hosts, this machine, and strangers.
//!
//! Control knows which hosts are at an address ([`firesteel_control::NetworkLog::hosts_at`]). The class gives no rights:
//! it only reserves connections for hosts when strangers want them all.

use std::net::IpAddr;

use super::{connection_admission::Standings, connection_table::ClientClass};
use firesteel_net::tftp::HostsAt;

/// Makes the function that classifies addresses; connections from `own` come from this machine.
#[must_use]
pub fn client_classes(own: IpAddr, hosts: HostsAt) -> Standings {
    Standings::new(move |address| standing(address, own, &hosts))
}

fn standing(address: IpAddr, own: IpAddr, hosts: &HostsAt) -> ClientClass {
    if is_on_this_machine(address, Some(own)) {
        return ClientClass::Owner;
    }
    let hosts = hosts(address);
    if hosts.is_empty() { ClientClass::Stranger } else { ClientClass::Known(hosts) }
}

/// Tells whether a connection from this address comes from a program on this machine.
pub(super) fn is_on_this_machine(address: IpAddr, own: Option<IpAddr>) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || own == Some(address)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn addresses_are_of_this_machine_of_hosts_or_of_strangers() {
        let own = IpAddr::from([10, 0, 0, 1]);
        let host: Arc<str> = "a-uid".into();
        let known = Arc::clone(&host);
        let hosts: HostsAt =
            Arc::new(
                move |address: IpAddr| {
                    if address == IpAddr::from([10, 0, 0, 2]) { vec![Arc::clone(&known)] } else { Vec::new() }
                },
            );
        for (address, expected) in [
            ([127, 0, 0, 1], ClientClass::Owner),
            ([10, 0, 0, 1], ClientClass::Owner),
            ([10, 0, 0, 2], ClientClass::Known(vec![host])),
            ([10, 0, 0, 3], ClientClass::Stranger),
        ] {
            assert_eq!(standing(address.into(), own, &hosts), expected);
        }
        assert!(is_on_this_machine("::ffff:127.0.0.1".parse().unwrap_or(own), None));
    }
}
