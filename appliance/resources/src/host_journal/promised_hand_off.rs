//! What an OS is to be handed, by the digests of its files: kept before the agent gets the plan, so that its receipt
//! can be held against it. The contents are kept nowhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::HostJournalStatus;

/// Compositions of one plan that are kept, the newest last. A plan is composed again when the appliance starts again
/// before the agent has it; tokens and times in its files differ then.
pub const PROMISES_MAX: usize = 4;

/// Files by the form in which the OS may be handed them, as `boot_partition`.
pub type PromisedForms = BTreeMap<String, PromisedForm>;

/// What one plan to write promises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromisedHandOff {
    pub attempt: u64,
    pub plan: u32,
    /// The compositions, at most [`PROMISES_MAX`]. The agent got one of them.
    pub composed: Vec<PromisedForms>,
}

/// One form of a hand-off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromisedForm {
    pub files: Vec<HandedFile>,
    /// Kernel arguments are set as well.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub arguments: bool,
}

/// A file by its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HandedFile {
    pub path: String,
    pub bytes: u64,
    /// Hexadecimal.
    pub sha256: String,
}

impl HostJournalStatus {
    /// Keeps what a plan promises, beside what the same plan promised before.
    pub fn promise(&mut self, attempt: u64, plan: u32, forms: PromisedForms) {
        let same = self.promised.take().filter(|promised| (promised.attempt, promised.plan) == (attempt, plan));
        let mut promised = same.unwrap_or(PromisedHandOff { attempt, plan, composed: Vec::new() });
        if !promised.composed.contains(&forms) {
            promised.composed.push(forms);
        }
        let excess = promised.composed.len().saturating_sub(PROMISES_MAX);
        promised.composed.drain(..excess);
        self.promised = Some(promised);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compositions_of_one_plan_stand_together_and_are_bounded() {
        let forms = |digit: u8| {
            let file = HandedFile { path: "a".into(), bytes: 1, sha256: digit.to_string() };
            PromisedForms::from([("no_cloud".to_owned(), PromisedForm { files: vec![file], arguments: false })])
        };
        let mut status = HostJournalStatus::default();
        let composed =
            |status: &HostJournalStatus| status.promised.clone().map(|promised| promised.composed).unwrap_or_default();
        status.promise(1, 2, forms(0));
        status.promise(1, 2, forms(0));
        assert_eq!(composed(&status), [forms(0)], "the same again is the same");
        (1..=PROMISES_MAX as u8).for_each(|digit| status.promise(1, 2, forms(digit)));
        assert_eq!(composed(&status), [forms(1), forms(2), forms(3), forms(4)]);
        status.promise(1, 3, forms(9));
        assert_eq!(composed(&status), [forms(9)], "another plan promises for itself");
    }
}
