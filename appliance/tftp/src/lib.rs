//! TFTP for booting: a read-only server without socket, clock, file or task.
//!
//! ```text
//! port 69 ──► TftpListener::handle_packet ──► Ignore | Refuse {packet} | Start {transfer}
//!                                                                        │ one socket each (its port is the TID)
//! client  ◄─── Transfer::poll_output ◄── handle_packet, handle_timeout ◄──┘
//! ```
//!
//! The listener knows who may begin a transfer (rates, numbers, names); a transfer knows one file and one client
//! (options, windows, retransmission). After each call of a `handle_*` drain `poll_output`, then sleep until
//! `poll_timeout`. Files are bytes in memory, found by a closure; this crate never opens one, and knows no resource
//! kind. The appliance's `net::tftp` runs it. It follows RFC 1350, 2347, 2348, 2349 and 7440; the packet codec is named
//! in `wire` alone.

mod listener;
mod path;
mod request_rates;
mod transfer;
mod transfer_shares;
mod wire;

pub use listener::{IgnoreReason, TftpLimits, TftpListener, TftpRequestOutcome, TransferId};
pub use path::{base_name, normalise};
pub use transfer::{FailReason, SILENCE_MAX, Transfer, TransferEvent, TransferOutput};
pub use wire::{DATAGRAM_BYTES_MAX, Negotiated, check};

/// Largest block that fits one datagram on a link with this MTU: less IPv4, UDP and TFTP headers.
/// Fragments are what boot ROMs lose first.
#[must_use]
pub fn blksize_for_mtu(mtu: u32) -> u16 {
    const HEADERS_BYTES: u32 = 20 + 8 + 4;
    let payload = mtu.saturating_sub(HEADERS_BYTES);
    u16::try_from(payload).unwrap_or(u16::MAX).clamp(wire::BLKSIZE_DEFAULT, wire::BLKSIZE_MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn blocks_fit_the_link() {
        assert_eq!(super::blksize_for_mtu(1500), 1468);
        assert_eq!(super::blksize_for_mtu(9000), 8968);
        assert_eq!(super::blksize_for_mtu(65536), 65464);
        assert_eq!(super::blksize_for_mtu(100), 512, "what every client can ask for");
    }
}
