//! Disks that must not be wiped, disks that something stands on, and several disks at once.

use std::collections::BTreeSet;

use firesteel_facts::Guid;
use firesteel_host::assembled::{AssembledDevice, AssembledDriver};
use firesteel_images::write::gpt::{self, Partition};
use firesteel_steps::Exit;
use firesteel_wire::{Evidence, PlanStep, StepState, erasure::ErasurePolicy};

use crate::appliance::wait_until;
use crate::host::{DISK_BYTES, DISK_GUID, Meeting};
use crate::{Running, start};

const GFS2_AT: usize = 64 << 10;

/// A shared filesystem's superblock, which names its lock manager.
fn put_gfs2(disk: &mut [u8], at: usize) {
    disk[at + GFS2_AT..at + GFS2_AT + 8].copy_from_slice(&[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]);
    disk[at + GFS2_AT + 96..at + GFS2_AT + 105].copy_from_slice(b"lock_dlm\0");
}

fn plant(run: &Running, name: &str) -> Vec<u8> {
    let mut disk = run.host.read(name);
    put_gfs2(&mut disk, 0);
    std::fs::write(run.host.folder.path().join(name), &disk).unwrap();
    disk
}

pub(crate) fn erase(run: &Running, name: &str) -> PlanStep {
    let disk = run.host.identity_of(name);
    PlanStep::EraseDisk {
        disk,
        policy: ErasurePolicy::Full,
        own_names: Vec::new(),
        override_guards: false,
        was_vacant: false,
        is_named: false,
    }
}

fn array(name: &str, disks: &[&str]) -> AssembledDevice {
    AssembledDevice {
        kind: AssembledDriver::Md,
        name: name.into(),
        title: "raid1".into(),
        disks: disks.iter().map(|disk| (*disk).to_owned()).collect::<BTreeSet<_>>(),
        uses: Vec::new(),
        height: 0,
    }
}

fn with_override(mut step: PlanStep) -> PlanStep {
    if let PlanStep::ClearMetadata { override_guards, .. } | PlanStep::WriteImage { override_guards, .. } = &mut step {
        *override_guards = true;
    }
    step
}

#[test]
fn neither_clearing_nor_writing_touches_a_disk_of_a_cluster_unless_its_owner_says_so() {
    for writes in [false, true] {
        let run = start();
        let disk = plant(&run, "target");
        let step = if writes { run.write_step() } else { PlanStep::clear_metadata(run.host.identity_of("target")) };
        run.plan(1, vec![step.clone()]);
        let failed = run.wait_for_failure();
        assert!(!failed.disk_changed && failed.error.contains("GFS2"), "{}", failed.error);
        assert!(failed.error.contains("its owner overrides"), "{}", failed.error);
        assert!(run.host.read("target") == disk, "not a byte was changed");
        run.plan(2, vec![with_override(step), PlanStep::PowerOff]);
        let Running { appliance, host, session, .. } = run;
        assert_eq!(session.join().unwrap().exit, Exit::PowerOff);
        let receipts = appliance.last_report().unwrap().receipts;
        let evidence = &receipts.iter().find(|receipt| (receipt.plan, receipt.index) == (2, 0)).unwrap().evidence;
        let (Evidence::MetadataCleared { overridden, .. } | Evidence::ImageWritten { overridden, .. }) = evidence
        else {
            panic!("{evidence:?}")
        };
        assert!(overridden.len() == 1 && overridden[0].contains("GFS2"), "{overridden:?}");
        assert!(host.read("target")[GFS2_AT..GFS2_AT + 8] != disk[GFS2_AT..GFS2_AT + 8]);
        host.assert_decoy_untouched();
    }
}

#[test]
fn an_installation_of_this_host_is_no_objection_and_a_strangers_is() {
    for (own, goes) in [(DISK_GUID, true), ("7f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f", false)] {
        let run = start();
        let mut disk = run.host.read("target");
        let partition = Partition {
            number: 1,
            name: "data".into(),
            type_guid: Guid([1; 16]),
            guid: Guid([2; 16]),
            first_lba: 2048,
            last_lba: 40_000,
        };
        let guid: Guid = DISK_GUID.parse().unwrap();
        let (head, _, _) = gpt::create(DISK_BYTES, 512, guid, &[partition]).unwrap();
        disk[..head.len()].copy_from_slice(&head);
        put_gfs2(&mut disk, 1 << 20);
        std::fs::write(run.host.folder.path().join("target"), &disk).unwrap();
        let identity = run.host.identity_of("target");
        let clear = PlanStep::ClearMetadata {
            disk: identity,
            own_names: vec![own.into()],
            override_guards: false,
            was_vacant: false,
            is_named: false,
        };
        run.plan(1, vec![clear, PlanStep::PowerOff]);
        if !goes {
            let failed = run.wait_for_failure();
            assert!(failed.error.contains("partition 1: it holds GFS2"), "{}", failed.error);
            run.abort();
        }
        let exit = run.session.join().unwrap().exit;
        assert_eq!(exit, if goes { Exit::PowerOff } else { Exit::Reboot });
        run.host.assert_decoy_untouched();
    }
}

#[test]
fn an_array_is_taken_apart_when_the_plan_names_all_of_its_disks() {
    let run = start();
    run.host.assemblies.lock().unwrap().push(array("md127", &["target", "decoy"]));
    run.plan(1, vec![erase(&run, "target"), erase(&run, "second")]);
    let failed = run.wait_for_failure();
    assert!(failed.error.contains("md array md127 (raid1)"), "{}", failed.error);
    assert!(failed.error.contains("the plan does not name: decoy"), "{}", failed.error);
    assert!(!failed.disk_changed && run.host.read("target").iter().all(|&byte| byte == 0x11));
    wait_until("the end of the other disk", || {
        run.board.read().steps.iter().all(|step| step.state != StepState::Running)
    });
    *run.host.assemblies.lock().unwrap() = vec![array("md127", &["target", "second"])];
    run.plan(2, vec![erase(&run, "target"), erase(&run, "second"), PlanStep::PowerOff]);
    let Running { host, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::PowerOff);
    assert!(host.assemblies.lock().unwrap().is_empty());
    assert!(host.read("target").iter().chain(&host.read("second")).all(|&byte| byte == 0));
    host.assert_decoy_untouched();
}

#[test]
fn disks_are_erased_at_once_each_with_its_own_progress() {
    let run = start();
    // Each step waits for the other one before it wipes: one after the other they would never end.
    *run.host.meeting.lock().unwrap() = Some(Meeting::of(2));
    *run.host.assemblies.lock().unwrap() = vec![array("md0", &["target"]), array("md1", &["second"])];
    run.plan(1, vec![erase(&run, "target"), erase(&run, "second"), PlanStep::PowerOff]);
    let Running { appliance, host, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::PowerOff);
    let last = appliance.last_report().unwrap();
    let mut erased: Vec<_> = last
        .receipts
        .iter()
        .filter_map(|receipt| match &receipt.evidence {
            Evidence::DiskErased(erasure) => Some((receipt.index, erasure.disk.serial.clone())),
            Evidence::Inspected { .. }
            | Evidence::MetadataCleared { .. }
            | Evidence::ImageWritten { .. }
            | Evidence::FilesHandedOff { .. }
            | Evidence::BootEntrySet { .. }
            | Evidence::Leaving { .. } => None,
        })
        .collect();
    erased.sort();
    assert_eq!(erased, [(0, "serial-target".to_owned()), (1, "serial-second".to_owned())]);
    assert!(last.steps.iter().take(2).all(|step| step.disk_changed), "{:?}", last.steps);
    assert!(host.read("target").iter().chain(&host.read("second")).all(|&byte| byte == 0));
    host.assert_decoy_untouched();
}

#[test]
fn one_disk_that_fails_does_not_stop_the_other_and_the_plan_fails() {
    let run = start();
    let kept = plant(&run, "target");
    run.plan(1, vec![erase(&run, "target"), erase(&run, "second"), PlanStep::PowerOff]);
    let failed = run.wait_for_failure();
    assert_eq!(failed.index, 0);
    wait_until("the end of the other", || run.step(1).is_some_and(|step| step.state == StepState::Done));
    assert_eq!(run.step(2).unwrap().state, StepState::Pending, "nothing follows a failure");
    run.abort();
    let Running { host, session, .. } = run;
    assert_eq!(session.join().unwrap().exit, Exit::Reboot);
    assert!(host.read("target") == kept);
    assert!(host.read("second").iter().all(|&byte| byte == 0));
    host.assert_decoy_untouched();
}

#[test]
fn two_failures_have_two_reasons() {
    let run = start();
    let mut pulled = run.host.identity_of("target");
    pulled.serial = "pulled".into();
    let gone = PlanStep::EraseDisk {
        disk: pulled,
        policy: ErasurePolicy::Full,
        own_names: Vec::new(),
        override_guards: false,
        was_vacant: false,
        is_named: false,
    };
    plant(&run, "second");
    run.plan(1, vec![gone, erase(&run, "second")]);
    wait_until("both failures", || {
        let steps = run.board.read().steps;
        steps.len() == 2 && steps.iter().all(|step| step.state == StepState::Failed)
    });
    let steps = run.board.read().steps;
    assert!(steps[0].error.contains("pulled") && steps[1].error.contains("GFS2"), "{steps:?}");
    run.abort();
    assert_eq!(run.session.join().unwrap().exit, Exit::Reboot);
}
