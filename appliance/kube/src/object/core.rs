//! Objects on the store, by the rules: what the HTTP handlers and the in-process client share.

mod commit;
mod delete;

pub(crate) use delete::check_preconditions;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use firesteel_store::{CommitError, CommitTerms, ObjectKey, Op, Revision, Store};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::model::field_validation::FieldValidation;
use crate::model::kind::KindInfo;
use crate::model::kind_parts::Writers;
use crate::model::registry::Registry;
use crate::model::status::Status;
use crate::object::apply::{ApplyManager, Configuration, Owners};
use crate::object::cache::ValueCache;
use crate::object::held::Unstored;
use crate::object::options::{ObjectUpdate, StoredWrite, WriteOptions};
use crate::object::quota::QuotaBook;
use crate::object::store_errors::{commit_failed, read_failed};
use crate::object::stored::{self, decode, decode_bytes, encode_stored, not_its_type, of_this_process, typed};
use crate::object::terms::{
    CreationStamp, CurrentObject, ObjectPart, ObjectTarget, PreparedWrite, UpdateBody, WriteEffect, WriteTerms,
};
use crate::object::{heavy_json, rules, scale, stored_object};

/// Tries of a change that carries no resourceVersion of its own, when others change the object at
/// the same time. As many as Kubernetes makes.
const TRIES: usize = 5;

/// Letters of a generated name's end: no vowels, so no words; no digits that look like letters.
const SUFFIX_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LEN: usize = 5;

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A store with the kinds that live in it. Clones share both.
#[derive(Clone)]
pub struct Core {
    store: Store,
    registry: Arc<Registry>,
    clock: Clock,
    cache: Arc<ValueCache>,
    pub(crate) held: Arc<Unstored>,
    quotas: Arc<QuotaBook>,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("registry", &self.registry).finish_non_exhaustive()
    }
}

impl Core {
    pub fn new(store: Store, registry: Registry) -> Self {
        Self::with_clock(store, registry, Arc::new(Timestamp::now))
    }

    pub fn with_clock(store: Store, registry: Registry, clock: Clock) -> Self {
        let quotas = Arc::new(QuotaBook::new(&registry));
        let (cache, held) = (Arc::default(), Arc::default());
        Self { store, registry: Arc::new(registry), clock, cache, held, quotas }
    }

    pub(crate) fn quotas(&self) -> &QuotaBook {
        &self.quotas
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Makes a namespace if there is none of this name. The appliance does so for `default`.
    pub async fn ensure_namespace(&self, name: &str) -> Result<(), Status> {
        let kind = self.namespace_kind()?;
        let target = ObjectTarget { kind: &kind, namespace: "", name };
        // A start must not need to write what is there.
        match self.get(target).await {
            Err(status) if status.is_not_found() => {}
            found => return found.map(drop),
        }
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        match self.create(target, body, WriteOptions::default()).await {
            Ok(_) => Ok(()),
            Err(status) if status.is_already_exists() => Ok(()),
            Err(status) => Err(status),
        }
    }

    pub async fn get(&self, target: ObjectTarget<'_>) -> Result<Value, Status> {
        self.current(target).await.map(|current| current.shown())
    }

    /// The object as a type of this process.
    pub(crate) async fn get_as<T: DeserializeOwned>(&self, target: ObjectTarget<'_>) -> Result<T, Status> {
        let current = self.current(target).await?;
        typed(&current.value, current.revision)
    }

    pub fn create<'a>(
        &'a self,
        target: ObjectTarget<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> BoxFuture<'a, Result<StoredWrite, Status>> {
        Box::pin(async move {
            let owners = Owners::Tracked(self.writer(options));
            self.create_owned(target, body, options, owners).await
        })
    }

    async fn create_owned(
        &self,
        target: ObjectTarget<'_>,
        body: Value,
        options: WriteOptions<'_>,
        owners: Owners<'_>,
    ) -> Result<StoredWrite, Status> {
        let generated = body["metadata"]["name"].as_str().unwrap_or("").is_empty() && target.name.is_empty();
        let places = options.origin.places();
        let spending = self.spending(target, options).await;
        for _ in 0..TRIES {
            let birth = self.birth();
            let prepare = || rules::prepare_create(target, body.clone(), &birth, options.terms(), owners.clone());
            let prepared = places.run(options.bytes, prepare).await?;
            let name = prepared.value["metadata"]["name"].as_str().unwrap_or("").to_owned();
            let key = ObjectKey::new(&target.kind.stored_resource(), target.namespace, &name);
            let guards = self.namespace_guard(target, &prepared.value, &name).await?;
            let allowances = self.allowances(target, options).await?;
            let encode = || encode_stored(target.kind, &prepared.value);
            let op = Op::Create { key, value: places.run(options.bytes, encode).await? };
            if options.dry_run {
                if self.store.get(op.key()).await.map_err(read_failed)?.is_some() {
                    return Err(Status::already_exists(target.kind, &name));
                }
                self.check_allowances(ObjectTarget { name: &name, ..target }, &op, 0, &allowances).await?;
                // No revision: it has none.
                return Ok(StoredWrite {
                    value: prepared.value,
                    warnings: prepared.warnings,
                    removed: false,
                    text: None,
                });
            }
            match self.store.commit_on(CommitTerms { spending, allowances }, op, guards).await {
                Ok(revision) => return Ok(written(prepared, revision)),
                // The namespace changed since it was looked at: look again.
                Err(CommitError::Guard { .. }) => {}
                Err(CommitError::Exists { .. }) if generated => {}
                Err(CommitError::Exists { .. }) => return Err(Status::already_exists(target.kind, &name)),
                Err(CommitError::Exceeds { exceeded, .. }) => {
                    return Err(Status::exceeded_quota(target.kind, &name, &exceeded));
                }
                Err(error) => return Err(commit_failed(target, error)),
            }
        }
        Err(Status::conflict(target.kind, target.name, "could not be created in several tries; please try again"))
    }

    pub fn change<'a>(
        &'a self,
        target: ObjectTarget<'a>,
        part: ObjectPart,
        change: ObjectUpdate<'a>,
        options: WriteOptions<'a>,
    ) -> BoxFuture<'a, Result<StoredWrite, Status>> {
        Box::pin(async move {
            for _ in 0..TRIES {
                let current = self.current(target).await?;
                let owners = Owners::Tracked(self.writer(options));
                let prepare = || changed(target, part, &current, change, options.terms(), owners);
                let prepared = options.origin.places().run(current.bytes.max(options.bytes), prepare).await?;
                if let Some(written) = self.finish(target, prepared, &current, options).await? {
                    return Ok(written);
                }
            }
            Err(Status::modified(target.kind, target.name))
        })
    }

    /// Server-side apply: also makes the object where there is none, unless there is a refusal for that. The
    /// second value says so.
    pub fn apply<'a>(
        &'a self,
        target: ObjectTarget<'a>,
        part: ObjectPart,
        configuration: &'a Configuration,
        force: bool,
        options: WriteOptions<'a>,
        refusal_to_create: Option<Status>,
    ) -> BoxFuture<'a, Result<(StoredWrite, bool), Status>> {
        Box::pin(async move {
            for _ in 0..TRIES {
                let writer = self.writer(options);
                let current = match self.current(target).await {
                    Ok(current) => current,
                    Err(status) if status.is_not_found() && part == ObjectPart::Main => {
                        if let Some(refusal) = refusal_to_create {
                            return Err(refusal);
                        }
                        let applied = configuration.create(target, writer)?;
                        let owners = Owners::Decided(applied.managed);
                        match self.create_owned(target, applied.object, options, owners).await {
                            Err(status) if status.is_already_exists() => continue,
                            written => return written.map(|written| (written, true)),
                        }
                    }
                    Err(status) => return Err(status),
                };
                let prepare = || {
                    let applied = configuration.apply_to(target.kind, part, &current.value, force, writer)?;
                    let (mut body, owners) = (applied.object, Owners::Decided(applied.managed));
                    crate::codec::json::check_width(&body)?;
                    if body["metadata"]["resourceVersion"].is_null() {
                        body["metadata"]["resourceVersion"] = json!(current.revision.to_string());
                    }
                    rules::prepare_update(target, part, &current, UpdateBody::Patched(body), options.terms(), owners)
                };
                let prepared = options.origin.places().run(current.bytes.max(options.bytes), prepare).await?;
                if let Some(written) = self.finish(target, prepared, &current, options).await? {
                    return Ok((written, false));
                }
            }
            Err(Status::modified(target.kind, target.name))
        })
    }

    pub(crate) fn writer<'a>(&self, options: WriteOptions<'a>) -> ApplyManager<'a> {
        ApplyManager { manager: options.manager, now: self.now() }
    }

    /// Changes an object of a type of this process, and returns it as it is now.
    pub(crate) async fn change_as<T: DeserializeOwned>(
        &self,
        target: ObjectTarget<'_>,
        part: ObjectPart,
        change: ObjectUpdate<'_>,
        options: WriteOptions<'_>,
    ) -> Result<T, Status> {
        of_this_process(self.change(target, part, change, options).await?.value)
    }

    /// Bytes of the store as a type of this process.
    pub(crate) fn read_as<T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        revision: Revision,
        bytes: &Bytes,
    ) -> Result<T, Status> {
        match self.cache.get(key, revision) {
            Some(value) => typed(&value, revision),
            None => match stored_object::without_owners(bytes, revision) {
                Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| not_its_type(&error)),
                None => typed(&decode_bytes(key, bytes)?, revision),
            },
        }
    }

    /// What this server does to an object of its own accord: no hook is asked, since an object that
    /// no longer is as the rules want it has to be able to go. Nothing happens to an object that is
    /// gone, or of another uid. An object that is going and that nothing holds any more is removed.
    pub(crate) async fn edit(
        &self,
        target: ObjectTarget<'_>,
        uid: &str,
        edit: impl Fn(&mut Value) + Send + Sync,
    ) -> Result<(), Status> {
        // Mostly this is a step of a deletion. Objects with a short history, such as events, only inform.
        let options = WriteOptions { from_reserve: !target.kind.has_short_history, ..WriteOptions::default() };
        for _ in 0..TRIES {
            let current = match self.current(target).await {
                Err(status) if status.is_not_found() => return Ok(()),
                current => current?,
            };
            if current.value["metadata"]["uid"] != *uid {
                return Ok(());
            }
            let mut value = Value::clone(&current.value);
            edit(&mut value);
            let going = value["metadata"]["deletionTimestamp"].is_string();
            let effect = if going && rules::finalizers_left(target.kind, &value) == 0 {
                WriteEffect::Remove
            } else if value == *current.value {
                WriteEffect::None
            } else {
                WriteEffect::Store
            };
            let prepared = PreparedWrite { value, warnings: Vec::new(), effect };
            if self.finish(target, prepared, &current, options).await?.is_some() {
                return Ok(());
            }
        }
        Err(Status::modified(target.kind, target.name))
    }

    /// The object as it is now, in the version that is asked for.
    pub(crate) fn current<'a>(&'a self, target: ObjectTarget<'a>) -> BoxFuture<'a, Result<CurrentObject, Status>> {
        Box::pin(async move {
            let key = ObjectKey::new(&target.kind.stored_resource(), target.namespace, target.name);
            let object = self.store.get(&key).await.map_err(read_failed)?;
            let object = object.ok_or_else(|| Status::not_found(target.kind, target.name))?;
            let (revision, bytes) = (object.revision, object.value.len());
            let stored = match self.cache.get(&key, revision) {
                Some(stored) => stored,
                None => {
                    // What this process alone writes is not read behind what clients write.
                    let is_own = target.kind.writers != Writers::Everyone;
                    let places = if is_own { &heavy_json::OWN } else { &heavy_json::CLIENTS };
                    let stored = Arc::new(places.run(bytes, || decode(&object)).await?);
                    self.cache.put(&key, revision, Arc::clone(&stored), bytes);
                    stored
                }
            };
            Ok(CurrentObject { value: target.kind.of_stored(stored), revision, bytes })
        })
    }

    pub(crate) fn namespace_kind(&self) -> Result<Arc<KindInfo>, Status> {
        let kind = self.registry.by_kind("", "Namespace");
        kind.cloned().ok_or_else(|| Status::internal("this server has no namespaces"))
    }

    pub(crate) fn birth(&self) -> CreationStamp {
        let uid = uuid::Uuid::new_v4();
        let letter = |byte: &u8| char::from(SUFFIX_LETTERS[usize::from(*byte) % SUFFIX_LETTERS.len()]);
        let suffix = uuid::Uuid::new_v4().as_bytes()[..SUFFIX_LEN].iter().map(letter).collect();
        CreationStamp { now: self.now(), uid: uid.to_string(), suffix }
    }
}

/// What a change makes of the object as it stands.
fn changed(
    target: ObjectTarget<'_>,
    part: ObjectPart,
    current: &CurrentObject,
    change: ObjectUpdate<'_>,
    terms: WriteTerms<'_>,
    owners: Owners<'_>,
) -> Result<PreparedWrite, Status> {
    match change {
        _ if part == ObjectPart::Scale => {
            let (body, warnings) = scale::changed(target, current, change, terms.validation)?;
            let terms = WriteTerms { validation: FieldValidation::Ignore, ..terms };
            let prepared = rules::prepare_update(target, part, current, UpdateBody::Sent(body), terms, owners)?;
            Ok(PreparedWrite { warnings: [warnings, prepared.warnings].concat(), ..prepared })
        }
        ObjectUpdate::Replace(body) => {
            rules::prepare_update(target, part, current, UpdateBody::Sent(body.clone()), terms, owners)
        }
        ObjectUpdate::Patch(patch) => {
            let mut body = current.shown();
            patch.apply_to(&mut body)?;
            crate::codec::json::check_width(&body)?;
            if body["metadata"].is_object() && body["metadata"]["resourceVersion"].is_null() {
                body["metadata"]["resourceVersion"] = json!(current.revision.to_string());
            }
            rules::prepare_update(target, part, current, UpdateBody::Patched(body.clone()), terms, owners)
                .map_err(|status| rules::as_patch_error(target.kind, status, &body))
        }
    }
}

pub(crate) fn written(prepared: PreparedWrite, revision: Revision) -> StoredWrite {
    StoredWrite {
        value: stored::shown(prepared.value, revision),
        warnings: prepared.warnings,
        removed: false,
        text: None,
    }
}
