//! What holds for any bytes, any population of clients, any order of events.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use firesteel_dhcp::client::DhcpClient;
use firesteel_dhcp::wire::{self, DhcpOperation, MessageType, Packet, code};
use firesteel_dhcp::{OFFER_HOLD, check};
use firesteel_facts::Mac;
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::lab::{Lab, config, decline, discover, ip, mac, rebooting, release, renewing, selecting};

/// A message with a sound header and arbitrary options: deeper than arbitrary bytes reach.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    (any::<[u8; 228]>(), vec((any::<u8>(), vec(any::<u8>(), 0..20)), 0..20), 1..=8u8).prop_map(
        |(fields, options, kind)| {
            let mut bytes = vec![1, 1, 6, 0];
            bytes.extend(&fields[..224]);
            bytes.extend([0; 8]);
            bytes.extend([99, 130, 83, 99]);
            bytes[28] &= 0xfe;
            bytes[29] |= 1;
            bytes.extend([53, 1, kind]);
            for (code, value) in options {
                bytes.extend([code, u8::try_from(value.len()).unwrap()]);
                bytes.extend(value);
            }
            bytes
        },
    )
}

fn feed(bytes: &[u8]) {
    check(bytes);
    let mut lab = Lab::new(config());
    lab.boot = |client| client.boots().then(Default::default);
    lab.hear(bytes);
    let now = Instant::now();
    let mut client = DhcpClient::new(mac(1), 1, None, now);
    client.handle_packet(now, bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..700)) {
        feed(&bytes);
    }

    #[test]
    fn no_options_panic(bytes in plausible()) {
        feed(&bytes);
    }

    #[test]
    fn what_is_written_is_read(xid: u32, file in vec(1..=255u8, 0..128), options in vec((1..=254u8, vec(any::<u8>(), 1..600)), 0..4)) {
        let mut packet = Packet::new(DhcpOperation::Reply, xid, mac(1));
        packet.file = file;
        for (code, value) in options {
            if code != code::OVERLOAD {
                packet.options.set(code, value);
            }
        }
        prop_assert_eq!(wire::decode(&wire::encode(&packet).unwrap()), Ok(packet));
    }

    #[test]
    fn the_client_survives_any_answer(answers in vec((any::<u8>(), any::<u32>(), vec((any::<u8>(), vec(any::<u8>(), 0..9)), 0..9), 0..5000u64), 0..30)) {
        let mut now = Instant::now();
        let mut client = DhcpClient::new(mac(1), 5, Some("n"), now);
        for (kind, address, options, wait) in answers {
            let Some(sent) = client.poll_transmit() else {
                now += Duration::from_secs(wait);
                client.handle_timeout(now);
                continue;
            };
            let asked = wire::decode(&sent.bytes).unwrap();
            let mut reply = Packet::new(DhcpOperation::Reply, asked.xid, asked.mac);
            reply.yiaddr = Ipv4Addr::from(address);
            for (code, value) in options {
                if !matches!(code, 0 | 255) {
                    reply.options.set(code, value);
                }
            }
            reply.options.set(code::MESSAGE_TYPE, [kind % 9]);
            client.handle_packet(now, &wire::encode(&reply).unwrap());
            prop_assert!(client.poll_timeout() <= now + Duration::from_secs(366 * 24 * 3600));
        }
    }
}

#[derive(Debug, Clone)]
enum Act {
    Boot(u8),
    Offer(u8),
    Reboot(u8, u8),
    Renew(u8),
    Claim(u8, u8),
    Release(u8),
    Decline(u8),
    Wait(u16),
    Restart,
    DiskFails(bool),
}

fn act() -> impl Strategy<Value = Act> {
    let who = 1..25u8;
    prop_oneof![
        6 => who.clone().prop_map(Act::Boot),
        2 => who.clone().prop_map(Act::Offer),
        1 => (who.clone(), 8..24u8).prop_map(|(who, last)| Act::Reboot(who, last)),
        3 => who.clone().prop_map(Act::Renew),
        1 => (who.clone(), 8..24u8).prop_map(|(who, last)| Act::Claim(who, last)),
        1 => who.clone().prop_map(Act::Release),
        1 => who.prop_map(Act::Decline),
        4 => (1..900u16).prop_map(Act::Wait),
        1 => Just(Act::Restart),
        1 => any::<bool>().prop_map(Act::DiskFails),
    ]
}

/// What the clients themselves believe: the address and until when.
#[derive(Default)]
struct Believed(BTreeMap<u8, (Ipv4Addr, Timestamp)>);

struct World {
    lab: Lab,
    believed: Believed,
    resting: BTreeMap<Ipv4Addr, Timestamp>,
    /// All that was declined ever.
    declined: BTreeSet<Ipv4Addr>,
    offered: BTreeMap<Ipv4Addr, Timestamp>,
    /// What is leased is on disk, as long as that is so.
    disk_never_failed: bool,
}

impl World {
    fn new() -> Self {
        Self {
            lab: Lab::new(config()),
            believed: Believed::default(),
            resting: BTreeMap::new(),
            declined: BTreeSet::new(),
            offered: BTreeMap::new(),
            disk_never_failed: true,
        }
    }

    fn send(&mut self, number: u8, packet: &Packet) {
        let replies = self.lab.hear(&wire::encode(packet).unwrap());
        for reply in replies {
            let address = reply.packet.yiaddr;
            match reply.kind() {
                MessageType::Ack => {
                    let on_disk = &self.lab.disk.leases[&mac(number)];
                    assert_eq!(on_disk.address, address, "acknowledged and not on disk");
                    self.believed.0.insert(number, (address, on_disk.expires_at));
                }
                MessageType::Nak => {
                    self.believed.0.remove(&number);
                }
                MessageType::Offer => drop(self.offered.insert(address, self.lab.now + OFFER_HOLD)),
                MessageType::Discover
                | MessageType::Request
                | MessageType::Decline
                | MessageType::Release
                | MessageType::Inform => {}
            }
            self.check(address);
        }
    }

    fn check(&mut self, address: Ipv4Addr) {
        let now = self.lab.now;
        let holders = self.believed.0.values().filter(|(held, until)| *held == address && *until > now).count();
        assert!(holders <= 1, "{address} has {holders} holders");
        if !address.is_unspecified() {
            assert!((ip(10)..=ip(19)).contains(&address), "{address} is not ours to give");
        }
        self.resting.retain(|_, until| *until > now);
        assert!(self.resting.len() <= 2, "a quarter of ten: {:?}", self.resting);
        if self.resting.contains_key(&address) {
            let others = (10..=19).map(ip).filter(|other| *other != address);
            let free: Vec<_> = others.filter(|other| !self.may_be_taken(*other)).collect();
            assert!(free.is_empty() || !self.disk_never_failed, "{address} rests, and {free:?} do not");
            self.resting.remove(&address);
        }
    }

    /// Whether there is any reason not to offer this address.
    fn may_be_taken(&self, address: Ipv4Addr) -> bool {
        let now = self.lab.now;
        let mut leases = self.lab.disk.leases.values();
        leases.any(|lease| lease.address == address && lease.expires_at > now)
            || self.offered.get(&address).is_some_and(|until| *until > now)
            || self.declined.contains(&address)
    }

    fn current(&self, number: u8) -> Option<Ipv4Addr> {
        self.believed.0.get(&number).filter(|(_, until)| *until > self.lab.now).map(|(address, _)| *address)
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Boot(number) => {
                let offers = self.lab.hear(&wire::encode(&discover(number)).unwrap());
                if let Some(offer) = offers.first() {
                    self.offered.insert(offer.packet.yiaddr, self.lab.now + OFFER_HOLD);
                    self.check(offer.packet.yiaddr);
                    self.send(number, &selecting(number, offer.packet.yiaddr));
                }
            }
            Act::Offer(number) => self.send(number, &discover(number)),
            Act::Reboot(number, last) => self.send(number, &rebooting(number, ip(last))),
            Act::Renew(number) => {
                if let Some(address) = self.current(number) {
                    self.send(number, &renewing(number, address));
                }
            }
            Act::Claim(number, last) => {
                if self.current(number).is_none() {
                    self.send(number, &renewing(number, ip(last)));
                }
            }
            Act::Release(number) => {
                if let Some(address) = self.current(number) {
                    self.send(number, &release(number, address));
                    self.believed.0.remove(&number);
                }
            }
            Act::Decline(number) => {
                if let Some(address) = self.current(number).filter(|_| self.lab.disk_works) {
                    self.send(number, &decline(number, address));
                    self.believed.0.remove(&number);
                    self.declined.insert(address);
                    self.resting.extend(self.lab.disk.rests.get(&address).map(|until| (address, *until)));
                }
            }
            Act::Wait(seconds) => self.lab.wait(seconds.into()),
            Act::Restart => {
                self.lab.restart();
                // Rests that were cut short are on disk, and may rest on in the place of others.
                self.resting.clear();
            }
            Act::DiskFails(fails) => {
                self.lab.disk_works = !fails;
                self.disk_never_failed &= !fails;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_two_hosts_share_an_address(acts in vec(act(), 1..150)) {
        let mut world = World::new();
        for act in &acts {
            world.act(act);
        }
        let known: Vec<Mac> = world.lab.disk.leases.keys().copied().collect();
        prop_assert!(known.len() <= 10);
    }

    #[test]
    fn a_restart_changes_no_address(hosts in vec(1..40u8, 1..10), seconds in 0..599i64) {
        let mut lab = Lab::new(config());
        let before: Vec<_> = hosts.iter().map(|host| (*host, lab.obtain(*host))).collect();
        lab.wait(seconds);
        lab.restart();
        for (host, address) in before.into_iter().rev() {
            prop_assert_eq!(lab.obtain(host), address);
        }
    }
}
