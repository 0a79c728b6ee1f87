//! Reading a section of a config so that nothing of it is lost unseen: each field is *taken*, and what was not taken
//! is an error at the end ([`Fields::end`]). Whoever converts a config cannot forget a field that way.
//!
//! `null` is an absent field, as in Ignition itself.

use serde_json::{Map, Value};

/// What cannot be kept or is wrong, with its place: `storage.files[2].append`. It shows no value of the config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct FieldError {
    pub field: String,
    pub reason: String,
}

/// Names in a config may be as long as the config, and a place has several.
const FIELD_CHARS_MAX: usize = 200;

impl FieldError {
    /// Makes an error of one line that moves no cursor, whatever the names in the config are.
    pub(crate) fn new(field: &str, reason: impl Into<String>) -> Self {
        let shown = |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
        let field = if field.is_empty() { "the config" } else { field };
        Self { field: field.chars().take(FIELD_CHARS_MAX).map(shown).collect(), reason: reason.into() }
    }
}

/// The fields of one object that were not taken yet.
pub(crate) struct Fields {
    place: String,
    rest: Map<String, Value>,
}

impl Fields {
    pub(crate) fn of(value: Value, place: &str) -> Result<Self, FieldError> {
        match value {
            Value::Object(rest) => Ok(Self { place: place.to_owned(), rest }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(FieldError::new(place, "must be an object"))
            }
        }
    }

    /// Where this field stands in the config.
    pub(crate) fn at(&self, name: &str) -> String {
        join(&self.place, name)
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn error(&self, name: &str, reason: impl Into<String>) -> FieldError {
        FieldError::new(&self.at(name), reason)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.values().all(Value::is_null)
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.rest.remove(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, FieldError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.error(name, "must be text")),
        }
    }

    pub(crate) fn needed_text(&mut self, name: &str) -> Result<String, FieldError> {
        self.text(name)?.ok_or_else(|| self.error(name, "is needed"))
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, FieldError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(self.error(name, "must be true or false")),
        }
    }

    pub(crate) fn whole(&mut self, name: &str) -> Result<Option<i64>, FieldError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.error(name, "must be a whole number"))
    }

    pub(crate) fn list(&mut self, name: &str) -> Result<Vec<Value>, FieldError> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(self.error(name, "must be a list")),
        }
    }

    pub(crate) fn texts(&mut self, name: &str) -> Result<Vec<String>, FieldError> {
        let place = self.at(name);
        let text = |(index, value)| match value {
            Value::String(text) => Ok(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Err(FieldError::new(&format!("{place}[{index}]"), "must be text"))
            }
        };
        self.list(name)?.into_iter().enumerate().map(text).collect()
    }

    /// An empty one where the field is absent.
    pub(crate) fn object(&mut self, name: &str) -> Result<Self, FieldError> {
        let value = self.take(name).unwrap_or_else(|| Value::Object(Map::new()));
        Self::of(value, &self.at(name))
    }

    pub(crate) fn objects(&mut self, name: &str) -> Result<Vec<Self>, FieldError> {
        let place = self.at(name);
        let list = self.list(name)?.into_iter().enumerate();
        list.map(|(index, value)| Self::of(value, &format!("{place}[{index}]"))).collect()
    }

    /// What is left, where it is the same on the other side.
    pub(crate) fn into_sparse(self) -> SparseObject {
        SparseObject(self.rest)
    }

    /// Fails if a field is left.
    pub(crate) fn end(self) -> Result<(), FieldError> {
        match self.rest.iter().find(|(_, value)| !value.is_null()) {
            Some((name, _)) => Err(self.error(name, "is not known here, and cannot be kept: remove it")),
            None => Ok(()),
        }
    }
}

pub(crate) fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

/// An object that is being written: what is absent or empty is left out.
#[derive(Default)]
pub(crate) struct SparseObject(pub(crate) Map<String, Value>);

impl SparseObject {
    pub(crate) fn put(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn some(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    /// A flag whose absence means false.
    pub(crate) fn set(self, name: &str, flag: Option<bool>) -> Self {
        self.some(name, flag.filter(|flag| *flag))
    }

    pub(crate) fn list<T: Into<Value>>(self, name: &str, list: Vec<T>) -> Self {
        let list: Vec<Value> = list.into_iter().map(Into::into).collect();
        if list.is_empty() { self } else { self.put(name, list) }
    }

    pub(crate) fn object(self, name: &str, object: Self) -> Self {
        if object.0.is_empty() { self } else { self.put(name, object) }
    }
}

impl From<SparseObject> for Value {
    fn from(written: SparseObject) -> Self {
        Self::Object(written.0)
    }
}
