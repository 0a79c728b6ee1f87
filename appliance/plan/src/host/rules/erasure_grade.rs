//! What an erasure came to, on its way into the signed receipts. Pure.
//!
//! ```text
//!   receipts of an erasure that claims a grade ─► signed as unverified, for its end is not known
//!   its end is known ─► HostMemory.verdict ─► HostEffect::GradeReceipts in each step, until the receipts say it
//! ```

use crate::host::model::{HostEffect, WipeVerdict};
use crate::host::turn::StepDraft;

/// Has the signed receipts say it.
pub(crate) fn give(turn: &mut StepDraft<'_>, verdict: WipeVerdict) {
    turn.effect(HostEffect::GradeReceipts(verdict.clone()));
    turn.memory.verdict = Some(verdict);
}

/// Has the receipts say it again, unless they do: the effect may have been lost with the process.
pub(crate) fn notice(turn: &mut StepDraft<'_>) {
    let Some(verdict) = turn.memory.verdict.clone() else { return };
    if turn.seen.graded == Some(verdict.mark()) {
        turn.memory.verdict = None;
    } else {
        turn.effect(HostEffect::GradeReceipts(verdict));
    }
}
