//! DECLINE: who may set addresses aside, how many, and that a client moves on whatever becomes of them.

use std::net::Ipv4Addr;

use firesteel_dhcp::wire::{MessageType, code};
use firesteel_dhcp::{
    DECLINE_REST, DeclineOutcome, DhcpConfig, DhcpEventKind, Ipv4Network, LeaseRefusal, Pool, RESTING_MAX,
    RESTS_PER_CLIENT, Reservation,
};
use firesteel_facts::Mac;

use crate::lab::{Lab, config, config_with_hosts, decline, discover, ip, mac, rebooting, renewing};

/// A made-up machine.
fn stranger(number: u16) -> Mac {
    let [high, low] = number.to_be_bytes();
    Mac([2, 0, 9, 9, high, low])
}

fn rests(outcome: DeclineOutcome) -> bool {
    matches!(outcome, DeclineOutcome::Rests { .. })
}

/// 10.77.0.10 to 10.77.0.109, and one host.
fn hundred() -> DhcpConfig {
    let mut config = config_with_hosts([1]);
    config.local.pool = Some(Pool { first: ip(10), last: ip(109) });
    config
}

#[test]
fn a_declined_address_rests() {
    let mut lab = Lab::new(config());
    let address = lab.obtain(1);
    lab.ignored(&decline(2, address));
    assert!(lab.disk.rests.is_empty(), "only its owner may decline it");
    let until = lab.now.checked_add(DECLINE_REST).unwrap();
    assert_eq!(lab.decline(mac(1), address), DeclineOutcome::Rests { until });
    assert!(lab.disk.leases.is_empty());
    assert_eq!(lab.engine.poll_timeout(), Some(until), "its end is waited for");
    assert_eq!(lab.obtain(1), ip(11));
    lab.restart();
    assert_eq!(lab.ask(&rebooting(3, address)).kind(), MessageType::Nak, "it rests after a restart, too");
    assert_eq!(lab.events.last(), Some(&DhcpEventKind::Refused { address, reason: LeaseRefusal::Resting }));
    lab.wait(DECLINE_REST.as_secs());
    assert_eq!(lab.obtain(4), address);
}

/// 88 forged DECLINEs left known hosts without an address for an hour.
#[test]
fn declines_take_no_more_than_a_quarter_of_the_pool() {
    let mut lab = Lab::new(hundred());
    let outcomes: Vec<DeclineOutcome> = (0..88)
        .map(|number| {
            let mac = stranger(number);
            let address = lab.obtain_for(mac);
            lab.decline(mac, address)
        })
        .collect();
    assert!(outcomes[..25].iter().all(|outcome| rests(*outcome)), "{outcomes:?}");
    assert!(outcomes[25..].iter().all(|outcome| *outcome == DeclineOutcome::PoolLimit), "{outcomes:?}");
    assert_eq!(lab.disk.rests.len(), 25);
    // As many as there were before, less what rests and what is kept.
    for number in 100..150 {
        lab.obtain_for(stranger(number));
    }
    assert_eq!(lab.obtain(1), ip(85), "the known host has the part that is kept for it");
}

#[test]
fn one_client_sets_two_addresses_aside_in_an_hour_and_moves_on_all_the_same() {
    let mut lab = Lab::new(hundred());
    let mut had = Vec::new();
    for round in 0..6 {
        let address = lab.obtain(9);
        assert!(!had.contains(&address), "it declined {address} already: {had:?}");
        had.push(address);
        let outcome = lab.decline(mac(9), address);
        assert_eq!(rests(outcome), round < RESTS_PER_CLIENT, "{outcome:?}");
        lab.wait(10);
    }
    assert_eq!(lab.disk.rests.len(), RESTS_PER_CLIENT);
    assert_eq!(lab.obtain(10), had[2], "the third address is there for others");
    lab.wait(DECLINE_REST.as_secs());
    let address = lab.obtain(9);
    assert!(rests(lab.decline(mac(9), address)), "an hour later it may again");
}

#[test]
fn a_declined_offer_that_does_not_rest_is_written_nowhere() {
    let mut lab = Lab::new(hundred());
    for _ in 0..RESTS_PER_CLIENT {
        let address = lab.obtain(9);
        lab.decline(mac(9), address);
    }
    let offered = lab.ask(&discover(9)).packet.yiaddr;
    lab.disk_waits = true;
    assert_eq!(lab.decline(mac(9), offered), DeclineOutcome::ClientLimit);
    assert!(lab.pending.is_empty());
}

/// It was set aside for the client that had just declined it, until the offer ended.
#[test]
fn a_declined_offer_that_does_not_rest_is_there_for_others_at_once() {
    let mut lab = Lab::new(hundred());
    for _ in 0..RESTS_PER_CLIENT {
        let address = lab.obtain(9);
        lab.decline(mac(9), address);
    }
    let offered = lab.ask(&discover(9)).packet.yiaddr;
    assert_eq!(lab.decline(mac(9), offered), DeclineOutcome::ClientLimit);
    let mut wishing = discover(10);
    wishing.options.set(code::REQUESTED_ADDRESS, offered.octets());
    assert_eq!(lab.ask(&wishing).packet.yiaddr, offered);
}

#[test]
fn where_the_pool_is_empty_the_rest_that_began_first_ends_first() {
    let mut lab = Lab::new(config());
    let (first, second) = (lab.obtain(1), lab.obtain(2));
    lab.decline(mac(1), first);
    lab.wait(60);
    lab.decline(mac(2), second);
    for number in 11..=18 {
        lab.obtain(number);
    }
    assert_eq!(lab.obtain(20), first, "nothing else is left");
    assert!(!lab.disk.rests.contains_key(&first), "it is leased, also on disk");
    lab.restart();
    assert_eq!(lab.ask(&renewing(20, first)).kind(), MessageType::Ack);
    assert_eq!(lab.obtain(21), second);
    lab.ignored(&discover(22));
    assert_eq!(lab.events.last(), Some(&DhcpEventKind::Exhausted));
}

/// What is offered after its rest was cut short, and not taken, rests on as it is written.
#[test]
fn a_rest_on_disk_is_over_with_the_next_lease_of_the_address() {
    let mut lab = Lab::new(config());
    let first = lab.obtain(1);
    lab.decline(mac(1), first);
    for number in 11..=19 {
        lab.obtain(number);
    }
    assert_eq!(lab.ask(&discover(20)).packet.yiaddr, first);
    assert!(lab.disk.rests.contains_key(&first));
    lab.restart();
    assert_eq!(lab.ask(&rebooting(20, first)).kind(), MessageType::Nak);
    assert_eq!(lab.obtain(20), first);
    assert!(lab.disk.rests.is_empty());
}

#[test]
fn who_declined_everything_is_offered_it_again_and_not_nothing() {
    let mut lab = Lab::new(config());
    for number in 11..=19 {
        lab.obtain(number);
    }
    let only = lab.obtain(1);
    assert!(rests(lab.decline(mac(1), only)));
    assert_eq!(lab.obtain(1), only, "there is no other one");
}

/// A reservation that its host declines is not the only address that the host may have.
#[test]
fn a_host_moves_away_from_a_reservation_that_it_declines() {
    let mut with = hundred();
    with.reservations.insert(mac(1), Reservation { address: ip(200), hostname: None });
    let mut lab = Lab::new(with);
    let mut had = vec![lab.obtain(1)];
    assert_eq!(had, [ip(200)]);
    for rest in [true, true, false, false] {
        let address = had[had.len() - 1];
        assert_eq!(rests(lab.decline(mac(1), address)), rest, "{address}");
        let next = lab.obtain(1);
        assert!(!had.contains(&next), "{next} again: {had:?}");
        had.push(next);
        lab.wait(10);
    }
    lab.wait(DECLINE_REST.as_secs());
    assert_eq!(lab.obtain(1), ip(200), "an hour later");
}

#[test]
fn a_host_moves_away_from_a_declined_reservation_that_does_not_rest() {
    let mut lab = Lab::new(hundred());
    for _ in 0..RESTS_PER_CLIENT {
        let address = lab.obtain(1);
        lab.decline(mac(1), address);
    }
    let mut with = hundred();
    with.reservations.insert(mac(1), Reservation { address: ip(200), hostname: None });
    lab.engine.reconfigure(with).unwrap();
    assert_eq!(lab.obtain(1), ip(200));
    assert_eq!(lab.decline(mac(1), ip(200)), DeclineOutcome::ClientLimit);
    assert_eq!(lab.obtain(1), ip(12));
}

#[test]
fn rests_are_bounded_however_large_the_pool_is() {
    let mut wide = config_with_hosts([1]);
    wide.local.network = Ipv4Network::of(ip(0), 16);
    wide.local.pool = Some(Pool { first: Ipv4Addr::new(10, 77, 1, 0), last: Ipv4Addr::new(10, 77, 60, 0) });
    let mut lab = Lab::new(wide);
    for number in 0..2000 {
        let mac = stranger(number);
        let address = lab.obtain_for(mac);
        lab.decline(mac, address);
    }
    assert_eq!(lab.disk.rests.len(), RESTING_MAX);
    assert_eq!(lab.ask(&discover(1)).kind(), MessageType::Offer);
}
