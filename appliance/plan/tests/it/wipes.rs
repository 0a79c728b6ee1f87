//! What an erasure is called: by proof, or unverified with what was not seen.

use firesteel_plan::HostEffect;
use firesteel_plan::disk::{CleaningMethod, CleaningProof, Grade};
use firesteel_plan::host::{AgentWork, BmcAction, HostPower, PlanKind, WipeVerdict};
use firesteel_resources::ObjectReference;
use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};
use firesteel_resources::condition::{ConditionStatus, find_condition};

use crate::world::{HardOff, World, cleaned, disk, image, with_work};

fn book(world: &mut World, consumer: Option<&str>) {
    let reference = consumer.map(|name| ObjectReference {
        kind: "HostClaim".into(),
        name: name.into(),
        ..ObjectReference::default()
    });
    world.edit(|host| host.spec.consumer_ref = reference);
}

pub(crate) fn condition(world: &World, name: &str) -> Option<(ConditionStatus, String, String)> {
    let status = world.seen.host.status.as_ref()?;
    let found = find_condition(&status.conditions, name)?;
    Some((found.status, found.reason.clone(), found.message.clone()))
}

/// A host that is installed for a claim, which lets it go.
pub(crate) fn released(mut world: World) -> World {
    world.disks = vec![disk("sda", "A", 20)];
    book(&mut world, Some("one"));
    world.run();
    if world.state() != S::Provisioned {
        world.hello();
        world.run();
    }
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    world.pass(60);
    world.effects.clear();
    world.events.clear();
    world.edit(|host| host.spec.image = None);
    book(&mut world, None);
    world
}

/// Runs until the agent has erased with the best grade, and says so.
pub(crate) fn run_to_receipts(world: &mut World) {
    for _ in 0..400 {
        if world.booting {
            world.hello();
        }
        let step = world.step();
        let erase = step.effects.iter().find_map(|effect| match effect {
            HostEffect::IssuePlan { number, plan: PlanKind::Erase(erase), .. } => Some((*number, erase.clone())),
            _ => None,
        });
        if let Some((number, erase)) = erase {
            let purged = |disk| CleaningProof {
                by: "sanitize-crypto".into(),
                grade: Grade::Purge,
                ..cleaned(number, disk, CleaningMethod::Full)
            };
            world.agent().cleaned = erase.disks.iter().map(purged).collect();
            return;
        }
        if step.wake.is_some_and(|wake| !wake.is_zero()) {
            world.pass(1);
        }
    }
    panic!("no plan to erase in {:?}: {}", world.state(), world.reason());
}

/// Steps until the receipts are judged and the agent is to switch the host off.
pub(crate) fn run_to_end(world: &mut World) {
    for _ in 0..10 {
        if world.memory().wipe.is_some() {
            return;
        }
        world.step();
    }
    panic!("the end is not waited for: {}", world.reason());
}

/// Steps with the time that each step asks for until the host is available.
pub(crate) fn run_to_available(world: &mut World) {
    for _ in 0..200 {
        if world.state() == S::Available {
            return;
        }
        let step = world.step();
        if step.wake.is_some_and(|wake| !wake.is_zero()) {
            world.pass(5);
        }
    }
    panic!("not available: {:?} {}", world.state(), world.reason());
}

/// No word that people or programs read says more than was seen.
fn check_words(world: &World) {
    let status = serde_json::to_string(&world.seen.host.status).unwrap();
    let events: Vec<String> = world.events.iter().map(|event| event.message.clone()).collect();
    let note = world.memory().cleaned.as_ref().map(|cleaned| cleaned.text.clone()).unwrap_or_default();
    for text in events.iter().chain([&status, &note]) {
        let lower = text.to_lowercase();
        assert!(!lower.contains("purge") && !lower.contains("800-88"), "{text}");
    }
}

pub(crate) fn is_unverified(world: &World, why: &str) {
    let note = world.memory().cleaned.clone().unwrap();
    assert!(!note.is_erased && note.text.starts_with("unverified: ") && note.text.contains(why), "{note:?}");
    let (status, reason, text) = condition(world, "DisksErased").unwrap();
    assert_eq!((status, reason.as_str()), (ConditionStatus::False, "ErasedUnverified"), "{text}");
    let (status, reason, text) = condition(world, "WipeUnverified").unwrap();
    assert_eq!((status, reason.as_str()), (ConditionStatus::True, "Unverified"));
    assert!(text.contains(why), "{text}");
    assert!(world.events.iter().any(|event| event.reason == "WipeUnverified"));
    check_words(world);
}

#[test]
fn an_erasure_is_proven_where_all_was_seen() {
    let mut world = released(World::new());
    run_to_receipts(&mut world);
    run_to_available(&mut world);
    let note = world.memory().cleaned.clone().unwrap();
    assert!(
        note.is_erased && note.unverified.is_empty() && note.text.contains("purged by sanitize-crypto"),
        "{note:?}"
    );
    assert_eq!(condition(&world, "DisksErased").unwrap().1, "Erased");
    assert_eq!(condition(&world, "WipeUnverified"), None);
    assert!(world.memory().wipe.is_none() && world.memory().tenant.is_none());
    let end = |effect: &HostEffect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::PowerOff, .. });
    assert!(world.count(end) > 0);
}

/// A neighbour with the host's MAC can send receipts, and say that it leaves.
#[test]
fn a_host_that_stays_on_after_its_agent_said_good_bye_is_unverified() {
    let mut world = released(World::new());
    run_to_receipts(&mut world);
    world.agent_off_works = false;
    let began = world.now;
    run_to_available(&mut world);
    let waited = world.now.duration_since(began).as_secs();
    assert!((60..90).contains(&waited), "{waited}");
    is_unverified(&world, "the BMC did not show it within 60 s");
    assert_eq!(world.memory().tenant, None, "the host goes on");
}

/// The host is switched off for another reason.
#[test]
fn a_host_that_is_seen_off_too_late_is_unverified() {
    let mut world = released(World::new());
    run_to_receipts(&mut world);
    world.agent_off_works = false;
    run_to_end(&mut world);
    assert!(world.agent().left, "{}", world.reason());
    world.pass(62);
    world.seen.bmc.power = HostPower::Off;
    run_to_available(&mut world);
    is_unverified(&world, "within 60 s");
}

/// What the BMC showed before the agent said so tells nothing.
#[test]
fn a_look_from_before_the_announcement_does_not_count() {
    let mut world = released(World::new());
    run_to_receipts(&mut world);
    world.agent_off_works = false;
    run_to_end(&mut world);
    world.bmc_works = false;
    world.seen.bmc.power = HostPower::Off;
    run_to_available(&mut world);
    is_unverified(&world, "no route");
}

/// A host that is off already cannot switch itself off: who says so is another machine.
#[test]
fn a_host_that_is_off_before_its_agent_says_good_bye_is_unverified() {
    let mut world = released(World::new());
    run_to_receipts(&mut world);
    world.seen.bmc.power = HostPower::Off;
    run_to_available(&mut world);
    is_unverified(&world, "did not show the host on");
    assert!(!world.agent().left, "its agent stays");
}

#[test]
fn what_was_not_seen_of_the_agents_boot_lowers_the_grade() {
    let mut world = released(World::new());
    run_to_receipts(&mut world);
    world.agent().unseen = vec!["that the address was leased".into()];
    run_to_available(&mut world);
    is_unverified(&world, "not seen: that the address was leased");
}

#[test]
fn a_look_that_fails_once_costs_no_proof() {
    for at_receipts in [true, false] {
        let mut world = released(World::new());
        if at_receipts {
            run_to_receipts(&mut world);
        } else {
            // The agent is there, and the override is to be read.
            while world.memory().clean_boot.is_none() {
                if world.step().wake.is_some_and(|wake| !wake.is_zero()) {
                    world.pass(1);
                }
            }
            world.hello();
        }
        world.bmc_works = false;
        for _ in 0..6 {
            world.step();
            world.pass(5);
        }
        world.bmc_works = true;
        if !at_receipts {
            run_to_receipts(&mut world);
        }
        run_to_available(&mut world);
        let note = world.memory().cleaned.clone().unwrap();
        assert!(note.is_erased, "{at_receipts}: {note:?}");
    }
}

#[test]
fn an_appliance_that_was_away_waits_for_the_good_bye() {
    let mut world = released(World::new());
    run_to_receipts(&mut world);
    world.agent_works = false;
    run_to_end(&mut world);
    world.pass(600);
    world.seen.started_at = world.now;
    world.step();
    world.agent_works = true;
    run_to_available(&mut world);
    let note = world.memory().cleaned.clone().unwrap();
    assert!(note.is_erased, "{note:?}");
}

/// Signed receipts say it, also where the process died before they did.
#[test]
fn the_receipts_hear_what_an_erasure_came_to_until_they_say_it() {
    let verdicts = |world: &World| -> Vec<WipeVerdict> {
        let given = |effect: &HostEffect| match effect {
            HostEffect::GradeReceipts(verdict) => Some(verdict.clone()),
            _ => None,
        };
        world.effects.iter().filter_map(given).collect()
    };
    for works in [true, false] {
        let mut world = released(World::new());
        run_to_receipts(&mut world);
        world.agent_off_works = works;
        assert_eq!(verdicts(&world), []);
        run_to_available(&mut world);
        let given = verdicts(&world);
        let [verdict] = given.as_slice() else { panic!("{given:?}") };
        assert_eq!((verdict.unverified.is_empty(), verdict.off_after.is_some()), (works, works), "{verdict:?}");
        assert!(verdict.off_before.is_some() && verdict.attempt == world.memory().cleaned.as_ref().unwrap().attempt);
        world.step();
        assert_eq!(world.memory().verdict, None);
        world.seen.memory.verdict = Some(verdict.clone());
        world.seen.graded = None;
        world.step();
        world.step();
        assert_eq!((verdicts(&world).len(), world.memory().verdict.clone()), (2, None), "as after a kill");
    }
}

/// What its owner does with it meanwhile is not known.
#[test]
fn a_host_that_was_detached_by_force_is_erased_again() {
    let mut world = held();
    world.annotate(annotations::DETACHED, r#"{"force":true}"#);
    world.step();
    assert!(world.memory().wipe.is_none() && world.memory().clean_boot.is_none(), "{}", world.reason());
    world.seen.host.metadata.annotations.remove(annotations::DETACHED);
    world.seen.bmc.once_unread = None;
    let attempt = world.memory().attempt;
    world.effects.clear();
    run_to_receipts(&mut world);
    assert!(world.memory().attempt > attempt, "after another cut");
    let off = BmcAction::PowerOff { hard: true };
    let cuts = |effect: &HostEffect| matches!(effect, HostEffect::Bmc(call) if call.action == off);
    assert!(world.count(cuts) > 0);
}

#[test]
fn an_agent_that_does_not_say_good_bye_is_not_waited_for_long() {
    type Change = fn(&mut World);
    let changes: [(Change, &str); 3] = [
        (|_| {}, "did not say so within 2 min"),
        (|world| world.agent().rebooted = true, "went without a word"),
        (
            |world| {
                let failed = AgentWork::Failed { step: "power-off".into(), message: "no".into(), disk_changed: false };
                with_work(world, failed);
            },
            "could not: power-off: no",
        ),
    ];
    for (change, why) in changes {
        let mut world = released(World::new());
        run_to_receipts(&mut world);
        world.agent_works = false;
        run_to_end(&mut world);
        change(&mut world);
        run_to_available(&mut world);
        is_unverified(&world, why);
    }
}

#[test]
fn what_was_not_seen_of_the_boot_is_named_and_the_agent_stays() {
    type Change = fn(&mut World);
    let changes: [(Change, &str); 4] = [
        (|world| world.hard_off = HardOff::Ignored, "not seen off before it"),
        (|world| world.edit(|host| host.spec.disable_power_off = true), "spec.disablePowerOff"),
        (|world| world.seen.bmc.once_unset = Some("Continuous Pxe".into()), "Continuous Pxe"),
        (|world| world.seen.bmc.once_unread = Some("the BMC still has it: Once Pxe".into()), "Once Pxe"),
    ];
    for (change, why) in changes {
        let mut world = released(World::new());
        change(&mut world);
        run_to_receipts(&mut world);
        let attempt = world.memory().attempt;
        run_to_available(&mut world);
        is_unverified(&world, why);
        assert_eq!((world.memory().attempt, world.agent().left), (attempt, false), "{why}");
    }
}

#[test]
fn without_a_bmc_nothing_is_proven_and_the_host_is_available() {
    let mut world = World::without_bmc();
    world.settle();
    world.hello();
    let mut world = released(world);
    world.settle();
    world.pass(60);
    world.hello();
    run_to_receipts(&mut world);
    run_to_available(&mut world);
    is_unverified(&world, "there is no BMC");
    // What is written next ends it.
    world.edit(|host| host.spec.image = Some(image("two")));
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert_eq!(condition(&world, "WipeUnverified").map(|found| found.0), Some(ConditionStatus::False));
}

/// As after an upgrade in the middle of an erasure: it is not interrupted.
#[test]
fn an_erasure_of_an_unknown_boot_is_unverified() {
    let mut world = released(World::new());
    run_to_receipts(&mut world);
    world.seen.memory.clean_boot = None;
    run_to_available(&mut world);
    is_unverified(&world, "not switched off and on before it");
}

#[test]
fn a_process_that_dies_at_any_step_of_the_end_changes_nothing() {
    for dies_at in 0..8 {
        let mut world = released(World::new());
        run_to_receipts(&mut world);
        for step in 0..40 {
            if step == dies_at {
                world.seen.started_at = world.now;
                let power = world.seen.bmc.power;
                world.seen.bmc =
                    firesteel_plan::host::BmcInputs { power, ..firesteel_plan::host::BmcInputs::default() };
            }
            world.step();
        }
        assert_eq!(world.state(), S::Available, "{dies_at}: {}", world.reason());
        assert!(world.memory().cleaned.as_ref().is_some_and(|note| note.is_erased), "{dies_at}");
    }
}

#[test]
fn a_deletion_waits_for_the_end() {
    for works in [true, false] {
        let mut world = released(World::new());
        run_to_receipts(&mut world);
        world.agent_off_works = works;
        run_to_end(&mut world);
        world.delete();
        for _ in 0..60 {
            world.step();
            world.pass(5);
        }
        assert!(world.gone, "{:?} {}", world.state(), world.reason());
        assert_eq!(
            world.count(|effect| matches!(effect, HostEffect::Tombstone { .. })),
            0,
            "it was erased by its word"
        );
    }
}

/// An erasure that ended claims nothing where the next boot of the host is what asked.
#[test]
fn a_host_that_was_booted_by_force_meanwhile_is_unverified() {
    let mut world = released(World::new());
    run_to_receipts(&mut world);
    world.agent_works = false;
    run_to_end(&mut world);
    world.annotate(annotations::REBOOT, r#"{"force":true}"#);
    world.step();
    world.step();
    run_to_available(&mut world);
    is_unverified(&world, "it booted again");
    let resets = |effect: &HostEffect| matches!(effect, HostEffect::Bmc(call) if call.action == BmcAction::NetBoot);
    assert!(world.count(resets) > 0);
}

/// A host whose owner wants proof, and whose BMC does not show the override used up.
fn held() -> World {
    let mut world = released(World::new());
    world.annotate(annotations::CLEANING, r#"{"whenUnverified":"hold"}"#);
    world.seen.bmc.once_unread = Some("the BMC still has it: Once Pxe".into());
    run_to_receipts(&mut world);
    world.settle();
    assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
    world
}

#[test]
fn an_unverified_erasure_is_held_until_a_person_accepts_it() {
    let mut world = held();
    for part in ["unverified", "Once Pxe", "firesteel accept-erasure a", "firesteel retry a"] {
        assert!(world.reason().contains(part), "{part}: {}", world.reason());
    }
    assert_eq!(condition(&world, "WipeUnverified").unwrap().1, "Held");
    assert!(world.memory().failure.is_some() && world.memory().tenant.is_some());
    let mark = world.memory().wipe.as_ref().unwrap().mark();
    let (effects, events) = (world.effects.len(), world.events.len());
    for _ in 0..100 {
        world.pass(600);
        let now = world.now;
        world.agent().last_report_at = now;
        world.step();
    }
    assert_eq!((world.state(), world.effects.len(), world.events.len()), (S::Deprovisioning, effects, events));
    world.annotate(annotations::ACCEPT_ERASURE, "1/1");
    world.step();
    assert_eq!(world.state(), S::Deprovisioning, "another erasure's mark");
    assert!(world.events.iter().any(|event| event.reason == "WipeNotAccepted"));
    assert!(!world.seen.host.metadata.annotations.contains_key(annotations::ACCEPT_ERASURE), "one-shot");
    world.annotate(annotations::ACCEPT_ERASURE, &mark);
    world.run();
    assert_eq!((world.state(), world.memory().failure.is_some()), (S::Available, false), "{}", world.reason());
    assert!(world.memory().tenant.is_none() && world.memory().wipe.is_none());
    let accepted = world.events.iter().filter(|event| event.reason == "WipeAccepted").count();
    let (status, reason, text) = condition(&world, "WipeUnverified").unwrap();
    assert_eq!((accepted, status, reason.as_str()), (1, ConditionStatus::True, "Accepted"));
    assert!(text.contains("accepted at 2026"), "{text}");
    assert_eq!(condition(&world, "DisksErased").unwrap().1, "ErasedUnverified");
    check_words(&world);
}

#[test]
fn a_held_host_goes_on_when_its_owner_holds_it_no_more() {
    let mut world = held();
    world.annotate(annotations::CLEANING, r#"{"whenUnverified":"accept"}"#);
    world.run();
    assert_eq!((world.state(), world.memory().failure.is_some()), (S::Available, false), "{}", world.reason());
    is_unverified(&world, "Once Pxe");
}

#[test]
fn a_retry_has_a_held_host_erased_once_more() {
    let mut world = held();
    let attempt = world.memory().attempt;
    world.effects.clear();
    world.seen.bmc.once_unread = None;
    world.annotate(annotations::RETRY, "");
    run_to_receipts(&mut world);
    assert!(world.memory().attempt > attempt);
    world.run();
    assert_eq!(world.state(), S::Available, "{}", world.reason());
    assert!(world.memory().cleaned.as_ref().is_some_and(|note| note.is_erased), "{:?}", world.memory().cleaned);
}

/// The agent that erased may go: what it showed is kept.
#[test]
fn a_held_host_may_restart() {
    let mut world = held();
    let mark = world.memory().wipe.as_ref().unwrap().mark();
    world.agent().rebooted = true;
    world.settle();
    assert_eq!((world.state(), world.memory().wipe.is_some()), (S::Deprovisioning, true), "{}", world.reason());
    world.annotate(annotations::ACCEPT_ERASURE, &mark);
    world.run();
    assert_eq!(world.state(), S::Available, "{}", world.reason());
}

#[test]
fn a_held_host_is_deleted_by_a_persons_word_alone() {
    for (key, is_force) in [(annotations::ACCEPT_ERASURE, false), (annotations::RELEASE_FORCE, true)] {
        let mut world = held();
        let mark = world.memory().wipe.as_ref().unwrap().mark();
        world.delete();
        for _ in 0..100 {
            world.pass(600);
            let now = world.now;
            world.agent().last_report_at = now;
            world.step();
        }
        assert!(!world.gone && world.reason().contains("release --force"), "{}", world.reason());
        world.annotate(key, &mark);
        world.run();
        world.pass(10);
        world.run();
        assert!(world.gone, "{:?} {}", world.state(), world.reason());
        assert_eq!(world.count(|effect| matches!(effect, HostEffect::Tombstone { .. })) > 0, is_force);
    }
}

#[test]
fn without_a_bmc_a_host_is_held_as_well() {
    let mut world = World::without_bmc();
    world.settle();
    world.hello();
    let mut world = released(world);
    world.annotate(annotations::CLEANING, r#"{"whenUnverified":"hold"}"#);
    world.settle();
    world.pass(60);
    world.hello();
    run_to_receipts(&mut world);
    world.settle();
    assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
    assert!(world.reason().contains("there is no BMC"), "{}", world.reason());
}

/// The host may have another owner since, whose data is there.
#[test]
fn a_restore_forgets_an_erasure_whose_end_was_waited_for() {
    for is_held in [false, true] {
        let mut world = if is_held {
            held()
        } else {
            let mut world = released(World::new());
            run_to_receipts(&mut world);
            world.agent_works = false;
            run_to_end(&mut world);
            world
        };
        assert!(world.memory().wipe.is_some(), "{}", world.reason());
        world.seen.lineage.timeline = 2;
        world.seen.lineage.known.push((2, 0));
        let attempt = world.memory().attempt;
        world.step();
        assert!(world.memory().wipe.is_none() && world.memory().attempt > attempt, "{}", world.reason());
        assert_eq!((world.state(), world.memory().cleaned.is_some()), (S::Deprovisioning, false), "{}", world.reason());
    }
}
