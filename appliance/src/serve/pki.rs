//! The appliance's certificates: an own CA made at first start, and one server certificate for all
//! listeners. Those of its clients have a CA of their own (`crate::access::certificates`).
//!
//! The server's *key* stays for good, because agents pin it (`pin_sha256`, RFC 7469 section 2.4) and
//! stubs on disks trust the CA. The certificate is made anew when an address changes or its end
//! is near, and both when the clock says that they are of another time: an appliance whose clock was
//! wrong by years when it first started would otherwise be refused by everybody once it is right.

use std::{net::IpAddr, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp, ToSpan as _, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType,
};
use ring::digest;
use rustls::{
    ConfigBuilder, ServerConfig, WantsVerifier,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::danger::ClientCertVerifier,
};

use super::data_dir::DataDir;

const CA_YEARS: i64 = 10;
const SERVER_DAYS: i64 = 365;
/// Renewed this long before the end, as upstream does (systems.md S0: one year, 30 days).
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Clocks of fresh hosts lag behind; a certificate that begins "now" would be refused by them.
const BACKDATE: SignedDuration = SignedDuration::from_hours(48);

/// Everything that TLS needs.
#[derive(Debug)]
pub struct Pki {
    /// PEM of the CA, for clients and stubs.
    pub ca_pem: String,
    pub ca_file: PathBuf,
    /// sha256 of the server's SubjectPublicKeyInfo, hexadecimal.
    pub pin_sha256: String,
    /// When the certificates in use end. They are renewed at a start, thirty days before.
    pub ends: Vec<(&'static str, Timestamp)>,
    /// TLS 1.2 and 1.3: Ignition, curl, kubectl, agents.
    pub server: Arc<ServerConfig>,
}

impl Pki {
    /// The same listener, which asks clients for a certificate and does without one.
    ///
    /// # Errors
    /// When TLS cannot be prepared.
    pub fn server_for(&self, clients: Arc<dyn ClientCertVerifier>) -> anyhow::Result<Arc<ServerConfig>> {
        let resolver = Arc::clone(&self.server.cert_resolver);
        let mut server = server_config()?.with_client_cert_verifier(clients).with_cert_resolver(resolver);
        server.alpn_protocols.clone_from(&self.server.alpn_protocols);
        Ok(Arc::new(server))
    }
}

/// What a certificate was made for; kept beside it.
#[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct MadeFor {
    /// None for the CA.
    addresses: Vec<IpAddr>,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl MadeFor {
    fn read(data: &DataDir, name: &str) -> Option<Self> {
        serde_json::from_str(&data.read_text(name).ok()?).ok()
    }

    fn fits(&self, addresses: &[IpAddr], now: Timestamp) -> bool {
        self.addresses == addresses && self.not_before <= now && now + RENEW_BEFORE < self.not_after
    }
}

impl Pki {
    /// Loads or makes CA, key and certificate.
    ///
    /// # Errors
    /// When a file can be neither read nor written, or does not hold what it should.
    pub fn open(data: &DataDir, addresses: &[IpAddr], now: Timestamp) -> anyhow::Result<Self> {
        let Authority { pem: ca_pem, issuer } = authority(data, "ca", "Firesteel appliance CA", now)?;
        let ca_file = data.path("pki/ca.crt");
        let server_key = key(data, "pki/server.key")?;
        let pin = digest::digest(&digest::SHA256, &server_key.subject_public_key_info());
        let chain = server_chain(data, addresses, now, &issuer, &server_key, &ca_pem)?;
        let ends = ["server", "ca"].into_iter().zip(&chain).map(|(name, shown)| Ok((name, end(shown)?)));
        let ends = ends.collect::<anyhow::Result<Vec<_>>>()?;
        let private = PrivateKeyDer::try_from(server_key.serialize_der())
            .map_err(|reason| anyhow::anyhow!("reading the server's key: {reason}"))?;
        let mut server = server_config()?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .context("loading the server certificate")?;
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { ca_pem, ca_file, pin_sha256: hex::encode(pin), ends, server: Arc::new(server) })
    }
}

/// When a certificate ends, as it says itself.
fn end(certificate: &CertificateDer<'_>) -> anyhow::Result<Timestamp> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).context("reading a certificate of ours")?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).context("reading a certificate's end")
}

/// TLS 1.2 and 1.3, for all listeners.
fn server_config() -> anyhow::Result<ConfigBuilder<ServerConfig, WantsVerifier>> {
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .context("choosing TLS versions")
}

/// A CA of ours.
pub(crate) struct Authority {
    /// Its certificate.
    pub(crate) pem: String,
    pub(crate) issuer: Issuer<'static, KeyPair>,
}

/// Loads or makes a CA: its key stays, its certificate is made anew when the clock says that it must.
pub(crate) fn authority(data: &DataDir, name: &str, common_name: &str, now: Timestamp) -> anyhow::Result<Authority> {
    let [key_file, file, made_file] = ["key", "crt", "json"].map(|extension| format!("pki/{name}.{extension}"));
    let key = key(data, &key_file)?;
    let made = MadeFor {
        addresses: Vec::new(),
        not_before: now - BACKDATE,
        not_after: now.to_zoned(TimeZone::UTC).checked_add(CA_YEARS.years())?.timestamp(),
    };
    let params = ca_params(common_name, &made)?;
    let fits = MadeFor::read(data, &made_file).is_some_and(|made| made.fits(&[], now));
    if !fits || !data.path(&file).exists() {
        let certificate = params.self_signed(&key).with_context(|| format!("signing {file}"))?;
        data.write_public(&file, certificate.pem().as_bytes())?;
        data.write_public(&made_file, &serde_json::to_vec(&made)?)?;
    }
    Ok(Authority { pem: data.read_text(&file)?, issuer: Issuer::new(params, key) })
}

fn key(data: &DataDir, name: &str) -> anyhow::Result<KeyPair> {
    if !data.path(name).exists() {
        let made = KeyPair::generate().context("making a key pair")?;
        data.write_private(name, made.serialize_pem().as_bytes())?;
    }
    KeyPair::from_pem(&data.read_text(name)?).with_context(|| format!("reading {name}"))
}

fn ca_params(common_name: &str, made: &MadeFor) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, made)?;
    Ok(params)
}

fn set_validity(params: &mut CertificateParams, made: &MadeFor) -> anyhow::Result<()> {
    let date = |at: Timestamp| -> anyhow::Result<_> {
        let day = at.to_zoned(TimeZone::UTC);
        Ok(rcgen::date_time_ymd(i32::from(day.year()), u8::try_from(day.month())?, u8::try_from(day.day())?))
    };
    params.not_before = date(made.not_before)?;
    params.not_after = date(made.not_after)?;
    Ok(())
}

fn server_chain(
    data: &DataDir,
    addresses: &[IpAddr],
    now: Timestamp,
    issuer: &Issuer<'_, KeyPair>,
    server_key: &KeyPair,
    ca_pem: &str,
) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let fits = MadeFor::read(data, "pki/server.json").is_some_and(|made| made.fits(&sorted, now))
        && data.path("pki/server.crt").exists();
    if !fits {
        let not_after = now + SignedDuration::from_hours(24 * SERVER_DAYS);
        let made = MadeFor { addresses: sorted.clone(), not_before: now - BACKDATE, not_after };
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).context("naming the server")?;
        params.subject_alt_names.extend(sorted.iter().copied().map(SanType::IpAddress));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "Firesteel appliance");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, &made)?;
        let certificate = params.signed_by(server_key, issuer).context("signing the server certificate")?;
        data.write_public("pki/server.crt", certificate.pem().as_bytes())?;
        data.write_public("pki/server.json", &serde_json::to_vec(&made)?)?;
    }
    let leaf = CertificateDer::from_pem_slice(data.read_text("pki/server.crt")?.as_bytes())
        .context("reading pki/server.crt")?;
    let ca = CertificateDer::from_pem_slice(ca_pem.as_bytes()).context("reading pki/ca.crt")?;
    Ok(vec![leaf, ca])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_key_outlives_a_change_of_address_and_the_certificate_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDir::open(directory.path()).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let first = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
        let certificate = data.read_text("pki/server.crt").unwrap();
        let again = Pki::open(&data, &["192.0.2.1".parse().unwrap()], now).unwrap();
        assert_eq!(data.read_text("pki/server.crt").unwrap(), certificate);
        let moved = Pki::open(&data, &["192.0.2.2".parse().unwrap()], now).unwrap();
        assert_ne!(data.read_text("pki/server.crt").unwrap(), certificate);
        assert_eq!(first.pin_sha256, moved.pin_sha256);
        let days = |index: usize| first.ends[index].1.duration_since(now).as_hours() / 24;
        assert!((363..=365).contains(&days(0)) && (3649..=3653).contains(&days(1)), "{:?}", first.ends);
        assert_eq!((&first.ca_pem, &again.ca_pem), (&moved.ca_pem, &moved.ca_pem));
        let later = now + SignedDuration::from_hours(24 * 340);
        let before = data.read_text("pki/server.crt").unwrap();
        Pki::open(&data, &["192.0.2.2".parse().unwrap()], later).unwrap();
        assert_ne!(data.read_text("pki/server.crt").unwrap(), before, "renewed within 30 days of its end");
    }

    /// The first start had a clock that was ahead, or had stood still: for years everybody would have refused
    /// certificates that were not valid yet, or not any more.
    #[test]
    fn certificates_of_a_clock_that_was_wrong_by_years_are_made_anew_by_the_same_keys() {
        let address = ["192.0.2.1".parse().unwrap()];
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        for wrong in [0, 2_500_000_000] {
            let directory = tempfile::tempdir().unwrap();
            let data = DataDir::open(directory.path()).unwrap();
            let wrong = Timestamp::from_second(wrong).unwrap();
            let first = Pki::open(&data, &address, wrong).unwrap();
            let again = Pki::open(&data, &address, now).unwrap();
            assert_eq!(first.pin_sha256, again.pin_sha256, "agents pin the key, whatever the clock says");
            assert_ne!(first.ca_pem, again.ca_pem, "{wrong}");

            trusts(&again.ca_pem, &data, now).unwrap();
            assert!(trusts(&again.ca_pem, &data, wrong).is_err(), "the judge has a clock");
            // A disk that was installed meanwhile has the old CA, whose key is the same.
            trusts(&first.ca_pem, &data, now).unwrap();
        }
    }

    /// Whether a client with this CA and this clock takes the server's certificate.
    fn trusts(ca_pem: &str, data: &DataDir, now: Timestamp) -> Result<(), rustls::Error> {
        use rustls::client::danger::ServerCertVerifier as _;
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate(ca_pem)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let judge =
            rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let shown = certificate(&data.read_text("pki/server.crt").unwrap());
        let at = std::time::Duration::from_secs(u64::try_from(now.as_second()).unwrap());
        let at = rustls::pki_types::UnixTime::since_unix_epoch(at);
        judge.verify_server_cert(&shown, &[], &"192.0.2.1".try_into().unwrap(), &[], at).map(drop)
    }
}
