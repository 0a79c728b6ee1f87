//! Which address a client is offered, of those that it may have.

use std::net::Ipv4Addr;

use firesteel_facts::Mac;
use jiff::Timestamp;

use super::{LeaseBook, OFFER_HOLD, OFFER_HOLD_MIN};
use crate::config::{DhcpConfig, Subnet};

/// One client that looks for an address.
pub(super) struct AddressSearch<'a> {
    pub(super) book: &'a LeaseBook,
    pub(super) config: &'a DhcpConfig,
    pub(super) subnet: &'a Subnet,
    pub(super) mac: Mac,
    pub(super) now: Timestamp,
}

impl AddressSearch<'_> {
    /// Chooses among the addresses that `is_wanted` takes.
    pub(super) fn choose(&self, wish: Option<Ipv4Addr>, is_wanted: &dyn Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let Self { book, config, mac, .. } = self;
        let reserved = config.reservations.get(mac).map(|reservation| reservation.address);
        let had = book.leases.get(mac).map(|lease| lease.address);
        [reserved, book.offer_of(*mac), had, wish]
            .into_iter()
            .flatten()
            .find(|address| is_wanted(*address) && self.may_have(*address))
            .or_else(|| self.unused(is_wanted))
            .or_else(|| self.long_ended(is_wanted))
            .or_else(|| self.not_taken_up(is_wanted))
            .or_else(|| self.rested_longest(is_wanted))
    }

    fn may_have(&self, address: Ipv4Addr) -> bool {
        self.book.may_have(self.config, self.subnet, self.mac, address, self.now).is_ok()
    }

    /// Whether neither the configuration nor another client's lease holds it.
    fn is_unheld(&self, address: Ipv4Addr) -> bool {
        self.book.fits(self.config, self.subnet, self.mac, address).is_ok()
            && !self.book.is_held(self.mac, address, self.now)
    }

    fn unused(&self, is_wanted: &dyn Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let pool = self.config.open_to(self.subnet.pool?, self.mac);
        self.book.free.range(pool.first..=pool.last).copied().find(|address| is_wanted(*address))
    }

    fn long_ended(&self, is_wanted: &dyn Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let ended = self.book.by_expiry.iter().take_while(|(expired_at, _)| *expired_at <= self.now);
        ended
            .filter_map(|(_, owner)| self.book.leases.get(owner))
            .map(|lease| lease.address)
            .find(|address| is_wanted(*address) && self.may_have(*address))
    }

    /// A stranger does not take over what a known host was offered.
    fn not_taken_up(&self, is_wanted: &dyn Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let is_known = self.config.is_known(self.mac);
        let mut early =
            self.book.by_hold.iter().take_while(|(until, _)| *until - OFFER_HOLD + OFFER_HOLD_MIN <= self.now);
        early.find_map(|(_, owner)| {
            let address = self.book.offers.get(owner)?.address;
            let is_open = is_known || !self.config.is_known(*owner);
            let is_free = self.is_unheld(address) && !self.book.quarantine.contains(address);
            (is_open && is_free && is_wanted(address)).then_some(address)
        })
    }

    /// The pool is empty: the rest that began first ends.
    fn rested_longest(&self, is_wanted: &dyn Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let mut resting = self.book.quarantine.oldest_first();
        resting.find(|address| is_wanted(*address) && self.is_unheld(*address))
    }
}
