//! The one door for new and changed objects, in Kubernetes' order: unknown fields go, defaults come, the
//! shape is checked, and then the kind's own rules speak.

mod fault;

use firesteel_kube_types::{Cause, CauseReason};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::kind::{Kind, RuleVerdict};
use crate::shape;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// The object is refused when there is one (422).
    pub causes: Vec<Cause>,
    /// Fields that the kind does not have, and that were dropped: `fieldValidation` says what becomes of it.
    pub unknown_fields: Vec<String>,
    /// Is sent with the answer: what is accepted without effect.
    pub warnings: Vec<String>,
}

/// Makes an object of `kind` have its shape, and checks it. `old` is the stored one where the object
/// exists already.
#[must_use]
pub fn admit(kind: &Kind, new: &mut Value, old: Option<&Value>) -> Admission {
    if !new.is_object() {
        return Admission { causes: vec![Cause::type_invalid("", "no object", "object")], ..Admission::default() };
    }
    let unknown_fields = shape::conform(kind.shape, new);
    (kind.complete)(new, old);
    let mut causes = shape::check(kind.shape, new, old);
    let unasked = shape::unasked_rules(kind.shape, &causes);
    causes.extend(unasked);
    let mut admission = Admission { causes, unknown_fields, warnings: Vec::new() };
    if admission.causes.is_empty() {
        let verdict = (kind.rules)(new, old);
        admission.causes = verdict.causes;
        admission.warnings = verdict.unacted;
        if let Some(why) = kind.without_controller {
            admission.warnings.insert(0, format!("{} is accepted but not acted on: {why}", kind.kind));
        }
    }
    admission
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

/// Rules that read a type.
pub fn typed<T: DeserializeOwned>(
    new: &Value,
    old: Option<&Value>,
    rules: impl Fn(&T, Option<&T>) -> RuleVerdict,
) -> RuleVerdict {
    match decode::<T>(new) {
        // What is stored was admitted once; should it not decode, the new object is judged alone.
        Ok(new) => rules(&new, old.and_then(|old| decode::<T>(old).ok()).as_ref()),
        Err(error) => RuleVerdict::of([Cause {
            reason: CauseReason::FieldValueInvalid,
            message: format!("Invalid value: {error}"),
            field: fault_of::<T>(new),
        }]),
    }
}

/// Finds where an object does not fit the type: the innermost field without which it does; `spec` if that is unclear.
#[must_use]
pub fn fault_of<T: DeserializeOwned>(object: &Value) -> String {
    let field = fault::field::<T>(object);
    if field.is_empty() { "spec".to_owned() } else { field }
}

fn has_nulls(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().any(has_nulls),
        Value::Array(values) => values.iter().any(has_nulls),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
