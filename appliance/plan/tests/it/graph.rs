//! The graph of states against upstream's.

use std::{collections::BTreeSet, path::Path};

use firesteel_plan::host::graph::{EDGES, Whose};

#[test]
fn upstreams_changes_are_all_here_and_ours_are_marked() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/vectors/baremetalhost-transitions.json");
    let Ok(text) = std::fs::read_to_string(&file) else {
        println!("skipped: the fixtures are not beside the project ({})", file.display());
        return;
    };
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let theirs: BTreeSet<(String, String)> = rows
        .iter()
        .map(|row| (row["from"].as_str().unwrap().to_owned(), row["to"].as_str().unwrap().to_owned()))
        .filter(|(from, to)| from != "*" && to != "(gone)")
        .collect();
    let ours: BTreeSet<(String, String)> = EDGES
        .iter()
        .filter(|(_, _, whose)| *whose == Whose::Upstream)
        .map(|(from, to, _)| (from.word().to_owned(), to.word().to_owned()))
        .collect();
    let beyond: Vec<_> = ours.difference(&theirs).collect();
    assert_eq!(beyond, Vec::<&(String, String)>::new(), "not upstream's");
    // Upstream gives up cleaning a host with a registration error by going straight to deleting;
    // here it is switched off like any other, where that can be done.
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert_eq!(missing, [&("deprovisioning".to_owned(), "deleting".to_owned())]);
    assert!(rows.len() >= 31);
}
