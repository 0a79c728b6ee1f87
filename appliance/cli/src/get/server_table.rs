//! Tables that the appliance makes of objects: the columns that kubectl shows, too.

use serde_json::Value;

use super::listing::{ObjectListing, missing};
use crate::ApiClient;
use crate::table::{TableRow, TextTable, clean};

/// A table as the appliance answers it.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerTable {
    pub(super) header: Vec<String>,
    /// Numbers of the cells that are shown.
    shown: Vec<usize>,
    /// Whether the namespace comes first.
    everywhere: bool,
}

impl ServerTable {
    /// Reads the columns. Those of a priority above 0 are for `-o wide`.
    pub(super) fn of(answer: &Value, is_wide: bool, everywhere: bool) -> Self {
        let columns = answer["columnDefinitions"].as_array().into_iter().flatten().enumerate();
        let shown = columns.filter(|(_, column)| is_wide || column["priority"].as_i64().unwrap_or(0) == 0);
        let (shown, names): (Vec<usize>, Vec<String>) =
            shown.map(|(at, column)| (at, clean(column["name"].as_str().unwrap_or_default()).to_uppercase())).unzip();
        let namespace = everywhere.then(|| "NAMESPACE".to_owned());
        Self { header: namespace.into_iter().chain(names).collect(), shown, everywhere }
    }

    /// The rows of an answer.
    pub(super) fn rows(&self, answer: &Value) -> Vec<TableRow> {
        answer["rows"].as_array().into_iter().flatten().map(|row| self.row(row)).collect()
    }

    fn row(&self, row: &Value) -> TableRow {
        let namespace = || row.pointer("/object/metadata/namespace").and_then(Value::as_str).unwrap_or("-").to_owned();
        let namespace = self.everywhere.then(namespace);
        let cells = self.shown.iter().map(|at| cell(&row["cells"][*at]));
        TableRow::whole(namespace.into_iter().chain(cells).collect())
    }

    /// A table of rows, for printing.
    pub(super) fn table(&self, rows: Vec<TableRow>) -> TextTable<'_> {
        TextTable { header: self.header.iter().map(String::as_str).collect(), rows, expendable: &[] }
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => value.to_string(),
    }
}

/// Fetches and renders the table of a listing, and says which of its objects are missing.
///
/// # Errors
/// When the appliance does not answer, or refuses.
pub(super) async fn read(
    client: &ApiClient,
    listing: &ObjectListing,
    is_wide: bool,
    width: usize,
) -> anyhow::Result<(String, Vec<anyhow::Error>)> {
    let (mut server, mut rows, mut errors) = (ServerTable::default(), Vec::new(), Vec::new());
    for (number, path) in listing.paths(client).iter().enumerate() {
        let answer = match (client.get_table(&with_objects(path, listing)).await, listing.names.get(number)) {
            (Ok(answer), _) => answer,
            (Err(error), Some(name)) => {
                errors.push(missing(client, listing.kind, name, error));
                continue;
            }
            (Err(error), None) => return Err(error.context(format!("could not list {}", listing.kind.word()))),
        };
        server = ServerTable::of(&answer, is_wide, listing.options.everywhere);
        let mut answered: Vec<&Value> = answer["rows"].as_array().into_iter().flatten().collect();
        if listing.options.by_time {
            answered.sort_by_cached_key(|row| last_seen(&row["object"]));
        }
        rows.extend(answered.into_iter().map(|row| server.row(row)));
    }
    let text = if rows.is_empty() { String::new() } else { server.table(rows).render(width) };
    Ok((text, errors))
}

/// Asks for whole objects beside the cells where they are to be sorted.
pub(super) fn with_objects(path: &str, listing: &ObjectListing) -> String {
    if !listing.options.by_time {
        return path.to_owned();
    }
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}includeObject=Object")
}

/// When an event was seen last, and which of those of one second was stored last. Times of the API sort as texts.
pub(super) fn last_seen(event: &Value) -> (String, u64) {
    let places =
        ["/series/lastObservedTime", "/lastTimestamp", "/firstTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    let text = places.iter().find_map(|place| event.pointer(place)?.as_str()).unwrap_or_default();
    // With a fraction or without: a full second comes first.
    let revision = event["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    (text.trim_end_matches('Z').to_owned(), revision)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_and_cells_are_those_of_kubectl() {
        let answer = json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "Source", "priority": 1}, {"name": "Data", "priority": 0},
            ],
            "rows": [{"cells": ["a\u{1b}", "x", null], "object": {"metadata": {"namespace": "n"}}}],
        });
        let shown = |is_wide: bool, everywhere: bool| {
            let server = ServerTable::of(&answer, is_wide, everywhere);
            server.table(server.rows(&answer)).render(80)
        };
        assert_eq!(shown(false, false), "NAME     DATA\na\\u001b  -\n");
        assert_eq!(shown(true, true), "NAMESPACE  NAME     SOURCE  DATA\nn          a\\u001b  x       -\n");
    }

    #[test]
    fn events_are_sorted_by_when_they_were_seen_last() {
        let mut events = [
            json!({"lastTimestamp": "2026-01-01T00:00:02Z"}),
            json!({"lastTimestamp": "2026-01-01T00:00:01Z", "series": {"lastObservedTime": "2026-01-01T00:00:02.5Z"}}),
            json!({"eventTime": "2026-01-01T00:00:01Z", "lastTimestamp": null}),
        ];
        events.sort_by_cached_key(last_seen);
        let order: Vec<bool> = events.iter().map(|event| event["series"].is_object()).collect();
        assert_eq!((order, events[0]["eventTime"].is_string()), (vec![false, false, true], true));
    }
}
