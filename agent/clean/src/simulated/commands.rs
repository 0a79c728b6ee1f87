//! The simulated drive's side of the wire: bytes of commands in, bytes of answers out.

use firesteel_drives::port::{Cdb, Data, NvmeCommand, Port, PortError, ScsiAnswer};

use super::{MethodFault, SimulatedDrive, SimulatedDriveKind, SimulatedDriveState, gone};
use crate::ladder::ErasureMethod;

/// NVMe: Invalid Field in Command; Format or sanitize in progress.
const INVALID_FIELD: u16 = 0x002;
const SANITIZING: u16 = 0x01d;

impl SimulatedDriveState {
    fn knows(&self, method: ErasureMethod) -> bool {
        self.faults.known.contains(&method)
    }

    /// Begins a sanitize, if the drive is in the mood.
    fn begin(&mut self, method: ErasureMethod) -> bool {
        let fine = self.knows(method) && self.running.is_none() && self.fault(method) != Some(MethodFault::Refuses);
        if fine {
            (self.completed, self.failed) = (false, false);
            self.running = Some((method, self.faults.polls));
        }
        fine
    }

    fn progress(&self) -> u16 {
        let left = self.running.map_or(0, |(_, left)| left);
        u16::try_from(0xffff / (left + 1)).unwrap_or(0)
    }

    fn nvme(&mut self, command: &NvmeCommand, data: Data<'_>) -> Result<(), u16> {
        match command.opcode {
            0x06 => {
                if let Data::In(into) = data {
                    self.nvme_identify(command.cdw10, into);
                }
                Ok(())
            }
            0x02 if command.cdw10 & 0xff == 0x81 => {
                self.tick();
                let status: u8 = match (self.running, self.failed, self.completed) {
                    (Some(_), ..) => 2,
                    (None, true, _) => 3,
                    (None, false, true) => 1,
                    (None, false, false) => 0,
                };
                if let Data::In(into) = data {
                    into[..2].copy_from_slice(&self.progress().to_le_bytes());
                    into[2] = status;
                }
                Ok(())
            }
            0x80 | 0x84 if self.running.is_some() => Err(SANITIZING),
            0x80 => {
                let method = match command.cdw10 >> 9 & 0b111 {
                    1 => ErasureMethod::FormatUserData,
                    2 => ErasureMethod::FormatCrypto,
                    _ => return Err(INVALID_FIELD),
                };
                let refuses = matches!(self.fault(method), Some(MethodFault::Refuses | MethodFault::Stalls));
                if !self.knows(method) || refuses || command.nsid != 1 || command.cdw10 & 0xf != 3 {
                    return Err(INVALID_FIELD);
                }
                if self.end(method) { Ok(()) } else { Err(0x281) }
            }
            0x84 => {
                let method = match command.cdw10 & 0b111 {
                    1 => {
                        self.failed = false;
                        return Ok(());
                    }
                    2 => ErasureMethod::SanitizeBlock,
                    3 => ErasureMethod::SanitizeOverwrite,
                    4 => ErasureMethod::SanitizeCrypto,
                    _ => return Err(INVALID_FIELD),
                };
                if self.begin(method) { Ok(()) } else { Err(INVALID_FIELD) }
            }
            _ => Err(0x001),
        }
    }

    fn nvme_identify(&self, cns: u32, into: &mut [u8]) {
        match cns {
            0 => {
                into[0] = 64;
                into[26] = 3;
                into[128 + 4 * 3 + 2] = 12;
            }
            1 => {
                let formats = self.knows(ErasureMethod::FormatCrypto) || self.knows(ErasureMethod::FormatUserData);
                into[256] = u8::from(formats) << 1;
                into[328] = u8::from(self.knows(ErasureMethod::SanitizeCrypto))
                    | u8::from(self.knows(ErasureMethod::SanitizeBlock)) << 1
                    | u8::from(self.knows(ErasureMethod::SanitizeOverwrite)) << 2;
                into[524] = u8::from(self.knows(ErasureMethod::FormatCrypto)) << 2;
            }
            _ => into[0] = 1,
        }
    }

    /// `Err`: the drive aborts the command.
    fn ata(&mut self, cdb: &[u8; 16], data: Data<'_>) -> Result<(u16, u64), ()> {
        let feature = cdb[4];
        match (cdb[14], data) {
            (0xec, Data::In(into)) => {
                self.ata_identify(into);
                Ok((0, 0))
            }
            (0xb4, _) if self.locked => Err(()),
            (0xb4, _) => self.ata_sanitize(feature, cdb[6] & 1 == 1),
            _ if self.running.is_some() || self.faults.frozen => Err(()),
            (0xf1, Data::Out(block)) if !self.locked => {
                self.password = block[2..34].to_vec();
                self.enabled = true;
                Ok((0, 0))
            }
            (0xf2, Data::Out(block)) if self.locked && block[2..34] == self.password => {
                self.locked = false;
                Ok((0, 0))
            }
            (0xf6, Data::Out(block)) if !self.locked && self.enabled && block[2..34] == self.password => {
                self.enabled = false;
                Ok((0, 0))
            }
            (0xf3, _) => {
                self.prepared = true;
                Ok((0, 0))
            }
            (0xf4, Data::Out(block)) if self.prepared && self.enabled && block[2..34] == self.password => {
                self.prepared = false;
                let method =
                    if block[0] & 2 != 0 { ErasureMethod::SecureEraseEnhanced } else { ErasureMethod::SecureErase };
                if matches!(self.fault(method), Some(MethodFault::Refuses | MethodFault::Stalls)) {
                    return Err(());
                }
                if !self.end(method) {
                    // Some drives lock themselves after a failure until they are unlocked.
                    self.locked = true;
                    return Err(());
                }
                self.enabled = false;
                Ok((0, 0))
            }
            _ => Err(()),
        }
    }

    fn ata_identify(&self, into: &mut [u8]) {
        let mut put = |word: usize, value: u16| into[2 * word..2 * word + 2].copy_from_slice(&value.to_le_bytes());
        let known = |method: ErasureMethod| u16::from(self.knows(method));
        let sanitize = known(ErasureMethod::SanitizeCrypto) << 13
            | known(ErasureMethod::SanitizeOverwrite) << 14
            | known(ErasureMethod::SanitizeBlock) << 15;
        put(59, if sanitize == 0 { 0 } else { sanitize | 1 << 12 });
        put(60, 512);
        let security = known(ErasureMethod::SecureErase)
            | u16::from(self.enabled) << 1
            | u16::from(self.locked) << 2
            | u16::from(self.faults.frozen) << 3
            | known(ErasureMethod::SecureEraseEnhanced) << 5;
        put(128, security);
    }

    fn ata_sanitize(&mut self, feature: u8, clear: bool) -> Result<(u16, u64), ()> {
        let method = match feature {
            0x00 if clear => {
                self.failed = false;
                return Ok((0, 0));
            }
            0x00 => {
                self.tick();
                return match self.running {
                    Some(_) => Ok((1 << 14, u64::from(self.progress()))),
                    None if self.failed => Err(()),
                    None => Ok((u16::from(self.completed) << 15, 0xffff)),
                };
            }
            0x11 => ErasureMethod::SanitizeCrypto,
            0x12 => ErasureMethod::SanitizeBlock,
            0x14 => ErasureMethod::SanitizeOverwrite,
            _ => return Err(()),
        };
        if self.begin(method) { Ok((1 << 14, 0)) } else { Err(()) }
    }

    /// Sense key, code, qualifier; all zero is fine.
    fn disk(&mut self, cdb: &[u8; 16], data: Data<'_>) -> [u8; 3] {
        let state = |state: &Self| match (state.running, state.failed) {
            (Some(_), _) => [2, 0x04, 0x1b],
            (None, true) => [3, 0x31, 0x03],
            (None, false) => [0; 3],
        };
        let sanitize = |action: u8| match action & 0x1f {
            1 => Some(ErasureMethod::SanitizeOverwrite),
            2 => Some(ErasureMethod::SanitizeBlock),
            3 => Some(ErasureMethod::SanitizeCrypto),
            _ => None,
        };
        match (cdb[0], data) {
            (0x03, Data::In(into)) => {
                self.tick();
                let [key, code, qualifier] = state(self);
                let [high, low] = self.progress().to_be_bytes();
                let sense = [0x72, key, code, qualifier, 0, 0, 0, 8, 2, 6, 0, 0, 0x80, high, low, 0];
                into[..16].copy_from_slice(&sense);
                [0; 3]
            }
            (0x00, _) => state(self),
            _ if self.running.is_some() => [2, 0x04, 0x1b],
            (0xa3, Data::In(into)) if cdb[3] == 0x48 => {
                into[1] = if sanitize(cdb[5]).is_some_and(|method| self.knows(method)) { 3 } else { 1 };
                [0; 3]
            }
            (0x48, _) if cdb[1] & 0x1f == 0x1f => {
                self.failed = false;
                [0; 3]
            }
            (0x48, _) => match sanitize(cdb[1]) {
                Some(method) if self.begin(method) => [0; 3],
                _ => [5, 0x24, 0],
            },
            _ => [5, 0x20, 0],
        }
    }
}

impl Port for SimulatedDrive {
    fn nvme(&self, command: &NvmeCommand, data: Data<'_>) -> Result<u32, PortError> {
        let mut state = self.state();
        if !state.powered() {
            return Err(PortError::Lost(gone()));
        }
        assert_eq!(state.kind, SimulatedDriveKind::Nvme);
        state.nvme(command, data).map(|()| 0).map_err(PortError::Nvme)
    }

    fn scsi(&self, command: &Cdb, data: Data<'_>) -> Result<ScsiAnswer, PortError> {
        let mut state = self.state();
        if !state.powered() {
            return Err(PortError::Lost(gone()));
        }
        if command.bytes[0] != 0x85 {
            assert_eq!(state.kind, SimulatedDriveKind::Scsi);
            let [key, code, qualifier] = state.disk(&command.bytes, data);
            if key == 0 {
                return Ok(ScsiAnswer::default());
            }
            let sense = vec![0x70, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, code, qualifier, 0, 0, 0, 0];
            return Ok(ScsiAnswer { status: 2, sense, missing_bytes: 0 });
        }
        assert_eq!(state.kind, SimulatedDriveKind::Ata);
        let asks = command.bytes[2] & 0x20 != 0;
        let answer = state.ata(&command.bytes, data);
        if answer.is_ok() && !asks {
            return Ok(ScsiAnswer::default());
        }
        let (key, status) = if answer.is_ok() { (1, 0x50) } else { (0xb, 0x51) };
        let (count, lba) = answer.unwrap_or((0, 1));
        let [count_high, count_low] = count.to_be_bytes();
        let lba = lba.to_le_bytes();
        let head = [0x72, key, 0, 0x1d, 0, 0, 0, 14, 9, 12, 1, 0, count_high, count_low];
        let tail = [lba[3], lba[0], lba[4], lba[1], lba[5], lba[2], 0x40, status];
        Ok(ScsiAnswer { status: 2, sense: [&head[..], &tail].concat(), missing_bytes: 0 })
    }
}
