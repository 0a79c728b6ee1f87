//! Commands to drives, and what drives answer: NVMe, ATA and SCSI. The record of the hardware (`firesteel_inspect`) and
//! the erasure of a disk (`firesteel_clean`) ask the same drives, so both find the bytes here.
//!
//! ```text
//! nvme, ata, scsi: encoders ─► NvmeCommand, Cdb ─► Port ─► drive
//!                  decoders ◄─ pages, sense data ◄─┘
//! ```
//!
//! This crate is pure, but for the seam [`port::Port`], behind which a system call or a simulated drive stands. Callers
//! decide which commands are sent, and in which order.

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
