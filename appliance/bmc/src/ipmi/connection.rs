//! A UDP socket and a clock for one [`IpmiEngine`]: datagrams go out and come in as it asks for them.

use std::time::Duration;

use firesteel_dial::DatagramPace;
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep, sleep_until};

use super::command::{self, IpmiCommand, IpmiReply};
use super::engine::{IpmiEngine, IpmiSessionEvent};
use super::packet::DATAGRAM_BYTES_MAX;
use super::sol::ConsoleData;
use crate::error::{Error, plain_text};

/// Pause between two requests: BMCs that are asked without one hang.
const REQUEST_GAP: Duration = Duration::from_millis(20);
/// Time for the end of a serial console; the end of its session ends it as well.
const CONSOLE_END: Duration = Duration::from_secs(2);

/// A socket with its engine.
#[derive(Debug)]
pub(super) struct IpmiConnection {
    pub(super) socket: UdpSocket,
    pub(super) engine: IpmiEngine,
    start: Instant,
    /// How fast datagrams are read.
    pace: DatagramPace,
    last_asked: Option<Instant>,
    /// What the network last said against it.
    trouble: Option<String>,
}

impl IpmiConnection {
    pub(super) fn new(socket: UdpSocket, engine: IpmiEngine, start: Instant) -> Self {
        Self { socket, engine, start, pace: DatagramPace::default(), last_asked: None, trouble: None }
    }

    pub(super) async fn ask(&mut self, request: &IpmiCommand) -> Result<Vec<u8>, Error> {
        self.exchange(request).await?.accepted(request.what)
    }

    pub(super) async fn exchange(&mut self, request: &IpmiCommand) -> Result<IpmiReply, Error> {
        if let Some(last) = self.last_asked {
            sleep_until(last + REQUEST_GAP).await;
        }
        self.engine.ask(request, self.start.elapsed());
        let event = self.next_event().await;
        self.last_asked = Some(Instant::now());
        let result = match event {
            IpmiSessionEvent::Answered(reply) => Ok(reply),
            IpmiSessionEvent::Failed(error) => Err(error),
            IpmiSessionEvent::Opened | IpmiSessionEvent::Closed => {
                Err(Error::Timeout { what: request.what.to_owned() })
            }
        };
        result.map_err(|error| self.mask_error(error))
    }

    pub(super) async fn next_event(&mut self) -> IpmiSessionEvent {
        loop {
            self.pass().await;
            if let Some(event) = self.engine.take_event() {
                return event;
            }
            let Some(wake) = self.engine.wake_at() else { return IpmiSessionEvent::Closed };
            self.wait(wake).await;
        }
    }

    pub(super) async fn keep_alive(&mut self) {
        self.engine.wake(self.start.elapsed());
        self.pass().await;
        while let Some(wake) = self.engine.wake_at().filter(|_| !self.engine.is_idle()) {
            self.wait(wake).await;
            self.pass().await;
        }
    }

    pub(super) async fn receive_console_data(&mut self, patience: Duration) -> Option<ConsoleData> {
        let until = self.start.elapsed() + patience;
        loop {
            let spoken = ConsoleData { characters: self.engine.take_console_data(), is_lossy: self.engine.take_loss() };
            if spoken != ConsoleData::default() {
                return Some(spoken);
            }
            let now = self.start.elapsed();
            if !self.engine.is_listening() {
                return None;
            }
            if now >= until {
                return Some(spoken);
            }
            self.engine.wake(now);
            self.pass().await;
            let wake = self.engine.wake_at().unwrap_or(until).min(until);
            self.wait(wake).await;
            // What was heard is acknowledged.
            self.pass().await;
        }
    }

    /// Has the BMC end the console before its session: some would keep it for a while.
    async fn close_console(&mut self) {
        if self.engine.is_listening() {
            self.engine.stop_listening();
            let end = command::deactivate_console();
            let ended = tokio::time::timeout(CONSOLE_END, self.ask(&end)).await;
            tracing::debug!(?ended, "the serial console is let go");
        }
    }

    pub(super) async fn close(&mut self) {
        self.close_console().await;
        self.engine.close(self.start.elapsed());
        while !matches!(self.next_event().await, IpmiSessionEvent::Closed) {}
    }

    /// Sends what is to be sent.
    async fn pass(&mut self) {
        while let Some(datagram) = self.engine.transmit() {
            if let Err(error) = self.socket.send(&datagram).await {
                // It is repeated: a link may come up meanwhile.
                self.trouble = Some(error.to_string());
            }
        }
    }

    /// Waits for a datagram, or until the time.
    async fn wait(&mut self, wake: Duration) {
        let mut buffer = [0; DATAGRAM_BYTES_MAX + 1];
        let received = tokio::time::timeout_at(self.start + wake, self.socket.recv(&mut buffer)).await;
        let now = self.start.elapsed();
        match received {
            Ok(Ok(length)) => {
                self.trouble = None;
                self.engine.receive(&buffer[..length], now);
                // A flood of datagrams is read no faster than a sender may send.
                if let Some(next) = self.pace.read_at(now) {
                    sleep_until(self.start + next).await;
                }
            }
            Ok(Err(error)) => {
                // "Connection refused" comes by ICMP and may be forged: it is shown, but not believed.
                self.trouble = Some(error.to_string());
                sleep(REQUEST_GAP).await;
            }
            Err(_) => self.engine.wake(now),
        }
    }

    /// Puts what the network said into the error.
    pub(super) fn mask_error(&self, error: Error) -> Error {
        match (error, &self.trouble) {
            (Error::Unreachable { .. } | Error::Timeout { .. }, Some(detail)) => {
                Error::Unreachable { detail: plain_text(detail) }
            }
            (error, _) => error,
        }
    }
}
