//! MAC addresses as fields have them.

use firesteel_facts::Mac;

pub(crate) const MAC_PATTERN: &str = "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$";
/// Upstream's pattern in some places, which any text around a MAC fits.
pub(crate) const MAC_PATTERN_UNANCHORED: &str = "[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}";

/// Canonical text of a MAC address, `52:54:00:aa:bb:01`, from any of the usual spellings
/// (colons or hyphens, either case).
#[must_use]
pub fn normal_mac(text: &str) -> Option<String> {
    text.parse().ok().map(|mac: Mac| mac.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_have_one_spelling() {
        assert_eq!(normal_mac("52-54-00-AA-bb-01").as_deref(), Some("52:54:00:aa:bb:01"));
        for bad in ["", "52:54:00:aa:bb", "52:54:00:aa:bb:zz", "52:54:00:aa:bb:01:02", "5254.00aa.bb01"] {
            assert_eq!(normal_mac(bad), None, "{bad}");
        }
    }
}
