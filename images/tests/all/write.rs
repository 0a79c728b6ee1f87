//! What a good write leaves on a disk, and what is refused before anything is changed.

use std::{cell::RefCell, process::Command};

use firesteel_facts::Guid;
use firesteel_images::write::{
    Aborted, DiskState, ExclusiveDisk, Inspected, SourceError, Unattended, WritableDisk, WriteControl, WriteFailure,
    WritePhase, WriteProgress, gpt, metadata, read_table, write_image,
};
use proptest::prelude::*;

use crate::disks::{DISK_GUID, TestDisk, aligned, bootable, gpt_image, partition, stream_of};

const MIB: usize = 1 << 20;

/// Everything but the table is the image; the table is complete for the disk.
fn assert_written(disk: &[u8], image: &[u8], block_bytes: u32) {
    let block = block_bytes as usize;
    let table = gpt::parse(disk, block_bytes).unwrap().unwrap();
    let last = disk.len() as u64 / u64::from(block_bytes) - 1;
    assert_eq!((table.disk_guid, table.alternate_lba), (DISK_GUID, last));
    assert_eq!(table.last_usable_lba, last - table.entries_blocks() - 1);
    let original = gpt::parse(image, block_bytes).unwrap().unwrap();
    assert_eq!(table.partitions, original.partitions);
    let at = usize::try_from(last).unwrap() * block;
    let backup = gpt::parse_backup_header(&disk[at..], last, block_bytes).unwrap().unwrap();
    let entries = usize::try_from(backup.entries_lba).unwrap() * block;
    assert_eq!(backup.with_entries(&disk[entries..]).unwrap().partitions, original.partitions);
    assert_eq!(&disk[..446], &image[..446], "boot code");
    let covered = u32::from_le_bytes(disk[458..462].try_into().unwrap());
    assert_eq!(u64::from(covered), last, "protective partition");
    assert_eq!(&disk[2 * block..MIB], &image[2 * block..MIB]);
    // The image's backup table was moved, and the new one may lie in the image's end.
    let table_bytes = 16_384 + block;
    let body = MIB..(image.len() - table_bytes).min(disk.len() - table_bytes);
    assert!(disk[body.clone()] == image[body], "body");
}

#[test]
fn image_is_written_completed_and_read_back() {
    for (block_bytes, disk_bytes) in [(512, 24 * MIB), (4096, 24 * MIB), (512, 16 * MIB), (512, 16 * MIB + 512 * 7)] {
        let image = gpt_image(16 * MIB, block_bytes);
        let (stream, spec) = stream_of(&image);
        let disk = TestDisk::new(disk_bytes, block_bytes, &[]);
        let written = write_image(&stream[..], &disk, &spec, &Unattended).unwrap();
        assert_written(&disk.bytes(), &image, block_bytes);
        assert_eq!((written.raw_sha256, written.readback_sha256), (spec.raw_sha256, spec.raw_sha256));
        let table = written.table.unwrap();
        assert_eq!(table.disk_guid, DISK_GUID);
        assert!(written.zeroed_bytes > 8 * MIB as u64 && written.written_bytes > MIB as u64);
    }
}

#[test]
fn the_image_s_own_backup_table_does_not_stay_behind() {
    let image = gpt_image(16 * MIB, 512);
    let (stream, spec) = stream_of(&image);
    let disk = TestDisk::new(24 * MIB, 512, &[]);
    write_image(&stream[..], &disk, &spec, &Unattended).unwrap();
    assert!(disk.bytes()[16 * MIB - 33 * 512..16 * MIB].iter().all(|&byte| byte == 0));
}

#[test]
fn an_image_without_gpt_is_written_as_it_is() {
    for bytes in [512, 4096, MIB - 512, MIB, MIB + 512, 2 * MIB + 1024, 9 * MIB + 512] {
        let mut image = vec![0x5a; bytes];
        image[510..512].copy_from_slice(&[0x55, 0xaa]);
        let (stream, spec) = stream_of(&image);
        for block_bytes in [512, 4096] {
            let disk = TestDisk::new(12 * MIB, block_bytes, &[]);
            let written = write_image(&stream[..], &disk, &spec, &Unattended).unwrap();
            assert_eq!(written.table, None);
            let padded = bytes.next_multiple_of(block_bytes as usize);
            let disk = disk.bytes();
            assert!(disk[..bytes] == image[..], "{bytes} bytes");
            assert!(disk[bytes..padded].iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn nothing_is_changed_when_the_image_does_not_suit_the_disk() {
    let untouched = |disk: &TestDisk, result: Result<_, firesteel_images::write::WriteError>| {
        let error = result.map(|_| ()).unwrap_err();
        assert!(matches!(error.state, DiskState::Unchanged), "{error}");
        assert_eq!(disk.writes(), 0);
        error.failure
    };
    let image = gpt_image(16 * MIB, 512);
    let (stream, spec) = stream_of(&image);

    let disk = TestDisk::new(16 * MIB - 512, 512, &[]);
    let failure = untouched(&disk, write_image(&stream[..], &disk, &spec, &Unattended));
    assert!(matches!(failure, WriteFailure::DoesNotFit { .. }));

    let disk = TestDisk::new(24 * MIB, 4096, &[]);
    let failure = untouched(&disk, write_image(&stream[..], &disk, &spec, &Unattended));
    assert!(matches!(failure, WriteFailure::BlockSize { image: 512, disk: 4096 }));

    let disk = TestDisk::new(24 * MIB, 512, &[]);
    let mut damaged = image.clone();
    damaged[512 + 60] ^= 1;
    let (bad_stream, bad_spec) = stream_of(&damaged);
    let failure = untouched(&disk, write_image(&bad_stream[..], &disk, &bad_spec, &Unattended));
    assert!(matches!(failure, WriteFailure::Table { .. }));

    // Its last partition ends 40 blocks before the end.
    let (cut_stream, cut_spec) = stream_of(&image[..16 * MIB - 64 * 512]);
    let failure = untouched(&disk, write_image(&cut_stream[..], &disk, &cut_spec, &Unattended));
    assert!(matches!(failure, WriteFailure::Partition(_)), "{failure:?}");
    let mut classic = vec![0; 4 * MIB];
    classic[510..512].copy_from_slice(&[0x55, 0xaa]);
    classic[446 + 4] = 0x83;
    classic[446 + 8..446 + 16].copy_from_slice(&[0, 8, 0, 0, 0, 24, 0, 0]);
    let (classic_stream, classic_spec) = stream_of(&classic);
    write_image(&classic_stream[..], &TestDisk::new(24 * MIB, 512, &[]), &classic_spec, &Unattended).unwrap();
    // In blocks of 4096 bytes it ends at 32 MiB.
    let large_blocks = TestDisk::new(24 * MIB, 4096, &[]);
    let failure = untouched(&large_blocks, write_image(&classic_stream[..], &large_blocks, &classic_spec, &Unattended));
    assert!(matches!(failure, WriteFailure::BlockSize { image: 512, disk: 4096 }), "{failure:?}");
    let (cut_stream, cut_spec) = stream_of(&classic[..3 * MIB]);
    for disk in [&disk, &large_blocks] {
        let failure = untouched(disk, write_image(&cut_stream[..], disk, &cut_spec, &Unattended));
        assert!(matches!(failure, WriteFailure::Partition(_)), "{failure:?}");
    }

    let failure = untouched(&disk, write_image(&b"not zstd at all"[..], &disk, &spec, &Unattended));
    assert!(matches!(failure, WriteFailure::Source { .. }));

    let failure = untouched(&disk, write_image(&stream[..1000], &disk, &spec, &Unattended));
    assert!(matches!(failure, WriteFailure::Source { source: SourceError::Short { .. } }), "{failure:?}");

    for raw_bytes in [0, 1000, u64::MAX, u64::MAX - 511] {
        let bad = firesteel_images::write::WriteSpec { raw_bytes, ..spec.clone() };
        untouched(&disk, write_image(&stream[..], &disk, &bad, &Unattended));
    }
}

/// Stops in a phase, and notes all progress.
struct StopsIn {
    phase: Option<WritePhase>,
    seen: RefCell<Vec<WriteProgress>>,
}

impl WriteControl for StopsIn {
    fn checkpoint(&self, progress: WriteProgress) -> Result<(), Aborted> {
        self.seen.borrow_mut().push(progress);
        match self.phase {
            Some(phase) if phase == progress.phase => Err(Aborted { reason: "the host was released".to_owned() }),
            Some(_) | None => Ok(()),
        }
    }
}

#[test]
fn stopped_in_any_phase_the_disk_boots_nothing() {
    let image = gpt_image(16 * MIB, 512);
    let (stream, spec) = stream_of(&image);
    for phase in [WritePhase::Clearing, WritePhase::Writing, WritePhase::ReadingBack, WritePhase::Completing] {
        let disk = TestDisk::new(24 * MIB, 512, &[]);
        disk.put(0, &image);
        let control = StopsIn { phase: Some(phase), seen: RefCell::default() };
        let error = write_image(&stream[..], &disk, &spec, &control).unwrap_err();
        assert!(matches!(error.failure, WriteFailure::Aborted(_)), "{error:?}");
        assert!(matches!(error.state, DiskState::Cleared));
        assert!(!bootable(&disk.bytes(), 512), "{phase}");
    }
}

#[test]
fn progress_goes_forward_to_the_end_of_each_phase() {
    let image = gpt_image(16 * MIB, 512);
    let (stream, spec) = stream_of(&image);
    let disk = TestDisk::new(24 * MIB, 512, &[]);
    let control = StopsIn { phase: None, seen: RefCell::default() };
    write_image(&stream[..], &disk, &spec, &control).unwrap();
    let seen = control.seen.into_inner();
    for pair in seen.windows(2) {
        let same = pair[0].phase == pair[1].phase;
        assert!(!same || pair[0].done_bytes <= pair[1].done_bytes);
        assert!(pair[0].done_bytes <= pair[0].total_bytes);
    }
    assert!(seen.len() > 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_pattern_of_holes_arrives(
        stretches in prop::collection::vec((0_usize..11 * MIB, 1_usize..400_000), 0..8),
        sectors in 1_usize..(11 * MIB / 512),
        extra in 0_usize..3000,
        four_kib in any::<bool>(),
    ) {
        let block_bytes = if four_kib { 4096 } else { 512 };
        let mut image = vec![0_u8; sectors * 512];
        for (start, bytes) in stretches {
            let end = (start + bytes).min(image.len());
            if start < end {
                image[start..end].fill(0x33);
            }
        }
        let (stream, spec) = stream_of(&image);
        let blocks = image.len().div_ceil(4096) + extra;
        let disk = TestDisk::new((blocks * 4096).max(8192), block_bytes, &[]);
        let written = write_image(&stream[..], &disk, &spec, &Unattended).unwrap();
        prop_assert!(disk.bytes()[..image.len()] == image[..]);
        prop_assert_eq!(written.readback_sha256, spec.raw_sha256);
    }
}

#[test]
fn old_signatures_are_found_and_cleared_in_every_partition() {
    let bytes = 96 * MIB;
    let disk = TestDisk::new(bytes, 512, &[]);
    disk.put(0, &vec![0; bytes]);
    let parts = [partition(1, "a", 2048, 20_479), partition(2, "b", 20_480, 180_000)];
    let (head, backup_offset, backup) = gpt::create(bytes as u64, 512, Guid([1; 16]), &parts).unwrap();
    disk.put(0, &head);
    disk.put(usize::try_from(backup_offset).unwrap(), &backup);
    let (first, second) = (2048 * 512, 20_480 * 512);
    disk.put(first + 0x438, &[0x53, 0xef]);
    disk.put(first + 0x460, &[0x40]);
    disk.put(second, b"XFSB");
    disk.put(second + 512 + 24, b"LVM2 001");
    disk.put(second + (64 << 20) + 64, b"_BHRfS_M");
    // md 0.90 at the end of the first partition (9 MiB long), md 1.0 at the end of the second.
    disk.put(first + 9 * MIB - 0x1_0000, &[0xfc, 0x4e, 0x2b, 0xa9]);
    let second_sectors = 180_001 - 20_480;
    disk.put(second + ((second_sectors - 16) & !7) * 512, &[0xfc, 0x4e, 0x2b, 0xa9]);

    let names = |disk: &TestDisk| -> Vec<String> {
        metadata::inspect(&*disk.reader().unwrap(), disk.size_bytes(), 512)
            .iter()
            .map(|found| found.name.clone())
            .collect()
    };
    let expected = ["gpt", "ext4", "linux_raid_member", "xfs", "LVM2_member", "btrfs", "linux_raid_member", "gpt"];
    assert_eq!(names(&disk), expected);
    let cleared = metadata::clear(&disk, &Unattended).unwrap();
    assert_eq!(cleared.found.len(), expected.len());
    assert_eq!(cleared.names()[1], format!("ext4 at {}", first + 0x438));
    assert!(cleared.verified_bytes >= 6 * MIB as u64);
    assert_eq!(names(&disk), Vec::<String>::new());
    // Again: nothing left to find, and that is no error.
    assert_eq!(metadata::clear(&disk, &Unattended).unwrap().found, []);
}

#[test]
fn logical_partitions_are_followed_but_not_in_circles() {
    let disk = TestDisk::new(64 * MIB, 512, &[]);
    disk.put(0, &vec![0; 64 * MIB]);
    let sector = |entries: &[(u8, u32, u32)]| {
        let mut sector = vec![0; 512];
        for (index, (kind, first, blocks)) in entries.iter().enumerate() {
            sector[446 + index * 16 + 4] = *kind;
            sector[446 + index * 16 + 8..446 + index * 16 + 12].copy_from_slice(&first.to_le_bytes());
            sector[446 + index * 16 + 12..446 + index * 16 + 16].copy_from_slice(&blocks.to_le_bytes());
        }
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        sector
    };
    disk.put(0, &sector(&[(0x05, 20_000, 80_000)]));
    // Each link points to the other.
    disk.put(20_000 * 512, &sector(&[(0x83, 63, 8192), (0x05, 10_000, 10_000)]));
    disk.put(30_000 * 512, &sector(&[(0x83, 63, 8192), (0x05, 0, 10_000)]));
    disk.put((30_000 + 63) * 512, b"XFSB");
    let cleared = metadata::clear(&disk, &Unattended).unwrap();
    let names: Vec<&str> = cleared.found.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["dos", "xfs"]);
    assert_eq!(disk.bytes()[(30_000 + 63) * 512..][..4], [0; 4]);
}

#[test]
fn real_tools_leave_signatures_that_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("disk");
    let cases = [
        ("mkfs.ext4", vec!["-q", "-F"], "ext4"),
        ("mkfs.ext3", vec!["-q", "-F"], "ext3"),
        ("mkfs.xfs", vec!["-q", "-f"], "xfs"),
        ("mkfs.vfat", vec![], "vfat"),
        ("mkswap", vec![], "swap"),
    ];
    for (tool, arguments, name) in cases {
        std::fs::write(&file, []).unwrap();
        std::fs::File::options().write(true).open(&file).unwrap().set_len(512 << 20).unwrap();
        match Command::new(tool).args(arguments).arg(&file).output() {
            Ok(output) if output.status.success() => {}
            result => {
                println!("skipped {tool}: {result:?}");
                continue;
            }
        }
        let disk = ExclusiveDisk::open_file(&file, 512).unwrap();
        let found = metadata::inspect(&*disk.reader().unwrap(), disk.size_bytes(), 512);
        assert!(found.iter().any(|found| found.name == name), "{tool}: {found:?}");
        metadata::clear(&disk, &Unattended).unwrap();
        assert_eq!(metadata::inspect(&*disk.reader().unwrap(), disk.size_bytes(), 512), []);
    }
}

/// A loop device with direct I/O over a file, removed at the end.
struct Loop(String);

impl Loop {
    fn new(file: &std::path::Path, sector_bytes: u32) -> Option<Self> {
        let output = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on", &format!("--sector-size={sector_bytes}")])
            .arg(file)
            .output();
        match output {
            Ok(output) if output.status.success() => {
                Some(Self(String::from_utf8(output.stdout).unwrap().trim().to_owned()))
            }
            result => {
                println!("skipped: no loop device here: {result:?}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(Command::new("losetup").args(["--detach", &self.0]).status());
    }
}

#[test]
fn a_real_block_device_is_written_and_read_back() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("disk");
    for block_bytes in [512, 4096] {
        // Old data everywhere, so that a hole which is not zeroed shows.
        std::fs::write(&file, vec![0xd1; 48 * MIB]).unwrap();
        let Some(device) = Loop::new(&file, block_bytes) else { return };
        let path = std::path::Path::new(&device.0);
        let disk = ExclusiveDisk::open(path).unwrap();
        assert!(ExclusiveDisk::open(path).is_err(), "the device is open exclusively");
        assert_eq!((disk.size_bytes(), disk.block_bytes()), (48 * MIB as u64, block_bytes));
        let image = gpt_image(32 * MIB, block_bytes);
        let (stream, spec) = stream_of(&image);
        write_image(&stream[..], &disk, &spec, &Unattended).unwrap();
        let inspected = Inspected::open(path).unwrap();
        let table = read_table(&inspected, inspected.size_bytes, inspected.block_bytes).unwrap().unwrap();
        assert_eq!(table.partitions.len(), 2);
        assert_eq!(table.partitions[0].name, "boot");
        drop(disk);
        drop(device);
        assert_written(&std::fs::read(&file).unwrap(), &image, block_bytes);
    }
}

#[test]
fn aligned_memory_is_aligned() {
    for bytes in [1, 512, 4096, 1 << 20] {
        assert_eq!(aligned(&vec![1; bytes]).as_ptr().addr() % 4096, 0);
    }
}
