//! The summary of all sets: two conditions, as upstream has them, with the names that upstream leaves out, and a list
//! of those that are left alone.

use std::collections::BTreeMap;

use firesteel_resources::condition::Condition;
use firesteel_resources::machine_configuration::{SKIPPED_MAX, SkippedBootImage};

use super::{SetDecision, SetKey, SetKind};

pub const PROGRESSING: &str = "BootImageUpdateProgressing";
pub const DEGRADED: &str = "BootImageUpdateDegraded";

/// Sets that one message names; the list beside it names more.
const NAMES_MAX: usize = 50;

/// What woke the step. Its word is the conditions' reason (upstream).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    #[default]
    Started,
    PolicyChanged,
    CatalogueChanged,
    GroupChanged,
    MachineSetChanged,
    StubChanged,
    FleetChanged,
    UpgradeChanged,
    Retried,
}

impl Trigger {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Started => "Started",
            Self::PolicyChanged => "MachineConfigurationChanged",
            Self::CatalogueChanged => "BootImageStreamChanged",
            Self::GroupChanged => "HostGroupChanged",
            Self::MachineSetChanged => "MachineSetChanged",
            Self::StubChanged => "StubChanged",
            Self::FleetChanged => "HostsChanged",
            Self::UpgradeChanged => "UpgradeChanged",
            Self::Retried => "Retried",
        }
    }
}

#[derive(Default)]
struct SetCounts {
    done: usize,
    total: usize,
    skipped: usize,
}

impl SetCounts {
    fn of<'a>(decisions: impl Iterator<Item = &'a SetDecision>) -> Self {
        let mut counts = Self::default();
        for decision in decisions {
            let (done, total, skipped) = match decision {
                SetDecision::NotSelected => (0, 0, 0),
                SetDecision::Done => (1, 1, 0),
                SetDecision::Skip(skip) if skip.reason.is_counted() => (0, 1, 1),
                SetDecision::Skip(_) => (0, 0, 0),
                SetDecision::Patch { .. } | SetDecision::Wait(_) | SetDecision::Degraded(_) => (0, 1, 0),
            };
            counts.done += done;
            counts.total += total;
            counts.skipped += skipped;
        }
        counts
    }
}

/// `retried`: sets that are patched now after failures, each with what went wrong; who reads the condition is not to
/// see them well for the moment of a try.
pub(super) fn conditions(
    decisions: &BTreeMap<SetKey, SetDecision>,
    retried: &BTreeMap<SetKey, String>,
    trigger: Trigger,
    generation: i64,
) -> [Condition; 2] {
    let is_under_way = |decision: &SetDecision| matches!(decision, SetDecision::Patch { .. } | SetDecision::Wait(_));
    let progressing = decisions.values().any(is_under_way);
    let condition = |type_, is_so: bool, message: String| {
        Condition::new(type_, is_so, trigger.word(), message).observed(generation)
    };
    let again = |key: &SetKey| retried.get(key).map(|why| format!("{key}: {why}"));
    let errors: Vec<String> =
        decisions.iter().filter_map(|(key, decision)| degraded(key, decision).or_else(|| again(key))).collect();
    let message = if errors.is_empty() {
        "0 degraded".to_owned()
    } else {
        format!("{} degraded: {}", errors.len(), joined(&errors))
    };
    [condition(PROGRESSING, progressing, progress(decisions)), condition(DEGRADED, !errors.is_empty(), message)]
}

fn progress(decisions: &BTreeMap<SetKey, SetDecision>) -> String {
    let of = |kind| decisions.iter().filter(move |(key, _)| key.kind == kind).map(|(_, decision)| decision);
    let mut parts: Vec<String> = SetKind::ALL
        .map(|kind| {
            let SetCounts { done, total, skipped } = SetCounts::of(of(kind));
            format!("{}.{}: reconciled {done} of {total}, {skipped} skipped", kind.resource(), kind.api_group())
        })
        .into();
    // Upstream counts them, too; there are none here.
    parts.push("controlplanemachinesets.machine.openshift.io: reconciled 0 of 0, 0 skipped".to_owned());
    let named = |what: &str, lines: Vec<String>| (!lines.is_empty()).then(|| format!("{what}: {}", joined(&lines)));
    let waiting = decisions.iter().filter_map(|(key, decision)| {
        if let SetDecision::Wait(why) = decision { Some(format!("{key} ({why})")) } else { None }
    });
    let skips = skips(decisions).map(|(key, skip)| format!("{key} ({}: {})", skip.reason.word(), skip.message));
    let counts = parts.join(" | ");
    let names = [named("waiting", waiting.collect()), named("skipped", skips.collect())];
    [Some(counts)].into_iter().chain(names).flatten().collect::<Vec<_>>().join("; ")
}

fn degraded(key: &SetKey, decision: &SetDecision) -> Option<String> {
    if let SetDecision::Degraded(why) = decision { Some(format!("{key}: {why}")) } else { None }
}

fn skips(decisions: &BTreeMap<SetKey, SetDecision>) -> impl Iterator<Item = (&SetKey, &super::SkippedSet)> {
    decisions.iter().filter_map(
        |(key, decision)| {
            if let SetDecision::Skip(skip) = decision { Some((key, skip)) } else { None }
        },
    )
}

fn joined(lines: &[String]) -> String {
    let named = lines.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join("; ");
    match lines.len().checked_sub(NAMES_MAX) {
        None | Some(0) => named,
        Some(more) => format!("{named}; and {more} more"),
    }
}

/// Each set that is left alone, up to a bound.
pub(super) fn skipped(decisions: &BTreeMap<SetKey, SetDecision>) -> Vec<SkippedBootImage> {
    let skipped = skips(decisions).take(SKIPPED_MAX).map(|(key, skip)| SkippedBootImage {
        resource: key.kind.resource().to_owned(),
        api_group: key.kind.api_group().to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        reason: skip.reason.word().to_owned(),
        message: skip.message.clone(),
    });
    skipped.collect()
}
