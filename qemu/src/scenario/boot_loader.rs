//! Kernel arguments through systemd-boot: the address of the config, and what the config itself wants of the kernel.

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::{console, stream};
use crate::{
    demo::check,
    image::System,
    lab::{HostPlan, Lab, LabConfig, Wish},
    machine::{DiskBus, Firmware},
    manifests::{self, UserData},
    progress::say,
};

/// What the pool's config wants of the kernel, and nothing else sets.
const ARGUMENT: &str = "firesteel.lab=entry";
const POOL: &str = "entries";

/// Without TLS: a kernel argument has no room for a CA, and this image trusts nobody by itself.
pub(super) const SERVE: [&str; 1] = ["--config-plain"];

pub(super) async fn systemd_boot(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image_of_system(System::SystemdBoot)?)?;
    let url = stream::publish(lab, stream::STREAM, "1", &stream::Disk::zst(image))?;
    lab.apply(&manifests::yaml(&[
        stream::policy(),
        stream::object(stream::STREAM, &url, Some("kernel-arguments")),
        super::pool::machine_config("50-entries", POOL, json!({"kernelArguments": [ARGUMENT]})),
        super::pool::machine_config_pool(POOL),
        stream::group("entries", "entry", json!({"image": {"stream": stream::STREAM}, "pool": POOL})),
    ]))
    .await?;
    stream::wait_stamped(lab, stream::STREAM, "1").await?;

    let name = "entry-1";
    lab.add_machine(HostPlan::new(name, Firmware::Uefi, DiskBus::Sata)).await?;
    let labels = [("role".to_owned(), "entry".to_owned())].into();
    lab.apply_host(name, &Wish { labels, in_group: true, user_data: UserData::OfGroup, ..Wish::default() }).await?;
    let view = lab.wait_running(name, 1).await?;
    check(name, &view)?;
    let receipt = view.receipts().iter().find(|receipt| receipt["evidence"]["kind"] == "files_handed_off");
    let evidence = &receipt.context("there is no receipt of the hand-off")?["evidence"];
    ensure!(evidence["form"] == "kernel_arguments", "the hand-off was {}, not kernel arguments", evidence["form"]);
    let entry = evidence["loader"].as_array().into_iter().flatten().find(|file| file["changed"] == true);
    let path = entry.context("no entry of the boot loader was changed")?["path"].as_str().unwrap_or_default();
    ensure!(path.ends_with("loader/entries/firesteel.conf"), "{path} was changed, and not the entry");
    let serial = lab.serial(name)?;
    let first = serial.text()?;
    let is_told = |argument: &str| first.lines().any(|line| line.contains("ommand line:") && line.contains(argument));
    for argument in [ARGUMENT, "ignition.config.url=http://", "ignition.firstboot"] {
        ensure!(is_told(argument), "the kernel was not told {argument}");
    }
    say(&format!("{name}: Ignition was configured by the entry {path}"));

    let position = serial.position()?;
    lab.appliance.cli(&["reboot", name, "--hard"]).await?;
    console(lab, name, "runs image", position).await?;
    let text = serial.text()?;
    let later = text.get(usize::try_from(position)?..).unwrap_or_default();
    let line =
        later.lines().find(|line| line.contains("ommand line:")).context("the kernel did not say its command line")?;
    ensure!(line.contains(ARGUMENT), "the second boot was without {ARGUMENT}: {line}");
    ensure!(!line.contains("ignition.firstboot"), "the second boot asks for Ignition again: {line}");
    ensure!(!line.contains("token="), "the host's token is still in the entry");
    say(&format!("{name}: the second boot has the argument, and is no first boot"));
    Ok(())
}
