#![allow(clippy::unwrap_used, reason = "tests")]
use std::{cell::Cell, collections::BTreeSet, time::Duration};

use firesteel_images::write::Aborted;
use firesteel_sysfs::attach::BlockQueueLimits;
use firesteel_wire::erasure::{ErasurePolicy, Grade};
use proptest::prelude::*;

use super::*;
use crate::ata::AtaDrive;
use crate::cleaned::{CleanedDrive, NotCleaned};
use crate::drive::Drive;
use crate::nvme::NvmeDrive;
use crate::perform::{CleaningJob, clean};
use crate::scsi::ScsiDrive;
use crate::watch::CleaningMonitor;

const CRYPTO: ErasureMethod = ErasureMethod::SanitizeCrypto;
const BLOCK: ErasureMethod = ErasureMethod::SanitizeBlock;

/// Notes what is left of the data at the moment when only the tables remain to be cleared.
struct Witness<'a> {
    drive: &'a SimulatedDrive,
    left: Cell<Option<usize>>,
    stops_after: Cell<u32>,
}

impl CleaningMonitor for Witness<'_> {
    fn checkpoint(&self, activity: &str, _done: u64, _total: u64) -> Result<(), Aborted> {
        if activity == "clearing old signatures" && self.left.get().is_none() {
            self.left.set(Some(self.drive.state().left()));
        }
        let left = self.stops_after.get();
        self.stops_after.set(left.saturating_sub(1));
        if left == 0 { Err(Aborted { reason: "as the test asks".to_owned() }) } else { Ok(()) }
    }

    fn pause(&self, _time: Duration) {}

    fn report_progress(&self, _activity: &str, _done: u64, _total: u64) -> Option<String> {
        None
    }
}

pub(super) fn faults(known: &[ErasureMethod]) -> SimulatedFaults {
    SimulatedFaults {
        methods: BTreeMap::new(),
        known: known.to_vec(),
        frozen: false,
        drops_writes: false,
        drops_zeroing: false,
        polls: 3,
        cuts: Vec::new(),
    }
}

/// One boot of the host; how it ended, and how much was left when it was said to be erased.
pub(super) fn boot(
    drive: &SimulatedDrive,
    policy: ErasurePolicy,
    seed: u8,
    stops_after: u32,
) -> (Result<CleanedDrive, NotCleaned>, usize) {
    let knows = |method: ErasureMethod| drive.state().faults.known.contains(&method);
    let queue = BlockQueueLimits { rotational: false, writes_zeroes: knows(ErasureMethod::WriteZeroes) };
    let planned = BTreeSet::from([1]);
    let kind = drive.state().kind;
    let commands: Box<dyn Drive> = match kind {
        SimulatedDriveKind::Nvme => Box::new(NvmeDrive { port: drive, planned: &planned, queue }),
        SimulatedDriveKind::Ata => Box::new(AtaDrive::new(drive, queue)),
        SimulatedDriveKind::Scsi => Box::new(ScsiDrive { port: drive, queue, block_bytes: 512 }),
    };
    let witness = Witness { drive, left: Cell::new(None), stops_after: Cell::new(stops_after) };
    let job = CleaningJob { drive: &*commands, disks: &[drive], namespaces: &planned, policy, seed: [seed; 32] };
    let ended = clean(&job, &witness);
    (ended, witness.left.get().unwrap_or(usize::MAX))
}

fn ends(kind: SimulatedDriveKind, faults: SimulatedFaults) -> CleanedDrive {
    let (ended, left) = boot(&SimulatedDrive::new(kind, faults), ErasurePolicy::Full, 1, u32::MAX);
    assert_eq!(left, 0);
    ended.unwrap()
}

#[test]
fn each_kind_is_erased_by_its_best_method() {
    for kind in [SimulatedDriveKind::Nvme, SimulatedDriveKind::Ata, SimulatedDriveKind::Scsi] {
        for method in [CRYPTO, BLOCK, ErasureMethod::SanitizeOverwrite] {
            let cleaned = ends(kind, faults(&[method, ErasureMethod::WriteZeroes]));
            assert_eq!((cleaned.method, cleaned.grade), (method.name(), Grade::Purge), "{kind:?}");
            assert!(!cleaned.drive_log.is_empty() && cleaned.tried.len() == 1);
            let samples = cleaned.samples;
            assert_eq!(samples.read_back, 512, "all of this small disk");
            assert!(samples.canaries >= 64 && samples.told_before > 300 && samples.blank_before > 80, "{samples:?}");
        }
        let cleaned = ends(kind, faults(&[]));
        assert_eq!((cleaned.method, cleaned.grade), ("overwrite", Grade::Clear));
    }
    for method in [ErasureMethod::FormatCrypto, ErasureMethod::FormatUserData] {
        let known = [ErasureMethod::FormatUserData, method];
        assert_eq!(ends(SimulatedDriveKind::Nvme, faults(&known)).method, method.name());
    }
    for method in [ErasureMethod::SecureEraseEnhanced, ErasureMethod::SecureErase] {
        let known = [ErasureMethod::SecureErase, method];
        assert_eq!(ends(SimulatedDriveKind::Ata, faults(&known)).method, method.name());
    }
}

#[test]
fn each_fault_of_each_method_falls_to_the_next_rung() {
    for kind in [SimulatedDriveKind::Nvme, SimulatedDriveKind::Ata, SimulatedDriveKind::Scsi] {
        for fault in [MethodFault::Refuses, MethodFault::Lies, MethodFault::LiesInPart, MethodFault::Fails] {
            let mut faults = faults(&[CRYPTO, BLOCK]);
            faults.methods.insert(CRYPTO, fault);
            let cleaned = ends(kind, faults);
            assert_eq!(cleaned.method, "sanitize-block", "{kind:?} {fault:?}");
            let lied = matches!(fault, MethodFault::Lies | MethodFault::LiesInPart);
            assert_eq!(cleaned.tried[0].lied, lied, "{:?}", cleaned.tried);
            assert_eq!(cleaned.grade, if lied { Grade::Clear } else { Grade::Purge });
        }
        let mut faults = faults(&[CRYPTO, BLOCK]);
        faults.methods.insert(CRYPTO, MethodFault::Stalls);
        let (ended, _) = boot(&SimulatedDrive::new(kind, faults), ErasurePolicy::Full, 1, u32::MAX);
        assert!(ended.unwrap_err().why.contains("no progress for 120 minutes"), "nothing else is begun meanwhile");
    }
}

#[test]
fn a_drive_is_opened_again_after_every_end_of_a_secure_erase() {
    for fault in [None, Some(MethodFault::Refuses), Some(MethodFault::Fails), Some(MethodFault::Lies)] {
        let mut faults = faults(&[ErasureMethod::SecureErase]);
        faults.methods.extend(fault.map(|fault| (ErasureMethod::SecureErase, fault)));
        let drive = SimulatedDrive::new(SimulatedDriveKind::Ata, faults);
        let (ended, left) = boot(&drive, ErasurePolicy::Full, 1, u32::MAX);
        assert_eq!(ended.unwrap().method, if fault.is_some() { "overwrite" } else { "secure-erase" });
        let state = drive.state();
        assert!(left == 0 && !state.enabled && !state.locked, "{fault:?}");
    }
    let mut frozen = faults(&[ErasureMethod::SecureErase]);
    frozen.frozen = true;
    let cleaned = ends(SimulatedDriveKind::Ata, frozen);
    let why = cleaned.left_out.iter().find(|left| left.method == "secure-erase").unwrap();
    assert!(cleaned.method == "overwrite" && why.why.contains("froze"), "{why:?}");
}

#[test]
fn a_foreign_password_closes_the_drive_and_is_not_guessed_twice() {
    let drive = SimulatedDrive::new(SimulatedDriveKind::Ata, faults(&[ErasureMethod::SecureErase]));
    {
        let mut state = drive.state();
        (state.enabled, state.locked, state.password) = (true, true, vec![9; 32]);
    }
    let (ended, _) = boot(&drive, ErasurePolicy::Full, 1, u32::MAX);
    let error = ended.unwrap_err();
    assert!(error.why.contains("the drive is locked with a foreign password") && !error.disk_changed, "{error}");
    assert!(drive.state().locked);
}

/// The power went between our password and the erase; the drive knows sanitizes too, and aborts what it is asked of
/// them while it is locked.
#[test]
fn a_drive_that_our_password_locked_is_opened_also_where_it_can_sanitize() {
    let drive = SimulatedDrive::new(SimulatedDriveKind::Ata, faults(&[BLOCK, ErasureMethod::SecureErase]));
    {
        let mut state = drive.state();
        (state.enabled, state.locked, state.password) = (true, true, vec![0; 32]);
        state.password[..9].copy_from_slice(firesteel_drives::ata::PASSWORD);
    }
    let (ended, left) = boot(&drive, ErasurePolicy::Full, 1, u32::MAX);
    assert_eq!((ended.unwrap().method, left), ("sanitize-block", 0));
    assert!(!drive.state().enabled && !drive.state().locked);
}

#[test]
fn an_interrupted_sanitize_is_awaited_and_then_done_again_or_found_blank() {
    for kind in [SimulatedDriveKind::Nvme, SimulatedDriveKind::Ata, SimulatedDriveKind::Scsi] {
        for (method, ends_as) in [(BLOCK, "sanitize-block"), (ErasureMethod::SanitizeOverwrite, "sanitize")] {
            // The agent is killed while the drive is at it; then another boot.
            let killed_at = |cut: u32| {
                let faults = SimulatedFaults { polls: 10, cuts: vec![cut], ..faults(&[method]) };
                let drive = SimulatedDrive::new(kind, faults);
                let (ended, _) = boot(&drive, ErasurePolicy::Full, 1, u32::MAX);
                assert!(ended.is_err(), "{kind:?} {method}: cut at request {cut}");
                drive
            };
            let drive = (1..).map(killed_at).find(|drive| drive.state().running.is_some()).unwrap();
            drive.reconnect();
            let (ended, left) = boot(&drive, ErasurePolicy::Full, 2, u32::MAX);
            let cleaned = ended.unwrap();
            assert_eq!((cleaned.method, cleaned.grade, left), (ends_as, Grade::Purge, 0), "{kind:?}");
            assert_eq!(cleaned.tried[0].method, "sanitize begun before");
            assert_eq!(cleaned.samples.blank_after, 512);
            let is_noted = cleaned.unverified.iter().any(|text| text.contains("no samples from before"));
            assert_eq!(is_noted, ends_as == "sanitize");
        }
    }
}

/// A reset or a cut of the power in the middle of it could harm the drive.
#[test]
fn neither_a_stop_nor_a_halt_leaves_a_sanitize_alone() {
    struct Stopped(Cell<u32>);
    impl CleaningMonitor for Stopped {
        fn checkpoint(&self, _activity: &str, _done: u64, _total: u64) -> Result<(), Aborted> {
            let is_noted = self.0.get() > 0;
            if is_noted { Err(Aborted { reason: "released".to_owned() }) } else { Ok(()) }
        }

        fn pause(&self, _time: Duration) {}

        fn report_progress(&self, activity: &str, _done: u64, _total: u64) -> Option<String> {
            assert!(firesteel_wire::erasure::cannot_stop(activity), "{activity}");
            self.0.set(self.0.get() + 1);
            Some("released".to_owned())
        }
    }
    let drive = SimulatedDrive::new(SimulatedDriveKind::Ata, SimulatedFaults { polls: 10, ..faults(&[BLOCK]) });
    let commands = AtaDrive::new(&drive, BlockQueueLimits::default());
    let planned = BTreeSet::from([1]);
    let job = CleaningJob {
        drive: &commands,
        disks: &[&drive],
        namespaces: &planned,
        policy: ErasurePolicy::Full,
        seed: [1; 32],
    };
    let watch = Stopped(Cell::new(0));
    let error = clean(&job, &watch).unwrap_err();
    assert!(error.why.contains("the drive cannot be interrupted in sanitizing: it ended first"), "{error}");
    assert!(error.disk_changed && watch.0.get() > 3, "{error}");
    assert!(drive.state().running.is_none() && drive.state().left() == 0);
}

#[test]
fn a_disk_that_keeps_nothing_proves_nothing() {
    let mut faults = faults(&[BLOCK]);
    faults.drops_writes = true;
    let drive = SimulatedDrive::new(SimulatedDriveKind::Nvme, faults);
    let (ended, _) = boot(&drive, ErasurePolicy::Full, 1, u32::MAX);
    let error = ended.unwrap_err();
    assert!(error.why.contains("did not keep the canary"), "{error}");
}

fn any_faults() -> impl Strategy<Value = SimulatedFaults> {
    let fault = prop::sample::select(vec![
        MethodFault::Refuses,
        MethodFault::Lies,
        MethodFault::LiesInPart,
        MethodFault::Fails,
        MethodFault::Fails,
        MethodFault::Stalls,
    ]);
    let method = || prop::sample::select(ErasureMethod::ALL[..9].to_vec());
    (
        prop::collection::btree_map(method(), fault, 0..6),
        prop::collection::vec(method(), 0..8),
        prop::collection::vec(1_u32..120, 0..4),
        (prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::bool::weighted(0.3)),
        0_u32..6,
    )
        .prop_map(|(methods, known, cuts, (frozen, drops_writes, drops_zeroing), polls)| SimulatedFaults {
            methods,
            known,
            frozen,
            drops_writes,
            drops_zeroing,
            polls,
            cuts,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever goes wrong, and however often the power fails: what ends as done holds none of the old data, and no
    /// drive stays locked.
    #[test]
    fn nothing_is_done_while_data_is_left(
        kind in prop::sample::select(vec![SimulatedDriveKind::Nvme, SimulatedDriveKind::Ata, SimulatedDriveKind::Scsi]),
        faults in any_faults(),
        policy in prop::sample::select(vec![ErasurePolicy::Quick, ErasurePolicy::Full]),
        stops in prop::option::of(0_u32..40),
    ) {
        let drive = SimulatedDrive::new(kind, faults.clone());
        for seed in 0..8 {
            let stops_after = if seed == 0 { stops.unwrap_or(u32::MAX) } else { u32::MAX };
            let (ended, left) = boot(&drive, policy, seed, stops_after);
            if let Ok(cleaned) = &ended {
                prop_assert_eq!(left, 0, "{:?}", cleaned);
                prop_assert!(cleaned.grade >= Grade::Clear, "{:?}", cleaned);
                prop_assert!(cleaned.tried.iter().rev().skip(1).all(|tried| tried.ended != "done"));
            }
            let is_dead = drive.state().dead;
            if is_dead {
                prop_assert!(ended.is_err());
                drive.power_on();
                continue;
            }
            let state = drive.state();
            // Frozen drives take no password, so they cannot keep one.
            prop_assert!(!state.enabled && !state.locked, "{:?}", ended);
            prop_assert!(ended.is_ok() || stops_after != u32::MAX || is_excused(&faults), "{:?}", ended);
            if ended.is_ok() {
                break;
            }
        }
    }
}

/// Whether these faults leave nothing that can be proven; after all others the overwrite succeeds.
fn is_excused(faults: &SimulatedFaults) -> bool {
    faults.drops_writes || faults.methods.values().any(|fault| *fault == MethodFault::Stalls)
}
