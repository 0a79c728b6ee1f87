use firesteel_contents::DiskContents;
use firesteel_resources::RootDeviceHints;

use super::*;
use crate::host::sample::{now, with_bmc};
use crate::{disk::DiskChoice, host::model::DiskPlan};

fn kept(number: usize, reasons: usize) -> RefusedDisk {
    RefusedDisk {
        disk: DiskIdentity { serial: format!("S{number}"), size_bytes: 1 << 30, ..DiskIdentity::default() },
        device: format!("/dev/sd{number}"),
        reasons: (0..reasons).map(|index| format!("partition {index}: it holds VMFS \"datastore{index}\"")).collect(),
    }
}

#[test]
fn only_hints_name_a_disk_and_not_that_it_was_installed() {
    let disk = kept(1, 0).disk;
    let memory = |hints: RootDeviceHints| HostMemory {
        disk: Some(DiskPlan {
            choice: DiskChoice { disk: disk.clone(), ..DiskChoice::default() },
            inspected_in: 1,
            hints,
            chosen_at: jiff::Timestamp::UNIX_EPOCH,
        }),
        tenant_targets: vec![disk.clone()],
        ..HostMemory::default()
    };
    let serial = RootDeviceHints { serial_number: disk.serial.clone(), ..RootDeviceHints::default() };
    assert!(!is_named(&memory(RootDeviceHints::default()), &disk));
    assert!(is_named(&memory(serial.clone()), &disk) && !is_named(&memory(serial), &kept(2, 0).disk));
}

#[test]
fn a_refusal_names_each_disk_and_never_loses_the_way_out() {
    let text = refusal("could not clean", &[kept(1, 2), kept(2, 1)], "the way out");
    let expected = "could not clean: /dev/sd1 (serial S1, 1.1 GB) because of partition 0: it holds VMFS \
                    \"datastore0\", partition 1: it holds VMFS \"datastore1\"; /dev/sd2 (serial S2, 1.1 GB) because \
                    of partition 0: it holds VMFS \"datastore0\"; the way out";
    assert_eq!(text, expected);
    let disks: Vec<RefusedDisk> = (0..8).map(|number| kept(number, 32)).collect();
    let text = refusal("could not clean", &disks, "the way out");
    assert!(text.len() < 2048 && text.ends_with("; the way out"), "{text}");
    assert!(disks.iter().all(|one| text.contains(&one.device)) && text.contains("more"), "{text}");
    let disks: Vec<RefusedDisk> = (0..256).map(|number| kept(number, 32)).collect();
    let text = refusal("could not clean", &disks, "the way out");
    assert!(text.len() < 2048 && text.contains("more disks; the way out"), "{text}");
}

#[test]
fn what_is_let_go_goes_alone_while_another_is_kept() {
    let record = HardwareRecord {
        disks: (0..3)
            .map(|number| DiskRecord { serial: format!("S{number}"), size_bytes: 1 << 30, ..DiskRecord::default() })
            .collect(),
        ..HardwareRecord::default()
    };
    let disks: Vec<DiskIdentity> = (0..3).map(|number| kept(number, 0).disk).collect();
    let serials = |sorted: &SortedDisks| sorted.now.iter().map(|disk| disk.serial.clone()).collect::<Vec<_>>();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (overrides, now, refused) in [
        (names(&[]), names(&[]), 2),
        (names(&["S0"]), names(&[]), 2),
        (names(&["s2"]), names(&["S2"]), 1),
        (names(&["S2", "S1"]), names(&["S1", "S2", "S0"]), 0),
    ] {
        let sorted = sort(&disks, vec![kept(1, 1), kept(2, 1)], &overrides, Some(&record));
        assert_eq!((serials(&sorted), sorted.refused.len()), (now, refused), "{overrides:?}");
    }
    assert_eq!(sort(&disks, Vec::new(), &[], None).now, disks);
}

/// A disk that is on USB, which a hint that names it lets go.
fn on_usb(number: usize) -> DiskRecord {
    let attached = vec!["it is on USB".to_owned()];
    DiskRecord {
        device: format!("/dev/sd{number}"),
        serial: format!("S{number}"),
        size_bytes: 1 << 30,
        contents: Some(Box::new(DiskContents { attached, ..DiskContents::default() })),
        ..DiskRecord::default()
    }
}

/// A hint for the size fits many disks, and names none.
#[test]
fn what_speaks_against_a_disk_counts_unless_it_was_named() {
    let serial = |number| RootDeviceHints { serial_number: format!("S{number}"), ..RootDeviceHints::default() };
    let size = RootDeviceHints { min_size_gigabytes: 1, ..RootDeviceHints::default() };
    for (installed, next, expected) in [
        (None, None, 1),
        (Some(serial(1)), None, 0),
        (Some(RootDeviceHints::default()), None, 1),
        (None, Some(serial(1)), 0),
        (None, Some(serial(2)), 1),
        (None, Some(size), 1),
    ] {
        let mut seen = with_bmc(crate::host::model::HostState::Preparing);
        seen.host.spec.root_device_hints.clone_from(&next);
        let choice = DiskChoice { disk: kept(1, 0).disk, ..DiskChoice::default() };
        seen.memory.disk = installed.clone().map(|hints| DiskPlan { choice, inspected_in: 1, hints, chosen_at: now() });
        let record = HardwareRecord { disks: vec![on_usb(1)], ..HardwareRecord::default() };
        let reasons = objections(&seen.host, &seen.memory, &record, &record.disks[0]);
        assert_eq!(reasons.len(), expected, "{installed:?} {next:?}: {reasons:?}");
        assert!(reasons.iter().all(|reason| reason.contains("it is on USB")), "{reasons:?}");
        let found = guarded(&[kept(1, 0).disk], &seen.host, &seen.memory, &record);
        assert_eq!(found.len(), expected, "{installed:?} {next:?}: {found:?}");
    }
}

/// The words for one disk with reasons of so many bytes, in so much room.
fn words(reasons: &[usize], room: usize) -> String {
    let reasons = reasons.iter().map(|bytes| "r".repeat(*bytes)).collect();
    words_of(&RefusedDisk { reasons, ..kept(1, 0) }, room)
}

/// Room is kept for the words that say how many reasons more there are.
#[test]
fn the_reasons_of_a_disk_are_named_as_far_as_there_is_room() {
    let begin = "/dev/sd1 (serial S1, 1.1 GB) because of ";
    let (first, second) = ("r".repeat(30), "r".repeat(20));
    let both = format!("{begin}{first}, {second}");
    // The second one fits where it and the reserve do.
    let fits = begin.len() + first.len() + second.len() + 24;
    for (reasons, room, expected) in [
        (&[30, 20][..], fits, both.clone()),
        (&[30, 20], fits - 1, format!("{begin}{first}, and 1 more")),
        (&[30, 20, 20], fits - 1, format!("{begin}{first}, and 2 more")),
        // The first one is named as far as it goes.
        (&[30], begin.len() + 30, format!("{begin}{first}")),
        (&[30], begin.len() + 29, format!("{begin}{}…", "r".repeat(29))),
        (&[30, 20], begin.len() + 10, format!("{begin}{}…", "r".repeat(10))),
    ] {
        assert_eq!(words(reasons, room), expected, "{reasons:?} {room}");
    }
}

/// The words of a refusal of two disks, whose second one has a reason of so many bytes.
fn of_two(what: &str, exits: &str, bytes: usize) -> String {
    let one = |number, bytes: usize| RefusedDisk { reasons: vec!["r".repeat(bytes)], ..kept(number, 0) };
    refusal(what, &[one(1, 100), one(2, bytes)], exits)
}

#[test]
fn each_disk_of_a_refusal_gets_its_share_and_the_last_ones_are_counted() {
    let (what, exits) = ("w".repeat(200), "e".repeat(300));
    let begin = |number: usize| format!("/dev/sd{number} (serial S{number}, 1.1 GB) because of ");
    let share = (TEXT_BYTES_MAX - what.len() - exits.len()) / 2;
    let whole = share - begin(2).len();
    let first = format!("{}{}", begin(1), "r".repeat(100));
    for (bytes, second) in [
        (whole, format!("{}{}", begin(2), "r".repeat(whole))),
        (whole + 1, format!("{}{}…", begin(2), "r".repeat(whole))),
    ] {
        assert_eq!(of_two(&what, &exits, bytes), format!("{what}: {first}; {second}; {exits}"), "{bytes}");
    }
    // Each disk has some room, however long the rest is: what does not fit then is counted.
    let what = "w".repeat(TEXT_BYTES_MAX - 300);
    let room = TEXT_BYTES_MAX - what.len() - "exits".len();
    let used = ": ".len() + first.len() + "; ".len();
    let fits = room - used - begin(2).len();
    let second = format!("{}{}", begin(2), "r".repeat(fits));
    assert!(second.len() <= DISK_BYTES_MIN && first.len() <= DISK_BYTES_MIN, "{} {}", second.len(), first.len());
    assert_eq!(of_two(&what, "exits", fits), format!("{what}: {first}; {second}; exits"));
    assert_eq!(of_two(&what, "exits", fits + 1), format!("{what}: {first}; and 1 more disks; exits"));
    // The first one is named in any case.
    let what = "w".repeat(TEXT_BYTES_MAX - 100);
    assert_eq!(of_two(&what, "exits", 1), format!("{what}: {first}; and 1 more disks; exits"));
}
