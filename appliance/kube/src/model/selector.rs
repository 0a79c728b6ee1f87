//! Label and field selectors: which objects of a list or watch a client wants. Pure.

use std::fmt;

use serde_json::Value;

use crate::model::{kind::KindInfo, meta::at_path, name, status::Status};

/// Requirements in one selector; far more than any client sends.
const REQUIREMENTS_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`, `k`, `!k`, joined by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    pub fn parse(text: &str) -> Result<Self, Status> {
        let mut rest = text.trim_start();
        let mut requirements = Vec::new();
        while !rest.is_empty() {
            let (requirement, after) = requirement(rest)?;
            requirements.push(requirement);
            rest = match after.trim_start() {
                "" => "",
                after => {
                    let after = after.strip_prefix(',').ok_or_else(|| unexpected(after, "',' or the end"))?;
                    let after = after.trim_start();
                    if after.is_empty() {
                        return Err(failed("found '', expected: identifier after ','".into()));
                    }
                    after
                }
            };
            if requirements.len() > REQUIREMENTS_MAX {
                return Err(failed(format!("more than {REQUIREMENTS_MAX} requirements")));
            }
        }
        Ok(Self(requirements))
    }

    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels[key].as_str().is_some_and(|v| values.iter().any(|w| w == v)),
            Requirement::NotIn(key, values) => labels[key].as_str().is_none_or(|v| values.iter().all(|w| w != v)),
            Requirement::Exists(key) => labels[key].is_string(),
            Requirement::Absent(key) => !labels[key].is_string(),
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for LabelSelector {
    /// The form in which each selector is written in one way only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.0.iter().enumerate() {
            f.write_str(if index > 0 { "," } else { "" })?;
            match requirement {
                Requirement::In(key, values) => write!(f, "{key} in ({})", values.join(","))?,
                Requirement::NotIn(key, values) => write!(f, "{key} notin ({})", values.join(","))?,
                Requirement::Exists(key) => f.write_str(key)?,
                Requirement::Absent(key) => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

fn requirement(text: &str) -> Result<(Requirement, &str), Status> {
    if let Some(text) = text.strip_prefix('!') {
        let (key, rest) = key(text.trim_start())?;
        return Ok((Requirement::Absent(key), rest));
    }
    let (key, rest) = key(text)?;
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with(',') {
        return Ok((Requirement::Exists(key), rest));
    }
    let one = |value: (String, &'_ str)| (vec![value.0], value.1.len());
    let tail = |len: usize| &text[text.len() - len..];
    if let Some(rest) = rest.strip_prefix("!=") {
        let (values, len) = one(value(rest)?);
        return Ok((Requirement::NotIn(key, values), tail(len)));
    }
    if let Some(rest) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        let (values, len) = one(value(rest)?);
        return Ok((Requirement::In(key, values), tail(len)));
    }
    let (operator, rest) = word(rest);
    match operator {
        "in" => set(rest).map(|(values, rest)| (Requirement::In(key, values), rest)),
        "notin" => set(rest).map(|(values, rest)| (Requirement::NotIn(key, values), rest)),
        _ => Err(unexpected(if operator.is_empty() { rest } else { operator }, "in, notin, =, ==, !=")),
    }
}

fn key(text: &str) -> Result<(String, &str), Status> {
    let (key, rest) = word(text);
    if key.is_empty() {
        return Err(unexpected(text, "identifier"));
    }
    let faults = name::check_qualified(key);
    if !faults.is_empty() {
        return Err(failed(format!("invalid label key {key:?}: {}", faults.join("; "))));
    }
    Ok((key.into(), rest))
}

fn value(text: &str) -> Result<(String, &str), Status> {
    let (value, rest) = word(text.trim_start());
    if value.is_empty() && !rest.trim_start().is_empty() && !rest.trim_start().starts_with([',', ')']) {
        return Err(unexpected(rest.trim_start(), "identifier"));
    }
    let faults = name::check_label_value(value);
    if !faults.is_empty() {
        return Err(failed(format!("invalid label value {value:?}: {}", faults.join("; "))));
    }
    Ok((value.into(), rest))
}

fn set(text: &str) -> Result<(Vec<String>, &str), Status> {
    let text = text.trim_start();
    let mut rest = text.strip_prefix('(').ok_or_else(|| unexpected(text, "'('"))?;
    let mut values = Vec::new();
    loop {
        let (found, after) = value(rest)?;
        values.push(found);
        let after = after.trim_start();
        if let Some(after) = after.strip_prefix(')') {
            return Ok((values, after));
        }
        rest = after.strip_prefix(',').ok_or_else(|| unexpected(after, "',' or ')'"))?;
    }
}

fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, ',' | '=' | '!' | '(' | ')')).unwrap_or(text.len());
    text.split_at(end)
}

fn unexpected(text: &str, expected: &str) -> Status {
    let first = text.chars().next().map(String::from).unwrap_or_default();
    failed(format!("found '{first}', expected: {expected}"))
}

fn failed(detail: String) -> Status {
    Status::bad_request(format!("unable to parse requirement: {detail}"))
}

/// `metadata.name=x,metadata.namespace!=y`, and fields that the kind declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<(String, bool, String)>);

impl FieldSelector {
    pub fn parse(kind: &KindInfo, text: &str) -> Result<Self, Status> {
        let mut terms = Vec::new();
        for term in text.split(',').filter(|term| !term.is_empty()) {
            // One that was left out would let in, or delete, what it excludes.
            if terms.len() >= REQUIREMENTS_MAX {
                return Err(Status::bad_request(format!("a field selector has more than {REQUIREMENTS_MAX} terms")));
            }
            let parts = term.split_once("!=").map(|(field, value)| (field, false, value));
            let parts = parts.or_else(|| term.split_once("==").map(|(field, value)| (field, true, value)));
            let parts = parts.or_else(|| term.split_once('=').map(|(field, value)| (field, true, value)));
            let Some((field, equal, value)) = parts else {
                return Err(Status::bad_request(format!("invalid selector: {term:?}; can't understand '{term}'")));
            };
            let known = ["metadata.name", "metadata.namespace"].contains(&field) || kind.selectable.contains(&field);
            if !known {
                return Err(Status::bad_request(format!("field label not supported: {field}")));
            }
            terms.push((field.into(), equal, value.into()));
        }
        Ok(Self(terms))
    }

    /// The selector in the form in which each is written in one way only.
    pub fn text(&self) -> String {
        let term = |(field, equal, value): &(String, bool, String)| {
            format!("{field}{}{value}", if *equal { "==" } else { "!=" })
        };
        self.0.iter().map(term).collect::<Vec<_>>().join(",")
    }

    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(field, equal, value)| (at_path(object, field).as_str().unwrap_or("") == value) == *equal)
    }

    /// The one name that can match, if there is one.
    pub fn name(&self) -> Option<&str> {
        self.0.iter().find(|(field, equal, _)| field == "metadata.name" && *equal).map(|(_, _, name)| name.as_str())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Both selectors of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListSelector {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl ListSelector {
    pub(crate) fn parse(kind: &KindInfo, labels: Option<&str>, fields: Option<&str>) -> Result<Self, Status> {
        Ok(Self {
            labels: labels.map_or_else(|| Ok(LabelSelector::default()), LabelSelector::parse)?,
            fields: fields.map_or_else(|| Ok(FieldSelector::default()), |text| FieldSelector::parse(kind, text))?,
        })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn no_term_of_a_selector_is_left_out() {
        let kind = KindInfo::namespaced("g", "v1", "K", "ks");
        let kept = (0..300).map(|n| format!("metadata.name!=n{n}")).collect::<Vec<_>>().join(",");
        assert_eq!(FieldSelector::parse(&kind, &kept).unwrap_err().code, 400);
    }

    #[test]
    fn label_selectors_match_as_kubernetes_says() {
        let object = json!({"metadata": {"labels": {"rack": "r1", "x.io/y": "", "tier": "db"}}});
        for (selector, wanted) in [
            ("rack=r1", true),
            ("rack==r1,tier=db", true),
            ("rack = r2", false),
            ("rack!=r2", true),
            ("nope!=r2", true),
            ("rack in (r1,r2),!foo", true),
            ("rack in ( r2 , r3 )", false),
            ("rack notin (r2)", true),
            ("nope notin (r2)", true),
            ("nope in (r2)", false),
            ("x.io/y", true),
            ("x.io/y=", true),
            ("!rack", false),
            ("foo", false),
            ("", true),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap().matches(&object), wanted, "{selector}");
        }
    }

    #[test]
    fn malformed_label_selectors_are_refused() {
        for bad in ["a===1", "a=b=c", "=b", "a in b", "a in (b", "a b", "a,", ",a", "!", "a=b c", "A_/b=c", "a in"] {
            assert_eq!(LabelSelector::parse(bad).unwrap_err().code, 400, "{bad}");
        }
    }

    #[test]
    fn field_selectors_know_declared_fields() {
        let kind = KindInfo { selectable: &["type"], ..KindInfo::namespaced("", "v1", "Secret", "secrets") };
        let object = json!({"metadata": {"name": "a"}, "type": "Opaque"});
        let selector = FieldSelector::parse(&kind, "metadata.name=a,type!=x").unwrap();
        assert!(selector.matches(&object));
        assert_eq!(selector.name(), Some("a"));
        assert!(!FieldSelector::parse(&kind, "metadata.name!=a").unwrap().matches(&object));
        let error = FieldSelector::parse(&kind, "spec.online=true").unwrap_err();
        assert_eq!(error.message, "field label not supported: spec.online");
        assert_eq!(FieldSelector::parse(&kind, "metadata.name").unwrap_err().code, 400);
    }

    proptest! {
        #[test]
        fn no_selector_panics(text in "[a-z0-9 =!,()./_-]{0,40}") {
            drop(LabelSelector::parse(&text));
        }
    }
}
