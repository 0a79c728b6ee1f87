//! What a bundle says of itself: the versions, the files, what is missing, and what was removed. Pure.

use std::collections::BTreeSet;

use firesteel_redaction::{RemovalList, SecretRemoval};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::archive::BundledFile;
use super::collection::MissingPart;

/// The version of the form of bundles.
const FORM: u32 = 1;

/// `manifest.json` of a bundle.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SupportManifest<'a> {
    pub(super) form: u32,
    pub(super) made_at: Timestamp,
    pub(super) took_seconds: u64,
    pub(super) client_version: &'static str,
    /// The appliance's answer; `null` if there was none.
    pub(super) server_version: Value,
    /// The URL of the appliance.
    pub(super) server: &'a str,
    /// The namespace that was asked for; absent where it is all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<&'a str>,
    /// Nothing is missing.
    pub(super) is_complete: bool,
    pub(super) missing: &'a [MissingPart],
    /// What the ClusterOperators name as theirs, each with whether its kind is in the bundle.
    pub(super) related_objects: Vec<Value>,
    pub(super) redaction: RedactionSummary,
    pub(super) files: &'a [BundledFile],
}

/// How secrets were looked for.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RedactionSummary {
    /// How many values were looked for in all files.
    pub(super) known_values: usize,
    /// How many values of Secrets are so short that they were removed from their Secrets alone.
    pub(super) short_values: u64,
    /// How many secrets were removed.
    pub(super) removed: u64,
}

impl SupportManifest<'_> {
    pub(super) const FORM: u32 = FORM;
}

/// Renders `redactions.json`: what was removed and where, and never a value.
pub(super) fn redactions(removals: &RemovalList) -> Value {
    let rows = removals.iter().map(|(SecretRemoval { file, place, trace }, count)| {
        json!({"file": file, "place": place, "what": trace.what(), "count": count})
    });
    json!({"redactions": rows.collect::<Vec<_>>()})
}

/// Says of each related object whether its kind is in the bundle.
pub(super) fn related_objects(related: &[Value], collected: &BTreeSet<String>) -> Vec<Value> {
    let mut listed: Vec<Value> = Vec::new();
    for object in related {
        let (group, resource) =
            (object["group"].as_str().unwrap_or_default(), object["resource"].as_str().unwrap_or_default());
        let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let mut row = object.clone();
        if let Some(fields) = row.as_object_mut() {
            fields.insert("isCollected".to_owned(), collected.contains(&name).into());
        }
        if !listed.contains(&row) {
            listed.push(row);
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use firesteel_redaction::SecretTrace;

    use super::*;

    #[test]
    fn the_list_says_where_and_what_and_how_often() {
        let removal = SecretRemoval { file: "a.json".into(), place: "/items/0/x".into(), trace: SecretTrace::UrlLogin };
        let list = redactions(&RemovalList::from([(removal, 2)]));
        assert_eq!(
            list["redactions"][0],
            json!({"file": "a.json", "place": "/items/0/x", "what": "login in a URL", "count": 2})
        );
    }

    #[test]
    fn related_objects_say_whether_they_are_there() {
        let collected = BTreeSet::from(["baremetalhosts.metal3.io".to_owned(), "namespaces".to_owned()]);
        let related = [
            json!({"group": "metal3.io", "resource": "baremetalhosts", "name": ""}),
            json!({"group": "", "resource": "namespaces", "name": "a"}),
            json!({"group": "", "resource": "namespaces", "name": "a"}),
            json!({"group": "x.io", "resource": "others", "name": "a"}),
        ];
        let listed = related_objects(&related, &collected);
        let shown: Vec<_> = listed.iter().map(|row| row["isCollected"].as_bool()).collect();
        assert_eq!(shown, [Some(true), Some(true), Some(false)]);
    }
}
