//! QEMU's qcow2, versions 2 and 3, as a stream of the raw image (docs/interop/qcow2.rst of QEMU).
//!
//! Read are: plain, zero, unallocated and compressed (zlib, zstd) clusters. Refused, with the
//! reason, is everything that points out of the file or that this code does not fully
//! understand: backing files, external data files, encryption, extended L2 entries, images that
//! are marked dirty or corrupt, unknown incompatible features. Snapshots and refcounts are
//! ignored: the active state does not need them. No address in the file is believed before it was
//! checked against the file's length and the other tables.

mod header;
mod reader;

pub use header::{Compression, Qcow2Error, Qcow2Header, Qcow2Refusal};
pub use reader::Qcow2Reader;

use std::io::{Cursor, Read};

/// What a reader holds at most: the L1 table, the places of the tables that it names, one L2 table, and one cluster as it
/// is stored and as it is given.
pub(crate) const MEMORY_BYTES_MAX: usize = 2 * (32 << 20) + (24 << 20);
const _: () = assert!(header::L1_ENTRIES_MAX * 8 <= 32 << 20);

/// Reads any bytes as an image. For fuzzing: never panics, never takes long.
pub fn check(bytes: &[u8]) {
    if let Ok(reader) = Qcow2Reader::open(Cursor::new(bytes)) {
        drop(std::io::copy(&mut reader.take(4 << 20), &mut std::io::sink()));
    }
}
