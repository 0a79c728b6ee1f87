//! The pool at its end: reservations, exhaustion, floods of made-up clients.

use std::net::Ipv4Addr;

use firesteel_dhcp::wire::{MessageType, Packet, code};
use firesteel_dhcp::{DhcpConfig, DhcpEventKind, Ipv4Network, LeaseRefusal, OFFER_HOLD, OFFERS_MAX, Pool, Reservation};
use firesteel_facts::Mac;

use crate::lab::{Lab, SERVER, config, config_with_hosts, discover, ip, mac, rebooting, renewing, selecting};

fn reserved(number: u8, last: u8) -> (Mac, Reservation) {
    (mac(number), Reservation { address: ip(last), hostname: Some(format!("host-{number}")) })
}

#[test]
fn a_reservation_is_kept_for_its_owner() {
    let mut with = config();
    with.reservations.extend([reserved(1, 10), reserved(2, 100)]);
    let mut lab = Lab::new(with);
    assert_eq!(lab.obtain(3), ip(11), "the first of the pool is reserved");
    assert_eq!(lab.obtain(1), ip(10));
    let offer = lab.ask(&discover(2));
    assert_eq!(offer.packet.yiaddr, ip(100), "outside of the pool");
    assert_eq!(offer.packet.options.text(code::HOST_NAME).as_deref(), Some("host-2"));
    assert_eq!(lab.ask(&rebooting(3, ip(10))).kind(), MessageType::Nak);
    assert_eq!(
        lab.events.last(),
        Some(&DhcpEventKind::Refused { address: ip(10), reason: LeaseRefusal::ReservedForAnother })
    );
}

/// S0.7
#[test]
fn neither_the_appliances_address_nor_the_routers_is_leased() {
    let mut with = config();
    with.local.pool = Some(Pool { first: SERVER, last: ip(4) });
    with.local.router = Some(ip(3));
    let mut lab = Lab::new(with);
    assert_eq!([lab.obtain(1), lab.obtain(2)], [ip(2), ip(4)]);
    lab.ignored(&discover(3));
    assert_eq!(lab.events.last(), Some(&DhcpEventKind::Exhausted));
    for taken in [SERVER, ip(3)] {
        assert_eq!(lab.ask(&rebooting(4, taken)).kind(), MessageType::Nak, "{taken}");
    }
}

#[test]
fn a_host_moves_to_its_new_reservation() {
    let mut lab = Lab::new(config());
    assert_eq!((lab.obtain(1), lab.obtain(2)), (ip(10), ip(11)));
    let mut with = config();
    with.reservations.extend([reserved(1, 50), reserved(3, 11)]);
    lab.engine.reconfigure(with).unwrap();
    assert_eq!(lab.ask(&renewing(1, ip(10))).kind(), MessageType::Nak);
    assert_eq!(lab.obtain(1), ip(50));
    assert_eq!(lab.obtain(3), ip(10), "its reservation is in use until that lease ends");
    assert_eq!(lab.ask(&renewing(2, ip(11))).kind(), MessageType::Nak, "reserved for another by now");
    assert_eq!(lab.obtain(2), ip(12));
    assert_eq!(lab.obtain(3), ip(11));
}

/// Made-up machines took every address of the pool, and a host that was known could not boot.
#[test]
fn strangers_leave_the_last_quarter_of_the_pool_to_known_hosts() {
    let mut with = config();
    with.known = Some([mac(100), mac(101)].into());
    let mut lab = Lab::new(with.clone());
    for number in 1..=8 {
        lab.obtain(number);
    }
    lab.ignored(&discover(9));
    assert_eq!(lab.events.last(), Some(&DhcpEventKind::Exhausted));
    assert_eq!((lab.obtain(100), lab.obtain(101)), (ip(18), ip(19)));
    assert_eq!(lab.ask(&rebooting(9, ip(19))).kind(), MessageType::Nak);
    assert_eq!(
        lab.events.last(),
        Some(&DhcpEventKind::Refused { address: ip(19), reason: LeaseRefusal::KeptForKnown })
    );
    // Forgotten by the people, it is a stranger, and moves when it renews.
    with.known = Some([mac(100)].into());
    lab.engine.reconfigure(with).unwrap();
    assert_eq!(lab.ask(&renewing(101, ip(19))).kind(), MessageType::Nak);
}

#[test]
fn a_quarter_of_a_pool_is_kept_rounded_down() {
    for (addresses, open) in [(1, 1), (3, 3), (4, 3), (7, 6), (8, 6), (12, 9)] {
        let mut with = config_with_hosts([100]);
        with.local.pool = Some(Pool { first: ip(10), last: ip(9 + addresses) });
        let mut lab = Lab::new(with);
        for number in 1..=open {
            assert_eq!(lab.obtain(number), ip(9 + number), "of {addresses}");
        }
        lab.ignored(&discover(open + 1));
        for number in open + 1..=addresses {
            assert_eq!(lab.obtain_for(mac(100)), ip(10 + open), "of {addresses}: {number} is for the host");
        }
    }
}

#[test]
fn an_exhausted_pool_says_so_and_recovers() {
    let mut lab = Lab::new(config());
    for number in 1..=10 {
        lab.obtain(number);
    }
    lab.ignored(&discover(11));
    assert_eq!(lab.events.last(), Some(&DhcpEventKind::Exhausted));
    lab.wait(100);
    for number in 2..=10 {
        lab.ask(&renewing(number, ip(9 + number)));
    }
    lab.wait(500);
    assert_eq!(lab.obtain(11), ip(10), "the lease that ended");
    assert!(!lab.disk.leases.contains_key(&mac(1)), "an address has one owner on disk");
    lab.ignored(&discover(1));
    assert_eq!(lab.ask(&rebooting(1, ip(10))).kind(), MessageType::Nak);
}

#[test]
fn the_address_unused_for_longest_goes_first() {
    let mut lab = Lab::new(config());
    for number in 1..=10 {
        lab.obtain(number);
        lab.wait(10);
    }
    lab.wait(300);
    lab.ask(&renewing(1, ip(10)));
    lab.wait(3600);
    assert_eq!((lab.obtain(20), lab.obtain(21)), (ip(11), ip(12)));
}

#[test]
fn offers_end_and_are_taken_over_in_need() {
    let mut lab = Lab::new(config());
    for number in 1..=10 {
        lab.ask(&discover(number));
    }
    lab.ignored(&discover(11));
    lab.wait(3);
    assert_eq!(lab.obtain(11), ip(10), "nobody took the oldest up");
    assert_eq!(lab.ask(&selecting(1, ip(10))).kind(), MessageType::Nak);
    assert_eq!(lab.ask(&selecting(2, ip(11))).kind(), MessageType::Ack, "slow, but in time");
    lab.wait(OFFER_HOLD.as_secs());
    assert_eq!(lab.ask(&discover(12)).packet.yiaddr, ip(12));
    assert_eq!(lab.engine.poll_timeout(), Some(lab.now + OFFER_HOLD));
}

#[test]
fn an_offer_is_not_taken_over_where_the_address_was_reserved_since() {
    let mut alone = config();
    alone.local.pool = Some(Pool { first: ip(10), last: ip(10) });
    let mut lab = Lab::new(alone.clone());
    assert_eq!(lab.ask(&discover(1)).packet.yiaddr, ip(10));
    alone.reservations.extend([reserved(5, 10)]);
    lab.engine.reconfigure(alone).unwrap();
    lab.wait(3);
    lab.ignored(&discover(2));
    assert_eq!(lab.obtain(5), ip(10));
}

/// Made-up machines took over what a known host was offered, and its REQUEST was refused.
#[test]
fn strangers_take_over_no_offer_of_a_known_host() {
    let mut lab = Lab::new(config_with_hosts([100, 101]));
    let offered = lab.ask(&discover(100)).packet.yiaddr;
    assert_eq!(offered, ip(10));
    for number in 1..=7 {
        lab.obtain(number);
    }
    lab.wait(3);
    lab.ignored(&discover(8));
    assert_eq!(lab.ask(&selecting(100, offered)).kind(), MessageType::Ack, "slow, but in time");
    assert_eq!(lab.obtain(101), ip(18));
}

#[test]
fn the_same_question_gets_the_same_answer() {
    let mut lab = Lab::new(config());
    lab.ask(&discover(1));
    lab.ask(&discover(2));
    assert_eq!(lab.ask(&discover(1)).packet.yiaddr, ip(10));
    let mut wish = discover(3);
    wish.options.set(code::REQUESTED_ADDRESS, ip(17).octets());
    assert_eq!(lab.ask(&wish).packet.yiaddr, ip(17));
    wish.options.set(code::REQUESTED_ADDRESS, ip(1).octets());
    assert_eq!(lab.ask(&wish).packet.yiaddr, ip(17), "not what is not its own");
}

/// 10.77.0.0/16 with a pool of some 65,000 addresses.
fn wide() -> DhcpConfig {
    let mut wide = config();
    wide.local.network = Ipv4Network::of(ip(0), 16);
    wide.local.pool = Some(Pool { first: Ipv4Addr::new(10, 77, 1, 0), last: Ipv4Addr::new(10, 77, 255, 0) });
    wide
}

/// The address that is offered to a made-up machine, which may wish for one.
fn offered(lab: &mut Lab, number: u32, wish: Option<Ipv4Addr>) -> Ipv4Addr {
    let [_, b, c, d] = number.to_be_bytes();
    let mut packet = Packet { mac: Mac([2, 0, 9, b, c, d]), ..discover(2) };
    if let Some(wish) = wish {
        packet.options.set(code::REQUESTED_ADDRESS, wish.octets());
    }
    lab.ask(&packet).packet.yiaddr
}

#[test]
fn of_too_many_offers_the_oldest_of_a_stranger_ends() {
    for known in [Some([mac(100)].into()), None] {
        let is_kept = known.is_some();
        let mut lab = Lab::new(DhcpConfig { known, ..wide() });
        let of_host = lab.ask(&discover(100)).packet.yiaddr;
        lab.wait(1);
        let of_stranger = offered(&mut lab, 0, None);
        lab.wait(1);
        for number in 1..u32::try_from(OFFERS_MAX).unwrap() {
            offered(&mut lab, number, None);
        }
        let (held, free) = if is_kept { (of_host, of_stranger) } else { (of_stranger, of_host) };
        assert_eq!(offered(&mut lab, 50_000, Some(held)), free, "{is_kept}");
    }
}

#[test]
fn floods_stay_bounded_and_known_hosts_get_through() {
    let mut wide = wide();
    wide.reservations.extend([reserved(1, 10)]);
    let mut lab = Lab::new(wide);
    for number in 0..20_000 {
        offered(&mut lab, number, None);
    }
    lab.events.clear();
    assert_eq!(lab.obtain(1), ip(10));
    lab.wait(OFFER_HOLD.as_secs());
    assert_eq!(lab.engine.poll_timeout(), None, "no more than {OFFERS_MAX} offers were kept, and they ended");
}

#[test]
fn one_mac_in_a_loop_is_slowed() {
    let mut lab = Lab::new(config());
    let bytes = firesteel_dhcp::wire::encode(&discover(1)).unwrap();
    let answered: usize = (0..200).map(|_| lab.hear(&bytes).len()).sum();
    assert!(answered < 50, "{answered}");
    assert_eq!(lab.ask(&discover(2)).kind(), MessageType::Offer);
    assert_eq!(usize::try_from(lab.engine.dropped().too_many).unwrap() + answered, 200);
}
