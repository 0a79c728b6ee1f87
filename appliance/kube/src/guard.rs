//! The door: every request passes it, and every answer without end (a watch, a log that is followed) goes
//! on only for as long as its reader may read it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Body as _, Frame};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Sleep;

use crate::access::{self, Asked, Authorizer, Caller, OnObjects};
use crate::api::Body;
use crate::limits::{Limits, Place, Use};
use crate::query::Query;
use crate::route::{ObjectRoute, Verb};
use crate::status::Status;

/// Who decides, and who has how much. Clones share both.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) authorizer: Arc<dyn Authorizer>,
    limits: Arc<Limits>,
}

impl Guard {
    pub(crate) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, limits: Arc::default() }
    }

    pub(crate) fn enter(&self, caller: &Caller, is_watch: bool) -> Result<Place, Status> {
        self.limits.enter(&caller.name, if is_watch { Use::Watch } else { Use::Request })
    }

    pub(crate) fn check(&self, caller: &Caller, asked: Asked<'_>) -> Result<(), Status> {
        let decision = self.authorizer.decide(caller, asked);
        if decision.allowed { Ok(()) } else { Err(access::refusal(caller, asked, &decision.reason)) }
    }

    /// Whether the caller may do what the route says.
    pub(crate) fn check_route(&self, caller: &Caller, route: &ObjectRoute, query: &Query) -> Result<(), Status> {
        self.check(caller, Asked::Objects(OnObjects::of(route, query)))
    }

    /// The refusal of making the object of the route, if it were made; an apply may make it.
    pub(crate) fn refusal_to_create(&self, caller: &Caller, route: &ObjectRoute, query: &Query) -> Option<Status> {
        let asked = OnObjects { verb: Verb::Create.word(), ..OnObjects::of(route, query) };
        self.check(caller, Asked::Objects(asked)).err()
    }

    /// An answer, which keeps its caller's place for as long as it is sent. One that has no end yet is
    /// ended when its caller may not read it any more.
    pub(crate) fn keep(&self, body: Body, place: Place, caller: &Caller, asked: &(ObjectRoute, Query)) -> Body {
        if body.size_hint().exact().is_some() {
            return body;
        }
        let (route, query) = asked.clone();
        let (changes, seen) = (self.authorizer.changes(), self.authorizer.generation());
        let kept =
            Kept { body, guard: self.clone(), caller: caller.clone(), route, query, changes, seen, _place: place };
        let end = caller.until.map(|until| Box::pin(tokio::time::sleep(left(until))));
        let frames = futures_util::stream::unfold(Some((kept, end)), |state| async {
            let (mut kept, mut end) = state?;
            let (frame, goes_on) = kept.next(end.as_mut().map(Pin::as_mut)).await?;
            Some((Ok::<_, Infallible>(frame), goes_on.then_some((kept, end))))
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

fn left(until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default()
}

/// An answer on its way.
struct Kept {
    body: Body,
    guard: Guard,
    caller: Caller,
    route: ObjectRoute,
    query: Query,
    changes: watch::Receiver<u64>,
    /// The generation of rights in which the answer was last allowed.
    seen: u64,
    _place: Place,
}

impl Kept {
    /// The next frame, and whether there may be more.
    async fn next(&mut self, mut end: Option<Pin<&mut Sleep>>) -> Option<(Frame<Bytes>, bool)> {
        loop {
            if let Err(status) = self.check() {
                return self.last(&status);
            }
            let over = async {
                match &mut end {
                    Some(end) => end.as_mut().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // An authorizer that is gone changes nothing any more.
                Ok(()) = self.changes.changed() => {}
                () = over => return self.last(&Status::unauthorized()),
                frame = self.body.frame() => {
                    let Ok(frame) = frame?;
                    // What happened after a right was taken away is not told, however close it was.
                    return match self.check() {
                        Ok(()) => Some((frame, true)),
                        Err(status) => self.last(&status),
                    };
                }
            }
        }
    }

    /// Whether the caller still may, asked anew only when rights have changed.
    fn check(&mut self) -> Result<(), Status> {
        let generation = self.guard.authorizer.generation();
        if generation == self.seen {
            return Ok(());
        }
        if !self.guard.authorizer.is_valid(&self.caller) {
            return Err(Status::unauthorized());
        }
        self.guard.check_route(&self.caller, &self.route, &self.query)?;
        self.seen = generation;
        Ok(())
    }

    /// A watch says why it ends; other answers just end.
    fn last(&self, status: &Status) -> Option<(Frame<Bytes>, bool)> {
        (self.route.verb == Verb::Watch).then(|| {
            let line = json!({ "type": "ERROR", "object": status.to_value() });
            (Frame::data(Bytes::from(format!("{line}\n"))), false)
        })
    }
}
