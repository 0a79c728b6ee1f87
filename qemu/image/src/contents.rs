//! Files in the filesystems of an image, without mounting any: ext4 by debugfs, FAT by mtools.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::disk::{BOOT_NUMBER, PartitionExtent, ROOT_NUMBER, SECTOR_BYTES, open_table, place_of};
use super::tool::{command, run, text};

/// Writes a file of the root filesystem of the image `raw`, in place of one that is there.
pub(super) fn write_root_file(raw: &Path, path: &str, content: &str, work: &Path) -> anyhow::Result<()> {
    write_file(raw, ROOT_NUMBER, path, content, work)
}

/// Writes a file of the boot filesystem, while it is ext4.
pub(super) fn write_boot_file(raw: &Path, path: &str, content: &str, work: &Path) -> anyhow::Result<()> {
    write_file(raw, BOOT_NUMBER, path, content, work)
}

/// Copies a file out of the boot filesystem of an image or of a disk with it, while it is ext4.
pub fn read_boot_file(raw: &Path, path: &str, to: &Path) -> anyhow::Result<()> {
    let place = place_of(&open_table(raw)?, BOOT_NUMBER);
    run(command("debugfs", ["-R", &format!("dump {path} {}", text(to)?)]).arg(format!(
        "{}?offset={}",
        text(raw)?,
        place.start
    )))?;
    // debugfs ends well whatever became of its commands.
    let bytes = fs::metadata(to).map(|meta| meta.len()).unwrap_or(0);
    ensure!(bytes > 0, "the image has no {path} on its boot partition");
    Ok(())
}

fn write_file(raw: &Path, number: u32, path: &str, content: &str, work: &Path) -> anyhow::Result<()> {
    let image = format!("{}?offset={}", text(raw)?, place_of(&open_table(raw)?, number).start);
    let source = work.join("new-file");
    fs::write(&source, content).with_context(|| format!("writing what becomes {path}"))?;
    let commands = work.join("debugfs-commands");
    // What is not there cannot be removed, which debugfs says and goes on.
    let lines = format!(
        "rm {path}\nwrite {} {path}\nset_inode_field {path} mode 0100644\nset_inode_field {path} uid 0\n\
         set_inode_field {path} gid 0\n",
        text(&source)?
    );
    fs::write(&commands, lines).context("writing debugfs's commands")?;
    run(command("debugfs", ["-w", "-f", text(&commands)?]).arg(&image))?;
    // debugfs ends well whatever became of its commands: what is in the image is looked at.
    let copy = work.join("read-back");
    run(command("debugfs", ["-R", &format!("dump {path} {}", text(&copy)?)]).arg(&image))?;
    let read_back = fs::read(&copy).with_context(|| format!("{path} is not in the image"))?;
    fs::remove_file(&copy).context("removing what was read back")?;
    ensure!(read_back == content.as_bytes(), "{path} in the image is not what was written");
    Ok(())
}

/// A FAT filesystem of a fixed identifier.
pub(super) fn make_fat(raw: &Path, place: PartitionExtent, label: &str, id: &str) -> anyhow::Result<()> {
    run(command("mkfs.vfat", ["-F", "16", "-n", label, "-i", id, "--invariant"])
        .arg(format!("--offset={}", place.start / SECTOR_BYTES))
        .arg(raw)
        .arg((place.bytes / 1024).to_string()))
    .with_context(|| format!("making the FAT filesystem {label}"))
}

/// Makes a FAT filesystem for a disk with large blocks, in a file of its own.
pub(super) fn make_large_fat(file: &Path, bytes: u64, label: &str, id: &str) -> anyhow::Result<()> {
    fs::File::create_new(file)
        .and_then(|file| file.set_len(bytes))
        .with_context(|| format!("creating {}", file.display()))?;
    // A size at which no reader can take it for FAT16: there are too few blocks for that.
    run(command("mkfs.vfat", ["-F", "12", "-S", "4096", "-s", "2", "-n", label, "-i", id, "--invariant"]).arg(file))
        .with_context(|| format!("making the FAT filesystem {label}"))
}

/// Makes folders and copies files into a FAT filesystem.
pub(super) fn fill_fat(
    raw: &Path,
    place: PartitionExtent,
    folders: &[&str],
    files: &[(&Path, &str)],
) -> anyhow::Result<()> {
    let filesystem = format!("{}@@{}", text(raw)?, place.start);
    for folder in folders {
        run(&mut command("mmd", ["-i", &filesystem, &format!("::/{folder}")]))
            .with_context(|| format!("making the folder {folder} on FAT"))?;
    }
    for (file, path) in files {
        run(&mut command("mcopy", ["-i", &filesystem, text(file)?, &format!("::/{path}")]))
            .with_context(|| format!("copying {path} to FAT"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    /// Two partitions of an image, at their numbers.
    fn image(raw: &Path) -> (PartitionExtent, PartitionExtent) {
        let mut disk = fs::OpenOptions::new().create_new(true).read(true).write(true).open(raw).unwrap();
        disk.set_len(64 << 20).unwrap();
        let mut gpt = gptman::GPT::new_from(&mut disk, SECTOR_BYTES, [7; 16]).unwrap();
        for (number, start) in [(2, 2048), (BOOT_NUMBER, 40_960), (ROOT_NUMBER, 81_920)] {
            gpt[number] = gptman::GPTPartitionEntry {
                partition_type_guid: [1; 16],
                unique_partition_guid: [u8::try_from(number).unwrap(); 16],
                starting_lba: start,
                ending_lba: start + 32_767,
                attribute_bits: 0,
                partition_name: "x".into(),
            };
        }
        gpt.write_into(&mut disk).unwrap();
        (place_of(&gpt, 2), place_of(&gpt, BOOT_NUMBER))
    }

    #[test]
    fn a_file_of_an_image_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let raw = folder.path().join("raw");
        let (esp, boot) = image(&raw);
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("grub")).unwrap();
        fs::write(tree.join("grub/grub.cfg"), "old and longer\n").unwrap();
        run(command("mkfs.ext4", ["-q", "-F", "-b", "4096", "-E", &format!("offset={}", boot.start), "-d"])
            .arg(&tree)
            .arg(&raw)
            .arg(format!("{}k", boot.bytes / 1024)))
        .unwrap();
        write_boot_file(&raw, "/grub/grub.cfg", "new\n", folder.path()).unwrap();
        write_boot_file(&raw, "/ignition.firstboot", "", folder.path()).unwrap();
        assert!(write_boot_file(&raw, "/no/folder", "x", folder.path()).is_err());
        let copy = folder.path().join("copy");
        read_boot_file(&raw, "/grub/grub.cfg", &copy).unwrap();
        assert_eq!(fs::read(&copy).unwrap(), b"new\n");
        fs::remove_file(&copy).unwrap();
        assert!(read_boot_file(&raw, "/vmlinuz", &copy).is_err());

        make_fat(&raw, esp, "ESP", "F15E57EE").unwrap();
        let entry = tree.join("grub/grub.cfg");
        fill_fat(&raw, esp, &["loader", "loader/entries"], &[(&*entry, "loader/entries/a.conf")]).unwrap();
        run(command("mcopy", ["-i", &format!("{}@@{}", raw.display(), esp.start), "::/loader/entries/a.conf"])
            .arg(&copy))
        .unwrap();
        assert_eq!(fs::read(&copy).unwrap(), b"old and longer\n");
    }
}
