//! The quota of the image store, as a person writes it: `500MiB`, `20GiB`, `1TiB`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

const UNITS: [(&str, u32); 3] = [("TiB", 40), ("GiB", 30), ("MiB", 20)];

/// A number of bytes, in whole MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Quota(u64);

impl Quota {
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no size: give a whole number with MiB, GiB or TiB, such as 20GiB")]
pub struct QuotaError(String);

impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let read = || {
            let (digits, shift) = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)))?;
            let digits = digits.trim_end();
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number: u64 = if plain { digits.parse().ok()? } else { return None };
            number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
        };
        read().map(Self).ok_or_else(|| QuotaError(text.chars().take(40).collect()))
    }
}

impl TryFrom<String> for Quota {
    type Error = QuotaError;

    fn try_from(text: String) -> Result<Self, QuotaError> {
        text.parse()
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, shift) = UNITS.iter().find(|(_, shift)| self.0.is_multiple_of(1 << shift)).unwrap_or(&("MiB", 20));
        write!(f, "{}{unit}", self.0 >> shift)
    }
}

impl From<Quota> for String {
    fn from(quota: Quota) -> Self {
        quota.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_size_has_a_unit() {
        for (text, bytes) in [("500MiB", 500 << 20), ("20GiB", 20 << 30), ("1 TiB", 1 << 40)] {
            let quota: Quota = text.parse().unwrap();
            assert_eq!((quota.bytes(), quota.to_string()), (bytes, text.replace(' ', "")));
        }
        for bad in ["", "20", "20GB", "GiB", "-1GiB", "+1GiB", "0MiB", "1.5GiB", "99999999999TiB"] {
            assert!(bad.parse::<Quota>().is_err(), "{bad}");
        }
    }
}
