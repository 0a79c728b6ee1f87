//! Kernel arguments through the installed boot loaders: entries of systemd-boot on one machine, GRUB's menu on another.
//! What the config wants of the kernel is there at the first boot, where Ignition looks for it, and at every later one.

use anyhow::{Context as _, ensure};

use super::console;
use crate::{
    demo::check,
    image::System,
    lab::{HostPlan, Lab, LabConfig, Wish},
    machine::{DiskBus, Firmware},
    progress::say,
};

/// What the stub wants of the kernel, and nothing else sets.
const ARGUMENT: &str = "firesteel.lab=entry";

struct Case {
    name: &'static str,
    system: System,
    firmware: Firmware,
    bus: DiskBus,
    /// The file that is changed.
    file: &'static str,
}

const CASES: [Case; 2] = [
    Case {
        name: "entry-1",
        system: System::SystemdBoot,
        firmware: Firmware::Uefi,
        bus: DiskBus::Sata,
        file: "loader/entries/firesteel.conf",
    },
    Case {
        name: "menu-1",
        system: System::Ignition,
        firmware: Firmware::Bios,
        bus: DiskBus::Virtio,
        file: "grub/grub.cfg",
    },
];

/// The systems whose images are needed.
pub(super) fn systems() -> impl Iterator<Item = System> {
    CASES.iter().map(|case| case.system)
}

pub(super) async fn arguments(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    for case in &CASES {
        let image = lab.publish(config.artefacts.image_of_system(case.system)?)?;
        lab.add_machine(HostPlan::new(case.name, case.firmware, case.bus)).await?;
        let kernel_arguments = vec![ARGUMENT.to_owned()];
        lab.apply_host(case.name, &Wish { image: Some(image), kernel_arguments, ..Wish::default() }).await?;
    }
    for case in &CASES {
        boots(lab, case).await.with_context(|| case.name)?;
    }
    Ok(())
}

async fn boots(lab: &Lab, case: &Case) -> anyhow::Result<()> {
    let name = case.name;
    let view = lab.wait_running(name, 1).await?;
    check(name, &view)?;
    let receipt = view.receipts().iter().find(|receipt| receipt["evidence"]["kind"] == "files_handed_off");
    let evidence = &receipt.context("there is no receipt of the hand-off")?["evidence"];
    let changed = evidence["loader"].as_array().into_iter().flatten().find(|file| file["changed"] == true);
    let changed = changed.context("no file of the boot loader was changed")?["path"].as_str().unwrap_or_default();
    ensure!(changed.ends_with(case.file), "{changed} was changed, not {}", case.file);

    let serial = lab.serial(name)?;
    let text = serial.text()?;
    let first = command_line(&text)?;
    for argument in [ARGUMENT, "ignition.firstboot"] {
        ensure!(first.contains(argument), "the first boot was without {argument}: {first}");
    }
    say(&format!("{name}: the first boot had {ARGUMENT} from {changed}, and Ignition found it there"));

    let position = serial.position()?;
    lab.appliance.cli(&["reboot", name, "--hard"]).await?;
    console(lab, name, "runs image", position).await?;
    let text = serial.text()?;
    let second = command_line(text.get(usize::try_from(position)?..).unwrap_or_default())?;
    ensure!(second.contains(ARGUMENT), "the second boot was without {ARGUMENT}: {second}");
    ensure!(!second.contains("ignition.firstboot"), "the second boot asks for Ignition again: {second}");
    say(&format!("{name}: the second boot has it as well, and is no first boot"));
    Ok(())
}

/// What the kernel of the OS says that it was told; the agent's kernel speaks before it.
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
