//! What is waited for, and whether an object is so. Pure.

use anyhow::{bail, ensure};
use serde_json::Value;

use crate::jsonpath::{JsonPath, shown};

/// What `--for` names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WaitGoal {
    Create,
    Delete,
    /// A condition has this status.
    Condition {
        type_: String,
        status: String,
    },
    /// A value is this one; without a value, one is there.
    JsonPath {
        text: String,
        path: JsonPath,
        value: Option<String>,
    },
}

/// Whether an object is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WaitOutcome {
    Met,
    /// What the object is like.
    Unmet(String),
}

impl WaitGoal {
    /// # Errors
    /// When the text is no goal.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        if let Some(condition) = text.strip_prefix("condition=") {
            let (type_, status) = condition.split_once('=').unwrap_or((condition, "True"));
            ensure!(
                !type_.is_empty() && !status.is_empty(),
                "a condition is named as condition=Ready or condition=Ready=False"
            );
            return Ok(Self::Condition { type_: type_.to_owned(), status: status.to_owned() });
        }
        if let Some(rest) = text.strip_prefix("jsonpath=") {
            let (path, value) = split(rest);
            let plain = path.strip_prefix('{').and_then(|path| path.strip_suffix('}')).unwrap_or(path);
            ensure!(!plain.is_empty(), "a path is missing: write jsonpath='{{.status.poweredOn}}'=true");
            ensure!(value != Some(""), "a value is missing behind the equals sign of {text}");
            let parsed = JsonPath::parse(plain)?;
            return Ok(Self::JsonPath { text: plain.to_owned(), path: parsed, value: value.map(str::to_owned) });
        }
        match text {
            "create" => Ok(Self::Create),
            "delete" => Ok(Self::Delete),
            _ => bail!(
                "there is no such goal; possible are condition=NAME, condition=NAME=False, jsonpath='{{.status.x}}'=VALUE, \
                 create and delete"
            ),
        }
    }

    /// Whether it is no error that the object is not there.
    pub(super) fn may_be_missing(&self) -> bool {
        matches!(self, Self::Create | Self::Delete)
    }

    /// The words for an object that is as it should be.
    pub(super) fn met(&self) -> String {
        match self {
            Self::Create => "is there".to_owned(),
            Self::Delete => "is deleted".to_owned(),
            Self::Condition { type_, status } if status == "True" => format!("has the condition {type_}"),
            Self::Condition { type_, status } => format!("has the condition {type_}={status}"),
            Self::JsonPath { text, value: None, .. } => format!("has a value at {text}"),
            Self::JsonPath { text, value: Some(value), .. } => format!("has {text}={value}"),
        }
    }

    /// Judges an object; `None` is one that is not there.
    pub(super) fn outcome(&self, object: Option<&Value>) -> WaitOutcome {
        let unmet = |text: String| WaitOutcome::Unmet(text);
        match (self, object) {
            (Self::Delete, None) | (Self::Create, Some(_)) => WaitOutcome::Met,
            (_, None) => unmet("it is not there".to_owned()),
            (Self::Delete, Some(object)) => unmet(deletion(object)),
            (Self::Condition { type_, status }, Some(object)) => condition(object, type_, status),
            (Self::JsonPath { path, value, .. }, Some(object)) => {
                let found: Vec<String> =
                    path.find(object, object).into_iter().filter_map(|value| shown(value).ok()).collect();
                match value {
                    None if !found.is_empty() => WaitOutcome::Met,
                    // kubectl compares with one value.
                    Some(value) if matches!(found.as_slice(), [one] if one == value) => WaitOutcome::Met,
                    None | Some(_) if found.is_empty() => unmet("there is no value".to_owned()),
                    None | Some(_) => unmet(format!("it has {}", found.join(" "))),
                }
            }
        }
    }
}

/// Splits a path from the value behind it. Equals signs between braces belong to the path.
fn split(text: &str) -> (&str, Option<&str>) {
    let start = if text.starts_with('{') { text.rfind('}').unwrap_or(0) } else { 0 };
    match text[start..].find('=') {
        None => (text, None),
        Some(at) => (&text[..start + at], Some(&text[start + at + 1..])),
    }
}

fn deletion(object: &Value) -> String {
    let metadata = &object["metadata"];
    let Some(since) = metadata["deletionTimestamp"].as_str() else { return "it is not being deleted".to_owned() };
    let names = metadata["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    format!("it is being deleted since {since}, and waits for: {}", names.collect::<Vec<_>>().join(", "))
}

fn condition(object: &Value, type_: &str, status: &str) -> WaitOutcome {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let all = object.pointer("/status/conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let Some(found) = all.iter().find(|found| text(found, "type").eq_ignore_ascii_case(type_)) else {
        let names: Vec<String> = all.iter().map(|found| text(found, "type")).collect();
        let known = if names.is_empty() { "none so far".to_owned() } else { names.join(", ") };
        return WaitOutcome::Unmet(format!("it has no condition {type_}; it has: {known}"));
    };
    let (observed, generation) = (found["observedGeneration"].as_i64(), object["metadata"]["generation"].as_i64());
    if observed.zip(generation).is_some_and(|(observed, generation)| observed < generation) {
        return WaitOutcome::Unmet(format!("its condition {type_} is older than the last change of its spec"));
    }
    if text(found, "status").eq_ignore_ascii_case(status) {
        return WaitOutcome::Met;
    }
    let why = [text(found, "reason"), text(found, "message")].into_iter().filter(|part| !part.is_empty());
    let why = why.collect::<Vec<_>>().join(": ");
    let why = if why.is_empty() { why } else { format!(" ({why})") };
    WaitOutcome::Unmet(format!("its condition {type_} is {}{why}", text(found, "status")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    fn host() -> Value {
        json!({
            "metadata": {"name": "a", "generation": 2},
            "status": {
                "provisioning": {"state": "provisioned"}, "poweredOn": true,
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "Halted", "message": "by ann", "observedGeneration": 2},
                    {"type": "Old", "status": "True", "observedGeneration": 1},
                ],
            },
        })
    }

    fn outcome(goal: &str) -> Result<(), String> {
        match WaitGoal::parse(goal).unwrap().outcome(Some(&host())) {
            WaitOutcome::Met => Ok(()),
            WaitOutcome::Unmet(why) => Err(why),
        }
    }

    #[test]
    fn a_goal_is_met_or_says_what_the_object_is_like() {
        for (goal, expected) in [
            ("create", ""),
            ("delete", "it is not being deleted"),
            ("condition=ready=false", ""),
            ("condition=Ready", "its condition Ready is False (Halted: by ann)"),
            ("condition=Old", "its condition Old is older than the last change of its spec"),
            ("condition=Gone", "it has no condition Gone; it has: Ready, Old"),
            ("jsonpath={.status.provisioning.state}=provisioned", ""),
            ("jsonpath=.status.poweredOn=true", ""),
            ("jsonpath={.status.conditions[?(@.type==\"Ready\")].status}=False", ""),
            ("jsonpath={.status.provisioning.state}", ""),
            ("jsonpath={.status.provisioning.state}=available", "it has provisioned"),
            ("jsonpath={.status.none}=x", "there is no value"),
        ] {
            let expected = if expected.is_empty() { Ok(()) } else { Err(expected.to_owned()) };
            assert_eq!(outcome(goal), expected, "{goal}");
        }
        let gone = |goal: &str| WaitGoal::parse(goal).unwrap().outcome(None);
        assert_eq!(gone("delete"), WaitOutcome::Met);
        assert_eq!(gone("create"), WaitOutcome::Unmet("it is not there".to_owned()));
    }

    #[test]
    fn other_goals_are_refused() {
        for (goal, why) in [
            ("ready", "possible are condition=NAME"),
            ("condition=", "condition=Ready"),
            ("condition=Ready=", "condition=Ready=False"),
            ("jsonpath=", "a path is missing"),
            ("jsonpath={.a}=", "a value is missing"),
            ("jsonpath={.a[}=x", "a bracket is not closed"),
        ] {
            assert!(WaitGoal::parse(goal).unwrap_err().to_string().contains(why), "{goal}");
        }
    }
}
