//! A Redfish service with a memory, for tests of whatever drives one.
//!
//! [`Fake`] answers requests from a [`FakeBmcState`] that tests read and change while it runs: power, boot
//! override, logins, and [`RedfishFault`]s as real services have them. The logic is pure
//! ([`Fake::answer`]); [`Fake::serve`] puts it behind a listener, which also does what needs a connection: answers
//! that never come, never end, or end too early. It looks like a small DMTF-conformant service with one system.
//!
//! ```text
//! mod        the handle, and connections                     (performs)
//! state      what there is, and what a request does to it        (pure)
//! resources  the JSON of each resource                           (pure)
//! sensors    a chassis with temperatures, fans, power and drives (pure)
//! quirks     what is odd about a service, as data                (pure)
//! ```

mod quirks;
mod resources;
mod sensors;
mod state;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use firesteel_bmc::BmcCredentials;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::time::{Sleep, sleep};

pub use quirks::{FakeQuirks, FakeRefusal, Redirect, SessionLocation};
pub use sensors::{FakeSensors, NO_ANSWER, SensorForm};
pub use state::FakeBmcState;

/// How a service may misbehave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedfishFault {
    /// Every request gets this status.
    Status(u16),
    /// Every request is sent elsewhere.
    Redirect(String),
    /// Answers that are no JSON.
    Garbage,
    /// Answers that are JSON in a thousand brackets.
    Deep,
    /// Answers that are larger than anybody may want.
    Endless,
    /// Answers whose bytes come one by one and never stop.
    Trickles,
    /// Takes requests and never answers.
    Silent,
    /// Answers that end before the length that they announced.
    EndsEarly,
    /// Takes power actions and does nothing.
    IgnoresPower,
    /// Takes power actions, and shows them after so many looks at the system.
    PowerLater(u32),
    /// Takes boot overrides and forgets them.
    ForgetsBoot,
    /// Takes boot overrides, and shows them after so many looks at the system.
    BootLater(u32),
    /// "Once" becomes "Continuous", and stays.
    SaysContinuous,
    /// Refuses Basic authentication; sessions only.
    SessionsOnly,
    /// There is no session service.
    NoSessions,
    /// The wish for a session gets this status, with this message identifier.
    SessionRefused(u16, String),
    /// Refuses a PATCH whose If-Match is not this service's idea of the resource.
    PickyEtag,
    /// Refuses a PATCH without If-Match.
    WantsEtag,
    /// Gives a weak ETag and takes the strong form of it only.
    WeakEtag,
    /// Takes a change of the mode and shows the old one.
    ModeByJob,
    /// Refuses an override without the mode.
    WantsMode,
    /// Refuses to change the boot but at the resource of the settings.
    BootInSettings,
    /// Refuses `None` as target of an override.
    RefusesNone,
    /// Points its reset action at another server.
    ForeignReset(String),
    /// Says what reset types it takes in another resource.
    ResetsElsewhere,
}

/// A request as far as the service looks at it.
#[derive(Clone, Debug, Default)]
pub struct FakeRequest {
    pub method: String,
    pub path: String,
    pub query: String,
    pub authorization: Option<String>,
    pub session: Option<String>,
    pub if_match: Option<String>,
    pub body: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeResponse {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

/// A handle; clones share one state.
#[derive(Clone, Debug)]
pub struct Fake(Arc<Mutex<FakeBmcState>>);

const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Time after which an answer that breaks off is on its way.
const FLUSHED: Duration = Duration::from_millis(100);
/// Pause between two bytes of an answer that trickles.
const TRICKLE: Duration = Duration::from_millis(5);

impl Fake {
    /// A system that is off, with one MAC.
    #[must_use]
    pub fn new(credentials: BmcCredentials, mac: [u8; 6]) -> Self {
        Self(Arc::new(Mutex::new(FakeBmcState::new(credentials, mac))))
    }

    /// The state, locked: do not hold it across a request.
    pub fn state(&self) -> MutexGuard<'_, FakeBmcState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub fn answer(&self, request: &FakeRequest) -> FakeResponse {
        self.state().answer(request)
    }

    /// Answers on `listener` until the task is dropped.
    pub async fn serve(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(self.clone().converse(stream));
        }
    }

    /// One connection: plain, or what a TLS handshake has made of it.
    pub async fn converse<S>(self, stream: S)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(move |request| {
            let fake = self.clone();
            async move { Ok::<_, Infallible>(fake.respond(request).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection to the fake BMC");
        }
    }

    async fn respond(&self, request: hyper::Request<Incoming>) -> hyper::Response<FakeResponseBody> {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut plain = FakeRequest {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            authorization: header("authorization"),
            session: header("x-auth-token"),
            if_match: header("if-match"),
            body: Bytes::new(),
        };
        plain.body = match Limited::new(request.into_body(), REQUEST_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => Bytes::new(),
        };
        let answer = self.answer(&plain);
        let faults = self.state().faults.clone();
        let body = if faults.contains(&RedfishFault::Silent) || answer.status == NO_ANSWER {
            return std::future::pending().await;
        } else if faults.contains(&RedfishFault::Trickles) {
            FakeResponseBody::Trickle(Box::pin(sleep(TRICKLE)))
        } else if faults.contains(&RedfishFault::EndsEarly) {
            FakeResponseBody::Broken(Some(answer.body), Box::pin(sleep(FLUSHED)))
        } else {
            FakeResponseBody::Whole(Some(answer.body))
        };
        let mut response = hyper::Response::new(body);
        *response.status_mut() = hyper::StatusCode::from_u16(answer.status).unwrap_or_default();
        for (name, value) in answer.headers {
            if let Ok(value) = value.parse() {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// The body of an answer.
enum FakeResponseBody {
    Whole(Option<Bytes>),
    /// Then, when that is on its way, the connection breaks.
    Broken(Option<Bytes>, Pin<Box<Sleep>>),
    Trickle(Pin<Box<Sleep>>),
}

impl Body for FakeResponseBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match &mut *self {
            Self::Whole(body) => {
                Poll::Ready(body.take().filter(|body| !body.is_empty()).map(|body| Ok(Frame::data(body))))
            }
            Self::Broken(body, pause) => match body.take().filter(|body| !body.is_empty()) {
                Some(body) => Poll::Ready(Some(Ok(Frame::data(body)))),
                None => {
                    ready!(pause.as_mut().poll(context));
                    Poll::Ready(Some(Err(std::io::Error::other("as the test wants it"))))
                }
            },
            Self::Trickle(pause) => {
                ready!(pause.as_mut().poll(context));
                *pause = Box::pin(sleep(TRICKLE));
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b" ")))))
            }
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(body) => hyper::body::SizeHint::with_exact(body.as_ref().map_or(0, Bytes::len) as u64),
            Self::Broken(..) | Self::Trickle(_) => hyper::body::SizeHint::default(),
        }
    }
}
