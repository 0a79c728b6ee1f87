//! Which address belongs to whom: leases, offers, declined addresses and what is free.
//!
//! An address of a pool is always in exactly one place: free, offered, leased (also after the lease
//! ended, so that its owner finds it again) or resting ([`crate::quarantine`]). [`LeaseBook::update_free`] restores
//! that after each change; no other function touches `free`.
//!
//! Leases are keyed by the hardware address (`chaddr`), not by the client identifier (61). In one
//! boot the same NIC speaks four times: the ROM identifies itself by UUID, iPXE by type and MAC, the
//! agent not at all, and the installed system by a DUID. By identifier these were four hosts with
//! four addresses; by hardware address the host keeps one from power-on to login, and a reservation
//! written for a MAC holds for all of them.
//!
//! It must not know packets.

mod address_search;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use firesteel_facts::Mac;
use jiff::{SignedDuration, Timestamp};

use crate::config::{DhcpConfig, LEASE_TIME_MAX, Subnet};
use crate::quarantine::{DeclineOutcome, Quarantine, QuarantinedAddress};
use address_search::AddressSearch;

/// How long an offer is kept for its client. EDK2 and Intel's ROMs collect offers for up to 16 s
/// and may repeat the REQUEST for as long again.
pub const OFFER_HOLD: SignedDuration = SignedDuration::from_secs(60);
/// The time after which an offer that was not taken up may go to another client while the pool is empty: made-up
/// clients (starvation) never take theirs up, real ones mostly within a second.
pub const OFFER_HOLD_MIN: SignedDuration = SignedDuration::from_secs(2);
/// More offers at a time than hosts that can be powered on together.
pub const OFFERS_MAX: usize = 4096;
/// What is loaded at start; more than any pool and its reservations hold.
pub const LEASES_MAX: usize = 131_072;

/// One client's address. It stays on record after it ended, so that the client gets it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub mac: Mac,
    pub address: Ipv4Addr,
    pub expires_at: Timestamp,
    /// What the client called itself.
    pub hostname: Option<String>,
}

/// What has to be on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseChange {
    /// This is the client's only lease and the address's only holder: whatever else is on record of
    /// either goes, a rest of the address too. (The new lease alone says so, so that one failed write leaves no old
    /// owner behind.)
    Keep(Lease),
    /// The client has no lease.
    Forget(Mac),
    Rest(QuarantinedAddress),
}

/// Why a client may not have the address that it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseRefusal {
    /// It lies in no subnet that is served where the client is.
    WrongNetwork,
    /// It lies outside the pool and is not reserved for this client.
    NotInPool,
    /// It is reserved for another client.
    ReservedForAnother,
    /// It is kept for known machines.
    KeptForKnown,
    /// Another client has it, or was just offered it.
    InUse,
    /// It was declined a while ago.
    Resting,
    /// The client has a reservation, or another lease or offer.
    HasAnother,
    /// Nothing is known of this client; it has to ask for an offer first.
    UnknownClient,
}

impl LeaseRefusal {
    /// The text for the client's log (option 56) and for ours.
    pub fn text(self) -> &'static str {
        match self {
            LeaseRefusal::WrongNetwork => "address is of another network",
            LeaseRefusal::NotInPool => "address is not served here",
            LeaseRefusal::ReservedForAnother => "address is reserved for another host",
            LeaseRefusal::KeptForKnown => "address is kept for hosts that are known",
            LeaseRefusal::InUse => "address is in use",
            LeaseRefusal::Resting => "address was declined",
            LeaseRefusal::HasAnother => "another address is set aside for this host",
            LeaseRefusal::UnknownClient => "no lease on record",
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct PendingOffer {
    address: Ipv4Addr,
    until: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct LeaseBook {
    leases: BTreeMap<Mac, Lease>,
    holders: BTreeMap<Ipv4Addr, Mac>,
    by_expiry: BTreeSet<(Timestamp, Mac)>,
    offers: BTreeMap<Mac, PendingOffer>,
    offered: BTreeMap<Ipv4Addr, Mac>,
    by_hold: BTreeSet<(Timestamp, Mac)>,
    quarantine: Quarantine,
    reserved: BTreeMap<Ipv4Addr, Mac>,
    free: BTreeSet<Ipv4Addr>,
}

impl LeaseBook {
    pub(crate) fn load(
        config: &DhcpConfig,
        leases: Vec<Lease>,
        mut rests: Vec<QuarantinedAddress>,
        now: Timestamp,
    ) -> Self {
        let mut book = Self::default();
        let latest = SignedDuration::try_from(LEASE_TIME_MAX).ok().and_then(|time| now.checked_add(time).ok());
        for mut lease in leases.into_iter().take(LEASES_MAX) {
            // A wrong clock wrote it: it must not hold its address without end.
            lease.expires_at = lease.expires_at.min(latest.unwrap_or(Timestamp::MAX));
            let other = book.holders.get(&lease.address).and_then(|mac| book.leases.get(mac));
            // The database lets no two share an address; a file from elsewhere might.
            if other.is_none_or(|other| other.expires_at < lease.expires_at) {
                book.record(config, lease);
            }
        }
        // Those that began last are sure to rest still.
        rests.sort_by_key(|rest| Reverse(rest.until));
        for rest in rests {
            // Leased since: the pool was empty, or its owner went on with it.
            if !book.is_leased(rest.address, now) {
                book.quarantine.load(config, rest, now);
            }
        }
        book.reconfigure(config);
        book
    }

    /// Leases stay as they are; whether a client may keep its own is asked when it renews.
    pub(crate) fn reconfigure(&mut self, config: &DhcpConfig) {
        self.reserved = config.reservations.iter().map(|(mac, held)| (held.address, *mac)).collect();
        self.free.clear();
        let pools: Vec<_> = config.subnets().filter_map(|subnet| subnet.pool).collect();
        for pool in pools {
            for address in u32::from(pool.first)..=u32::from(pool.last) {
                self.update_free(config, Ipv4Addr::from(address));
            }
        }
    }

    pub(crate) fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    pub(crate) fn lease(&self, mac: Mac) -> Option<&Lease> {
        self.leases.get(&mac)
    }

    pub(crate) fn offer_of(&self, mac: Mac) -> Option<Ipv4Addr> {
        self.offers.get(&mac).map(|offer| offer.address)
    }

    /// The address for a client that looks for one: its reservation, its pending offer, the one that
    /// it had, the one that it asks for, one that was never used, the one unused for the longest
    /// time, an offer that was not taken up (RFC 2131 §4.3.1), and last the one that rests for the longest time. What the
    /// client itself declined comes after all others.
    pub(crate) fn choose(
        &self,
        config: &DhcpConfig,
        subnet: &Subnet,
        mac: Mac,
        wish: Option<Ipv4Addr>,
        now: Timestamp,
    ) -> Option<Ipv4Addr> {
        let looking = AddressSearch { book: self, config, subnet, mac, now };
        let is_other = |address| !self.quarantine.was_declined(mac, address, now);
        let any = || looking.choose(wish, &|_| true);
        looking.choose(wish, &is_other).or_else(|| self.quarantine.is_decliner(mac, now).then(any).flatten())
    }

    /// Whether this client may have this address now.
    pub(crate) fn may_have(
        &self,
        config: &DhcpConfig,
        subnet: &Subnet,
        mac: Mac,
        address: Ipv4Addr,
        now: Timestamp,
    ) -> Result<(), LeaseRefusal> {
        self.fits(config, subnet, mac, address)?;
        self.is_available(mac, address, now)?;
        let reserved = config.reservations.get(&mac).map(|reservation| reservation.address);
        match reserved.filter(|reserved| *reserved != address && subnet.network.contains(*reserved)) {
            // One that it declined is none that it has to go to.
            Some(reserved) if self.quarantine.was_declined(mac, reserved, now) => Ok(()),
            Some(reserved) if self.is_available(mac, reserved, now).is_ok() => Err(LeaseRefusal::HasAnother),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the configuration alone allows it.
    fn fits(&self, config: &DhcpConfig, subnet: &Subnet, mac: Mac, address: Ipv4Addr) -> Result<(), LeaseRefusal> {
        if !subnet.network.is_host(address) {
            return Err(LeaseRefusal::WrongNetwork);
        }
        match self.reserved.get(&address) {
            Some(owner) if *owner == mac => Ok(()),
            Some(_) => Err(LeaseRefusal::ReservedForAnother),
            None if config.is_taken(address) => Err(LeaseRefusal::InUse),
            None => match subnet.pool.filter(|pool| pool.contains(address)) {
                Some(pool) if config.open_to(pool, mac).contains(address) => Ok(()),
                Some(_) => Err(LeaseRefusal::KeptForKnown),
                None => Err(LeaseRefusal::NotInPool),
            },
        }
    }

    /// [`LeaseBook::expire`] has ended the offers and rests that are over.
    fn is_available(&self, mac: Mac, address: Ipv4Addr, now: Timestamp) -> Result<(), LeaseRefusal> {
        if self.quarantine.contains(address) {
            return Err(LeaseRefusal::Resting);
        }
        let offered = self.offered.get(&address).is_some_and(|owner| *owner != mac);
        if offered || self.is_held(mac, address, now) { Err(LeaseRefusal::InUse) } else { Ok(()) }
    }

    fn is_held(&self, mac: Mac, address: Ipv4Addr, now: Timestamp) -> bool {
        self.holders.get(&address).is_some_and(|holder| *holder != mac) && self.is_leased(address, now)
    }

    fn is_leased(&self, address: Ipv4Addr, now: Timestamp) -> bool {
        let holder = self.holders.get(&address).and_then(|holder| self.leases.get(holder));
        holder.is_some_and(|lease| lease.expires_at > now)
    }

    /// Sets an address aside for a client; where it rested, that is over.
    pub(crate) fn offer(&mut self, config: &DhcpConfig, mac: Mac, address: Ipv4Addr, now: Timestamp) {
        self.end_offer(config, mac);
        if let Some(other) = self.offered.get(&address).copied() {
            self.end_offer(config, other);
        }
        if self.offers.len() >= OFFERS_MAX
            && let Some(oldest) = self.oldest_offer(config)
        {
            self.end_offer(config, oldest);
        }
        self.quarantine.end(address);
        let until = now + OFFER_HOLD;
        self.offers.insert(mac, PendingOffer { address, until });
        self.offered.insert(address, mac);
        self.by_hold.insert((until, mac));
        self.update_free(config, address);
    }

    /// Whose offer goes where there are too many: that of a stranger, while there is one.
    fn oldest_offer(&self, config: &DhcpConfig) -> Option<Mac> {
        let (_, oldest) = self.by_hold.first().copied()?;
        let of_stranger = || self.by_hold.iter().map(|(_, mac)| *mac).find(|mac| !config.is_known(*mac));
        config.known.as_ref().and_then(|_| of_stranger()).or(Some(oldest))
    }

    pub(crate) fn end_offer(&mut self, config: &DhcpConfig, mac: Mac) {
        if let Some(PendingOffer { address, until }) = self.offers.remove(&mac) {
            self.offered.remove(&address);
            self.by_hold.remove(&(until, mac));
            self.update_free(config, address);
        }
    }

    /// Makes this the client's lease; what has to be written for it comes back.
    pub(crate) fn bind(&mut self, config: &DhcpConfig, lease: Lease) -> Vec<LeaseChange> {
        self.end_offer(config, lease.mac);
        self.record(config, lease.clone());
        vec![LeaseChange::Keep(lease)]
    }

    /// The lease ends now; the record stays, so that the client finds its address again.
    pub(crate) fn release(&mut self, config: &DhcpConfig, mac: Mac, now: Timestamp) -> Vec<LeaseChange> {
        self.end_offer(config, mac);
        match self.leases.get(&mac).cloned() {
            Some(lease) => self.bind(config, Lease { expires_at: now, ..lease }),
            None => Vec::new(),
        }
    }

    /// Another machine uses the address, says this client: it has neither lease nor offer of it any more.
    pub(crate) fn decline(
        &mut self,
        config: &DhcpConfig,
        mac: Mac,
        address: Ipv4Addr,
        now: Timestamp,
    ) -> (DeclineOutcome, Vec<LeaseChange>) {
        let mut changes = Vec::new();
        if self.offer_of(mac) == Some(address) {
            self.end_offer(config, mac);
        }
        if self.leases.get(&mac).is_some_and(|lease| lease.address == address) {
            self.forget(config, mac);
            changes.push(LeaseChange::Forget(mac));
        }
        let outcome = self.quarantine.decline(config, mac, address, now);
        if let DeclineOutcome::Rests { until } = outcome {
            changes.push(LeaseChange::Rest(QuarantinedAddress { address, until }));
        }
        self.update_free(config, address);
        (outcome, changes)
    }

    /// When [`LeaseBook::expire`] has something to do.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        let offers = self.by_hold.first().map(|(until, _)| *until);
        offers.into_iter().chain(self.quarantine.next_end()).min()
    }

    pub(crate) fn expire(&mut self, config: &DhcpConfig, now: Timestamp) {
        while let Some((until, mac)) = self.by_hold.first().copied().filter(|(until, _)| *until <= now) {
            debug_assert!(self.offers.get(&mac).is_some_and(|offer| offer.until == until));
            self.end_offer(config, mac);
        }
        for address in self.quarantine.expire(now) {
            self.update_free(config, address);
        }
    }

    fn record(&mut self, config: &DhcpConfig, lease: Lease) {
        self.forget(config, lease.mac);
        if let Some(former) = self.holders.get(&lease.address).copied() {
            self.forget(config, former);
        }
        let address = lease.address;
        self.holders.insert(address, lease.mac);
        self.by_expiry.insert((lease.expires_at, lease.mac));
        self.leases.insert(lease.mac, lease);
        self.update_free(config, address);
    }

    fn forget(&mut self, config: &DhcpConfig, mac: Mac) {
        if let Some(lease) = self.leases.remove(&mac) {
            self.holders.remove(&lease.address);
            self.by_expiry.remove(&(lease.expires_at, mac));
            self.update_free(config, lease.address);
        }
    }

    /// Puts the address into `free` or takes it out, whichever the other books say.
    fn update_free(&mut self, config: &DhcpConfig, address: Ipv4Addr) {
        let pooled =
            config.subnet_of(address).and_then(|subnet| subnet.pool).is_some_and(|pool| pool.contains(address));
        let used = config.is_taken(address)
            || self.reserved.contains_key(&address)
            || self.holders.contains_key(&address)
            || self.offered.contains_key(&address)
            || self.quarantine.contains(address);
        if pooled && !used {
            self.free.insert(address);
        } else {
            self.free.remove(&address);
        }
    }
}
