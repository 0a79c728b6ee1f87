//! The condition `NoController`: what of an object is accepted, because upstream's schema has it, and has
//! no effect here. A user then does not wait for it in vain. Pure: [`set_no_controller`] is what a controller stores.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::condition::{CONDITIONS_MAX, Condition};
use crate::kind::Kind;
use crate::shape::{self, Shape, ShapeForm};

pub const TYPE: &str = "NoController";
/// Nothing acts on the object at all.
pub const OF_THE_KIND: &str = "KindNotActedOn";
/// Some of its fields are set without effect.
pub const OF_FIELDS: &str = "FieldsNotActedOn";

/// The condition of an object for which these lines tell what has no effect.
#[must_use]
pub fn condition(reason: &str, lines: &[String]) -> Condition {
    Condition::new(TYPE, true, reason, lines.join("; "))
}

/// Puts the condition into an admitted object's status, or takes it away where everything is acted on.
/// Says whether that changed the object; the same thing again changes nothing.
pub fn set_no_controller(kind: &Kind, object: &mut Value, now: Timestamp) -> bool {
    let lines = kind.unacted(object);
    let reason = if kind.without_controller.is_some() { OF_THE_KIND } else { OF_FIELDS };
    let wanted = (!lines.is_empty()).then(|| condition(reason, &lines));
    put(kind, object, TYPE, wanted, now)
}

/// Puts a condition of this type into an object's status, or takes it away where none is wanted. Says whether that
/// changed the object; the same thing again changes nothing, and an object whose kind has no conditions stays as it is.
pub fn put(kind: &Kind, object: &mut Value, type_: &str, wanted: Option<Condition>, now: Timestamp) -> bool {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
    let Some(status) = status(kind) else { return false };
    let Some(wanted) = wanted else { return take_away(object, type_) };
    let mut wanted = wanted.observed(generation);
    wanted.last_transition_time = now;
    let mut wanted = json!(wanted);
    let before = object.get("status").cloned();
    if !object["status"].is_object() {
        object["status"] = least(status);
    }
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else { return false };
    if let Some(old) = conditions.iter_mut().find(|condition| condition["type"] == type_) {
        if old["status"] == wanted["status"] {
            wanted["lastTransitionTime"] = old["lastTransitionTime"].take();
        }
        *old = wanted;
    } else if conditions.len() < CONDITIONS_MAX {
        // Beyond the bound, foreign conditions fill the list: ours would make the object invalid.
        conditions.push(wanted);
    }
    // Not every kind's conditions have all fields.
    drop(shape::conform(kind.shape, object));
    object.get("status") != before.as_ref()
}

/// Whether objects of this kind can carry the condition.
#[must_use]
pub fn has_place(kind: &Kind) -> bool {
    status(kind).is_some()
}

fn take_away(object: &mut Value, type_: &str) -> bool {
    let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else { return false };
    let before = conditions.len();
    conditions.retain(|condition| condition["type"] != type_);
    conditions.len() != before
}

/// The shape of the kind's status, if it has one with conditions.
fn status(kind: &Kind) -> Option<&'static Shape> {
    let field = |shape: &'static Shape, name: &str| {
        let ShapeForm::Object(fields) = shape.form else { return None };
        fields.iter().find(|field| field.name == name).map(|field| &field.shape)
    };
    field(kind.shape, "status").filter(|status| field(status, "conditions").is_some())
}

/// A value with nothing but what must be there.
fn least(shape: &Shape) -> Value {
    match shape.form {
        ShapeForm::Boolean => json!(false),
        ShapeForm::Integer | ShapeForm::Number | ShapeForm::IntegerOrText => json!(0),
        ShapeForm::Text => json!(shape.words.first().unwrap_or(&"")),
        ShapeForm::Any | ShapeForm::Map(_) => json!({}),
        ShapeForm::List(_) => json!([]),
        ShapeForm::Object(fields) => {
            let required = fields.iter().filter(|field| field.required);
            required.map(|field| (field.name.to_owned(), least(&field.shape))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;
    use crate::{admit, kinds::KINDS};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn every_kind_without_controller_has_a_place_for_the_condition() {
        for kind in KINDS.iter().filter(|kind| kind.without_controller.is_some()) {
            let status = status(kind).unwrap_or_else(|| panic!("{} has no conditions", kind.kind));
            // What is missing in the spec is none of this.
            let mut object = json!({"metadata": {"name": "a", "generation": 3}, "status": least(status)});
            assert!(set_no_controller(kind, &mut object, at(1)), "{}", kind.kind);
            let causes = shape::check(kind.shape, &object, None);
            assert!(causes.iter().all(|cause| !cause.field.starts_with("status")), "{}: {causes:?}", kind.kind);
            assert_eq!(object["status"]["conditions"][0]["reason"], OF_THE_KIND);
            let told = object.clone();
            assert!(!set_no_controller(kind, &mut object, at(9)), "{}", kind.kind);
            assert_eq!(object, told, "once is enough");
        }
    }

    #[test]
    fn kinds_that_the_appliance_acts_on_do_not_say_that_nobody_does() {
        for (group, kind) in [
            ("metal3.io", "BareMetalHost"),
            ("firesteel.dev", "BootImageStream"),
            ("firesteel.dev", "HostGroup"),
            ("machine.openshift.io", "MachineSet"),
            ("machineconfiguration.openshift.io", "MachineConfig"),
            ("machineconfiguration.openshift.io", "MachineConfigPool"),
            ("operator.openshift.io", "MachineConfiguration"),
        ] {
            let found = KINDS.iter().find(|known| known.kind == kind && known.group == group);
            let found = found.unwrap_or_else(|| panic!("there is no kind {kind} in {group}"));
            assert_eq!(found.without_controller, None, "{kind}");
        }
    }

    #[test]
    fn the_fields_of_a_provisioning_object_are_told_until_they_are_gone() {
        let kind = &crate::kinds::PROVISIONING;
        let mut object = json!({
            "metadata": {"name": "provisioning-configuration", "generation": 1},
            "spec": {"provisioningNetwork": "Disabled", "provisioningIP": "192.0.2.1", "bootIsoSource": "http"},
            "status": {"conditions": [{"type": "Other", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        let other = object["status"]["conditions"][0].clone();
        assert_eq!(admit(kind, &mut object, None).warnings.len(), 1);
        assert!(set_no_controller(kind, &mut object, at(1)));
        let told = &object["status"]["conditions"][1];
        assert_eq!((&told["type"], &told["reason"]), (&json!(TYPE), &json!(OF_FIELDS)));
        assert!(told["message"].as_str().unwrap().starts_with("spec.bootIsoSource "), "{told}");
        assert_eq!(admit(kind, &mut object, None).unknown_fields, Vec::<String>::new(), "no field too many");
        object["spec"].as_object_mut().unwrap().remove("bootIsoSource");
        assert!(set_no_controller(kind, &mut object, at(2)));
        assert_eq!(object["status"]["conditions"], json!([other]));
        assert!(!set_no_controller(kind, &mut object, at(3)));
    }
}
