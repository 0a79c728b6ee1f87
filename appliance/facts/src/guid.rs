//! GUIDs as partition tables store them (UEFI specification, appendix A): the first three groups
//! little-endian, the others as written.

use std::{fmt, str::FromStr};

/// A GUID in the byte order of the medium.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Guid(pub [u8; 16]);

/// Leads from the order of the text to the order of the medium; its own inverse.
const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];

#[derive(Debug, thiserror::Error)]
#[error("a GUID looks like 6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f, not like {0:?}")]
pub struct ParseGuidError(String);

impl Guid {
    /// Takes the 128 bits in the order of the text, as RFC 9562 numbers them.
    #[must_use]
    pub fn from_u128(bits: u128) -> Self {
        let written = bits.to_be_bytes();
        Self(ORDER.map(|index| written[index]))
    }

    /// Gives the 128 bits in the order of the text.
    #[must_use]
    pub fn to_u128(self) -> u128 {
        u128::from_be_bytes(ORDER.map(|index| self.0[index]))
    }

    /// Whether it is all zeros, which marks an unused partition entry.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        self.0 == [0; 16]
    }
}

impl FromStr for Guid {
    type Err = ParseGuidError;

    fn from_str(text: &str) -> Result<Self, ParseGuidError> {
        let error = || ParseGuidError(text.chars().take(80).collect());
        let groups: Vec<&str> = text.split('-').collect();
        if groups.iter().map(|group| group.len()).ne([8, 4, 4, 4, 12]) {
            return Err(error());
        }
        let mut written = [0; 16];
        hex::decode_to_slice(groups.concat(), &mut written).map_err(|_| error())?;
        Ok(Self(ORDER.map(|index| written[index])))
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, index) in ORDER.into_iter().enumerate() {
            if matches!(position, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{:02x}", self.0[index])?;
        }
        Ok(())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({self})")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn order_of_the_medium() {
        // The EFI system partition's type, as every partitioning tool writes it.
        let text = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";
        let guid: Guid = text.parse().unwrap();
        assert_eq!(hex::encode(guid.0), "28732ac11ff8d211ba4b00a0c93ec93b");
        assert_eq!(guid.to_string(), text);
        assert_eq!(guid.to_u128(), 0xc12a_7328_f81f_11d2_ba4b_00a0_c93e_c93b);
        assert_eq!(Guid::from_u128(guid.to_u128()), guid);
        for bad in ["", "c12a7328f81f11d2ba4b00a0c93ec93b", "c12a7328-f81f-11d2-ba4b-00a0c93ec93", "é12a7328-f81f-11d2"]
        {
            assert!(bad.parse::<Guid>().is_err(), "{bad}");
        }
    }
}
