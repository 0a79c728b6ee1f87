//! LIST and WATCH: revisions, pages, selectors.
//!
//! | `resourceVersion` | a list is | a watch is |
//! |---|---|---|
//! | none | as of now | the objects of now, then what changes |
//! | `0` | as of now | the same |
//! | N | as of now, which is waited for to be N (504) | what changed after N; 410 as an event if that is forgotten |
//! | N, `Exact` | as of N; 410 if that is forgotten | – |
//! | in a token | as of the first page's; 410 with a token to go on at now | – |
//!
//! A list in which a damaged object would be missing is refused (500) with the keys of what is damaged: an object
//! that is left out looks deleted. A watch whose history has one ends with 410, and the list says the rest.
//!
//! A list is put together while it is sent ([`crate::serve::listing`]): in JSON from stored bytes; objects are
//! read, one at a time, for tables, YAML and metadata alone.

use std::time::Duration;

use firesteel_kube_types::Cause;
use firesteel_store::{Position, Revision, StoreReadError, StoredObject};
use futures_util::Stream;
use hyper::body::Frame;
use serde_json::{Value, json};

use crate::codec::negotiate::{ResponseFormat, partial};
use crate::codec::table;
use crate::model::kind::KindInfo;
use crate::model::query::Query;
use crate::model::status::Status;
use crate::object::core::Core;
use crate::object::selection::ListSelection;
use crate::object::{store_errors, stored};
use crate::serve::continue_token::Continue;
use crate::serve::listing::Listing;
use crate::serve::timing::Timing;
use crate::serve::walk::ListWalk;
use crate::serve::watch::{WatchRequest, WatchStart};

/// The message of Kubernetes: the client may go on with the token that comes along.
const PAGE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Where a list begins, as its client says.
struct ListStart {
    /// The revision of the request.
    asked: Option<Revision>,
    /// The revision that is listed; `None` for the newest.
    at: Option<Revision>,
    after: Option<Position>,
    left: Option<u64>,
}

impl ListStart {
    fn read(query: &Query) -> Result<Self, Status> {
        check_list(query)?;
        let asked = revision(query.resource_version.as_deref())?;
        let (at, after, left) = match &query.continue_token {
            Some(_) if asked.is_some_and(|asked| asked != Revision(0)) => {
                return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
            }
            Some(token) => {
                let (at, after, left) = Continue::decode(token)?;
                (at, Some(after), left)
            }
            None => (asked.filter(|_| is_exact(query)), None, None),
        };
        Ok(Self { asked, at, after, left })
    }
}

/// The way through the objects that a deletion of many is about: that of a list of them. A revision that is to come is
/// not waited for.
pub(crate) fn walk_to_delete(core: &Core, query: &Query) -> Result<ListWalk, Status> {
    let ListStart { asked, at, after, .. } = ListStart::read(query)?;
    let (wanted, current) = (at.or(asked).unwrap_or_default(), core.store().current());
    if wanted > current {
        return Err(Status::version_too_large(wanted.0, current.0));
    }
    Ok(ListWalk::new(at, after))
}

/// A list, of which the first objects are read.
pub(crate) async fn list(
    core: &Core,
    selection: ListSelection,
    query: &Query,
    future: Duration,
) -> Result<Listing, Status> {
    let ListStart { asked, at, after, left } = ListStart::read(query)?;
    // This also checks the revision of a token: an invented one gets the same answer.
    wait_for(core, at.or(asked).unwrap_or_default(), future).await?;
    // Before the answer begins: one that is cut says nothing about why.
    if let Some(refusal) = selection.refusal(core, Vec::new()) {
        return Err(refusal);
    }
    // A client that takes any revision gets all of it in Kubernetes, which has it in memory.
    let takes_any = asked == Some(Revision(0)) && query.continue_token.is_none();
    let limit = query.limit.filter(|_| !takes_any).unwrap_or(usize::MAX);
    let listing = Listing::start(core, selection, ListWalk::new(at, after.clone()), limit, left).await;
    listing.map_err(|status| match &after {
        _ if status.code != 410 => status,
        Some(after) => Status::expired(PAGE_EXPIRED).with_continue(Continue::encode(None, after, None)),
        None => Status::expired("The resourceVersion for the provided list is too old."),
    })
}

pub(crate) fn values(kind: &KindInfo, objects: Vec<StoredObject>) -> Result<Vec<Value>, Status> {
    objects.iter().map(|object| stored::decode_shown(kind, &object.key, &object.value, object.revision)).collect()
}

/// A watch's stream of lines. What is wrong with the request is refused; what is wrong with the
/// history is an event.
pub(crate) async fn watch(
    core: &Core,
    selection: ListSelection,
    query: &Query,
    timing: Timing,
) -> Result<impl Stream<Item = Result<Frame<bytes::Bytes>, std::convert::Infallible>> + Send + use<>, Status> {
    check_watch(query)?;
    let asked = revision(query.resource_version.as_deref())?.unwrap_or_default();
    let start = if query.send_initial_events.unwrap_or(asked == Revision(0)) {
        wait_for(core, asked, timing.future).await?;
        if let Some(refusal) = selection.refusal(core, Vec::new()) {
            return Err(refusal);
        }
        let mut walk = ListWalk::new(None, None);
        // Of a crowd of objects a part is in memory at a time, and the rest when the client took it.
        let first = walk.page(core, &selection, usize::MAX).await?;
        WatchStart::Objects(first, walk)
    } else {
        WatchStart::After(if asked == Revision(0) { core.store().current() } else { asked })
    };
    let lasts = query.timeout_seconds.map_or_else(|| some_of(timing.watch), Duration::from_secs).min(timing.watch);
    let bookmarks = query.allow_watch_bookmarks.then_some(timing.bookmarks);
    let ends_initial = query.send_initial_events == Some(true);
    let watch = WatchRequest { core: core.clone(), selection, bookmarks, ends_initial };
    Ok(watch.run(start, lasts).await)
}

/// A list of objects in the form that the client wants.
pub(crate) fn show(core: &Core, selection: &ListSelection, metadata: Value, objects: Vec<Value>) -> Value {
    let kind = &selection.kind;
    match selection.format {
        ResponseFormat::Table => table::table(kind, metadata, &objects, selection.include, core.now(), true),
        ResponseFormat::Partial => {
            let items: Vec<Value> = objects.iter().map(partial).collect();
            json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": metadata, "items": items,
            })
        }
        ResponseFormat::Json | ResponseFormat::Yaml | ResponseFormat::Discovery => json!({
            "apiVersion": kind.api_version(), "kind": format!("{}List", kind.kind),
            "metadata": metadata, "items": objects,
        }),
    }
}

/// One object in the form that the client wants.
pub(crate) fn show_one(core: &Core, selection: &ListSelection, object: Value) -> Value {
    match selection.format {
        ResponseFormat::Table => {
            let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
            table::table(&selection.kind, metadata, &[object], selection.include, core.now(), true)
        }
        ResponseFormat::Partial => partial(&object),
        ResponseFormat::Json | ResponseFormat::Yaml | ResponseFormat::Discovery => object,
    }
}

async fn wait_for(core: &Core, revision: Revision, future: Duration) -> Result<(), Status> {
    match tokio::time::timeout(future, core.store().reached(revision)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error @ StoreReadError::Closed)) => Err(store_errors::read_failed(error)),
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

const MATCH: &str = "resourceVersionMatch";

fn check_list(query: &Query) -> Result<(), Status> {
    let mut causes = Vec::new();
    if let Some(matching) = query.resource_version_match.as_deref() {
        if query.resource_version.is_none() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            causes.push(Cause::forbidden(MATCH, detail));
        }
        causes.extend(match_on_a_later_page(query));
        if !["Exact", "NotOlderThan"].contains(&matching) {
            causes.push(Cause::not_supported_json(MATCH, &json!(matching), &["Exact", "NotOlderThan", ""]));
        }
        if is_exact(query) && query.resource_version.as_deref() == Some("0") {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(Cause::forbidden(MATCH, detail));
        }
    }
    if query.send_initial_events.is_some() {
        causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    refuse(causes)
}

fn check_watch(query: &Query) -> Result<(), Status> {
    let matching = query.resource_version_match.as_deref();
    let mut causes = Vec::new();
    // A watch that begins with the objects of now lists them first, as if it said so: Kubernetes puts in the words for
    // that, and then they meet the token. After a revision it passes over the token.
    let is_from_now = matches!(query.resource_version.as_deref(), None | Some("0"));
    if is_from_now && matching.is_none() && query.send_initial_events.is_none() {
        causes.extend(match_on_a_later_page(query));
    }
    if query.send_initial_events.is_some() && matching != Some("NotOlderThan") {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(Cause::forbidden(MATCH, detail));
    }
    if let Some(matching) = matching {
        if query.send_initial_events.is_none() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(Cause::forbidden(MATCH, detail));
        }
        if matching != "NotOlderThan" {
            causes.push(Cause::not_supported_json(MATCH, &json!(matching), &["NotOlderThan"]));
        }
        causes.extend(match_on_a_later_page(query));
    }
    refuse(causes)
}

/// The revision of a later page is in its token.
fn match_on_a_later_page(query: &Query) -> Option<Cause> {
    let detail = "resourceVersionMatch is forbidden when continue is provided";
    query.continue_token.as_ref().map(|_| Cause::forbidden(MATCH, detail))
}

fn refuse(causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "ListOptions", "", causes)) }
}

/// A time between a half and the whole, so that clients that came together do not come back together.
fn some_of(whole: Duration) -> Duration {
    let [random, ..] = *uuid::Uuid::new_v4().as_bytes();
    let half = whole / 2;
    half + half * u32::from(random) / 256
}
