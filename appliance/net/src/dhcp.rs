//! The DHCP server of one interface: engine, lease database and sockets, wired together.
//!
//! ```text
//!   UDP :67 ──► DhcpEngine::handle_packet ──► Commit ──► lease thread ──► DhcpEngine::handle_committed
//!                     │                                                            │
//!                     └── Offer, NAK ──► UDP or link socket ◄── ACK ───────────────┘
//! ```
//!
//! It must not know resources: the caller passes one function that decides who boots what, and another that takes the
//! events. Both run between two packets, so they must not block.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use firesteel_dhcp::{
    BootAnswer, ConfigError, DeclineOutcome, Destination, DhcpConfig, DhcpEngine, DhcpEvent, DhcpEventKind, DhcpOutput,
    DhcpRequester, Lease, LeaseChange, OtherHardware, ReceivedDatagram, ServerDatagram,
};
use firesteel_facts::Mac;
use firesteel_store::ReserveUse;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};

use super::leases::{LeaseFile, LeaseStore, LeaseStoreError};
use super::named_clients::{NamedClients, NamingDecision};
use super::packet::{LinkSocket, bind_udp, interface_index, send_udp};
use super::rate_limited_warning::SeldomWarning;

const SERVER_PORT: u16 = 67;
const CLIENT_PORT: u16 = 68;
/// IANA's hardware type of InfiniBand.
const INFINIBAND: u8 = 32;
/// The size of the receive buffer: one byte more than the engine takes, so that a longer datagram is noticed.
const RECEIVE_BYTES: usize = 4097;
/// The longest sleep: the wall clock may be set while we wait.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// How many commands may wait for the task; they are rare.
const COMMANDS_MAX: usize = 16;

/// Decides what a client boots.
pub type Boot = Arc<dyn Fn(&DhcpRequester) -> Option<BootAnswer> + Send + Sync>;
/// Takes the server's events.
pub type DhcpEventSink = Arc<dyn Fn(Timestamp, &DhcpEvent) + Send + Sync>;

/// What failed during set-up or while serving.
#[derive(Debug, thiserror::Error)]
pub enum DhcpError {
    #[error("could not find the interface {interface}")]
    Interface { interface: String, source: io::Error },
    #[error("could not bind port 67 on {interface} (another DHCP server on this machine? not root?)")]
    Bind { interface: String, source: io::Error },
    #[error("could not open a link-layer socket on {interface} (it takes root or CAP_NET_RAW)")]
    Link { interface: String, source: io::Error },
    #[error(transparent)]
    Leases(#[from] LeaseStoreError),
    #[error("the DHCP configuration is not valid")]
    Config(#[from] ConfigError),
    #[error("could not receive on {interface}")]
    Receive { interface: String, source: io::Error },
    #[error("the thread of the lease database ended")]
    LeaseThread,
    #[error("the DHCP server is not running")]
    Gone,
}

#[derive(Debug)]
enum DhcpServerCommand {
    Reconfigure { config: Box<DhcpConfig>, answer: oneshot::Sender<Result<(), ConfigError>> },
}

/// Controls a running server.
#[derive(Debug, Clone)]
pub struct DhcpHandle(mpsc::Sender<DhcpServerCommand>);

impl DhcpHandle {
    /// Changes pools, reservations and options; leases that still fit stay valid.
    pub async fn reconfigure(&self, config: DhcpConfig) -> Result<(), DhcpError> {
        let (answer, result) = oneshot::channel();
        let command = DhcpServerCommand::Reconfigure { config: Box::new(config), answer };
        self.0.send(command).await.map_err(|_| DhcpError::Gone)?;
        Ok(result.await.map_err(|_| DhcpError::Gone)??)
    }
}

/// A server with its sockets bound and its leases loaded.
pub struct DhcpServer {
    interface: String,
    interface_index: u32,
    engine: DhcpEngine,
    store: LeaseStore,
    udp: UdpSocket,
    link: LinkSocket,
    commands: mpsc::Receiver<DhcpServerCommand>,
    boot: Boot,
    events: DhcpEventSink,
    /// Counts clients that got no address.
    unserved: SeldomWarning,
    /// The clients and addresses whose declines were logged.
    declined: NamedClients<(Mac, Ipv4Addr)>,
    /// Counts declines beyond the limits.
    not_set_aside: SeldomWarning,
    /// The clients that are not on Ethernet.
    hardware: NamedClients<OtherHardware>,
}

impl fmt::Debug for DhcpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DhcpServer").field("interface", &self.interface).finish_non_exhaustive()
    }
}

impl DhcpServer {
    /// Binds the sockets and loads the leases, so that faults show before anything is served. Call it inside a tokio
    /// runtime. The interface must already have `config.server_address`.
    pub fn open(
        interface: &str,
        config: DhcpConfig,
        lease_file: LeaseFile<'_>,
        boot: Boot,
        events: DhcpEventSink,
    ) -> Result<(Self, DhcpHandle), DhcpError> {
        let name = || interface.to_owned();
        let index = interface_index(interface).map_err(|source| DhcpError::Interface { interface: name(), source })?;
        let udp = bind_udp(interface, SERVER_PORT).map_err(|source| DhcpError::Bind { interface: name(), source })?;
        let link = LinkSocket::sender(index).map_err(|source| DhcpError::Link { interface: name(), source })?;
        let now = Timestamp::now();
        let (store, loaded) = LeaseStore::open(lease_file, now)?;
        let engine = DhcpEngine::new(config, loaded.leases, loaded.rests, now)?;
        let (sender, commands) = mpsc::channel(COMMANDS_MAX);
        let server = Self {
            interface: name(),
            interface_index: index,
            engine,
            store,
            udp,
            link,
            commands,
            boot,
            events,
            unserved: SeldomWarning::default(),
            declined: NamedClients::default(),
            not_set_aside: SeldomWarning::default(),
            hardware: NamedClients::default(),
        };
        Ok((server, DhcpHandle(sender)))
    }

    /// All leases on record, including those that ended.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.engine.leases()
    }

    /// Serves until every handle is dropped or something breaks. In the first case the sockets and the lease file are
    /// closed when this ends, so that another server can be opened.
    pub fn run(mut self) -> BoxFuture<'static, Result<(), DhcpError>> {
        Box::pin(async move {
            let mut buffer = vec![0; RECEIVE_BYTES];
            tracing::info!(
                interface = self.interface,
                address = %self.engine.config().server_address,
                leases = self.engine.leases().count(),
                "DHCP is served"
            );
            loop {
                let sleep = self.engine.poll_timeout().map_or(SLEEP_MAX, |at| until(at).min(SLEEP_MAX));
                tokio::select! {
                    received = self.udp.recv_from(&mut buffer) => {
                        match received {
                            Ok((bytes, from)) => self.receive(&buffer[..bytes], from),
                            // The kernel reports a link that went down once; it may come up again.
                            Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => {
                                tracing::warn!(interface = self.interface, "the interface is down");
                            }
                            Err(source) => return Err(DhcpError::Receive { interface: self.interface, source }),
                        }
                    }
                    done = self.store.done() => {
                        let (id, ok) = done.ok_or(DhcpError::LeaseThread)?;
                        self.engine.handle_committed(id, ok);
                    }
                    () = tokio::time::sleep(sleep) => self.engine.handle_timeout(Timestamp::now()),
                    command = self.commands.recv() => match command {
                        Some(command) => self.run_command(command),
                        None => {
                            self.store.close().await;
                            return Ok(());
                        }
                    },
                }
                self.drain()?;
            }
        })
    }

    fn receive(&mut self, bytes: &[u8], from: std::net::SocketAddr) {
        tracing::trace!(interface = self.interface, %from, bytes = bytes.len(), "DHCP packet");
        let arrival = ReceivedDatagram { interface: self.interface_index, bytes };
        self.engine.handle_packet(Timestamp::now(), arrival, &*self.boot);
    }

    fn run_command(&mut self, command: DhcpServerCommand) {
        // A caller that went away does not need the answer.
        match command {
            DhcpServerCommand::Reconfigure { config, answer } => drop(answer.send(self.engine.reconfigure(*config))),
        }
    }

    fn drain(&mut self) -> Result<(), DhcpError> {
        while let Some(output) = self.engine.poll_output() {
            match output {
                DhcpOutput::Transmit(transmit) => self.transmit(&transmit),
                DhcpOutput::Commit { id, changes } => {
                    let config = self.engine.config();
                    let spending = spending(|mac| config.is_known(mac), &changes);
                    if !self.store.commit(id, changes, spending) {
                        return Err(DhcpError::LeaseThread);
                    }
                }
                DhcpOutput::Event(event) => {
                    (self.events)(Timestamp::now(), &event);
                    log(&self.interface, &event);
                    self.warn(Timestamp::now(), &event);
                }
                DhcpOutput::OtherHardware(client) => self.warn_hardware(&client),
            }
        }
        Ok(())
    }

    /// Warns of what a person must know, at a rate with which a flood cannot fill the log.
    fn warn(&mut self, now: Timestamp, DhcpEvent { client, what }: &DhcpEvent) {
        let (interface, mac) = (self.interface.as_str(), client.mac);
        match what {
            DhcpEventKind::Exhausted => {
                if let Some(requests) = self.unserved.count(now) {
                    tracing::warn!(
                        interface,
                        requests,
                        "no address is left for machines that are not known: enlarge provisioningDHCPRange, or find \
                         who asks"
                    );
                }
            }
            DhcpEventKind::Declined { address, outcome: outcome @ DeclineOutcome::Rests { .. } } => {
                match self.declined.name(now, (mac, *address), false) {
                    NamingDecision::Now => tracing::warn!(
                        interface,
                        %mac,
                        %address,
                        "the client says that its address is in use by another machine: {}; find that machine",
                        outcome.text()
                    ),
                    NamingDecision::More => {
                        tracing::warn!(interface, "more addresses were declined than the log names")
                    }
                    NamingDecision::Not => {}
                }
            }
            DhcpEventKind::Declined { address, outcome } => {
                if let Some(declines) = self.not_set_aside.count(now) {
                    tracing::warn!(
                        interface,
                        %mac,
                        %address,
                        declines,
                        "more addresses are declined than conflicts explain: {}; find who does that",
                        outcome.text()
                    );
                }
            }
            DhcpEventKind::Offered { .. }
            | DhcpEventKind::Acked { .. }
            | DhcpEventKind::Informed { .. }
            | DhcpEventKind::Released { .. }
            | DhcpEventKind::ReleaseIgnored { .. }
            | DhcpEventKind::Refused { .. }
            | DhcpEventKind::TookAnother { .. }
            | DhcpEventKind::NotCommitted { .. }
            | DhcpEventKind::BootFileTooLong { .. }
            | DhcpEventKind::NothingToBoot => {}
        }
    }

    fn warn_hardware(&mut self, client: &OtherHardware) {
        let OtherHardware { htype, identifier } = client;
        let identifier = identifier.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
        let interface = self.interface.as_str();
        match self.hardware.name(Timestamp::now(), client.clone(), false) {
            NamingDecision::Now => tracing::warn!(
                interface,
                client = identifier,
                "could not answer a DHCP client of hardware type {htype}{}: only Ethernet (type 1) is supported; boot \
                 this machine from an Ethernet port",
                if *htype == INFINIBAND { " (InfiniBand, RFC 4390)" } else { "" }
            ),
            NamingDecision::More => {
                tracing::warn!(interface, "more clients than the log names are not on Ethernet")
            }
            NamingDecision::Not => {}
        }
    }

    /// Sends a reply. One that cannot be sent is like one lost on the wire: the client asks again.
    fn transmit(&self, ServerDatagram { interface, destination, bytes }: &ServerDatagram) {
        debug_assert_eq!(*interface, self.interface_index);
        let source = self.engine.config().server_address;
        let from = SocketAddrV4::new(source, SERVER_PORT);
        let to = |address| SocketAddrV4::new(address, CLIENT_PORT);
        let sent = match *destination {
            // This uses the link socket too: a UDP broadcast would take the first source address, whichever it is.
            Destination::Broadcast => self.link.send(Mac([0xff; 6]), from, to(Ipv4Addr::BROADCAST), bytes),
            Destination::HardwareUnicast { mac, address } => self.link.send(mac, from, to(address), bytes),
            Destination::IpUnicast(address) => send_udp(&self.udp, source, to(address), bytes),
            Destination::Relay(relay) => send_udp(&self.udp, source, SocketAddrV4::new(relay, SERVER_PORT), bytes),
        };
        if let Err(error) = sent {
            tracing::warn!(interface = self.interface, ?destination, %error, "could not send a DHCP reply");
        }
    }
}

/// Tells whether the changes may use the reserve of a full disk: a lease of a known machine may.
fn spending(is_known: impl Fn(Mac) -> bool, changes: &[LeaseChange]) -> ReserveUse {
    let is_of_host = changes.iter().any(|change| match change {
        LeaseChange::Keep(lease) => is_known(lease.mac),
        LeaseChange::Forget(_) | LeaseChange::Rest(_) => false,
    });
    if is_of_host { ReserveUse::Reserved } else { ReserveUse::Ordinary }
}

fn until(at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default()
}

fn log(interface: &str, DhcpEvent { client, what }: &DhcpEvent) {
    let mac = client.mac;
    match what {
        DhcpEventKind::Offered { address } => tracing::debug!(interface, %mac, %address, "address offered"),
        DhcpEventKind::Acked { address, .. } => tracing::info!(interface, %mac, %address, "lease granted"),
        DhcpEventKind::Informed { address } => tracing::debug!(interface, %mac, %address, "settings sent"),
        DhcpEventKind::Released { address } => tracing::info!(interface, %mac, %address, "lease released"),
        DhcpEventKind::ReleaseIgnored { address } => {
            tracing::debug!(interface, %mac, %address, "a known host's lease is not given back: it ends by its time");
        }
        DhcpEventKind::Declined { address, outcome } => {
            tracing::debug!(interface, %mac, %address, ?outcome, "address declined");
        }
        DhcpEventKind::Refused { address, reason } => {
            tracing::info!(interface, %mac, %address, reason = reason.text(), "request refused");
        }
        DhcpEventKind::TookAnother { server } => {
            tracing::warn!(interface, %mac, %server, "the client took the offer of another DHCP server");
        }
        // Each DISCOVER of a flood would be a line; `warn` writes one once in a while.
        DhcpEventKind::Exhausted => tracing::debug!(interface, %mac, "no address is left for this client"),
        DhcpEventKind::NotCommitted { address } => {
            tracing::error!(interface, %mac, %address, "lease not granted: it could not be written to disk");
        }
        // The caller logs it, with the reason.
        DhcpEventKind::NothingToBoot => tracing::debug!(interface, %mac, "this client has nothing to boot"),
        DhcpEventKind::BootFileTooLong { bytes } => {
            tracing::error!(interface, %mac, bytes, "the boot URL does not fit a DHCP option: the client cannot boot");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_of_known_machines_are_those_that_a_full_disk_takes() {
        let keep = |number: u8| {
            let (address, expires_at) = (Ipv4Addr::new(10, 0, 0, number), Timestamp::UNIX_EPOCH);
            LeaseChange::Keep(Lease { mac: Mac([2, 0, 0, 0, 0, number]), address, expires_at, hostname: None })
        };
        let host = Mac([2, 0, 0, 0, 0, 1]);
        let of = |changes: &[LeaseChange]| spending(|mac| mac == host, changes);
        assert_eq!(of(&[keep(2)]), ReserveUse::Ordinary);
        assert_eq!(of(&[LeaseChange::Forget(Mac([2, 0, 0, 0, 0, 2])), keep(1)]), ReserveUse::Reserved);
        assert_eq!(of(&[LeaseChange::Forget(host)]), ReserveUse::Ordinary, "anybody can release it");
    }
}
