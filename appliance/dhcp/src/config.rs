//! What the server may hand out: subnets, pools, reservations and the answers that go with them.
//!
//! Checked once, when an engine is made or reconfigured; the engine then relies on it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use firesteel_facts::Mac;

pub use firesteel_facts::{POOL_ADDRESSES_MAX, SERVERS_MAX};

/// Reservations are written by people or made from hosts; the store holds no more hosts than this.
pub const RESERVATIONS_MAX: usize = 65_536;
/// Shorter leases mean that hosts renew while they write their disks.
pub const LEASE_TIME_MIN: Duration = Duration::from_secs(120);
/// Longer ones keep addresses of hosts that left.
pub const LEASE_TIME_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest host name that a DNS label allows, and the longest domain name.
const HOSTNAME_BYTES_MAX: usize = 63;
const DOMAIN_BYTES_MAX: usize = 253;

/// An IPv4 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Network {
    pub address: Ipv4Addr,
    pub prefix_length: u8,
}

impl Ipv4Network {
    /// The network that an interface's own address lies in.
    pub fn of(address: Ipv4Addr, prefix_length: u8) -> Self {
        let network = Self { address, prefix_length: prefix_length.min(32) };
        Self { address: Ipv4Addr::from(u32::from(address) & network.mask_bits()), ..network }
    }

    fn mask_bits(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.prefix_length.min(32))).unwrap_or(0)
    }

    pub fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from(self.mask_bits())
    }

    pub fn broadcast(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.address) | !self.mask_bits())
    }

    pub fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) & self.mask_bits() == u32::from(self.address) & self.mask_bits()
    }

    /// Whether a host may have this address: in the network, and neither its name nor its broadcast.
    pub fn is_host(self, address: Ipv4Addr) -> bool {
        let whole = self.prefix_length >= 31;
        self.contains(address)
            && (whole
                || (address != Ipv4Addr::from(u32::from(self.address) & self.mask_bits())
                    && address != self.broadcast()))
    }
}

/// The addresses from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    pub first: Ipv4Addr,
    pub last: Ipv4Addr,
}

impl Pool {
    pub fn contains(self, address: Ipv4Addr) -> bool {
        (self.first..=self.last).contains(&address)
    }

    pub(crate) fn len(self) -> u32 {
        (u32::from(self.last)).saturating_sub(u32::from(self.first)).saturating_add(1)
    }
}

/// One network whose hosts are served, on the interface itself or behind a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    pub network: Ipv4Network,
    /// The pool; without it only reservations are served.
    pub pool: Option<Pool>,
    pub router: Option<Ipv4Addr>,
}

/// One host's fixed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    pub address: Ipv4Addr,
    pub hostname: Option<String>,
}

/// Everything that the server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpConfig {
    /// Our address on the interface: server identifier and source of replies.
    pub server_address: Ipv4Addr,
    /// The network of the interface.
    pub local: Subnet,
    /// Networks behind relays; a relay of any other network gets no answer.
    pub relayed: Vec<Subnet>,
    pub dns: Vec<Ipv4Addr>,
    pub ntp: Vec<Ipv4Addr>,
    pub domain: Option<String>,
    pub lease_time: Duration,
    pub reservations: BTreeMap<Mac, Reservation>,
    /// The machines that people know: the last part of each pool is theirs alone, so that a flood
    /// of made-up machines leaves addresses for them. `None`: that is not read yet, and none is a stranger.
    pub known: Option<BTreeSet<Mac>>,
}

/// The divisor of a pool for the part that is for known machines only: enough for the hosts that boot while
/// strangers hold all the rest for a lease time.
pub const KNOWN_SHARE: u32 = 4;

/// Why a configuration cannot be served.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error("the server's address {address} is no host address of {}/{}", network.address, network.prefix_length)]
    ServerAddress { address: Ipv4Addr, network: Ipv4Network },
    #[error("the pool {first} to {last} is empty: its first address is above its last")]
    PoolEmpty { first: Ipv4Addr, last: Ipv4Addr },
    #[error("the pool {first} to {last} leaves the network {}/{}", network.address, network.prefix_length)]
    PoolOutside { first: Ipv4Addr, last: Ipv4Addr, network: Ipv4Network },
    #[error("the pools have {0} addresses in all, more than {POOL_ADDRESSES_MAX}")]
    PoolTooLarge(u64),
    #[error("the networks of {0} and {1} overlap")]
    Overlap(Ipv4Addr, Ipv4Addr),
    #[error("the router {router} is not in {}/{}", network.address, network.prefix_length)]
    Router { router: Ipv4Addr, network: Ipv4Network },
    #[error("the address {address} reserved for {mac} is no free host address of a served network")]
    Reservation { mac: Mac, address: Ipv4Addr },
    #[error("{0} is reserved twice")]
    ReservedTwice(Ipv4Addr),
    #[error("{0} reservations are more than {RESERVATIONS_MAX}")]
    TooManyReservations(usize),
    #[error("{0} is no name that DHCP can hand out")]
    Name(String),
    #[error("a lease time of {} s is outside {} to {} s", .0.as_secs(), LEASE_TIME_MIN.as_secs(), LEASE_TIME_MAX.as_secs())]
    LeaseTime(Duration),
    #[error("more than {SERVERS_MAX} DNS or NTP servers")]
    TooManyServers,
}

impl DhcpConfig {
    /// Tells the first thing that makes this configuration unfit.
    pub fn check(&self) -> Result<(), ConfigError> {
        let network = self.local.network;
        if !network.is_host(self.server_address) {
            return Err(ConfigError::ServerAddress { address: self.server_address, network });
        }
        if !(LEASE_TIME_MIN..=LEASE_TIME_MAX).contains(&self.lease_time) {
            return Err(ConfigError::LeaseTime(self.lease_time));
        }
        if self.dns.len() > SERVERS_MAX || self.ntp.len() > SERVERS_MAX {
            return Err(ConfigError::TooManyServers);
        }
        if let Some(domain) = self.domain.as_ref().filter(|name| !is_name(name, DOMAIN_BYTES_MAX)) {
            return Err(ConfigError::Name(domain.clone()));
        }
        self.check_subnets()?;
        self.check_reservations()
    }

    fn check_subnets(&self) -> Result<(), ConfigError> {
        let mut addresses = 0u64;
        let subnets: Vec<&Subnet> = self.subnets().collect();
        for (index, subnet) in subnets.iter().enumerate() {
            let network = subnet.network;
            for other in &subnets[..index] {
                if other.network.contains(network.address) || network.contains(other.network.address) {
                    return Err(ConfigError::Overlap(other.network.address, network.address));
                }
            }
            if let Some(router) = subnet.router.filter(|router| !network.is_host(*router)) {
                return Err(ConfigError::Router { router, network });
            }
            let Some(Pool { first, last }) = subnet.pool else { continue };
            if first > last {
                return Err(ConfigError::PoolEmpty { first, last });
            }
            if !network.is_host(first) || !network.is_host(last) {
                return Err(ConfigError::PoolOutside { first, last, network });
            }
            addresses += u64::from(Pool { first, last }.len());
        }
        if addresses > u64::from(POOL_ADDRESSES_MAX) { Err(ConfigError::PoolTooLarge(addresses)) } else { Ok(()) }
    }

    fn check_reservations(&self) -> Result<(), ConfigError> {
        if self.reservations.len() > RESERVATIONS_MAX {
            return Err(ConfigError::TooManyReservations(self.reservations.len()));
        }
        let mut seen = BTreeSet::new();
        self.reservations.iter().try_for_each(|(mac, wanted)| self.check_reservation(*mac, wanted, &mut seen))
    }

    /// Reserves what can be served, the first of those that want one address, and returns the others: an error in
    /// one reservation keeps no other change from being served.
    pub fn reserve(&mut self, wanted: impl IntoIterator<Item = (Mac, Reservation)>) -> Vec<ConfigError> {
        let mut seen = self.reservations.values().map(|held| held.address).collect();
        let mut unfit = Vec::new();
        for (mac, reservation) in wanted {
            if self.reservations.contains_key(&mac) {
                continue;
            }
            match self.check_reservation(mac, &reservation, &mut seen) {
                Err(error) => unfit.push(error),
                Ok(()) => drop(self.reservations.insert(mac, reservation)),
            }
        }
        unfit
    }

    fn check_reservation(
        &self,
        mac: Mac,
        Reservation { address, hostname }: &Reservation,
        seen: &mut BTreeSet<Ipv4Addr>,
    ) -> Result<(), ConfigError> {
        let served = self.subnet_of(*address).is_some_and(|subnet| subnet.network.is_host(*address));
        if !served || self.is_taken(*address) {
            return Err(ConfigError::Reservation { mac, address: *address });
        }
        if !seen.insert(*address) {
            return Err(ConfigError::ReservedTwice(*address));
        }
        match hostname.as_ref().filter(|name| !is_name(name, HOSTNAME_BYTES_MAX)) {
            Some(name) => Err(ConfigError::Name(name.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn subnets(&self) -> impl Iterator<Item = &Subnet> {
        std::iter::once(&self.local).chain(&self.relayed)
    }

    pub(crate) fn subnet_of(&self, address: Ipv4Addr) -> Option<&Subnet> {
        self.subnets().find(|subnet| subnet.network.contains(address))
    }

    /// Our own address and the routers' are never leased, even where a pool covers them.
    pub(crate) fn is_taken(&self, address: Ipv4Addr) -> bool {
        address == self.server_address || self.subnets().any(|subnet| subnet.router == Some(address))
    }

    /// Whether people know this machine.
    pub fn is_known(&self, mac: Mac) -> bool {
        self.known.as_ref().is_none_or(|known| known.contains(&mac))
    }

    /// The part of a pool that this machine may have addresses of.
    pub(crate) fn open_to(&self, pool: Pool, mac: Mac) -> Pool {
        if self.is_known(mac) {
            return pool;
        }
        Pool { last: Ipv4Addr::from(u32::from(pool.last) - pool.len() / KNOWN_SHARE), ..pool }
    }
}

fn is_name(name: &str, bytes_max: usize) -> bool {
    !name.is_empty()
        && name.len() <= bytes_max
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> DhcpConfig {
        let network = Ipv4Network::of(Ipv4Addr::new(10, 0, 0, 1), 24);
        DhcpConfig {
            server_address: Ipv4Addr::new(10, 0, 0, 1),
            local: Subnet {
                network,
                pool: Some(Pool { first: Ipv4Addr::new(10, 0, 0, 10), last: Ipv4Addr::new(10, 0, 0, 20) }),
                router: None,
            },
            relayed: Vec::new(),
            dns: Vec::new(),
            ntp: Vec::new(),
            domain: None,
            lease_time: Duration::from_secs(600),
            reservations: BTreeMap::new(),
            known: None,
        }
    }

    #[test]
    fn networks_know_their_ends() {
        let network = Ipv4Network::of(Ipv4Addr::new(10, 1, 2, 3), 20);
        assert_eq!(network.address, Ipv4Addr::new(10, 1, 0, 0));
        assert_eq!(network.mask(), Ipv4Addr::new(255, 255, 240, 0));
        assert_eq!(network.broadcast(), Ipv4Addr::new(10, 1, 15, 255));
        assert!(!network.is_host(network.address) && !network.is_host(network.broadcast()));
        assert!(!network.contains(Ipv4Addr::new(10, 1, 16, 0)));
        assert!(Ipv4Network::of(Ipv4Addr::new(10, 0, 0, 0), 0).contains(Ipv4Addr::BROADCAST));
    }

    #[test]
    fn each_mistake_has_its_own_answer() {
        assert_eq!(config().check(), Ok(()));
        let address = Ipv4Addr::new(10, 0, 0, 0);
        let bad = DhcpConfig { server_address: address, ..config() };
        assert!(matches!(bad.check(), Err(ConfigError::ServerAddress { .. })));

        let mut bad = config();
        bad.local.pool = Some(Pool { first: Ipv4Addr::new(10, 0, 0, 20), last: Ipv4Addr::new(10, 0, 0, 10) });
        assert!(matches!(bad.check(), Err(ConfigError::PoolEmpty { .. })));
        bad.local.pool = Some(Pool { first: Ipv4Addr::new(10, 0, 0, 20), last: Ipv4Addr::new(10, 0, 0, 255) });
        assert!(matches!(bad.check(), Err(ConfigError::PoolOutside { .. })));

        let mut bad = config();
        bad.relayed.push(bad.local.clone());
        assert!(matches!(bad.check(), Err(ConfigError::Overlap(..))));

        let mut bad = config();
        let twice = Reservation { address: Ipv4Addr::new(10, 0, 0, 30), hostname: None };
        bad.reservations.insert(Mac([2, 0, 0, 0, 0, 1]), twice.clone());
        assert_eq!(bad.check(), Ok(()));
        bad.reservations.insert(Mac([2, 0, 0, 0, 0, 2]), twice);
        assert!(matches!(bad.check(), Err(ConfigError::ReservedTwice(_))));
        bad.reservations.clear();
        bad.reservations.insert(Mac([2, 0, 0, 0, 0, 1]), Reservation { address: bad.server_address, hostname: None });
        assert!(matches!(bad.check(), Err(ConfigError::Reservation { .. })));

        let mut good = config();
        let wish = |last, address: [u8; 4]| {
            (Mac([2, 0, 0, 0, 0, last]), Reservation { address: Ipv4Addr::from(address), hostname: None })
        };
        let wishes =
            [wish(9, [10, 0, 0, 30]), wish(1, [10, 0, 0, 30]), wish(2, [192, 0, 2, 1]), wish(3, [10, 0, 0, 31])];
        let unfit = good.reserve(wishes);
        assert!(matches!(unfit[..], [ConfigError::ReservedTwice(_), ConfigError::Reservation { .. }]), "{unfit:?}");
        let reserved: Vec<u8> = good.reservations.keys().map(|mac| mac.0[5]).collect();
        assert_eq!((reserved, good.check()), (vec![3, 9], Ok(())));

        let bad = DhcpConfig { domain: Some("a b".into()), ..config() };
        assert!(matches!(bad.check(), Err(ConfigError::Name(_))));
        let bad = DhcpConfig { lease_time: Duration::from_secs(1), ..config() };
        assert!(matches!(bad.check(), Err(ConfigError::LeaseTime(_))));
        let mut bad = config();
        bad.local.network = Ipv4Network::of(bad.server_address, 8);
        bad.local.pool = Some(Pool { first: Ipv4Addr::new(10, 1, 0, 0), last: Ipv4Addr::new(10, 3, 0, 0) });
        assert!(matches!(bad.check(), Err(ConfigError::PoolTooLarge(_))));
    }
}
