//! Mutants as cargo-mutants lists and names them, and how they end. Pure.

use std::{collections::BTreeMap, fmt};

use anyhow::{Context as _, bail, ensure};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A change of the code at one place.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ListedMutant {
    /// `FILE:LINE:COLUMN: CHANGE`; each is there once.
    pub(super) name: String,
    pub(super) file: String,
    span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Span {
    start: MutantLine,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct MutantLine {
    line: usize,
}

impl ListedMutant {
    /// The number of the line, from 1.
    pub(super) fn line(&self) -> usize {
        self.span.start.line
    }

    /// What is changed, without the place.
    pub(super) fn change(&self) -> &str {
        self.name.split_once(": ").map_or(self.name.as_str(), |(_, change)| change)
    }

    /// An expression that this mutant's name alone fits.
    pub(super) fn pattern(&self) -> String {
        let mut pattern = String::from("^");
        for character in self.name.chars() {
            if r"\.+*?()|[]{}^$#&-~".contains(character) {
                pattern.push('\\');
            }
            pattern.push(character);
        }
        pattern.push('$');
        pattern
    }
}

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MutantEnd {
    /// A test failed.
    Caught,
    /// The tests did not end.
    TimedOut,
    /// All tests passed.
    Missed,
    /// It does not compile.
    Unviable,
}

impl MutantEnd {
    pub(super) fn is_noticed(self) -> bool {
        matches!(self, Self::Caught | Self::TimedOut)
    }
}

impl fmt::Display for MutantEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caught => "caught",
            Self::TimedOut => "timed out",
            Self::Missed => "missed",
            Self::Unviable => "unviable",
        })
    }
}

/// The ends of mutants by their names.
pub(super) type MutantEnds = BTreeMap<String, MutantEnd>;

/// Reads the output of `cargo mutants --list --json`.
pub(super) fn read_list(text: &[u8]) -> anyhow::Result<Vec<ListedMutant>> {
    let mut mutants: Vec<ListedMutant> = serde_json::from_slice(text).context("reading the list of mutants")?;
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    mutants.dedup_by(|a, b| a.name == b.name);
    Ok(mutants)
}

/// Reads `outcomes.json`. Tests that fail without any change make every result worthless.
pub(super) fn read_outcomes(text: &[u8]) -> anyhow::Result<MutantEnds> {
    let read: Value = serde_json::from_slice(text).context("reading the outcomes of mutants")?;
    let mut ends = MutantEnds::new();
    for outcome in read["outcomes"].as_array().context("there are no outcomes")? {
        let summary = outcome["summary"].as_str().unwrap_or_default();
        let Some(name) = outcome["scenario"]["Mutant"]["name"].as_str() else {
            ensure!(summary == "Success", "the tests do not pass as the code stands: run `./qemu/lab test` first");
            continue;
        };
        let end = match summary {
            "CaughtMutant" => MutantEnd::Caught,
            "Timeout" => MutantEnd::TimedOut,
            "MissedMutant" => MutantEnd::Missed,
            "Unviable" => MutantEnd::Unviable,
            other => bail!("cargo-mutants says {other:?} of {name}"),
        };
        ends.insert(name.to_owned(), end);
    }
    Ok(ends)
}

/// Puts mutants into an order by chance, the same for the same seed: one that is new or gone moves no other.
pub(super) fn shuffled(mut mutants: Vec<ListedMutant>, seed: u64) -> Vec<ListedMutant> {
    let key = |mutant: &ListedMutant| {
        let text = [&seed.to_be_bytes()[..], mutant.name.as_bytes()].concat();
        digest(&SHA256, &text).as_ref().to_vec()
    };
    mutants.sort_by_cached_key(key);
    mutants
}

/// The first mutants of the order of which so many are viable, as far as their ends are known; all where there are not as
/// many.
pub(super) fn drawn<'a>(order: &'a [ListedMutant], ends: &MutantEnds, viable: usize) -> Vec<&'a ListedMutant> {
    let mut missing = viable;
    let is_wanted = |mutant: &&ListedMutant| {
        let is_drawn = missing > 0;
        if ends.get(&mutant.name) != Some(&MutantEnd::Unviable) {
            missing = missing.saturating_sub(1);
        }
        is_drawn
    };
    order.iter().take_while(is_wanted).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use super::*;

    pub(crate) fn mutant(file: &str, line: usize, change: &str) -> ListedMutant {
        let span = Span { start: MutantLine { line } };
        ListedMutant { name: format!("{file}:{line}:9: {change}"), file: file.to_owned(), span }
    }

    /// The list as cargo-mutants 27.1.0 writes it.
    const LIST: &str = r#"[{"name": "a/src/b.rs:3:9: replace > with == in f::<T>", "package": "a", "file": "a/src/b.rs",
        "function": {"function_name": "f", "return_type": "-> bool", "span": {"start": {"line": 1, "column": 1},
        "end": {"line": 5, "column": 2}}}, "span": {"start": {"line": 3, "column": 9}, "end": {"line": 3, "column": 10}},
        "replacement": "==", "genre": "BinaryOperator", "diff": "--- a"}]"#;

    #[test]
    fn the_list_is_read() {
        let list = read_list(LIST.as_bytes()).unwrap();
        let [only] = list.as_slice() else { panic!("{list:?}") };
        assert_eq!((only.file.as_str(), only.line(), only.change()), ("a/src/b.rs", 3, "replace > with == in f::<T>"));
        assert_eq!(only.pattern(), r"^a/src/b\.rs:3:9: replace > with == in f::<T>$");
        assert_eq!(mutant("a", 1, "f() -> [u8] {}").pattern(), r"^a:1:9: f\(\) \-> \[u8\] \{\}$");
    }

    #[test]
    fn the_outcomes_are_read_and_those_of_failing_tests_are_not() {
        let outcomes = |baseline: &str, summary: &str| {
            let mutant = format!(r#"{{"scenario": {{"Mutant": {{"name": "a"}}}}, "summary": "{summary}"}}"#);
            format!(r#"{{"outcomes": [{{"scenario": "Baseline", "summary": "{baseline}"}}, {mutant}]}}"#)
        };
        for (summary, end) in [
            ("CaughtMutant", MutantEnd::Caught),
            ("MissedMutant", MutantEnd::Missed),
            ("Timeout", MutantEnd::TimedOut),
            ("Unviable", MutantEnd::Unviable),
        ] {
            let read = read_outcomes(outcomes("Success", summary).as_bytes()).unwrap();
            assert_eq!(read, MutantEnds::from([("a".to_owned(), end)]));
        }
        assert!(read_outcomes(outcomes("Failure", "CaughtMutant").as_bytes()).is_err());
        assert!(read_outcomes(outcomes("Success", "Failure").as_bytes()).is_err());
        assert!(read_outcomes(b"{}").is_err());
    }

    fn names(mutants: &[ListedMutant]) -> Vec<&str> {
        mutants.iter().map(|mutant| mutant.name.as_str()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let mutants: Vec<_> = (1..50).map(|line| mutant("a", line, "x")).collect();
        let order = shuffled(mutants.clone(), 7);
        let mut reversed = mutants.clone();
        reversed.reverse();
        assert_eq!(shuffled(reversed, 7), order);
        assert_ne!(shuffled(mutants.clone(), 8), order);
        assert_ne!(order, mutants);
        let fewer: Vec<_> = order.iter().filter(|mutant| mutant.line() != 9).cloned().collect();
        assert_eq!(names(&shuffled(mutants[..8].iter().chain(&mutants[9..]).cloned().collect(), 7)), names(&fewer));
    }

    #[test]
    fn a_sample_has_so_many_that_compile() {
        let order: Vec<_> = (1..7).map(|line| mutant("a", line, "x")).collect();
        let lines =
            |ends: &MutantEnds, viable| drawn(&order, ends, viable).iter().map(|mutant| mutant.line()).sum::<usize>();
        let mut ends = MutantEnds::new();
        assert_eq!((lines(&ends, 0), lines(&ends, 2), lines(&ends, 9)), (0, 3, 21));
        ends.insert(order[0].name.clone(), MutantEnd::Unviable);
        ends.insert(order[1].name.clone(), MutantEnd::Missed);
        assert_eq!(lines(&ends, 2), 6, "the third takes the place of the first");
    }
}
