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
//! A list is put together while it is sent ([`crate::listing`]): in JSON from stored bytes; objects are
//! read, one at a time, for tables, YAML and metadata alone.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use firesteel_store::{Damage, GroupResource, Key, Object, PageRead, Position, Range, ReadError, Revision};
use futures_util::Stream;
use hyper::body::Frame;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::Timing;
use crate::core::{self, Core};
use crate::kind::KindInfo;
use crate::listing::Listing;
use crate::negotiate::{Format, partial};
use crate::query::Query;
use crate::raw;
use crate::selector::Selector;
use crate::status::{Cause, Status};
use crate::table::{self, Include};
use crate::watch::{Start, Watch};

/// Objects read from the store at once: few, so that a list of many is not in memory as a whole. With a
/// selector more, since most of them are not what is looked for.
const PAGE: usize = 128;
const SELECTED_PAGE: usize = 500;
/// As Kubernetes says it: the client may go on with the token that comes along.
const PAGE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

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

    /// The same for objects of another kind.
    pub(crate) fn of_kind(&self, kind: Arc<KindInfo>) -> Self {
        Self {
            kind,
            namespace: self.namespace.clone(),
            selector: Selector::default(),
            include: self.include,
            format: self.format,
        }
    }

    fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(self.namespace.as_str())
    }

    /// Whether an object of which only its key is known may be one that is asked for.
    fn may_be(&self, key: &Key) -> bool {
        self.selector.fields.name().is_none_or(|name| name == key.name)
    }

    /// The refusal of a list in which one of these would be missing, with all that are known.
    fn refusal(&self, core: &Core, mut found: Vec<Damage>) -> Option<Status> {
        let known = core.store().damaged(&self.kind.stored_resource(), self.namespace());
        for damage in known {
            if found.iter().all(|other| other.key != damage.key) {
                found.push(damage);
            }
        }
        found.retain(|damage| self.may_be(&damage.key));
        (!found.is_empty()).then(|| Status::damaged(&found))
    }
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";
/// As Go reads it, which looks at no bit behind the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// Where a list was left, as the client carries it.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    v: String,
    /// -1: at whatever is newest.
    rv: i64,
    start: String,
    /// How many objects there are after it, so that they are counted once for all pages. Who writes
    /// something else here is told something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<u64>,
}

impl Continue {
    fn encode(revision: Option<Revision>, after: &Position, left: Option<u64>) -> String {
        let rv = revision.map_or(-1, |revision| i64::try_from(revision.0).unwrap_or(-1));
        let token = Self { v: TOKEN_VERSION.into(), rv, start: format!("{}/{}", after.namespace, after.name), left };
        BASE64.encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    fn decode(token: &str) -> Result<(Option<Revision>, Position, Option<u64>), Status> {
        let failed = |detail: String| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {detail}"))
        };
        let bytes = BASE64.decode(token).map_err(|error| failed(error.to_string()))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|error| match bytes.first() {
            Some(byte) if byte.is_ascii_alphabetic() => {
                failed(format!("invalid character '{}' looking for beginning of value", char::from(*byte)))
            }
            Some(_) | None => failed(error.to_string()),
        })?;
        if token.v != TOKEN_VERSION {
            return Err(failed(format!("server does not recognize this encoded version {:?}", token.v)));
        }
        let (namespace, name) = token.start.split_once('/').ok_or_else(|| failed("no place in it".into()))?;
        let revision = u64::try_from(token.rv).ok().map(Revision);
        Ok((revision, Position { namespace: namespace.into(), name: name.into() }, token.left))
    }
}

/// Reads any text as a continue token; what can be read is the same when it is written and read again. For
/// fuzzing.
pub fn check_token(text: &str) {
    if let Ok((revision, position, left)) = Continue::decode(text) {
        let again = Continue::decode(&Continue::encode(revision, &position, left)).ok();
        assert_eq!(again, Some((revision, position, left)));
    }
}

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
pub(crate) fn walk_to_delete(core: &Core, query: &Query) -> Result<Walk, Status> {
    let ListStart { asked, at, after, .. } = ListStart::read(query)?;
    let (wanted, current) = (at.or(asked).unwrap_or_default(), core.store().current());
    if wanted > current {
        return Err(Status::version_too_large(wanted.0, current.0));
    }
    Ok(Walk::new(at, after))
}

/// A list, of which the first objects are read.
pub(crate) async fn list(
    core: &Core,
    selection: Selection,
    query: &Query,
    future: Duration,
) -> Result<Listing, Status> {
    let ListStart { asked, at, after, left } = ListStart::read(query)?;
    // The revision of a token too: whoever made it up is told like everybody else.
    wait_for(core, at.or(asked).unwrap_or_default(), future).await?;
    // Before the answer begins: one that is cut says nothing about why.
    if let Some(refusal) = selection.refusal(core, Vec::new()) {
        return Err(refusal);
    }
    // Whoever takes any revision is sent all of it in Kubernetes, which has it in memory.
    let takes_any = asked == Some(Revision(0)) && query.continue_token.is_none();
    let limit = query.limit.filter(|_| !takes_any).unwrap_or(usize::MAX);
    let listing = Listing::start(core, selection, Walk::new(at, after.clone()), limit, left).await;
    listing.map_err(|status| match &after {
        _ if status.code != 410 => status,
        Some(after) => Status::expired(PAGE_EXPIRED).with_continue(Continue::encode(None, after, None)),
        None => Status::expired("The resourceVersion for the provided list is too old."),
    })
}

/// What a list says of itself: its revision, and how to go on where it is not all.
pub(crate) fn metadata(selection: &Selection, walk: &Walk, left: Option<u64>) -> Value {
    let revision = walk.revision().unwrap_or_default();
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if let Some(after) = walk.after.as_ref().filter(|_| !walk.is_over()) {
        metadata["continue"] = json!(Continue::encode(Some(revision), after, left));
        if let Some(left) = left {
            metadata["remainingItemCount"] = json!(left);
        }
    } else if selection.kind.is_custom() && !matches!(selection.format, Format::Table | Format::Partial) {
        // A list of custom resources says that it is complete; Kubernetes' own kinds leave it out.
        metadata["continue"] = json!("");
    }
    metadata
}

pub(crate) fn values(kind: &KindInfo, objects: Vec<Object>) -> Result<Vec<Value>, Status> {
    objects.iter().map(|object| core::decode_shown(kind, &object.key, &object.value, object.revision)).collect()
}

/// A watch's stream of lines. What is wrong with the request is refused; what is wrong with the
/// history is an event.
pub(crate) async fn watch(
    core: &Core,
    selection: Selection,
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
        let mut walk = Walk::new(None, None);
        // Of a crowd of objects a part is in memory at a time, and the rest when the client took it.
        let first = walk.page(core, &selection, usize::MAX).await?;
        Start::Objects(first, walk)
    } else {
        Start::After(if asked == Revision(0) { core.store().current() } else { asked })
    };
    let lasts = query.timeout_seconds.map_or_else(|| some_of(timing.watch), Duration::from_secs).min(timing.watch);
    let bookmarks = query.allow_watch_bookmarks.then_some(timing.bookmarks);
    let ends_initial = query.send_initial_events == Some(true);
    let watch = Watch { core: core.clone(), selection, bookmarks, ends_initial };
    Ok(watch.run(start, lasts).await)
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

/// A way through the objects of a kind, all as of one revision.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    /// `None` before the first page: the newest.
    at: Option<Revision>,
    after: Option<Position>,
    /// There are objects after that place, or it is not known yet.
    more: bool,
}

impl Walk {
    pub(crate) fn new(at: Option<Revision>, after: Option<Position>) -> Self {
        Self { at, after, more: true }
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.more
    }

    pub(crate) fn revision(&self) -> Option<Revision> {
        self.at
    }

    /// The place after which it goes on.
    pub(crate) fn place(&self) -> Option<Position> {
        self.after.clone()
    }

    /// The next objects that match, at most `most`. May be none of many: [`Walk::is_over`] tells.
    pub(crate) async fn page(
        &mut self,
        core: &Core,
        selection: &Selection,
        most: usize,
    ) -> Result<Vec<Object>, Status> {
        let kind = &selection.kind;
        // Without a selector each object read is one found: no more than are missing are read.
        let count = if selection.selector.is_empty() { PAGE.min(most) } else { SELECTED_PAGE };
        let resource = kind.stored_resource();
        let read = core.store().page_with_damaged(self.rest(&resource, selection), count).await;
        let PageRead { page, damaged, last } = read.map_err(core::read_failed)?;
        if damaged.iter().any(|damage| selection.may_be(&damage.key))
            && let Some(refusal) = selection.refusal(core, damaged)
        {
            return Err(refusal);
        }
        self.at = Some(page.revision);
        let mut unread = page.items.len();
        let mut found = Vec::with_capacity(unread.min(most));
        for object in page.items {
            unread -= 1;
            let matches = raw::matches(kind, &selection.selector, &object)?;
            let is_last = matches && found.len() + 1 == most;
            if is_last {
                self.after = Some(object.key.position());
            }
            if matches {
                found.push(object);
            }
            if is_last {
                break;
            }
        }
        if unread == 0 && last.is_some() {
            self.after = last;
        }
        self.more = page.remaining > 0 || unread > 0;
        Ok(found)
    }

    /// How many objects there are after the place where it stands, matching or not.
    pub(crate) async fn count(&self, core: &Core, selection: &Selection) -> Result<u64, Status> {
        let resource = selection.kind.stored_resource();
        core.store().count(self.rest(&resource, selection)).await.map_err(core::read_failed)
    }

    fn rest<'a>(&'a self, kind: &'a GroupResource, selection: &'a Selection) -> Range<'a> {
        Range { kind, namespace: selection.namespace(), at: self.at, after: self.after.as_ref() }
    }
}

async fn wait_for(core: &Core, revision: Revision, future: Duration) -> Result<(), Status> {
    match tokio::time::timeout(future, core.store().reached(revision)).await {
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
            causes.push(Cause::not_supported(MATCH, &json!(matching), &["Exact", "NotOlderThan", ""]));
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
            causes.push(Cause::not_supported(MATCH, &json!(matching), &["NotOlderThan"]));
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

/// Between a half and the whole, so that clients that came together do not come back together.
fn some_of(whole: Duration) -> Duration {
    let [random, ..] = *uuid::Uuid::new_v4().as_bytes();
    let half = whole / 2;
    half + half * u32::from(random) / 256
}
