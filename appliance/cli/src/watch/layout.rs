//! Fits a fleet to a screen. Pure.
//!
//! ```text
//!   60 hosts: 2 failing, 18 working, 40 provisioned          14:02:11+01:00
//!   HALTED by …                                                        alerts and notes, whole
//!   NAME   STATE   DONE  MB/s  LEFT  REASON
//!   failing hosts, each with its name; their causes take what room there is
//!   working hosts, then the others, a line each
//!   and 31 more: 29 provisioned, 2 available                           what has no room
//! ```

use console::measure_text_width;

use super::fleet_view::{FleetView, HostClass, HostRow, counts};
use super::text_width::{cell, fit, pieces, wrap};

/// The columns between two cells.
const GAP: usize = 2;
/// The indent of the further lines of a cause.
const INDENT: usize = 4;
/// The least room for the text of a row; before it has less, columns of the progress are left out.
const TEXT_MIN: usize = 16;

/// How a line stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineRole {
    Title,
    Alert,
    Heading,
    Failing,
    Plain,
}

/// A line of the screen; it fits its width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScreenLine {
    pub(super) role: LineRole,
    pub(super) text: String,
}

fn line(role: LineRole, text: impl Into<String>) -> ScreenLine {
    ScreenLine { role, text: text.into().trim_end().to_owned() }
}

/// Fits a fleet to so many columns and lines.
pub(super) fn layout(view: &FleetView, width: usize, height: usize) -> Vec<ScreenLine> {
    let columns = TableColumns::of(view, width);
    let mut lines = title(view, width);
    lines.extend(wrapped(LineRole::Alert, &view.alerts, width));
    lines.extend(wrapped(LineRole::Plain, &view.notes, width));
    // Hosts get half of the screen at least.
    lines.truncate((height / 2).saturating_sub(1).max(1));
    if !view.rows.is_empty() && height > lines.len() + 1 {
        lines.push(line(LineRole::Heading, columns.heading()));
    }
    let room = height.saturating_sub(lines.len());
    lines.extend(rows(view, &columns, room));
    lines.truncate(height);
    lines
}

/// The title, with the clock at the right where there is room for it.
fn title(view: &FleetView, width: usize) -> Vec<ScreenLine> {
    let used = measure_text_width(&view.title) + GAP + measure_text_width(&view.clock);
    if used <= width {
        let title = cell(&view.title, width - measure_text_width(&view.clock));
        return vec![line(LineRole::Title, title + &view.clock)];
    }
    wrapped(LineRole::Title, std::slice::from_ref(&view.title), width)
}

fn wrapped(role: LineRole, texts: &[String], width: usize) -> Vec<ScreenLine> {
    let further = width.saturating_sub(INDENT).max(1);
    let lines = texts.iter().flat_map(|text| {
        let lines = wrap(text, width, further).into_iter().enumerate();
        lines.map(|(index, text)| if index == 0 { text } else { indented(&text, width) })
    });
    lines.map(|text| line(role, fit(&text, width))).collect()
}

fn indented(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(if width > INDENT { INDENT } else { 0 }))
}

/// Shows as many hosts as there is room for, and counts the others.
fn rows(view: &FleetView, columns: &TableColumns, room: usize) -> Vec<ScreenLine> {
    let all: Vec<Vec<ScreenLine>> = view.rows.iter().map(|row| columns.lines(row)).collect();
    if all.iter().map(Vec::len).sum::<usize>() <= room {
        return all.into_iter().flatten().collect();
    }
    // The last line counts what is left out, or that nothing was but ends of causes.
    let shown = share(view, &all, columns, room.saturating_sub(1));
    let count = shown.len();
    let mut lines: Vec<ScreenLine> = Vec::new();
    for (index, (row, granted)) in all.into_iter().zip(&shown).enumerate() {
        let is_name_alone = columns.stacks(&view.rows[index]) && *granted <= columns.name_lines(&view.rows[index]);
        let cut_off = row.get(*granted).filter(|_| !is_name_alone).map(|line| line.text.trim_start().to_owned());
        lines.extend(row.into_iter().take(*granted));
        // The next word had no room in the line: a part of it has, and `…` stands for the rest.
        if let (Some(last), Some(cut_off)) = (lines.last_mut(), cut_off) {
            last.text = fit(&format!("{} {cut_off}", last.text), columns.width);
        }
    }
    if count < view.rows.len() {
        let more = &view.rows[count..];
        let text = format!("and {} more: {}", more.len(), counts(more));
        lines.push(line(LineRole::Heading, fit(&text, columns.width)));
    }
    lines
}

/// Shares lines out: how many each host gets, from the first one on, until there are no more. Each failing host gets
/// its name, then their causes as evenly as may be, then the others what is left.
fn share(view: &FleetView, all: &[Vec<ScreenLine>], columns: &TableColumns, room: usize) -> Vec<usize> {
    let mut left = room;
    let mut shown = Vec::new();
    let failing = view.rows.iter().take_while(|row| row.class == HostClass::Failing).count();
    for row in &view.rows[..failing] {
        let least = columns.name_lines(row).max(1);
        if least > left {
            return shown;
        }
        left -= least;
        shown.push(least);
    }
    let mut is_changed = true;
    while left > 0 && is_changed {
        is_changed = false;
        for (granted, lines) in shown.iter_mut().zip(all) {
            if left > 0 && *granted < lines.len() {
                (*granted, left, is_changed) = (*granted + 1, left - 1, true);
            }
        }
    }
    for lines in &all[failing..] {
        if lines.len() > left {
            break;
        }
        left -= lines.len();
        shown.push(lines.len());
    }
    shown
}

/// The columns of the table, the same for all rows.
struct TableColumns {
    width: usize,
    name: usize,
    state: usize,
    /// The columns of the progress: done, rate and remaining time; zero where they are left out.
    progress: [usize; 3],
}

const HEADINGS: [&str; 3] = ["DONE", "MB/s", "LEFT"];

impl TableColumns {
    fn of(view: &FleetView, width: usize) -> Self {
        let widest = |heading: &str, cell: fn(&HostRow) -> &str| {
            let cells = view.rows.iter().map(|row| measure_text_width(cell(row)));
            cells.max().unwrap_or_default().max(heading.len())
        };
        // A longer name has a line of its own.
        let name_max = (width * 2 / 5).max("NAME".len());
        let names = view.rows.iter().map(|row| measure_text_width(&row.name)).filter(|name| *name <= name_max);
        let name = names.max().unwrap_or_default().max("NAME".len());
        let state = widest("STATE", |row| &row.state);
        let cells: [fn(&HostRow) -> &str; 3] = [|row| &row.done, |row| &row.rate, |row| &row.left];
        let mut progress = [0; 3];
        for (index, cell) in cells.into_iter().enumerate() {
            let is_used = view.rows.iter().any(|row| !cell(row).is_empty());
            let column = if is_used { widest(HEADINGS[index], cell) } else { 0 };
            let used: usize = progress
                .iter()
                .chain([&name, &state, &column])
                .filter(|column| **column > 0)
                .map(|column| column + GAP)
                .sum();
            progress[index] = if used + TEXT_MIN <= width { column } else { 0 };
        }
        Self { width, name, state, progress }
    }

    fn heading(&self) -> String {
        let progress = HEADINGS.map(str::to_owned);
        fit(&(self.start("NAME", "STATE", Some(&progress)) + "REASON"), self.width)
    }

    /// The cells before the text; without those of the progress, the text begins in their place.
    fn start(&self, name: &str, state: &str, progress: Option<&[String; 3]>) -> String {
        let gap = " ".repeat(GAP);
        let mut text = format!("{}{gap}{}{gap}", cell(name, self.name), cell(state, self.state));
        for (value, &column) in progress.into_iter().flatten().zip(&self.progress).filter(|(_, column)| **column > 0) {
            let right = column.saturating_sub(measure_text_width(value));
            text.push_str(&format!("{}{value}{gap}", " ".repeat(right)));
        }
        text
    }

    /// Returns whether the name stands on lines of its own.
    fn stacks(&self, row: &HostRow) -> bool {
        measure_text_width(&row.name) > self.name
    }

    /// The lines that the name takes.
    fn name_lines(&self, row: &HostRow) -> usize {
        if self.stacks(row) { pieces(&row.name, self.width).len() } else { 1 }
    }

    /// All lines of a host. The text of one that fails is whole, and that of others is cut to its line.
    fn lines(&self, row: &HostRow) -> Vec<ScreenLine> {
        let is_failing = row.class == HostClass::Failing;
        let role = if is_failing { LineRole::Failing } else { LineRole::Plain };
        let mut lines: Vec<ScreenLine> = Vec::new();
        let mut name = row.name.as_str();
        if self.stacks(row) {
            lines.extend(pieces(name, self.width).into_iter().map(|piece| line(role, piece)));
            name = "";
        }
        let HostRow { state, done, rate, left, text, .. } = row;
        let progress = [done.clone(), rate.clone(), left.clone()];
        let start = self.start(name, state, (!is_failing).then_some(&progress));
        let room = self.width.saturating_sub(measure_text_width(&start));
        if !is_failing {
            lines.push(line(role, fit(&format!("{start}{text}"), self.width)));
            return lines;
        }
        let further = self.width.saturating_sub(INDENT).max(1);
        let cause = if room < TEXT_MIN {
            [vec![String::new()], wrap(text, further, further)].concat()
        } else {
            wrap(text, room, further)
        };
        for (index, part) in cause.into_iter().enumerate() {
            let text = if index == 0 { format!("{start}{part}") } else { indented(&part, self.width) };
            lines.push(line(role, fit(&text, self.width)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fleet_view::view;
    use super::super::testing::{after, fleet, halted, host, lost, picture, reason, sixty};
    use super::*;

    /// Names were cut to 12 characters, and what had no room was dropped in silence.
    #[test]
    fn every_picture_fits_its_screen_and_counts_what_it_leaves_out() {
        for failing in [0, 1, 3, 17, 18, 30, 60] {
            for model in [sixty(failing), lost(halted(sixty(failing)))] {
                let view = view(&model, None, &after(61));
                for (width, height) in [(80, 24), (120, 40), (80, 6), (40, 12), (25, 10), (3, 3), (1, 1), (200, 100)] {
                    let lines = layout(&view, width, height);
                    let widest = lines.iter().map(|line| measure_text_width(&line.text)).max().unwrap_or_default();
                    assert!(lines.len() <= height && widest <= width, "{failing} {width}x{height}: {lines:#?}");
                    if width < 40 || height < 12 {
                        continue;
                    }
                    let is_shown = |row: &&HostRow| lines.iter().any(|line| line.text.starts_with(&row.name));
                    let shown = view.rows.iter().filter(is_shown).count();
                    let more = lines.last().and_then(|line| line.text.strip_prefix("and ")?.split(' ').next());
                    let more: usize = more.map_or(0, |count| count.parse().unwrap_or(1000));
                    assert_eq!(shown + more, 60, "{failing} {width}x{height}: {lines:#?}");
                }
            }
        }
    }

    #[test]
    fn each_failing_host_is_on_the_screen_with_its_whole_name_before_any_other() {
        for failing in 1..=21 {
            let view = view(&sixty(failing), None, &after(1));
            let lines = layout(&view, 80, 24);
            for row in view.rows.iter().filter(|row| row.class == HostClass::Failing) {
                assert!(lines.iter().any(|line| line.text.starts_with(&row.name)), "{}: {lines:#?}", row.name);
            }
        }
        let many = picture(&sixty(30), None, [80, 24], 1);
        assert!(many.ends_with("and 39 more: 9 failing, 10 working, 18 provisioned, 2 available\n"), "{many}");
    }

    #[test]
    fn a_cause_is_whole_before_any_other_host_is_shown() {
        let cause = "the disk is broken ".repeat(40);
        let failing = |name: &str| host(name, "provisioning", json!({"errorMessage": cause.trim()}));
        let objects = vec![failing("a"), failing("b"), host("c", "provisioned", json!({}))];
        let text = picture(&fleet(&[], objects.clone()), None, [80, 30], 1);
        assert_eq!(text.matches("broken").count(), 80, "{text}");
        assert!(text.contains("\nc  "), "{text}");
        let cut = picture(&fleet(&[], objects), None, [80, 20], 1);
        assert!(cut.contains("…\nb ") && cut.ends_with("and 1 more: 1 provisioned\n"), "{cut}");
    }

    #[test]
    fn a_long_name_has_lines_of_its_own() {
        let name = format!("{}.example.com", "rack".repeat(20));
        let failing = host(&name, "provisioning", json!({"errorMessage": "no power"}));
        let objects = vec![failing, host("b", "provisioned", json!({})), reason("b", "runs")];
        let text = picture(&fleet(&[], objects), None, [80, 24], 1);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!([lines[2], lines[3]].concat(), name, "{text}");
        assert_eq!((lines[4], lines[5]), ("      provisioning  ERROR: no power", "b     provisioned   runs"), "{text}");
    }
}
