//! Datagrams from the BMC: which of them is the awaited answer, and what follows from it.

use std::time::Duration;

use super::{IpmiEngine, IpmiSessionEvent, IpmiSessionStage as Stage, SentPacket, WAITS};
use crate::error::Error;
use crate::ipmi::command::{self, ANSWER, IpmiReply, completion};
use crate::ipmi::packet::{self, Bad, IpmiFrame, IpmiMessage, payload};

impl IpmiEngine {
    pub(super) fn take(&mut self, datagram: &[u8], now: Duration) -> Result<(), Bad> {
        match (packet::frame(datagram)?, self.stage) {
            (IpmiFrame::Bare { message }, Stage::Capabilities) => {
                let reply = self.reply_in(&IpmiMessage::read(message)?)?;
                self.on_capabilities(reply, now)
            }
            (IpmiFrame::Plain { payload_type: payload::OPEN_ANSWER, payload }, Stage::Open) => {
                self.on_open(payload, now)
            }
            (IpmiFrame::Plain { payload_type: payload::RAKP_2, payload }, Stage::Rakp1) => self.on_rakp2(payload, now),
            (IpmiFrame::Plain { payload_type: payload::RAKP_4, payload }, Stage::Rakp3) => self.on_rakp4(payload, now),
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

    /// The answer to what is under way.
    fn reply_in(&self, message: &IpmiMessage) -> Result<IpmiReply, Bad> {
        let awaited = match self.pending.as_ref().map(|pending| &pending.packet) {
            Some(SentPacket::Sealed(request)) => (request.function, request.command),
            Some(SentPacket::Plain(_)) if self.stage == Stage::Capabilities => {
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
            && self.stage != Stage::Closing
            && let Some(pending) = self.pending.as_ref()
            && let Some(wait) = WAITS.get(pending.sends - 1).filter(|_| pending.sends < WAITS.len())
        {
            // A new request, not a repetition: this one has been answered.
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
            Stage::Privilege => match (reply.completion, reply.data.first()) {
                // Some grant less than was asked for, and say so.
                (completion::DONE, level) if level.is_none_or(|level| level & 0x0f >= self.privilege.level()) => {
                    self.stage = Stage::Idle;
                    self.event = Some(IpmiSessionEvent::Opened);
                }
                _ => {
                    let (level, code) = (self.privilege.as_str(), reply.completion);
                    let message = format!("be {level}, completion code {code:#04x}; bmc.address may ask for less");
                    self.event = Some(IpmiSessionEvent::Failed(Error::Forbidden { message }));
                    // The session is there: the owner of the engine closes it.
                    self.stage = Stage::Idle;
                }
            },
            Stage::Closing => self.end(IpmiSessionEvent::Closed),
            Stage::KeepAlive => self.stage = Stage::Idle,
            Stage::Asking => {
                self.stage = Stage::Idle;
                self.event = Some(IpmiSessionEvent::Answered(reply));
            }
            Stage::Capabilities | Stage::Open | Stage::Rakp1 | Stage::Rakp3 | Stage::Idle | Stage::Ended => {}
        }
    }
}
