//! Hosts as pods, for `kubectl logs HOST`: the agent and the kernel below it are its two containers.

use firesteel_control::{AGENT, KERNEL};
use firesteel_kube::{KindInfo, builtin};
use serde_json::{Map, Value, json};

/// Pods as a view of the hosts.
pub(super) fn kind() -> KindInfo {
    builtin::pod(("metal3.io", "baremetalhosts"), of_host)
}

fn of_host(host: &Value) -> Map<String, Value> {
    let on = host["status"]["poweredOn"].as_bool().unwrap_or(false);
    let container = |name: &str| json!({ "name": name });
    let pod = json!({
        "kind": "Pod",
        "spec": { "containers": [container(AGENT), container(KERNEL)] },
        "status": { "phase": if on { "Running" } else { "Pending" } },
    });
    if let Value::Object(pod) = pod { pod } else { Map::new() }
}
