//! Port 69: who may begin a transfer, of what, and how many at once.
//!
//! A request is a small datagram from an address that anybody can write into it, and the answer
//! is larger. So requests are rationed per address, transfers are counted per address and in all,
//! and whoever is over its ration gets silence, not an error.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::transfer::{Event, Transfer};
use crate::wire::{self, Incoming, Refusal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// See [`crate::blksize_for_mtu`].
    pub blksize_max: u16,
    /// Each holds a socket: some racks' worth of machines that start at once.
    pub transfers_max: usize,
    /// A ROM runs one at a time, and leaves one or two behind that it does not end.
    pub transfers_per_client_max: usize,
    /// Requests at once before the ration of one per `request_interval` holds.
    pub requests_burst: u32,
    pub request_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            blksize_max: crate::blksize_for_mtu(1500),
            transfers_max: 512,
            transfers_per_client_max: 8,
            requests_burst: 32,
            request_interval: Duration::from_millis(250),
        }
    }
}

/// Addresses whose ration is remembered; beyond it, new ones wait. An entry is a few bytes and
/// forgotten after `requests_burst` intervals.
const CLIENTS_MAX: usize = 8192;
/// The same request from the same port within this time is a repeat (the first answer was lost and its transfer
/// repeats it); later it is a machine that started again with the port it always uses.
const REPEAT_WINDOW: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransferId(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Not a request.
    Noise,
    /// A repeat of a request that is being answered.
    Repeat,
    /// The client's ration of requests is used up.
    Ration,
}

#[derive(Debug)]
pub enum Answer {
    Ignore(Ignored),
    /// One packet back, from port 69; nothing follows.
    Refuse {
        packet: Vec<u8>,
        event: Event,
    },
    /// A transfer to be run from a port of its own; `replaces` is to be dropped.
    Start {
        id: TransferId,
        transfer: Box<Transfer>,
        replaces: Option<TransferId>,
    },
}

#[derive(Debug)]
pub struct Listener {
    limits: Limits,
    active: HashMap<SocketAddr, Active>,
    /// Until when an address has used up its requests.
    rations: HashMap<IpAddr, Instant>,
    next_id: u64,
}

#[derive(Debug)]
struct Active {
    id: TransferId,
    path: String,
    started: Instant,
}

impl Listener {
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, active: HashMap::new(), rations: HashMap::new(), next_id: 0 }
    }

    /// A datagram at port 69. `lookup` finds a file's bytes by its [normalised](crate::normalise) path.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        client: SocketAddr,
        packet: &[u8],
        lookup: impl FnOnce(SocketAddr, &str) -> Option<Bytes>,
    ) -> Answer {
        let incoming = wire::parse_request(packet);
        if incoming == Incoming::Noise {
            return Answer::Ignore(Ignored::Noise);
        }
        if !self.take_ration(now, client.ip()) {
            return Answer::Ignore(Ignored::Ration);
        }
        let request = match incoming {
            Incoming::Read(request) => request,
            Incoming::Refuse(refusal) => return refuse(client, None, refusal),
            Incoming::Noise => return Answer::Ignore(Ignored::Noise),
        };
        let replaces = match self.active.get(&client) {
            Some(active) if active.path == request.path && now < active.started + REPEAT_WINDOW => {
                return Answer::Ignore(Ignored::Repeat);
            }
            Some(active) => Some(active.id),
            None if self.is_full(client.ip()) => return refuse(client, Some(request.path), Refusal::Busy),
            None => None,
        };
        let Some(file) = lookup(client, &request.path) else {
            return refuse(client, Some(request.path), Refusal::NotFound);
        };
        let id = TransferId(self.next_id);
        self.next_id += 1;
        self.active.insert(client, Active { id, path: request.path.clone(), started: now });
        let transfer = Box::new(Transfer::new(now, client, request, file, self.limits.blksize_max));
        Answer::Start { id, transfer, replaces }
    }

    /// A transfer is over, or was dropped.
    pub fn handle_end(&mut self, id: TransferId) {
        self.active.retain(|_, active| active.id != id);
    }

    /// How many transfers run.
    #[must_use]
    pub fn transfers(&self) -> usize {
        self.active.len()
    }

    fn is_full(&self, client: IpAddr) -> bool {
        self.active.len() >= self.limits.transfers_max
            || self.active.keys().filter(|peer| peer.ip() == client).count() >= self.limits.transfers_per_client_max
    }

    /// Each request moves the address's clock on by one interval; it may run a burst ahead of the real one.
    fn take_ration(&mut self, now: Instant, client: IpAddr) -> bool {
        if self.rations.len() >= CLIENTS_MAX && !self.rations.contains_key(&client) {
            self.rations.retain(|_, until| *until > now);
            if self.rations.len() >= CLIENTS_MAX {
                return false;
            }
        }
        let until = self.rations.entry(client).or_insert(now);
        let next = (*until).max(now) + self.limits.request_interval;
        if next > now + self.limits.request_interval * self.limits.requests_burst {
            return false;
        }
        *until = next;
        true
    }
}

fn refuse(client: SocketAddr, file: Option<String>, refusal: Refusal) -> Answer {
    let event = Event::Refused { client, file, reason: refusal.text() };
    Answer::Refuse { packet: wire::refusal(refusal), event }
}
