//! Block devices: the kernel's cache. Everything else of a disk is the image writer's.

use std::{fs::File, io, os::fd::AsRawFd};

mod ioctls {
    nix::ioctl_none!(flush_buffers, 0x12, 97);
}

/// Writes out and drops the kernel's cache of this device, so that the next read is from the medium.
pub fn flush_buffers(file: &File) -> io::Result<()> {
    // SAFETY: BLKFLSBUF takes no argument.
    unsafe { ioctls::flush_buffers(file.as_raw_fd()) }?;
    Ok(())
}
