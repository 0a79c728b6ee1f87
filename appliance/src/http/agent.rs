//! HTTPS on the provisioning network: the agent's protocol, and the reports of a new OS.
//!
//! | request | who | proof |
//! |---|---|---|
//! | `POST /agent/v1/hello`, `/agent/v1/report` | the agent | sealed token, and a signature by the key it was bound to |
//! | `GET`, `HEAD /config/NAME` | Ignition, by stubs that lead here instead of to the config server | as there ([`super::config`]) |
//! | `POST /first-boot-failed` | a unit in the new OS's initramfs, with the tail of Ignition's log | the instance token, as bearer |
//! | `GET`, `HEAD /images/DIGEST` | clients that want TLS; most fetch images without it | none: the digest names the content |
//! | `POST /running` | a unit in the new OS | the nonce of the config that it fetched |

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use firesteel_control::{AccessDenial, Control, FAILURE_BYTES_MAX, FIRST_BOOT_FAILED_PATH};
use firesteel_kube::heavy_json::HeavyWork;
use firesteel_wire::{
    AgentReport, HELLO_PATH, Hello, PublicKey, REPORT_PATH, RefusalReason, RefusalReply, SIGNATURE_HEADER, limits,
    signing_input,
};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Body as _;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, de::DeserializeOwned};

use super::bearer;
use super::body::{PermitBody, ResponseBody, full, json, text};
use super::config::ConfigServer;
use super::connection_admission::{ConnectionAdmission, OccupiedPlace, Standings};
use super::connection_table::Share;
use super::connection_use::{Occupant, PlaceRequest};
use super::images::{IMAGES_PATH, ImageFiles};
use super::server::RequestBody;

/// How many large bodies are read at a time. Reports have a few kilobytes; an inspection of a large machine, or a long
/// kernel log, has more.
pub const BODIES: Share = Share { total: 24, per_client: 4, per_known: 1 };
/// How many images are sent by TLS at a time.
pub const IMAGE_ANSWERS: Share = Share { total: 160, per_client: 16, per_known: 4 };
/// The largest body that every connection may have, without a place of its own.
pub const SMALL_BODY_BYTES: usize = 16 << 10;
/// How many large bodies are decoded and verified at a time, beside the threads that answer machines.
const DECODED_MAX: usize = 2;
static DECODING: HeavyWork = HeavyWork::new(DECODED_MAX);
/// The limit of a report of the OS: a nonce and a name.
const RUNNING_BYTES_MAX: usize = 4096;

/// The report of the unit in the new OS.
#[derive(Debug, Deserialize)]
struct RunningReport {
    nonce: String,
    host: String,
}

/// The state of the agents' listener.
#[derive(Clone, Debug)]
pub struct AgentServer {
    control: Control,
    configs: ConfigServer,
    images: ImageFiles,
    image_answers: ConnectionAdmission,
    bodies: ConnectionAdmission,
}

impl AgentServer {
    #[must_use]
    pub fn new(control: Control, configs: ConfigServer, images: ImageFiles, standings: Standings) -> Self {
        let bodies = ConnectionAdmission::new(BODIES, standings.clone());
        let image_answers = ConnectionAdmission::new(IMAGE_ANSWERS, standings);
        Self { control, configs, images, image_answers, bodies }
    }

    /// Answers one request.
    pub async fn handle(self, request: Request<RequestBody>, remote: SocketAddr) -> Response<ResponseBody> {
        let path = request.uri().path().to_owned();
        match (request.method(), path.as_str()) {
            (&Method::POST, HELLO_PATH) => match self.signed::<Hello>(request, remote, |hello| hello.key).await {
                Ok(hello) => answer(self.control.agents.hello(hello, remote.ip()).await),
                Err(refusal) => refuse(&refusal),
            },
            (&Method::POST, REPORT_PATH) => {
                match self.signed::<AgentReport>(request, remote, |report| report.key).await {
                    Ok(report) => answer(self.control.agents.report(report, remote.ip()).await),
                    Err(refusal) => refuse(&refusal),
                }
            }
            (&Method::GET | &Method::HEAD, path) if path.starts_with(IMAGES_PATH) => self.image(&request, remote).await,
            (_, path) if path.starts_with("/config/") => self.configs.handle(request, remote).await,
            (&Method::POST, FIRST_BOOT_FAILED_PATH) => failed(&self.control, request, remote).await,
            (&Method::POST, "/running") => running(&self.control, request, remote).await,
            (_, HELLO_PATH | REPORT_PATH | FIRST_BOOT_FAILED_PATH | "/running") => {
                text(StatusCode::METHOD_NOT_ALLOWED, "use POST")
            }
            _ => text(StatusCode::NOT_FOUND, "nothing is served here; this port is for agents and new systems"),
        }
    }

    /// Sends an image, unless too many are being sent: each takes memory until its client has it.
    async fn image(&self, request: &Request<RequestBody>, remote: SocketAddr) -> Response<ResponseBody> {
        let Ok(place) = self.image_answers.enter(remote.ip()) else {
            let mut response = text(StatusCode::SERVICE_UNAVAILABLE, "too many images are being sent: try again");
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
            return response;
        };
        let name = request.uri().path().strip_prefix(IMAGES_PATH).unwrap_or_default();
        let response = self.images.answer(request.method(), request.headers(), name).await;
        response.map(|body| PermitBody { body, _place: place }.boxed_unsync())
    }

    /// Reads a body, checks that its sender holds the key it names, and decodes it.
    async fn signed<T: DeserializeOwned>(
        &self,
        request: Request<RequestBody>,
        remote: SocketAddr,
        key: impl Fn(&T) -> PublicKey,
    ) -> Result<T, RefusalReply> {
        match self.place_for(&request, remote)? {
            None => signed(request, key, None).await,
            Some(place) => tokio::select! {
                read = signed(request, key, Some(place.occupant())) => read,
                () = place.occupant().yielded() => Err(too_many_bodies()),
            },
        }
    }

    /// Reserves a place for a large body. The sender is known only once the body was read, so large bodies take turns;
    /// one that has not arrived yet yields its place to the next.
    fn place_for(
        &self,
        request: &Request<RequestBody>,
        remote: SocketAddr,
    ) -> Result<Option<OccupiedPlace>, RefusalReply> {
        if request.body().size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BODY_BYTES as u64) {
            return Ok(None);
        }
        self.bodies.enter_and_yield(remote.ip()).map(Some).map_err(|why| {
            tracing::debug!(%remote, ?why, "too many large bodies: refused");
            too_many_bodies()
        })
    }
}

fn too_many_bodies() -> RefusalReply {
    let message = "too many large requests are being read: try again".to_owned();
    RefusalReply { reason: RefusalReason::Busy, message }
}

/// Implements [`AgentServer::signed`]. `place` is the place of a large body.
async fn signed<T: DeserializeOwned>(
    request: Request<RequestBody>,
    key: impl Fn(&T) -> PublicKey,
    place: Option<&Arc<Occupant>>,
) -> Result<T, RefusalReply> {
    let bad = |message: String| RefusalReply { reason: RefusalReason::BadRequest, message };
    let path = request.uri().path().to_owned();
    let signature = request
        .headers()
        .get(SIGNATURE_HEADER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| hex::decode(value).ok())
        .ok_or_else(|| bad(format!("the header {SIGNATURE_HEADER} is missing or not hexadecimal")))?;
    let body = read(request, limits::BODY_BYTES_MAX).await.map_err(|error| bad(error.to_string()))?;
    // The body is complete, and keeps its place while it waits to be decoded.
    let _whole = place.map(|place| {
        let request = PlaceRequest::new(place);
        request.is_whole();
        request
    });
    let decode = || {
        let message: T = serde_json::from_slice(&body).map_err(|error| bad(format!("invalid body: {error}")))?;
        let signed = signing_input(&path, &body);
        let verified = UnparsedPublicKey::new(&ED25519, key(&message).0).verify(&signed, &signature);
        verified.map(|()| message).map_err(|_| RefusalReply {
            reason: RefusalReason::BadSignature,
            message: "the signature does not fit the key in the body".to_owned(),
        })
    };
    DECODING.run(body.len(), decode).await
}

async fn read(request: Request<RequestBody>, bytes_max: usize) -> anyhow::Result<Bytes> {
    match Limited::new(request.into_body(), bytes_max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => anyhow::bail!("could not read the body (at most {bytes_max} bytes): {error}"),
    }
}

fn answer<T: serde::Serialize>(result: Result<T, RefusalReply>) -> Response<ResponseBody> {
    match result {
        Ok(reply) => json(StatusCode::OK, &reply),
        Err(refusal) => refuse(&refusal),
    }
}

fn refuse(refusal: &RefusalReply) -> Response<ResponseBody> {
    let status = match refusal.reason {
        RefusalReason::BadToken | RefusalReason::BadSignature => StatusCode::UNAUTHORIZED,
        RefusalReason::SecondKey | RefusalReason::Held => StatusCode::CONFLICT,
        RefusalReason::OldAttempt => StatusCode::GONE,
        RefusalReason::BadRequest => StatusCode::BAD_REQUEST,
        RefusalReason::Busy => StatusCode::SERVICE_UNAVAILABLE,
    };
    json(status, refusal)
}

async fn running(control: &Control, request: Request<RequestBody>, remote: SocketAddr) -> Response<ResponseBody> {
    let body = match read(request, RUNNING_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return text(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let Ok(report) = serde_json::from_slice::<RunningReport>(&body) else {
        return text(StatusCode::BAD_REQUEST, "send {\"nonce\": …, \"host\": …} as the fetched config has them");
    };
    match control.instances.running(&report.host, &report.nonce, remote.ip()).await {
        Ok(()) => text(StatusCode::OK, "noted: running"),
        Err(denied) => deny(&denied),
    }
}

/// Records that the first boot of a new OS failed.
async fn failed(control: &Control, request: Request<RequestBody>, remote: SocketAddr) -> Response<ResponseBody> {
    let Some(token) = bearer::token(request.headers()).map(str::to_owned) else {
        return text(StatusCode::UNAUTHORIZED, "show the host's token, as the hand-off wrote it beside the config");
    };
    let log = match read(request, FAILURE_BYTES_MAX).await {
        Ok(log) => log,
        Err(error) => return text(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
    };
    match control.instances.first_boot_failed(&token, &log, remote.ip()).await {
        Ok(()) => {
            let mut response = Response::new(full(Bytes::new()));
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Err(denied) => deny(&denied),
    }
}

fn deny(denied: &AccessDenial) -> Response<ResponseBody> {
    let status = match denied {
        AccessDenial::Token(_) => StatusCode::UNAUTHORIZED,
        AccessDenial::Forbidden(_) => StatusCode::FORBIDDEN,
        AccessDenial::NotFound(_) => StatusCode::NOT_FOUND,
        AccessDenial::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
        AccessDenial::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    text(status, denied.to_string())
}
