//! Objects as rows, the way `kubectl get` prints them. Pure.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::codec::negotiate::partial;
use crate::model::jsonpath;
use crate::model::kind::KindInfo;
use crate::model::kind_parts::{Cell, PrinterColumn};
use crate::model::status::Status;

/// What stands in `object` of each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
        }
    }
}

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

const NAME: &str = "Name";

/// The first column of every kind that has none of this name.
const NAME_COLUMN: PrinterColumn = PrinterColumn {
    name: NAME,
    column_type: "string",
    description: "",
    priority: 0,
    cell: Cell::Path(".metadata.name"),
};

/// Columns of kinds that name none.
const DEFAULT_COLUMNS: [PrinterColumn; 1] = [PrinterColumn {
    name: "Age",
    column_type: "date",
    description: "Time since the creation of the object",
    priority: 0,
    cell: Cell::Path(".metadata.creationTimestamp"),
}];

/// A table of objects; `metadata` is that of the list, or just the revision.
pub(crate) fn table(
    kind: &KindInfo,
    metadata: Value,
    objects: &[Value],
    include: Include,
    now: Timestamp,
    with_columns: bool,
) -> Value {
    let columns = if with_columns { definitions(kind) } else { Value::Null };
    let rows: Vec<Value> = objects.iter().map(|object| row(kind, object, include, now)).collect();
    let mut table = json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": columns, "rows": rows,
    });
    if let (false, Some(table)) = (with_columns, table.as_object_mut()) {
        table.remove("columnDefinitions");
    }
    table
}

/// A row that carries nothing but a revision, for a bookmark.
pub(crate) fn bookmark(kind: &KindInfo, object: &Value) -> Value {
    let cells = vec![Value::Null; columns(kind).count()];
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
        "rows": [{ "cells": cells, "object": partial(object) }],
    })
}

fn columns(kind: &KindInfo) -> impl Iterator<Item = &PrinterColumn> {
    let own = if kind.columns.is_empty() { &DEFAULT_COLUMNS[..] } else { &kind.columns };
    let name = own.iter().all(|column| column.name != NAME).then_some(&NAME_COLUMN);
    name.into_iter().chain(own)
}

pub(crate) fn definitions(kind: &KindInfo) -> Value {
    let definition = |column: &PrinterColumn| {
        let (format, description) =
            if column.name == NAME { ("name", NAME_DESCRIPTION) } else { ("", column.description) };
        json!({
            "name": column.name, "type": column.column_type, "format": format,
            "description": description, "priority": column.priority,
        })
    };
    Value::Array(columns(kind).map(definition).collect())
}

pub(crate) fn row(kind: &KindInfo, object: &Value, include: Include, now: Timestamp) -> Value {
    let cells: Vec<Value> = columns(kind).map(|column| cell(column, object, now)).collect();
    let shown = match include {
        Include::None => Value::Null,
        Include::Metadata => partial(object),
        Include::Object => object.clone(),
    };
    json!({ "cells": cells, "object": shown })
}

fn cell(column: &PrinterColumn, object: &Value, now: Timestamp) -> Value {
    let value = match column.cell {
        Cell::Path(path) => jsonpath::first(object, path).clone(),
        Cell::Computed(compute) => compute(object),
    };
    match (column.column_type, &value) {
        ("date", Value::String(time)) => match time.parse::<Timestamp>() {
            Ok(time) => json!(age(now.as_second().saturating_sub(time.as_second()))),
            Err(_) => json!("<invalid>"),
        },
        ("date", _) => json!("<unknown>"),
        (_, Value::Null) => Value::Null,
        ("string", Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => json!(value.to_string()),
        _ => value,
    }
}

/// A time span as kubectl writes it: two units while they matter, one later.
pub fn age(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, unit: &str, small: i64, sub: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{sub}") }
    };
    match seconds {
        ..=-2 => "<invalid>".into(),
        -1 => "0s".into(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn ages_read_as_kubectl_writes_them() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3_600, "60m"),
            (10_800, "3h"),
            (12_000, "3h20m"),
            (100_000, "27h"),
            (200_000, "2d7h"),
            (86_400 * 30, "30d"),
            (86_400 * 800, "2y70d"),
            (86_400 * 365 * 9, "9y"),
        ] {
            assert_eq!(age(seconds), text);
        }
    }

    #[test]
    fn cells_follow_their_columns() {
        let column = |column_type, path| PrinterColumn {
            name: "X",
            column_type,
            description: "",
            priority: 0,
            cell: Cell::Path(path),
        };
        let kind = KindInfo {
            columns: vec![
                column("string", ".spec.online"),
                column("string", ".status.state"),
                column("integer", ".spec.size"),
                column("date", ".metadata.creationTimestamp"),
                column("date", ".status.at"),
            ],
            ..KindInfo::namespaced("example.org", "v1", "Toy", "toys")
        };
        let object = json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"online": true, "size": 3},
        });
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let table = table(&kind, json!({}), &[object], Include::None, now, true);
        assert_eq!(table["rows"][0]["cells"], json!(["a", "true", null, 3, "60s", "<unknown>"]));
        assert_eq!(table["rows"][0]["object"], Value::Null);
        assert_eq!(table["columnDefinitions"].as_array().unwrap().len(), 6);
    }
}
