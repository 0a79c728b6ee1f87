//! Objects on the store, by the rules: what the HTTP handlers and the in-process client share.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use firesteel_store::{
    CommitError, CommitTerms, ObjectKey, Op, QuotaAllowance, ReserveUse, Revision, Store, StoreReadError,
    WritePrecondition,
};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    model::{
        field_validation::FieldValidation,
        kind::{self, KindInfo},
        kind_parts::Writers,
        registry::Registry,
        status::Status,
    },
    object::{
        apply::{ApplyManager, Configuration, Owners},
        cache::ValueCache,
        deletion::{self, Propagation},
        heavy_json,
        held::Unstored,
        options::{ObjectUpdate, Preconditions, StoredWrite, WriteOptions, WriteOrigin},
        quota::QuotaBook,
        rules, scale,
        store_errors::{commit_failed, read_failed},
        stored::{self, bare, decode, decode_bytes, encode, encode_stored, not_its_type, of_this_process, typed},
        stored_object,
        terms::{CreationStamp, ObjectPart, ObjectTarget, PreparedWrite, UpdateBody, WriteEffect, WriteTerms},
    },
};

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
        self.get_sized(target).await.map(|(value, _)| value)
    }

    /// The same with the bytes that it has in the store.
    pub(crate) async fn get_sized(&self, target: ObjectTarget<'_>) -> Result<(Value, usize), Status> {
        let (value, revision, bytes) = self.current_sized(target).await?;
        Ok((stored::shown(Value::clone(&value), revision), bytes))
    }

    /// The object as a type of this process.
    pub(crate) async fn get_as<T: DeserializeOwned>(&self, target: ObjectTarget<'_>) -> Result<T, Status> {
        let (value, revision) = self.current(target).await?;
        typed(&value, revision)
    }

    pub async fn create(
        &self,
        target: ObjectTarget<'_>,
        body: Value,
        options: WriteOptions<'_>,
    ) -> Result<StoredWrite, Status> {
        let owners = Owners::Tracked(self.writer(options));
        self.create_owned(target, body, options, owners).await
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
                self.check_allowances(ObjectTarget { name: &name, ..target }, (&op, 0), &allowances).await?;
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

    pub async fn change(
        &self,
        target: ObjectTarget<'_>,
        part: ObjectPart,
        change: ObjectUpdate<'_>,
        options: WriteOptions<'_>,
    ) -> Result<StoredWrite, Status> {
        for _ in 0..TRIES {
            let (current, revision, bytes) = self.current_sized(target).await?;
            let owners = Owners::Tracked(self.writer(options));
            let prepare = || changed(target, part, (&current, revision), change, options.terms(), owners);
            let prepared = options.origin.places().run(bytes.max(options.bytes), prepare).await?;
            if let Some(written) = self.finish(target, prepared, (revision, bytes), options).await? {
                return Ok(written);
            }
        }
        Err(Status::modified(target.kind, target.name))
    }

    /// Server-side apply: also makes the object where there is none, unless there is a refusal for that. The
    /// second value says so.
    pub async fn apply(
        &self,
        target: ObjectTarget<'_>,
        part: ObjectPart,
        configuration: &Configuration,
        force: bool,
        options: WriteOptions<'_>,
        refusal_to_create: Option<Status>,
    ) -> Result<(StoredWrite, bool), Status> {
        for _ in 0..TRIES {
            let writer = self.writer(options);
            let (current, revision, bytes) = match self.current_sized(target).await {
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
                let applied = configuration.apply_to(target.kind, part, &current, force, writer)?;
                let (mut body, owners) = (applied.object, Owners::Decided(applied.managed));
                crate::codec::json::check_width(&body)?;
                if body["metadata"]["resourceVersion"].is_null() {
                    body["metadata"]["resourceVersion"] = json!(revision.to_string());
                }
                let body = (body, UpdateBody::Patched);
                rules::prepare_update(target, part, (&current, revision), body, options.terms(), owners)
            };
            let prepared = options.origin.places().run(bytes.max(options.bytes), prepare).await?;
            if let Some(written) = self.finish(target, prepared, (revision, bytes), options).await? {
                return Ok((written, false));
            }
        }
        Err(Status::modified(target.kind, target.name))
    }

    pub(crate) fn writer<'a>(&self, options: WriteOptions<'a>) -> ApplyManager<'a> {
        ApplyManager { manager: options.manager, now: self.now() }
    }

    /// The same for a type of this process, which is given the object as it is now.
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

    pub async fn delete(
        &self,
        target: ObjectTarget<'_>,
        preconditions: &Preconditions,
        options: WriteOptions<'_>,
    ) -> Result<StoredWrite, Status> {
        self.delete_with(target, preconditions, None, options).await
    }

    /// The same with a word about the object's dependents, which [`crate::object::lifecycle`] sees to.
    pub async fn delete_with(
        &self,
        target: ObjectTarget<'_>,
        preconditions: &Preconditions,
        propagation: Option<Propagation>,
        options: WriteOptions<'_>,
    ) -> Result<StoredWrite, Status> {
        if kind::is_namespace(target.kind) && target.name == "default" {
            return Err(Status::forbidden("namespaces \"default\" is forbidden: this namespace may not be deleted"));
        }
        let options = WriteOptions { from_reserve: true, ..options };
        for _ in 0..TRIES {
            let (current, revision, bytes) = self.current_sized(target).await?;
            check_preconditions(target, preconditions, &current, revision)?;
            let prepared = deletion::prepare(target.kind, &current, self.now(), propagation);
            if let Some(written) = self.finish(target, prepared, (revision, bytes), options).await? {
                return Ok(written);
            }
        }
        Err(Status::modified(target.kind, target.name))
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
        let status = match self.delete_with(target, &exactly, propagation, options).await {
            Ok(written) => return Ok(Some(written)),
            Err(status) => status,
        };
        if !status.is_conflict() {
            return if status.is_not_found() { Ok(None) } else { Err(status) };
        }
        // Another one; or somebody changed it each time, and it is there.
        match self.current(target).await {
            Ok((current, _)) if current["metadata"]["uid"] == *uid => Err(status),
            Err(status) if !status.is_not_found() => Err(status),
            Ok(_) | Err(_) => Ok(None),
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
        // Mostly a step of a deletion. What has a short history only tells of something.
        let options = WriteOptions { from_reserve: !target.kind.has_short_history, ..WriteOptions::default() };
        for _ in 0..TRIES {
            let (current, revision, bytes) = match self.current_sized(target).await {
                Err(status) if status.is_not_found() => return Ok(()),
                current => current?,
            };
            if current["metadata"]["uid"] != *uid {
                return Ok(());
            }
            let mut value = Value::clone(&current);
            edit(&mut value);
            let going = value["metadata"]["deletionTimestamp"].is_string();
            let effect = if going && rules::finalizers_left(target.kind, &value) == 0 {
                WriteEffect::Remove
            } else if value == *current {
                WriteEffect::None
            } else {
                WriteEffect::Store
            };
            let prepared = PreparedWrite { value, warnings: Vec::new(), effect };
            if self.finish(target, prepared, (revision, bytes), options).await?.is_some() {
                return Ok(());
            }
        }
        Err(Status::modified(target.kind, target.name))
    }

    /// Stores what was prepared in the place of so many bytes; `None` if somebody else was faster.
    async fn finish(
        &self,
        target: ObjectTarget<'_>,
        prepared: PreparedWrite,
        (revision, bytes): (Revision, usize),
        options: WriteOptions<'_>,
    ) -> Result<Option<StoredWrite>, Status> {
        let removed = prepared.effect == WriteEffect::Remove;
        if prepared.effect == WriteEffect::None {
            return Ok(Some(StoredWrite { removed, ..written(prepared, revision) }));
        }
        let key = ObjectKey::new(&target.kind.stored_resource(), target.namespace, target.name);
        let to_bytes = || {
            let stored = target.kind.to_stored(&prepared.value);
            let value = encode(stored.as_ref().unwrap_or(&prepared.value))?;
            Ok::<_, Status>((stored, value))
        };
        let (stored, value) = options.origin.places().run(bytes.max(options.bytes), to_bytes).await?;
        // What goes needs no room.
        let allowances = if removed { Vec::new() } else { self.allowances(target, options).await? };
        let (replaced, bytes, cached) = (bytes, value.clone(), key.clone());
        let op = if removed {
            Op::Delete { key, expected: revision, value }
        } else {
            Op::Update { key, expected: revision, value }
        };
        if options.dry_run {
            self.check_allowances(target, (&op, replaced), &allowances).await?;
            return Ok(Some(StoredWrite { removed, ..written(prepared, revision) }));
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
    async fn allowances(
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
    async fn check_allowances(
        &self,
        target: ObjectTarget<'_>,
        (op, replaced): (&Op, usize),
        allowances: &[QuotaAllowance],
    ) -> Result<(), Status> {
        if allowances.is_empty() {
            return Ok(());
        }
        let exceeded = self.store.exceeded_by(op, replaced, allowances).await.map_err(read_failed)?;
        let is_within = exceeded.is_empty();
        if is_within { Ok(()) } else { Err(Status::exceeded_quota(target.kind, target.name, &exceeded)) }
    }

    /// The object as it is now, in the version that is asked for.
    async fn current(&self, target: ObjectTarget<'_>) -> Result<(Arc<Value>, Revision), Status> {
        self.current_sized(target).await.map(|(value, revision, _)| (value, revision))
    }

    /// The same with the bytes that it has in the store.
    async fn current_sized(&self, target: ObjectTarget<'_>) -> Result<(Arc<Value>, Revision, usize), Status> {
        let (stored, revision, bytes) = self.stored(target).await?;
        Ok((target.kind.of_stored(stored), revision, bytes))
    }

    async fn stored(&self, target: ObjectTarget<'_>) -> Result<(Arc<Value>, Revision, usize), Status> {
        let key = ObjectKey::new(&target.kind.stored_resource(), target.namespace, target.name);
        let object = self.store.get(&key).await.map_err(read_failed)?;
        let object = object.ok_or_else(|| Status::not_found(target.kind, target.name))?;
        let bytes = object.value.len();
        if let Some(value) = self.cache.get(&object.key, object.revision) {
            return Ok((value, object.revision, bytes));
        }
        // What this process alone writes is not read behind what clients write.
        let places = if target.kind.writers == Writers::Everyone { &heavy_json::CLIENTS } else { &heavy_json::OWN };
        let value = Arc::new(places.run(bytes, || decode(&object)).await?);
        self.cache.put(&object.key, object.revision, Arc::clone(&value), bytes);
        Ok((value, object.revision, bytes))
    }

    pub(crate) fn namespace_kind(&self) -> Result<Arc<KindInfo>, Status> {
        let kind = self.registry.by_kind("", "Namespace");
        kind.cloned().ok_or_else(|| Status::internal("this server has no namespaces"))
    }

    /// The object's namespace must exist, and go on existing until the object is stored.
    async fn namespace_guard(
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
        let (value, revision) = self.current(namespace).await?;
        let goes_with_owner = target.kind.is_record
            && object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
        if value["metadata"]["deletionTimestamp"].is_string() && !goes_with_owner {
            let resource = target.kind.group_resource();
            let message = format!(
                "{resource} {name:?} is forbidden: unable to create new content in namespace {} because it is being terminated",
                target.namespace
            );
            let cause = firesteel_kube_types::Cause {
                reason: firesteel_kube_types::CauseReason::NamespaceTerminating,
                message: format!("namespace {} is being terminated", target.namespace),
                field: "metadata.namespace".into(),
            };
            return Err(Status::forbidden(message).with_cause(cause));
        }
        Ok(vec![WritePrecondition::At(ObjectKey::new(&kind.group_resource(), "", target.namespace), revision)])
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
    (current, revision): (&Value, Revision),
    change: ObjectUpdate<'_>,
    terms: WriteTerms<'_>,
    owners: Owners<'_>,
) -> Result<PreparedWrite, Status> {
    match change {
        _ if part == ObjectPart::Scale => {
            let (body, warnings) = scale::changed(target, (current, revision), change, terms.validation)?;
            let body = (body, UpdateBody::Sent);
            let terms = WriteTerms { validation: FieldValidation::Ignore, ..terms };
            let prepared = rules::prepare_update(target, part, (current, revision), body, terms, owners)?;
            Ok(PreparedWrite { warnings: [warnings, prepared.warnings].concat(), ..prepared })
        }
        ObjectUpdate::Replace(body) => {
            let body = (body.clone(), UpdateBody::Sent);
            rules::prepare_update(target, part, (current, revision), body, terms, owners)
        }
        ObjectUpdate::Patch(patch) => {
            let mut body = stored::shown(current.clone(), revision);
            patch.apply_to(&mut body)?;
            crate::codec::json::check_width(&body)?;
            if body["metadata"].is_object() && body["metadata"]["resourceVersion"].is_null() {
                body["metadata"]["resourceVersion"] = json!(revision.to_string());
            }
            let patched = (body.clone(), UpdateBody::Patched);
            rules::prepare_update(target, part, (current, revision), patched, terms, owners)
                .map_err(|status| rules::as_patch_error(target.kind, status, &body))
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

pub(crate) fn written(prepared: PreparedWrite, revision: Revision) -> StoredWrite {
    StoredWrite {
        value: stored::shown(prepared.value, revision),
        warnings: prepared.warnings,
        removed: false,
        text: None,
    }
}
