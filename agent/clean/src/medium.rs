//! Samples and canaries on the medium: every read is by a fresh descriptor past the kernel's cache, after
//! a flush.

use std::io;

use firesteel_images::write::{AlignedBuffer, DiskReader, WritableDisk};

use super::{
    drive::chain,
    proof::{self, Check, ReadBackVerdict, SAMPLE_BYTES, Sample, SamplePoint},
};

/// Writes the canaries and takes a sample of every place, canaries included, as the medium has it now.
///
/// # Errors
/// In words: a canary that could not be written, or was not there when it was read back. Such a disk can
/// prove nothing.
pub fn plant(disk: &dyn WritableDisk, seed: &[u8; 32]) -> Result<Vec<Sample>, String> {
    let places = proof::places(disk.size_bytes(), disk.block_bytes(), seed);
    if places.is_empty() {
        return Err(format!("a disk of {} bytes has no place for a sample", disk.size_bytes()));
    }
    let mut buffer = AlignedBuffer::new(SAMPLE_BYTES);
    for place in places.iter().filter(|place| place.canary) {
        buffer.copy_from_slice(&proof::canary(place.offset, seed));
        disk.write_at(place.offset, &buffer)
            .map_err(|error| format!("writing a canary at {}: {}", place.offset, chain(&error)))?;
    }
    disk.flush().map_err(|error| format!("flushing the canaries: {}", chain(&error)))?;
    let reader = open(disk)?;
    places.into_iter().map(|place| take(&*reader, &mut buffer, place, seed)).collect()
}

fn take(
    reader: &dyn DiskReader,
    buffer: &mut AlignedBuffer,
    place: SamplePoint,
    seed: &[u8; 32],
) -> Result<Sample, String> {
    let content = read(reader, buffer, place);
    if place.canary {
        match &content {
            Err(error) => return Err(format!("reading the canary at {}: {}", place.offset, chain(error))),
            Ok(content) if *content != proof::canary(place.offset, seed) => {
                return Err(format!("the disk did not keep the canary at {}", place.offset));
            }
            Ok(_) => {}
        }
    }
    // A sector that cannot be read before is no obstacle: it must be readable afterwards.
    Ok(proof::sample(place, content.as_deref().ok()))
}

/// Reads every sample's place back.
#[must_use]
pub fn compare(disk: &dyn WritableDisk, samples: &[Sample], check: &mut Check) -> Option<ReadBackVerdict> {
    read_places(disk, samples.iter(), |sample, now| check.add(sample, now), |sample| sample.place)
}

/// Reads places of which nothing is known from before.
#[must_use]
pub fn compare_blank(disk: &dyn WritableDisk, seed: &[u8; 32], check: &mut Check) -> Option<ReadBackVerdict> {
    let places = proof::places(disk.size_bytes(), disk.block_bytes(), seed);
    read_places(disk, places.iter(), |place, now| check.add_blank(*place, now), |place| *place)
}

/// `Some` when the disk could not be looked at, at all.
fn read_places<'a, T: 'a>(
    disk: &dyn WritableDisk,
    each: impl Iterator<Item = &'a T>,
    mut add: impl FnMut(&T, Option<&[u8]>),
    place: impl Fn(&T) -> SamplePoint,
) -> Option<ReadBackVerdict> {
    let flushed = disk.flush().map_err(|error| format!("flushing the disk's cache: {}", chain(&error)));
    let reader = match flushed.and_then(|()| open(disk)) {
        Ok(reader) => reader,
        Err(why) => return Some(ReadBackVerdict::Unread(why)),
    };
    let mut buffer = AlignedBuffer::new(SAMPLE_BYTES);
    for one in each {
        let now = read(&*reader, &mut buffer, place(one));
        add(one, now.as_deref().ok());
    }
    None
}

fn open(disk: &dyn WritableDisk) -> Result<Box<dyn DiskReader>, String> {
    disk.reader().map_err(|error| format!("opening the disk for reading back: {}", chain(&error)))
}

fn read(reader: &dyn DiskReader, buffer: &mut AlignedBuffer, place: SamplePoint) -> io::Result<Vec<u8>> {
    // What a reader that does nothing would leave must be neither blank nor from before.
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = if index % 2 == 0 { 0xa5 } else { 0x5a };
    }
    reader.read_at(place.offset, buffer)?;
    Ok(buffer.to_vec())
}
