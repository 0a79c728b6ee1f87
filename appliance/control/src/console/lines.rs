//! What a serial port says, as lines for people: pure, fed with whatever pieces come.
//!
//! Nothing that moves a cursor, paints or asks a terminal is left, nothing hidden, no line longer than
//! [`LINE_BYTES_MAX`]. A serial port is written by firmware for a screen: a jump to another row, a return of the
//! carriage and an erased screen end a line too, or menus would become one. Sequences by ECMA-48 (5th edition,
//! sections 5.4 and 5.6); one that never ends is given up, so that noise swallows no text.

use firesteel_wire::text::is_hidden;

/// The most bytes of one line; what is longer goes on in the next one.
pub(crate) const LINE_BYTES_MAX: usize = firesteel_wire::limits::LOG_LINE_BYTES_MAX;
/// The most bytes of a control sequence: five numbers are few, sixteen are many.
const SEQUENCE_BYTES_MAX: usize = 64;
/// The most bytes of a title or another text for the terminal itself, which is left out.
const TERMINAL_TEXT_BYTES_MAX: usize = 256;
/// The most bytes of one character in UTF-8.
const UTF8_BYTES_MAX: usize = 4;

/// Where in a control sequence it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Sequence {
    #[default]
    None,
    /// ESC has come.
    Begun,
    /// ESC and a space to `/` have come: one more character follows.
    Short,
    /// `ESC [` has come, and this since.
    Control(Vec<u8>),
    /// `ESC ]` or the like has come, so much since, and whether the last of it was ESC.
    ForTerminal(usize, bool),
}

/// One serial port.
#[derive(Debug, Default)]
pub(crate) struct ConsoleLines {
    line: String,
    /// Bytes of a character that is not whole.
    part: Vec<u8>,
    sequence: Sequence,
    /// The last was a return of the carriage: what follows says what it meant.
    is_returned: bool,
    /// Where the last jump went.
    row: Option<u32>,
}

impl ConsoleLines {
    /// Takes bytes; the lines that they end go to `out`, without empty ones.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<String>) {
        for byte in bytes {
            self.byte(*byte, out);
        }
    }

    /// What stands in the line that has not ended: a prompt, or what was said last.
    pub(crate) fn flush(&mut self, out: &mut Vec<String>) {
        self.part.clear();
        self.end_line(out);
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<String>) {
        match std::mem::take(&mut self.sequence) {
            Sequence::None => self.push_byte(byte, out),
            Sequence::Begun => self.begin_sequence(byte, out),
            // The one character more may be another of those that ask for one more.
            Sequence::Short => match byte {
                0x20..=0x2f => self.sequence = Sequence::Short,
                0x30..=0x7e => {}
                _ => self.push_byte(byte, out),
            },
            Sequence::Control(mut text) => match byte {
                0x40..=0x7e => self.control(&text, byte, out),
                0x20..=0x3f if text.len() < SEQUENCE_BYTES_MAX => {
                    text.push(byte);
                    self.sequence = Sequence::Control(text);
                }
                _ => self.push_byte(byte, out),
            },
            Sequence::ForTerminal(length, is_escape) => match byte {
                0x07 | 0x18 | 0x1a => {}
                b'\\' if is_escape => {}
                b'\r' | b'\n' => self.push_byte(byte, out),
                _ if is_escape => self.begin_sequence(byte, out),
                _ if length >= TERMINAL_TEXT_BYTES_MAX => self.push_byte(byte, out),
                _ => self.sequence = Sequence::ForTerminal(length + 1, byte == 0x1b),
            },
        }
    }

    fn begin_sequence(&mut self, byte: u8, out: &mut Vec<String>) {
        match byte {
            b'[' => self.sequence = Sequence::Control(Vec::new()),
            b']' | b'P' | b'X' | b'^' | b'_' => self.sequence = Sequence::ForTerminal(0, false),
            0x20..=0x2f => self.sequence = Sequence::Short,
            // Down a row, to the next one, or a reset.
            b'D' | b'E' | b'c' => self.end_line(out),
            0x30..=0x7e => {}
            _ => self.push_byte(byte, out),
        }
    }

    /// A whole control sequence (ECMA-48, 8.3).
    fn control(&mut self, text: &[u8], last: u8, out: &mut Vec<String>) {
        match last {
            b'H' | b'f' | b'd' => {
                let number = text.split(|byte| *byte == b';').next().unwrap_or_default();
                let row = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()).unwrap_or(1);
                if self.row != Some(row) {
                    self.end_line(out);
                }
                self.row = Some(row);
            }
            b'A' | b'B' | b'E' | b'F' | b'J' => self.end_line(out),
            b'C' => self.character(' ', out),
            _ => {}
        }
    }

    fn push_byte(&mut self, byte: u8, out: &mut Vec<String>) {
        if std::mem::take(&mut self.is_returned) && !matches!(byte, b'\r' | b'\n') {
            self.end_line(out);
        }
        if byte < 0x80 && !self.part.is_empty() {
            self.part.clear();
            self.character(char::REPLACEMENT_CHARACTER, out);
        }
        match byte {
            0x1b => self.sequence = Sequence::Begun,
            b'\r' => self.is_returned = true,
            b'\n' | 0x0b | 0x0c => self.end_line(out),
            0x08 => drop(self.line.pop()),
            b'\t' => self.character(' ', out),
            0..0x20 | 0x7f => {}
            0x20..0x7f => self.character(char::from(byte), out),
            0x80.. => self.foreign(byte, out),
        }
    }

    /// A byte of a character beyond ASCII. What is no UTF-8 is shown to be something.
    fn foreign(&mut self, byte: u8, out: &mut Vec<String>) {
        self.part.push(byte);
        match std::str::from_utf8(&self.part) {
            Ok(text) => {
                let character = text.chars().next().filter(|character| !is_hidden(*character));
                self.part.clear();
                self.character(character.unwrap_or(char::REPLACEMENT_CHARACTER), out);
            }
            Err(error) if error.error_len().is_none() && self.part.len() < UTF8_BYTES_MAX => {}
            Err(_) => {
                self.part.clear();
                self.character(char::REPLACEMENT_CHARACTER, out);
            }
        }
    }

    fn character(&mut self, character: char, out: &mut Vec<String>) {
        if self.line.len() + character.len_utf8() > LINE_BYTES_MAX {
            self.end_line(out);
        }
        self.line.push(character);
    }

    fn end_line(&mut self, out: &mut Vec<String>) {
        self.is_returned = false;
        let line = std::mem::take(&mut self.line);
        if !line.trim().is_empty() {
            out.push(line.trim_end().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(text: &[u8]) -> Vec<String> {
        let (mut lines, mut out) = (ConsoleLines::default(), Vec::new());
        lines.feed(text, &mut out);
        lines.flush(&mut out);
        out
    }

    #[test]
    fn what_paints_a_screen_becomes_lines() {
        for (text, expected) in [
            (&b"one\r\ntwo\n\r\n\nthree"[..], &["one", "two", "three"][..]),
            (b"\x1b[1;31mred\x1b[0m and\x07 loud\x00", &["red and loud"]),
            (b"10%\x08\x08\x0820%\x08\x08\x08done", &["done"]),
            (b"10%\r20%\rdone\r\r\n", &["10%", "20%", "done"]),
            // As EDK II begins, and a menu of GRUB.
            (
                b"\x1b[2J\x1b[01;01H\x1b[=3h\x1b[2J\x1b[01;01HBdsDxe: loading Boot0001\r\n",
                &["BdsDxe: loading Boot0001"],
            ),
            (b"\x1b[4;2HDebian\x1b[5;2HAdvanced\x1b[5;30Hoptions", &["Debian", "Advancedoptions"]),
            (b"a\x1b[5Cb\tc", &["a b c"]),
            // Charsets, titles, queries of the terminal.
            (b"\x1b(B\x1b)0a\x1b]0;a title\x07b\x1b]2;other\x1b\\c\x1b[6n\x1bPq#0\x1b\\d", &["abcd"]),
            ("w\u{fc}rfel \u{2603} \u{202e}evil\u{9b}2J".as_bytes(), &["w\u{fc}rfel \u{2603} \u{fffd}evil\u{fffd}2J"]),
            (b"\xff\xc3(\x9b2J", &["\u{fffd}\u{fffd}(\u{fffd}2J"]),
            // A sequence that was cut off by a reset.
            (b"\x1b[1;3\nnext", &["next"]),
            (b"\x1b]0;no end\nnext", &["next"]),
        ] {
            assert_eq!(lines(text), expected, "{:?}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn nothing_endless_takes_memory_or_swallows_text() {
        let long = lines(&vec![b'x'; 10 * LINE_BYTES_MAX + 1]);
        assert_eq!((long.len(), long[0].len(), long[10].len()), (11, LINE_BYTES_MAX, 1));
        for begin in [&b"\x1b["[..], b"\x1b]", b"\x1bP"] {
            let text = [begin, &[b'1'; 2000], b"end\n"].concat();
            assert!(lines(&text).last().is_some_and(|line| line.ends_with("end") || line.ends_with("nd")), "{begin:?}");
        }
        assert_eq!(lines(&[0x08; 100]), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left_however_it_is_cut(
            bytes in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(0x1b), 1 => Just(b'['), 1 => Just(b'\n')], 0..600),
            cut in 0usize..600,
        ) {
            let whole = lines(&bytes);
            let (mut cut_up, mut out) = (ConsoleLines::default(), Vec::new());
            let (one, two) = bytes.split_at(cut.min(bytes.len()));
            cut_up.feed(one, &mut out);
            cut_up.feed(two, &mut out);
            cut_up.flush(&mut out);
            prop_assert_eq!(&whole, &out);
            for line in whole {
                prop_assert!(!line.is_empty() && line.len() <= LINE_BYTES_MAX && !line.chars().any(is_hidden));
            }
        }
    }
}
