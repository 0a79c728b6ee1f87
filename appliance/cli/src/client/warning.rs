//! The header `Warning` (RFC 7234, section 5.5), by which the appliance says what is odd about a request that it
//! accepts.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// The most warnings that are kept, so that none is printed twice. The objects of a file have a few kinds.
const KEPT_MAX: usize = 10_000;

/// The warnings that a command printed. Each is printed once, however many requests have it.
#[derive(Debug, Default)]
pub(super) struct PrintedWarnings(Mutex<BTreeSet<String>>);

impl PrintedWarnings {
    /// Prints the warnings of a header.
    pub(super) fn print(&self, header: &[u8]) {
        texts(header).iter().filter(|text| self.is_new(text)).for_each(|text| crate::print_warning(text));
    }

    fn is_new(&self, text: &str) -> bool {
        match self.0.lock() {
            Ok(mut printed) => printed.len() >= KEPT_MAX || printed.insert(text.to_owned()),
            // A thread that panicked meanwhile is no reason to lose a warning.
            Err(_) => true,
        }
    }
}

/// Reads the texts of a header. It is a list of `code agent "text"`, each with a date in quotes or without one; a
/// backslash in quotes stands before a letter that is meant as it is (RFC 9110, section 5.6.4).
///
/// A header in another form is the text as a whole: a warning is not lost because it is badly written.
fn texts(header: &[u8]) -> Vec<String> {
    let header = String::from_utf8_lossy(header);
    read(&header).unwrap_or_else(|| vec![header.trim().to_owned()])
}

fn read(header: &str) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    let mut rest = header.trim();
    while !rest.is_empty() {
        let (code, after) = rest.split_once(' ')?;
        if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (_agent, after) = after.trim_start().split_once(' ')?;
        let (text, after) = quoted(after.trim_start())?;
        texts.push(text);
        rest = match quoted(after.trim_start()) {
            Some((_date, after)) => after.trim_start(),
            None => after.trim_start(),
        };
        if !rest.is_empty() {
            rest = rest.strip_prefix(',')?.trim_start();
        }
    }
    (!texts.is_empty()).then_some(texts)
}

/// Reads a quoted string, and returns what it stands for and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut letters = text.strip_prefix('"')?.char_indices();
    let mut value = String::new();
    while let Some((at, letter)) = letters.next() {
        match letter {
            // One byte for the quotation mark at the start, one for that at the end.
            '"' => return Some((value, text.get(at + 2..)?)),
            '\\' => value.push(letters.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warning about `spec.imge` was printed with a backslash and without its last quotation mark.
    #[test]
    fn quotation_marks_and_backslashes_are_read_as_they_are_meant() {
        for (header, expected) in [
            (r#"299 - "unknown field \"spec.imge\"""#, &["unknown field \"spec.imge\""][..]),
            (r#"299 - "a\\b""#, &["a\\b"]),
            (r#"299 host:80 "a, b" "Wed, 21 Oct 2015 07:28:00 GMT""#, &["a, b"]),
            (r#"299 - "a","#, &["a"]),
            (r#" 299  -  "one" , 199 x "two" "#, &["one", "two"]),
            (r#"299 - """#, &[""]),
            ("299 - \"größer\"", &["größer"]),
        ] {
            assert_eq!(texts(header.as_bytes()), expected, "{header}");
        }
    }

    #[test]
    fn a_warning_in_another_form_is_shown_as_it_is() {
        for header in
            ["disk is full", "299 - text", r#"299 - "open"#, r#"299 - "open\"#, r#"29 - "text""#, r#"299 - "a" b"#]
        {
            assert_eq!(texts(header.as_bytes()), [header], "{header}");
        }
        assert_eq!(texts(b"299 - \"\xff\""), ["\u{fffd}"]);
    }
}
