//! The body of a watch: one JSON event per line.
//!
//! ```text
//!   the objects of now, page by page (ADDED) ─► a bookmark that ends them ─► events, bookmarks
//! ```
//!
//! Events come from the store's rings, which all watches share, and so do the lines that tell them
//! ([`crate::object::stored_object::WatchEventLines`]): however many watch, an event is written once. A client that
//! takes its lines too slowly is at most one page or one event of memory here; when the events that it has not
//! taken are too many it is cut off, and resumes from its revision.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use firesteel_store::{EventStream, HubEvent, ObjectKey, Revision, StoredObject, WatchError};
use futures_util::Stream;
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::time::{Instant, Interval};

use crate::codec::negotiate::{ResponseFormat, partial};
use crate::codec::table;
use crate::model::status::Status;
use crate::object::core::Core;
use crate::object::selection::ListSelection;
use crate::object::stored_object::{self, WatchEventLines, WatchEventType};
use crate::object::{store_errors, stored};
use crate::serve::walk::ListWalk;

/// An interval of no length is none.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// One client's watch.
#[derive(Debug)]
pub(crate) struct WatchRequest {
    pub(crate) core: Core,
    pub(crate) selection: ListSelection,
    /// How often a client that asked for it gets a bookmark when nothing happens.
    pub(crate) bookmarks: Option<Duration>,
    /// The client asked for an end of the objects of now.
    pub(crate) ends_initial: bool,
}

/// Where a watch begins.
#[derive(Debug)]
pub(crate) enum WatchStart {
    /// Begins with the objects of now, of which these are the first.
    Objects(Vec<StoredObject>, ListWalk),
    After(Revision),
}

struct WatchStream {
    watch: WatchRequest,
    queue: VecDeque<Bytes>,
    phase: WatchPhase,
    deadline: Instant,
    ticks: Interval,
    columns_sent: bool,
}

enum WatchPhase {
    Objects(ListWalk),
    Events(EventStream),
    Over,
}

impl WatchRequest {
    /// The lines. What goes wrong on the way is an event too, the last one.
    pub(crate) async fn run(
        self,
        start: WatchStart,
        timeout: Duration,
    ) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + use<> {
        let now = Instant::now();
        // Not read where the client asked for none.
        let pause = self.bookmarks.unwrap_or(timeout).max(SHORTEST_PAUSE);
        let mut running = WatchStream {
            watch: self,
            queue: VecDeque::new(),
            phase: WatchPhase::Over,
            deadline: now + timeout,
            ticks: tokio::time::interval_at(now + pause, pause),
            columns_sent: false,
        };
        match start {
            WatchStart::Objects(first, walk) => running.objects(first, walk).await,
            WatchStart::After(revision) => running.follow(revision).await,
        }
        futures_util::stream::unfold(running, |mut running| async {
            let line = running.next().await?;
            Some((Ok(Frame::data(line)), running))
        })
    }
}

impl WatchStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.queue.pop_front() {
                return Some(line);
            }
            match std::mem::replace(&mut self.phase, WatchPhase::Over) {
                WatchPhase::Objects(mut walk) => {
                    match walk.page(&self.watch.core, &self.watch.selection, usize::MAX).await {
                        Ok(objects) => self.objects(objects, walk).await,
                        Err(status) => self.fail(&status),
                    }
                }
                WatchPhase::Events(stream) => {
                    self.phase = WatchPhase::Events(stream);
                    self.event().await?;
                }
                WatchPhase::Over => return None,
            }
        }
    }

    /// Tells objects, and goes on to what changes when they were the last.
    async fn objects(&mut self, objects: Vec<StoredObject>, walk: ListWalk) {
        for object in objects {
            self.queue_event(WatchEventType::Added, &object.key, &object.value, object.revision, None);
        }
        if !walk.is_over() {
            self.phase = WatchPhase::Objects(walk);
            return;
        }
        let revision = walk.revision().unwrap_or_default();
        if self.watch.ends_initial && self.watch.bookmarks.is_some() {
            self.push_bookmark(revision, true);
        }
        self.follow(revision).await;
    }

    async fn follow(&mut self, from: Revision) {
        let kind = self.watch.selection.kind.stored_resource();
        match self.watch.core.store().watch(&kind, from).await {
            Ok(stream) => self.phase = WatchPhase::Events(stream),
            Err(WatchError::Compacted { oldest }) => {
                self.fail(&Status::expired(format!("too old resource version: {from} ({oldest})")));
            }
            Err(
                error @ (WatchError::Lagged | WatchError::Database(_) | WatchError::Damaged(_) | WatchError::Closed),
            ) => {
                self.fail(&store_errors::watch_failed(error));
            }
        }
    }

    /// Waits for one thing to happen; `None` ends the watch without a word.
    async fn event(&mut self) -> Option<()> {
        let WatchPhase::Events(stream) = &mut self.phase else { return None };
        tokio::select! {
            event = stream.next() => match event {
                Ok(event) => self.queue_stored_event(&event),
                // The client has got all up to here: it resumes from there.
                Err(WatchError::Lagged | WatchError::Closed) => return None,
                Err(error) => self.fail(&store_errors::watch_failed(error)),
            },
            _ = self.ticks.tick(), if self.watch.bookmarks.is_some() => {
                let position = stream.position();
                self.push_bookmark(position, false);
            }
            () = tokio::time::sleep_until(self.deadline) => return None,
        }
        Some(())
    }

    fn queue_stored_event(&mut self, event: &HubEvent) {
        let selection = &self.watch.selection;
        if !selection.namespace.is_empty() && selection.namespace != event.key.namespace {
            return;
        }
        let lines = event.cached(|_| WatchEventLines::default());
        match lines.event_type(&selection.kind, &selection.selector, event) {
            Ok(Some(event_type)) => {
                let value = match &event.previous {
                    Some(previous) if event_type == WatchEventType::Left => previous,
                    Some(_) | None => &event.value,
                };
                self.queue_event(event_type, &event.key, value, event.revision, Some((&lines, event)));
            }
            Ok(None) => {}
            Err(status) => self.fail(&status),
        }
    }

    /// Tells one object; `shared` is the event that it comes from and what all watches make of it.
    fn queue_event(
        &mut self,
        event_type: WatchEventType,
        key: &ObjectKey,
        value: &Bytes,
        revision: Revision,
        shared: Option<(&WatchEventLines, &HubEvent)>,
    ) {
        let line = match (self.watch.selection.format, shared) {
            (ResponseFormat::Json | ResponseFormat::Yaml | ResponseFormat::Discovery, Some((lines, event))) => {
                lines.line(&self.watch.selection.kind, event_type, event)
            }
            (ResponseFormat::Json | ResponseFormat::Yaml | ResponseFormat::Discovery, None) => {
                stored_object::line(event_type.word(), &self.watch.selection.kind, key, value, revision)
            }
            (ResponseFormat::Table | ResponseFormat::Partial, _) => {
                stored::decode_shown(&self.watch.selection.kind, key, value, revision)
                    .map(|object| line(event_type.word(), &self.shown(object)))
            }
        };
        match line {
            Ok(line) => self.queue.push_back(line),
            Err(status) => self.fail(&status),
        }
    }

    /// An object in the form that the client asked for.
    fn shown(&mut self, object: Value) -> Value {
        let selection = &self.watch.selection;
        match selection.format {
            ResponseFormat::Table => {
                let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
                let first = !std::mem::replace(&mut self.columns_sent, true);
                table::table(&selection.kind, metadata, &[object], selection.include, self.watch.core.now(), first)
            }
            ResponseFormat::Partial => partial(&object),
            ResponseFormat::Json | ResponseFormat::Yaml | ResponseFormat::Discovery => object,
        }
    }

    fn push_bookmark(&mut self, revision: Revision, end_of_initial: bool) {
        let kind = &self.watch.selection.kind;
        let mut object = json!({
            "kind": kind.kind, "apiVersion": kind.api_version(),
            "metadata": { "resourceVersion": revision.to_string() },
        });
        if end_of_initial {
            object["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = match self.watch.selection.format {
            ResponseFormat::Table => table::bookmark(kind, &object),
            ResponseFormat::Partial => partial(&object),
            ResponseFormat::Json | ResponseFormat::Yaml | ResponseFormat::Discovery => object,
        };
        self.queue.push_back(line("BOOKMARK", &object));
    }

    /// The last line.
    fn fail(&mut self, status: &Status) {
        self.phase = WatchPhase::Over;
        self.queue.push_back(line("ERROR", &status.to_value()));
    }
}

fn line(word: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({ "type": word, "object": object })))
}
