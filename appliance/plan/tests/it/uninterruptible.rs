//! A drive that erases itself by a command which nothing can interrupt: no reset and no cut of the power, whoever wants
//! the host for something else meanwhile.

use firesteel_plan::host::{BmcAction, PlanKind};
use firesteel_plan::{HostEffect, disk::CleaningMethod, host::AgentWork};
use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};

use crate::world::{World, disk, image, with_work};

const SECURE_ERASE: &str = "secure-erase by the drive's own estimate of 240 min";

/// Installed for a tenant who is gone: its disks are erased, one of them by the drive itself.
fn erasing() -> World {
    let mut world = World::new();
    world.disks = vec![disk("sda", "A", 20), disk("sdb", "DATA", 500)];
    book(&mut world, true);
    world.run();
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!(world.state(), S::Available, "{}", world.reason());
    book(&mut world, false);
    for _ in 0..300 {
        if world.booting {
            world.hello();
        }
        let step = world.step();
        if step.effects.iter().any(|effect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Erase(_), .. })) {
            // The first of the disks is overwritten.
            let overwrites = AgentWork::Running { step: "erase-disk".into(), activity: "overwrite".into(), percent: 5 };
            with_work(&mut world, overwrites);
            world.agent().cleaned.clear();
            world.agent().cannot_stop = Some(SECURE_ERASE.into());
            world.agent_works = false;
            world.effects.clear();
            return world;
        }
    }
    panic!("no plan to erase in {:?}: {}", world.state(), world.reason());
}

fn book(world: &mut World, is_booked: bool) {
    let reference = serde_json::from_value(serde_json::json!({"kind": "HostClaim", "name": "one"})).unwrap();
    world.edit(|host| host.spec.consumer_ref = is_booked.then_some(reference));
}

/// Time goes by; the agent reports, or is silent.
fn minutes(world: &mut World, minutes: u32, is_heard: bool) {
    for _ in 0..minutes {
        world.pass(60);
        if is_heard {
            let now = world.now;
            world.agent().last_report_at = now;
        }
        world.step();
        world.step();
    }
}

/// Orders that take the power from the host.
fn orders(world: &World) -> usize {
    let takes = |action: BmcAction| {
        !matches!(action, BmcAction::Probe | BmcAction::ReadOnce | BmcAction::PowerOn | BmcAction::TakeBootBack)
    };
    world.count(|effect| matches!(effect, HostEffect::Bmc(call) if takes(call.action)))
}

fn aborts(world: &World) -> usize {
    world.count(|effect| matches!(effect, HostEffect::AbortAgent { .. }))
}

/// The drive has ended, and the agent boots again as it was told to.
fn ends(world: &mut World) {
    world.agent().cannot_stop = None;
    world.agent().rebooted = true;
    world.agent_works = true;
    world.step();
    world.hello();
    world.run();
}

/// The next attempt was opened at once, and its hello was late after twenty minutes.
#[test]
fn an_owner_who_comes_back_waits_for_the_drive() {
    let mut world = erasing();
    let attempt = world.memory().attempt;
    book(&mut world, true);
    minutes(&mut world, 300, true);
    assert_eq!((world.state(), world.memory().attempt, orders(&world)), (S::Preparing, attempt, 0));
    assert!(aborts(&world) > 1, "told again, as it may have been lost");
    assert_eq!(world.events.iter().filter(|event| event.reason == "CleaningStopped").count(), 1);
    let reason = world.reason().to_owned();
    assert!(reason.contains("former owner") && reason.contains(SECURE_ERASE), "{reason}");
    assert!(world.memory().deadline.unwrap() > world.now && world.memory().failure.is_none());
    // Gone again, or not: what was told to stop ends first.
    book(&mut world, false);
    minutes(&mut world, 10, true);
    assert_eq!((world.memory().attempt, orders(&world)), (attempt, 0), "{}", world.reason());
    book(&mut world, true);
    ends(&mut world);
    assert_eq!((world.state(), orders(&world)), (S::Available, 0), "{}", world.reason());
    assert!(world.memory().attempt > attempt && world.memory().tenant.is_some());
    world.edit(|host| host.spec.image = Some(image("two")));
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

#[test]
fn a_lock_and_a_word_that_keeps_the_disks_wait_for_the_drive() {
    type Change = fn(&mut World);
    let changes: [(Change, S, S); 3] = [
        (|world| world.annotate(annotations::LOCK, "audit"), S::Preparing, S::Preparing),
        (
            |world| {
                world.edit(|host| {
                    host.spec.externally_provisioned = true;
                    host.spec.online = false;
                });
            },
            S::Preparing,
            S::ExternallyProvisioned,
        ),
        (
            |world| {
                world.edit(|host| host.spec.externally_provisioned = true);
                world.delete();
            },
            S::Preparing,
            S::Deleting,
        ),
    ];
    for (change, meanwhile, end) in changes {
        let mut world = erasing();
        let attempt = world.memory().attempt;
        change(&mut world);
        minutes(&mut world, 300, true);
        assert_eq!((world.state(), world.memory().attempt, orders(&world)), (meanwhile, attempt, 0));
        assert!(aborts(&world) > 0 && world.reason().contains(SECURE_ERASE), "{}", world.reason());
        ends(&mut world);
        assert_eq!(world.state(), end, "{}", world.reason());
        assert!(world.memory().tenant.is_some() && world.memory().attempt > attempt);
    }
}

/// Cut off, it was reset after an hour.
#[test]
fn a_silent_agent_whose_drive_erases_itself_is_not_reset_before_that_can_have_ended() {
    let mut world = erasing();
    minutes(&mut world, 12 * 60, false);
    assert_eq!((orders(&world), world.memory().clean_failures), (0, 0), "{}", world.reason());
    assert!(world.reason().contains("not heard since") && world.reason().contains("firesteel retry"));
    let mut retried = World { seen: world.seen.clone(), ..erasing() };
    retried.now = world.now;
    retried.annotate(annotations::RETRY, "");
    minutes(&mut retried, 10, false);
    assert!(orders(&retried) > 0, "a person has looked: {}", retried.reason());
    minutes(&mut world, 90, false);
    assert!(orders(&world) > 0, "{}", world.reason());
}

/// The agent's attempt is over for other reasons; it is heard no more, and its last word counts.
#[test]
fn whoever_orders_power_waits_for_the_drive() {
    // Detached by force, and attached again.
    let mut world = erasing();
    world.annotate(annotations::DETACHED, r#"{"force":true}"#);
    minutes(&mut world, 5, false);
    world.seen.host.metadata.annotations.remove(annotations::DETACHED);
    minutes(&mut world, 300, false);
    assert_eq!((world.state(), orders(&world)), (S::Preparing, 0));
    assert!(world.reason().contains(SECURE_ERASE) && world.reason().contains("firesteel retry"), "{}", world.reason());
    // A deletion.
    world.delete();
    minutes(&mut world, 300, false);
    assert_eq!((world.gone, orders(&world)), (false, 0), "{:?} {}", world.state(), world.reason());
    minutes(&mut world, 600, false);
    assert!(orders(&world) > 0, "it has an end: {}", world.reason());
}

/// Erased for what an earlier host's tenant left, and deleted meanwhile: switched off under the drive.
#[test]
fn a_deletion_of_a_host_that_is_erased_for_a_tombstone_waits_for_the_drive() {
    let mut world = erasing();
    world.seen.memory.tenant = None;
    let left = serde_json::json!({"host": "default/old", "disk": "", "at": world.now, "ofTenant": true});
    world.seen.memory.uncleaned = Some(serde_json::from_value(left).unwrap());
    world.seen.uncleaned.clone_from(&world.seen.memory.uncleaned);
    minutes(&mut world, 5, true);
    assert_eq!((world.state(), aborts(&world)), (S::Preparing, 0), "{}", world.reason());
    world.delete();
    minutes(&mut world, 300, true);
    assert_eq!((world.state(), orders(&world), aborts(&world) > 0), (S::Preparing, 0, true), "{}", world.reason());
    ends(&mut world);
    assert!(world.gone, "{:?} {}", world.state(), world.reason());
}

/// A drive that never answers does not keep its host for ever.
#[test]
fn an_agent_that_was_told_to_stop_is_given_up_in_the_end() {
    let mut world = erasing();
    let attempt = world.memory().attempt;
    book(&mut world, true);
    minutes(&mut world, 800, true);
    assert!(world.memory().attempt > attempt, "{}", world.reason());
    assert_eq!(orders(&world), 0, "its last word counts for as long again");
    world.agent_works = true;
    world.edit(|host| host.spec.image = Some(image("two")));
    minutes(&mut world, 800, false);
    world.run();
    assert!(orders(&world) > 0 && world.state() == S::Provisioned, "{:?} {}", world.state(), world.reason());
    let is_full = |plan: &PlanKind| matches!(plan, PlanKind::Erase(erase) if erase.method == CleaningMethod::Full);
    let erasures = |effect: &HostEffect| matches!(effect, HostEffect::IssuePlan { plan, .. } if is_full(plan));
    assert_eq!(world.count(erasures), 0);
}
