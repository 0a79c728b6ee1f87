//! A client of the API with next to no cost of its own: one connection, one request at a time, no JSON.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use firesteel_kube::yaml;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Where the API is, and who asks.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    tls: TlsConnector,
    token: Option<HeaderValue>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// From a kubeconfig with a token or a client certificate.
    pub(crate) fn of(kubeconfig: &[u8], address: SocketAddr) -> Result<Self> {
        let config: Value = yaml::read(kubeconfig).context("reading the kubeconfig")?;
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let pem =
            |value: &Value| STANDARD.decode(value.as_str().unwrap_or_default()).context("the kubeconfig's base64");
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem(&cluster["certificate-authority-data"])?) {
            roots.add(certificate.context("the kubeconfig's CA")?)?;
        }
        let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
        let config = if user["client-certificate-data"].is_string() {
            let own = pem(&user["client-certificate-data"])?;
            let chain = CertificateDer::pem_slice_iter(&own).collect::<Result<Vec<_>, _>>()?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&pem(&user["client-key-data"])?)?)?
        } else {
            builder.with_no_client_auth()
        };
        let token =
            user["token"].as_str().map(|token| HeaderValue::from_str(&format!("Bearer {token}"))).transpose()?;
        Ok(Self { address, tls: TlsConnector::from(Arc::new(config)), token })
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await.context("connecting to the API")?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = self.tls.connect(name, stream).await.context("the TLS handshake")?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.context("beginning HTTP")?;
        // Ends with the sender.
        tokio::spawn(connection);
        Ok(Connection { sender, endpoint: self.clone() })
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    endpoint: Endpoint,
}

impl Connection {
    /// Asks, and gives the answer's body, which is not read yet.
    pub(crate) async fn open(&mut self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Incoming)> {
        self.sender.ready().await.context("the connection ended")?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.endpoint.address.to_string())
            .header(header::USER_AGENT, "api-bench")
            .header(header::ACCEPT, "application/json");
        if let Some(token) = &self.endpoint.token {
            request = request.header(header::AUTHORIZATION, token);
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let answer = self.sender.send_request(request.body(Full::new(body))?).await.context("asking the API")?;
        Ok((answer.status(), answer.into_body()))
    }

    /// Asks and reads the answer; anything but success is an error.
    pub(crate) async fn ask(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let (status, body) = self.open(method.clone(), path, body).await?;
        let bytes = body.collect().await.context("reading the answer")?.to_bytes();
        ensure!(status.is_success(), "{method} {path}: {status}: {}", String::from_utf8_lossy(&bytes));
        Ok(bytes)
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Bytes> {
        self.ask(Method::GET, path, Bytes::new()).await
    }
}
