//! Plain HTTP on the provisioning network: what firmware, iPXE and agents fetch.
//!
//! Integrity does not come from here: the agent checks the image against digests that it got by
//! TLS, and its own identity is a sealed token. Paths are read by [`firesteel_boot::RoutePath`].

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use bytes::Bytes;
use firesteel_boot::{Platform, RoutePath, ScriptRequest, first_stage, seed_archive};
use firesteel_control::{Control, NetworkEvent};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use jiff::Timestamp;
use ring::digest;

use super::{
    body::{Observed, ResponseBody, text, with_type},
    file::{Content, answer_bytes},
    images::{IMAGES_PATH, ImageFiles},
    server::RequestBody,
};
use crate::net::named::{Named, Naming};

/// Kernel, initramfs and loaders together: they are kept in memory. A kernel with its ramdisk and every
/// firmware of a distribution has less.
pub const BOOT_FILES_BYTES_MAX: usize = 96 << 20;

/// One file that is served from memory.
#[derive(Clone, Debug)]
pub struct Blob {
    pub bytes: Bytes,
    pub etag: String,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        let digest = digest::digest(&digest::SHA256, &bytes);
        Self { etag: hex::encode(&digest.as_ref()[..16]), bytes: bytes.into() }
    }

    fn content(&self) -> Content {
        let length = self.bytes.len() as u64;
        Content { length, etag: self.etag.clone(), content_type: "application/octet-stream" }
    }
}

/// Kernel, initramfs and loaders.
#[derive(Clone, Debug)]
pub struct BootFiles {
    pub kernel: Blob,
    pub initramfs: Blob,
    pub loaders: Arc<HashMap<String, Blob>>,
}

impl BootFiles {
    /// Reads the files and checks kernel and initramfs against their manifest.
    ///
    /// # Errors
    /// When a file is missing or differs from the manifest; the text says how to get it.
    pub fn load(boot_files: &Path, loaders: &Path) -> anyhow::Result<Self> {
        let read = |folder: &Path, name: &str, hint: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map(Blob::new).with_context(|| format!("reading {} ({hint})", path.display()))
        };
        let hint = "made by `ramdisk build`; name its folder with --boot-files";
        let kernel = read(boot_files, "vmlinuz", hint)?;
        let initramfs = read(boot_files, "initramfs.zst", hint)?;
        check_manifest(boot_files, &[("vmlinuz", &kernel), ("initramfs", &initramfs)])?;
        let mut found = HashMap::new();
        for name in first_stage::loader_files() {
            let hint = "Debian's package `ipxe` has it; name its folder with --loaders";
            found.insert(name.to_owned(), read(loaders, name, hint)?);
        }
        let bytes = found.values().chain([&kernel, &initramfs]).map(|blob| blob.bytes.len()).sum::<usize>();
        anyhow::ensure!(
            bytes <= BOOT_FILES_BYTES_MAX,
            "{}: kernel, initramfs and loaders have {} MiB, more than the {} MiB that are kept in memory",
            boot_files.display(),
            bytes >> 20,
            BOOT_FILES_BYTES_MAX >> 20
        );
        Ok(Self { kernel, initramfs, loaders: Arc::new(found) })
    }
}

/// The ramdisk's manifest has `{bytes, sha256}` under `vmlinuz` and `initramfs`.
fn check_manifest(folder: &Path, files: &[(&str, &Blob)]) -> anyhow::Result<()> {
    let path = folder.join("manifest.json");
    let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let manifest: serde_json::Value =
        serde_json::from_slice(&bytes).with_context(|| format!("reading {}", path.display()))?;
    for (name, blob) in files {
        let stated = manifest[*name]["sha256"]
            .as_str()
            .with_context(|| format!("{} states no sha256 for {name}: build the ramdisk again", path.display()))?;
        let actual = hex::encode(digest::digest(&digest::SHA256, &blob.bytes));
        anyhow::ensure!(
            stated == actual,
            "{}: {name} has sha256 {actual}, its manifest says {stated}: build the ramdisk again",
            folder.display()
        );
    }
    Ok(())
}

/// What the listener serves from.
#[derive(Clone, Debug)]
pub struct BootServer {
    pub control: Control,
    pub files: BootFiles,
    pub images: ImageFiles,
    /// Whose wrong queries were named in the log.
    pub refused: Arc<Mutex<Named<IpAddr>>>,
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
            RoutePath::Kernel { token } => self.kernel(&request, &token),
            RoutePath::Initramfs { token } => self.initramfs(&request, &token),
            RoutePath::DiskProbe { probe, drive } => {
                with_type(StatusCode::OK, "application/octet-stream", probe.program(drive))
            }
            RoutePath::NoDisk { mac } => {
                self.control.note(mac, NetworkEvent::NoDisk);
                text(StatusCode::OK, "noted")
            }
        }
    }

    async fn script(&self, request: &Request<RequestBody>, remote: SocketAddr) -> Response<ResponseBody> {
        match ScriptRequest::parse(request.uri().query().unwrap_or_default()) {
            Ok(asked) => {
                let script = self.control.script(&asked).await;
                let bytes = script.len() as u64;
                // That of a wrong build is no script to go on with, and was noted so.
                if request.method() == Method::GET && asked.wrong_build().is_none() {
                    let odd = asked.odd.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                    let is_uefi = asked.platform == Platform::Efi;
                    self.control.note(asked.mac, NetworkEvent::Script { bytes, is_uefi, odd });
                }
                // A script speaks for this moment only.
                let mut response = with_type(StatusCode::OK, "text/plain; charset=utf-8", script);
                response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
                response
            }
            Err(error) => {
                self.warn_refused(remote.ip(), &error.to_string());
                text(StatusCode::BAD_REQUEST, error.to_string())
            }
        }
    }

    /// Says once for each address why it gets no script: few people see a machine's own console.
    fn warn_refused(&self, remote: IpAddr, why: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match refused.name(Timestamp::now(), remote, false) {
            Naming::Now => tracing::warn!(%remote, "could not give a boot script: {why}; the query of iPXE is wanted"),
            Naming::More => tracing::warn!("more clients than are named ask for boot scripts with a wrong query"),
            Naming::Not => {}
        }
    }

    fn loader(&self, request: &Request<RequestBody>, file: &str, remote: SocketAddr) -> Response<ResponseBody> {
        let Some(blob) = self.files.loaders.get(file) else {
            return text(StatusCode::NOT_FOUND, format!("there is no loader {file}"));
        };
        let (control, file) = (self.control.clone(), file.to_owned());
        self.observed(request, blob, move |bytes| {
            control.note_address(remote.ip(), NetworkEvent::Loader { file, bytes, via: "http" });
        })
    }

    fn kernel(&self, request: &Request<RequestBody>, token: &str) -> Response<ResponseBody> {
        let grant = match self.control.open_boot(token) {
            Ok(grant) => grant,
            Err(denied) => return text(StatusCode::FORBIDDEN, denied.to_string()),
        };
        let control = self.control.clone();
        self.observed(request, &self.files.kernel, move |bytes| {
            control.note(grant.mac, NetworkEvent::Kernel { bytes });
        })
    }

    /// Seed and ramdisk, one after the other: the kernel unpacks both.
    fn initramfs(&self, request: &Request<RequestBody>, token: &str) -> Response<ResponseBody> {
        let grant = match self.control.open_boot(token) {
            Ok(grant) => grant,
            Err(denied) => return text(StatusCode::FORBIDDEN, denied.to_string()),
        };
        let seed = match serde_json::to_vec(&grant.seed)
            .map_err(|e| e.to_string())
            .and_then(|seed_json| seed_archive(&seed_json).map_err(|error| error.to_string()))
        {
            Ok(seed) => seed,
            Err(error) => {
                tracing::error!(%error, "making a seed");
                return text(StatusCode::INTERNAL_SERVER_ERROR, "the seed could not be made; see the appliance's log");
            }
        };
        let etag = format!(
            "{}-{}",
            self.files.initramfs.etag,
            hex::encode(&digest::digest(&digest::SHA256, &seed).as_ref()[..8])
        );
        let control = self.control.clone();
        // The ramdisk is shared by all answers: thousands of slow readers must not each hold a copy.
        let parts = [Bytes::from(seed), self.files.initramfs.bytes.clone()];
        let length = parts.iter().map(|part| part.len() as u64).sum();
        let content = Content { length, etag, content_type: "application/octet-stream" };
        observed(request, &content, &parts, move |bytes| control.note(grant.mac, NetworkEvent::Initramfs { bytes }))
    }

    /// See [`observed`].
    fn observed(
        &self,
        request: &Request<RequestBody>,
        blob: &Blob,
        done: impl FnOnce(u64) + Send + Unpin + 'static,
    ) -> Response<ResponseBody> {
        observed(request, &blob.content(), std::slice::from_ref(&blob.bytes), done)
    }
}

/// Answers from memory and tells `done` when a whole answer (not a part, not a `HEAD`) was sent.
fn observed(
    request: &Request<RequestBody>,
    content: &Content,
    parts: &[Bytes],
    done: impl FnOnce(u64) + Send + Unpin + 'static,
) -> Response<ResponseBody> {
    let response = answer_bytes(request.method(), request.headers(), content, parts);
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
