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

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use piece::PartOfAll;
use piece::{TestPiece, has_passed, is_complete, summary};
use record::{PieceEnd, PieceRecord};

use crate::{
    artefacts::repository,
    checkout::CheckoutState,
    progress::{Step, print, say},
    scenario::Chosen,
    suites,
};

/// Of files whose digest is not known: nothing is gone on with.
const UNKNOWN: &str = "unknown";

/// What a run began with; it goes from the first life to the second one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AllBegun {
    record: PathBuf,
    /// Absent where git does not know the files.
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
    /// For what git writes.
    scratch: PathBuf,
}

impl AllRun {
    /// Begins a run, or goes on with one that came to no good end; `fresh` forgets what is on record of this part.
    pub fn begin(cache: &Path, part: Option<PartOfAll>, fresh: bool) -> anyhow::Result<Self> {
        let folder = cache.join("tests");
        let checkout = match CheckoutState::read(&repository(), &folder) {
            Ok(checkout) => Some(checkout),
            Err(error) => {
                say(&format!("could not tell which files are tested, so this run is not resumed: {error:#}"));
                None
            }
        };
        let name = checkout.as_ref().map_or(UNKNOWN, |checkout| checkout.tree.as_str());
        let record = PieceRecord::open(&folder, name)?;
        let begun = AllBegun { record: record.folder().to_owned(), checkout, at: Timestamp::now() };
        let run = Self::of(begun, cache, part)?;
        let ends = run.record.ends()?;
        if fresh || run.begun.checkout.is_none() || is_complete(&run.names, &ends) {
            run.record.forget(&run.names)?;
        }
        let ends = run.record.ends()?;
        let passed = run.names.iter().filter(|name| has_passed(&ends, name)).count();
        say(&format!("{}: {} pieces, {passed} of which passed before", run.title(), run.names.len()));
        Ok(run)
    }

    /// The run that the first life began.
    pub fn resume(begun: AllBegun, cache: &Path, part: Option<PartOfAll>) -> anyhow::Result<Self> {
        Self::of(begun, cache, part)
    }

    fn of(begun: AllBegun, cache: &Path, part: Option<PartOfAll>) -> anyhow::Result<Self> {
        let part = part.unwrap_or(PartOfAll::WHOLE);
        let pieces = part.of(TestPiece::all(suites::has_nextest())?);
        let names = pieces.iter().map(TestPiece::name).collect();
        let record = PieceRecord::at(begun.record.clone());
        Ok(Self { begun, record, part, pieces, names, scratch: cache.join("tests") })
    }

    #[must_use]
    pub fn begun(&self) -> &AllBegun {
        &self.begun
    }

    /// Scenarios that have not passed so far.
    pub fn scenarios(&self) -> anyhow::Result<Vec<Chosen>> {
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
            let step = Step::begin(format!("running {name}"));
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
            say(&format!("could not keep how {name} ended, so it runs again next time: {error:#}"));
        }
    }

    fn change(&self) -> Option<String> {
        let begun_with = self.begun.checkout.as_ref()?;
        match CheckoutState::read(&repository(), &self.scratch) {
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
        say(&format!("this summary is kept in {}", path.display()));
        let has_all_passed = is_complete(&self.names, &ends);
        if !has_all_passed && self.begun.checkout.is_some() {
            say("started again on the same files, this goes on with what has not passed");
        }
        Ok(has_all_passed)
    }
}
