//! The objects that a lab applied, as the files of a person who edits them: `firesteel apply` takes out what leaves its
//! file, so what is to stay is applied again with each change.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::PoisonError;

use serde_json::{Map, Value};

use super::{Lab, LabError};
use crate::manifests;

impl Lab {
    /// Edits objects and applies them, as `firesteel apply -f FILE`. A field that `yaml` does not have stays as it was
    /// applied; null takes it out.
    pub async fn apply(&self, yaml: &str) -> Result<(), LabError> {
        let edited = self.applied.lock().unwrap_or_else(PoisonError::into_inner).edit(yaml);
        let edited = edited.map_err(LabError::Manifest)?;
        // A file of its own: hosts are applied at the same time.
        let failed = |source| LabError::File { path: self.config.folder.clone(), source };
        let mut file = tempfile::Builder::new().suffix(".yaml").tempfile_in(&self.config.folder).map_err(failed)?;
        file.write_all(edited.as_bytes()).map_err(failed)?;
        self.appliance.cli(&["apply", "-f", &file.path().to_string_lossy()]).await?;
        Ok(())
    }
}

/// The last form of each object that was applied.
#[derive(Debug, Default)]
pub(super) struct AppliedManifests(BTreeMap<ManifestKey, Value>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ManifestKey {
    kind: String,
    namespace: String,
    name: String,
}

impl ManifestKey {
    fn of(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { kind: text("/kind"), namespace: text("/metadata/namespace"), name: text("/metadata/name") }
    }
}

impl AppliedManifests {
    /// Edits the objects as these documents say, and returns them whole. A field that a document does not have stays;
    /// null takes it out.
    ///
    /// # Errors
    /// When a document is not JSON, which is the YAML that [`manifests::yaml`] writes.
    pub(super) fn edit(&mut self, documents: &str) -> serde_json::Result<String> {
        let documents = documents.split("---\n").filter(|document| !document.trim().is_empty());
        let objects = documents.map(|document| {
            let change: Value = serde_json::from_str(document)?;
            let object = self.0.entry(ManifestKey::of(&change)).or_default();
            merge(object, &change);
            Ok(object.clone())
        });
        Ok(manifests::yaml(&objects.collect::<serde_json::Result<Vec<_>>>()?))
    }
}

/// Merges a patch into a value (RFC 7396).
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        value.clone_from(patch);
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(object) = value else { return };
    for (name, field) in fields {
        if field.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name.clone()).or_insert(Value::Null), field);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_keeps_what_it_does_not_name() {
        let host = |name: &str, spec: Value| json!({"kind": "H", "metadata": {"name": name}, "spec": spec});
        let mut applied = AppliedManifests::default();
        let mut edit = |object: Value| -> Value {
            let text = applied.edit(&manifests::yaml(&[object])).unwrap();
            serde_json::from_str(text.trim_start_matches("---\n")).unwrap()
        };
        assert_eq!(
            edit(host("a", json!({"online": true, "image": {"url": "u"}, "no": null})))["spec"]["no"],
            Value::Null
        );
        assert_eq!(edit(host("b", json!({"online": false})))["spec"], json!({"online": false}));
        let edited = edit(host("a", json!({"image": {"format": "raw"}})));
        assert_eq!(edited["spec"], json!({"online": true, "image": {"url": "u", "format": "raw"}}));
        assert_eq!(edit(host("a", json!({"image": null})))["spec"], json!({"online": true}));
    }
}
