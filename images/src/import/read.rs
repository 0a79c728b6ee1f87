//! Small readers that nest: one that meters and hashes a source, one that expands a compression.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use liblzma::stream::{CONCATENATED, Stream};

use super::bounds::ImportMeter;
use super::checksum::SourceHasher;
use super::decoder::{self, HistoryTooLong};
use super::format::ImportFormat;
use super::gzip::{GzipMembers, TrailingBytes};

const BUFFER_BYTES: usize = 256 << 10;

/// Meters and hashes what it reads.
pub(crate) struct MeteredSource<'a, R> {
    inner: R,
    hasher: SourceHasher,
    meter: &'a ImportMeter<'a>,
}

impl<'a, R: Read> MeteredSource<'a, R> {
    pub(crate) fn new(inner: R, hasher: SourceHasher, meter: &'a ImportMeter<'a>) -> Self {
        Self { inner, hasher, meter }
    }

    /// Reads what is left, so that the digests are those of the whole.
    pub(crate) fn drain(&mut self) -> io::Result<u64> {
        io::copy(self, &mut io::sink())
    }

    pub(crate) fn into_hasher(self) -> SourceHasher {
        self.hasher
    }
}

impl<R: Read> Read for MeteredSource<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.meter.source(bytes as u64).map_err(io::Error::other)?;
        self.hasher.update(&buffer[..bytes]);
        Ok(bytes)
    }
}

/// Expands one compression to its proper end: truncated streams are errors, and so is what comes behind the end (behind
/// that of gzip it is left out); several members, frames or streams in a row are one. A decoder takes
/// [`decoder::DECODER_BYTES_MAX`] at most.
///
/// # Errors
/// The decoder could not be made: it needs too much memory, or the source cannot be read.
pub fn expand<'a>(format: ImportFormat, source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    expand_counting(format, source, &TrailingBytes::default())
}

/// Expands a source, and counts the bytes behind the end that are left out.
pub(crate) fn expand_counting<'a>(
    format: ImportFormat,
    source: impl Read + 'a,
    trailing: &TrailingBytes,
) -> io::Result<Box<dyn Read + 'a>> {
    let taken = Rc::new(Cell::new(0));
    let source = BufReader::with_capacity(BUFFER_BYTES, source);
    let mut source = CompressedSource { inner: source, taken: Rc::clone(&taken) };
    if matches!(format, ImportFormat::Xz | ImportFormat::Zstd) {
        decoder::check(format, source.fill_buf()?).map_err(io::Error::other)?;
    }
    let inner: Box<dyn Read + 'a> = match format {
        ImportFormat::Raw | ImportFormat::Qcow2 => Box::new(source),
        ImportFormat::Gzip => Box::new(GzipMembers::new(source, trailing.clone())),
        ImportFormat::Xz => {
            let bytes_max = decoder::DECODER_BYTES_MAX as u64;
            let stream = Stream::new_stream_decoder(bytes_max, CONCATENATED).map_err(io::Error::other)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(source, stream))
        }
        ImportFormat::Zstd => Box::new(zstd_decoder(source)?),
    };
    Ok(Box::new(Expanding { format, inner, taken }))
}

fn zstd_decoder<'a, R: BufRead + 'a>(source: R) -> io::Result<zstd::stream::read::Decoder<'a, R>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
    decoder.window_log_max(decoder::HISTORY_LOG_MAX)?;
    Ok(decoder)
}

/// The source of a decoder could not be read: that is no fault of what it holds.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct SourceFailed(pub(crate) io::Error);

/// A decoder could not go on.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub(crate) struct DecodeFailed {
    /// The number of compressed bytes that were taken before; what is wrong is there or shortly before.
    pub(crate) at_bytes: u64,
    pub(crate) source: io::Error,
}

/// Counts what a decoder takes, and names errors that are not its own.
struct CompressedSource<R> {
    inner: BufReader<R>,
    taken: Rc<Cell<u64>>,
}

impl<R: Read> BufRead for CompressedSource<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // Not all that reads from here comes back where it was after an interruption.
        while let Err(error) = self.inner.fill_buf() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(io::Error::new(error.kind(), SourceFailed(error)));
            }
        }
        Ok(self.inner.buffer())
    }

    fn consume(&mut self, bytes: usize) {
        self.inner.consume(bytes);
        self.taken.set(self.taken.get() + bytes as u64);
    }
}

impl<R: Read> Read for CompressedSource<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?.read(buffer)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

/// A decoder whose errors say what they are, and where.
struct Expanding<R> {
    format: ImportFormat,
    inner: R,
    taken: Rc<Cell<u64>>,
}

impl<R: Read> Read for Expanding<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| {
            let error = decoder::name(self.format, error);
            let is_named =
                error.get_ref().is_some_and(|cause| cause.is::<SourceFailed>() || cause.is::<HistoryTooLong>());
            if is_named || error.kind() == io::ErrorKind::Interrupted {
                return error;
            }
            io::Error::new(error.kind(), DecodeFailed { at_bytes: self.taken.get(), source: error })
        })
    }
}

/// Fills the buffer as far as the source reaches.
pub(crate) fn fill(source: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Expands any bytes as each compression. For fuzzing: never panics, never takes long.
pub fn check(bytes: &[u8]) {
    for format in [ImportFormat::Gzip, ImportFormat::Xz, ImportFormat::Zstd] {
        if let Ok(reader) = expand(format, bytes) {
            drop(io::copy(&mut reader.take(1 << 20), &mut io::sink()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn compress(format: ImportFormat, data: &[u8]) -> Vec<u8> {
        match format {
            ImportFormat::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            ImportFormat::Xz => {
                let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            ImportFormat::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
                encoder.include_checksum(true).unwrap();
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            ImportFormat::Raw | ImportFormat::Qcow2 => data.to_vec(),
        }
    }

    fn expanded(format: ImportFormat, data: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        expand(format, data)?.read_to_end(&mut out)?;
        Ok(out)
    }

    const COMPRESSED: [ImportFormat; 3] = [ImportFormat::Gzip, ImportFormat::Xz, ImportFormat::Zstd];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn members_in_a_row_are_one_and_cuts_are_errors(
            first in prop::collection::vec(any::<u8>(), 0..3000),
            second in prop::collection::vec(any::<u8>(), 0..3000),
            cut in 1_usize..4000,
            garbage in prop::collection::vec(any::<u8>(), 1..40),
        ) {
            for format in COMPRESSED {
                let mut stream = compress(format, &first);
                let boundary = stream.len();
                stream.extend(compress(format, &second));
                prop_assert_eq!(expanded(format, &stream).unwrap(), [first.clone(), second.clone()].concat());

                let kept = stream.len() - cut.min(stream.len() - 1);
                if kept != boundary {
                    prop_assert!(expanded(format, &stream[..kept]).is_err(), "{} cut to {}", format, kept);
                }
                let mut trailing = stream.clone();
                trailing.push(0x11);
                trailing.extend(&garbage);
                match expanded(format, &trailing) {
                    Ok(data) => {
                        prop_assert_eq!(format, ImportFormat::Gzip);
                        prop_assert_eq!(data, [first.clone(), second.clone()].concat());
                    }
                    Err(_) => prop_assert!(format != ImportFormat::Gzip),
                }
            }
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            check(&bytes);
            check(&[&[0x1f, 0x8b, 8, 0][..], &bytes].concat());
            check(&[&[0x28, 0xb5, 0x2f, 0xfd][..], &bytes].concat());
            check(&[&b"\xfd7zXZ\0"[..], &bytes].concat());
        }
    }

    /// Makes an xz stream say that its dictionary has `(2 | bits & 1) << (bits / 2 + 11)` bytes.
    fn with_dictionary(mut xz: Vec<u8>, bits: u8) -> Vec<u8> {
        assert_eq!(xz[12..16], [2, 0, 0x21, 1], "a block header of 12 bytes with one filter");
        xz[16] = bits;
        let mut crc = flate2::Crc::new();
        crc.update(&xz[12..20]);
        xz[20..24].copy_from_slice(&crc.sum().to_le_bytes());
        xz
    }

    /// Eight files of kilobytes took gigabytes.
    #[test]
    fn a_dictionary_or_window_beyond_the_bound_is_refused_wherever_it_stands() {
        let named = |format: ImportFormat, stream: &[u8]| {
            let error = expanded(format, stream).expect_err("it was expanded");
            error.downcast::<decoder::HistoryTooLong>().unwrap_or_else(|error| panic!("{format}: {error}"))
        };
        let small = compress(ImportFormat::Xz, b"data");
        assert_eq!(expanded(ImportFormat::Xz, &with_dictionary(small.clone(), 30)).unwrap(), b"data", "128 MiB");
        let large = with_dictionary(small.clone(), 31);
        assert_eq!(named(ImportFormat::Xz, &large).asked_bytes, Some(192 << 20));
        assert_eq!(named(ImportFormat::Xz, &[small, large].concat()).asked_bytes, None, "in the second stream");

        let windowed = |log: u8| [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, (log - 10) << 3, 0x21, 0, 0][..], b"data"].concat();
        assert_eq!(expanded(ImportFormat::Zstd, &windowed(27)).unwrap(), b"data", "128 MiB");
        assert_eq!(named(ImportFormat::Zstd, &windowed(28)).asked_bytes, Some(256 << 20));
        let second = [compress(ImportFormat::Zstd, b"data"), windowed(28)].concat();
        assert_eq!(named(ImportFormat::Zstd, &second).asked_bytes, None, "in the second frame");
    }

    /// "Cut, damaged or made to harm" was said of a disk that could not be read.
    #[test]
    fn an_error_says_where_it_is_and_whose() {
        struct BrokenSource;
        impl Read for BrokenSource {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        for format in COMPRESSED {
            let stream = compress(format, &[7; 5000]);
            let kept = stream.len() - 2;
            let error = expanded(format, &stream[..kept]).expect_err("it was cut");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{format}");
            let failed = error.downcast::<DecodeFailed>().unwrap_or_else(|error| panic!("{format}: {error}"));
            assert_eq!(failed.at_bytes, kept as u64, "{format}");

            let start = &stream[..stream.len() / 2];
            let mut reader = expand(format, start.chain(BrokenSource)).unwrap();
            let error = io::copy(&mut reader, &mut io::sink()).expect_err("the source failed");
            let failed = error.downcast::<SourceFailed>().unwrap_or_else(|error| panic!("{format}: {error}"));
            assert_eq!(failed.0.to_string(), "the disk is gone", "{format}");
        }
    }

    /// A signal between two members of a gzip ended the image behind the first one, without an error.
    #[test]
    fn an_interrupted_source_is_read_on() {
        struct InterruptedSource<'a> {
            left: &'a [u8],
            is_next: bool,
        }
        impl Read for InterruptedSource<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.is_next = !self.is_next;
                if self.is_next {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                // A byte at a time, so that each place is one between two reads.
                let bytes = buffer.len().min(1);
                self.left.read(&mut buffer[..bytes])
            }
        }
        for format in COMPRESSED {
            let stream = [compress(format, b"first "), compress(format, b"second")].concat();
            let mut reader = expand(format, InterruptedSource { left: &stream, is_next: false }).unwrap();
            let mut data = Vec::new();
            reader.read_to_end(&mut data).unwrap();
            assert_eq!(data, b"first second", "{format}");
        }
    }

    #[test]
    fn a_changed_bit_is_an_error() {
        // Nothing repeats, so that every bit of the stream carries data.
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        let data: Vec<u8> = (0..100_000).map(|_| next()).collect();
        for format in COMPRESSED {
            let mut stream = compress(format, &data);
            let middle = stream.len() / 2;
            stream[middle] ^= 0x10;
            assert!(expanded(format, &stream).is_err(), "{format}");
        }
    }
}
