//! Disks and their partitions (`types/disk.go`, `partition.go`).

use std::collections::HashSet;

use firesteel_facts::Guid;

use super::{ConfigLocation, Rules, path};

/// Each is compared with each. GPTs have 128 entries, and the kernel shows 255 partitions of a disk.
pub(super) const PARTITIONS_MAX: usize = 2048;
/// Characters of a GPT partition's name (UEFI, table "GPT Partition Entry"); Ignition counts bytes.
const LABEL_BYTES_MAX: usize = 36;

pub(super) fn check(rules: &mut Rules<'_>, storage: &ConfigLocation<'_>) {
    let disks = storage.list("disks");
    for disk in &disks {
        let partitions = disk.list("partitions");
        for each in &partitions {
            partition(rules, each);
        }
        let device = disk.text("device").unwrap_or_default();
        rules.error_if_some(disk, "device", path::fault(device));
        if partitions.len() > PARTITIONS_MAX {
            rules.error(disk, "partitions", &format!("are more than {PARTITIONS_MAX}"));
        } else if !device.is_empty() {
            together(rules, disk, &partitions);
        }
    }
    rules.unique(&disks, "device", &mut HashSet::new());
}

fn partition(rules: &mut Rules<'_>, partition: &ConfigLocation<'_>) {
    let number = partition.whole("number").unwrap_or_default();
    let has_more = partition.filled("typeGuid").is_some()
        || partition.filled("guid").is_some()
        || ["label", "startMiB", "sizeMiB"].iter().any(|field| partition.has(field));
    if partition.is("shouldExist", false) && has_more {
        rules.error(partition, "shouldExist", "is false, but says what the partition should be");
    }
    if number == 0 && !partition.has("label") {
        rules.error(partition, "", "needs a number from 1 on or a label");
    }
    if number < 0 {
        rules.warning(partition, "number", "is below 0: no partition has it");
    }
    if let Some(label) = partition.text("label") {
        if label.len() > LABEL_BYTES_MAX {
            rules.error(partition, "label", "has more than 36 bytes");
        } else if label.contains(':') {
            rules.error(partition, "label", "has a colon, which would cut it off");
        }
    }
    for field in ["guid", "typeGuid"] {
        if partition.text(field).is_some_and(|guid| !is_guid(guid)) {
            rules.error(partition, field, "is no GUID, such as 01234567-89AB-CDEF-EDCB-A98765432101");
        }
    }
}

/// Whether a text is a GUID. Empty is allowed: Ignition then chooses.
fn is_guid(text: &str) -> bool {
    text.is_empty() || text.parse::<Guid>().is_ok()
}

/// The rules of a disk's partitions with each other.
fn together(rules: &mut Rules<'_>, disk: &ConfigLocation<'_>, partitions: &[ConfigLocation<'_>]) {
    let (mut numbers, mut labels) = (HashSet::new(), HashSet::new());
    for partition in partitions {
        let number = partition.whole("number").unwrap_or_default();
        // Number 0 is the next that is free; several may ask for it.
        if number != 0 && !numbers.insert(number) {
            rules.error(partition, "number", "is on the disk twice");
        }
        if partition.text("label").is_some_and(|label| !labels.insert(label)) {
            rules.error(partition, "label", "is on the disk twice");
        }
    }
    let ranges: Vec<_> = partitions.iter().map(PartitionMib::of).collect();
    for (index, range) in ranges.iter().enumerate() {
        let overlaps = |(other, range_of_other): (usize, &Option<PartitionMib>)| {
            other != index && matches!((range, range_of_other), (Some(one), Some(two)) if one.overlaps(two))
        };
        if ranges.iter().enumerate().any(overlaps) {
            rules.error(&partitions[index], "startMiB", "overlaps another partition of the disk");
        }
    }
    // Releases up to 2.26 refuse it, whatever the version of the config.
    let takes_next_number = |partition: &ConfigLocation<'_>| partition.whole("number").unwrap_or_default() == 0;
    if partitions.iter().any(|partition| partition.is("shouldExist", false)) && partitions.iter().any(takes_next_number)
    {
        rules.error(disk, "partitions", "one is to go (shouldExist false) and another has no number: give it one");
    }
}

/// First and last MiB, where both are given. A start of 0 is wherever there is room.
struct PartitionMib {
    first: i64,
    last: i64,
}

impl PartitionMib {
    fn of(partition: &ConfigLocation<'_>) -> Option<Self> {
        let (first, size) = (partition.whole("startMiB")?, partition.whole("sizeMiB")?);
        // A size of 0 is all there is; numbers go round as in Go.
        let last = if size == 0 { first } else { first.wrapping_add(size).wrapping_sub(1) };
        (first != 0).then_some(Self { first, last })
    }

    fn overlaps(&self, other: &Self) -> bool {
        let within = |at: i64| at >= other.first && at <= other.last;
        within(self.first) || within(self.last) || self.first < other.first && self.last > other.last
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    /// Each of two partitions is named when it overlaps the other. Sizes below 0 end before they begin, as in Ignition.
    #[test]
    fn partitions_that_overlap_are_each_named() {
        for (ranges, named) in [
            ([(1, 10), (10, 10)], &[0, 1][..]),
            ([(1, 10), (11, 10)], &[]),
            ([(1, 10), (3, 2)], &[0, 1]),
            ([(3, 2), (1, 10)], &[0, 1]),
            ([(5, 0), (5, 1)], &[0, 1]),
            ([(5, 0), (6, 0)], &[]),
            ([(0, 10), (0, 10)], &[]),
            ([(10, 3), (10, -5)], &[1]),
            ([(2, 3), (10, -5)], &[1]),
        ] {
            let partition = |(number, (start, size)): (usize, (i32, i32))| json!({"number": number, "startMiB": start, "sizeMiB": size});
            let partitions: Vec<Value> = (1..).zip(ranges).map(partition).collect();
            let config = json!({"ignition": {"version": "3.3.0"}, "storage": {"disks": [{"device": "/dev/a", "partitions": partitions}]}});
            let name = |at: &i32| {
                format!("storage.disks[0].partitions[{at}].startMiB: overlaps another partition of the disk")
            };
            let wanted: Vec<String> = named.iter().map(name).collect();
            assert_eq!(crate::validate(config.to_string().as_bytes()).errors, wanted, "{ranges:?}");
        }
    }
}
