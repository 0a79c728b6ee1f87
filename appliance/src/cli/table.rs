//! Plain tables for an 80-column terminal.

use firesteel_resources::host_journal::JournalProgress;
use jiff::Timestamp;

pub(crate) use super::visible::clean;

/// How long a reported speed is shown: the agent reports every two seconds.
const SPEED_SECONDS_MAX: i64 = 10;

/// Renders columns aligned to their widest cell, two spaces apart, without trailing spaces; the last column is cut so
/// that a line fits `width`. Cells are cleaned.
#[must_use]
pub(crate) fn render(header: &[&str], rows: &[Vec<String>], width: usize) -> String {
    let columns = header.len();
    let header: Vec<String> = header.iter().map(|cell| clean(cell)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (index, cell) in row.iter().take(columns).enumerate() {
            widths[index] = widths[index].max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&header).chain(&rows) {
        let mut line = String::new();
        for (index, cell) in row.iter().take(columns).enumerate() {
            if index > 0 {
                line.push_str("  ");
            }
            if index + 1 == columns {
                let left = width.saturating_sub(line.chars().count());
                line.push_str(&cut(cell, left.max(8)));
            } else {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', widths[index] - cell.chars().count()));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
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
    let mut lines = vec![String::new()];
    let broken = |word: &str| -> Vec<String> {
        let letters: Vec<char> = word.chars().collect();
        letters.chunks(width.max(1)).map(|part| part.iter().collect()).collect()
    };
    for word in text.split_whitespace().flat_map(broken) {
        let last = lines.last_mut().expect("there is always a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word);
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(&word);
        }
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

/// The width of the terminal, or 80 if there is none.
#[must_use]
pub(crate) fn terminal_width() -> usize {
    console::Term::stdout().size_checked().map_or(80, |(_, columns)| usize::from(columns)).clamp(40, 400)
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

    #[test]
    fn a_table_fits_its_width() {
        let rows = vec![vec!["a-long-name".to_owned(), "x".repeat(200)], vec!["b".to_owned(), "short".to_owned()]];
        let text = render(&["NAME", "REASON"], &rows, 40);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("b            short"), "{text}");
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
        let rows = vec![vec!["a\nb\u{1b}[2J".to_owned(), "c".to_owned()]];
        assert_eq!(render(&["NAME", "WHAT"], &rows, 80), "NAME             WHAT\na\\nb\\u001b[2J  c\n");
    }
}
