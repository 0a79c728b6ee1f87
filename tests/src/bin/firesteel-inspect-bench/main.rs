//! Times the agent's inspection of this very machine beside that of ironic-python-agent, in turns:
//!
//! ```text
//!   readers, list_hardware_info, readers, list_hardware_info, …: medians of each
//! ```
//!
//! Neither listens to switches meanwhile. The peer's time begins when its modules are loaded and its
//! configuration is read. A figure that is missed is said, and makes the program fail. Needs
//! `python-ironic` and what the peer calls ([`qemu/lab bench inspect`] fetches them); without them ours is
//! measured alone, and it is said.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use firesteel_inspect as inspect;
use firesteel_linux_host::LinuxHost;
use firesteel_sysfs::Roots;
use serde::Deserialize;

const PYTHON: &str = "python-ironic";
const PEER: &str = include_str!("peer.py");

/// Measure the inspection beside ironic-python-agent's
#[derive(Debug, Parser)]
struct Arguments {
    /// Inspections of each, after one that is not counted
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

/// One inspection of the peer.
#[derive(Debug, Deserialize)]
struct Answer {
    ms: f64,
    bytes: usize,
    /// Why it ended early.
    #[serde(default)]
    error: String,
}

/// ironic-python-agent in a process that is ready, and measures once for each line.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Peer {
    /// `None` where it is not here.
    fn start() -> Result<Option<Self>> {
        let started = Command::new(PYTHON)
            .args(["-c", PEER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = started else { return Ok(None) };
        let input = child.stdin.take().context("talking to the peer")?;
        let output = BufReader::new(child.stdout.take().context("talking to the peer")?);
        Ok(Some(Self { child, input, output }))
    }

    fn inspect(&mut self) -> Result<Answer> {
        self.input.write_all(b"\n").context("asking the peer")?;
        let mut line = String::new();
        self.output.read_line(&mut line).context("hearing the peer")?;
        serde_json::from_str(&line).with_context(|| format!("the peer said {line:?}"))
    }
}

/// Milliseconds, and how long the record is in bytes.
fn inspect() -> Result<(f64, usize)> {
    let began = Instant::now();
    let machine = LinuxHost::new(Roots::default(), String::new());
    let inventory = inspect::inventory(&Roots::default(), &machine, "");
    let ms = began.elapsed().as_secs_f64() * 1000.0;
    Ok((ms, serde_json::to_vec(&inventory).context("writing the inventory")?.len()))
}

#[allow(clippy::print_stdout, reason = "the figures are what this program is for")]
fn main() -> Result<()> {
    let rounds = Arguments::parse().rounds;
    let mut peer = Peer::start()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut bytes, mut their_bytes, mut error) = (0, 0, String::new());
    for round in 0..=rounds {
        let (ms, length) = inspect()?;
        let answer = peer.as_mut().map(Peer::inspect).transpose()?;
        if round == 0 {
            continue;
        }
        (bytes, ours) = (length, [ours, vec![ms]].concat());
        if let Some(answer) = answer {
            theirs.push(answer.ms);
            (their_bytes, error) = (answer.bytes, answer.error);
        }
    }
    println!("                        median ms      least       most   record in bytes");
    println!("firesteel's readers     {}   {bytes:15}", figures(&mut ours));
    if theirs.is_empty() {
        println!("ironic-python-agent is not here ({PYTHON}): measured alone");
        return Ok(());
    }
    println!("list_hardware_info      {}   {their_bytes:15}", figures(&mut theirs));
    if !error.is_empty() {
        println!("ironic-python-agent did not get to its end, so its figure is too low: {error}");
    }
    let (ours, theirs) = (median(&ours), median(&theirs));
    if ours < theirs {
        println!("wanted: less than ironic-python-agent: {:.1} times as fast", theirs / ours);
    } else {
        println!("wanted: less than ironic-python-agent: MISSED");
        bail!("the readers are not faster than ironic-python-agent");
    }
    Ok(())
}

/// Of a sorted list.
fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn figures(all: &mut [f64]) -> String {
    all.sort_by(f64::total_cmp);
    let (least, most) = (all.first().copied().unwrap_or(f64::NAN), all.last().copied().unwrap_or(f64::NAN));
    format!("{:10.1} {least:10.1} {most:10.1}", median(all))
}
