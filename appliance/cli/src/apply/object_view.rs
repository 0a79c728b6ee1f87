//! What counts of an object when its states before and after an apply are compared. Pure.

use firesteel_kube::KindInfo;
use serde_json::Value;

/// What the server sets in the metadata. It changes with each write, or never.
const SERVER_FIELDS: [&str; 6] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];

/// The object without what the server alone sets. The status is left out if only controllers write it.
pub(crate) fn view(kind: &KindInfo, object: &Value) -> Value {
    let mut view = object.clone();
    if let Some(metadata) = view["metadata"].as_object_mut() {
        metadata.retain(|name, _| !SERVER_FIELDS.contains(&name.as_str()));
    }
    if let Some(fields) = view.as_object_mut()
        && kind.has_status
    {
        fields.remove("status");
    }
    view
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;
    use crate::kinds;

    #[test]
    fn only_what_a_file_can_say_counts() {
        let host = kinds::of_object("metal3.io/v1alpha1", "BareMetalHost").unwrap();
        let metadata = json!({"name": "h", "uid": "u", "generation": 2, "resourceVersion": "7", "managedFields": [],
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"}});
        let object = json!({"metadata": metadata, "spec": {"online": true}, "status": {"poweredOn": true}});
        let expected = json!({"metadata": {"name": "h", "labels": {"a": "b"}}, "spec": {"online": true}});
        assert_eq!(view(&host, &object), expected);
    }
}
