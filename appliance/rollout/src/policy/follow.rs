//! What makes a pass due: changes of the kinds that only the policy follows.

use std::collections::BTreeMap;

use firesteel_kube::{ObjectChange, Objects};
use firesteel_plan::policy::Trigger;
use firesteel_runtime::{ControllerError, follow};
use serde_json::Value;

use crate::{RolloutController, controller::RolloutParts};

impl RolloutController {
    /// Follows one kind: the policy, or the sets of machines in one of both groups.
    pub(crate) async fn follow_values(
        self,
        trigger: Trigger,
        objects: fn(&RolloutParts) -> &Objects<Value>,
    ) -> Result<(), ControllerError> {
        let mut known: BTreeMap<(String, String), Value> = BTreeMap::new();
        let take = |change: ObjectChange<Value>| match change {
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
        };
        follow(objects(&self.inner), take).await
    }

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
