//! What field ownership needs to know of a kind: which parts of an object have owners of their own.
//!
//! Kubernetes says the same with `x-kubernetes-list-type` and `x-kubernetes-map-type` in a kind's
//! OpenAPI schema.

use std::collections::BTreeMap;

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
    pub fields: BTreeMap<&'static str, Schema>,
    /// Of all other fields; `None` if there are none.
    pub rest: Option<Box<Schema>>,
}

/// What an item of a list is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Nothing: the list is one value.
    Atomic,
    /// Itself.
    Set,
    /// These of its fields.
    Keyed(&'static [&'static str]),
}

impl Schema {
    pub fn object(fields: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        Self::Object(ObjectSchema { fields: fields.into_iter().collect(), rest: None })
    }

    /// An object with keys of the user's.
    pub fn map(values: Self) -> Self {
        Self::Object(ObjectSchema { fields: BTreeMap::new(), rest: Some(Box::new(values)) })
    }

    pub fn list(items: Self, list_type: ListType) -> Self {
        Self::List(Box::new(items), list_type)
    }

    pub fn atomic(inner: Self) -> Self {
        Self::Atomic(Box::new(inner))
    }

    /// A whole object of a kind; `fields` are those beside `apiVersion`, `kind` and `metadata`.
    pub fn root(fields: Self) -> Self {
        let mut root = match fields {
            Self::Object(object) => object,
            Self::Any | Self::Boolean | Self::Number | Self::Text | Self::List(..) | Self::Atomic(_) => {
                ObjectSchema { fields: BTreeMap::new(), rest: Some(Box::new(Self::Any)) }
            }
        };
        root.fields.insert("apiVersion", Self::Text);
        root.fields.insert("kind", Self::Text);
        root.fields.insert("metadata", metadata());
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

    /// The schema of an item.
    pub(crate) fn item(&self) -> &Self {
        match self {
            Self::List(item, _) => item,
            Self::Atomic(inner) => inner.item(),
            Self::Any | Self::Boolean | Self::Number | Self::Text | Self::Object(_) => &Self::Any,
        }
    }
}

fn metadata() -> Schema {
    let text = |name| (name, Schema::Text);
    let owner = [
        text("apiVersion"),
        text("kind"),
        text("name"),
        text("uid"),
        ("controller", Schema::Boolean),
        ("blockOwnerDeletion", Schema::Boolean),
    ];
    Schema::object([
        text("name"),
        text("generateName"),
        text("namespace"),
        text("selfLink"),
        text("uid"),
        text("resourceVersion"),
        ("generation", Schema::Number),
        text("creationTimestamp"),
        text("deletionTimestamp"),
        ("deletionGracePeriodSeconds", Schema::Number),
        ("labels", Schema::map(Schema::Text)),
        ("annotations", Schema::map(Schema::Text)),
        ("ownerReferences", Schema::list(Schema::atomic(Schema::object(owner)), ListType::Keyed(&["uid"]))),
        ("finalizers", Schema::list(Schema::Text, ListType::Set)),
        ("managedFields", Schema::list(Schema::Any, ListType::Atomic)),
    ])
}
