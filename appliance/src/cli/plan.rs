//! `firesteel plan HOST`: the dry run. The appliance makes the planner's own choices in advance; nothing is done.

use firesteel_plan::host::preview::{ActionPreview, Preview};

use super::table::{self, clean};
use super::{ApiClient, OutputFormat, print_text};

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn run(client: &ApiClient, host: &str, output: OutputFormat) -> anyhow::Result<()> {
    let seen = client.get(&format!("/firesteel.dev/plan/{}/{host}", client.namespace)).await?;
    if output == OutputFormat::Json {
        print_text(&(serde_json::to_string_pretty(&seen)? + "\n"));
    } else {
        print_text(&render(&serde_json::from_value(seen)?, table::terminal_width()));
    }
    Ok(())
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
    if !outlook.note.is_empty() {
        page.line(&format!("  {}", outlook.note));
    }
    if !outlook.refused.is_empty() {
        page.line(&format!("  nothing would be done: {}", outlook.refused));
    }
    for (index, line) in outlook.guarded.iter().enumerate() {
        page.item(if index == 0 { 2 } else { 4 }, line);
    }
    let rows: Vec<Vec<String>> = outlook
        .disks
        .iter()
        .map(|row| [&row.device, &row.looks, &row.fate, &row.why].map(|cell| clean(cell)).to_vec())
        .collect();
    if !rows.is_empty() {
        let shown = table::render(&["DISK", "IDENTITY", "FATE", "WHY"], &rows, page.width.saturating_sub(2));
        shown.lines().for_each(|row| page.line(&format!("  {row}")));
    }
}

struct PreviewPage {
    text: String,
    width: usize,
}

impl PreviewPage {
    fn line(&mut self, line: &str) {
        self.text.push_str(&clean(line));
        self.text.push('\n');
    }

    /// Writes `text` indented, and continues it on the lines below.
    fn item(&mut self, indent: usize, text: &str) {
        for (index, line) in table::wrap(&clean(text), self.width.saturating_sub(indent + 2).max(20)).iter().enumerate()
        {
            let further = if index == 0 { 0 } else { 2 };
            self.line(&format!("{:1$}{line}", "", indent + further));
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
        };
        let text = render(&seen, 100);
        assert!(text.contains("/dev/sda") && text.contains("written") && text.contains("kept"), "{text}");
        assert!(text.contains("No disk is changed now: locked") && !text.contains('\u{1b}'), "{text}");
        assert!(text.contains("partition 7") && !text.contains("partition 8"), "{text}");
        assert_eq!(text.matches("and 12 more").count(), 2, "{text}");
    }
}
