//! How often the writer flushed a batch of changes to the disk, and how long that took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the classes that flushes are counted in, in microseconds: from a good NVMe drive to a disk
/// that is about to fail. What took longer is in the last class.
pub const FLUSH_BOUNDS_US: [u64; 9] = [250, 1_000, 4_000, 16_000, 64_000, 250_000, 1_000_000, 4_000_000, 16_000_000];

/// Flushes since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushes {
    /// Flushes by how long they took: up to each bound of [`FLUSH_BOUNDS_US`], and beyond the last.
    pub classes: [u64; FLUSH_BOUNDS_US.len() + 1],
    pub total: Duration,
    /// Batches that could not be written.
    pub failed: u64,
}

#[derive(Debug, Default)]
pub(crate) struct FlushHistogram {
    classes: [AtomicU64; FLUSH_BOUNDS_US.len() + 1],
    microseconds: AtomicU64,
    failed: AtomicU64,
}

impl FlushHistogram {
    pub(crate) fn flushed(&self, took: Duration) {
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let class = FLUSH_BOUNDS_US.partition_point(|bound| *bound < microseconds);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Flushes {
        Flushes {
            classes: self.classes.each_ref().map(|count| count.load(Ordering::Relaxed)),
            total: Duration::from_micros(self.microseconds.load(Ordering::Relaxed)),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flush_is_in_the_class_whose_bound_it_keeps() {
        let counts = FlushHistogram::default();
        for microseconds in [0, 250, 251, 16_000_000, 16_000_001] {
            counts.flushed(Duration::from_micros(microseconds));
        }
        counts.failed();
        let read = counts.read();
        assert_eq!(read.classes, [2, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((read.total, read.failed), (Duration::from_micros(32_000_502), 1));
    }
}
