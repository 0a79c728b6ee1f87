//! Preparing: bring the host to what its spec wants before an OS comes. The hints are noted as
//! applied; RAID sets and firmware settings are not changed yet (their fields warn at admission),
//! and metadata is cleared by the installation itself, on the disk that its plan names.
//!
//! A host whose owner changed since its disks were written is cleaned here, before anybody can have it. One that is
//! deleted meanwhile is cleaned to the end, or until that failed too often: a reset would leave a disk half erased.
//! One that is declared externally provisioned keeps what it has.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;

use crate::{
    disk::NextOwner,
    host::{
        model::{
            effect::{EventSeverity, HostReason},
            memory::HostState,
        },
        rules::{cleaning, consumer_data, preconditions, tombstone},
        turn::StepDraft,
    },
};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> HostReason {
    preconditions::prefetch(turn);
    let mut text = "there is nothing to prepare".to_owned();
    if turn.seen.host.spec.externally_provisioned {
        if let Err(reason) = cleaning::stop(turn, "spec.externallyProvisioned keeps what is on the disks") {
            return reason;
        }
        return turn.go(HostState::Available, "nothing is prepared: somebody else installed its OS");
    }
    let next = consumer_data::next_owner(turn);
    if let Err(reason) = cleaning::stop_undue(turn, next) {
        return reason;
    }
    // An erasure whose end is awaited comes to it, whoever gets the host.
    if next == NextOwner::Another || turn.memory.wipe.is_some() {
        let targets = consumer_data::targets(&turn.memory, next);
        if let Some(reason) = cleaning::given_up(turn) {
            return reason;
        }
        match cleaning::run(turn, next, &targets, ErrorType::Preparation) {
            Err(reason) => return reason,
            Ok(cleaned) => text = cleaned,
        }
        if next == NextOwner::Another {
            consumer_data::pass_on(turn);
        }
        // Where the owner's policy asks for less than all, that is enough to go on, and no proof: it stays told.
        tombstone::keep_as_notice(turn);
        turn.memory.disk_dirty = false;
        turn.memory.plan = None;
        if turn.memory.cleaned.is_some() {
            turn.event(EventSeverity::Normal, EventReason::CleaningComplete, text.clone());
        }
    }
    if turn.is_deleting() {
        return turn.go(HostState::PoweringOff, text);
    }
    turn.memory.prepared_hints = Some(turn.seen.host.spec.root_device_hints.clone().unwrap_or_default());
    turn.go(HostState::Available, text)
}
