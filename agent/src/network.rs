//! The way to the appliance: the interface that booted, its link, an address by DHCP, renewed for
//! as long as the agent runs.

use std::{
    io::ErrorKind,
    net::UdpSocket,
    path::Path,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use firesteel_dhcp::{
    Mac,
    client::{Bound, Client},
};
use ring::rand::{SecureRandom, SystemRandom};

use crate::{
    inspect::{Roots, nics},
    modules, os,
};

/// NICs whose firmware loads late or whose bus is scanned late appear within this.
const INTERFACE_WAIT: Duration = Duration::from_secs(120);
/// A switch port may stay shut for 30 s after the link came up (spanning tree), and some drivers
/// never report a carrier: after this DHCP is tried anyway.
const CARRIER_WAIT: Duration = Duration::from_secs(30);
/// Without any DHCP answer for this long the worker starts over, and after three times the host.
const LEASE_WAIT: Duration = Duration::from_secs(300);
/// How often a person at the console hears what is waited for.
const SAY_AGAIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const DHCP_SERVER_PORT: u16 = 67;
/// Larger than any frame that carries DHCP.
const DATAGRAM_BYTES_MAX: usize = 2048;

/// Brings the network up on the interface with this hardware address; returns with an address, and
/// leaves a thread behind that keeps it.
pub fn bring_up(roots: &Roots, boot_mac: &str) -> anyhow::Result<()> {
    let interface = find_interface(roots, boot_mac)?;
    let mac: Mac = boot_mac.parse().context("reading the boot MAC of the seed")?;
    os::network::set_up("lo").context("switching on lo")?;
    os::network::set_up(&interface).with_context(|| format!("switching on {interface}"))?;
    wait_for_carrier(roots, &interface);
    let (first, bound) = sync_channel(1);
    let name = interface.clone();
    thread::spawn(move || {
        if let Err(error) = keep_lease(&name, mac, &first) {
            tracing::error!("DHCP on {name}: {error:#}");
        }
    });
    let asked = Instant::now();
    loop {
        match bound.recv_timeout(SAY_AGAIN) {
            Ok(()) => return Ok(()),
            Err(_) if asked.elapsed() < LEASE_WAIT => tracing::info!("waiting for DHCP on {interface}"),
            Err(_) => bail!("no DHCP server answered on {interface} for {} s", LEASE_WAIT.as_secs()),
        }
    }
}

fn find_interface(roots: &Roots, mac: &str) -> anyhow::Result<String> {
    let (began, mut said) = (Instant::now(), Instant::now());
    loop {
        if let Some(interface) = nics::find_by_mac(roots, mac) {
            tracing::info!("booted from {interface} ({mac})");
            return Ok(interface);
        }
        if began.elapsed() > INTERFACE_WAIT {
            let have = nics::macs(roots);
            let have = if have.is_empty() { "none at all".to_owned() } else { have.join(", ") };
            bail!(
                "no network interface has the address {mac} that this host booted from (found: {have}); its driver \
                 may be missing from the ramdisk"
            );
        }
        if said.elapsed() > SAY_AGAIN {
            said = Instant::now();
            tracing::info!("waiting for the network interface {mac}");
            modules::load_for_hardware(Path::new("/"));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

fn wait_for_carrier(roots: &Roots, interface: &str) {
    let began = Instant::now();
    while !nics::has_carrier(roots, interface) {
        if began.elapsed() > CARRIER_WAIT {
            tracing::warn!("{interface} has no link after {} s; trying DHCP anyway", CARRIER_WAIT.as_secs());
            return;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Drives the DHCP client for ever: what it wants sent, what came, and whose turn the time makes it.
fn keep_lease(interface: &str, mac: Mac, first: &SyncSender<()>) -> anyhow::Result<()> {
    let mut seed = [0; 8];
    SystemRandom::new().fill(&mut seed).map_err(|_| anyhow::anyhow!("the kernel gives no random bytes"))?;
    let socket = os::network::dhcp_socket(interface).context("opening the DHCP socket")?;
    let mut client = Client::new(mac, u64::from_ne_bytes(seed), None, Instant::now());
    let mut applied: Option<Bound> = None;
    let mut datagram = [0; DATAGRAM_BYTES_MAX];
    loop {
        while let Some(message) = client.poll_transmit() {
            if let Err(error) = socket.send_to(&message.bytes, (message.destination, DHCP_SERVER_PORT)) {
                tracing::debug!("DHCP message not sent: {error}");
            }
        }
        if let Some(bound) = client.lease().filter(|bound| applied.as_ref() != Some(bound)) {
            apply(interface, bound)?;
            applied = Some(bound.clone());
            // Full: the first lease was heard of already.
            let _heard = first.try_send(());
        }
        match receive(&socket, &mut datagram, client.poll_timeout())? {
            Some(bytes) => client.handle_packet(Instant::now(), &datagram[..bytes]),
            None => client.handle_timeout(Instant::now()),
        }
    }
}

fn receive(socket: &UdpSocket, datagram: &mut [u8], until: Instant) -> anyhow::Result<Option<usize>> {
    let wait = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
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

fn apply(interface: &str, bound: &Bound) -> anyhow::Result<()> {
    os::network::set_address(interface, bound.address, bound.prefix_length)
        .with_context(|| format!("setting {} on {interface}", bound.address))?;
    if let Some(router) = bound.router
        && let Err(error) = os::network::add_default_route(router)
    {
        // The appliance is on this network; what lies behind the router is not needed.
        tracing::warn!("no route by {router}: {error}");
    }
    tracing::info!("{interface} has {}/{} from {}", bound.address, bound.prefix_length, bound.server);
    Ok(())
}
