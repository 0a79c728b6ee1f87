//! Requests to one BMC: in the turn that its [`BmcLine`] gives, bounded in size and time, to its own origin only.
//!
//! A redirect is followed on the same origin only, a few times; anywhere else it would hand the login to the place
//! that the answer names. A change that is redirected was not made, so it is sent again as it was.

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use firesteel_dial::{DialError, Dialer, ExchangeError, HttpConnection, Incoming, with_tls};
use firesteel_facts::bmc_address::{BmcUrl, REDFISH, is_plain};
use firesteel_facts::shown_url;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderValue, IF_MATCH, LOCATION, USER_AGENT,
};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use url::{Position, Url};

use crate::bmc_queue::{BmcLine, BmcQueue};
use crate::body::{self, BODY_BYTES_MAX, BodyError};
use crate::error::{Error, innermost, plain_text};
use crate::response::BmcResponse;
use crate::secret_mask::SecretMask;
use crate::tls::{self, Tls};

/// A BMC on the same site answers SYN at once, or is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most redirects in a row: `/redfish/v1` to `/redfish/v1/` is one, another path of the resource one more; beyond these
/// it is a loop.
const REDIRECTS_MAX: u32 = 4;
/// An idle connection is used again within this time: common services end theirs soon after.
const KEPT_MAX: Duration = Duration::from_secs(30);

/// The proof of identity that goes with a request.
#[derive(Clone)]
pub(crate) enum Proof {
    None,
    Basic(HeaderValue),
    Session(HeaderValue),
}

pub(crate) struct BmcConnection {
    origin: Url,
    /// What stands before `/redfish`.
    prefix: String,
    dialer: Dialer,
    tls: Arc<ClientConfig>,
    /// The connection that is open from the last request, and since when it is idle.
    kept: Mutex<Option<(HttpConnection, Instant)>>,
    /// Certificates are not verified.
    is_unverified: bool,
    hidden: SecretMask,
    line: BmcLine,
    /// Time from the begin of a request to the end of its answer.
    within: Duration,
}

/// Why there is no answer.
enum BmcRequestError {
    Exchange(ExchangeError),
    /// It broke while its body came.
    Body(ExchangeError),
    Answer(Error),
}

impl From<ExchangeError> for BmcRequestError {
    fn from(error: ExchangeError) -> Self {
        Self::Exchange(error)
    }
}

/// A request, which is built again for each connection that it is tried on.
struct Outgoing<'a> {
    method: Method,
    url: Url,
    proof: &'a Proof,
    if_match: Option<&'a str>,
    body: Option<Bytes>,
}

impl BmcConnection {
    pub(crate) fn new(
        address: &BmcUrl,
        dialer: &Dialer,
        tls: &Tls,
        hidden: SecretMask,
        line: BmcLine,
        within: Duration,
    ) -> Result<Self, Error> {
        Ok(Self {
            origin: address.origin().clone(),
            prefix: address.prefix().to_owned(),
            dialer: dialer.clone(),
            tls: Arc::new(tls::client_config(tls)?),
            kept: Mutex::default(),
            is_unverified: tls.is_verification_disabled,
            hidden,
            line,
            within,
        })
    }

    /// What is known of this BMC beyond one login.
    pub(crate) fn line(&self) -> &BmcQueue {
        self.line.queue()
    }

    /// This caller's place among those that talk with the BMC.
    pub(crate) fn caller_line(&self) -> &BmcLine {
        &self.line
    }

    pub(crate) async fn get(&self, path: &str, proof: &Proof) -> Result<BmcResponse, Error> {
        self.ask(Method::GET, path, proof, None, None).await
    }

    /// POST or PATCH. Never repeated but where it was redirected.
    pub(crate) async fn change(
        &self,
        method: Method,
        path: &str,
        proof: &Proof,
        body: &Value,
        if_match: Option<&str>,
    ) -> Result<BmcResponse, Error> {
        self.ask(method, path, proof, Some(body), if_match).await
    }

    pub(crate) async fn delete(&self, path: &str, proof: &Proof) -> Result<BmcResponse, Error> {
        self.ask(Method::DELETE, path, proof, None, None).await
    }

    /// A request and its redirects.
    async fn ask(
        &self,
        mut method: Method,
        path: &str,
        proof: &Proof,
        mut body: Option<&Value>,
        mut if_match: Option<&str>,
    ) -> Result<BmcResponse, Error> {
        let what = format!("{method} {path}");
        let elsewhere = || Error::Redirected { what: what.clone(), to: plain_text(path) };
        let mut place = self.own(path).ok_or_else(elsewhere)?;
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.send(method.clone(), &place, proof, body, if_match).await?;
            if !answer.status.is_redirection() {
                return Ok(answer);
            }
            place = self.own_location(&answer, &what, &place)?;
            // "See other" (RFC 9110, section 15.4.4) is where the outcome of what was done is shown.
            if answer.status == StatusCode::SEE_OTHER {
                (method, body, if_match) = (Method::GET, None, None);
            }
        }
        Err(Error::BadAnswer {
            what,
            detail: format!("it redirects more than {REDIRECTS_MAX} times, perhaps in a circle"),
        })
    }

    async fn send(
        &self,
        method: Method,
        place: &str,
        proof: &Proof,
        body: Option<&Value>,
        if_match: Option<&str>,
    ) -> Result<BmcResponse, Error> {
        let what = format!("{method} {place}");
        let mut url = self.origin.clone();
        let (path, query) = place.split_once('?').map_or((place, None), |(path, query)| (path, Some(query)));
        url.set_path(path);
        url.set_query(query);
        let body = body.map(|body| Bytes::from(body.to_string()));
        let outgoing = Outgoing { method, url, proof, if_match, body };
        // The end of a session gives way to no other caller: it makes room for one.
        let turn = if outgoing.method == Method::DELETE {
            self.line.queue().acquire_request().await?
        } else {
            self.line.acquire_request().await?
        };
        let hidden = match proof {
            Proof::Session(token) => self.hidden.clone().with_text(token.to_str().unwrap_or_default()),
            Proof::None | Proof::Basic(_) => self.hidden.clone(),
        };
        let result = match timeout(self.within, self.perform(&outgoing, &what, hidden)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(broken)) => Err(self.broken_answer_error(broken, &what).await),
            Err(_) => Err(Error::Timeout { what: format!("{what} within {} s", self.within.as_secs_f32()) }),
        };
        drop(turn);
        match &result {
            Ok(answer) => tracing::debug!(bmc = %self.origin, what, status = answer.status.as_u16(), "asked BMC"),
            Err(error) => tracing::debug!(bmc = %self.origin, what, %error, "asked BMC"),
        }
        result
    }

    /// The path of a resource of this service. Links may name it with the prefix of the service, or without.
    fn own(&self, path: &str) -> Option<String> {
        let is_below = |path: &str, with: &str| path.strip_prefix(with).is_some_and(|rest| rest.starts_with('/'));
        let inner = path.strip_prefix(&self.prefix).filter(|inner| is_below(inner, REDFISH));
        inner
            .or_else(|| Some(path).filter(|path| is_below(path, REDFISH)))
            .map(|inner| format!("{}{inner}", self.prefix))
    }

    /// The place that a redirect leads to, if it stays on this service.
    fn own_location(&self, answer: &BmcResponse, what: &str, place: &str) -> Result<String, Error> {
        let location = answer.header(&LOCATION).unwrap_or_default();
        let here = self.origin.join(place).ok();
        let target = here.filter(|_| !location.is_empty()).and_then(|here| here.join(location).ok());
        let target = target.filter(|url| url.origin() == self.origin.origin() && is_plain(url.path()));
        let own = target.and_then(|url| {
            let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
            let is_here = url.path().strip_prefix(&self.prefix).is_some_and(|rest| rest.starts_with('/'));
            let place = if is_here { Some(url.path().to_owned()) } else { self.own(url.path()) };
            place.map(|place| place + &query)
        });
        let to = if location.is_empty() { "nowhere" } else { location };
        own.ok_or_else(|| Error::Redirected { what: what.to_owned(), to: answer.mask_secrets(&shown_url(to)) })
    }

    async fn perform(
        &self,
        outgoing: &Outgoing<'_>,
        what: &str,
        hidden: SecretMask,
    ) -> Result<BmcResponse, BmcRequestError> {
        let bad = |error: BodyError| {
            BmcRequestError::Answer(Error::BadAnswer { what: what.to_owned(), detail: error.to_string() })
        };
        let (connection, response) = self.exchange(outgoing).await?;
        let (parts, incoming) = response.into_parts();
        let body = read(incoming).await?.ok_or_else(|| bad(BodyError::TooLong))?;
        self.keep(connection);
        let encoding = parts.headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("(not a text)"));
        let body = body::decoded(encoding, body).map_err(bad)?;
        Ok(BmcResponse { status: parts.status, headers: parts.headers, body, hidden })
    }

    /// Sends a request on the connection that is open, or on a new one where it turns out to be closed.
    async fn exchange(
        &self,
        outgoing: &Outgoing<'_>,
    ) -> Result<(HttpConnection, http::Response<Incoming>), BmcRequestError> {
        if let Some(mut connection) = self.take_kept() {
            match connection.send(outgoing.request()?, BODY_BYTES_MAX as u64).await {
                Ok(response) => return Ok((connection, response)),
                Err(ExchangeError::Unsent) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut connection = self.connect().await?;
        let response = connection.send(outgoing.request()?, BODY_BYTES_MAX as u64).await?;
        Ok((connection, response))
    }

    async fn connect(&self) -> Result<HttpConnection, ExchangeError> {
        let host = self.origin.host_str().unwrap_or_default();
        let port = self.origin.port_or_known_default().unwrap_or_default();
        let stream = self.dialer.connect(host, port, CONNECT_TIMEOUT).await?;
        let allowance = stream.allowance();
        if self.origin.scheme() != "https" {
            return HttpConnection::over(stream, allowance).await;
        }
        let stream = with_tls(stream, host, Arc::clone(&self.tls), CONNECT_TIMEOUT).await?;
        HttpConnection::over(stream, allowance).await
    }

    fn take_kept(&self) -> Option<HttpConnection> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let usable = kept.filter(|(connection, since)| connection.is_open() && since.elapsed() < KEPT_MAX);
        usable.map(|(connection, _)| connection)
    }

    fn keep(&self, connection: HttpConnection) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((connection, Instant::now()));
    }

    async fn broken_answer_error(&self, broken: BmcRequestError, what: &str) -> Error {
        let bad = |error: &ExchangeError| Error::BadAnswer { what: what.to_owned(), detail: innermost(error) };
        match broken {
            BmcRequestError::Answer(error) => error,
            BmcRequestError::Body(error) => bad(&error),
            BmcRequestError::Exchange(error @ ExchangeError::Excess(_)) => bad(&error),
            BmcRequestError::Exchange(error) => self.unreachable(&error).await,
        }
    }

    /// Why there is not even a connection, or none that holds.
    async fn unreachable(&self, error: &ExchangeError) -> Error {
        if let ExchangeError::Dial(DialError::Refused(refused)) = error {
            return Error::TargetRefused { detail: refused.to_string() };
        }
        if let Some(tls) = find_tls_error(error) {
            return tls::refusal(tls, &self.dialer, &self.origin, self.is_unverified).await;
        }
        let detail = innermost(error);
        // Some end the connection without an alert where they find nothing in common.
        if matches!(error, ExchangeError::Dial(DialError::Tls { .. })) && is_broken_off(error) {
            return tls::broken_off(&self.dialer, &self.origin).await.unwrap_or(Error::Unreachable { detail });
        }
        Error::Unreachable { detail }
    }
}

impl Outgoing<'_> {
    fn request(&self) -> Result<Request<Full<Bytes>>, BmcRequestError> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.url[Position::BeforePath..Position::AfterQuery])
            .header(HOST, &self.url[Position::BeforeHost..Position::AfterPort])
            .header(ACCEPT, "*/*")
            .header(USER_AGENT, concat!("firesteel/", env!("CARGO_PKG_VERSION")));
        request = match self.proof {
            Proof::None => request,
            Proof::Basic(value) => request.header(AUTHORIZATION, value.clone()),
            Proof::Session(value) => request.header("X-Auth-Token", value.clone()),
        };
        if let Some(value) = self.if_match {
            request = request.header(IF_MATCH, value);
        }
        if self.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let made = request.body(Full::new(self.body.clone().unwrap_or_default()));
        // A path that is plain, and an ETag that came as a header: what is left is a fault of this program.
        made.map_err(|error| {
            let what = format!("{} {}", self.method, self.url.path());
            BmcRequestError::Answer(Error::BadAnswer {
                what,
                detail: format!("no request can be made of it ({error})"),
            })
        })
    }
}

/// A whole body; `None` where it is longer than any may be.
async fn read(mut incoming: Incoming) -> Result<Option<Vec<u8>>, BmcRequestError> {
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| BmcRequestError::Body(ExchangeError::of(error)))?;
        let Some(bytes) = frame.data_ref() else { continue };
        if body.len() + bytes.len() > BODY_BYTES_MAX {
            return Ok(None);
        }
        body.extend_from_slice(bytes);
    }
    Ok(Some(body))
}

/// Whether the peer ended the connection while it was made.
fn is_broken_off(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if matches!(kind, Some(ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn find_tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(tls);
        }
        // An io::Error shows what it carries by get_ref only; source() skips it.
        if let Some(inner) = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref)
            && let Some(tls) = find_tls_error(inner)
        {
            return Some(tls);
        }
        cause = error.source();
    }
    None
}
