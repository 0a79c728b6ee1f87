//! Where a command's words go: its result to standard output, warnings and errors beside it.
//!
//! Whoever reads the result may have enough of it (`firesteel get hosts | head -1`). Then the command ends at once and
//! without a word, as others do; what it had to do is done before it tells of it. The signal that does this for others
//! is not used: it would end a command in silence, too, when the appliance closes a connection.

use std::{
    io::{self, Write as _},
    process::exit,
};

use super::table;

/// What a shell says of a program that SIGPIPE ended.
const PIPE_CLOSED: i32 = 128 + 13;

/// A command's result, or a part of it.
pub(super) fn print_text(text: &str) {
    print_bytes(text.as_bytes());
}

/// The same, whatever it is. It is out when this returns.
pub(super) fn print_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
        let (code, words) = closed_output(&error);
        if let Some(words) = words {
            print_line(&words);
        }
        exit(code);
    }
}

/// Warnings of the appliance go beside the result, not into it.
pub(super) fn print_warning(text: &str) {
    print_line(&format!("Warning: {}", table::clean(text)));
}

/// An error with its causes, for the person who typed the command.
pub fn print_error(error: &anyhow::Error) {
    print_line(&format!("firesteel: {}", lines(&format!("{error:#}"))));
}

/// A text of several lines, each clean, and none that looks like the start of another message.
fn lines(text: &str) -> String {
    let shown = text.lines().enumerate().map(|(index, line)| {
        let indent = if index > 0 && !line.starts_with(' ') { "  " } else { "" };
        format!("{indent}{}", table::clean(line))
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// Says a line on standard error. Who does not listen there misses it; the exit code stays.
fn print_line(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

/// How a command ends whose result cannot be written, and what it says of that.
fn closed_output(error: &io::Error) -> (i32, Option<String>) {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return (PIPE_CLOSED, None);
    }
    let words = format!("firesteel: could not write the result: {error}; see that there is room where it goes");
    (1, Some(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_pipe_is_silent() {
        assert_eq!(closed_output(&io::ErrorKind::BrokenPipe.into()), (141, None));
        let (code, words) = closed_output(&io::ErrorKind::StorageFull.into());
        assert!(code == 1 && words.is_some_and(|words| words.contains("could not write the result")));
    }

    #[test]
    fn an_error_of_several_lines_is_shown_as_that() {
        assert_eq!(lines("not all\n  one\u{1b}[2J\nfiresteel: done"), "not all\n  one\u{fffd}[2J\n  firesteel: done");
    }
}
