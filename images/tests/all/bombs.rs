//! Bombs, and honest images that look like them: what an import costs counts, and no ratio; and not many run at a time.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use firesteel_facts::{Hasher, Sha256};
use firesteel_images::import::{
    Acquirer, AcquisitionStage, BoundExceeded, IMPORTS_AT_ONCE, ImageRequest, ImageStore, ImportBounds, ImportError,
    ImportSource, Importer, RAW_BYTES_MAX, StoredImage,
};

use crate::artifacts::{names, web};
use crate::disks::gpt_image;

const MIB: u64 = 1 << 20;
const CLUSTER: usize = 64 << 10;

fn import(dir: &Path, bytes: &[u8], bounds: ImportBounds) -> Result<StoredImage, ImportError> {
    let importer = Importer::new(ImageStore::open(dir).unwrap()).with_bounds(bounds);
    importer.import(bytes, &ImportSource::default(), &|_| {})
}

/// Within 64 MiB of disk and 1 MiB of data.
fn tight() -> ImportBounds {
    ImportBounds { logical_bytes: 64 * MIB, allocated_bytes: MIB, ..ImportBounds::default() }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A cluster that begins as a boot sector does.
fn data() -> [u8; CLUSTER] {
    let mut data = [0x5a; CLUSTER];
    (data[510], data[511]) = (0x55, 0xaa);
    data
}

/// A qcow2 image of a disk of so many bytes, 512 MiB at most, whose clusters at these places hold data.
fn sparse(disk_bytes: u64, data_at: &[u64]) -> Vec<u8> {
    let mut image = vec![0; (3 + data_at.len()) * CLUSTER];
    let cluster = CLUSTER as u64;
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb");
    put(4, &3_u32.to_be_bytes());
    put(20, &16_u32.to_be_bytes());
    put(24, &disk_bytes.to_be_bytes());
    put(36, &1_u32.to_be_bytes());
    put(40, &cluster.to_be_bytes());
    put(100, &104_u32.to_be_bytes());
    put(CLUSTER, &(2 * cluster).to_be_bytes());
    for (index, at) in data_at.iter().enumerate() {
        let entry = 2 * CLUSTER + usize::try_from(at / cluster).unwrap() * 8;
        put(entry, &((3 + index as u64) * cluster).to_be_bytes());
        put((3 + index) * CLUSTER, &data());
    }
    image
}

#[test]
fn a_sparse_disk_is_imported_whatever_its_ratio() {
    let dir = tempfile::tempdir().unwrap();
    let (disk_bytes, places) = (256 * MIB, [0, 200 * MIB]);
    let bounds = ImportBounds { allocated_bytes: MIB, ..ImportBounds::default() };
    let stored = import(dir.path(), &sparse(disk_bytes, &places), bounds).unwrap();
    let mut hasher = Hasher::new();
    let (zeros, data) = ([0; CLUSTER], data());
    for at in (0..disk_bytes).step_by(CLUSTER) {
        hasher.update(if places.contains(&at) { &data } else { &zeros });
    }
    assert_eq!((stored.meta.raw_bytes, stored.meta.raw_sha256), (disk_bytes, hasher.finish()));
    // A frame of zeros takes some 150 bytes.
    assert!(stored.meta.stream_bytes < 64 * 400 + 2 * 1024, "{} bytes", stored.meta.stream_bytes);
    let mut unpacked = zstd::stream::read::Decoder::new(fs::File::open(&stored.path).unwrap()).unwrap();
    assert_eq!(std::io::copy(&mut unpacked, &mut std::io::sink()).unwrap(), disk_bytes);
}

#[test]
fn disk_and_data_are_bounded_and_zeros_are_no_data() {
    let dir = tempfile::tempdir().unwrap();
    let of = |bytes: u64, value: u8| {
        let mut image = vec![value; usize::try_from(bytes).unwrap()];
        (image[510], image[511]) = (0x55, 0xaa);
        gzip(&image)
    };
    let refused = |bytes: &[u8]| match import(dir.path(), bytes, tight()) {
        Err(ImportError::Exceeded(why)) => {
            assert_eq!(names(dir.path()), Vec::<String>::new(), "nothing of it stays");
            why
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&of(65 * MIB, 0)), BoundExceeded::Logical(64 * MIB));
    assert_eq!(refused(&of(2 * MIB, 0x11)), BoundExceeded::Allocated(MIB));
    // What a header promises is not waited for.
    assert_eq!(refused(&sparse(65 * MIB, &[0])), BoundExceeded::Logical(64 * MIB));
    assert_eq!(refused(&gzip(&sparse(65 * MIB, &[0]))), BoundExceeded::Logical(64 * MIB));
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    frame.extend((65 * MIB).to_le_bytes());
    assert_eq!(refused(&frame), BoundExceeded::Logical(64 * MIB));
    let error = import(dir.path(), &sparse(RAW_BYTES_MAX + 512, &[0]), ImportBounds::default()).unwrap_err();
    assert!(matches!(error, ImportError::Qcow2(_)) && error.help().contains("convert"), "{error:?}");
    let short = ImportBounds { source_bytes: 1000, ..ImportBounds::default() };
    let error = import(dir.path(), &sparse(MIB, &[0]), short).unwrap_err();
    assert!(matches!(error, ImportError::Exceeded(BoundExceeded::Source(1000))), "{error:?}");
    // A thousand to one, and within the bounds.
    let stored = import(dir.path(), &of(64 * MIB, 0), tight()).unwrap();
    assert_eq!(stored.meta.raw_bytes, 64 * MIB);
}

/// How far the imports are that a test holds up.
#[derive(Default)]
struct Held {
    importing: usize,
    waiting: usize,
    is_open: bool,
}

#[derive(Default)]
struct Barrier {
    held: Mutex<Held>,
    changed: Condvar,
}

impl Barrier {
    fn change(&self, change: impl FnOnce(&mut Held)) -> MutexGuard<'_, Held> {
        let mut held = self.held.lock().unwrap();
        change(&mut held);
        self.changed.notify_all();
        held
    }

    fn wait_until(&self, is_so: impl Fn(&Held) -> bool) -> (usize, usize) {
        let held = self.changed.wait_while(self.held.lock().unwrap(), |held| !is_so(held)).unwrap();
        (held.importing, held.waiting)
    }
}

/// Eight at a time took eight times the memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_are_imported_at_a_time_and_the_others_are_told_that_they_wait() {
    const IMAGES: usize = 6;
    let dir = tempfile::tempdir().unwrap();
    let barrier = Arc::new(Barrier::default());
    let store = ImageStore::open(&dir.path().join("store")).unwrap();
    let acquirer = Acquirer::new(store, Some(dir.path()), web());
    let mut tasks = Vec::new();
    for index in 0..IMAGES {
        let path = dir.path().join(format!("{index}.raw"));
        let mut image = gpt_image(4 << 20, 512);
        // In the boot code, so that each is another image.
        image[8] = u8::try_from(index).unwrap() + 1;
        fs::write(&path, image).unwrap();
        let (acquirer, held) = (acquirer.clone(), Arc::clone(&barrier));
        let (has_begun, has_waited) = (AtomicBool::new(false), AtomicBool::new(false));
        let tell = Arc::new(move |stage| match stage {
            AcquisitionStage::Waiting { ahead, .. } if !has_waited.swap(true, Ordering::SeqCst) => {
                assert!(ahead as usize >= IMPORTS_AT_ONCE);
                drop(held.change(|held| held.waiting += 1));
            }
            AcquisitionStage::Importing { .. } if !has_begun.swap(true, Ordering::SeqCst) => {
                drop(held.change(|held| held.importing += 1));
                held.wait_until(|held| held.is_open);
            }
            AcquisitionStage::Waiting { .. }
            | AcquisitionStage::Importing { .. }
            | AcquisitionStage::Downloading { .. }
            | AcquisitionStage::Rereading { .. } => {}
        });
        let request = ImageRequest { url: format!("file://{}", path.display()), ..ImageRequest::default() };
        tasks.push(tokio::spawn(async move { acquirer.acquire(&request, tell).await }));
    }
    let looking = Arc::clone(&barrier);
    let is_settled = |held: &Held| held.importing > IMPORTS_AT_ONCE || held.importing + held.waiting == IMAGES;
    let seen = tokio::task::spawn_blocking(move || looking.wait_until(is_settled)).await.unwrap();
    drop(barrier.change(|held| held.is_open = true));
    assert_eq!(seen, (IMPORTS_AT_ONCE, IMAGES - IMPORTS_AT_ONCE));
    let mut stored: Vec<Sha256> = Vec::new();
    for task in tasks {
        stored.push(task.await.unwrap().unwrap().meta.raw_sha256);
    }
    stored.sort();
    stored.dedup();
    assert_eq!(stored.len(), IMAGES, "none is lost");
}
