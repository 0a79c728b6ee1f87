//! Requests by annotation, power, and deletion.

use firesteel_plan::{
    Effect,
    host::{BmcAction, Power},
};
use firesteel_resources::bare_metal_host::{OperationalStatus, ProvisioningState as S, annotations};

use crate::world::World;

fn actions(world: &World) -> Vec<BmcAction> {
    world
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Bmc(call) => Some(call.action),
            _ => None,
        })
        .collect()
}

fn provisioned() -> World {
    let mut world = World::new();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world.effects.clear();
    world
}

#[test]
fn a_paused_host_is_left_alone_and_goes_on_after() {
    let mut world = World::new();
    world.annotate(annotations::PAUSED, "metal3.io/capm3");
    world.run();
    assert_eq!((world.state(), world.effects.len()), (S::New, 0));
    assert!(world.reason().contains("metal3.io/capm3"));
    world.seen.host.metadata.annotations.clear();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
}

#[test]
fn a_detached_host_keeps_its_os_also_when_deleted() {
    let mut world = provisioned();
    world.annotate(annotations::DETACHED, r#"{"deleteAction":"delay"}"#);
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    assert_eq!(world.seen.host.status.as_ref().unwrap().operational_status, OperationalStatus::Detached);
    world.delete();
    world.run();
    assert!(!world.gone, "deletion is delayed");
    world.annotate(annotations::DETACHED, "");
    world.run();
    assert!(world.gone);
    assert_eq!(world.count(|effect| !matches!(effect, Effect::RemoveFinalizer)), 0, "{:?}", world.effects);
}

#[test]
fn release_by_force_needs_a_deletion_and_leaves_a_tombstone() {
    let mut world = provisioned();
    world.annotate(annotations::RELEASE_FORCE, "true");
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world.delete();
    world.run();
    assert!(world.gone);
    assert_eq!(world.count(|effect| matches!(effect, Effect::Tombstone { disk: Some(_), .. })), 1);
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Bmc(_) | Effect::IssuePlan { .. })));
}

#[test]
fn a_soft_reboot_goes_off_and_on_and_is_consumed() {
    let mut world = provisioned();
    world.annotate(annotations::REBOOT, "");
    for _ in 0..10 {
        world.run();
        world.pass(6);
    }
    let wanted = [BmcAction::PowerOff { hard: false }, BmcAction::PowerOn];
    let done: Vec<BmcAction> = actions(&world).into_iter().filter(|action| *action != BmcAction::Probe).collect();
    assert_eq!(done, wanted);
    assert!(!world.seen.host.metadata.annotations.contains_key(annotations::REBOOT));
    assert_eq!(world.seen.bmc.power, Power::On);
}

#[test]
fn a_hard_reboot_is_one_reset() {
    let mut world = provisioned();
    world.annotate(annotations::REBOOT, r#"{"mode":"hard"}"#);
    world.run();
    let done: Vec<BmcAction> = actions(&world).into_iter().filter(|action| *action != BmcAction::Probe).collect();
    assert_eq!(done, [BmcAction::Cycle]);
}

#[test]
fn an_os_that_does_not_shut_down_is_cut_off_after_three_minutes() {
    let mut world = provisioned();
    world.edit(|host| host.spec.online = false);
    let mut hard_after = None;
    for second in 0..400 {
        world.step();
        // The OS ignores the soft one.
        let cut = actions(&world).contains(&BmcAction::PowerOff { hard: true });
        if cut && hard_after.is_none() {
            hard_after = Some(second);
        }
        if !cut {
            world.seen.bmc.power = Power::On;
        }
        world.pass(1);
    }
    let hard_after = hard_after.unwrap();
    assert!((180..200).contains(&hard_after), "{hard_after}");
    assert!(world.reason().contains("switched off"), "{}", world.reason());
}

#[test]
fn holders_keep_the_host_off_until_the_last_lets_go() {
    let mut world = provisioned();
    world.annotate("reboot.metal3.io/a", "");
    for _ in 0..5 {
        world.run();
        world.pass(61);
    }
    assert_eq!(world.seen.bmc.power, Power::Off);
    assert!(world.reason().contains("held off by a"), "{}", world.reason());
    world.seen.host.metadata.annotations.clear();
    world.run();
    assert_eq!(world.seen.bmc.power, Power::On);
}

#[test]
fn retry_forgets_delay_and_count_and_is_consumed() {
    let mut world = World::new();
    world.bmc_works = false;
    world.run();
    assert!(world.memory().failure.is_some());
    world.bmc_works = true;
    world.annotate(annotations::RETRY, "true");
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert!(world.seen.host.metadata.annotations.is_empty());
}

#[test]
fn an_inspection_that_is_asked_for_replaces_the_record_and_is_consumed() {
    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    world.run();
    world.states.clear();
    world.pass(60);
    world.annotate(annotations::INSPECT, "");
    world.run();
    assert_eq!(world.states, [S::Inspecting, S::Preparing, S::Available]);
    assert_eq!(world.seen.hardware.as_ref().unwrap().inspected_at, world.now);
    assert!(world.seen.host.metadata.annotations.is_empty());
}

#[test]
fn deletion_finds_its_way_out_of_every_state() {
    for steps in 0..40 {
        let mut world = World::new();
        for _ in 0..steps {
            if world.booting {
                world.hello();
            }
            world.step();
        }
        let from = world.state();
        world.delete();
        for _ in 0..20 {
            world.run();
            world.pass(6);
        }
        assert!(world.gone, "from {from:?}: {:?} {}", world.state(), world.reason());
        assert!(!world.memory().disk_dirty, "from {from:?}");
    }
}
