//! Mutants that no test can notice, because what they change changes nothing: `qemu/mutants.toml` names each with the
//! reason. An entry that no mutant fits, or whose mutant a test notices, is wrong and fails the check. Pure.

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::listed::{ListedMutant, MutantEnds};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EquivalentFile {
    #[serde(default)]
    equivalent: Vec<EquivalentMutant>,
}

/// One entry. A line's number changes with each edit above it, so the line's text stands for it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EquivalentMutant {
    file: String,
    /// The line on which the change begins, without the space around it.
    line: String,
    /// The change as cargo-mutants says it: `replace > with >= in decide`.
    change: String,
    /// Why it is no fault.
    pub(super) reason: String,
}

/// Reads the table.
pub(super) fn read(text: &str) -> anyhow::Result<Vec<EquivalentMutant>> {
    let file: EquivalentFile = toml::from_str(text).context("reading the table of equivalent mutants")?;
    for (index, entry) in file.equivalent.iter().enumerate() {
        ensure!(!entry.reason.trim().is_empty(), "{}: {:?} has no reason", entry.file, entry.change);
        let is_double = file.equivalent[..index].iter().any(|other| other.is_same(entry));
        ensure!(!is_double, "{}: {:?} is there twice", entry.file, entry.change);
    }
    Ok(file.equivalent)
}

impl EquivalentMutant {
    fn is_same(&self, other: &Self) -> bool {
        (&self.file, &self.line, &self.change) == (&other.file, &other.line, &other.change)
    }

    /// `line` is the text of the line on which the mutant's change begins.
    pub(super) fn fits(&self, mutant: &ListedMutant, line: &str) -> bool {
        self.file == mutant.file && self.change == mutant.change() && self.line == line.trim()
    }
}

/// What is wrong with the table, of the files of one part. `lines` gives the text of each mutant's line.
pub(super) fn faults(
    table: &[EquivalentMutant],
    all: &[ListedMutant],
    ends: &MutantEnds,
    lines: &impl Fn(&ListedMutant) -> String,
    is_of_part: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut faults = Vec::new();
    for entry in table.iter().filter(|entry| is_of_part(&entry.file)) {
        let fitting: Vec<_> = all.iter().filter(|mutant| entry.fits(mutant, &lines(mutant))).collect();
        if fitting.is_empty() {
            faults.push(format!("{}: no mutant is {:?} on the line {:?}", entry.file, entry.change, entry.line));
        }
        for mutant in fitting {
            if let Some(end) = ends.get(&mutant.name).filter(|end| end.is_noticed()) {
                faults.push(format!("{} is {end}, so it is not equivalent", mutant.name));
            }
        }
    }
    faults
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::mutants::listed::{MutantEnd, tests::mutant};

    const TABLE: &str = r#"
[[equivalent]]
file = "a.rs"
line = "if count > 3 {"
change = "replace > with >= in f"
reason = "count is never 3"
"#;

    #[test]
    fn an_entry_has_a_reason_and_is_there_once() {
        assert_eq!(read(TABLE).unwrap().len(), 1);
        assert!(read("").unwrap().is_empty());
        assert!(read(&TABLE.replace("count is never 3", " ")).is_err());
        assert!(read(&format!("{TABLE}{TABLE}")).is_err());
        assert!(read(&TABLE.replace("reason", "because")).is_err());
    }

    #[test]
    fn the_table_of_the_checkout_can_be_read() {
        read(include_str!("../../mutants.toml")).unwrap();
    }

    #[test]
    fn an_entry_that_fits_nothing_or_that_a_test_notices_is_wrong() {
        let table = read(TABLE).unwrap();
        let all = [mutant("a.rs", 7, "replace > with >= in f"), mutant("a.rs", 9, "replace > with >= in f")];
        let line = |mutant: &ListedMutant| {
            if mutant.line() == 7 { "    if count > 3 {".to_owned() } else { "while count > 3 {".to_owned() }
        };
        assert!(table[0].fits(&all[0], &line(&all[0])) && !table[0].fits(&all[1], &line(&all[1])));
        let mut ends = MutantEnds::new();
        let found = |ends: &MutantEnds, all: &[ListedMutant]| faults(&table, all, ends, &line, |file| file == "a.rs");
        assert!(found(&ends, &all).is_empty());
        ends.insert(all[0].name.clone(), MutantEnd::Missed);
        ends.insert(all[1].name.clone(), MutantEnd::Caught);
        assert!(found(&ends, &all).is_empty());
        for end in [MutantEnd::Caught, MutantEnd::TimedOut] {
            ends.insert(all[0].name.clone(), end);
            assert_eq!(found(&ends, &all).len(), 1);
        }
        assert_eq!(found(&ends, &all[1..]).len(), 1, "its line is gone");
        assert!(faults(&table, &all[1..], &ends, &line, |_| false).is_empty(), "of another part");
    }
}
