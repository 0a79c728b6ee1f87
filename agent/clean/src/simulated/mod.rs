//! A drive for tests: decodes the bytes of the commands that real drives get, erases a medium in memory, and disobeys
//! where a fault is set. Shares no decoder with the code under test.

mod commands;
mod large;
mod rows;
mod slow;
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_images::write::{DiskReader, WritableDisk};

use super::ladder::ErasureMethod;

pub(super) const BYTES: usize = 256 << 10;
const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimulatedDriveKind {
    Nvme,
    Ata,
    Scsi,
}

/// How a method goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MethodFault {
    Refuses,
    /// Reports success and erases nothing.
    Lies,
    /// Reports success and erases all but the last eighth.
    LiesInPart,
    /// Erases half, then reports failure; takes no reads and writes until the failure mode is left.
    Fails,
    /// Never comes to an end.
    Stalls,
}

#[derive(Clone, Debug)]
pub(super) struct SimulatedFaults {
    pub methods: BTreeMap<ErasureMethod, MethodFault>,
    /// What the drive says it knows.
    pub known: Vec<ErasureMethod>,
    pub frozen: bool,
    /// The last quarter keeps what it has, whatever is written.
    pub drops_writes: bool,
    /// Zeroing by command reports success and does nothing.
    pub drops_zeroing: bool,
    /// Status queries that a sanitize takes.
    pub polls: u32,
    /// The power goes after so many requests, once for each entry.
    pub cuts: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct SimulatedDriveState {
    pub medium: Vec<u8>,
    pub before: Vec<u8>,
    pub kind: SimulatedDriveKind,
    pub faults: SimulatedFaults,
    pub dead: bool,
    requests: u32,
    running: Option<(ErasureMethod, u32)>,
    failed: bool,
    completed: bool,
    pub enabled: bool,
    pub locked: bool,
    password: Vec<u8>,
    prepared: bool,
}

impl SimulatedDriveState {
    /// Counts a request; the power goes when the time has come.
    fn powered(&mut self) -> bool {
        self.requests += 1;
        if self.faults.cuts.last().is_some_and(|cut| self.requests > *cut) {
            self.faults.cuts.pop();
            self.dead = true;
        }
        !self.dead
    }

    fn takes_io(&self) -> bool {
        self.running.is_none() && !self.failed && !self.locked
    }

    fn fault(&self, method: ErasureMethod) -> Option<MethodFault> {
        self.faults.methods.get(&method).copied()
    }

    /// What the method leaves.
    fn wipe(&mut self, method: ErasureMethod, bytes: usize) {
        for (index, byte) in self.medium[..bytes].iter_mut().enumerate() {
            *byte = match method {
                // Another key: noise.
                ErasureMethod::SanitizeCrypto | ErasureMethod::FormatCrypto => {
                    byte.wrapping_mul(167) ^ u8::try_from(index * 31 % 251).unwrap_or(1) ^ 0x3c
                }
                ErasureMethod::SanitizeBlock => 0xff,
                ErasureMethod::SanitizeOverwrite
                | ErasureMethod::FormatUserData
                | ErasureMethod::SecureEraseEnhanced
                | ErasureMethod::SecureErase
                | ErasureMethod::WriteZeroes
                | ErasureMethod::Overwrite
                | ErasureMethod::Metadata => 0,
            };
        }
    }

    /// Ends a method, well or not. Whether it reports success.
    fn end(&mut self, method: ErasureMethod) -> bool {
        match self.fault(method) {
            None | Some(MethodFault::Refuses | MethodFault::Stalls) => self.wipe(method, BYTES),
            Some(MethodFault::Lies) => {}
            Some(MethodFault::LiesInPart) => self.wipe(method, BYTES / 8 * 7),
            Some(MethodFault::Fails) => {
                self.wipe(method, BYTES / 2);
                return false;
            }
        }
        true
    }

    /// One look at a running sanitize.
    fn tick(&mut self) {
        let Some((method, left)) = self.running else { return };
        if self.fault(method) == Some(MethodFault::Stalls) {
            return;
        }
        if left > 0 {
            self.running = Some((method, left - 1));
            return;
        }
        self.running = None;
        self.completed = self.end(method);
        self.failed = !self.completed;
    }

    /// Sectors with data that still hold what they held.
    pub(super) fn left(&self) -> usize {
        let sectors = self.medium.chunks(SECTOR).zip(self.before.chunks(SECTOR));
        sectors.filter(|(now, before)| now == before && before.iter().any(|byte| *byte != before[0])).count()
    }
}

#[derive(Clone, Debug)]
pub(super) struct SimulatedDrive(Arc<Mutex<SimulatedDriveState>>);

impl SimulatedDrive {
    /// A drive full of data, but for every fifth sector, which is blank.
    pub(super) fn new(kind: SimulatedDriveKind, faults: SimulatedFaults) -> Self {
        let mut noise = 0x2545_f491_4f6c_dd1d_u64;
        let medium: Vec<u8> = (0..BYTES)
            .map(|index| {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                if index / SECTOR % 5 == 4 { 0 } else { noise.to_le_bytes()[3] }
            })
            .collect();
        Self(Arc::new(Mutex::new(SimulatedDriveState {
            before: medium.clone(),
            medium,
            kind,
            faults,
            dead: false,
            requests: 0,
            running: None,
            failed: false,
            completed: false,
            enabled: false,
            locked: false,
            password: Vec::new(),
            prepared: false,
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SimulatedDriveState> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The agent was killed and comes back; the drive had power all the time.
    pub(super) fn reconnect(&self) {
        let mut state = self.state();
        (state.dead, state.requests) = (false, 0);
    }

    /// A drive with a password wakes locked.
    pub(super) fn power_on(&self) {
        let mut state = self.state();
        (state.dead, state.requests, state.prepared) = (false, 0, false);
        state.locked = state.enabled;
    }
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(nix::libc::EIO)
}

impl WritableDisk for SimulatedDrive {
    fn size_bytes(&self) -> u64 {
        BYTES as u64
    }

    fn block_bytes(&self) -> u32 {
        512
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let was_dead = state.dead;
        let is_powered = state.powered();
        if was_dead || !state.takes_io() {
            return Err(gone());
        }
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let kept = if state.faults.drops_writes { BYTES / 4 * 3 } else { BYTES };
        // A write under which the power goes leaves its first half, in whole sectors.
        let length = if is_powered { data.len() } else { data.len() / 2 / SECTOR * SECTOR };
        let end = (at + length).min(kept);
        if at < end {
            state.medium[at..end].copy_from_slice(&data[..end - at]);
        }
        if is_powered { Ok(()) } else { Err(gone()) }
    }

    fn zero_at(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let drops = self.state().faults.drops_zeroing;
        if drops {
            return if self.state().powered() { Ok(()) } else { Err(gone()) };
        }
        self.write_at(offset, &vec![0; usize::try_from(bytes).map_err(io::Error::other)?])
    }

    fn flush(&self) -> io::Result<()> {
        if self.state().powered() { Ok(()) } else { Err(gone()) }
    }

    fn reader(&self) -> io::Result<Box<dyn DiskReader>> {
        Ok(Box::new(self.clone()))
    }
}

impl DiskReader for SimulatedDrive {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        if state.dead || !state.takes_io() {
            return Err(gone());
        }
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        buffer.copy_from_slice(&state.medium[at..at + buffer.len()]);
        Ok(())
    }
}
