//! How long the end of an erasure is waited for, to the second, and what a cleaning that is less than whole comes to.

use firesteel_plan::HostEffect;
use firesteel_plan::host::{AgentWork, HostPower, PlanKind, Tombstone};
use firesteel_resources::bare_metal_host::{CleaningMode, ProvisioningState as S, annotations};

use crate::cleaning::{book, installed_for_a_claim};
use crate::wipes::{condition, is_unverified, released, run_to_available, run_to_end, run_to_receipts};
use crate::world::{World, disk, image, run_to_write, with_work};

/// A host whose disks are erased; its agent is to switch it off, and says so or does nothing.
fn ending(says_so: bool) -> World {
    let mut world = released(World::new());
    run_to_receipts(&mut world);
    (world.agent_works, world.agent_off_works) = (says_so, false);
    run_to_end(&mut world);
    assert_eq!(world.agent().left, says_so);
    world
}

/// Passes time, and steps the host some times.
fn go_on(world: &mut World, seconds: i64) {
    world.pass(seconds);
    (0..3).for_each(|_| drop(world.step()));
}

/// The plans that agents got, in their order.
fn plans(world: &World) -> Vec<&'static str> {
    let mut plans: Vec<(u64, u32, &'static str)> = Vec::new();
    for effect in &world.effects {
        if let HostEffect::IssuePlan { attempt, number, plan } = effect {
            plans.push((*attempt, *number, plan.name()));
        }
    }
    plans.dedup();
    plans.into_iter().map(|(_, _, name)| name).collect()
}

#[test]
fn an_agent_has_two_minutes_to_say_that_it_switches_the_host_off() {
    let mut world = ending(false);
    go_on(&mut world, 120);
    assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
    go_on(&mut world, 1);
    assert_eq!(world.state(), S::Available, "{}", world.reason());
    is_unverified(&world, "its agent did not say so within 2 min");
}

#[test]
fn a_host_has_a_minute_to_be_seen_off() {
    for bmc_answers in [true, false] {
        let mut world = ending(true);
        world.bmc_answers = bmc_answers;
        go_on(&mut world, 60);
        let waits =
            if bmc_answers { "waiting until the BMC shows that the host is off" } else { "asking the BMC for power" };
        assert!(world.state() == S::Deprovisioning && world.reason().contains(waits), "{}", world.reason());
        go_on(&mut world, 1);
        assert_eq!(world.state(), S::Available, "{}", world.reason());
        is_unverified(&world, "the BMC did not show it within 60 s");
    }
}

#[test]
fn a_host_that_is_seen_off_at_a_later_look_is_proven_erased() {
    let mut world = ending(true);
    go_on(&mut world, 0);
    go_on(&mut world, 20);
    assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
    world.seen.bmc.power = HostPower::Off;
    go_on(&mut world, 5);
    assert_eq!(world.state(), S::Available, "{}", world.reason());
    assert!(world.memory().cleaned.as_ref().is_some_and(|note| note.is_erased), "{:?}", world.memory().cleaned);
}

/// The answer of a look that was asked for counts when it comes, whenever the next look is due.
#[test]
fn the_answer_of_a_look_is_taken_at_once() {
    let mut world = ending(true);
    world.step();
    world.seen.bmc.power = HostPower::Off;
    world.seen.memory.wipe.as_mut().unwrap().asked_at = Some(world.now);
    world.step();
    assert_eq!(world.state(), S::Available, "{}", world.reason());
}

#[test]
fn a_host_that_is_off_too_early_is_unverified_at_once_and_a_blind_bmc_is_asked_for_a_while() {
    let mut world = released(World::new());
    run_to_receipts(&mut world);
    world.seen.bmc.power = HostPower::Off;
    let began = world.now;
    run_to_available(&mut world);
    assert!(world.now.duration_since(began).as_secs() < 30, "{:?}", world.now);
    is_unverified(&world, "the BMC did not show the host on while its agent was there");

    let mut world = released(World::new());
    run_to_receipts(&mut world);
    world.bmc_works = false;
    let began = world.now;
    run_to_available(&mut world);
    assert!(world.now.duration_since(began).as_secs() >= 120, "{:?}", world.now);
    is_unverified(&world, "the host was not seen on: ");
}

/// To clear the metadata claims no grade, so nothing has to be seen of it.
#[test]
fn a_clearing_of_metadata_claims_nothing() {
    let mut world = World::new();
    world.edit(|host| host.spec.disable_power_off = true);
    world.run();
    world.pass(60);
    world.effects.clear();
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!((world.state(), plans(&world)), (S::Available, vec!["clean"]), "{}", world.reason());
    assert_eq!(condition(&world, "WipeUnverified"), None);
    assert_eq!(condition(&world, "DisksErased").unwrap().1, "MetadataCleared");
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::GradeReceipts(_))), 0);
    let begun: Vec<&str> = world
        .events
        .iter()
        .filter(|event| event.reason == "CleaningStarted")
        .map(|event| event.message.as_str())
        .collect();
    assert_eq!(begun, ["metadata of model DISK, serial A, 20.0 GB"]);
}

/// What is left of earlier owners is gone only when all data of all disks is.
#[test]
fn only_an_erasure_of_all_data_of_all_disks_settles_what_was_left_somewhere() {
    for (method, scope, is_settled, word) in [
        ("full", "all", true, "Erased"),
        ("quick", "all", false, "PartlyErased"),
        ("full", "target", false, "PartlyErased"),
        ("metadata", "all", false, "MetadataCleared"),
    ] {
        let mut world = released(World::new());
        let left = serde_json::json!({"host": "default/old", "disk": "", "at": world.now, "ofTenant": true});
        let left: Tombstone = serde_json::from_value(left).unwrap();
        let policy = format!(r#"{{"betweenOwners":{{"method":"{method}","scope":"{scope}"}}}}"#);
        world.annotate(annotations::CLEANING, &policy);
        (world.seen.memory.holds_unknown, world.seen.memory.unknown_of_tenant) = (true, true);
        (world.seen.uncleaned, world.seen.memory.uncleaned) = (Some(left.clone()), Some(left));
        world.seen.memory.uncleaned.as_mut().unwrap().is_told_only = true;
        for _ in 0..6 {
            world.run();
            world.pass(6);
        }
        let memory = world.memory();
        assert_eq!(world.state(), S::Available, "{method} {scope}: {}", world.reason());
        assert_eq!((memory.holds_unknown, memory.uncleaned.is_some()), (!is_settled, !is_settled), "{method} {scope}");
        assert_eq!(condition(&world, "DisksErased").unwrap().1, word, "{method} {scope}");
        assert!(memory.cleaned.as_ref().is_some_and(|note| note.is_partial != is_settled), "{:?}", memory.cleaned);
    }
}

/// The word of the tenant, who wants no cleaning, does not count for the next one.
#[test]
fn what_is_erased_for_another_owner_is_erased_whatever_the_tenant_wants() {
    let mut world = released(World::new());
    world.edit(|host| host.spec.automated_cleaning_mode = Some(CleaningMode::Disabled));
    world.states.clear();
    world.run();
    assert!(plans(&world).contains(&"erase"), "{}", world.reason());
    assert_eq!(world.states, [S::Deprovisioning, S::Available], "at once, and not when it is available");
}

/// The disk of the installation is known, so that its metadata is cleared without another look.
#[test]
fn a_host_is_inspected_again_only_where_what_is_known_of_its_disks_is_old() {
    for (hours, expected) in [(0, vec!["clean", "write"]), (2, vec!["clean", "inspect", "write"])] {
        let mut world = World::new();
        world.run();
        world.pass(60 + hours * 3600);
        world.effects.clear();
        world.edit(|host| host.spec.image = Some(image("two")));
        world.run();
        assert_eq!((world.state(), plans(&world)), (S::Provisioned, expected), "{}", world.reason());
    }
    // A failed installation may have failed because another boot is not like that one.
    let mut world = World::new();
    run_to_write(&mut world);
    world.agent().rebooted = true;
    world.effects.clear();
    world.step();
    world.hello();
    world.run();
    world.pass(1800);
    let now = world.now;
    world.agent().last_report_at = now;
    world.run();
    assert_eq!((world.state(), plans(&world)), (S::Provisioned, vec!["clean", "inspect", "write"]));
}

fn report(world: &mut World) {
    let now = world.now;
    world.agent().last_report_at = now;
}

/// The record of this very boot is older than the failure, so that it is no proof of how the disk is.
#[test]
fn a_cleaning_that_failed_looks_at_the_disk_again_where_this_boot_has_looked() {
    let mut world = World::new();
    run_to_write(&mut world);
    world.agent_works = false;
    world.effects.clear();
    let failed = |step: &str| AgentWork::Failed { step: step.into(), message: "I/O".into(), disk_changed: true };
    with_work(&mut world, failed("write-image"));
    world.step();
    world.step();
    assert_eq!((world.state(), plans(&world)), (S::Deprovisioning, vec!["clean"]), "{}", world.reason());
    with_work(&mut world, failed("clear-metadata"));
    world.step();
    world.pass(600);
    report(&mut world);
    world.step();
    assert_eq!(plans(&world), ["clean", "inspect"], "{}", world.reason());
}

/// An edit ends the delay of a failure, and is none itself.
#[test]
fn a_failure_to_clean_is_counted_once_and_is_over_when_the_host_is_clean() {
    let mut world = World::new();
    world.run();
    world.pass(60);
    world.bmc_works = false;
    world.edit(|host| host.spec.image = None);
    world.settle();
    assert_eq!((world.state(), world.memory().clean_failures), (S::Deprovisioning, 1), "{}", world.reason());
    world.bmc_answers = false;
    world.edit(|_| {});
    world.settle();
    assert_eq!((world.memory().clean_failures, world.memory().failure.as_ref()), (1, None), "{}", world.reason());
    world.seen.bmc.in_flight = false;
    (world.bmc_works, world.bmc_answers) = (true, true);
    world.run();
    assert_eq!((world.state(), world.memory().failure.as_ref()), (S::Available, None), "{}", world.reason());
}

/// A cleaning waits for the delay of its own failures, and not of the one that led to it.
#[test]
fn only_a_failure_of_the_cleaning_itself_delays_the_cleaning() {
    for (after_s, is_refused, overrides, is_issued) in [
        (-1, false, false, true),
        (0, false, false, true),
        (1, false, false, false),
        (-1, true, false, false),
        (1, false, true, true),
    ] {
        let mut world = World::new();
        run_to_write(&mut world);
        world.agent_works = false;
        world.effects.clear();
        let (step, message) = ("write-image".into(), "bad sector".into());
        with_work(&mut world, AgentWork::Failed { step, message, disk_changed: true });
        world.step();
        let at = world.memory().since + jiff::SignedDuration::from_secs(after_s);
        world.seen.memory.failure.as_mut().unwrap().at = at;
        if is_refused {
            let (attempt, plan) = (world.memory().attempt, 0);
            world.seen.memory.refused = Some(firesteel_plan::host::RefusedAttempt { at, attempt, plan });
        }
        if overrides {
            world.annotate(annotations::OVERRIDE_GUARD, "A");
        }
        world.pass(2);
        report(&mut world);
        world.step();
        let destroys = |effect: &HostEffect| matches!(effect, HostEffect::IssuePlan { plan, .. } if plan.destroys());
        assert_eq!(world.count(destroys) > 0, is_issued, "{after_s} {is_refused} {overrides}: {}", world.reason());
    }
}

/// What the owner asks for less claims nothing, and needs no proof of the boot.
#[test]
fn an_override_is_read_only_for_what_claims_a_grade() {
    let mut world = installed_for_a_claim();
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    while world.memory().clean_boot.is_none() {
        if world.step().wake.is_some_and(|wake| !wake.is_zero()) {
            world.pass(1);
        }
    }
    world.hello();
    world.annotate(annotations::CLEANING, r#"{"betweenOwners":{"method":"metadata"}}"#);
    world.run();
    assert_eq!(world.state(), S::Available, "{}", world.reason());
    let reads = firesteel_plan::host::BmcAction::ReadOnce;
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::Bmc(call) if call.action == reads)), 0);
}

#[test]
fn the_disks_that_keep_their_data_are_named_when_a_cleaning_begins() {
    let mut world = World::new();
    world.disks = vec![disk("sda", "A", 20), disk("sdb", "DATA", 500)];
    world.annotate(annotations::CLEANING, r#"{"betweenInstallations":{"method":"quick"}}"#);
    world.run();
    world.pass(60);
    world.edit(|host| host.spec.image = None);
    world.run();
    let begun = world.events.iter().find(|event| event.reason == "CleaningStarted").unwrap();
    assert_eq!(begun.message, "quick of model DISK, serial A, 20.0 GB; kept: /dev/sdb");
    let erase = |effect: &HostEffect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Erase(_), .. });
    assert!(world.count(erase) > 0, "{}", world.reason());
}
