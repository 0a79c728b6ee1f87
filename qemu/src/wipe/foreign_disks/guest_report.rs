//! What the guest said, by disk.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

use super::probe;

pub(super) const SECTOR: u64 = 512;

/// Number, first sector, sectors.
pub(super) type Partition = (u64, u64, u64);

/// A region that the guard looked at: its name, its place on the disk where it is in one piece, its bytes.
pub(super) type Looked = (String, Option<u64>, u64);

#[derive(Debug, Default)]
pub(super) struct GuestDiskReport {
    pub(super) device: String,
    pub(super) bytes: u64,
    /// The kernel's.
    pub(super) partitions: Vec<Partition>,
    /// libblkid's, by partx.
    pub(super) table: Vec<Partition>,
    /// What blkid calls the disk (0) and its partitions.
    pub(super) types: BTreeMap<u64, String>,
    pub(super) looked: Vec<Looked>,
    /// The names of formats that the guard found, and whether it found something that it did not understand.
    pub(super) kinds: Vec<String>,
    pub(super) has_unread: bool,
    /// The digest of a disk that the guest made.
    pub(super) digest: Option<String>,
    pub(super) end: Option<GuestDiskResult>,
}

#[derive(Debug)]
pub(super) enum GuestDiskResult {
    Erased,
    Refused { why: String, changed: bool },
}

/// A line of lvm2 for each segment of a volume.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct LvsSegmentLine {
    pub(super) vg_name: String,
    pub(super) lv_name: String,
    pub(super) lv_size: String,
    pub(super) segtype: String,
    pub(super) seg_size: String,
    pub(super) devices: String,
    pub(super) vg_extent_size: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Physical {
    pub(super) pv_name: String,
    pub(super) vg_name: String,
    pub(super) pe_start: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Array {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Kernel names of disks and partitions.
    pub(super) members: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct GuestReport {
    pub(super) disks: BTreeMap<String, GuestDiskReport>,
    /// The segments of each volume, by `group/volume`.
    pub(super) volumes: BTreeMap<String, Vec<LvsSegmentLine>>,
    pub(super) physical: Vec<Physical>,
    pub(super) arrays: Vec<Array>,
}

/// Takes the answers apart.
pub(super) fn read(answers: &[Value]) -> anyhow::Result<GuestReport> {
    let mut seen = GuestReport::default();
    for answer in answers {
        one(&mut seen, answer).with_context(|| format!("reading the guest's answer {answer:.200}"))?;
    }
    Ok(seen)
}

fn one(seen: &mut GuestReport, answer: &Value) -> anyhow::Result<()> {
    let name = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(name) = name("shown") {
        let disk = seen.disks.entry(name).or_default();
        disk.device = parsed(&answer["device"])?;
        disk.bytes = parsed(&answer["bytes"])?;
        disk.partitions = parsed(&answer["partitions"])?;
        if let Some(text) = answer["partx"].as_str() {
            disk.table = probe::table(text);
            let texts: BTreeMap<u64, String> = parsed(&answer["blkid"])?;
            disk.types = texts.iter().filter_map(|(place, text)| Some((*place, probe::kind(text)?))).collect();
        }
    } else if let Some(name) = name("guard") {
        let disk = seen.disks.entry(name).or_default();
        disk.looked = parsed(&answer["looked"])?;
        let findings = answer["contents"]["findings"].as_array().cloned().unwrap_or_default();
        disk.kinds = findings.iter().filter_map(|finding| Some(finding["kind"].as_str()?.to_owned())).collect();
        disk.has_unread = answer["contents"]["unread"].as_array().is_some_and(|unread| !unread.is_empty());
    } else if let Some(name) = name("digest") {
        seen.disks.entry(name).or_default().digest = Some(parsed(&answer["is"])?);
    } else if let Some(name) = name("erased") {
        seen.disks.entry(name).or_default().end = Some(GuestDiskResult::Erased);
    } else if let Some(name) = name("refused") {
        let (why, changed) = (parsed(&answer["why"])?, parsed(&answer["changed"])?);
        seen.disks.entry(name).or_default().end = Some(GuestDiskResult::Refused { why, changed });
    } else if answer.get("segments").is_some() {
        let segments: Vec<LvsSegmentLine> = parsed(&answer["segments"])?;
        for segment in segments {
            let name = format!("{}/{}", segment.vg_name, segment.lv_name);
            seen.volumes.entry(name).or_default().push(segment);
        }
        seen.physical = parsed(&answer["physical"])?;
        seen.arrays = parsed(&answer["arrays"])?;
    }
    Ok(())
}

fn parsed<T: serde::de::DeserializeOwned>(value: &Value) -> anyhow::Result<T> {
    Ok(T::deserialize(value)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_put_together_by_disk() {
        let answers = [
            json!({"modules": 3}),
            json!({"shown": "A", "device": "/dev/sda", "bytes": 100, "partitions": [[1, 8, 16]],
                "partx": " 1 8 16\nx\n", "blkid": {"0": "PTTYPE=gpt\n", "1": "TYPE=ext4\n"}}),
            json!({"guard": "A", "contents": {"findings": [{"place": "p", "kind": "vmfs"}]},
                "looked": [["the disk", 0, 100], ["volume", null, 7]]}),
            json!({"digest": "A", "is": "ff"}),
            json!({"refused": "A", "why": "it holds", "changed": false}),
            json!({"erased": "B", "seconds": 1.0}),
            json!({"segments": [["vg", "lv", "8", "linear", "8", "/dev/sda(0)", "4"]], "physical": [["/dev/sda", "vg", "1"]],
                "arrays": []}),
        ];
        let seen = read(&answers).unwrap();
        let a = &seen.disks["A"];
        assert_eq!((a.partitions.len(), a.table.as_slice(), a.types[&1].as_str()), (1, &[(1, 8, 16)][..], "ext4"));
        assert_eq!((a.kinds.as_slice(), a.has_unread, a.looked[1].1), (&["vmfs".to_owned()][..], false, None));
        assert!(matches!(a.end, Some(GuestDiskResult::Refused { changed: false, .. })));
        assert!(matches!(seen.disks["B"].end, Some(GuestDiskResult::Erased)));
        assert_eq!(
            (seen.volumes["vg/lv"][0].devices.as_str(), seen.physical[0].pe_start.as_str()),
            ("/dev/sda(0)", "1")
        );
        assert!(read(&[json!({"shown": "A", "device": 7})]).is_err());
    }
}
