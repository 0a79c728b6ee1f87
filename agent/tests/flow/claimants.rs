//! An agent beside another machine that claims to be the same host.

use std::sync::atomic::Ordering;

use firesteel_agent::session::ConversationEnd;
use firesteel_steps::{Exit, board::ReportBoard};
use firesteel_wire::limits::{REPLY_FRESH, REPLY_LOST};
use firesteel_wire::{PlanStep, RefusalReason};

use crate::appliance::{Appliance, wait_until};
use crate::{Running, handover, start, start_with};

/// Another machine has said that it is this host: the genuine one destroys nothing, and neither leaves nor powers off.
#[test]
fn an_agent_beside_another_claimant_pauses_and_stays() {
    let run = start();
    *run.appliance.refusal.lock().unwrap() = Some(RefusalReason::Held);
    let refused = || run.appliance.refused.load(Ordering::SeqCst);
    wait_until("a report that is held", || refused() > 0);
    run.plan(1, vec![run.write_step(), PlanStep::Reboot]);
    run.appliance.hold_after.store(6 << 20, Ordering::SeqCst);
    *run.appliance.refusal.lock().unwrap() = None;
    wait_until("half an image", || run.appliance.held.load(Ordering::SeqCst));
    let before = refused();
    *run.appliance.refusal.lock().unwrap() = Some(RefusalReason::Held);
    wait_until("another report that is held", || refused() > before + 1);
    run.appliance.go_on.notify_one();
    wait_until("the pause", || run.step(0).is_some_and(|step| step.activity == "paused: refused by the test"));
    // However long it takes: it is answered.
    for _ in 0..3 {
        let before = refused();
        run.host.advance(REPLY_FRESH);
        wait_until("yet another one", || refused() > before);
    }
    assert!(!run.session.is_finished());
    let end = 22 << 20..23 << 20;
    assert!(run.host.read("target")[end.clone()].iter().all(|&byte| byte == 0x11), "nothing is written meanwhile");
    *run.appliance.refusal.lock().unwrap() = None;
    let Running { host, image, session, .. } = run;
    assert_eq!(session.join().unwrap(), ConversationEnd { exit: Exit::Reboot, unwanted: false });
    assert!(host.read("target")[end.clone()] == image.raw[end], "it is the host, and goes on");
}

/// Appliances of an earlier version send the reason that switched hosts off.
#[test]
fn a_second_key_waits_as_one_that_is_held_does() {
    let appliance = Appliance::start();
    *appliance.refusal.lock().unwrap() = Some(RefusalReason::SecondKey);
    let handover = handover(&appliance, &appliance.pin_sha256);
    let run = start_with(appliance, &handover, ReportBoard::new(None));
    wait_until("it asks again, for longer than it waits for an answer", || {
        run.host.advance(REPLY_LOST);
        run.appliance.refused.load(Ordering::SeqCst) >= 3
    });
    assert!(!run.session.is_finished());
    *run.appliance.refusal.lock().unwrap() = None;
    run.abort();
    assert_eq!(run.session.join().unwrap().exit, Exit::Reboot);
}
