//! The compressions of packages and modules, within bounds: the file decides neither on a decoder's memory nor on how
//! much comes out of it.

use std::io::{self, Read};

use liblzma::stream::Stream;

/// `xz -9`, the most that packages use, asks for 65 MiB to unpack.
const XZ_MEMORY_BYTES_MAX: u64 = 256 << 20;
/// What the `zstd` program accepts unasked: a window of 128 MiB.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Reads what the compression of that suffix holds, and fails after `bytes_max` bytes. `None` for a
/// suffix that is not known here.
pub(crate) fn expand<'a>(
    suffix: &str,
    content: &'a [u8],
    bytes_max: u64,
) -> io::Result<Option<ExpansionLimit<Box<dyn Read + 'a>>>> {
    let inner: Box<dyn Read + 'a> = match suffix {
        "" => Box::new(content),
        ".xz" => {
            let decoder = Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, 0).map_err(io::Error::other)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(content, decoder))
        }
        ".zst" => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(content)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        _ => return Ok(None),
    };
    Ok(Some(ExpansionLimit { inner, bytes_left: bytes_max }))
}

/// Fails where a small file expands to more than such a file holds.
#[derive(Debug)]
pub(crate) struct ExpansionLimit<R> {
    inner: R,
    bytes_left: u64,
}

impl<R: Read> Read for ExpansionLimit<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        let refusal = || io::Error::other("it expands to more than any such file holds");
        self.bytes_left = self.bytes_left.checked_sub(bytes as u64).ok_or_else(refusal)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use crate::fixture;

    fn read(suffix: &str, bytes: &[u8], bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        expand(suffix, bytes, bytes_max)?.unwrap().read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn what_comes_out_is_bounded_to_the_byte() {
        let content = vec![0; 5000];
        for (suffix, packed) in [
            ("", content.clone()),
            (".xz", fixture::xz(&content)),
            (".zst", zstd::encode_all(&content[..], 1).unwrap()),
        ] {
            assert_eq!(read(suffix, &packed, 5000).unwrap(), content);
            let why = read(suffix, &packed, 4999).unwrap_err().to_string();
            assert!(why.contains("expands to more"), "{suffix}: {why}");
        }
        assert!(expand(".gz", b"", 1).unwrap().is_none());
    }

    /// Both streams ask for a gibibyte, whatever their content.
    #[test]
    fn a_decoder_takes_no_more_than_its_share_of_memory() {
        let mut options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
        options.dict_size(1 << 30);
        let mut filters = liblzma::stream::Filters::new();
        filters.lzma2(&options);
        let encoder = Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc32).unwrap();
        let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), encoder);
        io::Write::write_all(&mut encoder, b"content").unwrap();
        let xz = encoder.finish().unwrap();
        // A frame of one empty block; its window is 2^(10 + 20) bytes.
        let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3, 0x01, 0x00, 0x00];
        for (suffix, bytes) in [(".xz", &xz[..]), (".zst", &zstd)] {
            let why = read(suffix, bytes, 100).unwrap_err().to_string();
            assert!(why.contains("memory"), "{suffix}: {why}");
        }
    }
}
