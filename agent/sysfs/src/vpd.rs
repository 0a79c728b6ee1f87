//! Identity of SCSI and ATA disks in the vital product data pages that the kernel has read from
//! them (SPC-5, section 7.7; SAT-4, section 12.4). Pure: page bytes in, texts out.

use firesteel_wire::text::field;

/// Page 80h: the unit serial number.
#[must_use]
pub fn unit_serial(page: &[u8]) -> String {
    payload(page).map(ascii).unwrap_or_default()
}

/// A name that is unique in the world (NAA), split as `udev` splits it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogicalUnitName {
    pub wwn: String,
    pub wwn_with_extension: String,
    pub vendor_extension: String,
}

impl LogicalUnitName {
    /// Reads 16 or 32 hexadecimal digits.
    #[must_use]
    pub fn from_hex(digits: &str) -> Option<Self> {
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let digits = digits.to_ascii_lowercase();
        let (name, extension) = match digits.len() {
            16 => (digits.as_str(), ""),
            32 => digits.split_at(16),
            _ => return None,
        };
        Some(Self {
            wwn: format!("0x{name}"),
            wwn_with_extension: format!("0x{digits}"),
            vendor_extension: if extension.is_empty() { String::new() } else { format!("0x{extension}") },
        })
    }
}

/// Page 83h: the NAA name of the logical unit, the longest where there are several.
#[must_use]
pub fn logical_unit_name(page: &[u8]) -> Option<LogicalUnitName> {
    let mut rest = payload(page)?;
    let mut best: Option<&[u8]> = None;
    while let &[_, kind, _, length, ..] = rest {
        let Some(designator) = rest.get(4..4 + usize::from(length)) else { break };
        // Association 0 is the logical unit itself, type 3 is NAA.
        if kind & 0x3f == 3 && best.is_none_or(|found| designator.len() > found.len()) {
            best = Some(designator);
        }
        rest = &rest[4 + usize::from(length)..];
    }
    LogicalUnitName::from_hex(&hex::encode(best?))
}

/// The 512 bytes of identify data in page 89h.
#[must_use]
pub fn ata_identify_data(page: &[u8]) -> Option<&[u8; 512]> {
    page.get(60..572)?.try_into().ok()
}

/// What an ATA drive says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtaIdentity {
    pub serial: String,
    pub model: String,
    pub firmware: String,
    pub name: Option<LogicalUnitName>,
}

/// Page 89h: IDENTIFY DEVICE data, 512 bytes from byte 60 (ACS-4, section 7.13).
#[must_use]
pub fn ata_identify(page: &[u8]) -> Option<AtaIdentity> {
    let data = ata_identify_data(page)?;
    let word = |index: usize| u16::from_le_bytes([data[2 * index], data[2 * index + 1]]);
    // Each word of a text holds its first letter in the high byte.
    let text =
        |words: std::ops::Range<usize>| ascii(&words.flat_map(|index| word(index).to_be_bytes()).collect::<Vec<_>>());
    let identity = AtaIdentity {
        serial: text(10..20),
        model: text(27..47),
        firmware: text(23..27),
        name: LogicalUnitName::from_hex(&(108..112).map(|index| format!("{:04x}", word(index))).collect::<String>())
            .filter(|name| name.wwn.starts_with("0x5")),
    };
    (!identity.serial.is_empty() || !identity.model.is_empty()).then_some(identity)
}

fn payload(page: &[u8]) -> Option<&[u8]> {
    let &[_, _, high, low, ref rest @ ..] = page else { return None };
    rest.get(..usize::from(u16::from_be_bytes([high, low])).min(rest.len()))
}

fn ascii(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    field(&String::from_utf8_lossy(&bytes[..end]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn serial_page() {
        assert_eq!(unit_serial(b"\0\x80\0\x08  DISK-1"), "DISK-1");
        assert_eq!(unit_serial(b"\0\x80\0\xffcut"), "cut");
        assert_eq!(unit_serial(b"\0\x80"), "");
    }

    #[test]
    fn name_page_prefers_the_long_name_of_the_unit_itself() {
        let naa5 = [0x01, 0x03, 0, 8, 0x50, 0, 0xc5, 0, 0xa1, 0xb2, 0xc3, 0xd4];
        let port = [0x61, 0x93, 0, 8, 0x50, 0, 0, 0, 0, 0, 0, 1];
        let t10 = [0x02, 0x01, 0, 4, b'A', b'T', b'A', b' '];
        let page = |parts: &[&[u8]]| {
            let body = parts.concat();
            [&[0, 0x83, 0, u8::try_from(body.len()).unwrap()][..], &body].concat()
        };
        let name = logical_unit_name(&page(&[&t10, &port, &naa5])).unwrap();
        assert_eq!((name.wwn.as_str(), name.vendor_extension.as_str()), ("0x5000c500a1b2c3d4", ""));
        let naa6 = [&[0x01, 0x03, 0, 16][..], &[0x60; 8], &[0x11; 8]].concat();
        let name = logical_unit_name(&page(&[&naa5, &naa6])).unwrap();
        assert_eq!(name.wwn, "0x6060606060606060");
        assert_eq!(name.vendor_extension, "0x1111111111111111");
        assert_eq!(name.wwn_with_extension, "0x60606060606060601111111111111111");
        assert_eq!(logical_unit_name(&page(&[&port, &t10])), None);
    }

    #[test]
    fn ata_page() {
        let mut page = vec![0_u8; 572];
        let mut put = |word: usize, text: &[u8]| {
            for (index, pair) in text.chunks(2).enumerate() {
                page[60 + 2 * (word + index)] = *pair.get(1).unwrap_or(&b' ');
                page[60 + 2 * (word + index) + 1] = pair[0];
            }
        };
        put(10, b"QM00005             ");
        put(23, b"2.5+    ");
        put(27, b"QEMU HARDDISK                           ");
        put(108, &[0x50, 0x00, 0xc5, 0x00, 0x12, 0x34, 0x56, 0x78]);
        let identity = ata_identify(&page).unwrap();
        assert_eq!((identity.serial.as_str(), identity.model.as_str()), ("QM00005", "QEMU HARDDISK"));
        assert_eq!(identity.firmware, "2.5+");
        assert_eq!(identity.name.unwrap().wwn, "0x5000c50012345678");
        assert_eq!(ata_identify(&page[..500]), None);
    }
}
