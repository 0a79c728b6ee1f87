//! TLS to one appliance, known by its key and by nothing else.
//!
//! A bare server's clock may be wrong by years and its ramdisk knows no authorities, so neither
//! validity dates nor names nor issuers are looked at: the sha256 of the key that the appliance
//! shows (RFC 7469 section 2.4) must equal the pin of the seed, and the handshake must be signed
//! with that key. TLS 1.3 only.

use std::sync::Arc;

use anyhow::Context;
use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

#[derive(Debug)]
struct PinnedKey {
    sha256: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = webpki::EndEntityCert::try_from(end_entity)
            .map_err(|error| Error::General(format!("the appliance's certificate cannot be read: {error}")))?;
        let shown = digest(&SHA256, certificate.subject_public_key_info().as_ref());
        if shown.as_ref() == self.sha256 {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::General(format!(
            "the server has the key {}, but the boot script pins {}: it is not our appliance",
            hex::encode(shown.as_ref()),
            hex::encode(self.sha256)
        )))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A client configuration that talks to the holder of this key only.
pub fn pinned_client_config(pin_sha256: &str) -> anyhow::Result<ClientConfig> {
    let mut sha256 = [0; 32];
    hex::decode_to_slice(pin_sha256, &mut sha256).context("reading the pin: not 64 hexadecimal digits")?;
    let provider = Arc::new(provider::default_provider());
    let verifier = Arc::new(PinnedKey { sha256, provider: Arc::clone(&provider) });
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .context("setting up TLS 1.3")?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(config)
}
