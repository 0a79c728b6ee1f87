//! Samples and canaries on the medium: every read is by a fresh descriptor past the kernel's cache, after
//! a flush.

use std::io;

use firesteel_images::write::{AlignedBuffer, DiskReader, WritableDisk};

use super::drive::chain;
use super::proof::{self, ReadBackCounts, ReadBackVerdict, SAMPLE_BYTES, Sample, SamplePoint};

/// What the medium did not do.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    #[error("a disk of {0} bytes has no place for a sample")]
    NoPlace(u64),
    #[error("writing a canary at {0}")]
    WriteCanary(u64, #[source] io::Error),
    #[error("flushing the canaries")]
    FlushCanaries(#[source] io::Error),
    #[error("reading the canary at {0}")]
    ReadCanary(u64, #[source] io::Error),
    #[error("the disk did not keep the canary at {0}")]
    LostCanary(u64),
    #[error("flushing the disk's cache")]
    Flush(#[source] io::Error),
    #[error("opening the disk for reading back")]
    Open(#[source] io::Error),
}

/// Writes the canaries and takes a sample of every place, canaries included, as the medium has it now.
///
/// # Errors
/// Fails if a canary could not be written, or was not there when it was read back. Such a disk can prove nothing.
pub fn plant(disk: &dyn WritableDisk, seed: &[u8; 32]) -> Result<Vec<Sample>, SampleError> {
    let places = proof::places(disk.size_bytes(), disk.block_bytes(), seed);
    if places.is_empty() {
        return Err(SampleError::NoPlace(disk.size_bytes()));
    }
    let mut buffer = AlignedBuffer::new(SAMPLE_BYTES);
    for place in places.iter().filter(|place| place.canary) {
        buffer.copy_from_slice(&proof::canary(place.offset, seed));
        disk.write_at(place.offset, &buffer).map_err(|error| SampleError::WriteCanary(place.offset, error))?;
    }
    disk.flush().map_err(SampleError::FlushCanaries)?;
    let reader = disk.reader().map_err(SampleError::Open)?;
    places.into_iter().map(|place| take(&*reader, &mut buffer, place, seed)).collect()
}

fn take(
    reader: &dyn DiskReader,
    buffer: &mut AlignedBuffer,
    place: SamplePoint,
    seed: &[u8; 32],
) -> Result<Sample, SampleError> {
    let content = match read(reader, buffer, place) {
        Err(error) if place.canary => return Err(SampleError::ReadCanary(place.offset, error)),
        Ok(content) if place.canary && content != proof::canary(place.offset, seed) => {
            return Err(SampleError::LostCanary(place.offset));
        }
        // A sector that cannot be read before is no obstacle: it must be readable afterwards.
        content => content.ok(),
    };
    Ok(proof::sample(place, content.as_deref()))
}

/// Reads every sample's place back.
#[must_use]
pub fn compare(disk: &dyn WritableDisk, samples: &[Sample], check: &mut ReadBackCounts) -> Option<ReadBackVerdict> {
    read_places(disk, samples.iter(), |sample, now| check.add(sample, now), |sample| sample.place)
}

/// Reads places of which nothing is known from before.
#[must_use]
pub fn compare_blank(disk: &dyn WritableDisk, seed: &[u8; 32], check: &mut ReadBackCounts) -> Option<ReadBackVerdict> {
    let places = proof::places(disk.size_bytes(), disk.block_bytes(), seed);
    read_places(disk, places.iter(), |place, now| check.add_blank(*place, now), |place| *place)
}

/// Adds what each place holds now. Returns a verdict only if the disk could not be read at all.
fn read_places<'a, T: 'a>(
    disk: &dyn WritableDisk,
    each: impl Iterator<Item = &'a T>,
    mut add: impl FnMut(&T, Option<&[u8]>),
    place: impl Fn(&T) -> SamplePoint,
) -> Option<ReadBackVerdict> {
    let flushed = disk.flush().map_err(SampleError::Flush);
    let reader = match flushed.and_then(|()| disk.reader().map_err(SampleError::Open)) {
        Ok(reader) => reader,
        Err(error) => return Some(ReadBackVerdict::Unread(chain(&error))),
    };
    let mut buffer = AlignedBuffer::new(SAMPLE_BYTES);
    for one in each {
        let now = read(&*reader, &mut buffer, place(one));
        add(one, now.as_deref().ok());
    }
    None
}

fn read(reader: &dyn DiskReader, buffer: &mut AlignedBuffer, place: SamplePoint) -> io::Result<Vec<u8>> {
    // What a reader that does nothing would leave must be neither blank nor from before.
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = if index % 2 == 0 { 0xa5 } else { 0x5a };
    }
    reader.read_at(place.offset, buffer)?;
    Ok(buffer.to_vec())
}
