//! Plain tables and texts, as wide as the terminal. Elsewhere nothing is cut or broken.

use firesteel_resources::host_journal::JournalProgress;
use jiff::Timestamp;

pub(crate) use super::visible::clean;

/// How long a reported speed is shown: the agent reports every two seconds.
const SPEED_SECONDS_MAX: i64 = 10;

/// Columns of a last cell below which other columns are left out, and its text is broken less often.
const LAST_CHARS_MIN: usize = 40;
/// Columns of a last cell below which its text stands on lines of its own.
const BESIDE_CHARS_MIN: usize = 20;
/// How far a last cell is indented that stands on lines of its own.
const OWN_LINE_INDENT: usize = 4;
/// The space between two columns.
const GAP: usize = 2;

/// A table whose last column holds the longest texts: reasons, errors, addresses.
///
/// If it is wider than its terminal, columns that are expendable are left out first. Then the last cell of a row is
/// broken into several lines, or cut where [`TableRow::may_be_cut`] says that nothing is wrong there.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextTable<'a> {
    pub(crate) header: Vec<&'a str>,
    pub(crate) rows: Vec<TableRow>,
    /// Names of the columns that may be left out, in that order.
    pub(crate) expendable: &'a [&'a str],
}

/// A row with a cell for each column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableRow {
    pub(crate) cells: Vec<String>,
    /// Whether the last cell may be shortened: it says nothing that is wrong.
    pub(crate) may_be_cut: bool,
}

impl TableRow {
    /// A row of cleaned cells: each is one cell, whatever is in it.
    pub(crate) fn new(cells: Vec<String>, may_be_cut: bool) -> Self {
        Self { cells: cells.into_iter().map(|cell| clean(&cell)).collect(), may_be_cut }
    }

    /// A row that is shown whole.
    pub(crate) fn whole(cells: Vec<String>) -> Self {
        Self::new(cells, false)
    }
}

/// The columns of a table that fit a width, and how wide each is.
#[derive(Clone, Debug)]
pub(crate) struct TableLayout {
    /// Numbers of the columns that are shown, with their widths. The last one is as wide as is left.
    shown: Vec<LaidColumn>,
    width: usize,
}

#[derive(Clone, Copy, Debug)]
struct LaidColumn {
    at: usize,
    width: usize,
}

impl TextTable<'_> {
    /// Renders the table for a terminal with this many columns, or [`UNBOUNDED`], without trailing spaces.
    #[must_use]
    pub(crate) fn render(&self, width: usize) -> String {
        let layout = self.layout(width);
        let mut text = self.header_line(&layout);
        self.rows.iter().for_each(|row| layout.write(row, &mut text));
        text
    }

    /// Chooses the columns for this width.
    pub(crate) fn layout(&self, width: usize) -> TableLayout {
        let widest = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(at)).map(|cell| cell.chars().count());
            cells.chain([self.header[at].chars().count()]).max().unwrap_or(0)
        };
        let mut layout = TableLayout {
            shown: (0..self.header.len()).map(|at| LaidColumn { at, width: widest(at) }).collect(),
            width,
        };
        let last = self.header.len().saturating_sub(1);
        let whole = self.rows.iter().filter(|row| !row.may_be_cut).filter_map(|row| row.cells.get(last));
        let needed = whole.map(|cell| cell.chars().count()).max().unwrap_or(0).min(LAST_CHARS_MIN);
        for name in self.expendable {
            if layout.room() >= needed {
                break;
            }
            layout.shown.retain(|column| column.at == last || self.header[column.at] != *name);
        }
        layout
    }

    /// The names of the columns that the layout has.
    pub(crate) fn header_line(&self, layout: &TableLayout) -> String {
        let mut text = String::new();
        let cells: Vec<String> = self.header.iter().map(|&name| name.to_owned()).collect();
        layout.write(&TableRow::whole(cells), &mut text);
        text
    }
}

impl TableLayout {
    /// How many columns are left for the last cell.
    fn room(&self) -> usize {
        let before: usize = self.shown.iter().rev().skip(1).map(|column| column.width + GAP).sum();
        self.width.saturating_sub(before)
    }

    /// Appends a row to a text.
    pub(crate) fn write(&self, row: &TableRow, text: &mut String) {
        let Some((last, before)) = self.shown.split_last() else { return };
        let cell = |column: &LaidColumn| row.cells.get(column.at).map(String::as_str).unwrap_or_default();
        let mut line = String::new();
        for column in before {
            let cell = cell(column);
            line.push_str(cell);
            let used = cell.chars().count();
            line.extend(std::iter::repeat_n(' ', column.width.saturating_sub(used) + GAP));
        }
        let (cell, room) = (cell(last), self.width.saturating_sub(line.chars().count()));
        if cell.chars().count() <= room {
            line.push_str(cell);
            push_line(text, &line);
        } else if row.may_be_cut {
            line.push_str(&cut(cell, room.max(8)));
            push_line(text, &line);
        } else if room >= BESIDE_CHARS_MIN {
            let indent = " ".repeat(line.chars().count());
            for part in wrap(cell, room) {
                push_line(text, &format!("{line}{part}"));
                line.clone_from(&indent);
            }
        } else {
            push_line(text, &line);
            for part in wrap(cell, self.width.saturating_sub(OWN_LINE_INDENT).max(BESIDE_CHARS_MIN)) {
                push_line(text, &format!("{:OWN_LINE_INDENT$}{part}", ""));
            }
        }
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Shortens a text to at most `width` characters, with `…` in place of what is missing.
#[must_use]
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Breaks a text at spaces into lines of at most `width` characters, and longer words anywhere.
#[must_use]
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    wrap_after(text, width, width)
}

/// Breaks a text as [`wrap`] does, where the first line has another width than the others.
#[must_use]
pub(crate) fn wrap_after(text: &str, first: usize, width: usize) -> Vec<String> {
    let (first, width) = (first.max(1), width.max(1));
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        let mut letters: Vec<char> = word.chars().collect();
        loop {
            let room = if lines.is_empty() { first } else { width };
            let used = line.chars().count();
            let gap = usize::from(used > 0);
            if used + gap + letters.len() <= room {
                line.extend(std::iter::repeat_n(' ', gap));
                line.extend(letters);
                break;
            }
            // The word may fit the next line, which is longer.
            if used > 0 || (lines.is_empty() && first < width && letters.len() <= width) {
                lines.push(std::mem::take(&mut line));
                continue;
            }
            // The word alone is longer than a line.
            let rest = letters.split_off(room);
            lines.push(letters.into_iter().collect());
            letters = rest;
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// How many lines of a disk's contents are shown.
const DISK_LINES_MAX: usize = 8;

/// Returns the first lines of a disk's contents, and how many there are besides them.
#[must_use]
pub(crate) fn first_lines(lines: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = lines.iter().take(DISK_LINES_MAX).cloned().collect();
    if lines.len() > DISK_LINES_MAX {
        shown.push(format!("and {} more", lines.len() - DISK_LINES_MAX));
    }
    shown
}

/// The width of an output that is no terminal: nothing is cut or broken there.
pub(crate) const UNBOUNDED: usize = usize::MAX;

/// The columns of the terminal that the result goes to, or [`UNBOUNDED`].
#[must_use]
pub(crate) fn output_width() -> usize {
    width_of(&console::Term::stdout())
}

/// The columns of the terminal that errors go to, or [`UNBOUNDED`].
#[must_use]
pub(crate) fn error_width() -> usize {
    width_of(&console::Term::stderr())
}

fn width_of(terminal: &console::Term) -> usize {
    terminal.size_checked().map_or(UNBOUNDED, |(_, columns)| usize::from(columns).clamp(40, 400))
}

/// Formats a time for people: date, time and zone, in seconds.
#[must_use]
pub(crate) fn time(at: Timestamp) -> String {
    format!("{at:.0}")
}

/// Formats bytes in the unit that a person reads best.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.2} GB", count as f64 / 1e9),
    }
}

/// Formats the speed of a step and the time left, each behind a comma; unknown or outdated values are left out.
#[must_use]
pub(crate) fn speed(progress: &JournalProgress, now: Timestamp) -> String {
    if now.duration_since(progress.at).as_secs() >= SPEED_SECONDS_MAX {
        return String::new();
    }
    let rate = progress.bytes_per_second.map(|rate| format!(", {}/s", bytes(rate))).unwrap_or_default();
    let left = progress.seconds_left.and_then(|left| i64::try_from(left).ok());
    let left = left.map(|left| format!(", about {} left", duration(left))).unwrap_or_default();
    rate + &left
}

/// Formats seconds as `7s`, `3m12s`, `5h04m`, `12d`.
#[must_use]
pub(crate) fn duration(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table<'a>(rows: &[(&str, bool)], expendable: &'a [&'a str]) -> TextTable<'a> {
        let row = |(text, may_be_cut): &(&str, bool)| {
            let cells = ["a-long-name", "on", "-", *text].map(str::to_owned).to_vec();
            TableRow::new(cells, *may_be_cut)
        };
        TextTable { header: vec!["NAME", "POWER", "DONE", "REASON"], rows: rows.iter().map(row).collect(), expendable }
    }

    #[test]
    fn what_is_wrong_is_never_cut_and_what_is_not_may_be() {
        let text = "word ".repeat(40);
        let shown =
            |may_be_cut: bool, width: usize| table(&[(text.trim(), may_be_cut)], &["DONE", "POWER"]).render(width);
        for width in [40, 60, 80, 120] {
            let whole = shown(false, width);
            assert!(whole.lines().all(|line| line.chars().count() <= width), "{whole}");
            assert!(whole.matches("word").count() == 40 && !whole.contains('…'), "{whole}");
            let cut = shown(true, width);
            assert!(cut.lines().count() == 2 && cut.lines().all(|line| line.chars().count() <= width), "{cut}");
        }
        let piped = shown(true, UNBOUNDED);
        assert!(piped.lines().count() == 2 && piped.matches("word").count() == 40, "{piped}");
    }

    #[test]
    fn other_columns_go_first_and_only_as_many_as_have_to() {
        let text = "x".repeat(45);
        let shown = |width: usize| table(&[(&text, false), ("y", true)], &["DONE", "POWER"]).render(width);
        assert!(shown(80).starts_with("NAME         POWER  DONE  REASON\n"), "{}", shown(80));
        assert!(shown(60).starts_with("NAME         POWER  REASON\n"), "{}", shown(60));
        assert!(shown(54).starts_with("NAME         REASON\n"), "{}", shown(54));
        let narrow = table(&[(&text, false)], &[]).render(40);
        assert!(narrow.contains("\n    xxxxx"), "on lines of its own: {narrow}");
    }

    #[test]
    fn texts_are_broken_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap_after("one two three four", 3, 9), ["one", "two three", "four"]);
        assert_eq!(wrap_after("three four", 3, 9), ["", "three", "four"]);
        assert_eq!((wrap("", 5), wrap("a b", UNBOUNDED)), (vec![String::new()], vec!["a b".to_owned()]));
    }

    #[test]
    fn a_speed_is_shown_as_far_as_it_is_known_and_while_it_is_new() {
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        let known = |bytes_per_second, seconds_left| JournalProgress {
            bytes_per_second,
            seconds_left,
            at: at(100),
            ..JournalProgress::default()
        };
        assert_eq!(speed(&known(Some(120_000_000), Some(192)), at(103)), ", 120.0 MB/s, about 3m12s left");
        assert_eq!(speed(&known(None, Some(5)), at(103)), ", about 5s left");
        assert_eq!(speed(&known(None, None), at(103)), "");
        assert_eq!(speed(&known(Some(1), Some(5)), at(110)), "", "it stands still, or nobody is heard");
    }

    #[test]
    fn a_cell_is_one_cell_whatever_is_in_it() {
        let rows = vec![TableRow::whole(vec!["a\nb\u{1b}[2J".to_owned(), "c".to_owned()])];
        let table = TextTable { header: vec!["NAME", "WHAT"], rows, expendable: &[] };
        assert_eq!(table.render(80), "NAME           WHAT\na\\nb\\u001b[2J  c\n");
    }
}
