//! A BMC with IPMI 2.0 over LAN and a memory, for tests of whatever drives one.
//!
//! [`FakeIpmi::answer`] is pure: a datagram in, datagrams out, from a state that tests read and change;
//! [`FakeIpmi::serve`] puts it behind a socket. [`IpmiFault`]s are those of real BMCs and of the way to them.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firesteel_bmc::{
    BmcCredentials,
    ipmi::{
        command::{ANSWER, BootFlags, ChassisControl, completion, number},
        fru,
        packet::{self, DATAGRAM_BYTES_MAX, IpmiFrame, IpmiMessage, payload},
        sol,
        suite::{IpmiSessionKeys, Numbers, SessionRandom, Suite, is_same},
    },
};
use tokio::net::UdpSocket;

/// Between two sayings of what was not acknowledged.
const SAY_AGAIN: Duration = Duration::from_millis(20);

/// How a BMC, or the way to it, may misbehave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpmiFault {
    /// Nothing is heard of it.
    Silent,
    /// Of so many datagrams each way, one is lost.
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
    /// Somebody else listens to it.
    pub is_serial_taken: bool,
    /// Sessions and set-ups that there is room for.
    pub places_max: usize,
    /// Power controls that were taken.
    pub controls: Vec<u8>,
    /// Set-ups that were begun.
    pub opened: u32,
    /// In the order in which they were opened.
    sessions: Vec<FakeIpmiSession>,
    random: SessionRandom,
    datagrams: usize,
    /// Repetitions that are still on their way.
    late: Vec<Vec<u8>>,
    listener: Option<FakeSolListener>,
}

/// Who listens to the serial port.
#[derive(Debug)]
struct FakeSolListener {
    /// The BMC's number of the session.
    session: u32,
    /// Of the last packet, 1 to 15.
    number: u8,
    /// What was said and not acknowledged.
    open: Option<Vec<u8>>,
    /// The BMC ends it.
    is_ending: bool,
}

#[derive(Debug)]
struct FakeIpmiSession {
    numbers: Numbers,
    keys: Option<IpmiSessionKeys>,
    is_active: bool,
    sequence: u32,
    /// The last request and its answer: a repetition is not done again.
    answered: Option<(IpmiMessage, Vec<u8>)>,
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

    /// As after a restart of the BMC.
    pub fn forget_sessions(&mut self) {
        self.sessions.clear();
        self.listener = None;
    }

    /// Whether anybody listens to the serial port.
    #[must_use]
    pub fn is_listened_to(&self) -> bool {
        self.listener.is_some()
    }

    fn listens(&self, session: u32) -> bool {
        self.listener.as_ref().is_some_and(|listener| listener.session == session)
    }

    /// Takes the serial port from who listens.
    pub fn end_console(&mut self) {
        if let Some(listener) = &mut self.listener {
            listener.is_ending = true;
        }
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

    /// What the serial port says to who listens, again as long as it is not acknowledged.
    fn next_console_packet(&mut self) -> Option<Vec<u8>> {
        let listener = self.listener.as_mut()?;
        let id = listener.session;
        let text = if listener.is_ending {
            self.listener = None;
            vec![0, 0, 0, 0x10]
        } else {
            if listener.open.is_none() {
                listener.open = Some(self.serial.as_mut()?.pop_front()?);
                listener.number = listener.number % 15 + 1;
            }
            sol::packet(listener.number, listener.open.as_deref()?)
        };
        let iv = self.random.draw();
        let session = self.session(&id.to_le_bytes())?;
        session.sequence += 1;
        let keys = session.keys.as_ref()?;
        Some(packet::sealed_console(&text, keys, session.numbers.console_id, session.sequence, iv))
    }

    fn acknowledged(&mut self, id: u32, datagram: &[u8]) -> Option<()> {
        let keys = self.session(&id.to_le_bytes())?.keys.clone()?;
        let payload = packet::open_console(datagram, &keys).ok()?;
        let listener = self.listener.as_mut().filter(|listener| listener.session == id)?;
        let is_whole =
            listener.open.as_ref().is_some_and(|open| payload.get(2).copied().map(usize::from) == Some(open.len()));
        if payload.get(1) == Some(&listener.number) && is_whole {
            listener.open = None;
        }
        Some(())
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

    fn capabilities(&mut self, request: &IpmiMessage) -> Vec<u8> {
        if (request.function, request.command) != (0x06, number::AUTHENTICATION_CAPABILITIES) {
            return vec![completion::INVALID_COMMAND];
        }
        let (types, extended) = if self.has(&IpmiFault::OldVersion) { (0x04, 0x01) } else { (0x80, 0x03) };
        let status = if self.has(&IpmiFault::BmcKey) { 0x24 } else { 0x04 };
        vec![completion::DONE, 1, types, status, extended, 0, 0, 0, 0]
    }

    fn open(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let text: &[u8; 32] = text.first_chunk()?;
        let refuse = |status: u8| {
            Some(packet::encode_plain(payload::OPEN_ANSWER, &[&[text[0], status, 0, 0], &text[4..8]].concat()))
        };
        for fault in &self.faults {
            if let IpmiFault::RefusesSession(status) = fault {
                return refuse(*status);
            }
        }
        if self.sessions.len() >= self.places_max {
            return refuse(0x01);
        }
        let wanted = [text[12], text[20], text[28]];
        let known = self.suites.iter().copied().find(|suite| suite.algorithms() == wanted);
        let chosen = self.suites.first().copied().filter(|_| self.has(&IpmiFault::ChoosesSuite));
        let Some(suite) = known.or(chosen) else { return refuse(0x11) };
        self.opened += 1;
        let bmc_id = 0x1000 + self.opened;
        let numbers = Numbers {
            suite,
            console_id: u32::from_le_bytes([text[4], text[5], text[6], text[7]]),
            bmc_id,
            console_random: [0; 16],
            bmc_random: self.random.draw(),
            bmc_guid: self.guid,
            role: 0,
            name: Vec::new(),
        };
        self.sessions.push(FakeIpmiSession { numbers, keys: None, is_active: false, sequence: 0, answered: None });
        let mut algorithms = text[8..].to_vec();
        for (at, number) in [4, 12, 20].into_iter().zip(suite.algorithms()) {
            algorithms[at] = number;
        }
        let text = [&[text[0], 0, 4, 0], &text[4..8], &bmc_id.to_le_bytes(), &algorithms];
        Some(packet::encode_plain(payload::OPEN_ANSWER, &text.concat()))
    }

    fn session(&mut self, id: &[u8]) -> Option<&mut FakeIpmiSession> {
        let id = u32::from_le_bytes(id.try_into().ok()?);
        self.sessions.iter_mut().find(|session| session.numbers.bmc_id == id)
    }

    fn rakp1(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let (head, name) = text.split_first_chunk::<28>()?;
        let refuse = |status: u8| Some(packet::encode_plain(payload::RAKP_2, &[head[0], status, 0, 0, 0, 0, 0, 0]));
        let BmcCredentials { username, password } = self.credentials.clone();
        let Some(session) = self.session(&head[4..8]) else { return refuse(0x02) };
        let numbers = &mut session.numbers;
        numbers.console_random.copy_from_slice(&head[8..24]);
        numbers.role = head[24];
        numbers.name = name.get(..usize::from(head[27]))?.to_vec();
        if numbers.name != username.as_bytes() {
            let id = numbers.bmc_id;
            self.sessions.retain(|session| session.numbers.bmc_id != id);
            return refuse(0x0d);
        }
        let text = [
            &[head[0], 0, 0, 0][..],
            &numbers.console_id.to_le_bytes(),
            &numbers.bmc_random,
            &numbers.bmc_guid,
            &numbers.rakp2(password.as_bytes()),
        ];
        Some(packet::encode_plain(payload::RAKP_2, &text.concat()))
    }

    fn rakp3(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let (head, code) = text.split_first_chunk::<8>()?;
        let refuse = |status: u8| Some(packet::encode_plain(payload::RAKP_4, &[head[0], status, 0, 0, 0, 0, 0, 0]));
        let password = self.credentials.password.clone();
        if let Some(at) = self.faults.iter().position(|fault| *fault == IpmiFault::ForgetsSetUp) {
            self.faults.remove(at);
            self.forget_sessions();
        }
        let Some(session) = self.session(&head[4..8]) else { return refuse(0x02) };
        let numbers = &session.numbers;
        // The other side has found this one's proof wrong.
        if head[1] != 0 || !is_same(&numbers.rakp3(password.as_bytes()), code) {
            let id = numbers.bmc_id;
            self.sessions.retain(|session| session.numbers.bmc_id != id);
            return if head[1] != 0 { None } else { refuse(0x0f) };
        }
        let (keys, rakp4) = numbers.keys(password.as_bytes());
        let text = [&[head[0], 0, 0, 0][..], &numbers.console_id.to_le_bytes(), &rakp4].concat();
        session.keys = Some(keys);
        session.is_active = true;
        Some(packet::encode_plain(payload::RAKP_4, &text))
    }

    fn in_session(&mut self, id: u32, datagram: &[u8]) -> Option<Vec<u8>> {
        let session = self.session(&id.to_le_bytes())?;
        let keys = session.keys.clone()?;
        let request = IpmiMessage::read(&packet::open(datagram, &keys).ok()?).ok()?;
        let known = session.answered.as_ref().filter(|(message, _)| *message == request).map(|(_, data)| data.clone());
        let data = known.unwrap_or_else(|| self.perform(&request));
        let iv = self.random.draw();
        let is_forged = self.has(&IpmiFault::Forged);
        let is_close = (request.function, request.command) == (0x06, number::CLOSE_SESSION);
        if data[0] == completion::DONE {
            match (request.function, request.command) {
                (0x06, number::ACTIVATE_PAYLOAD) => {
                    self.listener = Some(FakeSolListener { session: id, number: 0, open: None, is_ending: false });
                }
                (0x06, number::DEACTIVATE_PAYLOAD) => self.listener = None,
                (0x06, number::CLOSE_SESSION) if self.listens(id) => self.listener = None,
                _ => {}
            }
        }
        let session = self.session(&id.to_le_bytes())?;
        session.sequence += 1;
        let message = answer_to(&request, &data).write();
        let mut wire = packet::sealed(&message, &keys, session.numbers.console_id, session.sequence, iv);
        session.answered = Some((request, data));
        if is_close {
            self.sessions.retain(|session| session.numbers.bmc_id != id);
        }
        if let Some(last) = wire.last_mut().filter(|_| is_forged) {
            *last ^= 1;
        }
        Some(wire)
    }

    /// A completion code and data.
    fn perform(&mut self, request: &IpmiMessage) -> Vec<u8> {
        self.requests.push((request.function, request.command));
        for fault in &mut self.faults {
            if let IpmiFault::Completes(function, command, code) = fault
                && (*function, *command) == (request.function, request.command)
            {
                return vec![*code];
            }
            if let IpmiFault::Busy(times) = fault
                && *times > 0
            {
                *times -= 1;
                return vec![completion::NODE_BUSY];
            }
        }
        let done = |data: &[u8]| [&[completion::DONE], data].concat();
        match (request.function, request.command, &request.data[..]) {
            (0x06, number::DEVICE_ID, _) => done(&[0x20, 1, 9, 8, 2, 0, 0, 0, 0, 0, 0]),
            (0x06, number::SYSTEM_GUID, _) => done(&self.guid),
            (0x06, number::SET_PRIVILEGE, [level]) => {
                if self.has(&IpmiFault::OperatorOnly) && *level > 3 {
                    vec![0x81]
                } else {
                    done(&[*level])
                }
            }
            (0x06, number::CLOSE_SESSION, _) => done(&[]),
            (0x06, number::ACTIVATE_PAYLOAD, [1, 1, ..]) if self.serial.is_some() => match self.listener {
                Some(_) => vec![0x80],
                None if self.is_serial_taken => vec![0x80],
                None => done(&[0, 0, 0, 0, 0xff, 0, 0xff, 0, 0x6f, 0x02, 0xff, 0xff]),
            },
            (0x06, number::DEACTIVATE_PAYLOAD, [1, 1, ..]) if self.serial.is_some() => done(&[]),
            (0x00, number::CHASSIS_STATUS, _) => done(&[0x60 | u8::from(self.is_on), 0, 0]),
            (0x00, number::CHASSIS_CONTROL, [control]) => self.control(*control),
            (0x00, number::SET_BOOT_OPTIONS, [5, flags @ ..]) => {
                if !self.has(&IpmiFault::ForgetsBoot) {
                    self.boot_flags = *flags.first_chunk().unwrap_or(&self.boot_flags);
                    if self.has(&IpmiFault::NeverValid) {
                        self.boot_flags[0] &= 0x7f;
                    }
                }
                done(&[])
            }
            (0x00, number::SET_BOOT_OPTIONS, [3, bits, ..]) if !self.has(&IpmiFault::ClearsFlags) => {
                self.flags_life = *bits;
                done(&[])
            }
            (0x00, number::GET_BOOT_OPTIONS, [3, ..]) => done(&[1, 3, self.flags_life]),
            (0x00, number::SET_BOOT_OPTIONS, [0 | 4, ..]) => done(&[]),
            (0x00, number::SET_BOOT_OPTIONS, _) => vec![0x80],
            (0x00, number::GET_BOOT_OPTIONS, [5, ..]) => done(&[&[1, 5][..], &self.boot_flags].concat()),
            (0x0a, number::FRU_AREA, _) => {
                let [low, high] = u16::try_from(self.inventory.len()).unwrap_or(u16::MAX).to_le_bytes();
                done(&[low, high, 0])
            }
            (0x0a, number::READ_FRU, [0, low, high, count]) => self.read_fru(u16::from_le_bytes([*low, *high]), *count),
            _ => vec![completion::INVALID_COMMAND],
        }
    }

    fn control(&mut self, code: u8) -> Vec<u8> {
        let Some(control) = ChassisControl::ALL.into_iter().find(|control| control.code() == code) else {
            return vec![completion::INVALID_FIELD];
        };
        let is_on = match control {
            ChassisControl::Cycle | ChassisControl::Reset if !self.is_on => return vec![0xd5],
            ChassisControl::On | ChassisControl::Cycle | ChassisControl::Reset => true,
            ChassisControl::Off | ChassisControl::Soft => false,
        };
        self.controls.push(code);
        if !self.has(&IpmiFault::IgnoresPower) {
            self.is_on = is_on;
            let flags = BootFlags::read(&[&[1, 5][..], &self.boot_flags].concat());
            // Flags for one boot are used up by it.
            if is_on && flags.is_some_and(|flags| !flags.is_persistent) {
                self.boot_flags = [0; 5];
            }
        }
        vec![completion::DONE]
    }

    fn read_fru(&self, offset: u16, count: u8) -> Vec<u8> {
        if count > self.fru_bytes_max {
            return vec![completion::CANNOT_RETURN_SO_MUCH];
        }
        let Some(rest) = self.inventory.get(usize::from(offset)..) else { return vec![0xc9] };
        let bytes = &rest[..rest.len().min(count.into())];
        [&[completion::DONE, u8::try_from(bytes.len()).unwrap_or(u8::MAX)], bytes].concat()
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
