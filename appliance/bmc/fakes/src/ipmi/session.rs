//! Sessions of the fake BMC: their set-up by RAKP, and sealed packets in them.

use firesteel_bmc::BmcCredentials;
use firesteel_bmc::ipmi::command::{completion, number};
use firesteel_bmc::ipmi::packet::{self, IpmiMessage, payload};
use firesteel_bmc::ipmi::suite::{IpmiSessionKeys, Numbers, is_same};

use super::{FakeIpmiState, FakeSolListener, IpmiFault, answer_to};

#[derive(Debug)]
pub(super) struct FakeIpmiSession {
    pub(super) numbers: Numbers,
    pub(super) keys: Option<IpmiSessionKeys>,
    pub(super) is_active: bool,
    pub(super) sequence: u32,
    /// The last request and its answer: a repetition is not done again.
    answered: Option<(IpmiMessage, Vec<u8>)>,
}

impl FakeIpmiState {
    pub(super) fn open(&mut self, text: &[u8]) -> Option<Vec<u8>> {
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

    pub(super) fn session(&mut self, id: &[u8]) -> Option<&mut FakeIpmiSession> {
        let id = u32::from_le_bytes(id.try_into().ok()?);
        self.sessions.iter_mut().find(|session| session.numbers.bmc_id == id)
    }

    pub(super) fn rakp1(&mut self, text: &[u8]) -> Option<Vec<u8>> {
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

    pub(super) fn rakp3(&mut self, text: &[u8]) -> Option<Vec<u8>> {
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

    pub(super) fn in_session(&mut self, id: u32, datagram: &[u8]) -> Option<Vec<u8>> {
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
                    self.listener = Some(FakeSolListener::new(id));
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
}
