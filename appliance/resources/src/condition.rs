//! Conditions: what is true of a resource now, with a reason for programs and a message for
//! people (Kubernetes API conventions, `metav1.Condition`).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::shape::{Field, Shape};
use crate::zero::is_zero;

/// Most conditions on one object (upstream's schema).
pub const CONDITIONS_MAX: usize = 32;
/// Longest message in bytes (upstream's schema).
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024;

pub(crate) const STATUS_SHAPE: Shape = Shape::one_of(&["True", "False", "Unknown"]);
/// A word, with a domain before it or without.
pub(crate) const TYPE_PATTERN: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
pub(crate) const TYPE_SHAPE: Shape = Shape::TEXT.chars_max(316).matching(TYPE_PATTERN);

/// `metav1.Condition`.
pub(crate) const SHAPE: Shape = Shape::object(&[
    Field::required("lastTransitionTime", Shape::TIME).about("When the status changed last."),
    Field::required("message", Shape::TEXT.chars_max(MESSAGE_BYTES_MAX)).about("The reason, for people."),
    Field::new("observedGeneration", Shape::INT64.min(0)).about("The generation of the object that this is about."),
    Field::required(
        "reason",
        Shape::TEXT.chars_min(1).chars_max(1024).matching("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    )
    .about("The reason, as one word."),
    Field::required("status", STATUS_SHAPE).about("Whether it is so."),
    Field::required("type", TYPE_SHAPE).about("What this is about."),
]);
/// Conditions, of which each may have its own owner.
pub(crate) const LIST_SHAPE: Shape = Shape::list(&SHAPE).keyed_by(&["type"]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    True,
    False,
    #[default]
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: ConditionStatus,
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// When `status` last changed, not the message.
    pub last_transition_time: Timestamp,
    /// CamelCase word.
    pub reason: String,
    pub message: String,
}

impl Condition {
    /// A condition whose transition time [`set_condition`] fills in.
    #[must_use]
    pub fn new(type_: &str, status: impl Into<ConditionStatus>, reason: &str, message: impl Into<String>) -> Self {
        Self {
            type_: type_.to_owned(),
            status: status.into(),
            reason: reason.to_owned(),
            message: cut(message.into()),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn observed(mut self, generation: i64) -> Self {
        self.observed_generation = generation;
        self
    }
}

/// Adds or replaces the condition of the same type. The transition time moves only when the
/// status does, so that setting the same thing again changes nothing.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition, now: Timestamp) {
    new.last_transition_time = now;
    if let Some(old) = conditions.iter_mut().find(|condition| condition.type_ == new.type_) {
        if old.status == new.status {
            new.last_transition_time = old.last_transition_time;
        }
        *old = new;
    } else if conditions.len() < CONDITIONS_MAX {
        // Beyond the bound, foreign conditions fill the list: ours would make the object invalid.
        conditions.push(new);
    }
}

#[must_use]
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn cut(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn time_moves_with_the_status_only() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        set_condition(&mut conditions, Condition::new("Ready", false, "Inspecting", "a"), at(1));
        set_condition(&mut conditions, Condition::new("Ready", false, "Preparing", "b"), at(2));
        assert_eq!((conditions[0].last_transition_time, conditions[0].reason.as_str()), (at(1), "Preparing"));
        set_condition(&mut conditions, Condition::new("Ready", true, "Ready", ""), at(3));
        assert_eq!(conditions[0].last_transition_time, at(3));
        assert_eq!(conditions.len(), 1);
    }
}
