//! The result of a demo: a table for people, and the JSON that `--json` writes. Pure.

use std::{borrow::Cow, time::SystemTime};

use firesteel_lab_image::PackedFormat;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::host_view::{HostView, TimelineLine};
use crate::machine::{DiskBus, MachineFirmware};
use crate::progress;

const COLUMNS: usize = 80;

/// One host's run.
#[derive(Clone, Debug)]
pub struct HostReport {
    pub name: String,
    pub firmware: MachineFirmware,
    pub disk: DiskBus,
    pub image: PackedFormat,
    /// The zero of all times.
    pub power_on: SystemTime,
    /// When the serial console showed the kernel's first line.
    pub kernel_first_line: Option<SystemTime>,
    pub view: HostView,
}

/// `{…}` for one host, `{"hosts": [{…}, …]}` for several.
#[must_use]
pub fn json(reports: &[HostReport]) -> Value {
    match reports {
        [one] => one.json(),
        several => json!({"hosts": several.iter().map(HostReport::json).collect::<Vec<_>>()}),
    }
}

impl HostReport {
    fn json(&self) -> Value {
        let mut events = Map::new();
        for (key, at, _) in self.events() {
            events.entry(key).or_insert_with(|| json!((at * 1000.0).round() / 1000.0));
        }
        json!({
            "name": self.name,
            "firmware": self.firmware,
            "disk": self.disk,
            "image": self.image.suffix(),
            "events": events,
            "bytes": self.bytes(),
            "receipts": self.view.receipts(),
        })
    }

    /// Events in the order in which they happened, in seconds since power-on.
    fn events(&self) -> Vec<(String, f64, Option<TimelineLine>)> {
        let since = |time: SystemTime| match time.duration_since(self.power_on) {
            Ok(later) => later.as_secs_f64(),
            Err(earlier) => -earlier.duration().as_secs_f64(),
        };
        let mut events = vec![("power_on".to_owned(), 0.0, None)];
        events.extend(self.kernel_first_line.map(|time| ("kernel_first_line".to_owned(), since(time), None)));
        // What was before belongs to no boot.
        let timeline = self.view.timeline().into_iter();
        let timeline = timeline.map(|event| (event.key(), since(to_system(event.at)), Some(event)));
        events.extend(timeline.filter(|(_, at, _)| *at >= 0.0));
        events.sort_by(|a, b| a.1.total_cmp(&b.1));
        events
    }

    fn bytes(&self) -> Value {
        let timeline = self.view.timeline();
        let of_event = |key: &str| timeline.iter().filter(|event| event.key() == key).find_map(|event| event.bytes);
        let of_receipt = |name: &str| {
            let written = |receipt: &&Value| receipt["evidence"]["kind"] == "image_written";
            self.view.receipts().iter().rev().find(written).and_then(|receipt| receipt["evidence"][name].as_u64())
        };
        json!({
            "loader": of_event("loader"),
            "kernel": of_event("kernel"),
            "initramfs": of_event("initramfs"),
            "image": of_receipt("stream_bytes").or_else(|| of_event("write_end")),
            "disk": of_receipt("written_bytes"),
        })
    }

    /// The timeline for people, 80 columns wide; `firesteel describe` has the details in full.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!(
            "{}: {} firmware, {} disk, image {}\n   seconds  event                 what\n",
            self.name,
            self.firmware,
            self.disk,
            self.image.suffix()
        );
        for (key, at, event) in self.events() {
            let what = event.as_ref().map(describe).unwrap_or_default();
            text.push_str(cut(format!("{at:10.1}  {key:20}  {what}").trim_end()).as_ref());
            text.push('\n');
        }
        text.push_str(&format!("   {} receipts; state {}\n", self.view.receipts().len(), self.view.state()));
        text
    }
}

/// A line for a terminal of 80 columns.
fn cut(line: &str) -> Cow<'_, str> {
    match line.char_indices().nth(COLUMNS) {
        None => line.into(),
        Some(_) => (line.chars().take(COLUMNS - 1).collect::<String>() + "…").into(),
    }
}

/// Detail and size of an event.
#[must_use]
pub fn describe(event: &TimelineLine) -> String {
    match event.bytes {
        Some(count) if event.detail.is_empty() => progress::bytes(count),
        Some(count) => format!("{}, {}", event.detail, progress::bytes(count)),
        None => event.detail.clone(),
    }
}

/// jiff's time as the system's.
#[must_use]
pub fn to_system(time: Timestamp) -> SystemTime {
    SystemTime::from(time)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use super::*;

    fn report() -> HostReport {
        let zero: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let text = r#"{"host": {"status": {"provisioning": {"state": "provisioned"}}}, "journal": {"status": {
            "timeline": [
                {"at": "2025-12-31T23:59:58Z", "event": "registered"},
                {"at": "2026-01-01T00:00:04.5Z", "event": "dhcp-ack",
                    "detail": "10.77.0.50 to a client that has a great deal to say about what it is and what it wants"},
                {"at": "2026-01-01T00:00:05Z", "event": "loader", "detail": "snponly.efi", "bytes": 250000},
                {"at": "2026-01-01T00:00:06Z", "event": "dhcp-ack", "detail": "10.77.0.50"},
                {"at": "2026-01-01T00:01:00Z", "event": "write-image-end"},
                {"at": "2026-01-01T00:02:00Z", "event": "running"}],
            "receipts": [{"step": "write-image", "evidence":
                {"kind": "image_written", "stream_bytes": 100, "written_bytes": 400}}]}}}"#;
        HostReport {
            name: "host-1".to_owned(),
            firmware: MachineFirmware::Uefi,
            disk: DiskBus::Nvme,
            image: PackedFormat::Zst,
            power_on: to_system(zero),
            kernel_first_line: Some(to_system(zero) + Duration::from_millis(9_250)),
            view: serde_json::from_str(text).unwrap(),
        }
    }

    #[test]
    fn the_json_has_seconds_since_power_on_of_the_first_of_each_event() {
        let value = json(&[report()]);
        assert_eq!([&value["firmware"], &value["disk"], &value["image"]], ["uefi", "nvme", "raw.zst"]);
        let expected = json!({
            "power_on": 0.0, "dhcp_ack": 4.5, "loader": 5.0, "kernel_first_line": 9.25, "write_end": 60.0,
            "running": 120.0,
        });
        assert_eq!(value["events"], expected);
        let bytes = json!({"loader": 250_000, "kernel": null, "initramfs": null, "image": 100, "disk": 400});
        assert_eq!(value["bytes"], bytes);
        assert_eq!(value["receipts"].as_array().unwrap().len(), 1);
        assert_eq!(json(&[report(), report()])["hosts"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let table = report().table();
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        assert!(table.contains("snponly.efi, 250.0 kB") && !table.contains("registered"), "{table}");
    }
}
