//! The raw image as one zstd stream of independent frames, compressed on all cores.
//!
//! ```text
//! reader --chunk i--> worker i mod n --frame i--> writer (in turn)
//! ```
//!
//! Each frame holds [`FRAME_BYTES`] of the raw image, its length and a checksum, and refers to no
//! other: any decoder reads the whole as one stream, and a reader of frames can start anywhere.

use std::{
    io::{self, Read, Write},
    sync::mpsc::{Receiver, SyncSender, channel, sync_channel},
    thread,
};

use super::read::fill;
use crate::digest::{Hasher, Sha256};

/// Large enough to compress as well as one stream does, small enough for an agent's memory.
pub const FRAME_BYTES: usize = 4 << 20;
/// Measured on files of `/usr`: 3 packs 270 MB/s on one core; 5 and 9 make streams 4 and 10 %
/// smaller but take 2.2 and 4 times as long; all unpack alike (1 GB/s).
pub(crate) const LEVEL: i32 = 3;
const SECTOR_BYTES: usize = 512;
/// More threads than this outrun any source.
const WORKERS_MAX: usize = 16;

/// What was packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) raw_bytes: u64,
    pub(crate) raw_sha256: Sha256,
    /// Of what the reader gave: the same but for the padding.
    pub(crate) given_sha256: Sha256,
    pub(crate) stream_bytes: u64,
    pub(crate) stream_sha256: Sha256,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    #[error("reading the image")]
    Read { source: io::Error },
    #[error("compressing the image")]
    Compress { source: io::Error },
    #[error("writing the image")]
    Write { source: io::Error },
}

/// Packs all that the reader gives, padded with zeros to whole sectors. `seen` is called with the
/// raw bytes so far.
pub(crate) fn pack(
    image: &mut dyn Read,
    out: &mut (impl Write + Send),
    seen: &mut dyn FnMut(u64),
) -> Result<Packed, PackError> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
    thread::scope(|scope| {
        let (used_sender, used) = channel::<Vec<u8>>();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (chunk_sender, chunks) = sync_channel::<Vec<u8>>(1);
            let (frame_sender, frames) = sync_channel(1);
            let used = used_sender.clone();
            scope.spawn(move || compress(&chunks, &frame_sender, &used));
            inputs.push(chunk_sender);
            outputs.push(frames);
        }
        drop(used_sender);
        let writer = scope.spawn(move || write(&outputs, out));
        let read = feed(image, &inputs, &used, seen);
        drop(inputs);
        let written = match writer.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        // A source that failed says more than a stream that ended.
        let Fed { raw_bytes, raw_sha256, given_sha256 } = read?;
        let (stream_bytes, stream_sha256) = written?;
        Ok(Packed { raw_bytes, raw_sha256, given_sha256, stream_bytes, stream_sha256 })
    })
}

struct Fed {
    raw_bytes: u64,
    raw_sha256: Sha256,
    given_sha256: Sha256,
}

fn feed(
    image: &mut dyn Read,
    inputs: &[SyncSender<Vec<u8>>],
    used: &Receiver<Vec<u8>>,
    seen: &mut dyn FnMut(u64),
) -> Result<Fed, PackError> {
    let mut hasher = Hasher::new();
    let mut raw_bytes: u64 = 0;
    let mut unpadded = None;
    for input in inputs.iter().cycle() {
        let mut chunk = used.try_recv().unwrap_or_default();
        chunk.resize(FRAME_BYTES, 0);
        let mut filled = fill(image, &mut chunk).map_err(|source| PackError::Read { source })?;
        hasher.update(&chunk[..filled]);
        let whole = filled.next_multiple_of(SECTOR_BYTES);
        if whole > filled {
            unpadded = Some(hasher.clone().finish());
            chunk[filled..whole].fill(0);
            hasher.update(&chunk[filled..whole]);
        }
        filled = whole;
        if filled == 0 {
            break;
        }
        chunk.truncate(filled);
        raw_bytes += filled as u64;
        seen(raw_bytes);
        let last = filled < FRAME_BYTES;
        // Nobody takes it when the writer failed, whose error is then returned.
        if input.send(chunk).is_err() || last {
            break;
        }
    }
    let raw_sha256 = hasher.finish();
    Ok(Fed { raw_bytes, raw_sha256, given_sha256: unpadded.unwrap_or(raw_sha256) })
}

fn compress(
    chunks: &Receiver<Vec<u8>>,
    frames: &SyncSender<io::Result<Vec<u8>>>,
    used: &std::sync::mpsc::Sender<Vec<u8>>,
) {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL).and_then(|mut compressor| {
        compressor.include_checksum(true)?;
        compressor.include_contentsize(true)?;
        Ok(compressor)
    });
    while let Ok(chunk) = chunks.recv() {
        let frame = match &mut compressor {
            Ok(compressor) => compressor.compress(&chunk),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        // The pool may be gone at the end.
        drop(used.send(chunk));
        if frames.send(frame).is_err() {
            break;
        }
    }
}

fn write(outputs: &[Receiver<io::Result<Vec<u8>>>], out: &mut impl Write) -> Result<(u64, Sha256), PackError> {
    let mut hasher = Hasher::new();
    let mut stream_bytes = 0;
    for output in outputs.iter().cycle() {
        let Ok(frame) = output.recv() else { break };
        let frame = frame.map_err(|source| PackError::Compress { source })?;
        hasher.update(&frame);
        out.write_all(&frame).map_err(|source| PackError::Write { source })?;
        stream_bytes += frame.len() as u64;
    }
    Ok((stream_bytes, hasher.finish()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn unpacks_to_the_same_padded_to_sectors() {
        for bytes in [1, 511, 512, 513, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 3 * FRAME_BYTES + 700] {
            let image: Vec<u8> = (0..bytes).map(|index| (index / 999 % 251).try_into().unwrap()).collect();
            let mut out = Vec::new();
            let mut last = 0;
            let packed = pack(&mut &image[..], &mut out, &mut |raw_bytes| last = raw_bytes).unwrap();
            let mut padded = image.clone();
            padded.resize(bytes.next_multiple_of(512), 0);
            assert_eq!(zstd::decode_all(&out[..]).unwrap(), padded);
            assert_eq!((packed.raw_bytes, last), (padded.len() as u64, padded.len() as u64));
            assert_eq!(packed.raw_sha256, Sha256::of(&padded));
            assert_eq!(packed.given_sha256, Sha256::of(&image));
            assert_eq!((packed.stream_bytes, packed.stream_sha256), (out.len() as u64, Sha256::of(&out)));
        }
    }

    #[test]
    fn a_source_and_a_disk_that_fail_are_told_apart() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(matches!(pack(&mut Broken, &mut Vec::new(), &mut |_| {}), Err(PackError::Read { .. })));
        let endless = &mut io::repeat(3).take(200 << 20);
        assert!(matches!(pack(endless, &mut Full, &mut |_| {}), Err(PackError::Write { .. })));
    }
}
