//! What an import may cost, in bytes and in processor time. Pure: the caller brings the clock.
//!
//! A high ratio of what an image holds to what was downloaded is no reason to refuse it: disks are mostly empty. What
//! counts is the disk as a whole, for each of its bytes is hashed; the part of it that is not zeros; and the time that
//! this takes, which may be the longer the more there is.

use std::{cell::Cell, time::Duration};

/// Largest raw image, holes included: no published one comes near, and hashing it takes ten minutes to an hour.
pub const RAW_BYTES_MAX: u64 = 1 << 40;
/// The most that is not zeros in it, in blocks of [`BLOCK_BYTES`]; a file without compression has as many bytes.
pub const ALLOCATED_BYTES_MAX: u64 = SOURCE_BYTES_MAX;
/// Largest file, as it is downloaded, and without its outer compression; the same bound as for downloads.
pub const SOURCE_BYTES_MAX: u64 = 256 << 30;
/// The size of the blocks that are either zeros or data.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;

/// Any import may take so much processor time.
const CPU_FREE: Duration = Duration::from_secs(300);
/// The further time for each GiB of the file: ten times what the slowest decoder takes for it on a small machine.
const CPU_PER_SOURCE_GIB: Duration = Duration::from_secs(120);
/// The further time for each GiB of data.
const CPU_PER_ALLOCATED_GIB: Duration = Duration::from_secs(120);
/// The further time for each GiB of the disk, holes included: SHA-256 at 50 MiB/s, a tenth of what a processor without
/// instructions for it does.
const CPU_PER_LOGICAL_GIB: Duration = Duration::from_secs(20);

/// What one import may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportBounds {
    pub source_bytes: u64,
    pub logical_bytes: u64,
    pub allocated_bytes: u64,
}

impl Default for ImportBounds {
    fn default() -> Self {
        Self { source_bytes: SOURCE_BYTES_MAX, logical_bytes: RAW_BYTES_MAX, allocated_bytes: ALLOCATED_BYTES_MAX }
    }
}

/// What an import used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportCost {
    /// The bytes of the file as it is downloaded.
    pub source_bytes: u64,
    /// The bytes of the file without its outer compression, where it is put aside first.
    pub spooled_bytes: u64,
    /// The bytes of the raw image, holes included.
    pub logical_bytes: u64,
    /// The bytes of the raw image, without blocks of zeros.
    pub allocated_bytes: u64,
    /// The processor time of the thread that reads, expands and hashes.
    pub cpu: Duration,
}

/// Why an import does not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundExceeded {
    #[error("the file has more than {0} bytes")]
    Source(u64),
    #[error("its disk has more than {0} bytes")]
    Logical(u64),
    #[error("its disk holds more than {0} bytes of data")]
    Allocated(u64),
    #[error("reading {logical_bytes} bytes of its disk took more than {allowed_s} s of processor time")]
    Cpu { logical_bytes: u64, allowed_s: u64 },
}

impl ImportBounds {
    /// Holds against the bounds what was used.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub fn check(&self, spent: &ImportCost) -> Result<(), BoundExceeded> {
        let file_bytes = spent.source_bytes.max(spent.spooled_bytes);
        if file_bytes > self.source_bytes {
            return Err(BoundExceeded::Source(self.source_bytes));
        }
        if spent.logical_bytes > self.logical_bytes {
            return Err(BoundExceeded::Logical(self.logical_bytes));
        }
        if spent.allocated_bytes > self.allocated_bytes {
            return Err(BoundExceeded::Allocated(self.allocated_bytes));
        }
        let allowed = CPU_FREE
            + share(CPU_PER_SOURCE_GIB, file_bytes)
            + share(CPU_PER_ALLOCATED_GIB, spent.allocated_bytes)
            + share(CPU_PER_LOGICAL_GIB, spent.logical_bytes);
        if spent.cpu > allowed {
            return Err(BoundExceeded::Cpu { logical_bytes: spent.logical_bytes, allowed_s: allowed.as_secs() });
        }
        Ok(())
    }

    /// Holds against the bounds what a header promises of the disk.
    ///
    /// # Errors
    /// When it promises more than may be.
    pub fn check_promise(&self, logical_bytes: u64) -> Result<(), BoundExceeded> {
        if logical_bytes > self.logical_bytes { Err(BoundExceeded::Logical(self.logical_bytes)) } else { Ok(()) }
    }
}

/// The part of what one GiB may take.
fn share(per_gib: Duration, bytes: u64) -> Duration {
    let mib = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    (per_gib / 1024) * mib
}

/// Adds up what one import uses, and stops it at a bound.
pub(crate) struct ImportMeter<'a> {
    bounds: ImportBounds,
    spent: Cell<ImportCost>,
    /// Processor time since the import began.
    clock: &'a dyn Fn() -> Duration,
}

impl<'a> ImportMeter<'a> {
    pub(crate) fn new(bounds: ImportBounds, clock: &'a dyn Fn() -> Duration) -> Self {
        Self { bounds, spent: Cell::default(), clock }
    }

    pub(crate) fn source_bytes(&self) -> u64 {
        self.spent.get().source_bytes
    }

    /// Counts this many bytes more of the file.
    pub(crate) fn source(&self, bytes: u64) -> Result<(), BoundExceeded> {
        self.add(ImportCost { source_bytes: bytes, ..ImportCost::default() })
    }

    /// Counts this many bytes more of what is put aside.
    pub(crate) fn spooled(&self, bytes: u64) -> Result<(), BoundExceeded> {
        self.add(ImportCost { spooled_bytes: bytes, ..ImportCost::default() })
    }

    /// Counts this many bytes more of the raw image, and of its data.
    pub(crate) fn raw(&self, logical_bytes: u64, allocated_bytes: u64) -> Result<(), BoundExceeded> {
        self.add(ImportCost { logical_bytes, allocated_bytes, ..ImportCost::default() })
    }

    fn add(&self, more: ImportCost) -> Result<(), BoundExceeded> {
        let spent = self.spent.get();
        let spent = ImportCost {
            source_bytes: spent.source_bytes.saturating_add(more.source_bytes),
            spooled_bytes: spent.spooled_bytes.saturating_add(more.spooled_bytes),
            logical_bytes: spent.logical_bytes.saturating_add(more.logical_bytes),
            allocated_bytes: spent.allocated_bytes.saturating_add(more.allocated_bytes),
            cpu: (self.clock)(),
        };
        self.spent.set(spent);
        self.bounds.check(&spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn each_bound_ends_an_import_by_itself() {
        let bounds = ImportBounds::default();
        let full = ImportCost {
            source_bytes: SOURCE_BYTES_MAX,
            spooled_bytes: SOURCE_BYTES_MAX,
            logical_bytes: RAW_BYTES_MAX,
            allocated_bytes: ALLOCATED_BYTES_MAX,
            cpu: CPU_FREE,
        };
        assert_eq!(bounds.check(&full), Ok(()));
        let more = |change: fn(&mut ImportCost)| {
            let mut spent = full;
            change(&mut spent);
            bounds.check(&spent)
        };
        assert_eq!(more(|spent| spent.source_bytes += 1), Err(BoundExceeded::Source(SOURCE_BYTES_MAX)));
        assert_eq!(more(|spent| spent.spooled_bytes += 1), Err(BoundExceeded::Source(SOURCE_BYTES_MAX)));
        assert_eq!(more(|spent| spent.logical_bytes += 1), Err(BoundExceeded::Logical(RAW_BYTES_MAX)));
        assert_eq!(more(|spent| spent.allocated_bytes += 1), Err(BoundExceeded::Allocated(ALLOCATED_BYTES_MAX)));
        assert!(matches!(more(|spent| spent.cpu = Duration::from_secs(1_000_000)), Err(BoundExceeded::Cpu { .. })));
        assert_eq!(bounds.check_promise(RAW_BYTES_MAX), Ok(()));
        assert_eq!(bounds.check_promise(RAW_BYTES_MAX + 1), Err(BoundExceeded::Logical(RAW_BYTES_MAX)));
    }

    /// A disk of 200 GiB from a file of kilobytes was refused for its ratio.
    #[test]
    fn time_goes_by_what_is_done_and_no_ratio_counts() {
        let bounds = ImportBounds::default();
        // SHA-256 of all of it, where a processor has no instructions for that.
        let cpu = Duration::from_secs(1000);
        let sparse = ImportCost { source_bytes: 200 << 10, logical_bytes: 200 * GIB, cpu, ..ImportCost::default() };
        assert_eq!(bounds.check(&sparse), Ok(()));
        // The same time for a file that gives nothing.
        let nothing = ImportCost { source_bytes: 200 << 10, cpu, ..ImportCost::default() };
        assert_eq!(bounds.check(&nothing), Err(BoundExceeded::Cpu { logical_bytes: 0, allowed_s: 300 }));
        for spent in [
            ImportCost { source_bytes: 10 * GIB, cpu, ..ImportCost::default() },
            ImportCost { spooled_bytes: 10 * GIB, cpu, ..ImportCost::default() },
            ImportCost { allocated_bytes: 10 * GIB, cpu, ..ImportCost::default() },
        ] {
            assert_eq!(bounds.check(&spent), Ok(()), "{spent:?}");
        }
    }

    #[test]
    fn a_meter_adds_up_and_asks_the_clock_each_time() {
        let now = Cell::new(Duration::ZERO);
        let clock = || now.get();
        let meter = ImportMeter::new(ImportBounds { source_bytes: 10, logical_bytes: 20, allocated_bytes: 15 }, &clock);
        assert_eq!((meter.source(6), meter.spooled(10)), (Ok(()), Ok(())));
        assert_eq!((meter.raw(10, 10), meter.source_bytes()), (Ok(()), 6));
        assert_eq!(meter.raw(5, 6), Err(BoundExceeded::Allocated(15)));
        assert_eq!(meter.raw(6, 0), Err(BoundExceeded::Logical(20)));
        assert_eq!(meter.source(5), Err(BoundExceeded::Source(10)));
        let meter = ImportMeter::new(ImportBounds::default(), &clock);
        assert_eq!(meter.source(1), Ok(()));
        now.set(CPU_FREE + Duration::from_secs(1));
        assert_eq!(meter.source(0), Err(BoundExceeded::Cpu { logical_bytes: 0, allowed_s: 300 }));
    }
}
