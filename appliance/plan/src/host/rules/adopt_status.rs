//! A host of which only its status is known goes on from where that says it was: its OS is not installed again, and
//! not let go as if nothing had been written.
//!
//! - *Moved* here, as `clusterctl move` does it: the annotation brings the status (upstream restores it, too, and into
//!   an empty one only).
//! - *Forgotten* here: the host has a status of this appliance, and its journal is lost, whatever the reason.
//!
//! What the status does not say stays unknown: which disk holds the OS, and whether the OS reports itself. Such a disk
//! is not cleaned, because nothing names it; a deletion leaves its tombstone. Of a forgotten host it is not known what
//! was written before either, so its disks count as written. The disks of a moved host bear marks of the store that it
//! comes from, which are no other host's ([`super::freeze`]). The BMC's credentials are tried again, since a Secret
//! has another version here.

use firesteel_facts::EventReason;
use firesteel_resources::BareMetalHostStatus;
use firesteel_resources::bare_metal_host::{ErrorType, FINALIZER, ProvisioningState as Word, annotations};
use firesteel_resources::host_journal::RequestOutcome;

use crate::host::model::{HostEffect, HostReason, HostState, InstalledSystem};
use crate::host::turn::StepDraft;

/// The origin of a status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StatusOrigin {
    Moved,
    Forgotten,
}

/// Takes a status over where nothing is known of the host yet; the annotation is outdated elsewhere, and only
/// removed. One that cannot be read holds the host up, unless it is to go.
pub(crate) fn step(turn: &mut StepDraft<'_>) -> Option<HostReason> {
    let brought = annotations::moved_status(&turn.seen.host.metadata);
    let is_known = !turn.memory.id.is_empty() || turn.memory.state != HostState::New;
    if !is_known {
        // What is of here is newer than what was brought.
        let own = turn.seen.host.status.clone().filter(|own| state_of(turn, own).is_some());
        match (own, &brought) {
            (Some(own), _) => return adopt(turn, own, StatusOrigin::Forgotten),
            (None, Some(Ok(status))) => return adopt(turn, status.clone(), StatusOrigin::Moved),
            // A host that began again would lose its OS.
            (None, Some(Err(why))) if !turn.is_deleting() => {
                let key = annotations::STATUS_OF;
                let text = format!("metadata.annotations[{key}] {why}: correct it, or remove it to begin again");
                return Some(turn.stuck(ErrorType::Registration, text));
            }
            (None, Some(Err(_))) => turn.memory.disk_dirty = true,
            (None, None) => {}
        }
    }
    if brought.is_some() {
        let text = "the status is not taken over: the host has a past of its own here";
        turn.answer(annotations::STATUS_OF, RequestOutcome::Refused, text);
        turn.remove_annotation(annotations::STATUS_OF);
    }
    None
}

fn adopt(turn: &mut StepDraft<'_>, status: BareMetalHostStatus, origin: StatusOrigin) -> Option<HostReason> {
    if annotations::moved_status(&turn.seen.host.metadata).is_some() {
        turn.remove_annotation(annotations::STATUS_OF);
    }
    let Some(state) = state_of(turn, &status) else {
        let text = "the host had not begun where it comes from, and begins here";
        turn.answer(annotations::STATUS_OF, RequestOutcome::Done, text);
        return None;
    };
    let has_disk = matches!(state, HostState::Provisioned | HostState::Provisioning | HostState::Deprovisioning);
    turn.memory.id = if status.provisioning.id.is_empty() { turn.guid() } else { status.provisioning.id };
    turn.open_attempt();
    let metadata = &turn.seen.host.metadata;
    if !metadata.is_deleting() && !metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        turn.effect(HostEffect::AddFinalizer);
    }
    turn.memory.disk_dirty =
        has_disk || (origin == StatusOrigin::Forgotten && state != HostState::ExternallyProvisioned);
    turn.memory.was_moved = origin == StatusOrigin::Moved;
    turn.memory.prepared_hints = Some(status.provisioning.root_device_hints.unwrap_or_default());
    turn.memory.last_attempted_image = status.last_attempted_image.or(status.provisioning.image.clone());
    turn.memory.provision_failures = status.provisioning_fail_count;
    let written_at = status.operation_history.provision.end.unwrap_or(turn.now);
    turn.memory.history = status.operation_history;
    let image = status.provisioning.image.filter(|_| has_disk);
    turn.memory.applied = image.map(|image| InstalledSystem::of_others(image, 0, written_at));
    let word = state.word();
    let text = match origin {
        StatusOrigin::Moved => {
            let text = format!("the host was moved here and is {word}");
            turn.answer(annotations::STATUS_OF, RequestOutcome::Done, &text);
            turn.event(EventReason::StatusRestored, text.clone());
            text
        }
        StatusOrigin::Forgotten => {
            let text = format!(
                "what was known of the host is lost, and by its status it is {word}: which disks were written is not \
                 known, so all count as written"
            );
            let answer = format!("the status that was brought is not taken over: {text}");
            turn.answer(annotations::STATUS_OF, RequestOutcome::Refused, &answer);
            turn.warn(EventReason::StatusRestored, text.clone());
            text
        }
    };
    Some(turn.go(state, format!("{text}, as its status says")))
}

/// The state in which a host goes on; `None` for one that had not begun. One that was on its way out elsewhere is not
/// deleted here: an image that its status names is still on its disk, and without one there is nothing to go on with.
fn state_of(turn: &StepDraft<'_>, status: &BareMetalHostStatus) -> Option<HostState> {
    Some(match status.provisioning.state {
        Word::New => return None,
        Word::Unmanaged => HostState::Unmanaged,
        Word::Registering => HostState::Registering,
        Word::Inspecting => HostState::Inspecting,
        Word::Preparing => HostState::Preparing,
        Word::Available => HostState::Available,
        Word::Provisioning => HostState::Provisioning,
        Word::Provisioned => HostState::Provisioned,
        Word::ExternallyProvisioned => HostState::ExternallyProvisioned,
        Word::Deprovisioning => HostState::Deprovisioning,
        Word::PoweringOff | Word::Deleting if status.provisioning.image.is_some() => HostState::Deprovisioning,
        Word::PoweringOff if turn.is_deleting() => HostState::PoweringOff,
        Word::Deleting if turn.is_deleting() => HostState::Deleting,
        // The word says nothing; an image that the status names is still on the disk.
        Word::Foreign if status.provisioning.image.is_some() => HostState::Provisioned,
        Word::PoweringOff | Word::Deleting | Word::Foreign => return None,
    })
}
