//! How a BMC's certificate is judged, and what is said where no connection comes of it.

mod key;
mod legacy_tls;

use std::sync::Arc;

use firesteel_dial::Dialer;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use url::Url;

use crate::error::{Error, plain_text};

/// Trust for one BMC.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The CAs that may have signed the BMC's certificate.
    pub authorities: Vec<CertificateDer<'static>>,
    /// `bmc.disableCertificateVerification`: any certificate is taken. A machine between appliance and BMC can then
    /// read the password.
    pub is_verification_disabled: bool,
}

pub(crate) fn client_config(tls: &Tls) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls { detail: error.to_string() })?;
    if tls.is_verification_disabled {
        let verifier = Arc::new(AnyCertificate { provider });
        return Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
    }
    let mut roots = RootCertStore::empty();
    for authority in &tls.authorities {
        roots
            .add(authority.clone())
            .map_err(|error| Error::Tls { detail: format!("a given CA is not usable: {error}") })?;
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Why a handshake ended, for people: a certificate that was not verified, TLS that is too old, or what else.
pub(crate) async fn refusal(error: &rustls::Error, dialer: &Dialer, origin: &Url, is_unverified: bool) -> Error {
    let detail = plain_text(&error.to_string());
    if matches!(error, rustls::Error::InvalidCertificate(_)) && !is_unverified {
        return Error::Tls { detail };
    }
    let has_nothing_in_common = matches!(error, rustls::Error::AlertReceived(_) | rustls::Error::PeerIncompatible(_));
    match if has_nothing_in_common { legacy_tls::offer(dialer, origin).await } else { None } {
        Some(offer) => Error::TlsTooOld { offer },
        None => Error::TlsFailed { detail },
    }
}

/// Explains a connection that the BMC ended without an alert. `None` means that its TLS is not the reason.
pub(crate) async fn broken_off(dialer: &Dialer, origin: &Url) -> Option<Error> {
    legacy_tls::offer(dialer, origin).await.map(|offer| Error::TlsTooOld { offer })
}

/// Takes every certificate, but still checks that the peer holds its key, whichever key it is.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        held(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        held(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Reads `bytes` as a certificate, and as the beginning of a server's answer: an entry for fuzzing.
pub(crate) fn check(bytes: &[u8]) {
    if let Ok(key) = key::of_certificate(bytes) {
        let schemes = [SignatureScheme::RSA_PSS_SHA256, SignatureScheme::ECDSA_NISTP256_SHA256];
        assert!(schemes.into_iter().all(|scheme| key.verify(scheme, b"a handshake", bytes).is_err()));
    }
    legacy_tls::check(bytes);
}

/// Checks that the peer signed the handshake with the key in its certificate.
fn held(
    message: &[u8],
    cert: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    key::of_certificate(cert)?.verify(dss.scheme, message, dss.signature())?;
    Ok(HandshakeSignatureValid::assertion())
}
