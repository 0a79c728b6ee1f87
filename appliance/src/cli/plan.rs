//! `firesteel plan HOST`: the dry run. The appliance looks ahead by the planner's own choices; nothing is done.

use firesteel_plan::host::preview::Preview;

use super::{
    Client, Output, print_text,
    table::{self, clean},
};

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn run(client: &Client, host: &str, output: Output) -> anyhow::Result<()> {
    let seen = client.get(&format!("/firesteel.dev/plan/{}/{host}", client.namespace)).await?;
    if output == Output::Json {
        print_text(&(serde_json::to_string_pretty(&seen)? + "\n"));
    } else {
        print_text(&render(&serde_json::from_value(seen)?, table::terminal_width()));
    }
    Ok(())
}

fn render(seen: &Preview, width: usize) -> String {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(&clean(line));
        text.push('\n');
    };
    if !seen.inspected_at.is_empty() {
        line(&format!("Disks of {} as inspected at {}; nothing was done", seen.host, seen.inspected_at));
    }
    for why in &seen.closed {
        line(&format!("No disk is changed now: {why}"));
    }
    for outlook in &seen.outlooks {
        let next = if outlook.is_next { " (it would be this one now)" } else { "" };
        line("");
        line(&format!("{}{next}", outlook.what));
        if !outlook.note.is_empty() {
            line(&format!("  {}", outlook.note));
        }
        if !outlook.refused.is_empty() {
            line(&format!("  nothing would be done: {}", outlook.refused));
        }
        let rows: Vec<Vec<String>> = outlook
            .disks
            .iter()
            .map(|row| [&row.device, &row.looks, &row.fate, &row.why].map(|cell| clean(cell)).to_vec())
            .collect();
        if !rows.is_empty() {
            let shown = table::render(&["DISK", "IDENTITY", "FATE", "WHY"], &rows, width.saturating_sub(2));
            shown.lines().for_each(|row| line(&format!("  {row}")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use firesteel_plan::host::preview::{Outlook, Row};

    use super::*;

    #[test]
    fn each_disk_has_a_line() {
        let row = |device: &str, fate: &str| Row {
            device: device.into(),
            looks: "serial \u{1b}[2J".into(),
            fate: fate.into(),
            why: "why".into(),
        };
        let disks = vec![row("/dev/sda", "written"), row("/dev/sdb", "kept")];
        let outlook = Outlook { what: "installation".into(), disks, ..Outlook::default() };
        let seen = Preview {
            host: "a".into(),
            inspected_at: "now".into(),
            closed: vec!["locked".into()],
            outlooks: vec![outlook],
        };
        let text = render(&seen, 100);
        assert!(text.contains("/dev/sda") && text.contains("written") && text.contains("kept"), "{text}");
        assert!(text.contains("No disk is changed now: locked") && !text.contains('\u{1b}'), "{text}");
    }
}
