//! What the type of an object makes secret: the content of Secrets, MachineConfigs and ConfigMaps, and what a journal
//! keeps of a config. Pure.

use serde_json::Value;

use super::secret_forms::REMOVED;

/// The record of kubectl's own apply, which holds the whole object.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const MACHINE_CONFIGS: &str = "machineconfiguration.openshift.io/";

/// Says whether an object is a Secret.
pub(super) fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

/// Says whether an object is a MachineConfig.
pub(super) fn is_machine_config(object: &Value) -> bool {
    object["kind"] == "MachineConfig"
        && object["apiVersion"].as_str().is_some_and(|api| api.starts_with(MACHINE_CONFIGS))
}

/// Lists the values of a Secret, each with whether it is in base64.
pub(super) fn values_of_secret(object: &Value) -> impl Iterator<Item = (&str, bool)> {
    let part = |name: &str, is_base64: bool| {
        let values = object[name].as_object().into_iter().flatten();
        values.filter_map(move |(_, value)| Some((value.as_str()?, is_base64)))
    };
    part("data", true).chain(part("stringData", false))
}

/// Removes what the type of an object makes secret, and returns the places as pointers (RFC 6901) into the object. The
/// names of keys stay, and so does the size of each value.
pub(super) fn remove(object: &mut Value) -> Vec<String> {
    let mut removed = Vec::new();
    let holds_values = is_secret(object) || (object["kind"] == "ConfigMap" && object["apiVersion"] == "v1");
    if holds_values {
        for part in ["data", "stringData", "binaryData"] {
            remove_values(object, part, &mut removed);
        }
    }
    if is_machine_config(object) {
        remove_at(object, "/spec/config", &mut removed);
        remove_at(object, "/spec/kernelArguments", &mut removed);
    }
    if object["kind"] == "HostJournal" {
        // Digests of files, by which a short secret can be guessed.
        remove_at(object, "/status/promised", &mut removed);
        remove_at(object, "/status/instance/failed/log", &mut removed);
    }
    if object["kind"] == "KubeadmConfig" || object["kind"] == "KubeadmConfigTemplate" {
        remove_at(object, "/spec", &mut removed);
    }
    remove_at(object, &format!("/metadata/annotations/{}", APPLIED.replace('/', "~1")), &mut removed);
    removed
}

/// Removes each value of a map, and leaves its size.
fn remove_values(object: &mut Value, part: &str, removed: &mut Vec<String>) {
    for (key, value) in object.get_mut(part).and_then(Value::as_object_mut).into_iter().flatten() {
        let size = value.as_str().map_or(0, str::len);
        *value = format!("{REMOVED} {size} characters").into();
        removed.push(format!("/{part}/{}", key.replace('~', "~0").replace('/', "~1")));
    }
}

fn remove_at(object: &mut Value, pointer: &str, removed: &mut Vec<String>) {
    if let Some(value) = object.pointer_mut(pointer).filter(|value| !value.is_null()) {
        *value = REMOVED.into();
        removed.push(pointer.to_owned());
    }
}

/// Drops what says nothing to a reader of a bundle, and makes objects twice as long: who owns which field.
pub(super) fn drop_field_sets(object: &mut Value) {
    for manager in object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = manager.as_object_mut() {
            fields.remove("fieldsV1");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_content_of_secrets_configs_and_maps_is_removed_and_their_keys_stay() {
        for (mut object, places, text) in [
            (
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": {APPLIED: "x"}},
                    "data": {"a/b": "eA=="}, "stringData": {"c": "x"}}),
                &[
                    "/data/a~1b",
                    "/stringData/c",
                    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
                ][..],
                "(removed) 4 characters",
            ),
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "x"}, "binaryData": {"b": "x"}}),
                &["/data/a", "/binaryData/b"],
                "(removed) 1 characters",
            ),
            (
                json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
                    "spec": {"config": {"passwd": "x"}, "osImageURL": "u"}}),
                &["/spec/config"],
                "\"osImageURL\":\"u\"",
            ),
            (
                json!({"kind": "HostJournal", "status": {"promised": {"a": 1}, "instance": {"failed": {"log": ["x"]}}}}),
                &["/status/promised", "/status/instance/failed/log"],
                REMOVED,
            ),
            (json!({"kind": "BareMetalHost", "spec": {"x": 1}}), &[], "\"x\":1"),
        ] {
            assert_eq!(remove(&mut object), places);
            let shown = object.to_string();
            assert!(shown.contains(text) && !shown.contains("\"x\"}"), "{shown}");
        }
    }
}
