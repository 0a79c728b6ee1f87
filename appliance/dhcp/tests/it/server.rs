//! RFC 2131 as dialogues: the four kinds of REQUEST, NAK, RELEASE, DECLINE, INFORM, where replies go.

use std::net::Ipv4Addr;

use firesteel_dhcp::wire::{MessageType, code};
use firesteel_dhcp::{
    COMMITS_MAX, COMMITS_STRANGERS_MAX, Destination, DhcpEngine, DhcpEventKind, DropCounts, LeaseRefusal, Reservation,
};
use jiff::SignedDuration;

use crate::lab::{
    Lab, SERVER, config, config_with_hosts, discover, ip, mac, message, rebooting, release, renewing, selecting,
};

#[test]
fn a_machine_obtains_renews_and_releases() {
    let mut lab = Lab::new(config_with_hosts([]));
    let began = lab.now;
    let until = |second| began.checked_add(jiff::SignedDuration::from_secs(second)).unwrap();
    let offer = lab.ask(&discover(1));
    assert_eq!((offer.kind(), offer.packet.yiaddr), (MessageType::Offer, ip(10)));
    assert!(lab.disk.leases.is_empty(), "an offer is a promise for a minute, not a lease");
    let ack = lab.ask(&selecting(1, ip(10)));
    assert_eq!((ack.kind(), ack.packet.yiaddr), (MessageType::Ack, ip(10)));
    assert_eq!(ack.packet.options.number(code::LEASE_TIME), Some(600));
    assert_eq!(lab.disk.leases[&mac(1)].expires_at.as_second(), lab.now.as_second() + 600);

    lab.wait(300);
    let renewed = lab.ask(&renewing(1, ip(10)));
    assert_eq!((renewed.kind(), renewed.packet.yiaddr), (MessageType::Ack, ip(10)));
    assert_eq!((renewed.to, renewed.packet.ciaddr), (Destination::IpUnicast(ip(10)), ip(10)));
    assert_eq!(lab.disk.leases[&mac(1)].expires_at.as_second(), lab.now.as_second() + 600);

    lab.ignored(&release(1, ip(10)));
    assert_eq!(lab.disk.leases[&mac(1)].expires_at, lab.now);
    assert_eq!(
        lab.events,
        [
            DhcpEventKind::Offered { address: ip(10) },
            DhcpEventKind::Acked { address: ip(10), expires_at: until(600) },
            DhcpEventKind::Acked { address: ip(10), expires_at: until(900) },
            DhcpEventKind::Released { address: ip(10) }
        ]
    );
}

#[test]
fn no_ack_before_the_lease_is_on_disk() {
    let mut lab = Lab::new(config());
    lab.ask(&discover(1));
    lab.disk_waits = true;
    lab.ignored(&selecting(1, ip(10)));
    let (id, changes) = lab.pending.remove(0);
    assert_eq!(changes.len(), 1);
    lab.engine.handle_committed(id, true);
    let replies = lab.drain();
    assert_eq!((replies.len(), replies[0].kind()), (1, MessageType::Ack));
    lab.engine.handle_committed(id, true);
    assert!(lab.drain().is_empty(), "one commit, one ACK");
}

#[test]
fn a_disk_that_fails_grants_nothing() {
    let mut lab = Lab::new(config());
    lab.ask(&discover(1));
    lab.disk_works = false;
    lab.ignored(&selecting(1, ip(10)));
    assert_eq!(lab.events.last(), Some(&DhcpEventKind::NotCommitted { address: ip(10) }));
    lab.disk_works = true;
    assert_eq!(lab.ask(&selecting(1, ip(10))).kind(), MessageType::Ack, "the client asks again");
}

#[test]
fn a_full_disk_queue_makes_clients_wait() {
    let mut lab = Lab::new(config());
    let address = lab.obtain(1);
    lab.disk_waits = true;
    for _ in 0..COMMITS_MAX + 10 {
        lab.wait(1);
        lab.ignored(&renewing(1, address));
    }
    assert_eq!((lab.pending.len(), lab.engine.dropped().busy), (COMMITS_MAX, 10));
}

/// Strangers filled the queue of the disk, and a known host's REQUEST was dropped.
#[test]
fn strangers_leave_a_quarter_of_the_disk_queue_to_known_hosts() {
    let mut lab = Lab::new(config_with_hosts([100]));
    let (stranger, host) = (lab.obtain(1), lab.obtain(100));
    lab.disk_waits = true;
    for _ in 0..COMMITS_STRANGERS_MAX + 10 {
        lab.wait(1);
        lab.ignored(&renewing(1, stranger));
    }
    assert_eq!((lab.pending.len(), lab.engine.dropped().busy), (COMMITS_STRANGERS_MAX, 10));
    lab.ignored(&renewing(100, host));
    assert_eq!(lab.pending.len(), COMMITS_STRANGERS_MAX + 1, "the known host's waits, too");
    let (id, _) = lab.pending.remove(0);
    lab.engine.handle_committed(id, true);
    lab.drain();
    lab.wait(1);
    lab.ignored(&renewing(1, stranger));
    assert_eq!(lab.pending.len(), COMMITS_STRANGERS_MAX + 1, "there is room for a stranger's again");
}

#[test]
fn replies_go_where_rfc_2131_says() {
    let mut lab = Lab::new(config());
    assert_eq!(lab.ask(&discover(1)).to, Destination::HardwareUnicast { mac: mac(1), address: ip(10) });
    let mut deaf = discover(2);
    deaf.broadcast = true;
    let offer = lab.ask(&deaf);
    assert_eq!(offer.to, Destination::Broadcast);
    assert!(offer.packet.broadcast, "the flag goes back");
    assert_eq!(offer.packet.xid, deaf.xid);
    assert_eq!(lab.ask(&rebooting(3, Ipv4Addr::new(192, 168, 1, 1))).to, Destination::Broadcast, "a NAK");
}

#[test]
fn another_servers_offer_taken_frees_ours() {
    let mut lab = Lab::new(config());
    lab.ask(&discover(1));
    let mut request = selecting(1, ip(200));
    request.options.set(code::SERVER_ID, [10, 77, 0, 9]);
    lab.ignored(&request);
    assert_eq!(lab.events.last(), Some(&DhcpEventKind::TookAnother { server: ip(9) }));
    assert_eq!(lab.ask(&discover(2)).packet.yiaddr, ip(10));
}

#[test]
fn selecting_what_was_not_offered_is_refused() {
    let mut lab = Lab::new(config());
    lab.ask(&discover(1));
    let nak = lab.ask(&selecting(1, ip(12)));
    assert_eq!(nak.kind(), MessageType::Nak);
    assert_eq!(nak.packet.yiaddr, Ipv4Addr::UNSPECIFIED);
    assert!(nak.get(code::LEASE_TIME).is_none() && nak.get(code::SUBNET_MASK).is_none());
    assert_eq!(nak.packet.options.address(code::SERVER_ID), Some(SERVER));
    assert_eq!(lab.events.last(), Some(&DhcpEventKind::Refused { address: ip(12), reason: LeaseRefusal::HasAnother }));
}

#[test]
fn init_reboot_is_answered_with_authority() {
    let mut with = config_with_hosts([1]);
    with.reservations.insert(mac(3), Reservation { address: ip(12), hostname: None });
    let mut lab = Lab::new(with);
    let (address, declined) = (lab.obtain(1), lab.obtain(5));
    lab.decline(mac(5), declined);
    let offered = lab.ask(&discover(4)).packet.yiaddr;
    assert_eq!((address, declined, offered), (ip(10), ip(11), ip(13)));
    assert_eq!(lab.ask(&rebooting(1, address)).kind(), MessageType::Ack);
    for (number, wish, reason, text) in [
        (1, ip(14), LeaseRefusal::HasAnother, "another address is set aside for this host"),
        (2, address, LeaseRefusal::InUse, "address is in use"),
        (2, offered, LeaseRefusal::InUse, "address is in use"),
        (2, declined, LeaseRefusal::Resting, "address was declined"),
        (2, ip(12), LeaseRefusal::ReservedForAnother, "address is reserved for another host"),
        (2, ip(18), LeaseRefusal::KeptForKnown, "address is kept for hosts that are known"),
        (2, Ipv4Addr::new(192, 168, 1, 5), LeaseRefusal::WrongNetwork, "address is of another network"),
        (2, ip(99), LeaseRefusal::NotInPool, "address is not served here"),
        (2, ip(15), LeaseRefusal::UnknownClient, "no lease on record"),
        (2, SERVER, LeaseRefusal::InUse, "address is in use"),
        (2, ip(255), LeaseRefusal::WrongNetwork, "address is of another network"),
    ] {
        let nak = lab.ask(&rebooting(number, wish));
        let said = nak.packet.options.text(code::MESSAGE);
        assert_eq!((nak.kind(), said.as_deref()), (MessageType::Nak, Some(text)), "{wish}");
        assert_eq!(lab.events.last(), Some(&DhcpEventKind::Refused { address: wish, reason }));
    }
}

#[test]
fn renewing_keeps_what_is_free_and_refuses_the_rest() {
    let mut lab = Lab::new(config());
    assert_eq!(lab.ask(&renewing(1, ip(14))).kind(), MessageType::Ack, "a system runs on it and nobody else wants it");
    assert_eq!(lab.ask(&renewing(2, ip(14))).kind(), MessageType::Nak, "another host's");
    assert_eq!(lab.ask(&renewing(1, ip(15))).kind(), MessageType::Nak, "it has .14");
    assert_eq!(lab.ask(&renewing(3, Ipv4Addr::new(172, 16, 0, 9))).kind(), MessageType::Nak, "no network of ours");
}

/// At its last second the lease is over.
#[test]
fn a_host_renews_another_address_once_its_lease_is_over() {
    for (second, kind) in [(599, MessageType::Nak), (600, MessageType::Ack)] {
        let mut lab = Lab::new(config());
        assert_eq!(lab.obtain(1), ip(10));
        lab.wait(second);
        assert_eq!(lab.ask(&renewing(1, ip(15))).kind(), kind, "{second}");
    }
}

#[test]
fn an_ended_lease_is_found_again() {
    let mut lab = Lab::new(config_with_hosts([]));
    assert_eq!(lab.obtain(1), ip(10));
    lab.wait(3600);
    assert_eq!(lab.obtain(2), ip(11), "an address that nobody ever had comes first");
    assert_eq!(lab.obtain(1), ip(10));
    lab.ignored(&release(1, ip(10)));
    lab.restart();
    assert_eq!(lab.ask(&rebooting(1, ip(10))).kind(), MessageType::Ack);
}

#[test]
fn leases_outlive_a_restart() {
    let mut lab = Lab::new(config());
    let (first, second) = (lab.obtain(1), lab.obtain(2));
    lab.restart();
    let leases: Vec<_> = lab.engine.leases().map(|lease| (lease.mac, lease.address)).collect();
    assert_eq!(leases, [(mac(1), first), (mac(2), second)]);
    assert_eq!(lab.obtain(3), ip(12));
    assert_eq!(lab.obtain(2), second);
    assert_eq!(lab.ask(&renewing(1, first)).kind(), MessageType::Ack);
}

/// The database lets no two leases share an address; a file from elsewhere might.
#[test]
fn of_two_leases_of_an_address_the_one_that_ends_later_counts() {
    for (seconds, owner, other) in [(60, 2, 1), (0, 1, 2), (-60, 1, 2)] {
        let mut lab = Lab::new(config());
        let address = lab.obtain(1);
        let mut second = lab.disk.leases[&mac(1)].clone();
        (second.mac, second.expires_at) = (mac(2), second.expires_at + SignedDuration::from_secs(seconds));
        lab.disk.leases.insert(mac(2), second);
        lab.restart();
        assert_eq!(lab.ask(&renewing(owner, address)).kind(), MessageType::Ack, "{seconds}");
        assert_eq!(lab.ask(&renewing(other, address)).kind(), MessageType::Nak, "{seconds}");
    }
}

#[test]
fn an_offer_from_before_a_restart_is_honoured() {
    let mut lab = Lab::new(config());
    let offer = lab.ask(&discover(1));
    lab.restart();
    assert_eq!(lab.ask(&selecting(1, offer.packet.yiaddr)).kind(), MessageType::Ack);
}

#[test]
fn release_needs_the_right_owner_and_server() {
    let mut lab = Lab::new(config_with_hosts([]));
    let address = lab.obtain(1);
    let before = lab.disk.leases[&mac(1)].clone();
    lab.ignored(&release(2, address));
    let mut elsewhere = release(1, address);
    elsewhere.options.set(code::SERVER_ID, [10, 77, 0, 9]);
    lab.ignored(&elsewhere);
    lab.ignored(&release(1, ip(11)));
    assert_eq!(lab.disk.leases[&mac(1)], before);
    lab.ignored(&release(1, address));
    assert_eq!(lab.disk.leases[&mac(1)].expires_at, lab.now, "its own word counts");
    lab.events.clear();
    lab.ignored(&release(1, address));
    assert_eq!(lab.events, [], "there is no lease to release");
}

/// A forged RELEASE gave a known host's address to the next machine that asked.
#[test]
fn a_known_hosts_address_is_not_given_away_by_a_release() {
    let mut lab = Lab::new(config_with_hosts([1]));
    let address = lab.obtain(1);
    let before = lab.disk.leases[&mac(1)].clone();
    lab.ignored(&release(1, address));
    assert_eq!(lab.events.last(), Some(&DhcpEventKind::ReleaseIgnored { address }));
    assert_eq!(lab.disk.leases[&mac(1)], before);
    assert_eq!(lab.ask(&rebooting(2, address)).kind(), MessageType::Nak, "it is in use");
    assert_eq!(lab.ask(&renewing(1, address)).kind(), MessageType::Ack);
    // Before the hosts are read after a start, any machine may be one.
    let mut lab = Lab::new(config());
    let address = lab.obtain(1);
    lab.ignored(&release(1, address));
    assert_eq!(lab.events.last(), Some(&DhcpEventKind::ReleaseIgnored { address }));
}

#[test]
fn inform_gets_settings_and_no_lease() {
    let mut lab = Lab::new(config());
    let mut inform = message(1, MessageType::Inform);
    inform.ciaddr = ip(200);
    let ack = lab.ask(&inform);
    assert_eq!((ack.kind(), ack.to), (MessageType::Ack, Destination::IpUnicast(ip(200))));
    assert_eq!(ack.packet.yiaddr, Ipv4Addr::UNSPECIFIED);
    assert_eq!(ack.packet.options.number(code::LEASE_TIME), None);
    assert_eq!(ack.packet.options.address(code::ROUTER), Some(ip(254)));
    assert!(lab.disk.leases.is_empty());
    inform.ciaddr = Ipv4Addr::new(8, 8, 8, 8);
    lab.ignored(&inform);
    assert_eq!(lab.engine.dropped(), DropCounts { foreign: 1, ..DropCounts::default() });
}

#[test]
fn what_is_no_request_is_counted() {
    let mut lab = Lab::new(config());
    assert!(lab.hear(&[0; 10]).is_empty());
    for kind in [MessageType::Offer, MessageType::Ack, MessageType::Nak] {
        lab.ignored(&message(1, kind));
    }
    // A REQUEST that names no address.
    lab.ignored(&message(1, MessageType::Request));
    assert_eq!(lab.engine.dropped(), DropCounts { malformed: 5, ..DropCounts::default() });
    assert_eq!((&lab.events[..], lab.engine.leases().count()), (&[][..], 0));
}

#[test]
fn options_are_those_asked_for() {
    let mut lab = Lab::new(config());
    let all = lab.ask(&discover(1));
    assert_eq!(all.packet.options.address(code::SUBNET_MASK), Some(Ipv4Addr::new(255, 255, 255, 0)));
    assert_eq!(all.packet.options.address(code::BROADCAST), Some(ip(255)));
    assert_eq!(all.packet.options.addresses(code::DNS), [ip(2)]);
    assert_eq!(all.packet.options.addresses(code::NTP), [ip(3)]);
    assert_eq!(all.packet.options.text(code::DOMAIN_NAME).as_deref(), Some("lab.example"));
    assert_eq!(all.packet.options.number(code::RENEWAL_TIME), Some(300));
    assert_eq!(all.packet.options.number(code::REBINDING_TIME), Some(525));

    let mut picky = discover(2);
    picky.options.set(code::PARAMETER_LIST, [code::ROUTER]);
    picky.options.set(code::CLIENT_ID, [0, 1, 2, 3]);
    let reply = lab.ask(&picky);
    assert_eq!(reply.packet.options.address(code::ROUTER), Some(ip(254)));
    assert!(reply.get(code::SUBNET_MASK).is_some(), "always needed");
    for code in [code::DNS, code::NTP, code::DOMAIN_NAME, code::BROADCAST, code::RENEWAL_TIME, code::BOOT_FILE] {
        assert!(reply.get(code).is_none(), "{code}");
    }
    assert_eq!(reply.get(code::CLIENT_ID), Some(&[0, 1, 2, 3][..]), "RFC 6842");
}

#[test]
fn a_new_range_keeps_leases_that_still_fit() {
    let mut lab = Lab::new(config());
    let kept = lab.obtain(1);
    for number in 2..=6 {
        lab.obtain(number);
    }
    let mut narrower = config();
    narrower.local.pool = Some(firesteel_dhcp::Pool { first: ip(10), last: ip(13) });
    lab.engine.reconfigure(narrower).unwrap();
    assert_eq!(lab.ask(&renewing(1, kept)).kind(), MessageType::Ack);
    assert_eq!(lab.ask(&renewing(6, ip(15))).kind(), MessageType::Nak, "outside of the new range");
    let mut bad = config();
    bad.server_address = Ipv4Addr::new(1, 1, 1, 1);
    assert!(lab.engine.reconfigure(bad.clone()).is_err());
    assert!(DhcpEngine::new(bad, Vec::new(), Vec::new(), lab.now).is_err());
}
