//! `lab mutants`: cargo-mutants changes the code that decides, one place at a time, and the tests of its package must
//! notice. Parts are changed as a whole, or a sample of each is drawn by a seed. Ends are kept for the files of a
//! checkout, so that a run which was stopped goes on.
//!
//! ```text
//! checkout ─► copy in the cache ─► list ─► order by seed ─► batches ─► cargo mutants ─► ends ─► tally, report
//! ```

mod equivalent;
mod listed;
mod part;
mod tally;
mod tree;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum as _;
use equivalent::EquivalentMutant;
use listed::{ListedMutant, MutantEnd, MutantEnds, drawn, read_list, read_outcomes, shuffled};
pub use part::MutantPart;
use tally::{MutantTally, report};

use crate::artefacts::{cargo_command, repository};
use crate::checkout::CheckoutState;
use crate::progress::{ProgressStep, print, print_status};

/// Mutants of one run of cargo-mutants: what a stop loses at most.
const BATCH_MAX: usize = 50;
/// Tests that take longer than five times what they take unchanged, and at least this, do not end.
const TEST_SECONDS_MIN: &str = "60";
/// Checkouts of which ends are kept.
const RESULTS_MAX: usize = 20;
/// cargo-mutants: every viable mutant was caught, some were missed, some did not end.
const EXIT_CODES: [i32; 3] = [0, 2, 3];

#[derive(Clone, Debug, clap::Args)]
pub struct MutantOptions {
    /// All of them without a name
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<MutantPart>,
    /// Number of mutants of each part that compile, instead of all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sample: Option<u32>,
    /// Draws the same sample again; without it chance draws one, and the seed is printed
    #[arg(long, value_name = "N", requires = "sample")]
    seed: Option<u64>,
}

/// Where everything of `mutants` lies in the cache.
struct MutantFolders {
    /// The copy that is changed.
    tree: PathBuf,
    target: PathBuf,
    output: PathBuf,
    results: PathBuf,
}

/// What is changed, and what is known of it.
struct MutantCheck {
    folders: MutantFolders,
    /// Ends of these very files.
    results: PathBuf,
    table: Vec<EquivalentMutant>,
    ends: MutantEnds,
    /// A lock on this is held while the copy is used.
    _lock: File,
}

/// Runs the check. It fails where a part's tests notice too few changes.
pub fn run(options: &MutantOptions, cache: &Path) -> anyhow::Result<ExitCode> {
    let by_chance = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seed = options.seed.unwrap_or_else(by_chance);
    let parts = if options.parts.is_empty() { MutantPart::value_variants().to_vec() } else { options.parts.clone() };
    let (mut check, files) = MutantCheck::begin(cache)?;
    let title = match options.sample {
        Some(count) => format!("mutants, sample of {count} with seed {seed}, {files}"),
        None => format!("mutants, all, {files}"),
    };
    print_status(&title);
    let mut tallies = Vec::new();
    for part in parts {
        let viable = options.sample.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
        tallies.push(check.part(part, viable, seed).with_context(|| format!("checking the part {part}"))?);
    }
    let text = report(&title, &tallies);
    let path = check.results.with_extension("txt");
    fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    print(text.trim_end());
    print_status(&format!("this report is kept in {}", path.display()));
    let is_enough = tallies.iter().all(MutantTally::is_enough);
    if !is_enough {
        print_status("too many changes of the code go unnoticed: write tests for those that were missed");
    }
    Ok(if is_enough { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl MutantCheck {
    /// Copies the checkout. Also says which files these are.
    fn begin(cache: &Path) -> anyhow::Result<(Self, String)> {
        let own = cache.join("mutants");
        let folders = MutantFolders {
            tree: own.join("tree"),
            target: own.join("target"),
            output: own.join("output"),
            results: own.join("results"),
        };
        for folder in [&folders.output, &folders.results] {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let lock = File::create(own.join("lock")).context("making a lock for the copy of the checkout")?;
        if lock.try_lock().is_err() {
            bail!("could not begin: another `mutants` uses the copy of the checkout in {}", own.display());
        }
        let checkout = CheckoutState::read(&repository(), &own.join("git"))?;
        tree::copy(&repository(), &folders.tree)?;
        remove_oldest(&folders.results).context("removing old results")?;
        let results = folders.results.join(format!("{}.json", checkout.tree));
        let ends = match fs::read(&results) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("could not read {}: remove it to begin again", results.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => MutantEnds::new(),
            Err(error) => return Err(error).with_context(|| format!("reading {}", results.display())),
        };
        let table = fs::read_to_string(folders.tree.join("qemu/mutants.toml")).context("reading qemu/mutants.toml")?;
        let table = equivalent::read(&table)?;
        Ok((Self { folders, results, table, ends, _lock: lock }, checkout.describe()))
    }

    fn part(&mut self, part: MutantPart, viable: usize, seed: u64) -> anyhow::Result<MutantTally> {
        let begun = Instant::now();
        let order = shuffled(self.list(part)?, seed);
        ensure!(!order.is_empty(), "there is no mutant in {}", part.files());
        let mut batches = 0;
        loop {
            let batch = self.next_batch(&order, viable);
            if batch.is_empty() {
                break;
            }
            let step = ProgressStep::begin(format!("{part}: {} of {} mutants", batch.len(), order.len()));
            let before = self.ends.len();
            self.run_batch(part, &batch)?;
            step.end();
            batches += 1;
            ensure!(self.ends.len() > before, "cargo-mutants judged none of the {batches}. batch");
        }
        self.tally(part, &order, viable, begun.elapsed())
    }

    /// Those of the sample whose end is not known.
    fn next_batch(&self, order: &[ListedMutant], viable: usize) -> Vec<ListedMutant> {
        let sample = drawn(order, &self.ends, viable).into_iter();
        let unknown = sample.filter(|mutant| !self.ends.contains_key(&mutant.name));
        unknown.take(BATCH_MAX).cloned().collect()
    }

    fn list(&self, part: MutantPart) -> anyhow::Result<Vec<ListedMutant>> {
        let mut command = self.command(part);
        let output = command.args(["--list", "--json", "--level", "error"]).stderr(Stdio::inherit()).output();
        let output = output.context("running cargo mutants")?;
        ensure!(output.status.success(), "listing mutants failed ({})", output.status);
        read_list(&output.stdout)
    }

    fn run_batch(&mut self, part: MutantPart, batch: &[ListedMutant]) -> anyhow::Result<()> {
        let outcomes = self.folders.output.join("mutants.out/outcomes.json");
        match fs::remove_file(&outcomes) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).context("removing old outcomes");
            }
            Ok(()) | Err(_) => {}
        }
        let mut command = self.command(part);
        // Lints that are errors would make mutants unviable that only are ugly.
        command.args(["--in-place", "--cap-lints", "true", "--minimum-test-timeout", TEST_SECONDS_MIN, "--output"]);
        command.arg(&self.folders.output);
        for mutant in batch {
            command.args(["--re", &mutant.pattern()]);
        }
        let status = command.status().context("running cargo mutants")?;
        let text = fs::read(&outcomes).with_context(|| format!("cargo mutants left no outcomes ({status})"))?;
        let ends = read_outcomes(&text)?;
        let is_usual = status.code().is_some_and(|code| EXIT_CODES.contains(&code));
        ensure!(is_usual, "cargo mutants failed ({status}); its logs are in {}", self.folders.output.display());
        self.ends.extend(ends);
        let new = self.results.with_extension("new");
        fs::write(&new, serde_json::to_vec_pretty(&self.ends)?).context("keeping what came out")?;
        fs::rename(&new, &self.results).context("keeping what came out")
    }

    /// cargo-mutants on the copy, for the files of one part.
    fn command(&self, part: MutantPart) -> Command {
        let target = self.folders.target.to_string_lossy();
        // A failing property test would leave a file behind that the next mutant's tests read.
        let environment = [("CARGO_TARGET_DIR", &*target), ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")];
        let mut command = cargo_command("cargo", &["mutants"], &environment);
        command.arg("--dir").arg(&self.folders.tree).args(["--package", part.package(), "--file", part.files()]);
        command.args(part.features());
        command.args(["--no-config", "--colors", "never", "--annotations", "none"]);
        command
    }

    fn tally(
        &self,
        part: MutantPart,
        order: &[ListedMutant],
        viable: usize,
        took: Duration,
    ) -> anyhow::Result<MutantTally> {
        let sample = drawn(order, &self.ends, viable);
        let lines = |mutant: &ListedMutant| {
            tree::line(&self.folders.tree, &mutant.file, mutant.line()).unwrap_or_else(|error| format!("{error:#}"))
        };
        let mut tally = MutantTally {
            part,
            listed: order.len(),
            drawn: sample.len(),
            unviable: 0,
            caught: 0,
            timed_out: 0,
            missed: Vec::new(),
            equivalent: Vec::new(),
            faults: equivalent::faults(&self.table, order, &self.ends, &lines, |file| part.owns(file)),
            seconds: took.as_secs(),
        };
        for mutant in sample {
            let end = self.ends.get(&mutant.name).with_context(|| format!("{} was not judged", mutant.name))?;
            match end {
                MutantEnd::Unviable => tally.unviable += 1,
                MutantEnd::Caught => tally.caught += 1,
                MutantEnd::TimedOut => tally.timed_out += 1,
                MutantEnd::Missed => {
                    let line = lines(mutant);
                    match self.table.iter().find(|entry| entry.fits(mutant, &line)) {
                        Some(entry) => tally.equivalent.push((mutant.name.clone(), entry.reason.clone())),
                        None => tally.missed.push(mutant.name.clone()),
                    }
                }
            }
        }
        Ok(tally)
    }
}

/// Reports and ends of the oldest checkouts go.
fn remove_oldest(folder: &Path) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    // Two files of each.
    let excess = files.len().saturating_sub(2 * RESULTS_MAX);
    files.iter().take(excess).try_for_each(|(_, path)| fs::remove_file(path))
}
