//! The agent's DHCP client on a plain socket, for tests that need an address as a host gets one.

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use firesteel_dhcp::client::{DhcpClient, GrantedAddress};
use firesteel_facts::Mac;
use nix::sys::socket::{setsockopt, sockopt};

/// Only a server that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Gets a lease for `mac` on `interface` of the caller's network namespace.
///
/// # Errors
///
/// The socket's, and [`io::ErrorKind::TimedOut`] where no server gives one.
pub fn lease(interface: &str, mac: Mac) -> io::Result<GrantedAddress> {
    let socket = UdpSocket::bind("0.0.0.0:68")?;
    setsockopt(&socket, sockopt::BindToDevice, &interface.into())?;
    socket.set_broadcast(true)?;
    let seed = mac.0.iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte));
    let mut client = DhcpClient::new(mac, seed, Some("host"), Instant::now());
    let mut buffer = [0; 1500];
    let ends_at = Instant::now() + PATIENCE;
    loop {
        if let Some(lease) = client.lease() {
            return Ok(lease.clone());
        }
        if Instant::now() >= ends_at {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no lease for {mac:?}")));
        }
        while let Some(transmit) = client.poll_transmit() {
            socket.send_to(&transmit.bytes, (transmit.destination, 67))?;
        }
        let wait = client.poll_timeout().saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(wait))?;
        match socket.recv(&mut buffer) {
            Ok(bytes) => client.handle_packet(Instant::now(), &buffer[..bytes]),
            Err(_) => client.handle_timeout(Instant::now()),
        }
    }
}
