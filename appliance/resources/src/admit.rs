//! The one door for new and changed objects: shape first, then the kind's own rules, then
//! warnings about what is accepted without effect.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    bare_metal_host::{self, BareMetalHost},
    cause::{Cause, CauseReason},
    kinds::{self, Kind},
    provisioning::{self, Provisioning},
    shape::{self, Findings},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// The object is refused when there is one (422).
    pub causes: Vec<Cause>,
    /// Fields that the kind does not have: `fieldValidation` says what becomes of them.
    pub unknown_fields: Vec<String>,
    /// Sent with the answer.
    pub warnings: Vec<String>,
}

/// Checks an object of `kind`. `old` is the stored one where the object exists already.
#[must_use]
pub fn admit(kind: &Kind, new: &Value, old: Option<&Value>) -> Admission {
    let Findings { unknown, causes } = shape_of(kind, new);
    let mut admission = Admission { causes, unknown_fields: unknown, warnings: Vec::new() };
    if !admission.causes.is_empty() {
        return admission;
    }
    if kind.kind == kinds::BARE_METAL_HOST.kind {
        with_types(new, old, &mut admission, |new: &BareMetalHost, old, admission| {
            admission.causes = bare_metal_host::rules::causes(new, old);
            admission.warnings = bare_metal_host::unacted_fields(&new.spec);
        });
    } else if kind.kind == kinds::PROVISIONING.kind {
        with_types(new, old, &mut admission, |new: &Provisioning, old, admission| {
            admission.causes = new.causes(old.is_none());
            admission.warnings = provisioning::unacted_fields(&new.spec);
        });
    }
    admission
}

/// Shape alone, without `apiVersion`, `kind` and `metadata`, which belong to the API server.
fn shape_of(kind: &Kind, object: &Value) -> Findings {
    let Some(map) = object.as_object() else {
        return Findings { causes: vec![Cause::type_invalid("", "no object", "object")], ..Findings::default() };
    };
    shape::check_without(kind.shape, &["apiVersion", "kind", "metadata"], map)
}

fn with_types<T: DeserializeOwned>(
    new: &Value,
    old: Option<&Value>,
    admission: &mut Admission,
    rules: impl Fn(&T, Option<&T>, &mut Admission),
) {
    match decode::<T>(new) {
        // What is stored was admitted once; should it not decode, the new object is judged alone.
        Ok(new) => rules(&new, old.and_then(|old| decode::<T>(old).ok()).as_ref(), admission),
        Err(error) => admission.causes.push(Cause {
            reason: CauseReason::FieldValueInvalid,
            message: format!("Invalid value: {error}"),
            field: "spec".to_owned(),
        }),
    }
}

/// Decodes an object; fields that are `null` count as absent.
///
/// # Errors
/// The object does not fit the type.
pub fn decode<T: DeserializeOwned>(object: &Value) -> Result<T, serde_json::Error> {
    if !has_nulls(object) {
        return T::deserialize(object);
    }
    let mut object = object.clone();
    drop_nulls(&mut object);
    serde_json::from_value(object)
}

fn has_nulls(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().any(has_nulls),
        Value::Array(values) => values.iter().any(has_nulls),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
