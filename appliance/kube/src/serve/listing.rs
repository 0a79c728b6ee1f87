//! A list on its way to a client: put together from the bytes of the store, piece by piece, in any form.
//!
//! ```text
//!   a few objects of the store ─► a piece of the answer ([`crate::serve::list_writer`]) ─► the client
//!        └── the next few are read meanwhile
//! ```
//!
//! However many objects there are, a list holds a few of them: a client that takes it slowly, or asks
//! for everything at once, costs no more than another. All of them are as of one revision, and all ages
//! in a table as of one time. What the list says of itself comes after its objects.
//!
//! The first objects are read before the answer begins, so that what is wrong with the request is an
//! answer of its own. When the store fails later the list ends where it is, without its end: no client
//! takes that for a whole one.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use firesteel_store::StoredObject;
use futures_util::{Stream, StreamExt as _};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::codec::body::Body;
use crate::codec::gzip;
use crate::codec::negotiate::ResponseFormat;
use crate::model::status::Status;
use crate::object::core::Core;
use crate::object::heavy_json;
use crate::object::selection::ListSelection;
use crate::serve::respond::respond;
use crate::serve::walk::ListWalk;
use crate::serve::{continue_token, list_writer};

/// Bytes of a piece, as far as objects end there. A list that is smaller is sent as a whole.
pub(crate) const PIECE_BYTES: usize = 128 << 10;

/// What is read while something is sent: the walk behind it, and the objects.
type Ahead = (ListWalk, Result<Vec<StoredObject>, Status>);

/// The rest of a list.
#[derive(Debug)]
pub(crate) struct Listing {
    core: Core,
    selection: Arc<ListSelection>,
    /// The walk, which is behind what is read and not sent yet.
    walk: ListWalk,
    objects: std::vec::IntoIter<StoredObject>,
    /// What comes after the stored ones ([`crate::object::memory_objects`]).
    held: Vec<StoredObject>,
    /// Objects that the client still takes.
    wanted: usize,
    ahead: Option<JoinHandle<Ahead>>,
    /// Objects after the first place, counted while they are sent, and how many of them were read.
    count: Option<JoinHandle<Result<u64, Status>>>,
    read: u64,
    /// How many objects are left, by the client's token.
    counted: Option<u64>,
    now: Timestamp,
    is_begun: bool,
    is_over: bool,
}

impl Listing {
    /// Reads the first objects. `counted` is how many there are after the place of the walk, where
    /// that is known.
    pub(crate) async fn start(
        core: &Core,
        selection: ListSelection,
        mut walk: ListWalk,
        limit: usize,
        counted: Option<u64>,
    ) -> Result<Self, Status> {
        let before = walk.clone();
        let limit = limit.max(1);
        let first = walk.page(core, &selection, limit).await?;
        let mut listing = Self {
            core: core.clone(),
            held: core.held_of(&selection)?,
            selection: Arc::new(selection),
            walk,
            wanted: limit,
            objects: Vec::new().into_iter(),
            ahead: None,
            count: None,
            read: 0,
            counted,
            now: core.now(),
            is_begun: false,
            is_over: false,
        };
        // Only a list with a limit, and without a selector, says how many are left.
        if listing.selection.selector.is_empty() && limit < usize::MAX && counted.is_none() && !listing.walk.is_over() {
            let (core, selection) = (core.clone(), Arc::clone(&listing.selection));
            let from = ListWalk::new(listing.walk.revision(), before.place());
            listing.count = Some(tokio::spawn(async move { from.count(&core, &selection).await }));
        }
        listing.take(first);
        Ok(listing)
    }

    pub(crate) fn format(&self) -> ResponseFormat {
        self.selection.format
    }

    /// The first piece, with which the answer begins.
    pub(crate) async fn first(&mut self) -> Result<Bytes, Status> {
        self.fill().await.map(Bytes::from)
    }

    /// The next piece; `None` after the last.
    async fn piece(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        match self.fill().await {
            Ok(piece) => Some(piece.into()),
            Err(status) => {
                tracing::warn!(error = %status.message, "a list ends in the middle");
                self.is_over = true;
                list_writer::cut(self.format()).map(Bytes::from)
            }
        }
    }

    /// All was given.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The pieces from now on.
    pub(crate) fn pieces(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + use<> {
        futures_util::stream::unfold(self, |mut listing| async {
            let piece = listing.piece().await?;
            Some((Ok(Frame::data(piece)), listing))
        })
    }

    async fn fill(&mut self) -> Result<Vec<u8>, Status> {
        let mut out = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        if !self.is_begun {
            list_writer::begin(&mut out, &self.selection)?;
        }
        loop {
            for object in self.objects.by_ref() {
                let is_first = !std::mem::replace(&mut self.is_begun, true);
                let write = || list_writer::item(&mut out, &self.selection, self.now, &object, is_first);
                heavy_json::CLIENTS.run(object.value.len(), write).await?;
                if out.len() >= PIECE_BYTES {
                    return Ok(out);
                }
            }
            if !self.read_on().await? {
                break;
            }
        }
        let rest = if self.walk.is_over() { std::mem::take(&mut self.held) } else { Vec::new() };
        for object in rest {
            let is_first = !std::mem::replace(&mut self.is_begun, true);
            list_writer::item(&mut out, &self.selection, self.now, &object, is_first)?;
        }
        let metadata = self.metadata().await;
        list_writer::end(&mut out, &self.selection, &metadata, self.is_begun)?;
        self.is_over = true;
        Ok(out)
    }

    /// Goes on to the next objects; false if there are none that the client takes.
    async fn read_on(&mut self) -> Result<bool, Status> {
        let Some(ahead) = self.ahead.take() else { return Ok(false) };
        let (walk, objects) = ahead.await.map_err(|error| Status::internal(format!("reading ahead: {error}")))?;
        self.walk = walk;
        self.take(objects?);
        Ok(true)
    }

    /// Takes what was read, and begins to read what is after it.
    fn take(&mut self, objects: Vec<StoredObject>) {
        self.wanted -= objects.len();
        self.read += objects.len() as u64;
        self.objects = objects.into_iter();
        if self.walk.is_over() || self.wanted == 0 {
            return;
        }
        let (mut walk, wanted) = (self.walk.clone(), self.wanted);
        let (core, selection) = (self.core.clone(), Arc::clone(&self.selection));
        self.ahead = Some(tokio::spawn(async move {
            let objects = walk.page(&core, &selection, wanted).await;
            (walk, objects)
        }));
    }

    async fn metadata(&mut self) -> Value {
        let counted = match self.count.take() {
            // A list whose objects cannot be counted is a list all the same.
            Some(count) => count.await.ok().and_then(Result::ok),
            None => self.counted.filter(|_| self.selection.selector.is_empty()),
        };
        continue_token::metadata(&self.selection, &self.walk, counted.map(|all| all.saturating_sub(self.read)))
    }
}

/// A list that is not small is put together while it is sent.
pub(crate) async fn send(mut listing: Listing) -> Result<Response<Body>, Status> {
    let first = listing.first().await?;
    let media_type = listing.format().media_type();
    if listing.is_over() {
        return Ok(respond(StatusCode::OK, media_type, Full::new(first).boxed_unsync()));
    }
    let pieces = futures_util::stream::iter([Ok(Frame::data(first))]).chain(listing.pieces());
    let mut response = respond(StatusCode::OK, media_type, StreamBody::new(pieces).boxed_unsync());
    response.extensions_mut().insert(gzip::UnknownLength);
    Ok(response)
}
