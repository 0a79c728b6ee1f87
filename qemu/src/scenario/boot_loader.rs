//! Kernel arguments through the installed boot loaders: entries of systemd-boot on one machine, GRUB's menu on another.
//! What the config wants of the kernel is there at the first boot, where Ignition looks for it, and at every later one. On
//! a third machine nothing but an argument leads Ignition to its config.

use anyhow::{Context as _, ensure};
use firesteel_lab_image::OsImageSystem;
use serde_json::Value;

use super::console;
use crate::demo::check;
use crate::host_view::HostView;
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig};
use crate::machine::{DiskBus, MachineFirmware};
use crate::net::APPLIANCE_ADDRESS;
use crate::progress::print_status;

/// What the stub wants of the kernel, and nothing else sets.
const ARGUMENT: &str = "firesteel.lab=entry";
/// Upstream's: an argument brings no CA, so the config that it leads to is served without TLS.
pub(super) const CONFIG_PLAIN_PORT: u16 = 22_624;
const LED: &str = "led-1";

struct BootLoaderCase {
    name: &'static str,
    system: OsImageSystem,
    firmware: MachineFirmware,
    bus: DiskBus,
    /// The file that is changed.
    file: &'static str,
}

const CASES: [BootLoaderCase; 2] = [
    BootLoaderCase {
        name: "entry-1",
        system: OsImageSystem::SystemdBoot,
        firmware: MachineFirmware::Uefi,
        bus: DiskBus::Sata,
        file: "loader/entries/firesteel.conf",
    },
    BootLoaderCase {
        name: "menu-1",
        system: OsImageSystem::Ignition,
        firmware: MachineFirmware::Bios,
        bus: DiskBus::Virtio,
        file: "grub/grub.cfg",
    },
];

/// The systems whose images are needed.
pub(super) fn systems() -> impl Iterator<Item = OsImageSystem> {
    CASES.iter().map(|case| case.system)
}

pub(super) async fn arguments(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    for case in &CASES {
        let image = lab.publish(config.artefacts.image_of_system(case.system)?)?;
        lab.add_machine(HostPlan::new(case.name, case.firmware, case.bus)).await?;
        let kernel_arguments = vec![ARGUMENT.to_owned()];
        lab.apply_host(case.name, &DesiredHost { image: Some(image), kernel_arguments, ..DesiredHost::default() })
            .await?;
    }
    for case in &CASES {
        boots(lab, case).await.with_context(|| case.name)?;
    }
    led_by_argument(lab, config).await
}

/// The boot partition has no config: the argument of the entry alone leads to it, and is gone after the first boot.
async fn led_by_argument(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image_of_system(OsImageSystem::SystemdBoot)?)?;
    lab.add_machine(HostPlan::new(LED, MachineFirmware::Uefi, DiskBus::Sata)).await?;
    let wish = DesiredHost { image: Some(image), hand_off: Some("kernel-arguments"), ..DesiredHost::default() };
    lab.apply_host(LED, &wish).await?;
    let view = lab.wait_running(LED, 1).await?;
    check(LED, &view)?;
    let evidence = &hand_off(&view)?["evidence"];
    ensure!(evidence["form"] == "kernel_arguments", "the hand-off was {}, not kernel arguments", evidence["form"]);
    ensure!(evidence["files"].as_array().is_none_or(Vec::is_empty), "files were handed over: {}", evidence["files"]);

    let serial = lab.serial(LED)?;
    let text = serial.text()?;
    let url = format!("ignition.config.url=http://{APPLIANCE_ADDRESS}:{CONFIG_PLAIN_PORT}/config/");
    ensure!(command_line(&text)?.contains(&url), "the first boot was without {url}");
    print_status(&format!("{LED}: Ignition found its config by an argument of the entry, and nothing else"));

    let position = serial.position()?;
    lab.appliance.cli(&["reboot", LED, "--hard", "--yes"]).await?;
    console(lab, LED, "runs image", position).await?;
    let text = serial.text()?;
    let second = command_line(text.get(usize::try_from(position)?..).unwrap_or_default())?;
    for gone in ["ignition.firstboot", "ignition.config.url"] {
        ensure!(!second.contains(gone), "the second boot still has {gone}: {second}");
    }
    print_status(&format!("{LED}: the second boot knows neither the address nor the token"));
    Ok(())
}

fn hand_off(view: &HostView) -> anyhow::Result<&Value> {
    let receipt = view.receipts().iter().find(|receipt| receipt["evidence"]["kind"] == "files_handed_off");
    receipt.context("there is no receipt of the hand-off")
}

async fn boots(lab: &Lab, case: &BootLoaderCase) -> anyhow::Result<()> {
    let name = case.name;
    let view = lab.wait_running(name, 1).await?;
    check(name, &view)?;
    let evidence = &hand_off(&view)?["evidence"];
    let changed = evidence["loader"].as_array().into_iter().flatten().find(|file| file["changed"] == true);
    let changed = changed.context("no file of the boot loader was changed")?["path"].as_str().unwrap_or_default();
    ensure!(changed.ends_with(case.file), "{changed} was changed, not {}", case.file);

    let serial = lab.serial(name)?;
    let text = serial.text()?;
    let first = command_line(&text)?;
    for argument in [ARGUMENT, "ignition.firstboot"] {
        ensure!(first.contains(argument), "the first boot was without {argument}: {first}");
    }
    print_status(&format!("{name}: the first boot had {ARGUMENT} from {changed}, and Ignition found it there"));

    let position = serial.position()?;
    lab.appliance.cli(&["reboot", name, "--hard", "--yes"]).await?;
    console(lab, name, "runs image", position).await?;
    let text = serial.text()?;
    let second = command_line(text.get(usize::try_from(position)?..).unwrap_or_default())?;
    ensure!(second.contains(ARGUMENT), "the second boot was without {ARGUMENT}: {second}");
    ensure!(!second.contains("ignition.firstboot"), "the second boot asks for Ignition again: {second}");
    print_status(&format!("{name}: the second boot has it as well, and is no first boot"));
    Ok(())
}

/// The command line that the kernel of the OS prints; the agent's kernel speaks before it.
fn command_line(console: &str) -> anyhow::Result<&str> {
    let mut lines = console.lines().filter(|line| line.contains("ommand line:") && line.contains("firesteel-root"));
    lines.next_back().context("the OS's kernel did not say its command line")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_systems_own_command_line_is_taken() {
        let console = "[    0.0] Command line: initrd=x console=ttyS0\r\n\
                       [    0.0] Command line: root=/dev/disk/firesteel-root a\r\n\
                       [    0.1] Kernel command line: root=/dev/disk/firesteel-root a b\r\nlogin:";
        assert!(command_line(console).unwrap().ends_with("a b"));
        assert!(command_line("[    0.0] Command line: initrd=x console=ttyS0\r\n").is_err());
    }
}
