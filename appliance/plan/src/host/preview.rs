//! The dry run: what the next installation and the next cleaning would do to each disk of a host, as it looks
//! now, by the same choices that the real ones make. Nothing is done.

use firesteel_resources::{
    BareMetalHost, HardwareRecord,
    bare_metal_host::{cleaning::Method, requests},
};
use serde::{Deserialize, Serialize};

use crate::{
    disk::{DiskIdentity, NextOwner, record_of, select_disk, verdicts},
    host::{cleaning, gate, memory::HostMemory, tenancy},
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preview {
    pub host: String,
    /// When the disks were looked at; the real thing looks again. Empty: never.
    pub inspected_at: String,
    /// Why no disk is changed at all at the moment.
    pub closed: Vec<String>,
    pub outlooks: Vec<Outlook>,
}

/// What one thing would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outlook {
    /// `installation`, `cleaning for the same owner`, `cleaning for another owner`.
    pub what: String,
    /// It would be this cleaning if the image were removed, or the host deleted, now.
    pub is_next: bool,
    /// Why nothing would be done.
    pub refused: String,
    /// What has to be known beside the disks.
    pub note: String,
    pub disks: Vec<Row>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Row {
    /// In the boot of the inspection.
    pub device: String,
    pub looks: String,
    /// `written`, `metadata cleared`, `erased (quick)`, `erased (full)` or `kept`.
    pub fate: String,
    pub why: String,
}

/// Looks ahead.
#[must_use]
pub fn preview(host: &BareMetalHost, memory: &HostMemory, record: Option<&HardwareRecord>) -> Preview {
    let frozen = memory.frozen.as_ref().map(|frozen| frozen.message.clone());
    let closed: Vec<String> = gate::lock(&host.metadata).map(|shut| shut.text).into_iter().chain(frozen).collect();
    let mut preview = Preview { host: host.metadata.name.clone(), closed, ..Preview::default() };
    let Some(record) = record else {
        preview.closed.push("the host was never inspected: its disks are not known".to_owned());
        return preview;
    };
    preview.inspected_at = format!("{:.0}", record.inspected_at);
    preview.outlooks = vec![
        installation(host, record),
        cleaning_for(host, memory, record, NextOwner::Same),
        cleaning_for(host, memory, record, NextOwner::Another),
    ];
    preview
}

fn installation(host: &BareMetalHost, record: &HardwareRecord) -> Outlook {
    let hints = host.spec.root_device_hints.clone().unwrap_or_default();
    let mut outlook = Outlook { what: "installation".to_owned(), ..Outlook::default() };
    match host.spec.wanted_image() {
        Some(image) => outlook.note = format!("image {}", image.url),
        None => outlook.note = "no image is wanted".to_owned(),
    }
    let chosen = match select_disk(&hints, &record.disks) {
        Ok(chosen) => Some(chosen),
        Err(error) => {
            outlook.refused = error.reason;
            None
        }
    };
    for (disk, verdict) in record.disks.iter().zip(verdicts(&hints, &record.disks)) {
        let mine = chosen.as_ref().filter(|chosen| chosen.device == disk.device);
        let (fate, why) = match mine {
            Some(chosen) => ("written", chosen.why.clone()),
            None if verdict.verdict == "matches" && chosen.is_some() => ("kept", "another disk is chosen".to_owned()),
            None => ("kept", verdict.verdict),
        };
        outlook.disks.push(Row { device: verdict.device, looks: verdict.looks, fate: fate.to_owned(), why });
    }
    outlook
}

fn cleaning_for(host: &BareMetalHost, memory: &HostMemory, record: &HardwareRecord, next: NextOwner) -> Outlook {
    let goes = host.metadata.is_deleting();
    let mut outlook = Outlook {
        what: match next {
            NextOwner::Same => "cleaning for the same owner".to_owned(),
            NextOwner::Another => "cleaning for another owner".to_owned(),
        },
        is_next: tenancy::next_of(&host.spec, memory, Some(record), goes) == next,
        ..Outlook::default()
    };
    let targets = tenancy::targets(memory, next);
    if next == NextOwner::Same && !host.spec.cleans() {
        outlook.refused = "spec.automatedCleaningMode is disabled".to_owned();
        return outlook;
    }
    if next == NextOwner::Same && targets.is_empty() {
        outlook.refused = "nothing is installed, so nothing is cleaned".to_owned();
        return outlook;
    }
    match cleaning::decide(&requests(&host.metadata).cleaning, next, &targets, &memory.tenant_disks, record) {
        Err(error) => {
            outlook.refused = error.reason;
            let row = |disk: crate::disk::DiskVerdict| kept(disk.device, disk.looks, disk.verdict);
            outlook.disks = error.disks.into_iter().map(row).collect();
        }
        Ok(decided) => {
            outlook.note = decided.relaxed.clone().unwrap_or_default();
            outlook.disks = decided.disks.iter().map(|disk| cleaned(disk, decided.method, &targets, record)).collect();
            let kept = decided.kept.into_iter().map(|disk| kept(disk.device, disk.looks, disk.verdict));
            outlook.disks.extend(kept);
        }
    }
    outlook
}

fn kept(device: String, looks: String, why: String) -> Row {
    Row { device, looks, fate: "kept".to_owned(), why }
}

fn cleaned(disk: &DiskIdentity, method: Method, targets: &[DiskIdentity], record: &HardwareRecord) -> Row {
    let device = record_of(disk, &record.disks).map(|found| found.device.clone()).unwrap_or_default();
    let (fate, what) = match method {
        Method::Metadata => ("metadata cleared", "tables and signatures; its data stays"),
        Method::Quick => ("erased (quick)", "all of it, by its quickest method"),
        Method::Full => ("erased (full)", "all of it, by its method of the best grade"),
    };
    let whose = if targets.contains(disk) { "the disk of the installation: " } else { "" };
    Row { device, looks: disk.to_string(), fate: fate.to_owned(), why: format!("{whose}{what}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "a test may fail")]
    use firesteel_resources::{bare_metal_host::annotations, hardware::DiskRecord, meta::ObjectReference};

    use super::*;

    fn disk(device: &str, serial: &str, gb: u64) -> DiskRecord {
        DiskRecord {
            device: device.into(),
            serial: serial.into(),
            size_bytes: gb * 1_000_000_000,
            ..DiskRecord::default()
        }
    }

    fn fates(outlook: &Outlook) -> Vec<(&str, &str)> {
        outlook.disks.iter().map(|row| (row.device.as_str(), row.fate.as_str())).collect()
    }

    #[test]
    fn every_disk_has_a_fate_and_a_reason() {
        let record = HardwareRecord {
            disks: vec![disk("/dev/sda", "A", 20), disk("/dev/sdb", "B", 10), disk("/dev/sdc", "C", 1)],
            ..HardwareRecord::default()
        };
        let mut host = BareMetalHost::default();
        host.metadata.name = "a".into();
        let consumer = ObjectReference { kind: "HostClaim".into(), name: "x".into(), ..ObjectReference::default() };
        host.spec.consumer_ref = Some(consumer);
        let memory = HostMemory { tenant: Some("HostClaim /y".into()), ..HostMemory::default() };
        let seen = preview(&host, &memory, Some(&record));
        let [install, same, another] = seen.outlooks.as_slice() else { panic!("three outlooks") };
        assert_eq!(fates(install), [("/dev/sda", "kept"), ("/dev/sdb", "written"), ("/dev/sdc", "kept")]);
        assert!(same.refused.contains("nothing is installed") && !same.is_next);
        assert!(another.is_next && another.disks.iter().all(|row| row.fate == "erased (full)"), "{another:?}");
        assert!(seen.outlooks.iter().flat_map(|outlook| &outlook.disks).all(|row| !row.why.is_empty()));

        let policy = r#"{"betweenOwners":{"method":"quick","scope":{"named":["A"]}}}"#;
        host.metadata.annotations.insert(annotations::CLEANING.into(), policy.into());
        host.metadata.annotations.insert(annotations::LOCK.into(), "audit".into());
        let seen = preview(&host, &memory, Some(&record));
        let another = &seen.outlooks[2];
        assert_eq!(fates(another), [("/dev/sda", "erased (quick)"), ("/dev/sdb", "kept"), ("/dev/sdc", "kept")]);
        assert!(another.note.contains("less") && seen.closed[0].contains("audit"), "{seen:?}");
        assert!(preview(&host, &memory, None).closed[1].contains("never inspected"));
    }
}
