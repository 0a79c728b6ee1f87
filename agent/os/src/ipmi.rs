//! One request to the BMC by the kernel's IPMI driver (linux/ipmi.h), and its answer.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A BMC that does not answer within this is asked nothing more.
const TIMEOUT_MS: u16 = 5000;
/// `IPMI_MAX_MSG_LENGTH`, less nothing: the kernel refuses more.
const ANSWER_BYTES_MAX: usize = 272;
/// `IPMI_SYSTEM_INTERFACE_ADDR_TYPE` and `IPMI_BMC_CHANNEL`: the BMC itself.
const SYSTEM_INTERFACE: i32 = 0x0c;
const BMC_CHANNEL: i16 = 0x0f;

#[repr(C)]
#[derive(Debug)]
struct IpmiIoctlAddress {
    kind: i32,
    channel: i16,
    lun: u8,
}

#[repr(C)]
#[derive(Debug)]
pub struct IpmiIoctlMessage {
    netfn: u8,
    command: u8,
    data_len: u16,
    data: *mut u8,
}

#[repr(C)]
#[derive(Debug)]
pub struct IpmiIoctlRequest {
    address: *mut u8,
    address_len: u32,
    id: libc::c_long,
    message: IpmiIoctlMessage,
}

#[repr(C)]
#[derive(Debug)]
pub struct IpmiIoctlReceived {
    kind: i32,
    address: *mut u8,
    address_len: u32,
    id: libc::c_long,
    message: IpmiIoctlMessage,
}

// The kernel's numbers of the ioctls have the sizes in them.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(
    size_of::<IpmiIoctlRequest>() == 40 && size_of::<IpmiIoctlReceived>() == 48 && size_of::<IpmiIoctlAddress>() == 8
);

mod ioctls {
    nix::ioctl_read!(send, b'i', 13, super::IpmiIoctlRequest);
    nix::ioctl_readwrite!(receive, b'i', 11, super::IpmiIoctlReceived);
}

/// What the BMC answers, its completion code first. Only requests that change nothing belong here.
pub fn ask(device: &Path, netfn: u8, command: u8, data: &[u8]) -> io::Result<Vec<u8>> {
    let opened = OpenOptions::new().read(true).write(true).open(device)?;
    send(&opened, netfn, command, data)?;
    let mut ready = [PollFd::new(opened.as_fd(), PollFlags::POLLIN)];
    if poll(&mut ready, PollTimeout::from(TIMEOUT_MS))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    receive(&opened)
}

fn send(device: &File, netfn: u8, command: u8, data: &[u8]) -> io::Result<()> {
    let mut address = IpmiIoctlAddress { kind: SYSTEM_INTERFACE, channel: BMC_CHANNEL, lun: 0 };
    let mut data = data.to_vec();
    let mut request = IpmiIoctlRequest {
        address: (&raw mut address).cast(),
        address_len: u32::try_from(size_of::<IpmiIoctlAddress>()).map_err(io::Error::other)?,
        id: 1,
        message: IpmiIoctlMessage {
            netfn,
            command,
            data_len: u16::try_from(data.len()).map_err(io::Error::other)?,
            data: data.as_mut_ptr(),
        },
    };
    // SAFETY: the request has the layout that this number stands for; address and data have the lengths that
    // stand beside them, and all three outlive the call, which only reads them.
    unsafe { ioctls::send(device.as_raw_fd(), &raw mut request) }?;
    Ok(())
}

fn receive(device: &File) -> io::Result<Vec<u8>> {
    let mut address = IpmiIoctlAddress { kind: 0, channel: 0, lun: 0 };
    let mut data = vec![0; ANSWER_BYTES_MAX];
    let mut received = IpmiIoctlReceived {
        kind: 0,
        address: (&raw mut address).cast(),
        address_len: u32::try_from(size_of::<IpmiIoctlAddress>()).map_err(io::Error::other)?,
        id: 0,
        message: IpmiIoctlMessage {
            netfn: 0,
            command: 0,
            data_len: u16::try_from(data.len()).map_err(io::Error::other)?,
            data: data.as_mut_ptr(),
        },
    };
    // SAFETY: the structure has the layout that this number stands for; the kernel writes no more than the
    // lengths in it say to address and data, which outlive the call.
    unsafe { ioctls::receive(device.as_raw_fd(), &raw mut received) }?;
    data.truncate(usize::from(received.message.data_len));
    Ok(data)
}
