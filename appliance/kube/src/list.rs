//! LIST and WATCH: revisions, pages, selectors.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use firesteel_store::{Position, ReadError, Revision, WatchError};
use futures_util::Stream;
use hyper::body::Frame;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::core::{self, Core};
use crate::kind::KindInfo;
use crate::negotiate::{Format, partial};
use crate::query::Query;
use crate::rules;
use crate::selector::Selector;
use crate::status::{Cause, Status};
use crate::table::{self, Include};
use crate::watch::Watch;

/// How long a list waits for a revision that has not happened yet.
const FUTURE_WAIT: Duration = Duration::from_secs(3);
/// Objects read from the store at once.
const PAGE: usize = 500;
/// A watch lives as long as its client says, at most this; the shorter half by default.
const WATCH_SECONDS_MAX: u64 = 3600;

/// What every list and watch has.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) kind: Arc<KindInfo>,
    /// Empty for all.
    pub(crate) namespace: String,
    pub(crate) selector: Selector,
    pub(crate) include: Include,
    pub(crate) format: Format,
}

impl Selection {
    pub(crate) fn new(kind: Arc<KindInfo>, namespace: &str, query: &Query, format: Format) -> Result<Self, Status> {
        let selector = Selector::parse(&kind, query.label_selector.as_deref(), query.field_selector.as_deref())?;
        let include = Include::parse(query.include_object.as_deref())?;
        Ok(Self { kind, namespace: namespace.into(), selector, include, format })
    }

    fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(self.namespace.as_str())
    }
}

/// Where a list was left, as the client carries it.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    v: String,
    /// -1: at whatever is newest.
    rv: i64,
    start: String,
}

impl Continue {
    fn encode(revision: Option<Revision>, after: &Position) -> String {
        let rv = revision.map_or(-1, |revision| i64::try_from(revision.0).unwrap_or(-1));
        let token = Self { v: "meta.k8s.io/v1".into(), rv, start: format!("{}/{}", after.namespace, after.name) };
        BASE64.encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    fn decode(token: &str) -> Result<(Option<Revision>, Position), Status> {
        let failed = |detail: String| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {detail}"))
        };
        let bytes = BASE64.decode(token).map_err(|error| failed(error.to_string()))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
        let (namespace, name) = token.start.split_once('/').ok_or_else(|| failed("no place in it".into()))?;
        let revision = u64::try_from(token.rv).ok().map(Revision);
        Ok((revision, Position { namespace: namespace.into(), name: name.into() }))
    }
}

/// Objects that match, and what their list's metadata says.
struct Found {
    objects: Vec<Value>,
    revision: Revision,
    /// After which more may follow.
    rest: Option<(Position, u64)>,
}

pub(crate) async fn list(core: &Core, selection: &Selection, query: &Query) -> Result<Value, Status> {
    check_list(query)?;
    let asked = revision(query.resource_version.as_deref())?;
    let (at, after) = match &query.continue_token {
        Some(_) if asked.is_some_and(|asked| asked != Revision(0)) => {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        Some(token) => {
            let (at, after) = Continue::decode(token)?;
            (at, Some(after))
        }
        None => {
            let asked = asked.unwrap_or_default();
            wait_for(core, asked).await?;
            (is_exact(query).then_some(asked), None)
        }
    };
    let limit = query.limit.unwrap_or(usize::MAX);
    let found = find(core, selection, at, after.clone(), limit).await.map_err(|status| match &after {
        Some(after) if status.code == 410 => status.with_continue(Continue::encode(None, after)),
        _ => status,
    })?;

    let mut metadata = json!({ "resourceVersion": found.revision.to_string() });
    if let Some((position, remaining)) = &found.rest {
        metadata["continue"] = json!(Continue::encode(Some(found.revision), position));
        if selection.selector.is_empty() {
            metadata["remainingItemCount"] = json!(remaining);
        }
    }
    Ok(show(core, selection, metadata, found.objects))
}

/// A watch's stream of lines. What is wrong with the request is refused; what is wrong with the
/// history is an event.
pub(crate) async fn watch(
    core: &Core,
    selection: Selection,
    query: &Query,
) -> Result<impl Stream<Item = Result<Frame<bytes::Bytes>, std::convert::Infallible>> + Send + use<>, Status> {
    check_watch(query)?;
    let asked = revision(query.resource_version.as_deref())?.unwrap_or_default();
    let initial = query.send_initial_events.unwrap_or(asked == Revision(0));
    let kind = selection.kind.group_resource();
    let (objects, from, end_of_initial) = if initial {
        wait_for(core, asked).await?;
        let found = find(core, &selection, None, None, usize::MAX).await?;
        let end = query.send_initial_events.is_some() && query.allow_watch_bookmarks;
        (found.objects, found.revision, end.then_some(found.revision))
    } else {
        (Vec::new(), if asked == Revision(0) { core.store().current() } else { asked }, None)
    };
    let stream = core.store().watch(&kind, from).await.map_err(|error| match error {
        WatchError::Compacted { oldest } => Status::expired(format!("too old resource version: {from} ({oldest})")),
        other @ (WatchError::Lagged | WatchError::Database(_) | WatchError::Closed) => core::watch_failed(other),
    });
    let seconds = query.timeout_seconds.unwrap_or_else(default_seconds).min(WATCH_SECONDS_MAX);
    let watch = Watch {
        core: core.clone(),
        kind: selection.kind,
        namespace: selection.namespace,
        selector: selection.selector,
        format: selection.format,
        include: selection.include,
        bookmarks: query.allow_watch_bookmarks,
    };
    Ok(watch.run(objects, end_of_initial, stream, Duration::from_secs(seconds)))
}

/// All objects that match, for a deletion of them.
pub(crate) async fn matching(core: &Core, selection: &Selection) -> Result<Vec<Value>, Status> {
    find(core, selection, None, None, usize::MAX).await.map(|found| found.objects)
}

/// A list of objects in the form that the client wants.
pub(crate) fn show(core: &Core, selection: &Selection, metadata: Value, objects: Vec<Value>) -> Value {
    let kind = &selection.kind;
    match selection.format {
        Format::Table => table::table(kind, metadata, &objects, selection.include, core.now(), true),
        Format::Partial => {
            let items: Vec<Value> = objects.iter().map(partial).collect();
            json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": metadata, "items": items,
            })
        }
        Format::Json | Format::Yaml | Format::Discovery => json!({
            "apiVersion": kind.api_version(), "kind": format!("{}List", kind.kind),
            "metadata": metadata, "items": objects,
        }),
    }
}

/// One object in the form that the client wants.
pub(crate) fn show_one(core: &Core, selection: &Selection, object: Value) -> Value {
    match selection.format {
        Format::Table => {
            let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
            table::table(&selection.kind, metadata, &[object], selection.include, core.now(), true)
        }
        Format::Partial => partial(&object),
        Format::Json | Format::Yaml | Format::Discovery => object,
    }
}

async fn find(
    core: &Core,
    selection: &Selection,
    mut at: Option<Revision>,
    mut after: Option<Position>,
    limit: usize,
) -> Result<Found, Status> {
    let kind = selection.kind.group_resource();
    let limit = limit.max(1);
    let mut objects = Vec::new();
    loop {
        // Without a selector each object read is one found: no more than are missing are read.
        let page = if selection.selector.is_empty() { PAGE.min(limit - objects.len()) } else { PAGE };
        let page = core.store().list(&kind, selection.namespace(), at, after.as_ref(), page).await;
        let page = page.map_err(core::read_failed)?;
        at = Some(page.revision);
        let count = page.items.len();
        for (index, object) in page.items.into_iter().enumerate() {
            let position = object.key.position();
            let value = rules::shown(core::decode(&object)?, object.revision);
            if selection.selector.matches(&value) {
                objects.push(value);
            }
            if objects.len() == limit {
                let unread = u64::try_from(count - index - 1).unwrap_or(0);
                let remaining = page.remaining.saturating_add(unread);
                let rest = (remaining > 0).then_some((position, remaining));
                return Ok(Found { objects, revision: page.revision, rest });
            }
            after = Some(position);
        }
        if page.remaining == 0 {
            return Ok(Found { objects, revision: page.revision, rest: None });
        }
    }
}

async fn wait_for(core: &Core, revision: Revision) -> Result<(), Status> {
    match tokio::time::timeout(FUTURE_WAIT, core.store().reached(revision)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error @ ReadError::Closed)) => Err(core::read_failed(error)),
        Ok(Err(_)) | Err(_) => Err(Status::version_too_large(revision.0, core.store().current().0)),
    }
}

fn revision(text: Option<&str>) -> Result<Option<Revision>, Status> {
    text.map(|text| {
        text.parse().map(Revision).map_err(|_| {
            Status::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
            ))
        })
    })
    .transpose()
}

fn is_exact(query: &Query) -> bool {
    query.resource_version_match.as_deref() == Some("Exact")
}

fn check_list(query: &Query) -> Result<(), Status> {
    let Some(matching) = query.resource_version_match.as_deref() else { return Ok(()) };
    let field = "resourceVersionMatch";
    let version = query.resource_version.as_deref();
    let cause = match (matching, version) {
        (_, None) => Cause::forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("Exact", Some("0")) => {
            Cause::forbidden(field, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        ("Exact" | "NotOlderThan", Some(_)) => return Ok(()),
        (other, Some(_)) => Cause::not_supported(field, &json!(other), &["Exact", "NotOlderThan", ""]),
    };
    Err(Status::invalid("meta.k8s.io", "ListOptions", "", vec![cause]))
}

fn check_watch(query: &Query) -> Result<(), Status> {
    let matching = query.resource_version_match.as_deref();
    let cause = match (query.send_initial_events, matching) {
        (None, None) | (Some(_), Some("NotOlderThan")) => return Ok(()),
        (None, Some(_)) => Cause::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (Some(_), None) => Cause::forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (Some(_), Some(other)) => Cause::not_supported("resourceVersionMatch", &json!(other), &["NotOlderThan"]),
    };
    Err(Status::invalid("meta.k8s.io", "ListOptions", "", vec![cause]))
}

/// Between a half and the whole, so that clients that came together do not come back together.
fn default_seconds() -> u64 {
    let [random, ..] = *uuid::Uuid::new_v4().as_bytes();
    let half = WATCH_SECONDS_MAX / 2;
    half + half * u64::from(random) / 256
}
