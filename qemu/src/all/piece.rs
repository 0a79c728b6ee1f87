//! The pieces of `test --all`, each of which passes or fails by itself, and how they are dealt out to parts. Pure.

use std::{collections::BTreeMap, fmt, str::FromStr};

use anyhow::bail;
use jiff::Timestamp;

use super::record::PieceEnd;
use crate::{scenario::SelectedScenario, suites::SuiteSlice};

/// Slices of the unit, property and process tests: a run that is stopped loses one of them at most.
const SLICES: u32 = 4;
/// Each part builds what its pieces need.
const PARTS_MAX: usize = 20;
/// The longest reason of a failed piece in the table; its log has more.
const WHY_CHARS_MAX: usize = 100;

#[derive(Clone, Debug)]
pub(super) enum TestPiece {
    Simulation,
    Suite(SuiteSlice),
    Scenario(SelectedScenario),
}

impl TestPiece {
    /// All pieces, the longest first; without cargo-nextest the tests are not sliced.
    pub(super) fn all(has_nextest: bool) -> anyhow::Result<Vec<Self>> {
        let count = if has_nextest { SLICES } else { 1 };
        let slices = (1..=count).map(|index| Self::Suite(SuiteSlice { index, count }));
        let scenarios = SelectedScenario::all()?.into_iter().map(Self::Scenario);
        Ok(std::iter::once(Self::Simulation).chain(slices).chain(scenarios).collect())
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Simulation => "simulation".to_owned(),
            Self::Suite(slice) => format!("tests-{}-of-{}", slice.index, slice.count),
            Self::Scenario(chosen) => chosen.to_string(),
        }
    }
}

/// One of so many parts of all pieces, written `1/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOfAll {
    index: usize,
    count: usize,
}

impl PartOfAll {
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// Pieces are dealt out like cards, so that each part has its share of the long ones, and the same at each run.
    fn has(self, place: usize) -> bool {
        place % self.count == self.index - 1
    }

    pub(super) fn of<T>(self, pieces: Vec<T>) -> Vec<T> {
        pieces.into_iter().enumerate().filter(|(place, _)| self.has(*place)).map(|(_, piece)| piece).collect()
    }
}

impl fmt::Display for PartOfAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for PartOfAll {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parts = text.split_once('/');
        let numbers: Option<(usize, usize)> =
            parts.and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if 1 <= index && index <= count && count <= PARTS_MAX => Ok(Self { index, count }),
            Some(_) | None => bail!("{text:?} is no part: give I/N, such as 1/3, with N up to {PARTS_MAX}"),
        }
    }
}

/// Whether nothing is left to go on with, so that a run begins at its start: each piece has passed.
pub(super) fn is_complete(names: &[String], ends: &BTreeMap<String, PieceEnd>) -> bool {
    names.iter().all(|name| has_passed(ends, name))
}

pub(super) fn has_passed(ends: &BTreeMap<String, PieceEnd>, name: &str) -> bool {
    ends.get(name).is_some_and(|end| end.failure.is_none())
}

/// The table of a run, and its counts.
pub(super) fn summary(title: &str, names: &[String], ends: &BTreeMap<String, PieceEnd>, begun_at: Timestamp) -> String {
    let mut text = format!("{title}\n{:24}  minutes  result\n", "piece");
    let (mut passed, mut failed, mut seconds) = (0, 0, 0);
    for name in names {
        let Some(end) = ends.get(name) else {
            line(&mut text, name, None, "not run");
            continue;
        };
        seconds += end.seconds;
        let when = if end.ended_at < begun_at { " before" } else { "" };
        match &end.failure {
            None => {
                passed += 1;
                line(&mut text, name, Some(end.seconds), &format!("passed{when}"));
            }
            Some(why) => {
                failed += 1;
                let why: String = why.lines().next().unwrap_or_default().chars().take(WHY_CHARS_MAX).collect();
                line(&mut text, name, Some(end.seconds), &format!("FAILED{when}: {why}"));
            }
        }
    }
    line(&mut text, "together", Some(seconds), "");
    let missing = names.len() - passed - failed;
    let missing = if missing == 0 { String::new() } else { format!(", {missing} not run") };
    text + &format!("{passed} passed, {failed} failed{missing}\n")
}

fn line(text: &mut String, name: &str, seconds: Option<u64>, result: &str) {
    let minutes = seconds.map_or("–".to_owned(), |seconds| format!("{}.{}", seconds / 60, seconds % 60 / 6));
    let line = format!("{name:24}  {minutes:>7}  {result}");
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn end(second: i64, failure: Option<&str>) -> PieceEnd {
        let ended_at = Timestamp::from_second(second).unwrap();
        PieceEnd { seconds: 90, ended_at, failure: failure.map(str::to_owned) }
    }

    #[test]
    fn parts_share_all_pieces_out_and_none_twice() {
        let names: Vec<String> = TestPiece::all(true).unwrap().iter().map(TestPiece::name).collect();
        let all: BTreeSet<&String> = names.iter().collect();
        assert_eq!(all.len(), names.len(), "names are unique");
        assert!(names.len() > 30 && names.contains(&"tests-4-of-4".to_owned()), "{names:?}");
        assert_eq!(TestPiece::all(false).unwrap().len() + 3, names.len());
        for count in 1..=PARTS_MAX {
            let parts = (1..=count).map(|index| PartOfAll { index, count }.of(names.clone()));
            let parts: Vec<Vec<String>> = parts.collect();
            let sizes: BTreeSet<usize> = parts.iter().map(Vec::len).collect();
            assert!(sizes.len() <= 2, "{sizes:?}");
            let dealt: Vec<String> = parts.concat();
            assert_eq!(dealt.len(), names.len());
            assert_eq!(dealt.iter().collect::<BTreeSet<_>>(), all);
        }
        assert_eq!(PartOfAll::WHOLE.of(names.clone()), names);
    }

    #[test]
    fn a_part_is_a_number_of_a_number() {
        assert_eq!("2/3".parse::<PartOfAll>().unwrap(), PartOfAll { index: 2, count: 3 });
        assert_eq!("1/1".parse::<PartOfAll>().unwrap(), PartOfAll::WHOLE);
        assert_eq!(PartOfAll { index: 2, count: 3 }.to_string(), "2/3");
        for bad in ["", "1", "0/3", "4/3", "1/0", "0/0", "-1/3", "1/21", "a/b", "1/2/3"] {
            assert!(bad.parse::<PartOfAll>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_passed_is_not_run_again_until_all_has() {
        let names = ["a", "b"].map(str::to_owned);
        let mut ends = BTreeMap::from([("a".to_owned(), end(1, None)), ("b".to_owned(), end(1, Some("no")))]);
        assert!(has_passed(&ends, "a") && !has_passed(&ends, "b") && !has_passed(&ends, "c"));
        assert!(!is_complete(&names, &ends));
        ends.insert("b".to_owned(), end(2, None));
        assert!(is_complete(&names, &ends));
    }

    #[test]
    fn the_summary_tells_what_passed_failed_and_did_not_run() {
        let names = ["life", "pool", "bond", "vlan"].map(str::to_owned);
        let ends = BTreeMap::from([
            ("life".to_owned(), end(5, None)),
            ("pool".to_owned(), end(20, None)),
            ("bond".to_owned(), end(20, Some("no link\nand more"))),
        ]);
        let text = summary("of this", &names, &ends, Timestamp::from_second(10).unwrap());
        assert_eq!(
            text,
            "\
of this
piece                     minutes  result
life                          1.5  passed before
pool                          1.5  passed
bond                          1.5  FAILED: no link
vlan                            –  not run
together                      4.5
2 passed, 1 failed, 1 not run
"
        );
        let text = summary("of this", &names[..1], &ends, Timestamp::from_second(10).unwrap());
        assert!(text.ends_with("\n1 passed, 0 failed\n"), "{text}");
    }
}
