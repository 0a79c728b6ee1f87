//! What the planner answers to requests: each once, with what is done or why nothing is.

use firesteel_plan::host::HostPower;
use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};
use firesteel_resources::host_journal::{DELETION, RequestOutcome};

use crate::world::World;

use RequestOutcome::{Accepted, Done, Refused};

fn provisioned() -> World {
    let mut world = World::new();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world
}

fn available() -> World {
    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!(world.state(), S::Available);
    world
}

/// Makes a request, and returns the answer to it.
fn ask(world: &mut World, key: &str, value: &str) -> (RequestOutcome, String) {
    let before = world.seen.answers.newest_number();
    world.annotate(key, value);
    world.step();
    let answer = world.seen.answers.of(key).unwrap();
    assert!(answer.number > before && answer.answers(key, value), "{answer:?}");
    let answer = (answer.outcome, answer.message.clone());
    world.run();
    assert!(!world.seen.host.metadata.annotations.contains_key(key), "{key} is taken off");
    answer
}

#[test]
fn a_reboot_is_accepted_and_done_later() {
    let mut world = provisioned();
    world.annotate(annotations::REBOOT, r#"{"mode":"soft"}"#);
    world.step();
    let (outcome, text) = world.answer(annotations::REBOOT).unwrap();
    assert!(outcome == Accepted && text.contains("on again"), "{text}");
    let accepted = world.seen.answers.newest_number();
    for _ in 0..10 {
        world.run();
        world.pass(6);
    }
    assert_eq!(world.answer(annotations::REBOOT), Some((Done, "the host was rebooted")));
    assert!(world.seen.answers.newest_number() > accepted);
    let value = world.seen.answers.of(annotations::REBOOT).map(|answer| answer.value.clone());
    assert_eq!(value.as_deref(), Some(r#"{"mode":"soft"}"#), "the value stays that of the request");
}

#[test]
fn a_reboot_that_is_not_done_says_why() {
    let mut off = provisioned();
    off.edit(|host| host.spec.online = false);
    for _ in 0..3 {
        off.run();
        off.pass(61);
    }
    assert_eq!(off.seen.bmc.power, HostPower::Off);
    let (outcome, text) = ask(&mut off, annotations::REBOOT, "");
    assert!(outcome == Done && text.contains("nothing is done: the host is off"), "{text}");

    let mut without_bmc = provisioned();
    without_bmc.edit(|host| host.spec.bmc = None);
    let (outcome, text) = ask(&mut without_bmc, annotations::REBOOT, "");
    assert!(outcome == Refused && text.contains("no BMC") && text.contains("by hand"), "{text}");

    let (outcome, text) = ask(&mut available(), annotations::REBOOT, r#"{"mode":"hard"}"#);
    assert!(outcome == Refused && text.contains("the host is available") && text.contains("force"), "{text}");
}

/// The removal of the annotation was lost: the same request was answered, and carried out, at each step.
#[test]
fn a_request_that_stays_is_answered_once_and_the_next_one_again() {
    let mut world = provisioned();
    world.annotations_work = false;
    world.annotate(annotations::REBOOT, "");
    world.annotate(annotations::RETRY, "first");
    for _ in 0..5 {
        world.step();
        world.pass(1);
    }
    assert_eq!(world.seen.answers.newest_number(), 2, "{:?}", world.seen.answers);
    let retried_at = world.memory().retried_at;
    // Another value is another request, also while the first one is there.
    world.annotate(annotations::RETRY, "second");
    world.step();
    assert_eq!(world.seen.answers.of(annotations::RETRY).map(|answer| answer.number), Some(3));
    world.annotations_work = true;
    for _ in 0..10 {
        world.run();
        world.pass(6);
    }
    assert!(world.seen.host.metadata.annotations.is_empty());
    let before = world.seen.answers.newest_number();
    world.annotate(annotations::RETRY, "second");
    world.step();
    assert_eq!(world.seen.answers.newest_number(), before + 1, "the same once more, after it was gone");
    assert_eq!(world.memory().retried_at, retried_at, "a healthy host is not tried again");
}

/// What came between a step and its effect was removed unread.
#[test]
fn only_what_was_taken_is_removed() {
    let mut world = provisioned();
    world.annotate(annotations::UNFREEZE_DISK, "a");
    let step = firesteel_plan::step(&world.seen, world.now);
    let removed: Vec<_> = step
        .effects
        .iter()
        .filter_map(|effect| match effect {
            firesteel_plan::HostEffect::RemoveAnnotation { key, value } => Some((key.as_str(), value.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(removed, [(annotations::UNFREEZE_DISK, "a")]);
}

#[test]
fn a_retry_is_refused_where_there_is_nothing_to_try() {
    for mut world in [provisioned(), available()] {
        let memory = world.memory().clone();
        let (outcome, text) = ask(&mut world, annotations::RETRY, "now");
        assert!(outcome == Refused && text.contains("nothing to try again"), "{text}");
        assert_eq!(world.memory(), &memory, "and nothing is done");
        assert!(world.events.iter().any(|event| event.reason == "RetryRefused"));
    }
    // A host that rests may have failed, too.
    let mut world = provisioned();
    world.bmc_works = false;
    world.pass(3600);
    world.run();
    assert!(world.memory().failure.is_some() && world.state() == S::Provisioned);
    world.annotate(annotations::RETRY, "now");
    world.step();
    assert_eq!(world.answer(annotations::RETRY).unwrap().0, Accepted);
    let mut world = World::new();
    world.bmc_works = false;
    world.run();
    let failure = world.memory().failure.clone().unwrap().message;
    world.annotate(annotations::RETRY, "now");
    world.step();
    let (outcome, text) = world.answer(annotations::RETRY).unwrap();
    assert!(outcome == Accepted && text.contains(&failure), "{text}");
}

#[test]
fn what_only_fits_one_situation_is_refused_in_any_other() {
    for (key, value, part) in [
        (annotations::ACCEPT_IDENTITY, "u/s", "no machine was refused"),
        (annotations::ACCEPT_ERASURE, "1/1", "no erasure"),
        (annotations::CHOOSE_AGENT, annotations::NO_CLAIMANT, "one machine alone"),
        (annotations::UNFREEZE_DISK, "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f", "not frozen at all"),
    ] {
        let mut world = provisioned();
        let (outcome, text) = ask(&mut world, key, value);
        assert!(outcome == Refused && text.contains(part), "{key}: {text}");
    }
}

#[test]
fn a_lock_and_its_end_are_answered() {
    let mut world = provisioned();
    world.annotate(annotations::LOCK, "ann");
    world.run();
    let (outcome, text) = world.answer(annotations::LOCK).unwrap();
    assert!(outcome == Done && text.contains("(ann)"), "{text}");
    world.seen.host.metadata.annotations.clear();
    world.halt();
    world.run();
    let (outcome, text) = world.answer(annotations::LOCK).unwrap();
    assert!(outcome == Done && text.contains("written again") && text.contains("halted by ann"), "{text}");
    assert_eq!(world.seen.answers.of(annotations::LOCK).map(|answer| answer.value.as_str()), Some(""));
}

#[test]
fn a_deletion_is_answered_with_what_is_done_to_the_disks() {
    let answer = |mut world: World| {
        world.delete();
        world.step();
        let (outcome, text) = world.answer(DELETION).unwrap();
        assert_eq!(outcome, Accepted, "{text}");
        let number = world.seen.answers.newest_number();
        world.step();
        let now = world.seen.answers.newest_number();
        assert_eq!(now, number, "once");
        world.answer(DELETION).unwrap().1.to_owned()
    };
    assert!(answer(provisioned()).contains("disks are cleaned"));
    assert!(answer(available()).contains("no disk is cleaned"));
    let mut halted = provisioned();
    halted.halt();
    assert!(answer(halted).contains("its disks wait: halted by ann"));
    let mut locked = provisioned();
    locked.annotate(annotations::LOCK, "audit");
    assert!(answer(locked).contains("firesteel unlock a"));
    let mut delayed = provisioned();
    delayed.annotate(annotations::DETACHED, r#"{"deleteAction":"delay"}"#);
    assert!(answer(delayed).contains("until the host is attached again"));
    let mut detached = provisioned();
    detached.annotate(annotations::DETACHED, "");
    assert!(answer(detached).contains("keeps what it runs"));
    let mut kept = World::new();
    kept.edit(|host| host.spec.externally_provisioned = true);
    kept.run();
    assert!(answer(kept).contains("externallyProvisioned"));

    let mut forced = provisioned();
    forced.annotate(annotations::RELEASE_FORCE, "1");
    assert!(answer(forced.clone()).contains("no disk of it is cleaned"));
    forced.delete();
    forced.step();
    assert_eq!(forced.answer(annotations::RELEASE_FORCE).map(|(outcome, _)| outcome), Some(Accepted));

    let mut paused = provisioned();
    paused.annotate(annotations::PAUSED, "ann");
    paused.delete();
    paused.step();
    assert!(paused.seen.answers.is_empty(), "nothing is decided while the host is paused");
}

#[test]
fn other_requests_by_annotation_are_answered_as_well() {
    let mut world = available();
    world.pass(60);
    world.annotate(annotations::INSPECT, "");
    world.run();
    assert_eq!(world.answer(annotations::INSPECT).map(|(outcome, _)| outcome), Some(Done));
    world.annotate(annotations::HARDWARE_DETAILS, r#"{"ramMebibytes":4096}"#);
    world.run();
    let (outcome, text) = world.answer(annotations::HARDWARE_DETAILS).unwrap();
    assert!(outcome == Refused && text.contains("was inspected"), "{text}");
}
