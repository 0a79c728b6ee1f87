//! NVMe admin commands for erasing, and their answers. Pure. Sections are those of the NVM Express base
//! specification, revision 2.0.

use std::{collections::BTreeSet, fmt};

use firesteel_wire::text::field;

use super::array;
use super::port::{COMMAND_TIMEOUT, ERASE_TIMEOUT, NvmeCommand};

/// Opcodes (figure 138).
pub const GET_LOG_PAGE: u8 = 0x02;
pub const IDENTIFY: u8 = 0x06;
pub const FORMAT: u8 = 0x80;
pub const SANITIZE: u8 = 0x84;

/// Every identify answer and namespace list.
pub const IDENTIFY_BYTES: usize = 4096;
/// The sanitize status log page (5.16.1.25), of which 32 bytes say something.
pub const SANITIZE_LOG_BYTES: usize = 512;
const SANITIZE_LOG: u32 = 0x81;
/// The command is not for one namespace.
const ALL_NAMESPACES: u32 = u32::MAX;

/// What IDENTIFY is asked for (CNS, figure 274).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identify {
    Namespace(u32),
    Controller,
    /// Namespaces that are attached to this controller, above this identifier.
    ActiveNamespaces {
        above: u32,
    },
    /// All namespaces of the subsystem, above this identifier.
    AllocatedNamespaces {
        above: u32,
    },
}

#[must_use]
pub fn identify(what: Identify) -> NvmeCommand {
    let (nsid, cns) = match what {
        Identify::Namespace(nsid) => (nsid, 0x00),
        Identify::Controller => (0, 0x01),
        Identify::ActiveNamespaces { above } => (above, 0x02),
        Identify::AllocatedNamespaces { above } => (above, 0x10),
    };
    NvmeCommand { opcode: IDENTIFY, nsid, cdw10: cns, timeout: COMMAND_TIMEOUT, ..NvmeCommand::default() }
}

/// Identify Controller (figure 275): what matters for erasing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    pub serial: String,
    pub model: String,
    pub firmware: String,
    /// The subsystem has other controllers beside this one.
    pub has_siblings: bool,
    pub knows_format: bool,
    pub manages_namespaces: bool,
    pub sanitize_crypto: bool,
    pub sanitize_block: bool,
    pub sanitize_overwrite: bool,
    /// Format, or its secure erase, applies to all namespaces whichever is named.
    pub formats_all: bool,
    pub formats_crypto: bool,
    /// Bytes that belong to no namespace.
    pub unallocated_bytes: u128,
}

impl Controller {
    #[must_use]
    pub fn can_sanitize(&self) -> bool {
        self.sanitize_crypto || self.sanitize_block || self.sanitize_overwrite
    }
}

/// Reads the data; `None` if it is too short.
#[must_use]
pub fn controller(data: &[u8]) -> Option<Controller> {
    let data: [u8; IDENTIFY_BYTES] = array(data, 0)?;
    let text = |range: std::ops::Range<usize>| field(&String::from_utf8_lossy(&data[range]));
    let oacs = u16::from_le_bytes(array(&data, 256)?);
    let sanicap = u32::from_le_bytes(array(&data, 328)?);
    let fna = data[524];
    Some(Controller {
        serial: text(4..24),
        model: text(24..64),
        firmware: text(64..72),
        has_siblings: data[76] & 0b10 != 0,
        knows_format: oacs & 0b10 != 0,
        manages_namespaces: oacs & 0b1000 != 0,
        sanitize_crypto: sanicap & 0b001 != 0,
        sanitize_block: sanicap & 0b010 != 0,
        sanitize_overwrite: sanicap & 0b100 != 0,
        formats_all: fna & 0b011 != 0,
        formats_crypto: fna & 0b100 != 0,
        unallocated_bytes: u128::from_le_bytes(array(&data, 296)?),
    })
}

/// Identify Namespace (NVM command set specification 1.0, figure 97): what Format must keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    pub blocks: u64,
    pub block_bytes: u32,
    /// The LBA format in use, 0 to 63.
    pub format: u8,
    pub metadata_in_block: bool,
    /// Protection information: type, and whether it stands first.
    pub protection: u8,
    pub protection_first: bool,
}

/// Reads the data; `None` if it is too short, inactive, or has a block size that no disk has.
#[must_use]
pub fn namespace(data: &[u8]) -> Option<Namespace> {
    let data: [u8; IDENTIFY_BYTES] = array(data, 0)?;
    let (formats, flbas, dps) = (data[25], data[26], data[29]);
    // The upper bits count only where there are more than 16 formats.
    let format = if formats > 15 { flbas & 0xf | (flbas >> 1 & 0x30) } else { flbas & 0xf };
    let shift = data[128 + 4 * usize::from(format) + 2];
    let blocks = u64::from_le_bytes(array(&data, 0)?);
    if blocks == 0 || !(9..=16).contains(&shift) {
        return None;
    }
    Some(Namespace {
        blocks,
        block_bytes: 1 << shift,
        format,
        metadata_in_block: flbas & 0x10 != 0,
        protection: dps & 0b111,
        protection_first: dps & 0b1000 != 0,
    })
}

/// A namespace list, ended by a zero. It should ascend, and where it does not everything in it counts all the same:
/// what is left out would be erased with the others although no plan names it.
#[must_use]
pub fn namespace_list(data: &[u8]) -> BTreeSet<u32> {
    let entries = data.chunks_exact(4).take(IDENTIFY_BYTES / 4);
    let found = entries.map(|entry| u32::from_le_bytes(array(entry, 0).unwrap_or_default()));
    found.take_while(|nsid| *nsid != 0).collect()
}

/// Secure erase settings of Format (5.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecureErase {
    UserData = 1,
    Crypto = 2,
}

/// Formats a namespace to the format that it has.
#[must_use]
pub fn format(nsid: u32, namespace: &Namespace, erase: SecureErase) -> NvmeCommand {
    let cdw10 = u32::from(namespace.format & 0xf)
        | u32::from(namespace.metadata_in_block) << 4
        | u32::from(namespace.protection & 0b111) << 5
        | u32::from(namespace.protection_first) << 8
        | (erase as u32) << 9
        | u32::from(namespace.format >> 4 & 0b11) << 12;
    NvmeCommand { opcode: FORMAT, nsid, cdw10, timeout: ERASE_TIMEOUT, ..NvmeCommand::default() }
}

/// Sanitize actions (5.24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvmeSanitizeAction {
    ExitFailureMode = 1,
    Block = 2,
    Overwrite = 3,
    Crypto = 4,
}

/// Begins a sanitize that, if it fails, can be left (`AUSE`): a drive that failed once must not stay
/// unusable. One overwrite pass with zeros.
#[must_use]
pub fn sanitize(action: NvmeSanitizeAction) -> NvmeCommand {
    const UNRESTRICTED_EXIT: u32 = 1 << 3;
    const ONE_PASS: u32 = 1 << 4;
    let options = match action {
        NvmeSanitizeAction::ExitFailureMode => 0,
        NvmeSanitizeAction::Block | NvmeSanitizeAction::Crypto => UNRESTRICTED_EXIT,
        NvmeSanitizeAction::Overwrite => UNRESTRICTED_EXIT | ONE_PASS,
    };
    NvmeCommand { opcode: SANITIZE, cdw10: action as u32 | options, timeout: COMMAND_TIMEOUT, ..NvmeCommand::default() }
}

/// Asks for the sanitize status log.
#[must_use]
pub fn sanitize_log() -> NvmeCommand {
    let dwords = u32::try_from(SANITIZE_LOG_BYTES / 4).unwrap_or(1) - 1;
    NvmeCommand {
        opcode: GET_LOG_PAGE,
        nsid: ALL_NAMESPACES,
        cdw10: SANITIZE_LOG | dwords << 16,
        timeout: COMMAND_TIMEOUT,
        ..NvmeCommand::default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvmeSanitizeProgress {
    Never,
    Completed,
    Running,
    Failed,
    /// A value that the specification does not name.
    Unknown(u8),
}

/// The sanitize status log page (figure 290).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SanitizeLog {
    /// The progress in 65536ths.
    pub progress: u16,
    pub state: NvmeSanitizeProgress,
    /// Whether nothing was written since the last sanitize.
    pub is_erased: bool,
    /// Command dword 10 of the sanitize that the log is about.
    pub command: u32,
    head: [u8; 32],
}

/// Reads the page; `None` if it is too short.
#[must_use]
pub fn decode_sanitize_log(data: &[u8]) -> Option<SanitizeLog> {
    let head: [u8; 32] = array(data, 0)?;
    let status = u16::from_le_bytes([head[2], head[3]]);
    let state = match status & 0b111 {
        0 => NvmeSanitizeProgress::Never,
        // 4: completed, and blocks were deallocated although that was not asked for.
        1 | 4 => NvmeSanitizeProgress::Completed,
        2 => NvmeSanitizeProgress::Running,
        3 => NvmeSanitizeProgress::Failed,
        _ => NvmeSanitizeProgress::Unknown(head[2] & 0b111),
    };
    Some(SanitizeLog {
        progress: u16::from_le_bytes([head[0], head[1]]),
        state,
        is_erased: status & 0x100 != 0,
        command: u32::from_le_bytes(array(&head, 4)?),
        head,
    })
}

impl fmt::Display for SanitizeLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.command & 0b111 {
            1 => "exit failure mode",
            2 => "block erase",
            3 => "overwrite",
            4 => "crypto erase",
            _ => "unknown action",
        };
        let state = match self.state {
            NvmeSanitizeProgress::Never => "never sanitized",
            NvmeSanitizeProgress::Completed => "completed",
            NvmeSanitizeProgress::Running => "running",
            NvmeSanitizeProgress::Failed => "failed",
            NvmeSanitizeProgress::Unknown(_) => "unknown state",
        };
        write!(f, "NVMe sanitize log: {action}, {state}, {}", hex::encode(self.head))
    }
}

/// Reads answers of any length. For fuzzing: never panics.
pub fn check(bytes: &[u8]) {
    drop(controller(bytes));
    let list = namespace_list(bytes);
    assert!(list.len() <= IDENTIFY_BYTES / 4 && !list.contains(&0));
    if let Some(namespace) = namespace(bytes) {
        let command = format(1, &namespace, SecureErase::Crypto);
        assert_eq!(command.cdw10 >> 14, 0, "reserved bits stay zero");
    }
    if let Some(log) = decode_sanitize_log(bytes) {
        assert!(log.to_string().len() < 200);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_as_the_specification_has_them() {
        assert_eq!(sanitize(NvmeSanitizeAction::Block).cdw10, 0x0a);
        assert_eq!(sanitize(NvmeSanitizeAction::Crypto).cdw10, 0x0c);
        assert_eq!(sanitize(NvmeSanitizeAction::Overwrite).cdw10, 0x1b);
        assert_eq!(sanitize(NvmeSanitizeAction::ExitFailureMode).cdw10, 0x01);
        let log = sanitize_log();
        assert_eq!((log.opcode, log.nsid, log.cdw10), (2, u32::MAX, 0x007f_0081));
        assert_eq!(identify(Identify::AllocatedNamespaces { above: 3 }).cdw10, 0x10);
        let namespace = Namespace { format: 0x13, protection: 1, protection_first: true, ..Namespace::default() };
        assert_eq!(format(7, &namespace, SecureErase::UserData).cdw10, 0x1323);
        assert_eq!(format(7, &Namespace::default(), SecureErase::Crypto).cdw10, 0x0400);
    }

    #[test]
    fn answers_are_read() {
        let mut data = vec![0; IDENTIFY_BYTES];
        data[4..8].copy_from_slice(b"S-1 ");
        data[76] = 2;
        data[256] = 0x0a;
        data[296] = 9;
        data[328] = 0b110;
        data[524] = 0b110;
        let read = controller(&data).unwrap();
        assert_eq!(read.serial, "S-1");
        assert!(read.has_siblings && read.knows_format && read.manages_namespaces);
        assert!(!read.sanitize_crypto && read.sanitize_block && read.sanitize_overwrite);
        assert!(read.formats_all && read.formats_crypto && read.unallocated_bytes == 9);
        assert_eq!(controller(&data[..4095]), None);

        let mut data = vec![0; IDENTIFY_BYTES];
        data[0] = 8;
        data[25] = 1;
        data[26] = 0x61;
        data[128 + 4 + 2] = 12;
        let read = namespace(&data).unwrap();
        assert_eq!((read.format, read.block_bytes), (1, 4096));
        data[25] = 40;
        data[128 + 4 * 0x31 + 2] = 9;
        assert_eq!(namespace(&data).unwrap().format, 0x31);

        let list = [1_u32, 2, 9, 4, 5].map(u32::to_le_bytes).concat();
        assert_eq!(namespace_list(&list), BTreeSet::from([1, 2, 4, 5, 9]));
    }

    #[test]
    fn the_log_is_read_and_told() {
        let mut data = vec![0; SANITIZE_LOG_BYTES];
        data[..8].copy_from_slice(&[0x00, 0x80, 0x02, 0x01, 0x0a, 0, 0, 0]);
        let log = decode_sanitize_log(&data).unwrap();
        assert_eq!((log.progress, log.state, log.is_erased), (0x8000, NvmeSanitizeProgress::Running, true));
        assert!(log.to_string().starts_with("NVMe sanitize log: block erase, running, 008002010a"), "{log}");
        for (status, state) in [
            (0, NvmeSanitizeProgress::Never),
            (1, NvmeSanitizeProgress::Completed),
            (4, NvmeSanitizeProgress::Completed),
            (3, NvmeSanitizeProgress::Failed),
        ] {
            data[2] = status;
            assert_eq!(decode_sanitize_log(&data).unwrap().state, state);
        }
        data[2] = 6;
        assert_eq!(decode_sanitize_log(&data).unwrap().state, NvmeSanitizeProgress::Unknown(6));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
            check(&bytes);
        }
    }
}
