//! Many hosts, their owners and everything that goes wrong, from one seed; world after world.

use crate::counts::Counts;
use crate::executor::lock;
use crate::laws::Violation;
use crate::planted::{BUGS, Bug};
use crate::trouble::hosts_text;
use crate::world::{Setup, World};

/// Steps of one world before the faults stop.
const WORLD_STEPS: u64 = 60_000;
const MACHINES: usize = 10;
/// A change of state that does not come in so many steps has become impossible.
const STEPS_MAX: u64 = 6_000_000;
/// What a run of the tests makes, in two halves.
const STEPS: u64 = 1_000_000;
/// How often each change of state and each fault happens in a half of it.
pub(crate) const LEAST_OF_HALF: u64 = 500;
/// Steps of a half in which every fault is to have happened so often: the rest is for what came late.
const PACE_STEPS: u64 = STEPS / 2 * 9 / 10;
/// A fault is early as long as it has not happened this often.
const HEAD_START: u64 = 5;

/// How often each fault should have happened after so many steps: evenly over the whole run, for the
/// more goes wrong, the fewer hosts come to what lies deep.
pub(crate) fn pace(steps: u64) -> u64 {
    (HEAD_START + LEAST_OF_HALF * steps / PACE_STEPS).min(LEAST_OF_HALF)
}

/// Worlds until so many steps were made and everything has happened at least so often.
fn run(seed: u64, steps: u64, least: u64) -> Counts {
    let mut counts = Counts::default();
    let mut number = 0;
    while counts.steps < steps || (least > 0 && !counts.below(least).is_empty()) {
        assert!(counts.steps < STEPS_MAX, "still seen less than {least} times: {:?}", counts.below(least));
        let setup = Setup {
            seed: seed.wrapping_mul(1_000_003).wrapping_add(number),
            machines: MACHINES,
            wild: true,
            bug: None,
            so_far: counts.clone(),
        };
        match one_world(setup) {
            Ok((more, _)) => counts.add(&more),
            Err(story) => panic!("world {number} of seed {seed}: {story}"),
        }
        number += 1;
    }
    println!("seed {seed}: {number} worlds, {}", counts.text());
    counts
}

/// One world, from its first day to peace.
fn one_world(setup: Setup) -> Result<(Counts, u64), String> {
    let mut world = World::new(setup);
    match live(&mut world) {
        Ok(()) => {
            let mut counts = lock(&world.laws).counts.clone();
            world.kinds.iter().for_each(|(kind, count)| *counts.others.entry(kind).or_default() += count);
            Ok((counts, world.hash))
        }
        Err(violation) => Err(story(&world, &violation)),
    }
}

fn live(world: &mut World) -> Result<(), Violation> {
    while lock(&world.laws).counts.steps < WORLD_STEPS {
        if !world.step()? {
            break;
        }
    }
    world.settle()
}

fn story(world: &World, violation: &Violation) -> String {
    let steps = lock(&world.laws).counts.steps;
    format!(
        "(world's seed {}, step {steps}) {violation}\nlast events:\n{}hosts:\n{}",
        world.setup.seed,
        world.story(),
        hosts_text(&lock(&world.laws))
    )
}

/// A million steps and more in two halves, until everything was seen often enough. A part of it may be asked for, in
/// which everything is to be seen as often in proportion; or another length and another seed: such a run is as long as
/// it says.
#[test]
fn a_million_steps() {
    let asked = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (steps, seed) = (asked("FIRESTEEL_SIM_STEPS"), asked("FIRESTEEL_SIM_SEED").unwrap_or(1));
    let part = asked("FIRESTEEL_SIM_PART").unwrap_or(1).max(1);
    let least = if steps.is_none() { (LEAST_OF_HALF / part).max(1) } else { 0 };
    let steps = steps.unwrap_or(STEPS / part);
    let counts = std::thread::scope(|scope| {
        let run_half = |seed| scope.spawn(move || run(seed, steps.div_ceil(2), least));
        let halves = [seed, seed.wrapping_add(1)].map(run_half);
        let mut counts = Counts::default();
        for half in halves {
            counts.add(&half.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        counts
    });
    println!("together: {}", counts.text());
    assert!(counts.steps >= steps);
    if least > 0 {
        assert_eq!(counts.below(2 * least), Vec::<String>::new(), "seen too seldom");
        let gone = counts.others.get("deleting to (gone)").copied().unwrap_or(0);
        assert!(gone >= 2 * least, "hosts that went: {gone}");
        for what in ["erasures that are proven", "erasures that are unverified"] {
            let count = counts.others.get(what).copied().unwrap_or(0);
            assert!(count >= (least / 20).max(1), "{what}: {count}");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    let setup = || Setup { seed: 77, machines: 6, wild: true, bug: None, so_far: Counts::default() };
    let few = |mut world: World| {
        for _ in 0..6_000 {
            if let Err(violation) = world.step() {
                panic!("{}", story(&world, &violation));
            }
        }
        let counts = lock(&world.laws).counts.clone();
        (world.hash, counts.text())
    };
    let (first, second) = (few(World::new(setup())), few(World::new(setup())));
    assert_eq!(first.1, second.1);
    assert_eq!(first.0, second.0, "the events differ");
}

#[test]
fn every_planted_bug_is_found() {
    for (bug, law) in BUGS {
        let found = find(bug, 20);
        let Some((seed, violation)) = found else { panic!("{bug:?} was not found with seeds 1 to 20") };
        println!("{bug:?}: seed {seed}: {violation}");
        assert_eq!(violation.law, law, "{bug:?}, seed {seed}: {violation}");
    }
}

fn find(bug: Bug, seeds: u64) -> Option<(u64, Violation)> {
    (1..=seeds).find_map(|seed| {
        let wild = matches!(bug, Bug::ForgottenLeases | Bug::LostDeadlines);
        let setup = Setup { seed, machines: 5, wild, bug: Some(bug), so_far: Counts::default() };
        let mut world = World::new(setup);
        let steps = if wild { 8_000 } else { 0 };
        let early = (0..steps).find_map(|_| world.step().err());
        early.or_else(|| world.settle().err()).map(|violation| (seed, violation))
    })
}
