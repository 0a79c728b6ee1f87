//! Listener and transfers on a fake clock: options, retransmission, bounds, and a client model behind a bad link.

#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "tests")]
#![allow(clippy::cast_possible_truncation, reason = "block numbers wrap on the wire")]

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use firesteel_tftp::{
    FailReason, IgnoreReason, SILENCE_MAX, TftpLimits, TftpListener, TftpRequestOutcome, Transfer, TransferEvent,
    TransferOutput,
};
use proptest::prelude::*;

fn client(port: u16) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, 9), port).into()
}

fn rrq(file: &str, options: &[(&str, &str)]) -> Vec<u8> {
    let mut packet = vec![0, 1];
    let fields = [file, "octet"].into_iter().chain(options.iter().flat_map(|(name, value)| [*name, *value]));
    for field in fields {
        packet.extend(field.bytes().chain([0]));
    }
    packet
}

fn ack(block: u16) -> Vec<u8> {
    [&[0, 4], &block.to_be_bytes()[..]].concat()
}

fn file(bytes: usize) -> Bytes {
    (0..bytes).map(|n| (n.wrapping_mul(2_654_435_761) >> 16) as u8).collect()
}

fn start(now: Instant, bytes: usize, options: &[(&str, &str)]) -> Box<Transfer> {
    let mut listener = TftpListener::new(TftpLimits::default());
    let request = rrq("/a", options);
    match listener.handle_packet(now, client(1), &[], &request, |_, path| (path == "a").then(|| file(bytes))) {
        TftpRequestOutcome::Start { transfer, .. } => transfer,
        other => panic!("{other:?}"),
    }
}

#[derive(Debug, Default)]
struct Drained {
    packets: Vec<Vec<u8>>,
    events: Vec<TransferEvent>,
}

fn drain(transfer: &mut Transfer) -> Drained {
    let mut drained = Drained::default();
    while let Some(output) = transfer.poll_output() {
        match output {
            TransferOutput::Send(packet) => drained.packets.push(packet.to_vec()),
            TransferOutput::Event(event) => drained.events.push(event),
        }
    }
    drained
}

/// Numbers of the DATA packets that are due.
fn blocks(transfer: &mut Transfer) -> Vec<u16> {
    let packets = drain(transfer).packets;
    packets.iter().filter(|p| p[1] == 3).map(|p| u16::from_be_bytes([p[2], p[3]])).collect()
}

#[test]
fn a_plain_request_is_served_in_lockstep_of_512() {
    let now = Instant::now();
    let mut transfer = start(now, 1024, &[]);
    let first = drain(&mut transfer);
    assert_eq!(first.events, [TransferEvent::Started { client: client(1), file: "a".into(), bytes: 1024 }]);
    assert_eq!(first.packets, [[&[0, 3, 0, 1], &file(1024)[..512]].concat()]);
    transfer.handle_packet(now, &ack(1));
    assert_eq!(blocks(&mut transfer), [2]);
    transfer.handle_packet(now, &ack(2));
    assert_eq!(drain(&mut transfer).packets, [[0, 3, 0, 3]], "a multiple of the block size ends with an empty block");
    transfer.handle_packet(now + Duration::from_millis(7), &ack(3));
    let finished = TransferEvent::Finished { client: client(1), file: "a".into(), bytes: 1024, ms: 7, resent: 0 };
    assert_eq!(drain(&mut transfer).events, [finished]);
    assert!(transfer.is_over() && transfer.poll_timeout().is_none());
}

#[test]
fn options_are_answered_before_any_data() {
    let now = Instant::now();
    let options = [("tsize", "0"), ("blksize", "9000"), ("windowsize", "4"), ("timeout", "2"), ("colour", "red")];
    let mut transfer = start(now, 100_000, &options);
    let offer = drain(&mut transfer);
    assert_eq!(offer.packets, [b"\0\x06tsize\x00100000\0blksize\x001468\0timeout\x002\0windowsize\x004\0"]);
    assert_eq!(offer.events, []);
    transfer.handle_packet(now, &ack(1));
    assert_eq!(blocks(&mut transfer), [], "only ACK 0 takes the offer");
    transfer.handle_packet(now, &ack(0));
    assert_eq!(blocks(&mut transfer), [1, 2, 3, 4]);
    transfer.handle_packet(now, &ack(4));
    assert_eq!(blocks(&mut transfer), [5, 6, 7, 8]);
}

#[test]
fn a_rom_that_asks_for_the_size_only_has_not_failed() {
    let now = Instant::now();
    let mut transfer = start(now, 10, &[("tsize", "0")]);
    drain(&mut transfer);
    transfer.handle_packet(now, b"\0\x05\0\x08User aborted the transfer\0");
    assert_eq!(drain(&mut transfer).events, [TransferEvent::Probed { client: client(1), file: "a".into(), bytes: 10 }]);
    assert!(transfer.is_over());
}

/// A repeated ACK once made every later block go out twice, for the rest of the file.
#[test]
fn repeated_acknowledgements_do_not_multiply_blocks() {
    let now = Instant::now();
    let mut transfer = start(now, 5000, &[]);
    drain(&mut transfer);
    transfer.handle_packet(now, &ack(1));
    assert_eq!(blocks(&mut transfer), [2]);
    for _ in 0..5 {
        transfer.handle_packet(now, &ack(1));
        assert_eq!(blocks(&mut transfer), []);
    }
    transfer.handle_packet(now, &ack(2));
    assert_eq!(blocks(&mut transfer), [3]);
}

#[test]
fn a_window_restarts_after_the_last_block_that_arrived_and_once_per_block() {
    let now = Instant::now();
    let mut transfer = start(now, 50_000, &[("windowsize", "4")]);
    drain(&mut transfer);
    transfer.handle_packet(now, &ack(0));
    assert_eq!(blocks(&mut transfer), [1, 2, 3, 4]);
    transfer.handle_packet(now, &ack(2));
    assert_eq!(blocks(&mut transfer), [3, 4, 5, 6], "3 was lost");
    transfer.handle_packet(now, &ack(2));
    assert_eq!(blocks(&mut transfer), [3, 4, 5, 6], "and again");
    transfer.handle_packet(now, &ack(2));
    assert_eq!(blocks(&mut transfer), [], "the timer's business from here");
    transfer.handle_packet(now, &ack(6));
    assert_eq!(blocks(&mut transfer), [7, 8, 9, 10]);
    transfer.handle_packet(now, &ack(3));
    transfer.handle_packet(now, &ack(11));
    assert_eq!(blocks(&mut transfer), [], "neither an old number nor one that was not sent counts");
}

#[test]
fn block_numbers_wrap_to_zero() {
    let now = Instant::now();
    let mut transfer = start(now, 70_000 * 8, &[("blksize", "8")]);
    drain(&mut transfer);
    let mut number = 0u16;
    for _ in 0..70_000u32 {
        transfer.handle_packet(now, &ack(number));
        number = number.wrapping_add(1);
        assert_eq!(blocks(&mut transfer), [number]);
    }
    transfer.handle_packet(now, &ack(number));
    assert_eq!(drain(&mut transfer).packets[0].len(), 4, "the empty last block");
    transfer.handle_packet(now, &ack(number.wrapping_add(1)));
    drain(&mut transfer);
    assert!(transfer.is_over());
}

#[test]
fn what_is_not_acknowledged_is_sent_again_less_and_less_often_and_then_given_up() {
    let begin = Instant::now();
    let mut transfer = start(begin, 5000, &[]);
    drain(&mut transfer);
    transfer.handle_packet(begin, &ack(1));
    drain(&mut transfer);
    let mut waits = Vec::new();
    let mut now = begin;
    while let Some(deadline) = transfer.poll_timeout() {
        transfer.handle_timeout(deadline - Duration::from_millis(1));
        assert_eq!(blocks(&mut transfer), [], "too early");
        waits.push((deadline - now).as_millis());
        now = deadline;
        transfer.handle_timeout(now);
        if transfer.poll_timeout().is_some() {
            assert_eq!(blocks(&mut transfer), [2]);
        }
    }
    assert_eq!(waits[..7], [100, 200, 400, 800, 1600, 3200, 4000]);
    assert_eq!(now - begin, Duration::from_secs(35));
    let last = drain(&mut transfer);
    assert_eq!(last.packets, [b"\0\x05\0\0no acknowledgement in time\0"]);
    assert!(matches!(
        &last.events[..],
        [TransferEvent::Failed { bytes_acknowledged: 512, reason: FailReason::Silent, .. }]
    ));
}

#[test]
fn an_address_that_never_answers_gets_little() {
    for options in [&[][..], &[("blksize", "1468"), ("windowsize", "64")]] {
        let mut transfer = start(Instant::now(), 1_000_000, options);
        let mut bytes = 0;
        loop {
            bytes += drain(&mut transfer).packets.iter().map(Vec::len).sum::<usize>();
            let Some(deadline) = transfer.poll_timeout() else { break };
            transfer.handle_timeout(deadline);
        }
        assert!(bytes <= 4 * 516 + 64, "{bytes}");
    }
}

#[test]
fn a_negotiated_timeout_is_kept() {
    let begin = Instant::now();
    let mut transfer = start(begin, 5000, &[("timeout", "2")]);
    drain(&mut transfer);
    transfer.handle_packet(begin, &ack(0));
    assert_eq!(transfer.poll_timeout(), Some(begin + Duration::from_secs(2)));
    transfer.handle_timeout(begin + Duration::from_secs(2));
    assert_eq!(transfer.poll_timeout(), Some(begin + Duration::from_secs(4)));
}

/// A block that was lost came again after the six seconds that curl asks for.
#[test]
fn a_long_timeout_is_left_out_of_the_answer_and_our_own_clock_counts() {
    let begin = Instant::now();
    let mut transfer = start(begin, 5000, &[("tsize", "0"), ("blksize", "512"), ("timeout", "6")]);
    assert_eq!(drain(&mut transfer).packets, [b"\0\x06tsize\x005000\0blksize\x00512\0"]);
    transfer.handle_packet(begin, &ack(0));
    assert_eq!(blocks(&mut transfer), [1]);
    assert_eq!(transfer.poll_timeout(), Some(begin + Duration::from_millis(100)));
    let mut alone = start(begin, 5000, &[("timeout", "6")]);
    assert_eq!(blocks(&mut alone), [1], "no answer to options of which none is left");
}

/// Each block went out twice from then on: an answer to one that was repeated measures nothing.
#[test]
fn a_link_that_becomes_slower_is_measured_again() {
    const SLOWER: Duration = Duration::from_millis(150);
    let mut now = Instant::now();
    let mut transfer = start(now, 100 * 512, &[]);
    let mut sent = blocks(&mut transfer).len();
    for block in 1..=40 {
        let answered_at = if block <= 20 { now } else { now + SLOWER };
        while let Some(deadline) = transfer.poll_timeout().filter(|deadline| *deadline < answered_at) {
            transfer.handle_timeout(deadline);
            sent += blocks(&mut transfer).len();
        }
        now = answered_at;
        transfer.handle_packet(now, &ack(block));
        sent += blocks(&mut transfer).len();
    }
    assert!((41..=43).contains(&sent), "{sent} packets for 41 blocks");
}

/// A client that is gone held its place for three of the timeouts that it had asked for.
#[test]
fn silence_has_one_end_whatever_was_negotiated() {
    for timeout in ["1", "11", "12", "60", "255"] {
        let begin = Instant::now();
        let mut transfer = start(begin, 5000, &[("blksize", "1468"), ("timeout", timeout)]);
        drain(&mut transfer);
        transfer.handle_packet(begin, &ack(0));
        drain(&mut transfer);
        let (mut now, mut repeats) = (begin, 0);
        while let Some(deadline) = transfer.poll_timeout() {
            now = deadline;
            transfer.handle_timeout(now);
            repeats += usize::from(!blocks(&mut transfer).is_empty());
        }
        assert_eq!(now - begin, SILENCE_MAX, "timeout {timeout}");
        assert!(repeats >= 3, "timeout {timeout}: {repeats} repeats");
    }
}

/// What was asked for is agreed on by an answer: until then nothing shows that there is a client.
#[test]
fn without_an_answer_no_timeout_is_agreed_on() {
    let begin = Instant::now();
    let mut transfer = start(begin, 5000, &[("timeout", "2")]);
    let mut now = begin;
    while let Some(deadline) = transfer.poll_timeout() {
        drain(&mut transfer);
        now = deadline;
        transfer.handle_timeout(now);
    }
    assert_eq!(now - begin, Duration::from_secs(1 + 2 + 4 + 4));
}

#[test]
fn a_clients_error_ends_the_transfer_with_its_words() {
    let now = Instant::now();
    let mut transfer = start(now, 5000, &[]);
    drain(&mut transfer);
    transfer.handle_packet(now, b"\0\x05\0\x03no\x1b[31m space\0");
    let reason = FailReason::Aborted("Disk Full: no?[31m space".into());
    let failed = TransferEvent::Failed { client: client(1), file: "a".into(), bytes_acknowledged: 0, reason };
    assert_eq!(drain(&mut transfer).events, [failed]);
    transfer.handle_packet(now, &ack(1));
    assert_eq!(drain(&mut transfer).packets, [[]; 0]);
}

mod listener {
    use super::*;

    fn ask(listener: &mut TftpListener, now: Instant, from: SocketAddr, packet: &[u8]) -> TftpRequestOutcome {
        ask_as(listener, now, from, &[], packet)
    }

    fn ask_as(
        listener: &mut TftpListener,
        now: Instant,
        from: SocketAddr,
        hosts: &[&str],
        packet: &[u8],
    ) -> TftpRequestOutcome {
        let hosts: Vec<Arc<str>> = hosts.iter().map(|host| Arc::from(*host)).collect();
        listener.handle_packet(now, from, &hosts, packet, |_, path| (path == "a").then(|| file(10)))
    }

    /// Starts a transfer whose client has answered.
    fn answered(listener: &mut TftpListener, now: Instant, from: SocketAddr, hosts: &[&str]) {
        match ask_as(listener, now, from, hosts, &rrq("a", &[])) {
            TftpRequestOutcome::Start { mut transfer, .. } => {
                drain(&mut transfer);
                transfer.handle_packet(now, &ack(0));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn refusals_say_why() {
        let mut listener = TftpListener::new(TftpLimits::default());
        let now = Instant::now();
        for (packet, text) in [
            (rrq("b", &[]), "no such file here"),
            (rrq("../a", &[]), "not a usable file name"),
            (b"\0\x02a\0octet\0".to_vec(), "this server is read-only"),
            (b"\0\x01a\0netascii\0".to_vec(), "only mode octet is served"),
        ] {
            match ask(&mut listener, now, client(1), &packet) {
                TftpRequestOutcome::Refuse { packet, event: TransferEvent::Refused { reason, .. } } => {
                    assert_eq!(reason, text);
                    assert_eq!(&packet[4..packet.len() - 1], text.as_bytes());
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(
            ask(&mut listener, now, client(1), b"\0\x04\0\0"),
            TftpRequestOutcome::Ignore(IgnoreReason::Noise)
        ));
        assert_eq!(listener.transfers(), 0);
    }

    /// ROMs use one port for ever: a machine that was reset must not be held up by its own past.
    #[test]
    fn a_repeat_is_ignored_and_a_new_start_replaces_the_old_transfer() {
        let mut listener = TftpListener::new(TftpLimits::default());
        let now = Instant::now();
        let TftpRequestOutcome::Start { id: first, replaces: None, .. } =
            ask(&mut listener, now, client(1), &rrq("a", &[]))
        else {
            panic!("not started");
        };
        let soon = now + Duration::from_secs(1);
        assert!(matches!(
            ask(&mut listener, soon, client(1), &rrq("a", &[])),
            TftpRequestOutcome::Ignore(IgnoreReason::Repeat)
        ));
        let later = now + Duration::from_secs(10);
        match ask(&mut listener, later, client(1), &rrq("a", &[])) {
            TftpRequestOutcome::Start { id, replaces, .. } => {
                assert_eq!(replaces, Some(first));
                assert_ne!(id, first);
                listener.handle_end(first);
                assert_eq!(listener.transfers(), 1);
                listener.handle_end(id);
                assert_eq!(listener.transfers(), 0);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn transfers_are_bounded_per_client_and_in_all() {
        let limits = TftpLimits { transfers_max: 3, transfers_per_client_max: 2, ..TftpLimits::default() };
        let mut listener = TftpListener::new(limits);
        let now = Instant::now();
        let other = |n: u8| SocketAddr::from((Ipv4Addr::new(10, 0, 0, n), 1));
        let request = rrq("a", &[]);
        answered(&mut listener, now, client(1), &[]);
        answered(&mut listener, now, client(2), &[]);
        assert!(matches!(ask(&mut listener, now, client(3), &request), TftpRequestOutcome::Refuse { .. }));
        answered(&mut listener, now, other(1), &[]);
        assert!(matches!(ask(&mut listener, now, other(2), &request), TftpRequestOutcome::Refuse { .. }));
    }

    /// 512 requests with a long timeout refused everybody for two minutes.
    #[test]
    fn strangers_that_answer_leave_a_quarter_to_known_hosts() {
        let limits = TftpLimits { transfers_max: 8, transfers_per_client_max: 2, ..TftpLimits::default() };
        let mut listener = TftpListener::new(limits);
        let now = Instant::now();
        let other = |n: u8| SocketAddr::from((Ipv4Addr::new(10, 0, 0, n), 1));
        (1..=6).for_each(|number| answered(&mut listener, now, other(number), &[]));
        let request = rrq("a", &[]);
        assert!(matches!(ask(&mut listener, now, other(7), &request), TftpRequestOutcome::Refuse { .. }));
        answered(&mut listener, now, other(100), &["a host"]);
        answered(&mut listener, now, other(101), &["another"]);
        assert!(matches!(
            ask_as(&mut listener, now, other(102), &["third"], &request),
            TftpRequestOutcome::Refuse { .. }
        ));
        assert_eq!(listener.transfers(), 8);
    }

    /// A machine that forges addresses cannot answer for them.
    #[test]
    fn a_transfer_without_an_answer_makes_room_for_the_next_request() {
        let limits = TftpLimits { transfers_max: 3, ..TftpLimits::default() };
        let mut listener = TftpListener::new(limits);
        let now = Instant::now();
        let other = |n: u8| SocketAddr::from((Ipv4Addr::new(10, 0, 0, n), 1));
        answered(&mut listener, now, other(1), &[]);
        let request = rrq("a", &[("timeout", "11"), ("blksize", "1468")]);
        let second = now + Duration::from_secs(1);
        let TftpRequestOutcome::Start { id: forged, replaces: None, .. } =
            ask(&mut listener, second, other(2), &request)
        else {
            panic!("not started");
        };
        answered(&mut listener, second, other(3), &[]);
        match ask(&mut listener, second, other(4), &request) {
            TftpRequestOutcome::Start { replaces, .. } => assert_eq!(replaces, Some(forged)),
            other => panic!("{other:?}"),
        }
        assert_eq!(listener.transfers(), 3);
        // The client that was sent away asks again, and is no repeat.
        assert!(matches!(ask(&mut listener, second, other(2), &request), TftpRequestOutcome::Start { .. }));
    }

    #[test]
    fn a_flood_from_one_address_is_met_with_silence_and_others_are_served() {
        let mut listener = TftpListener::new(TftpLimits::default());
        let now = Instant::now();
        let request = rrq("b", &[]);
        let answered = (0..1000u16)
            .filter(|port| !matches!(ask(&mut listener, now, client(*port), &request), TftpRequestOutcome::Ignore(_)))
            .count();
        assert_eq!(answered, 32);
        let other = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 10), 1));
        assert!(matches!(ask(&mut listener, now, other, &rrq("a", &[])), TftpRequestOutcome::Start { .. }));
        let later = now + Duration::from_secs(1);
        let answered = (0..1000u16)
            .filter(|port| !matches!(ask(&mut listener, later, client(*port), &request), TftpRequestOutcome::Ignore(_)))
            .count();
        assert_eq!(answered, 4, "four intervals have passed");
    }
}

/// A client as RFC 1350 and 7440 describe it, behind a link that loses, repeats and delays.
struct Model {
    window: u64,
    blksize: usize,
    received: Vec<u8>,
    /// Last block in order.
    block: u64,
    in_window: u64,
    is_done: bool,
    last_ack: Option<Vec<u8>>,
    deadline: Instant,
}

impl Model {
    const PATIENCE: Duration = Duration::from_secs(1);

    fn handle(&mut self, now: Instant, packet: &[u8]) -> Option<Vec<u8>> {
        match packet[1] {
            6 if self.block == 0 => self.answer(now, 0),
            3 => {
                let number = u16::from_be_bytes([packet[2], packet[3]]);
                if number == (self.block + 1) as u16 {
                    self.block += 1;
                    self.in_window += 1;
                    self.received.extend(&packet[4..]);
                    self.is_done = packet.len() - 4 < self.blksize;
                    self.deadline = now + Self::PATIENCE;
                    (self.is_done || self.in_window == self.window).then(|| self.answer(now, self.block)).flatten()
                } else if number == self.block as u16
                    || (self.window > 1 && number.wrapping_sub(self.block as u16) < 0x8000)
                {
                    self.answer(now, self.block)
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    fn answer(&mut self, now: Instant, block: u64) -> Option<Vec<u8>> {
        self.in_window = 0;
        self.deadline = now + Self::PATIENCE;
        self.last_ack = Some(ack(block as u16));
        self.last_ack.clone()
    }

    fn handle_timeout(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.deadline = now + Self::PATIENCE;
        self.in_window = 0;
        self.last_ack.clone()
    }
}

/// Takes from `faults` in a circle: 0 loses, 1 repeats, 2 delays past the next, the rest passes.
struct Link {
    faults: Vec<u8>,
    position: usize,
    queue: VecDeque<Vec<u8>>,
    held: Option<Vec<u8>>,
}

impl Link {
    fn new(faults: &[u8]) -> Self {
        Self { faults: faults.to_vec(), position: 0, queue: VecDeque::new(), held: None }
    }

    fn push(&mut self, packet: Vec<u8>) {
        let fault = self.faults.get(self.position % self.faults.len().max(1)).copied().unwrap_or(9);
        self.position += 1;
        match fault {
            0 => {}
            1 => self.queue.extend([packet.clone(), packet]),
            2 => {
                let before = self.held.replace(packet);
                self.queue.extend(before);
                return;
            }
            _ => self.queue.push_back(packet),
        }
        self.queue.extend(self.held.take());
    }
}

/// Runs both ends until the server is over; the file as the client has it, and how many packets the server sent.
fn run(file_bytes: usize, options: &[(&str, &str)], down: &[u8], up: &[u8]) -> (Model, Vec<TransferEvent>, u64) {
    let mut now = Instant::now();
    let mut transfer = start(now, file_bytes, options);
    let option =
        |name: &str| options.iter().find(|(key, _)| *key == name).map(|(_, value)| value.parse::<usize>().unwrap());
    let mut model = Model {
        window: option("windowsize").map_or(1, |window| window.min(64)) as u64,
        blksize: option("blksize").map_or(512, |blksize| blksize.min(1468)),
        received: Vec::new(),
        block: 0,
        in_window: 0,
        is_done: false,
        last_ack: None,
        deadline: now + Model::PATIENCE,
    };
    let (mut down, mut up) = (Link::new(down), Link::new(up));
    let (mut events, mut sent) = (Vec::new(), 0);
    for _ in 0..200_000 {
        let drained = drain(&mut transfer);
        sent += drained.packets.len() as u64;
        drained.packets.into_iter().for_each(|packet| down.push(packet));
        events.extend(drained.events);
        now += Duration::from_micros(50);
        if let Some(packet) = down.queue.pop_front() {
            model.handle(now, &packet).into_iter().for_each(|answer| up.push(answer));
        } else if let Some(packet) = up.queue.pop_front() {
            transfer.handle_packet(now, &packet);
        } else if let Some(deadline) = transfer.poll_timeout() {
            if model.deadline < deadline && !model.is_done {
                now = now.max(model.deadline);
                model.handle_timeout(now).into_iter().for_each(|answer| up.push(answer));
            } else {
                now = now.max(deadline);
                transfer.handle_timeout(now);
            }
        } else {
            return (model, events, sent);
        }
    }
    panic!("no end");
}

fn options_strategy() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let blksize = prop::option::of(prop::sample::select(vec!["8", "100", "512", "1468", "65464"]));
    let window = prop::option::of(prop::sample::select(vec!["1", "2", "7", "32", "64", "65535"]));
    let timeout = prop::option::of(prop::sample::select(vec!["1", "2"]));
    (blksize, window, timeout, any::<bool>()).prop_map(|(blksize, window, timeout, tsize)| {
        [("blksize", blksize), ("windowsize", window), ("timeout", timeout), ("tsize", tsize.then_some("0"))]
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name, value)))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_clean_link_carries_every_file_without_a_repeat(bytes in 0usize..6000, options in options_strategy()) {
        let (model, events, sent) = run(bytes, &options, &[], &[]);
        prop_assert_eq!(&model.received[..], &file(bytes)[..]);
        let is_offered = u64::from(!options.is_empty());
        prop_assert_eq!(sent, (bytes / model.blksize) as u64 + 1 + is_offered);
        let is_finished = matches!(events.last(), Some(TransferEvent::Finished { resent: 0, .. }));
        prop_assert!(is_finished, "{:?}", events);
    }

    #[test]
    fn a_bad_link_changes_no_byte(
        bytes in 0usize..6000,
        options in options_strategy(),
        down in prop::collection::vec(0u8..8, 3..40),
        up in prop::collection::vec(0u8..8, 3..40),
    ) {
        // A link that loses everything for long proves nothing about bytes.
        prop_assume!(down.iter().filter(|fault| **fault > 2).count() * 2 > down.len());
        prop_assume!(up.iter().filter(|fault| **fault > 2).count() * 2 > up.len());
        let (model, events, sent) = run(bytes, &options, &down, &up);
        prop_assert_eq!(&model.received[..], &file(bytes)[..model.received.len()], "in order and whole so far");
        match events.last() {
            Some(TransferEvent::Finished { .. }) => prop_assert_eq!(model.received.len(), bytes),
            // The very last ACK may be lost for good: the client has the file and is gone.
            Some(TransferEvent::Failed { reason: FailReason::Silent, .. }) => {}
            other => prop_assert!(false, "{:?}", other),
        }
        let blocks = (bytes / model.blksize) as u64 + 1;
        prop_assert!(sent <= (blocks + 2) * 10 * model.window.min(blocks) + 100, "{} packets for {} blocks", sent, blocks);
    }
}
