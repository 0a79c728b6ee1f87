//! A row for each method with each fault, and for each point at which the power or the agent can go.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "the table is what these tests show")]

use firesteel_wire::erasure::{ErasurePolicy, Grade};

use super::tests::{boot, faults};
use super::*;

const FAULTS: [Option<MethodFault>; 6] = [
    None,
    Some(MethodFault::Refuses),
    Some(MethodFault::Lies),
    Some(MethodFault::LiesInPart),
    Some(MethodFault::Fails),
    Some(MethodFault::Stalls),
];

/// The drive's own methods, each with what it needs beside it.
fn methods(kind: SimulatedDriveKind) -> Vec<(ErasureMethod, Vec<ErasureMethod>)> {
    let sanitize = [ErasureMethod::SanitizeCrypto, ErasureMethod::SanitizeBlock, ErasureMethod::SanitizeOverwrite];
    let more: &[ErasureMethod] = match kind {
        SimulatedDriveKind::Nvme => &[ErasureMethod::FormatCrypto, ErasureMethod::FormatUserData],
        SimulatedDriveKind::Ata => &[ErasureMethod::SecureEraseEnhanced, ErasureMethod::SecureErase],
        SimulatedDriveKind::Scsi => &[],
    };
    let beside = |method: ErasureMethod| match method {
        ErasureMethod::SecureEraseEnhanced => vec![method, ErasureMethod::SecureErase],
        ErasureMethod::SanitizeCrypto
        | ErasureMethod::SanitizeBlock
        | ErasureMethod::SanitizeOverwrite
        | ErasureMethod::FormatCrypto
        | ErasureMethod::FormatUserData
        | ErasureMethod::SecureErase
        | ErasureMethod::WriteZeroes
        | ErasureMethod::Overwrite
        | ErasureMethod::Metadata => vec![method],
    };
    sanitize.into_iter().chain(more.iter().copied()).map(|method| (method, beside(method))).collect()
}

/// Checks by which method an erasure with a fault ends as done, if at all.
fn check_row(
    kind: SimulatedDriveKind,
    method: ErasureMethod,
    known: &[ErasureMethod],
    fault: Option<MethodFault>,
) -> String {
    let mut given = faults(known);
    given.methods.extend(fault.map(|fault| (method, fault)));
    let (ended, left) = boot(&SimulatedDrive::new(kind, given), ErasurePolicy::Full, 1, u32::MAX);
    let row = format!("{kind:?} {method} {fault:?}");
    if fault == Some(MethodFault::Stalls) && method.is_sanitize() {
        let why = ended.unwrap_err().why;
        assert!(why.contains("no progress"), "{row}: {why}");
        return format!("{row}: stopped, {why}");
    }
    let cleaned = ended.unwrap();
    assert_eq!(left, 0, "{row}: ended as done with data left");
    let first = &cleaned.tried[0];
    assert_eq!(first.method, method.name(), "{row}");
    let lies = matches!(fault, Some(MethodFault::Lies | MethodFault::LiesInPart));
    assert_eq!(first.lied, lies, "{row}: {first:?}");
    assert_eq!(cleaned.method == method.name(), fault.is_none(), "{row}: {}", cleaned.method);
    assert!(!lies || cleaned.grade == Grade::Clear, "{row}: a liar's word is not good for a purge");
    format!("{row}: done by {} as {:?}", cleaned.method, cleaned.grade)
}

#[test]
fn every_method_with_every_fault() {
    for kind in [SimulatedDriveKind::Nvme, SimulatedDriveKind::Ata, SimulatedDriveKind::Scsi] {
        for (method, known) in methods(kind) {
            for fault in FAULTS {
                println!("{}", check_row(kind, method, &known, fault));
            }
        }
        for (drops_zeroing, drops_writes) in [(true, false), (false, true), (true, true)] {
            let mut given = faults(&[ErasureMethod::WriteZeroes]);
            (given.drops_zeroing, given.drops_writes) = (drops_zeroing, drops_writes);
            let (ended, left) = boot(&SimulatedDrive::new(kind, given), ErasurePolicy::Full, 1, u32::MAX);
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
    for kind in [SimulatedDriveKind::Nvme, SimulatedDriveKind::Ata, SimulatedDriveKind::Scsi] {
        for fault in [MethodFault::Lies, MethodFault::LiesInPart] {
            let all: Vec<ErasureMethod> = methods(kind).into_iter().map(|(method, _)| method).collect();
            let mut given = faults(&all);
            given.methods.extend(all.iter().map(|method| (*method, fault)));
            given.drops_zeroing = true;
            let (ended, left) = boot(&SimulatedDrive::new(kind, given.clone()), ErasurePolicy::Full, 1, u32::MAX);
            assert_eq!((ended.unwrap().method, left), ("overwrite", 0), "{kind:?}: the overwrite is no command");
            given.drops_writes = true;
            let (ended, _) = boot(&SimulatedDrive::new(kind, given), ErasurePolicy::Full, 1, u32::MAX);
            assert!(ended.is_err(), "{kind:?} {fault:?}");
        }
    }
}

/// The power goes, or the agent is killed, at every single request; the next boot goes on to the right end.
#[test]
fn every_point_of_a_power_cut_or_a_killed_agent() {
    let rows = [
        (SimulatedDriveKind::Nvme, vec![ErasureMethod::SanitizeBlock]),
        (SimulatedDriveKind::Nvme, vec![ErasureMethod::SanitizeOverwrite]),
        (SimulatedDriveKind::Nvme, vec![ErasureMethod::FormatCrypto]),
        (SimulatedDriveKind::Ata, vec![ErasureMethod::SanitizeBlock]),
        (SimulatedDriveKind::Ata, vec![ErasureMethod::SecureErase]),
        (SimulatedDriveKind::Scsi, vec![ErasureMethod::SanitizeCrypto]),
        (SimulatedDriveKind::Scsi, vec![ErasureMethod::WriteZeroes]),
        (SimulatedDriveKind::Scsi, vec![]),
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
fn goes_on_after(kind: SimulatedDriveKind, known: &[ErasureMethod], cut: u32, loses_power: bool) -> bool {
    let mut given = faults(known);
    given.cuts = vec![cut];
    let drive = SimulatedDrive::new(kind, given);
    let row = format!("{kind:?} {known:?}, cut at request {cut}, loses power {loses_power}");
    let (ended, left) = boot(&drive, ErasurePolicy::Full, 1, u32::MAX);
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
    let (ended, left) = boot(&drive, ErasurePolicy::Full, 2, u32::MAX);
    let cleaned = ended.unwrap_or_else(|not| panic!("{row}: {not}"));
    assert_eq!(left, 0, "{row}: {cleaned:?}");
    assert!(cleaned.grade >= Grade::Clear, "{row}: {cleaned:?}");
    let state = drive.state();
    assert!(!state.enabled && !state.locked, "{row}: the drive keeps a password of ours");
    true
}
