//! Texts in columns of a terminal: a letter may take two of them, or none. Control characters are replaced before
//! ([`super::super::table::clean`]).

use console::{measure_text_width, truncate_str};

/// Shortens a text to so many columns, with `…` in place of what is missing.
pub(super) fn fit(text: &str, columns: usize) -> String {
    if columns == 0 { String::new() } else { truncate_str(text, columns, "…").into_owned() }
}

/// Shortens a text to so many columns, or fills it up with spaces.
pub(super) fn cell(text: &str, columns: usize) -> String {
    let mut cell = fit(text, columns);
    cell.extend(std::iter::repeat_n(' ', columns.saturating_sub(measure_text_width(&cell))));
    cell
}

/// Breaks a text at spaces: the first line has at most `first` columns, and further ones `further`. A word that is
/// longer than a line is broken anywhere.
pub(super) fn wrap(text: &str, first: usize, further: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        let mut word = word;
        loop {
            let room = if lines.is_empty() { first } else { further }.max(1);
            let used = measure_text_width(&line);
            let columns = measure_text_width(word);
            if used + usize::from(used > 0) + columns <= room {
                line.push_str(if used > 0 { " " } else { "" });
                line.push_str(word);
                break;
            }
            // On a line of its own there may be room for it.
            if used > 0 || (lines.is_empty() && columns <= further) {
                lines.push(std::mem::take(&mut line));
                continue;
            }
            let (head, tail) = split(word, room);
            lines.push(head.to_owned());
            word = tail;
            if word.is_empty() {
                break;
            }
        }
    }
    if lines.is_empty() || !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Breaks a text anywhere into pieces of at most so many columns.
pub(super) fn pieces(text: &str, columns: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while measure_text_width(rest) > columns.max(1) {
        let (head, tail) = split(rest, columns.max(1));
        pieces.push(head);
        rest = tail;
    }
    if pieces.is_empty() || !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// Splits a text behind so many columns, or behind its first letter if that takes more.
fn split(text: &str, columns: usize) -> (&str, &str) {
    let mut used = 0;
    for (at, letter) in text.char_indices() {
        used += measure_text_width(letter.encode_utf8(&mut [0; 4]));
        if used > columns && at > 0 {
            return text.split_at(at);
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_takes_the_columns_that_it_is_given() {
        assert_eq!((fit("abcdef", 4), fit("abcd", 4), fit("ab", 0)), ("abc…".into(), "abcd".into(), String::new()));
        assert_eq!((cell("ab", 4), cell("漢字", 3)), ("ab  ".into(), "漢…".into()));
        assert_eq!(pieces("abcdefg", 3), ["abc", "def", "g"]);
        assert_eq!(pieces("漢字", 3), ["漢", "字"]);
    }

    #[test]
    fn a_text_is_broken_at_its_spaces_and_nothing_of_it_is_lost() {
        assert_eq!(wrap("one two three", 7, 5), ["one two", "three"]);
        assert_eq!(wrap("longer one", 3, 8), ["", "longer", "one"]);
        assert_eq!(wrap("a 0123456789 b", 4, 4), ["a", "0123", "4567", "89 b"]);
        assert_eq!(wrap("漢字漢字", 3, 4), ["漢", "字漢", "字"]);
        assert_eq!((wrap("漢", 1, 1), wrap("", 9, 9)), (vec!["漢".to_owned()], vec![String::new()]));
        for columns in 0..12 {
            let text = "the BMC at 10.0.0.7 does not answer: 漢字 timed-out-after-300-seconds";
            let lines = wrap(text, columns, columns);
            let is_kept = lines.concat().replace(' ', "") == text.replace(' ', "");
            assert!(is_kept && lines.iter().all(|line| measure_text_width(line) <= columns.max(2)), "{lines:?}");
        }
    }
}
