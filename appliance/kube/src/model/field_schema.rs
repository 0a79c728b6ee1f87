//! What field ownership needs to know of a kind: which parts of an object have owners of their own.
//!
//! A kind says it in its OpenAPI schema, with `x-kubernetes-list-type` and `x-kubernetes-map-type`.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

/// Most unknown fields that are listed of one object.
const UNKNOWN_MAX: usize = 64;

/// The shape of a value.
#[derive(Clone, Debug, Default)]
pub enum Schema {
    /// Nothing is said: objects are owned field by field, lists as a whole.
    #[default]
    Any,
    Boolean,
    Number,
    Text,
    Object(ObjectSchema),
    List(Box<Schema>, ListType),
    /// Whatever is inside has one owner.
    Atomic(Box<Schema>),
}

#[derive(Clone, Debug, Default)]
pub struct ObjectSchema {
    fields: BTreeMap<String, Schema>,
    /// The schema of all other fields; `None` if there are none.
    rest: Option<Box<Schema>>,
}

/// What an item of a list is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Nothing: the list is one value.
    Atomic,
    /// Itself.
    Set,
    /// These of its fields.
    Keyed(Vec<String>),
}

impl Schema {
    /// Reads a structural OpenAPI schema. What it does not describe is [`Schema::Any`].
    pub(crate) fn of(openapi: &Value) -> Self {
        if openapi["x-kubernetes-map-type"] == "atomic" {
            return Self::Atomic(Box::new(Self::of_type(openapi)));
        }
        Self::of_type(openapi)
    }

    fn of_type(openapi: &Value) -> Self {
        match openapi["type"].as_str() {
            Some("boolean") => Self::Boolean,
            Some("integer" | "number") => Self::Number,
            Some("string") => Self::Text,
            Some("array") => Self::List(Box::new(Self::of(&openapi["items"])), ListType::of(openapi)),
            Some("object") => Self::of_object(openapi),
            Some(_) | None => Self::Any,
        }
    }

    fn of_object(openapi: &Value) -> Self {
        let properties = openapi["properties"].as_object();
        let fields: BTreeMap<_, _> =
            properties.into_iter().flatten().map(|(name, schema)| (name.clone(), Self::of(schema))).collect();
        let takes_all = openapi["x-kubernetes-preserve-unknown-fields"] == true;
        let values = &openapi["additionalProperties"];
        if values.is_object() {
            Self::Object(ObjectSchema { fields, rest: Some(Box::new(Self::of(values))) })
        } else if takes_all && fields.is_empty() {
            Self::Any
        } else {
            Self::Object(ObjectSchema { fields, rest: takes_all.then(|| Box::new(Self::Any)) })
        }
    }

    /// Reads the schema of a whole object: of what is beside `apiVersion`, `kind` and `metadata`.
    pub(crate) fn root(openapi: &Value) -> Self {
        let mut root = match Self::of(openapi) {
            Self::Object(object) => object,
            Self::Any | Self::Boolean | Self::Number | Self::Text | Self::List(..) | Self::Atomic(_) => {
                ObjectSchema { fields: BTreeMap::new(), rest: Some(Box::new(Self::Any)) }
            }
        };
        for (name, schema) in [("apiVersion", Self::Text), ("kind", Self::Text), ("metadata", metadata())] {
            root.fields.insert(name.to_owned(), schema);
        }
        Self::Object(root)
    }

    /// The schema of a field, and whether the field is named there.
    pub(crate) fn field(&self, name: &str) -> Option<(&Self, bool)> {
        match self {
            Self::Any => Some((&Self::Any, false)),
            Self::Object(object) => match object.fields.get(name) {
                Some(field) => Some((field, true)),
                None => object.rest.as_deref().map(|rest| (rest, false)),
            },
            Self::Atomic(inner) => inner.field(name),
            Self::Boolean | Self::Number | Self::Text | Self::List(..) => None,
        }
    }

    /// Paths of what is in an object and not in its schema, as far as anybody reads on.
    pub(crate) fn unknown(&self, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        self.find_unknown(value, &JsonLocation::Root, &mut found);
        found
    }

    fn find_unknown(&self, value: &Value, at: &JsonLocation<'_>, found: &mut Vec<String>) {
        match (self, value) {
            (Self::Atomic(inner), _) => inner.find_unknown(value, at, found),
            (Self::Object(_), Value::Object(object)) => {
                for (name, value) in object {
                    let place = JsonLocation::Field(at, name);
                    match self.field(name) {
                        Some((schema, _)) => schema.find_unknown(value, &place, found),
                        None if found.len() < UNKNOWN_MAX => found.push(place.cut()),
                        None => return,
                    }
                }
            }
            (Self::List(item, _), Value::Array(items)) => {
                for (index, value) in items.iter().enumerate() {
                    item.find_unknown(value, &JsonLocation::Item(at, index), found);
                }
            }
            _ => {}
        }
    }

    /// The schema of an item.
    pub(crate) fn item(&self) -> &Self {
        match self {
            Self::List(item, _) => item,
            Self::Atomic(inner) => inner.item(),
            Self::Any | Self::Boolean | Self::Number | Self::Text | Self::Object(_) => &Self::Any,
        }
    }
}

impl ListType {
    fn of(openapi: &Value) -> Self {
        match openapi["x-kubernetes-list-type"].as_str() {
            Some("set") => Self::Set,
            Some("map") => {
                let keys = openapi["x-kubernetes-list-map-keys"].as_array();
                Self::Keyed(keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            Some(_) | None => Self::Atomic,
        }
    }
}

/// What is the same in all kinds; owners are atomic, as Kubernetes has them.
fn metadata() -> Schema {
    let text = || json!({ "type": "string" });
    let texts = || json!({ "type": "object", "additionalProperties": text() });
    let owner = json!({
        "type": "object", "x-kubernetes-map-type": "atomic",
        "properties": {
            "apiVersion": text(), "kind": text(), "name": text(), "uid": text(),
            "controller": { "type": "boolean" }, "blockOwnerDeletion": { "type": "boolean" },
        },
    });
    Schema::of(&json!({
        "type": "object",
        "properties": {
            "name": text(), "generateName": text(), "namespace": text(), "selfLink": text(), "uid": text(),
            "resourceVersion": text(), "generation": { "type": "integer" },
            "creationTimestamp": text(), "deletionTimestamp": text(),
            "deletionGracePeriodSeconds": { "type": "integer" },
            "labels": texts(), "annotations": texts(),
            "ownerReferences": {
                "type": "array", "items": owner,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            },
            "finalizers": { "type": "array", "items": text(), "x-kubernetes-list-type": "set" },
            "managedFields": { "type": "array", "items": {} },
        },
    }))
}

pub(crate) const PLACE_CHARS_MAX: usize = 256;

/// Where a value stands; a list of its parents on the stack, so that nothing is made for the many
/// documents that say everything once.
pub(crate) enum JsonLocation<'a> {
    Root,
    Field(&'a JsonLocation<'a>, &'a str),
    Item(&'a JsonLocation<'a>, usize),
}

impl fmt::Display for JsonLocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl JsonLocation<'_> {
    pub(crate) fn cut(&self) -> String {
        self.to_string().chars().take(PLACE_CHARS_MAX).collect()
    }
}
