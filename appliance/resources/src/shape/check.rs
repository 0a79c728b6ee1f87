//! What is wrong with a document that [`super::conform`] went over, in the words of Kubernetes: people
//! and programs know these sentences.

use std::{cell::RefCell, collections::HashMap};

use firesteel_kube_types::{Cause, CauseReason};
use regex::bytes::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};

use super::{COMMON, FINDINGS_MAX, Field, OpenApiFormat, Ownership, Shape, ShapeForm, field, path::ShapePath};

/// Compares a whole object with its shape; `old` is the stored one where the object exists already.
#[must_use]
pub fn check(shape: &Shape, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut findings = ShapeFindings::default();
    walk(shape, &ShapePath::ROOT, object, old, &mut findings);
    let ShapeFindings { mut causes, ruled } = findings;
    if !causes.iter().any(hinders_rules) {
        causes.extend(ruled);
    }
    causes.truncate(FINDINGS_MAX);
    causes
}

/// What a refusal for these causes says besides, in Kubernetes' words, where the shape has rules that could not speak:
/// there may be more to correct.
pub(crate) fn unasked_rules(shape: &Shape, causes: &[Cause]) -> Option<Cause> {
    const WHY: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    let is_unasked = causes.iter().any(hinders_rules) && has_rules(shape);
    // As Go writes a path and a value that are not there.
    is_unasked.then(|| Cause::invalid_value("<nil>", &Value::Null, WHY))
}

/// Rules speak of values that have their shape.
fn hinders_rules(cause: &Cause) -> bool {
    match cause.reason {
        CauseReason::FieldValueRequired
        | CauseReason::FieldValueNotSupported
        | CauseReason::FieldValueTypeInvalid
        | CauseReason::FieldValueTooLong
        | CauseReason::FieldValueTooMany => true,
        CauseReason::FieldValueInvalid
        | CauseReason::FieldValueForbidden
        | CauseReason::FieldValueDuplicate
        | CauseReason::FieldManagerConflict
        | CauseReason::NamespaceTerminating
        | CauseReason::ResourceVersionTooLarge
        | CauseReason::UnexpectedServerResponse => false,
    }
}

fn has_rules(shape: &Shape) -> bool {
    let is_below = match shape.form {
        ShapeForm::Map(item) | ShapeForm::List(item) => has_rules(item),
        ShapeForm::Object(fields) => fields.iter().any(|field| has_rules(&field.shape)),
        ShapeForm::Boolean
        | ShapeForm::Integer
        | ShapeForm::Number
        | ShapeForm::Text
        | ShapeForm::IntegerOrText
        | ShapeForm::Any => false,
    };
    is_below || !shape.rules.is_empty()
}

#[derive(Default)]
struct ShapeFindings {
    causes: Vec<Cause>,
    ruled: Vec<Cause>,
}

impl ShapeFindings {
    fn push(&mut self, cause: impl FnOnce() -> Cause) {
        if self.causes.len() < FINDINGS_MAX {
            self.causes.push(cause());
        }
    }

    fn wrong_type(&mut self, path: &ShapePath<'_>, value: &Value, wanted: &str) {
        self.push(|| Cause::type_invalid(&path.to_string(), type_name(value), wanted));
    }

    fn out_of_bounds(&mut self, path: &ShapePath<'_>, found: &Value, bound: &str) {
        self.push(|| Cause::invalid_value(&path.to_string(), found, &format!("{path} in body should {bound}")));
    }
}

fn walk(shape: &Shape, path: &ShapePath<'_>, value: &Value, old: Option<&Value>, findings: &mut ShapeFindings) {
    if value.is_null() && shape.nullable {
        return;
    }
    match (shape.form, value) {
        (ShapeForm::Any, _) | (ShapeForm::Boolean, Value::Bool(_)) | (ShapeForm::Number, Value::Number(_)) => {}
        (ShapeForm::IntegerOrText, Value::String(_)) => {}
        (ShapeForm::Text, Value::String(found)) => text(shape, path, found, findings),
        (ShapeForm::Integer, Value::Number(_)) => match integral(value) {
            Some(number) => integer(shape, path, number, findings),
            None => findings.wrong_type(path, value, "integer"),
        },
        (ShapeForm::IntegerOrText, Value::Number(_)) if integral(value).is_some() => {}
        (ShapeForm::Map(item), Value::Object(map)) => {
            for (name, value) in map {
                walk(item, &path.field(name), value, old.and_then(|old| old.get(name)), findings);
            }
        }
        (ShapeForm::List(item), Value::Array(values)) => list(shape, item, path, values, findings),
        (ShapeForm::Object(fields), Value::Object(map)) => object(shape, fields, path, map, old, findings),
        (form, _) => return findings.wrong_type(path, value, wanted(form)),
    }
    for rule in shape.rules.iter().filter(|rule| !(rule.holds)(value, old)) {
        findings.ruled.push(Cause::invalid_value(&path.to_string(), value, rule.message));
    }
}

fn object(
    shape: &Shape,
    fields: &'static [Field],
    path: &ShapePath<'_>,
    map: &Map<String, Value>,
    old: Option<&Value>,
    findings: &mut ShapeFindings,
) {
    for (name, value) in map {
        // What is not known here is open, or the API server's.
        if let Some(field) = field(fields, name) {
            walk(&field.shape, &path.field(name), value, old.and_then(|old| old.get(name)), findings);
        }
    }
    for field in fields.iter().filter(|field| field.required && !map.contains_key(field.name)) {
        findings.push(|| Cause::required(&path.field(field.name).to_string(), ""));
    }
    let count = map.keys().filter(|name| !(path.is_root() && COMMON.contains(&name.as_str()))).count();
    if let Some(min) = shape.fields_min.filter(|min| count < *min) {
        findings.out_of_bounds(path, &json!(count), &format!("have at least {min} properties"));
    }
}

fn list(shape: &Shape, item: &'static Shape, path: &ShapePath<'_>, values: &[Value], findings: &mut ShapeFindings) {
    let count = values.len();
    if let Some(min) = shape.items_min.filter(|min| count < *min) {
        findings.out_of_bounds(path, &json!(count), &format!("have at least {min} items"));
    }
    if let Some(max) = shape.items_max.filter(|max| count > *max) {
        findings.push(|| Cause::too_many(&path.to_string(), count, max));
    }
    for (index, value) in values.iter().enumerate() {
        walk(item, &path.index(index), value, None, findings);
        if findings.causes.len() >= FINDINGS_MAX {
            return;
        }
    }
    let key = |value: &Value| match shape.ownership {
        Ownership::Unsaid | Ownership::Atomic => None,
        Ownership::Set => Some(value.clone()),
        Ownership::Keyed(keys) => {
            let key: Map<String, Value> =
                keys.iter().filter_map(|key| Some(((*key).to_owned(), value.get(*key)?.clone()))).collect();
            (key.len() == keys.len()).then_some(Value::Object(key))
        }
    };
    if matches!(shape.ownership, Ownership::Unsaid | Ownership::Atomic) {
        return;
    }
    let mut seen = std::collections::HashSet::new();
    for (index, key) in values.iter().enumerate().filter_map(|(index, value)| Some((index, key(value)?))) {
        if !seen.insert(key.to_string()) {
            findings.push(|| Cause::duplicate_value(&path.index(index).to_string(), &key));
        }
    }
}

fn integer(shape: &Shape, path: &ShapePath<'_>, number: i64, findings: &mut ShapeFindings) {
    let found = json!(number);
    if shape.format == Some(OpenApiFormat::Int32) && i32::try_from(number).is_err() {
        let why = format!("{path} in body must be of type integer with format int32");
        findings.push(|| Cause::invalid_value(&path.to_string(), &found, &why));
    }
    if let Some(min) = shape.min.filter(|min| number < *min) {
        findings.out_of_bounds(path, &found, &format!("be greater than or equal to {min}"));
    }
    if let Some(max) = shape.max.filter(|max| number > *max) {
        findings.out_of_bounds(path, &found, &format!("be less than or equal to {max}"));
    }
}

fn text(shape: &Shape, path: &ShapePath<'_>, found: &str, findings: &mut ShapeFindings) {
    if !shape.words.is_empty() && !shape.words.contains(&found) {
        findings.push(|| Cause::not_supported(&path.to_string(), found, shape.words));
    }
    if shape.chars_min.is_some() || shape.chars_max.is_some() {
        let chars = found.chars().count();
        if let Some(min) = shape.chars_min.filter(|min| chars < *min) {
            findings.out_of_bounds(path, &json!(found), &format!("be at least {min} chars long"));
        }
        if let Some(max) = shape.chars_max.filter(|max| chars > *max) {
            findings.push(|| Cause::too_long(&path.to_string(), max));
        }
    }
    if let Some(pattern) = shape.pattern.filter(|pattern| !matches(pattern, found)) {
        findings.out_of_bounds(path, &json!(found), &format!("match '{pattern}'"));
    }
    if shape.format == Some(OpenApiFormat::DateTime) && !is_time(found) {
        findings.push(|| Cause::type_invalid(&path.to_string(), found, "date-time"));
    }
}

/// RFC 3339 as far as Go reads it (no small letters, no second 60): clients that read less than what was
/// stored could not read a whole list. What serves these kinds asks the same of Kubernetes' own, which
/// know none of ours; a test compares the two.
fn is_time(text: &str) -> bool {
    const FORM: &str = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):\d{2})$";
    matches(FORM, text) && text.parse::<jiff::Timestamp>().is_ok()
}

/// Kubernetes takes 1.0 as an integer; so do the clients that write it.
fn integral(value: &Value) -> Option<i64> {
    #[allow(clippy::cast_possible_truncation, reason = "whole and within 2^53, checked beside")]
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
    value.as_i64().or_else(|| value.as_f64().and_then(whole))
}

fn wanted(form: ShapeForm) -> &'static str {
    match form {
        ShapeForm::Boolean => "boolean",
        ShapeForm::Integer => "integer",
        ShapeForm::Number => "number",
        ShapeForm::Text => "string",
        ShapeForm::IntegerOrText => "integer,string",
        ShapeForm::List(_) => "array",
        ShapeForm::Map(_) | ShapeForm::Object(_) | ShapeForm::Any => "object",
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if value.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

thread_local! {
    /// The patterns of all shapes that were needed so far.
    static PATTERNS: RefCell<HashMap<&'static str, Option<Regex>>> = RefCell::default();
}

/// Whether the pattern matches some part of the text. One that is no expression matches nothing; a test
/// goes over all of them.
pub(crate) fn matches(pattern: &'static str, text: &str) -> bool {
    PATTERNS.with_borrow_mut(|known| {
        // As in Go, `\d` is one of ten digits.
        let compile = || RegexBuilder::new(pattern).unicode(false).build().ok();
        known.entry(pattern).or_insert_with(compile).as_ref().is_some_and(|regex| regex.is_match(text.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{CelRule, conform};

    fn texts(shape: &Shape, value: &Value) -> Vec<String> {
        check(shape, value, None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_bound_is_told_in_kubernetes_words() {
        const ITEM: Shape = Shape::object(&[Field::required("type", Shape::one_of(&["", "a"]))]);
        const SHAPE: Shape = Shape::object(&[
            Field::required("online", Shape::BOOLEAN),
            Field::new("size", Shape::NATURAL.max(9)),
            Field::new("count", Shape::INT32),
            Field::new("name", Shape::TEXT.chars_min(1).chars_max(3).matching(r"^\d*$")),
            Field::new("mode", Shape::one_of(&["a", "b"])),
            Field::new("at", Shape::TIME),
            Field::new("list", Shape::list(&ITEM).keyed_by(&["type"]).items_min(1).items_max(2)),
            Field::new("set", Shape::list(&Shape::TEXT).set()),
            Field::new("either", Shape::INTEGER_OR_TEXT),
            Field::new("one", Shape::object(&[Field::new("a", Shape::TEXT)]).fields_min(1)),
        ]);
        let rows: [(Value, &str); 16] = [
            (json!({}), "spec.online: Required value"),
            (
                json!({"online": "yes"}),
                "spec.online: Invalid value: \"string\": spec.online in body must be of type boolean: \"string\"",
            ),
            (
                json!({"size": -1}),
                "spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0",
            ),
            (json!({"size": 10}), "spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9"),
            (
                json!({"size": 1.5}),
                "spec.size: Invalid value: \"number\": spec.size in body must be of type integer: \"number\"",
            ),
            (
                json!({"count": 1_u64 << 31}),
                "spec.count: Invalid value: 2147483648: spec.count in body must be of type integer with format int32",
            ),
            (json!({"name": ""}), "spec.name: Invalid value: \"\": spec.name in body should be at least 1 chars long"),
            (json!({"name": "1234"}), "spec.name: Too long: may not be more than 3 bytes"),
            (json!({"name": "١"}), "spec.name: Invalid value: \"١\": spec.name in body should match '^\\d*$'"),
            (json!({"mode": "c"}), "spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\""),
            (
                json!({"at": "noon"}),
                "spec.at: Invalid value: \"noon\": spec.at in body must be of type date-time: \"noon\"",
            ),
            (json!({"list": []}), "spec.list: Invalid value: 0: spec.list in body should have at least 1 items"),
            (
                json!({"list": [{"type": "a"}, {"type": ""}, {"type": "a"}]}),
                "[spec.list: Too many: 3: must have at most 2 items, spec.list[2]: Duplicate value: {\"type\":\"a\"}]",
            ),
            (json!({"set": ["a", "a"]}), "spec.set[1]: Duplicate value: \"a\""),
            (
                json!({"either": true}),
                "spec.either: Invalid value: \"boolean\": spec.either in body must be of type integer,string: \"boolean\"",
            ),
            (json!({"one": {}}), "spec.one: Invalid value: 0: spec.one in body should have at least 1 properties"),
        ];
        const ROOT: Shape = Shape::object(&[Field::new("spec", SHAPE)]);
        for (mut spec, expected) in rows {
            if expected != "spec.online: Required value" && spec["online"].is_null() {
                spec["online"] = json!(true);
            }
            let causes = check(&ROOT, &json!({ "spec": spec }), None);
            assert_eq!(firesteel_kube_types::summary(&causes), expected);
        }
        let good = json!({"online": true, "size": 3.0, "count": -1, "name": "12", "mode": "b", "either": "x",
            "at": "2026-01-01T00:00:00Z", "list": [{"type": ""}], "set": ["a"], "one": {"a": ""}});
        assert_eq!(texts(&ROOT, &json!({ "spec": good })), Vec::<String>::new());
    }

    #[test]
    fn a_time_is_written_as_in_rfc_3339() {
        const SHAPE: Shape = Shape::object(&[Field::new("at", Shape::TIME)]);
        let faults = |text: &str| {
            assert_eq!(firesteel_kube::is_time(text), is_time(text), "{text:?}");
            texts(&SHAPE, &json!({ "at": text })).len()
        };
        for good in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678901Z", "2026-01-02T03:04:05+01:30"] {
            assert_eq!(faults(good), 0, "{good}");
        }
        let wide =
            ["2026-01-02 03:04:05Z", "2026-01-02T03:04Z", "2026-01-02T03:04:05+0130", "2026-01-02T03:04:05Z[UTC]"];
        let not_in_go =
            ["2026-01-02t03:04:05Z", "2026-01-02T03:04:05z", "2016-12-31T23:59:60Z", "2026-01-02T03:04:05+24:00"];
        for bad in
            wide.into_iter().chain(not_in_go).chain(["2026-13-02T03:04:05Z", "2026-01-02T24:04:05Z", "2026-01-02", ""])
        {
            assert_eq!(faults(bad), 1, "{bad:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_time_of_one_kind_is_a_time_of_any(
            text in r"20[0-9]{2}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9](:[0-6][0-9])?([.,][0-9]{0,10})?([Zz]|[+-][0-2][0-9]:?[0-9]{2})?(\[UTC\])?"
        ) {
            proptest::prop_assert_eq!(firesteel_kube::is_time(&text), is_time(&text));
        }
    }

    #[test]
    fn an_item_that_is_null_is_no_item() {
        const SHAPE: Shape = Shape::object(&[Field::new("list", Shape::list(&Shape::TEXT))]);
        let mut value = json!({"list": ["a", null]});
        assert_eq!(conform(&SHAPE, &mut value), Vec::<String>::new());
        let expected = "list[1]: Invalid value: \"null\": list[1] in body must be of type string: \"null\"";
        assert_eq!(texts(&SHAPE, &value), [expected]);
    }

    #[test]
    fn rules_speak_when_everything_has_its_shape() {
        const GROWS: CelRule = CelRule {
            cel: "self >= oldSelf",
            message: "must only increase",
            holds: |new, old| old.is_none_or(|old| new.as_i64() >= old.as_i64()),
        };
        const NAME: Shape = Shape::TEXT.matching("^[a-z]*$");
        const SHAPE: Shape =
            Shape::object(&[Field::new("revision", Shape::INT32.ruled_by(&[GROWS])), Field::new("name", NAME)]);
        let old = json!({"revision": 3});
        let judge = |new: Value| check(&SHAPE, &new, Some(&old));
        assert_eq!(judge(json!({"revision": 3})), []);
        let refused = judge(json!({"revision": 2}));
        assert_eq!(firesteel_kube_types::summary(&refused), "revision: Invalid value: 2: must only increase");
        assert_eq!(refused[0].reason, CauseReason::FieldValueInvalid);
        let other = judge(json!({"revision": 2, "name": 1}));
        assert!(matches!(other.as_slice(), [one] if one.field == "name"), "{other:?}");
        let more = unasked_rules(&SHAPE, &other).map(|cause| cause.to_string()).unwrap_or_default();
        assert!(more.starts_with("<nil>: Invalid value: null: some validation rules were not checked"), "{more:?}");
        assert_eq!(unasked_rules(&NAME, &other), None, "it has none");
        let both = judge(json!({"revision": 2, "name": "A"}));
        let fields: Vec<&str> = both.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["name", "revision"], "a value of its type hinders no rule");
        assert_eq!(unasked_rules(&SHAPE, &both), None);
        assert_eq!(check(&SHAPE, &json!({"revision": 1}), None), [], "a new object has no old value");
    }
}
