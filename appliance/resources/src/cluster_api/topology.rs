//! What upstream's webhooks refuse in a Cluster's topology, as far as its own words tell it.

use firesteel_kube_types::Cause;
use serde_json::Value;

use super::{metadata, rules, taints};
use crate::shape::join;

/// How many sets of machines are upgraded at once.
const CONCURRENCY: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";
const WORKERS: [&str; 2] = ["machineDeployments", "machinePools"];

/// Checks a Cluster that has a topology.
pub(super) fn check(cluster: &Value, causes: &mut Vec<Cause>) {
    let topology = &cluster["spec"]["topology"];
    if topology["classRef"]["name"].as_str().is_none_or(str::is_empty) {
        return causes.push(Cause::required("spec.topology.class", "classRef.name cannot be empty"));
    }
    rules::version(topology, "spec.topology", "version must be a valid semantic version", causes);
    machines(&topology["controlPlane"], "spec.topology.controlPlane", causes);
    for part in WORKERS {
        for set in topology["workers"][part].as_array().into_iter().flatten() {
            let path = format!("spec.topology.workers.{part}[{}]", set["name"].as_str().unwrap_or_default());
            machines(set, &path, causes);
            if part == "machineDeployments" {
                rolling_update(&set["rollout"]["strategy"]["rollingUpdate"], &path, causes);
                autoscaled(set, &path, causes);
            }
        }
    }
    concurrency(&cluster["metadata"]["annotations"][CONCURRENCY], causes);
}

fn machines(set: &Value, path: &str, causes: &mut Vec<Cause>) {
    taints::check(&set["taints"], &join(path, "taints"), true, causes);
    metadata::check(&set["metadata"], &join(path, "metadata"), causes);
}

fn rolling_update(update: &Value, path: &str, causes: &mut Vec<Cause>) {
    let path = join(path, "rollout.strategy.rollingUpdate");
    let bounds = ["maxUnavailable", "maxSurge"].map(|name| (name, &update[name]));
    for (name, bound) in bounds {
        let is_percentage = |text: &str| text.strip_suffix('%').is_some_and(|number| number.parse::<i64>().is_ok());
        if bound.as_str().is_some_and(|text| !is_percentage(text)) {
            causes.push(Cause::invalid_value(&join(&path, name), bound, "must be either an int or a percentage"));
        }
    }
    if bounds.iter().all(|(_, bound)| bound.as_f64() == Some(0.0)) {
        let why = "maxUnavailable and maxSurge cannot both be 0";
        causes.push(Cause::invalid_value(&path, &update["maxSurge"], why));
    }
}

fn autoscaled(set: &Value, path: &str, causes: &mut Vec<Cause>) {
    let annotations = &set["metadata"]["annotations"];
    let is_autoscaled =
        [rules::AUTOSCALER_MIN, rules::AUTOSCALER_MAX].iter().any(|name| annotations.get(name).is_some());
    if is_autoscaled && set.get("replicas").is_some() {
        let why = "cannot be set if the same MachineDeploymentTopology has autoscaler annotations";
        causes.push(Cause::invalid_value(&join(path, "replicas"), &set["replicas"], why));
    }
}

fn concurrency(annotation: &Value, causes: &mut Vec<Cause>) {
    let Some(text) = annotation.as_str() else { return };
    let why = match text.parse::<i64>() {
        Err(_) => "could not parse the value of the annotation",
        Ok(..1) => "value cannot be less than 1",
        Ok(_) => return,
    };
    causes.push(Cause::invalid(&format!("metadata.annotations.{CONCURRENCY}"), text, why));
}
