//! What only the drive itself can say: asked by commands that change nothing, of every disk whose command
//! path is known to be sound ([`firesteel_sysfs::attach`]).

use std::time::Duration;

use firesteel_drives::nvme::GET_LOG_PAGE;
use firesteel_drives::port::{CDB_BYTES_MAX, Cdb, Data, NvmeCommand, Port, ScsiAnswer};
use firesteel_drives::{ata, scsi};
use firesteel_sysfs::attach::CommandSet;
use firesteel_wire::parts::{DiskCapabilities, Health, SanitizeMethod};

use super::{capabilities, health};

/// A drive that does not answer within this is asked nothing more: an inspection must end.
const TIMEOUT: Duration = Duration::from_secs(5);
const SMART: u8 = 0xb0;
const SMART_READ_DATA: u8 = 0xd0;
const SMART_RETURN_STATUS: u8 = 0xda;
/// What the cylinder registers hold in every SMART command, and after it where an attribute is at its limit.
const SMART_FINE: u64 = 0xc2_4f00;
const SMART_FAILING: u64 = 0x2c_f400;
const LOG_SENSE: u8 = 0x4d;
const SMART_LOG: u32 = 0x02;
const BLOCK_BYTES: u64 = 512;

/// Adds to the capabilities what the drive says of them; how it is. `None` where it does not answer.
#[must_use]
pub fn ask(port: &dyn Port, commands: CommandSet, to: &mut DiskCapabilities) -> Option<Health> {
    match commands {
        CommandSet::Nvme { .. } => ask_nvme(port),
        CommandSet::Ata => ask_ata(port, to),
        CommandSet::Scsi => ask_scsi(port, to),
        CommandSet::None => None,
    }
}

fn ask_nvme(port: &dyn Port) -> Option<Health> {
    let dwords = u32::try_from(health::NVME_LOG_BYTES / 4).ok()? - 1;
    let command = NvmeCommand {
        opcode: GET_LOG_PAGE,
        // The controller's own: few keep one for each namespace.
        nsid: u32::MAX,
        cdw10: SMART_LOG | dwords << 16,
        timeout: TIMEOUT,
        ..NvmeCommand::default()
    };
    let mut log = vec![0; health::NVME_LOG_BYTES];
    port.nvme(&command, Data::In(&mut log)).ok()?;
    health::nvme(&log)
}

fn ask_ata(port: &dyn Port, to: &mut DiskCapabilities) -> Option<Health> {
    let mut identify = [0; ata::SECTOR_BYTES];
    good(port, ata::identify(), &mut identify)?;
    let identity = ata::decode_identity(&identify)?;
    if !to.identified {
        capabilities::add_ata(to, &identify);
    }
    to.hidden_bytes = hidden_blocks(port, &identity).map(|blocks| blocks.saturating_mul(BLOCK_BYTES));
    let word = |index: usize| u16::from_le_bytes([identify[2 * index], identify[2 * index + 1]]);
    // Supported and switched on.
    if word(82) & 1 == 0 || word(85) & 1 == 0 {
        return None;
    }
    let status = registers(port, smart(SMART_RETURN_STATUS, false));
    let failing = match status.map(|answer| answer.lba & 0xff_ff00) {
        Some(SMART_FAILING) => Some(true),
        Some(SMART_FINE) => Some(false),
        _ => None,
    };
    let mut data = [0; health::ATA_DATA_BYTES];
    let read = good(port, smart(SMART_READ_DATA, true), &mut data);
    (failing.is_some() || read.is_some()).then(|| health::ata(&data, failing))
}

/// Blocks that the drive has beyond those that it shows; `None` where it does not report them.
fn hidden_blocks(port: &dyn Port, identity: &ata::AtaIdentifyData) -> Option<u64> {
    let mut last = identity.blocks.checked_sub(1)?;
    for (has, heir) in [(identity.has_host_protected_area, false), (identity.has_accessible_max, true)] {
        if has {
            let answer = registers(port, ata::native_max(heir)).filter(|answer| !answer.is_error())?;
            last = last.max(answer.lba);
        }
    }
    if identity.has_configuration_overlay {
        let mut overlay = [0; ata::SECTOR_BYTES];
        good(port, ata::configuration_overlay(), &mut overlay)?;
        last = last.max(ata::decode_configuration_overlay(&overlay)?);
    }
    Some(last - (identity.blocks - 1))
}

fn ask_scsi(port: &dyn Port, to: &mut DiskCapabilities) -> Option<Health> {
    let methods = [
        (scsi::ScsiSanitize::Crypto, SanitizeMethod::Crypto),
        (scsi::ScsiSanitize::Block, SanitizeMethod::Block),
        (scsi::ScsiSanitize::Overwrite, SanitizeMethod::Overwrite),
    ];
    for (action, method) in methods {
        let mut answer = [0; scsi::ANSWER_BYTES];
        // A drive that does not know this question says nothing about any of them.
        let Some(()) = good(port, scsi::is_supported(scsi::SANITIZE, action as u8), &mut answer) else { break };
        to.identified = true;
        if scsi::decode_is_supported(&answer) {
            to.sanitize.push(method);
        }
    }
    let mut page = [0; health::SCSI_PAGE_BYTES];
    // Cumulative values of the page on informational exceptions.
    let length = u8::try_from(health::SCSI_PAGE_BYTES).ok()?;
    good(port, cdb(&[LOG_SENSE, 0, 0x40 | 0x2f, 0, 0, 0, 0, 0, length, 0], 10), &mut page)?;
    health::scsi(&page)
}

fn cdb(head: &[u8], length: u8) -> Cdb {
    let mut bytes = [0; CDB_BYTES_MAX];
    for (to, from) in bytes.iter_mut().zip(head) {
        *to = *from;
    }
    Cdb { bytes, length, timeout: TIMEOUT }
}

/// A SMART command in ATA PASS-THROUGH (16) (SAT-4, section 12.2.2.2): with a sector in, or with the
/// registers that come back.
fn smart(feature: u8, data_in: bool) -> Cdb {
    const NON_DATA: u8 = 3 << 1;
    const PIO_IN: u8 = 4 << 1;
    // From the device, in blocks, as many as the count says; or the registers even when all is well.
    let (protocol, transfer, count) = if data_in { (PIO_IN, 0x0e, 1) } else { (NON_DATA, 0x20, 0) };
    let head = [ata::PASS_THROUGH_16, protocol, transfer, 0, feature, 0, count, 0, 0, 0, 0x4f, 0, 0xc2, 0, SMART, 0];
    cdb(&head, 16)
}

fn send(port: &dyn Port, command: Cdb, data: Data<'_>) -> Option<ScsiAnswer> {
    port.scsi(&Cdb { timeout: TIMEOUT, ..command }, data).ok()
}

/// A command that brings data and succeeds.
fn good(port: &dyn Port, command: Cdb, into: &mut [u8]) -> Option<()> {
    send(port, command, Data::In(into)).filter(|answer| answer.status == scsi::GOOD).map(|_| ())
}

/// A command whose registers come back.
fn registers(port: &dyn Port, command: Cdb) -> Option<ata::AtaStatusRegisters> {
    let said = send(port, command, Data::None)?;
    scsi::sense(&said.sense).as_ref().and_then(ata::answer)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::io;

    use firesteel_drives::port::PortError;

    use super::*;

    /// A drive that answers as a test says: by the operation, and for ATA by command and feature.
    #[derive(Default)]
    struct Scripted {
        nvme: Option<Vec<u8>>,
        data: Vec<(Vec<u8>, Vec<u8>)>,
        registers: Vec<(u8, u64)>,
    }

    impl Port for Scripted {
        fn nvme(&self, command: &NvmeCommand, data: Data<'_>) -> Result<u32, PortError> {
            assert_eq!((command.opcode, command.cdw10, command.nsid), (2, 0x007f_0002, u32::MAX));
            let Data::In(into) = data else { panic!("a log page comes in") };
            into.copy_from_slice(self.nvme.as_ref().ok_or(PortError::Nvme(0x109))?);
            Ok(0)
        }

        fn scsi(&self, command: &Cdb, data: Data<'_>) -> Result<ScsiAnswer, PortError> {
            let b = &command.bytes;
            let asked = if b[0] == ata::PASS_THROUGH_16 { vec![b[14], b[4]] } else { vec![b[0], b[2]] };
            match data {
                Data::In(into) => {
                    let found = self.data.iter().find(|(of, _)| *of == asked);
                    let Some((_, answer)) = found else { return Ok(ScsiAnswer { status: 2, ..Default::default() }) };
                    into[..answer.len()].copy_from_slice(answer);
                    Ok(ScsiAnswer::default())
                }
                Data::None => {
                    let found = self.registers.iter().find(|(of, _)| *of == b[14]);
                    let Some((_, lba)) = found else { return Err(PortError::Lost(io::Error::other("gone"))) };
                    let [_, _, l47, l39, l31, l23, l15, l7] = lba.to_be_bytes();
                    let mut sense = vec![0x72, 1, 0, 0x1d, 0, 0, 0, 14, 9, 12, 1, 0, 0, 0];
                    sense.extend([l31, l7, l39, l15, l47, l23, 0, 0x50]);
                    Ok(ScsiAnswer { status: 2, sense, missing_bytes: 0 })
                }
                Data::Out(_) => panic!("nothing is written"),
            }
        }
    }

    fn identify(words: &[(usize, u16)]) -> Vec<u8> {
        let mut data = vec![0; 512];
        for (word, value) in words {
            data[2 * word..2 * word + 2].copy_from_slice(&value.to_le_bytes());
        }
        data
    }

    #[test]
    fn an_ata_drive_with_a_hidden_area_that_expects_to_fail() {
        // 48 bits, protected area, SMART there and on; 1000 blocks are shown.
        let words = [(82, 1 << 10 | 1), (83, 0x4000 | 1 << 10), (85, 1), (100, 1000)];
        let mut drive = Scripted {
            data: vec![(vec![ata::IDENTIFY, 0], identify(&words))],
            registers: vec![(ata::READ_NATIVE_MAX_EXT, 1999), (SMART, SMART_FAILING | 0x50)],
            ..Scripted::default()
        };
        let mut found = DiskCapabilities::default();
        let health = ask(&drive, CommandSet::Ata, &mut found).unwrap();
        assert_eq!((found.hidden_bytes, found.identified), (Some(512_000), true));
        assert_eq!(health.failing, Some(true));

        drive.registers = vec![(ata::READ_NATIVE_MAX_EXT, 999), (SMART, SMART_FINE)];
        let health = ask(&drive, CommandSet::Ata, &mut found).unwrap();
        assert_eq!((found.hidden_bytes, health.failing), (Some(0), Some(false)));

        drive.registers.clear();
        assert_eq!(ask(&drive, CommandSet::Ata, &mut found), None, "nothing of it is told");
        assert_eq!(found.hidden_bytes, None);
    }

    #[test]
    fn an_overlay_hides_more_than_a_protected_area() {
        let words = [(82, 1 << 10), (83, 0x4000 | 1 << 10 | 1 << 11), (100, 1000)];
        let mut overlay = vec![0; 512];
        overlay[6..14].copy_from_slice(&2999_u64.to_le_bytes());
        let drive = Scripted {
            data: vec![(vec![ata::IDENTIFY, 0], identify(&words)), (vec![ata::CONFIGURATION_OVERLAY, 0xc2], overlay)],
            registers: vec![(ata::READ_NATIVE_MAX_EXT, 1999)],
            ..Scripted::default()
        };
        let mut found = DiskCapabilities::default();
        assert_eq!(ask(&drive, CommandSet::Ata, &mut found), None, "SMART is off");
        assert_eq!(found.hidden_bytes, Some(2000 * 512));
    }

    #[test]
    fn nvme_and_scsi_drives() {
        let mut log = vec![0; 512];
        log[5] = 12;
        let drive = Scripted { nvme: Some(log), ..Scripted::default() };
        let mut found = DiskCapabilities::default();
        let health = ask(&drive, CommandSet::Nvme { namespace: 1 }, &mut found).unwrap();
        assert_eq!((health.used_percent, health.failing), (Some(12), Some(false)));
        assert_eq!(ask(&Scripted::default(), CommandSet::Nvme { namespace: 1 }, &mut found), None);

        let supported = vec![0, 3, 0, 10];
        let page = vec![0x2f, 0, 0, 8, 0, 0, 3, 4, 0x5d, 0, 40, 0];
        let drive =
            Scripted { data: vec![(vec![0xa3, 2], supported), (vec![LOG_SENSE, 0x6f], page)], ..Scripted::default() };
        let health = ask(&drive, CommandSet::Scsi, &mut found).unwrap();
        assert_eq!((health.failing, health.celsius), (Some(true), Some(40)));
        assert!(found.identified);
        assert_eq!(ask(&Scripted::default(), CommandSet::Scsi, &mut found), None);
        assert_eq!(ask(&Scripted::default(), CommandSet::None, &mut found), None);
    }
}
