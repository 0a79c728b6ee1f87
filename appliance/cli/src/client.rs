//! Talks to the appliance's API as any Kubernetes client would.

mod reads;
mod refusal;
mod warning;
mod writes;

use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use firesteel_kube::Cause;
use futures_util::{Stream, StreamExt as _};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

pub(crate) use writes::PatchedObject;

use super::ConnectionOptions;
use super::kubeconfig_file::{self, ApplianceAccess, ClientCertificate};

/// The longest line of a watch: one object, which the server limits to 3 MiB.
const LINE_BYTES_MAX: usize = 8 << 20;
/// The longest answer that is read whole: the list of all objects of a kind. A fleet of 5,000 hosts has 150 MB.
const ANSWER_BYTES_MAX: usize = 512 << 20;
/// The longest refusal; the server's own have a few kilobytes.
const REFUSAL_BYTES_MAX: usize = 1 << 20;
/// The time from a request to the head of its answer.
const HEAD_TIMEOUT: Duration = Duration::from_mins(5);
/// The time to the head of an answer for which the whole database is copied or written again: on a slow disk it is
/// long.
const WORK_TIMEOUT: Duration = Duration::from_hours(6);
const WORK_PATHS: [&str; 2] = ["/firesteel.dev/backup", "/firesteel.dev/rekey"];
/// How long the appliance may take to answer TCP and TLS; kubectl has this limit for TCP.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// What is accepted of a list that is to come as a table.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Kubernetes' reason for an object that exists and cannot be read.
const UNREADABLE: &str = "StorageReadError";

/// A connection to one appliance.
#[derive(Debug)]
pub struct ApiClient {
    http: reqwest::Client,
    server: String,
    /// The CA, in the form of the kubeconfig.
    authority: String,
    /// The bearer token; empty if a certificate is used.
    token: String,
    pub namespace: String,
    /// The kubeconfig, for errors.
    files: String,
    /// The warnings that were printed.
    warned: warning::PrintedWarnings,
}

/// A Status object of the API, as an error.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    pub code: u16,
    /// The reason in one word; empty if the answer has none.
    pub reason: String,
    pub message: String,
    /// What is wrong with which field; empty if the answer does not say it.
    pub causes: Vec<Cause>,
}

/// No appliance answered.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnreachedError(String);

/// Tells whether the object exists and cannot be read.
pub(super) fn is_unreadable(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ApiError>().is_some_and(|error| error.reason == UNREADABLE)
}

/// Returns the default if the user may not read the objects: for things that are shown beside something else.
pub(super) fn default_if_forbidden<T: Default>(found: anyhow::Result<T>) -> anyhow::Result<T> {
    match found {
        Err(error) if code_of(&error) == Some(StatusCode::FORBIDDEN.as_u16()) => Ok(T::default()),
        found => found,
    }
}

/// Returns the default if the object is damaged, and warns of it: for things that are shown beside something else.
pub(super) fn warn_and_default<T: Default>(found: anyhow::Result<T>) -> anyhow::Result<T> {
    match found {
        Err(error) if is_unreadable(&error) => {
            super::print_warning(&format!("{error:#}"));
            Ok(T::default())
        }
        found => found,
    }
}

impl ApiClient {
    /// Finds and reads the kubeconfig, and prepares a connection.
    ///
    /// # Errors
    /// When there is no kubeconfig, or it does not hold an address, a CA and a way to log in.
    pub fn open(connection: &ConnectionOptions) -> anyhow::Result<Self> {
        let access = kubeconfig_file::read(connection.kubeconfig.as_deref())?;
        let http = reqwest::Client::builder()
            .user_agent(concat!("firesteel-cli/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls(&access)?)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .context("could not prepare HTTPS")?;
        let namespace = connection.namespace.clone().or(Some(access.namespace).filter(|name| !name.is_empty()));
        Ok(Self {
            http,
            server: access.server,
            authority: STANDARD.encode(access.authority),
            token: access.token,
            namespace: namespace.unwrap_or_else(|| "default".to_owned()),
            files: access.files,
            warned: warning::PrintedWarnings::default(),
        })
    }

    /// A connection without TLS, to a server of a test.
    #[cfg(test)]
    #[allow(clippy::unwrap_used, reason = "tests")]
    pub(crate) fn without_tls(server: &str) -> Self {
        // Another test may have installed one.
        drop(rustls::crypto::ring::default_provider().install_default());
        Self {
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            server: server.to_owned(),
            authority: String::new(),
            token: String::new(),
            namespace: "default".to_owned(),
            files: String::new(),
            warned: warning::PrintedWarnings::default(),
        }
    }

    /// The URL of the appliance, as `https://ADDRESS:PORT`.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The CA of the appliance, in base64.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> anyhow::Result<reqwest::Response> {
        self.answered(self.request(method, path, body), head_within(path)).await
    }

    fn request(&self, method: Method, path: &str, body: Option<(&str, Vec<u8>)>) -> reqwest::RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.server));
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        if let Some((content_type, bytes)) = body {
            request = request.header("content-type", content_type).body(bytes);
        }
        request
    }

    async fn answered(&self, request: reqwest::RequestBuilder, within: Duration) -> anyhow::Result<reqwest::Response> {
        let sent = tokio::time::timeout(within, request.send()).await;
        let sent = sent.map_err(|_| self.unreached(&format!("no answer within {} s", within.as_secs())))?;
        let response = sent.map_err(|error| self.unreached(&innermost(&error)))?;
        for header in response.headers().get_all("warning") {
            self.warned.print(header.as_bytes());
        }
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status();
        let body = bounded(response, REFUSAL_BYTES_MAX).await.unwrap_or_default();
        Err(ApiError::read(code, &body).into())
    }

    /// Makes the error of a request without an answer. The cause comes before the address, which may be long.
    fn unreached(&self, cause: &str) -> anyhow::Error {
        let (server, files) = (&self.server, &self.files);
        UnreachedError(format!(
            "could not reach the appliance: {cause} ({server}); check that it runs and that {files} names its address"
        ))
        .into()
    }

    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let response = self.send(Method::GET, path, None).await?;
        json(response).await
    }

    /// Fetches a list as the table that the appliance makes of it: `columnDefinitions`, and `rows` with their `cells`.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub(crate) async fn get_table(&self, path: &str) -> anyhow::Result<Value> {
        let request = self.request(Method::GET, path, None).header("accept", TABLE);
        json(self.answered(request, HEAD_TIMEOUT).await?).await
    }

    /// Fetches an object; `None` if it does not exist.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub async fn get_if_there(&self, path: &str) -> anyhow::Result<Option<Value>> {
        match self.get(path).await {
            Ok(value) => Ok(Some(value)),
            Err(error) if code_of(&error) == Some(StatusCode::NOT_FOUND.as_u16()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub async fn create(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        let response = self.send(Method::POST, path, Some(("application/json", serde_json::to_vec(object)?))).await?;
        json(response).await
    }

    /// Sends a JSON merge patch (RFC 7386).
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub async fn merge_patch(&self, path: &str, patch: &Value) -> anyhow::Result<Value> {
        let body = ("application/merge-patch+json", serde_json::to_vec(patch)?);
        let response = self.send(Method::PATCH, path, Some(body)).await?;
        json(response).await
    }

    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        let response = self.send(Method::DELETE, path, None).await?;
        json(response).await
    }

    /// Deletes the object of this identity, and no other one that has got its name meanwhile.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub(crate) async fn delete_exactly(&self, path: &str, uid: &str) -> anyhow::Result<Value> {
        let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid } });
        let body = ("application/json", serde_json::to_vec(&options)?);
        json(self.send(Method::DELETE, path, Some(body)).await?).await
    }

    /// Starts a download: returns the length, if it is known, and the bytes as they come.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub async fn download(
        &self,
        path: &str,
    ) -> anyhow::Result<(Option<u64>, impl Stream<Item = reqwest::Result<Bytes>> + use<>)> {
        let response = self.send(Method::GET, path, None).await?;
        Ok((response.content_length(), response.bytes_stream()))
    }

    /// Streams the events of a watch, each as `{type, object}`; ends when the appliance closes it.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub async fn watch(&self, path: &str) -> anyhow::Result<impl Stream<Item = anyhow::Result<Value>> + use<>> {
        let response = self.send(Method::GET, &watched(path), None).await?;
        Ok(lines(response.bytes_stream()))
    }

    /// Streams the events of a watch as [`Self::watch`] does. `as_table` asks for rows of a table in place of objects.
    ///
    /// # Errors
    /// When the appliance does not answer, or refuses.
    pub(crate) async fn watch_as(&self, path: &str, as_table: bool) -> anyhow::Result<WatchEvents> {
        let mut request = self.request(Method::GET, &watched(path), None);
        if as_table {
            request = request.header("accept", TABLE);
        }
        let response = self.answered(request, HEAD_TIMEOUT).await?;
        Ok(Box::pin(lines(response.bytes_stream())))
    }
}

/// The events of a watch.
pub(crate) type WatchEvents = Pin<Box<dyn Stream<Item = anyhow::Result<Value>> + Send>>;

fn watched(path: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}watch=true")
}

/// Joins a path and its query; an empty query is left out.
pub(crate) fn with_query(path: &str, query: &[(&str, String)]) -> String {
    let pairs: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// Escapes a value of a query, byte by byte.
fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let bytes = text.bytes();
    bytes.map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn head_within(path: &str) -> Duration {
    if WORK_PATHS.contains(&path) { WORK_TIMEOUT } else { HEAD_TIMEOUT }
}

async fn json(response: reqwest::Response) -> anyhow::Result<Value> {
    let body = bounded(response, ANSWER_BYTES_MAX).await?;
    serde_json::from_slice(&body).context("could not read the appliance's answer")
}

/// Reads a whole body, up to a limit that no answer of the appliance reaches.
async fn bounded(mut response: reqwest::Response, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.context("could not read the appliance's answer")? {
        if body.len() + chunk.len() > bytes_max {
            bail!(
                "the server's answer has more than {} MiB, which no answer of an appliance has: check the address in \
                 the kubeconfig, or ask for one namespace at a time",
                bytes_max >> 20
            );
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Says whether another client changed the object since it was read.
pub(crate) fn is_conflict(error: &anyhow::Error) -> bool {
    code_of(error) == Some(409)
}

/// The HTTP status behind an error of this module.
pub(crate) fn code_of(error: &anyhow::Error) -> Option<u16> {
    error.downcast_ref::<ApiError>().map(|error| error.code)
}

/// The innermost cause of a failed request, which says what happened; the outer ones repeat the address.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    let text = text.split_once(" (os error").map_or(text.as_str(), |(text, _)| text);
    let mut letters = text.chars();
    // The words of the system begin in upper case; others, such as "TLS", may be names.
    match letters.next() {
        Some(first) if letters.as_str().starts_with(char::is_lowercase) => {
            format!("{}{}", first.to_lowercase(), letters.as_str())
        }
        _ => text.to_owned(),
    }
}

fn tls(access: &ApplianceAccess) -> anyhow::Result<rustls::ClientConfig> {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&access.authority) {
        roots
            .add(certificate.context("could not read the CA in the kubeconfig")?)
            .context("could not use the CA in the kubeconfig")?;
    }
    let builder =
        rustls::ClientConfig::builder_with_provider(std::sync::Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .context("could not choose TLS versions")?
            .with_root_certificates(roots);
    let Some(ClientCertificate { chain, key }) = &access.certificate else { return Ok(builder.with_no_client_auth()) };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let key = PrivateKeyDer::from_pem_slice(key).context("could not read the key in the kubeconfig")?;
    builder
        .with_client_auth_cert(chain.context("could not read the certificate in the kubeconfig")?, key)
        .context("could not use the certificate in the kubeconfig")
}

fn lines(
    chunks: impl Stream<Item = reqwest::Result<Bytes>> + Unpin + Send + 'static,
) -> impl Stream<Item = anyhow::Result<Value>> {
    futures_util::stream::try_unfold((chunks, Vec::<u8>::new()), |(mut chunks, mut buffer)| async move {
        loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let rest = buffer.split_off(end + 1);
                let line = std::mem::replace(&mut buffer, rest);
                let value = serde_json::from_slice(&line).context("could not read a watch event")?;
                return Ok(Some((value, (chunks, buffer))));
            }
            match chunks.next().await {
                None => return Ok(None),
                Some(chunk) => buffer.extend_from_slice(&chunk.context("could not read the watch")?),
            }
            if buffer.len() > LINE_BYTES_MAX {
                bail!("the appliance sent a watch event of more than {LINE_BYTES_MAX} bytes");
            }
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_query_keeps_selectors_as_they_are() {
        assert_eq!(with_query("/p", &[]), "/p");
        let query = [("labelSelector", "a in (b,c)".to_owned()), ("limit", "5".to_owned())];
        assert_eq!(with_query("/p", &query), "/p?labelSelector=a%20in%20%28b%2Cc%29&limit=5");
        assert_eq!((watched("/p"), watched("/p?a=b")), ("/p?watch=true".to_owned(), "/p?a=b&watch=true".to_owned()));
    }

    #[test]
    fn a_failed_request_says_its_innermost_cause() {
        let refused = std::io::Error::from_raw_os_error(111);
        assert_eq!(innermost(&refused), "connection refused");
        assert_eq!(innermost(&std::io::Error::other("TLS is broken")), "TLS is broken");
    }

    /// A backup of a large database on a slow disk was given up while it was made.
    #[test]
    fn what_copies_the_database_is_waited_for() {
        for path in [firesteel_appliance::backup::serve::BACKUP_PATH, "/firesteel.dev/rekey"] {
            assert_eq!(head_within(path), WORK_TIMEOUT, "{path}");
        }
        assert_eq!(head_within("/api/v1/namespaces"), HEAD_TIMEOUT);
    }

    /// A server that sent more than was asked for filled the client's memory.
    #[tokio::test]
    async fn an_answer_without_end_is_cut_off() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            while stream.write_all(&[b' '; 4096]).await.is_ok() {}
        });
        // Another test may have installed one.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let response = client.get(format!("http://{address}/")).send().await.unwrap();
        let error = bounded(response, 1 << 20).await.unwrap_err().to_string();
        assert!(error.contains("more than 1 MiB"), "{error}");
        server.await.unwrap();
    }
}
