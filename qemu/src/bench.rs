//! Measurements: programs that measure parts of the product, and the time that firmware, boot loader
//! and kernel take before any program of ours runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use firesteel_ramdisk::{INITRAMFS_FILE, KERNEL_FILE, MANIFEST_FILE, RamdiskManifest, cpio::Archive, manifest};

use crate::artefacts::{WORKSPACE, target_folder};
use crate::bmc::BmcKind;
use crate::building::build;
use crate::lab::{HostPlan, Lab, LabConfig};
use crate::machine::{DiskBus, MachineFirmware};
use crate::probe::KERNEL_FIRST_LINE;
use crate::progress::{ProgressStep, print};

/// A boot that takes longer hangs.
const BOOT_TIMEOUT: Duration = Duration::from_secs(600);
/// What the /init that does nothing else prints.
const INIT_LINE: &str = "LAB-EMPTY-INIT";

/// A benchmark that is a program of its own, with the appliance beside it, both built as users build it.
pub fn program(name: &str, arguments: &[String]) -> anyhow::Result<()> {
    let step = ProgressStep::begin("building the benchmark");
    let wanted = ["--bin", name, "--bin", "firesteel"];
    build(&[&["build", "--release"], &wanted[..], &WORKSPACE].concat(), &[])?;
    step.end();
    let program = target_folder().join("release").join(name);
    let status = Command::new(&program).args(arguments).status().context("running the benchmark")?;
    if !status.success() {
        bail!("the benchmark failed ({status})");
    }
    Ok(())
}

/// The appliance as users build it.
pub fn appliance() -> anyhow::Result<PathBuf> {
    let step = ProgressStep::begin("building the appliance as users do");
    build(&[&["build", "--release", "--bin", "firesteel"][..], &WORKSPACE].concat(), &[])?;
    step.end();
    Ok(target_folder().join("release/firesteel"))
}

/// Seconds from power-on to the kernel's first line and to /init, by the whole network boot, with an
/// initramfs that holds nothing but an /init that prints one line.
pub async fn boot(mut config: LabConfig) -> anyhow::Result<()> {
    let empty = config.folder.join("boot");
    empty_boot_files(&config.artefacts.boot_files, &empty)?;
    config.artefacts.boot_files = empty;
    let mut lab = Lab::start(config).await?;
    print("firmware   kernel's first line   empty /init   (seconds since power-on)");
    for firmware in [MachineFirmware::Bios, MachineFirmware::Uefi] {
        let name = firmware.to_string();
        lab.add_machine(HostPlan { bmc: BmcKind::None, ..HostPlan::new(&name, firmware, DiskBus::Virtio) }).await?;
        let (machine, serial) = (lab.machine(&name)?.clone(), lab.serial(&name)?);
        let begun = SystemTime::now();
        machine.power_on().await?;
        let mut seconds = Vec::new();
        for line in [KERNEL_FIRST_LINE, INIT_LINE] {
            let seen = serial.wait_for(line, 0, BOOT_TIMEOUT).await?;
            let seen = seen.with_context(|| format!("{name} did not print {line:?}:\n{}", serial.tail(20)))?;
            seconds.push(seen.duration_since(begun).unwrap_or_default().as_secs_f64());
        }
        print(&format!("{name:8} {:21.1} {:13.1}", seconds[0], seconds[1]));
        machine.power_off().await?;
    }
    lab.stop().await;
    Ok(())
}

/// Copies the boot files with the smallest initramfs.
fn empty_boot_files(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    fs::copy(from.join(KERNEL_FILE), to.join(KERNEL_FILE)).context("copying the kernel")?;
    let mut archive = Archive::default();
    archive.add_file("init", 0o755, empty_init());
    let initramfs = zstd::encode_all(archive.to_bytes().as_slice(), 3).context("compressing")?;
    let text = fs::read(from.join(MANIFEST_FILE)).context("reading the manifest")?;
    let mut described: RamdiskManifest = serde_json::from_slice(&text).context("reading the manifest")?;
    described.initramfs = manifest::ManifestFile::of(&initramfs);
    described.total_bytes = described.vmlinuz.bytes + described.initramfs.bytes;
    described.modules.clear();
    fs::write(to.join(INITRAMFS_FILE), initramfs)?;
    fs::write(to.join(MANIFEST_FILE), serde_json::to_vec_pretty(&described)?)?;
    Ok(())
}

/// A program for Linux on x86-64 that prints [`INIT_LINE`] and waits without end, as bytes: an ELF
/// header, one loadable segment, eleven instructions.
fn empty_init() -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let text = format!("{INIT_LINE}\n");
    let mut code: Vec<u8> = Vec::new();
    // write(1, text, length): the text follows the code, which is 41 bytes long.
    code.extend([0xb8, 1, 0, 0, 0]); // mov eax, 1
    code.extend([0xbf, 1, 0, 0, 0]); // mov edi, 1
    code.extend([0x48, 0x8d, 0x35]); // lea rsi, [rip + to the text]
    let after_lea = code.len() + 4;
    code.extend([0; 4]);
    code.push(0xba); // mov edx, length
    code.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0xb8, 34, 0, 0, 0]); // mov eax, 34 (pause)
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0xeb, 0xf7]); // jmp back to the pause
    let distance = u32::try_from(code.len() - after_lea).unwrap_or(0);
    code[after_lea - 4..after_lea].copy_from_slice(&distance.to_le_bytes());
    code.extend(text.bytes());
    let size = HEADERS + code.len() as u64;

    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    elf.extend(2u16.to_le_bytes()); // executable
    elf.extend(62u16.to_le_bytes()); // x86-64
    elf.extend(1u32.to_le_bytes());
    elf.extend((BASE + HEADERS).to_le_bytes()); // entry
    elf.extend(64u64.to_le_bytes()); // program headers
    elf.extend(0u64.to_le_bytes()); // no section headers
    elf.extend(0u32.to_le_bytes());
    for value in [64u16, 56, 1, 64, 0, 0] {
        elf.extend(value.to_le_bytes());
    }
    elf.extend(1u32.to_le_bytes()); // load
    elf.extend(5u32.to_le_bytes()); // readable, executable
    for value in [0, BASE, BASE, size, size, 0x1000] {
        elf.extend(value.to_le_bytes());
    }
    elf.extend(code);
    elf
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// The bytes are a program that this very kernel runs.
    #[test]
    fn the_empty_init_prints_its_line_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("init");
        fs::write(&path, empty_init()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let mut child = Command::new(&path).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = vec![0; INIT_LINE.len() + 1];
        child.stdout.take().unwrap().read_exact(&mut line).unwrap();
        assert_eq!(line, format!("{INIT_LINE}\n").into_bytes());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
