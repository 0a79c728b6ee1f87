//! The raw image as one zstd stream of independent frames, compressed on several cores.
//!
//! ```text
//! image --frame i, or "zeros"--> worker i mod n --packed frame i--> writer (in turn)
//! ```
//!
//! Each frame holds [`FRAME_BYTES`] of the raw image, its length and a checksum, and refers to no
//! other: any decoder reads the whole as one stream, and a reader of frames can start anywhere.
//! A frame of zeros is neither copied nor compressed, and where the image knows of a hole it is not
//! read either. It is hashed all the same, for the digest of the image is one of all its bytes.

use std::io::{self, Read, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use firesteel_facts::{Hasher, Sha256};

use super::bounds::{BLOCK_BYTES, BoundExceeded};
use super::read::fill;

/// Large enough to compress as well as one stream does, small enough for an agent's memory.
pub const FRAME_BYTES: usize = 4 << 20;
/// The level, measured on files of `/usr`: 3 packs 270 MB/s on one core; 5 and 9 make streams 4 and 10 %
/// smaller but take 2.2 and 4 times as long; all unpack alike (1 GB/s).
pub(crate) const LEVEL: i32 = 3;
const SECTOR_BYTES: usize = 512;
/// More threads than this outrun the one that expands and hashes.
const WORKERS_MAX: usize = 4;
/// What a compressor remembers, at this level.
const COMPRESSOR_BYTES: usize = 3 << 20;
/// Frames between the image and the file, on each side of the workers: one on its way, and two of each worker.
const FRAMES_MAX: usize = 1 + 2 * WORKERS_MAX;
/// What packing holds at most. A packed frame is at most a little longer than its content.
pub(crate) const PACK_BYTES_MAX: usize =
    FRAMES_MAX * (2 * FRAME_BYTES + FRAME_BYTES / 64) + WORKERS_MAX * COMPRESSOR_BYTES;
/// No memory is used for them: they are never written.
static ZEROS: [u8; FRAME_BYTES] = [0; FRAME_BYTES];

/// A raw image, from its first byte to its last.
pub(crate) trait RawImage {
    /// Fills the buffer as far as the image reaches.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Goes on behind so many bytes if all of them are known to be zeros without being read. `false`: it stays.
    fn skip_zeros(&mut self, bytes: u64) -> io::Result<bool>;
}

/// An image whose holes are not known before it is read.
pub(crate) struct Unmapped<'a>(pub(crate) &'a mut dyn Read);

impl RawImage for Unmapped<'_> {
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        fill(self.0, buffer)
    }

    fn skip_zeros(&mut self, _: u64) -> io::Result<bool> {
        Ok(false)
    }
}

/// Hears how many bytes of the image came, and how many of them are data; says when it is too much.
pub(crate) type PackSeen<'a> = dyn FnMut(u64, u64) -> Result<(), BoundExceeded> + 'a;

/// What was packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedImage {
    pub(crate) raw_bytes: u64,
    pub(crate) raw_sha256: Sha256,
    /// The digest of what the reader gave: the same but for the padding.
    pub(crate) given_sha256: Sha256,
    pub(crate) stream_bytes: u64,
    pub(crate) stream_sha256: Sha256,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    #[error("reading the image")]
    Read { source: io::Error },
    #[error(transparent)]
    Exceeded(#[from] BoundExceeded),
    #[error("compressing the image")]
    Compress { source: io::Error },
    #[error("writing the image")]
    Write { source: io::Error },
}

/// Packs all that the image gives, padded with zeros to whole sectors.
pub(crate) fn pack(
    image: &mut dyn RawImage,
    out: &mut (impl Write + Send),
    seen: &mut PackSeen<'_>,
) -> Result<PackedImage, PackError> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
    let zeros = OnceLock::new();
    thread::scope(|scope| {
        let (used_sender, used) = channel::<Vec<u8>>();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (job_sender, jobs) = sync_channel::<FrameJob>(1);
            let (frame_sender, frames) = sync_channel(1);
            let (used, zeros) = (used_sender.clone(), &zeros);
            scope.spawn(move || compress(&jobs, &frame_sender, &used, zeros));
            inputs.push(job_sender);
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
        let PackInput { raw_bytes, raw_sha256, given_sha256 } = read?;
        let (stream_bytes, stream_sha256) = written?;
        Ok(PackedImage { raw_bytes, raw_sha256, given_sha256, stream_bytes, stream_sha256 })
    })
}

/// What becomes one frame.
enum FrameJob {
    Data(Vec<u8>),
    /// [`FRAME_BYTES`] of them.
    Zeros,
}

/// A piece of the image: its length, how much of it is data, and what is to be packed.
struct ImagePiece {
    bytes: usize,
    data_bytes: u64,
    job: FrameJob,
}

/// Reads the image in pieces of a frame, and hashes it.
struct FrameFeed<'a> {
    image: &'a mut dyn RawImage,
    used: &'a Receiver<Vec<u8>>,
    hasher: Hasher,
    /// The digest of what came before the padding, where there is some.
    unpadded: Option<Sha256>,
    /// A buffer that only held zeros.
    spare: Option<Vec<u8>>,
}

struct PackInput {
    raw_bytes: u64,
    raw_sha256: Sha256,
    given_sha256: Sha256,
}

fn feed(
    image: &mut dyn RawImage,
    inputs: &[SyncSender<FrameJob>],
    used: &Receiver<Vec<u8>>,
    seen: &mut PackSeen<'_>,
) -> Result<PackInput, PackError> {
    let mut feed = FrameFeed { image, used, hasher: Hasher::new(), unpadded: None, spare: None };
    let mut raw_bytes: u64 = 0;
    for input in inputs.iter().cycle() {
        let Some(piece) = feed.piece().map_err(|source| PackError::Read { source })? else { break };
        raw_bytes += piece.bytes as u64;
        seen(piece.bytes as u64, piece.data_bytes)?;
        let last = piece.bytes < FRAME_BYTES;
        // The send fails when the writer failed, whose error is then returned.
        if input.send(piece.job).is_err() || last {
            break;
        }
    }
    let raw_sha256 = feed.hasher.finish();
    Ok(PackInput { raw_bytes, raw_sha256, given_sha256: feed.unpadded.unwrap_or(raw_sha256) })
}

impl FrameFeed<'_> {
    /// The next piece, padded to whole sectors. `None`: the image has ended.
    fn piece(&mut self) -> io::Result<Option<ImagePiece>> {
        if self.image.skip_zeros(FRAME_BYTES as u64)? {
            self.hasher.update(&ZEROS);
            return Ok(Some(ImagePiece { bytes: FRAME_BYTES, data_bytes: 0, job: FrameJob::Zeros }));
        }
        let mut chunk = self.spare.take().or_else(|| self.used.try_recv().ok()).unwrap_or_default();
        chunk.resize(FRAME_BYTES, 0);
        let filled = self.image.fill(&mut chunk)?;
        self.hasher.update(&chunk[..filled]);
        let bytes = filled.next_multiple_of(SECTOR_BYTES);
        if bytes > filled {
            self.unpadded = Some(self.hasher.clone().finish());
            chunk[filled..bytes].fill(0);
            self.hasher.update(&chunk[filled..bytes]);
        }
        if bytes == 0 {
            return Ok(None);
        }
        chunk.truncate(bytes);
        let data_bytes = data_bytes(&chunk);
        if data_bytes == 0 && bytes == FRAME_BYTES {
            self.spare = Some(chunk);
            return Ok(Some(ImagePiece { bytes, data_bytes, job: FrameJob::Zeros }));
        }
        Ok(Some(ImagePiece { bytes, data_bytes, job: FrameJob::Data(chunk) }))
    }
}

/// How much of it is in blocks that are not all zeros.
fn data_bytes(chunk: &[u8]) -> u64 {
    let blocks = chunk.chunks(BLOCK_BYTES).filter(|block| **block != ZEROS[..block.len()]);
    blocks.map(|block| block.len() as u64).sum()
}

fn compress(
    jobs: &Receiver<FrameJob>,
    frames: &SyncSender<io::Result<Vec<u8>>>,
    used: &Sender<Vec<u8>>,
    zeros: &OnceLock<Vec<u8>>,
) {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL).and_then(|mut compressor| {
        compressor.include_checksum(true)?;
        compressor.include_contentsize(true)?;
        Ok(compressor)
    });
    while let Ok(job) = jobs.recv() {
        let frame = match (&mut compressor, job) {
            (Ok(compressor), FrameJob::Data(chunk)) => {
                let frame = compressor.compress(&chunk);
                // The pool may be gone at the end.
                drop(used.send(chunk));
                frame
            }
            (Ok(compressor), FrameJob::Zeros) => frame_of_zeros(compressor, zeros),
            (Err(error), _) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        if frames.send(frame).is_err() {
            break;
        }
    }
}

/// All frames of zeros are the same: the first worker that needs one makes it.
fn frame_of_zeros(compressor: &mut zstd::bulk::Compressor<'_>, made: &OnceLock<Vec<u8>>) -> io::Result<Vec<u8>> {
    if let Some(frame) = made.get() {
        return Ok(frame.clone());
    }
    let mut frame = compressor.compress(&ZEROS)?;
    frame.shrink_to_fit();
    Ok(made.get_or_init(|| frame).clone())
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
            let (mut raw_bytes, mut data_bytes) = (0_u64, 0_u64);
            let mut count = |raw: u64, data: u64| {
                raw_bytes += raw;
                data_bytes += data;
                Ok(())
            };
            let packed = pack(&mut Unmapped(&mut &image[..]), &mut out, &mut count).unwrap();
            let mut padded = image.clone();
            padded.resize(bytes.next_multiple_of(512), 0);
            assert_eq!(zstd::decode_all(&out[..]).unwrap(), padded);
            assert_eq!((packed.raw_bytes, raw_bytes), (padded.len() as u64, padded.len() as u64));
            assert!(data_bytes <= raw_bytes);
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
        let packed = pack(&mut Unmapped(&mut Broken), &mut Vec::new(), &mut |_, _| Ok(()));
        assert!(matches!(packed, Err(PackError::Read { .. })));
        let endless = &mut io::repeat(3).take(200 << 20);
        let packed = pack(&mut Unmapped(endless), &mut Full, &mut |_, _| Ok(()));
        assert!(matches!(packed, Err(PackError::Write { .. })));
        let mut out = Vec::new();
        let packed = pack(&mut Unmapped(&mut io::repeat(3)), &mut out, &mut |_, _| Err(BoundExceeded::Logical(1)));
        assert!(matches!(packed, Err(PackError::Exceeded(BoundExceeded::Logical(1)))));
    }

    /// Two blocks of data, each behind holes, and a hole at the end.
    struct Holes {
        at: usize,
        bytes: usize,
        /// What was read, and what was skipped.
        read: usize,
        skipped: u64,
    }

    impl Holes {
        fn byte(at: usize) -> u8 {
            if matches!(at / BLOCK_BYTES, 65 | 200) { 0xa5 } else { 0 }
        }
    }

    impl RawImage for Holes {
        fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = buffer.len().min(self.bytes - self.at);
            (0..bytes).for_each(|index| buffer[index] = Self::byte(self.at + index));
            self.at += bytes;
            self.read += bytes;
            Ok(bytes)
        }

        fn skip_zeros(&mut self, bytes: u64) -> io::Result<bool> {
            let end = self.at + usize::try_from(bytes).unwrap();
            let is_hole = end <= self.bytes && (self.at..end).step_by(BLOCK_BYTES).all(|at| Self::byte(at) == 0);
            if is_hole {
                self.at = end;
                self.skipped += bytes;
            }
            Ok(is_hole)
        }
    }

    #[test]
    fn holes_are_neither_read_nor_counted_and_change_no_byte() {
        // Not a whole number of frames.
        let bytes = 5 * FRAME_BYTES + SECTOR_BYTES;
        let raw: Vec<u8> = (0..bytes).map(Holes::byte).collect();
        let count = |image: &mut dyn RawImage| {
            let (mut out, mut data_bytes) = (Vec::new(), 0_u64);
            let mut seen = |_: u64, data: u64| {
                data_bytes += data;
                Ok(())
            };
            (pack(image, &mut out, &mut seen).unwrap(), out, data_bytes)
        };
        let mut holes = Holes { at: 0, bytes, read: 0, skipped: 0 };
        let (packed, out, data_bytes) = count(&mut holes);
        assert_eq!(data_bytes, 2 * BLOCK_BYTES as u64, "what is not zeros");
        // The two frames with data, and the last one, which is short.
        assert_eq!((holes.read, holes.skipped), (2 * FRAME_BYTES + SECTOR_BYTES, 3 * FRAME_BYTES as u64));
        assert_eq!((packed.raw_bytes, packed.raw_sha256), (bytes as u64, Sha256::of(&raw)));
        assert!(zstd::decode_all(&out[..]).unwrap() == raw);
        let unmapped = count(&mut Unmapped(&mut &raw[..]));
        assert_eq!((unmapped.0, unmapped.2), (packed, data_bytes), "the same without knowing of holes");
        assert!(unmapped.1 == out);
    }
}
