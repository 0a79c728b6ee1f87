//! A machine as a user of libvirt makes it: by virt-install, with everything that it does not ask for left as it is.
//!
//! It hangs on the isolated network of [`Libvirt::isolated_network`], and begins to boot from there at once. Its disk is
//! virtio without a serial number, its console a pseudo terminal, which is copied into a file here.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::{task::AbortHandle, time::sleep};

use super::{ISOLATED, Libvirt, LibvirtError};
use crate::serial::SerialLog;

/// Debian's own name for what is installed here, near enough: what a guest has by default depends on it.
const OS: &str = "debian11";
/// How soon a console is found that comes with the next start.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestFirmware {
    Bios,
    /// UEFI without Secure Boot.
    Uefi,
    /// UEFI with the usual keys of Secure Boot.
    SecureBoot,
}

/// What a user asks of virt-install.
#[derive(Clone, Debug)]
pub struct GuestPlan {
    pub name: &'static str,
    pub firmware: GuestFirmware,
    pub disk_gib: u32,
    /// Blocks of 4096 bytes, where the default is 512.
    pub large_blocks: bool,
}

impl GuestPlan {
    /// The arguments of virt-install.
    fn arguments(&self) -> Vec<String> {
        let boot = match self.firmware {
            GuestFirmware::Bios => String::new(),
            GuestFirmware::Uefi => firmware(&[("secure-boot", "no")]),
            GuestFirmware::SecureBoot => firmware(&[("secure-boot", "yes"), ("enrolled-keys", "yes")]),
        };
        // QEMU has no physical blocks that are smaller than logical ones.
        let blocks = ",blockio.logical_block_size=4096,blockio.physical_block_size=4096";
        let blocks = if self.large_blocks { blocks } else { "" };
        let (network, boot) = (format!("network={ISOLATED}"), format!("network,hd{boot}"));
        let disk = format!("size={}{blocks}", self.disk_gib);
        // QEMU without KVM, which not every computer has. Linux hangs there now and then where it has two processors.
        let emulated = ["--virt-type", "qemu", "--vcpus", "1"];
        let plain = ["--osinfo", OS, "--import", "--noautoconsole", "--name", self.name];
        let given = ["--network", &network, "--boot", &boot, "--disk", &disk];
        emulated.into_iter().chain(plain).chain(given).map(str::to_owned).collect()
    }
}

/// Firmware by its features, as libvirt chooses it.
fn firmware(features: &[(&str, &str)]) -> String {
    let one = |(number, (name, enabled)): (usize, &(&str, &str))| {
        format!(",firmware.feature{number}.name={name},firmware.feature{number}.enabled={enabled}")
    };
    let features: String = features.iter().enumerate().map(one).collect();
    format!(",firmware=efi{features}")
}

/// A machine that virt-install made. libvirt keeps it; it ends with libvirt.
#[derive(Debug)]
pub struct LibvirtGuest {
    pub name: &'static str,
    pub uuid: uuid::Uuid,
    /// The address of its only NIC.
    pub mac: String,
    folder: PathBuf,
    disk: PathBuf,
    libvirt: Arc<Libvirt>,
    console: AbortHandle,
}

impl Drop for LibvirtGuest {
    fn drop(&mut self) {
        self.console.abort();
    }
}

impl LibvirtGuest {
    /// Makes a machine and starts it. What is kept of it outside libvirt lies in the folder.
    pub async fn install(libvirt: Arc<Libvirt>, plan: &GuestPlan, folder: PathBuf) -> Result<Self, LibvirtError> {
        let failed = |source| LibvirtError::File { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(failed)?;
        libvirt.virt_install(&plan.arguments()).await?;
        let uuid = libvirt.run(&["domuuid", plan.name]).await?;
        let uuid = uuid.parse().map_err(|_| odd(plan.name, "UUID"))?;
        let nics = libvirt.run(&["domiflist", "--inactive", plan.name]).await?;
        let mac = nics.split_whitespace().last().ok_or_else(|| odd(plan.name, "NIC"))?.to_owned();
        let disks = libvirt.run(&["domblklist", "--inactive", plan.name]).await?;
        let disk = disks.split_whitespace().last().ok_or_else(|| odd(plan.name, "disk"))?;
        let disk = libvirt.outside(Path::new(disk)).ok_or_else(|| odd(plan.name, "disk in libvirt's own folder"))?;
        let log = folder.join("serial.log");
        fs::write(&log, "").map_err(failed)?;
        let console = tokio::spawn(copy_consoles(libvirt.clone(), plan.name, log)).abort_handle();
        Ok(Self { name: plan.name, uuid, mac, folder, disk, libvirt, console })
    }

    /// Its definition, as libvirt keeps it.
    pub async fn xml(&self) -> Result<String, LibvirtError> {
        self.libvirt.run(&["dumpxml", "--inactive", self.name]).await
    }

    /// Pulls the plug; does nothing where it is off.
    pub async fn power_off(&self) -> Result<(), LibvirtError> {
        if self.libvirt.run(&["domstate", self.name]).await? == "shut off" {
            return Ok(());
        }
        self.libvirt.run(&["destroy", self.name]).await.map(drop)
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its disk, in the form that libvirt gave it.
    #[must_use]
    pub fn disk(&self) -> &Path {
        &self.disk
    }

    #[must_use]
    pub fn serial(&self) -> SerialLog {
        SerialLog::new(self.folder.join("serial.log"))
    }
}

fn odd(name: &str, what: &'static str) -> LibvirtError {
    LibvirtError::Odd { name: name.to_owned(), what }
}

/// Copies each console that the machine gets, one a start, to the end of a file.
async fn copy_consoles(libvirt: Arc<Libvirt>, name: &'static str, log: PathBuf) {
    loop {
        if let Ok(terminal) = libvirt.run(&["ttyconsole", name]).await {
            let log = log.clone();
            let copied = tokio::task::spawn_blocking(move || copy_console(Path::new(&terminal), &log)).await;
            tracing::debug!(?copied, name, "a console came to its end");
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Copies the console until its other end is closed, which the kernel reports as an error.
fn copy_console(terminal: &Path, log: &Path) -> io::Result<()> {
    let mut from = fs::File::open(terminal)?;
    let mut to = fs::OpenOptions::new().append(true).open(log)?;
    let mut buffer = [0; 4096];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(buffer.get(..read).unwrap_or_default())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(firmware: GuestFirmware, large_blocks: bool) -> String {
        GuestPlan { name: "a", firmware, disk_gib: 6, large_blocks }.arguments().join(" ")
    }

    #[test]
    fn a_guest_differs_from_the_default_in_emulation_firmware_and_blocks_alone() {
        let bios = line(GuestFirmware::Bios, false);
        assert_eq!(
            bios,
            "--virt-type qemu --vcpus 1 --osinfo debian11 --import --noautoconsole --name a --network network=isolated \
             --boot network,hd --disk size=6"
        );
        let large = line(GuestFirmware::Bios, true);
        let wanted = "--disk size=6,blockio.logical_block_size=4096,blockio.physical_block_size=4096";
        assert!(large.ends_with(wanted), "{large}");
        let secure = line(GuestFirmware::SecureBoot, false);
        let wanted = "--boot network,hd,firmware=efi,firmware.feature0.name=secure-boot,firmware.feature0.enabled=yes,\
                      firmware.feature1.name=enrolled-keys,firmware.feature1.enabled=yes ";
        assert!(secure.contains(wanted), "{secure}");
        assert!(line(GuestFirmware::Uefi, false).contains("name=secure-boot,firmware.feature0.enabled=no"));
    }
}
