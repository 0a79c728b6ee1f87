//! The TFTP server of one interface: port 69, and one socket for each transfer.
//!
//! ```text
//!   UDP :69 ──► TftpListener::handle_packet ──► Start ──► a task with a Transfer and a port of its own
//!                          │      ▲
//!                          │      └── ended (id)
//!                          └── Refuse ──► one packet back
//! ```
//!
//! The caller passes functions for the files, for the hosts that are known at an address, and for events.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use firesteel_tftp::{
    DATAGRAM_BYTES_MAX, TftpLimits, TftpListener, TftpRequestOutcome, Transfer, TransferEvent, TransferId,
    TransferOutput,
};
use futures_util::future::BoxFuture;
use tokio::net::UdpSocket;
use tokio::task::{AbortHandle, JoinSet};

use super::packet::bind_udp_at;

const TFTP_PORT: u16 = 69;
/// How many transfers run at a time.
pub const TRANSFERS_MAX: usize = 512;
/// The buffers of a transfer: the packet that is sent and the one that is received.
pub const TRANSFER_BYTES: usize = u16::MAX as usize + DATAGRAM_BYTES_MAX;

/// Returns the bytes of a file by its normalised path.
pub type Lookup = Arc<dyn Fn(&str) -> Option<Bytes> + Send + Sync>;
/// Returns the hosts that are known at an address.
pub type HostsAt = Arc<dyn Fn(IpAddr) -> Vec<Arc<str>> + Send + Sync>;
/// Takes events between two packets, so it must not block.
pub type Events = Arc<dyn Fn(&TransferEvent) + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum TftpError {
    #[error("could not bind port {TFTP_PORT} on {interface} (another TFTP server on this machine? not root?)")]
    Bind { interface: String, source: io::Error },
    #[error("could not receive on {interface}")]
    Receive { interface: String, source: io::Error },
    #[error("a transfer panicked")]
    Panicked(#[source] tokio::task::JoinError),
}

/// A server with its socket bound.
pub struct TftpServer {
    interface: String,
    address: Ipv4Addr,
    socket: UdpSocket,
    listener: TftpListener,
    hosts: HostsAt,
    lookup: Lookup,
    events: Events,
}

impl fmt::Debug for TftpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TftpServer").field("interface", &self.interface).finish_non_exhaustive()
    }
}

impl TftpServer {
    /// Binds port 69 of `address` on `interface`. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// When the port is not available.
    pub fn open(
        interface: &str,
        address: Ipv4Addr,
        hosts: HostsAt,
        lookup: Lookup,
        events: Events,
    ) -> Result<Self, TftpError> {
        let name = || interface.to_owned();
        let socket = bind_udp_at(interface, address, TFTP_PORT)
            .map_err(|source| TftpError::Bind { interface: name(), source })?;
        let blksize_max = firesteel_tftp::blksize_for_mtu(mtu(interface));
        let limits = TftpLimits { blksize_max, transfers_max: TRANSFERS_MAX, ..TftpLimits::default() };
        Ok(Self { interface: name(), address, socket, listener: TftpListener::new(limits), hosts, lookup, events })
    }

    /// Serves until something breaks.
    ///
    /// # Errors
    /// When the socket fails, or a transfer panics.
    pub fn run(mut self) -> BoxFuture<'static, Result<(), TftpError>> {
        Box::pin(async move {
            let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
            let mut transfers: JoinSet<TransferId> = JoinSet::new();
            let mut handles: HashMap<TransferId, AbortHandle> = HashMap::new();
            tracing::info!(interface = self.interface, address = %self.address, "TFTP serves");
            loop {
                tokio::select! {
                    received = self.socket.recv_from(&mut buffer) => match received {
                        Ok((length, client)) => {
                            self.request(client, &buffer[..length], &mut transfers, &mut handles).await;
                        }
                        // A closed port answers with ICMP to what was sent there: this is no fault of ours.
                        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                        // The kernel reports a link that went down once; it may come up again.
                        Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => {
                            tracing::warn!(interface = self.interface, "the interface is down");
                        }
                        Err(source) => return Err(TftpError::Receive { interface: self.interface, source }),
                    },
                    Some(ended) = transfers.join_next() => match ended {
                        Ok(id) => {
                            self.listener.handle_end(id);
                            handles.remove(&id);
                        }
                        Err(error) if error.is_panic() => return Err(TftpError::Panicked(error)),
                        Err(_) => {}
                    },
                }
            }
        })
    }

    async fn request(
        &mut self,
        client: SocketAddr,
        packet: &[u8],
        transfers: &mut JoinSet<TransferId>,
        handles: &mut HashMap<TransferId, AbortHandle>,
    ) {
        let (hosts, lookup) = ((self.hosts)(client.ip()), Arc::clone(&self.lookup));
        match self.listener.handle_packet(Instant::now(), client, &hosts, packet, |_, path| lookup(path)) {
            TftpRequestOutcome::Ignore(why) => tracing::trace!(%client, ?why, "TFTP request ignored"),
            TftpRequestOutcome::Refuse { packet, event } => {
                if let Err(error) = self.socket.send_to(&packet, client).await {
                    tracing::debug!(%client, %error, "could not send the refusal of a TFTP request");
                }
                (self.events)(&event);
            }
            TftpRequestOutcome::Start { id, transfer, replaces } => {
                if let Some(handle) = replaces.and_then(|old| handles.remove(&old)) {
                    handle.abort();
                }
                match self.transfer_socket(client).await {
                    Ok(socket) => {
                        let events = Arc::clone(&self.events);
                        let handle = transfers.spawn(async move {
                            if let Err(error) = run_transfer(*transfer, &socket, &events).await {
                                tracing::debug!(%client, %error, "TFTP transfer");
                            }
                            id
                        });
                        handles.insert(id, handle);
                    }
                    Err(error) => {
                        tracing::warn!(%client, %error, "could not open a TFTP transfer's socket; the client retries");
                        self.listener.handle_end(id);
                    }
                }
            }
        }
    }

    /// Opens a port for this transfer (RFC 1350 section 4) that hears this client only.
    async fn transfer_socket(&self, client: SocketAddr) -> io::Result<UdpSocket> {
        let socket = bind_udp_at(&self.interface, self.address, 0)?;
        socket.connect(client).await?;
        Ok(socket)
    }
}

async fn run_transfer(mut transfer: Transfer, socket: &UdpSocket, events: &Events) -> io::Result<()> {
    let mut buffer = [0; DATAGRAM_BYTES_MAX];
    loop {
        while let Some(output) = transfer.poll_output() {
            match output {
                TransferOutput::Send(packet) => match socket.send(packet).await {
                    Ok(_) => {}
                    // The client's port is closed: its silence will end the transfer.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(error) => return Err(error),
                },
                TransferOutput::Event(event) => events(&event),
            }
        }
        if transfer.is_over() {
            return Ok(());
        }
        let deadline = transfer.poll_timeout().unwrap_or_else(Instant::now);
        tokio::select! {
            received = socket.recv(&mut buffer) => match received {
                Ok(length) => transfer.handle_packet(Instant::now(), &buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            },
            () = tokio::time::sleep_until(deadline.into()) => transfer.handle_timeout(Instant::now()),
        }
    }
}

/// Returns the MTU of the interface, or Ethernet's if the kernel does not say.
fn mtu(interface: &str) -> u32 {
    let named = interface.bytes().all(|byte| byte != b'/') && interface != "..";
    let read = std::fs::read_to_string(format!("/sys/class/net/{interface}/mtu")).ok().filter(|_| named);
    read.and_then(|text| text.trim().parse().ok()).unwrap_or(1500)
}
