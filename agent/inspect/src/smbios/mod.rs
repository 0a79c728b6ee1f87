//! The SMBIOS structure table (DSP0134 version 3.7), as firmware left it in memory and the kernel shows
//! it. Pure: table bytes in, records out.
//!
//! ```text
//! table -> structures (walk, bounded) -> memory | platform | processor | management (one type each)
//! ```
//!
//! Lengths in the table are claims. A structure that is shorter than its header, or reaches beyond the
//! table, ends the walk; a field beyond its structure's own length is one that its version does not
//! have; a string number without a string is an empty text. What stands before a fault is kept.

pub mod management;
pub mod memory;
pub mod platform;
pub mod processor;

use firesteel_wire::{limits::FIELD_BYTES_MAX, text};

use super::system::is_placeholder;

/// More structures than any table has; ends walks through tables that point nowhere.
const STRUCTURES_MAX: usize = 10_000;
/// Type, length and handle.
const HEADER_BYTES: usize = 4;
/// The structure behind which there are none.
const END_OF_TABLE: u8 = 127;
/// Strings are numbered in one byte.
const STRINGS_MAX: usize = 255;

/// One structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structure<'a> {
    /// The type of the specification's chapter 7.
    pub kind: u8,
    formatted: &'a [u8],
    /// The strings with the zero behind each of them.
    strings: &'a [u8],
}

impl Structure<'_> {
    fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.formatted.get(offset..offset.checked_add(N)?)?.try_into().ok()
    }

    #[must_use]
    pub fn byte(&self, offset: usize) -> Option<u8> {
        self.formatted.get(offset).copied()
    }

    #[must_use]
    pub fn word(&self, offset: usize) -> Option<u16> {
        self.array(offset).map(u16::from_le_bytes)
    }

    #[must_use]
    pub fn double_word(&self, offset: usize) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    #[must_use]
    pub fn quad_word(&self, offset: usize) -> Option<u64> {
        self.array(offset).map(u64::from_le_bytes)
    }

    /// Bytes of the formatted part.
    #[must_use]
    pub fn bytes(&self, offset: usize, length: usize) -> Option<&[u8]> {
        self.formatted.get(offset..offset.checked_add(length)?)
    }

    /// The string whose number stands at `offset`, cleaned; empty where there is none, or what makers
    /// leave in a field that they did not fill in.
    #[must_use]
    pub fn text(&self, offset: usize) -> String {
        let Some(number) = self.byte(offset).filter(|&number| number > 0) else { return String::new() };
        let mut strings = self.strings.split(|&byte| byte == 0).take(STRINGS_MAX);
        let Some(string) = strings.nth(usize::from(number) - 1) else { return String::new() };
        // More than four bytes for each that is kept would only be cut.
        let start = &string[..string.len().min(4 * FIELD_BYTES_MAX)];
        let text = text::clean(&String::from_utf8_lossy(start), FIELD_BYTES_MAX);
        if is_placeholder(&text) { String::new() } else { text }
    }
}

/// The structures of a table up to its end, or its first fault.
pub fn structures(table: &[u8]) -> impl Iterator<Item = Structure<'_>> {
    let mut rest = table;
    std::iter::from_fn(move || {
        let (structure, after) = split(rest)?;
        rest = after;
        Some(structure)
    })
    .take(STRUCTURES_MAX)
}

fn split(table: &[u8]) -> Option<(Structure<'_>, &[u8])> {
    let &[kind, length, ..] = table else { return None };
    let length = usize::from(length);
    if length < HEADER_BYTES || kind == END_OF_TABLE {
        return None;
    }
    let (formatted, after) = table.split_at_checked(length)?;
    // Two zeros end the strings, and stand there too where there are none.
    let end = after.windows(2).position(|pair| pair == [0, 0]);
    let (strings, rest) = match end {
        Some(end) => (&after[..=end], &after[end + 2..]),
        None => (after, &[][..]),
    };
    Some((Structure { kind, formatted, strings }, rest))
}

/// `0x00` and `0xff…` stand for "unknown" in many fields.
pub(crate) fn known_word(value: Option<u16>) -> u32 {
    value.filter(|&value| value != u16::MAX).map_or(0, u32::from)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    /// A structure with `length` bytes of which some are set, and its strings.
    pub(crate) fn structure(kind: u8, length: u8, set: &[(usize, &[u8])], strings: &[&str]) -> Vec<u8> {
        let mut bytes = vec![0; usize::from(length)];
        (bytes[0], bytes[1]) = (kind, length);
        for (offset, value) in set {
            bytes[*offset..offset + value.len()].copy_from_slice(value);
        }
        for string in strings {
            bytes.extend_from_slice(string.as_bytes());
            bytes.push(0);
        }
        bytes.extend_from_slice(if strings.is_empty() { &[0, 0] } else { &[0] });
        bytes
    }

    #[test]
    fn fields_and_strings() {
        let table = [
            structure(2, 6, &[(4, &[2, 1])], &["one", " two\u{1b}[2J "]),
            structure(3, 5, &[(4, &[3])], &[]),
            structure(127, 4, &[], &[]),
            structure(1, 4, &[], &[]),
        ]
        .concat();
        let found: Vec<_> = structures(&table).collect();
        assert_eq!(found.len(), 2, "nothing stands behind the end");
        assert_eq!((found[0].text(4).as_str(), found[0].text(5).as_str()), ("two [2J", "one"));
        assert_eq!((found[0].byte(6), found[0].word(5), found[0].word(4)), (None, None, Some(0x0102)));
        assert_eq!((found[1].text(4), found[1].text(9)), (String::new(), String::new()), "no such string");
    }

    #[test]
    fn lengths_that_lie_end_the_walk_and_what_stands_before_is_kept() {
        let good = structure(2, 8, &[(4, &[1])], &["board"]);
        for bad in [&[1, 3, 0, 0, 0, 0][..], &[1, 0, 0, 0], &[1, 200, 0, 0, 0, 0], &[1]] {
            let table = [&good[..], bad].concat();
            assert_eq!(structures(&table).map(|one| one.text(4)).collect::<Vec<_>>(), ["board"], "{bad:?}");
        }
        let endless = &good[..good.len() - 1];
        assert_eq!(structures(endless).next().unwrap().text(4), "board", "strings without their end");
        let many = structure(2, 4, &[], &[]).repeat(20_000);
        assert_eq!(structures(&many).count(), STRUCTURES_MAX);
        let placeholder = structure(2, 5, &[(4, &[1])], &["To Be Filled By O.E.M."]);
        assert_eq!(structures(&placeholder).next().unwrap().text(4), "");
    }

    proptest! {
        #[test]
        fn any_table_is_survived(table in proptest::collection::vec(0u8.., 0..2000)) {
            for structure in structures(&table) {
                for offset in 0..=255 {
                    prop_assert!(structure.text(offset).len() <= FIELD_BYTES_MAX);
                }
            }
        }
    }
}
