//! A BMC with IPMI 2.0 over LAN and a memory, for tests of whatever drives one.
//!
//! [`FakeIpmi::answer`] is pure: a datagram in, datagrams out, from a state that tests read and change;
//! [`FakeIpmi::serve`] puts it behind a socket. [`IpmiFault`]s are those of real BMCs and of the way to them.

mod command;
mod serial;
mod session;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firesteel_bmc::BmcCredentials;
use firesteel_bmc::ipmi::command::ANSWER;
use firesteel_bmc::ipmi::fru;
use firesteel_bmc::ipmi::packet::{self, DATAGRAM_BYTES_MAX, IpmiFrame, IpmiMessage, payload};
use firesteel_bmc::ipmi::suite::{SessionRandom, Suite};
use tokio::net::UdpSocket;

use serial::FakeSolListener;
use session::FakeIpmiSession;

/// Pause before output that was not acknowledged is repeated.
const SAY_AGAIN: Duration = Duration::from_millis(20);

/// How a BMC, or the way to it, may misbehave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpmiFault {
    /// Nothing is heard of it.
    Silent,
    /// One datagram in so many is lost, each way.
    Loses(usize),
    /// Each answer comes twice, the second one after the answer to the next request.
    Repeats,
    /// Each datagram is preceded by its own beginning, and by itself with a bit turned.
    Malformed,
    /// Nothing in a session can be trusted: all integrity codes are wrong.
    Forged,
    /// Open Session ends with this status.
    RefusesSession(u8),
    /// Takes what it has in place of what it was offered, and says so: virtualbmc.
    ChoosesSuite,
    /// Speaks 1.5 alone.
    OldVersion,
    /// Wants a key of the BMC besides the password.
    BmcKey,
    /// Forgets what it knows of a set-up before RAKP 3, once.
    ForgetsSetUp,
    /// The user may be an operator at most.
    OperatorOnly,
    /// Says so many times that it is busy.
    Busy(usize),
    /// Answers this command of this function with this completion code.
    Completes(u8, u8, u8),
    /// Takes power controls and does nothing.
    IgnoresPower,
    /// Takes boot flags and forgets them.
    ForgetsBoot,
    /// Keeps boot flags, and does not mark them valid: ipmi_sim and virtualbmc.
    NeverValid,
    /// Does not know what keeps the timer of a minute from clearing boot flags.
    ClearsFlags,
}

/// What a test reads and changes.
#[derive(Debug)]
pub struct FakeIpmiState {
    pub credentials: BmcCredentials,
    pub suites: Vec<Suite>,
    pub is_on: bool,
    pub boot_flags: [u8; 5],
    /// What clears them (parameter 3); bit 3 keeps the timer from it.
    pub flags_life: u8,
    pub guid: [u8; 16],
    pub inventory: Vec<u8>,
    /// Most bytes of the inventory in one answer.
    pub fru_bytes_max: u8,
    pub faults: Vec<IpmiFault>,
    /// `function command` of each request that was taken, in order.
    pub requests: Vec<(u8, u8)>,
    /// What the serial port has to say, a packet each, where it can be listened to.
    pub serial: Option<VecDeque<Vec<u8>>>,
    /// Another client listens to it.
    pub is_serial_taken: bool,
    /// Sessions and set-ups that there is room for.
    pub places_max: usize,
    /// Power controls that were taken.
    pub controls: Vec<u8>,
    /// Set-ups that were begun.
    pub opened: u32,
    /// Sessions in the order in which they were opened.
    sessions: Vec<FakeIpmiSession>,
    random: SessionRandom,
    datagrams: usize,
    /// Repetitions that are still on their way.
    late: Vec<Vec<u8>>,
    listener: Option<FakeSolListener>,
}

/// A handle; clones share one state.
#[derive(Clone, Debug)]
pub struct FakeIpmi(Arc<Mutex<FakeIpmiState>>);

impl FakeIpmi {
    /// A system that is off. The same seed gives the same bytes.
    #[must_use]
    pub fn new(credentials: BmcCredentials, seed: u8) -> Self {
        let mut random = SessionRandom::from_seed(&[seed; 32]);
        let mut guid = random.draw();
        // Of version 4, in SMBIOS' order; no other order makes a UUID of it.
        (guid[6], guid[7], guid[8], guid[9]) = (0xf0, 0x4f, 0x80, 0xf0);
        Self(Arc::new(Mutex::new(FakeIpmiState {
            credentials,
            suites: Suite::ALL.to_vec(),
            is_on: false,
            boot_flags: [0; 5],
            flags_life: 0,
            guid,
            inventory: fru::with_product("Firesteel", "Fake BMC", "FAKE-1"),
            fru_bytes_max: 32,
            faults: Vec::new(),
            requests: Vec::new(),
            serial: None,
            is_serial_taken: false,
            places_max: usize::MAX,
            controls: Vec::new(),
            opened: 0,
            sessions: Vec::new(),
            random,
            datagrams: 0,
            late: Vec::new(),
            listener: None,
        })))
    }

    /// The state, locked: do not hold it across a request.
    pub fn state(&self) -> MutexGuard<'_, FakeIpmiState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub fn answer(&self, datagram: &[u8]) -> Vec<Vec<u8>> {
        self.state().answer(datagram)
    }

    /// Answers on `socket`, and says unasked what the serial port says, until the task is dropped.
    pub async fn serve(self, socket: UdpSocket) {
        let mut buffer = [0; DATAGRAM_BYTES_MAX + 1];
        // From where each session was last heard of.
        let mut places: HashMap<u32, SocketAddr> = HashMap::new();
        let mut pause = tokio::time::interval(SAY_AGAIN);
        loop {
            let out: Vec<(Vec<u8>, SocketAddr)> = tokio::select! {
                received = socket.recv_from(&mut buffer) => {
                    let Ok((length, from)) = received else { return };
                    let datagram = &buffer[..length];
                    if let Ok(IpmiFrame::Sealed { session, .. } | IpmiFrame::Console { session, .. }) =
                        packet::frame(datagram)
                    {
                        places.insert(session, from);
                    }
                    self.answer(datagram).into_iter().map(|answer| (answer, from)).collect()
                }
                _ = pause.tick() => {
                    let mut state = self.state();
                    let to = state.listener.as_ref().and_then(|listener| places.get(&listener.session).copied());
                    let said = if state.has(&IpmiFault::Silent) { None } else { state.next_console_packet() };
                    said.zip(to).into_iter().collect()
                }
            };
            for (datagram, to) in out {
                if let Err(error) = socket.send_to(&datagram, to).await {
                    tracing::debug!(%error, "the fake BMC cannot answer");
                }
            }
        }
    }
}

impl FakeIpmiState {
    fn has(&self, fault: &IpmiFault) -> bool {
        self.faults.contains(fault)
    }

    /// Sessions that stand.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.iter().filter(|session| session.is_active).count()
    }

    /// Sessions, and set-ups that may become some.
    #[must_use]
    pub fn places(&self) -> usize {
        self.sessions.len()
    }

    /// Drops all sessions, as a restart of the BMC does.
    pub fn forget_sessions(&mut self) {
        self.sessions.clear();
        self.listener = None;
    }

    fn is_lost(&mut self) -> bool {
        self.datagrams += 1;
        let datagrams = self.datagrams;
        self.faults.iter().any(|fault| matches!(fault, IpmiFault::Loses(of) if datagrams.is_multiple_of(*of)))
    }

    fn answer(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
        if self.has(&IpmiFault::Silent) || self.is_lost() {
            return Vec::new();
        }
        let answer = self.respond(datagram);
        let is_listener = match packet::frame(datagram) {
            Ok(IpmiFrame::Sealed { session, .. } | IpmiFrame::Console { session, .. }) => self.listens(session),
            Ok(IpmiFrame::Bare { .. } | IpmiFrame::Plain { .. }) | Err(_) => false,
        };
        let said = if is_listener { self.next_console_packet() } else { None };
        let Some(answer) = answer else { return said.into_iter().collect() };
        if self.is_lost() {
            return Vec::new();
        }
        let mut answers = Vec::new();
        if self.has(&IpmiFault::Malformed) {
            let mut turned = answer.clone();
            let at = turned.len() - 3;
            turned[at] ^= 0x10;
            answers.extend([answer[..answer.len() / 2].to_vec(), Vec::new(), vec![0xff; 2000], turned]);
        }
        answers.push(answer.clone());
        if self.has(&IpmiFault::Repeats) {
            answers.append(&mut self.late);
            self.late.push(answer);
        }
        answers.extend(said);
        answers
    }

    fn respond(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        match packet::frame(datagram).ok()? {
            IpmiFrame::Bare { message } => {
                let request = IpmiMessage::read(message).ok()?;
                let data = self.capabilities(&request);
                Some(packet::bare(&answer_to(&request, &data).write()))
            }
            IpmiFrame::Plain { payload_type: payload::OPEN_REQUEST, payload } => self.open(payload),
            IpmiFrame::Plain { payload_type: payload::RAKP_1, payload } => self.rakp1(payload),
            IpmiFrame::Plain { payload_type: payload::RAKP_3, payload } => self.rakp3(payload),
            IpmiFrame::Plain { .. } => None,
            IpmiFrame::Sealed { session, .. } => self.in_session(session, datagram),
            IpmiFrame::Console { session, .. } => {
                self.acknowledged(session, datagram);
                None
            }
        }
    }
}

fn answer_to(request: &IpmiMessage, data: &[u8]) -> IpmiMessage {
    IpmiMessage {
        to: request.from,
        function: request.function | ANSWER,
        from: request.to,
        data: data.to_vec(),
        ..*request
    }
}
