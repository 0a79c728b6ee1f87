//! A disk that is large enough for both ways of zeroing to be tried: whichever is faster here, nothing is left.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_images::write::{Aborted, DiskReader, WritableDisk};
use firesteel_sysfs::attach::BlockQueueLimits;
use firesteel_wire::erasure::{ErasurePolicy, Grade};

use crate::drive::PlainDrive;
use crate::perform::{CleaningJob, clean};
use crate::watch::CleaningMonitor;
use crate::zeroing::ZeroingTrial;

const BYTES: u64 = 512 << 20;

#[derive(Clone)]
struct LargeDrive(Arc<Mutex<LargeDriveMedium>>);

struct LargeDriveMedium {
    medium: Vec<u8>,
    /// Which bytes were zeroed by command, and by writing zeros; in MiB.
    commanded: BTreeSet<u64>,
    written: BTreeSet<u64>,
}

fn mebibytes(offset: u64, bytes: u64) -> impl Iterator<Item = u64> {
    (offset >> 20)..((offset + bytes) >> 20)
}

impl LargeDrive {
    fn of(bytes: u64) -> Self {
        let medium = vec![0x5a; usize::try_from(bytes).unwrap()];
        Self(Arc::new(Mutex::new(LargeDriveMedium { medium, commanded: BTreeSet::new(), written: BTreeSet::new() })))
    }
}

impl WritableDisk for LargeDrive {
    fn size_bytes(&self) -> u64 {
        self.0.lock().unwrap().medium.len() as u64
    }

    fn block_bytes(&self) -> u32 {
        512
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        inner.medium[at..at + data.len()].copy_from_slice(data);
        inner.written.extend(mebibytes(offset, data.len() as u64));
        Ok(())
    }

    fn zero_at(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        inner.medium[at..at + usize::try_from(bytes).unwrap()].fill(0);
        inner.commanded.extend(mebibytes(offset, bytes));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn reader(&self) -> io::Result<Box<dyn DiskReader>> {
        Ok(Box::new(self.clone()))
    }
}

impl DiskReader for LargeDrive {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.0.lock().unwrap().medium[at..at + buffer.len()]);
        Ok(())
    }
}

struct SilentMonitor;

impl CleaningMonitor for SilentMonitor {
    fn checkpoint(&self, _activity: &str, done: u64, total: u64) -> Result<(), Aborted> {
        assert!(done <= total);
        Ok(())
    }

    fn pause(&self, _time: Duration) {}

    fn report_progress(&self, _activity: &str, _done: u64, _total: u64) -> Option<String> {
        None
    }
}

#[test]
fn whichever_way_is_faster_no_byte_is_left_and_the_receipt_says_which() {
    let disk = LargeDrive::of(BYTES);
    let drive = PlainDrive { queue: BlockQueueLimits { writes_zeroes: true, ..BlockQueueLimits::default() } };
    let namespaces = BTreeSet::new();
    let job = CleaningJob {
        drive: &drive,
        disks: &[&disk],
        namespaces: &namespaces,
        policy: ErasurePolicy::Full,
        seed: [7; 32],
    };
    let cleaned = clean(&job, &SilentMonitor).unwrap();
    assert_eq!((cleaned.method, cleaned.grade), ("write-zeroes", Grade::Clear));
    let inner = disk.0.lock().unwrap();
    assert!(inner.medium.iter().all(|byte| *byte == 0));
    let all: BTreeSet<u64> = mebibytes(0, BYTES).collect();
    let trial: BTreeSet<u64> = mebibytes(0, ZeroingTrial::bytes_of(BYTES).unwrap()).collect();
    assert!(
        inner.commanded.is_superset(&trial) && inner.written.is_superset(&trial),
        "both are tried on the same bytes"
    );
    let winner = if cleaned.drive_log.is_empty() { &inner.commanded } else { &inner.written };
    assert!(winner.is_superset(&all), "{}: the winner did not do all", cleaned.drive_log);
}

/// Records what is reported of zeroing.
#[derive(Default)]
struct RecordingMonitor(RefCell<Vec<(u64, u64)>>);

impl CleaningMonitor for RecordingMonitor {
    fn checkpoint(&self, activity: &str, done: u64, total: u64) -> Result<(), Aborted> {
        // The first report of an activity has no amount.
        if activity == "overwrite" && total > 0 {
            self.0.borrow_mut().push((done, total));
        }
        Ok(())
    }

    fn pause(&self, _time: Duration) {}

    fn report_progress(&self, _activity: &str, _done: u64, _total: u64) -> Option<String> {
        None
    }
}

/// S3.30: over all disks of the drive.
#[test]
fn an_overwrite_tells_how_far_it_is_before_each_piece() {
    const PIECE: u64 = 4 << 20;
    let disks = [LargeDrive::of(3 * PIECE), LargeDrive::of(2 * PIECE)];
    let namespaces = BTreeSet::new();
    let drive = PlainDrive { queue: BlockQueueLimits::default() };
    let monitor = RecordingMonitor::default();
    let job = CleaningJob {
        drive: &drive,
        disks: &[&disks[0], &disks[1]],
        namespaces: &namespaces,
        policy: ErasurePolicy::Full,
        seed: [7; 32],
    };
    assert_eq!(clean(&job, &monitor).unwrap().method, "overwrite");
    let all: Vec<(u64, u64)> = (0..5).map(|piece| (piece * PIECE, 5 * PIECE)).collect();
    assert_eq!(monitor.0.into_inner(), all);
}
