//! Declined addresses: which of them rest, and who declined what.
//!
//! A DECLINE says that another machine uses the address, and the server cannot check that. So each hardware address has
//! few of them an hour, and together they take a quarter of a pool. Whatever becomes of the address, its client is
//! offered another one.
//!
//! All rest equally long: the one that began first is the one that ends first.
//!
//! It must not know who holds an address.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use firesteel_facts::Mac;
use jiff::{SignedDuration, Timestamp};

use crate::config::{DhcpConfig, KNOWN_SHARE};

/// How long a declined address rests: another machine uses it without asking us, and that takes a person
/// to find out.
pub const DECLINE_REST: SignedDuration = SignedDuration::from_secs(3600);
/// Addresses that rest by the word of one hardware address in [`DECLINE_REST`]: a conflict, and one more on the address
/// after it. Who meets more of them has no use for our pool, or lies.
pub const RESTS_PER_CLIENT: usize = 2;
/// Addresses that rest in all, however large the pools are.
pub const RESTING_MAX: usize = 256;
/// Hardware addresses whose declines are remembered. Where one is forgotten the bounds of the pool still hold.
const DECLINERS_MAX: usize = 1024;
/// Addresses of one client that it is not offered again: more than a few are no conflicts.
const DECLINED_MAX: usize = 8;

/// A declined address and the end of its rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuarantinedAddress {
    pub address: Ipv4Addr,
    pub until: Timestamp,
}

/// What became of an address that its client declined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclineOutcome {
    /// No client gets it until then, while others are free.
    Rests { until: Timestamp },
    /// The client has used up its share of this hour: others may get the address.
    ClientLimit,
    /// The pool's limit of resting addresses is reached: others may get the address.
    PoolLimit,
}

impl DeclineOutcome {
    /// The text for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Rests { .. } => "it is set aside for an hour",
            Self::ClientLimit => "it stays in use, for this client has set two aside in the last hour",
            Self::PoolLimit => "it stays in use, for a quarter of the addresses is set aside already",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    resting: BTreeMap<Ipv4Addr, Timestamp>,
    by_end: BTreeSet<(Timestamp, Ipv4Addr)>,
    decliners: BTreeMap<Mac, Decliner>,
}

/// What one hardware address declined lately.
#[derive(Debug, Default)]
struct Decliner {
    /// When addresses began to rest for it.
    rested_at: VecDeque<Timestamp>,
    /// The last ones, the newest at the end.
    declined: VecDeque<(Ipv4Addr, Timestamp)>,
}

impl Decliner {
    fn newest(&self) -> Option<Timestamp> {
        self.declined.back().map(|(_, at)| *at)
    }

    fn forget_old(&mut self, now: Timestamp) {
        self.rested_at.retain(|at| is_recent(*at, now));
        self.declined.retain(|(_, at)| is_recent(*at, now));
    }
}

/// A clock that was set back makes nothing recent for longer.
fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    (SignedDuration::ZERO..DECLINE_REST).contains(&now.duration_since(at))
}

impl Quarantine {
    /// Takes in a rest that is on disk. One that was written while the clock was wrong is no longer than any other.
    pub(crate) fn load(
        &mut self,
        config: &DhcpConfig,
        QuarantinedAddress { address, until }: QuarantinedAddress,
        now: Timestamp,
    ) {
        let latest = now.checked_add(DECLINE_REST).unwrap_or(Timestamp::MAX);
        if !self.is_full(config, address) {
            self.begin(address, until.min(latest));
        }
    }

    /// Decides what becomes of an address that this client declines.
    pub(crate) fn decline(
        &mut self,
        config: &DhcpConfig,
        mac: Mac,
        address: Ipv4Addr,
        now: Timestamp,
    ) -> DeclineOutcome {
        self.make_room(config, mac, now);
        let decliner = self.decliners.entry(mac).or_default();
        decliner.forget_old(now);
        decliner.declined.retain(|(other, _)| *other != address);
        if decliner.declined.len() >= DECLINED_MAX {
            decliner.declined.pop_front();
        }
        decliner.declined.push_back((address, now));
        if decliner.rested_at.len() >= RESTS_PER_CLIENT {
            return DeclineOutcome::ClientLimit;
        }
        if self.is_full(config, address) {
            return DeclineOutcome::PoolLimit;
        }
        self.decliners.entry(mac).or_default().rested_at.push_back(now);
        let until = now.checked_add(DECLINE_REST).unwrap_or(Timestamp::MAX);
        self.begin(address, until);
        DeclineOutcome::Rests { until }
    }

    fn is_full(&self, config: &DhcpConfig, address: Ipv4Addr) -> bool {
        let pool = config.subnet_of(address).and_then(|subnet| subnet.pool).filter(|pool| pool.contains(address));
        let of_pool = pool.is_some_and(|pool| {
            let resting = self.resting.range(pool.first..=pool.last).count();
            u32::try_from(resting).unwrap_or(u32::MAX) >= pool.len() / KNOWN_SHARE
        });
        of_pool || self.resting.len() >= RESTING_MAX
    }

    /// Forgets the client whose last DECLINE is oldest, of strangers first.
    fn make_room(&mut self, config: &DhcpConfig, mac: Mac, now: Timestamp) {
        if self.decliners.len() < DECLINERS_MAX || self.decliners.contains_key(&mac) {
            return;
        }
        self.decliners.retain(|_, decliner| decliner.newest().is_some_and(|at| is_recent(at, now)));
        if self.decliners.len() >= DECLINERS_MAX {
            let rank = |(mac, decliner): &(&Mac, &Decliner)| (config.is_known(**mac), decliner.newest());
            let oldest = self.decliners.iter().min_by_key(rank).map(|(mac, _)| *mac);
            oldest.and_then(|oldest| self.decliners.remove(&oldest));
        }
    }

    fn begin(&mut self, address: Ipv4Addr, until: Timestamp) {
        self.end(address);
        self.resting.insert(address, until);
        self.by_end.insert((until, address));
    }

    /// Ends the rest of an address; whether it rested.
    pub(crate) fn end(&mut self, address: Ipv4Addr) -> bool {
        match self.resting.remove(&address) {
            Some(until) => self.by_end.remove(&(until, address)),
            None => false,
        }
    }

    /// Ends the rests that are over, and returns their addresses.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Vec<Ipv4Addr> {
        let over: Vec<Ipv4Addr> =
            self.by_end.iter().take_while(|(until, _)| *until <= now).map(|(_, address)| *address).collect();
        for address in &over {
            self.end(*address);
        }
        over
    }

    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.by_end.first().map(|(until, _)| *until)
    }

    pub(crate) fn contains(&self, address: Ipv4Addr) -> bool {
        self.resting.contains_key(&address)
    }

    /// The addresses that rest, the one that began first first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.by_end.iter().map(|(_, address)| *address)
    }

    /// Whether this client declined anything lately.
    pub(crate) fn is_decliner(&self, mac: Mac, now: Timestamp) -> bool {
        self.decliners.get(&mac).and_then(Decliner::newest).is_some_and(|at| is_recent(at, now))
    }

    /// Whether this client declined the address lately.
    pub(crate) fn was_declined(&self, mac: Mac, address: Ipv4Addr, now: Timestamp) -> bool {
        let mut declined = self.decliners.get(&mac).into_iter().flat_map(|decliner| &decliner.declined);
        declined.any(|(other, at)| *other == address && is_recent(*at, now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{Ipv4Network, Subnet};

    const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

    fn at(second: usize) -> Timestamp {
        let second = i64::try_from(second).expect("a few hours");
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    fn mac(number: usize) -> Mac {
        let [.., high, low] = number.to_be_bytes();
        Mac([2, 0, 0, 0, high, low])
    }

    /// People know machine 0 alone.
    fn config() -> DhcpConfig {
        let server_address = Ipv4Addr::new(10, 0, 0, 1);
        let network = Ipv4Network::of(server_address, 24);
        DhcpConfig {
            server_address,
            local: Subnet { network, pool: None, router: None },
            relayed: Vec::new(),
            dns: Vec::new(),
            ntp: Vec::new(),
            domain: None,
            lease_time: Duration::from_secs(600),
            reservations: BTreeMap::new(),
            known: Some([mac(0)].into()),
        }
    }

    /// Machine 0 declines at second 0, and as many others as are remembered decline one after the other from then on.
    fn full(first: usize) -> Quarantine {
        let mut quarantine = Quarantine::default();
        quarantine.decline(&config(), mac(0), ADDRESS, at(0));
        for number in 1..DECLINERS_MAX {
            quarantine.decline(&config(), mac(number), ADDRESS, at(first + number));
        }
        quarantine
    }

    fn remembers(quarantine: &Quarantine, numbers: [usize; 4]) -> [bool; 4] {
        numbers.map(|number| quarantine.decliners.contains_key(&mac(number)))
    }

    #[test]
    fn of_too_many_decliners_the_stranger_that_declined_first_is_forgotten() {
        let (mut quarantine, last) = (full(0), DECLINERS_MAX);
        quarantine.decline(&config(), mac(1), ADDRESS, at(last));
        assert_eq!(quarantine.decliners.len(), DECLINERS_MAX, "machine 1 is remembered already");
        quarantine.decline(&config(), mac(last), ADDRESS, at(last + 1));
        assert_eq!(quarantine.decliners.len(), DECLINERS_MAX);
        assert_eq!(remembers(&quarantine, [0, 1, 2, last]), [true, true, false, true]);
    }

    #[test]
    fn who_declined_an_hour_ago_makes_room_for_others() {
        let (mut quarantine, last) = (full(3600), DECLINERS_MAX);
        assert_eq!(quarantine.decliners.len(), DECLINERS_MAX);
        quarantine.decline(&config(), mac(last), ADDRESS, at(3600 + last));
        assert_eq!(quarantine.decliners.len(), DECLINERS_MAX);
        assert_eq!(remembers(&quarantine, [0, 1, 2, last]), [false, true, true, true]);
    }

    #[test]
    fn each_outcome_has_its_words() {
        for (outcome, words) in [
            (DeclineOutcome::Rests { until: at(0) }, "it is set aside for an hour"),
            (DeclineOutcome::ClientLimit, "it stays in use, for this client has set two aside in the last hour"),
            (DeclineOutcome::PoolLimit, "it stays in use, for a quarter of the addresses is set aside already"),
        ] {
            assert_eq!(outcome.text(), words);
        }
    }
}
