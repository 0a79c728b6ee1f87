//! `lab test`: what is chosen, what is built for it, and the two lives in which it runs.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use crate::all::{AllBegun, AllRun, PartOfAll};
use crate::artefacts::{Artefacts, StaticBuild, build_volume_files, repository};
use crate::lab::LabConfig;
use crate::lab_ending::{LabEnding, unless_interrupted};
use crate::os_images::ImagesBuild;
use crate::progress::print_status;
use crate::scenario::{self, OnEnd, SelectedScenario};
use crate::suites;
use crate::tools::Tools;

#[derive(Clone, Debug, clap::Args)]
pub struct TestOptions {
    /// The longer tests and scenarios too. Started again on the same files, it goes on with what has not passed
    #[arg(long, conflicts_with = "scenario")]
    all: bool,
    /// One of N parts of `--all`, each of which keeps a summary of its own
    #[arg(long, value_name = "I/N", requires = "all")]
    part: Option<PartOfAll>,
    /// Begin `--all` at its start, whatever has passed on these files
    #[arg(long, requires = "all")]
    fresh: bool,
    /// Only these scenarios, no unit tests: names, or paths of scenario files
    #[arg(long, value_name = "NAME|FILE", value_parser = scenario::named)]
    scenario: Vec<SelectedScenario>,
}

/// What the first life leaves to do.
#[derive(Debug)]
pub enum TestsPrepared {
    Scenarios(Box<PreparedTests>),
    /// No scenario is left.
    Over(ExitCode),
}

/// What the scenarios need.
#[derive(Debug)]
pub struct PreparedTests {
    pub artefacts: Artefacts,
    /// The begun run of `--all`.
    pub begun: Option<AllBegun>,
}

/// Runs what needs no machine, and builds what the scenarios need.
pub fn prepare(options: &TestOptions, tools: &Tools) -> anyhow::Result<TestsPrepared> {
    let whole =
        options.all.then(|| AllRun::begin(&repository(), &tools.cache, options.part, options.fresh)).transpose()?;
    let chosen = match &whole {
        Some(run) => run.scenarios()?,
        None if options.scenario.is_empty() => SelectedScenario::standard()?,
        None => options.scenario.clone(),
    };
    // Beside the tests: most of it is one core's work, and some of theirs is waiting.
    let guest = chosen.iter().any(SelectedScenario::wipes).then(StaticBuild::start).transpose()?;
    let images: Vec<_> = chosen.iter().flat_map(SelectedScenario::images).collect();
    let building = ImagesBuild::start(tools, images.clone());
    match &whole {
        Some(run) => run.run_suites()?,
        None if options.scenario.is_empty() => suites::run_usual()?,
        None => {}
    }
    if let Some(run) = whole.as_ref().filter(|_| chosen.is_empty()) {
        let code = if run.conclude()? { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        return Ok(TestsPrepared::Over(code));
    }
    let wipe_guest = guest.map_or(Ok(PathBuf::new()), StaticBuild::finish)?;
    building.finish()?;
    let with_switch = chosen.iter().any(SelectedScenario::has_switch);
    let mut artefacts = Artefacts { wipe_guest, ..Artefacts::make(tools, &images, with_switch)? };
    if chosen.iter().any(SelectedScenario::has_volumes) {
        artefacts.volume_files = build_volume_files(tools)?;
    }
    let begun = whole.map(|run| run.begun().clone());
    Ok(TestsPrepared::Scenarios(Box::new(PreparedTests { artefacts, begun })))
}

/// Runs the scenarios.
pub async fn run(options: &TestOptions, config: LabConfig, begun: Option<AllBegun>) -> anyhow::Result<ExitCode> {
    let Some(begun) = begun else {
        let named = if options.scenario.is_empty() { SelectedScenario::standard()? } else { options.scenario.clone() };
        let unheard: OnEnd = Arc::new(|_, _, _| {});
        return unless_interrupted(scenario::run_all(&named, &config, &unheard)).await.map(LabEnding::code);
    };
    let whole = Arc::new(AllRun::resume(begun, &repository(), &config.tools.cache, options.part)?);
    let pending = whole.scenarios()?;
    let on_end: OnEnd = {
        let whole = whole.clone();
        Arc::new(move |name, took, failure| whole.note(name, took, failure))
    };
    let ending = unless_interrupted(scenario::run_all(&pending, &config, &on_end)).await;
    let has_all_passed = whole.conclude()?;
    match ending? {
        LabEnding::Interrupted => Ok(LabEnding::Interrupted.code()),
        LabEnding::Done if has_all_passed => Ok(ExitCode::SUCCESS),
        LabEnding::Done => {
            print_status("not everything has passed: see the summary");
            Ok(ExitCode::FAILURE)
        }
    }
}
