//! Preparing: bring the host to what its spec wants before an OS comes. The hints are noted as
//! applied; RAID sets and firmware settings are not changed yet (their fields warn at admission),
//! and metadata is cleared by the installation itself, on the disk that its plan names.
//!
//! A host whose owner changed since its disks were written is cleaned here, before it gets another owner. One that is
//! deleted meanwhile is cleaned to the end, or until that failed too often: a reset would leave a disk half erased.
//! One that is declared externally provisioned keeps what it has.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;

use crate::disk::NextOwner;
use crate::host::model::{HostState, PendingErasure};
use crate::host::rules::{bmc_only, cleaning, consumer_data, preconditions, tombstone};
use crate::host::turn::{StateStep, StepDraft};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    preconditions::prefetch(turn);
    let mut text = "there is nothing to prepare".to_owned();
    if turn.seen.host.spec.externally_provisioned {
        cleaning::stop(turn, "spec.externallyProvisioned keeps what is on the disks")?;
        return Ok(turn.go(HostState::Available, "nothing is prepared: its OS was not installed from here"));
    }
    let next = consumer_data::next_owner(turn);
    cleaning::stop_undue(turn, next)?;
    let is_bmc_only = bmc_only::cause(&turn.memory, turn.seen, turn.now).is_some();
    if is_bmc_only && next == NextOwner::Another && turn.memory.wipe.is_none() && !turn.is_deleting() {
        return bmc_only::keep_power(turn, "waiting for the erasure of its disks");
    }
    // An erasure whose end is awaited comes to it, whatever the next owner.
    if next == NextOwner::Another || turn.memory.wipe.is_some() {
        let targets = consumer_data::targets(&turn.memory, next);
        let cleaned = cleaning::run(turn, next, &targets, ErrorType::Preparation);
        let is_held = turn.memory.wipe.as_ref().is_some_and(PendingErasure::is_held);
        if is_bmc_only && is_held && cleaned.is_err() && turn.has_bmc() && !turn.is_deleting() {
            // A person decides on the erasure, however long that takes.
            let (Ok(_) | Err(_)) = bmc_only::keep_power(turn, "the erasure is held");
        }
        text = cleaned?;
        if next == NextOwner::Another {
            consumer_data::pass_on(turn);
        }
        // If the owner's policy asks for less than all, that is enough to go on, but no proof: it is still shown.
        tombstone::keep_as_notice(turn);
        turn.memory.disk_dirty = false;
        turn.memory.plan = None;
        if turn.memory.cleaned.is_some() {
            turn.event(EventReason::CleaningComplete, text.clone());
        }
    }
    if turn.is_deleting() {
        return Ok(turn.go(HostState::PoweringOff, text));
    }
    turn.memory.prepared_hints = Some(turn.seen.host.spec.root_device_hints.clone().unwrap_or_default());
    Ok(turn.go(HostState::Available, text))
}
