//! What upstream's webhooks put in and refuse, as far as one object tells it alone. All of it is about
//! objects as v1beta2 has them, but for what v1beta1 alone can say.

use firesteel_facts::parse_network;
use firesteel_kube_types::Cause;
use serde_json::{Map, Value, json};

use super::{convert, metadata, taints, topology};
use crate::{kind::RuleVerdict, label, selector::Selector, shape::join};

/// The label of machines that names their set.
const SET_NAME: &str = "cluster.x-k8s.io/set-name";
/// The label of machines that a pool made.
const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";
pub(super) const AUTOSCALER_MIN: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
pub(super) const AUTOSCALER_MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
const SKIPPED_CHECKS: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";
const CHECKS: [&str; 5] =
    ["All", "ControlPlaneIsStable", "ControlPlaneVersionSkew", "KubeadmVersionSkew", "KubernetesVersionSkew"];
/// Tries to delete the node of a machine that goes.
const NODE_DELETION_SECONDS: i64 = 10;
const NOT_CHANGED: &str = "field is immutable";
const NO_CLASSES: &str = "spec.topology has no effect: there are no ClusterClasses here";

/// Paths to the references of a Cluster, a Machine and a MachineSet.
const REFERENCES: [&str; 5] = [
    "/spec/infrastructureRef",
    "/spec/controlPlaneRef",
    "/spec/bootstrap/configRef",
    "/spec/template/spec/infrastructureRef",
    "/spec/template/spec/bootstrap/configRef",
];

/// What v1beta1 writes as text and v1beta2 as a number.
const DURATIONS: [&str; 5] =
    ["nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout", "nodeStartupTimeout", "timeout"];

/// What is within has the names that people give: labels, annotations, values of variables.
const FREE: [&str; 3] = ["metadata", "matchLabels", "variables"];

pub(super) fn complete_cluster(new: &mut Value, _old: Option<&Value>) {
    if let Some(spec) = new.get_mut("spec") {
        complete_version(spec, "topology");
    }
}

pub(super) fn complete_machine(new: &mut Value, _old: Option<&Value>) {
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    prefix_version(spec);
    let deletion = spec.entry("deletion").or_insert_with(|| json!({}));
    if let Some(deletion) = deletion.as_object_mut() {
        deletion.entry("nodeDeletionTimeoutSeconds").or_insert_with(|| json!(NODE_DELETION_SECONDS));
    }
}

pub(super) fn complete_machine_set(new: &mut Value, old: Option<&Value>) {
    let replicas = replicas(new, old);
    let name = label_of(new["metadata"]["name"].as_str().unwrap_or_default());
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(replicas) = replicas {
        spec.entry("replicas").or_insert_with(|| json!(replicas));
    }
    let is_empty = |value: Option<&Value>| match value {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        _ => true,
    };
    let selector = spec.get("selector");
    let selects_none = ["matchLabels", "matchExpressions"]
        .iter()
        .all(|part| is_empty(selector.and_then(|selector| selector.get(part))));
    if selects_none && !name.is_empty() {
        put(spec, &["selector", "matchLabels", SET_NAME], json!(name));
        put(spec, &["template", "metadata", "labels", SET_NAME], json!(name));
    }
    if let Some(template) = spec.get_mut("template") {
        complete_version(template, "spec");
    }
}

/// References of v1beta1 name a namespace, which can only be that of the object.
pub(super) fn complete_references(new: &mut Value, _old: Option<&Value>) {
    let namespace = new["metadata"]["namespace"].clone();
    if !namespace.is_string() {
        return;
    }
    for place in REFERENCES {
        if let Some(Value::Object(reference)) = new.pointer_mut(place)
            && reference.contains_key("name")
        {
            reference.entry("namespace").or_insert_with(|| namespace.clone());
        }
    }
}

pub(super) fn cluster(new: &Value, old: Option<&Value>) -> RuleVerdict {
    let (spec, old) = (&new["spec"], old.map(|old| &old["spec"]));
    let mut causes = Vec::new();
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    if label::value_fault(name).is_some() {
        let why = "must be a valid label value: at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";
        causes.push(Cause::invalid("metadata.name", name, why));
    }
    let parts = ["infrastructureRef", "controlPlaneRef", "topology"];
    if parts.iter().all(|part| !is_defined(&spec[part])) {
        let why = "one of spec.controlPlaneRef, spec.infrastructureRef or spec.topology must be set";
        causes.push(Cause::forbidden("spec", why));
    }
    for part in parts {
        if old.is_some_and(|old| is_defined(&old[part])) && !is_defined(&spec[part]) {
            let why =
                if part == "topology" { "cannot be removed from an existing Cluster" } else { "cannot be removed" };
            causes.push(Cause::forbidden(&join("spec", part), why));
        }
    }
    for part in ["pods", "services"] {
        let blocks = spec["clusterNetwork"][part]["cidrBlocks"].as_array();
        for (index, block) in blocks.into_iter().flatten().filter_map(Value::as_str).enumerate() {
            if parse_network(block).is_none() {
                let field = format!("spec.clusterNetwork.{part}.cidrBlocks[{index}]");
                causes.push(Cause::invalid(&field, block, &format!("invalid CIDR address: {block}")));
            }
        }
    }
    let mut verdict = RuleVerdict { causes, unacted: Vec::new() };
    if is_defined(&spec["topology"]) {
        topology::check(new, &mut verdict.causes);
        verdict.unacted.push(NO_CLASSES.into());
    }
    verdict
}

pub(super) fn machine(new: &Value, old: Option<&Value>) -> RuleVerdict {
    let mut causes = Vec::new();
    let labels = &new["metadata"]["labels"];
    if labels.get(POOL_NAME).is_none() {
        bootstrap(&new["spec"], "spec", &mut causes);
    }
    same_cluster(new, old, &mut causes);
    version(&new["spec"], "spec", "must be a valid semantic version", &mut causes);
    let of_control_plane = labels.get(taints::CONTROL_PLANE_LABEL).is_some();
    taints::check(&new["spec"]["taints"], "spec.taints", of_control_plane, &mut causes);
    RuleVerdict::of(causes)
}

pub(super) fn machine_set(new: &Value, old: Option<&Value>) -> RuleVerdict {
    let mut causes = Vec::new();
    let spec = &new["spec"];
    let template = &spec["template"];
    bootstrap(&template["spec"], "spec.template.spec", &mut causes);
    match Selector::read(&spec["selector"]) {
        Err(why) => causes.push(Cause::invalid_value("spec.selector", &spec["selector"], &why.to_string())),
        Ok(selector) if !selector.matches_json(&template["metadata"]["labels"]) => {
            let why = format!("must match spec.selector {:?}", selector.to_string());
            let labels = template["metadata"].get("labels").cloned().unwrap_or_else(|| json!({}));
            causes.push(Cause::invalid_value("spec.template.metadata.labels", &labels, &why));
        }
        Ok(_) => {}
    }
    skipped_checks(new, &mut causes);
    same_cluster(new, old, &mut causes);
    if spec["clusterName"] != template["spec"]["clusterName"] {
        let why = "spec.clusterName and spec.template.spec.clusterName must be set to the same value";
        causes.push(Cause::invalid_value("spec.clusterName", &spec["clusterName"], why));
    }
    version(&template["spec"], "spec.template.spec", "must be a valid semantic version", &mut causes);
    taints::check(&template["spec"]["taints"], "spec.template.spec.taints", false, &mut causes);
    metadata::check(&template["metadata"], "spec.template.metadata", &mut causes);
    if let Some(form) = spec["machineNaming"]["template"].as_str().filter(|form| !form.is_empty()) {
        naming(form, &mut causes);
    }
    if spec.get("replicas").is_none() {
        let field = format!("metadata.annotations.{AUTOSCALER_MIN}");
        causes.push(Cause::invalid_value(&field, &new["metadata"]["annotations"][AUTOSCALER_MIN], "must be a number"));
    }
    RuleVerdict::of(causes)
}

/// Checks the durations of an object of v1beta1: v1beta2 cannot hold a malformed one.
pub(super) fn durations(new: &Value, _old: Option<&Value>) -> RuleVerdict {
    let mut causes = Vec::new();
    walk_durations(&new["spec"], "spec", &mut causes);
    RuleVerdict::of(causes)
}

fn walk_durations(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| !FREE.contains(&name.as_str())) {
                let path = join(path, name);
                match value.as_str() {
                    Some(text) if DURATIONS.contains(&name.as_str()) && !convert::is_duration(text) => {
                        causes.push(Cause::invalid(&path, text, "must be a duration, as in 1h30m or 10s"));
                    }
                    Some(_) => {}
                    None => walk_durations(value, &path, causes),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk_durations(item, &format!("{path}[{index}]"), causes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn bootstrap(machine: &Value, path: &str, causes: &mut Vec<Cause>) {
    let bootstrap = &machine["bootstrap"];
    if !is_defined(&bootstrap["configRef"]) && bootstrap.get("dataSecretName").is_none() {
        let why =
            format!("expected either {path}.bootstrap.dataSecretName or {path}.bootstrap.configRef to be populated");
        causes.push(Cause::required(&join(path, "bootstrap"), &why));
    }
}

fn same_cluster(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    if old.is_some_and(|old| old["spec"]["clusterName"] != new["spec"]["clusterName"]) {
        causes.push(Cause::forbidden("spec.clusterName", NOT_CHANGED));
    }
}

pub(super) fn version(holder: &Value, path: &str, wrong: &str, causes: &mut Vec<Cause>) {
    let Some(version) = holder["version"].as_str().filter(|version| !version.is_empty()) else { return };
    let field = join(path, "version");
    if !version.starts_with('v') {
        causes.push(Cause::invalid(&field, version, "must start with v"));
    }
    if !is_semantic(version.strip_prefix('v').unwrap_or(version)) {
        causes.push(Cause::invalid(&field, version, wrong));
    }
}

fn skipped_checks(new: &Value, causes: &mut Vec<Cause>) {
    let skipped = new["metadata"]["annotations"][SKIPPED_CHECKS].as_str().unwrap_or_default();
    if skipped.is_empty() {
        return;
    }
    let wrong: Vec<&str> = skipped.split(',').map(str::trim).filter(|name| !CHECKS.contains(name)).collect();
    if !wrong.is_empty() {
        let why = format!("skipped preflight check(s) must be among: {CHECKS:?}");
        causes.push(Cause::invalid_value(&format!("metadata.annotations.{SKIPPED_CHECKS}"), &json!(wrong), &why));
    }
}

/// Checks a form of names: text with places such as `{{ .random }}`. A name needs no other part of Go's templates.
fn naming(form: &str, causes: &mut Vec<Cause>) {
    const FIELD: &str = "spec.machineNaming.template";
    if !form.contains("{{ .random }}") {
        causes.push(Cause::invalid(FIELD, form, "invalid template, {{ .random }} is missing"));
    }
    let (mut rest, mut name) = (form, String::new());
    while let Some((text, place)) = rest.split_once("{{") {
        name.push_str(text);
        let Some((place, after)) = place.split_once("}}") else {
            return causes.push(Cause::invalid(FIELD, form, "invalid template: a place is not closed"));
        };
        name.push_str(match place.trim() {
            ".cluster.name" => "cluster",
            ".machineSet.name" => "machineset",
            ".random" => "bcdfg",
            other => {
                let why = format!("invalid template: {other:?} is not known here");
                return causes.push(Cause::invalid(FIELD, form, &why));
            }
        });
        rest = after;
    }
    name.push_str(rest);
    if !label::is_subdomain(&name) {
        let why = "invalid template, generated names would not be valid Kubernetes object names";
        causes.push(Cause::invalid(FIELD, form, why));
    }
}

/// What a set without a number gets; `None` if its annotations for the autoscaler cannot be read.
fn replicas(new: &Value, old: Option<&Value>) -> Option<i64> {
    let annotation = |name: &str| new["metadata"]["annotations"][name].as_str();
    let (Some(min), Some(max)) = (annotation(AUTOSCALER_MIN), annotation(AUTOSCALER_MAX)) else { return Some(1) };
    let (min, max) = (min.parse::<i32>().ok()?, max.parse::<i32>().ok()?);
    let (min, max) = (i64::from(min), i64::from(max));
    let before = old.and_then(|old| old["spec"]["replicas"].as_i64());
    Some(before.map_or(min, |before| if before < min { min } else { before.min(max) }))
}

fn complete_version(holder: &mut Value, part: &str) {
    if let Some(Value::Object(part)) = holder.get_mut(part) {
        prefix_version(part);
    }
}

fn prefix_version(fields: &mut Map<String, Value>) {
    if let Some(Value::String(version)) = fields.get_mut("version")
        && !version.is_empty()
        && !version.starts_with('v')
    {
        version.insert(0, 'v');
    }
}

fn put(fields: &mut Map<String, Value>, path: &[&str], value: Value) {
    let [name, rest @ ..] = path else { return };
    if rest.is_empty() {
        fields.insert((*name).to_owned(), value);
    } else if let Value::Object(inner) = fields.entry(*name).or_insert_with(|| json!({})) {
        put(inner, rest, value);
    }
}

/// A reference or a topology that says anything.
fn is_defined(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| fields.values().any(|value| !value.is_null() && value != ""))
}

/// The name as a label's value: itself, or where it is too long a hash of it, as upstream makes it.
fn label_of(name: &str) -> String {
    use base64::Engine as _;
    if label::value_fault(name).is_none() {
        return name.to_owned();
    }
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("hash_{}_z", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(hash.to_be_bytes()))
}

/// Three numbers, and perhaps what comes before a release, and a build.
fn is_semantic(text: &str) -> bool {
    let word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
            && text.parse::<u64>().is_ok()
    };
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (release, before) = rest.split_once('-').map_or((rest, None), |(release, before)| (release, Some(before)));
    let numbers: Vec<&str> = release.split('.').collect();
    numbers.len() == 3
        && numbers.into_iter().all(number)
        && build.is_none_or(|build| build.split('.').all(word))
        && before.is_none_or(|before| {
            let is_right = |part: &str| !part.bytes().all(|byte| byte.is_ascii_digit()) || number(part);
            before.split('.').all(|part| word(part) && is_right(part))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_upstream_are_read_as_upstream_reads_them() {
        for good in ["1.2.3", "0.0.0", "1.34.0-rc.1+build.5", "1.2.3-0a"] {
            assert!(is_semantic(good), "{good}");
        }
        for bad in ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.x", "1.2.3+", "-1.2.3"] {
            assert!(!is_semantic(bad), "{bad}");
        }
    }

    #[test]
    fn a_name_that_is_too_long_for_a_label_is_hashed() {
        assert_eq!(label_of("ms1"), "ms1");
        let long = label_of(&"a".repeat(64));
        assert!(long.starts_with("hash_") && long.ends_with("_z") && label::value_fault(&long).is_none(), "{long}");
    }
}
