//! Unit files as Ignition reads them (github.com/coreos/go-systemd, `unit/deserialize.go`): not all of systemd's
//! grammar, and a bound on lines that depends on where the line falls in a buffer of 4,096 bytes. Both are copied in
//! behaviour, for the verdict is Ignition's.

/// What a unit file that can be read has in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnitFile {
    /// An option in a section `[Install]`: without one, enabling the unit does nothing.
    pub(super) installs: bool,
}

/// systemd's longest line; longer ones were cut in silence.
const LINE_MAX: usize = 2048;
/// Go's `bufio.UnitFileReader`.
const BUFFER: usize = 4096;

/// The unit, or what is wrong with it.
pub(super) fn read(text: &str) -> Result<UnitFile, &'static str> {
    let mut reader = UnitFileReader { text, at: 0, filled: 0 };
    let mut unit = UnitFile { installs: false };
    let mut step = UnitParserState::BeforeSection;
    loop {
        if reader.line_is_too_long() {
            return Err("has a line of more than 2048 bytes");
        }
        step = match next(step, &mut reader, &mut unit)? {
            Some(step) => step,
            None => return Ok(unit),
        };
    }
}

/// What is read next; `is_install` says whether it stands in a section `[Install]`.
enum UnitParserState {
    BeforeSection,
    SectionName,
    SectionEnd { is_install: bool },
    SectionOrOption { is_install: bool },
    OptionName { is_install: bool },
    OptionValue { is_install: bool },
    Comment { section: Option<bool> },
}

fn next(
    step: UnitParserState,
    reader: &mut UnitFileReader<'_>,
    unit: &mut UnitFile,
) -> Result<Option<UnitParserState>, &'static str> {
    Ok(Some(match step {
        // Whatever stands before the first section is skipped.
        UnitParserState::BeforeSection => match reader.character() {
            None => return Ok(None),
            Some('[') => UnitParserState::SectionName,
            Some('#' | ';') => UnitParserState::Comment { section: None },
            Some(_) => UnitParserState::BeforeSection,
        },
        UnitParserState::SectionName => {
            let name = reader.until(b']');
            let name = name.strip_suffix(']').ok_or("has a section without its closing bracket")?;
            UnitParserState::SectionEnd { is_install: name == "Install" }
        }
        UnitParserState::SectionEnd { is_install } => {
            if !reader.line().trim().is_empty() {
                return Err("has something after the closing bracket of a section");
            }
            UnitParserState::SectionOrOption { is_install }
        }
        UnitParserState::SectionOrOption { is_install } => match reader.character() {
            None => return Ok(None),
            Some('[') => UnitParserState::SectionName,
            Some('#' | ';') => UnitParserState::Comment { section: Some(is_install) },
            Some(space) if space.is_whitespace() => UnitParserState::SectionOrOption { is_install },
            Some(other) => {
                reader.at -= other.len_utf8();
                UnitParserState::OptionName { is_install }
            }
        },
        UnitParserState::OptionName { is_install } => loop {
            match reader.character() {
                Some('=') => break UnitParserState::OptionValue { is_install },
                Some('\n' | '\r') | None => return Err("has a line that is no option: no equals sign in it"),
                Some(_) => {}
            }
        },
        UnitParserState::OptionValue { is_install } => {
            let line = reader.line();
            if !line.trim().is_empty() && line.ends_with('\\') {
                UnitParserState::OptionValue { is_install }
            } else {
                unit.installs |= is_install;
                UnitParserState::SectionOrOption { is_install }
            }
        }
        UnitParserState::Comment { section } => {
            reader.skip_comment();
            section.map_or(UnitParserState::BeforeSection, |is_install| UnitParserState::SectionOrOption { is_install })
        }
    }))
}

/// A text behind a buffer: `at` is read next, the buffer holds what is before `filled`.
struct UnitFileReader<'t> {
    text: &'t str,
    at: usize,
    filled: usize,
}

impl<'t> UnitFileReader<'t> {
    fn line_is_too_long(&self) -> bool {
        let buffered = &self.text.as_bytes()[self.at..self.filled];
        buffered.len() >= LINE_MAX && !buffered[..LINE_MAX].iter().any(|byte| matches!(byte, b'\n' | b'\r'))
    }

    fn fill(&mut self) {
        self.filled = self.text.len().min(self.at + BUFFER);
    }

    fn character(&mut self) -> Option<char> {
        let character = self.text[self.at..].chars().next()?;
        if self.at + character.len_utf8() > self.filled {
            self.fill();
        }
        self.at += character.len_utf8();
        Some(character)
    }

    /// What comes before the byte and the byte itself, or what is left.
    fn until(&mut self, byte: u8) -> &'t str {
        let start = self.at;
        let found = self.text.as_bytes()[start..].iter().position(|at| *at == byte);
        let end = found.map_or(self.text.len(), |offset| start + offset + 1);
        // As far as the buffer does not hold it: it is emptied when it is full, and filled when there is room.
        while self.filled < end {
            if self.filled - self.at >= BUFFER {
                self.at = self.filled;
            }
            self.fill();
        }
        self.at = end;
        &self.text[start..end]
    }

    /// Reads the lines of a comment, which a backslash at the end of a line continues.
    fn skip_comment(&mut self) {
        loop {
            let line = self.line();
            if !line.strip_suffix(' ').unwrap_or(line).ends_with('\\') {
                return;
            }
        }
    }

    /// A line without its end. A carriage return before that stays, as there.
    fn line(&mut self) -> &'t str {
        let line = self.until(b'\n');
        line.strip_suffix('\n').unwrap_or(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_as_ignition_does() {
        for (text, installs) in [
            ("", false),
            ("nothing in a section", false),
            ("[Unit]", false),
            ("[Unit]\nDescription=x\n[Install]\n", false),
            ("# [Unit]\n[Install]\nWantedBy=x", true),
            ("[Install]\n;WantedBy=\\\nx=y\n", false),
            ("[Unit]\nA=b \\\n  c\n[Install] \nA=\n", true),
            ("[Inst\nall]\nA=b\n", false),
            ("[Unit]\n=x\n", false),
        ] {
            assert_eq!(read(text), Ok(UnitFile { installs }), "{text:?}");
        }
        for text in ["[Unit", "[Unit]x", "[Unit]\nfoo", "[Unit]\nfoo\n=x", "[Unit]\r\nfoo\rx=y"] {
            assert!(read(text).is_err(), "{text:?}");
        }
        let long = |bytes: usize| format!("[Unit]\nA={}\n", "x".repeat(bytes));
        assert!(read(&long(2000)).is_ok());
        assert!(read(&long(2100)).is_err());
    }

    /// A line is too long when 2,048 bytes of it are in the buffer as it begins, and not where it outruns the buffer.
    #[test]
    fn a_line_is_too_long_by_where_the_buffer_ends() {
        for (ends, is_read) in [
            (&[1000, 2048, 14_000][..], false),
            (&[1000, 2049, 14_000], true),
            // The buffer ends with an equals sign, and the value is longer than the next two.
            (&[1000, 2000, 3000, 4094, 14_000], true),
            // It is filled again from within the line that ends at 4500, up to 8098.
            (&[1000, 2000, 3000, 4000, 4500, 5500, 6050, 9100], false),
            (&[1000, 2000, 3000, 4000, 4500, 5500, 6051, 9100], true),
        ] {
            let mut text = "[Unit]\n".to_owned();
            for end in ends {
                text += &format!("A={}\n", "x".repeat(end - text.len() - 3));
            }
            assert_eq!(read(&text).is_ok(), is_read, "{ends:?}");
        }
    }
}
