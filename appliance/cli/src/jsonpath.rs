//! Templates of `-o jsonpath=…`, as kubectl has them: text, and between braces a path, a quoted text or `range … end`.
//! Pure.
//!
//! ```text
//!   {.metadata.name}                    one value
//!   {range .items[*]}{.metadata.name}{"\n"}{end}
//!   {.status.conditions[?(@.type=="Ready")].status}
//! ```
//!
//! Slices (`[0:2]`), unions (`['a','b']`) and descent (`..`) are refused. What is not there prints nothing.

mod path;

pub(crate) use path::JsonPath;

use serde_json::Value;

/// The deepest `range` in a `range`.
const RANGES_MAX: usize = 8;
/// What a path begins with behind `range`.
const PATH_STARTS: [char; 5] = [' ', '.', '$', '@', '['];
const QUOTES: &str = "a quoted text is not closed, or has an escape other than \\n, \\t, \\r, \\\\ and those of quotes";

/// Why a template or a path cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not read the jsonpath {text:?}: {why}")]
pub(crate) struct JsonPathError {
    text: String,
    why: String,
}

impl JsonPathError {
    fn new(text: &str, why: impl Into<String>) -> Self {
        Self { text: text.to_owned(), why: why.into() }
    }
}

/// A template that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPathTemplate(Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq)]
enum TemplatePart {
    Text(String),
    Values(JsonPath),
    /// Repeats its parts for each value of the path.
    Range(JsonPath, Vec<TemplatePart>),
}

/// A `range` that has no `end` yet, with the parts before it.
struct OpenRange {
    path: JsonPath,
    before: Vec<TemplatePart>,
}

impl JsonPathTemplate {
    /// # Errors
    /// When the text is no such template.
    pub(crate) fn parse(text: &str) -> Result<Self, JsonPathError> {
        let fault = |why: &str| JsonPathError::new(text, why);
        if !text.contains('{') {
            let path = text.trim_start_matches('.');
            return Err(JsonPathError::new(
                text,
                format!("a path stands between braces, as in jsonpath='{{.{path}}}'"),
            ));
        }
        let (mut parts, mut open): (Vec<TemplatePart>, Vec<OpenRange>) = (Vec::new(), Vec::new());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                parts.push(TemplatePart::Text(before.to_owned()));
            }
            let end = end_of_braces(after).ok_or_else(|| fault("a brace is not closed"))?;
            let inside = after[..end].trim();
            rest = &after[end + 1..];
            if inside == "end" {
                let OpenRange { path, before } = open.pop().ok_or_else(|| fault("{end} has no {range} before it"))?;
                let inner = std::mem::replace(&mut parts, before);
                parts.push(TemplatePart::Range(path, inner));
            } else if let Some(path) = inside.strip_prefix("range").filter(|path| path.starts_with(PATH_STARTS)) {
                if open.len() >= RANGES_MAX {
                    return Err(fault("too many ranges are in each other"));
                }
                let path = JsonPath::parse(path.trim())?;
                open.push(OpenRange { path, before: std::mem::take(&mut parts) });
            } else if inside.starts_with(['"', '\'']) {
                parts.push(TemplatePart::Text(path::quoted(inside).ok_or_else(|| fault(QUOTES))?));
            } else if inside.is_empty() {
                return Err(fault("there is nothing between the braces"));
            } else {
                parts.push(TemplatePart::Values(JsonPath::parse(inside)?));
            }
        }
        if !open.is_empty() {
            return Err(fault("a {range} has no {end}"));
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// Prints the template for a value.
    ///
    /// # Errors
    /// Never, as long as values can be written as JSON.
    pub(crate) fn print(&self, root: &Value) -> anyhow::Result<String> {
        let mut text = String::new();
        print(&self.0, root, root, &mut text)?;
        Ok(text)
    }
}

fn print(parts: &[TemplatePart], root: &Value, current: &Value, text: &mut String) -> anyhow::Result<()> {
    for part in parts {
        match part {
            TemplatePart::Text(own) => text.push_str(own),
            TemplatePart::Values(path) => {
                let values = path.find(root, current);
                let shown: Vec<String> = values.into_iter().map(shown).collect::<Result<_, _>>()?;
                text.push_str(&shown.join(" "));
            }
            TemplatePart::Range(path, inner) => {
                for value in path.find(root, current) {
                    print(inner, root, value, text)?;
                }
            }
        }
    }
    Ok(())
}

/// A value as kubectl prints it: texts without quotes, and what has parts as JSON.
pub(crate) fn shown(value: &Value) -> Result<String, serde_json::Error> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => serde_json::to_string(value),
    }
}

/// Where the brace is that closes an expression. Braces in quotes do not count.
fn end_of_braces(text: &str) -> Option<usize> {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            _ if is_escaped => is_escaped = false,
            (_, '\\') => is_escaped = true,
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '}') => return Some(at),
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn list() -> Value {
        let host = |name: &str, ready: &str, cpus: u64| {
            json!({
                "metadata": {"name": name, "labels": {"example.org/rack": "r1"}},
                "status": {"conditions": [{"type": "Paused", "status": "x"}, {"type": "Ready", "status": ready}], "cpus": cpus},
            })
        };
        json!({"kind": "List", "items": [host("a", "True", 4), host("b", "False", 16)]})
    }

    fn printed(template: &str) -> String {
        JsonPathTemplate::parse(template).unwrap().print(&list()).unwrap()
    }

    #[test]
    fn templates_print_what_kubectl_prints() {
        for (template, text) in [
            ("{.kind}", "List"),
            ("{$.kind}", "List"),
            ("{.items[*].metadata.name}", "a b"),
            ("{.items[0].metadata.name}", "a"),
            ("{.items[-1].metadata.name}", "b"),
            ("{.items[9].metadata.name}", ""),
            ("{.items[*].none.there}", ""),
            ("names: {.items[*]['metadata'].name}.", "names: a b."),
            ("{range .items[*]}{.metadata.name}{\"\\t\"}{.status.cpus}{\"\\n\"}{end}", "a\t4\nb\t16\n"),
            ("{range .items[*]}{range .status.conditions[*]}{.type}{\",\"}{end}{end}", "Paused,Ready,Paused,Ready,"),
            ("{range .items[*]}{@.metadata.name}{$.kind}{end}", "aListbList"),
            ("{.items[?(@.metadata.name==\"b\")].status.cpus}", "16"),
            ("{.items[0].status.conditions[?(@.type=='Ready')].status}", "True"),
            ("{.items[?(@.status.cpus>4)].metadata.name}", "b"),
            ("{.items[?(@.status.cpus <= 4)].metadata.name}", "a"),
            ("{.items[?(@.metadata.name!=\"a\")].metadata.name}", "b"),
            ("{.items[?(@.status.none)].metadata.name}", ""),
            ("{.items[0].metadata.labels.example\\.org/rack}", "r1"),
            ("{.items[0].metadata.labels['example.org/rack']}", "r1"),
            ("{.items[1].metadata.labels}", "{\"example.org/rack\":\"r1\"}"),
            ("{.items[0].metadata.*}", "{\"example.org/rack\":\"r1\"} a"),
            ("{\"}\"}", "}"),
        ] {
            assert_eq!(printed(template), text, "{template}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_the_reason() {
        for (template, why) in [
            (".metadata.name", "jsonpath='{.metadata.name}'"),
            ("{.a", "a brace is not closed"),
            ("{}", "nothing between the braces"),
            ("{range .a}x", "has no {end}"),
            ("x{end}", "has no {range}"),
            ("{.a[0:2]}", "a slice"),
            ("{..name}", ".."),
            ("{.a['b','c']}", "a union"),
            ("{.a[?(@.b==\"c\" && @.d)]}", "&&"),
            ("{.a[}", "a bracket is not closed"),
            ("{.a[x]}", "quotes"),
            ("{\"\\x\"}", "an escape"),
        ] {
            let error = JsonPathTemplate::parse(template).unwrap_err().to_string();
            assert!(error.contains(why), "{template}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_template_panics(template in r#"[{}.\\\[\]?()@="'*a-crnge0-2é $<>!&-]{0,32}"#) {
            if let Ok(template) = JsonPathTemplate::parse(&template) {
                template.print(&list()).unwrap();
            }
        }
    }
}
