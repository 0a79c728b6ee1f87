//! How long a second claimant is waited for, to the second.

use firesteel_plan::host::{ClaimInputs, ResolvedClaim};
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::host_journal::{ClaimRecord, Claimant};
use jiff::{SignedDuration, Timestamp};

use crate::world::{HardOff, World, run_to_write};

/// A host whose image is written when `bb` claims the attempt of `aa`; `change` is what its BMC is like.
fn claimed(mut world: World, change: fn(&mut World)) -> World {
    if world.seen.host.spec.bmc.is_none() {
        world.settle();
        world.hello();
    }
    run_to_write(&mut world);
    change(&mut world);
    let attempt = world.memory().attempt;
    let machine = |key: &str| Claimant { key: key.into(), attempt, first_at: world.now, ..Claimant::default() };
    world.seen.claim = Some(ClaimRecord { attempt, first: machine("aa"), others: vec![machine("bb")] });
    world.settle();
    world
}

/// Passes time; the bound agent reports, and the host is stepped some times.
fn go_on(world: &mut World, seconds: i64) {
    world.pass(seconds);
    let now = world.now;
    world.agent().last_report_at = now;
    (0..3).for_each(|_| drop(world.step()));
}

fn person(world: &World) -> Option<String> {
    world.memory().claimants.as_ref().and_then(|claims| claims.person.clone())
}

#[test]
fn a_power_off_that_is_not_seen_is_a_persons_matter_after_two_minutes() {
    type Change = fn(&mut World);
    let rows: [(Change, &str); 3] = [
        (|world| world.hard_off = HardOff::Ignored, "does not show that the host is off)"),
        (|world| world.hard_off = HardOff::Refused, "(the BMC did not accept power-off)"),
        (|world| world.bmc_answers = false, "(the BMC does not answer)"),
    ];
    for (change, part) in rows {
        let mut world = claimed(World::new(), change);
        go_on(&mut world, 120);
        assert_eq!(person(&world), None, "{part}: {}", world.reason());
        go_on(&mut world, 1);
        let why = person(&world).unwrap_or_default();
        assert!(why.contains("not seen off within 2 min") && why.contains(part), "{part}: {why}");
    }
}

/// The order is shown until then.
#[test]
fn a_bmc_that_is_asked_is_waited_for() {
    let mut world = claimed(World::new(), |world| world.bmc_answers = false);
    go_on(&mut world, 60);
    assert_eq!(world.reason(), "telling the BMC to cut the power");
}

fn off_at(world: &World) -> Timestamp {
    world.memory().claimants.as_ref().unwrap().cut.as_ref().unwrap().off_at.unwrap()
}

#[test]
fn who_reports_is_listened_for_half_a_minute() {
    let mut world = claimed(World::new(), |_| {});
    let attempt = world.memory().attempt;
    assert_eq!(off_at(&world), world.now);
    go_on(&mut world, 29);
    assert!(world.memory().attempt == attempt && world.memory().claimants.is_some(), "{}", world.reason());
    go_on(&mut world, 1);
    assert!(world.memory().attempt > attempt && world.memory().claimants.is_none(), "{}", world.reason());
}

/// What was on its way when the power went names no machine.
#[test]
fn a_machine_is_named_for_what_it_says_ten_seconds_after_the_power_off() {
    for (said_s, is_named) in [(9, false), (10, false), (11, true)] {
        let mut world = claimed(World::new(), |_| {});
        let at = off_at(&world) + SignedDuration::from_secs(said_s);
        world.seen.claims_heard = vec![ClaimInputs { key: "bb".into(), at, cannot_stop: false }];
        go_on(&mut world, 30);
        let named: Vec<&str> = world.memory().intruders.iter().map(|known| known.machine.key.as_str()).collect();
        assert_eq!(named, if is_named { vec!["bb"] } else { vec![] }, "{said_s}");
    }
}

/// Who falls silent does not set the count of the power-offs back; a person's word does.
#[test]
fn the_power_offs_in_a_row_are_counted_until_a_person_decides() {
    for (is_by_word, cuts) in [(false, 2), (true, 0)] {
        let mut world = claimed(World::without_bmc(), |world| {
            world.seen.memory.resolved_claim = Some(ResolvedClaim { at: world.now, by: "power".into(), cuts: 2 });
        });
        if is_by_word {
            world.annotate(annotations::CHOOSE_AGENT, annotations::NO_CLAIMANT);
        } else {
            world.agent().rebooted = true;
        }
        world.step();
        let resolved = world.memory().resolved_claim.as_ref().map(|resolved| resolved.cuts);
        assert_eq!((resolved, world.memory().claimants.as_ref()), (Some(cuts), None), "{is_by_word}");
    }
}
