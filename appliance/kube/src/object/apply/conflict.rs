//! Who else owns what an apply would change, and the refusal that says so.

use firesteel_kube_types::{Cause, CauseReason};

use super::{managed::ManagedFieldsEntry, set::FieldSet};
use crate::model::status::Status;

/// Conflicts that a refusal lists: a longer answer is not read.
const CONFLICTS_MAX: usize = 256;

/// Fields of one manager that an apply would change.
#[derive(Debug)]
pub(super) struct Conflict {
    with: String,
    fields: FieldSet,
}

impl Conflict {
    pub(super) fn of(entry: &ManagedFieldsEntry, changed: &FieldSet) -> Option<Self> {
        let fields = entry.fields.intersection(changed);
        (!fields.is_empty()).then(|| Self { with: entry.shown(), fields })
    }

    pub(super) fn subtract_allowed(&self, allowed: &FieldSet) -> Option<Self> {
        let fields = self.fields.clone().difference(allowed);
        (!fields.is_empty()).then(|| Self { with: self.with.clone(), fields })
    }
}

pub(super) fn refusal(conflicts: &[Conflict]) -> Status {
    let count: usize = conflicts.iter().map(|conflict| conflict.fields.len()).sum();
    let mut shown: Vec<(&str, Vec<String>)> =
        conflicts.iter().map(|conflict| (conflict.with.as_str(), conflict.fields.paths(CONFLICTS_MAX))).collect();
    shown.sort();
    let mut left = CONFLICTS_MAX;
    shown.retain_mut(|(_, paths)| {
        paths.truncate(left);
        left -= paths.len();
        !paths.is_empty()
    });
    let message = match shown.as_slice() {
        [(with, paths)] if count == 1 => format!("1 conflict: conflict with {with}: {}", paths.concat()),
        all => {
            let texts = all.iter().map(|(with, paths)| format!("conflicts with {with}:\n- {}", paths.join("\n- ")));
            format!("{count} conflicts: {}", texts.collect::<Vec<_>>().join("\n"))
        }
    };
    let causes = shown.iter().flat_map(|(with, paths)| {
        paths.iter().map(move |path| Cause {
            reason: CauseReason::FieldManagerConflict,
            message: format!("conflict with {with}"),
            field: path.clone(),
        })
    });
    let status = Status::with_reason(409, "Conflict", format!("Apply failed with {message}"));
    causes.fold(status, Status::with_cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::apply::set;

    #[test]
    fn of_many_conflicts_the_first_are_told_and_all_are_counted() {
        let mut fields = FieldSet::default();
        (0..5000).for_each(|number| fields.insert(&[set::field("spec"), set::field(&format!("f{number}"))]));
        let refused = refusal(&[Conflict { with: "\"m\"".into(), fields }]);
        assert!(refused.message.starts_with("Apply failed with 5000 conflicts: conflicts with \"m\":\n- .spec.f0\n"));
        assert_eq!((refused.causes().len(), refused.message.lines().count()), (CONFLICTS_MAX, CONFLICTS_MAX + 1));
    }
}
