//! `Boot####` variables (UEFI specification 2.10, section 3.1.3). Pure.

use super::device_path::{self, DevicePathNode};

/// The boot manager tries the entry without being asked.
const ACTIVE: u32 = 1;
/// Longer than any firmware shows; keeps hostile variables from filling reports.
const DESCRIPTION_UNITS_MAX: usize = 256;

/// What is read of a boot entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOption {
    pub description: String,
    /// Device path as it stands in the variable.
    pub path: Vec<u8>,
}

/// The value of a variable that starts the last node of `nodes`.
#[must_use]
pub fn encode(description: &str, nodes: &[DevicePathNode]) -> Vec<u8> {
    let path = device_path::encode(nodes);
    let mut bytes = ACTIVE.to_le_bytes().to_vec();
    bytes.extend_from_slice(&u16::try_from(path.len()).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend(description.encode_utf16().take(DESCRIPTION_UNITS_MAX).chain([0]).flat_map(u16::to_le_bytes));
    bytes.extend_from_slice(&path);
    bytes
}

/// Reads a variable's value (without the attributes that efivarfs puts in front).
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<LoadOption> {
    let path_bytes = usize::from(u16::from_le_bytes([*bytes.get(4)?, *bytes.get(5)?]));
    let units: Vec<u16> = bytes
        .get(6..)?
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .take_while(|&unit| unit != 0)
        .collect();
    let path_start = 6 + 2 * (units.len() + 1);
    let path = bytes.get(path_start..path_start.checked_add(path_bytes)?)?.to_vec();
    let description = String::from_utf16_lossy(&units[..units.len().min(DESCRIPTION_UNITS_MAX)]);
    Some(LoadOption { description, path })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn byte_by_byte_and_back() {
        let bytes = encode("Fi", &[DevicePathNode::Pci { device: 3, function: 0 }]);
        assert_eq!(hex::encode(&bytes), "010000000a004600690000000101060000037fff0400");
        let option = decode(&bytes).unwrap();
        assert_eq!((option.description.as_str(), hex::encode(&option.path).as_str()), ("Fi", "0101060000037fff0400"));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn any_value_is_survived(bytes in proptest::collection::vec(0u8.., 0..100)) {
            drop(decode(&bytes));
        }

        #[test]
        fn descriptions_come_back(text in "[a-zA-Zäß 0-9]{0,40}") {
            prop_assert_eq!(decode(&encode(&text, &[])).unwrap().description, text);
        }
    }
}
