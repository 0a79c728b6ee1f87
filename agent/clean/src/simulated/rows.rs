//! A row for each method with each fault, and for each point at which the power or the agent can go.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "the table is what these tests show")]

use firesteel_wire::erasure::Grade;

use super::{
    tests::{boot, faults},
    *,
};
use crate::ladder::Policy;

const FAULTS: [Option<Fault>; 6] =
    [None, Some(Fault::Refuses), Some(Fault::Lies), Some(Fault::LiesInPart), Some(Fault::Fails), Some(Fault::Stalls)];

/// The drive's own methods, each with what it needs beside it.
fn methods(kind: Kind) -> Vec<(Method, Vec<Method>)> {
    let sanitize = [Method::SanitizeCrypto, Method::SanitizeBlock, Method::SanitizeOverwrite];
    let more: &[Method] = match kind {
        Kind::Nvme => &[Method::FormatCrypto, Method::FormatUserData],
        Kind::Ata => &[Method::SecureEraseEnhanced, Method::SecureErase],
        Kind::Scsi => &[],
    };
    let beside = |method: Method| match method {
        Method::SecureEraseEnhanced => vec![method, Method::SecureErase],
        Method::SanitizeCrypto
        | Method::SanitizeBlock
        | Method::SanitizeOverwrite
        | Method::FormatCrypto
        | Method::FormatUserData
        | Method::SecureErase
        | Method::WriteZeroes
        | Method::Overwrite
        | Method::Metadata => vec![method],
    };
    sanitize.into_iter().chain(more.iter().copied()).map(|method| (method, beside(method))).collect()
}

/// What is wanted of a method with a fault: by whom it ends as done, if at all.
fn check_row(kind: Kind, method: Method, known: &[Method], fault: Option<Fault>) -> String {
    let mut given = faults(known);
    given.methods.extend(fault.map(|fault| (method, fault)));
    let (ended, left) = boot(&Simulated::new(kind, given), Policy::Full, 1, u32::MAX);
    let row = format!("{kind:?} {method} {fault:?}");
    if fault == Some(Fault::Stalls) && method.is_sanitize() {
        let why = ended.unwrap_err().why;
        assert!(why.contains("no progress"), "{row}: {why}");
        return format!("{row}: stopped, {why}");
    }
    let cleaned = ended.unwrap();
    assert_eq!(left, 0, "{row}: ended as done with data left");
    let first = &cleaned.tried[0];
    assert_eq!(first.method, method.name(), "{row}");
    let lies = matches!(fault, Some(Fault::Lies | Fault::LiesInPart));
    assert_eq!(first.lied, lies, "{row}: {first:?}");
    assert_eq!(cleaned.method == method.name(), fault.is_none(), "{row}: {}", cleaned.method);
    assert!(!lies || cleaned.grade == Grade::Clear, "{row}: a liar's word is not good for a purge");
    format!("{row}: done by {} as {:?}", cleaned.method, cleaned.grade)
}

#[test]
fn every_method_with_every_fault() {
    for kind in [Kind::Nvme, Kind::Ata, Kind::Scsi] {
        for (method, known) in methods(kind) {
            for fault in FAULTS {
                println!("{}", check_row(kind, method, &known, fault));
            }
        }
        for (drops_zeroing, drops_writes) in [(true, false), (false, true), (true, true)] {
            let mut given = faults(&[Method::WriteZeroes]);
            (given.drops_zeroing, given.drops_writes) = (drops_zeroing, drops_writes);
            let (ended, left) = boot(&Simulated::new(kind, given), Policy::Full, 1, u32::MAX);
            let row = format!("{kind:?} drops zeroing {drops_zeroing}, drops writes {drops_writes}");
            match ended {
                Ok(cleaned) => {
                    assert!(!drops_writes && left == 0 && cleaned.method == "overwrite", "{row}: {cleaned:?}");
                    assert!(cleaned.tried[0].lied, "{row}");
                    println!("{row}: done by {}", cleaned.method);
                }
                Err(not) => {
                    assert!(drops_writes && !not.disk_changed || not.why.contains("canary"), "{row}: {not}");
                    println!("{row}: stopped, {}", not.why);
                }
            }
        }
    }
}

/// All rungs lie and the medium takes no writes any more: no order of lies ends as done.
#[test]
fn a_drive_that_lies_about_everything_never_ends_as_done() {
    for kind in [Kind::Nvme, Kind::Ata, Kind::Scsi] {
        for fault in [Fault::Lies, Fault::LiesInPart] {
            let all: Vec<Method> = methods(kind).into_iter().map(|(method, _)| method).collect();
            let mut given = faults(&all);
            given.methods.extend(all.iter().map(|method| (*method, fault)));
            given.drops_zeroing = true;
            let (ended, left) = boot(&Simulated::new(kind, given.clone()), Policy::Full, 1, u32::MAX);
            assert_eq!((ended.unwrap().method, left), ("overwrite", 0), "{kind:?}: the overwrite is no command");
            given.drops_writes = true;
            let (ended, _) = boot(&Simulated::new(kind, given), Policy::Full, 1, u32::MAX);
            assert!(ended.is_err(), "{kind:?} {fault:?}");
        }
    }
}

/// The power goes, or the agent is killed, at every single request; the next boot goes on to the right end.
#[test]
fn every_point_of_a_power_cut_or_a_killed_agent() {
    let rows = [
        (Kind::Nvme, vec![Method::SanitizeBlock]),
        (Kind::Nvme, vec![Method::SanitizeOverwrite]),
        (Kind::Nvme, vec![Method::FormatCrypto]),
        (Kind::Ata, vec![Method::SanitizeBlock]),
        (Kind::Ata, vec![Method::SecureErase]),
        (Kind::Scsi, vec![Method::SanitizeCrypto]),
        (Kind::Scsi, vec![Method::WriteZeroes]),
        (Kind::Scsi, vec![]),
    ];
    for (kind, known) in rows {
        for loses_power in [true, false] {
            let points = (1..).take_while(|cut| goes_on_after(kind, &known, *cut, loses_power)).count();
            println!("{kind:?} {known:?}, loses power {loses_power}: {points} points");
            assert!(points > 12, "{kind:?} {known:?}: the cuts hit something");
        }
    }
}

/// Whether the work was interrupted at all, so late.
fn goes_on_after(kind: Kind, known: &[Method], cut: u32, loses_power: bool) -> bool {
    let mut given = faults(known);
    given.cuts = vec![cut];
    let drive = Simulated::new(kind, given);
    let row = format!("{kind:?} {known:?}, cut at request {cut}, loses power {loses_power}");
    let (ended, left) = boot(&drive, Policy::Full, 1, u32::MAX);
    let was_cut = drive.state().dead;
    if !was_cut {
        assert!(ended.is_ok() && left == 0, "{row}: {ended:?}");
        return false;
    }
    assert!(ended.is_err(), "{row}: {ended:?}");
    if loses_power {
        drive.power_on()
    } else {
        drive.reconnect()
    }
    let (ended, left) = boot(&drive, Policy::Full, 2, u32::MAX);
    let cleaned = ended.unwrap_or_else(|not| panic!("{row}: {not}"));
    assert_eq!(left, 0, "{row}: {cleaned:?}");
    assert!(cleaned.grade >= Grade::Clear, "{row}: {cleaned:?}");
    let state = drive.state();
    assert!(!state.enabled && !state.locked, "{row}: the drive keeps a password of ours");
    true
}
