//! Rule 4: the architecture of the machines of a set. Its spec or an annotation says it; a fleet of one architecture
//! needs neither.

use std::collections::BTreeSet;

use firesteel_facts::Architecture;
use firesteel_resources::host_group::{ARCHITECTURE_ANNOTATION, CAPACITY_LABELS_ANNOTATION};

use super::{PolicySet, SetDecision, SkipReason, SkippedSet};

/// The label in the autoscaler's annotation.
const ARCHITECTURE_LABEL: &str = "kubernetes.io/arch";

/// What is said of a set's architecture, and where.
fn declared_architectures(set: &PolicySet) -> Vec<(&'static str, &str)> {
    let capacity = set.annotations.get(CAPACITY_LABELS_ANNOTATION).and_then(|labels| {
        let pairs = labels.split(',').filter_map(|pair| pair.trim().split_once('='));
        let mut architectures = pairs.filter(|(name, _)| name.trim() == ARCHITECTURE_LABEL);
        architectures.next().map(|(_, value)| (CAPACITY_LABELS_ANNOTATION, value.trim()))
    });
    let own = set.annotations.get(ARCHITECTURE_ANNOTATION).map(|value| (ARCHITECTURE_ANNOTATION, value.trim()));
    let spec = Some(("spec.architecture", set.architecture.as_str())).filter(|(_, word)| !word.is_empty());
    [spec, own, capacity].into_iter().flatten().collect()
}

/// # Errors
/// What the set is skipped or degraded for.
pub fn of(set: &PolicySet, fleet: &BTreeSet<Architecture>) -> Result<Architecture, SetDecision> {
    let mut found: Option<(&str, Architecture)> = None;
    for (place, word) in declared_architectures(set) {
        let Some(read) = Architecture::read(word) else {
            let known = Architecture::ALL.map(|known| known.to_string()).join(", ");
            let message = format!("{place} says {word:?}, which is no architecture; write one of {known}");
            return Err(SetDecision::Degraded(message));
        };
        match found {
            Some((other, before)) if before != read => {
                let message = format!("{other} says {before} and {place} says {read}: make them agree");
                return Err(SetDecision::Degraded(message));
            }
            Some(_) => {}
            None => found = Some((place, read)),
        }
    }
    if let Some((_, architecture)) = found {
        return Ok(architecture);
    }
    let mut hosts = fleet.iter();
    let message = match (hosts.next(), hosts.next()) {
        (Some(only), None) => return Ok(*only),
        (None, _) => format!(
            "no host was inspected yet, so that its architecture is not known; write it into the annotation \
             {ARCHITECTURE_ANNOTATION}"
        ),
        (Some(_), Some(_)) => {
            let all: Vec<String> = fleet.iter().map(ToString::to_string).collect();
            format!(
                "hosts are of several architectures ({}), and it does not say which is its own; write it into the \
                 annotation {ARCHITECTURE_ANNOTATION}",
                all.join(", ")
            )
        }
    };
    Err(SetDecision::Skip(SkippedSet { reason: SkipReason::ArchitectureUnknown, message }))
}
