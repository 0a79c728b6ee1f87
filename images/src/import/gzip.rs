//! gzip as gzip(1) reads it: members in a row are one stream, zeros behind the last one are padding, and other bytes
//! behind it are left out and counted (RFC 1952 does not say what they are; firmware images have signatures there).

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use flate2::bufread::GzDecoder;

/// How a member begins: the magic bytes, and the only method that there is.
const MEMBER: [u8; 3] = [0x1f, 0x8b, 8];

/// How many bytes behind the end of a stream were left out; 0 until its end was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrailingBytes(Rc<Cell<u64>>);

impl TrailingBytes {
    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }
}

/// Expands all members of a stream.
pub(super) struct GzipMembers<R> {
    /// The decoder, until all of them were read, or one could not be.
    decoder: Option<GzDecoder<PeekReader<R>>>,
    trailing: TrailingBytes,
}

impl<R: BufRead> GzipMembers<R> {
    pub(super) fn new(source: R, trailing: TrailingBytes) -> Self {
        let source = PeekReader { seen: Vec::new(), given: 0, inner: source };
        Self { decoder: Some(GzDecoder::new(source)), trailing }
    }

    /// Goes on to what comes behind a member.
    fn next_member(&mut self) -> io::Result<()> {
        let Some(decoder) = self.decoder.take() else { return Ok(()) };
        let mut source = decoder.into_inner();
        let zeros = source.skip_zeros()?;
        let start = source.peek()?.to_vec();
        if start == MEMBER {
            self.decoder = Some(GzDecoder::new(source));
        } else if !start.is_empty() && MEMBER.starts_with(&start) {
            // A member that was cut.
            return Err(io::ErrorKind::UnexpectedEof.into());
        } else if !start.is_empty() {
            let rest = io::copy(&mut source, &mut io::sink())?;
            self.trailing.0.set(zeros.saturating_add(rest));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(decoder) = &mut self.decoder {
            match decoder.read(buffer) {
                Ok(0) => self.next_member()?,
                Ok(bytes) => return Ok(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => {
                    self.decoder = None;
                    return Err(error);
                }
            }
        }
        Ok(0)
    }
}

/// A source whose next bytes can be looked at.
struct PeekReader<R> {
    seen: Vec<u8>,
    /// The number of them that were read since.
    given: usize,
    inner: R,
}

impl<R: BufRead> PeekReader<R> {
    /// The next bytes, as many as a member begins with, or all that are left.
    fn peek(&mut self) -> io::Result<&[u8]> {
        while self.seen.len() - self.given < MEMBER.len() {
            let Some(byte) = self.inner.fill_buf()?.first().copied() else { break };
            self.inner.consume(1);
            self.seen.push(byte);
        }
        Ok(&self.seen[self.given..])
    }

    fn skip_zeros(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let bytes = self.fill_buf()?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let is_over = zeros < bytes.len() || bytes.is_empty();
            self.consume(zeros);
            skipped += zeros as u64;
            if is_over {
                return Ok(skipped);
            }
        }
    }
}

impl<R: BufRead> BufRead for PeekReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.given < self.seen.len() { Ok(&self.seen[self.given..]) } else { self.inner.fill_buf() }
    }

    fn consume(&mut self, bytes: usize) {
        if self.given < self.seen.len() {
            self.given += bytes;
            if self.given == self.seen.len() {
                self.seen.clear();
                self.given = 0;
            }
        } else {
            self.inner.consume(bytes);
        }
    }
}

impl<R: BufRead> Read for PeekReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?.read(buffer)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::io::{BufReader, Write as _};

    use super::*;

    fn member(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    /// What a stream holds, and how many bytes behind it were left out; whatever the source gives at a time.
    fn expanded(parts: &[&[u8]]) -> io::Result<(Vec<u8>, u64)> {
        let stream = parts.concat();
        let mut all = Vec::new();
        for buffer_bytes in [1, 2, 3, 7, 4096] {
            let trailing = TrailingBytes::default();
            let source = BufReader::with_capacity(buffer_bytes, &stream[..]);
            let mut data = Vec::new();
            GzipMembers::new(source, trailing.clone()).read_to_end(&mut data)?;
            all.push((data, trailing.get()));
        }
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "it depends on the buffer");
        Ok(all.swap_remove(0))
    }

    #[test]
    fn zeros_behind_the_last_member_are_padding() {
        let (first, second) = (member(b"first "), member(b"second"));
        assert_eq!(expanded(&[&first, &second]).unwrap(), (b"first second".to_vec(), 0));
        assert_eq!(expanded(&[&first, &[0; 5000]]).unwrap(), (b"first ".to_vec(), 0));
        // Blocks of a tape: members between zeros.
        assert_eq!(expanded(&[&first, &[0; 100], &second, &[0; 3]]).unwrap(), (b"first second".to_vec(), 0));
        assert_eq!(expanded(&[&member(b"")]).unwrap(), (Vec::new(), 0));
    }

    #[test]
    fn other_bytes_behind_it_are_counted_and_no_data() {
        let first = member(b"first");
        for rest in [&b"signature"[..], &[0x11], &[0x1f, 0x8b, 7, 1, 2], &[0x8b, 0x1f]] {
            let trailing = rest.len() as u64;
            assert_eq!(expanded(&[&first, rest]).unwrap(), (b"first".to_vec(), trailing), "{rest:?}");
            let padded = expanded(&[&first, &[0; 8], rest]).unwrap();
            assert_eq!(padded, (b"first".to_vec(), trailing + 8), "all that is left out: {rest:?}");
        }
    }

    #[test]
    fn a_member_that_was_cut_is_an_error_wherever() {
        let (first, second) = (member(b"first"), member(b"second"));
        for kept in 1..second.len() {
            let error = expanded(&[&first, &second[..kept]]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{kept} bytes of the second");
        }
        assert!(expanded(&[&first[..first.len() - 1]]).is_err());
        assert!(expanded(&[b"no gzip at all"]).is_err());
    }

    #[test]
    fn what_is_behind_an_error_is_not_read() {
        let mut damaged = member(b"first");
        let last = damaged.len() - 1;
        // Of the length.
        damaged[last] ^= 1;
        let stream = [damaged, member(b"second")].concat();
        let mut members = GzipMembers::new(&stream[..], TrailingBytes::default());
        let mut data = Vec::new();
        assert!(members.read_to_end(&mut data).is_err());
        assert_eq!(members.read(&mut [0; 8]).unwrap(), 0);
    }
}
