//! Leaves room on the filesystem of the image folder: databases that record leases and hosts lie
//! beside it, and a source without end must not take their last byte.

use std::fs::File;
use std::io::{self, Write};

/// The bytes that stay free: hours of database writes, and logs.
const SPARE_BYTES: u64 = 1 << 30;
/// The divisor of a small filesystem for the part that stays free.
const SPARE_SHARE: u64 = 10;
/// The filesystem is asked this often; what others write meanwhile comes out of the spare room.
pub(crate) const LOOK_BYTES: u64 = 32 << 20;

/// What a filesystem has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
}

impl Room {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let found = nix::sys::statvfs::fstatvfs(file)?;
        let unit = found.fragment_size();
        Ok(Self { free_bytes: found.blocks_available() * unit, total_bytes: found.blocks() * unit })
    }

    fn has_spare(self) -> bool {
        self.usable_bytes() > 0
    }

    /// What may be used without touching the spare room.
    pub(crate) fn usable_bytes(self) -> u64 {
        self.free_bytes.saturating_sub(SPARE_BYTES.min(self.total_bytes / SPARE_SHARE))
    }
}

/// A file that is full while others still have room.
#[derive(Debug)]
pub(crate) struct RoomLimitedWriter<W, R> {
    inner: W,
    room: R,
    until_look_bytes: u64,
}

impl<'a> RoomLimitedWriter<&'a File, Box<dyn Fn() -> io::Result<Room> + Send + 'a>> {
    pub(crate) fn new(file: &'a File) -> Self {
        Self::with(file, Box::new(move || Room::of(file)))
    }
}

impl<W: Write, R: Fn() -> io::Result<Room>> RoomLimitedWriter<W, R> {
    fn with(inner: W, room: R) -> Self {
        Self { inner, room, until_look_bytes: 0 }
    }
}

impl<W: Write, R: Fn() -> io::Result<Room>> Write for RoomLimitedWriter<W, R> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.until_look_bytes == 0 {
            if !(self.room)()?.has_spare() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.until_look_bytes = LOOK_BYTES;
        }
        let written = self.inner.write(data)?;
        self.until_look_bytes = self.until_look_bytes.saturating_sub(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::cell::Cell;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// An endless source filled the disk to its last byte, and no lease could be written any more.
    #[test]
    fn a_source_without_end_leaves_the_spare_room() {
        let used = Cell::new(0);
        let room = || Ok(Room { free_bytes: 4096 * MIB - used.get(), total_bytes: 100_000 * MIB });
        let mut file = RoomLimitedWriter::with(io::sink(), room);
        let piece = vec![0; 1 << 20];
        let error = loop {
            match file.write_all(&piece) {
                Ok(()) => used.set(used.get() + MIB),
                Err(error) => break error,
            }
            assert!(used.get() < 4096 * MIB, "no room was left");
        };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!((3072 - 32..=3072 + 32).contains(&(used.get() / MIB)), "{} MiB were written", used.get() / MIB);
    }

    #[test]
    fn a_small_filesystem_keeps_a_part_and_a_full_one_takes_nothing() {
        let room = |free: u64, total: u64| Room { free_bytes: free * MIB, total_bytes: total * MIB };
        assert!(room(101, 1000).has_spare() && !room(100, 1000).has_spare());
        assert!(room(1025, 1_000_000).has_spare() && !room(1024, 1_000_000).has_spare());
        let mut full = RoomLimitedWriter::with(io::sink(), || Ok(room(0, 1000)));
        assert_eq!(full.write(&[1]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        let file = tempfile::tempfile().unwrap();
        assert!(Room::of(&file).unwrap().total_bytes > 0);
    }
}
