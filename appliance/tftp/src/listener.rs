//! Port 69: who may begin a transfer, of what, and how many at once.
//!
//! A request is a small datagram from an address that any machine can write into it, and the answer
//! is larger. So requests are rationed per address, and a client that is over its ration gets silence, not an
//! error. Transfers are counted per address, per known host and in all; see [`crate::transfer_shares`].

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::request_rates::{RequestRation, RequestRations};
use crate::transfer::{Transfer, TransferEvent};
use crate::transfer_shares::{self, GrantedTransfer, RunningTransfer, TransferPart, TransferShares};
use crate::wire::{self, TftpDatagram, TftpRefusal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TftpLimits {
    /// See [`crate::blksize_for_mtu`].
    pub blksize_max: u16,
    /// Each holds a socket: some racks' worth of machines that start at once. A quarter is kept for known hosts.
    pub transfers_max: usize,
    /// A ROM runs one at a time, and leaves one or two behind that it does not end.
    pub transfers_per_client_max: usize,
    /// The part of the kept quarter that each known host has.
    pub transfers_per_host_max: usize,
    /// Requests at once before the ration of one per `request_interval` holds.
    pub requests_burst: u32,
    pub request_interval: Duration,
}

impl Default for TftpLimits {
    fn default() -> Self {
        Self {
            blksize_max: crate::blksize_for_mtu(1500),
            transfers_max: 512,
            transfers_per_client_max: 8,
            transfers_per_host_max: 4,
            requests_burst: 32,
            request_interval: Duration::from_millis(250),
        }
    }
}

/// The time within which the same request from the same port is a repeat (the first answer was lost and its transfer
/// repeats it); later it is a machine that started again with the port it always uses.
const REPEAT_WINDOW: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransferId(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoreReason {
    /// No request.
    Noise,
    /// A repeat of a request that is being answered.
    Repeat,
    /// The client's ration of requests is used up.
    Ration,
}

#[derive(Debug)]
pub enum TftpRequestOutcome {
    Ignore(IgnoreReason),
    /// One packet back, from port 69; nothing follows.
    Refuse {
        packet: Vec<u8>,
        event: TransferEvent,
    },
    /// A transfer to be run from a port of its own. `replaces` is to be dropped: the same client begins again, or another
    /// one that has not answered yet makes room.
    Start {
        id: TransferId,
        transfer: Box<Transfer>,
        replaces: Option<TransferId>,
    },
}

#[derive(Debug)]
pub struct TftpListener {
    limits: TftpLimits,
    active: HashMap<SocketAddr, ActiveTransfer>,
    rations: RequestRations,
    next_id: u64,
}

#[derive(Debug)]
struct ActiveTransfer {
    id: TransferId,
    path: String,
    started: Instant,
    part: TransferPart,
    is_confirmed: Arc<AtomicBool>,
}

impl TftpListener {
    #[must_use]
    pub fn new(limits: TftpLimits) -> Self {
        Self { limits, active: HashMap::new(), rations: RequestRations::default(), next_id: 0 }
    }

    /// A datagram at port 69. `hosts` are those that are known at the client's address; `lookup` finds a file's bytes by its
    /// [normalised](crate::normalise) path.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        client: SocketAddr,
        hosts: &[Arc<str>],
        packet: &[u8],
        lookup: impl FnOnce(SocketAddr, &str) -> Option<Bytes>,
    ) -> TftpRequestOutcome {
        let incoming = wire::parse_request(packet);
        if incoming == TftpDatagram::Noise {
            return TftpRequestOutcome::Ignore(IgnoreReason::Noise);
        }
        let ration = RequestRation { burst: self.limits.requests_burst, interval: self.limits.request_interval };
        if !self.rations.take(now, client.ip(), !hosts.is_empty(), ration) {
            return TftpRequestOutcome::Ignore(IgnoreReason::Ration);
        }
        let request = match incoming {
            TftpDatagram::Read(request) => request,
            TftpDatagram::Refuse(refusal) => return refuse(client, None, refusal),
            TftpDatagram::Noise => return TftpRequestOutcome::Ignore(IgnoreReason::Noise),
        };
        let granted = match self.active.get(&client) {
            Some(active) if active.path == request.path && now < active.started + REPEAT_WINDOW => {
                return TftpRequestOutcome::Ignore(IgnoreReason::Repeat);
            }
            Some(active) => GrantedTransfer { part: active.part.clone(), instead_of: Some(active.id) },
            None => match self.find_place(client, hosts) {
                Some(granted) => granted,
                None => return refuse(client, Some(request.path), TftpRefusal::Busy),
            },
        };
        let Some(file) = lookup(client, &request.path) else {
            return refuse(client, Some(request.path), TftpRefusal::NotFound);
        };
        let GrantedTransfer { part, instead_of: replaces } = granted;
        replaces.into_iter().for_each(|replaced| self.handle_end(replaced));
        let id = TransferId(self.next_id);
        self.next_id += 1;
        let path = request.path.clone();
        let transfer = Box::new(Transfer::new(now, client, request, file, self.limits.blksize_max));
        let is_confirmed = transfer.confirmation();
        self.active.insert(client, ActiveTransfer { id, path, started: now, part, is_confirmed });
        TftpRequestOutcome::Start { id, transfer, replaces }
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

    fn find_place(&self, client: SocketAddr, hosts: &[Arc<str>]) -> Option<GrantedTransfer<TransferId>> {
        let shares = TransferShares {
            total: self.limits.transfers_max,
            per_client: self.limits.transfers_per_client_max,
            per_host: self.limits.transfers_per_host_max,
        };
        let running = self.active.iter().map(|(client, active)| RunningTransfer {
            key: active.id,
            client: client.ip(),
            part: &active.part,
            started: active.started,
            is_confirmed: active.is_confirmed.load(Ordering::Relaxed),
        });
        transfer_shares::find(shares, client.ip(), hosts, running)
    }
}

fn refuse(client: SocketAddr, file: Option<String>, refusal: TftpRefusal) -> TftpRequestOutcome {
    let event = TransferEvent::Refused { client, file, reason: refusal.text() };
    TftpRequestOutcome::Refuse { packet: wire::refusal(refusal), event }
}
