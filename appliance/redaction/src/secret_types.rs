//! What the type of an object makes secret: the content of Secrets, MachineConfigs and ConfigMaps, and what a journal
//! keeps of a config. Pure.

use serde_json::Value;

use crate::secret_forms::REMOVED;

/// The record of kubectl's own apply, which holds the whole object.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const MACHINE_CONFIGS: &str = "machineconfiguration.openshift.io/";
/// Digests of what a user wrote, by their names in small letters.
const DATA_DIGESTS: [&str; 3] = ["userdatasha256", "metadatasha256", "networkdatasha256"];

/// Says whether an object is a Secret.
pub(crate) fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

/// Says whether an object is a MachineConfig.
pub(crate) fn is_machine_config(object: &Value) -> bool {
    object["kind"] == "MachineConfig"
        && object["apiVersion"].as_str().is_some_and(|api| api.starts_with(MACHINE_CONFIGS))
}

/// Lists the values of a Secret, each with whether it is in base64.
pub(crate) fn values_of_secret(object: &Value) -> impl Iterator<Item = (&str, bool)> {
    let part = |name: &str, is_base64: bool| {
        let values = object[name].as_object().into_iter().flatten();
        values.filter_map(move |(_, value)| Some((value.as_str()?, is_base64)))
    };
    part("data", true).chain(part("stringData", false))
}

/// Removes what the type of an object makes secret, and returns the places as pointers (RFC 6901) into the object. The
/// names of keys stay.
pub fn remove(object: &mut Value) -> Vec<String> {
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
        // Digests of files and of user data, by which a short secret can be guessed.
        remove_at(object, "/status/promised", &mut removed);
        if let Some(status) = object.get_mut("status") {
            remove_digests(status, "/status", false, &mut removed);
        }
        remove_at(object, "/status/instance/failed/log", &mut removed);
    }
    if object["kind"] == "KubeadmConfig" || object["kind"] == "KubeadmConfigTemplate" {
        remove_at(object, "/spec", &mut removed);
    }
    remove_at(object, &format!("/metadata/annotations/{}", APPLIED.replace('/', "~1")), &mut removed);
    removed
}

/// Removes each value of a map. How long it was says too much of a short one.
fn remove_values(object: &mut Value, part: &str, removed: &mut Vec<String>) {
    for (key, value) in object.get_mut(part).and_then(Value::as_object_mut).into_iter().flatten() {
        *value = REMOVED.into();
        removed.push(format!("/{part}/{}", escaped(key)));
    }
}

/// Removes the digests of user data, and those of files that were handed to an OS. Those of images stay.
fn remove_digests(value: &mut Value, pointer: &str, is_file: bool, removed: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                remove_digests(item, &format!("{pointer}/{index}"), is_file, removed);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                let inner = format!("{pointer}/{}", escaped(key));
                let name = key.replace('_', "").to_ascii_lowercase();
                let is_digest = DATA_DIGESTS.contains(&name.as_str()) || (is_file && name == "sha256");
                if is_digest && value.is_string() {
                    *value = REMOVED.into();
                    removed.push(inner);
                } else {
                    remove_digests(value, &inner, name == "files", removed);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Escapes a key for a pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn remove_at(object: &mut Value, pointer: &str, removed: &mut Vec<String>) {
    if let Some(value) = object.pointer_mut(pointer).filter(|value| !value.is_null()) {
        *value = REMOVED.into();
        removed.push(pointer.to_owned());
    }
}

/// Drops what says nothing to a reader of a bundle, and makes objects twice as long: who owns which field.
pub fn drop_field_sets(object: &mut Value) {
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
                "\"a/b\":\"(removed)\"",
            ),
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "x"}, "binaryData": {"b": "x"}}),
                &["/data/a", "/binaryData/b"],
                "\"binaryData\":{\"b\":\"(removed)\"}",
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
            (
                json!({"kind": "HostJournal", "status": {
                    "memory": {"installed": {"userDataSha256": "x", "rawSha256": "public"}},
                    "receipts": [{"evidence": {"files": [{"path": "p", "sha256": "x"}]}}],
                }}),
                &["/status/memory/installed/userDataSha256", "/status/receipts/0/evidence/files/0/sha256"],
                "\"rawSha256\":\"public\"",
            ),
            (json!({"kind": "BareMetalHost", "spec": {"x": 1}}), &[], "\"x\":1"),
        ] {
            assert_eq!(remove(&mut object), places);
            let shown = object.to_string();
            assert!(shown.contains(text) && !shown.contains("\"x\"}"), "{shown}");
        }
    }
}
