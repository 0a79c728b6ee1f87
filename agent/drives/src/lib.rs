//! Commands to drives, and what drives answer: NVMe, ATA and SCSI. The record of the hardware and the erasure of a disk
//! ask the same drives, so both find the bytes here.
//!
//! ```text
//! nvme, ata, scsi: encoders ─► NvmeCommand, Cdb ─► Port ─► drive
//!                  decoders ◄─ pages, sense data ◄─┘
//! ```
//!
//! Pure, but for the seam [`port::Port`]: a system call stands behind it, or a simulated drive. What is asked, and in
//! which order, is decided elsewhere.

pub mod ata;
pub mod nvme;
pub mod port;
pub mod scsi;

/// Reads foreign answers of any kind. For fuzzing: never panics.
pub fn check(bytes: &[u8]) {
    nvme::check(bytes);
    ata::check(bytes);
    scsi::check(bytes);
}

/// `N` bytes at `at`, where there are so many.
#[must_use]
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
