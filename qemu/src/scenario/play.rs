//! Plays a scenario file: brings the machines up, waits for each step's moment, acts, and compares the
//! end with what the file expects.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use firesteel_lab_disk::FaultyDisk;
use nix::{errno::Errno, unistd::Whence};
use serde_json::json;

use super::file::{AppliancePlan, DiskEnd, Expect, ScenarioAction, ScenarioPlan, ScenarioStep, When};
use super::judge;
use crate::attack::AttackerSecrets;
use crate::bmc::BmcKind;
use crate::demo::check;
use crate::host_view::HostView;
use crate::lab::{DesiredHost, Lab, LabConfig, PATIENCE};
use crate::progress::{print_status, seconds};

/// A GPT with its protective MBR, 34 sectors, and its copy at the end, 33 sectors.
const GPT_BYTES: usize = 34 * 512;
const GPT_COPY_BYTES: usize = 33 * 512;
/// The piece of a disk that is searched for a byte that is left.
const BLANK_PIECE_BYTES: usize = 1 << 20;
/// A power supply that is switched off and on again.
const CUT: Duration = Duration::from_secs(2);
/// An attack is in full swing before the first host is known.
const ATTACK_LEAD: Duration = Duration::from_secs(15);
const MIB: u64 = 1 << 20;

/// Where a machine's serial port stood when the last step acted: later steps look at what follows.
struct Player<'a> {
    lab: &'a mut Lab,
    position: u64,
}

pub(super) async fn play(lab: &mut Lab, config: &LabConfig, plan: &ScenarioPlan) -> anyhow::Result<()> {
    print_status(&plan.about);
    let image = config.artefacts.image_of(plan.image.version, plan.image.format)?;
    let mut wishes = Vec::new();
    for machine in &plan.machines {
        let name = &machine.host.name;
        lab.add_machine(machine.host.clone()).await?;
        if machine.host.bmc == BmcKind::Redfish {
            lab.set_bmc_faults(name, machine.bmc_faults.clone())?;
        }
        // Each machine has an address of its own for the image, so that faults are its own.
        let source = lab.publish_below(name, image, machine.origin_faults.clone())?;
        wishes.push((
            name,
            DesiredHost { image: Some(source), uninspected: !machine.inspected, ..DesiredHost::default() },
        ));
    }
    arm(lab, plan.steps.first())?;
    let mut attacker = None;
    if !plan.appliance.attacks.is_empty() {
        attacker = Some(lab.attack(&plan.appliance.attacks, &AttackerSecrets::default()).await?);
        tokio::time::sleep(ATTACK_LEAD).await;
    }
    for (name, wish) in wishes {
        lab.apply_host(name, &wish).await?;
    }
    let begun = Instant::now();
    let mut player = Player { lab, position: 0 };
    for (index, step) in plan.steps.iter().enumerate() {
        let done = player.step(step, plan.steps.get(index + 1)).await;
        done.with_context(|| format!("step {} ({:?}, {:?})", index + 1, step.when, step.act))?;
        print_status(&format!(
            "{}: {:?} at {:?}, after {}",
            step.machine,
            step.act,
            step.when,
            seconds(begun.elapsed())
        ));
    }
    for (name, expect) in &plan.expect {
        end(lab, name, expect).await.with_context(|| format!("the end of {name}"))?;
        print_status(&format!("{name}: ended as expected after {}", seconds(begun.elapsed())));
    }
    if let Some(attacker) = attacker {
        let tally = attacker.stop().await.context("ending the attack")?;
        print_status(&format!("the attack: {tally:?}"));
    }
    bears(lab, &plan.appliance)
}

/// Compares the appliance's memory with its bound. A killed appliance begins again, so it is this life's.
fn bears(lab: &Lab, plan: &AppliancePlan) -> anyhow::Result<()> {
    let peak = lab.appliance.peak_memory().context("reading the appliance's memory")?;
    let mut bounds = Vec::new();
    bounds.extend(plan.peak_mib_max.map(|mib_max| ("this scenario's", mib_max)));
    if plan.within_its_bound {
        let stated = lab.appliance.stated_memory().context("reading the bound that the appliance states")?;
        bounds.push(("the appliance's own", stated / MIB));
    }
    let peak_mib = peak.div_ceil(MIB);
    for (whose, mib_max) in bounds {
        print_status(&format!("the appliance held at most {peak_mib} MiB of memory; {whose} bound is {mib_max} MiB"));
        ensure!(peak_mib <= mib_max, "the appliance held {peak_mib} MiB of memory, more than {whose} bound, {mib_max}");
    }
    Ok(())
}

/// Makes the disk hold the machine at a step's moment, before the machine can have passed it.
fn arm(lab: &Lab, step: Option<&ScenarioStep>) -> anyhow::Result<()> {
    if let Some(step) = step
        && let Some(stop) = step.when.stop()
    {
        disk(lab, &step.machine)?.hold_at(stop);
    }
    Ok(())
}

fn disk(lab: &Lab, name: &str) -> anyhow::Result<FaultyDisk> {
    lab.machine(name)?.served_disks().first().cloned().context("the machine has no disk that the lab serves")
}

impl Player<'_> {
    async fn step(&mut self, step: &ScenarioStep, next: Option<&ScenarioStep>) -> anyhow::Result<()> {
        self.moment(step).await?;
        self.position = self.lab.serial(&step.machine)?.position()?;
        match &step.act {
            ScenarioAction::KillAppliance => self.lab.appliance.crash_and_restart().await?,
            ScenarioAction::Bmc(faults) => self.lab.set_bmc_faults(&step.machine, faults.clone())?,
            ScenarioAction::Link(faults) => self.lab.set_link_faults(&step.machine, *faults)?,
            ScenarioAction::Carrier(up) => {
                let qmp = self.lab.machine(&step.machine)?.qmp().await?;
                qmp.run("set_link", json!({"name": "net0", "up": up})).await?;
            }
            ScenarioAction::MendDisk => disk(self.lab, &step.machine)?.disarm_all(),
            ScenarioAction::PowerCut => {
                self.lab.power_off(&step.machine).await?;
                if let Some(end) = step.disk_is {
                    check_disk(self.lab, &step.machine, end)?;
                }
                tokio::time::sleep(CUT).await;
                arm(self.lab, next)?;
                self.lab.power_on(&step.machine).await?;
            }
        }
        arm(self.lab, next)?;
        disk(self.lab, &step.machine)?.release();
        Ok(())
    }

    async fn moment(&self, step: &ScenarioStep) -> anyhow::Result<()> {
        let name = &step.machine;
        let serial = self.lab.serial(name)?;
        match &step.when {
            When::Now => {}
            When::Console(text) => {
                let seen = serial.wait_for(text, self.position, PATIENCE).await?;
                if seen.is_none() {
                    bail!("no {text:?} on the console, which ends with:\n{}", serial.tail(20));
                }
            }
            When::Event(key) => {
                let before = self.lab.view(name).await?.count(key);
                self.lab.wait_for(name, key, |view| view.count(key) > before).await?;
            }
            When::AfterS(seconds) => tokio::time::sleep(Duration::from_secs(*seconds)).await,
            When::Says(text) => {
                let says = |view: &HostView| view.error().contains(text) || view.reason().contains(text);
                self.lab.wait_for(name, text, says).await?;
            }
            When::WrittenMib(_) | When::ReadBackMib(_) | When::Head | When::HeadFlushed => {
                let disk = disk(self.lab, name)?;
                let hangs = self.lab.wait_for(name, "the writer to come to this point", |_| false);
                tokio::select! {
                    () = disk.until_held() => {}
                    gave_up = hangs => drop(gave_up?),
                }
            }
        }
        Ok(())
    }
}

async fn end(lab: &Lab, name: &str, expect: &Expect) -> anyhow::Result<()> {
    let view = if let Some(reason) = &expect.reason {
        // What must never happen ends the wait as well: it is judged below.
        let says = |view: &HostView| {
            let is_wrong = expect.never.iter().any(|key| view.count(key) > 0);
            is_wrong || view.error().contains(reason) || view.reason().contains(reason)
        };
        lab.wait_for(name, &format!("the reason {reason:?}"), says).await?
    } else {
        let view = lab.wait_running(name, 1).await?;
        check(name, &view)?;
        view
    };
    print_status(&format!("{name}: {}", judge::story(&view)));
    let served = lab.machine(name)?.served_disks().to_vec();
    for disk in served {
        let seen = disk.seen();
        print_status(&format!(
            "{name}: the disk took {} in all, and the image's first block {} times, {} of them durable",
            crate::progress::bytes(seen.total_written_bytes),
            seen.heads,
            seen.heads_flushed
        ));
    }
    let wrong = judge::judge(expect, &view);
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    if let Some(end) = expect.disk {
        // What a flush did not save is no part of the disk.
        lab.power_off(name).await?;
        check_disk(lab, name, end)?;
    }
    Ok(())
}

fn check_disk(lab: &Lab, name: &str, end: DiskEnd) -> anyhow::Result<()> {
    for disk in lab.machine(name)?.config().disks {
        let is_so = match end {
            DiskEnd::BootsNothing => is_zero(&disk.path, SeekFrom::Start(0), GPT_BYTES)?,
            DiskEnd::Cleared => is_cleared(&disk.path)?,
            DiskEnd::Untouched => is_empty(&disk.path)?,
        };
        ensure!(is_so, "the disk {} is not as it must be: {end:?}", disk.serial);
    }
    Ok(())
}

/// Neither partition table nor boot sector: nothing that a firmware could start.
pub(crate) fn is_cleared(disk: &Path) -> anyhow::Result<bool> {
    let copy = SeekFrom::End(-i64::try_from(GPT_COPY_BYTES).unwrap_or(0));
    Ok(is_zero(disk, SeekFrom::Start(0), GPT_BYTES)? && is_zero(disk, copy, GPT_COPY_BYTES)?)
}

fn is_zero(disk: &Path, at: SeekFrom, bytes: usize) -> anyhow::Result<bool> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(disk)?;
        let mut found = vec![1; bytes];
        file.seek(at)?;
        file.read_exact(&mut found)?;
        Ok(found)
    };
    let found = read().with_context(|| format!("reading {}", disk.display()))?;
    Ok(found.iter().all(|byte| *byte == 0))
}

/// No byte of it is anything but zero; what was never written, or given back, is not read.
pub(crate) fn is_blank(disk: &Path) -> anyhow::Result<bool> {
    let read = || -> std::io::Result<bool> {
        let file = File::open(disk)?;
        let end = file.metadata()?.len();
        let mut buffer = vec![0; BLANK_PIECE_BYTES];
        let mut at = 0;
        while at < end {
            let from = i64::try_from(at).map_err(std::io::Error::other)?;
            at = match nix::unistd::lseek(&file, from, Whence::SeekData) {
                Ok(data) => u64::try_from(data).map_err(std::io::Error::other)?,
                // Nothing but holes from here on.
                Err(Errno::ENXIO) => return Ok(true),
                Err(error) => return Err(error.into()),
            };
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let piece = buffer.get_mut(..wanted).unwrap_or_default();
            file.read_exact_at(piece, at)?;
            if piece.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += wanted as u64;
        }
        Ok(true)
    };
    read().with_context(|| format!("reading {}", disk.display()))
}

fn is_empty(disk: &Path) -> anyhow::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = disk.metadata().with_context(|| format!("reading {}", disk.display()))?;
    Ok(metadata.blocks() == 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn one_byte_anywhere_is_not_blank() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let disk = file.as_file();
        disk.set_len((5 << 20) + 17).unwrap();
        assert!(is_blank(file.path()).unwrap());
        disk.write_all_at(&[0; 4096], 3 << 20).unwrap();
        assert!(is_blank(file.path()).unwrap(), "zeros that were written are zeros");
        for at in [0, (2 << 20) + 1, (5 << 20) + 16] {
            disk.write_all_at(&[1], at).unwrap();
            assert!(!is_blank(file.path()).unwrap());
            disk.write_all_at(&[0], at).unwrap();
        }
        assert!(is_blank(file.path()).unwrap());
    }

    #[test]
    fn a_table_at_either_end_and_a_boot_sector_are_seen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let disk = file.as_file();
        disk.set_len(1 << 20).unwrap();
        let ends = || (is_zero(file.path(), SeekFrom::Start(0), GPT_BYTES).unwrap(), is_cleared(file.path()).unwrap());
        assert!(is_empty(file.path()).unwrap());
        assert_eq!(ends(), (true, true));
        disk.write_all_at(&[1], (1 << 20) - 512).unwrap();
        assert_eq!(ends(), (true, false));
        assert!(!is_empty(file.path()).unwrap());
        for at in [0, 511, 512, 33 * 512] {
            disk.write_all_at(&[1], at).unwrap();
            assert_eq!(ends(), (false, false));
            disk.write_all_at(&[0], at).unwrap();
        }
        assert_eq!(ends(), (true, false));
    }
}
