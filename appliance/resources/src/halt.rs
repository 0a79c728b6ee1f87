//! `Halt` (firesteel.dev/v1alpha1): a stop of the whole fleet. Cluster scoped. While there is one, no step that
//! destroys begins on any host, and those under way hold at their next safe point; everything else goes on. Who
//! lifts it deletes it: `firesteel halt` and `firesteel resume`.
//!
//! There may be several, each for its own reason: the fleet goes on when the last is gone.

use firesteel_kube_types::{Cause, ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::admit::typed;
use crate::kind::{AGE, FIRESTEEL, Kind, KindScope, RuleVerdict, V1ALPHA1, column};
use crate::shape::{Field, Shape};

/// The name of the Halt that `firesteel halt` makes and `firesteel resume` deletes, unless you give another one.
pub const USUAL_NAME: &str = "fleet";

pub const KIND: Kind = Kind {
    scope: KindScope::Cluster,
    columns: &[column("By", ".spec.by", "Who stopped the fleet", 0), column("Reason", ".spec.reason", "Why", 0), AGE],
    about: "A stop of the whole fleet: while there is one, no disk of any host is changed.",
    rules: |new, old| typed(new, old, |new: &Halt, old| RuleVerdict::of(causes(new, old))),
    ..Kind::new(FIRESTEEL, V1ALPHA1, "Halt", "halts", "halt", &SHAPE)
};

/// Longest name of a subject in a certificate.
const BY_BYTES_MAX: usize = 64;
/// It stands in the status of every host.
const REASON_BYTES_MAX: usize = 256;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Halt {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: HaltSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HaltSpec {
    /// Who stopped the fleet, as that client says; the audit log tells who it was.
    pub by: String,
    /// The reason in that person's words.
    pub reason: String,
}

const SPEC: Shape = Shape::object(&[
    Field::required("by", Shape::TEXT).about("Who stops the fleet."),
    Field::required("reason", Shape::TEXT).about("Why. Every host that waits shows it."),
]);

const SHAPE: Shape = Shape::object(&[Field::required("spec", SPEC).about("Who stops the fleet, and why.")]);

/// What is wrong with a halt. Who wants to say something else makes another one.
#[must_use]
pub fn causes(new: &Halt, old: Option<&Halt>) -> Vec<Cause> {
    let HaltSpec { by, reason } = &new.spec;
    let mut causes = Vec::new();
    if let Some(old) = old
        && old.spec != new.spec
    {
        causes.push(Cause::invalid("spec", reason, "field is immutable"));
    }
    for (field, text, most) in [("spec.by", by, BY_BYTES_MAX), ("spec.reason", reason, REASON_BYTES_MAX)] {
        if text.trim().is_empty() {
            causes.push(Cause::required(field, "hosts that wait show it"));
        } else if text.len() > most {
            causes.push(Cause::too_long(field, most));
        } else if text.chars().any(char::is_control) {
            causes.push(Cause::invalid(field, text, "may not have control characters"));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halt(by: &str, reason: &str) -> Halt {
        Halt { spec: HaltSpec { by: by.into(), reason: reason.into() }, ..Halt::default() }
    }

    #[test]
    fn a_halt_says_who_and_why_and_stays_as_it_is() {
        let good = halt("ann", "the wrong disks are wiped");
        assert!(causes(&good, None).is_empty() && causes(&good, Some(&good)).is_empty());
        let long = "x".repeat(300);
        for (by, reason, field) in [
            ("", "why", "spec.by"),
            ("ann", " ", "spec.reason"),
            (long.as_str(), "why", "spec.by"),
            ("ann", long.as_str(), "spec.reason"),
            ("ann", "a\nb", "spec.reason"),
        ] {
            let found = causes(&halt(by, reason), None);
            assert_eq!(
                found.iter().map(|cause| cause.field.as_str()).collect::<Vec<_>>(),
                [field],
                "{by:?} {reason:?}"
            );
        }
        assert_eq!(causes(&halt("bob", "another"), Some(&good)).len(), 1);
    }
}
