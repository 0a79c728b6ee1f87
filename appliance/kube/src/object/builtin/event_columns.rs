//! How events are printed: in both groups alike, and as Kubernetes does it, by which the name is one of the
//! columns that only `-o wide` shows. Pure.

use serde_json::{Value, json};

use super::column;
use crate::model::kind_parts::{Cell, PrinterColumn};

/// A field has another name in the newer group.
const OBJECT: [&str; 2] = ["/involvedObject", "/regarding"];
const LAST: [&str; 5] =
    ["/lastTimestamp", "/deprecatedLastTimestamp", "/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"];
const COUNT: [&str; 2] = ["/count", "/deprecatedCount"];
const COMPONENT: [&str; 4] =
    ["/source/component", "/deprecatedSource/component", "/reportingComponent", "/reportingController"];
const INSTANCE: [&str; 3] = ["/source/host", "/deprecatedSource/host", "/reportingInstance"];

pub(super) fn columns() -> Vec<PrinterColumn> {
    let of =
        |name, column_type, compute| PrinterColumn { cell: Cell::Computed(compute), ..column(name, column_type, "") };
    let wide = |name, column_type, compute| PrinterColumn { priority: 1, ..of(name, column_type, compute) };
    vec![
        of("Last Seen", "date", last_seen),
        column("Type", "string", ".type"),
        column("Reason", "string", ".reason"),
        of("Object", "string", object),
        wide("Subobject", "string", |event| json!(text(event, &["/involvedObject/fieldPath", "/regarding/fieldPath"]))),
        wide("Source", "string", source),
        of("Message", "string", |event| json!(text(event, &["/message", "/note"]).trim())),
        wide("First Seen", "date", |event| time(event, &LAST[2..])),
        wide("Count", "string", count),
        PrinterColumn { priority: 1, ..column("Name", "string", ".metadata.name") },
    ]
}

/// The first of these that says something.
fn text<'a>(event: &'a Value, pointers: &[&str]) -> &'a str {
    let mut texts = pointers.iter().filter_map(|pointer| event.pointer(pointer)?.as_str());
    texts.find(|text| !text.is_empty()).unwrap_or_default()
}

/// The first of these times, and an empty text where there is none.
fn time(event: &Value, pointers: &[&str]) -> Value {
    match text(event, pointers) {
        "" => Value::Null,
        text => json!(text),
    }
}

/// When an event was seen last. A series says it itself, and then the rest does not count.
fn last_seen(event: &Value) -> Value {
    if event["series"].is_object() { time(event, &["/series/lastObservedTime"]) } else { time(event, &LAST) }
}

fn object(event: &Value) -> Value {
    let object = OBJECT.iter().find_map(|pointer| event.pointer(pointer)).unwrap_or(&Value::Null);
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    match object["name"].as_str().unwrap_or_default() {
        "" => json!(kind),
        name => json!(format!("{kind}/{name}")),
    }
}

fn source(event: &Value) -> Value {
    let component = text(event, &COMPONENT);
    match text(event, &INSTANCE) {
        "" => json!(component),
        instance => json!(format!("{component}, {instance}")),
    }
}

/// One that was never counted happened once.
fn count(event: &Value) -> Value {
    if event["series"].is_object() {
        return json!(event["series"]["count"].as_i64().unwrap_or(0));
    }
    let mut counts = COUNT.iter().filter_map(|pointer| event.pointer(pointer)?.as_i64());
    json!(counts.find(|count| *count != 0).unwrap_or(1))
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
            "involvedObject": { "kind": "BareMetalHost", "name": "h1" }, "message": " m\n", "count": 3,
            "source": { "component": "c", "host": "i" }, "firstTimestamp": "a", "lastTimestamp": "b",
        });
        let expected = [
            ("Last Seen", json!("b")),
            ("Object", json!("baremetalhost/h1")),
            ("Subobject", json!("")),
            ("Source", json!("c, i")),
            ("Message", json!("m")),
            ("First Seen", json!("a")),
            ("Count", json!(3)),
        ];
        assert_eq!(cells(&old), expected);
        let new = json!({
            "regarding": { "kind": "BareMetalHost", "name": "h1" }, "note": "m", "eventTime": "a",
            "reportingController": "c", "reportingInstance": "i",
            "series": { "count": 3, "lastObservedTime": "b" }, "deprecatedCount": 9, "deprecatedLastTimestamp": "z",
        });
        assert_eq!(cells(&new), expected);
        let once = json!({ "eventTime": "a", "lastTimestamp": null, "reportingComponent": "c" });
        let once = cells(&once);
        assert_eq!((&once[0].1, &once[3].1, &once[6].1), (&json!("a"), &json!("c"), &json!(1)));
        let bare = json!({ "involvedObject": { "kind": "Node" }, "series": {}, "count": 3, "lastTimestamp": "b" });
        let bare = cells(&bare);
        assert_eq!((&bare[0].1, &bare[1].1, &bare[6].1), (&Value::Null, &json!("node"), &json!(0)));
    }
}
