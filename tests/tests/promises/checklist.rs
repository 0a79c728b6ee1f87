//! The checklist of the specification, S0.1 to S4.28: each clause of each line, and the tests that hold it or what a
//! user does instead, read from `tests/checklist.toml`, checked against the sources, printed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::{REASON_CHARS_MIN, fault_of, repository};

/// The chapters of the specification, and the last line of each. All lines must be there.
static CHAPTERS: [(&str, u32); 5] = [("S0", 30), ("S1", 30), ("S2", 25), ("S3", 36), ("S4", 28)];
/// The lines that have several clauses. A clause that goes is seen here.
static CLAUSES: [(&str, usize); 54] = [
    ("S0.2", 2),
    ("S0.4", 2),
    ("S0.5", 5),
    ("S0.20", 2),
    ("S0.26", 5),
    ("S0.28", 2),
    ("S1.1", 2),
    ("S1.4", 2),
    ("S1.5", 5),
    ("S1.7", 3),
    ("S1.8", 3),
    ("S1.9", 2),
    ("S1.10", 2),
    ("S1.13", 2),
    ("S1.14", 2),
    ("S1.15", 2),
    ("S1.16", 2),
    ("S1.18", 2),
    ("S1.20", 3),
    ("S1.21", 2),
    ("S1.22", 4),
    ("S1.23", 4),
    ("S1.25", 3),
    ("S1.26", 2),
    ("S1.27", 2),
    ("S1.28", 4),
    ("S1.29", 4),
    ("S1.30", 2),
    ("S2.21", 2),
    ("S3.4", 2),
    ("S3.9", 2),
    ("S3.10", 2),
    ("S3.11", 2),
    ("S3.15", 3),
    ("S3.16", 4),
    ("S3.17", 3),
    ("S3.18", 3),
    ("S3.19", 3),
    ("S3.20", 6),
    ("S3.21", 7),
    ("S3.22", 2),
    ("S3.23", 2),
    ("S3.24", 4),
    ("S3.25", 3),
    ("S3.26", 2),
    ("S3.27", 4),
    ("S3.28", 2),
    ("S3.29", 3),
    ("S3.30", 3),
    ("S3.31", 3),
    ("S3.35", 3),
    ("S4.1", 2),
    ("S4.19", 2),
    ("S4.26", 2),
];

/// Each line, and in how many clauses it must be there.
fn lines() -> impl Iterator<Item = (String, usize)> {
    let numbers = CHAPTERS.iter().flat_map(|(chapter, last)| (1..=*last).map(move |line| format!("{chapter}.{line}")));
    numbers.map(|line| {
        let clauses = CLAUSES.iter().find(|(several, _)| *several == line).map_or(1, |(_, clauses)| *clauses);
        (line, clauses)
    })
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checklist {
    clause: Vec<Clause>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Clause {
    line: String,
    clause: String,
    held_by: Vec<String>,
    not_built: String,
    instead: String,
}

fn read() -> Checklist {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("checklist.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What is wrong with the table; the sources are looked up below `root`.
fn faults(table: &Checklist, root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut told_before = BTreeSet::new();
    for Clause { line, clause, held_by, not_built, instead } in &table.clause {
        *counts.entry(line.as_str()).or_default() += 1;
        let told = format!("{line}, {clause}");
        if !told_before.insert(told.clone()) {
            faults.push(format!("{told}: it stands twice"));
        }
        if clause.is_empty() {
            faults.push(format!("{line}: it does not say what is to be"));
        }
        if held_by.is_empty() && not_built.len() < REASON_CHARS_MIN {
            faults.push(format!("{told}: no test holds it, and no reason is given"));
        }
        if not_built.is_empty() != (instead.len() < REASON_CHARS_MIN) {
            faults.push(format!("{told}: what is not built says what a user does instead, and nothing else does"));
        }
        faults.extend(held_by.iter().filter_map(|test| Some(format!("{told}: {}", fault_of(test, root).err()?))));
    }
    for (line, clauses) in lines() {
        let found = counts.remove(line.as_str()).unwrap_or(0);
        if found != clauses {
            faults.push(format!("{line}: it has {found} clauses of {clauses}"));
        }
    }
    faults.extend(counts.keys().map(|line| format!("{line}: there is no such line")));
    faults
}

#[test]
fn every_clause_is_held_by_a_test() {
    let table = read();
    println!("{:7} WHAT IS TO BE, AND WHAT HOLDS IT", "LINE");
    for Clause { line, clause, held_by, not_built, instead } in &table.clause {
        println!("{line:7} {clause}");
        held_by.iter().for_each(|test| println!("          - {test}"));
        if !not_built.is_empty() {
            println!("          not built: {not_built}");
            println!("          instead: {instead}");
        }
    }
    let open = table.clause.iter().filter(|clause| clause.held_by.is_empty()).count();
    let lines: BTreeSet<&str> = table.clause.iter().map(|clause| clause.line.as_str()).collect();
    println!("{} lines, {} clauses, {open} of them not built", lines.len(), table.clause.len());
    let faults = faults(&table, &repository());
    assert!(faults.is_empty(), "tests/checklist.toml:\n{}", faults.join("\n"));
}

/// The check finds what it is for.
#[test]
fn a_wrong_checklist_is_found() {
    let good = read();
    type Spoil = fn(&mut Vec<Clause>);
    assert_eq!(lines().count(), 149);
    let cases: [(Spoil, &str); 9] = [
        (|all| all[1] = all[0].clone(), "stands twice"),
        (|all| drop(all.remove(3)), "clauses of"),
        (|all| all.retain(|clause| clause.line != "S2.7"), "S2.7: it has 0 clauses of 1"),
        (|all| all[0].line = "S3.99".into(), "there is no such line"),
        (|all| all[0].clause.clear(), "does not say"),
        (|all| all[0].not_built = "a part of it comes later".into(), "what a user does instead"),
        (|all| all[0].instead = "wait for it, as long as it takes".into(), "what a user does instead"),
        (|all| (all[0].held_by, all[0].not_built) = (Vec::new(), "later".into()), "no test holds it"),
        (|all| all[0].held_by = vec!["tests/tests/promises.rs no_such_test".into()], "has no function no_such_test"),
    ];
    for (spoil, text) in cases {
        let mut table = good.clone();
        spoil(&mut table.clause);
        let faults = faults(&table, &repository());
        assert!(faults.iter().any(|fault| fault.contains(text)), "{text}: {faults:?}");
    }
}
