//! Listening to switches, on every NIC, for as long as the ramdisk runs. Nothing waits for it: most
//! switches speak each 30 s, and the inspection is long over by then.
//!
//! An unused NIC is switched on, without IPv6: what routers say on other networks must not give the ramdisk addresses
//! and routes. Some NICs (Intel X710, E810) hear LLDP in their own firmware, and show the kernel nothing of it.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};

use firesteel_lldp::{self as lldp, FRAME_BYTES_MAX};
use firesteel_os as os;
use firesteel_steps::board::ReportBoard;
use firesteel_sysfs::{Roots, attribute, nics};
use firesteel_wire::limits::NICS_MAX;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How soon a NIC is listened to whose driver comes late.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
/// Frames of one NIC that are read at a time, and the time between. A sender of more frames is not read more often, and
/// costs no more.
const FRAMES_MAX: usize = 8;
const PAUSE: Duration = Duration::from_millis(200);
/// `IFF_UP` among a NIC's flags in sysfs.
const UP: u32 = 1;

/// Begins to listen, in a thread of its own.
pub fn start(roots: Roots, board: Arc<ReportBoard>) {
    thread::spawn(move || {
        let mut listener = LldpListener::new(roots);
        loop {
            listener.open_new_nics();
            listener.receive_frames(&board, LOOK_AGAIN);
            thread::sleep(PAUSE);
        }
    });
}

/// One NIC that is listened to.
#[derive(Debug)]
struct LldpSocket {
    socket: OwnedFd,
    mac: String,
    /// The kernel's number: another device may get the name.
    index: u32,
}

#[derive(Debug)]
pub struct LldpListener {
    roots: Roots,
    ears: BTreeMap<String, LldpSocket>,
    /// Why a NIC is not listened to, so that it is said once.
    deaf: BTreeMap<String, String>,
}

impl LldpListener {
    #[must_use]
    pub fn new(roots: Roots) -> Self {
        Self { roots, ears: BTreeMap::new(), deaf: BTreeMap::new() }
    }

    /// Begins to listen on NICs that are new, ends it on those that are gone.
    pub fn open_new_nics(&mut self) {
        let found = nics::physical(&self.roots);
        let roots = self.roots.clone();
        self.ears.retain(|name, ear| found.contains(name) && index(&roots, name) == Some(ear.index));
        self.deaf.retain(|name, _| found.contains(name));
        for name in found {
            if self.ears.len() >= NICS_MAX || self.ears.contains_key(&name) {
                continue;
            }
            match open(&self.roots, &name) {
                Ok(ear) => {
                    self.deaf.remove(&name);
                    self.ears.insert(name, ear);
                }
                Err(error) => {
                    let error = error.to_string();
                    if self.deaf.get(&name) != Some(&error) {
                        tracing::warn!("no switch can be heard on {name}: {error}");
                        self.deaf.insert(name, error);
                    }
                }
            }
        }
    }

    /// Waits for frames at most so long, and puts their senders on the board.
    pub fn receive_frames(&mut self, board: &ReportBoard, wait: Duration) {
        if !self.wait(wait) {
            return;
        }
        let mut frame = vec![0; FRAME_BYTES_MAX + 1];
        for (name, ear) in &self.ears {
            for _ in 0..FRAMES_MAX {
                // A NIC that goes down says so once, as an error: what was read is the end of this turn.
                let Ok(bytes) = os::network::receive(&ear.socket, &mut frame) else { break };
                match lldp::parse(&frame[..bytes]) {
                    Ok(said) => board.record_neighbour(name, &ear.mac, said, os::clock::uptime()),
                    Err(why) => tracing::debug!("a frame on {name} describes no switch: {why}"),
                }
            }
        }
    }

    /// Whether there is something to read before the time is over.
    fn wait(&self, wait: Duration) -> bool {
        let mut sockets: Vec<_> =
            self.ears.values().map(|ear| PollFd::new(ear.socket.as_fd(), PollFlags::POLLIN)).collect();
        let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
        if sockets.is_empty() {
            thread::sleep(wait);
            return false;
        }
        poll(&mut sockets, timeout).is_ok_and(|ready| ready > 0)
    }
}

fn open(roots: &Roots, name: &str) -> std::io::Result<LldpSocket> {
    let index = index(roots, name).ok_or(std::io::ErrorKind::NotFound)?;
    let socket = os::network::frame_socket(index, lldp::ETHERTYPE, &lldp::GROUPS)?;
    if !is_up(roots, name) {
        keep_ipv6_off(roots, name);
        os::network::set_up(name)?;
    }
    Ok(LldpSocket { socket, mac: nics::mac(roots, name, os::network::permanent_mac(name)), index })
}

fn index(roots: &Roots, name: &str) -> Option<u32> {
    attribute(&roots.sys.join("class/net").join(name).join("ifindex")).parse().ok()
}

fn is_up(roots: &Roots, name: &str) -> bool {
    let flags = attribute(&roots.sys.join("class/net").join(name).join("flags"));
    flags
        .strip_prefix("0x")
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .is_some_and(|flags| flags & UP != 0)
}

fn keep_ipv6_off(roots: &Roots, name: &str) {
    let switch = roots.proc.join("sys/net/ipv6/conf").join(Path::new(name)).join("disable_ipv6");
    if let Err(error) = fs::write(&switch, "1") {
        tracing::debug!("{}: {error}", switch.display());
    }
}
