//! How events are printed: in both groups alike, and as Kubernetes does it, by which the name is one of the
//! columns that only `-o wide` shows. Pure.

use serde_json::{Value, json};

use super::column;
use crate::kind::{Cell, Column};

/// A field has another name in the newer group.
const OBJECT: [&str; 2] = ["/involvedObject", "/regarding"];
const LAST: [&str; 6] = [
    "/series/lastObservedTime",
    "/lastTimestamp",
    "/deprecatedLastTimestamp",
    "/firstTimestamp",
    "/deprecatedFirstTimestamp",
    "/eventTime",
];
const COUNT: [&str; 3] = ["/series/count", "/count", "/deprecatedCount"];
const COMPONENT: [&str; 4] =
    ["/source/component", "/deprecatedSource/component", "/reportingComponent", "/reportingController"];
const INSTANCE: [&str; 3] = ["/source/host", "/deprecatedSource/host", "/reportingInstance"];

pub(super) fn columns() -> Vec<Column> {
    let of = |name, column_type, compute| Column { cell: Cell::Computed(compute), ..column(name, column_type, "") };
    let wide = |name, column_type, compute| Column { priority: 1, ..of(name, column_type, compute) };
    vec![
        of("Last Seen", "date", |event| first(event, &LAST)),
        column("Type", "string", ".type"),
        column("Reason", "string", ".reason"),
        of("Object", "string", object),
        wide("Subobject", "string", |event| first(event, &["/involvedObject/fieldPath", "/regarding/fieldPath"])),
        wide("Source", "string", source),
        of("Message", "string", |event| first(event, &["/message", "/note"])),
        wide("First Seen", "date", |event| first(event, &LAST[3..])),
        wide("Count", "string", count),
        Column { priority: 1, ..column("Name", "string", ".metadata.name") },
    ]
}

/// The first of these that says something.
fn first(event: &Value, pointers: &[&str]) -> Value {
    let mut texts = pointers.iter().filter_map(|pointer| event.pointer(pointer));
    texts.find(|text| text.as_str().is_some_and(|text| !text.is_empty())).cloned().unwrap_or_default()
}

fn object(event: &Value) -> Value {
    let object = OBJECT.iter().find_map(|pointer| event.pointer(pointer)).unwrap_or(&Value::Null);
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    json!(format!("{kind}/{}", object["name"].as_str().unwrap_or_default()))
}

fn source(event: &Value) -> Value {
    let texts = [first(event, &COMPONENT), first(event, &INSTANCE)];
    let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
    json!(texts.join(", "))
}

/// One that was never counted happened once.
fn count(event: &Value) -> Value {
    let counts = COUNT.iter().filter_map(|pointer| event.pointer(pointer)?.as_i64());
    json!(counts.into_iter().find(|count| *count > 0).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(event: &Value) -> Vec<(&'static str, Value)> {
        let computed = columns().into_iter().filter_map(|column| match column.cell {
            Cell::Computed(compute) => Some((column.name, compute(event))),
            Cell::Path(_) => None,
        });
        computed.collect()
    }

    #[test]
    fn events_of_both_groups_are_printed_alike() {
        let old = json!({
            "involvedObject": { "kind": "BareMetalHost", "name": "h1" }, "message": "m", "count": 3,
            "source": { "component": "c", "host": "i" }, "firstTimestamp": "a", "lastTimestamp": "b",
        });
        let expected = [
            ("Last Seen", json!("b")),
            ("Object", json!("baremetalhost/h1")),
            ("Subobject", Value::Null),
            ("Source", json!("c, i")),
            ("Message", json!("m")),
            ("First Seen", json!("a")),
            ("Count", json!(3)),
        ];
        assert_eq!(cells(&old), expected);
        let new = json!({
            "regarding": { "kind": "BareMetalHost", "name": "h1" }, "note": "m", "eventTime": "a",
            "reportingController": "c", "reportingInstance": "i",
            "series": { "count": 3, "lastObservedTime": "b" },
        });
        assert_eq!(cells(&new), expected);
        let once = json!({ "eventTime": "a", "lastTimestamp": null, "reportingComponent": "c" });
        let once = cells(&once);
        assert_eq!((&once[0].1, &once[3].1, &once[6].1), (&json!("a"), &json!("c"), &json!(1)));
    }
}
