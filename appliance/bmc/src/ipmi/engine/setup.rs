//! The set-up of a session: from the first question to a level of privilege.

use std::time::Duration;

use super::{IpmiEngine, IpmiSessionEvent, IpmiSessionStage as Stage, SentPacket, Window};
use crate::error::Error;
use crate::ipmi::command::{self, AuthCapabilities, IpmiReply};
use crate::ipmi::packet::{self, Bad, payload};
use crate::ipmi::suite::{Suite, is_same};

/// Set-ups that begin again because the BMC has forgotten the numbers of the last one.
const RESTARTS_MAX: u32 = 2;

mod rakp {
    pub(super) const DONE: u8 = 0x00;
    pub(super) const WRONG_CODE: u8 = 0x0f;
}

impl IpmiEngine {
    pub(super) fn on_capabilities(&mut self, reply: IpmiReply, now: Duration) -> Result<(), Bad> {
        let data = match reply.accepted("its ways of authentication") {
            Ok(data) => data,
            Err(error) => {
                self.end(IpmiSessionEvent::Failed(error));
                return Ok(());
            }
        };
        let seen = AuthCapabilities::read(&data).ok_or("it does not say how to log in")?;
        let lacking = if !seen.speaks_v20 {
            Some("speak IPMI 2.0 (RMCP+) here")
        } else if seen.wants_bmc_key {
            Some("be used with a BMC key (Kg): clear it, the password alone is known here")
        } else {
            None
        };
        match lacking {
            Some(what) => self.end(IpmiSessionEvent::Failed(Error::Unsupported { what: what.to_owned() })),
            None => self.start(now),
        }
        Ok(())
    }

    /// Open Session with the suite that is in turn.
    pub(super) fn start(&mut self, now: Duration) {
        let [a, b, c, d, ..] = self.random.draw();
        // Zero says "outside a session".
        self.numbers.console_id = u32::from_le_bytes([a, b, c, d]).max(1);
        self.numbers.console_random = self.random.draw();
        let [authentication, integrity, confidentiality] = self.numbers.suite.algorithms();
        let algorithm = |kind: u8, number: u8| [kind, 0, 0, 8, number, 0, 0, 0];
        let tag = self.next_tag();
        let text = [
            &[tag, self.privilege.level(), 0, 0][..],
            &self.numbers.console_id.to_le_bytes(),
            &algorithm(0, authentication),
            &algorithm(1, integrity),
            &algorithm(2, confidentiality),
        ];
        self.stage = Stage::Open;
        self.begin("Open Session", SentPacket::Plain(packet::encode_plain(payload::OPEN_REQUEST, &text.concat())), now);
    }

    pub(super) fn on_open(&mut self, text: &[u8], now: Duration) -> Result<(), Bad> {
        if let Some(status) = self.refusal(text)? {
            self.refused(status, now);
            return Ok(());
        }
        let text: &[u8; 36] = text.first_chunk().ok_or("it is cut off")?;
        self.check_console(&text[4..8])?;
        let taken = [text[16], text[24], text[32]];
        if taken != self.numbers.suite.algorithms() {
            // virtualbmc names what it has in place of what it was offered, and says that this is well: it is offered
            // that, as if it had refused.
            if self.suite_after().is_some_and(|next| next.algorithms() == taken) && self.try_next_suite(now) {
                return Ok(());
            }
            return Err("it takes other algorithms than were offered");
        }
        self.numbers.bmc_id = u32::from_le_bytes([text[8], text[9], text[10], text[11]]);
        let tag = self.next_tag();
        let name = &self.numbers.name;
        let text = [
            &[tag, 0, 0, 0][..],
            &self.numbers.bmc_id.to_le_bytes(),
            &self.numbers.console_random,
            &[self.numbers.role, 0, 0, u8::try_from(name.len()).unwrap_or_default()],
            name,
        ];
        let packet = packet::encode_plain(payload::RAKP_1, &text.concat());
        self.is_doubted = false;
        self.stage = Stage::Rakp1;
        self.begin("the key exchange (RAKP 1)", SentPacket::Plain(packet), now);
        Ok(())
    }

    pub(super) fn on_rakp2(&mut self, text: &[u8], now: Duration) -> Result<(), Bad> {
        if let Some(status) = self.refusal(text)? {
            self.refused(status, now);
            return Ok(());
        }
        let (head, code) = text.split_first_chunk::<40>().ok_or("it is cut off")?;
        self.check_console(&head[4..8])?;
        if code.len() != self.numbers.suite.digest_bytes() {
            return Err("its code has another length");
        }
        self.numbers.bmc_random.copy_from_slice(&head[8..24]);
        self.numbers.bmc_guid.copy_from_slice(&head[24..40]);
        let password = self.credentials.password.as_bytes();
        if !is_same(&self.numbers.rakp2(password), code) {
            self.is_doubted = true;
            return Err("its code is of another password");
        }
        let (keys, rakp4) = self.numbers.keys(password);
        let proof = self.numbers.rakp3(password);
        let packet = self.rakp3(rakp::DONE, &proof);
        self.keys = Some(keys);
        self.rakp4 = rakp4;
        self.stage = Stage::Rakp3;
        self.begin("the key exchange (RAKP 3)", SentPacket::Plain(packet), now);
        Ok(())
    }

    /// Ends a set-up in which no answer proved the password. The BMC is informed, so that it frees its place for the
    /// session.
    pub(super) fn disown(&mut self) {
        let packet = self.rakp3(rakp::WRONG_CODE, &[]);
        self.outbox.push_back(packet);
        self.end(IpmiSessionEvent::Failed(Error::WrongPassword));
    }

    fn rakp3(&mut self, status: u8, proof: &[u8]) -> Vec<u8> {
        let text = [&[self.next_tag(), status, 0, 0][..], &self.numbers.bmc_id.to_le_bytes(), proof].concat();
        packet::encode_plain(payload::RAKP_3, &text)
    }

    pub(super) fn on_rakp4(&mut self, text: &[u8], now: Duration) -> Result<(), Bad> {
        if let Some(status) = self.refusal(text)? {
            self.refused(status, now);
            return Ok(());
        }
        let (head, code) = text.split_first_chunk::<8>().ok_or("it is cut off")?;
        self.check_console(&head[4..8])?;
        if !is_same(&self.rakp4, code) {
            return Err("its code is wrong");
        }
        self.sequence = 0;
        self.seen = Window::default();
        let request = command::set_privilege(self.privilege);
        self.stage = Stage::Privilege;
        let message = self.message(&request);
        self.begin(request.what, SentPacket::Sealed(message), now);
        Ok(())
    }

    /// A status of the set-up other than "done" (table 13-15).
    fn refused(&mut self, status: u8, now: Duration) {
        let forbidden = |message: &str| Error::Forbidden { message: message.to_owned() };
        let error = match (status, self.stage) {
            // No such algorithm, or not together: the other suite may do.
            (0x04..=0x07 | 0x10..=0x12, Stage::Open) => {
                if !self.try_next_suite(now) {
                    self.end(IpmiSessionEvent::Failed(Error::Unsupported {
                        what: "use cipher suite 17 or 3".to_owned(),
                    }));
                }
                return;
            }
            // Its numbers were forgotten, or are those of another try of the same message.
            (0x02 | 0x08, _) | (rakp::WRONG_CODE, Stage::Rakp3) if self.restarts < RESTARTS_MAX => {
                self.restarts += 1;
                self.start(now);
                return;
            }
            (0x01 | 0x0b, _) => Error::NoSessionFree,
            (0x09 | 0x0a, _) => forbidden("log in as what bmc.address asks for"),
            (0x0c | 0x0d, _) => Error::UnknownUser,
            (rakp::WRONG_CODE, _) => Error::WrongPassword,
            _ => Error::Refused {
                what: "the login".to_owned(),
                status: status.into(),
                message: "a status of RMCP+".to_owned(),
            },
        };
        self.end(IpmiSessionEvent::Failed(error));
    }

    pub(super) fn try_next_suite(&mut self, now: Duration) -> bool {
        let next = self.suite_after();
        if let Some(suite) = next {
            self.numbers.suite = suite;
            self.start(now);
        }
        next.is_some()
    }

    fn suite_after(&self) -> Option<Suite> {
        Suite::ALL.into_iter().skip_while(|suite| *suite != self.numbers.suite).nth(1)
    }

    fn check_tag(&self, tag: u8) -> Result<(), Bad> {
        if tag == self.tag { Ok(()) } else { Err("it answers another message") }
    }

    /// The status of an answer to our last message, where it is not "done". It bears our number of the session also
    /// then (13.18, 13.21), but ipmi_sim ends before it, and older releases of OpenBMC leave a zero in its place: a
    /// refusal is only left where it says that it is of another session.
    fn refusal(&self, text: &[u8]) -> Result<Option<u8>, Bad> {
        let [tag, status, rest @ ..] = text else { return Err("it is cut off") };
        self.check_tag(*tag)?;
        if *status == 0 {
            return Ok(None);
        }
        match rest.get(2..6) {
            None | Some([0, 0, 0, 0]) => {}
            Some(id) => self.check_console(id)?,
        }
        Ok(Some(*status))
    }

    fn check_console(&self, id: &[u8]) -> Result<(), Bad> {
        if id == self.numbers.console_id.to_le_bytes() { Ok(()) } else { Err("it is of another session") }
    }

    fn next_tag(&mut self) -> u8 {
        self.tag = self.tag.wrapping_add(1);
        self.tag
    }
}
