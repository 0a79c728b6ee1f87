//! ATA commands for erasing, carried by SCSI's ATA PASS-THROUGH (16), and their answers. Pure. ACS-4
//! sections for the commands, SAT-4 section 12.2 for the carrier.

use std::time::Duration;

use firesteel_wire::text::field;

use super::port::{COMMAND_TIMEOUT, Cdb, ERASE_TIMEOUT};
use super::scsi::Sense;

pub const SECTOR_BYTES: usize = 512;
/// The user password that is set for the moment of a secure erase, and public on purpose: a drive that lost power in
/// that moment can be opened with this text, zeros behind it.
pub const PASSWORD: &[u8] = b"firesteel";
/// Where the password stands in its block, and how long it may be (7.40.3).
const PASSWORD_AT: std::ops::Range<usize> = 2..34;

pub const PASS_THROUGH_16: u8 = 0x85;
pub const IDENTIFY: u8 = 0xec;
pub const READ_NATIVE_MAX_EXT: u8 = 0x27;
pub const GET_NATIVE_MAX_EXT: u8 = 0x78;
pub const CONFIGURATION_OVERLAY: u8 = 0xb1;
pub const SANITIZE: u8 = 0xb4;
pub const SET_PASSWORD: u8 = 0xf1;
pub const UNLOCK: u8 = 0xf2;
pub const ERASE_PREPARE: u8 = 0xf3;
pub const ERASE_UNIT: u8 = 0xf4;
pub const DISABLE_PASSWORD: u8 = 0xf6;

/// How the drive and the host exchange data (SAT-4 table 155).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    NonData = 3,
    PioIn = 4,
    PioOut = 5,
}

#[derive(Clone, Copy, Debug)]
struct Registers {
    command: u8,
    feature: u16,
    count: u16,
    lba: u64,
    extend: bool,
    /// The drive's registers come back in sense data even when all is well.
    answers: bool,
    protocol: Protocol,
}

const PLAIN: Registers =
    Registers { command: 0, feature: 0, count: 0, lba: 0, extend: false, answers: false, protocol: Protocol::NonData };
/// The device register's bit for block addresses.
const LBA_MODE: u8 = 0x40;

fn cdb(registers: Registers, timeout: Duration) -> Cdb {
    // The transfer's length is in the count register, in blocks of 512 bytes.
    let has_data = registers.protocol != Protocol::NonData;
    let from_device = registers.protocol == Protocol::PioIn;
    let length = if has_data { 0b0110 } else { 0 };
    let transfer = length | u8::from(from_device) << 3 | u8::from(registers.answers) << 5;
    let [_, _, lba_47, lba_39, lba_31, lba_23, lba_15, lba_7] = registers.lba.to_be_bytes();
    let [feature_high, feature_low] = registers.feature.to_be_bytes();
    let [count_high, count_low] = registers.count.to_be_bytes();
    let bytes = [
        PASS_THROUGH_16,
        (registers.protocol as u8) << 1 | u8::from(registers.extend),
        transfer,
        feature_high,
        feature_low,
        count_high,
        count_low,
        lba_31,
        lba_7,
        lba_39,
        lba_15,
        lba_47,
        lba_23,
        LBA_MODE,
        registers.command,
        0,
    ];
    Cdb { bytes, length: 16, timeout }
}

/// IDENTIFY DEVICE (7.13): one sector in.
#[must_use]
pub fn identify() -> Cdb {
    cdb(Registers { command: IDENTIFY, count: 1, protocol: Protocol::PioIn, ..PLAIN }, COMMAND_TIMEOUT)
}

/// The commands of the security feature set (4.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    SetPassword,
    Unlock,
    DisablePassword,
    ErasePrepare,
    Erase { enhanced: bool, timeout: Duration },
}

/// The command and the sector that goes out with it, if any.
#[must_use]
pub fn security(command: Security) -> (Cdb, Option<[u8; SECTOR_BYTES]>) {
    let mut block = [0; SECTOR_BYTES];
    // Word 0: bit 0 clear means the user password, bit 8 clear the level "high", which an owner's master
    // password opens too.
    for (to, from) in block[PASSWORD_AT].iter_mut().zip(PASSWORD) {
        *to = *from;
    }
    let (code, timeout) = match command {
        Security::SetPassword => (SET_PASSWORD, COMMAND_TIMEOUT),
        Security::Unlock => (UNLOCK, COMMAND_TIMEOUT),
        Security::DisablePassword => (DISABLE_PASSWORD, COMMAND_TIMEOUT),
        Security::ErasePrepare => {
            return (cdb(Registers { command: ERASE_PREPARE, ..PLAIN }, COMMAND_TIMEOUT), None);
        }
        Security::Erase { enhanced, timeout } => {
            block[0] = u8::from(enhanced) << 1;
            (ERASE_UNIT, timeout)
        }
    };
    (cdb(Registers { command: code, count: 1, protocol: Protocol::PioOut, ..PLAIN }, timeout), Some(block))
}

/// Subcommands of SANITIZE DEVICE (7.36).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtaSanitize {
    Status,
    /// Leaves the failure mode that a failed sanitize brought.
    ClearFailure,
    Crypto,
    Block,
    /// One pass of zeros.
    Overwrite,
}

#[must_use]
pub fn sanitize(what: AtaSanitize) -> Cdb {
    /// A drive that failed may be brought back by [`AtaSanitize::ClearFailure`].
    const FAILURE_MODE: u16 = 1 << 4;
    let (feature, count, lba) = match what {
        AtaSanitize::Status => (0x0000, 0, 0),
        AtaSanitize::ClearFailure => (0x0000, 1, 0),
        AtaSanitize::Crypto => (0x0011, FAILURE_MODE, 0x4372_7970),
        AtaSanitize::Block => (0x0012, FAILURE_MODE, 0x426b_4572),
        AtaSanitize::Overwrite => (0x0014, FAILURE_MODE | 1, 0x4f57_0000_0000),
    };
    let registers = Registers { command: SANITIZE, feature, count, lba, extend: true, answers: true, ..PLAIN };
    cdb(registers, COMMAND_TIMEOUT)
}

/// READ NATIVE MAX ADDRESS EXT of the host protected area (ACS-3, 7.38), or GET NATIVE MAX ADDRESS EXT of
/// its heir (ACS-4, 7.1.2): the last block there is comes back as the block address.
#[must_use]
pub fn native_max(heir: bool) -> Cdb {
    let command = if heir { GET_NATIVE_MAX_EXT } else { READ_NATIVE_MAX_EXT };
    cdb(Registers { command, extend: true, answers: true, ..PLAIN }, COMMAND_TIMEOUT)
}

/// DEVICE CONFIGURATION IDENTIFY (ACS-2, 7.11.3): one sector in.
#[must_use]
pub fn configuration_overlay() -> Cdb {
    let protocol = Protocol::PioIn;
    cdb(Registers { command: CONFIGURATION_OVERLAY, feature: 0xc2, count: 1, protocol, ..PLAIN }, COMMAND_TIMEOUT)
}

/// The security feature set as it stands (IDENTIFY DEVICE word 128).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecurityState {
    pub supported: bool,
    pub enabled: bool,
    pub locked: bool,
    pub frozen: bool,
    /// Too many wrong passwords; ends with the next power cycle.
    pub expired: bool,
    pub enhanced_erase: bool,
}

/// IDENTIFY DEVICE (7.13.6): what matters for erasing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtaIdentifyData {
    pub serial: String,
    pub model: String,
    pub firmware: String,
    /// Blocks that reads and writes reach.
    pub blocks: u64,
    pub security: SecurityState,
    /// How long the drive says a normal and an enhanced erase take.
    pub erase_time: Option<Duration>,
    pub enhanced_erase_time: Option<Duration>,
    pub sanitize: bool,
    pub sanitize_crypto: bool,
    pub sanitize_block: bool,
    pub sanitize_overwrite: bool,
    pub has_host_protected_area: bool,
    pub has_configuration_overlay: bool,
    pub has_accessible_max: bool,
}

impl AtaIdentifyData {
    /// How long to wait for an erase: twice what the drive says.
    #[must_use]
    pub fn timeout(&self, enhanced: bool) -> Duration {
        const LEAST: Duration = Duration::from_secs(2 * 60 * 60);
        self.expected(enhanced).map_or(ERASE_TIMEOUT, |time| (time * 2).max(LEAST))
    }

    /// How long the drive says that an erase takes (words 89 and 90).
    #[must_use]
    pub fn expected(&self, enhanced: bool) -> Option<Duration> {
        if enhanced { self.enhanced_erase_time } else { self.erase_time }
    }
}

/// Reads the data; `None` if it is too short, or if a checksum does not hold.
#[must_use]
pub fn decode_identity(data: &[u8]) -> Option<AtaIdentifyData> {
    let data: &[u8; SECTOR_BYTES] = data.first_chunk()?;
    let sum = data.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    if data[510] == 0xa5 && sum != 0 {
        return None;
    }
    let word = |index: usize| u16::from_le_bytes([data[2 * index], data[2 * index + 1]]);
    let bit = |index: usize, bit: u32| word(index) >> bit & 1 == 1;
    // Each word of a text holds its first letter in the high byte.
    let text = |words: std::ops::Range<usize>| {
        let bytes: Vec<u8> = words.flat_map(|index| word(index).to_be_bytes()).collect();
        field(String::from_utf8_lossy(&bytes).trim_matches('\0'))
    };
    // Words 83 and 84 count only with their mark.
    let has_word_83 = word(83) & 0xc000 == 0x4000;
    let is_long = has_word_83 && bit(83, 10);
    let blocks = (100..104).rev().fold(0, |blocks: u64, index| blocks << 16 | u64::from(word(index)));
    let short = u64::from(word(61)) << 16 | u64::from(word(60));
    let sanitize = bit(59, 12);
    Some(AtaIdentifyData {
        serial: text(10..20),
        firmware: text(23..27),
        model: text(27..47),
        blocks: if is_long { blocks } else { short },
        security: SecurityState {
            supported: bit(128, 0),
            enabled: bit(128, 1),
            locked: bit(128, 2),
            frozen: bit(128, 3),
            expired: bit(128, 4),
            enhanced_erase: bit(128, 5),
        },
        erase_time: erase_time(word(89)),
        enhanced_erase_time: erase_time(word(90)),
        sanitize,
        sanitize_crypto: sanitize && bit(59, 13),
        sanitize_overwrite: sanitize && bit(59, 14),
        sanitize_block: sanitize && bit(59, 15),
        has_host_protected_area: bit(82, 10) && is_long,
        has_configuration_overlay: has_word_83 && bit(83, 11),
        has_accessible_max: bit(119, 8) && word(119) & 0xc000 == 0x4000,
    })
}

/// Words 89 and 90, in units of two minutes; nothing where the drive names no time, or only a lower bound.
fn erase_time(word: u16) -> Option<Duration> {
    let (units, most) = if word & 0x8000 == 0 { (word & 0xff, 0xff) } else { (word & 0x7fff, 0x7fff) };
    (units != 0 && units != most).then(|| Duration::from_secs(u64::from(units) * 120))
}

/// The last block of a DEVICE CONFIGURATION IDENTIFY answer.
#[must_use]
pub fn decode_configuration_overlay(data: &[u8]) -> Option<u64> {
    super::array(data, 6).filter(|_| data.len() >= SECTOR_BYTES).map(u64::from_le_bytes)
}

/// The drive's registers after a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtaStatusRegisters {
    pub error: u8,
    pub count: u16,
    pub lba: u64,
    pub status: u8,
}

impl AtaStatusRegisters {
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.status & 1 != 0
    }
}

/// The drive's registers in the sense data of an ATA command (SAT-4, 12.2.2.6).
#[must_use]
pub fn answer(sense: &Sense) -> Option<AtaStatusRegisters> {
    let [_, _, _, error, count_15, count_7, lba_31, lba_7, lba_39, lba_15, lba_47, lba_23, _, status] = sense.ata?;
    Some(AtaStatusRegisters {
        error,
        count: u16::from_be_bytes([count_15, count_7]),
        lba: u64::from_be_bytes([0, 0, lba_47, lba_39, lba_31, lba_23, lba_15, lba_7]),
        status,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SanitizeState {
    Idle,
    /// A sanitize runs; its progress is in 65536ths.
    Running(u16),
    Completed,
    Frozen,
    Failed(&'static str),
}

/// What SANITIZE STATUS EXT says (7.36.7).
#[must_use]
pub fn sanitize_state(answer: &AtaStatusRegisters) -> SanitizeState {
    if answer.is_error() {
        return SanitizeState::Failed(match answer.lba & 0xff {
            1 => "the sanitize did not succeed",
            2 => "the drive does not know this sanitize",
            // No failure mode, which the drive would have to leave.
            3 => return SanitizeState::Frozen,
            4 => "the drive is shut against freezing",
            _ => "the drive gives no reason",
        });
    }
    let bit = |bit: u32| answer.count >> bit & 1 == 1;
    if bit(14) {
        return SanitizeState::Running(u16::try_from(answer.lba & 0xffff).unwrap_or(u16::MAX));
    }
    if bit(13) {
        return SanitizeState::Frozen;
    }
    if bit(15) { SanitizeState::Completed } else { SanitizeState::Idle }
}

/// Reads answers of any length. For fuzzing: never panics.
pub fn check(bytes: &[u8]) {
    if let Some(identity) = decode_identity(bytes) {
        assert!(identity.timeout(true) <= ERASE_TIMEOUT * 100 && identity.timeout(false) >= COMMAND_TIMEOUT);
    }
    let _blocks = decode_configuration_overlay(bytes);
    if let Some(answer) = super::scsi::sense(bytes).as_ref().and_then(answer) {
        assert!(answer.lba >> 48 == 0);
        let _state = sanitize_state(&answer);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_as_the_specification_has_them() {
        let hex = |cdb: Cdb| hex::encode(cdb.bytes);
        assert_eq!(hex(identify()), "85080e0000000100000000000040ec00");
        assert_eq!(hex(sanitize(AtaSanitize::Status)), "8507200000000000000000000040b400");
        // Block address 426b4572h: bits 31 to 24, 7 to 0, 39 to 32, 15 to 8, 47 to 40, 23 to 16.
        assert_eq!(hex(sanitize(AtaSanitize::Block)), "8507200012001042720045006b40b400");
        let overwrite = sanitize(AtaSanitize::Overwrite).bytes;
        assert_eq!((overwrite[6], overwrite[9], overwrite[11]), (0x11, 0x57, 0x4f));
        let (command, block) = security(Security::Erase { enhanced: true, timeout: COMMAND_TIMEOUT });
        let block = block.unwrap();
        assert_eq!(hex(command), "850a060000000100000000000040f400");
        assert_eq!((block[0], block[1], &block[2..12]), (2, 0, &b"firesteel\0"[..]));
        let (command, block) = security(Security::ErasePrepare);
        assert_eq!((hex(command), block), ("8506000000000000000000000040f300".to_owned(), None));
        assert_eq!(hex(configuration_overlay()), "85080e00c2000100000000000040b100");
    }

    #[test]
    fn identify_is_read() {
        let mut data = vec![0; SECTOR_BYTES];
        let mut put = |word: usize, value: u16| data[2 * word..2 * word + 2].copy_from_slice(&value.to_le_bytes());
        put(10, u16::from_be_bytes(*b"S1"));
        put(59, 0b1011 << 12);
        put(82, 1 << 10);
        put(83, 0x4400 | 1 << 11);
        put(89, 30);
        put(90, 0x8000 | 600);
        put(100, 0x5678);
        put(101, 0x1234);
        put(128, 0b10_1001);
        let read = decode_identity(&data).unwrap();
        assert_eq!((read.serial.as_str(), read.blocks), ("S1", 0x1234_5678));
        assert!(read.sanitize_crypto && read.sanitize_block && !read.sanitize_overwrite);
        assert!(read.has_host_protected_area && read.has_configuration_overlay && !read.has_accessible_max);
        let security = read.security;
        assert!(security.supported && security.frozen && security.enhanced_erase);
        assert!(!security.enabled && !security.locked && !security.expired);
        assert_eq!(read.erase_time, Some(Duration::from_secs(3600)));
        assert_eq!(read.timeout(true), Duration::from_secs(600 * 240));
        data[510] = 0xa5;
        assert_eq!(decode_identity(&data), None, "the checksum does not hold");
        let sum = data.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        data[511] = 0_u8.wrapping_sub(sum);
        assert!(decode_identity(&data).is_some());
        assert_eq!([erase_time(0), erase_time(0xff), erase_time(0xffff)], [None; 3]);
    }

    #[test]
    fn sanitize_states() {
        let state = |count, lba, status| sanitize_state(&AtaStatusRegisters { error: 0, count, lba, status });
        assert_eq!(state(0, 0, 0x50), SanitizeState::Idle);
        assert_eq!(state(1 << 14, 0x8000, 0x50), SanitizeState::Running(0x8000));
        assert_eq!(state(1 << 15, 0xffff, 0x50), SanitizeState::Completed);
        assert_eq!(state(1 << 13, 0, 0x50), SanitizeState::Frozen);
        assert_eq!(state(0, 1, 0x51), SanitizeState::Failed("the sanitize did not succeed"));
        assert_eq!(state(0, 3, 0x51), SanitizeState::Frozen, "as some drives say it");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            check(&bytes);
        }
    }
}
