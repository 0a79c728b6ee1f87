//! An appliance that has neither a provisioning interface nor files to boot, against two BMCs that are not the lab's own:
//! sushy-tools and `ipmi_sim`. Machines are switched, rebooted and fenced, and inspected as far as their BMC knows them.
//! What is seen of the power is QEMU's own word.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::time::timeout;

use crate::bmc::BmcKind;
use crate::lab::{DesiredHost, HostPlan, Lab, PATIENCE};
use crate::machine::{DiskBus, MachineFirmware, MachinePower};
use crate::manifests;
use crate::progress::print_status;

/// What keeps a node off while a cluster fences it.
const FENCE: &str = "reboot.metal3.io/self-node-remediation";
const HARD: &str = r#"{"mode":"hard"}"#;

pub(super) async fn bmc_only(lab: &mut Lab) -> anyhow::Result<()> {
    for (name, bmc) in [("redfish-1", BmcKind::Sushy), ("ipmi-1", BmcKind::Ipmi)] {
        lab.add_machine(HostPlan { bmc, ..HostPlan::new(name, MachineFirmware::Uefi, DiskBus::Sata) }).await?;
        lab.apply_host(name, &DesiredHost::default()).await?;
    }
    for name in ["redfish-1", "ipmi-1"] {
        wait_power(lab, name, true).await?;
        lab.wait_for(name, "its BMC to show it on", |view| view.reason().starts_with("available, switched on")).await?;
        fence(lab, name).await?;
        reboot(lab, name).await?;
        print_status(&format!("{name}: switched on, fenced and rebooted by its BMC alone"));
    }
    is_inspected(lab, "redfish-1").await?;
    let condition = condition(lab, "ipmi-1", "InspectedByAgent").await?;
    ensure!(condition["reason"] == "NoInventory", "ipmi-1: its BMC has no inventory, and the host says {condition}");
    for name in ["redfish-1", "ipmi-1"] {
        wants_an_image(lab, name).await?;
        lab.apply(&manifests::offline(name)).await?;
        wait_power(lab, name, false).await?;
    }
    print_status("redfish-1 and ipmi-1: both say what needs the network, and are off");
    Ok(())
}

/// Waits until QEMU runs, or does not.
async fn wait_power(lab: &Lab, name: &str, is_on: bool) -> anyhow::Result<()> {
    let mut power = lab.machine(name)?.power();
    let reached = power.wait_for(|power| (*power != MachinePower::Off) == is_on);
    let in_time = timeout(PATIENCE, reached).await;
    in_time.with_context(|| format!("{name} was not switched, on: {is_on}"))?.context("the machine is gone")?;
    Ok(())
}

/// Holds the machine off until the host says that it is, as fencing does, and lets it go on.
async fn fence(lab: &Lab, name: &str) -> anyhow::Result<()> {
    lab.apply(&manifests::annotated(name, FENCE, Some(HARD))).await?;
    let is_off = |object: &Value| object["status"]["poweredOn"] == false;
    lab.wait_object("baremetalhost", name, "the host to count as off", is_off).await?;
    ensure!(
        *lab.machine(name)?.power().borrow() == MachinePower::Off,
        "{name}: the host counts as off, and the machine runs"
    );
    lab.apply(&manifests::annotated(name, FENCE, None)).await?;
    wait_power(lab, name, true).await?;
    lab.wait_object("baremetalhost", name, "the host to be on again", |object| object["status"]["poweredOn"] == true)
        .await?;
    Ok(())
}

/// A reset is done once, and its annotation goes.
async fn reboot(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let before = lab.view(name).await?.count("rebooted");
    lab.apply(&manifests::annotated(name, "reboot.metal3.io", Some(HARD))).await?;
    // The next edit is applied without it, as the appliance has taken it.
    lab.wait_for(name, "its reboot", |view| view.count("rebooted") > before).await?;
    lab.apply(&manifests::annotated(name, "reboot.metal3.io", None)).await?;
    wait_power(lab, name, true).await
}

/// What sushy-tools says of the machine is in its hardware record, which says whose word it is.
async fn is_inspected(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let machine = lab.machine(name)?.config();
    let data = lab.object("hardwaredata", name).await?;
    let mark = &data["metadata"]["annotations"]["firesteel.dev/bmc-inventory"];
    ensure!(mark.is_string(), "{name}: its hardware record does not say that it is the BMC's: {data:#}");
    let hardware = &data["spec"]["hardware"];
    let has_mac = |nic: &Value| nic["mac"].as_str().is_some_and(|mac| mac.eq_ignore_ascii_case(&machine.mac));
    let nics = hardware["nics"].as_array().cloned().unwrap_or_default();
    ensure!(nics.iter().any(has_mac), "{name}: no NIC has the MAC {}: {hardware:#}", machine.mac);
    ensure!(hardware["ramMebibytes"].as_u64() > Some(0), "{name}: its memory is not known: {hardware:#}");
    let condition = condition(lab, name, "InspectedByAgent").await?;
    ensure!(
        condition["reason"] == "ReadFromBMC",
        "{name}: its hardware is its BMC's word, and the host says {condition}"
    );
    print_status(&format!("{name}: its hardware record is its BMC's word, and says so"));
    Ok(())
}

async fn condition(lab: &Lab, name: &str, kind: &str) -> anyhow::Result<Value> {
    let find = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == kind)
    };
    let object = lab.wait_object("baremetalhost", name, kind, |object| find(object).is_some()).await?;
    find(&object).with_context(|| format!("{name} has no condition {kind}"))
}

/// An image is not installed, and the host says why at once; its machine runs on.
async fn wants_an_image(lab: &Lab, name: &str) -> anyhow::Result<()> {
    lab.apply(&manifests::wanting_image(name, "http://192.0.2.1/none.raw")).await?;
    let is_so = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|found| found["type"] == "NetworkBoot" && found["reason"] == "BMCOnly")
    };
    let object = lab.wait_object("baremetalhost", name, "the reason why it is not installed", is_so).await?;
    let error = object["status"]["errorMessage"].as_str().unwrap_or_default();
    ensure!(error.is_empty(), "{name}: what the site has decided is shown as an error: {error}");
    ensure!(*lab.machine(name)?.power().borrow() != MachinePower::Off, "{name} was switched off");
    lab.apply(&manifests::without_image(name)).await?;
    Ok(())
}
