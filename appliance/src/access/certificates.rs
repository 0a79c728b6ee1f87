//! Client certificates: an own CA, which signs what a user sends it, and knows its own again.
//!
//! The name of the subject is the user's, its organisations are his groups, and its uid is that of the grant
//! through which it was made: with the grant the certificate ends, and another grant of the same name does
//! not bring it back. A certificate that is not good is no reason to end the handshake: the request that
//! comes over it is told so (401), as by Kubernetes.

use std::{
    fmt,
    sync::{Arc, OnceLock, PoisonError, RwLock},
    time::Duration,
};

use anyhow::Context as _;
use firesteel_kube::{Caller, access::AUTHENTICATED};
use jiff::Timestamp;
use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::{
    DigitallySignedStruct, DistinguishedName as Hint, Error as TlsError, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime, pem::PemObject as _},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::serve::{data_dir::DataDir, pki};

/// The attribute of a subject in which Kubernetes has a user's uid.
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];
const UID_TEXT: &str = "1.3.6.1.4.1.57683.2";
/// The same clock skew that the server's own certificate allows.
const BACKDATE: Duration = Duration::from_secs(48 * 3600);

/// Signs clients' certificates, and judges them.
pub struct ClientCa(RwLock<Arc<ClientCaState>>);

/// The CA as it is now; its key stays.
struct ClientCaState {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    judge: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for ClientCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCa")
    }
}

/// What a client showed on its connection; judged once.
#[derive(Debug)]
pub struct PeerCertificate {
    der: CertificateDer<'static>,
    judged: OnceLock<Option<CertifiedCaller>>,
}

impl PeerCertificate {
    #[must_use]
    pub fn new(der: CertificateDer<'static>) -> Self {
        Self { der, judged: OnceLock::new() }
    }
}

/// Whom a certificate of ours speaks for.
#[derive(Debug)]
struct CertifiedCaller {
    caller: Caller,
    begins: Timestamp,
}

/// Whom a certificate is made for.
#[derive(Clone, Copy, Debug)]
pub struct CertificateSubject<'a> {
    pub name: &'a str,
    pub groups: &'a [String],
    pub uid: &'a str,
}

impl ClientCa {
    /// Loads or makes the CA.
    ///
    /// # Errors
    /// When a file can be neither read nor written, or does not hold what it should.
    pub fn open(data: &DataDir, now: Timestamp) -> anyhow::Result<Self> {
        Ok(Self(RwLock::new(Arc::new(Self::load_client_ca(data, now)?))))
    }

    /// Makes the CA's certificate anew where it is near its end. Certificates that it signed stay good, and handshakes
    /// ask for the same name.
    ///
    /// # Errors
    /// As [`ClientCa::open`]; the CA of before stays.
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
            .add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).context("reading the client CA")?)
            .context("using the client CA")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let judge = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .context("preparing the verification of client certificates")?;
        Ok(ClientCaState { pem: ca.pem, issuer: ca.issuer, judge })
    }

    /// What TLS needs to ask clients for a certificate, and to go on without one.
    #[must_use]
    pub fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(AnyClientVerifier(Arc::clone(&self.now().judge)))
    }

    /// Signs a request (PKCS #10 in PEM), of which nothing but the key counts.
    ///
    /// # Errors
    /// When the request cannot be read, is not signed by its own key, or has a key of a kind that is not used.
    pub fn sign(
        &self,
        request: &str,
        subject: CertificateSubject<'_>,
        now: Timestamp,
        until: Timestamp,
    ) -> anyhow::Result<String> {
        let mut request =
            CertificateSigningRequestParams::from_pem(request).context("it is no certificate request in PEM")?;
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
        Ok(request.signed_by(&self.now().issuer).context("signing the certificate")?.pem())
    }

    /// Whom a shown certificate speaks for, if it is one of ours and good now.
    #[must_use]
    pub fn caller(&self, peer: &PeerCertificate, now: Timestamp) -> Option<Caller> {
        let identity = peer.judged.get_or_init(|| self.judge(&peer.der, now)).as_ref()?;
        let good = identity.begins <= now && identity.caller.until.is_some_and(|until| now < until);
        good.then(|| identity.caller.clone())
    }

    fn judge(&self, der: &CertificateDer<'_>, now: Timestamp) -> Option<CertifiedCaller> {
        let seconds = Duration::from_secs(u64::try_from(now.as_second()).ok()?);
        if let Err(error) = self.now().judge.verify_client_cert(der, &[], UnixTime::since_unix_epoch(seconds)) {
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

/// Lets every certificate through the handshake, if the client has its key.
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
        // Judged by ClientCa::caller, before any request is answered.
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
