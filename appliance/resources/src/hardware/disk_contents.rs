//! What stands on each disk, for those who look at upstream's `HardwareData`, which has no field for it: an annotation.

use std::collections::BTreeMap;

use super::HardwareRecord;

/// Longest text of the annotation; all annotations of an object may have 256 KiB.
const BYTES_MAX: usize = 32 << 10;
/// Room for the remark on what is left out.
const REMARK_BYTES: usize = 256;
/// Key of that remark: no device is called so.
const REMARK: &str = "left out";

impl HardwareRecord {
    /// A JSON object of the disks by device, with a line for each thing that stands there; nothing where the agent
    /// reports none.
    #[must_use]
    pub fn shown_contents(&self) -> Option<String> {
        let mut shown: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let (mut room, mut left_out) = (BYTES_MAX - REMARK_BYTES, 0);
        for disk in &self.disks {
            let Some(contents) = &disk.contents else { continue };
            let lines = contents.lines();
            // Quotes, colon, brackets and commas.
            room = room.saturating_sub(disk.device.len() + 8);
            let mut kept = Vec::new();
            for line in &lines {
                let bytes = serde_json::to_string(line).map_or(BYTES_MAX, |text| text.len()) + 1;
                if bytes > room {
                    break;
                }
                room -= bytes;
                kept.push(line.clone());
            }
            left_out += lines.len() - kept.len();
            if room > 0 {
                shown.insert(&disk.device, kept);
            }
        }
        if shown.is_empty() {
            return None;
        }
        if left_out > 0 {
            let remark = format!("{left_out} lines do not fit here; the HostJournal's hardware record has them");
            shown.insert(REMARK, vec![remark]);
        }
        serde_json::to_string(&shown).ok()
    }
}

#[cfg(test)]
mod tests {
    use firesteel_contents::{DiskContents, OrdinaryContent};

    use super::*;
    use crate::hardware::DiskRecord;

    fn disk(device: &str, names: &[String]) -> DiskRecord {
        let plain = names.iter().map(|name| OrdinaryContent { place: "the disk".into(), name: name.clone() }).collect();
        let contents = Some(Box::new(DiskContents { plain, ..DiskContents::default() }));
        DiskRecord { device: device.into(), contents, ..DiskRecord::default() }
    }

    #[test]
    fn each_disk_has_its_lines_and_one_that_is_not_reported_has_none() {
        let unreported = DiskRecord { device: "/dev/sdc".into(), ..DiskRecord::default() };
        let disks = vec![disk("/dev/sda", &["ext4".into()]), disk("/dev/sdb", &[]), unreported.clone()];
        let record = HardwareRecord { disks, ..HardwareRecord::default() };
        let expected = r#"{"/dev/sda":["the disk: ext4"],"/dev/sdb":[]}"#;
        assert_eq!(record.shown_contents().as_deref(), Some(expected));
        let record = HardwareRecord { disks: vec![unreported], ..HardwareRecord::default() };
        assert_eq!(record.shown_contents(), None);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let many: Vec<String> = (0..60).map(|number| format!("{number:0200}")).collect();
        let disks = (0..256).map(|number| disk(&format!("/dev/sd{number}"), &many)).collect();
        let record = HardwareRecord { disks, ..HardwareRecord::default() };
        let text = record.shown_contents().unwrap_or_default();
        assert!(text.len() <= BYTES_MAX, "{}", text.len());
        let shown: BTreeMap<String, Vec<String>> = serde_json::from_str(&text).unwrap_or_default();
        let lines: usize = shown.iter().filter(|(key, _)| *key != REMARK).map(|(_, lines)| lines.len()).sum();
        assert_eq!(shown[REMARK][0].split(' ').next(), Some(&*(60 * 256 - lines).to_string()));
        assert!(lines > 100 && shown["/dev/sd0"].len() == 60, "{lines}");
    }
}
