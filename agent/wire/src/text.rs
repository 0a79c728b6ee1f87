//! Texts of foreign origin: firmware, drives, switches. Anybody may have written them, and people
//! read them in terminals and pages.

use crate::limits::FIELD_BYTES_MAX;

/// Whether a character moves a cursor, begins a line, or is not seen and changes how others are shown:
/// control characters (ESC among them), line and paragraph separators, zero-width characters and
/// the overrides of writing direction.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Returns at most `bytes_max` bytes of the text, trimmed, each hidden character replaced by a space.
#[must_use]
pub fn clean(text: &str, bytes_max: usize) -> String {
    // Cut first: what follows looks at no more than is kept, four times over for characters that go.
    let start = &text[..text.floor_char_boundary(bytes_max.saturating_mul(4))];
    let clean: String = start.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect();
    let clean = clean.trim();
    clean[..clean.floor_char_boundary(bytes_max)].trim_end().to_owned()
}

/// Cleans a text as a field of a message has it: trimmed, printable, at most as long as the protocol allows.
#[must_use]
pub fn field(text: &str) -> String {
    clean(text, FIELD_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_goes() {
        assert_eq!(clean(" S/N\t1\u{1b}[2J\u{9b}31m \n", 64), "S/N 1 [2J 31m");
        assert_eq!(clean("abc\u{202e}321\u{2066}\u{200b}d\u{feff}", 64), "abc 321  d");
        assert_eq!(clean("ä ß ${net0/mac} <b>", 64), "ä ß ${net0/mac} <b>", "printable text stays as it is");
        let long = clean(&"é".repeat(300), 255);
        assert!(long.len() == 254 && long.chars().all(|c| c == 'é'));
        assert_eq!(clean("12345 789", 6), "12345");
    }

    #[test]
    fn fields_are_short_and_printable() {
        assert_eq!(field("  S/N\t1\u{1b}[2J \n"), "S/N 1 [2J");
        let long = field(&"é".repeat(FIELD_BYTES_MAX));
        assert!(long.len() <= FIELD_BYTES_MAX && long.chars().all(|c| c == 'é'));
    }
}
