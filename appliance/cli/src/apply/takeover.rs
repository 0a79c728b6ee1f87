//! The fields that the first `firesteel apply` of an object takes over, and what an apply with them would do. Pure.

use firesteel_kube::apply::{ApplyManager, Configuration, Takeover};
use firesteel_kube::{KindInfo, ObjectPart, Status};
use firesteel_resources::bare_metal_host::annotations;
use jiff::Timestamp;
use serde_json::Value;

/// The name under which `firesteel apply` owns fields.
pub(crate) const MANAGER: &str = "firesteel";

/// The names of plain writes that an earlier `firesteel apply` made. Requests to a host have this name, too.
const EARLIER: &[&str] = &["firesteel-cli"];
/// The names of such writes to the Provisioning object: the appliance itself made it, from `serve --provisioning`.
const EARLIER_OF_PROVISIONING: &[&str] = &["firesteel-cli", "firesteel"];

/// What `firesteel lock`, `firesteel retry` and their like write: an apply never takes these out.
const REQUESTS: &[&str] = &[
    annotations::REBOOT,
    annotations::RETRY,
    annotations::ACCEPT_IDENTITY,
    annotations::ACCEPT_ERASURE,
    annotations::CHOOSE_AGENT,
    annotations::EXTEND_TOKEN,
    annotations::RELEASE_FORCE,
    annotations::UNFREEZE_DISK,
    annotations::LOCK,
];

/// Commands that make an object from less than a whole file.
const CREATORS: &[&str] = &["kubectl-create", crate::adopt::MANAGER];

/// What an apply of this kind takes over.
pub(super) fn takeover(kind: &KindInfo) -> Takeover<'static> {
    let earlier = if kind.kind == "Provisioning" { EARLIER_OF_PROVISIONING } else { EARLIER };
    Takeover { manager: MANAGER, earlier, kept_annotations: REQUESTS, creators: CREATORS }
}

/// Makes what an apply would make of an object whose fields are taken over, as the appliance does it.
///
/// The appliance cannot be asked: a dry run does not store the new owners, on which the second step depends.
///
/// # Errors
/// When the object is not as its kind has it, or another manager owns what would change.
pub(super) fn preview(kind: &KindInfo, live: &Value, object: &Value, force: bool) -> Result<Value, Status> {
    let configuration = Configuration::parse(kind, ObjectPart::Main, object.to_string().as_bytes())?;
    let writer = ApplyManager { manager: MANAGER, now: Timestamp::now() };
    Ok(configuration.apply_to(kind, ObjectPart::Main, live, force, writer)?.object)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;
    use crate::kinds;

    fn host() -> std::sync::Arc<KindInfo> {
        kinds::of_object("metal3.io/v1alpha1", "BareMetalHost").unwrap()
    }

    fn entry(manager: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Update", "apiVersion": "metal3.io/v1alpha1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn object(spec: &Value, annotations: &Value) -> Value {
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "h1", "annotations": annotations}, "spec": spec})
    }

    /// A lock protects the disks of a host: an apply that took it out would let them be written.
    #[test]
    fn a_field_that_left_the_file_goes_and_a_lock_stays() {
        let owned = json!({
            "f:metadata": {"f:annotations": {".": {}, "f:firesteel.dev/lock": {}, "f:note": {}}},
            "f:spec": {".": {}, "f:online": {}, "f:image": {".": {}, "f:url": {}}},
        });
        let mut live = object(
            &json!({"online": true, "image": {"url": "http://a/b"}}),
            &json!({"firesteel.dev/lock": "mine", "note": "x"}),
        );
        let takeover = takeover(&host());
        let owners = takeover.before(&json!([entry("firesteel-cli", &owned)])).unwrap();
        live["metadata"]["managedFields"] = json!(owners);
        let file = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "h1"}, "spec": {"online": false}});
        let after = preview(&host(), &live, &file, false).unwrap();
        assert_eq!(after, object(&json!({"online": false}), &json!({"firesteel.dev/lock": "mine"})));
    }

    #[test]
    fn fields_of_others_conflict_unless_they_are_forced() {
        let mut live = object(&json!({"online": true}), &json!({}));
        let editor = entry("kubectl-edit", &json!({"f:spec": {"f:online": {}}}));
        live["metadata"]["managedFields"] = json!([editor]);
        let file = object(&json!({"online": false}), &json!({}));
        let refused = preview(&host(), &live, &file, false).unwrap_err();
        assert_eq!((refused.code, refused.causes()[0].field.as_str()), (409, ".spec.online"));
        assert_eq!(preview(&host(), &live, &file, true).unwrap()["spec"]["online"], false);
        let unknown = preview(&host(), &live, &object(&json!({"imge": {}}), &json!({})), true).unwrap_err();
        assert!(unknown.message.contains(".spec.imge: field not declared in schema"), "{unknown}");
    }

    #[test]
    fn the_appliances_own_fields_are_taken_over_in_the_network_alone() {
        let own = json!([entry("firesteel", &json!({"f:spec": {".": {}, "f:image": {}}}))]);
        let provisioning = kinds::of_object("metal3.io/v1alpha1", "Provisioning").unwrap();
        assert!(takeover(&provisioning).before(&own).is_some());
        assert!(takeover(&host()).before(&own).is_none(), "the image of a group's host is the group's");
    }
}
