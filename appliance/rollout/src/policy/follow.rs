//! What rings for a pass, of the kinds that nobody else follows.

use std::collections::BTreeMap;

use firesteel_kube::{ObjectChange, Objects};
use firesteel_plan::policy::Trigger;
use firesteel_runtime::ControllerError;
use serde_json::Value;

use crate::RolloutController;

impl RolloutController {
    /// The policy, and the sets of machines in both groups.
    pub(crate) async fn follow_configuration(self) -> Result<(), ControllerError> {
        let objects = self.inner.configuration_values.clone();
        self.follow_values(objects, Trigger::PolicyChanged).await
    }

    pub(crate) async fn follow_machine_api_sets(self) -> Result<(), ControllerError> {
        let objects = self.inner.machine_api_sets.clone();
        self.follow_values(objects, Trigger::MachineSetChanged).await
    }

    pub(crate) async fn follow_cluster_api_sets(self) -> Result<(), ControllerError> {
        let objects = self.inner.cluster_api_sets.clone();
        self.follow_values(objects, Trigger::MachineSetChanged).await
    }

    async fn follow_values(&self, objects: Objects<Value>, trigger: Trigger) -> Result<(), ControllerError> {
        let mut changes = objects.subscribe().await?;
        let mut known: BTreeMap<(String, String), Value> = BTreeMap::new();
        loop {
            match changes.next().await? {
                ObjectChange::Applied(object) => {
                    let asked = asked(&object);
                    if known.insert(name(&object), asked.clone()) != Some(asked) {
                        self.rings(trigger);
                    }
                }
                ObjectChange::Deleted(object) => {
                    known.remove(&name(&object));
                    self.rings(trigger);
                }
                ObjectChange::Synced => {}
                ObjectChange::Undecodable { name, error } => {
                    tracing::error!(namespace = %name.namespace, name = %name.name, %error, "a stored object cannot be read; it is left alone");
                }
            }
        }
    }
}

impl RolloutController {
    fn rings(&self, trigger: Trigger) {
        self.inner.policy.ring(trigger);
        if trigger == Trigger::PolicyChanged {
            // Who is not selected any more has its rollout held.
            self.inner.groups.wake_all();
        }
    }
}

fn name(object: &Value) -> (String, String) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// What asks for something: a status is what controllers made of the rest, but for who has authority over a set.
fn asked(object: &Value) -> Value {
    let metadata = &object["metadata"];
    serde_json::json!([
        metadata["uid"],
        metadata["generation"],
        metadata["labels"],
        metadata["annotations"],
        metadata["ownerReferences"],
        metadata["deletionTimestamp"],
        object["status"]["authoritativeAPI"],
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_asks_for_nothing() {
        let mut object = json!({"metadata": {"name": "a", "generation": 1}, "status": {"replicas": 1}});
        let before = asked(&object);
        object["status"]["replicas"] = json!(2);
        object["metadata"]["resourceVersion"] = json!("7");
        assert_eq!(asked(&object), before);
        for (path, value) in [
            ("/metadata/generation", json!(2)),
            ("/metadata/labels", json!({"a": "b"})),
            ("/status/authoritativeAPI", json!("ClusterAPI")),
        ] {
            let mut other =
                json!({"metadata": {"name": "a", "generation": 1, "labels": {}}, "status": {"authoritativeAPI": ""}});
            let before = asked(&other);
            if let Some(place) = other.pointer_mut(path) {
                *place = value;
            }
            assert_ne!(asked(&other), before, "{path}");
        }
    }
}
