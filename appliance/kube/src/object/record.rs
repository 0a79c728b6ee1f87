//! Events of this process's own controllers, for `kubectl describe` and `kubectl get events`.
//!
//! If the same is recorded again of one object, it is one event that counts. An object with a steady stream of new
//! texts gets an event now and then only, so that one that fails in a loop fills neither the store nor the screen.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use firesteel_facts::{BucketLimits, TokenBucket};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::model::meta;
use crate::model::status::Status;
use crate::object::core::Core;
use crate::object::options::WriteOptions;
use crate::object::terms::ObjectTarget;

/// What may be said of one object at once, and how long it takes until one more may. As client-go's
/// recorder has the first; its second, five minutes, would leave out most of an installation.
const LIMITS: BucketLimits = BucketLimits { burst: 25, refill: SignedDuration::from_secs(30) };
/// Objects that are remembered; those that have their whole burst need not be.
const OBJECTS_MAX: usize = 10_000;
/// Most bytes of a message, as Kubernetes has it for new events.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Leaves room for the end of an event's name in the 253 letters of a name.
const NAME_BYTES_MAX: usize = 230;

/// The object that something happened to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSubject {
    pub api_version: String,
    pub kind: String,
    /// The namespace; empty for an object outside of all namespaces.
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    pub regarding: EventSubject,
    pub is_warning: bool,
    /// One word: `ProvisioningStarted`.
    pub reason: String,
    pub message: String,
    pub at: Timestamp,
}

/// Writes events.
#[derive(Debug)]
pub struct Recorder {
    core: Core,
    component: &'static str,
    budgets: HashMap<String, TokenBucket>,
    from_reserve: bool,
}

impl Recorder {
    /// `component` says who speaks.
    pub fn new(core: &Core, component: &'static str) -> Self {
        Self { core: core.clone(), component, budgets: HashMap::new(), from_reserve: false }
    }

    /// Lets new events use the store's reserve when room is short: for what must be recorded just then.
    #[must_use]
    pub fn with_reserve(self) -> Self {
        Self { from_reserve: true, ..self }
    }

    /// Writes an event, or counts one that was written before; `false`: too much was said of this
    /// object.
    ///
    /// # Errors
    /// When the store fails, or the object's namespace goes.
    pub async fn record(&mut self, happened: &RecordedEvent) -> Result<bool, Status> {
        if !self.may_say(&happened.regarding.uid, happened.at) {
            return Ok(false);
        }
        let kind = self.core.registry().by_kind("", "Event").cloned();
        let kind = kind.ok_or_else(|| Status::internal("this server has no events"))?;
        let regarding = &happened.regarding;
        let namespace = if regarding.namespace.is_empty() { "default" } else { regarding.namespace.as_str() };
        let name = name_of(happened);
        let target = ObjectTarget { kind: &kind, namespace, name: &name };
        let event = event(happened, namespace, &name, self.component);
        let options =
            WriteOptions { manager: self.component, from_reserve: self.from_reserve, ..WriteOptions::default() };
        match self.core.create(target, event, options).await {
            Err(status) if status.is_already_exists() => {}
            created => return created.map(|_| true),
        }
        let stored = self.core.get(target).await?;
        let uid = stored["metadata"]["uid"].as_str().unwrap_or_default();
        let at = meta::rfc3339(happened.at);
        self.core
            .edit(target, uid, |event| {
                event["count"] = json!(event["count"].as_u64().unwrap_or(1).saturating_add(1));
                event["lastTimestamp"] = json!(at);
            })
            .await?;
        Ok(true)
    }

    fn may_say(&mut self, uid: &str, now: Timestamp) -> bool {
        if self.budgets.len() >= OBJECTS_MAX && !self.budgets.contains_key(uid) {
            self.budgets.retain(|_, budget| !budget.is_full(&LIMITS, now));
            if self.budgets.len() >= OBJECTS_MAX {
                self.budgets.clear();
            }
        }
        let budget = self.budgets.entry(uid.to_owned()).or_insert_with(|| TokenBucket::full(&LIMITS, now));
        budget.take(&LIMITS, now)
    }
}

/// The name of an event, which is the same for the same text about the same object.
fn name_of(happened: &RecordedEvent) -> String {
    let mut hasher = DefaultHasher::new();
    (&happened.regarding.uid, happened.is_warning, &happened.reason, &happened.message).hash(&mut hasher);
    format!("{}.{:016x}", cut(&happened.regarding.name, NAME_BYTES_MAX), hasher.finish())
}

fn event(happened: &RecordedEvent, namespace: &str, name: &str, component: &str) -> Value {
    let regarding = &happened.regarding;
    let at = meta::rfc3339(happened.at);
    let mut involved = json!({
        "apiVersion": regarding.api_version, "kind": regarding.kind, "name": regarding.name, "uid": regarding.uid,
    });
    if !regarding.namespace.is_empty() {
        involved["namespace"] = json!(regarding.namespace);
    }
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": name, "namespace": namespace },
        "involvedObject": involved,
        "type": if happened.is_warning { "Warning" } else { "Normal" },
        "reason": happened.reason,
        "message": cut(&happened.message, MESSAGE_BYTES_MAX),
        "source": { "component": component },
        "reportingComponent": component,
        "firstTimestamp": at, "lastTimestamp": at, "count": 1,
    })
}

fn cut(text: &str, bytes_max: usize) -> &str {
    let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
    &text[..ends.take_while(|end| *end <= bytes_max).last().unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use firesteel_store::{ListRange, MemoryMedium, Store};

    use crate::model::registry::Registry;
    use crate::object::builtin;

    fn said(message: &str, second: i64) -> RecordedEvent {
        let regarding = EventSubject {
            api_version: "example.org/v1".into(),
            kind: "Toy".into(),
            namespace: "default".into(),
            name: "a".into(),
            uid: "u".into(),
        };
        let at = Timestamp::from_second(second).unwrap();
        RecordedEvent { regarding, is_warning: true, reason: "Broken".into(), message: message.into(), at }
    }

    #[tokio::test]
    async fn the_same_again_is_counted_and_too_much_is_not_written() {
        let core = Core::new(Store::in_memory(&MemoryMedium::new()), Registry::new(builtin::kinds()));
        core.ensure_namespace("default").await.unwrap();
        let mut recorder = Recorder::new(&core, "tester");
        for second in 0..3 {
            assert!(recorder.record(&said("it broke", second)).await.unwrap());
        }
        let kind = core.registry().by_kind("", "Event").unwrap().clone();
        let resource = kind.group_resource();
        let page = || core.store().list(ListRange::all(&resource), 100);
        let name = page().await.unwrap().items[0].key.name.clone();
        let event = core.get(ObjectTarget { kind: &kind, namespace: "default", name: &name }).await.unwrap();
        assert_eq!((&event["count"], &event["type"]), (&json!(3), &json!("Warning")));
        assert_eq!(event["firstTimestamp"], "1970-01-01T00:00:00Z");
        assert_eq!(event["lastTimestamp"], "1970-01-01T00:00:02Z");
        for number in 3..LIMITS.burst {
            assert!(recorder.record(&said(&format!("{number}"), 3)).await.unwrap(), "{number}");
        }
        assert!(!recorder.record(&said("one too many", 4)).await.unwrap());
        assert_eq!(page().await.unwrap().items.len(), 23);
        assert!(recorder.record(&said("later", 31)).await.unwrap());
        assert!(!recorder.record(&said("too soon", 32)).await.unwrap());
    }

    #[test]
    fn long_messages_and_names_are_cut_between_letters() {
        let mut long = said(&"ä".repeat(2_000), 0);
        long.regarding.name = "n".repeat(253);
        let name = name_of(&long);
        assert!(name.len() <= 253, "{name}");
        let event = event(&long, "default", &name, "tester");
        assert_eq!(event["message"].as_str().unwrap().len(), MESSAGE_BYTES_MAX);
    }
}
