//! System calls of the lab, and its only `unsafe` code: namespaces, children that die with their
//! parent, sessions, taps, frames.
#![allow(unsafe_code, reason = "system calls without a safe wrapper; each block says why it is sound")]

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::{fs, io};

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socket};
use nix::unistd::{Pid, getegid, geteuid, getppid};
use tokio::io::unix::AsyncFd;

/// Moves this process into a network namespace of its own. Without root it becomes root of a user
/// namespace first, which the kernel allows only while the process has one thread.
pub fn enter_private_network() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        return Ok(unshare(CloneFlags::CLONE_NEWNET)?);
    }
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    // user_namespaces(7): group mappings by a process without privileges need this first.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// Joins the network (and user) namespace of another process of ours. One thread only, as above.
pub fn join_network_of(pid: u32) -> io::Result<()> {
    let namespace = |kind: &str| fs::File::open(format!("/proc/{pid}/ns/{kind}"));
    let (theirs, ours) = (fs::read_link(format!("/proc/{pid}/ns/user"))?, fs::read_link("/proc/self/ns/user")?);
    let network = namespace("net")?;
    if theirs != ours {
        setns(namespace("user")?, CloneFlags::CLONE_NEWUSER)?;
    }
    Ok(setns(network, CloneFlags::CLONE_NEWNET)?)
}

/// The kernel sends the child `signal` when the thread that spawned it ends. Children are spawned
/// from the runtime's own threads, which live as long as the process.
pub fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = Pid::this();
    let arm = move || {
        prctl::set_pdeathsig(signal)?;
        // The parent may have died between fork and prctl: then no signal would ever come.
        if getppid() == parent { Ok(()) } else { Err(io::Error::from(io::ErrorKind::BrokenPipe)) }
    };
    // SAFETY: the closure runs between fork and exec and only makes two system calls; it does not
    // allocate, lock or touch memory shared with other threads.
    unsafe { command.pre_exec(arm) };
}

/// Makes the child the leader of its own session, so that the terminal's Ctrl-C does not reach it.
pub fn own_session(command: &mut Command) {
    // SAFETY: `setsid` is async-signal-safe, and it is all the closure does.
    unsafe { command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
}

/// Starts the child in a network namespace of its own, in which there is nothing.
pub fn own_network(command: &mut Command) {
    // SAFETY: `unshare` is one system call, and it is all the closure does.
    unsafe { command.pre_exec(|| Ok(unshare(CloneFlags::CLONE_NEWNET)?)) };
}

/// Opens a tap device that exists, for frames without any header before them.
pub fn open_tap(name: &str) -> io::Result<AsyncFd<fs::File>> {
    let file = fs::File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: an all-zero `ifreq` is a valid one: an empty name and no flags.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_TAP | libc::IFF_NO_PI).unwrap_or(0);
    // SAFETY: the descriptor is open, and the request is an `ifreq` that outlives the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a `File` owns its descriptor, which is not replaced or closed before it.
    Ok(unsafe { AsyncFd::register(file) }?)
}

/// Sends one whole Ethernet frame out of an interface: into the machine behind a tap.
pub fn send_frame(interface: &str, frame: &[u8]) -> io::Result<()> {
    let socket = frames_of(interface, 0)?;
    let sent = send(socket.as_raw_fd(), frame, MsgFlags::empty())?;
    if sent == frame.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Hears all frames that an interface sends and receives.
pub fn listen_to_frames(interface: &str) -> io::Result<socket2::Socket> {
    frames_of(interface, u16::try_from(libc::ETH_P_ALL).map_err(io::Error::other)?).map(socket2::Socket::from)
}

/// A socket for whole Ethernet frames of an interface; it hears those of this protocol, none where it is zero.
fn frames_of(interface: &str, protocol: u16) -> io::Result<OwnedFd> {
    let index = nix::net::if_::if_nametoindex(interface)?;
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: sockaddr_ll is plain data; all zeros is a valid value of it.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::c_ushort::try_from(libc::AF_PACKET).map_err(io::Error::other)?;
    address.sll_ifindex = libc::c_int::try_from(index).map_err(io::Error::other)?;
    address.sll_protocol = protocol.to_be();
    let length = libc::socklen_t::try_from(size_of_val(&address)).map_err(io::Error::other)?;
    // SAFETY: the address is a whole sockaddr_ll, as its family says, and outlives the call.
    nix::Error::result(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}
