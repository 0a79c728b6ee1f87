//! The mark that an installation leaves on its disk: the GUID of its GPT, which says which store
//! wrote it and when in that store's life.
//!
//! It is written with the first MiB, the last part of an image, and read back, so whatever boots has
//! it, with or without user data and a boot partition; an inspection reads it from the disk's first
//! blocks and mounts nothing. The form is that of RFC 9562 version 8. Its 122 free bits are as follows.
//!
//! ```text
//! store (24) | timeline (32) | revision (44) | random (22)
//! ```

use std::fmt;

use firesteel_facts::Guid;

const VERSION: u128 = 8 << 76;
const VERSION_MASK: u128 = 0xf << 76;
const VARIANT: u128 = 0b10 << 62;
const VARIANT_MASK: u128 = 0b11 << 62;
const STORE_BITS: u32 = 24;
const TIMELINE_BITS: u32 = 32;
const REVISION_BITS: u32 = 44;
const RANDOM_BITS: u32 = 22;

/// Which store, in which of its timelines, at which of its revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstallationMark {
    pub store: u32,
    pub timeline: u32,
    pub revision: u64,
}

impl InstallationMark {
    /// The GUID of one installation; `random` tells it from others of the same moment.
    #[must_use]
    pub fn guid(&self, random: u128) -> String {
        let field = |value: u128, bits: u32| value & ((1 << bits) - 1);
        let free = field(u128::from(self.store), STORE_BITS) << (TIMELINE_BITS + REVISION_BITS + RANDOM_BITS)
            | field(u128::from(self.timeline), TIMELINE_BITS) << (REVISION_BITS + RANDOM_BITS)
            | field(u128::from(self.revision), REVISION_BITS) << RANDOM_BITS
            | field(random, RANDOM_BITS);
        // 48 bits, the version, 12 bits, the variant, 62 bits.
        let bits = (free >> 74) << 80 | VERSION | field(free >> 62, 12) << 64 | VARIANT | field(free, 62);
        Guid::from_u128(bits).to_string()
    }

    /// What a GUID says; `None` where no store of ours made it.
    #[must_use]
    pub fn parse(guid: &str) -> Option<Self> {
        let bits = guid.parse::<Guid>().ok()?.to_u128();
        if bits & VERSION_MASK != VERSION || bits & VARIANT_MASK != VARIANT {
            return None;
        }
        let free = (bits >> 80) << 74 | ((bits >> 64) & 0xfff) << 62 | (bits & ((1 << 62) - 1));
        let field = |shift: u32, bits: u32| u64::try_from((free >> shift) & ((1 << bits) - 1)).unwrap_or(u64::MAX);
        Some(Self {
            store: u32::try_from(field(TIMELINE_BITS + REVISION_BITS + RANDOM_BITS, STORE_BITS)).unwrap_or(u32::MAX),
            timeline: u32::try_from(field(REVISION_BITS + RANDOM_BITS, TIMELINE_BITS)).unwrap_or(u32::MAX),
            revision: field(RANDOM_BITS, REVISION_BITS),
        })
    }
}

impl fmt::Display for InstallationMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {:06x}, timeline {:08x}, revision {}", self.store, self.timeline, self.revision)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_form_never_changes() {
        let mark = InstallationMark { store: 0xab_cdef, timeline: 0x1234_5678, revision: 0x234_5678_9abc };
        let guid = mark.guid(u128::MAX);
        assert_eq!(guid, "abcdef12-3456-8782-8d15-9e26af3fffff");
        assert_eq!(InstallationMark::parse(&guid), Some(mark));
        assert_eq!(InstallationMark::parse(&guid.to_uppercase()), Some(mark), "other tools print it so");
    }

    #[test]
    fn guids_of_others_are_no_marks() {
        for other in [
            "",
            "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f",
            "abcdef12-3456-8782-cd15-9e26af3fffff",
            "abcdef12-3456-8782-8d15-9e26af3ffff",
            "abcdef12-3456-8782-8d15-9e26af3ffffé",
            "+bcdef12-3456-8782-8d15-9e26af3fffff",
        ] {
            assert_eq!(InstallationMark::parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_said_is_read(store in 0_u32..1 << 24, timeline: u32, revision in 0_u64..1 << 44, random: u128) {
            let mark = InstallationMark { store, timeline, revision };
            prop_assert_eq!(InstallationMark::parse(&mark.guid(random)), Some(mark));
        }

        #[test]
        fn no_text_panics(text in "[0-9a-f-]{0,40}", any in ".{0,40}") {
            prop_assert!(InstallationMark::parse(&text).is_none_or(|mark| mark.revision < 1 << 44));
            prop_assert!(InstallationMark::parse(&any).is_none_or(|mark| mark.store < 1 << 24));
        }
    }
}
