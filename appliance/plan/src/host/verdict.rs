//! What an erasure came to, on its way into the signed receipts. Pure.
//!
//! ```text
//!   receipts of an erasure that claims a grade ─► signed as unverified, for its end is not known
//!   its end is known ─► HostMemory.verdict ─► Effect::GradeReceipts in each step, until the receipts say it
//! ```

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::host::{effect::Effect, turn::Turn};

/// What an erasure came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WipeVerdict {
    pub attempt: u64,
    /// The newest plan that erased for it.
    pub plan: u32,
    /// What was not seen; empty where the grades of its receipts are proven.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
    /// When the BMC showed the host off before it booted for it, and after its agent had left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_after: Option<Timestamp>,
}

impl WipeVerdict {
    /// Names the erasure that it is of.
    #[must_use]
    pub fn mark(&self) -> (u64, u32) {
        (self.attempt, self.plan)
    }
}

/// Has the signed receipts say it.
pub(super) fn give(turn: &mut Turn<'_>, verdict: WipeVerdict) {
    turn.effect(Effect::GradeReceipts(verdict.clone()));
    turn.memory.verdict = Some(verdict);
}

/// Has the receipts say it again, unless they do: the effect may have been lost with the process.
pub(super) fn notice(turn: &mut Turn<'_>) {
    let Some(verdict) = turn.memory.verdict.clone() else { return };
    if turn.seen.graded == Some(verdict.mark()) {
        turn.memory.verdict = None;
    } else {
        turn.effect(Effect::GradeReceipts(verdict));
    }
}
