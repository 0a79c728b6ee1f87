//! A host's whole life through a BMC that is not the lab's own: nothing but the appliance switches the machine. Its
//! erasure ends unverified, because neither of them shows that an override for one boot was used up.

use firesteel_lab_image::PackedFormat;

use crate::bmc::BmcKind;
use crate::demo::{check, retire};
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig};
use crate::machine::{DiskBus, MachineFirmware};

pub(super) async fn run_life(lab: &mut Lab, config: &LabConfig, bmc: BmcKind) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let name = "remote-1";
    lab.add_machine(HostPlan { bmc, ..HostPlan::new(name, MachineFirmware::Uefi, DiskBus::Sata) }).await?;
    lab.apply_host(name, &DesiredHost { image: Some(image), ..DesiredHost::default() }).await?;
    check(name, &lab.wait_running(name, 1).await?)?;
    retire(lab, name, bmc).await
}
