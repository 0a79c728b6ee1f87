//! What proves an erasure: where samples are read and canaries written, and what their contents after
//! the erasure mean. Pure; [`super::medium`] reads and writes.
//!
//! The disk is cut into equal parts and one place of [`SAMPLE_BYTES`] is drawn in each. A method that left the fraction
//! `f` of a disk anywhere escapes `n` places with a probability of at most `(1 - f)^n`: with 512 places, 1 % of the
//! disk is found with 99.4 %, 2 % with 99.997 %. A disk of at most [`SAMPLES_MAX`] places is read whole. Every eighth
//! place takes a canary: bytes that stood nowhere before, so that even a blank disk, or one full of zeros, proves
//! whether it was erased.

use firesteel_drives::array;
use firesteel_facts::Sha256;
use firesteel_wire::erasure::Samples;

/// A place: a page of flash, a physical sector of magnetic disks, and a multiple of every logical block.
pub const SAMPLE_BYTES: usize = 4096;
/// What is compared: no medium changes less than a sector.
pub const SECTOR_BYTES: usize = 512;
pub const SECTORS: usize = SAMPLE_BYTES / SECTOR_BYTES;
/// Places on every disk that has so many.
pub const SAMPLES_MIN: u64 = 512;
/// Places on the largest disks: what is kept of each is 128 bytes, and a magnetic disk reads them in
/// some 10 s.
pub const SAMPLES_MAX: u64 = 1024;
/// One more place for this many bytes.
const BYTES_FOR_ONE_MORE: u64 = 16 << 30;
/// One of so many places takes a canary.
const CANARY_EVERY: usize = 8;
/// What canaries begin with, for people who find one.
const CANARY_MARK: &[u8] = b"FIRESTEEL CANARY\n";

/// One place on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplePoint {
    pub offset: u64,
    pub canary: bool,
}

/// What stood in a sector before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// One repeated byte, or a sector that could not be read.
    Blank,
    /// The first half of the content's sha256.
    Data([u8; 16]),
}

/// What was seen at one place before the erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub place: SamplePoint,
    pub before: [Before; SECTORS],
}

/// What reading back says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadBackVerdict {
    /// None of the old data is left at any sampled place.
    Gone(Samples),
    /// Data is left; how much and where first.
    Left(String),
    /// The medium was not read, so nothing is known.
    Unread(String),
}

/// How many places a disk of this size gets.
#[must_use]
pub fn places_wanted(size_bytes: u64) -> u64 {
    let whole = size_bytes.div_ceil(SAMPLE_BYTES as u64);
    if whole <= SAMPLES_MAX {
        return whole;
    }
    (SAMPLES_MIN + size_bytes / BYTES_FOR_ONE_MORE).min(SAMPLES_MAX)
}

/// The places on a disk, ascending; the first and the last are the disk's. `seed` must not be known to
/// the drive's maker: it comes from the kernel's random numbers.
#[must_use]
pub fn places(size_bytes: u64, block_bytes: u32, seed: &[u8; 32]) -> Vec<SamplePoint> {
    let sample = SAMPLE_BYTES as u64;
    let block = u64::from(block_bytes).max(1);
    let Some(last) = size_bytes.checked_sub(sample).map(|last| last / block * block) else { return Vec::new() };
    let wanted = places_wanted(size_bytes);
    let is_whole = wanted == size_bytes.div_ceil(sample);
    let mut places: Vec<SamplePoint> = (0..wanted)
        .map(|index| {
            let offset = if is_whole {
                index * sample
            } else {
                // Parts are whole samples, so that places do not overlap.
                let part = size_bytes / sample / wanted;
                let drawn = number(seed, index) % part.max(1);
                let first = (size_bytes / sample).saturating_mul(index) / wanted;
                match index {
                    0 => 0,
                    _ if index + 1 == wanted => last,
                    _ => (first + drawn).saturating_mul(sample),
                }
            };
            let nth = usize::try_from(index).unwrap_or(usize::MAX);
            SamplePoint { offset: offset.min(last), canary: nth.is_multiple_of(CANARY_EVERY) || index + 1 == wanted }
        })
        .collect();
    // The last place of a disk that is no multiple of a sample lies over the one before.
    for index in 1..places.len() {
        if places[index].offset - places[index - 1].offset < sample {
            places[index - 1].canary = false;
        }
    }
    places
}

/// The content of the canary at this place: different for each place and seed, and not to be packed.
#[must_use]
pub fn canary(offset: u64, seed: &[u8; 32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SAMPLE_BYTES + 32);
    let mut counter = 0_u64;
    while bytes.len() < SAMPLE_BYTES {
        bytes.extend(Sha256::of(&[&seed[..], &offset.to_le_bytes(), &counter.to_le_bytes()].concat()).as_bytes());
        counter += 1;
    }
    bytes.truncate(SAMPLE_BYTES);
    for sector in bytes.chunks_mut(SECTOR_BYTES) {
        sector[..CANARY_MARK.len()].copy_from_slice(CANARY_MARK);
    }
    bytes
}

fn number(seed: &[u8; 32], index: u64) -> u64 {
    let digest = Sha256::of(&[&seed[..], b"place", &index.to_le_bytes()].concat());
    u64::from_le_bytes(array(digest.as_bytes(), 0).unwrap_or_default())
}

/// What is kept of a place's content; `None` where it could not be read.
#[must_use]
pub fn sample(place: SamplePoint, content: Option<&[u8]>) -> Sample {
    let mut before = [Before::Blank; SECTORS];
    for (sector, content) in before.iter_mut().zip(content.unwrap_or_default().chunks_exact(SECTOR_BYTES)) {
        if !is_blank(content) {
            *sector = Before::Data(digest(content));
        }
    }
    Sample { place, before }
}

/// Counts what reading back the samples found.
#[derive(Debug, Default)]
pub struct ReadBackCounts {
    zeros_are_due: bool,
    samples: Samples,
    left: LeftoverSamples,
    not_zero: LeftoverSamples,
    unread: LeftoverSamples,
}

#[derive(Debug, Default)]
struct LeftoverSamples {
    count: u64,
    canaries: u64,
    first: Option<u64>,
}

impl LeftoverSamples {
    fn add(&mut self, offset: u64, canary: bool) {
        self.count += 1;
        self.canaries += u64::from(canary);
        self.first = Some(self.first.map_or(offset, |first| first.min(offset)));
    }

    fn text(&self, what: &str) -> Option<String> {
        let first = self.first?;
        let canaries = if self.canaries == 0 { String::new() } else { format!(" ({} of canaries)", self.canaries) };
        Some(format!("{} sampled sectors{canaries} {what}, the first at byte {first}", self.count))
    }
}

impl ReadBackCounts {
    /// `zeros_are_due`: a sector with anything else counts as left.
    #[must_use]
    pub fn new(zeros_are_due: bool) -> Self {
        Self { zeros_are_due, ..Self::default() }
    }

    /// Compares one place with what it holds now; `None` where it could not be read.
    pub fn add(&mut self, sample: &Sample, now: Option<&[u8]>) {
        let mut sectors = now.unwrap_or_default().chunks_exact(SECTOR_BYTES);
        for (index, before) in sample.before.iter().enumerate() {
            let offset = sample.place.offset + (index * SECTOR_BYTES) as u64;
            match before {
                Before::Data(_) if sample.place.canary => self.samples.canaries += 1,
                Before::Data(_) => self.samples.told_before += 1,
                Before::Blank => self.samples.blank_before += 1,
            }
            let Some(now) = sectors.next() else {
                self.unread.add(offset, sample.place.canary);
                continue;
            };
            self.samples.read_back += 1;
            self.samples.blank_after += u64::from(is_blank(now));
            let is_same = *before == Before::Data(digest(now));
            if is_same || now.starts_with(CANARY_MARK) {
                self.left.add(offset, sample.place.canary);
            } else if self.zeros_are_due && now.iter().any(|&byte| byte != 0) {
                self.not_zero.add(offset, sample.place.canary);
            }
        }
    }

    /// Checks a place whose old content is not known: it must be blank.
    pub fn add_blank(&mut self, place: SamplePoint, now: Option<&[u8]>) {
        let Some(now) = now.filter(|now| now.len() == SAMPLE_BYTES) else {
            self.unread.add(place.offset, false);
            return;
        };
        for (index, sector) in now.chunks_exact(SECTOR_BYTES).enumerate() {
            self.samples.read_back += 1;
            if is_blank(sector) {
                self.samples.blank_after += 1;
            } else {
                self.left.add(place.offset + (index * SECTOR_BYTES) as u64, false);
            }
        }
    }

    #[must_use]
    pub fn verdict(self) -> ReadBackVerdict {
        let texts = [self.left.text("hold what they held"), self.not_zero.text("are not zero")];
        let left: Vec<String> = texts.into_iter().flatten().collect();
        if !left.is_empty() {
            return ReadBackVerdict::Left(left.join("; "));
        }
        if let Some(why) = self.unread.text("could not be read back") {
            return ReadBackVerdict::Unread(why);
        }
        if self.samples.read_back == 0 {
            return ReadBackVerdict::Unread("nothing was read back".to_owned());
        }
        ReadBackVerdict::Gone(self.samples)
    }
}

/// One repeated byte, as erased media read.
fn is_blank(sector: &[u8]) -> bool {
    sector.first().is_none_or(|first| sector.iter().all(|byte| byte == first))
}

fn digest(sector: &[u8]) -> [u8; 16] {
    array(Sha256::of(sector).as_bytes(), 0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEED: [u8; 32] = [7; 32];

    #[test]
    fn the_number_of_places_grows_with_the_disk_to_its_bound() {
        let count = |size: u64| places(size, 512, &SEED).len();
        assert_eq!(count(4096), 1);
        assert_eq!(count(4 << 20), 1024, "read whole");
        assert_eq!(count((4 << 20) + 512), 512);
        assert_eq!(count(8 << 30), 512);
        assert_eq!(count(1 << 40), 576);
        assert_eq!(count(20 << 40), 1024);
        assert_eq!(count(512), 0, "no disk is so small");
    }

    #[test]
    fn canaries_differ_and_are_seen_in_each_sector() {
        assert_ne!(canary(0, &SEED), canary(4096, &SEED));
        assert_ne!(canary(0, &SEED), canary(0, &[8; 32]));
        let place = SamplePoint { offset: 4096, canary: true };
        let content = canary(4096, &SEED);
        let taken = sample(place, Some(&content));
        assert!(taken.before.iter().all(|before| matches!(before, Before::Data(_))));
        let mut check = ReadBackCounts::new(false);
        let mut now = vec![0; SAMPLE_BYTES];
        now[3 * SECTOR_BYTES..4 * SECTOR_BYTES].copy_from_slice(&content[3 * SECTOR_BYTES..4 * SECTOR_BYTES]);
        check.add(&taken, Some(&now));
        let text = "1 sampled sectors (1 of canaries) hold what they held, the first at byte 5632";
        assert_eq!(check.verdict(), ReadBackVerdict::Left(text.to_owned()));
    }

    #[test]
    fn zeros_are_asked_for_where_they_are_due_and_noise_is_fine_elsewhere() {
        let taken = sample(SamplePoint { offset: 0, canary: false }, Some(&[0; SAMPLE_BYTES]));
        let mut noise = vec![0; SAMPLE_BYTES];
        noise[1000] = 1;
        for (due, gone) in [(false, true), (true, false)] {
            let mut check = ReadBackCounts::new(due);
            check.add(&taken, Some(&noise));
            let verdict = check.verdict();
            assert_eq!(matches!(verdict, ReadBackVerdict::Gone(_)), gone, "{verdict:?}");
        }
    }

    #[test]
    fn what_was_not_read_proves_nothing() {
        let taken = sample(SamplePoint { offset: 0, canary: false }, None);
        let mut check = ReadBackCounts::new(false);
        check.add(&taken, None);
        assert!(matches!(check.verdict(), ReadBackVerdict::Unread(_)));
        assert!(matches!(ReadBackCounts::new(true).verdict(), ReadBackVerdict::Unread(_)));
    }

    proptest! {
        /// Places are blocks of the disk, ascending, apart, the ends among them.
        #[test]
        fn places_lie_inside(size in 4096_u64..1 << 44, small in 8_u64..20_000, is_small: bool, seed: [u8; 32]) {
            for block in [512_u32, 4096] {
                let size = if is_small { small * 512 } else { size } / u64::from(block) * u64::from(block);
                let places = places(size, block, &seed);
                prop_assert_eq!(places.len() as u64, places_wanted(size));
                prop_assert_eq!(places[0].offset, 0);
                let last = places[places.len() - 1];
                prop_assert!(last.canary && last.offset + 4096 + u64::from(block) > size);
                for place in &places {
                    prop_assert!(place.offset % u64::from(block) == 0 && place.offset + 4096 <= size);
                }
                let apart = |pair: &[SamplePoint]| {
                    pair[0].offset < pair[1].offset
                        && (!pair[0].canary || !pair[1].canary || pair[1].offset - pair[0].offset >= 4096)
                };
                prop_assert!(places.windows(2).all(apart));
            }
        }

        /// Any sector that stays is found; nothing is found where all changed.
        #[test]
        fn a_sector_that_stays_is_found(content: [u8; 32], stays in prop::option::of(0_usize..8)) {
            let before: Vec<u8> = content.iter().copied().cycle().take(SAMPLE_BYTES).collect();
            prop_assume!(!is_blank(&before));
            let taken = sample(SamplePoint { offset: 1 << 20, canary: false }, Some(&before));
            let mut now = vec![0xff; SAMPLE_BYTES];
            if let Some(index) = stays {
                let sector = index * SECTOR_BYTES..(index + 1) * SECTOR_BYTES;
                now[sector.clone()].copy_from_slice(&before[sector]);
            }
            let mut check = ReadBackCounts::new(false);
            check.add(&taken, Some(&now));
            prop_assert_eq!(matches!(check.verdict(), ReadBackVerdict::Left(_)), stays.is_some());
        }
    }
}
