//! The graph of states against upstream's.

use std::collections::BTreeSet;

use firesteel_plan::host::transitions::{EDGES, TransitionOwner, is_legal};
use firesteel_resources::bare_metal_host::ProvisioningState as S;
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};

use crate::properties::{happen, happening};
use crate::world::World;

/// Lives after which a change that was never made counts as impossible.
const STORIES_MAX: usize = 20_000;

#[test]
fn upstreams_changes_are_all_here_and_ours_are_marked() {
    let Some(text) = firesteel_fixtures::text("vectors/baremetalhost-transitions.json") else { return };
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let theirs: BTreeSet<(String, String)> = rows
        .iter()
        .map(|row| (row["from"].as_str().unwrap().to_owned(), row["to"].as_str().unwrap().to_owned()))
        .filter(|(from, to)| from != "*" && to != "(gone)")
        .collect();
    let ours: BTreeSet<(String, String)> = EDGES
        .iter()
        .filter(|(_, _, whose)| *whose == TransitionOwner::Upstream)
        .map(|(from, to, _)| (from.word().to_owned(), to.word().to_owned()))
        .collect();
    let beyond: Vec<_> = ours.difference(&theirs).collect();
    assert_eq!(beyond, Vec::<&(String, String)>::new(), "not upstream's");
    let missing: BTreeSet<_> = theirs.difference(&ours).cloned().collect();
    let known: Vec<serde_json::Value> = serde_json::from_str(include_str!("missing.json")).unwrap();
    let known: BTreeSet<_> = known
        .iter()
        .map(|row| {
            assert!(row["why"].as_str().is_some_and(|why| !why.is_empty()), "{row}");
            (row["from"].as_str().unwrap().to_owned(), row["to"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(missing, known, "each change of upstream's that is not made has its reason");
    assert!(rows.len() >= 31);
}

/// Firesteel's own, and what upstream's "from any state to deleting" is in words.
#[test]
fn own_changes_are_those_of_the_list() {
    let rows: Vec<serde_json::Value> = serde_json::from_str(include_str!("transitions.json")).unwrap();
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap().to_owned();
    let listed: BTreeSet<(String, String)> = rows.iter().map(|row| (text(row, "from"), text(row, "to"))).collect();
    let ours: BTreeSet<(String, String)> = EDGES
        .iter()
        .filter(|(_, _, whose)| *whose != TransitionOwner::Upstream)
        .map(|(from, to, _)| (from.word().to_owned(), to.word().to_owned()))
        .collect();
    assert_eq!(ours, listed);
    assert_eq!(rows.len(), listed.len());
}

#[test]
fn a_change_that_is_in_no_table_is_not_legal() {
    let states = [
        S::New,
        S::Unmanaged,
        S::Registering,
        S::Inspecting,
        S::Preparing,
        S::Available,
        S::Provisioning,
        S::Provisioned,
        S::ExternallyProvisioned,
        S::Deprovisioning,
        S::PoweringOff,
        S::Deleting,
    ];
    let pairs = states.into_iter().flat_map(|from| states.map(|to| (from, to)));
    let legal = pairs.filter(|(from, to)| is_legal(*from, *to)).count();
    assert_eq!(legal, states.len() + EDGES.len(), "those of the table, and to stay");
    assert!(!is_legal(S::Provisioned, S::Provisioning) && !is_legal(S::Deleting, S::Available));
}

/// Random lives until the planner has made every change of the table; another one would be a bug that the
/// properties find.
#[test]
fn every_change_of_the_table_is_made_by_the_planner() {
    let mut made = BTreeSet::new();
    let mut runner = TestRunner::deterministic();
    let stories = prop::collection::vec(happening(), 20..120);
    for number in 0..STORIES_MAX {
        let mut world = if number % 4 == 0 { World::without_bmc() } else { World::new() };
        for what in stories.new_tree(&mut runner).unwrap().current() {
            happen(&mut world, &what);
            for _ in 0..3 {
                let before = world.state();
                let after = world.step().memory.state.word();
                made.insert((before, after));
            }
            if world.gone {
                break;
            }
        }
        if EDGES.iter().all(|(from, to, _)| made.contains(&(*from, *to))) {
            let beyond: Vec<_> = made.iter().filter(|(from, to)| !is_legal(*from, *to)).collect();
            assert_eq!(beyond, Vec::<&(S, S)>::new());
            return;
        }
    }
    let missing: Vec<_> = EDGES.iter().filter(|(from, to, _)| !made.contains(&(*from, *to))).collect();
    panic!("not made in {STORIES_MAX} lives: {missing:?}");
}
