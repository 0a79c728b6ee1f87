//! What is kept of an erasure until its end is known, and what it came to: see [`crate::host::rules::erasure_end`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::disk::{CleaningMethod, DiskIdentity};

/// What receipts say was erased, and the words for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErasureSummary {
    pub method: CleaningMethod,
    pub disks: Vec<DiskIdentity>,
    /// No disk that could be cleaned is left out.
    pub is_all: bool,
    /// All data of all disks that Firesteel would clean.
    pub is_whole: bool,
    /// Words for an erasure of which all observations held.
    pub proven: String,
    /// Words for one of which some did not: what the agent says, without a grade.
    pub claimed: String,
}

/// An erasure that claims a grade and whose end is not seen yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingErasure {
    pub attempt: u64,
    /// The plan by which the agent switches the host off; the newest one where it need not.
    pub plan: u32,
    pub since: Timestamp,
    pub erased: ErasureSummary,
    /// When the BMC was last asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
    /// What was not seen; empty while the end is waited for. With it the host is held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
    /// When a person said that it is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Timestamp>,
}

impl PendingErasure {
    /// Names the erasure, for the request that accepts it.
    #[must_use]
    pub fn mark(&self) -> String {
        format!("{}/{}", self.attempt, self.plan)
    }

    /// Says whether it is known to be unverified; then it may wait for a person.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.unverified.is_empty()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_erasure_is_named_by_its_boot_and_plan_and_held_for_what_was_not_seen() {
        let erased = ErasureSummary {
            method: CleaningMethod::Full,
            disks: Vec::new(),
            is_all: true,
            is_whole: true,
            proven: "erased".into(),
            claimed: "erased, as its agent says".into(),
        };
        let at = Timestamp::UNIX_EPOCH;
        for unverified in [Vec::new(), vec!["the host was not seen off".to_owned()]] {
            let is_held = !unverified.is_empty();
            let pending = PendingErasure {
                attempt: 7,
                plan: 3,
                since: at,
                erased: erased.clone(),
                asked_at: None,
                unverified: unverified.clone(),
                accepted_at: None,
            };
            assert_eq!((pending.mark().as_str(), pending.is_held()), ("7/3", is_held));
            let verdict = WipeVerdict { attempt: 7, plan: 3, unverified, off_before: None, off_after: Some(at) };
            assert_eq!(verdict.mark(), (7, 3));
        }
    }
}
