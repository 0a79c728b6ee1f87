//! What names one disk across boots, and whether a disk of an inspection is the one that is named.
//!
//! | the disk says | its identity is |
//! |---|---|
//! | a WWN of its own | the WWN, with its extension where there is one |
//! | a serial number of its own | serial number, model and size |
//! | neither, or the same as another disk | its place and size, where the owner names the place: [`OwnerNamedPlaces`] |
//!
//! A disk that is named by its place is another one as soon as it has another size, or a WWN or serial number that the
//! named one had not.

use firesteel_facts::DiskIdentity;
use firesteel_resources::{RootDeviceHints, hardware::DiskRecord};

/// Folder of udev's names of places.
const BY_PATH: &str = "/dev/disk/by-path/";

/// Whether this disk of an inspection is the one that is wanted.
#[must_use]
pub(crate) fn fits(wanted: &DiskIdentity, disk: &DiskRecord) -> bool {
    let fits =
        |want: &str, has: &str| if want.is_empty() { !wanted.is_by_path() || has.is_empty() } else { want == has };
    let is_specific = !(wanted.wwn.is_empty() && wanted.serial.is_empty() && wanted.by_path.is_empty());
    // Journals of earlier versions have the WWN without its extension.
    let is_short = !wanted.wwn.is_empty() && wanted.wwn == disk.wwn;
    is_specific
        && (is_short || fits(&wanted.wwn, full_wwn(disk)))
        && fits(&wanted.serial, &disk.serial)
        && (wanted.model.is_empty() || wanted.model == disk.model)
        && (wanted.by_path.is_empty() || wanted.by_path == disk.by_path)
        && wanted.size_bytes == disk.size_bytes
}

/// The WWN with its extension where there is one: two volumes of one array may differ in that alone.
#[must_use]
pub fn full_wwn(disk: &DiskRecord) -> &str {
    if disk.wwn_with_extension.is_empty() { &disk.wwn } else { &disk.wwn_with_extension }
}

/// Whether this is the name of the disk's place, by either of the names that udev gives it.
#[must_use]
pub(super) fn is_place_of(name: &str, disk: &DiskRecord) -> bool {
    let is_second = name.starts_with(BY_PATH) && disk.by_id.iter().any(|other| other == name);
    !name.is_empty() && (name == disk.by_path || is_second)
}

/// Places that the host's owner names, for disks that have no name of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnerNamedPlaces<'a> {
    /// The hints for the disk of the next installation.
    pub hints: Option<&'a RootDeviceHints>,
    /// Disks that were installed on: their owner named them then.
    pub installed: &'a [DiskIdentity],
    /// Names of a policy.
    pub names: &'a [String],
}

impl<'a> OwnerNamedPlaces<'a> {
    /// The hints alone.
    #[must_use]
    pub fn hints(hints: &'a RootDeviceHints) -> Self {
        Self { hints: Some(hints), ..Self::default() }
    }

    fn names_place_of(&self, disk: &DiskRecord) -> bool {
        let hinted = self.hints.map(|hints| hints.device_name.as_str());
        let installed = self.installed.iter().map(|identity| identity.by_path.as_str());
        let mut names = hinted.into_iter().chain(installed).chain(self.names.iter().map(String::as_str));
        !disk.by_path.is_empty() && names.any(|name| is_place_of(name, disk))
    }
}

/// Why nothing names a disk among those of its host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoIdentity {
    #[error("has neither WWN nor serial number")]
    Nameless,
    #[error("has the same WWN as {0}: two paths to one disk (multipath), or twins")]
    SameWwn(String),
    #[error("has the same serial number as another disk")]
    SameSerial,
}

/// What names this disk among those of its host.
///
/// # Errors
/// [`NoIdentity`] where nothing does.
pub fn identity(
    word: &OwnerNamedPlaces<'_>,
    disk: &DiskRecord,
    disks: &[DiskRecord],
) -> Result<DiskIdentity, NoIdentity> {
    let identity = DiskIdentity {
        wwn: full_wwn(disk).to_owned(),
        serial: disk.serial.clone(),
        model: disk.model.clone(),
        size_bytes: disk.size_bytes,
        by_path: String::new(),
    };
    let others = || disks.iter().filter(|other| !std::ptr::eq(*other, disk));
    let twin = || others().find(|other| !identity.wwn.is_empty() && is_wwn_of(&identity.wwn, other));
    let serial_key = |disk: &DiskRecord| (disk.serial.clone(), disk.model.clone(), disk.size_bytes);
    let is_serial_unique = !disk.serial.is_empty() && !others().any(|other| serial_key(other) == serial_key(disk));
    if !identity.wwn.is_empty() && twin().is_none() || is_serial_unique {
        return Ok(identity);
    }
    if word.names_place_of(disk) && !others().any(|other| other.by_path == disk.by_path) {
        return Ok(DiskIdentity { by_path: disk.by_path.clone(), ..identity });
    }
    Err(match twin() {
        _ if identity.wwn.is_empty() && disk.serial.is_empty() => NoIdentity::Nameless,
        Some(other) => NoIdentity::SameWwn(other.device.clone()),
        None => NoIdentity::SameSerial,
    })
}

fn is_wwn_of(wwn: &str, disk: &DiskRecord) -> bool {
    wwn.eq_ignore_ascii_case(full_wwn(disk)) || wwn.eq_ignore_ascii_case(&disk.wwn)
}

/// One kind of name of a disk.
type Name = fn(&DiskRecord) -> &str;

/// The hint that names this disk and no other one of its host, as YAML; `None` where it has no name at all.
#[must_use]
pub(super) fn hint_for(disk: &DiskRecord, disks: &[DiskRecord]) -> Option<String> {
    let kinds: [(&str, Name); 4] = [
        ("wwnWithExtension", |disk| &disk.wwn_with_extension),
        ("wwn", |disk| &disk.wwn),
        ("serialNumber", |disk| &disk.serial),
        ("deviceName", |disk| &disk.by_path),
    ];
    let is_own = |name: Name| {
        let same = disks.iter().filter(|other| name(other).eq_ignore_ascii_case(name(disk)));
        !name(disk).trim().is_empty() && same.count() == 1
    };
    let (key, name) = kinds.into_iter().find(|(_, name)| is_own(*name))?;
    // A JSON string is a YAML string.
    Some(format!("spec: {{rootDeviceHints: {{{key}: {}}}}}", serde_json::Value::from(name(disk))))
}

/// Disks that are remembered of a tenant: as many as an inventory has (`DISKS_MAX` of the protocol).
const DISKS_MAX: usize = 256;

/// Adds what is new; the oldest goes beyond the bound.
pub(crate) fn unite(known: &mut Vec<DiskIdentity>, found: impl IntoIterator<Item = DiskIdentity>) {
    for disk in found {
        if !known.contains(&disk) {
            known.push(disk);
        }
    }
    let excess = known.len().saturating_sub(DISKS_MAX);
    known.drain(..excess);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(device: &str, serial: &str, wwn: &str) -> DiskRecord {
        DiskRecord {
            device: device.into(),
            by_path: format!("{BY_PATH}pci-{device}"),
            by_id: vec![format!("{BY_PATH}virtio-pci-{device}")],
            serial: serial.into(),
            wwn: wwn.into(),
            size_bytes: 8 << 30,
            ..DiskRecord::default()
        }
    }

    fn volume(device: &str, extension: &str) -> DiskRecord {
        let wwn = "0x6d0946600a1b2c00";
        DiskRecord { wwn_with_extension: format!("{wwn}{extension}"), ..disk(device, "ARRAY", wwn) }
    }

    #[test]
    fn volumes_of_one_array_differ_in_the_extension_of_their_wwn() {
        let disks = [volume("sda", "2a8e2f1d"), volume("sdb", "2a8e2f3a")];
        for (index, disk) in disks.iter().enumerate() {
            let named = identity(&OwnerNamedPlaces::default(), disk, &disks);
            let fitting: Vec<usize> =
                (0..2).filter(|other| named.as_ref().is_ok_and(|named| fits(named, &disks[*other]))).collect();
            assert_eq!(fitting, [index]);
            let hint = hint_for(disk, &disks).unwrap_or_default();
            let wwn = &disk.wwn_with_extension;
            assert_eq!(hint, format!(r#"spec: {{rootDeviceHints: {{wwnWithExtension: "{wwn}"}}}}"#));
        }
        let journal = DiskIdentity { wwn: "0x6d0946600a1b2c00".into(), size_bytes: 8 << 30, ..DiskIdentity::default() };
        assert!(fits(&journal, &disks[0]), "of a version that did not keep the extension");
        // One volume without an extension may be the other path of any.
        let disks = [volume("sda", ""), volume("sdb", "2a8e2f3a")];
        assert!(identity(&OwnerNamedPlaces::default(), &disks[0], &disks).is_err());
    }

    #[test]
    fn a_disk_without_a_name_is_named_by_the_owners_word_for_its_place() {
        let disks = [disk("vda", "", ""), disk("vdb", "", "")];
        assert!(identity(&OwnerNamedPlaces::default(), &disks[0], &disks).is_err());
        for name in [&disks[0].by_path, &disks[0].by_id[0]] {
            let hints = RootDeviceHints { device_name: name.clone(), ..RootDeviceHints::default() };
            let named = identity(&OwnerNamedPlaces::hints(&hints), &disks[0], &disks);
            assert!(
                named.as_ref().is_ok_and(|named| named.is_by_path() && named.by_path == disks[0].by_path),
                "{name}"
            );
            assert!(identity(&OwnerNamedPlaces::hints(&hints), &disks[1], &disks).is_err());
            let installed = [named.unwrap_or_default()];
            let word = OwnerNamedPlaces { installed: &installed, ..OwnerNamedPlaces::default() };
            assert_eq!(identity(&word, &disks[0], &disks).as_ref(), Ok(&installed[0]));
        }
        let hint = hint_for(&disks[0], &disks);
        assert_eq!(hint.as_deref(), Some(r#"spec: {rootDeviceHints: {deviceName: "/dev/disk/by-path/pci-vda"}}"#));
    }

    #[test]
    fn a_place_with_another_disk_does_not_fit() {
        let named =
            DiskIdentity { by_path: format!("{BY_PATH}pci-vda"), size_bytes: 8 << 30, ..DiskIdentity::default() };
        assert!(fits(&named, &disk("vda", "", "")));
        for other in [
            disk("vdb", "", ""),
            disk("vda", "S1", ""),
            disk("vda", "", "0x5"),
            DiskRecord { size_bytes: 9 << 30, ..disk("vda", "", "") },
        ] {
            assert!(!fits(&named, &other), "{other:?}");
        }
    }
}
