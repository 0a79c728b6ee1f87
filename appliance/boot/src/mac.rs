//! A MAC address as the boot chain writes it: lower case with hyphens (`${mac:hexhyp}` of iPXE).

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a MAC address: six pairs of hexadecimal digits with `:` or `-` between them are wanted")]
pub struct MacError;

/// Six pairs and five separators.
const TEXT_BYTES: usize = 17;

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let bytes = text.as_bytes();
        if bytes.len() != TEXT_BYTES {
            return Err(MacError);
        }
        let mut octets = [0u8; 6];
        for (octet, chunk) in octets.iter_mut().zip(bytes.chunks(3)) {
            *octet = (nibble(chunk[0])? << 4) | nibble(chunk[1])?;
            if chunk.len() == 3 && chunk[2] != bytes[2] {
                return Err(MacError);
            }
        }
        match bytes[2] {
            b':' | b'-' => Ok(Self(octets)),
            _ => Err(MacError),
        }
    }
}

fn nibble(digit: u8) -> Result<u8, MacError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(MacError),
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}-{b:02x}-{c:02x}-{d:02x}-{e:02x}-{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<[u8; 6]> for Mac {
    fn from(octets: [u8; 6]) -> Self {
        Self(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_separators_and_writes_hyphens() {
        let mac = Mac([0x52, 0x54, 0, 0xab, 0xcd, 0xef]);
        assert_eq!("52:54:00:AB:cd:ef".parse(), Ok(mac));
        assert_eq!("52-54-00-ab-cd-ef".parse(), Ok(mac));
        assert_eq!(mac.to_string(), "52-54-00-ab-cd-ef");
    }

    #[test]
    fn refuses_everything_else() {
        for text in ["", "52:54:00:ab:cd", "52:54-00:ab:cd:ef", "525400abcdef", "52:54:00:ab:cd:eg", "é2:54:00:ab:cd:e"]
        {
            assert_eq!(text.parse::<Mac>(), Err(MacError), "{text}");
        }
    }
}
