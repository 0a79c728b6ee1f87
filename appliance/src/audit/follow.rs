//! Reads the log while it is written.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::broadcast::{self, error::RecvError};

/// How much is read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// The files as they were between two lines, open even if they are renamed, and the lines written since.
#[derive(Debug)]
pub(super) struct AuditFollower {
    /// The files, the oldest first, with how much of each is still to be read.
    pub(super) parts: Vec<(File, u64)>,
    pub(super) live: broadcast::Receiver<Bytes>,
}

impl AuditFollower {
    /// Skips all but the last lines.
    pub(super) fn last(mut self, lines: usize) -> io::Result<Self> {
        let mut wanted = lines;
        for at in (0..self.parts.len()).rev() {
            let (file, length) = &mut self.parts[at];
            let mut bytes = Vec::new();
            file.take(*length).read_to_end(&mut bytes)?;
            // A line begins behind the line feed of the previous one.
            let ends: Vec<usize> =
                bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
            let start = match ends.len().checked_sub(wanted) {
                Some(0) => 0,
                Some(before) => ends[before - 1] + 1,
                None => 0,
            };
            file.seek(SeekFrom::Start(start as u64))?;
            *length = length.saturating_sub(start as u64);
            wanted = wanted.saturating_sub(ends.len());
            if wanted == 0 {
                self.parts.drain(..at);
                break;
            }
        }
        Ok(self)
    }

    /// Streams all of it in chunks; then, with `follow`, each new line.
    pub(super) fn stream(self, follow: bool) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
        futures_util::stream::try_unfold(self, move |mut reading| async move {
            loop {
                if reading.parts.is_empty() {
                    return Ok(if follow { reading.next_line().await?.map(|line| (line, reading)) } else { None });
                }
                let (chunk, next) = tokio::task::spawn_blocking(move || reading.chunk()).await??;
                reading = next;
                if let Some(chunk) = chunk {
                    return Ok(Some((chunk, reading)));
                }
            }
        })
    }

    /// Reads the next bytes of the files; `None` at the end of a file.
    fn chunk(mut self) -> io::Result<(Option<Bytes>, Self)> {
        let Some((file, left)) = self.parts.first_mut() else { return Ok((None, self)) };
        let mut bytes = Vec::new();
        file.take((*left).min(CHUNK_BYTES as u64)).read_to_end(&mut bytes)?;
        *left -= bytes.len() as u64;
        if bytes.is_empty() {
            self.parts.remove(0);
            return Ok((None, self));
        }
        Ok((Some(bytes.into()), self))
    }

    async fn next_line(&mut self) -> io::Result<Option<Bytes>> {
        match self.live.recv().await {
            Ok(line) => Ok(Some(line)),
            Err(RecvError::Closed) => Ok(None),
            Err(RecvError::Lagged(lines)) => {
                Err(io::Error::other(format!("too slow: {lines} records came that were not read in time")))
            }
        }
    }
}
