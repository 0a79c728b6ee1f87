//! A host is released while its last owner's system runs on it. From that moment on a machine with the host's MAC and
//! address asks for its boot script, as that system could: it gets no token before the BMC has shown the host off. The
//! host's own erasure is proven then.

use std::net::Ipv4Addr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use firesteel_lab_image::PackedFormat;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::attack::{Attack, AttackerSecrets, Tally};
use crate::bmc::LabBmcFault;
use crate::demo::{all_blank, check};
use crate::erasure_label::{self, ErasureLabel};
use crate::host_view::HostView;
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig, PATIENCE};
use crate::machine::{DiskBus, Machine, MachineFirmware, MachinePower};
use crate::manifests;
use crate::progress::print_status;

const NAME: &str = "victim";
/// A thief is at work before its host is released.
const LEAD: Duration = Duration::from_secs(3);
/// The delay of the BMC's answers while the power is to be cut, so that there is time to ask in.
const BMC_SLOW_MS: u64 = 1000;
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) async fn forged_wipe(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    lab.add_machine(HostPlan::new(NAME, MachineFirmware::Uefi, DiskBus::Sata)).await?;
    lab.apply_host(NAME, &DesiredHost { image: Some(image), ..DesiredHost::default() }).await?;
    check(NAME, &lab.wait_running(NAME, 1).await?)?;
    lab.apply(&manifests::erased_in_full(NAME)).await?;

    let machine = lab.machine(NAME)?.clone();
    let loot = AttackerSecrets { address: Some(address(lab).await?), ..AttackerSecrets::default() };
    let thief = lab.attack(&[Attack::ScriptTheft], &loot).await?;
    sleep(LEAD).await;
    lab.set_bmc_faults(NAME, vec![LabBmcFault::SlowMs(BMC_SLOW_MS)])?;
    // Nothing but its power ends what runs on it.
    let off = tokio::spawn(first_off(machine.clone()));
    lab.apply(&manifests::without_image(NAME)).await?;
    let off_at = timeout(PATIENCE, off).await.context("the host was not switched off after its release")??;
    let tally = thief.stop().await.context("ending the theft")?;
    lab.set_bmc_faults(NAME, Vec::new())?;
    print_status(&format!("the thief: {tally:?}; the host was off at {} ms", unix_ms(off_at)));
    judge(&tally, off_at)?;
    // It is looked at before it is on again, as an available host that is to be on would be.
    lab.apply(&manifests::offline(NAME)).await?;

    let view = lab.wait_for(NAME, "its deprovisioning", |view| view.state() == "available").await?;
    cut_once(&view)?;
    let begun = Instant::now();
    while *machine.power().borrow() != MachinePower::Off {
        ensure!(begun.elapsed() < PATIENCE, "the host did not switch itself off after its erasure");
        sleep(LOOK_EVERY).await;
    }
    all_blank(lab, NAME)?;
    erasure_label::check(lab, NAME, ErasureLabel::Proven).await?;
    erasure_label::check_receipts(lab, NAME, ErasureLabel::Proven).await?;
    print_status("the thief got nothing before the host was off; its own erasure is proven, and its disk is blank");
    Ok(())
}

/// The address that is leased to the host, as the record of its boot says.
async fn address(lab: &Lab) -> anyhow::Result<Ipv4Addr> {
    let journal = lab.object("hostjournals", NAME).await?;
    let address = journal.pointer("/status/boot/address").and_then(serde_json::Value::as_str);
    address.context("the host's journal names no address of its boot")?.parse().context("reading the host's address")
}

/// When the machine is first seen off.
async fn first_off(machine: Machine) -> SystemTime {
    machine.wait_off().await;
    SystemTime::now()
}

fn unix_ms(at: SystemTime) -> u128 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

/// It asked, was answered, and got no token while the host was on. One that it got later is the host's as well: nothing
/// was fetched with it.
fn judge(tally: &Tally, off_at: SystemTime) -> anyhow::Result<()> {
    ensure!(tally.scripts > 0, "the thief got no answer at all: {tally:?}");
    ensure!(tally.waits > 0, "the thief got no script that waits: {tally:?}");
    let is_early = tally.tokens > 0 && u128::from(tally.first_token_ms) < unix_ms(off_at);
    ensure!(!is_early, "the thief got a token while the host was on: {tally:?}, off at {} ms", unix_ms(off_at));
    Ok(())
}

/// What the host's timeline says of that: it was seen off before it was booted, and who asked meanwhile waited.
fn cut_once(view: &HostView) -> anyhow::Result<()> {
    ensure!(view.count("switched_off") == 1, "the host was seen off {} times", view.count("switched_off"));
    ensure!(view.count("script_waits") > 0, "the timeline has no word of scripts that wait");
    for event in ["reset_accepted", "wipe_unverified"] {
        ensure!(view.count(event) == 0, "the timeline has {event}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_counts_by_its_time() {
        let off_at = UNIX_EPOCH + Duration::from_millis(5000);
        let tally = |tokens, first_token_ms| Tally { scripts: 9, waits: 4, tokens, first_token_ms, ..Tally::default() };
        assert!(judge(&tally(0, 0), off_at).is_ok() && judge(&tally(1, 5000), off_at).is_ok());
        assert!(judge(&tally(1, 4999), off_at).is_err());
        assert!(judge(&Tally { waits: 0, ..tally(0, 0) }, off_at).is_err());
        assert!(judge(&Tally::default(), off_at).is_err());
    }
}
