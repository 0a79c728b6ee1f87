//! Looks at one object as the store has it, and does what is decided.

use firesteel_store::{ObjectKey, Revision};
use serde_json::{Value, json};

use super::decide::{DependentsSummary, LifeDecision, LifeObject, OwnerLink, OwnerState, decide};
use super::graph::Graph;
use super::{doubt_in, head_of};
use crate::model::kind::KindInfo;
use crate::model::kind_parts::Writers;
use crate::model::meta::{FOREGROUND, ORPHAN};
use crate::model::status::Status;
use crate::object::core::Core;
use crate::object::deletion::put_list;
use crate::object::options::{Preconditions, WriteOptions};
use crate::object::store_errors::read_failed;
use crate::object::terms::ObjectTarget;

/// What came of looking at an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CollectOutcome {
    Done,
    /// It changed after what is known of its dependents: to be looked at again when that is known.
    Early,
}

/// `known`: the graph has everything up to there.
pub(super) async fn collect_object(
    core: &Core,
    graph: &Graph,
    known: Revision,
    key: &ObjectKey,
) -> Result<CollectOutcome, Status> {
    let Some(kind) = core.registry().stored(&key.kind).cloned() else { return Ok(CollectOutcome::Done) };
    if let Some(why) = doubt_in(core, &key.namespace) {
        tracing::debug!(object = %key, "left alone: {why}");
        return Ok(CollectOutcome::Done);
    }
    let Some(object) = core.store().get(key).await.map_err(read_failed)? else { return Ok(CollectOutcome::Done) };
    let head = head_of(key, &object.value)?;
    if head.is_going() && object.revision > known {
        return Ok(CollectOutcome::Early);
    }
    let states = if head.is_going() { Vec::new() } else { owner_states(core, key, &kind, &head).await? };
    let uid = head.metadata.uid.as_str();
    let mut dependents = graph.dependents(uid);
    dependents.retain(|(dependent, _)| !core.registry().stored(&dependent.kind).is_some_and(|kind| kind.is_record));
    let below = DependentsSummary {
        any: !dependents.is_empty(),
        blocking: dependents.iter().any(|(_, blocks)| *blocks),
        circle: head.is_going() && graph.waits_for_itself(uid),
    };
    let target = ObjectTarget { kind: &kind, namespace: &key.namespace, name: &key.name };
    let decision = decide(&head, &states, below);
    if decision != LifeDecision::Nothing {
        tracing::debug!(object = %key, ?decision, "dependents and owners");
    }
    match decision {
        LifeDecision::Nothing => {}
        LifeDecision::Orphan => {
            for (dependent, _) in &dependents {
                forget(core, dependent, &[uid.to_owned()]).await?;
            }
            core.edit(target, uid, |object| drop_finalizer(object, ORPHAN)).await?;
        }
        LifeDecision::LetGo => core.edit(target, uid, |object| drop_finalizer(object, FOREGROUND)).await?,
        LifeDecision::Forget(owners) => forget(core, key, &owners).await?,
        LifeDecision::Unblock => core.edit(target, uid, unblock_owners).await?,
        LifeDecision::Delete(propagation) => {
            // Not one that was given a living owner in between.
            let revision = Some(object.revision.to_string());
            let exactly = Preconditions { uid: Some(uid.to_owned()), resource_version: revision };
            match core.delete(target, &exactly, Some(propagation), WriteOptions::default()).await {
                // What changed it comes as an event; until then it is as it was.
                Err(status) if status.is_conflict() => return Ok(CollectOutcome::Early),
                Err(status) if !status.is_not_found() => return Err(status),
                Ok(_) | Err(_) => {}
            }
        }
    }
    Ok(CollectOutcome::Done)
}

async fn owner_states(
    core: &Core,
    key: &ObjectKey,
    kind: &KindInfo,
    head: &LifeObject,
) -> Result<Vec<OwnerState>, Status> {
    let mut states = Vec::with_capacity(head.metadata.owner_references.len());
    for owner in &head.metadata.owner_references {
        states.push(match state_of(core, key, kind, owner).await? {
            // An owner that is going needs its records to the end.
            OwnerState::Leaving if kind.is_record => OwnerState::Alive,
            state @ (OwnerState::Alive | OwnerState::Leaving | OwnerState::Absent) => state,
        });
    }
    Ok(states)
}

/// Finds an owner where a reference must mean it: in the namespace of the object that names it, or
/// outside of all namespaces.
async fn state_of(core: &Core, key: &ObjectKey, kind: &KindInfo, owner: &OwnerLink) -> Result<OwnerState, Status> {
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let Some(owners) = core.registry().by_kind(group, &owner.kind) else { return Ok(OwnerState::Alive) };
    if owners.writers == Writers::Controllers && !owners.is_custom() {
        // Only shown here, or not at all, such as nodes: the owner may be elsewhere.
        return Ok(OwnerState::Alive);
    }
    if owners.namespaced && !kind.namespaced {
        // In no namespace there is nothing to be found; Kubernetes leaves such an object alone too.
        return Ok(OwnerState::Alive);
    }
    let namespace = if owners.namespaced { key.namespace.as_str() } else { "" };
    let place = ObjectKey::new(&owners.group_resource(), namespace, &owner.name);
    let Some(found) = core.store().get(&place).await.map_err(read_failed)? else { return Ok(OwnerState::Absent) };
    let head = head_of(&place, &found.value)?;
    Ok(match head.metadata.uid == owner.uid {
        false => OwnerState::Absent,
        true if head.is_going() && head.waits_for_dependents() => OwnerState::Leaving,
        true => OwnerState::Alive,
    })
}

/// Takes references to owners out of an object.
async fn forget(core: &Core, key: &ObjectKey, owners: &[String]) -> Result<(), Status> {
    let Some(kind) = core.registry().stored(&key.kind).cloned() else { return Ok(()) };
    let Some(object) = core.store().get(key).await.map_err(read_failed)? else { return Ok(()) };
    let uid = head_of(key, &object.value)?.metadata.uid;
    let target = ObjectTarget { kind: &kind, namespace: &key.namespace, name: &key.name };
    core.edit(target, &uid, |object| {
        let metadata = &mut object["metadata"];
        let mut references = list(&metadata["ownerReferences"]);
        references.retain(|reference| !owners.iter().any(|owner| reference["uid"] == **owner));
        put_list(metadata, "ownerReferences", references);
    })
    .await
}

fn drop_finalizer(object: &mut Value, name: &str) {
    let metadata = &mut object["metadata"];
    let mut finalizers = list(&metadata["finalizers"]);
    finalizers.retain(|finalizer| finalizer != name);
    put_list(metadata, "finalizers", finalizers);
}

fn unblock_owners(object: &mut Value) {
    let metadata = &mut object["metadata"];
    let mut references = list(&metadata["ownerReferences"]);
    for reference in &mut references {
        reference["blockOwnerDeletion"] = json!(false);
    }
    put_list(metadata, "ownerReferences", references);
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}
