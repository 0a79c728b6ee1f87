//! The body of a watch: one JSON event per line, from the store's stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use firesteel_store::{Event, EventKind, EventStream, Revision, WatchError};
use futures_util::Stream;
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::time::{Instant, Interval};

use crate::core::{self, Core};
use crate::kind::KindInfo;
use crate::negotiate::{Format, partial};
use crate::rules;
use crate::selector::Selector;
use crate::status::Status;
use crate::table::{self, Include};

/// How often a quiet watch tells its client how far it is.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// One client's watch.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) core: Core,
    pub(crate) kind: Arc<KindInfo>,
    /// Empty for all.
    pub(crate) namespace: String,
    pub(crate) selector: Selector,
    pub(crate) format: Format,
    pub(crate) include: Include,
    pub(crate) bookmarks: bool,
}

struct Running {
    watch: Watch,
    queue: VecDeque<Bytes>,
    stream: Option<EventStream>,
    deadline: Instant,
    ticks: Interval,
    columns_sent: bool,
}

impl Watch {
    /// Starts with `initial` objects (as ADDED; and with a bookmark that ends them, if asked for),
    /// then follows the stream, or ends with an error that the client gets as an event.
    pub(crate) fn run(
        self,
        initial: Vec<Value>,
        end_of_initial: Option<Revision>,
        stream: Result<EventStream, Status>,
        timeout: Duration,
    ) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
        let now = Instant::now();
        let mut running = Running {
            watch: self,
            queue: VecDeque::new(),
            stream: None,
            deadline: now + timeout,
            ticks: tokio::time::interval_at(now + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL),
            columns_sent: false,
        };
        for object in initial {
            running.push("ADDED", object);
        }
        if let Some(revision) = end_of_initial {
            running.push_bookmark(revision, true);
        }
        match stream {
            Ok(stream) => running.stream = Some(stream),
            Err(status) => running.push_line("ERROR", &status.to_value()),
        }
        futures_util::stream::unfold(running, |mut running| async {
            let line = running.next().await?;
            Some((Ok(Frame::data(line)), running))
        })
    }
}

impl Running {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.queue.pop_front() {
                return Some(line);
            }
            let stream = self.stream.as_mut()?;
            tokio::select! {
                event = stream.next() => match event {
                    Ok(event) => self.tell(&event),
                    // The client has seen all up to here: it resumes from there.
                    Err(WatchError::Lagged | WatchError::Closed) => return None,
                    Err(error) => {
                        self.stream = None;
                        self.push_line("ERROR", &core::watch_failed(error).to_value());
                    }
                },
                _ = self.ticks.tick(), if self.watch.bookmarks => {
                    let position = stream.position();
                    self.push_bookmark(position, false);
                }
                () = tokio::time::sleep_until(self.deadline) => return None,
            }
        }
    }

    fn tell(&mut self, event: &Event) {
        if !self.watch.namespace.is_empty() && self.watch.namespace != event.key.namespace {
            return;
        }
        let decode = |bytes| core::decode_bytes(&event.key, bytes);
        let told = decode(&event.value).and_then(|value| {
            let previous = match &event.previous {
                Some(previous) if !self.watch.selector.is_empty() => Some(decode(previous)?),
                _ => None,
            };
            Ok((value, previous))
        });
        match told {
            Ok((value, previous)) => {
                let told = transition(&self.watch.selector, event.kind, value, previous);
                if let Some((kind, value)) = told {
                    self.push(kind, rules::shown(value, event.revision));
                }
            }
            Err(status) => self.push_line("ERROR", &status.to_value()),
        }
    }

    fn push(&mut self, kind: &str, object: Value) {
        let object = match self.watch.format {
            Format::Table => {
                let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
                let (include, now) = (self.watch.include, self.watch.core.now());
                let first = !std::mem::replace(&mut self.columns_sent, true);
                table::table(&self.watch.kind, metadata, &[object], include, now, first)
            }
            Format::Partial => partial(&object),
            Format::Json | Format::Yaml | Format::Discovery => object,
        };
        self.push_line(kind, &object);
    }

    fn push_bookmark(&mut self, revision: Revision, end_of_initial: bool) {
        let mut object = json!({
            "kind": self.watch.kind.kind, "apiVersion": self.watch.kind.api_version(),
            "metadata": { "resourceVersion": revision.to_string() },
        });
        if end_of_initial {
            object["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = match self.watch.format {
            Format::Table => table::bookmark(&self.watch.kind, &object),
            Format::Partial => partial(&object),
            Format::Json | Format::Yaml | Format::Discovery => object,
        };
        self.push_line("BOOKMARK", &object);
    }

    fn push_line(&mut self, kind: &str, object: &Value) {
        self.queue.push_back(Bytes::from(format!("{}\n", json!({ "type": kind, "object": object }))));
    }
}

/// What an event is to a client that sees only objects that its selector matches.
fn transition(
    selector: &Selector,
    kind: EventKind,
    value: Value,
    previous: Option<Value>,
) -> Option<(&'static str, Value)> {
    let now = kind != EventKind::Deleted && selector.matches(&value);
    let before = match (kind, &previous) {
        (EventKind::Created, _) => false,
        (_, Some(previous)) => selector.matches(previous),
        // Not looked at because everything matches.
        (_, None) => true,
    };
    match (before, now) {
        (false, true) => Some(("ADDED", value)),
        (true, true) => Some(("MODIFIED", value)),
        (true, false) if kind == EventKind::Deleted => Some(("DELETED", value)),
        (true, false) => Some(("DELETED", previous.unwrap_or(value))),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn selectors_see_objects_come_and_go() {
        let kind = KindInfo::namespaced("example.org", "v1", "Toy", "toys");
        let selector = Selector::parse(&kind, Some("a=1"), None).unwrap();
        let object = |label: &str| json!({ "metadata": { "labels": { "a": label } } });
        let (yes, no) = (object("1"), object("2"));
        let told = |kind, value: &Value, previous: Option<&Value>| {
            transition(&selector, kind, value.clone(), previous.cloned())
        };
        assert_eq!(told(EventKind::Created, &yes, None), Some(("ADDED", yes.clone())));
        assert_eq!(told(EventKind::Created, &no, None), None);
        assert_eq!(told(EventKind::Updated, &yes, Some(&no)), Some(("ADDED", yes.clone())));
        assert_eq!(told(EventKind::Updated, &yes, Some(&yes)), Some(("MODIFIED", yes.clone())));
        assert_eq!(told(EventKind::Updated, &no, Some(&yes)), Some(("DELETED", yes.clone())));
        assert_eq!(told(EventKind::Updated, &no, Some(&no)), None);
        assert_eq!(told(EventKind::Deleted, &yes, Some(&yes)), Some(("DELETED", yes.clone())));
        assert_eq!(told(EventKind::Deleted, &no, Some(&no)), None);
    }
}
