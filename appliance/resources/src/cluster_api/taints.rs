//! Taints that a machine may have.

use firesteel_kube_types::Cause;
use serde_json::Value;

use crate::label;

/// The label of machines of the control plane.
pub(super) const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// Taints of the controllers' own.
const RESERVED: [&str; 2] = ["node.cluster.x-k8s.io/uninitialized", "node.cluster.x-k8s.io/outdated-revision"];
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub(super) fn check(taints: &Value, path: &str, of_control_plane: bool, causes: &mut Vec<Cause>) {
    for (index, taint) in taints.as_array().into_iter().flatten().enumerate() {
        let key = taint["key"].as_str().unwrap_or_default();
        let why = match key {
            _ if RESERVED.contains(&key) => "taint key is not allowed",
            OUT_OF_SERVICE => continue,
            _ if key.starts_with("node.kubernetes.io/") => {
                "taint key must not have the prefix node.kubernetes.io/, except for node.kubernetes.io/out-of-service"
            }
            _ if key.starts_with("node.cloudprovider.kubernetes.io/") => {
                "taint key must not have the prefix node.cloudprovider.kubernetes.io/"
            }
            "node-role.kubernetes.io/master" => "taint is deprecated since 1.24 and should not be used anymore",
            "node-role.kubernetes.io/control-plane" if !of_control_plane => "taint is not allowed for worker Machines",
            _ => match label::key_fault(key) {
                Some(why) => why,
                None => continue,
            },
        };
        causes.push(Cause::invalid(&format!("{path}[{index}].key"), key, why));
    }
}
