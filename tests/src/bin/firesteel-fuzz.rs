//! Grows the corpora: builds the instrumented fuzzer, runs targets one after the other, keeps what
//! is new in `tests/corpus`.
//!
//! ```text
//! firesteel-fuzz TARGET|all [--minutes N] [--keep]
//! ```
//!
//! The compiler's own coverage pass is asked for by stable flags, so no other toolchain is needed; no
//! sanitizer is linked, for no parser has unsafe code. An input that breaks a promise is left in
//! `target/fuzz/TARGET/crashes` and printed; with the defect mended it belongs into the target's seeds.

#![allow(clippy::print_stdout, reason = "its figures are its result")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail, ensure};
use firesteel_tests::fuzz::{
    CORPUS_BYTES_MAX, INPUT_BYTES_MAX, INPUTS_MAX, TARGET_VARIABLE, TARGETS, Target, named, pack, unpack,
};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

/// What `cargo fuzz` sets, without a sanitizer: counters per edge, their places, and operands of comparisons.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// With a target named, build scripts and macros are built without the flags.
const TRIPLE: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };
/// One input that takes longer is a finding. Inputs take milliseconds; a busy machine may stop a program for seconds.
const INPUT_SECONDS_MAX: u32 = 60;
/// One input that takes more memory is a finding: all bounds together are far below.
const MEMORY_MIB_MAX: u32 = 1024;

fn main() -> anyhow::Result<ExitCode> {
    let (targets, seconds, keep) = arguments(std::env::args().skip(1))?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().context("finding the checkout")?;
    let program = build(&root)?;
    let mut sound = true;
    for target in targets {
        sound &= run(&root, &program, target, seconds, keep).with_context(|| format!("fuzzing {}", target.name))?;
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn arguments(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<(Vec<&'static Target>, u64, bool)> {
    let (mut targets, mut seconds, mut keep) = (Vec::new(), 60, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "all" => targets.extend(TARGETS),
            "--keep" => keep = true,
            "--minutes" => {
                let minutes: f64 = arguments.next().and_then(|value| value.parse().ok()).context("--minutes N")?;
                seconds = std::time::Duration::try_from_secs_f64(minutes * 60.0).context("--minutes N")?.as_secs();
            }
            name => targets.push(named(name).with_context(|| {
                let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
                format!("{name:?} is not a target; there are: all {}", names.join(" "))
            })?),
        }
    }
    ensure!(!targets.is_empty() && seconds > 0, "usage: firesteel-fuzz TARGET|all [--minutes N] [--keep]");
    Ok((targets, seconds, keep))
}

fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let folder = root.join("target/fuzz");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--target", TRIPLE, "--target-dir"]).arg(&folder);
    let status =
        cargo.current_dir(root.join("tests/fuzz")).env("RUSTFLAGS", FLAGS).status().context("running cargo")?;
    ensure!(status.success(), "building the fuzzer failed (it needs a C++ compiler: Debian's package g++)");
    Ok(folder.join(TRIPLE).join("release/firesteel-fuzz"))
}

/// Whether no promise was broken.
fn run(root: &Path, program: &Path, target: &Target, seconds: u64, keep: bool) -> anyhow::Result<bool> {
    let folder = root.join("target/fuzz").join(target.name);
    let (grown, crashes) = (folder.join("corpus"), folder.join("crashes"));
    fs::create_dir_all(&grown)?;
    fs::create_dir_all(&crashes)?;
    let packed = root.join("tests/corpus").join(format!("{}.zst", target.name));
    let mut inputs = (target.seeds)();
    if packed.exists() {
        inputs.extend(unpack(&fs::read(&packed)?)?);
    }
    for (index, input) in inputs.iter().enumerate() {
        fs::write(grown.join(format!("known-{index:04}")), input)?;
    }
    let known = fs::read_dir(&grown)?.count();
    let mut fuzzer = Command::new(program);
    fuzzer.env(TARGET_VARIABLE, target.name).arg(&grown);
    fuzzer.args([format!("-max_total_time={seconds}"), format!("-max_len={INPUT_BYTES_MAX}")]);
    fuzzer.args([format!("-timeout={INPUT_SECONDS_MAX}"), format!("-rss_limit_mb={MEMORY_MIB_MAX}")]);
    fuzzer.args(["-print_final_stats=1".to_owned(), format!("-artifact_prefix={}/", crashes.display())]);
    let before = cpu_seconds()?;
    let output = fuzzer.output().with_context(|| format!("running {}", program.display()))?;
    let cpu = cpu_seconds()? - before;
    let said = String::from_utf8_lossy(&output.stderr);
    let stats = stats(&said);
    let stat = |name: &str| stats.get(name).copied().unwrap_or(0);
    let coverage = said.lines().rev().find_map(|line| line.split_once(" cov: ")?.1.split(' ').next()).unwrap_or("?");
    println!(
        "{}: {seconds} s, {cpu} s of them running, {} executions, {} exec/s, coverage {coverage} edges, {} inputs known, {} new, {} MiB peak, {}",
        target.name,
        stat("number_of_executed_units"),
        stat("average_exec_per_sec"),
        known,
        stat("new_units_added"),
        stat("peak_rss_mb"),
        if output.status.success() { "nothing broken" } else { "A PROMISE IS BROKEN" },
    );
    if !output.status.success() {
        let shown: Vec<&str> = said.lines().filter(|line| !line.starts_with('#')).collect();
        println!("{}", shown[shown.len().saturating_sub(40)..].join("\n"));
        return Ok(false);
    }
    if keep {
        let kept = smallest(program, target, &folder)?;
        fs::create_dir_all(root.join("tests/corpus"))?;
        fs::write(&packed, pack(&kept)?)?;
        println!("{}: {} inputs kept in {}", target.name, kept.len(), packed.display());
    }
    Ok(true)
}

/// Processor time of all programs that this one waited for.
fn cpu_seconds() -> anyhow::Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("asking for processor times")?;
    Ok(usage.user_time().num_seconds() + usage.system_time().num_seconds())
}

fn stats(said: &str) -> BTreeMap<&str, u64> {
    let lines = said.lines().filter_map(|line| line.strip_prefix("stat::")?.split_once(':'));
    lines.filter_map(|(name, value)| Some((name, value.trim().parse().ok()?))).collect()
}

/// The fewest inputs that reach every edge that was reached; the smallest of those where they are too many.
fn smallest(program: &Path, target: &Target, folder: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let merged = folder.join("merged");
    if merged.exists() {
        fs::remove_dir_all(&merged)?;
    }
    fs::create_dir_all(&merged)?;
    let mut fuzzer = Command::new(program);
    fuzzer.env(TARGET_VARIABLE, target.name).args(["-merge=1", "-set_cover_merge=1", "-use_counters=0"]);
    fuzzer.arg(format!("-max_len={INPUT_BYTES_MAX}"));
    let output = fuzzer.arg(&merged).arg(folder.join("corpus")).output()?;
    if !output.status.success() {
        bail!("merging failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut inputs = Vec::new();
    for entry in fs::read_dir(&merged)? {
        inputs.push(fs::read(entry?.path())?);
    }
    inputs.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    inputs.truncate(INPUTS_MAX);
    let mut bytes = 0;
    inputs.retain(|input| {
        bytes += input.len() + size_of::<u32>();
        bytes as u64 <= CORPUS_BYTES_MAX
    });
    Ok(inputs)
}
