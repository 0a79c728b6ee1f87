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

pub use header::{Compression, Header, Qcow2Error, Reason};
pub use reader::Reader;

use std::io::{Cursor, Read};

/// Reads any bytes as an image. For fuzzing: never panics, never takes long.
pub fn check(bytes: &[u8]) {
    if let Ok(reader) = Reader::open(Cursor::new(bytes)) {
        drop(std::io::copy(&mut reader.take(4 << 20), &mut std::io::sink()));
    }
}
