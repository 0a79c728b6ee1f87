//! From a compressed stream to raw chunks in aligned memory, the stream's digest included.
//!
//! ```text
//! source --download--> pieces --decompress--> chunks --> caller (writes)
//!              ^ sha256 of stream      ^ crc of raw
//! ```
//!
//! The raw image's SHA-256 is computed once, from the medium, when it is read back: computing it
//! here too would double the cost of the slowest part and prove nothing more. The CRC only tells
//! afterwards whose fault a wrong digest is, the disk's or the promise's.
//!
//! Each arrow is a bounded channel, each stage a thread; chunks go round in a pool, so memory is
//! bounded by [`CHUNKS`] chunks and a few pieces whatever the image is.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use firesteel_facts::{Hasher, Sha256};

use super::{disk::AlignedBuffer, spec::WriteSpec};

/// One write to the disk: large enough that the drive, not the system call, sets the pace.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;
/// Chunks in the pool: one in each stage, one waiting before each.
const CHUNKS: usize = 4;
/// One read from the network.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces between download and decompression: 4 MiB hide the network's hiccups.
const PIECES: usize = 16;
/// 128 MiB, what `zstd` itself accepts unasked; importers make frames far below it.
const WINDOW_LOG_MAX: u32 = 27;

/// A part of the raw image. Its buffer returns to the pool by [`WritePipeline::give_back`].
pub(crate) struct Chunk {
    pub(crate) offset: u64,
    /// Valid bytes at the start of the buffer.
    pub(crate) bytes: usize,
    pub(crate) buffer: AlignedBuffer,
}

impl Chunk {
    /// Where its bytes lie in the image.
    pub(crate) fn area(&self) -> std::ops::Range<u64> {
        self.offset..self.offset + self.bytes as u64
    }
}

/// Why a source did not give the image that was promised.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("reading the image stream at byte {offset}")]
    Read { offset: u64, source: io::Error },
    #[error("the image stream ended after {found} of {expected} bytes")]
    Short { expected: u64, found: u64 },
    #[error("the image stream goes on after its {expected} bytes")]
    Long { expected: u64 },
    #[error("decompressing the image stream")]
    Decompress { source: io::Error },
    #[error("the image ended after {found} of {expected} raw bytes")]
    RawShort { expected: u64, found: u64 },
    #[error("the image goes on after its {expected} raw bytes")]
    RawLong { expected: u64 },
    #[error("the stream's sha256 is {found}, not {expected}")]
    StreamDigest { expected: Sha256, found: Sha256 },
    #[error("the raw image's sha256 is {found}, not {expected}")]
    RawDigest { expected: Sha256, found: Sha256 },
    #[error("a thread of the image stream panicked")]
    Panicked,
}

/// The running stages.
pub(crate) struct WritePipeline<'scope> {
    chunks: Option<Receiver<Chunk>>,
    pool: Sender<AlignedBuffer>,
    download: ScopedJoinHandle<'scope, Result<(u64, Sha256), SourceError>>,
    decompress: ScopedJoinHandle<'scope, Result<u32, SourceError>>,
    spec: WriteSpec,
}

impl<'scope> WritePipeline<'scope> {
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        source: impl Read + Send + 'scope,
        spec: &WriteSpec,
    ) -> Self {
        let (piece_sender, piece_receiver) = sync_channel(PIECES);
        let (chunk_sender, chunk_receiver) = sync_channel(1);
        let (pool, pool_receiver) = channel();
        for _ in 0..CHUNKS {
            // The receiver lives in this function: the send cannot fail.
            let filled = pool.send(AlignedBuffer::new(CHUNK_BYTES));
            debug_assert!(filled.is_ok());
        }
        let (stream_bytes, raw_bytes) = (spec.stream_bytes, spec.raw_bytes);
        Self {
            chunks: Some(chunk_receiver),
            pool,
            download: scope.spawn(move || download(source, stream_bytes, &piece_sender)),
            decompress: scope
                .spawn(move || decompress(PieceReader::new(piece_receiver), raw_bytes, &pool_receiver, &chunk_sender)),
            spec: spec.clone(),
        }
    }

    /// The next chunk in order; `None` at the end, also at an early one: [`WritePipeline::finish`] tells.
    pub(crate) fn next(&mut self) -> Option<Chunk> {
        self.chunks.as_ref()?.recv().ok()
    }

    pub(crate) fn give_back(&self, chunk: Chunk) {
        // After an error no buffers are taken any more; this one is then freed.
        drop(self.pool.send(chunk.buffer));
    }

    /// Ends all stages and says whether the whole stream was what it had to be. Returns the CRC of
    /// the raw bytes.
    pub(crate) fn finish(mut self) -> Result<u32, SourceError> {
        drop(self.chunks.take());
        drop(self.pool);
        let decompressed = self.decompress.join().map_err(|_| SourceError::Panicked)?;
        let downloaded = self.download.join().map_err(|_| SourceError::Panicked)?;
        // An error of the download shows as an error of the decompression too: name the cause.
        let (stream_bytes, stream_sha256) = downloaded?;
        if stream_bytes == self.spec.stream_bytes && stream_sha256 != self.spec.stream_sha256 {
            return Err(SourceError::StreamDigest { expected: self.spec.stream_sha256, found: stream_sha256 });
        }
        let raw_crc = decompressed?;
        if stream_bytes != self.spec.stream_bytes {
            return Err(SourceError::Short { expected: self.spec.stream_bytes, found: stream_bytes });
        }
        Ok(raw_crc)
    }
}

/// Reads the source to its end, or until no more is wanted.
fn download(
    mut source: impl Read,
    expected: u64,
    pieces: &SyncSender<Option<Vec<u8>>>,
) -> Result<(u64, Sha256), SourceError> {
    let mut hasher = Hasher::new();
    let mut total: u64 = 0;
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let mut filled = 0;
        while filled < PIECE_BYTES {
            match source.read(&mut piece[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(SourceError::Read { offset: total + filled as u64, source }),
            }
        }
        let end = filled < PIECE_BYTES;
        piece.truncate(filled);
        total += filled as u64;
        if total > expected {
            return Err(SourceError::Long { expected });
        }
        hasher.update(&piece);
        if pieces.send(Some(piece)).is_err() {
            // The decompression stopped early; its error counts.
            return Ok((total, hasher.finish()));
        }
        if end {
            if total < expected {
                return Err(SourceError::Short { expected, found: total });
            }
            // Without this mark the reader takes the end for a failure.
            drop(pieces.send(None));
            return Ok((total, hasher.finish()));
        }
    }
}

/// The pieces as one stream.
struct PieceReader {
    pieces: Receiver<Option<Vec<u8>>>,
    piece: Vec<u8>,
    position: usize,
    ended: bool,
}

impl PieceReader {
    fn new(pieces: Receiver<Option<Vec<u8>>>) -> Self {
        Self { pieces, piece: Vec::new(), position: 0, ended: false }
    }
}

impl BufRead for PieceReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.position == self.piece.len() && !self.ended {
            match self.pieces.recv() {
                Ok(Some(piece)) => (self.piece, self.position) = (piece, 0),
                Ok(None) => self.ended = true,
                Err(_) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the download failed")),
            }
        }
        Ok(&self.piece[self.position..])
    }

    fn consume(&mut self, bytes: usize) {
        self.position += bytes;
    }
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?.read(buffer)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

fn decompress(
    pieces: PieceReader,
    expected: u64,
    pool: &Receiver<AlignedBuffer>,
    chunks: &SyncSender<Chunk>,
) -> Result<u32, SourceError> {
    let failed = |source| SourceError::Decompress { source };
    let mut decoder = zstd::stream::read::Decoder::with_buffer(pieces).map_err(failed)?;
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(failed)?;
    let mut crc = crc32fast::Hasher::new();
    let mut offset: u64 = 0;
    loop {
        // Without a pool or a taker the writer has stopped; its error counts.
        let Ok(mut buffer) = pool.recv() else { return Ok(crc.finalize()) };
        let mut bytes = 0;
        while bytes < CHUNK_BYTES {
            match decoder.read(&mut buffer[bytes..]) {
                Ok(0) => break,
                Ok(more) => bytes += more,
                Err(source) => return Err(SourceError::Decompress { source }),
            }
        }
        if offset + bytes as u64 > expected {
            return Err(SourceError::RawLong { expected });
        }
        if bytes == 0 {
            return match offset < expected {
                true => Err(SourceError::RawShort { expected, found: offset }),
                false => Ok(crc.finalize()),
            };
        }
        crc.update(&buffer[..bytes]);
        let chunk = Chunk { offset, bytes, buffer };
        offset += bytes as u64;
        if chunks.send(chunk).is_err() {
            return Ok(crc.finalize());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// Gives little at a time, is interrupted now and then, and fails once where it has to.
    struct Slow<'a> {
        data: &'a [u8],
        position: usize,
        reads: usize,
        fails_at: Option<usize>,
    }

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(!buffer.is_empty(), "asked for nothing");
            self.reads += 1;
            if self.reads.is_multiple_of(5) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.fails_at == Some(self.position) {
                self.fails_at = None;
                return Err(io::Error::other("the line is cut"));
            }
            let end = self.fails_at.unwrap_or(self.data.len());
            let bytes = buffer.len().min(7000).min(end - self.position);
            buffer[..bytes].copy_from_slice(&self.data[self.position..self.position + bytes]);
            self.position += bytes;
            Ok(bytes)
        }
    }

    type Downloaded = Result<(u64, Sha256), SourceError>;

    /// What a download says, and the pieces that it gives on.
    fn downloaded(data: &[u8], expected: usize, fails_at: Option<usize>) -> (Downloaded, Vec<Option<Vec<u8>>>) {
        let (sender, receiver) = sync_channel(PIECES);
        let source = Slow { data, position: 0, reads: 0, fails_at };
        let result = download(source, expected as u64, &sender);
        drop(sender);
        (result, receiver.iter().collect())
    }

    #[test]
    fn a_source_is_read_to_its_promised_end() {
        for bytes in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES + 9000] {
            let data: Vec<u8> = (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let (result, mut pieces) = downloaded(&data, bytes, None);
            assert_eq!(result.unwrap(), (bytes as u64, Sha256::of(&data)));
            assert_eq!(pieces.pop(), Some(None), "the mark of the end");
            let pieces: Vec<Vec<u8>> = pieces.into_iter().map(Option::unwrap).collect();
            assert!(pieces.concat() == data, "{bytes}");
            assert!(pieces.iter().rev().skip(1).all(|piece| piece.len() == PIECE_BYTES), "{bytes}");
        }
    }

    #[test]
    fn a_source_that_is_cut_short_or_long_says_where() {
        let data = vec![7; PIECE_BYTES + 40_000];
        let (result, pieces) = downloaded(&data, data.len(), Some(PIECE_BYTES + 20_000));
        assert!(matches!(result, Err(SourceError::Read { offset: 282_144, .. })), "{result:?}");
        assert!(!pieces.contains(&None), "no mark of the end");
        let (result, pieces) = downloaded(&data, data.len() + 1, None);
        assert!(matches!(result, Err(SourceError::Short { expected: 302_145, found: 302_144 })), "{result:?}");
        assert!(!pieces.contains(&None));
        let (result, _) = downloaded(&data, data.len() - 1, None);
        assert!(matches!(result, Err(SourceError::Long { expected: 302_143 })), "{result:?}");
    }

    #[test]
    fn pieces_are_one_stream_that_ends_with_its_mark() {
        let read = |pieces: &[Option<&[u8]>]| {
            let (sender, receiver) = sync_channel(PIECES);
            for piece in pieces {
                sender.send(piece.map(<[u8]>::to_vec)).unwrap();
            }
            drop(sender);
            let mut read = Vec::new();
            PieceReader::new(receiver).read_to_end(&mut read).map(|bytes| (bytes, read)).map_err(|error| error.kind())
        };
        assert_eq!(read(&[Some(b"abc"), Some(b""), Some(b"de"), None]), Ok((5, b"abcde".to_vec())));
        assert_eq!(read(&[None]), Ok((0, Vec::new())));
        assert_eq!(read(&[Some(b"abc")]), Err(io::ErrorKind::UnexpectedEof));
    }
}
