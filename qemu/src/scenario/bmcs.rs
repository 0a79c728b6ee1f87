//! A host's whole life through a BMC that is not the lab's own: nothing but the appliance switches the machine. Its
//! erasure ends unverified, because neither of them shows that an override for one boot was used up.

use crate::{
    artefacts::ImageFormat,
    bmc::BmcKind,
    demo::{check, retire},
    lab::{HostPlan, Lab, LabConfig, Wish},
    machine::{DiskBus, Firmware},
};

pub(super) async fn life(lab: &mut Lab, config: &LabConfig, bmc: BmcKind) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(ImageFormat::Zst)?)?;
    let name = "remote-1";
    lab.add_machine(HostPlan { bmc, ..HostPlan::new(name, Firmware::Uefi, DiskBus::Sata) }).await?;
    lab.apply_host(name, &Wish { image: Some(image), ..Wish::default() }).await?;
    check(name, &lab.wait_running(name, 1).await?)?;
    retire(lab, name, bmc).await
}
