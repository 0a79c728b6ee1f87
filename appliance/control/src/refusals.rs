//! What an agent is refused with.

use firesteel_kube::Status;
use firesteel_wire::{RefusalReason, RefusalReply};

/// Refuses with a reason and words for the agent's console.
pub(crate) fn refusal(reason: RefusalReason, message: &str) -> RefusalReply {
    RefusalReply { reason, message: message.to_owned() }
}

/// Refuses because the store failed; the agent asks again.
pub(crate) fn busy(status: Status) -> RefusalReply {
    tracing::error!(error = %status.message, "could not store what an agent said; it asks again");
    refusal(RefusalReason::Busy, "the appliance could not store this: try again")
}
