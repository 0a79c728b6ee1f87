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

mod setup;
mod window;

use std::collections::VecDeque;
use std::time::Duration;

use super::Privilege;
use super::command::{self, ANSWER, IpmiCommand, IpmiReply, completion};
use super::packet::{self, Bad, IpmiFrame, IpmiMessage, payload};
use super::sol::Console;
use super::suite::{IpmiSessionKeys, Numbers, SessionRandom, Suite};
use super::{PASSWORD_BYTES_MAX, USER_NAME_BYTES_MAX};
use crate::BmcCredentials;
use crate::error::Error;
use window::Window;

/// Waits after each sending; after the last one it is given up. 15 s in all.
pub const WAITS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];
/// BMCs end a session that is quiet for a minute (section 6.12.15); two lost packets may lie between.
pub const KEEP_ALIVE: Duration = Duration::from_secs(25);
/// Nobody waits long for a good-bye: a session that is not closed ends by itself.
const CLOSE_WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(500)];
/// Of a serial port that nobody reads, as much is kept as a screen of a few pages.
pub const HEARD_BYTES_MAX: usize = 16 * 1024;
/// In RAKP's role: the user is found by name, whatever his level.
const BY_NAME: u8 = 0x10;

/// What has happened.
#[derive(Debug)]
pub enum IpmiSessionEvent {
    /// The session stands.
    Opened,
    Answered(IpmiReply),
    /// Of a request: the session goes on. Of the set-up: it has ended.
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
    /// Sealed anew each time.
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
    /// Of the last message of the set-up.
    tag: u8,
    /// Of the last request, below 64.
    request: u8,
    /// Of the last packet in the session.
    sequence: u32,
    seen: Window,
    pending: Option<PendingIpmiRequest>,
    outbox: VecDeque<Vec<u8>>,
    event: Option<IpmiSessionEvent>,
    last_sent: Duration,
    /// While a serial port is listened to.
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
            stage: IpmiSessionStage::Capabilities,
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
            (None, IpmiSessionStage::Idle) => Some(self.last_sent + KEEP_ALIVE),
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
        self.stage == IpmiSessionStage::Idle
    }

    /// Asks; whatever was under way is forgotten. Without a session it fails at once.
    pub fn ask(&mut self, request: &IpmiCommand, now: Duration) {
        if !self.is_open() {
            self.fail(Error::Timeout { what: request.what.to_owned() });
            return;
        }
        self.stage = IpmiSessionStage::Asking;
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
        self.stage = IpmiSessionStage::Closing;
        let message = self.message(&request);
        self.begin(request.what, SentPacket::Sealed(message), now);
    }

    /// From now on the host's serial port is heard: the BMC has been asked for it, and has agreed. What came since is not
    /// lost, the BMC says it again.
    pub fn listen(&mut self) {
        self.console = Some(Console::default());
    }

    /// From now on it is not heard any more.
    pub fn stop_listening(&mut self) {
        self.console = None;
    }

    /// The host's serial port is heard, and the session stands in which it is.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.console.is_some() && self.is_open()
    }

    /// What the serial port has said since the last call, at most [`HEARD_BYTES_MAX`] of it.
    pub fn take_console_data(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.heard).into()
    }

    /// Whether the serial port has said more since the last call than was heard.
    pub fn take_loss(&mut self) -> bool {
        std::mem::take(&mut self.is_lossy)
    }

    /// Time has passed.
    pub fn wake(&mut self, now: Duration) {
        if self.wake_at().is_none_or(|at| now < at) {
            return;
        }
        if self.stage == IpmiSessionStage::Rakp1 && self.is_doubted {
            self.disown();
            return;
        }
        let waits = if self.stage == IpmiSessionStage::Closing { &CLOSE_WAITS[..] } else { &WAITS[..] };
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
                self.stage = IpmiSessionStage::KeepAlive;
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

    fn take(&mut self, datagram: &[u8], now: Duration) -> Result<(), Bad> {
        match (packet::frame(datagram)?, self.stage) {
            (IpmiFrame::Bare { message }, IpmiSessionStage::Capabilities) => {
                let reply = self.reply_in(&IpmiMessage::read(message)?)?;
                self.on_capabilities(reply, now)
            }
            (IpmiFrame::Plain { payload_type: payload::OPEN_ANSWER, payload }, IpmiSessionStage::Open) => {
                self.on_open(payload, now)
            }
            (IpmiFrame::Plain { payload_type: payload::RAKP_2, payload }, IpmiSessionStage::Rakp1) => {
                self.on_rakp2(payload, now)
            }
            (IpmiFrame::Plain { payload_type: payload::RAKP_4, payload }, IpmiSessionStage::Rakp3) => {
                self.on_rakp4(payload, now)
            }
            (IpmiFrame::Sealed { session, sequence }, _) => {
                let Some(keys) = &self.keys else { return Err("it is of a session that is not open") };
                if session != self.numbers.console_id {
                    return Err("it is of another session");
                }
                let message = IpmiMessage::read(&packet::open(datagram, keys)?)?;
                if !self.seen.admit(sequence) {
                    return Err("it came before");
                }
                let reply = self.reply_in(&message)?;
                self.on_reply(reply, now);
                Ok(())
            }
            (IpmiFrame::Console { session, sequence }, _) => self.on_console(datagram, session, sequence),
            (IpmiFrame::Bare { .. } | IpmiFrame::Plain { .. }, _) => Err("it is nothing that was asked for"),
        }
    }

    fn on_console(&mut self, datagram: &[u8], session: u32, sequence: u32) -> Result<(), Bad> {
        let (Some(keys), Some(console)) = (&self.keys, &mut self.console) else {
            return Err("no serial port is listened to");
        };
        if session != self.numbers.console_id {
            return Err("it is of another session");
        }
        let payload = packet::open_console(datagram, keys)?;
        if !self.seen.admit(sequence) {
            return Err("it came before");
        }
        let heard = console.take(&payload)?;
        if let Some(answer) = heard.answer {
            self.sequence = self.sequence.wrapping_add(1).max(1);
            let (to, iv) = (self.numbers.bmc_id, self.random.draw());
            self.outbox.push_back(packet::sealed_console(&answer, keys, to, self.sequence, iv));
        }
        self.heard.extend(heard.characters);
        let excess = self.heard.len().saturating_sub(HEARD_BYTES_MAX);
        self.heard.drain(..excess);
        self.is_lossy |= heard.is_lossy || excess > 0;
        if heard.has_ended {
            self.console = None;
        }
        Ok(())
    }

    /// The answer to what is under way.
    fn reply_in(&self, message: &IpmiMessage) -> Result<IpmiReply, Bad> {
        let awaited = match self.pending.as_ref().map(|pending| &pending.packet) {
            Some(SentPacket::Sealed(request)) => (request.function, request.command),
            Some(SentPacket::Plain(_)) if self.stage == IpmiSessionStage::Capabilities => {
                let request = command::authentication_capabilities(self.privilege);
                (request.function, request.command)
            }
            Some(SentPacket::Plain(_)) | None => return Err("nothing was asked"),
        };
        let is_awaited =
            (message.function, message.command) == (awaited.0 | ANSWER, awaited.1) && message.sequence == self.request;
        let [completion, data @ ..] = &message.data[..] else { return Err("its message is cut off") };
        if !is_awaited {
            return Err("it answers another request");
        }
        Ok(IpmiReply { completion: *completion, data: data.to_vec() })
    }

    fn on_reply(&mut self, reply: IpmiReply, now: Duration) {
        if reply.completion == completion::NODE_BUSY
            && self.stage != IpmiSessionStage::Closing
            && let Some(pending) = self.pending.as_ref()
            && let Some(wait) = WAITS.get(pending.sends - 1).filter(|_| pending.sends < WAITS.len())
        {
            // Asked anew, not again: this one has been answered.
            let due = now + *wait;
            self.request = (self.request + 1) & 0x3f;
            let number = self.request;
            if let Some(pending) = self.pending.as_mut() {
                pending.due = due;
                if let SentPacket::Sealed(message) = &mut pending.packet {
                    message.sequence = number;
                }
            }
            return;
        }
        self.pending = None;
        self.discarded = None;
        match self.stage {
            IpmiSessionStage::Privilege => match (reply.completion, reply.data.first()) {
                // Some grant less than was asked for, and say so.
                (completion::DONE, level) if level.is_none_or(|level| level & 0x0f >= self.privilege.level()) => {
                    self.stage = IpmiSessionStage::Idle;
                    self.event = Some(IpmiSessionEvent::Opened);
                }
                _ => {
                    let (level, code) = (self.privilege.as_str(), reply.completion);
                    let message = format!("be {level}, completion code {code:#04x}; bmc.address may ask for less");
                    self.event = Some(IpmiSessionEvent::Failed(Error::Forbidden { message }));
                    // The session is there: whoever made the engine closes it.
                    self.stage = IpmiSessionStage::Idle;
                }
            },
            IpmiSessionStage::Closing => self.end(IpmiSessionEvent::Closed),
            IpmiSessionStage::KeepAlive => self.stage = IpmiSessionStage::Idle,
            IpmiSessionStage::Asking => {
                self.stage = IpmiSessionStage::Idle;
                self.event = Some(IpmiSessionEvent::Answered(reply));
            }
            IpmiSessionStage::Capabilities
            | IpmiSessionStage::Open
            | IpmiSessionStage::Rakp1
            | IpmiSessionStage::Rakp3
            | IpmiSessionStage::Idle
            | IpmiSessionStage::Ended => {}
        }
    }

    /// Nothing usable came.
    fn give_up(&mut self, now: Duration) {
        let what = self.pending.take().map_or("a request", |pending| pending.what).to_owned();
        let error = match self.discarded.take() {
            Some(why) => Error::BadAnswer { what, detail: why.to_owned() },
            None if self.stage == IpmiSessionStage::Capabilities => {
                Error::Unreachable { detail: "no answer to IPMI over LAN".to_owned() }
            }
            None => Error::Timeout { what },
        };
        let stage = self.stage;
        match stage {
            // Some do not answer at all where they do not know an algorithm.
            IpmiSessionStage::Open if matches!(error, Error::Timeout { .. }) && self.try_next_suite(now) => {}
            IpmiSessionStage::Asking => {
                self.stage = IpmiSessionStage::Idle;
                self.fail(error);
            }
            IpmiSessionStage::KeepAlive => self.stage = IpmiSessionStage::Ended,
            IpmiSessionStage::Closing => self.end(IpmiSessionEvent::Closed),
            IpmiSessionStage::Capabilities
            | IpmiSessionStage::Open
            | IpmiSessionStage::Rakp1
            | IpmiSessionStage::Rakp3
            | IpmiSessionStage::Privilege
            | IpmiSessionStage::Idle
            | IpmiSessionStage::Ended => self.end(IpmiSessionEvent::Failed(error)),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, IpmiSessionStage::Idle | IpmiSessionStage::Asking | IpmiSessionStage::KeepAlive)
    }

    fn end(&mut self, event: IpmiSessionEvent) {
        self.stage = IpmiSessionStage::Ended;
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
        let wait = if self.stage == IpmiSessionStage::Closing { CLOSE_WAITS[0] } else { WAITS[0] };
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
