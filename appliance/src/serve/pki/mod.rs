//! The appliance's certificates: a CA made at the first start, and one server certificate for all listeners. The CA of
//! its clients is a separate one (`crate::access::certificates`).
//!
//! The server's *key* never changes, since agents pin it (`pin_sha256`, RFC 7469 section 2.4). Its certificate is
//! renewed when an address changes or its end is near. The CA, which stubs on disks trust, is rotated with an overlap
//! that only a person ends ([`authority`]). Both are renewed when the clock shows that they begin in the future: if the
//! clock was wrong by years at the first start, all clients would refuse them once it is right. All of this happens
//! while the process serves ([`Pki::renew`]).

mod authority;
mod ca_upkeep;
mod server;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use firesteel_runtime::{HostTrust, TrustBundle};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};
use ring::digest;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ConfigBuilder, ServerConfig, WantsVerifier};

use super::data_dir::DataDir;
use authority::AuthorityBook;
pub(crate) use authority::authority;
pub use authority::{UndoRotationError, UndoneRotation};
use server::Reloaded;
pub use server::ServerNames;

/// Age of the CA at which its rotation begins, two years before its end (S1-3.3).
pub const CA_YEARS_DEFAULT: u8 = 8;
/// How long before its end a certificate is renewed: at least the 30 days of upstream (S0-6), an hour between two looks
/// and the rest of the day on which a certificate ends.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(32 * 24);
/// How far back certificates begin: clocks of fresh hosts are behind, and would refuse one that begins "now".
const BACKDATE: SignedDuration = SignedDuration::from_hours(48);

/// Keys, certificates and TLS configurations. Clones share them.
#[derive(Clone, Debug)]
pub struct Pki {
    pub ca_file: PathBuf,
    /// The SHA-256 of the server's SubjectPublicKeyInfo, in hexadecimal.
    pub pin_sha256: String,
    /// The server's TLS 1.2 and 1.3, for Ignition, curl, kubectl and agents.
    pub server: Arc<ServerConfig>,
    trust: HostTrust,
    inner: Arc<PkiState>,
}

struct PkiState {
    data: DataDir,
    ca_years: u8,
    key: KeyPair,
    resolver: Arc<Reloaded>,
    /// The lock under which the files are changed.
    held: Mutex<SigningChain>,
}

impl std::fmt::Debug for PkiState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PkiState").finish_non_exhaustive()
    }
}

struct SigningChain {
    /// What the server is called whatever network it serves.
    names: ServerNames,
    /// Its address on the provisioning network, while it serves one.
    network: Option<IpAddr>,
    book: AuthorityBook,
    chain: Vec<CertificateDer<'static>>,
}

/// The state of the CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaStatus {
    /// When the CA ends that signs for the server.
    pub ends: Timestamp,
    /// When the CA that replaces it ends, during an overlap.
    pub next_ends: Option<Timestamp>,
    /// When that CA was made: hosts installed before may trust the old one alone.
    pub begun: Option<Timestamp>,
}

/// The purpose of a certificate; stored beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
struct CertificateRecord {
    /// The server's addresses; empty for a CA.
    addresses: Vec<IpAddr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    /// The digest of the CA that signed it.
    #[serde(skip_serializing_if = "String::is_empty")]
    issuer: String,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl CertificateRecord {
    fn read(data: &DataDir, name: &str) -> Option<Self> {
        serde_json::from_str(&data.read_text(name).ok()?).ok()
    }

    fn is_for(&self, other: &Self) -> bool {
        (&self.addresses, &self.names, &self.issuer) == (&other.addresses, &other.names, &other.issuer)
    }

    /// Tells whether the certificate is valid, and not near its end.
    fn fits(&self, now: Timestamp) -> bool {
        self.not_before <= now && now + RENEW_BEFORE < self.not_after
    }
}

impl Pki {
    /// Loads CA, key and certificate, and makes missing ones.
    ///
    /// # Errors
    /// When a file can be neither read nor written, or does not hold what it should.
    pub fn open(data: &DataDir, addresses: &[IpAddr], now: Timestamp) -> anyhow::Result<Self> {
        let names = ServerNames { addresses: addresses.to_vec(), names: Vec::new() };
        Self::open_for(data, names, CA_YEARS_DEFAULT, now)
    }

    /// Loads or makes them, with DNS names besides addresses, and another age at which the CA is rotated.
    ///
    /// # Errors
    /// As [`Pki::open`].
    pub fn open_for(data: &DataDir, names: ServerNames, ca_years: u8, now: Timestamp) -> anyhow::Result<Self> {
        let key = key(data, "pki/server.key")?;
        let pin = digest::digest(&digest::SHA256, &key.subject_public_key_info());
        let book = AuthorityBook::open(data, ca_years, now)?;
        let chain = server::chain(data, &names, now, &book, &key)?;
        let resolver = Arc::new(Reloaded::new(chain.clone(), &key)?);
        let certificates: Arc<Reloaded> = Arc::clone(&resolver);
        let mut server = server_config()?.with_no_client_auth().with_cert_resolver(certificates);
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let trust = HostTrust::new(trusted(&book));
        let inner = PkiState {
            data: data.clone(),
            ca_years,
            key,
            resolver,
            held: Mutex::new(SigningChain { names, network: None, book, chain }),
        };
        Ok(Self {
            ca_file: data.path("pki/ca.crt"),
            pin_sha256: hex::encode(pin),
            server: Arc::new(server),
            trust,
            inner: Arc::new(inner),
        })
    }

    /// Returns the CA in PEM, for clients and stubs; both CAs during an overlap.
    #[must_use]
    pub fn ca_pem(&self) -> String {
        self.trust.pem()
    }

    /// Returns the trusted CAs as a value that follows changes.
    #[must_use]
    pub fn trust(&self) -> &HostTrust {
        &self.trust
    }

    /// Returns when the certificates in use end.
    ///
    /// # Errors
    /// When a certificate of ours cannot be read.
    pub fn ends(&self) -> anyhow::Result<Vec<(&'static str, Timestamp)>> {
        let held = self.inner.held.lock().unwrap_or_else(PoisonError::into_inner);
        let server = held.chain.first().map(end).transpose()?;
        Ok(server.map(|ends| ("server", ends)).into_iter().chain([("ca", held.book.current.made.not_after)]).collect())
    }

    /// Returns the state of the CA.
    #[must_use]
    pub fn ca_state(&self) -> CaStatus {
        let held = self.inner.held.lock().unwrap_or_else(PoisonError::into_inner);
        let next = held.book.next.as_ref().map(|next| &next.made);
        CaStatus {
            ends: held.book.current.made.not_after,
            next_ends: next.map(|made| made.not_after),
            begun: next.map(|made| made.not_before + BACKDATE),
        }
    }

    /// Renews certificates near their end, begins a rotation by age, and serves the result.
    ///
    /// # Errors
    /// As [`Pki::open`]; the earlier certificates are then served on.
    pub fn renew(&self, now: Timestamp) -> anyhow::Result<()> {
        self.change(now, |_, _| Ok(()))
    }

    /// Has the server's certificate name the address of the provisioning network, too, and the earlier one no longer.
    /// Agents that run pin the key, which stays; connections that are open keep the certificate that they began with.
    ///
    /// # Errors
    /// As [`Pki::open`]; the next renewal tries it again.
    pub fn set_network_address(&self, address: Option<IpAddr>, now: Timestamp) -> anyhow::Result<()> {
        let mut held = self.inner.held.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut held.network, address) == address {
            return Ok(());
        }
        drop(held);
        self.renew(now)
    }

    /// Begins an overlap with a new CA, unless there is one.
    ///
    /// # Errors
    /// As [`Pki::open`].
    pub fn rotate(&self, now: Timestamp) -> anyhow::Result<()> {
        self.change(now, |book, data| book.begin(data, now))
    }

    /// Ends the overlap: the new CA is the only one. Returns `false` if there is no overlap.
    ///
    /// # Errors
    /// As [`Pki::open`].
    pub fn finish(&self, now: Timestamp) -> anyhow::Result<bool> {
        self.change(now, |book, data| book.finish(data, now))
    }

    /// Undoes the last step of a rotation, or says why it cannot.
    ///
    /// # Errors
    /// As [`Pki::open`].
    pub fn undo(&self, now: Timestamp) -> anyhow::Result<Result<UndoneRotation, UndoRotationError>> {
        let years = self.inner.ca_years;
        self.change(now, |book, data| book.undo(data, years, now))
    }

    fn change<R>(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut AuthorityBook, &DataDir) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        let PkiState { data, ca_years, key, resolver, held } = &*self.inner;
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut book = AuthorityBook::open(data, *ca_years, now)?;
        let changed = change(&mut book, data)?;
        // This writes `pki/ca.crt` as well.
        let book = AuthorityBook::open(data, *ca_years, now)?;
        let is_other = book != held.book;
        let (names, network) = (held.names.clone(), held.network);
        let chain = server::chain(data, &names.with_address(network), now, &book, key)?;
        // The intermediate certificate is signed again each time.
        if is_other || chain.first() != held.chain.first() {
            resolver.set(chain.clone(), key)?;
            *held = SigningChain { names, network, book, chain };
            self.trust.set(trusted(&held.book));
            tracing::info!("other certificates are served from now on");
        }
        Ok(changed)
    }

    /// Returns TLS for the same server that asks clients for a certificate, and works without one.
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

fn trusted(book: &AuthorityBook) -> TrustBundle {
    TrustBundle { current: book.bundle(), past: book.past.clone() }
}

/// Returns when a certificate ends.
fn end(certificate: &CertificateDer<'_>) -> anyhow::Result<Timestamp> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).context("could not read a certificate")?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).context("could not read a certificate's end")
}

/// TLS 1.2 and 1.3, for all listeners.
fn server_config() -> anyhow::Result<ConfigBuilder<ServerConfig, WantsVerifier>> {
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .context("could not choose TLS versions")
}

fn key(data: &DataDir, name: &str) -> anyhow::Result<KeyPair> {
    if !data.path(name).exists() {
        let made = KeyPair::generate().context("could not make a key pair")?;
        data.write(name, made.serialize_pem().as_bytes())?;
    }
    KeyPair::from_pem(&data.read_text(name)?).with_context(|| format!("could not read {name}"))
}

fn set_validity(params: &mut CertificateParams, made: &CertificateRecord) -> anyhow::Result<()> {
    let date = |at: Timestamp| -> anyhow::Result<_> {
        let day = at.to_zoned(TimeZone::UTC);
        Ok(rcgen::date_time_ymd(i32::from(day.year()), u8::try_from(day.month())?, u8::try_from(day.day())?))
    };
    params.not_before = date(made.not_before)?;
    params.not_after = date(made.not_after)?;
    Ok(())
}

#[cfg(test)]
mod tests;
