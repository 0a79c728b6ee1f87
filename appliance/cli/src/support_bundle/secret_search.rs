//! Finds known secrets in a text, as they are and in every encoding that programs write: escaped as in JSON or in a URL, in
//! hexadecimal, in base64, packed with gzip, and each of these in another. Pure.
//!
//! Nothing is encoded here. Whatever in the text may be encoded is decoded, and the known values are looked for in that:
//! so a value is found at each place of a longer text that was encoded as a whole.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use anyhow::Context as _;
use flate2::read::GzDecoder;

use super::secret_forms::SecretForms;

/// The most values that are looked for, and their bytes together: the search keeps all of them in memory.
const VALUES_MAX: usize = 200_000;
const VALUES_BYTES_MAX: usize = 8 << 20;
/// How often a text in a text in a text is decoded.
const DEPTH_MAX: usize = 4;
/// The shortest runs of letters that are decoded: shorter ones hold no value that is looked for.
const BASE64_LETTERS_MIN: usize = 8;
const HEX_LETTERS_MIN: usize = 12;
/// The most bytes that a gzip stream is unpacked to.
const UNPACKED_BYTES_MAX: u64 = 1 << 20;
/// The beginning of each gzip stream.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

/// Looks for values and forms of secrets.
pub(super) struct SecretSearch {
    values: AhoCorasick,
}

/// A text in which escapes are replaced by what they stand for, with the place of each byte in the text before.
struct UnescapedText {
    bytes: Vec<u8>,
    origins: Vec<Range<usize>>,
}

impl SecretSearch {
    /// Prepares the search for these values.
    ///
    /// # Errors
    /// When there are too many of them.
    pub(super) fn new(values: &BTreeSet<Vec<u8>>) -> anyhow::Result<Self> {
        let bytes: usize = values.iter().map(Vec::len).sum();
        anyhow::ensure!(
            values.len() <= VALUES_MAX && bytes <= VALUES_BYTES_MAX,
            "could not make a bundle: {} values of {bytes} bytes are in Secrets and configs, and at most {VALUES_MAX} of \
             {VALUES_BYTES_MAX} bytes are looked for; use the kubeconfig of a user who may not read Secrets, and the bundle \
             says that their values were not looked for",
            values.len()
        );
        let values = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(values);
        Ok(Self { values: values.context("could not prepare the search for the values of Secrets")? })
    }

    /// Says whether a value is in the text as it is.
    pub(super) fn is_plainly_in(&self, text: &[u8]) -> bool {
        self.values.is_match(text)
    }

    /// Finds what shows a value. The ranges are in order, and do not overlap.
    pub(super) fn find(&self, forms: &SecretForms, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = self.find_at(forms, text, 0);
        found.sort_unstable_by_key(|range| (range.start, range.end));
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for range in found {
            match merged.last_mut().filter(|last| range.start < last.end) {
                Some(last) => last.end = last.end.max(range.end),
                None => merged.push(range),
            }
        }
        merged
    }

    fn find_at(&self, forms: &SecretForms, text: &[u8], depth: usize) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = self.values.find_iter(text).map(|found| found.range()).collect();
        if depth >= DEPTH_MAX {
            return found;
        }
        let shows = |decoded: &[u8]| self.is_in_decoded(forms, decoded, depth + 1);
        for run in runs(text, is_base64, BASE64_LETTERS_MIN) {
            if (0..4).any(|skipped| shows(&from_base64(&text[run.clone()], skipped))) {
                found.push(run);
            }
        }
        for run in runs(text, |byte| byte.is_ascii_hexdigit(), HEX_LETTERS_MIN) {
            if (0..2).any(|skipped| shows(&from_hex(&text[run.clone()], skipped))) {
                found.push(run);
            }
        }
        if let Some(unescaped) = UnescapedText::of(text) {
            let inner = self.find_at(forms, &unescaped.bytes, depth + 1);
            found.extend(inner.into_iter().map(|range| unescaped.origin(&range)));
        }
        found
    }

    fn is_in_decoded(&self, forms: &SecretForms, decoded: &[u8], depth: usize) -> bool {
        if forms.are_in_decoded(decoded) || !self.find_at(forms, decoded, depth).is_empty() {
            return true;
        }
        decoded.starts_with(&GZIP) && depth < DEPTH_MAX && {
            let unpacked = unpack(decoded);
            forms.are_in_decoded(&unpacked) || !self.find_at(forms, &unpacked, depth + 1).is_empty()
        }
    }
}

/// Unpacks as much of a gzip stream as is whole; of anything else nothing.
pub(super) fn unpack(stream: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    if stream.starts_with(&GZIP) {
        // What was unpacked before an error counts.
        drop(GzDecoder::new(stream).take(UNPACKED_BYTES_MAX).read_to_end(&mut unpacked));
    }
    unpacked
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
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
pub(super) fn from_base64(letters: &[u8], skipped: usize) -> Vec<u8> {
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

fn from_hex(letters: &[u8], skipped: usize) -> Vec<u8> {
    let pairs = letters[skipped.min(letters.len())..].chunks_exact(2);
    pairs.filter_map(|pair| Some(low_byte((digit(pair[0])? << 4) | digit(pair[1])?))).collect()
}

fn low_byte(bits: u32) -> u8 {
    bits.to_le_bytes()[0]
}

fn digit(letter: u8) -> Option<u32> {
    char::from(letter).to_digit(16)
}

impl UnescapedText {
    /// Replaces escapes of JSON, of programs and of URLs; `None` if there are none.
    fn of(text: &[u8]) -> Option<Self> {
        if !text.iter().any(|byte| matches!(byte, b'\\' | b'%')) {
            return None;
        }
        let mut unescaped = Self { bytes: Vec::with_capacity(text.len()), origins: Vec::with_capacity(text.len()) };
        let (mut at, mut has_any) = (0, false);
        while at < text.len() {
            let (bytes, length): (Cow<'_, [u8]>, usize) = match escape_at(&text[at..]) {
                Some((bytes, length)) => {
                    has_any = true;
                    (Cow::Owned(bytes), length)
                }
                None => (Cow::Borrowed(&text[at..=at]), 1),
            };
            unescaped.origins.extend(std::iter::repeat_n(at..at + length, bytes.len()));
            unescaped.bytes.extend_from_slice(&bytes);
            at += length;
        }
        has_any.then_some(unescaped)
    }

    /// Where a range was before; whole escapes belong to it.
    fn origin(&self, range: &Range<usize>) -> Range<usize> {
        let place = |index: usize| self.origins.get(index).cloned().unwrap_or_default();
        place(range.start).start..place(range.end.saturating_sub(1)).end
    }
}

/// What an escape at the beginning of a text stands for, and its length.
fn escape_at(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_u32, |number, letter| number.checked_mul(16)?.checked_add(digit(*letter)?))
    };
    match text {
        [b'%', high, low, ..] => Some((vec![low_byte(number(&[*high, *low])?)], 3)),
        [b'\\', b'u', b'{', rest @ ..] => {
            let length = rest.iter().take(7).position(|byte| *byte == b'}')?;
            Some((utf8(number(&rest[..length])?)?, length + 4))
        }
        [b'\\', b'u', rest @ ..] => {
            let first = number(rest.get(..4)?)?;
            let second = rest.get(4..10).filter(|next| next.starts_with(b"\\u")).and_then(|next| number(&next[2..]));
            match second.filter(|second| (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(second)) {
                Some(second) => Some((utf8(0x1_0000 + (((first - 0xd800) << 10) | (second - 0xdc00)))?, 12)),
                None => Some((utf8(first)?, 6)),
            }
        }
        [b'\\', b'x', rest @ ..] => Some((vec![low_byte(number(rest.get(..2)?)?)], 4)),
        [b'\\', letter, ..] => {
            let byte = match letter {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'0' => 0,
                b'"' | b'\'' | b'\\' | b'/' => *letter,
                _ => return None,
            };
            Some((vec![byte], 2))
        }
        _ => None,
    }
}

fn utf8(code: u32) -> Option<Vec<u8>> {
    Some(char::from_u32(code)?.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::io::Write as _;

    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const SECRET: &str = "k9?Z/ä\"q7&w";

    fn found(text: &str) -> Vec<String> {
        let forms = SecretForms::new().unwrap();
        let search = SecretSearch::new(&BTreeSet::from([SECRET.as_bytes().to_vec()])).unwrap();
        let ranges = search.find(&forms, text.as_bytes());
        ranges.into_iter().map(|range| text[range].to_owned()).collect()
    }

    fn json(text: &str) -> String {
        let quoted = serde_json::to_string(text).unwrap();
        quoted[1..quoted.len() - 1].to_owned()
    }

    fn percent(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02X}")).collect()
    }

    #[test]
    fn a_value_is_found_in_each_encoding_and_what_is_around_it_stays() {
        let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        let escaped = format!("{SECRET:?}");
        for encoded in [
            SECRET.to_owned(),
            json(SECRET),
            json(&json(SECRET)),
            json(&json(&json(SECRET))),
            SECRET.replace('ä', "\\u00e4"),
            escaped.trim_matches('"').to_owned(),
            percent(SECRET),
            percent(SECRET).to_lowercase(),
            hex(SECRET),
            hex(SECRET).to_uppercase(),
            STANDARD.encode(SECRET),
            URL_SAFE_NO_PAD.encode(SECRET),
            STANDARD.encode(STANDARD.encode(SECRET)),
            STANDARD.encode(json(SECRET)),
            json(&percent(SECRET)),
        ] {
            let text = format!("before <{encoded}> behind");
            assert_eq!(found(&text), [encoded.clone()], "{text}");
        }
    }

    #[test]
    fn a_value_is_found_inside_of_a_longer_text_that_was_encoded() {
        for before in ["", "a", "ab", "abc"] {
            let whole = format!("{before}{SECRET} and more");
            for text in [STANDARD.encode(&whole), STANDARD.encode(STANDARD.encode(&whole))] {
                assert_eq!(found(&format!("x: {text}")), [text]);
            }
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(format!("a: {SECRET}\n").as_bytes()).unwrap();
        let packed = STANDARD.encode(packed.finish().unwrap());
        assert_eq!(found(&format!("\"{packed}\"")), [packed]);
        let key = "-----BEGIN PRIVATE KEY-----\nMHc=\n-----END PRIVATE KEY-----\n";
        assert_eq!(found(&STANDARD.encode(key)), [STANDARD.encode(key)], "a form that was encoded");
    }

    #[test]
    fn other_texts_are_not_touched() {
        for text in [
            "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "a 100% full disk with \\ and \\q and %zz",
            "/var/lib/firesteel/images/0123456789abcdef",
            "",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn too_many_values_are_refused() {
        let long = BTreeSet::from([vec![b'x'; VALUES_BYTES_MAX + 1]]);
        let error = SecretSearch::new(&long).err().unwrap().to_string();
        assert!(error.contains("may not read Secrets"), "{error}");
    }
}
