//! Deleting: the last state. A disk that was not cleaned leaves a tombstone, so that it is cleaned
//! before its next owner, unless the host was detached with its OS on it; then the finalizer goes, and with it
//! the object.

use firesteel_resources::bare_metal_host::FINALIZER;

use crate::host::model::HostEffect;
use crate::host::rules::consumer_data;
use crate::host::turn::{StateStep, StepDraft};

pub(crate) fn step(turn: &mut StepDraft<'_>) -> StateStep {
    if turn.memory.leaves_data() {
        let disk = match &turn.memory.tenant {
            _ if turn.memory.holds_unknown => None,
            // A consumer writes to all disks that it finds.
            Some(_) => consumer_data::only_disk(&turn.memory).cloned(),
            None => turn.memory.disk.as_ref().map(|disk| disk.identity().clone()),
        };
        let reason = "the host was let go before its disk was cleaned".to_owned();
        let of_tenant = turn.memory.tenant.is_some() || turn.memory.unknown_of_tenant;
        turn.effect(HostEffect::Tombstone { disk, of_tenant, reason });
    }
    turn.effect(HostEffect::RemoveFinalizer);
    let others = turn.seen.host.metadata.finalizers.iter().filter(|name| *name != FINALIZER);
    let others: Vec<&str> = others.map(String::as_str).collect();
    let text = match others.as_slice() {
        [] => "the object is let go".to_owned(),
        others => {
            format!("the object is let go; it stays until its other finalizers are removed: {}", others.join(", "))
        }
    };
    Ok(turn.wait_in_state(turn.limits().secret_retry, text))
}
