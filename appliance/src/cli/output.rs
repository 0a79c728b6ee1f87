//! Output of commands: results go to standard output, warnings and errors to standard error.
//!
//! The reader of a result may stop early (`firesteel get hosts | head -1`). Then the command ends at once and prints
//! nothing more, as other commands do; its work is done before it prints. SIGPIPE is not used for this: it would also
//! end a command silently when the appliance closes a connection.

use std::io::{self, Write as _};
use std::process::exit;

use super::table;

/// The exit code that a shell gives to a program that SIGPIPE ended.
const PIPE_CLOSED: i32 = 128 + 13;

/// Prints the result of a command, or a part of it.
pub(super) fn print_text(text: &str) {
    print_bytes(text.as_bytes());
}

/// Prints bytes of any kind. They are flushed when this returns.
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

/// Prints a warning of the appliance to standard error, not into the result.
pub(super) fn print_warning(text: &str) {
    print_line(&format!("Warning: {}", table::clean(text)));
}

/// Prints an error with its causes, for the person who typed the command.
pub fn print_error(error: &anyhow::Error) {
    print_line(&format!("firesteel: {}", lines(&format!("{error:#}"))));
}

/// Cleans a text line by line, and indents lines that would look like the start of another message.
fn lines(text: &str) -> String {
    let shown = text.lines().enumerate().map(|(index, line)| {
        let indent = if index > 0 && !line.starts_with(' ') { "  " } else { "" };
        format!("{indent}{}", table::clean(line))
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// Prints a line to standard error. If that is closed, the line is lost; the exit code stays.
fn print_line(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

/// The exit code and the message of a command whose result cannot be written.
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
