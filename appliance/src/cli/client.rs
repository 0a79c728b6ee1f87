//! Talks to the appliance's API as any Kubernetes client would.

mod refusal;
mod warning;
mod writes;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use firesteel_kube::{Cause, yaml};
use futures_util::{Stream, StreamExt as _};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;

pub(crate) use writes::PatchedObject;

use super::ConnectionOptions;
use crate::text_file::{self, TEXT_FILE_BYTES_MAX};

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

/// Kubernetes' reason for an object that exists and cannot be read.
const UNREADABLE: &str = "StorageReadError";

/// The part of a kubeconfig that the appliance writes.
#[derive(Debug, Deserialize)]
struct Kubeconfig {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
    #[serde(default)]
    contexts: Vec<NamedContext>,
    #[serde(default, rename = "current-context")]
    current_context: String,
}

#[derive(Debug, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Clone, Debug, Deserialize)]
struct Cluster {
    server: String,
    #[serde(rename = "certificate-authority-data")]
    certificate_authority_data: String,
}

#[derive(Debug, Deserialize)]
struct NamedUser {
    name: String,
    user: KubeconfigUser,
}

/// A token, or a certificate with its key.
#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct KubeconfigUser {
    token: String,
    client_certificate_data: String,
    client_key_data: String,
}

impl std::fmt::Debug for KubeconfigUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KubeconfigUser(…)")
    }
}

#[derive(Debug, Deserialize)]
struct NamedContext {
    name: String,
    context: KubeconfigContext,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct KubeconfigContext {
    cluster: String,
    user: String,
    namespace: String,
}

impl Kubeconfig {
    /// Returns the current context's parts, or the first ones if no context is named.
    fn chosen(self) -> anyhow::Result<(Cluster, KubeconfigUser, String)> {
        let current = self.contexts.into_iter().find(|context| context.name == self.current_context);
        let context = current.map(|context| context.context).unwrap_or_default();
        let is = |name: &str, wanted: &str| wanted.is_empty() || name == wanted;
        let cluster = self.clusters.into_iter().find(|cluster| is(&cluster.name, &context.cluster));
        let user = self.users.into_iter().find(|user| is(&user.name, &context.user));
        let cluster = cluster.context("the kubeconfig names no cluster")?.cluster;
        Ok((cluster, user.context("the kubeconfig names no user")?.user, context.namespace))
    }
}

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

/// Tells whether the object exists and cannot be read.
pub(super) fn is_unreadable(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ApiError>().is_some_and(|error| error.reason == UNREADABLE)
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
    /// Reads the kubeconfig and prepares a connection.
    ///
    /// # Errors
    /// When the file is missing or does not hold an address, a CA and a token.
    pub fn open(connection: &ConnectionOptions) -> anyhow::Result<Self> {
        let path = match &connection.kubeconfig {
            Some(path) => path.clone(),
            None => {
                let data = std::env::var_os("FIRESTEEL_DATA")
                    .context("where is the appliance? give --kubeconfig FILE, or set FIRESTEEL_DATA to its folder")?;
                PathBuf::from(data).join("admin.kubeconfig")
            }
        };
        let text = text_file::read(&path, TEXT_FILE_BYTES_MAX)?;
        let config: Kubeconfig =
            yaml::read(text.as_bytes()).with_context(|| format!("could not read {}", path.display()))?;
        let (cluster, user, namespace) = config.chosen()?;
        let ca = STANDARD
            .decode(cluster.certificate_authority_data.as_bytes())
            .context("certificate-authority-data is not base64")?;
        let http = reqwest::Client::builder()
            .user_agent(concat!("firesteel-cli/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls(&ca, &user)?)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .context("could not prepare HTTPS")?;
        let namespace = connection.namespace.clone().or(Some(namespace).filter(|namespace| !namespace.is_empty()));
        Ok(Self {
            http,
            server: cluster.server.trim_end_matches('/').to_owned(),
            authority: cluster.certificate_authority_data,
            token: user.token,
            namespace: namespace.unwrap_or_else(|| "default".to_owned()),
            warned: warning::PrintedWarnings::default(),
        })
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
        let sent = sent.map_err(|_| {
            anyhow::anyhow!("{} does not answer within {} s: see its log", self.server, within.as_secs())
        })?;
        let response = sent.with_context(|| format!("could not ask the appliance at {}", self.server))?;
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
        const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
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
        let separator = if path.contains('?') { '&' } else { '?' };
        let response = self.send(Method::GET, &format!("{path}{separator}watch=true"), None).await?;
        Ok(lines(response.bytes_stream()))
    }
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

/// The HTTP status behind an error of this module.
pub(crate) fn code_of(error: &anyhow::Error) -> Option<u16> {
    error.downcast_ref::<ApiError>().map(|error| error.code)
}

fn tls(ca_pem: &[u8], user: &KubeconfigUser) -> anyhow::Result<rustls::ClientConfig> {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem) {
        roots
            .add(certificate.context("could not read the CA in the kubeconfig")?)
            .context("could not use the CA in the kubeconfig")?;
    }
    let builder =
        rustls::ClientConfig::builder_with_provider(std::sync::Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .context("could not choose TLS versions")?
            .with_root_certificates(roots);
    if user.client_certificate_data.is_empty() {
        return Ok(builder.with_no_client_auth());
    }
    let pem = |text: &str, what: &str| {
        STANDARD.decode(text.as_bytes()).with_context(|| format!("the kubeconfig's {what} is not base64"))
    };
    let chain = pem(&user.client_certificate_data, "client-certificate-data")?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
    let key = PrivateKeyDer::from_pem_slice(&pem(&user.client_key_data, "client-key-data")?)
        .context("could not read the key in the kubeconfig")?;
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

    /// A backup of a large database on a slow disk was given up while it was made.
    #[test]
    fn what_copies_the_database_is_waited_for() {
        for path in [crate::backup::serve::BACKUP_PATH, "/firesteel.dev/rekey"] {
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
