//! Hosts as pods, for `kubectl logs HOST`: the agent and the kernel below it are its two containers.

use firesteel_control::{AGENT, KERNEL};
use firesteel_kube::{KindInfo, builtin};
use serde_json::{Map, Value};

/// Pods as a view of the hosts.
pub(super) fn kind() -> KindInfo {
    builtin::pod(("metal3.io", "baremetalhosts"), of_host)
}

fn of_host(host: &Value) -> Map<String, Value> {
    let on = host["status"]["poweredOn"].as_bool().unwrap_or(false);
    builtin::pod_body(&[AGENT, KERNEL], if on { "Running" } else { "Pending" })
}
