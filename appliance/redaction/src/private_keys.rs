//! Follows a private key in PEM (RFC 7468) over texts of which each has a part of it: items of a list, lines of a log. Pure.

use std::ops::Range;

/// A key has fewer lines, and a log has a few other texts with each; an end of it that was lost must not hide the rest.
const TEXTS_MAX: usize = 1_000;
/// Shorter words may be words of a language.
const WORD_BYTES_MIN: usize = 16;
const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const KEY: &str = "PRIVATE KEY";

/// Says of each text what of it belongs to a key that began in a text before.
#[derive(Debug, Default)]
pub(crate) struct KeyScan {
    texts_left: usize,
}

impl KeyScan {
    /// Takes the next text, and returns where it has a part of a key that did not begin in it.
    pub(crate) fn next(&mut self, text: &str) -> Option<Range<usize>> {
        let found = if self.texts_left > 0 { self.rest(text) } else { None };
        let begins = text.rfind(BEGIN).filter(|start| text[*start..].contains(KEY) && !text[*start..].contains(END));
        if begins.is_some() {
            self.texts_left = TEXTS_MAX;
        }
        found
    }

    fn rest(&mut self, text: &str) -> Option<Range<usize>> {
        self.texts_left -= 1;
        let trimmed = text.trim_end();
        if let Some(end) = trimmed.find(END) {
            self.texts_left = 0;
            return Some(end..trimmed.len());
        }
        let start = trimmed.rfind([' ', '\t', '|', '"', '>']).map_or(0, |before| before + 1);
        is_key_material(&trimmed[start..]).then_some(start..trimmed.len())
    }
}

/// Says whether a word is a line of a key: the last one may be short.
fn is_key_material(word: &str) -> bool {
    let has = |is_one: fn(&u8) -> bool| word.bytes().any(|byte| is_one(&byte));
    let is_mixed = has(u8::is_ascii_uppercase) && has(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='))
        && (word.len() >= WORD_BYTES_MIN || (word.len() % 4 == 0 && (word.ends_with('=') || is_mixed)))
        && !word.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(texts: &[&str]) -> Vec<Option<String>> {
        let mut keys = KeyScan::default();
        texts.iter().map(|text| keys.next(text).map(|range| text[range].to_owned())).collect()
    }

    #[test]
    fn a_key_is_followed_over_texts() {
        let texts = [
            "MIIEvQIBADANBgkqhkiG",
            "x: -----BEGIN PRIVATE KEY-----",
            "info",
            "x: MIIEvQIBADANBgkqhkiG",
            "MHc=",
            "x: -----END PRIVATE KEY-----",
            "MIIEvQIBADANBgkqhkiG",
        ];
        let part = |text: &str| Some(text.to_owned());
        assert_eq!(
            parts(&texts),
            [None, None, None, part(texts[0]), part("MHc="), part("-----END PRIVATE KEY-----"), None]
        );
        let whole = ["-----BEGIN PRIVATE KEY-----\nMHc=\n-----END PRIVATE KEY-----", texts[0]];
        assert_eq!(parts(&whole), [None, None], "a whole key ends in its text");
    }

    #[test]
    fn a_key_without_an_end_hides_no_further_text() {
        let mut keys = KeyScan::default();
        assert_eq!(keys.next("-----BEGIN RSA PRIVATE KEY-----"), None);
        let hidden = (0..2 * TEXTS_MAX).filter(|_| keys.next("MIIEvQIBADANBgkqhkiG").is_some()).count();
        assert_eq!(hidden, TEXTS_MAX);
    }
}
