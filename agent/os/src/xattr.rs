//! The label of SELinux: a file that replaces another one must keep it, or the installed system refuses to read it.

use std::{ffi::CStr, fs::File, io, os::fd::AsRawFd};

const SELINUX: &CStr = c"security.selinux";
/// Labels have some 40 letters; the kernel takes none of more than a page.
const LABEL_BYTES_MAX: usize = 4096;

/// Gives a file the label of another one. Nothing to do where that has none.
pub fn copy_label(from: &File, to: &File) -> io::Result<()> {
    let mut label = [0_u8; LABEL_BYTES_MAX];
    // SAFETY: the descriptor is open for the call, the name ends with a zero, and the kernel writes at most as many
    // bytes as the length says, which is that of the array.
    let got = unsafe { libc::fgetxattr(from.as_raw_fd(), SELINUX.as_ptr(), label.as_mut_ptr().cast(), label.len()) };
    let Ok(bytes) = usize::try_from(got) else {
        let error = io::Error::last_os_error();
        // No label, or a filesystem without any.
        return match error.raw_os_error() {
            Some(libc::ENODATA | libc::EOPNOTSUPP) => Ok(()),
            Some(_) | None => Err(error),
        };
    };
    // SAFETY: as above; the kernel reads `bytes` bytes, which it said that it wrote.
    let set = unsafe { libc::fsetxattr(to.as_raw_fd(), SELINUX.as_ptr(), label.as_ptr().cast(), bytes, 0) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
