//! How long an agent at work may get nowhere, or say nothing, to the second.

use firesteel_plan::host::{AgentWork, PlanKind, UserDataInputs};
use firesteel_resources::bare_metal_host::ProvisioningState as S;
use jiff::SignedDuration;

use crate::cleaning::{book, installed_for_a_claim, run_to_erase};
use crate::world::{World, run_to_write};

/// A host whose disks are erased for another owner; its agent does nothing.
fn erasing() -> World {
    let mut world = installed_for_a_claim();
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    run_to_erase(&mut world);
    world.agent_works = false;
    world
}

fn writing() -> World {
    let mut world = World::new();
    run_to_write(&mut world);
    world.agent_works = false;
    world
}

/// Passes time in which the agent gets nowhere, and was heard last so long ago.
fn stand_still(world: &mut World, seconds: i64, silent_s: i64) {
    world.pass(seconds);
    let heard = world.now - SignedDuration::from_secs(silent_s);
    world.agent().last_report_at = heard;
    world.step();
}

#[test]
fn a_standstill_is_named_and_is_an_error_after_its_whole_time() {
    let erase_stall = 762 * 60;
    for (world, stood_s, is_named, is_error) in [
        (writing(), 1800, false, false),
        (writing(), 1801, true, true),
        (erasing(), 1800, false, false),
        (erasing(), 1801, true, false),
        (erasing(), erase_stall, true, false),
        (erasing(), erase_stall + 1, true, true),
    ] {
        let mut world = world;
        stand_still(&mut world, stood_s, 0);
        let found = (world.reason().contains("no progress since"), world.memory().failure.is_some());
        assert_eq!(found, (is_named, is_error), "{stood_s}: {}", world.reason());
        assert_eq!(world.reason().contains("console"), is_error, "{}", world.reason());
    }
}

#[test]
fn the_silence_of_an_agent_that_erases_is_named_after_five_minutes() {
    for (cannot_stop, silent_s, is_named, is_spared) in [
        (false, 0, false, false),
        (false, 300, false, false),
        (false, 301, true, false),
        (true, 300, false, false),
        (true, 301, true, true),
    ] {
        let mut world = erasing();
        world.agent().cannot_stop = cannot_stop.then(|| "sanitize-crypto".into());
        stand_still(&mut world, 600, silent_s);
        let text = world.reason();
        assert!(text.contains("the agent runs erase-disk (5 %)"), "{text}");
        assert_eq!(text.contains("it was not heard since"), is_named, "{cannot_stop} {silent_s}: {text}");
        assert_eq!(text.contains("is not reset, because its drive"), is_spared, "{cannot_stop} {silent_s}: {text}");
    }
}

/// An agent that reports and has not begun does not have the plan, and does not get it with other user data.
#[test]
fn a_plan_that_has_not_begun_is_taken_back_only_where_its_user_data_changed() {
    for (heard_s, changed, expected) in [
        (10, true, S::Provisioning),
        (11, true, S::Deprovisioning),
        (11, false, S::Provisioning),
        (100, false, S::Provisioning),
    ] {
        let mut world = writing();
        (world.agent().plan, world.agent().work) = (0, AgentWork::Idle);
        if changed {
            world.seen.user_data = UserDataInputs::Ready { sha256: "other".into(), configs: vec!["worker".into()] };
        }
        stand_still(&mut world, heard_s, 0);
        assert_eq!(world.state(), expected, "{heard_s} {changed}: {}", world.reason());
    }
}

#[test]
fn a_write_that_broke_off_says_how() {
    type Change = fn(&mut World);
    let rows: [(Change, &str); 3] = [
        (|world| world.agent().rebooted = true, "the host booted again while its disk was being written"),
        (|world| world.agent().left = true, "the agent left without proof of the installation"),
        (|world| world.pass(301), "the agent went quiet while it had the write plan"),
    ];
    for (change, part) in rows {
        let mut world = writing();
        change(&mut world);
        world.step();
        let message = world.memory().failure.clone().map(|failure| failure.message).unwrap_or_default();
        assert!(message.contains(part) && world.state() == S::Deprovisioning, "{part}: {message}");
    }
}

/// The agent is there and erases nothing: that is no reason to wait for ever.
#[test]
fn a_deletion_gives_up_where_the_inspection_before_the_erasure_stands_still() {
    let mut world = installed_for_a_claim();
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    world.agent_works = false;
    for _ in 0..50 {
        if world.booting {
            world.hello();
        }
        world.step();
    }
    let plan = world.memory().plan.as_ref().map(|issued| issued.plan.clone());
    assert_eq!((world.state(), plan), (S::Deprovisioning, Some(PlanKind::Inspect)), "{}", world.reason());
    world.delete();
    let mut minutes = 0;
    while world.state() == S::Deprovisioning && minutes < 200 {
        stand_still(&mut world, 60, 0);
        minutes += 1;
    }
    assert!((60..70).contains(&minutes), "{minutes}: {}", world.reason());
    assert!(world.events.iter().any(|event| event.reason == "DeprovisioningGaveUp"));
}
