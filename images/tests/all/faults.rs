//! Disks that fail, forget and lie: whatever happens, no half-written image may boot, and no
//! failure may pass for a success.

use firesteel_facts::Sha256;
use firesteel_images::write::{DiskState, SourceError, Unattended, WriteFailure, WriteSpec, metadata, write_image};

use crate::disks::{Fault, TestDisk, bootable, gpt_image, stream_of};

const MIB: usize = 1 << 20;
const IMAGE_BYTES: usize = 16 * MIB;
const DISK_BYTES: usize = 24 * MIB;
/// In the body, where the image has data.
const BODY: u64 = (8 << 20) + 5000;
/// In the body, where the image has a long hole.
const HOLE: u64 = 5 << 20;

/// In the last MiB of the image.
const LATE: u64 = IMAGE_BYTES as u64 - 60_000;

fn write_with(faults: &[Fault]) -> (TestDisk, Result<(), firesteel_images::write::WriteError>) {
    let image = gpt_image(IMAGE_BYTES, 512);
    let (stream, spec) = stream_of(&image);
    let disk = TestDisk::new(DISK_BYTES, 512, faults);
    disk.put_old_installation();
    let result = write_image(&stream[..], &disk, &spec, &Unattended).map(|_| ());
    (disk, result)
}

#[test]
fn every_fault_is_noticed_and_leaves_nothing_to_boot() {
    use WriteFailure as F;
    type Expected = fn(&WriteFailure) -> bool;
    let cases: [(Fault, Expected); 9] = [
        (Fault::WriteError(BODY), |failure| matches!(failure, F::Write { .. })),
        (Fault::WriteError(HOLE), |failure| matches!(failure, F::Zero { .. })),
        (Fault::ReadError(BODY), |failure| matches!(failure, F::ReadBack { .. })),
        (Fault::Drops(BODY), |failure| matches!(failure, F::ReadBackDigest { .. })),
        (Fault::ReadsWrong(BODY), |failure| matches!(failure, F::ReadBackDigest { .. })),
        (Fault::ReadsWrong(HOLE), |failure| matches!(failure, F::ReadBackDigest { .. })),
        // In the last MiB of the image, which is written late.
        (Fault::Drops(LATE), |failure| matches!(failure, F::ReadBackDiffers { offset: 15_728_640 })),
        (Fault::ReadsWrong(LATE), |failure| matches!(failure, F::ReadBackDiffers { offset: LATE })),
        (Fault::WriteError(LATE), |failure| matches!(failure, F::Write { .. })),
    ];
    for (fault, expected) in cases {
        let (disk, result) = write_with(&[fault]);
        let error = result.expect_err(&format!("{fault:?} must be noticed"));
        assert!(expected(&error.failure), "{fault:?} gave {error:?}");
        assert!(matches!(error.state, DiskState::Cleared), "{fault:?} left {:?}", error.state);
        assert!(error.disk_changed());
        assert!(!bootable(&disk.bytes(), 512), "{fault:?}");
    }
}

#[test]
fn a_drive_that_lies_about_zeroing_is_caught() {
    let (disk, result) = write_with(&[Fault::ZeroLies]);
    let error = result.unwrap_err();
    assert!(matches!(error.failure, WriteFailure::ReadBackDigest { .. }), "{error:?}");
    assert!(!bootable(&disk.bytes(), 512));
}

#[test]
fn a_table_that_cannot_be_cleared_is_said_to_be_unproven() {
    for fault in
        [Fault::Drops(512), Fault::WriteError(DISK_BYTES as u64 - 512), Fault::FlushError, Fault::ReadsWrong(700)]
    {
        let (_, result) = write_with(&[fault]);
        let error = result.unwrap_err();
        assert!(matches!(error.failure, WriteFailure::Clear { .. }), "{fault:?}: {error:?}");
        assert!(matches!(error.state, DiskState::Unproven(_)), "{fault:?}: {error:?}");
        assert!(error.to_string().contains("could not be cleared"), "{error}");
    }
}

#[test]
fn a_source_that_breaks_its_promises_leaves_nothing_to_boot() {
    let image = gpt_image(IMAGE_BYTES, 512);
    let (stream, spec) = stream_of(&image);
    let mut flipped = stream.clone();
    let late = flipped.len() - 20;
    flipped[late] ^= 1;
    let other = Sha256::of(b"another");
    let longer = [&stream[..], &[0]].concat();
    let more_raw = [stream.clone(), zstd::encode_all(&[0; 512][..], 1).unwrap()].concat();
    let cases: Vec<(&str, &[u8], WriteSpec)> = vec![
        ("cut", &stream[..stream.len() - 5], spec.clone()),
        ("flipped", &flipped, spec.clone()),
        ("longer", &longer, spec.clone()),
        ("stream digest", &stream, WriteSpec { stream_sha256: other, ..spec.clone() }),
        ("raw digest", &stream, WriteSpec { raw_sha256: other, ..spec.clone() }),
        ("raw shorter", &stream, WriteSpec { raw_bytes: spec.raw_bytes + 512, ..spec.clone() }),
        (
            "raw longer",
            &more_raw,
            WriteSpec { stream_bytes: more_raw.len() as u64, stream_sha256: Sha256::of(&more_raw), ..spec.clone() },
        ),
    ];
    let mut cleared = 0;
    for (name, stream, spec) in cases {
        let disk = TestDisk::new(DISK_BYTES, 512, &[]);
        disk.put_old_installation();
        let error = write_image(stream, &disk, &spec, &Unattended).map(|_| ()).expect_err(name);
        assert!(matches!(error.failure, WriteFailure::Source { .. }), "{name}: {error:?}");
        match error.state {
            // Noticed before the first chunk was out.
            DiskState::Unchanged => assert_eq!(disk.writes(), 0, "{name}"),
            DiskState::Cleared => {
                cleared += 1;
                assert!(!bootable(&disk.bytes(), 512), "{name}");
            }
            DiskState::Unproven(_) => panic!("{name}: {error:?}"),
        }
        if let WriteFailure::Source { source: SourceError::StreamDigest { found, .. } } = error.failure {
            assert_ne!(found, spec.stream_sha256);
        }
    }
    assert!(cleared >= 4, "only {cleared} of the cases got as far as the disk");
}

/// At each write of a whole run the power goes. What is on the disk then may boot only if the
/// whole image is there.
#[test]
fn power_loss_at_any_write_never_leaves_half_an_image_that_boots() {
    let image = gpt_image(IMAGE_BYTES, 512);
    let (whole, result) = write_with(&[]);
    result.unwrap();
    let (whole_writes, whole) = (whole.writes(), whole.bytes());
    let marker = usize::try_from(BODY).unwrap();
    assert!(whole_writes > 8);
    let mut halves = 0;
    for writes in 0..whole_writes {
        let (disk, result) = write_with(&[Fault::PowerLoss(writes)]);
        assert!(result.is_err(), "power loss after {writes} writes");
        let disk = disk.bytes();
        let body_starts = disk[marker..marker + 64] == image[marker..marker + 64];
        let body_is_whole = disk[MIB..IMAGE_BYTES - MIB] == whole[MIB..IMAGE_BYTES - MIB];
        if body_starts && !body_is_whole {
            halves += 1;
        }
        // The first data of the image's body is what the writer writes first.
        let nothing_new = disk[MIB + 8192..][..64] != image[MIB + 8192..][..64];
        assert!(!bootable(&disk, 512) || body_is_whole || nothing_new, "power loss after {writes} writes");
    }
    assert!(halves > 0, "the run was never interrupted half-way");
}

#[test]
fn clearing_reports_a_disk_that_keeps_its_data() {
    for fault in [Fault::Drops(512), Fault::WriteError(512), Fault::FlushError] {
        let disk = TestDisk::new(DISK_BYTES, 512, &[fault]);
        disk.put(0, &gpt_image(DISK_BYTES, 512));
        assert!(metadata::clear(&disk, &Unattended).is_err(), "{fault:?}");
    }
    // A place that cannot be read is cleared all the same, if it can be written; the read-back
    // then says that it is not proven.
    let disk = TestDisk::new(DISK_BYTES, 512, &[Fault::ReadError(600)]);
    assert!(metadata::clear(&disk, &Unattended).is_err());
}
