//! Structural OpenAPI schemas as JSON: writing them, and making objects of Kubernetes' own kinds
//! conform to them. The owner of any other kind checks its objects itself. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use firesteel_kube_types::{Cause, CauseReason};
use serde_json::{Map, Value, json};

/// Most findings of one kind for one object; longer answers are not read.
const FINDINGS_MAX: usize = 64;
/// Marks a time that is a `MicroTime`.
const MICRO_TIME: &str = "x-firesteel-micro-time";

pub(crate) fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(crate) fn boolean(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

pub(crate) fn integer(description: &str) -> Value {
    json!({ "type": "integer", "format": "int64", "description": description })
}

pub(crate) fn time(description: &str) -> Value {
    json!({ "type": "string", "format": "date-time", "description": description })
}

/// A time in the one form in which Go reads a `MicroTime`; see [`is_micro_time`]. The mark is this server's own:
/// OpenAPI has no format for it.
pub(crate) fn micro_time(description: &str) -> Value {
    json!({ "type": "string", "format": "date-time", MICRO_TIME: true, "description": description })
}

pub(crate) fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

pub(crate) fn text_map(description: &str) -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": description })
}

/// Names and bytes; the bytes in base64.
pub(crate) fn byte_map(description: &str) -> Value {
    let bytes = json!({ "type": "string", "format": "byte" });
    json!({ "type": "object", "additionalProperties": bytes, "description": description })
}

/// An object of texts.
pub(crate) fn object(fields: &[(&str, &str)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, description)| ((*name).to_owned(), text(description))).collect();
    json!({ "type": "object", "properties": properties })
}

/// What of an object does not conform.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SchemaFindings {
    /// Paths of fields that the schema does not have; they are dropped.
    pub(crate) unknown: Vec<String>,
    pub(crate) causes: Vec<Cause>,
}

impl SchemaFindings {
    fn refuse(&mut self, cause: Cause) {
        if self.causes.len() < FINDINGS_MAX {
            self.causes.push(cause);
        }
    }
}

/// Drops what a whole object should not have, and says what is of another type. `null` counts as absent.
pub(crate) fn conform(schema: &Value, value: &mut Value) -> SchemaFindings {
    let mut findings = SchemaFindings::default();
    if let Value::Object(fields) = value {
        let common = ["apiVersion", "kind", "metadata"].map(|name| (name, fields.remove(name)));
        walk(schema, "", value, &mut findings);
        if let Value::Object(fields) = value {
            fields.extend(common.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
    }
    findings
}

fn walk(schema: &Value, path: &str, value: &mut Value, findings: &mut SchemaFindings) {
    let Some(wanted) = schema["type"].as_str() else { return };
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => value.is_number(),
    };
    if !fits {
        let message = format!("Invalid value: must be of type {wanted}");
        return findings.refuse(Cause { reason: CauseReason::FieldValueTypeInvalid, message, field: path.into() });
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(&schema["items"], &format!("{path}[{index}]"), item, findings);
            }
        }
        Value::Object(fields) => object_fields(schema, path, fields, findings),
        Value::String(text) => string(schema, path, text, findings),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn object_fields(schema: &Value, path: &str, fields: &mut Map<String, Value>, findings: &mut SchemaFindings) {
    fields.retain(|_, value| !value.is_null());
    if schema["additionalProperties"].is_object() {
        for (name, value) in fields.iter_mut() {
            walk(&schema["additionalProperties"], &format!("{path}[{name}]"), value, findings);
        }
        return;
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == json!(true) {
        return;
    }
    fields.retain(|name, value| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match schema["properties"].get(name) {
            Some(property) => {
                walk(property, &path, value, findings);
                true
            }
            None => {
                if findings.unknown.len() < FINDINGS_MAX {
                    findings.unknown.push(path);
                }
                false
            }
        }
    });
}

fn string(schema: &Value, path: &str, text: &str, findings: &mut SchemaFindings) {
    let why = match schema["format"].as_str() {
        // The value is not shown: it may be a secret.
        Some("byte") if BASE64.decode(text).is_err() => "must be base64",
        Some("date-time") if schema[MICRO_TIME] == json!(true) && !is_micro_time(text) => {
            "must be a time as in RFC 3339 with six digits of the second's fraction, as in 2006-01-02T15:04:05.000000Z"
        }
        Some("date-time") if !is_time(text) => "must be a time as in RFC 3339",
        _ => return,
    };
    findings.refuse(Cause::invalid_json(path, &json!("<hidden>"), why));
}

/// Whether a text is a time as in RFC 3339 that clients in Go can read: one that they cannot read would keep a
/// whole list from them. The parser takes more (a space, no seconds, a name of the zone); the standard itself
/// has small letters and a second 60 too, which Go does not read.
pub fn is_time(text: &str) -> bool {
    const TO_THE_SECOND: &str = "0000-00-00T00:00:00";
    const ZONES: [&str; 3] = ["Z", "+00:00", "-00:00"];
    let Some((start, rest)) = text.split_at_checked(TO_THE_SECOND.len()) else { return false };
    let fraction = rest.strip_prefix('.');
    let zone = fraction.map_or(rest, |fraction| fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    has_form(start, TO_THE_SECOND)
        && !start.ends_with("60")
        && zone.get(1..3).is_none_or(|hours| hours < "24")
        && ZONES.iter().any(|form| has_form(zone, form))
        && text.parse::<jiff::Timestamp>().is_ok()
}

/// Whether a text is a time that clients in Go can read as a `MicroTime`: those parse it with the layout
/// `2006-01-02T15:04:05.000000Z07:00`, which takes six digits of the second's fraction, no more and no fewer.
fn is_micro_time(text: &str) -> bool {
    const TO_THE_MICROSECOND: &str = "0000-00-00T00:00:00.000000";
    let start = text.split_at_checked(TO_THE_MICROSECOND.len()).map(|(start, _)| start);
    let is_cut_there = !text.as_bytes().get(TO_THE_MICROSECOND.len()).is_some_and(u8::is_ascii_digit);
    start.is_some_and(|start| has_form(start, TO_THE_MICROSECOND)) && is_cut_there && is_time(text)
}

/// A zero stands for any digit.
fn has_form(text: &str, form: &str) -> bool {
    let fits = |(byte, form): (u8, u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == form,
    };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_in_rfc_3339() {
        let faults = |text: &str| conform(&object_of(time("")), &mut json!({ "at": text })).causes.len();
        for good in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678901Z", "2026-01-02T03:04:05+01:30"] {
            assert_eq!((faults(good), is_time(good)), (0, true), "{good}");
        }
        let wide =
            ["2026-01-02 03:04:05Z", "2026-01-02T03:04Z", "2026-01-02T03:04:05+0130", "2026-01-02T03:04:05Z[UTC]"];
        let cut = ["2026-01-02", "2026-01-02T03:04:05", "2026-01-02T03:04:05.", "2026-01-02T03:04:05.Z", "", "é"];
        let not_in_go =
            ["2026-01-02t03:04:05Z", "2026-01-02T03:04:05z", "2016-12-31T23:59:60Z", "2026-01-02T03:04:05+24:00"];
        for bad in wide.into_iter().chain(cut).chain(not_in_go).chain(["2026-13-02T03:04:05Z", "2026-01-02T24:04:05Z"])
        {
            assert_eq!((faults(bad), is_time(bad)), (1, false), "{bad:?}");
        }
    }

    /// A Lease with another form was stored, and kept every Lease of its namespace from clients in Go.
    #[test]
    fn a_micro_time_has_six_digits_of_the_second() {
        let causes = |text: &str| conform(&object_of(micro_time("")), &mut json!({ "at": text })).causes;
        for good in ["2026-01-02T03:04:05.678901Z", "2026-01-02T03:04:05.000000+01:30"] {
            assert!(causes(good).is_empty(), "{good}");
        }
        let other_times = [
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05.678Z",
            "2026-01-02T03:04:05.678901234Z",
            "2026-01-02T03:04:05+01:30",
        ];
        for text in other_times {
            assert!(is_time(text), "{text}");
            assert!(causes(text).first().is_some_and(|cause| cause.message.contains("six digits")), "{text}");
        }
        for no_time in
            ["", "é", "2026-13-02T03:04:05.678901Z", "2026-01-02T03:04:05,678901Z", "2026-01-02T03:04:05.678901"]
        {
            assert_eq!(causes(no_time).len(), 1, "{no_time}");
        }
    }

    fn object_of(at: Value) -> Value {
        json!({ "type": "object", "properties": { "at": at } })
    }

    #[test]
    fn objects_are_made_to_conform() {
        let schema = json!({ "type": "object", "properties": {
            "data": byte_map(""),
            "list": { "type": "array", "items": object(&[("name", "")]) },
            "at": time(""),
            "any": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        } });
        let mut value = json!({
            "kind": "X", "metadata": { "anything": 1 }, "typo": 1,
            "data": { "a": "YQ==" }, "list": [{ "name": "x", "nam": 1 }], "at": null, "any": { "b": [1] },
        });
        let found = conform(&schema, &mut value);
        assert_eq!(found.causes, Vec::new());
        let mut unknown = found.unknown;
        unknown.sort();
        assert_eq!(unknown, ["list[0].nam", "typo"]);
        let kept = json!({
            "kind": "X", "metadata": { "anything": 1 },
            "data": { "a": "YQ==" }, "list": [{ "name": "x" }], "any": { "b": [1] },
        });
        assert_eq!(value, kept);

        let mut bad = json!({ "data": { "a": "?", "b": 1 }, "list": {}, "at": "noon", "any": 1 });
        let texts: Vec<String> = conform(&schema, &mut bad)
            .causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        assert_eq!(texts.len(), 5, "{texts:?}");
        assert!(texts.contains(&"data[a]: Invalid value: \"<hidden>\": must be base64".to_owned()), "{texts:?}");
        assert!(texts.contains(&"data[b]: Invalid value: must be of type string".to_owned()), "{texts:?}");
    }
}
