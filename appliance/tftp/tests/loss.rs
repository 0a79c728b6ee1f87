//! A client that asks for the options that curl asks for, on a link that loses one packet of a hundred each way, on a
//! fake clock: how long a mebibyte takes is the engine's doing alone.

#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "tests")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use firesteel_tftp::{TftpLimits, TftpListener, TftpRequestOutcome, Transfer, TransferEvent, TransferOutput};

const FILE_BYTES: usize = 1 << 20;
const LOSS_PERCENT: u64 = 1;
/// From one end to the other.
const DELAY: Duration = Duration::from_micros(100);
/// curl sends its own last packet again after so long, and asks the server to do the same.
const PATIENCE: Duration = Duration::from_secs(6);

/// Loses by a seed (SplitMix64).
struct Link {
    state: u64,
    lost: u32,
}

impl Link {
    fn loses(&mut self) -> bool {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let is_lost = (mixed ^ (mixed >> 31)) % 100 < LOSS_PERCENT;
        self.lost += u32::from(is_lost);
        is_lost
    }
}

/// Takes blocks in their order, and answers what it has already as well: as curl does.
struct Client {
    block: u16,
    received: usize,
    is_done: bool,
}

impl Client {
    fn answer(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let number = u16::from_be_bytes([packet[2], packet[3]]);
        match packet[1] {
            6 => Some(vec![0, 4, 0, 0]),
            3 => {
                if number == self.block.wrapping_add(1) {
                    self.block = number;
                    self.received += packet.len() - 4;
                    self.is_done = packet.len() - 4 < 512;
                }
                Some([&[0, 4], &number.to_be_bytes()[..]].concat())
            }
            other => panic!("a packet of kind {other}"),
        }
    }
}

fn start(now: Instant) -> Box<Transfer> {
    let client: SocketAddr = (Ipv4Addr::LOCALHOST, 2000).into();
    let request = b"\0\x01a\0octet\0tsize\x000\0blksize\x00512\0timeout\x006\0";
    let lookup = |_, _: &str| Some(Bytes::from(vec![0x5a; FILE_BYTES]));
    match TftpListener::new(TftpLimits::default()).handle_packet(now, client, &[], request, lookup) {
        TftpRequestOutcome::Start { transfer, .. } => transfer,
        other => panic!("{other:?}"),
    }
}

/// How long the client takes, and how many packets are lost.
fn fetch(seed: u64) -> (Duration, u32) {
    let begin = Instant::now();
    let (mut now, mut link) = (begin, Link { state: seed, lost: 0 });
    let (mut transfer, mut client) = (start(now), Client { block: 0, received: 0, is_done: false });
    let (mut last, mut client_at) = (vec![0, 4, 0, 0], now + PATIENCE);
    while !client.is_done {
        let mut packets = Vec::new();
        while let Some(output) = transfer.poll_output() {
            match output {
                TransferOutput::Send(packet) => packets.push(packet.to_vec()),
                TransferOutput::Event(TransferEvent::Failed { reason, .. }) => panic!("{reason:?}"),
                TransferOutput::Event(_) => {}
            }
        }
        let arrived: Vec<Vec<u8>> = packets.into_iter().filter(|_| !link.loses()).collect();
        let answers: Vec<Vec<u8>> = if arrived.is_empty() {
            let server_at = transfer.poll_timeout().unwrap();
            now = now.max(server_at.min(client_at));
            if server_at <= client_at {
                transfer.handle_timeout(now);
                continue;
            }
            client_at = now + PATIENCE;
            vec![last.clone()]
        } else {
            now += DELAY;
            client_at = now + PATIENCE;
            arrived.iter().filter_map(|packet| client.answer(packet)).collect()
        };
        last = answers.last().cloned().unwrap_or(last);
        now += DELAY;
        for answer in answers {
            if !link.loses() {
                transfer.handle_packet(now, &answer);
            }
        }
    }
    assert_eq!(client.received, FILE_BYTES);
    (now - begin, link.lost)
}

/// It took minutes: each packet that was lost cost the six seconds that the client had asked for.
#[test]
fn one_percent_of_loss_costs_a_mebibyte_seconds_and_not_minutes() {
    let mut times = Vec::new();
    for seed in 1..=5 {
        let (took, lost) = fetch(seed);
        assert!(lost >= 15, "{lost} packets lost is no loss to speak of");
        assert!(took >= Duration::from_millis(100) * (lost / 2), "{took:?} for {lost} packets lost");
        times.push(took);
    }
    times.sort();
    assert!(times[2] <= Duration::from_secs(10), "{times:?}");
}
