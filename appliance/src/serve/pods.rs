//! Hosts as pods, for `kubectl logs HOST`: the containers are the agent, the kernel and the serial console.

use firesteel_control::{AGENT, CONSOLE, KERNEL};
use firesteel_kube::{KindInfo, builtin};
use serde_json::{Map, Value};

/// The kind of pods, as a view of the hosts.
pub(super) fn kind() -> KindInfo {
    builtin::pod("metal3.io", "baremetalhosts", of_host)
}

fn of_host(host: &Value) -> Map<String, Value> {
    let on = host["status"]["poweredOn"].as_bool().unwrap_or(false);
    builtin::pod_body(&[AGENT, KERNEL, CONSOLE], if on { "Running" } else { "Pending" })
}
