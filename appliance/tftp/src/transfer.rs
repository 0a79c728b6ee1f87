//! One file on its way to one client: acknowledgements, windows, retransmission.
//!
//! ```text
//!            options usable              ACK 0                     last block acknowledged
//! request ──► Offering (OACK sent) ──────► Sending (DATA n..n+w) ──► Over: Finished
//!        └────────────────────────────────► │ no options             ▲
//!             ERROR while offering: Probed ─┼─ ERROR, no answer ─────┘ Failed
//! ```
//!
//! Blocks are counted in 64 bits from 1; on the wire the number wraps from 65535 to 0, as every
//! client in use expects (RFC 2349 knows no other way for large files). An acknowledgement counts if it lies
//! within what was sent since the last one; everything else is old and ignored.
//!
//! *Duplicates.* In lockstep a repeated ACK never makes a block be sent again (the "Sorcerer's
//! Apprentice" of RFC 1123 section 4.2.3.1); only the timer does. With windows a repeated ACK is
//! how a client says that the window's first block is missing (RFC 7440 section 4), so it restarts the window, once for each
//! block number: duplicated datagrams cannot multiply.
//!
//! *Before the client has answered once* it may be another machine, whose address was put into the request:
//! it gets at most one small packet and a few repeats, at our own times, and its place goes to who needs it. A negotiated
//! timeout holds from the first answer on; one that is too long is not negotiated, and our own times go on.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::wire::{self, BLKSIZE_DEFAULT, Negotiated, TftpReadRequest, TftpReply};

/// First retransmission before a round trip was measured (RFC 6298's initial value).
const RESEND_FIRST: Duration = Duration::from_secs(1);
/// Never sooner than this: ROMs pause for tens of milliseconds while they draw or erase. Each block that is lost costs a
/// client in lockstep so much time, on the fastest link too.
const RESEND_MIN: Duration = Duration::from_millis(100);
/// Doubling ends here, so that a client behind a port that comes back is served soon.
const RESEND_MAX: Duration = Duration::from_secs(4);
/// The client is gone that acknowledges nothing new for this long, whatever was negotiated. A switch that
/// recomputes its spanning tree takes up to 30 seconds.
pub const SILENCE_MAX: Duration = Duration::from_secs(35);
/// Repeats towards an address that has not answered yet.
const UNCONFIRMED_REPEATS_MAX: u32 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferEvent {
    /// The client took the options (or asked for none) and gets data from now on.
    Started {
        client: SocketAddr,
        file: String,
        bytes: u64,
    },
    /// The client acknowledged the last block. `resent` counts blocks that were sent more than once.
    Finished {
        client: SocketAddr,
        file: String,
        bytes: u64,
        ms: u64,
        resent: u64,
    },
    /// The client asked for the size only, as ROMs do before they fetch: no failure.
    Probed {
        client: SocketAddr,
        file: String,
        bytes: u64,
    },
    Failed {
        client: SocketAddr,
        file: String,
        bytes_acknowledged: u64,
        reason: FailReason,
    },
    /// No transfer began.
    Refused {
        client: SocketAddr,
        file: Option<String>,
        reason: &'static str,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailReason {
    /// The client stopped acknowledging.
    Silent,
    /// The client ended the transfer, with these words (printable characters only).
    Aborted(String),
}

#[derive(Debug, PartialEq, Eq)]
pub enum TransferOutput<'a> {
    /// A packet to the client, from this transfer's own port; valid until the next call.
    Send(&'a [u8]),
    Event(TransferEvent),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferPhase {
    Offering,
    Sending,
    Over,
}

#[derive(Debug)]
pub struct Transfer {
    client: SocketAddr,
    path: String,
    file: Bytes,
    negotiated: Negotiated,
    phase: TransferPhase,
    /// Has answered at least once; its listener looks at it, too.
    is_confirmed: Arc<AtomicBool>,
    /// Highest block that the client acknowledged.
    acked: u64,
    /// Next block to send.
    next: u64,
    /// Highest block sent so far.
    sent: u64,
    resent: u64,
    /// A repeated ACK of `acked` has restarted the window already.
    is_restarted: bool,
    timer: Timer,
    started: Instant,
    /// OACK or ERROR to be sent before anything else.
    control: Option<Vec<u8>>,
    events: VecDeque<TransferEvent>,
    packet: Vec<u8>,
}

impl Transfer {
    pub(crate) fn new(
        now: Instant,
        client: SocketAddr,
        request: TftpReadRequest,
        file: Bytes,
        blksize_max: u16,
    ) -> Self {
        let negotiated = request.options.negotiate(file.len() as u64, blksize_max);
        let mut transfer = Self {
            client,
            path: request.path,
            file,
            negotiated,
            phase: if negotiated.is_empty() { TransferPhase::Sending } else { TransferPhase::Offering },
            is_confirmed: Arc::default(),
            acked: 0,
            next: 1,
            sent: 0,
            resent: 0,
            is_restarted: false,
            timer: Timer::new(now),
            started: now,
            control: None,
            events: VecDeque::new(),
            packet: Vec::new(),
        };
        match transfer.phase {
            TransferPhase::Offering => transfer.control = Some(wire::oack(&negotiated)),
            TransferPhase::Sending | TransferPhase::Over => transfer.announce_start(),
        }
        transfer
    }

    /// Whether the client has answered, now and later.
    pub(crate) fn confirmation(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_confirmed)
    }

    fn is_confirmed(&self) -> bool {
        self.is_confirmed.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn client(&self) -> SocketAddr {
        self.client
    }

    #[must_use]
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Nothing more will come out, and the transfer's socket can be closed. Drain `poll_output` first.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == TransferPhase::Over && self.control.is_none() && self.events.is_empty()
    }

    /// A datagram from the client, and from no other one: the socket is connected to it.
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        if self.phase == TransferPhase::Over {
            return;
        }
        match wire::parse_reply(packet) {
            TftpReply::Ack(block) => self.handle_ack(now, block),
            TftpReply::Abort(_) if self.phase == TransferPhase::Offering => {
                self.end(TransferEvent::Probed {
                    client: self.client,
                    file: self.path.clone(),
                    bytes: self.file.len() as u64,
                });
            }
            TftpReply::Abort(text) => self.fail(FailReason::Aborted(text)),
            TftpReply::Noise => {}
        }
    }

    /// Acts on the time of [`Transfer::poll_timeout`]; called too early it does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.phase == TransferPhase::Over || now < self.timer.deadline() {
            return;
        }
        let is_unanswered = !self.is_confirmed() && self.timer.repeats >= UNCONFIRMED_REPEATS_MAX;
        if is_unanswered || self.timer.is_silent(now) {
            self.control = Some(wire::gave_up());
            self.fail(FailReason::Silent);
            return;
        }
        self.timer.repeat(now);
        match self.phase {
            TransferPhase::Offering => self.control = Some(wire::oack(&self.negotiated)),
            TransferPhase::Sending => self.next = self.acked + 1,
            TransferPhase::Over => {}
        }
    }

    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.phase != TransferPhase::Over).then(|| self.timer.deadline())
    }

    pub fn poll_output(&mut self) -> Option<TransferOutput<'_>> {
        if let Some(event) = self.events.pop_front() {
            return Some(TransferOutput::Event(event));
        }
        if let Some(control) = self.control.take() {
            self.packet = control;
            return Some(TransferOutput::Send(&self.packet));
        }
        let window_end = (self.acked + self.window()).min(self.blocks());
        if self.phase != TransferPhase::Sending || self.next > window_end {
            return None;
        }
        let block = self.next;
        self.next += 1;
        if block <= self.sent {
            self.resent += 1;
        }
        self.sent = self.sent.max(block);
        let range = self.range(block);
        wire::write_data(block_on_wire(block), &self.file[range], &mut self.packet);
        Some(TransferOutput::Send(&self.packet))
    }

    fn handle_ack(&mut self, now: Instant, number: u16) {
        if self.phase == TransferPhase::Offering {
            if number == 0 {
                self.is_confirmed.store(true, Ordering::Relaxed);
                self.phase = TransferPhase::Sending;
                self.timer.agree(self.negotiated.timeout_s);
                self.timer.progress(now);
                self.announce_start();
            }
            return;
        }
        // Windows are far below 65536 blocks, so the number has one meaning.
        let block = self.acked + u64::from(number.wrapping_sub(block_on_wire(self.acked)));
        if block > self.sent {
            return;
        }
        self.is_confirmed.store(true, Ordering::Relaxed);
        if block == self.acked {
            if self.window() > 1 && !self.is_restarted {
                self.is_restarted = true;
                self.next = self.acked + 1;
            }
            return;
        }
        self.acked = block;
        self.next = block + 1;
        self.is_restarted = false;
        self.timer.progress(now);
        if block == self.blocks() {
            self.end(TransferEvent::Finished {
                client: self.client,
                file: self.path.clone(),
                bytes: self.file.len() as u64,
                ms: u64::try_from(now.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX),
                resent: self.resent,
            });
        }
    }

    fn announce_start(&mut self) {
        let event =
            TransferEvent::Started { client: self.client, file: self.path.clone(), bytes: self.file.len() as u64 };
        self.events.push_back(event);
    }

    fn fail(&mut self, reason: FailReason) {
        let bytes_acknowledged = self.acked.saturating_mul(self.blksize() as u64).min(self.file.len() as u64);
        self.end(TransferEvent::Failed { client: self.client, file: self.path.clone(), bytes_acknowledged, reason });
    }

    fn end(&mut self, event: TransferEvent) {
        self.phase = TransferPhase::Over;
        self.events.push_back(event);
    }

    fn blksize(&self) -> usize {
        usize::from(self.negotiated.blksize.unwrap_or(BLKSIZE_DEFAULT))
    }

    fn window(&self) -> u64 {
        u64::from(self.negotiated.windowsize.unwrap_or(1))
    }

    /// The last block is shorter than the others, and empty where the file is a multiple of them.
    fn blocks(&self) -> u64 {
        (self.file.len() / self.blksize()) as u64 + 1
    }

    fn range(&self, block: u64) -> std::ops::Range<usize> {
        let length = self.file.len();
        let start = usize::try_from(block - 1).unwrap_or(length).saturating_mul(self.blksize()).min(length);
        start..start.saturating_add(self.blksize()).min(length)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the number on the wire wraps")]
fn block_on_wire(block: u64) -> u16 {
    block as u16
}

/// When to send again, and when to give up.
///
/// With a negotiated timeout that value holds (RFC 2349); otherwise the interval follows the
/// measured round trips as TCP's does (RFC 6298), because on a LAN a fixed second per lost block is most of the time.
#[derive(Debug)]
struct Timer {
    agreed: Option<Duration>,
    smoothed: Option<(Duration, Duration)>,
    /// Repeats since the last progress.
    repeats: u32,
    /// How often the interval is doubled. Other than the repeats it lasts until a round trip is measured (RFC 6298
    /// section 5): else a link that became slower would get each block twice without end, and none be measured.
    doublings: u32,
    /// When the last packet that was no repeat became due.
    sent_at: Instant,
    progress_at: Instant,
    resend_at: Instant,
}

impl Timer {
    fn new(now: Instant) -> Self {
        let mut timer = Self {
            agreed: None,
            smoothed: None,
            repeats: 0,
            doublings: 0,
            sent_at: now,
            progress_at: now,
            resend_at: now,
        };
        timer.resend_at = now + timer.interval();
        timer
    }

    fn agree(&mut self, timeout_s: Option<u8>) {
        self.agreed = timeout_s.map(|seconds| Duration::from_secs(seconds.into()));
    }

    fn interval(&self) -> Duration {
        if let Some(agreed) = self.agreed {
            return agreed;
        }
        let base = match self.smoothed {
            None => RESEND_FIRST,
            Some((mean, deviation)) => (mean + 4 * deviation).clamp(RESEND_MIN, RESEND_MAX),
        };
        base.saturating_mul(1 << self.doublings.min(8)).min(RESEND_MAX)
    }

    fn progress(&mut self, now: Instant) {
        // An answer after a repeat may belong to either packet, and measures nothing (Karn).
        if self.repeats == 0 {
            let sample = now.saturating_duration_since(self.sent_at);
            self.smoothed = Some(match self.smoothed {
                None => (sample, sample / 2),
                Some((mean, deviation)) => ((mean * 7 + sample) / 8, (deviation * 3 + mean.abs_diff(sample)) / 4),
            });
            self.doublings = 0;
        }
        self.repeats = 0;
        self.sent_at = now;
        self.progress_at = now;
        self.resend_at = now + self.interval();
    }

    fn repeat(&mut self, now: Instant) {
        self.repeats += 1;
        self.doublings += 1;
        self.resend_at = now + self.interval();
    }

    fn is_silent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.progress_at) >= SILENCE_MAX
    }

    fn deadline(&self) -> Instant {
        self.resend_at.min(self.progress_at + SILENCE_MAX)
    }
}
