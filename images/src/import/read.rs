//! Small readers that nest: one that counts, bounds and hashes a source, one that expands a
//! compression, one that stops a bomb.

use std::{
    cell::Cell,
    io::{self, BufRead, BufReader, Read},
};

use liblzma::stream::{CONCATENATED, Stream};

use super::{checksum::SourceHasher, format::Format};

/// Largest raw image: no published one comes near, and hashing it takes a quarter of an hour.
pub const RAW_BYTES_MAX: u64 = 1 << 40;
/// An image may expand to this whatever it came from: disks of appliances are mostly empty.
pub const EXPANSION_FREE_BYTES: u64 = 64 << 30;
/// Beyond that, to this many times its source. gzip reaches 1032, so honest sparse images pass.
pub const EXPANSION_RATIO_MAX: u64 = 1100;
/// xz -9 asks for 65 MiB to decompress; much more is a bad joke.
const XZ_MEMORY_BYTES_MAX: u64 = 256 << 20;
/// What the `zstd` program accepts unasked (128 MiB).
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
const BUFFER_BYTES: usize = 256 << 10;

/// Counts, bounds and hashes what it reads.
pub(crate) struct Source<'a, R> {
    inner: R,
    hasher: SourceHasher,
    count: &'a Cell<u64>,
    bytes_max: u64,
}

impl<'a, R: Read> Source<'a, R> {
    pub(crate) fn new(inner: R, hasher: SourceHasher, count: &'a Cell<u64>, bytes_max: u64) -> Self {
        Self { inner, hasher, count, bytes_max }
    }

    /// Reads what is left, so that the digests are those of the whole.
    pub(crate) fn drain(&mut self) -> io::Result<u64> {
        io::copy(self, &mut io::sink())
    }

    pub(crate) fn into_hasher(self) -> SourceHasher {
        self.hasher
    }
}

impl<R: Read> Read for Source<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        let count = self.count.get() + bytes as u64;
        if count > self.bytes_max {
            return Err(io::Error::other(format!("the source is longer than {} bytes", self.bytes_max)));
        }
        self.count.set(count);
        self.hasher.update(&buffer[..bytes]);
        Ok(bytes)
    }
}

/// Expands one compression to its proper end: truncated streams and trailing garbage are errors,
/// several members, frames or streams in a row are one.
///
/// # Errors
/// The decoder could not be made (no memory).
pub fn expand<'a>(format: Format, source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let source = BufReader::with_capacity(BUFFER_BYTES, source);
    Ok(match format {
        Format::Raw | Format::Qcow2 => Box::new(source),
        Format::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        Format::Xz => {
            let decoder = Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, CONCATENATED).map_err(io::Error::other)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(source, decoder))
        }
        Format::Zstd => Box::new(zstd_decoder(source)?),
    })
}

fn zstd_decoder<'a, R: BufRead + 'a>(source: R) -> io::Result<zstd::stream::read::Decoder<'a, R>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// Fails when an image grows out of proportion to its source.
pub(crate) struct Expansion<'a, R> {
    inner: R,
    source_bytes: &'a Cell<u64>,
    free_bytes: u64,
    raw_bytes: u64,
}

impl<'a, R: Read> Expansion<'a, R> {
    pub(crate) fn new(inner: R, source_bytes: &'a Cell<u64>, free_bytes: u64) -> Self {
        Self { inner, source_bytes, free_bytes, raw_bytes: 0 }
    }
}

impl<R: Read> Read for Expansion<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.raw_bytes += bytes as u64;
        let allowed = self.free_bytes.max(self.source_bytes.get().saturating_mul(EXPANSION_RATIO_MAX));
        if self.raw_bytes > allowed.min(RAW_BYTES_MAX) {
            let (raw, source) = (self.raw_bytes, self.source_bytes.get());
            return Err(io::Error::other(format!("it expands to more than {raw} bytes from {source}: refused")));
        }
        Ok(bytes)
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
    for format in [Format::Gzip, Format::Xz, Format::Zstd] {
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

    fn compress(format: Format, data: &[u8]) -> Vec<u8> {
        match format {
            Format::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            Format::Xz => {
                let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            Format::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
                encoder.include_checksum(true).unwrap();
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            Format::Raw | Format::Qcow2 => data.to_vec(),
        }
    }

    fn expanded(format: Format, data: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        expand(format, data)?.read_to_end(&mut out)?;
        Ok(out)
    }

    const COMPRESSED: [Format; 3] = [Format::Gzip, Format::Xz, Format::Zstd];

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
                prop_assert!(expanded(format, &trailing).is_err(), "{} with garbage", format);
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

    #[test]
    fn expansion_is_bounded() {
        let source_bytes = Cell::new(1);
        let mut reader = Expansion::new(io::repeat(0), &source_bytes, EXPANSION_FREE_BYTES);
        reader.raw_bytes = EXPANSION_FREE_BYTES - 10;
        let mut buffer = [0; 10];
        assert_eq!(reader.read(&mut buffer).unwrap(), 10);
        assert!(reader.read(&mut buffer).is_err());
        source_bytes.set(EXPANSION_FREE_BYTES);
        assert!(reader.read(&mut buffer).is_ok());
        reader.raw_bytes = RAW_BYTES_MAX;
        assert!(reader.read(&mut buffer).is_err());
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
