//! Taking block devices apart that stand on others: md arrays, device mapper volumes, bcache.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `struct dm_ioctl` (linux/dm-ioctl.h).
#[repr(C)]
#[derive(Debug)]
pub struct DmRequest {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

const DM_BYTES: usize = 312;
const _: () = assert!(size_of::<DmRequest>() == DM_BYTES);
/// Version 4.0 of the interface: what every kernel of today accepts.
const DM_VERSION: [u32; 3] = [4, 0, 0];

mod ioctls {
    nix::ioctl_none!(stop_array, 9, 0x32);
    nix::ioctl_readwrite!(dm_dev_remove, 0xfd, 4, super::DmRequest);
}

/// Stops an array: its members are free afterwards, and hold what they held.
///
/// # Errors
/// Something has it open, or there is no such array.
pub fn stop_md(sys: &Path, dev: &Path, name: &str) -> io::Result<()> {
    if fs::write(sys.join("block").join(name).join("md/array_state"), "clear").is_ok() {
        return Ok(());
    }
    let array = File::open(dev.join(name))?;
    // SAFETY: the descriptor is open; STOP_ARRAY takes no argument.
    unsafe { ioctls::stop_array(array.as_raw_fd()) }?;
    Ok(())
}

/// Removes a device mapper volume by its number, which cannot have passed to another one in the meantime: it still
/// holds its disks.
///
/// # Errors
/// Fails if something has it open, or if there is no such volume.
pub fn remove_dm(sys: &Path, dev: &Path, name: &str) -> io::Result<()> {
    let numbers = fs::read_to_string(sys.join("block").join(name).join("dev"))?;
    let parse = |text: &str| text.trim().parse::<u64>().map_err(io::Error::other);
    let (major, minor) = numbers.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
    let (major, minor) = (parse(major)?, parse(minor)?);
    let mut request = DmRequest {
        version: DM_VERSION,
        data_size: u32::try_from(DM_BYTES).map_err(io::Error::other)?,
        data_start: u32::try_from(DM_BYTES).map_err(io::Error::other)?,
        target_count: 0,
        open_count: 0,
        flags: 0,
        event_nr: 0,
        padding: 0,
        // The kernel's `huge_encode_dev`.
        dev: (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12),
        name: [0; 128],
        uuid: [0; 129],
        data: [0; 7],
    };
    let control = OpenOptions::new().read(true).write(true).open(dev.join("mapper/control"))?;
    // SAFETY: the request is the kernel's structure, says its own size, and lives through the call.
    unsafe { ioctls::dm_dev_remove(control.as_raw_fd(), &raw mut request) }?;
    Ok(())
}

/// Stops a bcache device; its backing device is free a moment later.
///
/// # Errors
/// There is no such device.
pub fn stop_bcache(sys: &Path, name: &str) -> io::Result<()> {
    fs::write(sys.join("block").join(name).join("bcache/stop"), "1")
}

/// Stops a cache set with all that it caches.
///
/// # Errors
/// There is no such set.
pub fn stop_bcache_set(sys: &Path, uuid: &str) -> io::Result<()> {
    fs::write(sys.join("fs/bcache").join(uuid).join("stop"), "1")
}
