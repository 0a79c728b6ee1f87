//! The server's certificate, and TLS that changes it without a restart.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::{CertificateRecord, authority::AuthorityBook, set_validity};
use crate::serve::data_dir::DataDir;

const SERVER_DAYS: i64 = 365;
/// The beginning of each server certificate: the year 2000. The clock here may be wrong, and so may a client's; neither
/// is a reason to refuse the pinned key.
const BEGINS: Timestamp = Timestamp::constant(946_684_800, 0);
/// A clock that was set back by less does not require another certificate.
const SLACK: SignedDuration = SignedDuration::from_hours(24);

/// The names and addresses of the server.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    pub addresses: Vec<IpAddr>,
    /// The DNS names besides `localhost`.
    pub names: Vec<String>,
}

impl ServerNames {
    /// Returns the names with one address more.
    pub(super) fn with_address(&self, address: Option<IpAddr>) -> Self {
        let addresses = self.addresses.iter().copied().chain(address).collect();
        Self { addresses, names: self.names.clone() }
    }

    fn sorted(&self) -> Self {
        let (mut addresses, mut names) = (self.addresses.clone(), self.names.clone());
        addresses.sort_unstable();
        addresses.dedup();
        names.sort_unstable();
        names.dedup();
        Self { addresses, names }
    }
}

/// The certificate that every handshake uses; open connections keep theirs.
#[derive(Debug)]
pub(super) struct Reloaded(RwLock<Arc<CertifiedKey>>);

impl Reloaded {
    pub(super) fn new(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> anyhow::Result<Self> {
        Ok(Self(RwLock::new(Arc::new(certified(chain, key)?))))
    }

    /// Uses another chain of the same key from now on.
    pub(super) fn set(&self, chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> anyhow::Result<()> {
        let certified = Arc::new(certified(chain, key)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certified;
        Ok(())
    }
}

impl ResolvesServerCert for Reloaded {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn certified(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> anyhow::Result<CertifiedKey> {
    let private = PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|reason| anyhow::anyhow!("could not read the server's key: {reason}"))?;
    CertifiedKey::from_der(chain, private, &rustls::crypto::ring::default_provider())
        .context("could not load the server certificate")
}

/// Returns the server's certificate and the chain to a CA; makes another one if the stored one does not fit.
pub(super) fn chain(
    data: &DataDir,
    names: &ServerNames,
    now: Timestamp,
    book: &AuthorityBook,
    server_key: &KeyPair,
) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let ServerNames { addresses, names } = names.sorted();
    let wanted = CertificateRecord {
        addresses,
        names,
        issuer: book.current.fingerprint(),
        not_before: BEGINS,
        not_after: now + SignedDuration::from_hours(24 * SERVER_DAYS),
    };
    // A certificate that ends too late was made when the clock was ahead.
    let is_good =
        |made: CertificateRecord| made.is_for(&wanted) && made.fits(now) && made.not_after <= wanted.not_after + SLACK;
    let fits =
        CertificateRecord::read(data, "pki/server.json").is_some_and(is_good) && data.path("pki/server.crt").exists();
    if !fits {
        let dns = ["localhost".to_owned()].into_iter().chain(wanted.names.iter().cloned());
        let mut params = CertificateParams::new(dns.collect::<Vec<_>>()).context("could not name the server")?;
        params.subject_alt_names.extend(wanted.addresses.iter().copied().map(SanType::IpAddress));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "Firesteel appliance");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, &wanted)?;
        let issuer = book.current.issuer(data)?;
        let certificate = params.signed_by(server_key, &issuer).context("could not sign the server certificate")?;
        data.write("pki/server.crt", certificate.pem().as_bytes())?;
        data.write("pki/server.json", &serde_json::to_vec(&wanted)?)?;
    }
    let leaf = certificate(&data.read_text("pki/server.crt")?).context("could not read pki/server.crt")?;
    let above = book.crossed(data)?.unwrap_or_else(|| book.current.pem.clone());
    Ok(vec![leaf, certificate(&above).context("could not read a CA of ours")?])
}

fn certificate(pem: &str) -> anyhow::Result<CertificateDer<'static>> {
    Ok(CertificateDer::from_pem_slice(pem.as_bytes())?)
}
