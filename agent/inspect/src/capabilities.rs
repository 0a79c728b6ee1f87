//! What drives say that they can do: ATA identify data, SCSI pages, NVMe identify data, and the
//! kernel's own limits of the queue. Pure, but for [`queue`].

use std::path::Path;

use firesteel_sysfs::number;
use firesteel_wire::parts::{AtaSecurity, DiskCapabilities, FormatErase, HiddenArea, SanitizeMethod};

/// What the kernel does for every disk.
#[must_use]
pub fn queue(block: &Path) -> DiskCapabilities {
    let above_zero = |name: &str| number(&block.join("queue").join(name)).is_some_and(|bytes| bytes > 0);
    DiskCapabilities {
        discard: above_zero("discard_max_bytes"),
        write_zeroes: above_zero("write_zeroes_max_bytes"),
        ..DiskCapabilities::default()
    }
}

/// Adds what ATA identify data says (ACS-4, section 7.13; 512 bytes).
pub fn add_ata(to: &mut DiskCapabilities, identify: &[u8; 512]) {
    let word = |index: usize| u16::from_le_bytes([identify[2 * index], identify[2 * index + 1]]);
    let bit = |index: usize, bit: u16| word(index) >> bit & 1 == 1;
    to.identified = true;
    // Words 82 to 84 are valid where 83 begins with 01.
    let valid = word(83) >> 14 == 1;
    if valid && bit(82, 10) {
        to.hidden_areas.push(HiddenArea::Hpa);
    }
    if valid && bit(83, 11) {
        to.hidden_areas.push(HiddenArea::Dco);
    }
    if bit(59, 12) {
        let methods = [(13, SanitizeMethod::Crypto), (15, SanitizeMethod::Block), (14, SanitizeMethod::Overwrite)];
        to.sanitize = methods.into_iter().filter(|(at, _)| bit(59, *at)).map(|(_, method)| method).collect();
    }
    // TRIM, and that what was trimmed is read as zeroes each time.
    to.discard_zeroes = bit(169, 0) && bit(69, 14) && bit(69, 5);
    to.ata_security = bit(128, 0).then(|| AtaSecurity {
        enabled: bit(128, 1),
        locked: bit(128, 2),
        frozen: bit(128, 3),
        enhanced_erase: bit(128, 5),
        erase_minutes: erase_minutes(word(89)),
        enhanced_erase_minutes: if bit(128, 5) { erase_minutes(word(90)) } else { 0 },
    });
}

/// Words 89 and 90: steps of two minutes, in eight bits, or in fifteen where the highest bit is set.
fn erase_minutes(word: u16) -> u32 {
    if word & 0x8000 == 0 { u32::from(word & 0xff) * 2 } else { u32::from(word & 0x7fff) * 2 }
}

/// Adds what the page on logical block provisioning says (SBC-4, section 6.6.7; page B2h with its header).
pub fn add_provisioning(to: &mut DiskCapabilities, page: &[u8]) {
    let (Some(&code), Some(&flags)) = (page.get(1), page.get(5)) else { return };
    // LBPRZ: the lowest of its three bits means zeroes, whatever the others are.
    to.discard_zeroes = code == 0xb2 && flags >> 2 & 1 == 1;
}

/// An NVMe controller's identify data (NVMe Base Specification 2.0, figure 275; 4096 bytes).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvmeIdentity {
    pub namespaces_max: u32,
    pub total_bytes: u64,
    pub unallocated_bytes: u64,
    /// Whether it lists which namespaces exist, attached or not.
    pub manages_namespaces: bool,
    pub sanitize: Vec<SanitizeMethod>,
    pub format: Vec<FormatErase>,
}

/// Bytes of every identify data structure.
pub const IDENTIFY_BYTES: usize = 4096;

#[must_use]
pub fn nvme(data: &[u8]) -> Option<NvmeIdentity> {
    let data: &[u8; IDENTIFY_BYTES] = data.get(..IDENTIFY_BYTES)?.try_into().ok()?;
    let short = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
    let long = |at: usize| u32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    // The number has 128 bits; no drive needs more than 64.
    let bytes = |at: usize| {
        let mut value = [0; 16];
        value.copy_from_slice(&data[at..at + 16]);
        u64::try_from(u128::from_le_bytes(value)).unwrap_or(u64::MAX)
    };
    let (optional, sanitize, attributes) = (short(256), long(328), data[524]);
    let methods = [(0, SanitizeMethod::Crypto), (1, SanitizeMethod::Block), (2, SanitizeMethod::Overwrite)];
    let mut format = Vec::new();
    if optional & 2 != 0 {
        format.push(FormatErase::UserData);
        if attributes & 4 != 0 {
            format.push(FormatErase::Crypto);
        }
    }
    Some(NvmeIdentity {
        namespaces_max: long(516),
        total_bytes: bytes(280),
        unallocated_bytes: bytes(296),
        manages_namespaces: optional & 8 != 0,
        sanitize: methods.into_iter().filter(|(bit, _)| sanitize >> bit & 1 == 1).map(|(_, method)| method).collect(),
        format,
    })
}

/// A list of namespaces: numbers that rise, ended by zero. What does not rise ends it, too.
#[must_use]
pub fn namespace_list(data: &[u8], count_max: usize) -> Vec<u32> {
    let mut before = 0;
    data.chunks_exact(4)
        .take(IDENTIFY_BYTES / 4)
        .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .take_while(|&id| {
            let rises = id > before && id < 0xffff_fffe;
            before = id;
            rises
        })
        .take(count_max)
        .collect()
}

/// Size of a namespace in bytes, by its identify data; 0 where it says nothing of use.
#[must_use]
pub fn namespace_bytes(data: &[u8]) -> u64 {
    let Some(data) = data.get(..IDENTIFY_BYTES) else { return 0 };
    let blocks = data.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    // Which of the formats it has: four bits, and two more above them.
    let format = usize::from(data[26] & 0x0f | (data[26] >> 5 & 3) << 4);
    let shift = data[128 + 4 * format + 2];
    if (9..=16).contains(&shift) { blocks.saturating_mul(1 << shift) } else { 0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn ata(words: &[(usize, u16)]) -> DiskCapabilities {
        let mut identify = [0; 512];
        for (index, word) in words {
            identify[2 * index..2 * index + 2].copy_from_slice(&word.to_le_bytes());
        }
        let mut found = DiskCapabilities::default();
        add_ata(&mut found, &identify);
        found
    }

    #[test]
    fn an_ata_disk_that_can_everything_and_one_that_can_nothing() {
        let all = ata(&[
            (59, 0xf000),
            (69, 1 << 14 | 1 << 5),
            (82, 1 << 10),
            (83, 1 << 14 | 1 << 11),
            (89, 0x0002),
            (90, 0x8000 | 300),
            (128, 0x0029),
            (169, 1),
        ]);
        assert_eq!(all.sanitize, [SanitizeMethod::Crypto, SanitizeMethod::Block, SanitizeMethod::Overwrite]);
        assert_eq!(all.hidden_areas, [HiddenArea::Hpa, HiddenArea::Dco]);
        let security = all.ata_security.unwrap();
        assert_eq!((security.enabled, security.locked, security.frozen), (false, false, true));
        assert_eq!((security.erase_minutes, security.enhanced_erase_minutes), (4, 600));
        assert!(all.discard_zeroes);
        assert_eq!(ata(&[]), DiskCapabilities { identified: true, ..DiskCapabilities::default() });
        assert_eq!(ata(&[(82, 1 << 10), (83, 1 << 11)]).hidden_areas, [], "the words are not valid");
    }

    #[test]
    fn scsi_provisioning() {
        for (page, zeroes) in [
            (&[0, 0xb2, 0, 4, 0, 0xe4, 2, 0][..], true),
            (&[0, 0xb2, 0, 4, 0, 0xe0, 2, 0], false),
            (&[0, 0xb1, 0, 4, 0, 0xe4, 2, 0], false),
            (&[0, 0xb2, 0], false),
        ] {
            let mut found = DiskCapabilities::default();
            add_provisioning(&mut found, page);
            assert_eq!(found.discard_zeroes, zeroes, "{page:?}");
        }
    }

    #[test]
    fn an_nvme_controller_and_its_namespaces() {
        let mut data = vec![0; IDENTIFY_BYTES];
        data[256] = 0x0a;
        data[280..288].copy_from_slice(&960_197_124_096_u64.to_le_bytes());
        data[296..304].copy_from_slice(&4096_u64.to_le_bytes());
        data[328] = 3;
        data[516] = 32;
        data[524] = 4;
        let identity = nvme(&data).unwrap();
        assert_eq!((identity.total_bytes, identity.unallocated_bytes), (960_197_124_096, 4096));
        assert_eq!((identity.namespaces_max, identity.manages_namespaces), (32, true));
        assert_eq!(identity.sanitize, [SanitizeMethod::Crypto, SanitizeMethod::Block]);
        assert_eq!(identity.format, [FormatErase::UserData, FormatErase::Crypto]);
        assert_eq!(nvme(&data[..4095]), None);

        let list: Vec<u8> = [1_u32, 3, 7, 0, 9].iter().flat_map(|id| id.to_le_bytes()).collect();
        assert_eq!((namespace_list(&list, 9), namespace_list(&list, 2)), (vec![1, 3, 7], vec![1, 3]));
        let same: Vec<u8> = [2_u32, 2, 3].iter().flat_map(|id| id.to_le_bytes()).collect();
        assert_eq!(namespace_list(&same, 9), [2]);

        let mut namespace = vec![0; IDENTIFY_BYTES];
        namespace[..8].copy_from_slice(&1000_u64.to_le_bytes());
        namespace[26] = 1;
        namespace[128 + 4 + 2] = 12;
        assert_eq!(namespace_bytes(&namespace), 4_096_000);
        namespace[26] = 0;
        assert_eq!(namespace_bytes(&namespace), 0, "a format without a block size");
    }

    proptest! {
        #[test]
        fn any_data_is_survived(data in proptest::collection::vec(0u8.., 4000..4200), page in proptest::collection::vec(0u8.., 0..9)) {
            drop(nvme(&data));
            prop_assert!(namespace_list(&data, 64).windows(2).all(|two| two[0] < two[1]));
            let _bytes = namespace_bytes(&data);
            let mut found = DiskCapabilities::default();
            add_provisioning(&mut found, &page);
            add_ata(&mut found, data[..512].try_into().unwrap());
        }
    }
}
