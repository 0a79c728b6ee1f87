//! TLS over a stream that was dialled.

use std::{sync::Arc, time::Duration};

use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::error::DialError;

/// A handshake with the longest chains of certificates in use has some 20 kB.
pub const HANDSHAKE_BYTES_MAX: u64 = 256 << 10;

/// Makes TLS of a stream to this host.
///
/// # Errors
/// When the handshake fails, or does not end in time.
pub async fn with_tls<S>(
    stream: S,
    host: &str,
    config: Arc<ClientConfig>,
    within: Duration,
) -> Result<TlsStream<S>, DialError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let name = ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']').to_owned());
    let name = name.map_err(|_| DialError::TlsName { host: host.to_owned() })?;
    match timeout(within, TlsConnector::from(config).connect(name, stream)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(source)) => Err(DialError::Tls { to: host.to_owned(), source }),
        Err(_) => Err(DialError::Late { to: format!("TLS of {host}"), within }),
    }
}

/// Trusts the CAs of this system, for servers of the web. Where there are none, no certificate is good.
pub(crate) fn web_config() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = || ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    match builder()?.with_platform_verifier() {
        Ok(builder) => Ok(builder.with_no_client_auth()),
        Err(error) => {
            tracing::warn!(%error, "could not read this system's CAs: nothing is fetched by https; install them");
            Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
        }
    }
}
