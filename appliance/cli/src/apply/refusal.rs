//! Refusals of an apply in words that say what to do. Pure.

use firesteel_kube::CauseReason;

use crate::client::ApiError;

/// The most conflicts that are shown.
const CONFLICTS_SHOWN_MAX: usize = 20;
/// How the appliance begins when an object has not its kind's form; the place of the object follows in parentheses.
const FORM: &str = "failed to create typed patch object (";
const UNKNOWN_FIELD: &str = "field not declared in schema";
/// How the appliance names its own plain writes.
const OWN_WRITES: &str = "\"firesteel\" using ";

/// Tells whether another write changed the object meanwhile, so that the same may be tried again.
pub(super) fn is_modified(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<ApiError>()
        .is_some_and(|error| error.code == 409 && error.reason == "Conflict" && conflicts(error).next().is_none())
}

/// Tells whether further requests would fail in the same way: there is no appliance, or it does not know the user.
pub(super) fn ends_all(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ApiError>().is_none_or(|error| error.code == 401)
}

/// Rewrites a refusal so that it says what to do; other errors stay.
pub(super) fn explain(error: anyhow::Error) -> anyhow::Error {
    let Some(refusal) = error.downcast_ref::<ApiError>() else { return error };
    let text = conflict_text(refusal).or_else(|| form_text(&refusal.message));
    match text {
        Some(message) => ApiError { message, reason: refusal.reason.clone(), causes: Vec::new(), ..*refusal }.into(),
        None => error,
    }
}

/// The fields and their managers.
fn conflicts(refusal: &ApiError) -> impl Iterator<Item = (&str, &str)> {
    let conflicts = refusal.causes.iter().filter(|cause| cause.reason == CauseReason::FieldManagerConflict);
    conflicts.map(|cause| {
        let manager = cause.message.strip_prefix("conflict with ").unwrap_or(&cause.message);
        (cause.field.as_str(), manager)
    })
}

fn conflict_text(refusal: &ApiError) -> Option<String> {
    let all: Vec<(&str, &str)> = conflicts(refusal).collect();
    let count = all.len();
    let (fields, they) = match count {
        0 => return None,
        1 => ("a field".to_owned(), "it"),
        many => (format!("{many} fields"), "them"),
    };
    let mut lines: Vec<String> = all
        .iter()
        .take(CONFLICTS_SHOWN_MAX)
        .map(|(field, manager)| {
            let whose = if manager.starts_with(OWN_WRITES) { " (the appliance itself)" } else { "" };
            format!("  {field}: conflict with {manager}{whose}")
        })
        .collect();
    if count > CONFLICTS_SHOWN_MAX {
        lines.push(format!("  and {} more", count - CONFLICTS_SHOWN_MAX));
    }
    Some(format!(
        "it would change {fields} that another manager owns:\n{}\n  take {they} out of the file, or write the value \
         that is there, or take {they} over by --force-conflicts",
        lines.join("\n")
    ))
}

fn form_text(message: &str) -> Option<String> {
    let (_, faults) = message.strip_prefix(FORM)?.split_once("): ")?;
    let hint = if faults.contains(UNKNOWN_FIELD) {
        "\n  correct the name of a field that is not declared, or take the field out of the file"
    } else {
        ""
    };
    Some(format!("{faults}{hint}"))
}

#[cfg(test)]
mod tests {
    use firesteel_kube::Cause;

    use super::*;

    fn refusal(message: &str, conflicts: &[(&str, &str)]) -> anyhow::Error {
        let cause = |(field, manager): &(&str, &str)| Cause {
            reason: CauseReason::FieldManagerConflict,
            message: format!("conflict with {manager}"),
            field: (*field).to_owned(),
        };
        let causes = conflicts.iter().map(cause).collect();
        ApiError { code: 409, reason: "Conflict".into(), message: message.into(), causes }.into()
    }

    #[test]
    fn a_conflict_names_field_manager_and_flag() {
        let one = refusal("Apply failed", &[(".spec.online", "\"kubectl-edit\" using metal3.io/v1alpha1")]);
        assert!(!is_modified(&one));
        let one = explain(one).to_string();
        for part in ["a field", ".spec.online: conflict with \"kubectl-edit\" using metal3.io", "--force-conflicts"] {
            assert!(one.contains(part), "{one}");
        }
        let many = vec![(".spec.image.url", "\"firesteel\" using metal3.io/v1alpha1"); 25];
        let many = explain(refusal("Apply failed", &many)).to_string();
        for part in ["25 fields", "v1alpha1 (the appliance itself)", "and 5 more", "take them out of the file"] {
            assert!(many.contains(part), "{many}");
        }
    }

    #[test]
    fn a_change_meanwhile_is_no_conflict_of_managers() {
        let modified = refusal("the object has been modified", &[]);
        assert!(is_modified(&modified) && !ends_all(&modified));
        assert_eq!(explain(modified).to_string(), "the object has been modified");
        let other = anyhow::anyhow!("connection refused");
        assert!(!is_modified(&other) && ends_all(&other));
        let unknown = ApiError { code: 401, reason: String::new(), message: "Unauthorized".into(), causes: Vec::new() };
        assert!(ends_all(&unknown.into()));
    }

    #[test]
    fn an_unknown_field_is_named_first() {
        let message = "failed to create typed patch object (default/h1; metal3.io/v1alpha1, Kind=BareMetalHost): \
                       .spec.imge: field not declared in schema";
        let shown = explain(refusal(message, &[])).to_string();
        assert!(shown.starts_with(".spec.imge: field not declared in schema\n  correct the name"), "{shown}");
        let kind = "failed to create typed patch object (default/h1; metal3.io/v1alpha1, Kind=BareMetalHost): \
                    .spec.online: expected boolean, got &{maybe}";
        assert_eq!(explain(refusal(kind, &[])).to_string(), ".spec.online: expected boolean, got &{maybe}");
    }
}
