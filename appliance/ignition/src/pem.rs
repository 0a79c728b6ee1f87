//! Certificates as PEM text (RFC 7468): which they are, not what they say. A certificate is known by the SHA-256 of its
//! DER bytes, so that line breaks and comments make no difference.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Most certificates of one bundle. An overlap has two, a firm's own bundle a few dozen; the largest public ones stay
/// below 200.
const CERTIFICATES_MAX: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    #[error("there is no certificate in it")]
    Empty,
    #[error("it has something else than certificates in it, such as a key: give the certificates alone")]
    Other,
    #[error("a certificate in it is damaged")]
    Damaged,
    #[error("it has more than {CERTIFICATES_MAX} certificates")]
    Many,
}

pub(crate) type Fingerprint = [u8; 32];

/// The certificates of a bundle in order.
pub(crate) fn fingerprints(pem: &str) -> Result<Vec<Fingerprint>, PemError> {
    let mut found = Vec::new();
    let mut rest = pem;
    while let Some(at) = rest.find("-----BEGIN ") {
        let block = rest[at..].strip_prefix(BEGIN).ok_or(PemError::Other)?;
        let (body, after) = block.split_once(END).ok_or(PemError::Damaged)?;
        let text: String = body.chars().filter(|character| !character.is_ascii_whitespace()).collect();
        let der = STANDARD.decode(text).map_err(|_| PemError::Damaged)?;
        if der.is_empty() {
            return Err(PemError::Damaged);
        }
        if found.len() == CERTIFICATES_MAX {
            return Err(PemError::Many);
        }
        found.push(sha256(&der));
        rest = after;
    }
    if found.is_empty() { Err(PemError::Empty) } else { Ok(found) }
}

pub(crate) fn sha256(bytes: &[u8]) -> Fingerprint {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    fingerprint
}

/// The config server's CA: what stubs are to trust, and what they trusted earlier by our doing.
///
/// During an overlap the bundle has the new CA and the old one, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StubAuthority {
    bundle: String,
    current: Vec<Fingerprint>,
    known: BTreeSet<Fingerprint>,
}

impl StubAuthority {
    /// `bundle` goes into stubs as it is; `past` are bundles that stubs may still hold.
    ///
    /// # Errors
    /// When one of them holds anything but certificates.
    pub fn new(bundle: &str, past: &[&str]) -> Result<Self, PemError> {
        let current = fingerprints(bundle)?;
        let mut known: BTreeSet<Fingerprint> = current.iter().copied().collect();
        for old in past {
            known.extend(fingerprints(old)?);
        }
        Ok(Self { bundle: bundle.to_owned(), current, known })
    }

    #[must_use]
    pub fn bundle(&self) -> &str {
        &self.bundle
    }

    pub(crate) fn is_current(&self, held: &[Fingerprint]) -> bool {
        self.current == held
    }

    pub(crate) fn knows_all(&self, held: &[Fingerprint]) -> bool {
        held.iter().all(|certificate| self.known.contains(certificate))
    }

    /// The `source` of a stub, in upstream's form, so that its tools recognise it.
    pub(crate) fn source(&self) -> String {
        format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(&self.bundle))
    }
}
