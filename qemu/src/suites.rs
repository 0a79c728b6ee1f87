//! Tests that need no machine: what cargo and cargo-nextest run, the simulation, and the fuzzer.

use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::artefacts::{PROFILE, build_programs, cargo, programs};
use crate::progress::ProgressStep;

/// The divisor of the simulation's million steps for every run of the tests. `--all` and `simulate` go all of them.
const SIMULATED_PART: &str = "10";
/// Seeds of each damage that `--all` does to a database; every run of the tests goes a few.
const DAMAGE_SEEDS: &str = "200";
/// How long `--all` has each flood of the suite `attacks` last; every other run of the tests takes the suite's own five
/// seconds.
const FLOOD_SECONDS: &str = "60";
/// How large a sparse disk `--all` imports. It is hashed as a whole, which takes minutes.
const SPARSE_GIB: &str = "200";

/// The simulation's longest test, which `--all` runs by itself.
const MILLION_STEPS: &str = "wild::a_million_steps";

/// A part of the tests, by the digests of their names; `--all` runs one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuiteSlice {
    /// The number of the slice, from 1.
    pub index: u32,
    pub count: u32,
}

/// cargo-nextest runs tests in parallel across crates; where it is not installed, cargo does.
#[must_use]
pub fn has_nextest() -> bool {
    let mut nextest = Command::new("cargo");
    nextest.args(["nextest", "--version"]).stderr(Stdio::null()).stdout(Stdio::null());
    nextest.status().is_ok_and(|status| status.success())
}

/// Slots for tests that run at once: two for a core. The profile `lab` of `.config/nextest.toml` gives a test two of
/// them, and one to a test that mostly waits for processes of its own.
fn test_slots() -> String {
    (2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get)).to_string()
}

/// What every run of the tests goes through.
pub fn run_usual() -> anyhow::Result<()> {
    // The simulation is the longest of them.
    let part = [("FIRESTEEL_SIM_PART", SIMULATED_PART)];
    let step = ProgressStep::begin("running unit and property tests");
    if has_nextest() {
        nextest(&[], &part)?;
    } else {
        cargo(&["test", "--profile", PROFILE, "--quiet", "--workspace"], &part)?;
    }
    step.end();
    Ok(())
}

/// A slice of the longer tests of `--all`, without the million steps.
pub fn run_slice(slice: SuiteSlice) -> anyhow::Result<()> {
    let seed = std::process::id().to_string();
    let long = [
        ("FIRESTEEL_STORED_SEED", seed.as_str()),
        ("FIRESTEEL_DAMAGE_SEEDS", DAMAGE_SEEDS),
        ("FIRESTEEL_FLOOD_SECONDS", FLOOD_SECONDS),
        ("FIRESTEEL_TEST_SPARSE_GIB", SPARSE_GIB),
    ];
    if has_nextest() {
        let partition = format!("hash:{}/{}", slice.index, slice.count);
        let others = format!("not (package(firesteel-simulation) and test(={MILLION_STEPS}))");
        nextest(&["--partition", &partition, "-E", &others], &long)
    } else {
        let run = ["test", "--profile", PROFILE, "--quiet", "--workspace", "--", "--skip", MILLION_STEPS];
        cargo(&run, &long)
    }
}

fn nextest(chosen: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    // Who mends one failure wants to know of the others.
    let run = ["nextest", "run", "--cargo-profile", PROFILE, "--workspace", "--no-fail-fast"];
    let slots = test_slots();
    cargo(&[&run[..], &["--profile", "lab", "--test-threads", &slots], chosen].concat(), environment)
}

/// The simulation by itself, as long as asked for.
pub fn simulate(asked: Option<(u64, u64)>) -> anyhow::Result<()> {
    let arguments = ["test", "--profile", PROFILE, "--workspace", "--test", "simulation", MILLION_STEPS];
    let arguments = [&arguments[..], &["--", "--exact", "--nocapture"]].concat();
    match asked {
        None => cargo(&arguments, &[]),
        Some((steps, seed)) => {
            let (steps, seed) = (steps.to_string(), seed.to_string());
            cargo(&arguments, &[("FIRESTEEL_SIM_STEPS", &steps), ("FIRESTEEL_SIM_SEED", &seed)])
        }
    }
}

/// The runner is built with everything else; the parsers it builds itself, with other flags.
pub fn fuzz(targets: &[String], minutes: &str, keep: bool) -> anyhow::Result<()> {
    build_programs()?;
    let mut runner = Command::new(programs().join("firesteel-fuzz"));
    let status = runner.args(targets).args(["--minutes", minutes]).args(keep.then_some("--keep")).status();
    let status = status.context("running the fuzzer")?;
    anyhow::ensure!(status.success(), "fuzzing failed ({status})");
    Ok(())
}
