//! A machine that runs one program of ours and says on its console how it went.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use firesteel_ramdisk::{INITRAMFS_FILE, KERNEL_FILE, cpio::Archive};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{lab::LabConfig, machine::Accel, os};

/// A machine that takes longer hangs; emulated ones need minutes.
const TIMEOUT: Duration = Duration::from_secs(1800);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// What the program's lines begin with.
const MARK: &str = "WIPE ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bus {
    VirtioBlock,
    VirtioScsi,
    Nvme,
    Sata,
}

impl Bus {
    pub(super) const ALL: [Self; 4] = [Self::VirtioBlock, Self::VirtioScsi, Self::Nvme, Self::Sata];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::VirtioBlock => "virtio-blk",
            Self::VirtioScsi => "virtio-scsi",
            Self::Nvme => "nvme",
            Self::Sata => "sata",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct GuestDisk {
    pub(super) path: PathBuf,
    pub(super) bus: Bus,
    pub(super) serial: String,
    /// The most that is written in a second; a slow disk can be interrupted.
    pub(super) write_bytes_per_second: Option<u64>,
}

/// Everything that a machine is started with.
pub(super) struct WipeGuest<'a> {
    pub(super) config: &'a LabConfig,
    /// Folder with the lab's kernel and initramfs.
    pub(super) boot_files: &'a Path,
    /// Programs of this computer that it may run, by their places here and there.
    pub(super) others: &'a [(PathBuf, &'a str)],
}

impl WipeGuest<'_> {
    /// Runs the machine until it switches itself off, or pulls its plug at the first answer that `cut` says yes to.
    /// Returns all answers.
    pub(super) fn run(
        &self,
        name: &str,
        disks: &[GuestDisk],
        wanted: &Value,
        cut: &dyn Fn(&Value) -> bool,
    ) -> anyhow::Result<Vec<Value>> {
        let initramfs = self.config.folder.join(format!("{name}.cpio"));
        self.write_initramfs(&initramfs, wanted)?;
        let log = self.config.folder.join(format!("{name}.log"));
        File::create(&log)?;
        let mut qemu = self.command(disks, &initramfs, &log).spawn().context("starting QEMU")?;
        let begun = Instant::now();
        let mut read = 0;
        let ended = loop {
            let length = fs::metadata(&log).context("looking at the console")?.len();
            if length != read {
                read = length;
                let answers = answers(&log)?;
                if answers.iter().any(cut) {
                    qemu.kill().and_then(|()| qemu.wait()).context("pulling the plug")?;
                    break Ok(answers);
                }
            }
            if let Some(status) = qemu.try_wait().context("waiting for QEMU")? {
                ensure!(status.success(), "QEMU ended with {status}; its console is in {}", log.display());
                break self::answers(&log);
            }
            if begun.elapsed() > TIMEOUT {
                qemu.kill().and_then(|()| qemu.wait()).context("ending QEMU")?;
                bail!("the machine did not end; its console is in {}", log.display());
            }
            thread::sleep(LOOK_EVERY);
        };
        fs::remove_file(&initramfs).context("removing the initramfs")?;
        ended
    }

    /// The lab's own initramfs, and behind it an archive whose /init takes the place of the agent.
    fn write_initramfs(&self, to: &Path, wanted: &Value) -> anyhow::Result<()> {
        let base = self.boot_files.join(INITRAMFS_FILE);
        let mut bytes = fs::read(&base).with_context(|| format!("reading {}", base.display()))?;
        let mut archive = Archive::default();
        archive.add_file("init", 0o755, read(&self.config.artefacts.wipe_guest)?);
        archive.add_file("wipe.json", 0o644, wanted.to_string().into_bytes());
        let mut libraries = libraries(&self.config.artefacts.wipe_guest);
        for (here, there) in self.others {
            archive.add_file(there, 0o755, read(here)?);
            libraries.extend(self::libraries(here));
        }
        for library in libraries {
            let there = library.to_string_lossy().trim_start_matches('/').to_owned();
            archive.add_file(&there, 0o755, read(&library)?);
        }
        // The kernel looks for the next archive at multiples of four.
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(archive.to_bytes());
        fs::write(to, bytes).with_context(|| format!("writing {}", to.display()))
    }

    fn command(&self, disks: &[GuestDisk], initramfs: &Path, log: &Path) -> Command {
        let mut command = Command::new(&self.config.tools.qemu);
        let cpu = match self.config.accel {
            Accel::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Accel::Tcg => ["-accel", "tcg", "-cpu", "max"],
        };
        command.args(["-machine", "q35", "-m", "1024", "-smp", "2", "-nodefaults", "-display", "none", "-no-reboot"]);
        command.args(cpu).arg("-serial").arg(format!("file:{}", log.display()));
        command.arg("-kernel").arg(self.boot_files.join(KERNEL_FILE)).arg("-initrd").arg(initramfs);
        command.args(["-append", "console=ttyS0 quiet panic=-1 rdinit=/init"]);
        command.args(["-device", "virtio-scsi-pci,id=scsi0"]);
        let (mut scsi, mut sata) = (0, 0);
        for (number, disk) in disks.iter().enumerate() {
            let speed = disk.write_bytes_per_second.map(|bytes| format!(",throttling.bps-write={bytes}"));
            command.arg("-drive").arg(format!(
                "if=none,id=d{number},file={},format=raw,cache=writeback,discard=unmap,detect-zeroes=off{}",
                disk.path.display(),
                speed.unwrap_or_default(),
            ));
            let serial = &disk.serial;
            let device = match disk.bus {
                Bus::VirtioBlock => format!("virtio-blk-pci,drive=d{number},serial={serial}"),
                Bus::Nvme => format!("nvme,drive=d{number},serial={serial}"),
                Bus::VirtioScsi => {
                    scsi += 1;
                    format!("scsi-hd,bus=scsi0.0,scsi-id={scsi},drive=d{number},serial={serial}")
                }
                Bus::Sata => {
                    sata += 1;
                    format!("ide-hd,bus=ide.{},drive=d{number},serial={serial}", sata - 1)
                }
            };
            command.arg("-device").arg(device);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        os::die_with_parent(&mut command, Signal::SIGKILL);
        command
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// Shared libraries of a program, none for a static one, as the dynamic linker says.
fn libraries(program: &Path) -> BTreeSet<PathBuf> {
    let Ok(output) = Command::new("ldd").arg(program).output() else { return BTreeSet::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .filter(|path| path.is_file())
        .collect()
}

/// The answers so far; a line that is not whole yet is none.
fn answers(log: &Path) -> anyhow::Result<Vec<Value>> {
    let text = String::from_utf8_lossy(&fs::read(log).context("reading the console")?).into_owned();
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let marked = lines.filter_map(|line| Some(line.trim_end().split_once(MARK)?.1));
    Ok(marked.filter_map(|line| serde_json::from_str(line).ok()).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn answers_are_whole_lines_behind_whatever_the_kernel_says() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, "[ 1.0] x\r\n[ 2.0] yWIPE {\"a\":1}\r\nWIPE {\"b\":2}\nWIPE {\"c\"").unwrap();
        let answers: Vec<String> = answers(&log).unwrap().iter().map(Value::to_string).collect();
        assert_eq!(answers, ["{\"a\":1}", "{\"b\":2}"]);
    }
}
