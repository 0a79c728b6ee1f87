//! Which disks of a host are cleaned between two installations, and how far.
//!
//! - For the same owner: the target's metadata; all other disks keep their data.
//! - For another owner: every disk, erased in full. The host's owner may ask for less, and then the answer
//!   says so; a tenant may not, and is not asked here.
//! - A disk that cannot be named by identity is cleaned only where the owner names its path: in the policy, in the hints
//!   for the root disk, or when something was installed on it. Where it would have to be cleaned and cannot be, nothing
//!   is planned: a host is never half clean without a word.

use firesteel_resources::RootDeviceHints;
pub use firesteel_resources::bare_metal_host::cleaning::{
    CleaningMethod, CleaningPolicies, CleaningPolicy, CleaningScope,
};
use firesteel_resources::hardware::{DiskRecord, TableRecord};
use serde::{Deserialize, Serialize};

use super::identity::is_place_of;
use super::select::explain;
use super::{DiskIdentity, DiskVerdict, NoDisk, OwnerNamedPlaces, fits, full_wwn, identity};

/// Who comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NextOwner {
    Same,
    Another,
}

/// What is to be cleaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaning {
    pub method: CleaningMethod,
    /// No disk that could be cleaned is left out.
    pub is_all: bool,
    pub disks: Vec<DiskIdentity>,
    /// Every other disk, and why it keeps what it has.
    pub kept: Vec<DiskVerdict>,
    /// What is cleaned less than Firesteel would clean for another owner; for the status, in words.
    pub relaxed: Option<String>,
}

/// Chooses method and disks. `targets` are the disks of installations: of the last one, and for another owner of all
/// that the last one had. A host without one has nothing to clean for the same owner. `hints` are those for the next
/// installation.
///
/// # Errors
/// A disk that is to be cleaned is not there, or cannot be named by identity, or cannot be written.
pub fn plan_cleaning(
    next: NextOwner,
    policy: &CleaningPolicy,
    hints: &RootDeviceHints,
    targets: &[DiskIdentity],
    disks: &[DiskRecord],
) -> Result<Cleaning, NoDisk> {
    let (method, scope) = match next {
        NextOwner::Same => (CleaningMethod::Metadata, CleaningScope::Target),
        NextOwner::Another => (CleaningMethod::Full, CleaningScope::All),
    };
    let method = policy.method.unwrap_or(method);
    let scope = policy.scope.clone().unwrap_or(scope);
    let names = if let CleaningScope::Named(names) = &scope { names.as_slice() } else { &[] };
    let word = OwnerNamedPlaces { hints: Some(hints), installed: targets, names };
    let judged: Vec<DiskDecision<'_>> = disks.iter().map(|disk| judge(&scope, &word, disk, disks)).collect();
    let nothing = || nothing(next, &scope, &judged);
    if let Some(reason) = missing(&scope, targets, &judged).or_else(|| barred_reason(&judged)).or_else(nothing) {
        let disks = judged.iter().map(verdict).collect();
        return Err(NoDisk { reason, disks });
    }
    let relaxed = (next == NextOwner::Another).then(|| relaxed(method, &scope)).flatten();
    let kept = judged.iter().filter(|judged| !matches!(judged.fate, CleaningFate::Clean(_))).map(verdict).collect();
    let chosen = judged.into_iter().filter_map(|judged| match judged.fate {
        CleaningFate::Clean(identity) => Some(identity),
        CleaningFate::Keep(_) | CleaningFate::Bar(_) => None,
    });
    Ok(Cleaning { method, is_all: scope == CleaningScope::All, disks: chosen.collect(), kept, relaxed })
}

struct DiskDecision<'a> {
    disk: &'a DiskRecord,
    fate: CleaningFate,
}

enum CleaningFate {
    Clean(DiskIdentity),
    Keep(String),
    /// It is to be cleaned, and cannot be.
    Bar(String),
}

fn judge<'a>(
    scope: &CleaningScope,
    word: &OwnerNamedPlaces<'_>,
    disk: &'a DiskRecord,
    disks: &[DiskRecord],
) -> DiskDecision<'a> {
    let is_target = word.installed.iter().any(|target| fits(target, disk));
    let is_wanted = match scope {
        CleaningScope::Target => is_target,
        CleaningScope::Named(names) => names.iter().any(|name| is_named(name, disk)),
        CleaningScope::All => true,
    };
    let fate = if disk.size_bytes == 0 {
        CleaningFate::Keep("has no medium".to_owned())
    } else if !is_wanted {
        CleaningFate::Keep("is not among the disks to clean".to_owned())
    } else if *scope == CleaningScope::All && disk.removable && !is_target {
        // Virtual media of a BMC, and sticks: no tenant is installed there, but for one whose hints name it.
        CleaningFate::Keep("is removable; name it to clean it".to_owned())
    } else if disk.read_only {
        CleaningFate::Bar("is read-only".to_owned())
    } else {
        match identity(word, disk, disks) {
            Ok(identity) => CleaningFate::Clean(identity),
            Err(why) => CleaningFate::Bar(format!("{why}{}", to_clean(disk))),
        }
    };
    DiskDecision { disk, fate }
}

/// What the host's owner does about a disk that cannot be named.
fn to_clean(disk: &DiskRecord) -> String {
    if disk.by_path.is_empty() {
        return " and no by-path name, so it cannot be named".to_owned();
    }
    format!(
        "; to clean it, name {path} in the annotation firesteel.dev/cleaning with all other disks to clean: {{\"named\": \
         [\"{path}\", …]}} as the scope, or set rootDeviceHints.deviceName to it where it is the root disk",
        path = disk.by_path
    )
}

fn is_named(name: &str, disk: &DiskRecord) -> bool {
    let is = |value: &str| !value.is_empty() && value.eq_ignore_ascii_case(name);
    is(&disk.wwn) || is(full_wwn(disk)) || is(&disk.serial) || is_place_of(name, disk)
}

/// The disk's record in an inspection.
#[must_use]
pub fn record_of<'a>(disk: &DiskIdentity, disks: &'a [DiskRecord]) -> Option<&'a DiskRecord> {
    disks.iter().find(|record| fits(disk, record))
}

/// What names this disk of an inspection by itself; nothing where only its path does.
#[must_use]
pub fn identity_of(disk: &DiskRecord, disks: &[DiskRecord]) -> Option<DiskIdentity> {
    identity(&OwnerNamedPlaces::default(), disk, disks).ok()
}

/// Whether the disk's table has one of these GUIDs, as an installation gives it.
#[must_use]
pub fn is_mark_of(disk: &DiskRecord, names: &[String]) -> bool {
    let strict = match &disk.table {
        Some(TableRecord::Gpt { guid }) => guid.as_str(),
        Some(TableRecord::None | TableRecord::Unreadable { .. }) | None => "",
    };
    let lenient = disk.contents.as_ref().map_or("", |contents| contents.guid.as_str());
    let is_named = |guid: &str| !guid.is_empty() && names.iter().any(|name| name.eq_ignore_ascii_case(guid));
    is_named(strict) || is_named(lenient)
}

/// The disks that an owner of the host may leave data on: all that are erased after it. One without an identity
/// cannot be looked for, and stops the erasure by itself.
#[must_use]
pub fn holders(disks: &[DiskRecord]) -> Vec<DiskIdentity> {
    let fixed = disks.iter().filter(|disk| disk.size_bytes > 0 && !disk.removable);
    fixed.filter_map(|disk| identity_of(disk, disks)).collect()
}

/// Those of the disks that the last owner had which are not among these.
///
/// # Errors
/// They are named; where all disks are to be erased, that cannot be done then.
pub fn all_there(had: &[DiskIdentity], disks: &[DiskRecord]) -> Result<(), NoDisk> {
    let absent: Vec<String> =
        had.iter().filter(|disk| record_of(disk, disks).is_none()).map(ToString::to_string).collect();
    if absent.is_empty() {
        return Ok(());
    }
    let reason = format!("the last owner had disks that are not seen any more: {}", absent.join("; "));
    Err(NoDisk { reason, disks: disks.iter().map(|disk| explain(disk, "is there")).collect() })
}

/// Whether a name is that of this disk, and of no other one of its host.
#[must_use]
pub fn is_named_by(name: &str, disk: &DiskIdentity, disks: &[DiskRecord]) -> bool {
    let mut named = disks.iter().filter(|record| is_named(name, record));
    matches!((named.next(), named.next()), (Some(record), None) if fits(disk, record))
}

/// A name, or the target, that fits no disk or several.
fn missing(scope: &CleaningScope, targets: &[DiskIdentity], judged: &[DiskDecision<'_>]) -> Option<String> {
    let count = |fits: &dyn Fn(&DiskRecord) -> bool| judged.iter().filter(|judged| fits(judged.disk)).count();
    let why = |count: usize, what: String| match count {
        1 => None,
        0 => Some(format!("{what} is not among the disks")),
        count => Some(format!("{what} fits {count} disks")),
    };
    match scope {
        // Also among all: the disk with the last owner's system was pulled, or is dead.
        CleaningScope::All | CleaningScope::Target => targets.iter().find_map(|target| {
            let found = why(count(&|disk| fits(target, disk)), format!("the disk of the installation ({target})"));
            let help = "; only its path named it, and `firesteel retry` binds the path to the disk that is there now";
            found.map(|found| format!("{found}{}", if target.is_by_path() { help } else { "" }))
        }),
        CleaningScope::Named(names) => {
            names.iter().find_map(|name| why(count(&|disk| is_named(name, disk)), format!("the disk named {name:?}")))
        }
    }
}

/// A host that had an owner had a disk.
fn nothing(next: NextOwner, scope: &CleaningScope, judged: &[DiskDecision<'_>]) -> Option<String> {
    let is_none = !judged.iter().any(|judged| matches!(judged.fate, CleaningFate::Clean(_)));
    let is_due = next == NextOwner::Another && *scope == CleaningScope::All;
    (is_none && is_due).then(|| "no disk was found that the last owner could have written".to_owned())
}

fn barred_reason(judged: &[DiskDecision<'_>]) -> Option<String> {
    let barred = judged.iter().filter(|judged| matches!(judged.fate, CleaningFate::Bar(_))).count();
    (barred > 0).then(|| format!("{barred} of the disks to clean cannot be cleaned"))
}

fn relaxed(method: CleaningMethod, scope: &CleaningScope) -> Option<String> {
    let less = match (method, scope) {
        (CleaningMethod::Metadata, _) => "metadata alone is cleared: data of the last owner stays readable",
        (CleaningMethod::Quick | CleaningMethod::Full, CleaningScope::Target) => {
            "only the disk of the operating system is erased"
        }
        (CleaningMethod::Quick | CleaningMethod::Full, CleaningScope::Named(_)) => "only the named disks are erased",
        (CleaningMethod::Quick, CleaningScope::All) => "disks are erased by their quickest method, whatever its grade",
        (CleaningMethod::Full, CleaningScope::All) => return None,
    };
    Some(format!("the host's owner asks for less between two owners: {less}"))
}

fn verdict(judged: &DiskDecision<'_>) -> DiskVerdict {
    let words = match &judged.fate {
        CleaningFate::Clean(_) => "is to be cleaned",
        CleaningFate::Keep(why) | CleaningFate::Bar(why) => why,
    };
    explain(judged.disk, words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use proptest::prelude::*;

    use super::*;

    fn disk(device: &str, serial: &str) -> DiskRecord {
        DiskRecord {
            device: device.into(),
            by_path: format!("/dev/disk/by-path/{device}"),
            serial: serial.into(),
            size_bytes: 8 << 30,
            ..DiskRecord::default()
        }
    }

    fn identity_of(serial: &str) -> DiskIdentity {
        DiskIdentity { serial: serial.into(), size_bytes: 8 << 30, ..DiskIdentity::default() }
    }

    fn serials(cleaning: &Cleaning) -> Vec<&str> {
        cleaning.disks.iter().map(|disk| disk.serial.as_str()).collect()
    }

    fn plan(
        next: NextOwner,
        policy: &CleaningPolicy,
        target: Option<&DiskIdentity>,
        disks: &[DiskRecord],
    ) -> Result<Cleaning, NoDisk> {
        let targets: Vec<DiskIdentity> = target.into_iter().cloned().collect();
        plan_cleaning(next, policy, &RootDeviceHints::default(), &targets, disks)
    }

    const NOTHING_ASKED: CleaningPolicy = CleaningPolicy { method: None, scope: None };

    #[test]
    fn the_same_owner_keeps_data_and_another_finds_none() {
        let disks = [disk("sda", "A"), disk("sdb", "B")];
        let target = identity_of("B");
        let same = plan(NextOwner::Same, &NOTHING_ASKED, Some(&target), &disks).unwrap();
        assert_eq!((same.method, serials(&same)), (CleaningMethod::Metadata, vec!["B"]));
        assert_eq!((same.kept[0].device.as_str(), same.relaxed), ("sda", None));
        let other = plan(NextOwner::Another, &NOTHING_ASKED, Some(&target), &disks).unwrap();
        assert_eq!((other.method, serials(&other)), (CleaningMethod::Full, vec!["A", "B"]));
        assert!(other.kept.is_empty() && other.relaxed.is_none());
        let never = plan(NextOwner::Same, &NOTHING_ASKED, None, &disks).unwrap();
        assert!(never.disks.is_empty(), "nothing was installed");
    }

    #[test]
    fn less_for_another_owner_is_said() {
        let disks = [disk("sda", "A"), disk("sdb", "B")];
        let ask = |method, scope| CleaningPolicy { method, scope };
        for (policy, word) in [
            (ask(Some(CleaningMethod::Metadata), None), "stays readable"),
            (ask(Some(CleaningMethod::Quick), None), "quickest"),
            (ask(None, Some(CleaningScope::Target)), "only the disk of the operating system"),
            (ask(None, Some(CleaningScope::Named(vec!["A".into()]))), "only the named disks"),
        ] {
            let cleaning = plan(NextOwner::Another, &policy, Some(&identity_of("A")), &disks).unwrap();
            assert!(cleaning.relaxed.unwrap().contains(word), "{policy:?}");
            let same = plan(NextOwner::Same, &policy, Some(&identity_of("A")), &disks).unwrap();
            assert_eq!(same.relaxed, None, "an owner's own data is the owner's affair");
        }
    }

    #[test]
    fn a_disk_that_must_be_cleaned_and_cannot_be_stops_all() {
        let twins = [disk("sda", "A"), disk("sdb", "A"), disk("sdc", "C")];
        let error = plan(NextOwner::Another, &NOTHING_ASKED, None, &twins).unwrap_err();
        assert_eq!((error.reason.as_str(), error.disks.len()), ("2 of the disks to clean cannot be cleaned", 3));
        let paths = ["/dev/disk/by-path/sda", "/dev/disk/by-path/sdb", "C"].map(str::to_owned).to_vec();
        let policy = CleaningPolicy { scope: Some(CleaningScope::Named(paths)), ..CleaningPolicy::default() };
        let named = plan(NextOwner::Another, &policy, None, &twins).unwrap();
        assert_eq!(named.disks[1].by_path, "/dev/disk/by-path/sdb");
        let mut read_only = [disk("sda", "A")];
        read_only[0].read_only = true;
        assert!(plan(NextOwner::Another, &NOTHING_ASKED, None, &read_only).is_err());
    }

    #[test]
    fn for_another_owner_a_missing_disk_is_not_a_clean_one() {
        let error = plan(NextOwner::Another, &NOTHING_ASKED, None, &[]).unwrap_err();
        assert!(error.reason.contains("no disk was found"), "{error}");
        let disks = [disk("sda", "A")];
        let pulled = identity_of("pulled");
        assert!(plan(NextOwner::Another, &NOTHING_ASKED, Some(&pulled), &disks).is_err());
        assert!(is_named_by("a", &identity_of("A"), &disks) && !is_named_by("B", &identity_of("A"), &disks));
        let twins = [disk("sda", "A"), disk("sdb", "A")];
        assert!(!is_named_by("A", &identity_of("A"), &twins), "a name of two is the name of none");
    }

    #[test]
    fn names_that_fit_none_or_several_stop_all() {
        let twins = [disk("sda", "A"), disk("sdb", "A")];
        for (name, why) in [("gone", "is not among the disks"), ("A", "fits 2 disks")] {
            let policy =
                CleaningPolicy { scope: Some(CleaningScope::Named(vec![name.into()])), ..CleaningPolicy::default() };
            let error = plan(NextOwner::Same, &policy, None, &twins).unwrap_err();
            assert!(error.reason.contains(why), "{error}");
        }
        let target = identity_of("pulled");
        let error = plan(NextOwner::Same, &NOTHING_ASKED, Some(&target), &twins).unwrap_err();
        assert!(error.reason.contains("pulled") && error.disks.len() == 2, "{error}");
    }

    #[test]
    fn a_disk_that_the_last_owner_had_is_missed_by_its_name() {
        let mut stick = disk("sdc", "STICK");
        stick.removable = true;
        let had = holders(&[disk("sda", "A"), disk("sdb", "B"), stick]);
        assert_eq!(had, [identity_of("A"), identity_of("B")], "virtual media comes and goes");
        assert!(all_there(&had, &[disk("sdx", "B"), disk("sda", "A")]).is_ok());
        let error = all_there(&had, &[disk("sda", "A")]).unwrap_err();
        assert!(error.reason.contains("serial B") && !error.reason.contains("serial A"), "{error}");
    }

    #[test]
    fn virtual_media_is_kept_unless_it_is_named() {
        let mut stick = disk("sdb", "STICK");
        stick.removable = true;
        let disks = [disk("sda", "A"), stick];
        let cleaning = plan(NextOwner::Another, &NOTHING_ASKED, None, &disks).unwrap();
        assert_eq!(serials(&cleaning), ["A"]);
        assert!(cleaning.kept[0].verdict.contains("removable"));
    }

    proptest! {
        /// Every disk is cleaned or kept with a reason, and each identity fits exactly one disk.
        #[test]
        fn no_disk_is_forgotten(
            rows in prop::collection::vec((0_u8..4, any::<bool>(), any::<bool>()), 0..6),
            another: bool,
            scope in prop::option::of(prop_oneof![Just(CleaningScope::Target), Just(CleaningScope::All)]),
        ) {
            let disks: Vec<DiskRecord> = rows.iter().enumerate().map(|(index, (serial, removable, read_only))| {
                let serial = if *serial == 0 { String::new() } else { format!("S{serial}") };
                DiskRecord { removable: *removable, read_only: *read_only, ..disk(&format!("sd{index}"), &serial) }
            }).collect();
            let next = if another { NextOwner::Another } else { NextOwner::Same };
            let policy = CleaningPolicy { method: None, scope };
            if let Ok(cleaning) = plan(next, &policy, Some(&identity_of("S1")), &disks) {
                prop_assert_eq!(cleaning.disks.len() + cleaning.kept.len(), disks.len());
                for identity in &cleaning.disks {
                    prop_assert_eq!(disks.iter().filter(|disk| fits(&identity, disk)).count(), 1);
                }
            }
        }
    }
}
