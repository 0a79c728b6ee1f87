//! Deleting: the last state. A disk that was not cleaned leaves a tombstone, so that it is cleaned
//! before its next owner; then the finalizer goes, and with it the object.

use crate::host::{
    effect::{Effect, Reason},
    turn::Turn,
};

pub(super) fn step(turn: &mut Turn<'_>) -> Reason {
    let is_detached = turn.requests.detached.is_some();
    if turn.memory.disk_dirty && !is_detached {
        let disk = turn.memory.disk.as_ref().map(|disk| disk.identity().clone());
        let reason = "the host was let go before its disk was cleaned".to_owned();
        turn.effect(Effect::Tombstone { disk, reason });
    }
    turn.effect(Effect::RemoveFinalizer);
    turn.stay(turn.limits().secret_retry, "the object is let go")
}
