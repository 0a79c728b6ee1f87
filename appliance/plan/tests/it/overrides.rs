//! What a host shows of a BMC that does less than others: no session, no boot override, one that stays.

use firesteel_plan::HostEffect;
use firesteel_plan::host::{BmcAction, BmcFault, BmcFaultKind};
use firesteel_resources::{Condition, bare_metal_host::ProvisioningState as S, condition::find_condition};

use crate::world::World;

fn condition(world: &World, name: &str) -> Option<Condition> {
    find_condition(&world.seen.host.status.as_ref().unwrap().conditions, name).cloned()
}

fn reason(world: &World, name: &str) -> Option<String> {
    condition(world, name).map(|condition| condition.reason)
}

/// Distinct orders to take the override back.
fn taken_back(world: &World) -> usize {
    let mut tickets: Vec<u64> = Vec::new();
    for effect in &world.effects {
        if let HostEffect::Bmc(call) = effect
            && call.action == BmcAction::TakeBootBack
            && !tickets.contains(&call.ticket)
        {
            tickets.push(call.ticket);
        }
    }
    tickets.len()
}

#[test]
fn the_override_is_looked_at_once_after_the_installation() {
    let mut world = World::new();
    world.run();
    assert_eq!((world.state(), taken_back(&world)), (S::Provisioned, 1));
    for _ in 0..5 {
        world.pass(700);
        world.settle();
    }
    assert_eq!(taken_back(&world), 1);
    assert_eq!(reason(&world, "BootOverride"), None);
}

#[test]
fn an_override_that_stays_is_told_and_tried_a_few_times() {
    let mut world = World::new();
    world.seen.bmc.override_left = Some("the system says Continuous Pxe".into());
    world.run();
    assert_eq!((world.state(), taken_back(&world)), (S::Provisioned, 1));
    let told = condition(&world, "BootOverride").unwrap();
    assert_eq!(told.reason, "NotTakenBack");
    assert!(told.message.contains("says Continuous Pxe") && told.message.contains("switch it off there"));
    assert_eq!(world.memory().failure, None, "the host runs its OS all the same");
    for _ in 0..10 {
        world.pass(700);
        world.settle();
    }
    assert_eq!((taken_back(&world), reason(&world, "BootOverride").as_deref()), (3, Some("NotTakenBack")));
    // The next boot into the agent begins to count again, and this time the BMC obeys.
    world.seen.bmc.override_left = None;
    world.edit(|host| host.spec.image = Some(crate::world::image("two")));
    world.run();
    assert_eq!((world.state(), reason(&world, "BootOverride").as_deref()), (S::Provisioned, Some("Offered")));
}

#[test]
fn a_refusal_to_take_it_back_is_told_and_a_bmc_out_of_reach_is_asked_later() {
    let mut world = World::new();
    world.settle();
    world.hello();
    // The agent is at work: the BMC is not asked before the host has its OS.
    world.refuses = Some(BmcFault { kind: BmcFaultKind::Refused, message: "it is fixed".into() });
    world.run();
    assert_eq!((world.state(), reason(&world, "BootOverride").as_deref()), (S::Provisioned, Some("NotTakenBack")));
    world.refuses = None;
    world.bmc_works = false;
    world.pass(700);
    world.settle();
    assert!(world.memory().failure.is_some(), "that it is out of reach is an error of its own");
    world.bmc_works = true;
    for _ in 0..4 {
        world.pass(700);
        world.settle();
    }
    assert_eq!((reason(&world, "BootOverride").as_deref(), world.memory().failure.as_ref()), (Some("Offered"), None));
}

#[test]
fn a_bmc_without_overrides_and_without_a_session_says_so() {
    let mut world = World::new();
    world.seen.bmc.no_override = Some("it shows none".into());
    world.seen.bmc.no_session_free = true;
    world.settle();
    assert_eq!(world.state(), S::Inspecting);
    let told = condition(&world, "BootOverride").unwrap();
    assert_eq!(told.reason, "NotOffered");
    assert!(told.message.contains("put the network first"), "{}", told.message);
    assert_eq!(reason(&world, "BMCSession").as_deref(), Some("NoneFree"));
    world.run();
    assert_eq!((world.state(), taken_back(&world)), (S::Provisioned, 0), "there is nothing to take back");
    world.seen.bmc.no_session_free = false;
    world.pass(61);
    world.settle();
    assert_eq!(reason(&world, "BMCSession").as_deref(), Some("Free"));
}
