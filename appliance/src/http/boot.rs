//! Plain HTTP on the provisioning network: what firmware, iPXE and agents fetch.
//!
//! Integrity does not depend on this listener: the agent checks the image against digests that it got by TLS, and
//! proves its own identity with a sealed token. [`firesteel_boot::RoutePath`] parses the paths.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use firesteel_boot::{AskerMismatch, BootFileName, RoutePath, ScriptRequest, seed_archive};
use firesteel_control::{AccessDenial, BootGrant, BootScript, Control, NetworkEvent, ScriptKind};
use firesteel_facts::Mac;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use jiff::Timestamp;
use ring::digest;

use super::body::{Observed, ResponseBody, SentRangeBody, text, with_type};
use super::boot_files::{BootFiles, KeptBootFiles};
use super::file::{BodyOffset, ServedContent, answer_bytes, answer_seed_and_file};
use super::images::{IMAGES_PATH, ImageFiles};
use super::server::RequestBody;
use firesteel_net::named_clients::{NamedClients, NamingDecision};

/// The state of the boot listener.
#[derive(Clone, Debug)]
pub struct BootServer {
    pub control: Control,
    pub files: BootFiles,
    /// The boot files from before an upgrade, for boots that are under way.
    pub kept: Option<KeptBootFiles>,
    pub images: ImageFiles,
    /// Clients whose wrong queries were named in the log.
    pub refused: Arc<Mutex<NamedClients<IpAddr>>>,
    /// Machines that were named in the log for asking from an address that may not be theirs.
    pub mismatched: Arc<Mutex<NamedClients<(Mac, IpAddr)>>>,
}

impl BootServer {
    /// Answers one request.
    pub async fn handle(self, request: Request<RequestBody>, remote: SocketAddr) -> Response<ResponseBody> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served here");
        }
        let path = request.uri().path();
        if let Some(name) = path.strip_prefix(IMAGES_PATH) {
            return self.images.answer(request.method(), request.headers(), name).await;
        }
        let Some(route) = RoutePath::parse(path) else {
            return text(StatusCode::NOT_FOUND, "no such file; boot scripts are at /boot.ipxe?mac=…");
        };
        tracing::debug!(?route, %remote, "boot request");
        match route {
            RoutePath::Script => self.script(&request, remote).await,
            RoutePath::Loader { file } => self.loader(&request, &file, remote),
            RoutePath::Kernel { token } => self.boot_file(&request, &token, BootFileName::Kernel).await,
            RoutePath::Initramfs { token } => self.boot_file(&request, &token, BootFileName::Initramfs).await,
            RoutePath::DiskProbe { probe, drive } => {
                with_type(StatusCode::OK, "application/octet-stream", probe.program(drive))
            }
            RoutePath::NoDisk { mac } => {
                self.control.network.note(mac, NetworkEvent::NoDisk);
                text(StatusCode::OK, "noted")
            }
        }
    }

    async fn script(&self, request: &Request<RequestBody>, remote: SocketAddr) -> Response<ResponseBody> {
        match ScriptRequest::parse(request.uri().query().unwrap_or_default()) {
            // A script is made only for a client that will run it: a `HEAD` request begins no boot and makes no token.
            Ok(_) if request.method() == Method::HEAD => script_answer(String::new()),
            Ok(asked) => {
                let BootScript { text, kind } = self.control.boots.script(&asked, remote.ip()).await;
                if let ScriptKind::Mismatch(mismatch) = &kind {
                    self.warn_mismatch(asked.mac, mismatch);
                }
                script_answer(text)
            }
            Err(error) => {
                self.warn_refused(remote.ip(), &error.to_string());
                text(StatusCode::BAD_REQUEST, error.to_string())
            }
        }
    }

    /// Warns once for each address of why it gets no script: the machine's own console is rarely watched.
    fn warn_refused(&self, remote: IpAddr, why: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match refused.name(Timestamp::now(), remote, false) {
            NamingDecision::Now => {
                tracing::warn!(%remote, "could not give a boot script: {why}; send the query of our script for iPXE")
            }
            NamingDecision::More => {
                tracing::warn!("more clients than the log names ask for boot scripts with a wrong query")
            }
            NamingDecision::Not => {}
        }
    }

    /// Warns once for each MAC and address of why it gets no token: the machine's own console is rarely watched.
    fn warn_mismatch(&self, mac: Mac, mismatch: &AskerMismatch) {
        let mut named = self.mismatched.lock().unwrap_or_else(PoisonError::into_inner);
        match named.name(Timestamp::now(), (mac, mismatch.from()), self.control.is_host(mac)) {
            NamingDecision::Now => tracing::warn!(%mac, "could not give a token: {mismatch}"),
            NamingDecision::More => {
                tracing::warn!("more machines than the log names ask from addresses that may not be theirs")
            }
            NamingDecision::Not => {}
        }
    }

    fn loader(&self, request: &Request<RequestBody>, file: &str, remote: SocketAddr) -> Response<ResponseBody> {
        let Some(blob) = self.files.loaders.get(file) else {
            return text(StatusCode::NOT_FOUND, format!("there is no loader {file}"));
        };
        let (control, file) = (self.control.clone(), file.to_owned());
        let answer = answer_bytes(request.method(), request.headers(), &blob.content(), &[blob.bytes.clone()]);
        observed(request, answer, move |bytes| {
            control.network.note_address(remote.ip(), NetworkEvent::Loader { file, bytes, via: "http" });
        })
    }

    /// Sends the kernel, or the initramfs with the seed in front of it: the kernel unpacks both.
    async fn boot_file(
        &self,
        request: &Request<RequestBody>,
        token: &str,
        file: BootFileName,
    ) -> Response<ResponseBody> {
        let grant = match self.control.boots.open_boot(token).await {
            Ok(grant) => grant,
            Err(AccessDenial::Internal(why)) => return text(StatusCode::SERVICE_UNAVAILABLE, why),
            Err(denied) => return text(StatusCode::FORBIDDEN, denied.to_string()),
        };
        let seed = match file {
            BootFileName::Kernel => Bytes::new(),
            BootFileName::Initramfs => match seed_of(&grant) {
                Ok(seed) => seed,
                Err(error) => {
                    tracing::error!(%error, "could not make a seed");
                    let text_for_client = "could not make the seed; see the appliance's log";
                    return text(StatusCode::INTERNAL_SERVER_ERROR, text_for_client);
                }
            },
        };
        let seed_bytes = seed.len() as u64;
        let is_current = grant.claims.boot.is_some_and(|seal| seal.is_of(&self.files.set()));
        let response = match &self.kept {
            Some(kept) if !is_current => {
                let content = content(&seed, kept.set.file(file).bytes, &kept.set.file(file).sha256.to_string()[..32]);
                answer_seed_and_file(request.method(), request.headers(), &content, &seed, &kept.path(file)).await
            }
            Some(_) | None => {
                let blob = self.files.file(file);
                let content = content(&seed, blob.bytes.len() as u64, &blob.etag);
                // All answers share the ramdisk: thousands of slow readers must not each hold a copy.
                answer_bytes(request.method(), request.headers(), &content, &[seed, blob.bytes.clone()])
            }
        };
        self.counted(request, response, grant, file, seed_bytes)
    }

    /// Counts what is sent of a boot file for its token, without the seed in front of it.
    fn counted(
        &self,
        request: &Request<RequestBody>,
        response: Response<ResponseBody>,
        grant: BootGrant,
        file: BootFileName,
        seed_bytes: u64,
    ) -> Response<ResponseBody> {
        let (mac, claims) = (grant.mac, grant.claims);
        // The first transfer is a stage of the boot, and is recorded as such.
        let is_stage = Arc::new(AtomicBool::new(false));
        let (control, was_stage) = (self.control.clone(), Arc::clone(&is_stage));
        let response = observed(request, response, move |bytes| {
            let event = match file {
                BootFileName::Kernel => NetworkEvent::Kernel { bytes },
                BootFileName::Initramfs => NetworkEvent::Initramfs { bytes },
            };
            control.network.boot_file_fetched(mac, event, was_stage.load(Ordering::Relaxed));
        });
        let Some(BodyOffset(start)) = response.extensions().get().copied() else { return response };
        let control = self.control.clone();
        response.map(|body| {
            SentRangeBody::boxed(body, start, move |sent: Range<u64>| {
                let of_file = sent.start.saturating_sub(seed_bytes)..sent.end.saturating_sub(seed_bytes);
                if control.observations.boot_bytes_sent(&claims, file, of_file) {
                    is_stage.store(true, Ordering::Relaxed);
                }
            })
        })
    }
}

/// Makes the archive that goes in front of this boot's ramdisk.
fn seed_of(grant: &BootGrant) -> anyhow::Result<Bytes> {
    Ok(seed_archive(&serde_json::to_vec(&grant.seed)?).map(Bytes::from)?)
}

/// Describes a file with a seed in front of it.
fn content(seed: &[u8], file_bytes: u64, file_etag: &str) -> ServedContent {
    let seed_digest = digest::digest(&digest::SHA256, seed);
    let etag = if seed.is_empty() {
        file_etag.to_owned()
    } else {
        format!("{file_etag}-{}", hex::encode(&seed_digest.as_ref()[..8]))
    };
    ServedContent { length: seed.len() as u64 + file_bytes, etag, content_type: "application/octet-stream" }
}

/// Makes a script answer that must not be cached.
fn script_answer(text: String) -> Response<ResponseBody> {
    let mut response = with_type(StatusCode::OK, "text/plain; charset=utf-8", text);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Calls `done` when a whole answer (not a part, not a `HEAD`) was sent.
fn observed(
    request: &Request<RequestBody>,
    response: Response<ResponseBody>,
    done: impl FnOnce(u64) + Send + Unpin + 'static,
) -> Response<ResponseBody> {
    if request.method() == Method::HEAD || response.status() != StatusCode::OK {
        return response;
    }
    response.map(|body| {
        Observed::boxed(body, move |bytes, whole| {
            if whole {
                done(bytes);
            }
        })
    })
}
