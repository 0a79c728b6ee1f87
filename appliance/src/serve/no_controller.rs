//! Writes to the status of objects which parts of them no controller acts on: kinds that are served before their
//! controllers, and fields that a controller ignores (`firesteel_resources::no_controller` decides the text).
//!
//! The planner writes the status of a BareMetalHost, and says this itself.

use firesteel_kube::{Core, ObjectChange, ObjectPart, Objects};
use firesteel_resources::kind::Kind;
use firesteel_resources::kinds::{BARE_METAL_HOST, KINDS};
use firesteel_resources::no_controller;
use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinSet;

/// Starts a follower for each kind that may have such parts.
pub(super) fn spawn(tasks: &mut JoinSet<anyhow::Result<()>>, core: &Core) {
    for kind in KINDS.iter().copied().filter(|kind| !kind.read_only && kind.kind != BARE_METAL_HOST.kind) {
        // Only one version of a kind is stored.
        let stored = core.registry().by_kind(kind.group, kind.kind).is_some_and(|info| info.version == kind.version);
        if stored && no_controller::has_place(kind) {
            tasks.spawn(follow(core.clone(), kind));
        }
    }
}

/// Follows a kind until the store fails.
async fn follow(core: Core, kind: &'static Kind) -> anyhow::Result<()> {
    let objects: Objects<Value> = Objects::new(&core, kind.group, kind.kind)?;
    let mut changes = objects.subscribe().await?;
    loop {
        let ObjectChange::Applied(object) = changes.next().await? else { continue };
        let now = Timestamp::now();
        if !no_controller::set_no_controller(kind, &mut object.clone(), now) {
            continue;
        }
        let name = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let (namespace, name) = (name("namespace"), name("name"));
        let part = if kind.has_status { ObjectPart::Status } else { ObjectPart::Main };
        let written = objects.modify(namespace, name, part, |object| {
            no_controller::set_no_controller(kind, object, now);
        });
        if let Err(status) = written.await {
            // The next change, or the next start, tries it again.
            tracing::warn!(kind = kind.kind, %namespace, %name, error = %status, "could not write the condition");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use std::time::Duration;

    use firesteel_store::{MemoryMedium, Store};
    use serde_json::json;

    use super::*;
    use crate::serve::kinds;

    async fn wait_for(objects: &Objects<Value>, name: &str, what: impl Fn(&Value) -> bool) -> Value {
        loop {
            let object = objects.get("default", name).await.unwrap().unwrap();
            if what(&object) {
                return object;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    #[tokio::test]
    async fn each_object_is_told_once_and_again_after_a_change_and_a_restart() {
        let core = Core::new(Store::in_memory(&MemoryMedium::new()), kinds::registry());
        core.ensure_namespace("default").await.unwrap();
        let objects: Objects<Value> = Objects::new(&core, "metal3.io", "HostFirmwareSettings").unwrap();
        let object =
            |name: &str| json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "settings": {} } });
        objects.create(&object("before")).await.unwrap();
        let mut tasks = JoinSet::new();
        spawn(&mut tasks, &core);
        objects.create(&object("after")).await.unwrap();
        let has = |object: &Value| object["status"]["conditions"][0]["type"] == no_controller::TYPE;
        let before = wait_for(&objects, "before", has).await;
        let after = wait_for(&objects, "after", has).await;
        assert_eq!(after["status"]["conditions"][0]["status"], "True");
        assert_eq!(after["status"]["settings"], json!({}), "what the schema asks for is there as well");
        assert_eq!(after["metadata"]["generation"], 1);

        // A restart does not change what the status says.
        tasks.shutdown().await;
        let revision = core.store().current();
        spawn(&mut tasks, &core);
        objects.create(&object("last")).await.unwrap();
        wait_for(&objects, "last", has).await;
        assert_eq!(core.store().current().0, revision.0 + 2, "the last object, and what it was told");
        assert_eq!(objects.get("default", "before").await.unwrap().unwrap(), before);

        // A change is a new generation; the condition is about that one.
        let mut changed = objects.get("default", "after").await.unwrap().unwrap();
        changed["spec"]["settings"]["Sriov"] = json!("Enabled");
        objects.update(&changed).await.unwrap();
        let seen = |object: &Value| object["status"]["conditions"][0]["observedGeneration"] == 2;
        let told = wait_for(&objects, "after", seen).await;
        let since = |object: &Value| object["status"]["conditions"][0]["lastTransitionTime"].clone();
        assert_eq!(since(&told), since(&after));
    }
}
