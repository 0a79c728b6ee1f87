//! The server's certificate, and TLS that takes another one without a restart.

use std::{
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::{CertificateRecord, authority::AuthorityBook, set_validity};
use crate::serve::data_dir::DataDir;

const SERVER_DAYS: i64 = 365;
/// When each certificate of the server begins: in 2000. The clock here may be wrong, and so may that of a client;
/// neither is a reason to refuse the one key that it is about.
const BEGINS: Timestamp = Timestamp::constant(946_684_800, 0);
/// A clock that was set back by less is no reason for another certificate.
const SLACK: SignedDuration = SignedDuration::from_hours(24);

/// By what the server is called.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    pub addresses: Vec<IpAddr>,
    /// DNS names beside `localhost`.
    pub names: Vec<String>,
}

impl ServerNames {
    fn sorted(&self) -> Self {
        let (mut addresses, mut names) = (self.addresses.clone(), self.names.clone());
        addresses.sort_unstable();
        addresses.dedup();
        names.sort_unstable();
        names.dedup();
        Self { addresses, names }
    }
}

/// What every handshake takes at its beginning; connections that are there go on.
#[derive(Debug)]
pub(super) struct Reloaded(RwLock<Arc<CertifiedKey>>);

impl Reloaded {
    pub(super) fn new(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> anyhow::Result<Self> {
        Ok(Self(RwLock::new(Arc::new(certified(chain, key)?))))
    }

    /// Another chain of the same key from now on.
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
        .map_err(|reason| anyhow::anyhow!("reading the server's key: {reason}"))?;
    CertifiedKey::from_der(chain, private, &rustls::crypto::ring::default_provider())
        .context("loading the server certificate")
}

/// The server's certificate and what leads to a CA; made anew where the stored one does not fit.
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
    // One that ends too late was made by a clock that was ahead.
    let is_good =
        |made: CertificateRecord| made.is_for(&wanted) && made.fits(now) && made.not_after <= wanted.not_after + SLACK;
    let fits =
        CertificateRecord::read(data, "pki/server.json").is_some_and(is_good) && data.path("pki/server.crt").exists();
    if !fits {
        let dns = ["localhost".to_owned()].into_iter().chain(wanted.names.iter().cloned());
        let mut params = CertificateParams::new(dns.collect::<Vec<_>>()).context("naming the server")?;
        params.subject_alt_names.extend(wanted.addresses.iter().copied().map(SanType::IpAddress));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "Firesteel appliance");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, &wanted)?;
        let issuer = book.current.issuer(data)?;
        let certificate = params.signed_by(server_key, &issuer).context("signing the server certificate")?;
        data.write("pki/server.crt", certificate.pem().as_bytes())?;
        data.write("pki/server.json", &serde_json::to_vec(&wanted)?)?;
    }
    let leaf = certificate(&data.read_text("pki/server.crt")?).context("reading pki/server.crt")?;
    let above = book.crossed(data)?.unwrap_or_else(|| book.current.pem.clone());
    Ok(vec![leaf, certificate(&above).context("reading a CA of ours")?])
}

fn certificate(pem: &str) -> anyhow::Result<CertificateDer<'static>> {
    Ok(CertificateDer::from_pem_slice(pem.as_bytes())?)
}
