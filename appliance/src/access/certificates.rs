//! Client certificates: the appliance's own CA, which signs the requests of users and recognises its certificates.
//!
//! The subject names the user, its organisations are the user's groups, and its uid is that of the grant through which
//! it was made: the certificate ends with that grant, and another grant of the same name does not revive it. A bad
//! certificate does not end the handshake: each request over the connection is answered with 401, as in Kubernetes.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use firesteel_kube::{Caller, access::AUTHENTICATED};
use jiff::Timestamp;
use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName as Hint, Error as TlsError, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::serve::{data_dir::DataDir, pki};

/// The attribute of a subject in which Kubernetes keeps a user's uid.
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];
const UID_TEXT: &str = "1.3.6.1.4.1.57683.2";
/// Clients' clocks may be this far behind; the server's own certificate allows the same skew.
const BACKDATE: Duration = Duration::from_secs(48 * 3600);

/// Signs clients' certificates and verifies them.
pub struct ClientCa(RwLock<Arc<ClientCaState>>);

/// The CA as it is now; its key stays.
struct ClientCaState {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for ClientCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCa")
    }
}

/// The certificate that a client showed on its connection; verified once.
#[derive(Debug)]
pub struct PeerCertificate {
    der: CertificateDer<'static>,
    verified: OnceLock<Option<CertifiedCaller>>,
}

impl PeerCertificate {
    #[must_use]
    pub fn new(der: CertificateDer<'static>) -> Self {
        Self { der, verified: OnceLock::new() }
    }
}

/// The user that one of our certificates speaks for.
#[derive(Debug)]
struct CertifiedCaller {
    caller: Caller,
    begins: Timestamp,
}

/// The user for whom a certificate is made.
#[derive(Clone, Copy, Debug)]
pub struct CertificateSubject<'a> {
    pub name: &'a str,
    pub groups: &'a [String],
    pub uid: &'a str,
}

impl ClientCa {
    /// Loads the CA, or makes it if there is none.
    ///
    /// # Errors
    /// When a file can be neither read nor written, or does not hold what it should.
    pub fn open(data: &DataDir, now: Timestamp) -> anyhow::Result<Self> {
        Ok(Self(RwLock::new(Arc::new(Self::load_client_ca(data, now)?))))
    }

    /// Renews the CA's certificate if it is near its end. Certificates that it signed stay valid, and handshakes still
    /// ask for the same name.
    ///
    /// # Errors
    /// As [`ClientCa::open`]; the CA then stays as it was.
    pub fn renew(&self, data: &DataDir, now: Timestamp) -> anyhow::Result<()> {
        let made = Self::load_client_ca(data, now)?;
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if held.pem != made.pem {
            *held = Arc::new(made);
        }
        Ok(())
    }

    fn now(&self) -> Arc<ClientCaState> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn load_client_ca(data: &DataDir, now: Timestamp) -> anyhow::Result<ClientCaState> {
        let ca = pki::authority(data, "client-ca", "Firesteel client CA", now)?;
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).context("could not read the client CA")?)
            .context("could not use the client CA")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .context("could not prepare the verification of client certificates")?;
        Ok(ClientCaState { pem: ca.pem, issuer: ca.issuer, verifier })
    }

    /// Returns what TLS needs to ask clients for a certificate, and to go on if they send none.
    #[must_use]
    pub fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(AnyClientVerifier(Arc::clone(&self.now().verifier)))
    }

    /// Signs a request (PKCS #10 in PEM). Only its key is used.
    ///
    /// # Errors
    /// When the request cannot be read, is not signed by its own key, or has a key of an unsupported kind.
    pub fn sign(
        &self,
        request: &str,
        subject: CertificateSubject<'_>,
        now: Timestamp,
        until: Timestamp,
    ) -> anyhow::Result<String> {
        let mut request =
            CertificateSigningRequestParams::from_pem(request).context("it is not a certificate request in PEM")?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject.name);
        for group in subject.groups {
            params.distinguished_name.push(DnType::OrganizationName, group.as_str());
        }
        params.distinguished_name.push(DnType::CustomDnType(UID.to_vec()), subject.uid);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let at = |at: Timestamp| epoch + Duration::from_secs(u64::try_from(at.as_second()).unwrap_or_default());
        params.not_before = at(now) - BACKDATE;
        params.not_after = at(until);
        request.params = params;
        Ok(request.signed_by(&self.now().issuer).context("could not sign the certificate")?.pem())
    }

    /// Returns the user of a certificate, if this CA signed it and it is valid now.
    #[must_use]
    pub fn caller(&self, peer: &PeerCertificate, now: Timestamp) -> Option<Caller> {
        let identity = peer.verified.get_or_init(|| self.verify(&peer.der, now)).as_ref()?;
        let good = identity.begins <= now && identity.caller.until.is_some_and(|until| now < until);
        good.then(|| identity.caller.clone())
    }

    fn verify(&self, der: &CertificateDer<'_>, now: Timestamp) -> Option<CertifiedCaller> {
        let seconds = Duration::from_secs(u64::try_from(now.as_second()).ok()?);
        if let Err(error) = self.now().verifier.verify_client_cert(der, &[], UnixTime::since_unix_epoch(seconds)) {
            tracing::debug!(%error, "a client certificate is not good");
            return None;
        }
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let (mut caller, mut groups) = (Caller::default(), Vec::new());
        for attribute in certificate.subject().iter_attributes() {
            let text = attribute.as_str().ok()?.to_owned();
            match attribute.attr_type().to_id_string().as_str() {
                "2.5.4.3" => caller.name = text,
                "2.5.4.10" => groups.push(text),
                UID_TEXT => caller.uid = text,
                _ => {}
            }
        }
        groups.push(AUTHENTICATED.to_owned());
        let at = |seconds: i64| Timestamp::from_second(seconds).ok();
        let validity = certificate.validity();
        caller.groups = groups;
        caller.until = Some(at(validity.not_after.timestamp())?);
        caller.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![super::fingerprint(der)]);
        let known = !caller.name.is_empty() && !caller.uid.is_empty();
        known.then_some(CertifiedCaller { caller, begins: at(validity.not_before.timestamp())? })
    }
}

/// Accepts every certificate during the handshake, if the client has its key.
#[derive(Debug)]
struct AnyClientVerifier(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[Hint] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        // ClientCa::caller verifies it before any request is answered.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use jiff::SignedDuration;

    use super::*;

    fn shown(pem: &str) -> PeerCertificate {
        PeerCertificate::new(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
    }

    #[test]
    fn a_certificate_speaks_for_its_subject_while_it_is_good() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let ca = ClientCa::open(&DataDir::open(folder.path()).unwrap(), now).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut wish = CertificateParams::default();
        wish.distinguished_name.push(DnType::CommonName, "admin");
        wish.distinguished_name.push(DnType::OrganizationName, "system:masters");
        let request = wish.serialize_request(&key).unwrap().pem().unwrap();
        let groups = ["racks".to_owned()];
        let subject = CertificateSubject { name: "ann", groups: &groups, uid: "u-1" };
        let until = now + SignedDuration::from_secs(600);
        let pem = ca.sign(&request, subject, now, until).unwrap();
        let caller = ca.caller(&shown(&pem), now).unwrap();
        assert_eq!((caller.name.as_str(), caller.uid.as_str()), ("ann", "u-1"), "not what the request wished");
        assert_eq!(caller.groups, ["racks", "system:authenticated"]);
        assert_eq!(caller.until, Some(until));

        let kept = shown(&pem);
        assert!(ca.caller(&kept, until - SignedDuration::from_secs(1)).is_some());
        assert!(ca.caller(&kept, until).is_none(), "a connection that is kept does not outlast it");
        assert!(ca.caller(&shown(&pem), until + SignedDuration::from_secs(1)).is_none());

        let other_folder = tempfile::tempdir().unwrap();
        let other = ClientCa::open(&DataDir::open(other_folder.path()).unwrap(), now).unwrap();
        assert!(other.caller(&shown(&pem), now).is_none(), "of another CA");
        let again = ClientCa::open(&DataDir::open(folder.path()).unwrap(), now).unwrap();
        assert!(again.caller(&shown(&pem), now).is_some(), "after a restart");
        assert!(ca.sign("-----BEGIN X-----", subject, now, until).is_err());
    }
}
