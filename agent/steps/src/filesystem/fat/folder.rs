//! The entries of a folder, with their long names.

use crate::filesystem::FilesystemError;
use crate::filesystem::fields::{u8_at, u16_at, u32_at};
use crate::forms::fat::NAME_PLACES;

const ENTRY_BYTES: usize = 32;
/// The first byte of an entry: none follows it, or it is free.
const IS_END: u8 = 0;
const IS_FREE: u8 = 0xe5;
/// Stands for the letter [`IS_FREE`].
const IS_LETTER: u8 = 0x05;

const ATTRIBUTES: u8 = 0x3f;
const IS_LABEL: u8 = 0x08;
const IS_FOLDER: u8 = 0x10;
const IS_LONG_NAME: u8 = 0x0f;

/// The piece of a long name that stands first, and is its end.
const IS_LAST_PIECE: u8 = 0x40;
const PIECES_MAX: u8 = 20;
/// Letters of one piece.
const LETTERS: usize = NAME_PLACES.len();

/// Which part of a short name is written in small letters, as Windows NT and Linux have it.
const IS_SMALL_NAME: u8 = 0x08;
const IS_SMALL_ENDING: u8 = 0x10;

/// A file or a folder in a folder.
pub(super) struct FatEntry {
    long: Option<String>,
    short: String,
    pub(super) is_folder: bool,
    /// Upper and lower half.
    pub(super) first_cluster: [u16; 2],
    pub(super) bytes: u32,
    /// Which entry of the folder it is.
    pub(super) place: u32,
}

impl FatEntry {
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.short.eq_ignore_ascii_case(name) || self.long.as_ref().is_some_and(|long| long.eq_ignore_ascii_case(name))
    }

    pub(super) fn into_name(self) -> String {
        self.long.unwrap_or(self.short)
    }
}

/// Whether this part of a folder has its last entry.
pub(super) fn is_end(part: &[u8]) -> bool {
    part.chunks_exact(ENTRY_BYTES).any(|entry| entry.first() == Some(&IS_END))
}

/// The files and folders of a folder.
pub(super) fn entries(folder: &[u8]) -> Result<Vec<FatEntry>, FilesystemError> {
    let mut found = Vec::new();
    let mut name = LongName::default();
    for (place, entry) in (0..).zip(folder.chunks_exact(ENTRY_BYTES)) {
        let (first, attributes) = (u8_at(entry, 0)?, u8_at(entry, 11)? & ATTRIBUTES);
        if first == IS_END {
            break;
        }
        if first == IS_FREE {
            name = LongName::default();
        } else if attributes == IS_LONG_NAME {
            name.add(entry)?;
        } else {
            let long = std::mem::take(&mut name).finish(entry);
            let short = short_name(entry)?;
            if attributes & IS_LABEL == 0 && !short.is_empty() && short != "." && short != ".." && !short.contains('/')
            {
                found.push(FatEntry {
                    long,
                    short,
                    is_folder: attributes & IS_FOLDER != 0,
                    first_cluster: [u16_at(entry, 20)?, u16_at(entry, 26)?],
                    bytes: u32_at(entry, 28)?,
                    place,
                });
            }
        }
    }
    Ok(found)
}

/// A long name, whose pieces stand before its entry, the last one first.
#[derive(Default)]
struct LongName {
    letters: Vec<u16>,
    /// The number of the piece that was read last; 0 before any.
    piece: u8,
    sum: u8,
}

impl LongName {
    fn add(&mut self, entry: &[u8]) -> Result<(), FilesystemError> {
        let (number, sum) = (u8_at(entry, 0)?, u8_at(entry, 13)?);
        let piece = number & !IS_LAST_PIECE;
        if number & IS_LAST_PIECE != 0 && (1..=PIECES_MAX).contains(&piece) {
            *self = Self { letters: vec![0; usize::from(piece) * LETTERS], piece, sum };
        } else if piece != 0 && self.piece == piece + 1 && self.sum == sum {
            self.piece = piece;
        } else {
            *self = Self::default();
            return Ok(());
        }
        let start = (usize::from(piece) - 1) * LETTERS;
        for (letter, at) in self.letters.iter_mut().skip(start).zip(NAME_PLACES) {
            *letter = u16_at(entry, at)?;
        }
        Ok(())
    }

    /// The name, if it is whole and that of this entry.
    fn finish(self, entry: &[u8]) -> Option<String> {
        if self.piece != 1 || self.sum != checksum(entry) {
            return None;
        }
        let end = self.letters.iter().position(|&letter| letter == 0).unwrap_or(self.letters.len());
        let name = String::from_utf16(&self.letters[..end]).ok()?;
        let is_name = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
        is_name.then_some(name)
    }
}

/// Computes the checksum of a short name, which stands beside its long one.
fn checksum(entry: &[u8]) -> u8 {
    entry.iter().take(11).fold(0_u8, |sum, &letter| sum.rotate_right(1).wrapping_add(letter))
}

fn short_name(entry: &[u8]) -> Result<String, FilesystemError> {
    let small = u8_at(entry, 12)?;
    let part = |from: usize, to: usize, is_small: bool| {
        let letters = entry.get(from..to).unwrap_or_default();
        let text: String = letters.iter().map(|&letter| letter_of(letter)).collect();
        let text = text.trim_end_matches(' ').to_owned();
        if is_small { text.to_ascii_lowercase() } else { text }
    };
    let name = part(0, 8, small & IS_SMALL_NAME != 0);
    let ending = part(8, 11, small & IS_SMALL_ENDING != 0);
    Ok(if ending.is_empty() { name } else { format!("{name}.{ending}") })
}

/// Letters beyond ASCII are of a code page that the filesystem does not name.
fn letter_of(letter: u8) -> char {
    if letter.is_ascii() && letter != IS_LETTER { char::from(letter) } else { char::REPLACEMENT_CHARACTER }
}
