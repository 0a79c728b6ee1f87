//! One admin command of NVMe controllers: identify, which reads and changes nothing.

use std::{fs::File, io, os::fd::AsRawFd};

/// Opcode (NVMe Base Specification 2.0, figure 138).
const IDENTIFY: u8 = 0x06;
/// Every identify data structure has these.
const DATA_BYTES: usize = 4096;
/// A controller that does not answer within this is not asked again in this inspection's step.
const TIMEOUT_MS: u32 = 5000;

/// `struct nvme_passthru_cmd` (linux/nvme_ioctl.h).
#[repr(C)]
#[derive(Default)]
struct NvmePassthroughCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_and_3: [u32; 2],
    metadata: u64,
    data: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

// The kernel's number of the ioctl has the size in it.
const _: () = assert!(size_of::<NvmePassthroughCommand>() == 72);

mod ioctls {
    nix::ioctl_readwrite!(admin, b'N', 0x41, super::NvmePassthroughCommand);
}

/// What the controller answers; an error where it refuses.
pub fn identify(controller: &File, structure: u8, namespace: u32) -> io::Result<Vec<u8>> {
    let mut data = vec![0_u8; DATA_BYTES];
    let mut command = NvmePassthroughCommand {
        opcode: IDENTIFY,
        namespace,
        // Wide enough for pointers of every machine.
        data: data.as_mut_ptr() as u64,
        data_bytes: u32::try_from(DATA_BYTES).map_err(io::Error::other)?,
        words_10_to_15: [u32::from(structure), 0, 0, 0, 0, 0],
        timeout_ms: TIMEOUT_MS,
        ..NvmePassthroughCommand::default()
    };
    // SAFETY: the command has the layout that this number stands for; its buffer is as long as it says
    // and outlives the call, which is the only one that writes to it.
    let status = unsafe { ioctls::admin(controller.as_raw_fd(), &raw mut command) }?;
    // What is above zero is the controller's own refusal.
    if status == 0 { Ok(data) } else { Err(io::Error::other(format!("NVMe status {status:#x}"))) }
}
