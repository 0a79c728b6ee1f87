//! Reading a disk back: what is on the medium, by a fresh descriptor, past the page cache.

use std::{io, sync::mpsc::sync_channel, thread};

use firesteel_facts::{Hasher, Sha256};

use super::control::{WriteControl, WritePhase, WriteProgress};
use super::disk::{AlignedBuffer, DiskReader};
use super::error::WriteFailure;
use super::layout::ImageLayout;
use super::stream::CHUNK_BYTES;

/// Buffers that go round between reading and hashing.
const BUFFERS: usize = 3;

/// Digest and CRC of the image as it is on the disk: the body from the medium; the head and the tail,
/// which are not written yet, from memory.
pub(crate) fn digest(
    reader: &dyn DiskReader,
    layout: &ImageLayout,
    head: &[u8],
    tail: &[u8],
    control: &dyn WriteControl,
) -> Result<(Sha256, u32), WriteFailure> {
    let mut hasher = Hasher::new();
    let mut crc = crc32fast::Hasher::new();
    let raw = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let head = &head[..head.len().min(raw(layout.raw_bytes))];
    hasher.update(head);
    crc.update(head);
    thread::scope(|scope| {
        let (full_sender, full_receiver) = sync_channel::<(AlignedBuffer, usize, u64, io::Result<()>)>(1);
        let (free_sender, free_receiver) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            drop(free_sender.send(AlignedBuffer::new(CHUNK_BYTES)));
        }
        let body = layout.body.clone();
        scope.spawn(move || {
            for offset in body.clone().step_by(CHUNK_BYTES) {
                let Ok(mut buffer) = free_receiver.recv() else { return };
                let bytes = raw(body.end - offset).min(CHUNK_BYTES);
                let result = reader.read_at(offset, &mut buffer[..bytes]);
                let failed = result.is_err();
                if full_sender.send((buffer, bytes, offset, result)).is_err() || failed {
                    return;
                }
            }
        });
        let total_bytes = layout.body.end - layout.body.start;
        let mut done_bytes = 0;
        for (buffer, bytes, offset, result) in full_receiver.iter() {
            control.checkpoint(WriteProgress { phase: WritePhase::ReadingBack, done_bytes, total_bytes })?;
            result.map_err(|source| WriteFailure::ReadBack { offset, source })?;
            hasher.update(&buffer[..bytes]);
            crc.update(&buffer[..bytes]);
            done_bytes += bytes as u64;
            drop(free_sender.send(buffer));
        }
        Ok::<(), WriteFailure>(())
    })?;
    let tail_raw = raw(layout.raw_bytes.saturating_sub(layout.tail.start)).min(tail.len());
    hasher.update(&tail[..tail_raw]);
    crc.update(&tail[..tail_raw]);
    Ok((hasher.finish(), crc.finalize()))
}

/// Compares one area of the disk with what must be there.
pub(crate) fn compare(reader: &dyn DiskReader, offset: u64, expected: &[u8]) -> Result<(), WriteFailure> {
    let mut buffer = AlignedBuffer::new(expected.len());
    reader.read_at(offset, &mut buffer).map_err(|source| WriteFailure::ReadBack { offset, source })?;
    match buffer.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(index) => Err(WriteFailure::ReadBackDiffers { offset: offset + index as u64 }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::Mutex;

    use super::*;
    use crate::write::Unattended;

    /// Reads as ones up to a byte, and fails behind it; notes each offset that is asked for.
    struct Failing {
        good_bytes: u64,
        asked: Mutex<Vec<u64>>,
    }

    impl DiskReader for Failing {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.asked.lock().unwrap().push(offset);
            buffer.fill(1);
            if offset + buffer.len() as u64 > self.good_bytes { Err(io::Error::other("bad sector")) } else { Ok(()) }
        }
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn after_a_read_that_fails_no_other_is_tried() {
        let reader = Failing { good_bytes: 6 * MIB, asked: Mutex::default() };
        let layout = ImageLayout::new(40 * MIB, 512);
        let result = digest(&reader, &layout, &[1; 1 << 20], &[1; 1 << 20], &Unattended);
        assert!(matches!(result, Err(WriteFailure::ReadBack { offset, .. }) if offset == 5 * MIB), "{result:?}");
        assert_eq!(reader.asked.into_inner().unwrap(), [MIB, 5 * MIB]);
    }

    #[test]
    fn what_was_read_back_is_head_body_and_tail_up_to_the_image_s_end() {
        // Of the last block of 4096 bytes the image has 512.
        let raw_bytes = 11 * MIB + 512;
        let layout = ImageLayout::new(raw_bytes, 4096);
        let reader = Failing { good_bytes: layout.body.end, asked: Mutex::default() };
        let tail = vec![3; usize::try_from(layout.tail.end - layout.tail.start).unwrap()];
        let found = digest(&reader, &layout, &[2; 1 << 20], &tail, &Unattended).unwrap();
        let mut image = vec![1; usize::try_from(raw_bytes).unwrap()];
        image[..1 << 20].fill(2);
        image[usize::try_from(layout.tail.start).unwrap()..].fill(3);
        assert_eq!(found, (Sha256::of(&image), crc32fast::hash(&image)));
        assert_eq!(reader.asked.into_inner().unwrap(), [MIB, 5 * MIB, 9 * MIB]);
    }
}
