//! Deletions end: an obstacle that stays is no reason to wait for ever, but for what a person decided.

use firesteel_plan::HostEffect;
use firesteel_plan::host::{AgentWork, HostFailure, LineageInputs, NetworkDataInputs};
use firesteel_resources::bare_metal_host::{ErrorType, ProvisioningState as S, annotations};
use firesteel_resources::hardware::{DiskRecord, TableRecord};

use crate::world::{World, disk, with_work};

/// Minutes until the host is gone.
fn gone_after(world: &mut World, minutes_max: u32) -> Option<u32> {
    for minute in 0..minutes_max {
        world.settle();
        if world.gone {
            return Some(minute);
        }
        world.pass(60);
        if let Some(agent) = world.seen.agent.as_mut() {
            agent.last_report_at = world.now;
        }
    }
    None
}

fn gave_up(world: &World) -> bool {
    world.events.iter().any(|event| event.reason == "DeprovisioningGaveUp")
}

fn tombstones(world: &World) -> usize {
    world.count(|effect| matches!(effect, HostEffect::Tombstone { .. }))
}

#[test]
fn an_obstacle_that_stays_does_not_hold_a_deletion_up_for_ever() {
    type Obstacle = (&'static str, fn(&mut World));
    let obstacles: [Obstacle; 3] = [
        ("does not exist: create it", |world| world.seen.network_data = NetworkDataInputs::Missing),
        ("correct it there", |world| world.seen.network_data = NetworkDataInputs::Invalid("links".into())),
        ("belongs to host", |world| world.seen.mac_taken = Some((crate::world::MAC.into(), "default/b".into()))),
    ];
    for (text, obstacle) in obstacles {
        let mut world = World::new();
        world.run();
        obstacle(&mut world);
        world.edit(|host| host.spec.image = None);
        // It stood there for days before anybody asked for the host to go.
        for _ in 0..100 {
            world.settle();
            world.pass(3600);
        }
        assert!(world.reason().contains(text) && world.state() == S::Deprovisioning, "{}", world.reason());
        world.delete();
        let minutes = gone_after(&mut world, 200);
        assert!(minutes.is_some_and(|minutes| (30..40).contains(&minutes)), "{minutes:?} {}", world.reason());
        assert!(gave_up(&world) && tombstones(&world) > 0, "{text}");
        // One that goes in time is no reason to give up.
        let mut world = World::new();
        world.run();
        obstacle(&mut world);
        world.delete();
        assert_eq!(gone_after(&mut world, 25), None);
        (world.seen.network_data, world.seen.mac_taken) = (NetworkDataInputs::NotReferenced, None);
        world.pass(3600);
        world.run();
        world.pass(60);
        world.run();
        assert!(world.gone && !gave_up(&world) && tombstones(&world) == 0, "{text}: {}", world.reason());
    }
}

/// Nobody boots it.
#[test]
fn a_deletion_without_a_bmc_ends() {
    let mut world = World::without_bmc();
    world.settle();
    world.hello();
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    world.delete();
    assert!(gone_after(&mut world, 300).is_some(), "{}", world.reason());
    assert!(gave_up(&world) && tombstones(&world) > 0);
}

#[test]
fn a_bmc_call_that_never_ends_does_not_hold_a_deletion_up_for_ever() {
    let mut world = World::new();
    world.run();
    world.bmc_answers = false;
    world.delete();
    assert!(gone_after(&mut world, 200).is_some(), "{:?} {}", world.state(), world.reason());
    assert!(gave_up(&world) && tombstones(&world) > 0);
}

#[test]
fn what_a_person_decided_is_not_given_up() {
    let locked = |world: &mut World| world.annotate(annotations::LOCK, "audit");
    type Change = fn(&mut World);
    let changes: [(Change, &str); 3] = [
        (locked, "firesteel unlock"),
        (World::halt, "firesteel resume"),
        (
            |world| {
                let guid = firesteel_plan::InstallationMark { store: 9, timeline: 1, revision: 3 }.guid(1);
                world.disks = vec![DiskRecord { table: Some(TableRecord::Gpt { guid }), ..disk("sda", "A", 20) }];
                world.seen.hardware.as_mut().unwrap().disks.clone_from(&world.disks);
                world.seen.lineage = LineageInputs { store: 5, ..LineageInputs::default() };
            },
            "firesteel release a --force",
        ),
    ];
    for (change, exit) in changes {
        let mut world = World::new();
        world.run();
        world.edit(|host| host.spec.image = None);
        world.seen.network_data = NetworkDataInputs::Missing;
        world.settle();
        assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
        world.pass(3600);
        change(&mut world);
        world.delete();
        world.seen.network_data = NetworkDataInputs::NotReferenced;
        for _ in 0..20 {
            world.run();
            world.pass(600);
            if let Some(agent) = world.seen.agent.as_mut() {
                agent.last_report_at = world.now;
            }
        }
        assert!(!world.gone && !gave_up(&world), "{exit}: {}", world.reason());
        assert!(world.reason().contains(exit), "{exit}: {}", world.reason());
    }
}

/// Failures of weeks before gave a deletion up at once.
#[test]
fn failures_of_before_do_not_give_a_deletion_up_at_once() {
    let mut world = World::new();
    world.run();
    world.bmc_works = false;
    world.edit(|host| host.spec.image = None);
    for _ in 0..50 {
        world.run();
        world.pass(1800);
    }
    assert!(world.memory().clean_failures > 3, "{}", world.reason());
    world.bmc_works = true;
    world.delete();
    world.run();
    world.pass(6);
    world.run();
    assert!(world.gone && !gave_up(&world), "{:?} {}", world.state(), world.reason());
}

/// An obstacle that came after them did.
#[test]
fn failures_of_before_do_not_cut_an_obstacles_time_short() {
    let mut world = World::new();
    world.run();
    world.bmc_works = false;
    world.edit(|host| host.spec.image = None);
    for _ in 0..50 {
        world.run();
        world.pass(1800);
    }
    assert!(world.memory().clean_failures > 3, "{}", world.reason());
    world.bmc_works = true;
    world.seen.network_data = NetworkDataInputs::Missing;
    world.delete();
    let minutes = gone_after(&mut world, 200);
    assert!(minutes.is_some_and(|minutes| (30..40).contains(&minutes)), "{minutes:?} {}", world.reason());
}

/// The next cleaning began with the failures of the one that its owner stopped.
#[test]
fn failures_are_counted_anew_where_the_owner_comes_back() {
    let reference = serde_json::from_value(serde_json::json!({"kind": "HostClaim", "name": "one"})).unwrap();
    let mut world = World::new();
    world.edit(|host| host.spec.consumer_ref = Some(reference));
    let consumer = world.seen.host.spec.consumer_ref.clone();
    world.run();
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!(world.state(), S::Available, "{}", world.reason());
    world.edit(|host| host.spec.consumer_ref = None);
    world.agent_works = false;
    for _ in 0..4 {
        for _ in 0..10 {
            if world.booting {
                world.hello();
            }
            world.step();
        }
        with_work(
            &mut world,
            AgentWork::Failed { step: "erase-disk".into(), message: "ceph".into(), disk_changed: false },
        );
        world.step();
        world.pass(1800);
        let now = world.now;
        world.agent().last_report_at = now;
    }
    assert!(world.state() == S::Preparing && world.memory().clean_failures >= 3, "{}", world.reason());
    world.edit(|host| host.spec.consumer_ref = consumer);
    world.run();
    assert_eq!((world.state(), world.memory().clean_failures), (S::Available, 0), "{}", world.reason());
}

/// Three failures are borne, the fourth ends it; one from before the deletion was asked for does not count as a try.
#[test]
fn a_cleaning_is_given_up_after_the_failure_beyond_the_bound_and_not_before() {
    let max = World::new().seen.limits.delete_failures_max;
    let cases = [(0, true, false), (max, true, false), (max + 1, true, true), (max + 2, true, true)];
    for (failures, is_since, expected) in cases.into_iter().chain([(max + 1, false, false)]) {
        let mut world = World::new();
        world.run();
        world.seen.network_data = NetworkDataInputs::Missing;
        world.edit(|host| host.spec.image = None);
        world.settle();
        assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
        let before = world.now;
        world.pass(60);
        world.delete();
        let at = if is_since { world.now } else { before };
        world.seen.memory.clean_failures = failures;
        world.seen.memory.failure = Some(HostFailure {
            kind: ErrorType::Provisioning,
            message: "ceph".into(),
            count: failures,
            at,
            retry_at: Some(world.now),
            until_edit: false,
            inputs: String::new(),
        });
        world.step();
        assert_eq!(gave_up(&world), expected, "{failures} {is_since}: {}", world.reason());
        assert_eq!(world.state() == S::PoweringOff, expected);
    }
}
