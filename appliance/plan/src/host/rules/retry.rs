//! Another try at once, by the word of a person: something was repaired that no observation shows.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::host_journal::RequestOutcome;

use crate::host::model::{HostMemory, ImageInputs, PendingErasure, PlanKind};
use crate::host::rules::{claimants, identity, path_binding, preconditions};
use crate::host::turn::{AgentPresence, StepDraft};

/// Tries again, or says that there is nothing that could be tried.
pub(crate) fn take(turn: &mut StepDraft<'_>) {
    if turn.take_request(annotations::RETRY).is_none() {
        // One whose removal was lost was carried out already.
        turn.requests.retry = false;
        return;
    }
    if !has_something(turn) {
        turn.requests.retry = false;
        let state = turn.memory.state.word();
        let host = &turn.seen.host.metadata.name;
        let text = format!(
            "there is nothing to try again: the host is {state}, and has no error; `firesteel describe host {host}` \
             shows what it waits for"
        );
        turn.answer(annotations::RETRY, RequestOutcome::Refused, &text);
        turn.warn(EventReason::RetryRefused, text);
        return;
    }
    let failure = turn.memory.failure.as_ref();
    let failure = failure.map(|failure| format!(", and its error is forgotten ({})", failure.message));
    path_binding::ask(turn);
    claimants::retry(turn);
    turn.memory.failure = None;
    turn.memory.provision_failures = 0;
    turn.memory.retried_at = Some(turn.now);
    // An inspection that is done already is not the one that is wanted now.
    turn.memory.plan = turn.memory.plan.take().filter(|issued| issued.plan != PlanKind::Inspect);
    turn.memory.bmc.refused_credentials = None;
    preconditions::fetch_again(turn);
    if turn.presence() != AgentPresence::Alive && turn.has_bmc() {
        turn.memory.boot = None;
        turn.memory.clean_boot = None;
    }
    let when = if turn.memory.detached.is_some() { "when it is attached again" } else { "now" };
    let text = turn.with_obstacles(&format!("the host is tried again {when}{}", failure.unwrap_or_default()));
    turn.answer(annotations::RETRY, RequestOutcome::Accepted, &text);
}

/// Says whether another try can change anything.
fn has_something(turn: &StepDraft<'_>) -> bool {
    let memory = &turn.memory;
    let is_image_lost = matches!(turn.seen.image, ImageInputs::Failed { .. });
    let is_agent_silent = turn.presence() == AgentPresence::Quiet;
    memory.state.is_working()
        || has_obstacle(memory)
        || identity::change(memory, turn.seen).is_some()
        || is_image_lost
        || is_agent_silent
        || path_binding::is_drifted(turn)
}

/// Says whether something holds the host up, or has failed.
fn has_obstacle(memory: &HostMemory) -> bool {
    memory.failure.is_some()
        || memory.provision_failures > 0
        || memory.claimants.is_some()
        || memory.frozen.is_some()
        || memory.restored.is_some()
        || memory.boot.is_some()
        || memory.bmc.refused_credentials.is_some()
        || memory.wipe.as_ref().is_some_and(PendingErasure::is_held)
}
