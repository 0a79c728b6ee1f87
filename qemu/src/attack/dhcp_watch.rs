//! Counts the DHCP packets that servers send on the provisioning network.

use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;

use crate::os;

/// Longest frame that is looked at; headers alone count.
const FRAME_BYTES_MAX: usize = 2048;
/// The time between two looks for the end of the watch.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const ETHERNET_BYTES: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const UDP: u8 = 17;
/// The port that a DHCP server sends from (RFC 2131 section 4.1).
const SERVER_PORT: [u8; 2] = 67_u16.to_be_bytes();

/// Watches an interface in a thread of its own, until it is dropped.
#[derive(Debug)]
pub(crate) struct DhcpWatch {
    heard: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DhcpWatch {
    /// # Errors
    /// When the interface does not exist, or this process may not listen.
    pub(crate) fn start(interface: &str) -> anyhow::Result<Self> {
        let mut socket = os::listen_to_frames(interface).with_context(|| format!("listening on {interface}"))?;
        socket.set_read_timeout(Some(LOOK_EVERY)).context("bounding the wait for a frame")?;
        let (heard, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&heard), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            let mut frame = [0; FRAME_BYTES_MAX];
            while !end.load(Ordering::Relaxed) {
                match socket.read(&mut frame) {
                    Ok(length) if is_of_dhcp_server(&frame[..length]) => {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(_) => {}
                    Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                    Err(_) => return,
                }
            }
        });
        Ok(Self { heard, is_over, thread: Some(thread) })
    }

    /// Returns how many packets of servers were heard so far.
    pub(crate) fn heard(&self) -> usize {
        self.heard.load(Ordering::Relaxed)
    }
}

impl Drop for DhcpWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Says whether a frame is an IPv4 packet by UDP from port 67.
fn is_of_dhcp_server(frame: &[u8]) -> bool {
    let Some((ethernet, packet)) = frame.split_at_checked(ETHERNET_BYTES) else { return false };
    let header_bytes = usize::from(packet.first().copied().unwrap_or_default() & 0x0f) * 4;
    let is_udp = packet.get(9) == Some(&UDP);
    ethernet[12..] == IPV4 && is_udp && packet.get(header_bytes..header_bytes + 2) == Some(&SERVER_PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: [u8; 2], protocol: u8, source_port: u16) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET_BYTES + 28];
        frame[12..14].copy_from_slice(&kind);
        frame[14] = 0x45;
        frame[23] = protocol;
        frame[34..36].copy_from_slice(&source_port.to_be_bytes());
        frame
    }

    #[test]
    fn packets_of_servers_count_and_no_others() {
        assert!(is_of_dhcp_server(&frame(IPV4, UDP, 67)));
        for other in [frame(IPV4, UDP, 68), frame(IPV4, 6, 67), frame([0x86, 0xdd], UDP, 67)] {
            assert!(!is_of_dhcp_server(&other));
        }
        assert!(!is_of_dhcp_server(&frame(IPV4, UDP, 67)[..30]));
        assert!(!is_of_dhcp_server(&[]));
    }
}
