//! The hardware address of an Ethernet interface.

use std::{fmt, str::FromStr};

/// A MAC address (EUI-48). It is shown in lower case with colons, and read with colons or hyphens in either case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Says whether a single interface can own it: neither a group address nor all zeros.
    #[must_use]
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }

    /// Writes it as iPXE's `${mac:hexhyp}` does: lower case with hyphens, for URLs and names of objects.
    #[must_use]
    pub fn hyphenated(self) -> String {
        self.to_string().replace(':', "-")
    }
}

impl From<[u8; 6]> for Mac {
    fn from(octets: [u8; 6]) -> Self {
        Self(octets)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not six pairs of hexadecimal digits joined by colons or by hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a hardware address: expected six hexadecimal bytes like 52:54:00:12:34:56")]
pub struct ParseMacError;

impl FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 6];
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut parts = text.split(separator);
        for byte in &mut bytes {
            let part = parts.next().ok_or(ParseMacError)?;
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(ParseMacError);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| ParseMacError)?;
        }
        if parts.next().is_some() { Err(ParseMacError) } else { Ok(Self(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_spellings_and_shows_each() {
        let mac = Mac([0x52, 0x54, 0, 0xab, 0xcd, 0xef]);
        assert_eq!("52:54:00:AB:cd:ef".parse(), Ok(mac));
        assert_eq!("52-54-00-ab-cd-ef".parse(), Ok(mac));
        assert_eq!(mac.to_string(), "52:54:00:ab:cd:ef");
        assert_eq!(mac.hyphenated(), "52-54-00-ab-cd-ef");
    }

    #[test]
    fn refuses_what_is_no_address() {
        for text in [
            "",
            "52:54:00:ab:cd",
            "52:54:00:ab:cd:ef:00",
            "52:54:00:ab:cd:+f",
            "52:54-00:ab:cd:ef",
            "52:54:00:ab:cd:eg",
            "525400abcdef",
            "5254.00ab.cdef",
            "é2:54:00:ab:cd:e",
        ] {
            assert_eq!(text.parse::<Mac>(), Err(ParseMacError), "{text}");
        }
    }

    #[test]
    fn knows_group_addresses() {
        assert!(!Mac([0xff; 6]).is_unicast());
        assert!(!Mac([1, 0, 0x5e, 0, 0, 1]).is_unicast());
        assert!(!Mac([0; 6]).is_unicast());
        assert!(Mac([2, 0, 0, 0, 0, 1]).is_unicast());
    }
}
