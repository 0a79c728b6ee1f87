//! Requests to one BMC: in the turn that its [`Line`] gives, bounded in size and time, to its own origin only.
//!
//! A redirect is followed on the same origin only, a few times; anywhere else it would hand the login to the place
//! that the answer names. A change that is redirected was not made, so it is sent again as it was.

use std::error::Error as _;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH, LOCATION,
};
use reqwest::{Method, StatusCode, Url, redirect};
use serde_json::Value;

use crate::address::{Address, REDFISH, is_plain};
use crate::body::{self, BODY_BYTES_MAX};
use crate::error::{Error, plain_text};
use crate::hidden::Hidden;
use crate::limit::Line;
use crate::model::{error_text, has_message_id};
use crate::tls::{self, Tls};

/// A BMC on the same site answers SYN at once, or is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// From `/redfish/v1` to `/redfish/v1/` is one, to another path of the same resource one more; beyond these it is a loop.
const REDIRECTS_MAX: u32 = 4;

/// What proves who asks.
#[derive(Clone)]
pub(crate) enum Proof {
    None,
    Basic(HeaderValue),
    Session(HeaderValue),
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    hidden: Hidden,
}

pub(crate) struct Connection {
    origin: Url,
    /// What stands before `/redfish`.
    prefix: String,
    client: reqwest::Client,
    /// Certificates are not verified.
    is_unverified: bool,
    hidden: Hidden,
    line: Arc<Line>,
    /// From the request's begin to the end of its answer.
    within: Duration,
}

/// Why there is no answer.
enum Broken {
    Transport(reqwest::Error),
    Answer(Error),
}

impl Connection {
    pub(crate) fn new(
        address: &Address,
        tls: &Tls,
        hidden: Hidden,
        line: Arc<Line>,
        within: Duration,
    ) -> Result<Self, Error> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::client_config(tls)?)
            .redirect(redirect::Policy::none())
            // The environment's proxy has no business between appliance and BMC.
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(within)
            .pool_max_idle_per_host(1)
            .user_agent(concat!("firesteel/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::Unreachable { detail: chain(&error) })?;
        let (origin, prefix) = (address.origin().clone(), address.prefix().to_owned());
        Ok(Self { origin, prefix, client, is_unverified: tls.is_verification_disabled, hidden, line, within })
    }

    /// What is known of this BMC beyond one login.
    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    pub(crate) async fn get(&self, path: &str, proof: &Proof) -> Result<Answer, Error> {
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
    ) -> Result<Answer, Error> {
        self.ask(method, path, proof, Some(body), if_match).await
    }

    pub(crate) async fn delete(&self, path: &str, proof: &Proof) -> Result<Answer, Error> {
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
    ) -> Result<Answer, Error> {
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
    ) -> Result<Answer, Error> {
        let what = format!("{method} {place}");
        let mut url = self.origin.clone();
        let (path, query) = place.split_once('?').map_or((place, None), |(path, query)| (path, Some(query)));
        url.set_path(path);
        url.set_query(query);
        let mut request = self.client.request(method, url);
        request = match proof {
            Proof::None => request,
            Proof::Basic(value) => request.header(AUTHORIZATION, value.clone()),
            Proof::Session(value) => request.header("X-Auth-Token", value.clone()),
        };
        if let Some(value) = if_match {
            request = request.header(IF_MATCH, value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let turn = self.line.turn().await?;
        let hidden = match proof {
            Proof::Session(token) => self.hidden.clone().and(token.to_str().unwrap_or_default()),
            Proof::None | Proof::Basic(_) => self.hidden.clone(),
        };
        let result = match perform(request, &what, hidden).await {
            Ok(answer) => Ok(answer),
            Err(Broken::Answer(error)) => Err(error),
            Err(Broken::Transport(error)) => Err(self.transport_error(&error, &what).await),
        };
        drop(turn);
        match &result {
            Ok(answer) => tracing::debug!(bmc = %self.origin, what, status = answer.status.as_u16(), "asked BMC"),
            Err(error) => tracing::debug!(bmc = %self.origin, what, %error, "asked BMC"),
        }
        result
    }

    /// Where a resource of this service is: links may name it with what stands before the service, or without.
    fn own(&self, path: &str) -> Option<String> {
        let is_below = |path: &str, with: &str| path.strip_prefix(with).is_some_and(|rest| rest.starts_with('/'));
        let inner = path.strip_prefix(&self.prefix).filter(|inner| is_below(inner, REDFISH));
        inner
            .or_else(|| Some(path).filter(|path| is_below(path, REDFISH)))
            .map(|inner| format!("{}{inner}", self.prefix))
    }

    /// Where a redirect leads, if it stays here.
    fn own_location(&self, answer: &Answer, what: &str, place: &str) -> Result<String, Error> {
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
        own.ok_or_else(|| Error::Redirected { what: what.to_owned(), to: answer.told(to) })
    }

    async fn transport_error(&self, error: &reqwest::Error, what: &str) -> Error {
        let within = self.within;
        if let Some(tls) = find_tls_error(error) {
            return tls::refusal(tls, &self.origin, self.is_unverified).await;
        }
        if error.is_timeout() && !error.is_connect() {
            return Error::Timeout { what: format!("{what} within {} s", within.as_secs_f32()) };
        }
        if error.is_body() || error.is_decode() {
            return Error::BadAnswer { what: what.to_owned(), detail: plain_text(&chain(error)) };
        }
        let detail = plain_text(&chain(error));
        // Some end the connection without an alert where they find nothing in common.
        if self.origin.scheme() == "https" && error.is_connect() && is_broken_off(error) {
            return tls::broken_off(&self.origin).await.unwrap_or(Error::Unreachable { detail });
        }
        Error::Unreachable { detail }
    }
}

async fn perform(request: reqwest::RequestBuilder, what: &str, hidden: Hidden) -> Result<Answer, Broken> {
    let mut response = request.send().await.map_err(Broken::Transport)?;
    let bad = |detail: String| Broken::Answer(Error::BadAnswer { what: what.to_owned(), detail });
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Broken::Transport)? {
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(bad(body::too_long()));
        }
        body.extend_from_slice(&chunk);
    }
    let encoding = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("(not a text)"));
    let body = body::decoded(encoding, body).map_err(bad)?;
    Ok(Answer { status, headers, body, hidden })
}

/// Whether the peer ended the connection while it was made.
fn is_broken_off(error: &(dyn std::error::Error + 'static)) -> bool {
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

fn find_tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
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

/// The innermost cause says what happened; the outer ones repeat the URL.
fn chain(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if error.source().is_none() { "no connection".to_owned() } else { cause.to_string() }
}

impl Answer {
    /// Errors by status; `what` names the request for people.
    pub(crate) fn accepted(self, what: &str, path: &str) -> Result<Self, Error> {
        let status = self.status.as_u16();
        let message = || {
            error_text(&self.body)
                .map(|text| self.told(&text))
                .unwrap_or_else(|| self.status.canonical_reason().unwrap_or("no reason").to_owned())
        };
        match status {
            200..=299 => Ok(self),
            401 => Err(Error::Unauthorized),
            403 => Err(Error::Forbidden { message: message() }),
            404 => Err(Error::NotFound { path: path.to_owned() }),
            429 | 503 => Err(Error::Busy { status }),
            501 | 405 => Err(Error::Unsupported { what: format!("{what} ({})", message()) }),
            _ => Err(Error::Refused { what: what.to_owned(), status, message: message() }),
        }
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let detail = body::not_json(self.header(&CONTENT_TYPE), &self.body, &error.to_string());
            Error::BadAnswer { what: format!("GET {path}"), detail: self.told(&detail) }
        })
    }

    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// What the BMC said, for people.
    fn told(&self, text: &str) -> String {
        plain_text(&self.hidden.out_of(text))
    }

    /// A read that leaves out what the BMC does not have or show.
    pub(crate) fn json_if_there<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        if self.status.is_success() { serde_json::from_slice(&self.body).ok() } else { None }
    }

    pub(crate) fn etag(&self) -> Option<String> {
        self.header(&ETAG).map(str::to_owned)
    }

    /// What the BMC says in words.
    pub(crate) fn message(&self) -> Option<String> {
        error_text(&self.body)
    }

    /// Whether the BMC says why, and one of its reasons is this.
    pub(crate) fn says(&self, message_id: &str) -> bool {
        has_message_id(&self.body, message_id)
    }
}
