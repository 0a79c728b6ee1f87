//! Objects that are in force although they could not be stored: a stop of the fleet counts whether or not the disk
//! takes it. They are held in memory, shown like others, and stored as soon as that is possible.
//!
//! ```text
//!   create ──► store ──ok──► stored
//!                └─fails──► held: 202, with a warning ──► tried again ──► stored
//!                             └── deleted: gone
//! ```
//!
//! A watch does not show them, since they have no revision; code that acts on them follows [`Core::unstored`]. They are
//! lost with the process: if nothing can be stored at a start, assume that there was one.

use firesteel_store::{CommitError, CommitTerms, ListRange, ObjectKey, Op, ReserveUse, Revision, StoredObject};
use serde_json::Value;
use tokio::sync::watch;

use crate::model::status::Status;
use crate::object::apply::Owners;
use crate::object::core::{self, Core};
use crate::object::held::UnstoredObjects;
use crate::object::options::{Preconditions, StoredWrite, WriteOptions};
use crate::object::selection::ListSelection;
use crate::object::terms::ObjectTarget;
use crate::object::{rules, stored, stored_object};

/// Objects that are held, and stored ones of their kinds that may use the reserve: a few people stop a fleet, and not a
/// thousand.
const UNSTORED_MAX: usize = 64;
/// No quota counts what has to be stored in any case.
const RESERVED: CommitTerms = CommitTerms { spending: ReserveUse::Reserved, allowances: Vec::new() };

impl Core {
    /// What is in force and not stored, as it changes. One that goes from here may have been stored.
    pub fn unstored(&self) -> watch::Receiver<UnstoredObjects> {
        self.held.0.subscribe()
    }

    /// Holds an object that could not be stored, which is as long as this process lives or until it can be.
    ///
    /// # Errors
    /// When the object is not as the rules want it, one of its name is held, or too many are.
    pub fn hold(
        &self,
        target: ObjectTarget<'_>,
        body: Value,
        options: WriteOptions<'_>,
        why: &str,
    ) -> Result<StoredWrite, Status> {
        let owners = Owners::Tracked(self.writer(options));
        let prepared = rules::prepare_create(target, body, &self.birth(), options.terms(), owners)?;
        let name = prepared.value["metadata"]["name"].as_str().unwrap_or("").to_owned();
        let key = ObjectKey::new(&target.kind.stored_resource(), "", &name);
        let value = stored::encode_stored(target.kind, &prepared.value)?;
        let mut refusal = None;
        self.held.0.send_if_modified(|held| {
            if held.contains_key(&key) {
                refusal = Some(Status::already_exists(target.kind, &name));
            } else if held.len() >= UNSTORED_MAX {
                refusal = Some(Status::insufficient_storage(format!("{UNSTORED_MAX} objects are held already: {why}")));
            } else {
                held.insert(key.clone(), StoredObject { key, revision: Revision(0), value });
            }
            refusal.is_none()
        });
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let kind = target.kind.kind;
        tracing::error!(kind, %name, why, "an object is in force and could not be stored: it is held in memory");
        let mut written = core::written(prepared, Revision(0));
        written.warnings.push(format!(
            "it is in force, in memory alone, and is stored as soon as there is room; it could not be stored: {why}"
        ));
        Ok(written)
    }

    /// Stores what is held, as far as that is possible now.
    pub async fn store_unstored(&self) {
        let held: Vec<StoredObject> = self.held.0.borrow().values().cloned().collect();
        for object in held {
            let (key, value) = (object.key.clone(), object.value.clone());
            let op = Op::Create { key: key.clone(), value: value.clone() };
            match self.store().commit_on(RESERVED, op, Vec::new()).await {
                Ok(expected) => {
                    tracing::info!(object = %key, "what was held in memory is stored");
                    // Who deleted it meanwhile did not find it in the store.
                    if !self.forget_unstored(&object) {
                        let op = Op::Delete { key, expected, value };
                        if let Err(error) = self.store().commit(op, Vec::new()).await {
                            tracing::error!(object = %object.key, %error, "it was deleted, and is stored all the same");
                        }
                    }
                }
                // Another one of its name does what it did.
                Err(CommitError::Exists { .. }) => {
                    self.forget_unstored(&object);
                }
                Err(error) => return tracing::debug!(object = %key, %error, "it is held in memory still"),
            }
        }
    }

    /// Why this server does not store what it is given; nothing where it does.
    pub fn problems(&self) -> Vec<String> {
        let storage = self.store().storage().unwrap_or_default();
        let held = self.held.0.borrow().len();
        let held = (held > 0).then(|| format!("{held} objects are in force and held in memory alone"));
        let refused = storage.refused.map(|why| format!("changes are refused: {why}"));
        let unwritable = storage.unwritable.map(|why| format!("not even halts and deletions are stored: {why}"));
        [refused, unwritable, held].into_iter().flatten().collect()
    }

    /// The object, stored or held, and the bytes that it has, or would have, in the store.
    pub(crate) async fn get_or_held(&self, target: ObjectTarget<'_>) -> Result<(Value, usize), Status> {
        match self.current(target).await {
            Err(status) if status.is_not_found() => {
                let held = self.held.0.borrow().get(&key_of(target)).cloned();
                let Some(StoredObject { key, revision, value }) = held else { return Err(status) };
                Ok((stored::decode_shown(target.kind, &key, &value, revision)?, value.len()))
            }
            found => found.map(|current| (current.shown(), current.bytes)),
        }
    }

    /// Those that a list is to show beside the stored ones.
    pub(crate) fn held_of(&self, selection: &ListSelection) -> Result<Vec<StoredObject>, Status> {
        if !selection.kind.holds_unstored {
            return Ok(Vec::new());
        }
        let kind = selection.kind.stored_resource();
        let held: Vec<StoredObject> =
            self.held.0.borrow().values().filter(|object| object.key.kind == kind).cloned().collect();
        let mut shown = Vec::with_capacity(held.len());
        for object in held {
            if stored_object::matches(&selection.kind, &selection.selector, &object)? {
                shown.push(object);
            }
        }
        Ok(shown)
    }

    /// Deletes an object that is held; `None` where there is none.
    pub(crate) fn let_go(
        &self,
        target: ObjectTarget<'_>,
        preconditions: &Preconditions,
    ) -> Result<Option<Value>, Status> {
        let held = self.held.0.borrow().get(&key_of(target)).cloned();
        let Some(object) = held else { return Ok(None) };
        let value = stored::decode(&object)?;
        core::check_preconditions(target, preconditions, &value, object.revision)?;
        Ok(self.forget_unstored(&object).then_some(value))
    }

    /// What a new object may be stored with.
    pub(crate) async fn spending(&self, target: ObjectTarget<'_>, options: WriteOptions<'_>) -> ReserveUse {
        let may = options.from_reserve
            || target.kind.holds_unstored && {
                let kind = target.kind.stored_resource();
                self.store().count(ListRange::all(&kind)).await.is_ok_and(|count| count < UNSTORED_MAX as u64)
            };
        if may { ReserveUse::Reserved } else { ReserveUse::Ordinary }
    }

    /// Drops a held object. False if it, and no other of its name, is not held any more.
    fn forget_unstored(&self, object: &StoredObject) -> bool {
        self.held.0.send_if_modified(|held| {
            let is_held = held.get(&object.key) == Some(object);
            if is_held {
                held.remove(&object.key);
            }
            is_held
        })
    }
}

fn key_of(target: ObjectTarget<'_>) -> ObjectKey {
    ObjectKey::new(&target.kind.stored_resource(), target.namespace, target.name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;
    use firesteel_store::{MemoryMedium, Store, StoreEvent, memory};
    use http::Request;
    use http_body_util::BodyExt as _;
    use serde_json::json;

    use super::*;
    use crate::model::access::Caller;
    use crate::model::{kind::KindInfo, registry::Registry};
    use crate::object::builtin;
    use crate::serve::api::Api;

    /// A medium that takes nothing while it is broken.
    #[derive(Debug, Default)]
    struct Medium {
        is_broken: AtomicBool,
    }

    impl memory::StoreFaults for Medium {
        fn before_read(&self) -> memory::Wait<()> {
            Box::pin(async {})
        }

        fn before_commit(&self, _: &Op) -> memory::Wait<memory::InjectedOutcome> {
            let broken = self.is_broken.load(Ordering::Relaxed);
            Box::pin(
                async move { if broken { memory::InjectedOutcome::Refused } else { memory::InjectedOutcome::Stored } },
            )
        }

        fn after_commit(&self, _: &StoreEvent) -> memory::Wait<()> {
            Box::pin(async {})
        }
    }

    struct Server {
        api: Api,
        medium: Arc<Medium>,
    }

    impl Server {
        fn new() -> Self {
            let medium = Arc::<Medium>::default();
            let store = Store::in_memory(&MemoryMedium::new().with_faults(medium.clone()));
            let stop = KindInfo { holds_unstored: true, ..KindInfo::cluster("example.org", "v1", "Stop", "stops") };
            let toy = KindInfo::cluster("example.org", "v1", "Toy", "toys");
            let core = Core::new(store, Registry::new(builtin::kinds().into_iter().chain([stop, toy])));
            Self { api: Api::new(core), medium }
        }

        fn breaks(&self, is_broken: bool) {
            self.medium.is_broken.store(is_broken, Ordering::Relaxed);
        }

        /// Code, body and warnings.
        async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value, usize) {
            let text = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
            let request = Request::builder().method(method).uri(format!("/apis/example.org/v1/{path}"));
            let request = request.header("content-type", "application/json");
            let body = http_body_util::Full::new(text);
            let answer = self.api.handle(request.body(body).unwrap(), &Caller::admin()).await;
            let warnings = answer.headers().get_all("warning").iter().count();
            let code = answer.status().as_u16();
            let bytes = answer.into_body().collect().await.unwrap().to_bytes();
            (code, serde_json::from_slice(&bytes).unwrap_or_default(), warnings)
        }

        async fn names(&self) -> Vec<String> {
            let (_, list, _) = self.ask("GET", "stops", Value::Null).await;
            let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
            list["items"].as_array().unwrap().iter().map(name).collect()
        }
    }

    fn named(kind: &str, name: &str) -> Value {
        json!({ "apiVersion": "example.org/v1", "kind": kind, "metadata": { "name": name } })
    }

    #[tokio::test]
    async fn what_cannot_be_stored_is_held_shown_and_stored_later() {
        let server = Server::new();
        assert_eq!(server.ask("POST", "stops", named("Stop", "first")).await.0, 201);
        server.breaks(true);
        assert_eq!(server.ask("POST", "toys", named("Toy", "a")).await.0, 503, "only what has to hold is held");
        let (code, made, warnings) = server.ask("POST", "stops", named("Stop", "second")).await;
        assert_eq!((code, warnings, &made["metadata"]["resourceVersion"]), (202, 1, &json!("0")), "{made}");
        assert_eq!(server.ask("POST", "stops", named("Stop", "second")).await.0, 409);
        assert_eq!(server.names().await, ["first", "second"]);
        let (code, shown, _) = server.ask("GET", "stops/second", Value::Null).await;
        assert_eq!((code, &shown["metadata"]["uid"]), (200, &made["metadata"]["uid"]));
        let core = server.api.core();
        assert_eq!(core.problems(), ["1 objects are in force and held in memory alone"]);
        core.store_unstored().await;
        assert_eq!(core.unstored().borrow().len(), 1, "nothing can be stored yet");

        server.breaks(false);
        core.store_unstored().await;
        assert!(core.unstored().borrow().is_empty() && core.problems().is_empty());
        let (_, stored, _) = server.ask("GET", "stops/second", Value::Null).await;
        assert_eq!(stored["metadata"]["uid"], made["metadata"]["uid"], "it is the same one");
        assert_ne!(stored["metadata"]["resourceVersion"], "0");
        assert_eq!(server.names().await, ["first", "second"]);
    }

    #[tokio::test]
    async fn what_is_held_ends_by_its_deletion_and_what_is_stored_does_not_end_in_memory() {
        let server = Server::new();
        assert_eq!(server.ask("POST", "stops", named("Stop", "stored")).await.0, 201);
        server.breaks(true);
        assert_eq!(server.ask("POST", "stops", named("Stop", "held")).await.0, 202);
        let other = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": { "uid": "another" } });
        assert_eq!(server.ask("DELETE", "stops/held", other).await.0, 409);
        assert_eq!(server.ask("DELETE", "stops/held?dryRun=All", Value::Null).await.0, 200);
        assert_eq!(server.names().await, ["stored", "held"]);
        assert_eq!(server.ask("DELETE", "stops/held", Value::Null).await.0, 200);
        assert_eq!(server.ask("DELETE", "stops/held", Value::Null).await.0, 404);
        assert_eq!(server.ask("DELETE", "stops/stored", Value::Null).await.0, 503, "it would be back after a restart");
        server.breaks(false);
        server.api.core().store_unstored().await;
        assert_eq!(server.names().await, ["stored"]);
    }

    #[tokio::test]
    async fn no_more_are_held_than_memory_is_meant_for() {
        let server = Server::new();
        server.breaks(true);
        for number in 0..UNSTORED_MAX {
            assert_eq!(server.ask("POST", "stops", named("Stop", &format!("s{number}"))).await.0, 202);
        }
        let (code, refused, _) = server.ask("POST", "stops", named("Stop", "one-too-many")).await;
        assert_eq!((code, &refused["reason"]), (507, &json!("InsufficientStorage")), "{refused}");
    }
}
