//! A label selector as objects have it: labels with their values, and rules for labels.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;
use serde_json::Value;

use crate::label;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Selector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Expression>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Selector {
    /// The second value says what is wrong.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        if value.is_null() {
            return Ok(Self::default());
        }
        let selector = Self::deserialize(value).map_err(|error| error.to_string())?;
        for (key, value) in &selector.match_labels {
            check_label(key, std::slice::from_ref(value))?;
        }
        for expression in &selector.match_expressions {
            let Expression { key, operator, values } = expression;
            check_label(key, values)?;
            match (operator.as_str(), values.is_empty()) {
                ("In" | "NotIn", true) => {
                    return Err(format!("{key}: for In and NotIn operators, values must not be empty"));
                }
                ("Exists" | "DoesNotExist", false) => {
                    return Err(format!("{key}: values must be empty for Exists and DoesNotExist"));
                }
                ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
                _ => return Err(format!("{operator:?} is not a valid label selector operator")),
            }
        }
        Ok(selector)
    }

    pub(super) fn matches(&self, labels: &Value) -> bool {
        let label = |name: &str| labels[name].as_str();
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

fn check_label(key: &str, values: &[String]) -> Result<(), String> {
    if let Some(why) = label::key_fault(key) {
        return Err(format!("key: Invalid value: {key:?}: {why}"));
    }
    match values.iter().find_map(|value| Some((value, label::value_fault(value)?))) {
        Some((value, why)) => Err(format!("values: Invalid value: {value:?}: {why}")),
        None => Ok(()),
    }
}

/// As it is written in queries.
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
