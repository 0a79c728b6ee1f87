//! A session with one BMC, without socket, clock and randomness: all three are handed in.
//!
//! ```text
//! Capabilities ─► Open (suite 17, then 3) ─► Rakp1 ─► Rakp3 ─► Privilege ─► Idle ◄─► Asking
//!       │              │       ▲    └───────────┴─ stale numbers: once more     │
//!       └──────────────┴───────┴── no answer, a refusal: Failed ─► Ended        └─► KeepAlive, Closing ─► Ended
//! ```
//!
//! After each call of [`IpmiEngine::receive`], [`IpmiEngine::wake`], [`IpmiEngine::ask`] or [`IpmiEngine::close`] drain
//! [`IpmiEngine::transmit`], look at [`IpmiEngine::take_event`], and sleep until [`IpmiEngine::wake_at`]. Times are
//! those since any moment before the engine was made.
//!
//! One request is under way at a time. What is not answered is sent again after 1, 2 and 4 s, with the
//! same number in the message and the next one in the session, so that a BMC can tell a repetition
//! from another request (section 6.12.8); a BMC that says that it is busy is asked again likewise.

mod console;
mod receive;
mod setup;
mod window;

use std::collections::VecDeque;
use std::time::Duration;

use super::Privilege;
use super::command::{self, IpmiCommand, IpmiReply};
use super::packet::{self, Bad, IpmiMessage};
use super::sol::Console;
use super::suite::{IpmiSessionKeys, Numbers, SessionRandom, Suite};
use super::{PASSWORD_BYTES_MAX, USER_NAME_BYTES_MAX};
use crate::BmcCredentials;
use crate::error::Error;
use IpmiSessionStage as Stage;
use window::Window;

pub use console::HEARD_BYTES_MAX;

/// Waits after each sending; after the last one it is given up. 15 s in all.
pub const WAITS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];
/// BMCs end a session that is quiet for a minute (section 6.12.15); two lost packets may lie between.
pub const KEEP_ALIVE: Duration = Duration::from_secs(25);
/// Waits for the answer to a close, which is not waited for long: a session that is not closed ends by itself.
const CLOSE_WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(500)];
/// Bit of RAKP's role: the user is found by name, whatever the user's level.
const BY_NAME: u8 = 0x10;

/// What has happened.
#[derive(Debug)]
pub enum IpmiSessionEvent {
    /// The session stands.
    Opened,
    Answered(IpmiReply),
    /// A failure of a request, after which the session goes on, or of the set-up, which has ended.
    Failed(Error),
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IpmiSessionStage {
    Capabilities,
    Open,
    Rakp1,
    Rakp3,
    Privilege,
    Idle,
    Asking,
    KeepAlive,
    Closing,
    Ended,
}

/// What awaits an answer.
struct PendingIpmiRequest {
    what: &'static str,
    packet: SentPacket,
    /// Times that it was sent.
    sends: usize,
    due: Duration,
}

enum SentPacket {
    Plain(Vec<u8>),
    /// A message that is sealed again for each sending.
    Sealed(IpmiMessage),
}

pub struct IpmiEngine {
    credentials: BmcCredentials,
    privilege: Privilege,
    random: SessionRandom,
    stage: IpmiSessionStage,
    numbers: Numbers,
    keys: Option<IpmiSessionKeys>,
    /// RAKP 4's code as it has to be.
    rakp4: Vec<u8>,
    /// A RAKP 2 came that another password has made. One that is right may be on its way: the first one may be forged.
    is_doubted: bool,
    restarts: u32,
    /// Tag of the last message of the set-up.
    tag: u8,
    /// Number of the last request, below 64.
    request: u8,
    /// Number of the last packet in the session.
    sequence: u32,
    seen: Window,
    pending: Option<PendingIpmiRequest>,
    outbox: VecDeque<Vec<u8>>,
    event: Option<IpmiSessionEvent>,
    last_sent: Duration,
    /// State of the serial port, while it is listened to.
    console: Option<Console>,
    /// What it said, the newest of it.
    heard: VecDeque<u8>,
    /// Some of it was not heard, or had to make room.
    is_lossy: bool,
    /// Why the last datagram was not taken, since the last sending that was answered.
    discarded: Option<Bad>,
}

impl std::fmt::Debug for IpmiEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IpmiEngine").field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl IpmiEngine {
    /// Begins the set-up: the first datagram is there to be sent.
    ///
    /// # Errors
    /// When IPMI has no room for this name or password.
    pub fn new(
        credentials: &BmcCredentials,
        privilege: Privilege,
        mut random: SessionRandom,
        now: Duration,
    ) -> Result<Self, Error> {
        for (what, text, most) in [
            ("user name", &credentials.username, USER_NAME_BYTES_MAX),
            ("password", &credentials.password, PASSWORD_BYTES_MAX),
        ] {
            if text.len() > most || text.contains('\0') {
                let detail = format!("a {what} of {} bytes; it has at most {most}", text.len());
                return Err(Error::UnfitLogin { detail });
            }
        }
        let [tag, request, ..] = random.draw();
        let numbers = Numbers {
            suite: Suite::ALL[0],
            console_id: 0,
            bmc_id: 0,
            console_random: [0; 16],
            bmc_random: [0; 16],
            bmc_guid: [0; 16],
            role: BY_NAME | privilege.level(),
            name: credentials.username.as_bytes().to_vec(),
        };
        let mut engine = Self {
            credentials: credentials.clone(),
            privilege,
            random,
            stage: Stage::Capabilities,
            numbers,
            keys: None,
            rakp4: Vec::new(),
            is_doubted: false,
            restarts: 0,
            tag,
            request: request & 0x3f,
            sequence: 0,
            seen: Window::default(),
            pending: None,
            outbox: VecDeque::new(),
            event: None,
            last_sent: now,
            console: None,
            heard: VecDeque::new(),
            is_lossy: false,
            discarded: None,
        };
        let request = command::authentication_capabilities(privilege);
        let message = engine.message(&request);
        engine.begin(request.what, SentPacket::Plain(packet::bare(&message.write())), now);
        Ok(engine)
    }

    /// The next datagram to send.
    pub fn transmit(&mut self) -> Option<Vec<u8>> {
        self.outbox.pop_front()
    }

    pub fn take_event(&mut self) -> Option<IpmiSessionEvent> {
        self.event.take()
    }

    /// When [`IpmiEngine::wake`] has something to do; none when the session has ended.
    #[must_use]
    pub fn wake_at(&self) -> Option<Duration> {
        match (&self.pending, self.stage) {
            (Some(pending), _) => Some(pending.due),
            (None, Stage::Idle) => Some(self.last_sent + KEEP_ALIVE),
            (None, _) => None,
        }
    }

    /// The cipher suite that the session has, or that was offered last.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.numbers.suite
    }

    /// The session stands, and nothing is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Asks; whatever was under way is forgotten. Without a session it fails at once.
    pub fn ask(&mut self, request: &IpmiCommand, now: Duration) {
        if !self.is_open() {
            self.fail(Error::Timeout { what: request.what.to_owned() });
            return;
        }
        self.stage = Stage::Asking;
        let message = self.message(request);
        self.begin(request.what, SentPacket::Sealed(message), now);
    }

    /// Ends the session, politely where there is one.
    pub fn close(&mut self, now: Duration) {
        if !self.is_open() {
            self.end(IpmiSessionEvent::Closed);
            return;
        }
        let request = command::close_session(self.numbers.bmc_id);
        self.stage = Stage::Closing;
        let message = self.message(&request);
        self.begin(request.what, SentPacket::Sealed(message), now);
    }

    /// Time has passed.
    pub fn wake(&mut self, now: Duration) {
        if self.wake_at().is_none_or(|at| now < at) {
            return;
        }
        if self.stage == Stage::Rakp1 && self.is_doubted {
            self.disown();
            return;
        }
        let waits = if self.stage == Stage::Closing { &CLOSE_WAITS[..] } else { &WAITS[..] };
        match self.pending.as_mut() {
            Some(pending) => match waits.get(pending.sends) {
                Some(wait) => {
                    pending.due = now + *wait;
                    self.send(now);
                }
                None => self.give_up(now),
            },
            None => {
                let request = command::device_id();
                self.stage = Stage::KeepAlive;
                let message = self.message(&request);
                self.begin(request.what, SentPacket::Sealed(message), now);
            }
        }
    }

    /// A datagram from the BMC. What is not the awaited answer is left, whatever it says: anybody can
    /// send datagrams in a BMC's name.
    pub fn receive(&mut self, datagram: &[u8], now: Duration) {
        if let Err(why) = self.take(datagram, now) {
            self.discarded = Some(why);
        }
    }

    /// Nothing usable came.
    fn give_up(&mut self, now: Duration) {
        let what = self.pending.take().map_or("a request", |pending| pending.what).to_owned();
        let error = match self.discarded.take() {
            Some(why) => Error::BadAnswer { what, detail: why.to_owned() },
            None if self.stage == Stage::Capabilities => {
                Error::Unreachable { detail: "no answer to IPMI over LAN".to_owned() }
            }
            None => Error::Timeout { what },
        };
        let stage = self.stage;
        match stage {
            // Some do not answer at all where they do not know an algorithm.
            Stage::Open if matches!(error, Error::Timeout { .. }) && self.try_next_suite(now) => {}
            Stage::Asking => {
                self.stage = Stage::Idle;
                self.fail(error);
            }
            Stage::KeepAlive => self.stage = Stage::Ended,
            Stage::Closing => self.end(IpmiSessionEvent::Closed),
            Stage::Capabilities
            | Stage::Open
            | Stage::Rakp1
            | Stage::Rakp3
            | Stage::Privilege
            | Stage::Idle
            | Stage::Ended => self.end(IpmiSessionEvent::Failed(error)),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Idle | Stage::Asking | Stage::KeepAlive)
    }

    fn end(&mut self, event: IpmiSessionEvent) {
        self.stage = Stage::Ended;
        self.pending = None;
        self.keys = None;
        self.console = None;
        self.event = Some(event);
    }

    fn fail(&mut self, error: Error) {
        self.event = Some(IpmiSessionEvent::Failed(error));
    }

    fn message(&mut self, request: &IpmiCommand) -> IpmiMessage {
        self.request = (self.request + 1) & 0x3f;
        IpmiMessage {
            to: packet::BMC,
            function: request.function,
            from: packet::CONSOLE,
            sequence: self.request,
            command: request.command,
            data: request.data.clone(),
        }
    }

    fn begin(&mut self, what: &'static str, packet: SentPacket, now: Duration) {
        let wait = if self.stage == Stage::Closing { CLOSE_WAITS[0] } else { WAITS[0] };
        self.discarded = None;
        self.pending = Some(PendingIpmiRequest { what, packet, sends: 0, due: now + wait });
        self.send(now);
    }

    fn send(&mut self, now: Duration) {
        let Some(pending) = self.pending.as_mut() else { return };
        pending.sends += 1;
        self.last_sent = now;
        let datagram = match (&pending.packet, &self.keys) {
            (SentPacket::Plain(datagram), _) => datagram.clone(),
            (SentPacket::Sealed(message), Some(keys)) => {
                // Zero is for packets outside a session.
                self.sequence = self.sequence.wrapping_add(1).max(1);
                let (session, iv) = (self.numbers.bmc_id, self.random.draw());
                packet::sealed(&message.write(), keys, session, self.sequence, iv)
            }
            (SentPacket::Sealed(_), None) => return,
        };
        self.outbox.push_back(datagram);
    }
}
