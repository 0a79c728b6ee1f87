//! The host's serial port in a session (Serial over LAN): what it says is kept until it is read.

use super::IpmiEngine;
use crate::ipmi::packet::{self, Bad};
use crate::ipmi::sol::Console;

/// Bytes of a serial port that are kept unread: a screen of a few pages.
pub const HEARD_BYTES_MAX: usize = 16 * 1024;

impl IpmiEngine {
    /// Begins to take what the host's serial port says: the BMC has been asked for it, and has agreed. What came since
    /// is not lost, the BMC repeats it.
    pub fn listen(&mut self) {
        self.console = Some(Console::default());
    }

    /// Ignores what the serial port says from now on.
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

    pub(super) fn on_console(&mut self, datagram: &[u8], session: u32, sequence: u32) -> Result<(), Bad> {
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
}
