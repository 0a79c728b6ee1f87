//! `metadata.managedFields`: who set which fields of an object last, and how.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::set::FieldSet;
use crate::{model::meta::rfc3339, object::terms::ObjectPart};

/// Most managers of plain writes with an entry of their own; what the oldest ones beyond them own is put together. As
/// many as Kubernetes has.
const UPDATE_MANAGERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";
/// Entries that a client may bring: nothing writes nearly as many, and each is compared with each change.
const ENTRIES_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ManagedOperation {
    Apply,
    Update,
}

impl ManagedOperation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What one manager owns by one way of writing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ManagedFieldsEntry {
    pub(crate) manager: String,
    pub(crate) operation: ManagedOperation,
    pub(crate) api_version: String,
    /// "status", or empty.
    pub(crate) subresource: String,
    pub(crate) time: Option<Timestamp>,
    pub(crate) fields: FieldSet,
}

impl ManagedFieldsEntry {
    pub(crate) fn new(manager: &str, operation: ManagedOperation, api_version: &str, part: ObjectPart) -> Self {
        Self {
            manager: manager.into(),
            operation,
            api_version: api_version.into(),
            subresource: match part {
                ObjectPart::Main => String::new(),
                ObjectPart::Status => "status".into(),
                ObjectPart::Scale => "scale".into(),
            },
            time: None,
            fields: FieldSet::default(),
        }
    }

    /// Whether two entries are of one manager that writes in one way. Who applies owns its fields in whatever version.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.manager, self.operation, &self.subresource) == (&other.manager, other.operation, &other.subresource)
            && (self.operation == ManagedOperation::Apply || self.api_version == other.api_version)
    }

    /// The manager in words, as conflicts name it.
    pub(crate) fn shown(&self) -> String {
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            part => format!(" with subresource {part:?}"),
        };
        match self.operation {
            ManagedOperation::Apply => format!("{:?}{subresource}", self.manager),
            ManagedOperation::Update => format!("{:?}{subresource} using {}", self.manager, self.api_version),
        }
    }

    fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).map_or(Some(""), Value::as_str).map(str::to_owned);
        let operation = match value["operation"].as_str()? {
            "Apply" => ManagedOperation::Apply,
            "Update" => ManagedOperation::Update,
            _ => return None,
        };
        let (time, fields) = (&value["time"], &value["fieldsV1"]);
        let time = if time.is_null() { None } else { Some(time.as_str()?.parse().ok()?) };
        let fields = if fields.is_null() { FieldSet::default() } else { FieldSet::from_v1(fields)? };
        (value["fieldsType"] == "FieldsV1").then_some(())?;
        Some(Self {
            manager: text("manager")?,
            operation,
            api_version: text("apiVersion")?,
            subresource: text("subresource")?,
            time,
            fields,
        })
    }

    fn write(&self) -> Value {
        let mut value = json!({
            "manager": self.manager,
            "operation": self.operation.name(),
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_v1(),
        });
        if !self.subresource.is_empty() {
            value["subresource"] = json!(self.subresource);
        }
        if let Some(time) = self.time {
            value["time"] = json!(rfc3339(time));
        }
        value
    }
}

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ManagedFields(pub(crate) Vec<ManagedFieldsEntry>);

impl ManagedFields {
    /// Reads the entries; `None` if one of them cannot be read.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        if value.is_null() {
            return Some(Self::default());
        }
        let list = value.as_array().filter(|list| list.len() <= ENTRIES_MAX)?;
        let mut managed = Self::default();
        for value in list {
            let entry = ManagedFieldsEntry::read(value)?;
            // Two entries of one manager could never be separated again.
            match managed.find(&entry) {
                Some(same) => same.fields = std::mem::take(&mut same.fields).union(&entry.fields),
                None => managed.0.push(entry),
            }
        }
        managed.0.retain(|entry| !entry.fields.is_empty());
        Some(managed)
    }

    pub(crate) fn find(&mut self, like: &ManagedFieldsEntry) -> Option<&mut ManagedFieldsEntry> {
        self.0.iter_mut().find(|entry| entry.is_same(like))
    }

    /// The entries in the order in which Kubernetes shows them, without those that own nothing, and bounded.
    pub(crate) fn write(mut self) -> Vec<Value> {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.cap();
        self.sort();
        self.0.iter().map(ManagedFieldsEntry::write).collect()
    }

    /// Whether the same managers own the same fields, whenever they wrote.
    pub(crate) fn owns_alike(&self, other: &Self) -> bool {
        let like = |entry: &ManagedFieldsEntry, others: &Self| {
            others.0.iter().any(|other| {
                (other.is_same(entry), &other.api_version) == (true, &entry.api_version) && other.fields == entry.fields
            })
        };
        self.0.len() == other.0.len() && self.0.iter().all(|entry| like(entry, other))
    }

    fn sort(&mut self) {
        let seconds = |entry: &ManagedFieldsEntry| entry.time.map_or(0, Timestamp::as_second);
        self.0.sort_by(|one, other| {
            (one.operation, seconds(one), &one.manager, &one.api_version, &one.subresource).cmp(&(
                other.operation,
                seconds(other),
                &other.manager,
                &other.api_version,
                &other.subresource,
            ))
        });
    }

    fn cap(&mut self) {
        self.sort();
        let updates = self.0.iter().filter(|entry| entry.operation == ManagedOperation::Update).count();
        let mut excess = updates.saturating_sub(UPDATE_MANAGERS_MAX);
        if excess == 0 {
            return;
        }
        // One of them becomes the bucket.
        excess += 1;
        let (mut kept, mut buckets): (Vec<ManagedFieldsEntry>, Vec<ManagedFieldsEntry>) = (Vec::new(), Vec::new());
        for entry in self.0.drain(..) {
            if entry.operation == ManagedOperation::Apply || excess == 0 {
                kept.push(entry);
                continue;
            }
            excess -= 1;
            let old = ManagedFieldsEntry { manager: ANCIENT.into(), subresource: String::new(), ..entry };
            match buckets.iter_mut().find(|bucket| bucket.is_same(&old)) {
                Some(bucket) => {
                    bucket.fields = std::mem::take(&mut bucket.fields).union(&old.fields);
                    bucket.time = old.time;
                }
                None => buckets.push(old),
            }
        }
        kept.extend(buckets);
        self.0 = kept;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn entry(manager: &str, operation: &str, second: i64, field: &str) -> Value {
        let time = rfc3339(Timestamp::from_second(1_700_000_000 + second).unwrap());
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": {format!("f:{field}"): {}}})
    }

    #[test]
    fn entries_are_kept_as_they_are_and_sorted() {
        let list = json!([entry("b", "Update", 1, "x"), entry("a", "Update", 2, "y"), entry("z", "Apply", 9, "x")]);
        let names: Vec<Value> =
            ManagedFields::read(&list).unwrap().write().iter().map(|entry| entry["manager"].clone()).collect();
        assert_eq!(names, ["z", "b", "a"]);
        let one = json!([entry("b", "Update", 1, "x")]);
        assert_eq!(json!(ManagedFields::read(&one).unwrap().write()), one);
        for bad in [json!("x"), json!([{}]), json!([1]), json!([{"operation": "Melt", "fieldsType": "FieldsV1"}])] {
            assert_eq!(ManagedFields::read(&bad), None, "{bad}");
        }
    }

    #[test]
    fn the_oldest_writers_share_an_entry() {
        let list: Vec<Value> = (0..15).map(|n| entry(&format!("m{n:02}"), "Update", n, &format!("f{n:02}"))).collect();
        let written = ManagedFields::read(&json!(list)).unwrap().write();
        assert_eq!(written.len(), UPDATE_MANAGERS_MAX);
        assert_eq!(written[0]["manager"], ANCIENT);
        assert_eq!(written[0]["fieldsV1"].as_object().unwrap().len(), 6);
        assert_eq!(written[1]["manager"], "m06");
    }
}
