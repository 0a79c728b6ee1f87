//! `firesteel plan HOST`: the dry run. The appliance makes the planner's own choices in advance; nothing is done.

use anyhow::Context as _;
use firesteel_plan::host::preview::{ActionPreview, Preview};

use super::confirm::NamedHost;
use super::get::missing_host;
use super::table::{self, TableRow, TextTable, clean};
use super::{ApiClient, OutputFormat, print_text};

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn run(client: &ApiClient, host: &str, output: &OutputFormat) -> anyhow::Result<()> {
    let seen = client.get(&path(NamedHost::here(client, host))).await;
    let seen = seen.map_err(|error| missing_host(client, host, error))?;
    let text = match output.text_of(&seen)? {
        Some(text) => text,
        None => render(&serde_json::from_value(seen)?, table::output_width()),
    };
    print_text(&text);
    Ok(())
}

fn path(host: NamedHost<'_>) -> String {
    format!("/firesteel.dev/plan/{}/{}", host.namespace, host.name)
}

/// Fetches what would happen to the disks of a host.
pub(super) async fn fetch(client: &ApiClient, host: NamedHost<'_>) -> anyhow::Result<Preview> {
    serde_json::from_value(client.get(&path(host)).await?).context("could not read the appliance's answer")
}

/// Renders what a deletion of the host would do to each disk.
pub(super) fn render_deletion(seen: &Preview, width: usize) -> String {
    let mut page = PreviewPage { text: String::new(), width };
    for why in &seen.closed {
        page.item(2, &format!("No disk is changed now: {why}"));
    }
    if !seen.inspected_at.is_empty() {
        page.line(&format!("  What happens to its disks, as inspected at {}:", seen.inspected_at));
    }
    print_fates(&mut page, &seen.deletion);
    page.text
}

/// Renders the disks of a host that is forgotten without cleaning them.
pub(super) fn render_kept(seen: &Preview, width: usize) -> String {
    let mut page = PreviewPage { text: String::new(), width };
    page.line("  No disk is cleaned: what is on them stays there, and a tombstone keeps the machine's identity");
    for row in seen.outlooks.first().map(|outlook| outlook.disks.as_slice()).unwrap_or_default() {
        page.line(&format!("    {}  {}", row.device, row.looks));
    }
    page.text
}

pub(super) fn render(seen: &Preview, width: usize) -> String {
    let mut page = PreviewPage { text: String::new(), width };
    if !seen.inspected_at.is_empty() {
        page.line(&format!("Disks of {} as inspected at {}; nothing was done", seen.host, seen.inspected_at));
    }
    for why in &seen.closed {
        page.line(&format!("No disk is changed now: {why}"));
    }
    // The installation has a line for every disk.
    let disks = seen.outlooks.first().map(|outlook| outlook.disks.as_slice()).unwrap_or_default();
    if !disks.is_empty() {
        page.line("");
        page.line("contents of the disks");
    }
    for row in disks {
        page.line(&format!("  {}  {}", row.device, row.looks));
        table::first_lines(&row.contents).iter().for_each(|line| page.item(4, line));
    }
    for outlook in &seen.outlooks {
        print_preview(&mut page, outlook);
    }
    page.text
}

fn print_preview(page: &mut PreviewPage, outlook: &ActionPreview) {
    let next = if outlook.is_next { " (it would be this one now)" } else { "" };
    page.line("");
    page.line(&format!("{}{next}", outlook.what));
    print_fates(page, outlook);
}

fn print_fates(page: &mut PreviewPage, outlook: &ActionPreview) {
    if !outlook.note.is_empty() {
        page.line(&format!("  {}", outlook.note));
    }
    if !outlook.refused.is_empty() {
        page.line(&format!("  nothing would be done: {}", outlook.refused));
    }
    for (index, line) in outlook.guarded.iter().enumerate() {
        page.item(if index == 0 { 2 } else { 4 }, line);
    }
    // A disk is never left without its identity or its reason: they are broken into lines where there is no room.
    let rows: Vec<TableRow> = outlook
        .disks
        .iter()
        .map(|row| TableRow::whole([&row.device, &row.looks, &row.fate, &row.why].map(String::clone).to_vec()))
        .collect();
    if !rows.is_empty() {
        let table = TextTable { header: vec!["DISK", "IDENTITY", "FATE", "WHY"], rows, expendable: &[] };
        let shown = table.render(page.width.saturating_sub(2));
        shown.lines().for_each(|row| page.text.push_str(format!("  {row}\n").as_str()));
    }
}

struct PreviewPage {
    text: String,
    width: usize,
}

impl PreviewPage {
    /// Writes a line as it is; one that is too long goes on below its beginning.
    fn line(&mut self, line: &str) {
        let text = line.trim_start();
        if line.chars().count() > self.width {
            self.item(line.len() - text.len(), text);
            return;
        }
        self.text.push_str(&clean(line));
        self.text.push('\n');
    }

    /// Writes `text` indented, and continues it on the lines below.
    fn item(&mut self, indent: usize, text: &str) {
        let width = self.width.saturating_sub(indent).max(20);
        for (index, line) in table::wrap_after(&clean(text), width, width - 2).iter().enumerate() {
            let further = if index == 0 { 0 } else { 2 };
            self.text.push_str(&format!("{:1$}{line}\n", "", indent + further));
        }
    }
}

#[cfg(test)]
mod tests {
    use firesteel_plan::host::preview::DiskPreview;

    use super::*;

    #[test]
    fn each_disk_has_a_line() {
        let row = |device: &str, fate: &str| DiskPreview {
            device: device.into(),
            looks: "serial \u{1b}[2J".into(),
            fate: fate.into(),
            why: "why".into(),
            contents: (0..20).map(|number| format!("partition {number}: ext4\u{1b}")).collect(),
        };
        let disks = vec![row("/dev/sda", "written"), row("/dev/sdb", "kept")];
        let outlook = ActionPreview { what: "installation".into(), disks, ..ActionPreview::default() };
        let seen = Preview {
            host: "a".into(),
            inspected_at: "now".into(),
            closed: vec!["locked".into()],
            outlooks: vec![outlook],
            ..Preview::default()
        };
        let text = render(&seen, 100);
        assert!(text.contains("/dev/sda") && text.contains("written") && text.contains("kept"), "{text}");
        assert!(text.contains("No disk is changed now: locked") && !text.contains('\u{1b}'), "{text}");
        assert!(text.contains("partition 7") && !text.contains("partition 8"), "{text}");
        assert_eq!(text.matches("and 12 more").count(), 2, "{text}");
    }
}
