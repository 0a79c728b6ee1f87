//! Preparing: bring the host to what its spec wants before an OS comes. The hints are noted as
//! applied; RAID sets and firmware settings are not changed yet (their fields warn at admission),
//! and metadata is cleared by the installation itself, on the disk that its plan names.

use crate::host::{checks, effect::Reason, memory::State, turn::Turn};

pub(super) fn step(turn: &mut Turn<'_>) -> Reason {
    checks::prefetch(turn);
    turn.memory.prepared_hints = Some(turn.seen.host.spec.root_device_hints.clone().unwrap_or_default());
    turn.go(State::Available, "there is nothing to prepare")
}
