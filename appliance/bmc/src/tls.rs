//! How a BMC's certificate is judged.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::Error;

/// Trust for one BMC.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The CAs that may have signed the BMC's certificate.
    pub authorities: Vec<CertificateDer<'static>>,
    /// `bmc.disableCertificateVerification`: any certificate is taken. Whoever can put himself between appliance
    /// and BMC then reads the password.
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

/// Takes every certificate, but still checks that the peer holds its key.
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
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
