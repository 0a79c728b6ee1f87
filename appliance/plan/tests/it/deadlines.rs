//! Every state that works has a deadline, which progress extends, a reason, and an exit.

use firesteel_plan::HostEffect;
use firesteel_plan::host::{AgentWork, HostPower, ImageInputs};
use firesteel_resources::bare_metal_host::{OperationalStatus, ProvisioningState as S, annotations};
use jiff::Timestamp;

use crate::world::{World, run_to_write, with_work};

/// A host that got stuck in a state, by what stopped there, and whether its agent still reports.
type Stuck = (&'static str, S, bool, fn() -> World);

fn in_registering() -> World {
    let mut world = World::new();
    world.step();
    world.bmc_answers = false;
    world
}

fn in_inspection_without_boot() -> World {
    let mut world = World::new();
    world.settle();
    world
}

fn in_inspection_without_progress() -> World {
    let mut world = World::new();
    world.agent_works = false;
    for _ in 0..20 {
        if world.booting {
            world.hello();
        }
        world.step();
    }
    let running = AgentWork::Running { step: "inspect".into(), activity: String::new(), percent: 1 };
    with_work(&mut world, running);
    world
}

fn in_provisioning_without_image() -> World {
    let mut world = World::new();
    world.images_work = false;
    let progress_at = world.now;
    world.seen.image = ImageInputs::Fetching { done_bytes: 1, total_bytes: None, progress_at };
    world.run();
    world
}

fn in_provisioning_behind_other_images() -> World {
    let mut world = World::new();
    world.images_work = false;
    world.seen.image = ImageInputs::Waiting { ahead: 2, moved_at: world.now };
    world.run();
    assert!(world.reason().contains("2 other images come before it"), "{}", world.reason());
    world
}

fn in_provisioning_without_progress() -> World {
    let mut world = World::new();
    run_to_write(&mut world);
    world
}

fn in_deprovisioning_without_boot() -> World {
    let mut world = World::new();
    world.run();
    world.edit(|host| host.spec.image = None);
    world.settle();
    world
}

fn in_power_off() -> World {
    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    world.run();
    world.seen.bmc.power = HostPower::On;
    world.power_works = false;
    world.delete();
    world.settle();
    world
}

const STUCK: [Stuck; 8] = [
    ("a BMC that never answers", S::Registering, false, in_registering),
    ("a host that never boots", S::Inspecting, false, in_inspection_without_boot),
    ("an inspection that stands still", S::Inspecting, true, in_inspection_without_progress),
    ("an image that never comes", S::Provisioning, true, in_provisioning_without_image),
    ("a queue of images that never moves", S::Provisioning, true, in_provisioning_behind_other_images),
    ("a write that stands still", S::Provisioning, true, in_provisioning_without_progress),
    ("a host that never boots to be cleaned", S::Deprovisioning, false, in_deprovisioning_without_boot),
    ("a host that does not go off", S::PoweringOff, false, in_power_off),
];

/// Time goes by; an agent that is there reports, and gets nowhere.
fn pass(world: &mut World, secs: i64, reports: bool) {
    world.pass(secs);
    let now = world.now;
    if reports && let Some(agent) = world.seen.agent.as_mut() {
        agent.last_report_at = now;
    }
    for _ in 0..3 {
        world.step();
    }
}

fn has_error(world: &World) -> bool {
    world.seen.host.status.as_ref().unwrap().operational_status == OperationalStatus::Error
}

#[test]
fn what_stands_still_is_an_error_by_its_deadline_and_says_why() {
    for (what, state, reports, make) in STUCK {
        let mut world = make();
        assert_eq!(world.state(), state, "{what}: {}", world.reason());
        let deadline = world.memory().deadline.unwrap_or_else(|| panic!("{what} has no deadline"));
        assert!(deadline > world.now && !has_error(&world), "{what}: {}", world.reason());
        let start = world.now;
        while world.now <= deadline && !has_error(&world) && world.state() == state {
            pass(&mut world, 30, reports);
        }
        pass(&mut world, 5, reports);
        assert!(has_error(&world) || world.state() != state, "{what}, since {start}: {}", world.reason());
        let step = world.last.as_ref().unwrap();
        assert!(!step.reason.text.is_empty() && step.reason.location.file().contains("src/host"), "{what}");
        let works = !matches!(world.state(), S::Available | S::Provisioned);
        assert_eq!(world.memory().deadline.is_some_and(|at| at > world.now), works, "{what}: there is a next one");
    }
}

#[test]
fn progress_extends_the_deadline_for_as_long_as_it_goes_on() {
    let mut world = World::new();
    run_to_write(&mut world);
    let mut last: Option<Timestamp> = None;
    for minute in 0_u8..200 {
        world.pass(60);
        let now = world.now;
        let agent = world.agent();
        (agent.last_report_at, agent.progress_at) = (now, now);
        agent.work = AgentWork::Running { step: "write-image".into(), activity: String::new(), percent: minute / 2 };
        world.settle();
        let deadline = world.memory().deadline.unwrap();
        assert!(deadline > world.now && last.is_none_or(|last| deadline > last), "minute {minute}");
        last = Some(deadline);
    }
    assert_eq!((world.state(), has_error(&world)), (S::Provisioning, false));

    let mut world = in_provisioning_without_image();
    for done_bytes in 2..100 {
        world.pass(300);
        let progress_at = world.now;
        world.seen.image = ImageInputs::Fetching { done_bytes, total_bytes: None, progress_at };
        world.settle();
        assert!(!has_error(&world), "{}", world.reason());
    }

    // Each image before it may take an hour.
    let mut world = in_provisioning_behind_other_images();
    for ahead in (0..12).rev() {
        for _ in 0..12 {
            world.pass(300);
            world.settle();
            assert!(!has_error(&world), "{}", world.reason());
        }
        world.seen.image = ImageInputs::Waiting { ahead, moved_at: world.now };
    }
}

/// Whatever stands still, one word lets go of it, and what was not cleaned is remembered.
#[test]
fn a_release_by_force_is_an_exit_from_every_state() {
    for (what, _, _, make) in STUCK {
        let mut world = make();
        let dirty = world.memory().disk_dirty;
        world.annotate(annotations::RELEASE_FORCE, "");
        if world.seen.host.metadata.deletion_timestamp.is_none() {
            world.delete();
        }
        world.step();
        assert_eq!(world.state(), S::Deleting, "{what}");
        world.step();
        assert!(world.gone, "{what}");
        assert_eq!(world.count(|effect| matches!(effect, HostEffect::Tombstone { .. })) > 0, dirty, "{what}");
    }
}

/// Somebody else's finalizer held the object, and nobody said so.
#[test]
fn a_deletion_that_waits_for_somebody_elses_finalizer_names_it() {
    let mut world = World::without_bmc();
    world.step();
    world.seen.host.metadata.finalizers.push("example.com/hold".into());
    world.delete();
    world.step();
    world.step();
    assert!(world.reason().contains("example.com/hold"), "{}", world.reason());
}
