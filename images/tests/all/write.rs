//! What a good write leaves on a disk, and what is refused before anything is changed.

use std::{cell::RefCell, os::unix::fs::MetadataExt, process::Command};

use firesteel_images::write::{
    Aborted, DiskOpenError, DiskState, ExclusiveDisk, Inspected, SourceError, Unattended, WritableDisk, WriteControl,
    WriteError, WriteEvidence, WriteFailure, WritePhase, WriteProgress, WriteSpec, gpt, metadata, read_table,
    write_image,
};
use proptest::prelude::*;

use crate::disks::{DISK_GUID, TestDisk, aligned, bootable, gpt_image, stream_of};

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
        // Between the first and the last MiB holes are zeroed by command, in whole 64 KiB; all else is written.
        let holes = image[MIB..15 * MIB].chunks(64 << 10).filter(|piece| piece.iter().all(|&byte| byte == 0)).count();
        let backup_bytes = 16_384 + block_bytes as usize;
        let zeroed_bytes = holes * (64 << 10);
        let written_bytes = image.len() - zeroed_bytes + backup_bytes;
        assert_eq!((written.zeroed_bytes, written.written_bytes), (zeroed_bytes as u64, written_bytes as u64));
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

/// Why a write failed that changed nothing.
fn untouched(disk: &TestDisk, result: Result<WriteEvidence, WriteError>) -> WriteFailure {
    let error = result.unwrap_err();
    assert!(matches!(error.state, DiskState::Unchanged), "{error}");
    assert_eq!((disk.writes(), error.disk_changed()), (0, false));
    error.failure
}

#[test]
fn nothing_is_changed_when_the_image_does_not_suit_the_disk() {
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
}

#[test]
fn nothing_is_changed_when_the_start_of_the_source_is_bad() {
    let (stream, spec) = stream_of(&gpt_image(16 * MIB, 512));
    let disk = TestDisk::new(24 * MIB, 512, &[]);
    let failure = untouched(&disk, write_image(&b"not zstd at all"[..], &disk, &spec, &Unattended));
    assert!(matches!(failure, WriteFailure::Source { .. }));

    let failure = untouched(&disk, write_image(&stream[..1000], &disk, &spec, &Unattended));
    assert!(matches!(failure, WriteFailure::Source { source: SourceError::Short { .. } }), "{failure:?}");

    // Less than the first piece of the image: nothing to judge it by.
    let (short_stream, short_spec) = stream_of(&gpt_image(16 * MIB, 512)[..MIB]);
    let short_spec = WriteSpec { raw_bytes: 16 * MIB as u64, ..short_spec };
    let failure = untouched(&disk, write_image(&short_stream[..], &disk, &short_spec, &Unattended));
    let expected =
        |source: &SourceError| matches!(source, SourceError::RawShort { expected: 16_777_216, found: 1_048_576 });
    assert!(matches!(&failure, WriteFailure::Source { source } if expected(source)), "{failure:?}");

    for (raw_bytes, is_whole) in [(0, false), (1000, false), (u64::MAX, false), (u64::MAX - 511, true)] {
        let bad = WriteSpec { raw_bytes, ..spec.clone() };
        for block_bytes in [512, 4096] {
            let disk = TestDisk::new(24 * MIB, block_bytes, &[]);
            let failure = untouched(&disk, write_image(&stream[..], &disk, &bad, &Unattended));
            let is_as_expected = match failure {
                WriteFailure::NotWholeSectors { raw_bytes: found } => !is_whole && found == raw_bytes,
                WriteFailure::DoesNotFit { raw_bytes: found, disk_bytes } => {
                    is_whole && (found, disk_bytes) == (raw_bytes, 24 * MIB as u64)
                }
                _ => false,
            };
            assert!(is_as_expected, "{raw_bytes}");
        }
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
    let whole = |phase, steps: &[u64], total_mib| -> Vec<_> {
        let mib = MIB as u64;
        steps.iter().map(|step| WriteProgress { phase, done_bytes: step * mib, total_bytes: total_mib * mib }).collect()
    };
    let expected = [
        whole(WritePhase::Clearing, &[0, 1, 2], 2),
        whole(WritePhase::Writing, &[0, 4, 8, 12], 16),
        whole(WritePhase::ReadingBack, &[0, 4, 8, 12], 14),
        whole(WritePhase::Completing, &[0, 2], 2),
    ];
    assert_eq!(control.seen.into_inner(), expected.concat());
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
        let again = ExclusiveDisk::open(path);
        assert!(matches!(&again, Err(DiskOpenError::Busy { path: busy }) if busy == path), "{again:?}");
        let number = std::fs::metadata(path).unwrap().rdev();
        assert_eq!((disk.path(), disk.number()), (path, number));
        assert_eq!((disk.size_bytes(), disk.block_bytes()), (48 * MIB as u64, block_bytes));
        let image = gpt_image(32 * MIB, block_bytes);
        let (stream, spec) = stream_of(&image);
        write_image(&stream[..], &disk, &spec, &Unattended).unwrap();
        let inspected = Inspected::open(path).unwrap();
        assert_eq!((inspected.number, inspected.size_bytes), (number, 48 * MIB as u64));
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
