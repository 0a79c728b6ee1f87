//! Lays a tree of files out as a bootable disk: partition table, filesystems, boot loaders.
//!
//! Everything is written into one sparse file at its place: no loop device, no mount. Identifiers are
//! constant, as in any image that is copied to many disks; what must be unique for an installation
//! (the identifier of the partition table) is set when the image is written to a disk.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::contents::{fill_fat, make_fat, make_large_fat};
use super::overlay::GRUB_UEFI_CONFIG;
use super::rootfs::RootfsTrees;
use super::system::PackageTree;
use super::tool::{command, run};

/// The revision, which is raised when this module makes another disk of the same tree.
const REVISION: u32 = 1;
pub(super) const SECTOR_BYTES: u64 = 512;
/// The sector size of disks that do without the emulation of smaller ones.
const LARGE_SECTOR_BYTES: u64 = 4096;
const MIB: u64 = 1 << 20;
/// Room for GRUB's core (150 kB here), which the partition exists for.
const BIOS_MIB: u64 = 1;
/// The smallest that mkfs.vfat makes FAT16 of with room to spare; GRUB has 700 kB.
const ESP_MIB: u64 = 16;
/// The kernel, its initrd (40 MB together) and one more pair, as an update needs it.
const BOOT_MIB: u64 = 112;
/// Free space of the root filesystem, for what the configuration and logs bring.
const ROOT_FREE_MIB: u64 = 96;
/// The backup partition table at the end.
const TAIL_MIB: u64 = 1;

const TYPE_BALLAST: &str = "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7";
/// The bytes that are written in one go.
const BALLAST_PIECE_BYTES: u64 = MIB;

const DISK_GUID: [u8; 16] = *b"firesteel-lab-0\0";
const TYPE_BIOS: &str = "21686148-6449-6E6F-744E-656564454649";
const TYPE_ESP: &str = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B";
const TYPE_LINUX: &str = "0FC63DAF-8483-4772-8E79-3D69D8477DE4";
const TYPE_ROOT: &str = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709";
const BOOT_UUID: &str = "f15e57ee-1b00-4000-8000-000000000003";
const ROOT_UUID: &str = "f15e57ee-1b00-4000-8000-000000000004";
pub(super) const ESP_ID: &str = "F15E57EE";
/// The identifier of a boot partition that is no ext4, in the form that FAT has.
pub(super) const BOOT_ID: &str = "F15E57EF";
/// A boot partition that is not the EFI system partition, as systemd-boot looks for it (Boot Loader Specification).
const TYPE_XBOOTLDR: &str = "BC13C2FF-59E6-4262-A352-B275FD6F7172";
pub(super) const ESP_NUMBER: u32 = 2;
pub(super) const BOOT_NUMBER: u32 = 3;
pub(super) const ROOT_NUMBER: u32 = 4;

const ESP_FOLDERS: &[&str] = &["EFI", "EFI/BOOT"];
const ESP_LOADER: &str = "EFI/BOOT/BOOTX64.EFI";

const GRUB_FOLDER: &str = "/usr/lib/grub";
const GRUB_MODULES: [&str; 9] = ["normal", "part_gpt", "ext2", "configfile", "linux", "echo", "test", "ls", "reboot"];
/// Where `boot.img` keeps the sector of the core, and the code that mistrusts the BIOS's drive number.
const BOOT_KERNEL_SECTOR_AT: usize = 0x5c;
const BOOT_DRIVE_CHECK_AT: usize = 0x66;
const BOOT_CODE_BYTES: usize = 440;
/// Where the core's first sector keeps the sector at which the rest begins.
const CORE_NEXT_SECTOR_AT: usize = 500;

/// Where a partition lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartitionExtent {
    pub(super) start: u64,
    pub(super) bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct OsDiskLayout {
    bios: PartitionExtent,
    esp: PartitionExtent,
    boot: PartitionExtent,
    root: PartitionExtent,
    disk_bytes: u64,
}

/// Names what the layout is made of.
pub(super) fn key(tree: PackageTree) -> String {
    format!(
        "{REVISION} {BIOS_MIB} {ESP_MIB} {BOOT_MIB} {ROOT_FREE_MIB} {GRUB_MODULES:?}\n{}{GRUB_UEFI_CONFIG}",
        tree.grub_config()
    )
}

/// Writes the disk image `raw`.
pub(super) fn make(tree: PackageTree, files: &RootfsTrees, raw: &Path, work: &Path) -> anyhow::Result<()> {
    let layout = layout(folder_bytes(&files.root)?);
    let grub = files.boot.join("grub");
    fs::create_dir(&grub).context("creating the boot loader's folder")?;
    fs::write(grub.join("grub.cfg"), tree.grub_config()).context("writing the boot loader's menu")?;

    let file = OpenOptions::new().create_new(true).read(true).write(true).open(raw);
    let mut file = file.with_context(|| format!("creating {}", raw.display()))?;
    file.set_len(layout.disk_bytes).context("setting the size of the disk image")?;
    write_partition_table(&mut file, &layout).context("writing the partition table")?;
    drop(file);
    make_ext4(raw, layout.boot, "boot", BOOT_UUID, &files.boot)?;
    make_ext4(raw, layout.root, "root", ROOT_UUID, &files.root)?;
    make_esp(raw, layout.esp, work)?;
    install_bios_loader(raw, layout.bios, work)
}

pub(super) fn open_table(raw: &Path) -> anyhow::Result<gptman::GPT> {
    let mut file = OpenOptions::new().read(true).open(raw).with_context(|| format!("opening {}", raw.display()))?;
    gptman::GPT::read_from(&mut file, SECTOR_BYTES).context("reading the image's partition table")
}

pub(super) fn place_of(gpt: &gptman::GPT, number: u32) -> PartitionExtent {
    let partition = &gpt[number];
    let sectors = (partition.ending_lba + 1).saturating_sub(partition.starting_lba);
    PartitionExtent { start: partition.starting_lba * SECTOR_BYTES, bytes: sectors * SECTOR_BYTES }
}

/// Takes GRUB off the disk: no code in the boot sector, and an EFI system partition and a boot partition without
/// anything. The latter gets the type by which systemd-boot knows it. Where the two lie.
pub(super) fn empty_for_systemd_boot(disk: &mut fs::File) -> anyhow::Result<(PartitionExtent, PartitionExtent)> {
    let mut gpt = gptman::GPT::read_from(disk, SECTOR_BYTES).context("reading the image's partition table")?;
    gpt[BOOT_NUMBER].partition_type_guid = guid_bytes(TYPE_XBOOTLDR)?;
    gpt.write_into(disk)?;
    let (esp, boot) = (place_of(&gpt, ESP_NUMBER), place_of(&gpt, BOOT_NUMBER));
    disk.seek(SeekFrom::Start(0))
        .and_then(|_| disk.write_all(&[0; BOOT_CODE_BYTES]))
        .context("clearing the boot code")?;
    // A filesystem of another kind would be found in what a new one leaves as it was.
    for place in [esp, boot] {
        disk.seek(SeekFrom::Start(place.start)).context("clearing a partition")?;
        std::io::copy(&mut std::io::repeat(0).take(place.bytes), disk).context("clearing a partition")?;
    }
    Ok((esp, boot))
}

/// Lays the disk image out for blocks of 4096 bytes: a partition table that counts in them, at the places where the
/// partitions are, and an EFI system partition of such blocks. BIOS cannot start it.
pub(super) fn use_large_blocks(raw: &Path, work: &Path) -> anyhow::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(raw).context("opening the disk image")?;
    let esp = exchange_table(&mut file)?;
    let filesystem = work.join("esp.fat");
    make_large_fat(&filesystem, esp.bytes, "ESP", ESP_ID)?;
    let loader = uefi_loader(work)?;
    let alone = PartitionExtent { start: 0, bytes: esp.bytes };
    fill_fat(&filesystem, alone, ESP_FOLDERS, &[(&*loader, ESP_LOADER)])?;
    let mut content = fs::File::open(&filesystem).context("opening the EFI system partition")?;
    file.seek(SeekFrom::Start(esp.start)).context("writing the EFI system partition")?;
    std::io::copy(&mut content, &mut file).context("writing the EFI system partition")?;
    Ok(())
}

/// Gives the disk a partition table of large blocks. Where the EFI system partition lies.
fn exchange_table(file: &mut fs::File) -> anyhow::Result<PartitionExtent> {
    let old = gptman::GPT::read_from(file, SECTOR_BYTES).context("reading the image's partition table")?;
    let end = file.seek(SeekFrom::End(0)).context("measuring the disk image")?;
    // Both copies of the old table, and the code for BIOS, lie before and behind all partitions.
    for start in [0, end - TAIL_MIB * MIB] {
        file.seek(SeekFrom::Start(start)).context("clearing the old partition table")?;
        std::io::copy(&mut std::io::repeat(0).take(MIB), file).context("clearing the old partition table")?;
    }
    let mut gpt = gptman::GPT::new_from(file, LARGE_SECTOR_BYTES, DISK_GUID)?;
    for (number, partition) in old.iter().filter(|(_, partition)| partition.is_used()) {
        let place = place_of(&old, number);
        gpt[number] = gptman::GPTPartitionEntry {
            starting_lba: place.start / LARGE_SECTOR_BYTES,
            ending_lba: (place.start + place.bytes) / LARGE_SECTOR_BYTES - 1,
            ..partition.clone()
        };
    }
    gpt.write_into(file)?;
    gptman::GPT::write_protective_mbr_into(file, LARGE_SECTOR_BYTES)?;
    Ok(place_of(&old, ESP_NUMBER))
}

/// Adds a last partition that no compression makes smaller, to the image `raw`.
pub(super) fn add_ballast(raw: &Path, mib: u64) -> anyhow::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(raw);
    let mut file = file.with_context(|| format!("opening {}", raw.display()))?;
    let old = gptman::GPT::read_from(&mut file, SECTOR_BYTES).context("reading the image's partition table")?;
    let mut boot_code = [0; BOOT_CODE_BYTES];
    file.seek(SeekFrom::Start(0)).and_then(|_| file.read_exact(&mut boot_code)).context("reading the boot sector")?;
    // From where the root filesystem ends: the old copy of the table lies there and must go.
    let start = (old[4].ending_lba + 1) * SECTOR_BYTES;
    file.set_len(start + (mib + TAIL_MIB) * MIB).context("making the disk image longer")?;
    let mut gpt = gptman::GPT::new_from(&mut file, SECTOR_BYTES, DISK_GUID)?;
    for number in 1..=4 {
        gpt[number] = old[number].clone();
    }
    let mut unique = DISK_GUID;
    unique[15] = 5;
    gpt[5] = gptman::GPTPartitionEntry {
        partition_type_guid: guid_bytes(TYPE_BALLAST)?,
        unique_partition_guid: unique,
        starting_lba: start / SECTOR_BYTES,
        ending_lba: (start + mib * MIB) / SECTOR_BYTES - 1,
        attribute_bits: 0,
        partition_name: "ballast".into(),
    };
    gpt.write_into(&mut file)?;
    gptman::GPT::write_protective_mbr_into(&mut file, SECTOR_BYTES)?;
    file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&boot_code)).context("writing the boot sector")?;
    file.seek(SeekFrom::Start(start)).context("writing the ballast")?;
    let mut state = mib;
    for _ in 0..mib * MIB / BALLAST_PIECE_BYTES {
        file.write_all(&noise(&mut state)).context("writing the ballast")?;
    }
    Ok(())
}

/// A MiB of bytes that are the same in every run, and nothing in them to compress (splitmix64).
#[must_use]
pub fn noise(state: &mut u64) -> Vec<u8> {
    let words = BALLAST_PIECE_BYTES / 8;
    let next = |_| {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    };
    (0..words).flat_map(next).collect()
}

fn layout(root_tree_bytes: u64) -> OsDiskLayout {
    let mut next = MIB;
    let mut place = |mib: u64| {
        let place = PartitionExtent { start: next, bytes: mib * MIB };
        next += mib * MIB;
        place
    };
    let (bios, esp, boot) = (place(BIOS_MIB), place(ESP_MIB), place(BOOT_MIB));
    // A tenth for the filesystem's own tables, and its journal.
    let root = place((root_tree_bytes + root_tree_bytes / 10).div_ceil(MIB) + 16 + ROOT_FREE_MIB);
    OsDiskLayout { bios, esp, boot, root, disk_bytes: next + TAIL_MIB * MIB }
}

/// What the files take up, in whole blocks.
fn folder_bytes(folder: &Path) -> anyhow::Result<u64> {
    const BLOCK_BYTES: u64 = 4096;
    let mut bytes = BLOCK_BYTES;
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let entry = entry?;
        let meta = entry.metadata().with_context(|| format!("looking at {}", entry.path().display()))?;
        bytes += if meta.is_dir() { folder_bytes(&entry.path())? } else { meta.len().next_multiple_of(BLOCK_BYTES) };
    }
    Ok(bytes)
}

fn write_partition_table(file: &mut fs::File, layout: &OsDiskLayout) -> anyhow::Result<()> {
    let mut gpt = gptman::GPT::new_from(file, SECTOR_BYTES, DISK_GUID)?;
    let partitions = [
        (TYPE_BIOS, "bios", layout.bios),
        (TYPE_ESP, "esp", layout.esp),
        (TYPE_LINUX, "boot", layout.boot),
        (TYPE_ROOT, "root", layout.root),
    ];
    for (number, (kind, name, place)) in (1u8..).zip(partitions) {
        let mut unique = DISK_GUID;
        unique[15] = number;
        gpt[u32::from(number)] = gptman::GPTPartitionEntry {
            partition_type_guid: guid_bytes(kind)?,
            unique_partition_guid: unique,
            starting_lba: place.start / SECTOR_BYTES,
            ending_lba: (place.start + place.bytes) / SECTOR_BYTES - 1,
            attribute_bits: 0,
            partition_name: name.into(),
        };
    }
    gpt.write_into(file)?;
    gptman::GPT::write_protective_mbr_into(file, SECTOR_BYTES)?;
    Ok(())
}

/// A GUID as it lies on disk: its first three numbers are little-endian.
fn guid_bytes(text: &str) -> anyhow::Result<[u8; 16]> {
    Ok(uuid::Uuid::parse_str(text).context("a partition type is no GUID")?.to_bytes_le())
}

fn make_ext4(raw: &Path, place: PartitionExtent, label: &str, uuid: &str, tree: &Path) -> anyhow::Result<()> {
    run(command("mkfs.ext4", ["-q", "-F", "-L", label, "-U", uuid, "-b", "4096", "-m", "1"])
        // GRUB of Debian 12 cannot read the first two; a small journal is enough here.
        .args(["-O", "^metadata_csum_seed,^orphan_file", "-J", "size=8"])
        .arg("-E")
        .arg(format!("offset={},hash_seed={uuid},lazy_itable_init=1,root_owner=0:0", place.start))
        .arg("-d")
        .arg(tree)
        .arg(raw)
        .arg(format!("{}k", place.bytes / 1024)))
    .with_context(|| format!("making the {label} filesystem"))
}

fn make_esp(raw: &Path, place: PartitionExtent, work: &Path) -> anyhow::Result<()> {
    let loader = uefi_loader(work)?;
    make_fat(raw, place, "ESP", ESP_ID)?;
    fill_fat(raw, place, ESP_FOLDERS, &[(&*loader, ESP_LOADER)])
}

/// GRUB for UEFI, in the folder to work in.
fn uefi_loader(work: &Path) -> anyhow::Result<PathBuf> {
    let config = work.join("uefi.cfg");
    fs::write(&config, GRUB_UEFI_CONFIG).context("writing the UEFI boot loader's config")?;
    let loader = work.join("BOOTX64.EFI");
    run(command("grub-mkimage", ["-O", "x86_64-efi", "-p", "/grub", "-d", &format!("{GRUB_FOLDER}/x86_64-efi"), "-c"])
        .arg(&config)
        .arg("-o")
        .arg(&loader)
        .args(GRUB_MODULES)
        .args(["fat", "regexp"]))
    .context("making the UEFI boot loader")?;
    Ok(loader)
}

/// What `grub-bios-setup` does, which wants a device: first sector, and core in its partition.
fn install_bios_loader(raw: &Path, place: PartitionExtent, work: &Path) -> anyhow::Result<()> {
    let folder = format!("{GRUB_FOLDER}/i386-pc");
    let core_path = work.join("core.img");
    // A prefix without a drive means the drive that the BIOS started.
    run(command("grub-mkimage", ["-O", "i386-pc", "-p", "(,gpt3)/grub", "-d", &folder, "-o"])
        .arg(&core_path)
        .args(GRUB_MODULES)
        .args(["biosdisk", "serial", "terminal"]))
    .context("making the BIOS boot loader")?;
    let mut core = fs::read(&core_path).context("reading the BIOS boot loader")?;
    let mut boot = fs::read(Path::new(&folder).join("boot.img")).context("reading the BIOS boot sector")?;
    ensure!(core.len() as u64 <= place.bytes, "the BIOS boot loader has {} bytes, too many", core.len());
    point_boot_sector(&mut boot, &mut core, place.start / SECTOR_BYTES)?;
    let mut file = OpenOptions::new().write(true).open(raw).context("opening the disk image")?;
    file.write_all(&boot[..BOOT_CODE_BYTES]).context("writing the BIOS boot sector")?;
    file.seek(SeekFrom::Start(place.start)).and_then(|_| file.write_all(&core)).context("writing the BIOS boot loader")
}

/// Tells each stage of the BIOS loader where the next one lies.
fn point_boot_sector(boot: &mut [u8], core: &mut [u8], core_sector: u64) -> anyhow::Result<()> {
    ensure!(boot.len() == 512 && core.len() > 512, "GRUB's boot sector or core is not what it should be");
    boot[BOOT_KERNEL_SECTOR_AT..BOOT_KERNEL_SECTOR_AT + 8].copy_from_slice(&core_sector.to_le_bytes());
    // Two no-operations let GRUB mend a drive number that cannot be a disk's, as for any hard disk.
    boot[BOOT_DRIVE_CHECK_AT..BOOT_DRIVE_CHECK_AT + 2].copy_from_slice(&[0x90, 0x90]);
    core[CORE_NEXT_SECTOR_AT..CORE_NEXT_SECTOR_AT + 8].copy_from_slice(&(core_sector + 1).to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn partitions_touch_and_do_not_overlap() {
        let layout = layout(200 * MIB);
        let places = [layout.bios, layout.esp, layout.boot, layout.root];
        for pair in places.windows(2) {
            assert_eq!(pair[0].start + pair[0].bytes, pair[1].start);
        }
        assert_eq!(layout.root.bytes, (200 + 20 + 16 + ROOT_FREE_MIB) * MIB);
        assert_eq!(layout.disk_bytes, layout.root.start + layout.root.bytes + MIB);
    }

    #[test]
    fn the_table_has_the_names_that_the_initrd_looks_for() {
        let mut file = tempfile::tempfile().unwrap();
        let layout = layout(10 * MIB);
        file.set_len(layout.disk_bytes).unwrap();
        write_partition_table(&mut file, &layout).unwrap();
        let gpt = gptman::GPT::read_from(&mut file, SECTOR_BYTES).unwrap();
        let names: Vec<_> =
            gpt.iter().filter(|(_, p)| p.is_used()).map(|(_, p)| p.partition_name.to_string()).collect();
        assert_eq!(names, ["bios", "esp", "boot", "root"]);
        assert_eq!(gpt[4].starting_lba * SECTOR_BYTES, layout.root.start);
        assert_eq!((gpt[4].ending_lba + 1) * SECTOR_BYTES, layout.root.start + layout.root.bytes);
        let rules = include_str!("../overlay/usr/lib/dracut/modules.d/35firesteel/disk-rules.sh");
        assert!(rules.contains("for name in root boot"));
    }

    #[test]
    fn ballast_is_one_more_partition_and_all_else_stays() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let layout = layout(10 * MIB);
        let mut disk = file.reopen().unwrap();
        disk.set_len(layout.disk_bytes).unwrap();
        write_partition_table(&mut disk, &layout).unwrap();
        disk.seek(SeekFrom::Start(0)).unwrap();
        disk.write_all(&[0x90; BOOT_CODE_BYTES]).unwrap();
        add_ballast(file.path(), 3).unwrap();
        let mut disk = file.reopen().unwrap();
        let gpt = gptman::GPT::read_from(&mut disk, SECTOR_BYTES).unwrap();
        assert_eq!(gpt[4].starting_lba * SECTOR_BYTES, layout.root.start);
        assert_eq!(gpt[5].starting_lba * SECTOR_BYTES, layout.root.start + layout.root.bytes);
        assert_eq!(disk.metadata().unwrap().len(), layout.disk_bytes + 3 * MIB);
        let mut all = Vec::new();
        disk.seek(SeekFrom::Start(0)).unwrap();
        disk.read_to_end(&mut all).unwrap();
        assert!(all[..BOOT_CODE_BYTES].iter().all(|byte| *byte == 0x90) && all[510..512] == [0x55, 0xaa]);
        let start = usize::try_from(gpt[5].starting_lba * SECTOR_BYTES).unwrap();
        let packed = zstd::encode_all(&all[start..start + 3 * 1024 * 1024], 3).unwrap();
        assert!(packed.len() >= 3 * 1024 * 1024, "the ballast can be compressed to {}", packed.len());
    }

    #[test]
    fn for_systemd_boot_only_the_root_stays() {
        let mut disk = tempfile::tempfile().unwrap();
        let layout = layout(10 * MIB);
        disk.set_len(layout.disk_bytes).unwrap();
        write_partition_table(&mut disk, &layout).unwrap();
        for start in [
            0,
            layout.esp.start,
            layout.boot.start + 1024,
            layout.boot.start + layout.boot.bytes - 512,
            layout.root.start,
        ] {
            disk.seek(SeekFrom::Start(start)).unwrap();
            disk.write_all(&[7; 400]).unwrap();
        }
        let places = empty_for_systemd_boot(&mut disk).unwrap();
        assert_eq!(places, (layout.esp, layout.boot));
        let gpt = gptman::GPT::read_from(&mut disk, SECTOR_BYTES).unwrap();
        assert_eq!(gpt[3].partition_type_guid, guid_bytes(TYPE_XBOOTLDR).unwrap());
        assert_eq!((gpt[3].partition_name.to_string(), gpt.header.disk_guid), ("boot".to_owned(), DISK_GUID));
        let mut at = |start: u64| {
            let mut bytes = [1; 400];
            disk.seek(SeekFrom::Start(start)).unwrap();
            disk.read_exact(&mut bytes).unwrap();
            bytes
        };
        for start in [0, layout.esp.start, layout.boot.start + 1024, layout.boot.start + layout.boot.bytes - 512] {
            assert_eq!(at(start), [0; 400], "at {start}");
        }
        assert_eq!(at(layout.root.start), [7; 400]);
    }

    #[test]
    fn partitions_stay_where_they_are_when_blocks_become_large() {
        let folder = tempfile::tempdir().unwrap();
        let raw = folder.path().join("raw");
        let mut disk = OpenOptions::new().create_new(true).read(true).write(true).open(&raw).unwrap();
        let layout = layout(10 * MIB);
        disk.set_len(layout.disk_bytes).unwrap();
        write_partition_table(&mut disk, &layout).unwrap();
        assert_eq!(exchange_table(&mut disk).unwrap(), layout.esp);
        assert!(gptman::GPT::read_from(&mut disk, SECTOR_BYTES).is_err(), "the old table is there");
        let gpt = gptman::GPT::read_from(&mut disk, LARGE_SECTOR_BYTES).unwrap();
        let start = |number: u32| gpt[number].starting_lba * LARGE_SECTOR_BYTES;
        assert_eq!([1, 2, 3, 4].map(start), [layout.bios, layout.esp, layout.boot, layout.root].map(|p| p.start));
        assert_eq!((gpt[4].ending_lba + 1) * LARGE_SECTOR_BYTES, layout.root.start + layout.root.bytes);
        assert_eq!(gpt[4].partition_name.to_string(), "root");
        // The copy of the table, at the end of the disk.
        let mut end = [0; 8];
        disk.seek(SeekFrom::End(-4096)).and_then(|_| disk.read_exact(&mut end)).unwrap();
        assert_eq!(&end, b"EFI PART");
    }

    #[test]
    fn the_boot_sector_points_at_the_core() {
        let mut boot = vec![0; 512];
        let mut core = vec![0; 1024];
        point_boot_sector(&mut boot, &mut core, 2048).unwrap();
        assert_eq!(boot[0x5c..0x64], 2048u64.to_le_bytes());
        assert_eq!(core[500..508], 2049u64.to_le_bytes());
        assert!(point_boot_sector(&mut boot[..100], &mut core, 1).is_err());
    }
}
