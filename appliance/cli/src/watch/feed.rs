//! The events of a fleet from the appliance: what there is now, then each change. A lost connection is opened again.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http::StatusCode;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;

use super::super::client::{ApiError, code_of, is_unreadable};
use super::super::{ApiClient, ConnectionOptions, kinds};
use super::fleet::{FleetEvent, FleetKind, FleetObject};

/// How long to wait before a connection is opened again.
const REOPEN: Duration = Duration::from_secs(1);
/// After so long without a word, the connection is dead: a bookmark comes each minute.
const SILENCE_MAX: Duration = Duration::from_secs(150);
/// A watch that begins with all that there is, and says where that ends.
const QUERY: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
/// The mark at the end of what there is.
const INITIAL_END: &str = "/metadata/annotations/k8s.io~1initial-events-end";
/// What is not read again: another login or role is needed.
const FINAL_CODES: [StatusCode; 2] = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];

type EventStream = BoxStream<'static, anyhow::Result<Value>>;

/// One line of a watch.
#[derive(Debug)]
enum WatchLine {
    Event(FleetEvent),
    /// All that there was at the beginning was sent.
    InitialEnd,
    Bookmark,
    /// The appliance does not have the changes any more that come next: all is read again.
    Expired,
}

/// Follows the fleet of one appliance.
#[derive(Debug)]
pub(super) struct FleetFeed<'a> {
    connection: &'a ConnectionOptions,
    client: ApiClient,
    /// The one host that is followed, if it is one.
    only: Option<String>,
    has_answered: bool,
}

impl<'a> FleetFeed<'a> {
    pub(super) fn new(connection: &'a ConnectionOptions, client: ApiClient, names: &[String]) -> Self {
        let only = match names {
            [name] => Some(name.clone()).filter(|name| is_plain(name)),
            [] | [_, _, ..] => None,
        };
        Self { connection, client, only, has_answered: false }
    }

    /// Sends what happens, until that makes no sense any more: the appliance did not answer the first time, or refuses
    /// the user. Returns why.
    pub(super) async fn follow(&mut self, events: &Sender<FleetEvent>) -> anyhow::Error {
        loop {
            match self.read(events).await {
                // It closes each watch now and then.
                Ok(()) => {}
                Err(error) if !self.has_answered || is_final(&error) => return error,
                Err(error) => send(events, FleetEvent::Lost(format!("{error:#}"))).await,
            }
            tokio::time::sleep(REOPEN).await;
            // After its start the appliance may have another port or CA.
            if let Ok(client) = ApiClient::open(self.connection) {
                self.client = client;
            }
        }
    }

    /// Reads all that there is and what happens then, until the appliance closes a watch.
    async fn read(&mut self, events: &Sender<FleetEvent>) -> anyhow::Result<()> {
        let (mut objects, mut streams) = (Vec::new(), Vec::new());
        let (mut notes, mut has_halts) = (Vec::new(), true);
        for kind in FleetKind::ALL {
            match self.open(kind).await {
                Ok(Some(opened)) => {
                    objects.extend(opened.objects);
                    streams.push(tagged(kind, opened.rest));
                }
                Ok(None) => return Ok(()),
                Err(error) if kind == FleetKind::Journals && is_withheld(&error) => {
                    notes.push(format!("progress and reasons are not shown: {error:#}"));
                }
                // Hosts say of a halt that it holds them.
                Err(error) if kind == FleetKind::Halts && is_withheld(&error) => has_halts = false,
                Err(error) => return Err(error),
            }
        }
        self.has_answered = true;
        send(events, FleetEvent::Listed { objects, notes, has_halts }).await;
        let mut all = stream::select_all(streams);
        loop {
            let next = timeout(SILENCE_MAX, all.next()).await;
            let next = next.with_context(|| format!("nothing was received for {} s", SILENCE_MAX.as_secs()))?;
            let Some(TaggedLine { kind, line: Some(line) }) = next else { return Ok(()) };
            match read_line(kind, line?)? {
                WatchLine::Event(event) => send(events, event).await,
                WatchLine::InitialEnd | WatchLine::Bookmark => {}
                WatchLine::Expired => return Ok(()),
            }
        }
    }

    /// Begins a watch and reads what there is; `None` if the appliance closes it before the end.
    async fn open(&mut self, kind: FleetKind) -> anyhow::Result<Option<OpenedWatch>> {
        let opened = self.open_filtered(kind).await?;
        let is_missing = opened.as_ref().is_some_and(|opened| opened.objects.is_empty());
        if kind == FleetKind::Hosts && is_missing && !self.has_answered && self.only.take().is_some() {
            // The names of the others are needed to say what was probably meant.
            return self.open_filtered(kind).await;
        }
        Ok(opened)
    }

    async fn open_filtered(&self, kind: FleetKind) -> anyhow::Result<Option<OpenedWatch>> {
        let collection = kinds::collection(kinds::by_name(kind.plural())?, &self.client.namespace);
        let only = self.only.as_ref().filter(|_| kind != FleetKind::Halts);
        let selector = only.map(|name| format!("&fieldSelector=metadata.name%3D{name}")).unwrap_or_default();
        let mut rest = self.client.watch(&format!("{collection}?{QUERY}{selector}")).await?.boxed();
        let mut objects = Vec::new();
        loop {
            let next = timeout(SILENCE_MAX, rest.next()).await;
            let next = next.with_context(|| format!("nothing was received for {} s", SILENCE_MAX.as_secs()))?;
            let Some(line) = next else { return Ok(None) };
            match read_line(kind, line?)? {
                WatchLine::Event(FleetEvent::Present(object)) => objects.push(object),
                WatchLine::Event(_) | WatchLine::Bookmark => {}
                WatchLine::InitialEnd => return Ok(Some(OpenedWatch { objects, rest })),
                WatchLine::Expired => return Ok(None),
            }
        }
    }
}

/// A watch of one kind, and what there was when it began.
struct OpenedWatch {
    objects: Vec<FleetObject>,
    rest: EventStream,
}

/// A line with the kind that it is about; `None` is the end of the watch.
struct TaggedLine {
    kind: FleetKind,
    line: Option<anyhow::Result<Value>>,
}

fn tagged(kind: FleetKind, stream: EventStream) -> BoxStream<'static, TaggedLine> {
    let lines = stream.map(move |line| TaggedLine { kind, line: Some(line) });
    lines.chain(stream::iter([TaggedLine { kind, line: None }])).boxed()
}

/// A watch that is over reads no events any more.
async fn send(events: &Sender<FleetEvent>, event: FleetEvent) {
    drop(events.send(event).await);
}

/// Reads one line of a watch.
fn read_line(kind: FleetKind, mut line: Value) -> anyhow::Result<WatchLine> {
    let object = line["object"].take();
    Ok(match line["type"].as_str().unwrap_or_default() {
        "ADDED" | "MODIFIED" => WatchLine::Event(FleetEvent::Present(FleetObject::read(kind, object))),
        "DELETED" => WatchLine::Event(FleetEvent::Gone { kind, name: FleetObject::read(kind, object).name }),
        "BOOKMARK" if object.pointer(INITIAL_END).is_some() => WatchLine::InitialEnd,
        "BOOKMARK" => WatchLine::Bookmark,
        "ERROR" if object["code"] == StatusCode::GONE.as_u16() => WatchLine::Expired,
        "ERROR" => {
            return Err(ApiError::of_status(&object).into());
        }
        other => bail!("the appliance sent a watch event of the unknown type {other:?}"),
    })
}

/// Returns whether objects may not be read by this user, or one of them is damaged: the hosts are shown without them.
fn is_withheld(error: &anyhow::Error) -> bool {
    is_unreadable(error) || code_of(error) == Some(StatusCode::FORBIDDEN.as_u16())
}

fn is_final(error: &anyhow::Error) -> bool {
    code_of(error).is_some_and(|code| FINAL_CODES.iter().any(|known| known.as_u16() == code))
}

/// Returns whether a name can be that of an object, and stands in a query as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_of_a_watch_are_told_apart() {
        let read = |type_: &str, object: Value| read_line(FleetKind::Hosts, json!({"type": type_, "object": object}));
        let host = json!({"metadata": {"name": "a"}});
        for word in ["ADDED", "MODIFIED"] {
            assert!(
                matches!(read(word, host.clone()), Ok(WatchLine::Event(FleetEvent::Present(found))) if found.name == "a")
            );
        }
        assert!(matches!(read("DELETED", host), Ok(WatchLine::Event(FleetEvent::Gone { name, .. })) if name == "a"));
        let end = json!({"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}});
        assert!(matches!(read("BOOKMARK", end), Ok(WatchLine::InitialEnd)));
        assert!(matches!(read("BOOKMARK", json!({})), Ok(WatchLine::Bookmark)));
        assert!(matches!(read("ERROR", json!({"code": 410})), Ok(WatchLine::Expired)));
        let damaged = json!({"code": 500, "reason": "StorageReadError", "message": "damaged"});
        assert!(read("ERROR", damaged).is_err_and(|error| is_withheld(&error) && !is_final(&error)));
        assert!(read("ERROR", json!({"code": 401})).is_err_and(|error| is_final(&error)));
        assert!(read("OTHER", json!({})).is_err());
    }

    #[test]
    fn only_a_name_that_can_be_one_stands_in_a_query() {
        assert!(is_plain("dc1-rack07-worker-07.example") && !is_plain("") && !is_plain("a&b") && !is_plain("a/../b"));
    }
}
