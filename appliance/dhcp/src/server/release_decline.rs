//! RELEASE and DECLINE: a client has no use for its address any more.
//!
//! Neither is answered, and neither is proven. Any machine can send them in the name of a hardware address, so they
//! may do no more harm than this:
//!
//! - a RELEASE of a known host's address is ignored, and the lease ends by its time;
//! - a DECLINE moves its client to another address, and sets few of them aside ([`crate::quarantine`]).

use crate::wire::code;

use super::{DhcpEngine, DhcpEventKind, DhcpExchange};

impl DhcpEngine {
    pub(super) fn decline(&mut self, talk: &DhcpExchange) {
        let mac = talk.client.mac;
        let Some(address) = talk.request.options.address(code::REQUESTED_ADDRESS) else { return };
        let leased = self.book.lease(mac).is_some_and(|lease| lease.address == address);
        // Only the holder may decline, or one machine could take the pool away address by address.
        if !self.is_for_us(talk) || !(leased || self.book.offer_of(mac) == Some(address)) {
            return;
        }
        let (outcome, changes) = self.book.decline(&self.config, mac, address, talk.now);
        // An offer that does not rest is on no disk.
        if !changes.is_empty() {
            self.commit(talk, address, None, changes);
        }
        self.push_event(talk, DhcpEventKind::Declined { address, outcome });
    }

    pub(super) fn release(&mut self, talk: &DhcpExchange) {
        let mac = talk.client.mac;
        let address = talk.request.ciaddr;
        let holds = self.book.lease(mac).is_some_and(|lease| lease.address == address && lease.expires_at > talk.now);
        if !self.is_for_us(talk) || !holds {
            return;
        }
        if self.config.is_known(mac) {
            self.push_event(talk, DhcpEventKind::ReleaseIgnored { address });
            return;
        }
        let changes = self.book.release(&self.config, mac, talk.now);
        self.commit(talk, address, None, changes);
        self.push_event(talk, DhcpEventKind::Released { address });
    }
}
