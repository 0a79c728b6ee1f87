//! What a listener on the provisioning network reads: the boot script and the paths of boot files have the token in clear.

use std::io::{self, Read as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::os;

use super::http::find_token;

/// Longest frame that is looked at; what a host's loader sends is short.
const FRAME_BYTES_MAX: usize = 16 << 10;
/// The time between two looks at the clock.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Listens on an interface from now on.
#[derive(Debug)]
pub(crate) struct PacketListener(socket2::Socket);

impl PacketListener {
    /// # Errors
    /// When the interface does not exist, or this process may not listen.
    pub(crate) fn start(interface: &str) -> anyhow::Result<Self> {
        let socket = os::listen_to_frames(interface).with_context(|| format!("listening on {interface}"))?;
        socket.set_read_timeout(Some(LOOK_EVERY)).context("bounding the wait for a frame")?;
        Ok(Self(socket))
    }

    /// The first token that a machine sends.
    ///
    /// # Errors
    /// When none comes in time.
    pub(crate) async fn token(self, limit: Duration) -> anyhow::Result<String> {
        tokio::task::spawn_blocking(move || self.wait(Instant::now() + limit)).await?
    }

    fn wait(mut self, end: Instant) -> anyhow::Result<String> {
        let mut frame = vec![0; FRAME_BYTES_MAX];
        while Instant::now() < end {
            let length = match self.0.read(&mut frame) {
                Ok(length) => length,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => continue,
                Err(error) => return Err(error).context("reading a frame"),
            };
            let text = String::from_utf8_lossy(&frame[..length]);
            // A request has its path in one piece; a script may be cut.
            if let Some(at) = text.find("GET /boot/")
                && let Some(token) = find_token(&text[at..])
            {
                return Ok(token);
            }
        }
        bail!("no machine sent a token in time")
    }
}
