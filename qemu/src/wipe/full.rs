//! The scenario `full-wipe`: four kinds of disks full of a pattern, and disks with signatures of others, all
//! wiped at once; then a wipe whose power is cut.

use std::{fs, path::Path};

use anyhow::{Context as _, bail, ensure};
use firesteel_lab_foreign_disks::{self as foreign, ExpectedFate, ForeignDisk};
use serde_json::{Value, json};

use super::disks::{self, PlantedContent};
use super::guest::{Bus, GuestDisk, WipeGuest};
use crate::lab::LabConfig;
use crate::progress::{ProgressStep, print_status};

const BYTES: u64 = 128 << 20;
const PLANTED_BYTES: u64 = 16 << 20;
/// Slow enough to be cut in the middle.
const SLOW_BYTES_PER_SECOND: u64 = 8 << 20;

/// Runs the scenario.
pub fn full(config: &LabConfig) -> anyhow::Result<()> {
    let folder = &config.folder;
    let guest = WipeGuest { config, boot_files: &config.artefacts.boot_files, others: &[] };
    let step = ProgressStep::begin("wiping four kinds of disks, and disks that hold something");
    let text = wipe(&guest, folder)?;
    step.end_with(&text);
    let step = ProgressStep::begin("wiping a disk whose power is cut");
    cut(&guest, folder)?;
    step.end();
    Ok(())
}

fn wipe(guest: &WipeGuest<'_>, folder: &Path) -> anyhow::Result<String> {
    let mut all = Vec::new();
    for bus in Bus::ALL {
        let path = folder.join(format!("{}.raw", bus.name()));
        disks::fill(&path, BYTES)?;
        all.push(GuestDisk { path, bus, serial: bus.name().to_uppercase(), write_bytes_per_second: None });
    }
    for planted in PlantedContent::ALL {
        let path = folder.join(format!("{}.raw", planted.serial()));
        disks::fill(&path, PLANTED_BYTES)?;
        planted.plant(&path)?;
        all.push(GuestDisk {
            path,
            bus: Bus::VirtioBlock,
            serial: planted.serial().to_owned(),
            write_bytes_per_second: None,
        });
    }
    let before: Vec<Vec<u8>> = PlantedContent::ALL
        .iter()
        .map(|planted| fs::read(folder.join(format!("{}.raw", planted.serial()))))
        .collect::<Result<_, _>>()?;
    let foreign = others(folder)?;
    all.extend(foreign.iter().map(|other| other.disk.clone()));
    let answers = guest.run("wipe", &all, &wanted(&all), &|_| false)?;
    let mut texts = Vec::new();
    for disk in &all[..Bus::ALL.len()] {
        texts.push(erased(disk, &answers)?);
    }
    for (planted, before) in PlantedContent::ALL.into_iter().zip(before) {
        let disk = all.iter().find(|disk| disk.serial == planted.serial()).context("a planted disk")?;
        let Some(objection) = planted.objection() else {
            erased(disk, &answers)?;
            continue;
        };
        refused(disk, &answers, objection, &before)?;
    }
    for FormerlyErasedDisk { disk, says, before } in &foreign {
        refused(disk, &answers, says, before)?;
    }
    Ok(texts.join(", "))
}

/// A disk that an older agent erased.
struct FormerlyErasedDisk {
    disk: GuestDisk,
    says: &'static str,
    before: Vec<u8>,
}

fn others(folder: &Path) -> anyhow::Result<Vec<FormerlyErasedDisk>> {
    let other = |made: ForeignDisk| {
        let ExpectedFate::Stays(says) = made.fate else { bail!("{} is no disk of another", made.name) };
        let path = folder.join(format!("{}.raw", made.name));
        made.write(&path)?;
        let before = fs::read(&path)?;
        let disk = GuestDisk { path, bus: Bus::VirtioScsi, serial: made.name, write_bytes_per_second: None };
        Ok(FormerlyErasedDisk { disk, says, before })
    };
    foreign::erased_before().into_iter().map(other).collect()
}

/// The guest said so and why, and the file is what it was.
fn refused(disk: &GuestDisk, answers: &[Value], says: &str, before: &[u8]) -> anyhow::Result<()> {
    let refusal = answer(answers, "refused", &disk.serial)?;
    let why = refusal["why"].as_str().unwrap_or_default();
    ensure!(why.contains(says), "{}: the refusal does not say {says:?}: {why}", disk.serial);
    ensure!(refusal["changed"] == false, "{}: the refusal says that the disk was changed", disk.serial);
    ensure!(fs::read(&disk.path)? == before, "{}: a disk that was refused was changed", disk.serial);
    print_status(&format!("{}: {why}", disk.serial));
    Ok(())
}

/// The plug is pulled while the kernel's zeroing is under way; the next boot wipes the disk to its end.
fn cut(guest: &WipeGuest<'_>, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join("cut.raw");
    disks::fill(&path, BYTES)?;
    let slow = GuestDisk {
        path,
        bus: Bus::Sata,
        serial: "CUT".to_owned(),
        write_bytes_per_second: Some(SLOW_BYTES_PER_SECOND),
    };
    let is_half = |answer: &Value| {
        let step = &answer["progress"][0];
        let (done, total) = (step["done"].as_u64().unwrap_or(0), step["total"].as_u64().unwrap_or(0));
        step["activity"] == "overwrite" && total > 0 && done > total / 4
    };
    let first = guest.run("cut", std::slice::from_ref(&slow), &wanted(std::slice::from_ref(&slow)), &is_half)?;
    ensure!(!first.iter().any(|answer| answer.get("erased").is_some()), "the power came too late to cut anything");
    let left = disks::patterns_left(&slow.path)?;
    ensure!(left > 0, "the disk was wiped before the power was cut");
    print_status(&format!("the power was cut with {left} patterns left"));
    let again = GuestDisk { write_bytes_per_second: None, ..slow };
    let second =
        guest.run("after-cut", std::slice::from_ref(&again), &wanted(std::slice::from_ref(&again)), &|_| false)?;
    erased(&again, &second).map(drop)
}

fn wanted(all: &[GuestDisk]) -> Value {
    json!([{"erase": all.iter().map(|disk| json!({"serial": disk.serial})).collect::<Vec<_>>()}])
}

fn answer<'a>(answers: &'a [Value], kind: &str, serial: &str) -> anyhow::Result<&'a Value> {
    answers.iter().find(|answer| answer[kind] == serial).with_context(|| {
        let of_disk = answers.iter().filter(|answer| answer.get("progress").is_none()).map(Value::to_string);
        format!("{serial} was not {kind}; the guest said: {}", of_disk.collect::<Vec<_>>().join("\n"))
    })
}

/// The guest said so, and the file says so.
fn erased(disk: &GuestDisk, answers: &[Value]) -> anyhow::Result<String> {
    let answer = answer(answers, "erased", &disk.serial)?;
    let evidence = &answer["evidence"];
    let left = disks::patterns_left(&disk.path)?;
    ensure!(left == 0, "{}: the pattern is there {left} times after {}", disk.serial, evidence["method"]);
    let text = |name: &str| evidence[name].as_str().unwrap_or("?").to_owned();
    Ok(format!("{} by {} ({})", disk.serial, text("method"), text("grade")))
}
