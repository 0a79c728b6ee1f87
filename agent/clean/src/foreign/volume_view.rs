//! What a recogniser sees: one disk, partition or volume, read where it asks.

use std::cell::{Cell, RefCell};
use std::io;

use firesteel_wire::text::field;

use super::gap::VolumeReadError;
use super::volume::{BlockVolume, Disks};
use crate::drive::chain;

/// The most that is read at once.
const READ_BYTES_MAX: usize = 16 << 20;

/// One volume, from its first byte.
#[derive(Debug)]
pub(super) struct VolumeView<'a> {
    disks: &'a Disks<'a>,
    volume: &'a BlockVolume,
    failed: RefCell<Option<io::Error>>,
    unclear: Cell<Option<&'static str>>,
}

impl<'a> VolumeView<'a> {
    pub(super) fn new(disks: &'a Disks<'a>, volume: &'a BlockVolume) -> Self {
        Self { disks, volume, failed: RefCell::default(), unclear: Cell::default() }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.volume.size_bytes
    }

    /// `length` bytes at a distance from the start; `None` where there are not so many, or they are not at hand.
    pub(super) fn at(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        let end = offset.checked_add(length as u64)?;
        if length > READ_BYTES_MAX || end > self.volume.size_bytes {
            return None;
        }
        let mut bytes = vec![0; length];
        match self.disks.read(self.volume, offset, &mut bytes) {
            Ok(()) => Some(bytes),
            Err(VolumeReadError::Elsewhere) => None,
            Err(VolumeReadError::Unclear(why)) => {
                self.unclear.set(Some(why));
                None
            }
            Err(VolumeReadError::Failed(error)) => {
                self.failed.borrow_mut().get_or_insert(error);
                None
            }
        }
    }

    /// The first bytes, as many as there are of `most`.
    pub(super) fn start(&self, most: u64) -> Vec<u8> {
        let length = usize::try_from(self.volume.size_bytes.min(most)).unwrap_or(0);
        self.at(0, length).unwrap_or_default()
    }

    /// The last bytes, as many as there are of `most`.
    pub(super) fn end(&self, most: u64) -> Vec<u8> {
        let length = self.volume.size_bytes.min(most);
        self.at(self.volume.size_bytes - length, usize::try_from(length).unwrap_or(0)).unwrap_or_default()
    }

    /// Why it is not known where some bytes lie.
    pub(super) fn unclear_reason(&self) -> Option<&'static str> {
        self.unclear.get()
    }

    /// Why some bytes could not be read, in words.
    pub(super) fn failure(&self) -> Option<String> {
        self.failed.borrow().as_ref().map(|error| field(&chain(error)))
    }
}
