//! One kind in several served versions over one stored form.
//!
//! Objects are stored in one version. A kind's owner gives, for each other version, two plain maps
//! between the forms ([`VersionConversion`]); a request is answered in the version of its URL, and converted
//! where it meets the store. What the other form cannot hold travels in an annotation, as Cluster API
//! does it: the object as it was in the first form. It is used again on the way back, with what was
//! changed in the meantime put into it, so that no version loses what another one wrote:
//!
//! ```text
//!   object ─► map ─► now        saved ─► unmap ─► map ─► then
//!   saved, with (then ─► now) done to it = the object in the other form
//! ```
//!
//! The annotation is written only where the way there and back would lose something. A client that
//! removes it drops what it holds; one that does not fit the kind counts as absent. Pure.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::model::field_schema::Schema;

/// How objects of a served version become those of the stored one, and back.
///
/// The maps see whole objects, and say what is beside `apiVersion`, `kind` and `metadata`. They must
/// take anything: what they do not understand they leave as it is.
#[derive(Clone, Copy, Debug)]
pub struct VersionConversion {
    pub to_stored: fn(&Value) -> Map<String, Value>,
    pub from_stored: fn(&Value) -> Map<String, Value>,
    /// Keeps what the other version cannot hold. Empty: nothing is kept, as there is nothing, or as the
    /// version is only looked at. The maps may then say what `kind` is, and more `metadata.annotations`.
    pub annotation: &'static str,
    /// Whether an annotation's object has the form of the stored version.
    pub fits_stored: fn(&Value) -> bool,
    /// Whether an object fits the version itself.
    pub fits: fn(&Value) -> bool,
}

/// One of the versions of a kind, as the others know it.
#[derive(Clone, Debug)]
pub struct KindVersion {
    pub(crate) version: &'static str,
    pub(crate) api_version: String,
    pub(crate) is_deprecated: bool,
    pub(crate) fields: Arc<Schema>,
    pub(crate) conversion: Option<VersionConversion>,
}

impl VersionConversion {
    /// An object of the version, as it is stored. `api_version` is that of the stored version.
    pub fn to_stored(&self, api_version: &str, object: &Value) -> Value {
        convert(object, api_version, self.annotation, self.to_stored, self.from_stored, self.fits_stored)
    }

    /// A stored object, as the version has it, whose `api_version` this is.
    pub fn from_stored(&self, api_version: &str, object: &Value) -> Value {
        convert(object, api_version, self.annotation, self.from_stored, self.to_stored, self.fits)
    }
}

type Mapping = fn(&Value) -> Map<String, Value>;

fn convert(
    object: &Value,
    api_version: &str,
    annotation: &str,
    map: Mapping,
    unmap: Mapping,
    fits: fn(&Value) -> bool,
) -> Value {
    let mut metadata = object["metadata"].clone();
    let saved = take_annotation(&mut metadata, annotation);
    let whole = |body: Map<String, Value>| {
        let mut object = body;
        object.insert("metadata".into(), metadata.clone());
        Value::Object(object)
    };
    let now = map(object);
    let saved: Option<Value> = saved.and_then(|text| serde_json::from_str(&text).ok());
    let body = match saved.map(|saved| whole(body_of(&saved))).filter(fits) {
        None => now,
        Some(saved) => {
            let then = map(&whole(unmap(&saved)));
            // Three objects make one.
            let body = redo(Value::Object(body_of(&saved)), &Value::Object(then), Value::Object(now));
            if let Value::Object(body) = body { body } else { Map::new() }
        }
    };
    if !annotation.is_empty() {
        let (was, back) = (body_of(object), unmap(&whole(body.clone())));
        if was != back {
            put_annotation(&mut metadata, annotation, &Value::Object(was).to_string());
        }
    }
    let mut converted = body;
    let said = converted.remove("metadata").filter(|_| annotation.is_empty());
    for (name, value) in said.iter().filter_map(|said| said["annotations"].as_object()).flatten() {
        put_annotation(&mut metadata, name, value.as_str().unwrap_or_default());
    }
    converted.insert("apiVersion".into(), api_version.into());
    if let Some(kind) = object.get("kind") {
        converted.entry("kind").or_insert_with(|| kind.clone());
    }
    if !metadata.is_null() {
        converted.insert("metadata".into(), metadata);
    }
    Value::Object(converted)
}

/// What the maps are about.
fn body_of(object: &Value) -> Map<String, Value> {
    let fields = object.as_object().into_iter().flatten();
    let own = fields.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn take_annotation(metadata: &mut Value, name: &str) -> Option<String> {
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let Some(Value::String(text)) = annotations.remove(name) else { return None };
    if annotations.is_empty() {
        metadata.as_object_mut()?.remove("annotations");
    }
    Some(text)
}

fn put_annotation(metadata: &mut Value, name: &str, text: &str) {
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    if let Some(metadata) = metadata.as_object_mut() {
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(name.into(), text.into());
        }
    }
}

/// Does to `saved` what made `now` out of `then`.
fn redo(saved: Value, then: &Value, now: Value) -> Value {
    if *then == now {
        return saved;
    }
    match (saved, then, now) {
        (Value::Object(mut saved), Value::Object(then), Value::Object(now)) => {
            for name in then.keys().filter(|name| !now.contains_key(*name)) {
                saved.remove(name);
            }
            for (name, now) in now {
                let value = match (saved.remove(&name), then.get(&name)) {
                    (Some(saved), Some(then)) => redo(saved, then, now),
                    (None, Some(then)) if *then == now => continue,
                    _ => now,
                };
                saved.insert(name, value);
            }
            Value::Object(saved)
        }
        (Value::Array(saved), Value::Array(then), Value::Array(now)) if saved.len() == then.len() => {
            let item = |now: Value| {
                let unchanged = then.iter().position(|then| *then == now);
                match unchanged.or_else(|| then.iter().position(|then| has_same_key(then, &now))) {
                    Some(index) => redo(saved[index].clone(), &then[index], now),
                    None => now,
                }
            };
            Value::Array(now.into_iter().map(item).collect())
        }
        (_, _, now) => now,
    }
}

/// Whether two items of lists have the same key, by the fields that upstream's lists have as keys.
fn has_same_key(one: &Value, other: &Value) -> bool {
    let key =
        |item: &Value| ["type", "name", "key"].into_iter().find_map(|name| item[name].as_str().map(str::to_owned));
    key(one).is_some_and(|one| key(other) == Some(one))
}
