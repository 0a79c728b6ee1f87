//! Disks that are made in this machine, by programs of the lab's computer: volumes and arrays need a kernel.

use std::{collections::BTreeMap, fs::OpenOptions, os::unix::fs::FileExt as _, process::Command};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde_json::json;

use crate::print_answer;

/// One thing to do. In texts, a serial number in braces stands for the disk's device.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuestAction {
    /// A program and its arguments.
    Run(Vec<String>),
    /// Bytes, in hexadecimal, onto a device.
    Write { to: String, at: u64, hex: String },
}

/// Does all of it, and writes out what the kernel holds back.
pub(crate) fn make(devices: &BTreeMap<String, String>, acts: &[GuestAction]) -> anyhow::Result<()> {
    for act in acts {
        match act {
            GuestAction::Run(words) => {
                let words = words.iter().map(|word| placed(devices, word)).collect::<anyhow::Result<Vec<_>>>()?;
                let (program, arguments) = words.split_first().context("no program")?;
                run(program, arguments)?;
            }
            GuestAction::Write { to, at, hex } => {
                let device = placed(devices, to)?;
                let bytes = hex::decode(hex).context("reading what to write")?;
                let file = OpenOptions::new().write(true).open(&device).with_context(|| format!("opening {device}"))?;
                let written = file.write_all_at(&bytes, *at).and_then(|()| file.sync_all());
                written.with_context(|| format!("writing to {device}"))?;
            }
        }
    }
    nix::unistd::sync();
    print_answer(&json!({"made": acts.len()}));
    Ok(())
}

/// Runs a program to its good end.
fn run(program: &str, arguments: &[String]) -> anyhow::Result<()> {
    let output = Command::new(program).args(arguments).output().with_context(|| format!("running {program}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "{program} {}: {}: {err} {out}", arguments.join(" "), output.status);
    Ok(())
}

fn placed(devices: &BTreeMap<String, String>, word: &str) -> anyhow::Result<String> {
    let Some((before, rest)) = word.split_once('{') else { return Ok(word.to_owned()) };
    let Some((serial, after)) = rest.split_once('}') else { bail!("{word:?} has a brace that is not closed") };
    let device = devices.get(serial).with_context(|| format!("no disk has the serial number {serial}"))?;
    Ok(format!("{before}{device}{after}"))
}
