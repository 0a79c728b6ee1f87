//! How fast the agent erases each kind of disk, beside `blkdiscard -z` and `dd` of zeroes in the same guest.

use std::{collections::BTreeMap, os::fd::AsRawFd as _, path::PathBuf};

use anyhow::{Context as _, ensure};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde_json::{Value, json};

use super::disks;
use super::guest::{Bus, GuestDisk, WipeGuest};
use crate::{lab::LabConfig, progress::print};

/// Disks in memory are zeroed at some GiB/s: with less, the start of a program and the trial of both ways to zero, which
/// are the same for a disk a hundred times as large, would be what is compared.
const BYTES: u64 = 2 << 30;
const ROUNDS: usize = 5;
/// The slowest that the agent may be beside the faster of the others that leave zeroes.
const SLOWER_MAX: f64 = 1.2;
const BLKDISCARD: &str = "bin/blkdiscard";
const DD: &str = "bin/dd";

/// Runs the comparison and prints a table.
///
/// # Errors
/// The guest failed, a way of the agent left something, or it is slower than it may be.
pub fn bench(config: &LabConfig) -> anyhow::Result<()> {
    let others = [(on_path("blkdiscard")?, BLKDISCARD), (on_path("dd")?, DD)];
    let guest = WipeGuest { config, boot_files: &config.artefacts.boot_files, others: &others };
    let mut missed = Vec::new();
    print("disk         way           seconds (median)   with proof   leaves zeroes");
    for bus in Bus::ALL {
        // In memory, and gone with this process: this computer's own disk would be measured along otherwise, whose
        // writes of one way go on into the time of the next.
        let memory = memfd_create("disk", MFdFlags::MFD_CLOEXEC).context("taking memory for a disk")?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd()));
        disks::fill(&path, BYTES)?;
        let serial = bus.name().to_uppercase();
        let disk = GuestDisk { path, bus, serial: serial.clone(), write_bytes_per_second: None };
        let answers =
            guest.run(&format!("bench-{}", bus.name()), std::slice::from_ref(&disk), &wanted(bus, &serial), &|_| {
                false
            })?;
        let rows = rows(&answers)?;
        for (way, row) in &rows {
            let zeros = if row.zeros { "yes" } else { "no" };
            print(&format!("{:12} {way:13} {:15.2} {:14.2}   {zeros}", bus.name(), row.seconds, row.all_seconds));
        }
        let ratio = verdict(&rows).with_context(|| format!("judging {}", bus.name()))?;
        let said = if ratio <= SLOWER_MAX { "reached" } else { "MISSED" };
        let name = bus.name();
        if ratio > SLOWER_MAX {
            missed.push(name);
        }
        print(&format!("{name:12} wanted: at most {SLOWER_MAX} of the faster other one's time: {ratio:.2}: {said}"));
    }
    ensure!(missed.is_empty(), "the agent is slower than it may be on: {}", missed.join(", "));
    Ok(())
}

fn on_path(program: &str) -> anyhow::Result<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut candidates = std::env::split_paths(&folders).chain(more).map(|folder| folder.join(program));
    candidates.find(|path| path.is_file()).with_context(|| format!("{program} is not installed here"))
}

/// One way after the other, round by round, so that what changes in this computer changes for all. Each round begins
/// with another one, and every second goes backwards: no way always finds the disk as the same other one left it.
fn wanted(bus: Bus, serial: &str) -> Value {
    let blocks = (BYTES >> 22).to_string();
    let dd = ["/bin/dd", "if=/dev/zero", "of={}", "bs=4M", "oflag=direct", "conv=fsync,notrunc"];
    let dd: Vec<String> = dd.iter().map(|word| (*word).to_owned()).chain([format!("count={blocks}")]).collect();
    let mut ways = vec![
        json!("full"),
        json!("overwrite"),
        json!({"program": ["/bin/blkdiscard", "-f", "-z", "{}"]}),
        json!({"program": dd}),
    ];
    // SATA of QEMU has no command that zeroes.
    if bus != Bus::Sata {
        ways.push(json!("write_zeroes"));
    }
    let round: Vec<Value> = ways.into_iter().map(|way| json!({"time": {"serial": serial, "way": way}})).collect();
    let rounds = (0..ROUNDS).flat_map(|number| {
        let mut round = round.clone();
        let ways = round.len();
        round.rotate_left(number % ways);
        if number % 2 == 1 {
            round.reverse();
        }
        round
    });
    rounds.collect()
}

#[derive(Debug)]
struct WipeBenchRow {
    seconds: f64,
    all_seconds: f64,
    zeros: bool,
}

fn rows(answers: &[Value]) -> anyhow::Result<BTreeMap<String, WipeBenchRow>> {
    let mut times: BTreeMap<String, (Vec<f64>, Vec<f64>, bool)> = BTreeMap::new();
    for answer in answers {
        if let Some(error) = answer.get("error") {
            anyhow::bail!("the guest failed: {error}");
        }
        if answer.get("timed").is_none() {
            continue;
        }
        let way = answer["way"].as_str().context("an answer without its way")?.to_owned();
        let second = |name: &str| answer[name].as_f64().context("an answer without its time");
        let entry = times.entry(way).or_insert((Vec::new(), Vec::new(), true));
        entry.0.push(second("seconds")?);
        entry.1.push(second("all_seconds")?);
        entry.2 &= answer["zeros"] == true;
    }
    let row = |(seconds, all, zeros): (Vec<f64>, Vec<f64>, bool)| WipeBenchRow {
        seconds: median(seconds),
        all_seconds: median(all),
        zeros,
    };
    Ok(times.into_iter().map(|(way, times)| (way, row(times))).collect())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
}

/// The slower of what an erasure in full does by itself and of the rung below the drive's own commands (the kernel's
/// zeroing where the disk has it), against the faster other one.
fn verdict(rows: &BTreeMap<String, WipeBenchRow>) -> anyhow::Result<f64> {
    let rung = rows.get("WriteZeroes").or_else(|| rows.get("Overwrite"));
    let own = [rows.get("Full"), rung].map(|row| row.context("no time of the agent"));
    let [full, rung] = own;
    let (full, rung) = (full?, rung?);
    ensure!(full.zeros && rung.zeros, "the agent left something");
    let others = rows.iter().filter(|(way, row)| way.starts_with('/') && row.zeros).map(|(_, row)| row.seconds);
    let fastest = others.min_by(f64::total_cmp).context("none of the others left zeroes")?;
    Ok(full.seconds.max(rung.seconds) / fastest)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_timed_in_each_round_and_follows_more_than_one_other() {
        for bus in Bus::ALL {
            let wanted = wanted(bus, "X");
            let all: Vec<String> = wanted.as_array().unwrap().iter().map(Value::to_string).collect();
            let ways: std::collections::BTreeSet<_> = all.iter().collect();
            for way in ways {
                assert_eq!(all.iter().filter(|other| *other == way).count(), ROUNDS);
                let before = all.windows(2).filter(|pair| pair[1] == *way && pair[0] != *way).map(|pair| &pair[0]);
                assert!(before.collect::<std::collections::BTreeSet<_>>().len() > 1, "{way}");
            }
        }
    }

    #[test]
    fn the_median_of_the_faster_other_one_that_leaves_zeroes_counts() {
        let mut answers = Vec::new();
        for (way, times, zeros) in [
            ("Full", [0.5, 0.6, 0.7], true),
            ("WriteZeroes", [3.0, 1.0, 2.0], true),
            ("/bin/dd", [4.0, 4.0, 1.0], true),
            ("/bin/blkdiscard", [0.1, 0.1, 0.1], false),
        ] {
            for seconds in times {
                answers.push(json!({"timed": "X", "way": way, "seconds": seconds, "all_seconds": 9.0, "zeros": zeros}));
            }
        }
        let rows = rows(&answers).unwrap();
        assert!((verdict(&rows).unwrap() - 0.5).abs() < 1e-9);
        assert!(super::rows(&[json!({"error": "no disk"})]).is_err());
    }
}
