//! Disks that real tools make, on files of this computer.

use std::env;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use firesteel_lab_foreign_disks::{self as foreign, ExpectedFate, ForeignDisk};

const MIB: u64 = 1 << 20;
const VMFS: &str = "AA31E02A-400F-11DB-9590-000C2911D1B8";

/// A disk, the programs that make it, one after the other, and what is put onto it by hand behind them.
pub(super) struct ToolMade {
    pub(super) made: ForeignDisk,
    /// Program and arguments; `{}` is the file. What comes behind `<` goes to its input.
    commands: Vec<String>,
}

impl ToolMade {
    fn new(name: &str, mib: u64, fate: ExpectedFate, commands: &[&str]) -> Self {
        let made = ForeignDisk { name: name.to_owned(), bytes: mib * MIB, fate, ..ForeignDisk::default() };
        Self { made, commands: commands.iter().map(|command| (*command).to_owned()).collect() }
    }

    fn erased(name: &str, mib: u64, commands: &[&str]) -> Self {
        Self::new(name, mib, ExpectedFate::Erased, commands)
    }

    /// A disk with VMFS from here on.
    fn vmfs(name: &str, says: &'static str, at: u64, commands: &[&str]) -> Self {
        let tool = Self::new(name, 16, ExpectedFate::Stays(says), commands);
        Self { made: ForeignDisk { pieces: foreign::vmfs(at), ..tool.made }, ..tool }
    }

    /// Makes the file.
    pub(super) fn make(&self, path: &Path) -> anyhow::Result<()> {
        File::create(path)?.set_len(self.made.bytes)?;
        for command in &self.commands {
            run(command, path)?;
        }
        self.made.write_over(&File::options().write(true).open(path)?).context("writing onto it")
    }
}

/// All of them.
pub(super) fn all() -> Vec<ToolMade> {
    [whole(), tables(), others()].into_iter().flatten().collect()
}

/// A filesystem on the disk itself.
fn whole() -> Vec<ToolMade> {
    let erased = ToolMade::erased;
    vec![
        erased("tool-ext4", 8, &["mkfs.ext4 -q -F {}"]),
        // Its makers' own tests make small ones, and these variables say that this is one.
        erased("tool-xfs", 16, &["env TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1 mkfs.xfs -q {}"]),
        erased("tool-vfat", 8, &["mkfs.vfat {}"]),
        erased("tool-btrfs", 32, &["mkfs.btrfs -q --mixed {}"]),
        erased("tool-swap", 8, &["mkswap -q {}"]),
        erased(
            "tool-luks",
            20,
            &["cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 {} - < secret"],
        ),
    ]
}

/// Tables as their usual makers write them, with ordinary and other contents.
fn tables() -> Vec<ToolMade> {
    let (erased, vmfs) = (ToolMade::erased, ToolMade::vmfs);
    let typed = format!("sgdisk -n 1:2048:+1M -n 2:4096:+10M -t 2:{VMFS} {{}}");
    let large = format!("sgdisk -S 2048 -n 1:4096:+10M -t 1:{VMFS} {{}}");
    vec![
        erased(
            "sgdisk-system",
            16,
            &[
                "sgdisk -n 1:2048:+4M -t 1:ef00 -n 2:10240:+8M -t 2:8300 {}",
                "mkfs.vfat --offset 2048 {} 4096",
                "mkfs.ext4 -q -F -E offset=5242880 {} 8192k",
            ],
        ),
        erased("parted-gpt", 16, &["parted -s {} mklabel gpt mkpart a 1MiB 5MiB mkpart b 5MiB 9MiB"]),
        erased("parted-msdos", 16, &["parted -s {} mklabel msdos mkpart primary 1MiB 5MiB mkpart primary 5MiB 9MiB"]),
        erased("sfdisk-gpt", 16, &["sfdisk -q {} < label: gpt\n,4M,U\n,4M,S\n,,L\n"]),
        erased("sfdisk-logical", 16, &["sfdisk -q {} < label: dos\n,2M,83\n,,5\n,2M,83\n,2M,82\n"]),
        vmfs("sgdisk-vmfs", "VMFS", 2 * MIB, &[&typed]),
        vmfs("sgdisk-2048", "VMFS", 2 * MIB, &[&large]),
        vmfs("sgdisk-hybrid", "VMFS", 2 * MIB, &[&typed, "sgdisk -h 1 {}"]),
        vmfs("sgdisk-no-backup", "VMFS", 2 * MIB, &[&typed, "truncate -s 15M {}", "truncate -s 16M {}"]),
        vmfs(
            "sgdisk-lost",
            "VMFS",
            2 * MIB,
            &[&typed, "dd if=/dev/zero of={} bs=512 seek=1 count=33 conv=notrunc status=none"],
        ),
        vmfs("sfdisk-vmfs", "VMFS", 2 * MIB, &["sfdisk -q {} < label: dos\n,1M,83\n2M,10M,fb\n"]),
        vmfs("sfdisk-logical-vmfs", "VMFS", 6 * MIB, &["sfdisk -q {} < label: dos\n1M,2M,83\n3M,,f\n,1M,83\n,,83\n"]),
        vmfs(
            "parted-logical-vmfs",
            "VMFS",
            6 * MIB,
            &[
                "parted -s {} mklabel msdos mkpart extended 1MiB 100% mkpart logical 2MiB 5MiB mkpart logical 6MiB 15MiB",
            ],
        ),
    ]
}

/// Tables that are neither, which Debian's kernel reads.
fn others() -> Vec<ToolMade> {
    let vmfs = |name: &str, label: &str, kind: &str| {
        let command = format!("parted -s {{}} mklabel {label} mkpart {kind} 2MiB 14MiB");
        ToolMade::vmfs(name, "", 2 * MIB, &[&command])
    };
    vec![vmfs("parted-mac", "mac", "primary"), vmfs("parted-sun", "sun", "ext2"), vmfs("parted-amiga", "amiga", "ext2")]
}

fn run(command: &str, file: &Path) -> anyhow::Result<()> {
    let (line, input) = command.split_once(" < ").unwrap_or((command, ""));
    let mut words = line.split(' ');
    let name = words.next().context("no program")?;
    let mut program = Command::new(on_path(name)?);
    // Programs of administrators may lie where a user's PATH does not lead.
    program.env("PATH", format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default()));
    for word in words {
        program.arg(word.replace("{}", &file.to_string_lossy()));
    }
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = program.spawn().with_context(|| format!("starting {name}"))?;
    // One that reads nothing may be gone by now.
    let written = running.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
    let output = running.wait_with_output().with_context(|| format!("running {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(output.status.success(), "{line}: {}: {said}", output.status);
    if !input.is_empty() {
        written.with_context(|| format!("writing to {name}"))?;
    }
    Ok(())
}

/// A program of this computer.
pub(super) fn on_path(program: &str) -> anyhow::Result<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let found = env::split_paths(&folders).chain(more).map(|folder| folder.join(program)).find(|path| path.is_file());
    match found {
        Some(path) => Ok(path),
        None => bail!("{program} is not installed here: run qemu/lab, which installs it"),
    }
}
