//! Commands to drives: NVMe admin commands and SCSI commands through the kernel. What they mean, and what
//! the answers mean, is [`firesteel_drives`]' matter.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use firesteel_drives::port::{Cdb, Data, NvmeCommand, Port, PortError, SENSE_BYTES_MAX, ScsiAnswer};
use nix::fcntl::OFlag;

/// `struct nvme_passthru_cmd` (linux/nvme_ioctl.h).
#[repr(C)]
#[derive(Debug, Default)]
pub struct NvmePassthrough {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// `struct sg_io_hdr` (scsi/sg.h).
#[repr(C)]
#[derive(Debug)]
pub struct ScsiRequest {
    interface_id: i32,
    direction: i32,
    cdb_len: u8,
    sense_len_max: u8,
    iovec_count: u16,
    data_len: u32,
    data: *mut libc::c_void,
    cdb: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut libc::c_void,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    missing: i32,
    duration_ms: u32,
    info: u32,
}

const _: () = assert!(size_of::<NvmePassthrough>() == 72);
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<ScsiRequest>() == 88);

mod ioctl {
    nix::ioctl_readwrite!(nvme_admin, b'N', 0x41, super::NvmePassthrough);
    nix::ioctl_readwrite_bad!(sg_io, 0x2285, super::ScsiRequest);
}

/// `SG_DXFER_NONE`, `SG_DXFER_TO_DEV`, `SG_DXFER_FROM_DEV`.
const NO_DATA: i32 = -1;
const TO_DEVICE: i32 = -2;
const FROM_DEVICE: i32 = -3;
/// `DRIVER_SENSE`: the low layer put sense data beside its answer, which is no failure of its own.
const DRIVER_SENSE: u16 = 0x08;
const DRIVER_MASK: u16 = 0x0f;

/// The command path of one disk: `/dev/nvme0n1`, `/dev/sda`.
#[derive(Debug)]
pub struct CommandPath {
    file: File,
}

impl CommandPath {
    /// Opens beside the exclusive descriptor that the writer holds: commands need one that may write.
    pub fn open(device: &Path) -> io::Result<Self> {
        let flags = (OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).bits();
        Ok(Self { file: OpenOptions::new().read(true).write(true).custom_flags(flags).open(device)? })
    }

    /// The kernel's number of the disk that this path leads to, as long as it is open.
    pub fn number(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.rdev())
    }
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// Address, length and SCSI direction of the data.
fn memory(data: &mut Data<'_>) -> Result<(*mut u8, u32, i32), PortError> {
    let length = |bytes: usize| u32::try_from(bytes).map_err(|error| PortError::Lost(io::Error::other(error)));
    Ok(match data {
        Data::None => (std::ptr::null_mut(), 0, NO_DATA),
        Data::In(into) => (into.as_mut_ptr(), length(into.len())?, FROM_DEVICE),
        // The kernel only reads it, by this direction.
        Data::Out(from) => (from.as_ptr().cast_mut(), length(from.len())?, TO_DEVICE),
    })
}

impl Port for CommandPath {
    fn nvme(&self, command: &NvmeCommand, mut data: Data<'_>) -> Result<u32, PortError> {
        let (address, data_len, _) = memory(&mut data)?;
        let mut request = NvmePassthrough {
            opcode: command.opcode,
            nsid: command.nsid,
            addr: address.expose_provenance() as u64,
            data_len,
            cdw10: command.cdw10,
            cdw11: command.cdw11,
            cdw12: command.cdw12,
            cdw13: command.cdw13,
            cdw14: command.cdw14,
            timeout_ms: milliseconds(command.timeout),
            ..NvmePassthrough::default()
        };
        // SAFETY: the request is the kernel's structure and lives through the call; its address and length
        // are those of memory that `data` holds until after it. The opcode's low two bits say whether the
        // kernel reads or writes there, and encoder and caller agree on them.
        let status = unsafe { ioctl::nvme_admin(self.file.as_raw_fd(), &raw mut request) }
            .map_err(|errno| PortError::Lost(errno.into()))?;
        match u16::try_from(status) {
            Ok(0) => Ok(request.result),
            status => Err(PortError::Nvme(status.unwrap_or(u16::MAX))),
        }
    }

    fn scsi(&self, command: &Cdb, mut data: Data<'_>) -> Result<ScsiAnswer, PortError> {
        let (address, data_len, direction) = memory(&mut data)?;
        let mut sense = [0; SENSE_BYTES_MAX];
        let mut request = ScsiRequest {
            interface_id: i32::from(b'S'),
            direction,
            cdb_len: command.length.min(16),
            sense_len_max: u8::try_from(SENSE_BYTES_MAX).unwrap_or(u8::MAX),
            iovec_count: 0,
            data_len,
            data: address.cast(),
            cdb: command.bytes.as_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms: milliseconds(command.timeout),
            flags: 0,
            pack_id: 0,
            user: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            message_status: 0,
            sense_len: 0,
            host_status: 0,
            driver_status: 0,
            missing: 0,
            duration_ms: 0,
            info: 0,
        };
        // SAFETY: the request is the kernel's structure; command, sense and data live through the call and
        // have the lengths that stand beside them (a command block has 16 bytes, `length` is at most that).
        unsafe { ioctl::sg_io(self.file.as_raw_fd(), &raw mut request) }
            .map_err(|errno| PortError::Lost(errno.into()))?;
        let driver = request.driver_status & DRIVER_MASK;
        if request.host_status != 0 || !matches!(driver, 0 | DRIVER_SENSE) {
            let text = format!("host status {:#x}, driver status {driver:#x}", request.host_status);
            return Err(PortError::Lost(io::Error::other(text)));
        }
        Ok(ScsiAnswer {
            status: request.status,
            sense: sense[..usize::from(request.sense_len).min(SENSE_BYTES_MAX)].to_vec(),
            missing_bytes: u32::try_from(request.missing).unwrap_or(0),
        })
    }
}
