//! The config server's requests (systems.md S1-6): upstream's paths, status codes and headers, with our token.
//!
//! | request | answer |
//! |---|---|
//! | `GET`, `HEAD /config/NAME` | the config; an error has a body of length zero |
//! | `GET`, `HEAD /healthz` | 200 |
//! | another path | 404 |
//! | another method | 405 |
//!
//! The token comes as `Authorization: Bearer TOKEN` or as `?token=TOKEN`. Why a config was refused stands in the header
//! `X-Firesteel-Reason`, for whoever looks with curl; on the host it is told as well. The same answers the paths below
//! `/config/` of the agents' listener, where stubs of earlier versions lead.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use firesteel_control::{ConfigAsk, ConfigRefusal, Control};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use tokio::sync::Semaphore;

use super::{
    bearer,
    body::{Observed, ResponseBody, full},
    places::Share,
    server::RequestBody,
};

/// Connections of one listener. Every host asks once, and holds one while it waits: 200 that boot at once find room.
pub const CONNECTIONS: Share = Share { total: 320, per_client: 8 };
/// Configs on their way to clients, in all: 8 of the largest, hundreds of usual ones. Who finds no room is told to
/// come again (503), which Ignition does.
pub const ANSWERS_BYTES_MAX: usize = 24 << 20;
/// An answer counts by pieces of this size.
const UNIT_BYTES: usize = 64 << 10;
/// Configs that are put together at a time: it takes the processor, and several times their size.
pub const MAKING_MAX: usize = 2;
/// What is said of a refusal.
const REASON_BYTES_MAX: usize = 512;
const REASON: &str = "x-firesteel-reason";

/// What both listeners of configs, and the agents', serve from. Clones share it.
#[derive(Clone, Debug)]
pub struct ConfigServer {
    control: Control,
    answers: Arc<Semaphore>,
    making: Arc<Semaphore>,
}

/// What a path asks for.
#[derive(Debug, PartialEq, Eq)]
enum Route<'a> {
    Health,
    Config(&'a str),
    Refused(StatusCode),
}

/// Pure. The last part of the path is the name, as upstream reads it.
fn route<'a>(method: &Method, path: &'a str) -> Route<'a> {
    if method != Method::GET && method != Method::HEAD {
        return Route::Refused(StatusCode::METHOD_NOT_ALLOWED);
    }
    let named = path.strip_prefix("/config").filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match (path, named) {
        ("/healthz", _) => Route::Health,
        (_, Some(rest)) => match rest.trim_end_matches('/').rsplit('/').next().unwrap_or_default() {
            "" => Route::Refused(StatusCode::BAD_REQUEST),
            name => Route::Config(name),
        },
        (_, None) => Route::Refused(StatusCode::NOT_FOUND),
    }
}

impl ConfigServer {
    #[must_use]
    pub fn new(control: Control) -> Self {
        Self {
            control,
            answers: Arc::new(Semaphore::new(ANSWERS_BYTES_MAX / UNIT_BYTES)),
            making: Arc::new(Semaphore::new(MAKING_MAX)),
        }
    }

    /// Answers one request. Its body, if it has one, is not read.
    pub async fn handle(self, request: Request<RequestBody>, remote: SocketAddr) -> Response<ResponseBody> {
        let (parts, _) = request.into_parts();
        match route(&parts.method, parts.uri.path()) {
            Route::Health => empty(StatusCode::OK),
            Route::Refused(status) => empty(status),
            Route::Config(name) => {
                let token = bearer::token(&parts.headers).or_else(|| token_in(parts.uri.query().unwrap_or_default()));
                let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
                let head = parts.method == Method::HEAD;
                self.config(ConfigAsk { name, token, accept, head, remote: remote.ip() }).await
            }
        }
    }

    async fn config(&self, ask: ConfigAsk<'_>) -> Response<ResponseBody> {
        let made = {
            let Ok(_turn) = self.making.acquire().await else { return empty(StatusCode::SERVICE_UNAVAILABLE) };
            self.control.host_config(ask).await
        };
        match made {
            Ok(bytes) if ask.head => ok(bytes.len(), full(Bytes::new())),
            Ok(bytes) => self.whole(bytes),
            Err(refusal) => refused(&refusal),
        }
    }

    fn whole(&self, bytes: Vec<u8>) -> Response<ResponseBody> {
        let (length, units) = (bytes.len(), bytes.len().div_ceil(UNIT_BYTES).max(1));
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        match Arc::clone(&self.answers).try_acquire_many_owned(units) {
            Ok(room) => ok(length, Observed::boxed(full(bytes), move |_, _| drop(room))),
            Err(_) => again(),
        }
    }
}

/// As upstream: Ignition takes what it gets by its content.
fn ok(length: usize, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    response
}

fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(0));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

fn again() -> Response<ResponseBody> {
    let mut response = empty(StatusCode::SERVICE_UNAVAILABLE);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(1));
    response
}

fn refused(refusal: &ConfigRefusal) -> Response<ResponseBody> {
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = if status == StatusCode::SERVICE_UNAVAILABLE { again() } else { empty(status) };
    let plain = |character: char| if character.is_ascii_graphic() || character == ' ' { character } else { '?' };
    let reason: String = refusal.to_string().chars().take(REASON_BYTES_MAX).map(plain).collect();
    if let Ok(reason) = HeaderValue::from_str(&reason) {
        response.headers_mut().insert(REASON, reason);
    }
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// For programs that cannot set a header. Tokens are base64url, which a query holds as they are.
fn token_in(query: &str) -> Option<&str> {
    let mut tokens = query.split('&').filter_map(|pair| pair.strip_prefix("token="));
    let token = tokens.next().filter(|token| !token.is_empty())?;
    tokens.next().is_none().then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods_are_upstreams() {
        let cases = [
            ("GET", "/config/worker", Route::Config("worker")),
            ("HEAD", "/config/worker", Route::Config("worker")),
            ("GET", "/config/a/worker/", Route::Config("worker")),
            ("GET", "/healthz", Route::Health),
            ("HEAD", "/healthz", Route::Health),
            ("POST", "/healthz", Route::Refused(StatusCode::METHOD_NOT_ALLOWED)),
            ("POST", "/config/worker", Route::Refused(StatusCode::METHOD_NOT_ALLOWED)),
            ("DELETE", "/nothing", Route::Refused(StatusCode::METHOD_NOT_ALLOWED)),
            ("GET", "/config/", Route::Refused(StatusCode::BAD_REQUEST)),
            ("GET", "/config", Route::Refused(StatusCode::BAD_REQUEST)),
            ("GET", "/", Route::Refused(StatusCode::NOT_FOUND)),
            ("GET", "/configs/worker", Route::Refused(StatusCode::NOT_FOUND)),
            ("GET", "/healthz/x", Route::Refused(StatusCode::NOT_FOUND)),
        ];
        for (method, path, expected) in cases {
            let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
            assert_eq!(route(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn one_token_in_the_query_counts() {
        assert_eq!(token_in("token=abc"), Some("abc"));
        assert_eq!(token_in("a=b&token=abc&c"), Some("abc"));
        for none in ["", "token", "token=", "tokens=a", "token=a&token=b"] {
            assert_eq!(token_in(none), None, "{none}");
        }
    }

    #[test]
    fn a_reason_stays_on_its_line() {
        let response = refused(&ConfigRefusal::Unfit("a\r\nSet-Cookie: b\u{e9}".to_owned()));
        assert_eq!(response.status(), 500);
        let reason = response.headers().get(REASON).and_then(|value| value.to_str().ok());
        assert_eq!(reason, Some("a??Set-Cookie: b?"));
        assert_eq!(response.headers()[header::CONTENT_LENGTH], "0");
    }
}
