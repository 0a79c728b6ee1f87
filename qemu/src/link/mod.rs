//! A wire with faults between a machine and the bridge. QEMU's end is a datagram socket, one frame a
//! datagram; the bridge's end is a tap that this process holds. `model` decides what becomes of a
//! frame. (The kernel's own means, netem, is a module that not every kernel has.)

mod answers;
mod model;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use answers::LostAnswers;
pub use model::LinkFaults;
use model::LinkModel;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixDatagram;
use tokio::task::{AbortHandle, JoinSet};

use crate::os;

/// The machine's end and ours, in the machine's folder.
pub const MACHINE_SOCKET: &str = "link-machine.sock";
pub const LAB_SOCKET: &str = "link-lab.sock";
/// A frame with a VLAN tag, and room.
const FRAME_BYTES_MAX: usize = 2048;
/// Frames under way, as in a switch's buffer; more are lost.
const WAITING_MAX: usize = 4096;

/// A running wire; it is cut when this is dropped.
#[derive(Debug)]
pub struct FaultyLink {
    shared: Arc<FaultyLinkState>,
    tasks: Vec<AbortHandle>,
}

#[derive(Debug)]
struct FaultyLinkState {
    tap: AsyncFd<File>,
    socket: UnixDatagram,
    machine: PathBuf,
    model: Mutex<LinkModel>,
    waiting: AtomicUsize,
}

#[derive(Clone, Copy, Debug)]
enum LinkDirection {
    ToMachine,
    ToBridge,
}

impl FaultyLink {
    /// A wire from the tap (which exists) to the machine whose folder this is.
    pub fn start(tap: &str, folder: &Path, faults: LinkFaults) -> io::Result<Self> {
        let tap = os::open_tap(tap)?;
        let socket = UnixDatagram::bind(folder.join(LAB_SOCKET))?;
        let machine = folder.join(MACHINE_SOCKET);
        let model = Mutex::new(LinkModel::new(faults));
        let shared = Arc::new(FaultyLinkState { tap, socket, machine, model, waiting: AtomicUsize::new(0) });
        let tasks = [LinkDirection::ToMachine, LinkDirection::ToBridge]
            .map(|way| tokio::spawn(carry(shared.clone(), way)).abort_handle());
        Ok(Self { shared, tasks: tasks.to_vec() })
    }

    /// How many requests got no answer, since the faults were set.
    #[must_use]
    pub fn lost_answers(&self) -> u32 {
        self.shared.model.lock().unwrap_or_else(PoisonError::into_inner).lost_answers()
    }

    /// Sets its faults from now on.
    pub fn set_faults(&self, faults: LinkFaults) {
        *self.shared.model.lock().unwrap_or_else(PoisonError::into_inner) = LinkModel::new(faults);
    }
}

impl Drop for FaultyLink {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

async fn carry(shared: Arc<FaultyLinkState>, way: LinkDirection) {
    let mut frame = vec![0; FRAME_BYTES_MAX];
    // Frames under way end with the wire.
    let mut late = JoinSet::new();
    loop {
        let read = match way {
            LinkDirection::ToMachine => {
                shared.tap.async_io(tokio::io::Interest::READABLE, |mut tap| tap.read(&mut frame)).await
            }
            LinkDirection::ToBridge => shared.socket.recv(&mut frame).await,
        };
        let Ok(length) = read else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        while late.try_join_next().is_some() {}
        let from_machine = matches!(way, LinkDirection::ToBridge);
        let copies = {
            let mut model = shared.model.lock().unwrap_or_else(PoisonError::into_inner);
            model.copies(from_machine, &frame[..length])
        };
        for delay in copies {
            if delay.is_zero() {
                shared.deliver(way, &frame[..length]).await;
            } else if shared.waiting.fetch_add(1, Ordering::Relaxed) < WAITING_MAX {
                let (shared, frame) = (shared.clone(), frame[..length].to_vec());
                late.spawn(async move {
                    tokio::time::sleep(delay).await;
                    shared.deliver(way, &frame).await;
                    shared.waiting.fetch_sub(1, Ordering::Relaxed);
                });
            } else {
                shared.waiting.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl FaultyLinkState {
    /// A frame that cannot be delivered is lost, as on a wire to a machine that is off.
    async fn deliver(&self, way: LinkDirection, frame: &[u8]) {
        match way {
            LinkDirection::ToMachine => drop(self.socket.send_to(frame, &self.machine).await),
            LinkDirection::ToBridge => {
                drop(self.tap.async_io(tokio::io::Interest::WRITABLE, |mut tap| tap.write(frame)).await);
            }
        }
    }
}
