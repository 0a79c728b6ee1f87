//! What a checked write needs of the store: room, quotas, its namespace, and that nothing came in between.

use std::sync::Arc;

use firesteel_kube_types::{Cause, CauseReason};
use firesteel_store::{CommitError, CommitTerms, ObjectKey, Op, QuotaAllowance, ReserveUse, WritePrecondition};
use serde_json::Value;

use super::{Core, written};
use crate::model::status::Status;
use crate::object::options::{StoredWrite, WriteOptions, WriteOrigin};
use crate::object::store_errors::{commit_failed, read_failed};
use crate::object::stored::encode;
use crate::object::stored_object;
use crate::object::terms::{CurrentObject, ObjectTarget, PreparedWrite, WriteEffect};

impl Core {
    /// Stores what was prepared in the place of the object; `None` if another write was faster.
    pub(super) async fn finish(
        &self,
        target: ObjectTarget<'_>,
        prepared: PreparedWrite,
        current: &CurrentObject,
        options: WriteOptions<'_>,
    ) -> Result<Option<StoredWrite>, Status> {
        let removed = prepared.effect == WriteEffect::Remove;
        if prepared.effect == WriteEffect::None {
            return Ok(Some(StoredWrite { removed, ..written(prepared, current.revision) }));
        }
        let key = ObjectKey::new(&target.kind.stored_resource(), target.namespace, target.name);
        let to_bytes = || {
            let stored = target.kind.to_stored(&prepared.value);
            let value = encode(stored.as_ref().unwrap_or(&prepared.value))?;
            Ok::<_, Status>((stored, value))
        };
        let (stored, value) = options.origin.places().run(current.bytes.max(options.bytes), to_bytes).await?;
        // What goes needs no room.
        let allowances = if removed { Vec::new() } else { self.allowances(target, options).await? };
        let (bytes, cached, expected) = (value.clone(), key.clone(), current.revision);
        let op = if removed { Op::Delete { key, expected, value } } else { Op::Update { key, expected, value } };
        if options.dry_run {
            self.check_allowances(target, &op, current.bytes, &allowances).await?;
            return Ok(Some(StoredWrite { removed, ..written(prepared, current.revision) }));
        }
        let spending = if removed || options.from_reserve { ReserveUse::Reserved } else { ReserveUse::Ordinary };
        match self.store.commit_on(CommitTerms { spending, allowances }, op, Vec::new()).await {
            Ok(revision) => {
                if removed {
                    self.cache.forget(&cached);
                } else {
                    let stored = stored.unwrap_or_else(|| prepared.value.clone());
                    self.cache.put(&cached, revision, Arc::new(stored), bytes.len());
                }
                let text = stored_object::shown(target.kind, &bytes, revision);
                Ok(Some(StoredWrite { removed, text, ..written(prepared, revision) }))
            }
            Err(CommitError::Conflict { .. }) => Ok(None),
            Err(error) => Err(commit_failed(target, error)),
        }
    }

    /// What a write is bound to.
    pub(super) async fn allowances(
        &self,
        target: ObjectTarget<'_>,
        options: WriteOptions<'_>,
    ) -> Result<Vec<QuotaAllowance>, Status> {
        match options.origin {
            WriteOrigin::Client(default) if target.kind.namespaced => {
                self.quotas.allowances(&self.store, target.namespace, default).await
            }
            WriteOrigin::Client(_) | WriteOrigin::Own => Ok(Vec::new()),
        }
    }

    /// Refuses what would be too much, for a write that is not made.
    pub(super) async fn check_allowances(
        &self,
        target: ObjectTarget<'_>,
        op: &Op,
        replaced: usize,
        allowances: &[QuotaAllowance],
    ) -> Result<(), Status> {
        if allowances.is_empty() {
            return Ok(());
        }
        let exceeded = self.store.exceeded_by(op, replaced, allowances).await.map_err(read_failed)?;
        let is_within = exceeded.is_empty();
        if is_within { Ok(()) } else { Err(Status::exceeded_quota(target.kind, target.name, &exceeded)) }
    }

    /// The object's namespace must exist, and go on existing until the object is stored.
    pub(super) async fn namespace_guard(
        &self,
        target: ObjectTarget<'_>,
        object: &Value,
        name: &str,
    ) -> Result<Vec<WritePrecondition>, Status> {
        if !target.kind.namespaced {
            return Ok(Vec::new());
        }
        let kind = self.namespace_kind()?;
        let namespace = ObjectTarget { kind: &kind, namespace: "", name: target.namespace };
        let current = self.current(namespace).await?;
        let goes_with_owner = target.kind.is_record
            && object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
        if current.value["metadata"]["deletionTimestamp"].is_string() && !goes_with_owner {
            let resource = target.kind.group_resource();
            let message = format!(
                "{resource} {name:?} is forbidden: unable to create new content in namespace {} because it is being terminated",
                target.namespace
            );
            let cause = Cause {
                reason: CauseReason::NamespaceTerminating,
                message: format!("namespace {} is being terminated", target.namespace),
                field: "metadata.namespace".into(),
            };
            return Err(Status::forbidden(message).with_cause(cause));
        }
        Ok(vec![WritePrecondition::At(ObjectKey::new(&kind.group_resource(), "", target.namespace), current.revision)])
    }
}
