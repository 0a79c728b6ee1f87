//! The timeline of a host.

use firesteel_resources::HostJournal;
use jiff::Timestamp;

use super::{TextPage, bytes, table};

/// The columns from which on the texts of events stand below each other.
const WIDE_MIN: usize = 100;

pub(super) fn render(page: &mut TextPage, journal: &HostJournal) {
    let history = journal.status.history();
    if history.is_empty() {
        return;
    }
    page.title("Timeline");
    let mut previous: Option<Timestamp> = None;
    let mut attempt = None;
    for event in &history {
        if attempt != Some(event.attempt) {
            page.line(&format!("  attempt {}", event.attempt));
            attempt = Some(event.attempt);
        }
        let since = previous.map_or(0.0, |before| event.at.duration_since(before).as_secs_f64());
        previous = Some(event.at);
        let at = table::time(event.at);
        let start = format!("  {at} {since:>+7.1}s  {:<20}  ", event.event);
        let size = event.bytes.map(bytes).into_iter();
        let text: Vec<String> = size.chain(Some(event.detail.clone()).filter(|detail| !detail.is_empty())).collect();
        // A narrow terminal has no room below the beginning of the text.
        let indent = if page.width < WIDE_MIN { 6 } else { start.chars().count() };
        page.item(&start, &text.join(", "), indent);
    }
}

#[cfg(test)]
mod tests {
    use firesteel_resources::BareMetalHost;
    use firesteel_resources::host_journal::TimelineEvent;

    use super::*;
    use crate::describe;

    fn event(name: &str, detail: &str) -> TimelineEvent {
        TimelineEvent { attempt: 1, event: name.to_owned(), detail: detail.to_owned(), ..TimelineEvent::default() }
    }

    #[test]
    fn on_80_columns_nothing_of_an_event_is_lost() {
        let disk = "writing the image to /dev/nvme0n1 (model QEMU NVMe Ctrl, serial LAB01DISK0, 4.29 GB)";
        let mut journal = HostJournal::default();
        journal.status.timeline = vec![
            TimelineEvent { bytes: Some(284_700), ..event("loader", "snponly.efi by tftp") },
            event("DiskSelected", disk),
            event("boot_entry", &format!("Boot0006 {}", "PciRoot(0x0)/".repeat(20))),
        ];
        let page = describe::render(&BareMetalHost::default(), &journal, Timestamp::UNIX_EPOCH, 80);
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        let words: Vec<&str> = page.split_whitespace().collect();
        assert!(words.join(" ").contains(disk), "{page}");
        assert!(words.join(" ").contains("284.7 kB, snponly.efi by tftp"), "{page}");
        assert!(page.contains("  1970-01-01T00:00:00Z    +0.0s  loader "), "date, time and zone: {page}");
        assert_eq!(words.concat().matches("PciRoot(0x0)/").count(), 20, "{page}");
    }
}
