//! curl behind a relay that loses packets of both directions by a seed, as a bad cable does: how long a file takes.
//!
//! The machine's own share is measured on the same way without loss, and taken off: what is left is what the two ends
//! wait for packets that do not come, and that is the same on any machine.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firesteel_tftp::TransferEvent;

use super::{content, has, in_namespace};

const FILE: (&str, usize) = ("mebibyte", 1 << 20);
const FILES: &[(&str, usize)] = &[FILE];
/// Of each direction.
const LOSS_PERCENT: u64 = 1;
const RUNS: u64 = 5;
/// What the loss may cost, in the middle of the runs.
const WAITED_MAX: Duration = Duration::from_secs(10);
/// A relay that hears nothing looks so often whether it is over.
const PAUSE: Duration = Duration::from_millis(20);
/// Of 2,050 blocks and their answers some 40 are lost; fewer than these are no loss to speak of.
const LOST_MIN: u64 = 10;
/// The opcode of a read request, which alone goes to the server's known port.
const READ_REQUEST: [u8; 2] = [0, 1];

/// Carries the packets of one client, and loses some of them.
struct LossyRelay {
    /// To the client.
    front: UdpSocket,
    /// To the server.
    back: UdpSocket,
    /// `None`: nothing is lost.
    seed: Option<u64>,
    lost: u64,
}

impl LossyRelay {
    fn new(seed: Option<u64>) -> Self {
        let socket = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        Self { front: socket(), back: socket(), seed, lost: 0 }
    }

    fn port(&self) -> u16 {
        self.front.local_addr().unwrap().port()
    }

    /// Carries packets until it is over; how many it lost.
    fn run(mut self, is_over: &AtomicBool) -> u64 {
        let known: SocketAddr = (Ipv4Addr::LOCALHOST, 69).into();
        let (mut client, mut server, mut buffer) = (None, known, [0; 65_536]);
        while !is_over.load(Ordering::Relaxed) {
            wait_for_any([&self.front, &self.back]);
            while let Ok((length, from)) = self.front.recv_from(&mut buffer) {
                client = Some(from);
                let to = if buffer[..length].starts_with(&READ_REQUEST) { known } else { server };
                if !self.loses() {
                    self.back.send_to(&buffer[..length], to).unwrap();
                }
            }
            while let Ok((length, from)) = self.back.recv_from(&mut buffer) {
                // The port of the transfer: the server answers from one of its own.
                server = from;
                if let Some(client) = client.filter(|_| !self.loses()) {
                    self.front.send_to(&buffer[..length], client).unwrap();
                }
            }
        }
        self.lost
    }

    /// SplitMix64: the same packets of a run are lost each time.
    fn loses(&mut self) -> bool {
        let Some(state) = &mut self.seed else { return false };
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let is_lost = (mixed ^ (mixed >> 31)) % 100 < LOSS_PERCENT;
        self.lost += u64::from(is_lost);
        is_lost
    }
}

/// Waits until one of the sockets has a packet, for a moment at most.
fn wait_for_any(sockets: [&UdpSocket; 2]) {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd as _;
    let mut waiting = sockets.map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN));
    let pause = PollTimeout::try_from(PAUSE).unwrap();
    poll(&mut waiting, pause).unwrap();
}

/// Fetches the file by curl through a relay; how long curl took, and how many packets were lost.
fn fetch(folder: &Path, seed: Option<u64>) -> (Duration, u64) {
    let relay = LossyRelay::new(seed);
    let target = folder.join(seed.map_or("clean".to_owned(), |seed| seed.to_string()));
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--output"]).arg(&target).stdin(Stdio::null());
    command.arg(format!("tftp://127.0.0.1:{}/{}", relay.port(), FILE.0));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let relaying = scope.spawn(|| relay.run(&is_over));
        let begin = Instant::now();
        let output = command.output();
        let took = begin.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let lost = relaying.join().unwrap();
        let output = output.unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(std::fs::read(&target).unwrap() == content(FILE.1)[..], "other bytes");
        (took, lost)
    })
}

/// It took 55 to over 100 seconds: the server agreed to curl's timeout, and sent what was lost again after so long.
#[test]
fn curl_fetches_a_mebibyte_within_seconds_though_one_percent_is_lost() {
    if !has("curl") {
        return;
    }
    let events = in_namespace("lossy", FILES, || {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (clean, lost) = fetch(folder, None);
        assert_eq!(lost, 0);
        // At the same time: they wait for most of it.
        let mut waited: Vec<Duration> = std::thread::scope(|scope| {
            let runs: Vec<_> = (1..=RUNS).map(|seed| scope.spawn(move || fetch(folder, Some(seed)))).collect();
            let done = runs.into_iter().map(|run| run.join().unwrap());
            done.map(|(took, lost)| {
                assert!(lost >= LOST_MIN, "{lost} packets lost are too few");
                println!(
                    "1 MiB by curl, {lost} packets lost: {} ms, without loss {} ms",
                    took.as_millis(),
                    clean.as_millis()
                );
                took.saturating_sub(clean * u32::try_from(RUNS).unwrap())
            })
            .collect()
        });
        waited.sort();
        let median = waited[waited.len() / 2];
        println!("1 MiB by curl at {LOSS_PERCENT} % loss each way: waits {} ms, median of {RUNS}", median.as_millis());
        assert!(median <= WAITED_MAX, "{waited:?}");
    });
    // There are none where no namespace could be had. The last answer of a client may be lost for good.
    let started = events.iter().filter(|event| matches!(event, TransferEvent::Started { .. })).count();
    assert!(events.is_empty() || started > usize::try_from(RUNS).unwrap(), "{events:?}");
}
