//! Disks whose names change while a step is on its way to one: no other disk than the plan's is commanded, looked
//! at for it, or changed.

use firesteel_steps::Exit;
use firesteel_wire::{PlanStep, StepState};

use crate::{Running, appliance::wait_until, start, wiping::erase};

/// Both disks are as they were; the caller says which of them has which name.
fn assert_unchanged(run: &Running, is_swapped: bool) {
    let (target, decoy) = if is_swapped { ("decoy", "target") } else { ("target", "decoy") };
    assert!(run.host.read(target).iter().all(|&byte| byte == 0x11), "the planned disk was changed");
    assert!(run.host.read(decoy).iter().all(|&byte| byte == 0xdd), "the disk that no plan names was changed");
}

fn ends(run: Running) {
    run.abort();
    assert_eq!(run.session.join().unwrap().exit, Exit::Reboot);
}

#[test]
fn a_name_that_means_another_disk_when_it_is_opened_is_refused() {
    for moment in ["look", "open"] {
        for kind in ["clear", "write", "erase"] {
            let run = start();
            let step = match kind {
                "clear" => PlanStep::clear_metadata(run.host.identity_of("target")),
                "write" => run.write_step(),
                _ => erase(&run, "target"),
            };
            *run.host.swap_before.lock().unwrap() = Some(moment);
            run.plan(1, vec![step]);
            let failed = run.wait_for_failure();
            assert!(failed.error.contains("serial is serial-decoy"), "{moment} {kind}: {}", failed.error);
            assert!(!failed.disk_changed && run.host.swap_before.lock().unwrap().is_none(), "{moment} {kind}");
            assert_unchanged(&run, true);
            ends(run);
        }
    }
}

#[test]
fn no_command_goes_to_a_drive_that_took_the_name() {
    for is_swapped in [false, true] {
        let run = start();
        run.host.attach_scsi("target");
        *run.host.swap_before.lock().unwrap() = is_swapped.then_some("commands");
        run.plan(1, vec![erase(&run, "target")]);
        let failed = run.wait_for_failure();
        assert!(!failed.disk_changed, "{}", failed.error);
        let mut commanded = run.host.commanded.lock().unwrap().clone();
        commanded.dedup();
        let own = run.host.number_of("serial-target");
        assert_eq!(commanded, if is_swapped { vec![] } else { vec![own] }, "{}", failed.error);
        assert_eq!(failed.error.contains("became another disk"), is_swapped, "{}", failed.error);
        assert_unchanged(&run, is_swapped);
        ends(run);
    }
}

#[test]
fn disks_that_were_found_anew_while_an_erasure_waited_are_not_erased_by_their_old_names() {
    let run = start();
    *run.appliance.hold.lock().unwrap() = Some("halted by ann".into());
    let heard = || run.appliance.heard.lock().unwrap().reports.len();
    let before = heard();
    wait_until("a reply with the hold", || heard() > before + 1);
    run.plan(1, vec![erase(&run, "target"), erase(&run, "second")]);
    // By now both were sorted into drives.
    wait_until("the hold", || run.board.read().steps.iter().any(|step| step.activity == "paused: halted by ann"));
    run.host.swap();
    *run.appliance.hold.lock().unwrap() = None;
    let failed = run.wait_for_failure();
    assert!(failed.index == 0 && !failed.disk_changed, "{failed:?}");
    assert!(
        failed.error.contains("the kernel found its disks again while this one waited to be erased"),
        "{}",
        failed.error
    );
    wait_until("the end of the other", || run.step(1).is_some_and(|step| step.state == StepState::Done));
    assert_unchanged(&run, true);
    assert!(run.host.read("second").iter().all(|&byte| byte == 0));
    ends(run);
}
