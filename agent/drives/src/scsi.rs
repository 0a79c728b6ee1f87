//! SCSI commands for erasing, and their answers. Pure. Sections are those of SPC-5 and SBC-4.

use std::{fmt, time::Duration};

use super::array;
use super::port::{COMMAND_TIMEOUT, Cdb};

/// Status codes (SAM-5, 5.3.1).
pub const GOOD: u8 = 0x00;
pub const CHECK_CONDITION: u8 = 0x02;

pub const TEST_UNIT_READY: u8 = 0x00;
pub const REQUEST_SENSE: u8 = 0x03;
pub const SANITIZE: u8 = 0x48;
pub const MAINTENANCE_IN: u8 = 0xa3;

/// Longest answer that is asked for; pages say their own length.
pub const ANSWER_BYTES: usize = 252;

fn cdb(head: &[u8], length: u8, timeout: Duration) -> Cdb {
    let mut bytes = [0; super::port::CDB_BYTES_MAX];
    for (to, from) in bytes.iter_mut().zip(head) {
        *to = *from;
    }
    Cdb { bytes, length, timeout }
}

#[must_use]
pub fn test_unit_ready() -> Cdb {
    cdb(&[TEST_UNIT_READY], 6, COMMAND_TIMEOUT)
}

/// REQUEST SENSE in descriptor format (SPC-5, 6.39).
#[must_use]
pub fn request_sense() -> Cdb {
    let length = u8::try_from(ANSWER_BYTES).unwrap_or(u8::MAX);
    cdb(&[REQUEST_SENSE, 1, 0, 0, length, 0], 6, COMMAND_TIMEOUT)
}

/// Service actions of SANITIZE (SBC-4, 5.30).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScsiSanitize {
    Overwrite = 0x01,
    Block = 0x02,
    Crypto = 0x03,
    ExitFailureMode = 0x1f,
}

/// One pass, and a pattern of one zero block of this size.
fn overwrite_parameters(block_bytes: u32) -> Vec<u8> {
    let pattern = u16::try_from(block_bytes).unwrap_or(512);
    let [high, low] = pattern.to_be_bytes();
    let mut list = vec![1, 0, high, low];
    list.resize(4 + usize::from(pattern), 0);
    list
}

/// The command and its parameter list. Answers at once (`IMMED`), and lets a failed drive be brought back
/// (`AUSE`).
#[must_use]
pub fn sanitize(what: ScsiSanitize, block_bytes: u32) -> (Cdb, Vec<u8>) {
    const IMMEDIATE: u8 = 1 << 7;
    const UNRESTRICTED_EXIT: u8 = 1 << 5;
    let (options, list) = match what {
        ScsiSanitize::ExitFailureMode => (0, Vec::new()),
        ScsiSanitize::Block | ScsiSanitize::Crypto => (IMMEDIATE | UNRESTRICTED_EXIT, Vec::new()),
        ScsiSanitize::Overwrite => (IMMEDIATE | UNRESTRICTED_EXIT, overwrite_parameters(block_bytes)),
    };
    let [high, low] = u16::try_from(list.len()).unwrap_or(0).to_be_bytes();
    let head = [SANITIZE, options | what as u8, 0, 0, 0, 0, 0, high, low, 0];
    (cdb(&head, 10, COMMAND_TIMEOUT), list)
}

/// REPORT SUPPORTED OPERATION CODES for one command with a service action (SPC-5, 6.35).
#[must_use]
pub fn is_supported(operation: u8, action: u8) -> Cdb {
    const ONE_COMMAND: u8 = 0b010;
    let length = u8::try_from(ANSWER_BYTES).unwrap_or(u8::MAX);
    cdb(&[MAINTENANCE_IN, 0x0c, ONE_COMMAND, operation, 0, action, 0, 0, 0, length, 0, 0], 12, COMMAND_TIMEOUT)
}

/// Whether the device says that it has the command, in the standard's form.
#[must_use]
pub fn decode_is_supported(data: &[u8]) -> bool {
    data.get(1).is_some_and(|flags| flags & 0b111 == 0b011)
}

/// Sense data in fixed or descriptor format (SPC-5, 4.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sense {
    pub key: u8,
    /// Additional sense code and its qualifier.
    pub code: u8,
    pub qualifier: u8,
    /// The progress in 65536ths.
    pub progress: Option<u16>,
    /// The ATA Status Return descriptor with its head, or what stands for it in fixed format: means something
    /// only in the answer to an ATA command.
    pub ata: Option<[u8; 14]>,
}

pub const NOT_READY: u8 = 0x02;
pub const MEDIUM_ERROR: u8 = 0x03;
pub const ILLEGAL_REQUEST: u8 = 0x05;

/// Reads sense data; `None` if there is none, or in a format that is not known here.
#[must_use]
pub fn sense(data: &[u8]) -> Option<Sense> {
    match data.first()? & 0x7f {
        0x70 | 0x71 => {
            let byte = |at: usize| data.get(at).copied().unwrap_or(0);
            // Bytes behind the additional length are leftovers.
            let end = 8 + usize::from(byte(7));
            let code = |at: usize| if at < end { byte(at) } else { 0 };
            let has_progress = end >= 18 && data.len() >= 18 && byte(15) & 0x80 != 0;
            let progress = has_progress.then(|| u16::from_be_bytes([byte(16), byte(17)]));
            Some(Sense {
                key: *data.get(2)? & 0xf,
                code: code(12),
                qualifier: code(13),
                progress,
                ata: fixed_registers(data),
            })
        }
        0x72 | 0x73 => {
            let mut sense =
                Sense { key: *data.get(1)? & 0xf, code: *data.get(2)?, qualifier: *data.get(3)?, ..Sense::default() };
            let length = usize::from(data.get(7).copied().unwrap_or(0));
            let mut rest = data.get(8..).unwrap_or_default();
            rest = &rest[..length.min(rest.len())];
            while let &[kind, length, ..] = rest {
                let Some(descriptor) = rest.get(..2 + usize::from(length)) else { break };
                match kind {
                    // Sense key specific: valid bit, then the progress.
                    0x02 if descriptor.get(4).is_some_and(|flags| flags & 0x80 != 0) => {
                        sense.progress = array(descriptor, 5).map(u16::from_be_bytes);
                    }
                    0x09 => sense.ata = array(descriptor, 0),
                    _ => {}
                }
                rest = &rest[descriptor.len()..];
            }
            Some(sense)
        }
        _ => None,
    }
}

/// ATA registers in fixed format (SAT-4, 12.2.2.7), which has no room for the upper halves of count and block address.
/// They are whole only where those are zero, or where the command failed and the lower ones say why.
fn fixed_registers(data: &[u8]) -> Option<[u8; 14]> {
    let &[head, _, _, error, status, device, count, _, upper, lba_7, lba_15, lba_23, ..] = data else { return None };
    let is_whole = upper & 0x60 == 0 || status & 1 == 1;
    let registers = [0x09, 12, upper >> 7, error, 0, count, 0, lba_7, 0, lba_15, 0, lba_23, device, status];
    (head & 0x80 != 0 && is_whole).then_some(registers)
}

impl Sense {
    /// SANITIZE IN PROGRESS.
    #[must_use]
    pub fn is_sanitizing(&self) -> bool {
        (self.code, self.qualifier) == (0x04, 0x1b)
    }

    /// SANITIZE COMMAND FAILED.
    #[must_use]
    pub fn is_sanitize_failed(&self) -> bool {
        (self.code, self.qualifier) == (0x31, 0x03)
    }
}

impl fmt::Display for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sense key {:x}h, code {:02x}h/{:02x}h", self.key, self.code, self.qualifier)
    }
}

/// Reads answers of any length. For fuzzing: never panics.
pub fn check(bytes: &[u8]) {
    let _supported = decode_is_supported(bytes);
    if let Some(sense) = sense(bytes) {
        assert!(sense.key < 16 && sense.to_string().len() < 80);
        assert!(sense.ata.is_none_or(|ata| ata[0] == 0x09));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_as_the_specification_has_them() {
        let hex = |cdb: Cdb| hex::encode(&cdb.bytes[..usize::from(cdb.length)]);
        assert_eq!(hex(request_sense()), "03010000fc00");
        let (block, none) = sanitize(ScsiSanitize::Block, 512);
        assert_eq!((hex(block), none.len()), ("48a20000000000000000".to_owned(), 0));
        let (overwrite, list) = sanitize(ScsiSanitize::Overwrite, 4096);
        assert_eq!(hex(overwrite), "48a10000000000100400");
        assert_eq!((list.len(), &list[..5]), (4100, &[1, 0, 0x10, 0, 0][..]));
        assert_eq!(hex(sanitize(ScsiSanitize::ExitFailureMode, 512).0), "481f0000000000000000");
        assert_eq!(hex(is_supported(SANITIZE, 2)), "a30c02480002000000fc0000");
    }

    #[test]
    fn sense_in_both_formats() {
        let fixed = [0x70, 0, 2, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x04, 0x1b, 0, 0x80, 0x40, 0x00];
        let read = sense(&fixed).unwrap();
        assert!(read.is_sanitizing() && read.key == NOT_READY);
        assert_eq!(read.progress, Some(0x4000));
        assert_eq!(sense(&fixed[..16]).unwrap().progress, None);
        let described = [0x72, 3, 0x31, 0x03, 0, 0, 0, 8, 0x02, 6, 0, 0, 0x80, 1, 2, 0];
        let read = sense(&described).unwrap();
        assert!(read.is_sanitize_failed() && read.key == MEDIUM_ERROR);
        assert_eq!(read.progress, Some(0x0102));
        let ata = [0x72, 1, 0, 0x1d, 0, 0, 0, 14, 9, 12, 1, 0, 0x80, 0, 0, 1, 0, 2, 0, 3, 0x40, 0x50];
        let answer = super::super::ata::answer(&sense(&ata).unwrap()).unwrap();
        assert_eq!((answer.count, answer.lba, answer.status), (0x8000, 0x0003_0201, 0x50));
        // A failed sanitize, as the kernel's translator reports it in fixed format.
        let mut failed = [0xf0, 0, 0x0b, 0x04, 0x51, 0x40, 0, 10, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let answer = super::super::ata::answer(&sense(&failed).unwrap()).unwrap();
        assert_eq!((answer.error, answer.lba, answer.is_error()), (4, 1, true));
        (failed[4], failed[8]) = (0x50, 0xc0);
        assert_eq!(sense(&failed).unwrap().ata, None, "half of the count is missing");
        assert_eq!(sense(&[0x7f, 0, 0]), None);
        assert_eq!(sense(&[]), None);
    }

    #[test]
    fn only_a_command_in_the_standards_form_is_known() {
        assert!(decode_is_supported(&[0, 3]) && !decode_is_supported(&[0, 1]) && !decode_is_supported(&[]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            check(&bytes);
        }
    }
}
