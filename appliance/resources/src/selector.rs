//! A label selector as objects have it (`metav1.LabelSelector`): labels with their values, and rules for labels. One
//! that says nothing selects everything.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::label;
use crate::shape::{Field, Shape};

const EXPRESSION: Shape = Shape::object(&[
    Field::required("key", Shape::TEXT).about("The key."),
    Field::required("operator", Shape::TEXT).about("How the label is compared with the values."),
    Field::new("values", Shape::list(&Shape::TEXT).atomic()).about("What the label is compared with."),
]);

/// It has one owner.
pub(crate) const SHAPE: Shape = Shape::object(&[
    Field::new("matchExpressions", Shape::list(&EXPRESSION).atomic()).about("Rules for labels; all must hold."),
    Field::new("matchLabels", Shape::map(&Shape::TEXT)).about("Labels with their values; all must be there."),
])
.atomic();

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Expression>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Expression {
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// What is wrong with a selector.
#[derive(Debug, thiserror::Error)]
pub enum SelectorError {
    #[error(transparent)]
    Form(#[from] serde_json::Error),
    #[error("{key}: for In and NotIn operators, values must not be empty")]
    NoValues { key: String },
    #[error("{key}: values must be empty for Exists and DoesNotExist")]
    Values { key: String },
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    #[error("key: Invalid value: {key:?}: {why}")]
    Key { key: String, why: &'static str },
    #[error("values: Invalid value: {value:?}: {why}")]
    Value { value: String, why: &'static str },
}

impl Selector {
    /// Reads a selector; none at all selects everything.
    ///
    /// # Errors
    /// Has another form, or breaks a rule for selectors.
    pub fn read(value: &Value) -> Result<Self, SelectorError> {
        if value.is_null() {
            return Ok(Self::default());
        }
        let selector = Self::deserialize(value)?;
        selector.check()?;
        Ok(selector)
    }

    /// Checks the keys, the operators and their values.
    ///
    /// # Errors
    /// Breaks a rule for selectors.
    pub fn check(&self) -> Result<(), SelectorError> {
        for (key, value) in &self.match_labels {
            check_label(key, std::slice::from_ref(value))?;
        }
        for expression in &self.match_expressions {
            let Expression { key, operator, values } = expression;
            check_label(key, values)?;
            match (operator.as_str(), values.is_empty()) {
                ("In" | "NotIn", true) => return Err(SelectorError::NoValues { key: key.clone() }),
                ("Exists" | "DoesNotExist", false) => return Err(SelectorError::Values { key: key.clone() }),
                ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
                _ => return Err(SelectorError::Operator(operator.clone())),
            }
        }
        Ok(())
    }

    /// Whether it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether it selects an object with these labels.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.holds(|name| labels.get(name).map(String::as_str))
    }

    pub(crate) fn matches_json(&self, labels: &Value) -> bool {
        self.holds(|name| labels[name].as_str())
    }

    fn holds<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.match_labels.iter().all(|(name, value)| label(name) == Some(value))
            && self.match_expressions.iter().all(|expression| {
                let found = label(&expression.key);
                let is_one = found.is_some_and(|found| expression.values.iter().any(|value| value == found));
                match expression.operator.as_str() {
                    "In" => is_one,
                    "NotIn" => !is_one,
                    "Exists" => found.is_some(),
                    _ => found.is_none(),
                }
            })
    }
}

fn check_label(key: &str, values: &[String]) -> Result<(), SelectorError> {
    if let Some(why) = label::key_fault(key) {
        return Err(SelectorError::Key { key: key.to_owned(), why });
    }
    match values.iter().find_map(|value| Some((value, label::value_fault(value)?))) {
        Some((value, why)) => Err(SelectorError::Value { value: value.clone(), why }),
        None => Ok(()),
    }
}

/// Writes the selector as queries have it.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.match_labels.iter().map(|(name, value)| format!("{name}={value}"));
        let expressions = self.match_expressions.iter().map(|Expression { key, operator, values }| {
            let values = values.join(",");
            match operator.as_str() {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.clone(),
                _ => format!("!{key}"),
            }
        });
        f.write_str(&labels.chain(expressions).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_selected_by_value_and_by_rule() {
        let labels: BTreeMap<String, String> =
            [("pool", "worker"), ("rack", "1")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        for (selector, selects) in [
            (json!(null), true),
            (json!({}), true),
            (json!({"matchLabels": {"pool": "worker"}}), true),
            (json!({"matchLabels": {"pool": "infra"}}), false),
            (json!({"matchLabels": {"pool": "worker", "gpu": ""}}), false),
            (json!({"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1", "2"]}]}), true),
            (json!({"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["1"]}]}), false),
            (json!({"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["1"]}]}), true),
            (json!({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}), true),
        ] {
            let read = Selector::read(&selector).unwrap();
            assert_eq!((read.matches(&labels), read.matches_json(&json!(labels))), (selects, selects), "{selector}");
        }
        for bad in [
            json!({"matchLabels": {"a b": "x"}}),
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "in", "values": ["x"]}]}),
        ] {
            assert!(Selector::read(&bad).is_err(), "{bad}");
        }
    }
}
