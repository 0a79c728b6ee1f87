//! What a configuration may hold: each limit at its edge, and the text for each mistake.

use std::net::Ipv4Addr;
use std::time::Duration;

use firesteel_dhcp::{DhcpConfig, Ipv4Network, Pool, RESERVATIONS_MAX, Reservation, Subnet};
use firesteel_facts::Mac;

use crate::lab::{config, ip, mac};

fn ten(second: u8, third: u8, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, second, third, last)
}

fn subnet(network: Ipv4Addr, prefix_length: u8, pool: Option<(Ipv4Addr, Ipv4Addr)>) -> Subnet {
    let pool = pool.map(|(first, last)| Pool { first, last });
    Subnet { network: Ipv4Network::of(network, prefix_length), pool, router: None }
}

/// The whole of 10.0.0.0/8.
fn whole_ten() -> DhcpConfig {
    DhcpConfig { local: subnet(ten(0, 0, 0), 8, None), ..config() }
}

#[test]
fn a_network_has_its_ends_whatever_address_it_is_written_with() {
    for (prefix_length, broadcast, hosts, others) in [
        (
            20,
            ten(1, 15, 255),
            &[ten(1, 0, 1), ten(1, 15, 254)][..],
            &[ten(1, 0, 0), ten(1, 15, 255), ten(1, 16, 1)][..],
        ),
        (30, ten(1, 2, 7), &[ten(1, 2, 5), ten(1, 2, 6)], &[ten(1, 2, 4), ten(1, 2, 7), ten(1, 2, 8)]),
        (31, ten(1, 2, 7), &[ten(1, 2, 6), ten(1, 2, 7)], &[ten(1, 2, 5), ten(1, 2, 8)]),
        (32, ten(1, 2, 6), &[ten(1, 2, 6)], &[ten(1, 2, 5), ten(1, 2, 7)]),
    ] {
        let network = Ipv4Network { address: ten(1, 2, 6), prefix_length };
        assert_eq!(network.broadcast(), broadcast, "/{prefix_length}");
        for (addresses, is_host) in [(hosts, true), (others, false)] {
            for address in addresses {
                assert_eq!(network.is_host(*address), is_host, "{address} in /{prefix_length}");
            }
        }
    }
}

#[test]
fn each_limit_holds_at_its_edge() {
    let (large, larger) = ((ten(1, 0, 0), ten(1, 255, 255)), (ten(1, 0, 0), ten(2, 0, 0)));
    let of_ten = |pool| DhcpConfig { local: subnet(ten(0, 0, 0), 8, pool), ..config() };
    let beside =
        |pool| DhcpConfig { relayed: vec![subnet(Ipv4Addr::new(11, 0, 0, 0), 8, pool)], ..of_ten(Some(large)) };
    let leased = |seconds| DhcpConfig { lease_time: Duration::from_secs(seconds), ..config() };
    let servers = |dns, ntp| DhcpConfig { dns: vec![ip(2); dns], ntp: vec![ip(3); ntp], ..config() };
    let relayed =
        |network, prefix_length| DhcpConfig { relayed: vec![subnet(network, prefix_length, None)], ..config() };
    let named = |domain: &str| DhcpConfig { domain: Some(domain.to_owned()), ..config() };
    for (config, mistake) in [
        (leased(120), None),
        (leased(119), Some("a lease time of 119 s is outside 120 to 2592000 s")),
        (leased(2_592_000), None),
        (leased(2_592_001), Some("a lease time of 2592001 s is outside 120 to 2592000 s")),
        (servers(8, 8), None),
        (servers(9, 1), Some("more than 8 DNS or NTP servers")),
        (servers(1, 9), Some("more than 8 DNS or NTP servers")),
        (of_ten(Some(large)), None),
        (of_ten(Some(larger)), Some("the pools have 65537 addresses in all, more than 65536")),
        (beside(None), None),
        (
            beside(Some((Ipv4Addr::new(11, 0, 0, 9), Ipv4Addr::new(11, 0, 0, 9)))),
            Some("the pools have 65537 addresses in all, more than 65536"),
        ),
        (relayed(ten(78, 0, 0), 24), None),
        (relayed(ten(77, 0, 128), 25), Some("the networks of 10.77.0.0 and 10.77.0.128 overlap")),
        (relayed(ten(0, 0, 0), 8), Some("the networks of 10.77.0.0 and 10.0.0.0 overlap")),
        (named(&"d".repeat(253)), None),
        (named("lab-1.Example"), None),
        (named(""), Some(" is no name that DHCP can hand out")),
        (named("a_b"), Some("a_b is no name that DHCP can hand out")),
    ] {
        assert_eq!(config.check().err().map(|error| error.to_string()).as_deref(), mistake);
    }
}

#[test]
fn the_pool_and_the_router_are_in_their_network() {
    for (first, last, router, mistake) in [
        (ip(1), ip(254), ip(254), None),
        (ip(0), ip(254), ip(254), Some("the pool 10.77.0.0 to 10.77.0.254 leaves the network 10.77.0.0/24")),
        (ip(1), ip(255), ip(254), Some("the pool 10.77.0.1 to 10.77.0.255 leaves the network 10.77.0.0/24")),
        (ip(9), ip(8), ip(254), Some("the pool 10.77.0.9 to 10.77.0.8 is empty: its first address is above its last")),
        (ip(9), ip(9), ip(255), Some("the router 10.77.0.255 is not in 10.77.0.0/24")),
    ] {
        let mut config = config();
        config.local.pool = Some(Pool { first, last });
        config.local.router = Some(router);
        assert_eq!(config.check().err().map(|error| error.to_string()).as_deref(), mistake);
    }
}

#[test]
fn no_more_hosts_have_a_reservation_than_the_store_holds() {
    let mut config = DhcpConfig { server_address: ten(255, 0, 1), ..whole_ten() };
    for number in 0..u32::try_from(RESERVATIONS_MAX).unwrap() {
        let [_, a, b, c] = (number + 1).to_be_bytes();
        config.reservations.insert(Mac([2, 0, 0, a, b, c]), Reservation { address: ten(a, b, c), hostname: None });
    }
    assert_eq!((config.reservations.len(), config.check()), (65_536, Ok(())));
    config.reservations.insert(mac(1), Reservation { address: ten(9, 0, 1), hostname: None });
    assert_eq!(config.check().unwrap_err().to_string(), "65537 reservations are more than 65536");
}
