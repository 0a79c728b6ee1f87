//! A DHCP lease that is kept: got, applied to its interface, renewed by a thread until it is ended.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use firesteel_dhcp::client::{DhcpClient, GrantedAddress};
use firesteel_facts::Mac;
use firesteel_os as os;
use ring::rand::{SecureRandom, SystemRandom};

const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How soon a lease that is ended is noticed by its thread.
const NOTICE: Duration = Duration::from_millis(500);
const DHCP_SERVER_PORT: u16 = 67;
/// Larger than any frame that carries DHCP.
const DATAGRAM_BYTES_MAX: usize = 2048;

#[derive(Debug, Default)]
struct LeaseThreadFlags {
    bound: AtomicBool,
    ended: AtomicBool,
}

/// A lease. If this value is dropped, the lease is kept for as long as the process runs.
#[derive(Debug)]
pub(super) struct AgentLease {
    interface: String,
    shared: Arc<LeaseThreadFlags>,
    thread: JoinHandle<()>,
}

impl AgentLease {
    /// Begins to ask on an interface that is on.
    pub(super) fn keep(interface: &str, mac: Mac) -> Self {
        let shared = Arc::new(LeaseThreadFlags::default());
        let (name, of_thread) = (interface.to_owned(), Arc::clone(&shared));
        let thread = thread::spawn(move || {
            if let Err(error) = keep_lease(&name, mac, &of_thread) {
                tracing::error!("DHCP on {name} ended: {error:#}");
            }
        });
        Self { interface: interface.to_owned(), shared, thread }
    }

    /// An address was got, and is on the interface.
    pub(super) fn is_bound(&self) -> bool {
        self.shared.bound.load(Ordering::Acquire)
    }

    /// Takes the address off. The server's lease runs out by itself: the host may ask for it again at once.
    pub(super) fn end(self) {
        self.shared.ended.store(true, Ordering::Release);
        drop(self.thread.join());
        remove_ipv4(&self.interface);
    }
}

/// Drives the DHCP client until it is ended: what it wants sent, what came, and whose turn the time makes it.
fn keep_lease(interface: &str, mac: Mac, shared: &LeaseThreadFlags) -> anyhow::Result<()> {
    let mut seed = [0; 8];
    SystemRandom::new().fill(&mut seed).map_err(|_| anyhow::anyhow!("the kernel gives no random bytes"))?;
    let socket = os::network::dhcp_socket(interface).context("opening the DHCP socket")?;
    let mut client = DhcpClient::new(mac, u64::from_ne_bytes(seed), None, Instant::now());
    let mut applied: Option<GrantedAddress> = None;
    let mut datagram = [0; DATAGRAM_BYTES_MAX];
    while !shared.ended.load(Ordering::Acquire) {
        while let Some(message) = client.poll_transmit() {
            if let Err(error) = socket.send_to(&message.bytes, (message.destination, DHCP_SERVER_PORT)) {
                tracing::debug!("could not send a DHCP message: {error}");
            }
        }
        if let Some(bound) = client.lease().filter(|bound| applied.as_ref() != Some(bound)) {
            apply(interface, bound)?;
            applied = Some(bound.clone());
            shared.bound.store(true, Ordering::Release);
        }
        match receive(&socket, &mut datagram, client.poll_timeout())? {
            Some(bytes) => client.handle_packet(Instant::now(), &datagram[..bytes]),
            None if client.poll_timeout() <= Instant::now() => client.handle_timeout(Instant::now()),
            None => {}
        }
    }
    Ok(())
}

fn receive(socket: &UdpSocket, datagram: &mut [u8], until: Instant) -> anyhow::Result<Option<usize>> {
    let wait = until.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), NOTICE);
    socket.set_read_timeout(Some(wait)).context("setting the time to wait")?;
    match socket.recv(datagram) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
            Ok(None)
        }
        // The link may go and come back.
        Err(error) if matches!(error.kind(), ErrorKind::NetworkDown | ErrorKind::NetworkUnreachable) => {
            thread::sleep(LOOK_AGAIN);
            Ok(None)
        }
        Err(error) => Err(error).context("receiving"),
    }
}

fn apply(interface: &str, bound: &GrantedAddress) -> anyhow::Result<()> {
    os::network::set_address(interface, bound.address, bound.prefix_length)
        .with_context(|| format!("setting {} on {interface}", bound.address))?;
    if let Some(router) = bound.router
        && let Err(error) = os::network::add_default_route(router)
    {
        // The appliance is on this network; what lies behind the router is not needed.
        tracing::warn!("could not add the route by {router}: {error}; the agent goes on without it");
    }
    tracing::info!("{interface} has {}/{} from {}", bound.address, bound.prefix_length, bound.server);
    Ok(())
}

/// Takes the IPv4 address off an interface.
fn remove_ipv4(interface: &str) {
    if let Err(error) = os::network::set_address(interface, Ipv4Addr::UNSPECIFIED, 0) {
        tracing::debug!("could not remove the address of {interface}: {error}");
    }
}
