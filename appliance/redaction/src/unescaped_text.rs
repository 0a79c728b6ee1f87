//! Texts in which escapes are replaced by what they stand for. One kind of escape is undone at a time: what looks like an
//! escape of another kind may be a letter of a secret. Pure.

use std::borrow::Cow;
use std::ops::Range;

use crate::encodings::{digit, low_byte};

/// How letters are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EscapeKind {
    /// A backslash escapes, as in JSON and in programs: `\n`, `\u00e4`.
    Backslash,
    /// A percent sign escapes, as in URLs: `%41`.
    Percent,
    /// A percent sign escapes, and a plus sign is a space, as in forms of web pages.
    Form,
}

/// A text in which escapes are replaced, with the place of each byte in the text before.
pub(crate) struct UnescapedText {
    pub(crate) bytes: Vec<u8>,
    origins: Vec<Range<usize>>,
}

impl UnescapedText {
    /// Replaces the escapes of one kind; `None` if there are none.
    pub(crate) fn of(text: &[u8], kind: EscapeKind) -> Option<Self> {
        let sign = match kind {
            EscapeKind::Backslash => b'\\',
            EscapeKind::Percent => b'%',
            EscapeKind::Form => b'+',
        };
        if !text.contains(&sign) {
            return None;
        }
        let mut unescaped = Self { bytes: Vec::with_capacity(text.len()), origins: Vec::with_capacity(text.len()) };
        let (mut at, mut has_any) = (0, false);
        while at < text.len() {
            let (bytes, length): (Cow<'_, [u8]>, usize) = match kind.escape_at(&text[at..]) {
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
    pub(crate) fn origin(&self, range: &Range<usize>) -> Range<usize> {
        let place = |index: usize| self.origins.get(index).cloned().unwrap_or_default();
        place(range.start).start..place(range.end.saturating_sub(1)).end
    }
}

impl EscapeKind {
    /// What an escape at the beginning of a text stands for, and its length.
    fn escape_at(self, text: &[u8]) -> Option<(Vec<u8>, usize)> {
        match (self, text) {
            (Self::Backslash, [b'\\', rest @ ..]) => backslash(rest),
            (Self::Percent | Self::Form, [b'%', high, low, ..]) => Some((vec![low_byte(number(&[*high, *low])?)], 3)),
            (Self::Form, [b'+', ..]) => Some((vec![b' '], 1)),
            _ => None,
        }
    }
}

/// What a backslash and the letters behind it stand for, and their length.
fn backslash(behind: &[u8]) -> Option<(Vec<u8>, usize)> {
    match behind {
        [b'u', b'{', rest @ ..] => {
            let length = rest.iter().take(7).position(|byte| *byte == b'}')?;
            Some((utf8(number(&rest[..length])?)?, length + 4))
        }
        [b'u', rest @ ..] => {
            let first = number(rest.get(..4)?)?;
            let second = rest.get(4..10).filter(|next| next.starts_with(b"\\u")).and_then(|next| number(&next[2..]));
            match second.filter(|second| (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(second)) {
                Some(second) => Some((utf8(0x1_0000 + (((first - 0xd800) << 10) | (second - 0xdc00)))?, 12)),
                None => Some((utf8(first)?, 6)),
            }
        }
        [b'x', rest @ ..] => Some((vec![low_byte(number(rest.get(..2)?)?)], 4)),
        [letter, ..] => {
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
        [] => None,
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |number, letter| number.checked_mul(16)?.checked_add(digit(*letter)?))
}

fn utf8(code: u32) -> Option<Vec<u8>> {
    Some(char::from_u32(code)?.to_string().into_bytes())
}
