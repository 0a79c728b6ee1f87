//! Output of commands: results go to standard output, warnings and errors to standard error.
//!
//! This is the only way there, and everything but drawings goes through [`super::visible`]: no text of others is executed
//! by a terminal, whatever a command forgets. Only a value of several lines could look like lines of the command: that is why
//! commands put values of others through [`clean`], and tables and pages do it for them.
//!
//! The reader of a result may stop early (`firesteel get hosts | head -1`). Then the command ends at once and prints
//! nothing more, as other commands do; its work is done before it prints. SIGPIPE is not used for this: it would also
//! end a command silently when the appliance closes a connection.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::exit;

use super::table;
use super::visible::{clean, clean_lines};

/// The exit code that a shell gives to a program that SIGPIPE ended.
const PIPE_CLOSED: i32 = 128 + 13;

/// Prints the result of a command, or a part of it. It is flushed when this returns.
pub(super) fn print_text(text: &str) {
    print_whole(&clean_lines(text));
}

/// Draws on the terminal, with sequences that it executes. Texts of others went through [`clean`] before they came into
/// the drawing.
pub(super) fn draw(drawing: &str) {
    print_whole(drawing);
}

fn print_whole(text: &str) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        let (code, words) = closed_output(&error);
        if let Some(words) = words {
            print_line(&words);
        }
        exit(code);
    }
}

/// Prints a warning of the appliance to standard error, not into the result.
pub(super) fn print_warning(text: &str) {
    print_line(&format!("Warning: {}", clean(text)));
}

/// Prints a note beside the result to standard error.
pub(super) fn print_note(text: &str) {
    print_line(&clean(text));
}

/// Prints an error with its causes, for the person who typed the command.
pub fn print_error(error: &anyhow::Error) {
    print_line(&error_text(error, table::error_width()));
}

/// An error as it is printed: as wide as the terminal, or elsewhere in as many lines as it has.
pub(super) fn error_text(error: &anyhow::Error, width: usize) -> String {
    format!("firesteel: {}", lines(&format!("{error:#}"), width))
}

/// Cleans a text line by line, and indents lines that would look like the start of another message.
fn lines(text: &str, width: usize) -> String {
    let shown = text.lines().enumerate().flat_map(|(index, line)| {
        let words = line.trim_start();
        let indent = match line.len() - words.len() {
            0 if index > 0 => 2,
            indent => indent,
        };
        let first = if index == 0 { width.saturating_sub("firesteel: ".len()) } else { width.saturating_sub(indent) };
        if words.chars().count() <= first {
            return vec![format!("{:indent$}{}", "", clean(words))];
        }
        let broken = table::wrap_after(&clean(words), first, width.saturating_sub(indent + 2)).into_iter();
        let further = |at: usize| if at == 0 { indent } else { indent + 2 };
        broken.enumerate().map(|(at, line)| format!("{:1$}{line}", "", further(at))).collect()
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// Prints a line to standard error. If that is closed, the line is lost; the exit code stays.
pub(super) fn print_line(line: &str) {
    drop(writeln!(io::stderr(), "{}", clean_lines(line)));
}

/// Returns whether a person sees a question, and can answer it.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Prints a question to standard error. The answer is typed on its last line.
///
/// # Errors
/// When standard error takes nothing.
pub(super) fn print_question(text: &str) -> io::Result<()> {
    let mut out = io::stderr().lock();
    out.write_all(clean_lines(text).as_bytes()).and_then(|()| out.flush())
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
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_a_closed_pipe_is_silent() {
        assert_eq!(closed_output(&io::ErrorKind::BrokenPipe.into()), (141, None));
        let (code, words) = closed_output(&io::ErrorKind::StorageFull.into());
        assert!(code == 1 && words.is_some_and(|words| words.contains("could not write the result")));
    }

    #[test]
    fn an_error_of_several_lines_is_shown_as_that() {
        let text = "not all\n  one\u{1b}[2J\nfiresteel: done";
        assert_eq!(lines(text, table::UNBOUNDED), "not all\n  one\\u001b[2J\n  firesteel: done");
    }

    #[test]
    fn an_error_is_broken_between_words_in_a_terminal() {
        let error = anyhow::anyhow!("could not do it: it is not there; create it first");
        assert_eq!(error_text(&error, 40), "firesteel: could not do it: it is not\n  there; create it first");
        assert_eq!(error_text(&error, table::UNBOUNDED).lines().count(), 1);
    }

    /// What is printed past this module is not cleaned.
    #[test]
    fn no_command_prints_by_itself() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let mut folders = vec![std::path::PathBuf::from(folder)];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("output.rs") {
                    files += 1;
                    let text = std::fs::read_to_string(&path).unwrap();
                    for way in ["println!", "print!", "io::stdout", "io::stderr", "write_line("] {
                        assert!(!text.contains(way), "{}: use print_text or print_line, not {way}", path.display());
                    }
                }
            }
        }
        assert!(files > 20, "{files}");
    }
}
