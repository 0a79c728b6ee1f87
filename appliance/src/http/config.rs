//! The config server's requests (S1-6): upstream's paths, status codes and headers, with our token.
//!
//! | request | answer |
//! |---|---|
//! | `GET`, `HEAD /config/NAME` | the config; an error has a body of length zero |
//! | `GET`, `HEAD /healthz` | 200 |
//! | another path | 404 |
//! | another method | 405 |
//!
//! The token comes as `Authorization: Bearer TOKEN` or as `?token=TOKEN`. The header `X-Firesteel-Reason` says why a
//! config was refused, for a person with curl; the host's status says it as well. The paths below `/config/` of the
//! agents' listener give the same answers: stubs of earlier versions lead there.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use firesteel_config_server::{ConfigController, ConfigRefusal, ConfigRequest};
use firesteel_ignition::CONFIG_BYTES_MAX;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::bearer;
use super::body::{Observed, ResponseBody, full};
use super::connection_table::Share;
use super::server::RequestBody;

/// Connections of one listener. Every host has one while it waits: 200 that boot at once fit.
pub const CONNECTIONS: Share = Share { total: 320, per_client: 8, per_known: 4 };
/// The bytes of all configs that are being sent: 8 of the largest, hundreds of usual ones. A client for which there is
/// no room gets 503, after which Ignition tries again.
pub const ANSWERS_BYTES_MAX: usize = 24 << 20;
/// The unit in which answers are counted.
const UNIT_BYTES: usize = 64 << 10;
/// The units of the largest config with the appliance's additions: files, and a token in every URL that leads here.
const LARGEST_UNITS: u32 = 48;
const _: () = assert!(LARGEST_UNITS as usize * UNIT_BYTES >= CONFIG_BYTES_MAX / 2 * 3);
/// How many configs are made at a time: it takes processor time, and several times their size in memory.
pub const MAKING_MAX: usize = 2;
/// The limit of a refusal's text.
const REASON_BYTES_MAX: usize = 512;
const REASON: &str = "x-firesteel-reason";

/// The state of the listeners that serve configs. Clones share it.
#[derive(Clone, Debug)]
pub struct ConfigServer {
    configs: ConfigController,
    rooms: ConfigServerLimits,
}

/// The limits of answers.
#[derive(Clone, Debug)]
struct ConfigServerLimits {
    answers: Arc<Semaphore>,
    making: Arc<Semaphore>,
}

/// What a path asks for.
#[derive(Debug, PartialEq, Eq)]
enum ConfigRoute<'a> {
    Health,
    Config(&'a str),
    Refused(StatusCode),
}

/// Parses a path. Its last part is the name, as in upstream. Pure.
fn route<'a>(method: &Method, path: &'a str) -> ConfigRoute<'a> {
    if method != Method::GET && method != Method::HEAD {
        return ConfigRoute::Refused(StatusCode::METHOD_NOT_ALLOWED);
    }
    let named = path.strip_prefix("/config").filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match (path, named) {
        ("/healthz", _) => ConfigRoute::Health,
        (_, Some(rest)) => match rest.trim_end_matches('/').rsplit('/').next().unwrap_or_default() {
            "" => ConfigRoute::Refused(StatusCode::BAD_REQUEST),
            name => ConfigRoute::Config(name),
        },
        (_, None) => ConfigRoute::Refused(StatusCode::NOT_FOUND),
    }
}

/// The word for a request without a config in the metrics.
fn word(status: StatusCode) -> &'static str {
    match status {
        StatusCode::METHOD_NOT_ALLOWED => "method",
        StatusCode::BAD_REQUEST => "no-name",
        _ => "no-path",
    }
}

impl ConfigServer {
    #[must_use]
    pub fn new(configs: ConfigController) -> Self {
        Self { configs, rooms: ConfigServerLimits::new() }
    }

    /// Answers one request. Its body, if it has one, is not read.
    pub async fn handle(self, request: Request<RequestBody>, remote: SocketAddr) -> Response<ResponseBody> {
        let (parts, _) = request.into_parts();
        match route(&parts.method, parts.uri.path()) {
            ConfigRoute::Health => empty(StatusCode::OK),
            ConfigRoute::Refused(status) => {
                self.configs.count(word(status));
                empty(status)
            }
            ConfigRoute::Config(name) => {
                let token = bearer::token(&parts.headers).or_else(|| token_in(parts.uri.query().unwrap_or_default()));
                let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
                let head = parts.method == Method::HEAD;
                self.config(ConfigRequest { name, token, accept, head, remote: remote.ip() }).await
            }
        }
    }

    async fn config(&self, ask: ConfigRequest<'_>) -> Response<ResponseBody> {
        self.rooms.answer(ask.head, self.configs.host_config(ask)).await
    }
}

impl ConfigServerLimits {
    fn new() -> Self {
        Self {
            answers: Arc::new(Semaphore::new(ANSWERS_BYTES_MAX / UNIT_BYTES)),
            making: Arc::new(Semaphore::new(MAKING_MAX)),
        }
    }

    /// Answers with what `make` makes. It makes nothing if there is no room for the answer: a config that was made is
    /// reported as fetched.
    async fn answer(
        &self,
        is_head: bool,
        make: impl Future<Output = Result<Vec<u8>, ConfigRefusal>>,
    ) -> Response<ResponseBody> {
        // Requests wait for their turn, so only a few hold room that they may not need.
        let Ok(turn) = self.making.acquire().await else { return empty(StatusCode::SERVICE_UNAVAILABLE) };
        let room = if is_head {
            None
        } else {
            let Ok(room) = Arc::clone(&self.answers).try_acquire_many_owned(LARGEST_UNITS) else {
                return retry_later();
            };
            Some(room)
        };
        let made = make.await;
        drop(turn);
        match (made, room) {
            (Ok(bytes), None) => ok(bytes.len(), full(Bytes::new())),
            (Ok(bytes), Some(room)) => match self.fitted(room, bytes.len()) {
                Some(room) => ok(bytes.len(), Observed::boxed(full(bytes), move |_, _| drop(room))),
                None => retry_later(),
            },
            (Err(refusal), _) => refused(&refusal),
        }
    }

    /// Gives back the room that an answer of this length does not need. An answer that is longer than the largest
    /// expected one may find no room.
    fn fitted(&self, mut room: OwnedSemaphorePermit, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let (held, needed) = (room.num_permits(), bytes.div_ceil(UNIT_BYTES).max(1));
        if needed > held {
            let more = u32::try_from(needed - held).ok()?;
            room.merge(Arc::clone(&self.answers).try_acquire_many_owned(more).ok()?);
        } else {
            drop(room.split(held - needed));
        }
        Some(room)
    }
}

/// Makes the answer as upstream does: Ignition recognises a config by its content.
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

fn retry_later() -> Response<ResponseBody> {
    let mut response = empty(StatusCode::SERVICE_UNAVAILABLE);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(1));
    response
}

fn refused(refusal: &ConfigRefusal) -> Response<ResponseBody> {
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = if status == StatusCode::SERVICE_UNAVAILABLE { retry_later() } else { empty(status) };
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

/// Reads the token of a program that cannot set a header. Tokens are base64url, which a query holds unchanged.
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
            ("GET", "/config/worker", ConfigRoute::Config("worker")),
            ("HEAD", "/config/worker", ConfigRoute::Config("worker")),
            ("GET", "/config/a/worker/", ConfigRoute::Config("worker")),
            ("GET", "/healthz", ConfigRoute::Health),
            ("HEAD", "/healthz", ConfigRoute::Health),
            ("POST", "/healthz", ConfigRoute::Refused(StatusCode::METHOD_NOT_ALLOWED)),
            ("POST", "/config/worker", ConfigRoute::Refused(StatusCode::METHOD_NOT_ALLOWED)),
            ("DELETE", "/nothing", ConfigRoute::Refused(StatusCode::METHOD_NOT_ALLOWED)),
            ("GET", "/config/", ConfigRoute::Refused(StatusCode::BAD_REQUEST)),
            ("GET", "/config", ConfigRoute::Refused(StatusCode::BAD_REQUEST)),
            ("GET", "/", ConfigRoute::Refused(StatusCode::NOT_FOUND)),
            ("GET", "/configs/worker", ConfigRoute::Refused(StatusCode::NOT_FOUND)),
            ("GET", "/healthz/x", ConfigRoute::Refused(StatusCode::NOT_FOUND)),
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

    /// A host was reported as having fetched a config that it had not been given.
    #[tokio::test]
    async fn nothing_is_made_without_room_for_its_answer() {
        let (rooms, made) = (ConfigServerLimits::new(), std::cell::Cell::new(0));
        let make = async |bytes: usize| {
            made.set(made.get() + 1);
            Ok(vec![0; bytes])
        };
        let largest = LARGEST_UNITS as usize * UNIT_BYTES;
        let mut held = Vec::new();
        // A small answer takes no more than it needs.
        for bytes in [largest, largest, largest, largest, largest, largest, largest, UNIT_BYTES / 2] {
            held.push(rooms.answer(false, make(bytes)).await);
        }
        assert!(held.iter().all(|response| response.status() == 200) && made.get() == 8);
        assert_eq!(rooms.answers.available_permits(), LARGEST_UNITS as usize - 1);
        let none = rooms.answer(false, make(1)).await;
        assert_eq!((none.status().as_u16(), made.get()), (503, 8), "it is not made");
        assert_eq!(rooms.answer(true, make(1)).await.status(), 200, "HEAD has no body");
        held.pop();
        assert_eq!(rooms.answer(false, make(1)).await.status(), 200);
        assert_eq!(rooms.making.available_permits(), MAKING_MAX);
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
