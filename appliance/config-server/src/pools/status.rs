//! A pool's status: pure. The conditions are upstream's (`machine-config-operator`, `pkg/controller/node/status.go`),
//! in its words where they mean the same; ours are `StubsManaged`, and `ServedWithoutToken` where the operator has
//! chosen it.

use firesteel_ignition::render::Rendered;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The most bytes of a message: upstream's have no bound, an object has.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Machines or stubs that are named.
const NAMED_MAX: usize = 10;

/// The warning that stands while configs are served without a token.
pub(super) const WITHOUT_TOKEN: &str = "ServedWithoutToken";
pub(super) const WITHOUT_TOKEN_TEXT: &str = "whoever reaches the config server reads the configs of all pools, and the \
                                             join credentials in them: it serves without a token (--config-without-token)";

/// The machines of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolCounts {
    pub(super) total: u32,
    /// Their OS runs.
    pub(super) ready: u32,
    /// Compares with what is rendered now.
    pub(super) updated: u32,
    /// They fetched a config, and their OS does not run yet.
    pub(super) under_way: u32,
    /// The names of those whose installation or first boot failed.
    pub(super) degraded: Vec<String>,
}

/// What the status is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolStatusInputs<'a> {
    pub(super) generation: i64,
    /// What is served.
    pub(super) rendered: Option<&'a Rendered>,
    /// Why what is wanted now could not be rendered.
    pub(super) fault: Option<&'a str>,
    pub(super) stub_faults: &'a [String],
    pub(super) machines: &'a PoolCounts,
    pub(super) without_token: bool,
}

/// The new status; what others keep in it stays.
pub(super) fn status(old: &Value, seen: &PoolStatusInputs<'_>, now: Timestamp) -> Value {
    let mut status = old.as_object().cloned().unwrap_or_default();
    let PoolCounts { total, ready, updated, degraded, .. } = seen.machines;
    let failed = u32::try_from(degraded.len()).unwrap_or(u32::MAX);
    let counts = [
        ("machineCount", *total),
        ("readyMachineCount", *ready),
        ("updatedMachineCount", *updated),
        ("unavailableMachineCount", total - ready),
        ("degradedMachineCount", failed),
    ];
    status.extend(counts.into_iter().map(|(name, count)| (name.to_owned(), json!(count))));
    status.insert("observedGeneration".to_owned(), json!(seen.generation));
    if let Some(rendered) = seen.rendered {
        status.insert("configuration".to_owned(), configuration(rendered));
    } else if seen.fault.is_some() {
        // Nothing is served: what was before must not seem to be.
        status.remove("configuration");
    }
    let mut conditions: Vec<Value> = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    for (kind, is_so, reason, message) in conditions_of(seen) {
        set(&mut conditions, kind, is_so, reason, &message, now);
    }
    if !seen.without_token {
        conditions.retain(|condition| condition["type"] != WITHOUT_TOKEN);
    }
    status.insert("conditions".to_owned(), Value::Array(conditions));
    Value::Object(status)
}

fn configuration(rendered: &Rendered) -> Value {
    let source = |name: &String| json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "name": name});
    json!({
        "name": rendered.name,
        "source": rendered.sources.iter().map(source).collect::<Vec<_>>(),
    })
}

type Said = (&'static str, bool, &'static str, String);

fn conditions_of(seen: &PoolStatusInputs<'_>) -> Vec<Said> {
    let machines = seen.machines;
    let name = seen.rendered.map_or("", |rendered| rendered.name.as_str());
    let is_updated = machines.updated == machines.total && seen.fault.is_none();
    let no = String::new;
    let updated = if is_updated {
        ("Updated", true, "", format!("All nodes are updated with {name}"))
    } else {
        let text = format!(
            "{} of {} machines run with {name}; those that run with another config are not changed by the appliance",
            machines.updated, machines.total
        );
        ("Updated", false, "", text)
    };
    let updating = if machines.under_way > 0 {
        ("Updating", true, "", format!("{} machines are on their first boot", machines.under_way))
    } else {
        ("Updating", false, "", no())
    };
    let render = match seen.fault {
        Some(fault) => ("RenderDegraded", true, "RenderFailed", fault.to_owned()),
        None => ("RenderDegraded", false, "", notes(seen.rendered)),
    };
    let node = if machines.degraded.is_empty() {
        ("NodeDegraded", false, "", no())
    } else {
        let text = format!("the installation or the first boot failed of {}", named(&machines.degraded));
        ("NodeDegraded", true, "MachinesFailed", text)
    };
    let degraded = match (render.1, node.1) {
        (true, _) => ("Degraded", true, "RenderFailed", render.3.clone()),
        (false, true) => ("Degraded", true, "MachinesFailed", node.3.clone()),
        (false, false) => ("Degraded", false, "", no()),
    };
    let stubs = if seen.stub_faults.is_empty() {
        ("StubsManaged", true, "AsWanted", no())
    } else {
        ("StubsManaged", false, "LeftAlone", named(seen.stub_faults))
    };
    let mut all = vec![updated, updating, render, node, degraded, stubs];
    if seen.without_token {
        all.push((WITHOUT_TOKEN, true, "OperatorSetting", WITHOUT_TOKEN_TEXT.to_owned()));
    }
    all
}

/// What is in a machine config and has no effect.
fn notes(rendered: Option<&Rendered>) -> String {
    rendered.map(|rendered| named(&rendered.notes)).unwrap_or_default()
}

fn named(all: &[String]) -> String {
    let shown = all.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Sets one condition in a list of upstream's form; the time moves with the status alone.
pub(super) fn set(conditions: &mut Vec<Value>, kind: &str, is_so: bool, reason: &str, message: &str, now: Timestamp) {
    let word = if is_so { "True" } else { "False" };
    let mut message = message.to_owned();
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX - '…'.len_utf8()));
        message.push('…');
    }
    let old = conditions.iter().position(|condition| condition["type"] == kind);
    let since = old
        .map(|at| &conditions[at])
        .filter(|old| old["status"] == word)
        .and_then(|old| old["lastTransitionTime"].as_str().map(str::to_owned))
        .unwrap_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let new: Map<String, Value> = [
        ("type", json!(kind)),
        ("status", json!(word)),
        ("reason", json!(reason)),
        ("message", json!(message)),
        ("lastTransitionTime", json!(since)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    match old {
        Some(at) => conditions[at] = Value::Object(new),
        None => conditions.push(Value::Object(new)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_ignition::render::{Defaults, RenderableConfig, render};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
        status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == kind).unwrap()
    }

    #[test]
    fn a_status_names_what_was_rendered_and_what_contradicts() {
        let config =
            RenderableConfig { name: "00-worker".into(), role: "worker".into(), ..RenderableConfig::default() };
        let rendered = render("worker", &[config], &Defaults::default()).unwrap();
        let machines = PoolCounts { total: 2, ready: 1, updated: 1, under_way: 1, degraded: Vec::new() };
        let seen = PoolStatusInputs {
            generation: 3,
            rendered: Some(&rendered),
            fault: None,
            stub_faults: &[],
            machines: &machines,
            without_token: false,
        };
        let old = json!({"certExpirys": [], "conditions": [{"type": "PinnedImageSetsDegraded", "status": "True"}]});
        let first = status(&old, &seen, at(10));
        assert_eq!(first["configuration"]["name"], rendered.name.as_str());
        assert_eq!(first["configuration"]["source"][0]["name"], "00-worker");
        assert_eq!((&first["machineCount"], &first["unavailableMachineCount"]), (&json!(2), &json!(1)));
        assert_eq!(first["certExpirys"], json!([]), "what others keep stays");
        for (kind, word) in
            [("PinnedImageSetsDegraded", "True"), ("Updated", "False"), ("Updating", "True"), ("Degraded", "False")]
        {
            assert_eq!(condition(&first, kind)["status"], word, "{kind}");
        }
        assert_eq!(status(&first, &seen, at(99)), first, "the same again changes nothing");

        let fault = "machine configs 10-a and 10-b contradict each other: kernelType: realtime and 64k-pages";
        let worse = PoolStatusInputs { fault: Some(fault), without_token: true, ..seen };
        let second = status(&first, &worse, at(20));
        assert_eq!(condition(&second, "RenderDegraded")["message"], fault);
        assert_eq!(condition(&second, "Degraded")["status"], "True");
        assert_eq!(condition(&second, "Degraded")["lastTransitionTime"], "1970-01-01T00:00:20Z");
        assert_eq!(second["configuration"], first["configuration"], "what is served is told");
        assert!(condition(&second, WITHOUT_TOKEN)["message"].as_str().unwrap().contains("join credentials"));
        let third = status(&second, &seen, at(30));
        assert!(third["conditions"].as_array().unwrap().iter().all(|condition| condition["type"] != WITHOUT_TOKEN));
    }

    #[test]
    fn failures_are_named_and_bounded() {
        let degraded: Vec<String> = (0..50).map(|number| format!("default/h{number}")).collect();
        let machines = PoolCounts { total: 50, degraded, ..PoolCounts::default() };
        let stubs = vec!["default/worker-user-data: ".to_owned() + &"x".repeat(9000)];
        let seen = PoolStatusInputs {
            generation: 1,
            rendered: None,
            fault: None,
            stub_faults: &stubs,
            machines: &machines,
            without_token: false,
        };
        let status = status(&Value::Null, &seen, at(1));
        let text = condition(&status, "NodeDegraded")["message"].as_str().unwrap().to_owned();
        assert!(text.contains("default/h9; and 40 more") && !text.contains("h10"), "{text}");
        assert!(condition(&status, "StubsManaged")["message"].as_str().unwrap().len() <= MESSAGE_BYTES_MAX);
        assert_eq!(status["degradedMachineCount"], 50);
    }
}
