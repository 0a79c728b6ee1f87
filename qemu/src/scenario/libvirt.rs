//! Firesteel as users of libvirt meet it: an isolated network without DHCP, and machines that virt-install made with
//! everything as it is by default. Their disks have neither serial number nor WWN.
//!
//! ```text
//!   bios, uefi     the error without a hint names the disk's path ─► installed ─► installed again ─► deleted, blank
//!   secure-boot    runs the iPXE of its network card and refuses the kernel: the list of hosts and `describe host MAC`
//!                  say so
//!   large-blocks   installed with an image for blocks of 4096 bytes, and boots
//! ```

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use firesteel_lab_image::{OsImageSystem, PackedFormat};
use tokio::{process::Command, time::Instant};

use super::play::is_blank;
use crate::artefacts::NEXT_VERSION;
use crate::bmc::sushy::Sushy;
use crate::demo::{check, release};
use crate::lab::{DesiredHost, Lab, LabConfig, PATIENCE};
use crate::libvirt::{GuestFirmware, GuestPlan, Libvirt, LibvirtGuest};
use crate::machine::MachineFirmware;
use crate::manifests::{self, HostManifest, ManifestImage, RootHint};
use crate::progress::print_status;

/// The bridge of the isolated network.
const BRIDGE: &str = "virbr1";
const DISK_GIB: u32 = 6;
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How an error that asks for a hint begins to name it.
const HINT: &str = "rootDeviceHints: {deviceName: \"";

pub(super) async fn guests(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let first = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let second = lab.publish(config.artefacts.image_of(NEXT_VERSION, PackedFormat::Zst)?)?;
    let large = lab.publish(config.artefacts.image_of_system(OsImageSystem::LargeBlocks)?)?;
    let libvirt = lab.libvirt().await?;
    libvirt.isolated_network(BRIDGE).await?;
    lab.join(BRIDGE).await?;
    let rack = Rack { lab, config, libvirt: libvirt.clone() };
    let ended = async {
        let bios = rack.whole_life("bios", MachineFirmware::Bios, 101, &first, &second);
        let uefi = rack.whole_life("uefi", MachineFirmware::Uefi, 102, &first, &second);
        tokio::try_join!(bios, uefi)?;
        tokio::try_join!(rack.secure_boot(), rack.large_blocks(&large))
    };
    let ended = ended.await.map(drop);
    libvirt.end_network().await?;
    ended
}

/// Where the machines are made.
struct Rack<'a> {
    lab: &'a Lab,
    config: &'a LabConfig,
    libvirt: Arc<Libvirt>,
}

/// A machine with a BMC.
struct LibvirtMachine {
    guest: LibvirtGuest,
    bmc: Sushy,
    firmware: MachineFirmware,
}

impl Rack<'_> {
    async fn guest(&self, plan: &GuestPlan) -> anyhow::Result<LibvirtGuest> {
        let folder = self.lab.folder().join("guests").join(plan.name);
        let guest = LibvirtGuest::install(self.libvirt.clone(), plan, folder).await?;
        print_status(&format!("{}: virt-install made this machine:\n{}", plan.name, guest.xml().await?));
        Ok(guest)
    }

    /// A machine that is off, and the BMC that switches it.
    async fn station(&self, plan: &GuestPlan, number: u8) -> anyhow::Result<LibvirtMachine> {
        let guest = self.guest(plan).await?;
        guest.power_off().await?;
        let bmc = Sushy::start(guest.uuid, guest.folder(), &self.config.tools, &self.libvirt, number).await?;
        let firmware = if plan.firmware == GuestFirmware::Bios { MachineFirmware::Bios } else { MachineFirmware::Uefi };
        Ok(LibvirtMachine { guest, bmc, firmware })
    }

    async fn apply(&self, station: &LibvirtMachine, wish: DesiredHost) -> anyhow::Result<()> {
        let manifest = HostManifest {
            name: station.guest.name.to_owned(),
            mac: station.guest.mac.clone(),
            firmware: station.firmware,
            bmc: Some(station.bmc.url()),
            wish,
        };
        Ok(self.lab.apply(&self.lab.manifest_of(&manifest)?).await?)
    }

    async fn runs(&self, station: &LibvirtMachine, times: usize) -> anyhow::Result<()> {
        let name = station.guest.name;
        let view = self.lab.wait_running(name, times).await;
        let view = view.with_context(|| format!("the console ends with:\n{}", station.guest.serial().tail(25)))?;
        check(name, &view)
    }

    /// Installs a machine, installs it again with another image, and deletes it.
    async fn whole_life(
        &self,
        name: &'static str,
        firmware: MachineFirmware,
        number: u8,
        first: &ManifestImage,
        second: &ManifestImage,
    ) -> anyhow::Result<()> {
        let guest_firmware = match firmware {
            MachineFirmware::Bios => GuestFirmware::Bios,
            MachineFirmware::Uefi => GuestFirmware::Uefi,
        };
        let plan = GuestPlan { name, firmware: guest_firmware, disk_gib: DISK_GIB, large_blocks: false };
        let station = self.station(&plan, number).await?;
        let path = self.path_of_disk(&station, first).await?;
        let wish = |image: &ManifestImage, generation: u32| DesiredHost {
            image: Some(image.clone()),
            hostname: Some(format!("{name}-{generation}")),
            root: Some(RootHint::Path(path.clone())),
            ..DesiredHost::default()
        };
        self.apply(&station, wish(first, 1)).await?;
        self.runs(&station, 1).await?;
        print_status(&format!("{name}: installed on {path} and running"));
        self.apply(&station, wish(second, 2)).await?;
        self.runs(&station, 2).await?;
        print_status(&format!("{name}: installed again with another image, and running"));
        self.lab.apply(&manifests::erased_in_full(name)).await?;
        release(self.lab, name).await?;
        station.guest.power_off().await?;
        ensure!(is_blank_qcow2(&station.guest).await?, "{name} is deleted, but its disk is not blank");
        print_status(&format!("{name}: deleted; its disk is blank"));
        Ok(())
    }

    /// Asks for the image without a hint, and waits for the error that says which one would name the only disk. Its path.
    async fn path_of_disk(&self, station: &LibvirtMachine, image: &ManifestImage) -> anyhow::Result<String> {
        let name = station.guest.name;
        self.apply(station, DesiredHost { image: Some(image.clone()), ..DesiredHost::default() }).await?;
        let said = |text: &str| {
            text.split_once(HINT).and_then(|(_, rest)| rest.split_once('"')).map(|(path, _)| path.to_owned())
        };
        let view =
            self.lab.wait_for(name, "the question which disk to use", |view| said(view.error()).is_some()).await?;
        print_status(&format!("{name}: without a hint: {}", view.error()));
        said(view.error()).context("the error names no hint")
    }

    /// No BMC, and unknown: it starts nothing of ours, and everyone can see that.
    async fn secure_boot(&self) -> anyhow::Result<()> {
        let name = "secure-boot";
        let plan = GuestPlan { name, firmware: GuestFirmware::SecureBoot, disk_gib: DISK_GIB, large_blocks: false };
        let guest = self.guest(&plan).await?;
        let begun = Instant::now();
        let row = loop {
            let list = self.lab.appliance.cli(&["get", "hosts"]).await?;
            let row = list.lines().find(|line| line.contains(&guest.mac)).map(str::to_owned);
            match row {
                Some(row) if row.contains("Secure Boot") => break row,
                row => ensure!(
                    begun.elapsed() < PATIENCE,
                    "{name}: no word of Secure Boot in the list of hosts, which has {row:?}; the console ends with:\n{}",
                    guest.serial().tail(25)
                ),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        let shown = self.lab.appliance.cli(&["describe", "host", &guest.mac]).await?;
        ensure!(shown.contains("Secure Boot refuses"), "{name}: no word of Secure Boot in its description:\n{shown}");
        print_status(&format!("{name}: the list of hosts has:\n{row}\n{name}: and its description:\n{shown}"));
        guest.power_off().await?;
        Ok(())
    }

    async fn large_blocks(&self, image: &ManifestImage) -> anyhow::Result<()> {
        let name = "large-blocks";
        let plan = GuestPlan { name, firmware: GuestFirmware::Uefi, disk_gib: DISK_GIB, large_blocks: true };
        let station = self.station(&plan, 103).await?;
        let root = Some(RootHint::Path(self.path_of_disk(&station, image).await?));
        self.apply(&station, DesiredHost { image: Some(image.clone()), root, ..DesiredHost::default() }).await?;
        self.runs(&station, 1).await?;
        print_status(&format!("{name}: installed with an image for blocks of 4096 bytes, and running"));
        station.guest.power_off().await?;
        Ok(())
    }
}

/// No byte of the disk is anything but zero, as the machine would read it.
async fn is_blank_qcow2(guest: &LibvirtGuest) -> anyhow::Result<bool> {
    let raw = guest.folder().join("disk.raw");
    let convert = |from: &Path, to: &Path| {
        let mut command = Command::new("qemu-img");
        command.args(["convert", "-f", "qcow2", "-O", "raw"]).arg(from).arg(to).kill_on_drop(true);
        command
    };
    let done = convert(guest.disk(), &raw).output().await.context("running qemu-img")?;
    ensure!(done.status.success(), "reading the disk: {}", String::from_utf8_lossy(&done.stderr));
    is_blank(&raw)
}
