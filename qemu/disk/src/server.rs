//! Threads and sockets: serves the disk to one client at a time per connection, and is its handle.
//!
//! Requests are performed one after the other under one lock, so that a power cut falls between two of
//! them and never into one. The answers are given outside the lock.

use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::watch;

use crate::cache::{CacheMode, Loss};
use crate::fault::{Delay, DiskFault, DiskFaultEffect, FaultTable};
use crate::gauge::{DiskCounters, Gauge, StopPoint};
use crate::medium::{Medium, MediumError, index};
use crate::nbd::{self, ErrorCode, NbdMessage};
use crate::{DiskCommand, DiskRequest};

#[derive(Debug, Error)]
pub enum FaultyDiskError {
    #[error("opening what the disk is made of")]
    Medium(#[from] MediumError),
    #[error("listening on {}", path.display())]
    Listen {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cutting the disk's power")]
    Cut(#[source] io::Error),
}

/// How a disk is, as a scenario file writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FaultyDiskPlan {
    pub cache: CacheMode,
    pub loss: Loss,
    pub faults: Vec<DiskFault>,
}

/// A handle; clones are the same disk. The disk is served until the last one is dropped.
#[derive(Clone, Debug)]
pub struct FaultyDisk(Arc<DiskServerHandle>);

#[derive(Debug)]
struct DiskServerHandle {
    shared: Arc<DiskServerState>,
    socket: PathBuf,
}

#[derive(Debug)]
struct DiskServerState {
    state: Mutex<ServedDiskState>,
    /// Woken when a hold, a stall or the power ends.
    changed: Condvar,
    seen: watch::Sender<DiskCounters>,
    /// Whether a stop was reached and the machine is held there.
    held: watch::Sender<bool>,
}

#[derive(Debug)]
struct ServedDiskState {
    medium: Medium,
    faults: FaultTable,
    gauge: Gauge,
    loss: Loss,
    stop: Option<StopPoint>,
    held: bool,
    is_on: bool,
    closing: bool,
}

/// What becomes of a request.
enum NbdRequestOutcome {
    Now(Result<Vec<u8>, ErrorCode>),
    After(Delay, Result<Vec<u8>, ErrorCode>),
    /// The power is gone: no answer comes.
    Never,
}

impl FaultyDisk {
    /// Serves the file `medium`, which exists, on `socket`.
    pub fn serve(medium: &Path, socket: &Path, plan: &FaultyDiskPlan) -> Result<Self, FaultyDiskError> {
        let mut faults = FaultTable::default();
        plan.faults.iter().cloned().for_each(|fault| faults.arm(fault));
        let state = ServedDiskState {
            medium: Medium::open(medium, plan.cache)?,
            faults,
            gauge: Gauge::default(),
            loss: plan.loss,
            stop: None,
            held: false,
            is_on: true,
            closing: false,
        };
        let listening = |source| FaultyDiskError::Listen { path: socket.to_owned(), source };
        let listener = UnixListener::bind(socket).map_err(listening)?;
        let shared = Arc::new(DiskServerState {
            state: Mutex::new(state),
            changed: Condvar::new(),
            seen: watch::channel(DiskCounters::default()).0,
            held: watch::channel(false).0,
        });
        let accepting = shared.clone();
        std::thread::Builder::new()
            .name("disk".to_owned())
            .spawn(move || accept(&listener, &accepting))
            .map_err(listening)?;
        Ok(Self(Arc::new(DiskServerHandle { shared, socket: socket.to_owned() })))
    }

    /// Arms one more fault.
    pub fn arm(&self, fault: DiskFault) {
        self.0.shared.lock().faults.arm(fault);
    }

    /// The disk is sound from now on.
    pub fn disarm_all(&self) {
        self.0.shared.lock().faults.disarm_all();
        self.0.shared.changed.notify_all();
    }

    /// Holds the machine at the next time this point is reached: the request that reaches it is
    /// performed and not answered until [`FaultyDisk::release`] or a power cut. One point at a time.
    pub fn hold_at(&self, stop: StopPoint) {
        self.0.shared.lock().stop = Some(stop);
    }

    /// Resolves when the machine is held.
    pub async fn until_held(&self) {
        let mut held = self.0.shared.held.subscribe();
        // The sender lives as long as this handle.
        drop(held.wait_for(|held| *held).await);
    }

    pub fn release(&self) {
        self.0.shared.let_go(&mut self.0.shared.lock());
    }

    /// Takes the power away: what was not flushed is lost, and no request is answered until
    /// [`FaultyDisk::power_on`]. Gives the number of bytes lost. To be called before the machine is killed,
    /// or its end would flush.
    pub fn power_cut(&self) -> Result<u64, FaultyDiskError> {
        let mut state = self.0.shared.lock();
        state.is_on = false;
        let loss = state.loss;
        let lost = state.medium.power_cut(loss).map_err(FaultyDiskError::Cut)?;
        self.0.shared.let_go(&mut state);
        Ok(lost)
    }

    pub fn power_on(&self) {
        let mut state = self.0.shared.lock();
        state.is_on = true;
        state.gauge.power_on();
    }

    #[must_use]
    pub fn seen(&self) -> DiskCounters {
        *self.0.shared.seen.borrow()
    }
}

impl Drop for DiskServerHandle {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closing = true;
        state.is_on = false;
        self.shared.let_go(&mut state);
        drop(state);
        // Wakes the thread that accepts, which then ends.
        drop(UnixStream::connect(&self.socket));
        drop(std::fs::remove_file(&self.socket));
    }
}

impl DiskServerState {
    fn lock(&self) -> MutexGuard<'_, ServedDiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_go(&self, state: &mut ServedDiskState) {
        state.held = false;
        self.held.send_replace(false);
        self.changed.notify_all();
    }

    /// Performs a request, and stays in it while the machine is held.
    fn perform(&self, request: &DiskRequest, data: &mut [u8]) -> NbdRequestOutcome {
        let mut state = self.lock();
        if !state.is_on {
            return NbdRequestOutcome::Never;
        }
        let verdict = state.faults.decide(request);
        let done = state.perform(request, data, &verdict);
        self.seen.send_replace(state.gauge.seen());
        if let Some(stop) = state.stop
            && state.gauge.reached(stop, request)
        {
            state.stop = None;
            state.held = true;
            self.held.send_replace(true);
            while state.held {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        match verdict.delay {
            _ if !state.is_on => NbdRequestOutcome::Never,
            Some(delay) => NbdRequestOutcome::After(delay, done),
            None => NbdRequestOutcome::Now(done),
        }
    }

    /// Waits as a stalling disk does; whether there is still power.
    fn wait(&self, delay: Delay) -> bool {
        let until = match delay {
            Delay::Millis(milliseconds) => Some(Instant::now() + Duration::from_millis(milliseconds)),
            Delay::Forever => None,
        };
        let mut state = self.lock();
        while state.is_on {
            let Some(until) = until else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

impl ServedDiskState {
    fn perform(
        &mut self,
        request: &DiskRequest,
        data: &mut [u8],
        verdict: &DiskFaultEffect,
    ) -> Result<Vec<u8>, ErrorCode> {
        if verdict.fails {
            return Err(ErrorCode::Io);
        }
        let done = self.try_perform(request, data, verdict);
        done.map_err(|error| {
            tracing::warn!(%error, ?request, "the disk's own file failed");
            ErrorCode::Io
        })
    }

    fn try_perform(
        &mut self,
        request: &DiskRequest,
        data: &mut [u8],
        verdict: &DiskFaultEffect,
    ) -> io::Result<Vec<u8>> {
        let zeros = request.command == DiskCommand::Zero || data.iter().all(|byte| *byte == 0);
        let mut answer = Vec::new();
        match request.command {
            DiskCommand::Read => {
                answer = vec![0; index(request.bytes)];
                self.medium.read(request.offset, &mut answer)?;
                verdict.altered.iter().for_each(|range| alter(&mut answer, request.offset, range));
            }
            DiskCommand::Flush => self.medium.flush()?,
            DiskCommand::Write | DiskCommand::Zero if verdict.dropped => {}
            DiskCommand::Write => {
                verdict.altered.iter().for_each(|range| alter(data, request.offset, range));
                self.medium.write(request.offset, data)?;
            }
            DiskCommand::Zero => {
                self.medium.zero(&request.range())?;
                for range in &verdict.altered {
                    self.medium.write(range.start, &vec![0xff; index(range.end - range.start)])?;
                }
            }
        }
        if request.durable && request.changes() {
            self.medium.flush()?;
        }
        self.gauge.note(request, zeros);
        Ok(answer)
    }
}

/// Every bit of these bytes is turned.
fn alter(data: &mut [u8], offset: u64, range: &Range<u64>) {
    let inside = data.get_mut(index(range.start - offset)..index(range.end - offset));
    inside.into_iter().flatten().for_each(|byte| *byte ^= 0xff);
}

fn accept(listener: &UnixListener, shared: &Arc<DiskServerState>) {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a disk cannot accept");
                return;
            }
        };
        if shared.lock().closing {
            return;
        }
        let shared = shared.clone();
        let serving = std::thread::Builder::new().name("disk".to_owned()).spawn(move || {
            let mut stream = stream;
            if let Err(error) = serve(&mut stream, &shared) {
                // A machine that is killed does not say goodbye.
                tracing::debug!(%error, "a disk's client is gone");
            }
        });
        if let Err(error) = serving {
            tracing::warn!(%error, "a disk cannot serve");
        }
    }
}

fn serve(stream: &mut UnixStream, shared: &DiskServerState) -> Result<(), nbd::NbdError> {
    let disk_bytes = shared.lock().medium.bytes();
    nbd::handshake(stream, disk_bytes)?;
    let mut header = [0; nbd::REQUEST_BYTES];
    let mut data = Vec::new();
    loop {
        stream.read_exact(&mut header)?;
        let asked = nbd::parse(&header, disk_bytes)?;
        data.resize(asked.data_bytes as usize, 0);
        stream.read_exact(&mut data)?;
        let answer = match asked.what {
            NbdMessage::Disconnect => return Ok(()),
            NbdMessage::Wrong(error) => NbdRequestOutcome::Now(Err(error)),
            NbdMessage::Request(request) => shared.perform(&request, &mut data),
        };
        let done = match answer {
            NbdRequestOutcome::Now(done) => done,
            NbdRequestOutcome::After(delay, done) if shared.wait(delay) => done,
            NbdRequestOutcome::After(..) | NbdRequestOutcome::Never => return silence(stream),
        };
        stream.write_all(&nbd::reply_header(asked.cookie, done.as_ref().err().copied()))?;
        if let Ok(answer) = done {
            stream.write_all(&answer)?;
        }
    }
}

/// A disk without power answers nothing; a connection that breaks would be an answer.
fn silence(stream: &mut UnixStream) -> Result<(), nbd::NbdError> {
    let mut heard = vec![0; 64 << 10];
    while stream.read(&mut heard)? > 0 {}
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::fault::FaultKind;

    const SIZE: u64 = 1 << 20;

    /// The plainest client.
    struct Client(UnixStream);

    impl Client {
        fn connect(socket: &Path) -> Self {
            let mut stream = UnixStream::connect(socket).unwrap();
            let mut hello = [0; 18];
            stream.read_exact(&mut hello).unwrap();
            // No zeroes; export name "".
            stream.write_all(&[0, 0, 0, 3]).unwrap();
            stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
            let mut export = [0; 10];
            stream.read_exact(&mut export).unwrap();
            assert_eq!(export[..8], SIZE.to_be_bytes());
            Self(stream)
        }

        fn send(&mut self, kind: u8, offset: u64, bytes: u32, data: &[u8]) {
            let mut request = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, kind];
            request.extend([0; 8]);
            request.extend(offset.to_be_bytes());
            request.extend(bytes.to_be_bytes());
            request.extend(data);
            self.0.write_all(&request).unwrap();
        }

        fn error(&mut self) -> u8 {
            let mut header = [0; 16];
            self.0.read_exact(&mut header).unwrap();
            header[7]
        }

        fn write(&mut self, offset: u64, data: &[u8]) -> u8 {
            self.send(1, offset, u32::try_from(data.len()).unwrap(), data);
            self.error()
        }

        fn flush(&mut self) -> u8 {
            self.send(3, 0, 0, &[]);
            self.error()
        }

        fn read(&mut self, offset: u64) -> Vec<u8> {
            self.send(0, offset, 512, &[]);
            assert_eq!(self.error(), 0);
            let mut data = vec![0; 512];
            self.0.read_exact(&mut data).unwrap();
            data
        }
    }

    fn disk(plan: &FaultyDiskPlan) -> (tempfile::TempDir, FaultyDisk, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (medium, socket) = (folder.path().join("disk0.raw"), folder.path().join("disk0.sock"));
        std::fs::File::create(&medium).unwrap().set_len(SIZE).unwrap();
        let disk = FaultyDisk::serve(&medium, &socket, plan).unwrap();
        (folder, disk, socket)
    }

    #[tokio::test]
    async fn a_machine_is_held_at_the_first_block_and_the_power_cut_takes_it() {
        let plan = FaultyDiskPlan { cache: CacheMode::Volatile, ..FaultyDiskPlan::default() };
        let (_folder, disk, socket) = disk(&plan);
        disk.power_on();
        let mut client = Client::connect(&socket);
        assert_eq!(client.write(4096, &[1; 512]), 0);
        assert_eq!(client.flush(), 0);
        disk.hold_at(StopPoint::Head);
        assert_eq!(client.write(8192, &[2; 512]), 0);
        client.send(1, 0, 512, &[3; 512]);
        disk.until_held().await;
        assert_eq!(disk.seen().heads, 1);
        assert_eq!(disk.power_cut().unwrap(), 1024);
        // A disk without power answers no request, and the connection does not break either.
        client.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let silence = client.0.read(&mut [0; 16]).unwrap_err();
        assert!(matches!(silence.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{silence}");
        disk.power_on();
        let mut client = Client::connect(&socket);
        assert_eq!([0, 4096, 8192].map(|offset| client.read(offset)[0]), [0, 1, 0]);
    }

    #[tokio::test]
    async fn a_released_machine_goes_on_and_faults_can_be_armed_and_taken_back() {
        let (_folder, disk, socket) = disk(&FaultyDiskPlan::default());
        let mut client = Client::connect(&socket);
        disk.hold_at(StopPoint::Written(512));
        client.send(1, 4096, 512, &[9; 512]);
        disk.until_held().await;
        disk.release();
        assert_eq!(client.error(), 0);
        disk.arm(DiskFault::new(FaultKind::FailWrites, 0..8192));
        assert_eq!((client.write(4096, &[1; 512]), client.write(8192, &[1; 512])), (5, 0));
        disk.disarm_all();
        disk.arm(DiskFault { bytes: 2, ..DiskFault::new(FaultKind::AlterWrites, 4100..4200) });
        assert_eq!(client.write(4096, &[1; 512]), 0);
        assert_eq!(client.read(4096)[3..7], [1, 0xfe, 0xfe, 1]);
        disk.disarm_all();
        disk.arm(DiskFault::new(FaultKind::DropWrites, 0..SIZE));
        assert_eq!((client.write(4096, &[7; 512]), client.read(4096)[0]), (0, 1));
    }
}
