//! What an iPXE says that it can do, in its encapsulated options (DHCP option 175).
//!
//! Each feature is a suboption of one byte; the codes are those of iPXE's `ipxe/features.h`. The version (suboption
//! 235) says nothing: Debian's builds all say 1.0.0.

use std::ops::RangeInclusive;

const CODES: RangeInclusive<u8> = 0x10..=0x4f;
const HTTP: u8 = 0x13;
/// Loaders that we serve have it, and network cards of 2019 do not.
const HTTPS: u8 = 0x14;

/// The features that one iPXE named, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpxeFeatures {
    /// It named at least one, so that what it did not name is not there.
    names_features: bool,
    has_http: bool,
    has_https: bool,
}

impl IpxeFeatures {
    /// Reads the value of option 175; what is cut short or of another length names no feature.
    #[must_use]
    pub fn read(option: Option<&[u8]>) -> Self {
        let mut features = Self::default();
        let mut rest = option.unwrap_or_default();
        while let [code, length, after @ ..] = rest {
            let Some((value, next)) = after.split_at_checked(usize::from(*length)) else { break };
            if CODES.contains(code)
                && let [value] = value
            {
                features.names_features = true;
                features.has_http |= *code == HTTP && *value != 0;
                features.has_https |= *code == HTTPS && *value != 0;
            }
            rest = next;
        }
        features
    }

    /// Whether it says that it cannot fetch a script by HTTP.
    #[must_use]
    pub fn lacks_http(self) -> bool {
        self.names_features && !self.has_http
    }

    /// Whether it is as able as the loaders that we serve.
    #[must_use]
    pub fn has_https(self) -> bool {
        self.has_https
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Debian 12's network card ROM (2019) sends.
    const CARD: &[u8] = &[
        0xb1, 5, 1, 0x1a, 0xf4, 0x10, 0, 0xeb, 3, 1, 0, 0, 0x17, 1, 1, 0x22, 1, 1, 0x13, 1, 1, 0x11, 1, 1, 0x27, 1, 1,
        0x19, 1, 1, 0x29, 1, 1, 0x10, 1, 2, 0x21, 1, 1, 0x15, 1, 1, 0x18, 1, 1, 0x12, 1, 1,
    ];
    /// What undionly.kpxe of 2025 sends.
    const OURS: &[u8] = &[
        0xb1, 5, 1, 0x1a, 0xf4, 0x10, 0, 0xeb, 3, 1, 0, 0, 0x26, 1, 1, 0x17, 1, 1, 0x27, 1, 1, 0x22, 1, 1, 0x13, 1, 1,
        0x14, 1, 1, 0x11, 1, 1, 0x19, 1, 1, 0x29, 1, 1, 0x10, 1, 2, 0x21, 1, 1, 0x15, 1, 1, 0x18, 1, 1, 0x12, 1, 1,
    ];

    #[test]
    fn an_ipxe_of_2019_names_features_from_ours_by_what_it_can_do() {
        let (card, ours) = (IpxeFeatures::read(Some(CARD)), IpxeFeatures::read(Some(OURS)));
        assert!(!card.has_https() && ours.has_https());
        assert!(!card.lacks_http() && !ours.lacks_http());
    }

    #[test]
    fn who_names_features_without_http_has_none() {
        let lacks = |option: &[u8]| IpxeFeatures::read(Some(option)).lacks_http();
        assert!(lacks(&[0x17, 1, 1, 0x15, 1, 1]));
        assert!(lacks(&[0x13, 1, 0, 0x15, 1, 1]), "it says no");
        assert!(!lacks(&[0x15, 1, 1, 0x13, 1, 1]));
        assert!(!lacks(&[0xb1, 5, 1, 0x80, 0x86, 0x10, 0x0e, 0xeb, 3, 1, 0, 0]), "it names no feature at all");
        assert!(!lacks(&[]) && !IpxeFeatures::read(None).lacks_http());
    }

    #[test]
    fn what_is_cut_short_is_not_read() {
        let cut = IpxeFeatures::read(Some(&[HTTPS, 9, 1]));
        assert!(!cut.has_https() && !cut.lacks_http());
    }
}
