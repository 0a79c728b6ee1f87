//! The fleet is halted: nothing that destroys begins, what runs is waited for, everything else goes on.

use firesteel_plan::HostEffect;
use firesteel_plan::host::{AgentWork, PlanKind, StepEvent};
use firesteel_resources::ConditionStatus;
use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};
use firesteel_resources::condition::find_condition;

use crate::world::{World, run_to_write, with_work};

fn held(world: &World) -> Option<(ConditionStatus, String, String)> {
    let status = world.seen.host.status.as_ref()?;
    let found = find_condition(&status.conditions, "DestructionHeld")?;
    Some((found.status, found.reason.clone(), found.message.clone()))
}

fn plans(world: &World, wanted: impl Fn(&PlanKind) -> bool) -> usize {
    world.count(|effect| matches!(effect, HostEffect::IssuePlan { plan, .. } if wanted(plan)))
}

fn running() -> AgentWork {
    AgentWork::Running { step: "write-image".into(), activity: "paused: halted".into(), percent: 40 }
}

/// The agent reports, and gets nowhere.
fn report(world: &mut World) {
    let now = world.now;
    world.agent().last_report_at = now;
}

#[test]
fn a_host_goes_as_far_as_its_disk_and_no_further() {
    let mut world = World::new();
    world.halt();
    world.run();
    assert_eq!(world.state(), S::Provisioning);
    assert_eq!(plans(&world, |plan| *plan == PlanKind::Inspect), 1, "inspection goes on");
    assert_eq!(plans(&world, PlanKind::destroys), 0);
    assert!(world.memory().failure.is_none(), "to be held is no failure");
    assert!(world.reason().contains("ann") && world.reason().contains("firesteel resume"), "{}", world.reason());
    let (status, reason, message) = held(&world).unwrap();
    assert_eq!((status, reason.as_str()), (ConditionStatus::True, "FleetHalted"));
    assert!(message.contains("wrong disks"), "{message}");
    // Told once, however long it takes.
    let mut told = 0;
    for _ in 0..100 {
        world.pass(60);
        report(&mut world);
        told += world.step().events.iter().filter(|event| event.reason == "FleetHalted").count();
    }
    assert_eq!((told, world.state()), (0, S::Provisioning));
    world.seen.halt = None;
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert_eq!(held(&world).map(|(status, ..)| status), Some(ConditionStatus::False));
}

#[test]
fn a_write_under_way_is_neither_late_nor_given_up() {
    let mut world = World::new();
    run_to_write(&mut world);
    with_work(&mut world, running());
    world.halt();
    let mut events: Vec<StepEvent> = Vec::new();
    for _ in 0..200 {
        world.pass(120);
        report(&mut world);
        events.extend(world.step().events);
        assert!(world.memory().deadline.unwrap() > world.now, "a deadline that the hold extends");
    }
    assert!(world.memory().failure.is_none() && world.state() == S::Provisioning, "{}", world.reason());
    assert!(world.reason().contains("halted by ann") && world.reason().contains("write-image"), "{}", world.reason());
    assert_eq!(events.iter().filter(|event| event.reason == "FleetHalted").count(), 1);
    // Its next report may take a moment: the hours behind the gate are not held against it.
    world.seen.halt = None;
    world.step();
    assert!(world.memory().failure.is_none() && !world.reason().contains("no progress"), "{}", world.reason());
    // But a standstill after that is.
    for _ in 0..20 {
        world.pass(120);
        report(&mut world);
        world.step();
    }
    assert!(world.memory().failure.is_some() && world.reason().contains("no progress"), "{}", world.reason());
}

#[test]
fn cleaning_waits_and_counts_no_failure() {
    let mut world = World::new();
    world.run();
    world.edit(|host| host.spec.image = None);
    world.halt();
    world.delete();
    for _ in 0..50 {
        world.run();
        world.pass(300);
        if let Some(agent) = world.seen.agent.as_mut() {
            agent.last_report_at = world.now;
        }
    }
    assert_eq!((world.state(), world.memory().clean_failures), (S::Deprovisioning, 0), "{}", world.reason());
    assert_eq!(plans(&world, |plan| matches!(plan, PlanKind::Clean { .. })), 0);
    // The way out for who cannot wait.
    let mut released = World::new();
    released.seen = world.seen.clone();
    released.annotate(annotations::RELEASE_FORCE, "");
    released.settle();
    assert!(released.gone && released.count(|effect| matches!(effect, HostEffect::Tombstone { .. })) > 0);
    world.seen.halt = None;
    world.run();
    assert!(world.gone, "{} {}", world.state(), world.reason());
    assert_eq!(plans(&world, |plan| matches!(plan, PlanKind::Clean { .. })), 1);
}

#[test]
fn power_and_reboots_are_not_held() {
    let mut world = World::new();
    world.run();
    world.halt();
    world.settle();
    assert_eq!(world.state(), S::Provisioned);
    world.annotate(annotations::REBOOT, r#"{"mode":"hard"}"#);
    world.run();
    assert!(world.memory().reboot.is_none(), "{}", world.reason());
    let cycles = world.count(
        |effect| matches!(effect, HostEffect::Bmc(call) if call.action == firesteel_plan::host::BmcAction::Cycle),
    );
    assert!(cycles > 0);
    assert_eq!(held(&world).map(|(status, ..)| status), Some(ConditionStatus::True), "said on every host");
}

/// Its owner keeps the disks: the host is not taken from its OS for a deletion that cannot go on.
#[test]
fn a_locked_host_keeps_its_os_until_it_is_unlocked_although_it_is_deleted() {
    let mut world = World::new();
    world.run();
    world.annotate(annotations::LOCK, "audit");
    world.delete();
    for _ in 0..5 {
        world.settle();
        world.pass(600);
    }
    assert_eq!((world.state(), world.memory().failure.as_ref()), (S::Provisioned, None));
    assert!(world.reason().contains("firesteel unlock a"), "{}", world.reason());
    assert_eq!(plans(&world, |plan| matches!(plan, PlanKind::Clean { .. })), 0);
    world.seen.host.metadata.annotations.clear();
    world.run();
    assert!(world.gone, "{:?} {}", world.state(), world.reason());
}

/// Receipts and deadlines of a clock that is wrong are wrong, so nothing is destroyed by it.
#[test]
fn while_the_clock_is_doubted_a_host_goes_as_far_as_its_disk() {
    let mut world = World::new();
    world.doubt_clock();
    world.run();
    assert_eq!(world.state(), S::Provisioning);
    assert_eq!(plans(&world, |plan| *plan == PlanKind::Inspect), 1, "inspection goes on");
    assert_eq!(plans(&world, PlanKind::destroys), 0);
    assert!(world.memory().failure.is_none(), "a clock is no failure of the host");
    assert!(world.reason().contains("clock") && world.reason().contains("accept-clock"), "{}", world.reason());
    assert_eq!(held(&world).map(|(status, reason, _)| (status, reason)), said(ConditionStatus::True, "ClockDoubtful"));
    assert_eq!(doubted(&world), said(ConditionStatus::True, "BehindStore"));
    assert_eq!(world.events.iter().filter(|event| event.reason == "ClockDoubtful").count(), 1, "said once");
    world.seen.clock = None;
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert_eq!(doubted(&world), said(ConditionStatus::False, "ClockRight"));
}

/// A person's word is shown before the clock, and one does not end the other.
#[test]
fn a_halt_and_a_doubted_clock_hold_each_for_itself() {
    let mut world = World::new();
    world.halt();
    world.doubt_clock();
    world.run();
    assert!(world.reason().contains("halted by ann"), "{}", world.reason());
    world.seen.halt = None;
    world.pass(60);
    report(&mut world);
    world.step();
    assert!(world.reason().contains("accept-clock"), "{}", world.reason());
    assert_eq!(plans(&world, PlanKind::destroys), 0);
}

fn said(status: ConditionStatus, reason: &str) -> Option<(ConditionStatus, String)> {
    Some((status, reason.to_owned()))
}

fn doubted(world: &World) -> Option<(ConditionStatus, String)> {
    let status = world.seen.host.status.as_ref()?;
    find_condition(&status.conditions, "ClockDoubtful").map(|found| (found.status, found.reason.clone()))
}
