//! What comes out of the server: datagrams, changes of leases, events and counters.

use std::net::Ipv4Addr;

use jiff::Timestamp;

use crate::classify::DhcpRequester;
use crate::hardware::OtherHardware;
use crate::lease_book::{LeaseChange, LeaseRefusal};
use crate::quarantine::DeclineOutcome;
use crate::reply::Destination;

/// Names one [`DhcpOutput::Commit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDatagram {
    pub interface: u32,
    pub destination: Destination,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DhcpOutput {
    Transmit(ServerDatagram),
    /// Changes to write, all or none, before [`crate::DhcpEngine::handle_committed`] is called.
    Commit {
        id: CommitId,
        changes: Vec<LeaseChange>,
    },
    Event(DhcpEvent),
    /// A client that is not served, because it is not on Ethernet.
    OtherHardware(OtherHardware),
}

/// Something for the timeline of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpEvent {
    pub client: DhcpRequester,
    pub what: DhcpEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DhcpEventKind {
    Offered {
        address: Ipv4Addr,
    },
    Acked {
        address: Ipv4Addr,
        expires_at: Timestamp,
    },
    Informed {
        address: Ipv4Addr,
    },
    Released {
        address: Ipv4Addr,
    },
    /// A RELEASE of a known host's address. Any machine can send it in the host's name, so it changes nothing: the
    /// lease ends by its time.
    ReleaseIgnored {
        address: Ipv4Addr,
    },
    /// The client says that another machine uses its address.
    Declined {
        address: Ipv4Addr,
        outcome: DeclineOutcome,
    },
    Refused {
        address: Ipv4Addr,
        reason: LeaseRefusal,
    },
    /// The client took another server's offer.
    TookAnother {
        server: Ipv4Addr,
    },
    /// No address is left for it.
    Exhausted,
    /// The disk refused the lease, so it was not granted.
    NotCommitted {
        address: Ipv4Addr,
    },
    /// The boot file is longer than one option: the client got an address only.
    BootFileTooLong {
        bytes: usize,
    },
    /// The client asked for something to boot and there is nothing for it: it was offered an address only.
    NothingToBoot,
}

/// What was not answered, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// No DHCP request of an Ethernet client.
    pub malformed: u64,
    /// Requests that were relayed from a network that is not served.
    pub foreign: u64,
    pub too_many: u64,
    /// Too many leases wait for the disk.
    pub busy: u64,
}
