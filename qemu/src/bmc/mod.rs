//! One virtual BMC per machine, on a loopback address of the lab's network namespace. It follows the machine, it does not
//! own it.
//!
//! The lab's own speaks Redfish by HTTPS (self-signed, as BMCs come): `redfish` is the model; here are the listener, the
//! credentials, and `effects` acts on the machine. `faults` is how it misbehaves on request. Others' are `simulator`
//! (IPMI: OpenIPMI's `ipmi_sim`, with `chassis` behind it) and `sushy` (Redfish: sushy-tools, by libvirt).

pub mod chassis;
mod effects;
mod emulator;
mod faults;
mod media;
pub mod redfish;
mod sessions;
pub mod simulator;
pub mod sushy;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use effects::PerformError;
pub use faults::LabBmcFault;
use faults::ReplacedAnswer;
use futures_util::stream;
use http::header::{CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rcgen::{CertifiedKey, KeyPair};
use redfish::{LabRedfishResponse, SystemView};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use self::{sessions::Sessions, simulator::Simulator, sushy::Sushy};
use crate::libvirt::Libvirt;
use crate::machine::{Machine, MachineError, MachinePower};
use crate::tools::{Tools, ToolsError};

/// Where the BMCs of machines are, on this machine: an appliance connects there only if it may.
pub const ADDRESSES: &str = "127.0.1.0/24";
pub const USER: &str = "admin";
pub const PASSWORD: &str = "lab-password";

const PORT: u16 = 443;
/// A BMC's requests are a few hundred bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// One appliance keeps a handful of connections.
const CONNECTIONS_MAX: usize = 32;
/// A client that says nothing in this time is gone.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const MIB: usize = 1 << 20;

type Body = UnsyncBoxBody<Bytes, Infallible>;

#[derive(Debug, Error)]
pub enum BmcError {
    #[error("listening on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("making the BMC's certificate")]
    Certificate(#[source] rcgen::Error),
    #[error("configuring TLS")]
    Tls(#[source] rustls::Error),
    #[error("starting a BMC")]
    Missing(#[from] ToolsError),
    #[error("starting a BMC")]
    Simulator(#[source] io::Error),
    #[error("{what} does not start; it says:\n{log}")]
    NotReady { what: &'static str, log: String },
    #[error("sushy-tools needs libvirt")]
    NoLibvirt,
}

/// How machines are switched from afar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum BmcKind {
    /// The lab's own BMC
    Redfish,
    /// OpenIPMI's ipmi_sim
    Ipmi,
    /// sushy-tools with libvirt
    Sushy,
    /// By hand
    None,
}

/// The running BMC of a machine, of whatever kind; it stops when this is dropped.
#[derive(Debug)]
pub enum AnyBmc {
    Redfish(Bmc),
    Ipmi(Simulator),
    Sushy(Sushy),
}

impl AnyBmc {
    /// Starts it on `127.0.1.number`; none where there shall be none.
    pub async fn start(
        kind: BmcKind,
        machine: &Machine,
        tools: &Tools,
        libvirt: Option<&Libvirt>,
        number: u8,
    ) -> Result<Option<Self>, BmcError> {
        Ok(Some(match kind {
            BmcKind::None => return Ok(None),
            BmcKind::Redfish => Self::Redfish(Bmc::start(machine.clone(), number).await?),
            BmcKind::Ipmi => Self::Ipmi(Simulator::start(machine.clone(), tools, number).await?),
            BmcKind::Sushy => {
                let libvirt = libvirt.ok_or(BmcError::NoLibvirt)?;
                let config = machine.config();
                Self::Sushy(Sushy::start(config.uuid, &config.folder, tools, libvirt, number).await?)
            }
        }))
    }

    /// The address as a BareMetalHost names it.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Redfish(bmc) => bmc.url(),
            Self::Ipmi(bmc) => bmc.url(),
            Self::Sushy(bmc) => bmc.url(),
        }
    }

    /// The lab's own, which can misbehave.
    #[must_use]
    pub fn own(&self) -> Option<&Bmc> {
        match self {
            Self::Redfish(bmc) => Some(bmc),
            Self::Ipmi(_) | Self::Sushy(_) => None,
        }
    }
}

/// A running BMC; it stops when this is dropped.
#[derive(Debug)]
pub struct Bmc {
    address: SocketAddr,
    uuid: uuid::Uuid,
    shared: Arc<LabBmcState>,
    task: AbortHandle,
}

impl Bmc {
    /// Starts the BMC of a machine on `127.0.1.number`.
    pub async fn start(machine: Machine, number: u8) -> Result<Self, BmcError> {
        Self::listen(machine, SocketAddr::from((Ipv4Addr::new(127, 0, 1, number), PORT))).await
    }

    /// Starts it at an address; port 0 takes a free one.
    pub async fn listen(machine: Machine, address: SocketAddr) -> Result<Self, BmcError> {
        let listener = TcpListener::bind(address).await.map_err(|source| BmcError::Listen { address, source })?;
        let address = listener.local_addr().map_err(|source| BmcError::Listen { address, source })?;
        let acceptor = acceptor(address)?;
        let uuid = machine.config().uuid;
        let shared = Arc::new(LabBmcState {
            machine,
            sessions: Sessions::new(USER, PASSWORD),
            faults: Mutex::default(),
            media: Mutex::default(),
        });
        let task = tokio::spawn(accept(listener, acceptor, shared.clone())).abort_handle();
        Ok(Self { address, uuid, shared, task })
    }

    /// Misbehaves in these ways from the next request on, and in no other.
    pub fn set_faults(&self, faults: Vec<LabBmcFault>) {
        *self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// The address as a BareMetalHost names it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redfish+https://{}{}", self.address, redfish::system_path(&self.uuid))
    }
}

impl Drop for Bmc {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct LabBmcState {
    machine: Machine,
    sessions: Sessions,
    faults: Mutex<Vec<LabBmcFault>>,
    /// Where the image in the virtual drive came from.
    media: Mutex<Option<String>>,
}

impl std::fmt::Debug for LabBmcState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LabBmcState").field("faults", &self.faults).finish_non_exhaustive()
    }
}

impl LabBmcState {
    fn faults(&self) -> Vec<LabBmcFault> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn self_signed(address: SocketAddr) -> Result<CertifiedKey<KeyPair>, BmcError> {
    rcgen::generate_simple_self_signed(vec![address.ip().to_string()]).map_err(BmcError::Certificate)
}

fn acceptor(address: SocketAddr) -> Result<TlsAcceptor, BmcError> {
    let made = self_signed(address)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key))
        .map_err(BmcError::Tls)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<LabBmcState>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    while let Ok(slot) = slots.clone().acquire_owned().await {
        while connections.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a BMC cannot accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (acceptor, shared) = (acceptor.clone(), shared.clone());
        connections.spawn(async move {
            let _slot = slot;
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(|request| {
                let shared = shared.clone();
                async move { Ok::<_, Infallible>(serve(&shared, request).await) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
            // A client that hangs up is no event.
            drop(server.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn serve(shared: &LabBmcState, request: Request<Incoming>) -> Response<Body> {
    let faults = shared.faults();
    let verdict = faults::decide(&faults);
    tokio::time::sleep(Duration::from_millis(verdict.delay_ms)).await;
    if let Some(instead) = verdict.instead {
        return misbehave(instead);
    }
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            let refused =
                redfish::refuse(StatusCode::PAYLOAD_TOO_LARGE, "PropertyValueFormatError", &error.to_string());
            return render(refused);
        }
    };
    if path.trim_end_matches('/') == redfish::SESSIONS && parts.method == Method::POST {
        return match shared.sessions.open(&body) {
            Some(session) => session.map(http_body_util::BodyExt::boxed_unsync),
            None => unauthorised(),
        };
    }
    if !redfish::is_public(&parts.method, &path) && !shared.sessions.allow(&parts.headers) {
        return unauthorised();
    }
    if let Some(answer) = shared.sessions.answer(&parts.method, &path) {
        return render(answer);
    }
    let mut answer = redfish::answer(&view(shared).await, &parts.method, &path, &body);
    if let Some(effect) = answer.effect.take()
        && !faults::swallows(&faults, &effect)
        && let Err(error) = effects::perform(shared, effect).await
    {
        tracing::warn!(%error, machine = shared.machine.config().name, "the BMC failed");
        answer = match error {
            PerformError::Machine(MachineError::Off) => {
                redfish::refuse(StatusCode::CONFLICT, "ResourceInUse", "the system is off")
            }
            PerformError::Fetch(error) => {
                redfish::refuse(StatusCode::BAD_REQUEST, "ResourceAtUriUnauthorized", &error.to_string())
            }
            PerformError::Machine(error) => {
                redfish::refuse(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &error.to_string())
            }
        };
    }
    render(answer)
}

async fn view(shared: &LabBmcState) -> SystemView {
    let machine = &shared.machine;
    let config = machine.config();
    let is_on = *machine.power().borrow() != MachinePower::Off;
    SystemView {
        is_on,
        boot: machine.boot_override().await,
        firmware: config.firmware,
        macs: vec![config.mac.to_uppercase()],
        memory_mib: config.memory_mib,
        media: shared.media.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        name: config.name,
        uuid: config.uuid,
    }
}

fn misbehave(instead: ReplacedAnswer) -> Response<Body> {
    let whole = |text: String| Full::new(Bytes::from(text)).boxed_unsync();
    let (status, body) = match instead {
        ReplacedAnswer::Status(StatusCode::UNAUTHORIZED) => return unauthorised(),
        ReplacedAnswer::Status(status) => {
            return render(redfish::refuse(status, "InternalError", "the lab wants it so"));
        }
        ReplacedAnswer::Garbage => (StatusCode::OK, whole("<html>not what you asked for".to_owned())),
        ReplacedAnswer::Huge { mib } => {
            let filler = " ".repeat(MIB);
            let spaces = stream::iter((0..mib).map(move |_| Ok(Frame::data(Bytes::from(filler.clone())))));
            (StatusCode::OK, StreamBody::new(spaces).boxed_unsync())
        }
        ReplacedAnswer::Endless => {
            let spaces = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(&[b' '; 4096]))));
            (StatusCode::OK, StreamBody::new(spaces).boxed_unsync())
        }
        ReplacedAnswer::Redirect(to) => {
            let mut response =
                render(LabRedfishResponse { status: StatusCode::TEMPORARY_REDIRECT, body: None, effect: None });
            response.headers_mut().extend(HeaderValue::from_str(&to).ok().map(|to| (LOCATION, to)));
            return response;
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn render(answer: LabRedfishResponse) -> Response<Body> {
    let body = answer.body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let mut response = Response::new(Full::new(body).boxed_unsync());
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("odata-version", HeaderValue::from_static("4.0"));
    response
}

fn unauthorised() -> Response<Body> {
    let refused = redfish::refuse(StatusCode::UNAUTHORIZED, "InsufficientPrivilege", "user name or password is wrong");
    let mut response = render(refused);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"lab\""));
    response
}
