//! Keeps an address on an interface (S0.11): it probes for another machine that has it, puts it there, announces it,
//! and puts it back after it was removed (RFC 5227). It sends nothing and changes nothing while it is paused.
//!
//! ```text
//!             look: the address is missing          all probes sent, silence
//!  Idle ─────────────────────► Probing ─────────────────────► Putting ─► Held (announced)
//!   ▲                            │  another machine answers      │ fails      │ look: it is gone
//!   └── paused, not allowed      ▼                               ▼            └──► Probing
//!                             Conflict ── a minute ──► Probing ◄─┘ a while
//! ```
//!
//! The caller looks at the interface often, hands over ARP packets, and does what [`AddressKeeper::poll_output`] says.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use firesteel_facts::Mac;

use crate::arp::ArpPacket;
use crate::service_health::ServiceFailure;

/// How many probes are sent, and the shortest and the longest time between two (RFC 5227 section 1.1).
const PROBES: u8 = 3;
const PROBE_MIN: Duration = Duration::from_secs(1);
const PROBE_SPREAD_MS: u64 = 1000;
/// The silence after the last probe.
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// The time between two announcements that defend the address.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// The time after a conflict before the next probe (the RFC's rate limit).
const CONFLICT_WAIT: Duration = Duration::from_secs(60);
/// The time after the kernel refused before the next try.
const FAILURE_WAIT: Duration = Duration::from_secs(10);
/// How long a machine that used our address is named.
const CONTESTED_FOR: Duration = Duration::from_secs(60);

/// What an interface looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceLook {
    pub has_address: bool,
    /// It is switched on.
    pub is_up: bool,
}

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeeperOutput {
    /// This packet goes to all machines on the link.
    Send(ArpPacket),
    /// The interface is to be switched on.
    BringUp,
    /// The address is to be put on the interface; [`AddressKeeper::put_done`] takes in how that ended.
    Put,
}

/// How the address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// The interface has it. If another machine used it as well in the last minute, that is named.
    Held { contested_by: Option<Mac> },
    /// It is probed for.
    Probing,
    /// Another machine has it: it is not put.
    Conflict { with: Mac },
    /// The kernel refused to put it.
    Failed(String),
    /// It is missing, and is not put: the keeper is paused, or may not change interfaces.
    Missing,
}

#[derive(Clone, Debug)]
enum KeeperPhase {
    Idle,
    Probing { sent: u8, next: Instant },
    Putting,
    Held { announced: u8, next: Option<Instant> },
    Conflict { with: Mac, again: Instant },
    Failed { why: String, again: Instant },
}

/// Keeps one address on one interface.
#[derive(Debug)]
pub struct AddressKeeper {
    address: Ipv4Addr,
    own: Mac,
    /// The process may change interfaces, and knows the network of the address.
    may_put: bool,
    is_paused: bool,
    phase: KeeperPhase,
    contested: Option<(Mac, Instant)>,
    defended_at: Option<Instant>,
    outputs: VecDeque<KeeperOutput>,
}

impl AddressKeeper {
    /// Makes a keeper for an address of the interface that has the MAC `own`.
    #[must_use]
    pub fn new(address: Ipv4Addr, own: Mac, may_put: bool) -> Self {
        Self {
            address,
            own,
            may_put,
            is_paused: false,
            phase: KeeperPhase::Idle,
            contested: None,
            defended_at: None,
            outputs: VecDeque::new(),
        }
    }

    /// Pauses or goes on. What is under way when a pause begins is given up.
    pub fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        if is_paused && !matches!(self.phase, KeeperPhase::Held { .. }) {
            self.phase = KeeperPhase::Idle;
        }
        if is_paused {
            self.outputs.clear();
        }
    }

    /// Takes in how the interface is now.
    pub fn look(&mut self, now: Instant, look: InterfaceLook) {
        let acts = self.may_put && !self.is_paused;
        if acts && !look.is_up {
            self.outputs.push_back(KeeperOutput::BringUp);
        }
        match (&self.phase, look.has_address) {
            (KeeperPhase::Held { .. }, true) => {}
            // Someone else put it, or this keeper is new.
            (_, true) => self.phase = KeeperPhase::Held { announced: ANNOUNCEMENTS, next: None },
            (KeeperPhase::Held { .. } | KeeperPhase::Idle, false) if acts && look.is_up => {
                self.phase = KeeperPhase::Probing { sent: 0, next: now };
            }
            (KeeperPhase::Held { .. }, false) => self.phase = KeeperPhase::Idle,
            (_, false) => {}
        }
        self.handle_timeout(now);
    }

    /// Takes in an ARP packet of the link.
    pub fn receive(&mut self, now: Instant, packet: &ArpPacket) {
        match self.phase {
            KeeperPhase::Probing { .. } if packet.conflicts_with_probe(self.own, self.address) => {
                self.phase = KeeperPhase::Conflict { with: packet.sender_mac, again: now + CONFLICT_WAIT };
            }
            KeeperPhase::Held { .. } if packet.conflicts_with_use(self.own, self.address) => {
                self.contested = Some((packet.sender_mac, now));
                let is_due = self.defended_at.is_none_or(|at| now.duration_since(at) >= DEFEND_INTERVAL);
                if is_due && !self.is_paused {
                    self.defended_at = Some(now);
                    self.outputs.push_back(KeeperOutput::Send(ArpPacket::announcement(self.own, self.address)));
                }
            }
            _ => {}
        }
    }

    /// Takes in whether the address was put.
    pub fn put_done(&mut self, now: Instant, done: Result<(), ServiceFailure>) {
        if !matches!(self.phase, KeeperPhase::Putting) {
            return;
        }
        self.phase = match done {
            Ok(()) => KeeperPhase::Held { announced: 0, next: Some(now) },
            Err(ServiceFailure(why)) => KeeperPhase::Failed { why, again: now + FAILURE_WAIT },
        };
        self.handle_timeout(now);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_paused {
            return;
        }
        match self.phase {
            KeeperPhase::Probing { sent, next } if next <= now && sent < PROBES => {
                self.outputs.push_back(KeeperOutput::Send(ArpPacket::probe(self.own, self.address)));
                let wait = if sent + 1 == PROBES { ANNOUNCE_WAIT } else { self.probe_interval() };
                self.phase = KeeperPhase::Probing { sent: sent + 1, next: now + wait };
            }
            KeeperPhase::Probing { next, .. } if next <= now => {
                self.outputs.push_back(KeeperOutput::Put);
                self.phase = KeeperPhase::Putting;
            }
            KeeperPhase::Held { announced, next: Some(next) } if next <= now => {
                self.outputs.push_back(KeeperOutput::Send(ArpPacket::announcement(self.own, self.address)));
                let announced = announced + 1;
                let next = (announced < ANNOUNCEMENTS).then_some(now + ANNOUNCE_INTERVAL);
                self.phase = KeeperPhase::Held { announced, next };
            }
            KeeperPhase::Conflict { again, .. } | KeeperPhase::Failed { again, .. } if again <= now => {
                self.phase = KeeperPhase::Probing { sent: 0, next: now };
                self.handle_timeout(now);
            }
            _ => {}
        }
    }

    /// Returns when [`AddressKeeper::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            _ if self.is_paused => None,
            KeeperPhase::Probing { next, .. } => Some(next),
            KeeperPhase::Held { next, .. } => next,
            KeeperPhase::Conflict { again, .. } | KeeperPhase::Failed { again, .. } => Some(again),
            KeeperPhase::Idle | KeeperPhase::Putting => None,
        }
    }

    /// Returns the next thing to do.
    pub fn poll_output(&mut self) -> Option<KeeperOutput> {
        self.outputs.pop_front()
    }

    /// Returns how the address is.
    #[must_use]
    pub fn state(&self, now: Instant) -> AddressState {
        match &self.phase {
            KeeperPhase::Held { .. } => AddressState::Held {
                contested_by: self
                    .contested
                    .filter(|(_, at)| now.duration_since(*at) < CONTESTED_FOR)
                    .map(|(mac, _)| mac),
            },
            KeeperPhase::Probing { .. } | KeeperPhase::Putting => AddressState::Probing,
            KeeperPhase::Conflict { with, .. } => AddressState::Conflict { with: *with },
            KeeperPhase::Failed { why, .. } => AddressState::Failed(why.clone()),
            KeeperPhase::Idle => AddressState::Missing,
        }
    }

    /// Returns the time between two probes: it differs from machine to machine, so that two that start at once hear
    /// each other.
    fn probe_interval(&self) -> Duration {
        let mixed = self.own.0.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(257).wrapping_add(u64::from(*byte)));
        PROBE_MIN + Duration::from_millis(mixed % PROBE_SPREAD_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arp::ArpOperation;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
    const MISSING: InterfaceLook = InterfaceLook { has_address: false, is_up: true };
    const THERE: InterfaceLook = InterfaceLook { has_address: true, is_up: true };

    /// A keeper with a clock, and what it did.
    struct Bench {
        keeper: AddressKeeper,
        now: Instant,
        begun: Instant,
    }

    impl Bench {
        fn new(may_put: bool) -> Self {
            let now = Instant::now();
            Self { keeper: AddressKeeper::new(ADDRESS, OWN, may_put), now, begun: now }
        }

        fn outputs(&mut self) -> Vec<KeeperOutput> {
            std::iter::from_fn(|| self.keeper.poll_output()).collect()
        }

        /// Lets time pass until something comes out; `None` if nothing is due.
        fn next(&mut self) -> Option<KeeperOutput> {
            loop {
                if let Some(output) = self.keeper.poll_output() {
                    return Some(output);
                }
                self.now = self.keeper.poll_timeout()?.max(self.now);
                self.keeper.handle_timeout(self.now);
            }
        }

        fn state(&self) -> AddressState {
            self.keeper.state(self.now)
        }

        fn put(&mut self) {
            self.keeper.look(self.now, MISSING);
            while self.next() != Some(KeeperOutput::Put) {}
            self.keeper.put_done(self.now, Ok(()));
        }
    }

    fn probe() -> KeeperOutput {
        KeeperOutput::Send(ArpPacket::probe(OWN, ADDRESS))
    }

    fn announcement() -> KeeperOutput {
        KeeperOutput::Send(ArpPacket::announcement(OWN, ADDRESS))
    }

    fn reply_of_another() -> ArpPacket {
        ArpPacket { operation: ArpOperation::Reply, ..ArpPacket::announcement(OTHER, ADDRESS) }
    }

    #[test]
    fn an_address_is_probed_put_and_announced_well_within_a_minute() {
        let mut bench = Bench::new(true);
        bench.keeper.look(bench.now, MISSING);
        let done: Vec<_> = std::iter::from_fn(|| bench.next()).collect();
        assert_eq!(done, [probe(), probe(), probe(), KeeperOutput::Put]);
        assert_eq!(bench.state(), AddressState::Probing);
        bench.keeper.put_done(bench.now, Ok(()));
        assert_eq!(std::iter::from_fn(|| bench.next()).collect::<Vec<_>>(), [announcement(), announcement()]);
        assert_eq!(bench.state(), AddressState::Held { contested_by: None });
        assert!(bench.now - bench.begun < Duration::from_secs(10), "{:?}", bench.now - bench.begun);
    }

    #[test]
    fn an_address_that_was_removed_is_put_back_and_one_that_is_there_is_left_alone() {
        let mut bench = Bench::new(true);
        bench.keeper.look(bench.now, THERE);
        assert_eq!((bench.next(), bench.state()), (None, AddressState::Held { contested_by: None }));
        bench.put();
        assert_eq!(bench.state(), AddressState::Held { contested_by: None });
    }

    #[test]
    fn an_address_of_another_machine_is_not_put_and_probed_for_again_a_minute_later() {
        let mut bench = Bench::new(true);
        bench.keeper.look(bench.now, MISSING);
        assert_eq!(bench.outputs(), [probe()]);
        bench.keeper.receive(bench.now, &reply_of_another());
        assert_eq!(bench.state(), AddressState::Conflict { with: OTHER });
        bench.keeper.look(bench.now, MISSING);
        assert_eq!(bench.outputs(), []);
        let before = bench.now;
        assert_eq!(bench.next(), Some(probe()));
        assert_eq!(bench.now - before, CONFLICT_WAIT);
        while bench.next() != Some(KeeperOutput::Put) {}
    }

    #[test]
    fn an_address_in_use_is_defended_now_and_then() {
        let mut bench = Bench::new(true);
        bench.keeper.look(bench.now, THERE);
        for _ in 0..5 {
            bench.keeper.receive(bench.now, &reply_of_another());
            bench.now += Duration::from_secs(1);
        }
        assert_eq!(bench.outputs(), [announcement()]);
        assert_eq!(bench.state(), AddressState::Held { contested_by: Some(OTHER) });
        bench.now += DEFEND_INTERVAL;
        bench.keeper.receive(bench.now, &reply_of_another());
        assert_eq!(bench.outputs(), [announcement()]);
        bench.now += CONTESTED_FOR;
        assert_eq!(bench.state(), AddressState::Held { contested_by: None });
    }

    #[test]
    fn nothing_is_sent_or_put_while_it_is_paused() {
        let mut bench = Bench::new(true);
        bench.keeper.look(bench.now, MISSING);
        bench.keeper.pause(true);
        bench.keeper.look(bench.now, MISSING);
        assert_eq!((bench.next(), bench.state()), (None, AddressState::Missing));
        bench.keeper.pause(false);
        bench.put();
        bench.keeper.pause(true);
        bench.keeper.receive(bench.now, &reply_of_another());
        bench.keeper.look(bench.now, MISSING);
        assert_eq!((bench.next(), bench.state()), (None, AddressState::Missing));
    }

    #[test]
    fn a_keeper_that_may_not_change_interfaces_only_looks() {
        let mut bench = Bench::new(false);
        bench.keeper.look(bench.now, InterfaceLook { has_address: false, is_up: false });
        assert_eq!((bench.next(), bench.state()), (None, AddressState::Missing));
        bench.keeper.look(bench.now, THERE);
        assert_eq!(bench.state(), AddressState::Held { contested_by: None });
    }

    #[test]
    fn an_interface_that_is_off_is_switched_on_and_a_refusal_of_the_kernel_is_tried_again() {
        let mut bench = Bench::new(true);
        bench.keeper.look(bench.now, InterfaceLook { has_address: false, is_up: false });
        assert_eq!((bench.outputs(), bench.state()), (vec![KeeperOutput::BringUp], AddressState::Missing));
        bench.keeper.look(bench.now, MISSING);
        while bench.next() != Some(KeeperOutput::Put) {}
        bench.keeper.put_done(bench.now, Err(ServiceFailure("no room".to_owned())));
        assert_eq!(bench.state(), AddressState::Failed("no room".to_owned()));
        let before = bench.now;
        assert_eq!(bench.next(), Some(probe()));
        assert_eq!(bench.now - before, FAILURE_WAIT);
    }
}
