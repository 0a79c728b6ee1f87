//! Detects another DHCP server on the wire, before we serve: two servers on one network answer at random, and hosts
//! that hear the wrong one hang for no visible reason.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use firesteel_dhcp::probe;
use firesteel_facts::Mac;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

use super::packet::{LinkSocket, interface_index, read_udp};

/// How long to wait for answers; dnsmasq pings an address for up to 3 s before it offers it.
pub const LISTEN: Duration = Duration::from_millis(3500);
/// How often to ask: a question may get lost, or a switch port may not forward yet.
const QUESTIONS: u32 = 3;
const SERVER_PORT: u16 = 67;
const CLIENT_PORT: u16 = 68;
const PACKET_BYTES_MAX: usize = 4096;

/// Another server's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RogueServer {
    /// Its address as it states it (option 54).
    pub server: Ipv4Addr,
    /// The hardware address that the answer came from: that of the server, or of a router between.
    pub mac: Option<Mac>,
    /// The address that it offered; 0.0.0.0 from a proxy that only names boot files.
    pub offered: Ipv4Addr,
}

impl fmt::Display for RogueServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.offered.is_unspecified() { "proxy DHCP" } else { "DHCP" };
        write!(f, "{kind} server {}", self.server)?;
        match self.mac {
            Some(mac) => write!(f, " ({mac})"),
            None => Ok(()),
        }
    }
}

/// What failed during the search.
#[derive(Debug, thiserror::Error)]
pub enum RogueError {
    #[error("could not find the interface {interface}")]
    Interface { interface: String, source: io::Error },
    #[error("could not open a link-layer socket on {interface} (it takes root or CAP_NET_RAW)")]
    Open { interface: String, source: io::Error },
    #[error("could not ask for DHCP servers on {interface}")]
    Ask { interface: String, source: io::Error },
}

/// Asks as a client that does not exist, and returns the first server that answers.
pub fn find(interface: &str, listen: Duration) -> BoxFuture<'_, Result<Option<RogueServer>, RogueError>> {
    Box::pin(async move {
        let name = || interface.to_owned();
        let index = interface_index(interface).map_err(|source| RogueError::Interface { interface: name(), source })?;
        let socket = LinkSocket::listener(index).map_err(|source| RogueError::Open { interface: name(), source })?;
        let (mac, xid) = invent();
        let ends_at = Instant::now() + listen;
        for question in 0..QUESTIONS {
            ask(&socket, mac, xid).map_err(|source| RogueError::Ask { interface: name(), source })?;
            let pause_ends_at = ends_at - listen * (QUESTIONS - 1 - question) / QUESTIONS;
            let found = wait_for_offer(&socket, mac, xid, pause_ends_at).await;
            if let Some(rogue) = found.map_err(|source| RogueError::Ask { interface: name(), source })? {
                return Ok(Some(rogue));
            }
        }
        Ok(None)
    })
}

/// Invents a locally administered address and a transaction that no other client has.
fn invent() -> (Mac, u32) {
    let random = uuid::Uuid::new_v4().into_bytes();
    let [a, b, c, d, e, f, ..] = random;
    // The last bytes of a random UUID are random as well.
    let [w, x, y, z] = [random[12], random[13], random[14], random[15]];
    (Mac([(a & 0xfc) | 2, b, c, d, e, f]), u32::from_be_bytes([w, x, y, z]))
}

fn ask(socket: &LinkSocket, mac: Mac, xid: u32) -> io::Result<()> {
    let question = probe::discover(mac, xid).map_err(io::Error::other)?;
    let from = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, CLIENT_PORT);
    socket.send(Mac([0xff; 6]), from, SocketAddrV4::new(Ipv4Addr::BROADCAST, SERVER_PORT), &question)
}

async fn wait_for_offer(socket: &LinkSocket, mac: Mac, xid: u32, ends_at: Instant) -> io::Result<Option<RogueServer>> {
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    loop {
        let Ok(received) = timeout_at(ends_at, socket.receive(&mut buffer)).await else { return Ok(None) };
        let (bytes, sender) = received?;
        let Some((CLIENT_PORT, message)) = read_udp(&buffer[..bytes]) else { continue };
        if let Some(offer) = probe::read_offer(message, mac, xid) {
            return Ok(Some(RogueServer { server: offer.server, mac: sender, offered: offer.offered }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invented_client_is_nobodys() {
        let ((first, _), (second, _)) = (invent(), invent());
        assert_ne!(first, second);
        assert!(first.is_unicast());
        assert_eq!(first.0[0] & 2, 2, "locally administered");
    }

    #[test]
    fn it_is_named_for_people() {
        let mut rogue = RogueServer {
            server: Ipv4Addr::new(10, 0, 0, 5),
            mac: Some(Mac([0x52, 0x54, 0, 0, 0, 5])),
            offered: Ipv4Addr::new(10, 0, 0, 77),
        };
        assert_eq!(rogue.to_string(), "DHCP server 10.0.0.5 (52:54:00:00:00:05)");
        rogue.offered = Ipv4Addr::UNSPECIFIED;
        assert_eq!(rogue.to_string(), "proxy DHCP server 10.0.0.5 (52:54:00:00:00:05)");
    }
}
