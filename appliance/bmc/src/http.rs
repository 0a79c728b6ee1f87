//! Requests to one BMC: in the turn that its [`Line`] gives, bounded in size and time, to its own origin only.
//!
//! A redirect is followed for reads on the same origin only; anywhere else it would hand the login
//! to whoever the answer names.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, ETAG, HeaderMap, HeaderValue, IF_MATCH, LOCATION};
use reqwest::{Method, StatusCode, Url, redirect};
use serde_json::Value;

use crate::address::{Address, own_path};
use crate::error::{Error, plain_text};
use crate::hidden::Hidden;
use crate::limit::Line;
use crate::model::{error_text, has_message_id};
use crate::tls::{Tls, client_config};

/// The largest answers in use (a full system) are some tens of kilobytes.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;
/// A BMC on the same site answers SYN at once, or is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// From `/redfish/v1` to `/redfish/v1/` and back is one; more is a loop.
const REDIRECTS_MAX: u32 = 2;

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
    client: reqwest::Client,
    hidden: Hidden,
    line: Arc<Line>,
    /// From the request's begin to the end of its answer.
    within: Duration,
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
            .tls_backend_preconfigured(client_config(tls)?)
            .redirect(redirect::Policy::none())
            // The environment's proxy has no business between appliance and BMC.
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(within)
            .pool_max_idle_per_host(1)
            .user_agent(concat!("firesteel/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::Unreachable { detail: chain(&error) })?;
        Ok(Self { origin: address.origin().clone(), client, hidden, line, within })
    }

    pub(crate) async fn get(&self, path: &str, proof: &Proof) -> Result<Answer, Error> {
        let mut path = path.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.send(Method::GET, &path, proof, None, None).await?;
            if !answer.status.is_redirection() {
                return Ok(answer);
            }
            path = self.own_location(&answer, "GET", &path)?;
        }
        Err(Error::BadAnswer { what: format!("GET {path}"), detail: "it redirects in a circle".to_owned() })
    }

    /// POST or PATCH. Never repeated and never redirected.
    pub(crate) async fn change(
        &self,
        method: Method,
        path: &str,
        proof: &Proof,
        body: &Value,
        if_match: Option<&str>,
    ) -> Result<Answer, Error> {
        let name = method.to_string();
        let answer = self.send(method, path, proof, Some(body), if_match).await?;
        if answer.status.is_redirection() {
            let to = answer.headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or("nowhere");
            return Err(Error::Redirected { what: format!("{name} {path}"), to: answer.told(to) });
        }
        Ok(answer)
    }

    pub(crate) async fn delete(&self, path: &str, proof: &Proof) -> Result<Answer, Error> {
        self.send(Method::DELETE, path, proof, None, None).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        proof: &Proof,
        body: Option<&Value>,
        if_match: Option<&str>,
    ) -> Result<Answer, Error> {
        let what = format!("{method} {path}");
        let mut url = self.origin.clone();
        url.set_path(path);
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
        let result = perform(request, &what, hidden, self.within).await;
        drop(turn);
        match &result {
            Ok(answer) => tracing::debug!(bmc = %self.origin, what, status = answer.status.as_u16(), "asked BMC"),
            Err(error) => tracing::debug!(bmc = %self.origin, what, %error, "asked BMC"),
        }
        result
    }

    /// Where a redirect leads, if it stays here.
    fn own_location(&self, answer: &Answer, method: &str, path: &str) -> Result<String, Error> {
        let location = answer.headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut here = self.origin.clone();
        here.set_path(path);
        let target = here.join(location).ok().filter(|url| url.origin() == self.origin.origin());
        target
            .as_ref()
            .and_then(|url| own_path(url.path()))
            .map(str::to_owned)
            .ok_or_else(|| Error::Redirected { what: format!("{method} {path}"), to: answer.told(location) })
    }
}

async fn perform(
    request: reqwest::RequestBuilder,
    what: &str,
    hidden: Hidden,
    within: Duration,
) -> Result<Answer, Error> {
    let mut response = request.send().await.map_err(|error| transport_error(&error, what, within))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| transport_error(&error, what, within))? {
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            let detail = format!("it is longer than {BODY_BYTES_MAX} bytes");
            return Err(Error::BadAnswer { what: what.to_owned(), detail });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { status, headers, body, hidden })
}

fn transport_error(error: &reqwest::Error, what: &str, within: Duration) -> Error {
    if let Some(tls) = find_tls_error(error) {
        return Error::Tls { detail: plain_text(&tls.to_string()) };
    }
    if error.is_timeout() && !error.is_connect() {
        return Error::Timeout { what: format!("{what} within {} s", within.as_secs_f32()) };
    }
    if error.is_body() || error.is_decode() {
        return Error::BadAnswer { what: what.to_owned(), detail: plain_text(&chain(error)) };
    }
    Error::Unreachable { detail: plain_text(&chain(error)) }
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
        serde_json::from_slice(&self.body)
            .map_err(|error| Error::BadAnswer { what: format!("GET {path}"), detail: self.told(&error.to_string()) })
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
        self.headers.get(ETAG).and_then(|value| value.to_str().ok()).map(str::to_owned)
    }

    /// Whether the BMC says why, and one of its reasons is this.
    pub(crate) fn says(&self, message_id: &str) -> bool {
        has_message_id(&self.body, message_id)
    }
}
