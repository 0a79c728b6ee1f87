//! What happened, as events of the API: a channel, so that no step waits for one.

use std::sync::{Arc, Mutex};

use firesteel_kube::{Core, EventSubject, Objects, RecordedEvent, Recorder};
use firesteel_plan::host::{EventSeverity, StepEvent};
use firesteel_resources::{ObjectMeta, provisioning};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{ControllerError, HostKey, Runtime, lock};

/// Events waiting for the database; more come only when thousands of hosts change at once.
const EVENTS_MAX: usize = 4096;
/// The component that events name as their source.
const COMPONENT: &str = "firesteel";

/// Records events. Clones share the channel.
#[derive(Clone)]
pub struct Events(Arc<EventChannel>);

struct EventChannel {
    core: Core,
    runtime: Arc<dyn Runtime>,
    tells_events: bool,
    events: mpsc::Sender<RecordedEvent>,
    events_end: Mutex<Option<mpsc::Receiver<RecordedEvent>>>,
}

crate::opaque_debug!(Events);

impl Events {
    /// Makes the channel. `tells_events`: events are written; something else has to delete old ones.
    #[must_use]
    pub fn new(core: &Core, runtime: Arc<dyn Runtime>, tells_events: bool) -> Self {
        let (events, events_end) = mpsc::channel(EVENTS_MAX);
        let events_end = Mutex::new(Some(events_end));
        Self(Arc::new(EventChannel { core: core.clone(), runtime, tells_events, events, events_end }))
    }

    /// Has the events of a step written. The timeline has them already, so that nothing is lost with one.
    pub fn announce(&self, host: &ObjectMeta, events: &[StepEvent], at: Timestamp) {
        if !self.0.tells_events {
            return;
        }
        let key = HostKey { namespace: host.namespace.clone(), name: host.name.clone() };
        for event in events {
            let happened = RecordedEvent {
                regarding: regarding_host(&key, &host.uid),
                is_warning: event.kind == EventSeverity::Warning,
                reason: event.reason.word().to_owned(),
                message: event.message.clone(),
                at,
            };
            if self.0.events.try_send(happened).is_err() {
                tracing::warn!(host = %host.name, reason = %event.reason, "too many events are waiting: one is in the timeline alone");
            }
        }
    }

    /// Has an event written about a host that no step made.
    pub fn record_event(&self, key: &HostKey, uid: &str, reason: &str, is_warning: bool, message: String) {
        self.record_about(regarding_host(key, uid), reason, is_warning, message);
    }

    /// Has an event written about any object.
    pub fn record_about(&self, regarding: EventSubject, reason: &str, is_warning: bool, message: String) {
        if !self.0.tells_events {
            return;
        }
        let name = regarding.name.clone();
        let happened =
            RecordedEvent { regarding, is_warning, reason: reason.to_owned(), message, at: self.0.runtime.now() };
        if self.0.events.try_send(happened).is_err() {
            tracing::warn!(%name, reason, "too many events are waiting: one is in the log alone");
        }
    }

    /// Has an event written about the Provisioning object: of what concerns no host, or all of them.
    pub async fn record_network_event(&self, reason: &str, is_warning: bool, message: String) {
        if !self.0.tells_events {
            return;
        }
        let found = async {
            Objects::<Value>::new(&self.0.core, "metal3.io", "Provisioning")?.get("", provisioning::SINGLETON).await
        };
        match found.await {
            Ok(None) => {}
            Ok(Some(object)) => {
                let metadata = ObjectMeta {
                    name: provisioning::SINGLETON.to_owned(),
                    uid: object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
                    ..ObjectMeta::default()
                };
                let about = regarding("metal3.io/v1alpha1", "Provisioning", &metadata);
                self.record_about(about, reason, is_warning, message);
            }
            Err(status) => {
                tracing::warn!(error = %status.message, reason, "could not write an event of the Provisioning object");
            }
        }
    }

    /// Writes events one after the other.
    ///
    /// # Errors
    /// When they are written already.
    pub async fn run(&self) -> Result<(), ControllerError> {
        let events = lock(&self.0.events_end).take();
        let mut events = events.ok_or(ControllerError::Running("control is running already: its events are taken"))?;
        let mut recorder = Recorder::new(&self.0.core, COMPONENT);
        while let Some(happened) = events.recv().await {
            let host = &happened.regarding.name;
            match recorder.record(&happened).await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::debug!(%host, reason = %happened.reason, "too many events: one is in the timeline alone");
                }
                // Mostly a namespace that is going.
                Err(status) => {
                    tracing::debug!(%host, error = %status.message, "could not write an event; the timeline or the log has it")
                }
            }
        }
        Ok(())
    }
}

/// Returns what an event about an object names.
#[must_use]
pub fn regarding(api_version: &str, kind: &str, metadata: &ObjectMeta) -> EventSubject {
    EventSubject {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
    }
}

fn regarding_host(key: &HostKey, uid: &str) -> EventSubject {
    let HostKey { namespace, name } = key.clone();
    let metadata = ObjectMeta { namespace, name, uid: uid.to_owned(), ..ObjectMeta::default() };
    regarding("metal3.io/v1alpha1", "BareMetalHost", &metadata)
}
