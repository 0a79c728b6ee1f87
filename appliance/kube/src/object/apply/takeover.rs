//! What a manager takes over that begins to apply: the fields that its user wrote before in another way. Pure.
//!
//! Kubernetes' clients do the same when they change to server-side apply (`csaupgrade` in client-go). Without it, what
//! an earlier write set keeps an owner, and stays when it is taken out of the file.

use serde_json::Value;

use super::configuration::LAST_APPLIED;
use super::managed::{ManagedFields, ManagedFieldsEntry, ManagedOperation};
use super::set::{FieldSet, field};

/// The manager that applies, and the names of earlier writes of its user.
#[derive(Clone, Copy, Debug)]
pub struct Takeover<'a> {
    pub manager: &'a str,
    /// Managers of plain writes. The first apply takes over what they own, if that is more than metadata.
    pub earlier: &'a [&'a str],
    /// Annotations that these managers keep, since they are requests and no configuration.
    pub kept_annotations: &'a [&'a str],
    /// Managers of plain writes that make objects. An apply takes over what it names itself, and no more.
    pub creators: &'a [&'a str],
}

impl Takeover<'_> {
    /// Whether the manager did not apply the object before.
    pub fn is_first(&self, entries: &Value) -> bool {
        let managed = ManagedFields::read(entries).unwrap_or_default();
        !managed.0.iter().any(|entry| self.is_own(entry))
    }

    /// The owners as they are to be before the apply; `None` if nothing is taken over.
    ///
    /// A client that applied by patches is known by its record, the annotation `last-applied-configuration`. What it
    /// set goes to the manager, with the record.
    pub fn before(&self, entries: &Value) -> Option<Vec<Value>> {
        let managed = ManagedFields::read(entries)?;
        let is_first = self.is_first(entries);
        let record = record();
        let recorders: Vec<String> = managed
            .0
            .iter()
            .filter(|entry| is_plain(entry) && owns(entry, &record))
            .map(|entry| entry.manager.clone())
            .collect();
        let (mut own, mut others, mut taken) = (None, Vec::new(), Vec::new());
        for entry in managed.0 {
            if self.is_own(&entry) {
                own = Some(entry);
            } else if is_plain(&entry) && recorders.contains(&entry.manager) {
                taken.push(entry);
            } else if is_first && self.is_earlier(&entry) {
                let kept = self.kept();
                let rest = entry.fields.intersection(&kept);
                let fields = entry.fields.clone().difference(&kept);
                others.push(ManagedFieldsEntry { fields: rest, ..entry.clone() });
                taken.push(ManagedFieldsEntry { fields, ..entry });
            } else {
                others.push(entry);
            }
        }
        let first = taken.first()?;
        let (manager, operation) = (self.manager.to_owned(), ManagedOperation::Apply);
        let mut own = own.unwrap_or_else(|| ManagedFieldsEntry {
            manager,
            operation,
            fields: FieldSet::default(),
            ..first.clone()
        });
        // As Kubernetes has it: fields with the names of another version are left without an owner.
        for entry in taken.iter().filter(|entry| entry.api_version == own.api_version) {
            own.fields = std::mem::take(&mut own.fields).union(&entry.fields);
        }
        others.push(own);
        Some(ManagedFields(others).write())
    }

    /// The owners as they are to be after the apply: what it names, and a creator set, is the manager's alone. `None`
    /// if that is so.
    pub fn after(&self, entries: &Value) -> Option<Vec<Value>> {
        let mut managed = ManagedFields::read(entries)?;
        let own = managed.0.iter().find(|entry| self.is_own(entry))?.clone();
        let named = own.fields.with_ancestors();
        let mut is_changed = false;
        for entry in managed.0.iter_mut().filter(|entry| self.is_creator(entry, &own)) {
            let left = entry.fields.clone().difference(&named);
            is_changed |= left != entry.fields;
            entry.fields = left;
        }
        is_changed.then(|| managed.write())
    }

    /// The first paths below `spec` that a creator set and the manager does not name, and who that creator is.
    pub fn left_to_creators(&self, entries: &Value, most: usize) -> Vec<CreatorFields> {
        let managed = ManagedFields::read(entries).unwrap_or_default();
        let Some(own) = managed.0.iter().find(|entry| self.is_own(entry)) else { return Vec::new() };
        let named = own.fields.with_ancestors();
        let left = managed.0.iter().filter(|entry| self.is_creator(entry, own)).filter_map(|entry| {
            let mut fields = entry.fields.clone().difference(&named);
            fields.children.retain(|key, _| *key == field("spec"));
            let paths = fields.leaves().paths(most);
            (!paths.is_empty()).then(|| CreatorFields { creator: entry.manager.clone(), paths })
        });
        left.collect()
    }

    fn is_own(&self, entry: &ManagedFieldsEntry) -> bool {
        entry.manager == self.manager && entry.operation == ManagedOperation::Apply && entry.subresource.is_empty()
    }

    fn is_earlier(&self, entry: &ManagedFieldsEntry) -> bool {
        let is_more = entry.fields.children.keys().any(|key| *key != field("metadata"));
        is_plain(entry) && is_more && self.earlier.contains(&entry.manager.as_str())
    }

    fn is_creator(&self, entry: &ManagedFieldsEntry, own: &ManagedFieldsEntry) -> bool {
        is_plain(entry) && entry.api_version == own.api_version && self.creators.contains(&entry.manager.as_str())
    }

    fn kept(&self) -> FieldSet {
        let mut kept = FieldSet::default();
        self.kept_annotations.iter().for_each(|key| kept.insert(&annotation(key)));
        kept
    }
}

/// Fields that an apply leaves to the manager that made the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatorFields {
    pub creator: String,
    pub paths: Vec<String>,
}

fn annotation(key: &str) -> [String; 3] {
    ["metadata", "annotations", key].map(field)
}

/// The record of a client that applies by patches.
fn record() -> FieldSet {
    let mut record = FieldSet::default();
    record.insert(&annotation(LAST_APPLIED));
    record
}

fn is_plain(entry: &ManagedFieldsEntry) -> bool {
    entry.operation == ManagedOperation::Update && entry.subresource.is_empty()
}

fn owns(entry: &ManagedFieldsEntry, fields: &FieldSet) -> bool {
    entry.fields.intersection(fields) == *fields
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use serde_json::json;

    use super::*;

    const TAKEOVER: Takeover<'_> = Takeover {
        manager: "own",
        earlier: &["own-before"],
        kept_annotations: &["example.org/lock"],
        creators: &["maker"],
    };

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "example.org/v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    /// The entries as `manager operation: fields`.
    fn shown(entries: Option<Vec<Value>>) -> Vec<(String, Value)> {
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
        let one = |entry: &Value| {
            (format!("{} {}", text(entry, "manager"), text(entry, "operation")), entry["fieldsV1"].clone())
        };
        entries.unwrap_or_default().iter().map(one).collect()
    }

    fn expected(entries: &[(&str, Value)]) -> Vec<(String, Value)> {
        entries.iter().map(|(name, fields)| ((*name).to_owned(), fields.clone())).collect()
    }

    #[test]
    fn what_was_applied_by_patches_goes_over_with_its_record() {
        let record = json!({".": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {}});
        let fields = json!({"f:metadata": {"f:annotations": record}, "f:spec": {".": {}, "f:image": {}}});
        let other = entry("editor", "Update", json!({"f:spec": {"f:online": {}}}));
        let patched = json!([entry("client-side", "Update", fields.clone()), other]);
        assert!(TAKEOVER.is_first(&patched));
        let editor = ("editor Update", json!({"f:spec": {"f:online": {}}}));
        assert_eq!(shown(TAKEOVER.before(&patched)), expected(&[("own Apply", fields.clone()), editor.clone()]));
        // After an apply, what the client set and the manager did not name goes over, too.
        let own = entry("own", "Apply", json!({"f:spec": {"f:mac": {}}}));
        let again = json!([own, patched[0], patched[1]]);
        let mut both = fields;
        both["f:spec"]["f:mac"] = json!({});
        assert!(!TAKEOVER.is_first(&again));
        assert_eq!(shown(TAKEOVER.before(&again)), expected(&[("own Apply", both), editor]));
        // One that keeps no record is another user's.
        let none = json!([entry("client-side", "Update", json!({"f:spec": {"f:image": {}}}))]);
        assert_eq!(TAKEOVER.before(&none), None);
        assert_eq!(TAKEOVER.before(&Value::Null), None);
    }

    #[test]
    fn an_earlier_name_of_the_manager_goes_over_once_and_keeps_requests() {
        let fields = json!({
            "f:metadata": {"f:annotations": {".": {}, "f:example.org/lock": {}, "f:note": {}}},
            "f:spec": {".": {}, "f:image": {}},
        });
        let before = entry("own-before", "Update", fields);
        let lock = json!({"f:metadata": {"f:annotations": {"f:example.org/lock": {}}}});
        let rest =
            json!({"f:metadata": {"f:annotations": {".": {}, "f:note": {}}}, "f:spec": {".": {}, "f:image": {}}});
        let taken = TAKEOVER.before(&json!([before]));
        assert_eq!(shown(taken), expected(&[("own Apply", rest), ("own-before Update", lock)]));
        let own = entry("own", "Apply", json!({"f:spec": {"f:mac": {}}}));
        assert_eq!(TAKEOVER.before(&json!([own, before])), None, "what it writes later is no apply");
        let request = entry("own-before", "Update", json!({"f:metadata": {"f:annotations": {"f:note": {}}}}));
        assert_eq!(TAKEOVER.before(&json!([request])), None, "it made no object");
    }

    #[test]
    fn a_subresource_is_never_taken_over() {
        let mut status = entry("own-before", "Update", json!({"f:status": {"f:x": {}}}));
        status["subresource"] = json!("status");
        assert_eq!(TAKEOVER.before(&json!([status])), None);
    }

    #[test]
    fn fields_of_another_version_lose_their_owner() {
        let record = json!({"f:kubectl.kubernetes.io/last-applied-configuration": {}});
        let new = entry("client-side", "Update", json!({"f:metadata": {"f:annotations": record}}));
        let mut old = entry("client-side", "Update", json!({"f:spec": {"f:old": {}}}));
        old["apiVersion"] = json!("example.org/v0");
        let own = json!({"f:metadata": {"f:annotations": record}});
        assert_eq!(shown(TAKEOVER.before(&json!([new, old]))), expected(&[("own Apply", own)]));
    }

    #[test]
    fn what_a_creator_set_and_the_file_names_is_the_files() {
        let own = entry("own", "Apply", json!({"f:spec": {"f:mac": {}}}));
        let made =
            entry("maker", "Update", json!({"f:spec": {".": {}, "f:mac": {}, "f:image": {".": {}, "f:url": {}}}}));
        let both = json!([own, made]);
        let left = json!({"f:spec": {"f:image": {".": {}, "f:url": {}}}});
        assert_eq!(TAKEOVER.before(&both), None);
        let expected = expected(&[("own Apply", json!({"f:spec": {"f:mac": {}}})), ("maker Update", left)]);
        let after = TAKEOVER.after(&both);
        assert_eq!(shown(after.clone()), expected);
        assert_eq!(TAKEOVER.after(&json!(after)), None, "once is enough");
        let left = CreatorFields { creator: "maker".into(), paths: vec![".spec.image.url".into()] };
        assert_eq!(TAKEOVER.left_to_creators(&both, 9), [left]);
        assert_eq!(TAKEOVER.left_to_creators(&json!([own]), 9), []);
        // A map of which the file names a part would stay, empty, when that part leaves the file.
        let whole = entry("own", "Apply", json!({"f:spec": {"f:mac": {}, "f:image": {"f:url": {}}}}));
        let both = json!([whole, made]);
        assert_eq!(shown(TAKEOVER.after(&both)).len(), 1, "nothing is left to the creator");
        assert_eq!(TAKEOVER.left_to_creators(&both, 9), []);
    }
}
