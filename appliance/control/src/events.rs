//! What happened to hosts, as events of the API: a channel, so that no step waits for one.

use firesteel_kube::{Objects, Occurrence, Recorder, Regarding};
use firesteel_plan::host::{Event, EventKind};
use firesteel_resources::{ObjectMeta, provisioning};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{Control, HostKey};

/// Events waiting for the database; more come only when thousands of hosts change at once.
pub(crate) const EVENTS_MAX: usize = 4096;
/// Who says so.
const COMPONENT: &str = "firesteel";

impl Control {
    /// Has the events of a step written. The timeline has them already, so that nothing is lost with one.
    pub(crate) fn announce(&self, host: &ObjectMeta, events: &[Event], at: Timestamp) {
        if !self.config().tells_events {
            return;
        }
        let key = HostKey { namespace: host.namespace.clone(), name: host.name.clone() };
        for event in events {
            let regarding = regarding_host(&key, &host.uid);
            let happened = Occurrence {
                regarding,
                is_warning: event.kind == EventKind::Warning,
                reason: event.reason.word().to_owned(),
                message: event.message.clone(),
                at,
            };
            if self.events().try_send(happened).is_err() {
                tracing::warn!(host = %host.name, reason = %event.reason, "too many events are waiting: one is in the timeline alone");
            }
        }
    }
}

impl Control {
    /// Has an event written about a host that no step made.
    pub(crate) fn tell_of(&self, key: &HostKey, uid: &str, reason: &str, is_warning: bool, message: String) {
        self.tell_about(regarding_host(key, uid), reason, is_warning, message);
    }

    /// The same about any object.
    pub(crate) fn tell_about(&self, regarding: Regarding, reason: &str, is_warning: bool, message: String) {
        if !self.config().tells_events {
            return;
        }
        let name = regarding.name.clone();
        let happened = Occurrence { regarding, is_warning, reason: reason.to_owned(), message, at: self.now() };
        if self.events().try_send(happened).is_err() {
            tracing::warn!(%name, reason, "too many events are waiting: one is in the log alone");
        }
    }
}

impl Control {
    /// Has an event written about the Provisioning object: of what concerns no host, or all of them.
    pub(crate) async fn tell_of_network(&self, reason: &str, is_warning: bool, message: String) {
        if !self.config().tells_events {
            return;
        }
        let objects = Objects::<Value>::new(&self.config().core, "metal3.io", "Provisioning");
        let found = match objects {
            Ok(objects) => objects.get("", provisioning::SINGLETON).await,
            Err(status) => Err(status),
        };
        match found {
            Ok(None) => {}
            Ok(Some(object)) => {
                let metadata = ObjectMeta {
                    name: provisioning::SINGLETON.to_owned(),
                    uid: object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
                    ..ObjectMeta::default()
                };
                let about = regarding("metal3.io/v1alpha1", "Provisioning", &metadata);
                self.tell_about(about, reason, is_warning, message);
            }
            Err(status) => {
                tracing::warn!(error = %status.message, reason, "could not write an event of the Provisioning object");
            }
        }
    }
}

/// What an event about an object names.
pub(crate) fn regarding(api_version: &str, kind: &str, metadata: &ObjectMeta) -> Regarding {
    Regarding {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
    }
}

fn regarding_host(key: &HostKey, uid: &str) -> Regarding {
    Regarding {
        api_version: "metal3.io/v1alpha1".to_owned(),
        kind: "BareMetalHost".to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: uid.to_owned(),
    }
}

/// Writes events one after the other.
pub(crate) async fn run(control: Control, mut events: mpsc::Receiver<Occurrence>) -> Result<(), String> {
    let mut recorder = Recorder::new(&control.config().core, COMPONENT);
    while let Some(happened) = events.recv().await {
        let host = &happened.regarding.name;
        match recorder.record(&happened).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::debug!(%host, reason = %happened.reason, "too many events: one is in the timeline alone")
            }
            // Mostly a namespace that is going.
            Err(status) => tracing::debug!(%host, error = %status.message, "writing an event"),
        }
    }
    Ok(())
}
