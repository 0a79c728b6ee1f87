//! The door: every request passes it, and every answer without end (a watch, a log that is followed) goes
//! on only for as long as its reader may read it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Body as _, Frame};
use jiff::Timestamp;
use serde_json::json;
use tokio::{sync::watch, time::Sleep};

use crate::model::access::{self, AccessRequest, Authorizer, Caller, OnObjects};
use crate::model::query::Query;
use crate::model::route::{ObjectRoute, Verb};
use crate::model::status::Status;
use crate::serve::impersonate;
use crate::serve::limits::{CallerLimits, CallerPermit, PermitKind};

/// Kubernetes' verb for deleting what cannot be read.
const UNREAD: &str = "unsafe-delete-ignore-read-errors";

/// Who decides, and who has how much. Clones share both.
#[derive(Clone, Debug)]
pub(crate) struct AccessGuard {
    pub(crate) authorizer: Arc<dyn Authorizer>,
    limits: Arc<CallerLimits>,
}

impl AccessGuard {
    pub(crate) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, limits: Arc::default() }
    }

    pub(crate) fn under_way(&self) -> (u64, u64) {
        self.limits.under_way()
    }

    pub(crate) fn enter(&self, caller: &Caller, is_watch: bool) -> Result<CallerPermit, Status> {
        self.limits.enter(&caller.name, if is_watch { PermitKind::Watch } else { PermitKind::Request })
    }

    fn check(&self, caller: &Caller, asked: AccessRequest<'_>) -> Result<(), Status> {
        let decision = self.authorizer.decide(caller, asked);
        if decision.allowed { Ok(()) } else { Err(access::refusal(caller, asked, &decision.reason)) }
    }

    fn check_route(&self, caller: &Caller, route: &ObjectRoute, query: &Query) -> Result<(), Status> {
        self.check(caller, AccessRequest::Objects(OnObjects::of(route, query)))
    }

    /// The refusal of making the object of the route, if it were made; an apply may make it.
    pub(crate) fn refusal_to_create(&self, caller: &Caller, route: &ObjectRoute, query: &Query) -> Option<Status> {
        let asked = OnObjects { verb: Verb::Create.word(), ..OnObjects::of(route, query) };
        self.check(caller, AccessRequest::Objects(asked)).err()
    }

    /// The refusal of deleting the object of the route unread, which takes a right of its own beside the one to delete.
    pub(crate) fn refusal_of_unread(&self, caller: &Caller, route: &ObjectRoute, query: &Query) -> Option<Status> {
        let asked = OnObjects { verb: UNREAD, ..OnObjects::of(route, query) };
        self.check(caller, AccessRequest::Objects(asked)).err()
    }

    /// Makes a pass for a caller, who may ask as another. Nothing is checked yet.
    pub(crate) fn pass(
        &self,
        place: CallerPermit,
        proven: &Caller,
        other: Option<&Caller>,
        wanted: ApiRequestSubject,
    ) -> AccessPass {
        let (proven, other, guard) = (proven.clone(), other.cloned(), self.clone());
        let (changes, seen) = (self.authorizer.changes(), AtomicU64::new(NEVER));
        AccessPass { guard, proven, other, wanted, changes, seen, _place: place }
    }
}

/// What an answer is about.
#[derive(Clone, Debug)]
pub(crate) enum ApiRequestSubject {
    Objects(Box<(ObjectRoute, Query)>),
    Path { verb: String, path: String },
}

impl ApiRequestSubject {
    fn check(&self, guard: &AccessGuard, caller: &Caller) -> Result<(), Status> {
        match self {
            Self::Objects(asked) => guard.check_route(caller, &asked.0, &asked.1),
            Self::Path { verb, path } => guard.check(caller, AccessRequest::Path { verb, path }),
        }
    }

    fn is_watch(&self) -> bool {
        matches!(self, Self::Objects(asked) if asked.0.verb == Verb::Watch)
    }
}

/// No generation: it was not looked at.
const NEVER: u64 = u64::MAX;

/// Lets a request through, and its answer to its caller for as long as the caller may have it.
#[derive(Debug)]
pub struct AccessPass {
    guard: AccessGuard,
    proven: Caller,
    /// The user whom the caller impersonates, if any.
    other: Option<Caller>,
    wanted: ApiRequestSubject,
    changes: watch::Receiver<u64>,
    /// The generation of rights in which it was last allowed.
    seen: AtomicU64,
    _place: CallerPermit,
}

impl AccessPass {
    /// The answer, which keeps its caller's place while it is sent. One that has no end yet is ended when its
    /// caller may not read it any more.
    pub fn keep<E: Send + 'static>(self, body: UnsyncBoxBody<Bytes, E>) -> UnsyncBoxBody<Bytes, E> {
        if body.size_hint().exact().is_some() {
            return body;
        }
        let end = self.proven.until.map(|until| Box::pin(tokio::time::sleep(remaining_time(until))));
        let kept = GuardedResponse { body, pass: self };
        let frames = futures_util::stream::unfold(Some((kept, end)), |state| async {
            let (mut kept, mut end) = state?;
            let (frame, goes_on) = kept.next(end.as_mut().map(Pin::as_mut)).await?;
            Some((frame, goes_on.then_some((kept, end))))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    /// Whether the caller is still authenticated and allowed. Decided again only when rights have changed.
    pub(crate) fn check(&self) -> Result<(), Status> {
        let authorizer = &self.guard.authorizer;
        // Before the decision, which may be of a later one; never after it.
        let generation = authorizer.generation();
        if generation == self.seen.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !authorizer.is_valid(&self.proven) {
            return Err(Status::unauthorized());
        }
        if let Some(other) = &self.other {
            impersonate::check(authorizer.as_ref(), &self.proven, other)?;
        }
        self.wanted.check(&self.guard, self.other.as_ref().unwrap_or(&self.proven))?;
        self.seen.store(generation, Ordering::Relaxed);
        Ok(())
    }
}

fn remaining_time(until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default()
}

/// An answer on its way.
struct GuardedResponse<E> {
    body: UnsyncBoxBody<Bytes, E>,
    pass: AccessPass,
}

/// A frame, and whether there may be more.
type Next<E> = Option<(Result<Frame<Bytes>, E>, bool)>;

impl<E: Send> GuardedResponse<E> {
    async fn next(&mut self, mut end: Option<Pin<&mut Sleep>>) -> Next<E> {
        loop {
            if let Err(status) = self.pass.check() {
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
                Ok(()) = self.pass.changes.changed() => {}
                () = over => return self.last(&Status::unauthorized()),
                frame = self.body.frame() => {
                    let frame = frame?;
                    // What happened after a right was taken away is not sent, however close it was.
                    return match self.pass.check() {
                        Ok(()) => Some((frame, true)),
                        Err(status) => self.last(&status),
                    };
                }
            }
        }
    }

    /// A watch says why it ends; other answers just end.
    fn last(&self, status: &Status) -> Next<E> {
        self.pass.wanted.is_watch().then(|| {
            let line = json!({ "type": "ERROR", "object": status.to_value() });
            (Ok(Frame::data(Bytes::from(format!("{line}\n")))), false)
        })
    }
}
