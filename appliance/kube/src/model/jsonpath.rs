//! Where a column's value is in an object: the part of JSONPath that definitions of kinds use, as in
//! `.status.conditions[?(@.type=="Ready")].status`. Pure.

use serde_json::Value;

/// The first value of a path; `Null` where there is none, and for a path that cannot be read.
pub(crate) fn first<'a>(object: &'a Value, path: &str) -> &'a Value {
    find(object, path.trim_start_matches('$')).unwrap_or(&Value::Null)
}

fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if let Some(rest) = path.strip_prefix('[') {
        let (inside, rest) = split_bracket(rest)?;
        if inside == "*" {
            return items(value).find_map(|item| find(item, rest));
        }
        if let Some(test) = inside.strip_prefix("?(").and_then(|test| test.strip_suffix(')')) {
            let (place, wanted) = test.split_once("==")?;
            let place = place.trim().strip_prefix('@')?;
            let wanted = unquoted(wanted.trim());
            let matches = |item: &&Value| match first(item, place) {
                Value::String(text) => text == wanted,
                Value::Null => false,
                other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                    let text = other.to_string();
                    text == wanted
                }
            };
            return items(value).filter(matches).find_map(|item| find(item, rest));
        }
        let next = match inside.parse::<usize>() {
            Ok(index) => value.get(index)?,
            Err(_) => value.get(unquoted(inside))?,
        };
        return find(next, rest);
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    if path.is_empty() {
        return (!value.is_null()).then_some(value);
    }
    let (name, rest) = path.split_at(name_end(path));
    // The name of a label or an annotation has dots, which a path escapes.
    if name.contains('\\') { find(value.get(name.replace('\\', ""))?, rest) } else { find(value.get(name)?, rest) }
}

/// Where the first name of a path ends.
fn name_end(path: &str) -> usize {
    let mut escaped = false;
    let end = path.bytes().position(|byte| {
        let ends = !escaped && matches!(byte, b'.' | b'[');
        escaped = !escaped && byte == b'\\';
        ends
    });
    end.unwrap_or(path.len())
}

/// What is inside of a bracket, and what comes after it. Quoted text may have brackets too.
fn split_bracket(path: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, letter) in path.char_indices() {
        match (quote, letter) {
            (None, ']') => return Some((&path[..at], &path[at + 1..])),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if letter == open => quote = None,
            _ => {}
        }
    }
    None
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_the_first_value() {
        let object = json!({
            "spec": { "a": { "b": 1 }, "x.y": 2 },
            "status": { "conditions": [
                { "type": "Paused", "status": "False" }, { "type": "Ready", "status": "True" }, { "type": "a]b" },
            ], "ports": [80, 443] },
        });
        for (path, value) in [
            (".spec.a.b", json!(1)),
            ("spec.a.b", json!(1)),
            (".spec['x.y']", json!(2)),
            (r".spec.x\.y", json!(2)),
            (r".spec.a\.b", Value::Null),
            (".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
            (".status.conditions[?(@.type=='Ready')].status", json!("True")),
            (".status.conditions[?(@.type==\"a]b\")].type", json!("a]b")),
            (".status.conditions[?(@.type==\"Gone\")].status", Value::Null),
            (".status.conditions[*].type", json!("Paused")),
            (".status.ports[1]", json!(443)),
            (".status.ports[2]", Value::Null),
            (".spec.none.b", Value::Null),
            (".spec[", Value::Null),
        ] {
            assert_eq!(*first(&object, path), value, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(path in r#"[.\\\[\]?()@="'*a-c0-2é]{0,24}"#) {
            first(&json!({ "a": [{ "b": "c" }, 1], "b": { "c": null } }), &path);
        }
    }
}
