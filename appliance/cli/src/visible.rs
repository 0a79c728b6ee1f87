//! Shows what a terminal would execute or hide, in texts of others: names, errors, logs, annotations, hardware.
//!
//! A character that moves a cursor, begins a line or is not seen becomes its code, as in `\u001b[2J`. JSON strings have
//! the same form, so JSON that passes through here stays the same value. [`super::output`] prints nothing else.

use std::borrow::Cow;

use firesteel_wire::text::is_hidden;

/// The most bytes of a character.
const CHARACTER_BYTES_MAX: usize = 4;

/// Makes a text fit for one line.
#[must_use]
pub(crate) fn clean(text: &str) -> String {
    escaped(text, |_| false).into_owned()
}

/// Makes a text of several lines harmless: of what is hidden, its line feeds and tabs stay.
#[must_use]
pub(super) fn clean_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| matches!(letter, '\n' | '\t'))
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_shown = |letter: char| !is_hidden(letter) || stays(letter);
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if is_shown(letter) => shown.push(letter),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            letter => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    shown.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    Cow::Owned(shown)
}

/// Makes text of bytes that come in pieces, which may end inside of a character.
#[derive(Debug, Default)]
pub(super) struct TextPieces {
    /// The beginning of a character.
    begun: Vec<u8>,
}

impl TextPieces {
    /// Returns the text up to the last whole character.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let rest = self.begun.split_off(whole_characters(&self.begun));
        String::from_utf8_lossy(&std::mem::replace(&mut self.begun, rest)).into_owned()
    }

    /// Returns what is left at the end.
    pub(super) fn end(self) -> String {
        String::from_utf8_lossy(&self.begun).into_owned()
    }
}

/// The number of bytes before a character whose end is missing.
fn whole_characters(bytes: &[u8]) -> usize {
    let first = bytes.len().saturating_sub(CHARACTER_BYTES_MAX - 1);
    let Some(begun) = (first..bytes.len()).rev().find(|&at| bytes[at] & 0xc0 != 0x80) else { return bytes.len() };
    let needed = match bytes[begun] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if begun + needed > bytes.len() { begun } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\u{9b}31m\u{7f}\u{8}\r\n\u{202e}b\u{2066}\u{200b}\u{2028}\u{feff}c\tä☃";

    #[test]
    fn nothing_is_executed_or_hidden_and_all_is_shown() {
        let shown = clean(HOSTILE);
        let expected = "a\\u001b[2J\\u009b31m\\u007f\\u0008\\r\\n\\u202eb\\u2066\\u200b\\u2028\\ufeffc\\tä☃";
        assert_eq!(shown, expected);
        assert_eq!(clean(&shown), shown, "it can be done twice");
        let lines = clean_lines("one\u{1b}]0;x\u{7}\n\ttwo\r\n");
        assert_eq!(lines, "one\\u001b]0;x\\u0007\n\ttwo\\r\n");
        assert!(matches!(clean_lines("ä plain\n\ttext"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = json!({"name": HOSTILE, HOSTILE: [HOSTILE]});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = clean_lines(&text);
        assert!(!shown.chars().any(|letter| letter != '\n' && is_hidden(letter)), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }

    #[test]
    fn pieces_are_put_together() {
        let text = "ä☃\u{1f980}x\u{9b}";
        for size in 1..=text.len() {
            let mut pieces = TextPieces::default();
            let mut whole: String = text.as_bytes().chunks(size).map(|piece| pieces.push(piece)).collect();
            whole.push_str(&pieces.end());
            assert_eq!(whole, text, "{size}");
        }
        let mut pieces = TextPieces::default();
        assert_eq!(pieces.push(b"\xff\xe2\x98"), "\u{fffd}");
        assert_eq!(pieces.push(b"x"), "\u{fffd}x");
        assert_eq!(pieces.push(b"\xf0\x9f"), "");
        assert_eq!(pieces.end(), "\u{fffd}");
        assert_eq!(TextPieces::default().push(b"\x80\x80\x80\x80"), "\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
    }
}
