//! ARP packets of one interface, as bytes behind the Ethernet header. What they mean is the caller's.

use std::io;

use super::packet::LinkSocket;

/// A socket that hears and sends ARP on one interface. It takes root or CAP_NET_RAW.
#[derive(Debug)]
pub struct ArpSocket(LinkSocket);

impl ArpSocket {
    /// Opens it on the interface with the kernel's number `interface`. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open(interface: u32) -> io::Result<Self> {
        LinkSocket::arp(interface).map(Self)
    }

    /// Sends a packet to all machines of the link.
    ///
    /// # Errors
    /// When the link is down or gone.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.0.broadcast_arp(packet)
    }

    /// Receives the next packet, and returns its length. Cancel safe.
    ///
    /// # Errors
    /// When the link is down or gone.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer).await.map(|(length, _)| length)
    }
}
