//! The rules about disks at their edges: each limit and the value beside it, each word of an answer.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use firesteel_contents::DiskContents;
use firesteel_resources::RootDeviceHints;
use firesteel_resources::hardware::{DiskRecord, TableRecord};

use super::{
    CleaningPolicy, CleaningScope, DiskIdentity, DiskVerdict, InstallationMark, NextOwner, NoDisk, NoIdentity,
    OwnerNamedPlaces, SIZE_BYTES_MIN, fits, holders, identity, is_mark_of, plan_cleaning, select_disk, unite,
};

fn disk(device: &str, wwn: &str, serial: &str) -> DiskRecord {
    DiskRecord {
        device: device.into(),
        by_path: format!("/dev/disk/by-path/{device}"),
        wwn: wwn.into(),
        serial: serial.into(),
        size_bytes: 8 << 30,
        ..DiskRecord::default()
    }
}

fn known(serial: &str) -> DiskIdentity {
    DiskIdentity { serial: serial.into(), size_bytes: 8 << 30, ..DiskIdentity::default() }
}

/// What is cleaned under this scope, as serial numbers and whether that is all; or why nothing is.
fn cleaned(next: NextOwner, scope: Option<CleaningScope>, disks: &[DiskRecord]) -> Result<(Vec<String>, bool), String> {
    let policy = CleaningPolicy { method: None, scope };
    let cleaning = plan_cleaning(next, &policy, &RootDeviceHints::default(), &[], disks);
    let serials = |disks: Vec<DiskIdentity>| disks.into_iter().map(|disk| disk.serial).collect();
    cleaning.map(|cleaning| (serials(cleaning.disks), cleaning.is_all)).map_err(|error| error.reason)
}

#[test]
fn without_hints_a_disk_of_4_gib_is_large_enough() {
    for (size_bytes, is_chosen) in [(SIZE_BYTES_MIN - 1, false), (SIZE_BYTES_MIN, true), (SIZE_BYTES_MIN + 1, true)] {
        let disks = [DiskRecord { size_bytes, ..disk("sda", "", "A") }];
        assert_eq!(select_disk(&RootDeviceHints::default(), &disks).is_ok(), is_chosen, "{size_bytes}");
    }
}

#[test]
fn a_choice_says_why_and_so_does_its_absence() {
    let hinted = |serial: &str| RootDeviceHints { serial_number: serial.into(), ..RootDeviceHints::default() };
    let (a, b) = (disk("sda", "", "A"), disk("sdb", "", "B"));
    let read_only = DiskRecord { read_only: true, ..a.clone() };
    let two = [a, b];
    for (hints, disks, said) in [
        (RootDeviceHints::default(), &two[..], Ok("the smallest of the 2 disks that can be written")),
        (hinted("B"), &two[..], Ok("the only disk that matches spec.rootDeviceHints")),
        (
            RootDeviceHints::default(),
            &[read_only][..],
            Err("none of the disks is one to install on unless it is named"),
        ),
        (hinted("C"), &two[..], Err("no disk matches spec.rootDeviceHints")),
        (hinted("C"), &[][..], Err("the inspection found no disk")),
    ] {
        let found = select_disk(&hints, disks).map(|choice| choice.why).map_err(|error| error.reason);
        assert_eq!(found.as_deref().map_err(String::as_str), said);
    }
    let verdict = |device: &str, verdict: &str| DiskVerdict {
        device: device.into(),
        looks: "A 1.0 GB".into(),
        verdict: verdict.into(),
    };
    let none =
        NoDisk { reason: "none".into(), disks: vec![verdict("sda", "is read-only"), verdict("sdb", "is small")] };
    assert_eq!(none.to_string(), "none: sda (A 1.0 GB) is read-only; sdb (A 1.0 GB) is small");
}

#[test]
fn a_policy_names_a_disk_by_either_wwn_its_serial_number_or_its_place() {
    let disks =
        [DiskRecord { wwn_with_extension: "0x50001".into(), ..disk("sda", "0x5", "A") }, disk("sdb", "0x6", "B")];
    for (name, serial) in [
        ("0x5", Some("A")),
        ("0X50001", Some("A")),
        ("a", Some("A")),
        ("/dev/disk/by-path/sda", Some("A")),
        ("0x6", Some("B")),
        ("0x50002", None),
        ("/dev/sda", None),
        ("", None),
    ] {
        let found = cleaned(NextOwner::Another, Some(CleaningScope::Named(vec![name.into()])), &disks);
        assert_eq!(found.ok(), serial.map(|serial| (vec![serial.to_owned()], false)), "{name}");
    }
}

#[test]
fn nothing_to_clean_is_an_error_only_where_all_is_due_to_another_owner() {
    use NextOwner::{Another, Same};
    let stick = DiskRecord { removable: true, ..disk("sdb", "", "STICK") };
    let nothing = Err("no disk was found that the last owner could have written".to_owned());
    let none = |is_all| Ok((Vec::new(), is_all));
    let one = |is_all| Ok((vec!["A".to_owned()], is_all));
    let (fixed, sticks) = ([disk("sda", "", "A")], [stick]);
    for (next, scope, disks, expected) in [
        (Another, None, &[][..], nothing.clone()),
        (Another, None, &sticks[..], nothing),
        (Another, Some(CleaningScope::Target), &fixed[..], none(false)),
        (Same, Some(CleaningScope::All), &sticks[..], none(true)),
        (Same, None, &fixed[..], none(false)),
        (Same, Some(CleaningScope::All), &fixed[..], one(true)),
        (Another, None, &fixed[..], one(true)),
    ] {
        assert_eq!(cleaned(next, scope.clone(), disks), expected, "{next:?} {scope:?} {disks:?}");
    }
}

#[test]
fn a_disk_that_cannot_be_named_says_how_to_have_it_cleaned() {
    let nameless = disk("sda", "", "");
    let lost = DiskRecord { by_path: String::new(), ..nameless.clone() };
    for (disk, expected) in [
        (
            nameless,
            "has neither WWN nor serial number; to clean it, name /dev/disk/by-path/sda in the annotation \
             firesteel.dev/cleaning with all other disks to clean: {\"named\": [\"/dev/disk/by-path/sda\", …]} as the \
             scope, or set rootDeviceHints.deviceName to it where it is the root disk",
        ),
        (lost, "has neither WWN nor serial number and no by-path name, so it cannot be named"),
    ] {
        let hints = RootDeviceHints::default();
        let error = plan_cleaning(NextOwner::Another, &CleaningPolicy::default(), &hints, &[], &[disk]).unwrap_err();
        assert_eq!(error.disks[0].verdict, expected);
    }
}

#[test]
fn a_disk_without_a_medium_holds_nothing() {
    let empty = DiskRecord { size_bytes: 0, ..disk("sdb", "", "CARD") };
    let small = DiskRecord { size_bytes: 1, ..disk("sdc", "", "C") };
    let held = holders(&[disk("sda", "", "A"), empty, small]);
    assert_eq!(held, [known("A"), DiskIdentity { size_bytes: 1, ..known("C") }]);
}

#[test]
fn what_names_no_disk_says_why() {
    let any = DiskRecord { size_bytes: 9 << 30, ..disk("sdb", "0x9", "Z") };
    for (one, other, expected) in [
        (disk("sda", "", ""), any.clone(), Some(NoIdentity::Nameless)),
        (disk("sda", "", "S"), disk("sdb", "", "S"), Some(NoIdentity::SameSerial)),
        (disk("sda", "0x5", ""), disk("sdb", "0x5", ""), Some(NoIdentity::SameWwn("sdb".into()))),
        (disk("sda", "0x5", "S"), disk("sdb", "0X5", "S"), Some(NoIdentity::SameWwn("sdb".into()))),
        (disk("sda", "0x5", ""), any.clone(), None),
        (disk("sda", "", "S"), any, None),
    ] {
        let disks = [one, other];
        assert_eq!(identity(&OwnerNamedPlaces::default(), &disks[0], &disks).err(), expected, "{disks:?}");
    }
}

/// A journal may know a disk by less than the disk says today.
#[test]
fn a_disk_fits_what_is_known_of_it() {
    let shown = DiskRecord { model: "M".into(), ..disk("sda", "0x5", "S") };
    let with = |change: fn(&mut DiskIdentity)| {
        let mut wanted = known("S");
        change(&mut wanted);
        wanted
    };
    for (wanted, is_fit) in [
        (known("S"), true),
        (with(|wanted| wanted.wwn = "0x5".into()), true),
        (with(|wanted| wanted.model = "M".into()), true),
        (with(|wanted| wanted.wwn = "0x6".into()), false),
        (with(|wanted| wanted.model = "N".into()), false),
        (with(|wanted| wanted.by_path = "/dev/disk/by-path/sdb".into()), false),
        (with(|wanted| wanted.size_bytes += 1), false),
        (with(|wanted| wanted.serial.clear()), false),
        (known("T"), false),
    ] {
        assert_eq!(fits(&wanted, &shown), is_fit, "{wanted}");
    }
}

#[test]
fn the_oldest_disks_go_beyond_the_bound() {
    let mut disks = vec![known("0"), known("1")];
    unite(&mut disks, [known("1"), known("2")]);
    assert_eq!(disks, [known("0"), known("1"), known("2")]);
    let all: Vec<DiskIdentity> = (0..=256).map(|number| known(&number.to_string())).collect();
    unite(&mut disks, all.clone());
    assert_eq!(disks, all[1..]);
}

#[test]
fn a_mark_is_looked_for_where_either_reader_found_it() {
    let gpt = |guid: &str| Some(TableRecord::Gpt { guid: guid.into() });
    let torn = Some(TableRecord::Unreadable { why: "I/O error".into(), damaged: false });
    for (table, guid, is_mark) in [
        (gpt("AB"), "", true),
        (gpt("cd"), "ab", true),
        (None, "ab", true),
        (torn, "", false),
        (Some(TableRecord::None), "cd", false),
        (gpt("cd"), "cd", false),
        (gpt(""), "", false),
    ] {
        let contents = Some(Box::new(DiskContents { guid: guid.into(), ..DiskContents::default() }));
        let disk = DiskRecord { table, contents, ..disk("sda", "", "A") };
        assert_eq!(is_mark_of(&disk, &["ab".into(), String::new()]), is_mark, "{:?} {guid}", disk.table);
    }
}

#[test]
fn a_mark_says_which_store_wrote_it_and_when() {
    let mark = InstallationMark { store: 0xab_cdef, timeline: 0x12, revision: 7 };
    assert_eq!(mark.to_string(), "store abcdef, timeline 00000012, revision 7");
}
