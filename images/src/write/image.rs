//! Writing one image to one disk, in the order that the parent module's doc draws.

use std::io::Read;
use std::ops::Range;
use std::time::{Duration, Instant};

use firesteel_facts::{Guid, Sha256};

use super::control::{WriteControl, WritePhase, WriteProgress};
use super::disk::{AlignedBuffer, WritableDisk};
use super::error::{DiskState, WriteError, WriteFailure};
use super::layout::{self, ImageLayout};
use super::metadata::{self, ClearError, ClearedMetadata};
use super::spec::WriteSpec;
use super::stream::{CHUNK_BYTES, Chunk, SourceError, WritePipeline};
use super::{extent, gpt, readback};

/// One zeroing command covers at most this, so that progress and a wish to stop are not held up
/// for long on a disk that zeroes slowly.
const ZERO_RUN_BYTES_MAX: u64 = 256 << 20;
/// Images are made in such blocks, unless their GPT says otherwise.
const BLOCK_BYTES_USUAL: u32 = 512;

/// Evidence of a finished write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteEvidence {
    pub stream_bytes: u64,
    pub stream_sha256: Sha256,
    pub raw_bytes: u64,
    /// The promised one, proven by `readback_sha256`, which equals it.
    pub raw_sha256: Sha256,
    /// Bytes sent to the medium as data.
    pub written_bytes: u64,
    /// Bytes that the device zeroed by command.
    pub zeroed_bytes: u64,
    /// The image area as read back, before the table was completed.
    pub readback_sha256: Sha256,
    pub readback_bytes: u64,
    /// The completed table; `None` where the image has no GPT, so nothing in it was changed.
    pub table: Option<CompletedTable>,
    /// What stood on the disk before.
    pub cleared: ClearedMetadata,
    /// Clearing, writing and the flush.
    pub write: Duration,
    pub readback: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedTable {
    pub disk_guid: Guid,
    pub last_usable_lba: u64,
}

/// Writes an image and proves it. On success the disk boots it; on failure it boots nothing.
pub fn write_image(
    source: impl Read + Send,
    disk: &dyn WritableDisk,
    spec: &WriteSpec,
    control: &dyn WriteControl,
) -> Result<WriteEvidence, WriteError> {
    let mut changed = false;
    run(source, disk, spec, control, &mut changed).map_err(|failure| {
        let state = match changed {
            false => DiskState::Unchanged,
            true => match metadata::clear_tables(disk) {
                Ok(()) => DiskState::Cleared,
                Err(error) => DiskState::Unproven(error),
            },
        };
        WriteError { failure, state }
    })
}

fn run(
    source: impl Read + Send,
    disk: &dyn WritableDisk,
    spec: &WriteSpec,
    control: &dyn WriteControl,
    changed: &mut bool,
) -> Result<WriteEvidence, WriteFailure> {
    let raw_bytes = spec.raw_bytes;
    check_size(raw_bytes, disk)?;
    let started = Instant::now();
    let mut writer = ImageWriter::new(disk, ImageLayout::new(raw_bytes, disk.block_bytes()), control);
    let (table, cleared, raw_crc) = std::thread::scope(|scope| {
        let mut stream = WritePipeline::start(scope, source, spec);
        let written = writer.write_stream(&mut stream, changed);
        // The source's own failure explains an early end best; a failure to write explains itself.
        match (written, stream.finish()) {
            (Ok(Some((table, cleared))), Ok(raw_crc)) => Ok((table, cleared, raw_crc)),
            (Ok(None), Ok(_)) => {
                Err(WriteFailure::Source { source: SourceError::RawShort { expected: raw_bytes, found: 0 } })
            }
            (Err(failure), _) => Err(failure),
            (Ok(_), Err(source)) => Err(WriteFailure::Source { source }),
        }
    })?;
    disk.flush().map_err(|source| WriteFailure::Flush { source })?;
    let write = started.elapsed();

    let started = Instant::now();
    let reader = disk.reader().map_err(|source| WriteFailure::Reopen { source })?;
    let (readback_sha256, readback_crc) =
        readback::digest(&*reader, &writer.layout, &writer.head, &writer.tail, control)?;
    if readback_sha256 != spec.raw_sha256 {
        let (expected, found) = (spec.raw_sha256, readback_sha256);
        return Err(if readback_crc == raw_crc {
            // The disk kept what it was given; it was given something else than promised.
            WriteFailure::Source { source: SourceError::RawDigest { expected, found } }
        } else {
            WriteFailure::ReadBackDigest { expected, found }
        });
    }
    drop(reader);
    let table = writer.complete(table.as_ref(), spec.disk_guid)?;
    Ok(WriteEvidence {
        stream_bytes: spec.stream_bytes,
        stream_sha256: spec.stream_sha256,
        raw_bytes,
        raw_sha256: spec.raw_sha256,
        written_bytes: writer.written_bytes,
        zeroed_bytes: writer.zeroed_bytes,
        readback_sha256,
        readback_bytes: raw_bytes,
        table,
        cleared,
        write,
        readback: started.elapsed(),
    })
}

fn check_size(raw_bytes: u64, disk: &dyn WritableDisk) -> Result<(), WriteFailure> {
    let disk_bytes = disk.size_bytes();
    if raw_bytes == 0 || !raw_bytes.is_multiple_of(512) {
        return Err(WriteFailure::NotWholeSectors { raw_bytes });
    }
    // Compared before rounding up, which could overflow.
    if raw_bytes > disk_bytes || raw_bytes.next_multiple_of(u64::from(disk.block_bytes())) > disk_bytes {
        return Err(WriteFailure::DoesNotFit { raw_bytes, disk_bytes });
    }
    Ok(())
}

struct ImageWriter<'a> {
    disk: &'a dyn WritableDisk,
    control: &'a dyn WriteControl,
    layout: ImageLayout,
    head: AlignedBuffer,
    tail: AlignedBuffer,
    /// Zeros that are due, so that neighbouring runs become one command.
    zeros: Range<u64>,
    written_bytes: u64,
    zeroed_bytes: u64,
}

impl<'a> ImageWriter<'a> {
    fn new(disk: &'a dyn WritableDisk, layout: ImageLayout, control: &'a dyn WriteControl) -> Self {
        // Both are at most a few MiB.
        let buffer = |area: &Range<u64>| AlignedBuffer::new(usize::try_from(area.end - area.start).unwrap_or(0));
        let (head, tail) = (buffer(&layout.head), buffer(&layout.tail));
        Self { disk, control, layout, head, tail, zeros: 0..0, written_bytes: 0, zeroed_bytes: 0 }
    }

    /// Writes the body, keeps head and tail. `None`: the stream ended before there was anything to
    /// judge the image by.
    fn write_stream(
        &mut self,
        stream: &mut WritePipeline<'_>,
        changed: &mut bool,
    ) -> Result<Option<(Option<gpt::GptTable>, ClearedMetadata)>, WriteFailure> {
        let Some(mut chunk) = stream.next() else { return Ok(None) };
        if (chunk.bytes as u64) < self.layout.raw_bytes.min(CHUNK_BYTES as u64) {
            return Ok(None);
        }
        self.keep(&chunk);
        let table = self.check_table()?;
        *changed = true;
        let cleared = metadata::clear(self.disk, self.control).map_err(|source| {
            if let ClearError::Aborted(aborted) = source {
                WriteFailure::Aborted(aborted)
            } else {
                WriteFailure::Clear { source }
            }
        })?;
        loop {
            self.control.checkpoint(WriteProgress {
                phase: WritePhase::Writing,
                done_bytes: chunk.offset,
                total_bytes: self.layout.raw_bytes,
            })?;
            self.write_chunk(&chunk)?;
            stream.give_back(chunk);
            match stream.next() {
                Some(next) => chunk = next,
                None => break,
            }
            self.keep(&chunk);
        }
        self.zero_due()?;
        Ok(Some((table, cleared)))
    }

    /// Whether the image's table suits this disk; asked before anything is changed.
    fn check_table(&self) -> Result<Option<gpt::GptTable>, WriteFailure> {
        let failed = |source| WriteFailure::Table { source };
        let (disk_block, image_bytes) = (self.disk.block_bytes(), self.layout.raw_bytes);
        let image_block = gpt::block_bytes_of(&self.head);
        if let Some(image) = image_block.filter(|&image| image != disk_block) {
            return Err(WriteFailure::BlockSize { image, disk: disk_block });
        }
        // A classic table counts in the blocks of the disk that it is on, and does not say how long they are.
        if let Err(beyond) = extent::check_classic(&self.head, disk_block, image_bytes) {
            let is_of_small_blocks = extent::check_classic(&self.head, BLOCK_BYTES_USUAL, image_bytes).is_ok();
            let failure = WriteFailure::BlockSize { image: BLOCK_BYTES_USUAL, disk: disk_block };
            return Err(if is_of_small_blocks { failure } else { beyond.into() });
        }
        let Some(image) = image_block else { return Ok(None) };
        let table = gpt::parse(&self.head, image).map_err(failed)?;
        if let Some(table) = &table {
            extent::check_table(table, image_bytes)?;
            let mut head = self.head.to_vec();
            gpt::complete(&mut head, table, self.disk.size_bytes(), Guid::default()).map_err(failed)?;
        }
        Ok(table)
    }

    /// Copies what a chunk holds of head and tail.
    fn keep(&mut self, chunk: &Chunk) {
        for (area, kept) in [(&self.layout.head, &mut self.head), (&self.layout.tail, &mut self.tail)] {
            if let Some(both) = overlap(area, &chunk.area()) {
                let (from, to) = (index(both.start - chunk.offset), index(both.start - area.start));
                let bytes = index(both.end - both.start);
                kept[to..to + bytes].copy_from_slice(&chunk.buffer[from..from + bytes]);
            }
        }
    }

    fn write_chunk(&mut self, chunk: &Chunk) -> Result<(), WriteFailure> {
        let Some(Range { start, end }) = overlap(&self.layout.body, &chunk.area()) else { return Ok(()) };
        let body = &chunk.buffer[index(start - chunk.offset)..index(end - chunk.offset)];
        for (run, zero) in layout::runs(body) {
            let offset = start + run.start as u64;
            let bytes = run.len() as u64;
            if !zero {
                self.zero_due()?;
                let failed = |source| WriteFailure::Write { offset, bytes, source };
                self.disk.write_at(offset, &body[run]).map_err(failed)?;
                self.written_bytes += bytes;
            } else if self.zeros.end == offset && offset + bytes - self.zeros.start <= ZERO_RUN_BYTES_MAX {
                self.zeros.end += bytes;
            } else {
                self.zero_due()?;
                self.zeros = offset..offset + bytes;
            }
        }
        Ok(())
    }

    fn zero_due(&mut self) -> Result<(), WriteFailure> {
        let (offset, bytes) = (self.zeros.start, self.zeros.end - self.zeros.start);
        if bytes > 0 {
            // Never skipped: a discarded or reused disk need not read as zeros.
            let failed = |source| WriteFailure::Zero { offset, bytes, source };
            self.disk.zero_at(offset, bytes).map_err(failed)?;
            self.zeroed_bytes += bytes;
        }
        self.zeros = 0..0;
        Ok(())
    }

    /// Makes the disk bootable: tail, backup table, and at last the head; each read back.
    fn complete(
        &mut self,
        table: Option<&gpt::GptTable>,
        disk_guid: Guid,
    ) -> Result<Option<CompletedTable>, WriteFailure> {
        let total_bytes = (self.head.len() + self.tail.len()) as u64;
        self.control.checkpoint(WriteProgress { phase: WritePhase::Completing, done_bytes: 0, total_bytes })?;
        let mut backup = None;
        let mut completed = None;
        if let Some(table) = table {
            let completion = gpt::complete(&mut self.head, table, self.disk.size_bytes(), disk_guid)
                .map_err(|source| WriteFailure::Table { source })?;
            completed = Some(CompletedTable { disk_guid, last_usable_lba: completion.last_usable_lba });
            self.zero_in_tail(&completion.stale);
            self.put_in_tail(completion.backup_offset, &completion.backup);
            let mut aligned = AlignedBuffer::new(completion.backup.len());
            aligned.copy_from_slice(&completion.backup);
            backup = Some((completion.backup_offset, aligned));
        }
        let tail = (!self.tail.is_empty()).then_some((self.layout.tail.start, &self.tail));
        let ends: Vec<(u64, &AlignedBuffer)> =
            tail.into_iter().chain(backup.as_ref().map(|(offset, bytes)| (*offset, bytes))).collect();
        write_and_compare(self.disk, &ends)?;
        write_and_compare(self.disk, &[(0, &self.head)])?;
        let ends_bytes: usize = ends.iter().map(|(_, bytes)| bytes.len()).sum();
        self.written_bytes += (ends_bytes + self.head.len()) as u64;
        self.control.checkpoint(WriteProgress {
            phase: WritePhase::Completing,
            done_bytes: total_bytes,
            total_bytes,
        })?;
        Ok(completed)
    }

    /// The image's own backup table would otherwise stay behind in the middle of the disk.
    fn zero_in_tail(&mut self, stale: &Range<u64>) {
        if let Some(Range { start, end }) = overlap(&self.layout.tail, stale) {
            let base = self.layout.tail.start;
            self.tail[index(start - base)..index(end - base)].fill(0);
        }
    }

    /// Where the image is about as long as the disk, the new backup table lies in its tail.
    fn put_in_tail(&mut self, offset: u64, bytes: &[u8]) {
        let table = offset..offset + bytes.len() as u64;
        if let Some(Range { start, end }) = overlap(&self.layout.tail, &table) {
            let base = self.layout.tail.start;
            self.tail[index(start - base)..index(end - base)]
                .copy_from_slice(&bytes[index(start - offset)..index(end - offset)]);
        }
    }
}

/// What two areas have in common, if they do.
fn overlap(one: &Range<u64>, other: &Range<u64>) -> Option<Range<u64>> {
    let both = one.start.max(other.start)..one.end.min(other.end);
    (!both.is_empty()).then_some(both)
}

/// Writes areas, flushes, and reads each back by a fresh descriptor.
fn write_and_compare(disk: &dyn WritableDisk, areas: &[(u64, &AlignedBuffer)]) -> Result<(), WriteFailure> {
    for (offset, bytes) in areas {
        let failed = |source| WriteFailure::Write { offset: *offset, bytes: bytes.len() as u64, source };
        disk.write_at(*offset, bytes).map_err(failed)?;
    }
    disk.flush().map_err(|source| WriteFailure::Flush { source })?;
    let reader = disk.reader().map_err(|source| WriteFailure::Reopen { source })?;
    areas.iter().try_for_each(|(offset, bytes)| readback::compare(&*reader, *offset, bytes))
}

/// Offsets inside buffers, which are a few MiB long.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::{io, sync::Mutex};

    use super::*;
    use crate::write::{DiskReader, Unattended};

    /// Notes the commands that it gets: whether data, from where, how many bytes.
    #[derive(Default)]
    struct Noted(Mutex<Vec<(bool, u64, u64)>>);

    impl WritableDisk for Noted {
        fn size_bytes(&self) -> u64 {
            1 << 30
        }
        fn block_bytes(&self) -> u32 {
            512
        }
        fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.lock().unwrap().push((true, offset, data.len() as u64));
            Ok(())
        }
        fn zero_at(&self, offset: u64, bytes: u64) -> io::Result<()> {
            self.0.lock().unwrap().push((false, offset, bytes));
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
        fn reader(&self) -> io::Result<Box<dyn DiskReader>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[test]
    fn a_hole_is_zeroed_in_commands_of_at_most_256_mib() {
        const MIB: u64 = 1 << 20;
        let disk = Noted::default();
        let mut writer = ImageWriter::new(&disk, ImageLayout::new(301 * MIB, 512), &Unattended);
        let mut chunk = Chunk { offset: 0, bytes: CHUNK_BYTES, buffer: AlignedBuffer::new(CHUNK_BYTES) };
        for number in 0..75 {
            chunk.offset = number * 4 * MIB;
            chunk.buffer.fill(u8::from(number < 2));
            writer.write_chunk(&chunk).unwrap();
        }
        writer.zero_due().unwrap();
        writer.zero_due().unwrap();
        let expected =
            [(true, MIB, 3 * MIB), (true, 4 * MIB, 4 * MIB), (false, 8 * MIB, 256 * MIB), (false, 264 * MIB, 36 * MIB)];
        assert_eq!(*disk.0.lock().unwrap(), expected);
        assert_eq!((writer.written_bytes, writer.zeroed_bytes), (7 * MIB, 292 * MIB));
    }
}
