//! TFTP: the first message is a client's request, the others are what it sends during the transfer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use firesteel_tftp::{
    FailReason, TftpLimits, TftpListener, TftpRequestOutcome, Transfer, TransferEvent, TransferOutput, base_name,
    normalise,
};

use super::{joined, messages};

/// Of one block with its header, on a link of 1500 bytes.
const PACKET_BYTES_MAX: usize = 4 + 1468;
/// A window at its largest, and what ends a transfer.
const PACKETS_AT_ONCE_MAX: usize = 64 + 2;

pub(super) fn check(input: &[u8]) {
    for message in messages(input) {
        firesteel_tftp::check(message);
        if let Some(path) = normalise(message) {
            super::assert_plain(&path);
            assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..")), "{path}");
            assert!(!base_name(&path).contains(['/', '\\']), "{path}");
        }
    }
    let mut messages = messages(input);
    let mut now = Instant::now();
    let client: SocketAddr = "10.77.0.50:2000".parse().unwrap();
    let file = Bytes::from(vec![0x5a; 5000]);
    let mut listener = TftpListener::new(TftpLimits::default());
    let request = messages.next().unwrap_or_default();
    let answer = listener.handle_packet(now, client, &[], request, |_, path| {
        super::assert_plain(path);
        Some(file.clone())
    });
    match answer {
        TftpRequestOutcome::Ignore(_) => {}
        TftpRequestOutcome::Refuse { packet, event } => {
            assert!(packet.starts_with(&[0, 5]) && packet.len() < 100, "an error is short");
            assert!(matches!(event, TransferEvent::Refused { .. }));
        }
        TftpRequestOutcome::Start { id, mut transfer, .. } => {
            let before = drain(&mut transfer, &file);
            assert!(before <= 2, "{before} packets to an address that has not answered");
            for message in messages {
                now += Duration::from_millis(300);
                transfer.handle_packet(now, message);
                drain(&mut transfer, &file);
                transfer.handle_timeout(now);
                drain(&mut transfer, &file);
            }
            // Left alone it ends by itself.
            for _ in 0..200 {
                let Some(next) = transfer.poll_timeout() else { break };
                now = next.max(now);
                transfer.handle_timeout(now);
                drain(&mut transfer, &file);
            }
            assert!(transfer.is_over(), "a silent client is given up");
            listener.handle_end(id);
            assert_eq!(listener.transfers(), 0);
        }
    }
}

/// Takes what comes out; how many packets that were.
fn drain(transfer: &mut Transfer, file: &[u8]) -> usize {
    let blksize = usize::from(transfer.negotiated().blksize.unwrap_or(512));
    let mut packets = 0;
    while let Some(output) = transfer.poll_output() {
        match output {
            TransferOutput::Send(packet) => {
                packets += 1;
                assert!(packets <= PACKETS_AT_ONCE_MAX, "at most a window at once");
                assert!(packet.len() <= PACKET_BYTES_MAX);
                if let [0, 3, high, low, data @ ..] = packet {
                    let block = usize::from(u16::from_be_bytes([*high, *low]));
                    let start = (block - 1) * blksize;
                    assert_eq!(data, &file[start..(start + blksize).min(file.len())], "block {block}");
                }
            }
            TransferOutput::Event(TransferEvent::Failed { reason: FailReason::Aborted(text), .. }) => {
                super::assert_plain(&text)
            }
            TransferOutput::Event(_) => {}
        }
    }
    packets
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let request = b"\0\x01undionly.kpxe\0octet\0blksize\x001468\0tsize\x000\0windowsize\x004\0timeout\x002\0";
    let ack = |block: u16| [&[0, 4][..], &block.to_be_bytes()].concat();
    let acks: Vec<Vec<u8>> = (0..5).map(ack).collect();
    let mut all: Vec<&[u8]> = vec![request];
    all.extend(acks.iter().map(Vec::as_slice));
    let mut lockstep: Vec<&[u8]> = vec![b"\0\x01/boot\\ipxe.efi\xff\0OCTET\0"];
    lockstep.extend(acks[1..].iter().map(Vec::as_slice));
    vec![
        joined(&all),
        joined(&lockstep),
        joined(&[request, &acks[0], &acks[2], &acks[2], &acks[1]]),
        joined(&[request, b"\0\x05\0\x08\x1b[2J\0"]),
        joined(&[b"\0\x02x\0octet\0"]),
        joined(&[b"\0\x01../../etc/passwd\0octet\0"]),
        joined(&[b"\0\x01x\0netascii\0"]),
        joined(&[b"\0\x01x\0octet\0blksize\0abc\0windowsize\x0099999999999999\0"]),
    ]
}
