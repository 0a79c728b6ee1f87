//! The seam below the drives: commands in, answers out. The agent's system calls send them
//! to the kernel; simulated drives of tests decode them, and execute or reject them.

use std::{io, time::Duration};

/// How long commands may take that answer at once.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long commands may take that erase before they answer, where the drive names no time: the largest disks of today
/// are overwritten in two days.
pub const ERASE_TIMEOUT: Duration = Duration::from_secs(72 * 60 * 60);

/// The data that goes with a command.
#[derive(Debug)]
pub enum Data<'a> {
    None,
    In(&'a mut [u8]),
    Out(&'a [u8]),
}

/// An NVMe admin command (NVM Express base specification 2.0, section 3.3.3.1; linux/nvme_ioctl.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmeCommand {
    pub opcode: u8,
    pub nsid: u32,
    pub cdw10: u32,
    pub cdw11: u32,
    pub cdw12: u32,
    pub cdw13: u32,
    pub cdw14: u32,
    pub timeout: Duration,
}

/// The longest command block: ATA pass-through and the 16-byte SCSI commands.
pub const CDB_BYTES_MAX: usize = 16;
/// Sense data: SPC-5 section 4.4.1 allows 252 bytes.
pub const SENSE_BYTES_MAX: usize = 252;

/// A SCSI command descriptor block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cdb {
    pub bytes: [u8; CDB_BYTES_MAX],
    /// How many of these bytes count: 6, 10, 12 or 16.
    pub length: u8,
    pub timeout: Duration,
}

/// What the device said to a SCSI command that reached it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScsiAnswer {
    /// SAM-5 section 5.3.1: 0 is GOOD, 2 CHECK CONDITION.
    pub status: u8,
    pub sense: Vec<u8>,
    /// Bytes of an `In` that were not filled.
    pub missing_bytes: u32,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The command did not reach the drive, or the drive is gone.
    #[error("sending the command to the drive")]
    Lost(#[source] io::Error),
    /// NVMe status field: status code type and code (base specification, section 4.2.3).
    #[error("the drive refused the command with NVMe status {0:#05x}")]
    Nvme(u16),
}

/// One drive's command path.
pub trait Port: Send + Sync {
    /// Sends an admin command; the answer is dword 0 of the completion.
    fn nvme(&self, command: &NvmeCommand, data: Data<'_>) -> Result<u32, PortError>;
    fn scsi(&self, command: &Cdb, data: Data<'_>) -> Result<ScsiAnswer, PortError>;
}
