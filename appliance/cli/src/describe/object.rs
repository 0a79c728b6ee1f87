//! The page of an object that has none of its own: its metadata, its content and its events.

use anyhow::Context as _;
use firesteel_kube::negotiate;
use firesteel_kube_types::ObjectMeta;
use firesteel_resources::Condition;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{TextPage, ago, conditions, table};
use crate::ApiClient;
use crate::client::{default_if_forbidden, with_query};
use crate::kinds::{self, CliKind};

/// Fetches the events of an object.
///
/// # Errors
/// When the appliance does not answer, or refuses.
pub(super) async fn events(client: &ApiClient, kind: CliKind, name: &str) -> anyhow::Result<Vec<Value>> {
    let fields = format!("involvedObject.kind={},involvedObject.name={name}", kind.kind);
    let events = kinds::by_name("events")?;
    let namespace = if kind.namespaced { client.namespace.as_str() } else { "default" };
    let path = with_query(&kinds::collection(events, namespace), &[("fieldSelector", fields)]);
    let mut list = default_if_forbidden(client.get(&path).await)?;
    Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// Renders the page for a person.
///
/// # Errors
/// When the object's metadata cannot be read.
pub(super) fn render(object: &Value, events: &[Value], now: Timestamp, width: usize) -> anyhow::Result<String> {
    let mut page = TextPage { text: String::new(), width };
    let metadata: ObjectMeta =
        serde_json::from_value(object["metadata"].clone()).context("could not read the object's metadata")?;
    page.field("Name", &metadata.name);
    page.field("Namespace", &metadata.namespace);
    page.field("Kind", object["kind"].as_str().unwrap_or_default());
    let pairs = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
    };
    page.field("Labels", &pairs(&metadata.labels));
    page.field("Annotations", &pairs(&metadata.annotations));
    if let Some(at) = metadata.creation_timestamp {
        page.field("Created", &format!("{}, {} ago", table::time(at), ago(at, now)));
    }
    if let Some(at) = metadata.deletion_timestamp {
        let by = metadata.finalizers.join(", ");
        page.field("Deleted", &format!("{}, {} ago; waits for: {by}", table::time(at), ago(at, now)));
    }
    let found: Vec<Condition> =
        serde_json::from_value(object.pointer("/status/conditions").cloned().unwrap_or(json!([]))).unwrap_or_default();
    conditions(&mut page, &found, now);
    for (name, content) in contents(object) {
        page.title(&name);
        for line in negotiate::yaml(&content)?.lines() {
            page.line(&format!("  {line}"));
        }
    }
    if !events.is_empty() {
        page.title("Events");
        page.table(&["  LAST SEEN", "TYPE", "REASON", "MESSAGE"], events.iter().map(event_row).collect(), &[]);
    }
    Ok(page.text)
}

/// The parts of an object beside its metadata. The values of a Secret are not shown, as kubectl does it.
fn contents(object: &Value) -> Vec<(String, Value)> {
    let is_secret = object["kind"] == "Secret";
    let parts = object.as_object().into_iter().flatten();
    let shown = parts.filter(|(name, _)| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
    shown
        .map(|(name, value)| {
            let mut value = value.clone();
            if let Some(status) = value.as_object_mut().filter(|_| name == "status") {
                status.remove("conditions");
            }
            if is_secret && name == "data" {
                value = sizes(&value);
            }
            (name.clone(), value)
        })
        .filter(|(_, value)| !value.is_null() && value.as_object().is_none_or(|fields| !fields.is_empty()))
        .collect()
}

/// The sizes of values in base64.
fn sizes(data: &Value) -> Value {
    let of = |text: &str| text.trim_end_matches('=').len() * 3 / 4;
    let sizes = data.as_object().into_iter().flatten();
    let sizes = sizes.map(|(key, value)| (key.clone(), json!(format!("{} bytes", value.as_str().map_or(0, of)))));
    Value::Object(sizes.collect())
}

fn event_row(event: &Value) -> Vec<String> {
    let text = |name: &str| table::clean(event[name].as_str().unwrap_or_default());
    let times = ["lastTimestamp", "eventTime", "firstTimestamp"];
    let at = times.iter().find_map(|name| event[*name].as_str()?.parse::<Timestamp>().ok());
    let at = at.map(table::time).unwrap_or_default();
    vec![format!("  {at}"), text("type"), text("reason"), text("message")]
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_everything_but_the_values_of_secrets() {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"password": "aHVudGVyMg=="},
            "metadata": {"name": "s", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"}},
        });
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        let page = render(&secret, &[], now, 80).unwrap();
        assert!(page.contains("password: 7 bytes") && !page.contains("aHVu"), "{page}");
        assert!(page.contains("Created:      2026-01-01T00:00:00Z, 5m00s ago\n") && page.contains("a=b"), "{page}");
        let halt = json!({
            "kind": "Halt", "metadata": {"name": "fleet"}, "spec": {"by": "ann", "reason": "x\u{1b}[2J"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Fine", "message": "",
                                       "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        let event = json!({"lastTimestamp": "2026-01-01T00:00:09Z", "type": "Warning", "reason": "FleetHalted", "message": "m"});
        let page = render(&halt, &[event], now, 80).unwrap();
        for part in ["spec\n  by: ann\n", "Ready  True", "2026-01-01T00:00:09Z  Warning  FleetHalted  m\n"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains('\u{1b}') && !page.contains("\nstatus"), "{page}");
    }
}
