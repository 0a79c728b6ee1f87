//! The screen of a live watch: the terminal's other page, drawn whole with each change. What was on the terminal before
//! comes back when the screen is closed.

use console::{Style, Term, measure_text_width};

use super::super::output;
use super::super::visible::clean;
use super::layout::{LineRole, ScreenLine};

/// Opens the other page and hides the cursor.
const OPEN: &str = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J";
/// Shows the cursor and closes the other page.
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";
/// Turns wrapping off: a line that is wider than it was measured then breaks no other one.
const WRAP_OFF: &str = "\x1b[?7l";
const WRAP_ON: &str = "\x1b[?7h";
const ERASE_LINE_END: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";
/// The size of a terminal that does not say its own.
const USUAL_SIZE: ScreenSize = ScreenSize { width: 80, height: 24 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScreenSize {
    pub(super) width: usize,
    pub(super) height: usize,
}

/// A screen that opens with its first picture, and is closed with the value.
#[derive(Debug, Default)]
pub(super) struct WatchScreen {
    is_open: bool,
}

impl WatchScreen {
    /// Returns whether standard output is a terminal that can be drawn on.
    pub(super) fn is_possible() -> bool {
        Term::stdout().is_term() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// The size of the terminal now.
    pub(super) fn size() -> ScreenSize {
        Term::stdout()
            .size_checked()
            .map_or(USUAL_SIZE, |(height, width)| ScreenSize { width: usize::from(width), height: usize::from(height) })
    }

    /// Draws these lines, and nothing where there is none.
    pub(super) fn draw(&mut self, lines: &[ScreenLine], size: ScreenSize) {
        if !std::mem::replace(&mut self.is_open, true) {
            output::draw(OPEN);
        }
        output::draw(&painted(lines, size, console::colors_enabled()));
    }

    /// Gives the terminal back as it was.
    pub(super) fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            output::draw(CLOSE);
        }
    }
}

impl Drop for WatchScreen {
    fn drop(&mut self) {
        self.close();
    }
}

/// Writes lines as what a terminal takes: each over the old one, so that nothing is dark between two pictures.
fn painted(lines: &[ScreenLine], size: ScreenSize, has_colors: bool) -> String {
    let mut text = WRAP_OFF.to_owned();
    for (index, line) in lines.iter().take(size.height).enumerate() {
        // Whatever the lines are made of: only this file's own sequences reach the terminal.
        let shown = clean(&line.text);
        text.push_str(&format!("\x1b[{};1H{}", index + 1, styled(&shown, line.role, has_colors)));
        // In the last column it would erase the letter there.
        if measure_text_width(&shown) < size.width {
            text.push_str(ERASE_LINE_END);
        }
    }
    if lines.len() < size.height {
        text.push_str(&format!("\x1b[{};1H{ERASE_BELOW}", lines.len() + 1));
    }
    text + WRAP_ON
}

fn styled(text: &str, role: LineRole, has_colors: bool) -> String {
    let style = match role {
        LineRole::Title => Style::new().bold(),
        LineRole::Alert => Style::new().yellow().bold(),
        LineRole::Heading => Style::new().dim(),
        LineRole::Failing => Style::new().red(),
        LineRole::Plain => Style::new(),
    };
    style.force_styling(has_colors).apply_to(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_drawn_over_the_old_one() {
        let line = |role, text: &str| ScreenLine { role, text: text.to_owned() };
        let lines = [line(LineRole::Title, "abcd"), line(LineRole::Failing, "e")];
        let size = |width, height| ScreenSize { width, height };
        let plain = painted(&lines, size(4, 3), false);
        assert_eq!(plain, "\x1b[?7l\x1b[1;1Habcd\x1b[2;1He\x1b[K\x1b[3;1H\x1b[J\x1b[?7h");
        assert_eq!(painted(&lines, size(4, 1), false), "\x1b[?7l\x1b[1;1Habcd\x1b[?7h");
        assert!(painted(&lines, size(4, 3), true).contains("\x1b[31me\x1b[0m"), "colours end with their line");
        let hostile = painted(&[line(LineRole::Plain, "a\x1b[2J")], size(40, 1), false);
        assert!(hostile.contains("a\\u001b[2J") && !hostile.contains("\x1b[2J"), "{hostile:?}");
    }
}
