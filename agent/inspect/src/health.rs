//! What drives say of their own state, decoded: the SMART log page of NVMe, SMART data of ATA, the
//! informational exceptions page of SCSI. Pure; [`super::drive`] asks.

use firesteel_wire::parts::Health;

/// The SMART / health information log page (NVMe Base Specification 2.0, section 5.16.1.3).
pub const NVME_LOG_BYTES: usize = 512;
/// SMART data (ACS-3, section 7.53.2; attributes as all makers lay them out since ATA-3).
pub const ATA_DATA_BYTES: usize = 512;
/// What is asked for of a SCSI log page; the first parameter is within.
pub const SCSI_PAGE_BYTES: usize = 252;

/// Bits of the critical warning. All but the temperature mean that data is at risk.
const NVME_WARNINGS: [(u8, &str); 6] = [
    (0, "spare blocks are below the drive's limit"),
    (1, "the temperature is beyond the drive's limits"),
    (2, "the drive is degraded by media or internal errors"),
    (3, "the medium takes no writes any more"),
    (4, "the backup of the volatile memory failed"),
    (5, "the persistent memory region takes no writes any more"),
];
const NVME_TEMPERATURE: u8 = 1 << 1;
const KELVIN: i32 = 273;

/// Reads the page; `None` if it is too short.
#[must_use]
pub fn nvme(log: &[u8]) -> Option<Health> {
    let log: &[u8; NVME_LOG_BYTES] = log.first_chunk()?;
    // The counters have 128 bits; no drive needs more than 64.
    let counter = |at: usize| {
        let mut value = [0; 16];
        value.copy_from_slice(&log[at..at + 16]);
        u64::try_from(u128::from_le_bytes(value)).unwrap_or(u64::MAX)
    };
    let kelvin = i32::from(u16::from_le_bytes([log[1], log[2]]));
    let warnings = NVME_WARNINGS.iter().filter(|(bit, _)| log[0] >> bit & 1 == 1);
    Some(Health {
        failing: Some(log[0] & 0x3f & !NVME_TEMPERATURE != 0),
        warnings: warnings.map(|(_, words)| (*words).to_owned()).collect(),
        celsius: (kelvin > 0).then(|| i16::try_from(kelvin - KELVIN).unwrap_or(i16::MAX)),
        power_on_hours: counter(128),
        used_percent: Some(log[5]),
        spare_percent: Some(log[3]),
        unsafe_shutdowns: counter(144),
        media_errors: counter(160),
        ..Health::default()
    })
}

/// Attributes that mean the same with every maker.
const REALLOCATED: u8 = 5;
const POWER_ON_HOURS: u8 = 9;
const CELSIUS: u8 = 194;
const CELSIUS_OF_AIR: u8 = 190;
const PENDING: u8 = 197;
const UNCORRECTABLE: u8 = 198;

/// `failing` is what SMART RETURN STATUS said: the drive compares its attributes with their limits itself.
/// Data whose checksum does not hold says nothing.
#[must_use]
pub fn ata(data: &[u8], failing: Option<bool>) -> Health {
    let mut health = Health { failing, ..Health::default() };
    if failing == Some(true) {
        health.warnings.push("an attribute has reached its limit: the drive expects to fail".to_owned());
    }
    let Some(data) = data.first_chunk::<ATA_DATA_BYTES>() else { return health };
    if data.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) != 0 {
        return health;
    }
    // Thirty attributes of twelve bytes: number, flags, value, worst, raw value. The upper bytes of a raw value
    // have other meanings with some makers.
    for attribute in data[2..362].chunks_exact(12) {
        let raw = u64::from(u32::from_le_bytes([attribute[5], attribute[6], attribute[7], attribute[8]]));
        match attribute[0] {
            REALLOCATED => health.reallocated = raw,
            POWER_ON_HOURS => health.power_on_hours = raw,
            PENDING => health.pending = raw,
            UNCORRECTABLE => health.media_errors = raw,
            CELSIUS => health.celsius = Some(i16::from(attribute[5].cast_signed())),
            CELSIUS_OF_AIR if health.celsius.is_none() => {
                health.celsius = Some(i16::from(attribute[5].cast_signed()));
            }
            _ => {}
        }
    }
    health
}

/// The informational exceptions log page (SPC-5, section 7.3.8), `None` where it is another page or cut.
#[must_use]
pub fn scsi(page: &[u8]) -> Option<Health> {
    let (&[code, _, _, _], parameter) = page.split_first_chunk::<4>()?;
    // Parameter 0: number, control, length, then code, qualifier and temperature.
    let &[0, 0, _, length, exception, qualifier, ref rest @ ..] = parameter else { return None };
    if code & 0x3f != 0x2f || length < 2 {
        return None;
    }
    let warnings = match exception {
        0 => Vec::new(),
        // FAILURE PREDICTION THRESHOLD EXCEEDED
        0x5d => vec!["a limit is reached: the drive expects to fail".to_owned()],
        // WARNING; the first kind is of the temperature.
        0x0b if qualifier == 1 => vec!["the temperature is beyond the drive's limits".to_owned()],
        other => vec![format!("the drive warns with code {other:02x}h/{qualifier:02x}h")],
    };
    Some(Health {
        failing: Some(exception == 0x5d),
        warnings,
        celsius: rest
            .first()
            .filter(|&&celsius| length >= 3 && celsius != 0 && celsius != 0xff)
            .map(|&celsius| celsius.into()),
        ..Health::default()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_nvme_drive_that_is_worn_out() {
        let mut log = [0; NVME_LOG_BYTES];
        log[0] = 0b1011;
        log[1..3].copy_from_slice(&318_u16.to_le_bytes());
        (log[3], log[4], log[5]) = (3, 10, 104);
        log[128..132].copy_from_slice(&26_280_u32.to_le_bytes());
        log[144] = 7;
        log[160] = 9;
        let found = nvme(&log).unwrap_or_default();
        assert_eq!((found.failing, found.celsius, found.power_on_hours), (Some(true), Some(45), 26_280));
        assert_eq!((found.spare_percent, found.used_percent), (Some(3), Some(104)));
        assert_eq!((found.unsafe_shutdowns, found.media_errors, found.warnings.len()), (7, 9, 3));
        log[0] = 0b10;
        let hot = nvme(&log).unwrap_or_default();
        assert_eq!((hot.failing, hot.warnings.len()), (Some(false), 1), "heat passes");
        assert_eq!(nvme(&log[..511]), None);
    }

    fn smart(attributes: &[(u8, u32)]) -> Vec<u8> {
        let mut data = vec![0; ATA_DATA_BYTES];
        for (index, (number, raw)) in attributes.iter().enumerate() {
            let at = 2 + 12 * index;
            data[at] = *number;
            data[at + 5..at + 9].copy_from_slice(&raw.to_le_bytes());
            // Of others, in the bytes above.
            data[at + 9] = 0x17;
        }
        let sum = data.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        data[511] = sum.wrapping_neg();
        data
    }

    #[test]
    fn an_ata_drive_with_bad_sectors() {
        let data = smart(&[(5, 24), (9, 41_000), (190, 30), (194, 38), (197, 2), (198, 1), (240, 9)]);
        let found = ata(&data, Some(true));
        assert_eq!((found.reallocated, found.pending, found.media_errors), (24, 2, 1));
        assert_eq!((found.power_on_hours, found.celsius, found.failing), (41_000, Some(38), Some(true)));
        assert_eq!(found.warnings.len(), 1);
        let mut spoilt = data;
        spoilt[3] ^= 1;
        assert_eq!(ata(&spoilt, None), Health::default(), "a checksum that does not hold");
        assert_eq!(ata(&[], Some(false)), Health { failing: Some(false), ..Health::default() });
    }

    #[test]
    fn a_scsi_drive_that_expects_to_fail() {
        let page = |exception: u8, qualifier: u8, celsius: u8| {
            [0x2f, 0, 0, 8, 0, 0, 0x23, 4, exception, qualifier, celsius, 0]
        };
        let found = scsi(&page(0x5d, 0x10, 41)).unwrap_or_default();
        assert_eq!((found.failing, found.celsius, found.warnings.len()), (Some(true), Some(41), 1));
        let fine = scsi(&page(0, 0, 255)).unwrap_or_default();
        assert_eq!(fine, Health { failing: Some(false), ..Health::default() });
        let hot = scsi(&page(0x0b, 1, 70)).unwrap_or_default();
        assert_eq!((hot.failing, hot.warnings.len()), (Some(false), 1));
        let mut other = page(0, 0, 0);
        other[0] = 0x0d;
        assert_eq!(scsi(&other), None);
    }

    proptest! {
        #[test]
        fn any_answer_is_survived(bytes in proptest::collection::vec(0u8.., 0..600), failing: Option<bool>) {
            drop((nvme(&bytes), ata(&bytes, failing), scsi(&bytes)));
        }
    }
}
