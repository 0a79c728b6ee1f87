//! The serial port of the fake BMC (Serial over LAN): who listens, and what it says.

use firesteel_bmc::ipmi::{packet, sol};

use super::FakeIpmiState;

/// Who listens to the serial port.
#[derive(Debug)]
pub(super) struct FakeSolListener {
    /// The BMC's number of the session.
    pub(super) session: u32,
    /// Number of the last packet, 1 to 15.
    number: u8,
    /// What was said and not acknowledged.
    open: Option<Vec<u8>>,
    /// The BMC ends it.
    is_ending: bool,
}

impl FakeSolListener {
    pub(super) fn new(session: u32) -> Self {
        Self { session, number: 0, open: None, is_ending: false }
    }
}

impl FakeIpmiState {
    /// Whether anybody listens to the serial port.
    #[must_use]
    pub fn is_listened_to(&self) -> bool {
        self.listener.is_some()
    }

    pub(super) fn listens(&self, session: u32) -> bool {
        self.listener.as_ref().is_some_and(|listener| listener.session == session)
    }

    /// Takes the serial port from who listens.
    pub fn end_console(&mut self) {
        if let Some(listener) = &mut self.listener {
            listener.is_ending = true;
        }
    }

    /// What the serial port says to who listens, again as long as it is not acknowledged.
    pub(super) fn next_console_packet(&mut self) -> Option<Vec<u8>> {
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

    pub(super) fn acknowledged(&mut self, id: u32, datagram: &[u8]) -> Option<()> {
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
}
