//! `test --all`: the long tests and all scenarios, as pieces. What passed is on record for the files of this checkout, so
//! that a run which was stopped, or in which something failed, goes on with the rest when it is started again. A run in
//! which everything has passed is over: the next one begins at its start.
//!
//! ```text
//! first life   begin ─► pieces that are pending ─► the suites one after the other ─┐
//! second life  resume ─► the scenarios that are pending, in two lanes ─────────────┴─► record ─► summary
//! ```

mod piece;
mod record;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use piece::PartOfAll;
use piece::{TestPiece, has_passed, is_complete, summary};
use record::{PieceEnd, PieceRecord};

use crate::checkout::CheckoutState;
use crate::progress::{ProgressStep, print, print_status};
use crate::scenario::SelectedScenario;
use crate::suites;

/// The name of files whose digest is not known: no run of them is gone on with.
const UNKNOWN: &str = "unknown";

/// What a run began with; it goes from the first life to the second one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AllBegun {
    record: PathBuf,
    /// The checkout, where git knows the files.
    checkout: Option<CheckoutState>,
    at: Timestamp,
}

/// One run of `test --all`, or of a part of it.
#[derive(Debug)]
pub struct AllRun {
    begun: AllBegun,
    record: PieceRecord,
    part: PartOfAll,
    pieces: Vec<TestPiece>,
    names: Vec<String>,
    repository: PathBuf,
    /// The folder for what git writes.
    scratch: PathBuf,
}

impl AllRun {
    /// Begins a run, or goes on with one that came to no good end; `fresh` forgets what is on record of this part.
    pub fn begin(repository: &Path, cache: &Path, part: Option<PartOfAll>, fresh: bool) -> anyhow::Result<Self> {
        let folder = cache.join("tests");
        let checkout = match CheckoutState::read(repository, &cache.join("tests-git")) {
            Ok(checkout) => Some(checkout),
            Err(error) => {
                print_status(&format!("could not tell which files are tested, so this run is not resumed: {error:#}"));
                None
            }
        };
        let name = checkout.as_ref().map_or(UNKNOWN, |checkout| checkout.tree.as_str());
        let record = PieceRecord::open(&folder, name)?;
        let begun = AllBegun { record: record.folder().to_owned(), checkout, at: Timestamp::now() };
        let run = Self::resume(begun, repository, cache, part)?;
        let ends = run.record.ends()?;
        if fresh || run.begun.checkout.is_none() || is_complete(&run.names, &ends) {
            run.record.forget(&run.names)?;
        }
        let ends = run.record.ends()?;
        let passed = run.names.iter().filter(|name| has_passed(&ends, name)).count();
        print_status(&format!("{}: {} pieces, {passed} of which passed before", run.title(), run.names.len()));
        Ok(run)
    }

    /// The run that the first life began.
    pub fn resume(begun: AllBegun, repository: &Path, cache: &Path, part: Option<PartOfAll>) -> anyhow::Result<Self> {
        let part = part.unwrap_or(PartOfAll::WHOLE);
        let pieces = part.of(TestPiece::all(suites::has_nextest())?);
        let names = pieces.iter().map(TestPiece::name).collect();
        let record = PieceRecord::at(begun.record.clone());
        let (repository, scratch) = (repository.to_owned(), cache.join("tests-git"));
        Ok(Self { begun, record, part, pieces, names, repository, scratch })
    }

    #[must_use]
    pub fn begun(&self) -> &AllBegun {
        &self.begun
    }

    /// Scenarios that have not passed so far.
    pub fn scenarios(&self) -> anyhow::Result<Vec<SelectedScenario>> {
        let scenario = |piece: &TestPiece| match piece {
            TestPiece::Scenario(chosen) => Some(chosen.clone()),
            TestPiece::Simulation | TestPiece::Suite(_) => None,
        };
        Ok(self.pending()?.into_iter().filter_map(scenario).collect())
    }

    fn pending(&self) -> anyhow::Result<Vec<&TestPiece>> {
        let ends = self.record.ends()?;
        let named = self.pieces.iter().zip(&self.names);
        Ok(named.filter(|(_, name)| !has_passed(&ends, name)).map(|(piece, _)| piece).collect())
    }

    /// Runs what needs no machine. A failure is on record and holds up nothing else.
    pub fn run_suites(&self) -> anyhow::Result<()> {
        let is_suite = |piece: &&TestPiece| !matches!(piece, TestPiece::Scenario(_));
        for piece in self.pending()?.into_iter().filter(is_suite) {
            let name = piece.name();
            let step = ProgressStep::begin(format!("running {name}"));
            let done = match piece {
                TestPiece::Simulation => suites::simulate(None),
                TestPiece::Suite(slice) => suites::run_slice(*slice),
                TestPiece::Scenario(_) => Ok(()),
            };
            let failure = done.err().map(|error| format!("{error:#}"));
            self.note(&name, step.elapsed(), failure.as_deref());
            step.end_with(if failure.is_none() { "passed" } else { "FAILED" });
        }
        Ok(())
    }

    /// Puts the end of a piece on record. What passed while files changed has not passed for these files.
    pub fn note(&self, name: &str, took: Duration, failure: Option<&str>) {
        let failure = failure.map(str::to_owned).or_else(|| self.change());
        let end = PieceEnd { seconds: took.as_secs(), ended_at: Timestamp::now(), failure };
        if let Err(error) = self.record.note(name, end) {
            print_status(&format!("could not keep how {name} ended, so it runs again next time: {error:#}"));
        }
    }

    fn change(&self) -> Option<String> {
        let begun_with = self.begun.checkout.as_ref()?;
        match CheckoutState::read(&self.repository, &self.scratch) {
            Ok(now) if now.tree == begun_with.tree => None,
            Ok(_) => Some("files of the checkout changed while it ran: run it again".to_owned()),
            Err(error) => Some(format!("could not tell whether files changed while it ran: {error:#}")),
        }
    }

    fn title(&self) -> String {
        let files = self.begun.checkout.as_ref().map_or("files unknown to git".to_owned(), CheckoutState::describe);
        let part = if self.part == PartOfAll::WHOLE { String::new() } else { format!(" --part {}", self.part) };
        format!("test --all{part}, {files}")
    }

    /// Prints and keeps the summary. Whether each piece has passed.
    pub fn conclude(&self) -> anyhow::Result<bool> {
        let ends = self.record.ends()?;
        let text = summary(&self.title(), &self.names, &ends, self.begun.at);
        let file = format!("summary-{}.txt", self.part.to_string().replace('/', "-of-"));
        let path = self.record.folder().join(file);
        fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
        print(text.trim_end());
        print_status(&format!("this summary is kept in {}", path.display()));
        let has_all_passed = is_complete(&self.names, &ends);
        if !has_all_passed && self.begun.checkout.is_some() {
            print_status("started again on the same files, this goes on with what has not passed");
        }
        Ok(has_all_passed)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::checkout::git;

    const SECOND: Duration = Duration::from_secs(1);

    /// A checkout with one file, and a cache.
    fn checkout(folder: &Path) -> (PathBuf, PathBuf) {
        let repository = folder.join("repository");
        fs::create_dir(&repository).unwrap();
        fs::write(repository.join("a"), "1").unwrap();
        git(&repository, &["init", "--quiet"], &[]).unwrap();
        git(&repository, &["add", "--all"], &[]).unwrap();
        let name = ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "x"];
        git(&repository, &name, &[]).unwrap();
        (repository, folder.join("cache"))
    }

    fn pending(run: &AllRun) -> Vec<String> {
        run.pending().unwrap().into_iter().map(TestPiece::name).collect()
    }

    #[test]
    fn a_run_goes_on_with_what_has_not_passed_on_the_same_files() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, cache) = checkout(folder.path());
        let begin = |fresh| AllRun::begin(&repository, &cache, None, fresh).unwrap();
        let first = begin(false);
        let all = first.names.clone();
        assert_eq!(pending(&first), all);
        first.note("life", SECOND, None);
        first.note("pool", SECOND, Some("no"));
        assert!(!first.conclude().unwrap());

        let second = begin(false);
        let left: Vec<String> = all.iter().filter(|name| *name != "life").cloned().collect();
        assert_eq!(pending(&second), left);
        let scenarios: Vec<String> = second.scenarios().unwrap().iter().map(SelectedScenario::to_string).collect();
        assert!(scenarios.contains(&"pool".to_owned()) && !scenarios.contains(&"life".to_owned()), "{scenarios:?}");
        let resumed = AllRun::resume(second.begun().clone(), &repository, &cache, None).unwrap();
        assert_eq!(pending(&resumed), left, "the second life sees the same");

        all.iter().for_each(|name| second.note(name, SECOND, None));
        assert!(pending(&second).is_empty() && second.conclude().unwrap());
        let summary = fs::read_to_string(second.begun.record.join("summary-1-of-1.txt")).unwrap();
        assert!(summary.ends_with(&format!("\n{} passed, 0 failed\n", all.len())), "{summary}");
        let third = begin(false);
        assert_eq!(pending(&third), all, "the run was over");
        third.note("life", SECOND, None);
        assert_eq!(pending(&begin(true)), all, "it was to begin at its start");
    }

    #[test]
    fn what_passed_counts_for_no_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, cache) = checkout(folder.path());
        let begin = || AllRun::begin(&repository, &cache, None, false).unwrap();
        let run = begin();
        run.note("life", SECOND, None);
        fs::write(repository.join("a"), "2").unwrap();
        run.note("bond", SECOND, None);
        let changed = begin();
        assert_eq!(pending(&changed), changed.names);
        fs::write(repository.join("a"), "1").unwrap();
        let again = begin();
        let left = pending(&again);
        assert!(!left.contains(&"life".to_owned()) && left.contains(&"bond".to_owned()), "{left:?}");
        let bond = again.record.ends().unwrap()["bond"].failure.clone().unwrap();
        assert!(bond.contains("changed while it ran"), "{bond}");
    }

    #[test]
    fn parts_keep_what_passed_of_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let (repository, cache) = checkout(folder.path());
        let begin = |part: &str, fresh| AllRun::begin(&repository, &cache, Some(part.parse().unwrap()), fresh).unwrap();
        let first = begin("1/2", false);
        first.names.iter().for_each(|name| first.note(name, SECOND, None));
        assert!(first.conclude().unwrap());
        let second = begin("2/2", true);
        assert_eq!(pending(&second), second.names);
        let whole = AllRun::begin(&repository, &cache, None, false).unwrap();
        assert_eq!(pending(&whole).len(), second.names.len());
    }

    #[test]
    fn without_git_nothing_is_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let begin = || AllRun::begin(&folder.path().join("none"), &folder.path().join("cache"), None, false).unwrap();
        begin().note("life", SECOND, None);
        let run = begin();
        assert_eq!(pending(&run), run.names);
    }
}
