//! Inode flags: efivarfs marks its files immutable, so that a careless `rm` breaks no firmware.

use std::{fs::File, io, os::fd::AsRawFd, path::Path};

mod ioctls {
    nix::ioctl_read!(get_flags, b'f', 1, libc::c_long);
    nix::ioctl_write_ptr!(set_flags, b'f', 2, libc::c_long);
}

const FS_IMMUTABLE_FL: libc::c_int = 0x10;

/// Takes the immutable flag from a file. A file or filesystem without such flags is left as it is.
pub fn make_mutable(path: &Path) -> io::Result<()> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    // The ioctl's number says `long`, but the kernel reads and writes an int.
    let mut flags: [libc::c_int; 2] = [0; 2];
    // SAFETY: FS_IOC_GETFLAGS writes at most one long; two ints are as large and as aligned as needed
    // on x86_64 and aarch64 (the kernel writes with put_user of an int).
    match unsafe { ioctls::get_flags(file.as_raw_fd(), flags.as_mut_ptr().cast()) } {
        Err(nix::Error::ENOTTY | nix::Error::EOPNOTSUPP | nix::Error::EINVAL) => return Ok(()),
        got => got?,
    };
    if flags[0] & FS_IMMUTABLE_FL == 0 {
        return Ok(());
    }
    flags[0] &= !FS_IMMUTABLE_FL;
    // SAFETY: FS_IOC_SETFLAGS reads one int from the pointer, which outlives the call.
    unsafe { ioctls::set_flags(file.as_raw_fd(), flags.as_ptr().cast()) }?;
    Ok(())
}
