//! Deletions by the rules, of exactly one object, and of one that cannot be read.

use firesteel_store::{ObjectKey, Op, Revision, StoreReadError};
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{Core, TRIES};
use crate::model::kind;
use crate::model::status::Status;
use crate::object::deletion::{self, Propagation};
use crate::object::options::{Preconditions, StoredWrite, WriteOptions};
use crate::object::store_errors::{commit_failed, read_failed};
use crate::object::stored::{self, bare, encode};
use crate::object::terms::ObjectTarget;

impl Core {
    /// Deletes the object, and says what becomes of its dependents, which [`crate::object::lifecycle`] sees to.
    pub fn delete<'a>(
        &'a self,
        target: ObjectTarget<'a>,
        preconditions: &'a Preconditions,
        propagation: Option<Propagation>,
        options: WriteOptions<'a>,
    ) -> BoxFuture<'a, Result<StoredWrite, Status>> {
        Box::pin(async move {
            if kind::is_namespace(target.kind) && target.name == "default" {
                return Err(Status::forbidden(
                    "namespaces \"default\" is forbidden: this namespace may not be deleted",
                ));
            }
            let options = WriteOptions { from_reserve: true, ..options };
            for _ in 0..TRIES {
                let current = self.current(target).await?;
                check_preconditions(target, preconditions, &current.value, current.revision)?;
                let prepared = deletion::prepare(target.kind, &current.value, self.now(), propagation);
                if let Some(written) = self.finish(target, prepared, &current, options).await? {
                    return Ok(written);
                }
            }
            Err(Status::modified(target.kind, target.name))
        })
    }

    /// Removes an object whose stored value is damaged, without a look at it: finalizers, preconditions and dependents
    /// are not asked about. `None` where it can be read.
    pub async fn delete_unread(&self, target: ObjectTarget<'_>) -> Result<Option<StoredWrite>, Status> {
        let key = ObjectKey::new(&target.kind.stored_resource(), target.namespace, target.name);
        let revision = match self.store.get(&key).await {
            Ok(Some(_)) => return Ok(None),
            Ok(None) => return Err(Status::not_found(target.kind, target.name)),
            Err(StoreReadError::Damaged(damages)) => damages.first().map(|damage| damage.revision).unwrap_or_default(),
            Err(error) => return Err(read_failed(error)),
        };
        let value = bare(target.kind, &key);
        let op = Op::Delete { key: key.clone(), expected: revision, value: encode(&value)? };
        let revision = self.store.commit(op, Vec::new()).await.map_err(|error| commit_failed(target, error))?;
        self.cache.forget(&key);
        tracing::warn!(%key, "a damaged object was deleted unread");
        let value = stored::shown(value, revision);
        Ok(Some(StoredWrite { value, warnings: Vec::new(), removed: true, text: None }))
    }

    /// Deletes the object of this uid; `None` where it is gone, and another one that has its name stays.
    pub(crate) async fn delete_exactly(
        &self,
        target: ObjectTarget<'_>,
        uid: &str,
        propagation: Option<Propagation>,
        options: WriteOptions<'_>,
    ) -> Result<Option<StoredWrite>, Status> {
        let exactly = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
        let status = match self.delete(target, &exactly, propagation, options).await {
            Ok(written) => return Ok(Some(written)),
            Err(status) => status,
        };
        if !status.is_conflict() {
            return if status.is_not_found() { Ok(None) } else { Err(status) };
        }
        // It is another object; or other writes were faster each time, and it is there.
        match self.current(target).await {
            Ok(current) if current.value["metadata"]["uid"] == *uid => Err(status),
            Err(status) if !status.is_not_found() => Err(status),
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

pub(crate) fn check_preconditions(
    target: ObjectTarget<'_>,
    preconditions: &Preconditions,
    current: &Value,
    revision: Revision,
) -> Result<(), Status> {
    let (asked_uid, asked_revision) = (preconditions.uid.as_deref(), preconditions.resource_version.as_deref());
    let uid = current["metadata"]["uid"].as_str().unwrap_or("");
    let revision = revision.to_string();
    let (what, asked, found, why) = match (asked_uid, asked_revision) {
        (Some(asked), _) if asked != uid => ("UID", asked, uid, "deleted and then recreated"),
        (_, Some(asked)) if asked != revision => ("ResourceVersion", asked, revision.as_str(), "modified"),
        _ => return Ok(()),
    };
    // A namespace's own words, and those of all other kinds.
    Err(if kind::is_namespace(target.kind) {
        let detail = format!("Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}");
        Status::conflict(target.kind, target.name, &detail)
    } else {
        let detail = format!(
            "the {what} in the precondition ({asked}) does not match the {what} in record ({found}). The object might have been {why}"
        );
        Status::precondition_failed(target.kind, target.name, &detail)
    })
}
