//! What a step wants done. Effects are idempotent and may be carried out more than once; their
//! results come back as observations, never as transitions.

use std::panic::Location;

use firesteel_facts::EventReason;
use firesteel_resources::host_journal::RequestAnswers;
use firesteel_resources::{HardwareDetails, Image};
use jiff::SignedDuration;

use crate::disk::DiskIdentity;
use crate::host::model::erasure::WipeVerdict;
use crate::host::model::memory::HostMemory;
use crate::host::model::orders::{BmcCall, PlanKind};

/// The outcome of one step. The caller stores `memory`, publishes the boot entry and the plan
/// that follow from it ([`crate::boot_entry`], [`crate::current_plan`]), and only then runs the
/// effects.
#[derive(Clone, Debug)]
pub struct HostStep {
    pub memory: HostMemory,
    /// What became of requests, with those that were answered before; stored with the memory.
    pub answers: RequestAnswers,
    pub effects: Vec<HostEffect>,
    /// Step again after this long at the latest; zero means at once. `None`: when something changes.
    pub wake: Option<SignedDuration>,
    pub reason: HostReason,
    pub events: Vec<StepEvent>,
}

/// Why the host is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostReason {
    pub text: String,
    /// The source line that decided.
    pub location: &'static Location<'static>,
}

impl HostReason {
    #[track_caller]
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: bounded(text.into()), location: Location::caller() }
    }
}

/// Longest text that is kept with a host: parts of it may come from a Secret, a BMC or an agent.
pub(crate) const TEXT_BYTES_MAX: usize = 2048;

/// The text, or its beginning and `…`.
pub(crate) fn bounded(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX - '…'.len_utf8()));
        text.push('…');
    }
    text
}

/// An event for the object's event list and the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepEvent {
    pub kind: EventSeverity,
    pub reason: EventReason,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSeverity {
    Normal,
    Warning,
}

#[derive(Clone, Debug, PartialEq)]
pub enum HostEffect {
    AddFinalizer,
    /// Lets the object go.
    RemoveFinalizer,
    /// A one-shot request was taken over into the memory. Another value that came since is another request, and stays.
    RemoveAnnotation {
        key: String,
        value: String,
    },
    Bmc(BmcCall),
    /// Import the image unless it is there or being fetched; a failed import starts again.
    FetchImage {
        image: Image,
    },
    /// Wake the agent's long poll; the plan itself is [`crate::current_plan`] of the memory.
    IssuePlan {
        attempt: u64,
        number: u32,
        plan: PlanKind,
    },
    /// Tells an agent of this attempt, if one reports, to stop at its next safe point and reboot.
    AbortAgent {
        attempt: u64,
        reason: String,
    },
    /// Tells the discovery agent on this host's MACs to reboot: it comes back with the host's token.
    RebootDiscoveryAgent {
        reason: String,
    },
    /// Stores the inspection of this plan as the host's hardware record and its HardwareData.
    SaveHardware {
        attempt: u64,
        plan: u32,
    },
    /// Stores what the BMC said of its machine as HardwareData, marked as such, unless an agent's is there.
    SaveBmcHardware,
    /// Stores what the owner says of the hardware as HardwareData, unless there is one.
    SupplyHardware {
        details: Box<HardwareDetails>,
    },
    /// Writes the outcome of an erasure into its signed receipts.
    GradeReceipts(WipeVerdict),
    /// The disk that a tombstone of this machine names was cleaned: remove it.
    ForgetTombstone,
    /// Keeps the hardware's identity: its disk was not cleaned and must be before its next owner.
    Tombstone {
        disk: Option<DiskIdentity>,
        /// What is left there is a tenant's.
        of_tenant: bool,
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_beyond_its_bound_and_between_characters() {
        let of = |bytes: usize| "x".repeat(bytes);
        for (text, expected) in [
            (String::new(), String::new()),
            (of(2047), of(2047)),
            (of(2048), of(2048)),
            (of(2049), of(2045) + "…"),
            (of(2044) + "ééé", of(2044) + "…"),
            (of(9000), of(2045) + "…"),
        ] {
            let cut = bounded(text);
            assert!(cut.len() <= TEXT_BYTES_MAX, "{}", cut.len());
            assert_eq!(cut, expected);
        }
    }
}
