//! The encodings that programs write, and what they stand for: base64, hexadecimal, gzip, escapes. Pure.

use std::io::Read as _;
use std::ops::Range;

use flate2::bufread::GzDecoder;

/// The shortest runs of letters that are decoded: shorter ones hold no value that is looked for.
pub(crate) const BASE64_LETTERS_MIN: usize = 8;
const HEX_LETTERS_MIN: usize = 12;
/// The shortest line of base64 that goes on in the next line.
const WRAPPED_LETTERS_MIN: usize = 40;
/// The deepest indent of such a line.
const INDENT_MAX: usize = 64;
/// The beginning of each gzip stream.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

/// A part of a text that may be an encoded text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodedRun {
    /// Where it stands, with all that belongs to it.
    pub(crate) range: Range<usize>,
    /// Its letters alone.
    pub(crate) letters: Vec<u8>,
}

/// What a gzip stream holds, as far as it is whole.
#[derive(Debug, Default)]
pub(crate) struct UnpackedStream {
    pub(crate) bytes: Vec<u8>,
    /// There may be more of it.
    pub(crate) is_cut: bool,
    /// How many bytes of the stream were read.
    pub(crate) read: usize,
}

/// Lists where gzip streams begin.
pub(crate) fn gzip_starts(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    bytes.windows(GZIP.len()).enumerate().filter(|(_, window)| *window == GZIP).map(|(start, _)| start)
}

/// Unpacks as much of a gzip stream as is whole, up to a bound; of anything else nothing.
pub(crate) fn unpack(stream: &[u8], bytes_max: usize) -> UnpackedStream {
    let mut bytes = Vec::new();
    if !stream.starts_with(&GZIP) {
        return UnpackedStream::default();
    }
    let mut decoder = GzDecoder::new(stream).take(bytes_max as u64);
    // What was unpacked before an error counts.
    drop(decoder.read_to_end(&mut bytes));
    let read = stream.len() - decoder.into_inner().into_inner().len();
    UnpackedStream { is_cut: bytes.len() >= bytes_max, bytes, read }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Lists the longest runs of letters of base64, each with its padding. The sign of the padding begins none, so that the
/// name in `name=value` does not belong to the value.
pub(crate) fn base64_runs(text: &[u8], letters_min: usize) -> impl Iterator<Item = EncodedRun> + '_ {
    runs(text, is_base64, letters_min).map(|range| {
        let padding = text[range.end..].iter().take(2).take_while(|byte| **byte == b'=').count();
        EncodedRun { letters: text[range.clone()].to_vec(), range: range.start..range.end + padding }
    })
}

/// Lists runs of base64 that go over several lines (RFC 2045, section 6.8), which may be indented.
pub(crate) fn wrapped_runs(text: &[u8]) -> Vec<EncodedRun> {
    let mut found = Vec::new();
    if !text.contains(&b'\n') {
        return found;
    }
    let mut block: Option<EncodedRun> = None;
    let (mut lines, mut last_letters) = (0, 0);
    for run in base64_runs(text, 1) {
        let goes_on = last_letters >= WRAPPED_LETTERS_MIN
            && block.as_ref().is_some_and(|block| is_line_break(&text[block.range.end..run.range.start]));
        // Padding ends it.
        let is_padded = run.range.len() > run.letters.len();
        last_letters = if is_padded { 0 } else { run.letters.len() };
        match block.as_mut().filter(|_| goes_on) {
            Some(block) => {
                block.range.end = run.range.end;
                block.letters.extend_from_slice(&run.letters);
                lines += 1;
            }
            None => {
                found.extend(block.replace(run).filter(|_| lines > 1));
                lines = 1;
            }
        }
    }
    found.extend(block.filter(|_| lines > 1));
    found
}

/// Says whether one line ends and the next begins here.
fn is_line_break(between: &[u8]) -> bool {
    let between = between.strip_prefix(b"\r").unwrap_or(between);
    let indent = between.strip_prefix(b"\n");
    indent.is_some_and(|indent| indent.len() <= INDENT_MAX && indent.iter().all(|byte| matches!(byte, b' ' | b'\t')))
}

/// Lists runs of hexadecimal digits: joined, or pairs with a colon, a space or a dash between them.
pub(crate) fn hex_runs(text: &[u8]) -> impl Iterator<Item = EncodedRun> + '_ {
    let joined = runs(text, |byte| byte.is_ascii_hexdigit(), HEX_LETTERS_MIN);
    let joined = joined.map(|range| EncodedRun { letters: text[range.clone()].to_vec(), range });
    joined.chain([b':', b' ', b'-'].into_iter().flat_map(|sign| paired_runs(text, sign)))
}

/// Lists runs of pairs of digits with a sign between them.
fn paired_runs(text: &[u8], sign: u8) -> Vec<EncodedRun> {
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_hexdigit);
    let is_pair = |at: usize| is_digit(at) && is_digit(at + 1) && !is_digit(at + 2);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let start = at;
        let mut letters = Vec::new();
        while is_pair(at) {
            letters.extend_from_slice(&text[at..at + 2]);
            at += 2;
            if text.get(at) != Some(&sign) {
                break;
            }
            at += 1;
        }
        if letters.len() >= HEX_LETTERS_MIN {
            let is_behind_sign = !is_digit(at.saturating_sub(1));
            found.push(EncodedRun { range: start..if is_behind_sign { at - 1 } else { at }, letters });
        } else {
            at = start + 1;
        }
    }
    found
}

/// The longest runs of such bytes.
fn runs(text: &[u8], is_one: fn(u8) -> bool, length_min: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < text.len() {
            let start = at + text[at..].iter().position(|byte| is_one(*byte))?;
            let end = text[start..].iter().position(|byte| !is_one(*byte)).map_or(text.len(), |length| start + length);
            at = end;
            if end - start >= length_min {
                return Some(start..end);
            }
        }
        None
    })
}

/// Decodes base64 of both alphabets behind some letters. Padding ends nothing: streams may be joined.
pub(crate) fn from_base64(letters: &[u8], skipped: usize) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(letters.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for letter in letters.iter().skip(skipped) {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => {
                (bits, count) = (0, 0);
                continue;
            }
        };
        bits = ((bits << 6) | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push(low_byte(bits >> count));
        }
    }
    decoded
}

/// Decodes pairs of hexadecimal digits behind some letters.
pub(crate) fn from_hex(letters: &[u8], skipped: usize) -> Vec<u8> {
    let pairs = letters[skipped.min(letters.len())..].chunks_exact(2);
    pairs.filter_map(|pair| Some(low_byte((digit(pair[0])? << 4) | digit(pair[1])?))).collect()
}

pub(crate) fn low_byte(bits: u32) -> u8 {
    bits.to_le_bytes()[0]
}

pub(crate) fn digit(letter: u8) -> Option<u32> {
    char::from(letter).to_digit(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_digits_are_runs() {
        let found =
            |text: &str| -> Vec<String> { hex_runs(text.as_bytes()).map(|run| text[run.range].to_owned()).collect() };
        for (text, expected) in [
            ("x 68:75:6e:74:65:72:32 y", "68:75:6e:74:65:72:32"),
            ("68 75 6e 74 65 72 32", "68 75 6e 74 65 72 32"),
            ("at 68-75-6e-74-65-72-32-", "68-75-6e-74-65-72-32"),
            ("add 68756e746572 ", "68756e746572"),
        ] {
            assert_eq!(found(text), [expected], "{text}");
        }
        assert_eq!(found("10:20:30 68:75:6e:74 a"), Vec::<String>::new());
    }

    #[test]
    fn the_bytes_that_were_read_are_counted() {
        let unpacked = unpack(&[0x1f, 0x8b, 8, 0, 0], 10);
        assert!(unpacked.bytes.is_empty() && !unpacked.is_cut && unpacked.read > 0);
    }
}
