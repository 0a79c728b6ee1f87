//! A machine on the provisioning network has read a host's token, and says hello with it and a key of its own while the host's
//! agent is at work. Both stop; the BMC switches the host off, and who still speaks then is not the host. The host boots again
//! and is installed.

use anyhow::{Context as _, ensure};
use firesteel_lab_image::PackedFormat;

use crate::attack::listen::PacketListener;
use crate::attack::{Attack, AttackerSecrets, Tally};
use crate::demo::check;
use crate::host_view::HostView;
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig, PATIENCE};
use crate::machine::{DiskBus, MachineFirmware};
use crate::net::BRIDGE;
use crate::progress::print_status;

const NAME: &str = "victim";

pub(super) async fn second_claimant(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let listener = PacketListener::start(BRIDGE)?;
    lab.add_machine(HostPlan::new(NAME, MachineFirmware::Uefi, DiskBus::Sata)).await?;
    lab.apply_host(NAME, &DesiredHost { image: Some(image), ..DesiredHost::default() }).await?;
    let token = listener.token(PATIENCE).await.context("listening for the host's token")?;
    lab.wait_for(NAME, "its agent's hello", |view| view.count("agent_hello") > 0).await?;

    let ca = lab.folder().join("appliance-ca.crt");
    std::fs::write(&ca, lab.appliance.ca_pem().context("reading the appliance's CA")?).context("keeping the CA")?;
    let loot = AttackerSecrets { token: Some(token), ca: Some(ca), ..AttackerSecrets::default() };
    let thief = lab.attack(&[Attack::SecondKey], &loot).await?;
    let view = lab.wait_for(NAME, "the claim of the thief", |view| view.count("second_claimant") > 0).await?;
    print_status(&format!("both are held: {}", view.reason()));
    let view = lab.wait_for(NAME, "the thief to be named", |view| view.count("intruder_named") > 0).await?;
    let named = event(&view, "intruder_named")?;
    print_status(&named);
    ensure!(named.contains("while the BMC showed the host off"), "the thief is named for another reason: {named}");

    let view = lab.wait_running(NAME, 1).await?;
    check(NAME, &view)?;
    let tally = thief.stop().await.context("ending the claim")?;
    print_status(&format!("the thief: {tally:?}"));
    judge(&tally)?;
    ensure!(view.count("intruder_named") == 1, "{} machines are named", view.count("intruder_named"));
    ensure!(view.count("switched_off") >= 1, "the timeline does not say that the host was seen off");
    print_status("the thief was named and sent away; the host itself is installed and runs");
    Ok(())
}

fn event(view: &HostView, name: &str) -> anyhow::Result<String> {
    let found = view.timeline().into_iter().rev().find(|event| event.key() == name);
    found.map(|event| event.detail).with_context(|| format!("the timeline has no {name}"))
}

/// It was held, sent away after that, and never taken for the host.
fn judge(tally: &Tally) -> anyhow::Result<()> {
    ensure!(tally.hellos_taken == 0, "the thief was taken for the host: {tally:?}");
    ensure!(tally.hellos_held > 0, "the thief was not held: {tally:?}");
    ensure!(tally.hellos_refused > 0, "the thief was not sent away after it was named: {tally:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thief_is_held_and_sent_away() {
        let tally = |taken, held, refused| Tally {
            hellos_taken: taken,
            hellos_held: held,
            hellos_refused: refused,
            ..Tally::default()
        };
        assert!(judge(&tally(0, 3, 1)).is_ok());
        for other in [tally(1, 3, 1), tally(0, 0, 1), tally(0, 3, 0)] {
            assert!(judge(&other).is_err(), "{other:?}");
        }
    }
}
