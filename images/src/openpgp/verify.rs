//! One detached signature, or several in one file, over bytes that come in pieces (S1.5).

use std::{fmt, io::Cursor, sync::Arc};

use md5::digest::DynDigest;
use pgp::composed::{Deserializable as _, DetachedSignature};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType, SignatureVersion};

use super::keyring::{KeyFault, Keyring};
use crate::catalogue::shown;

/// A signature has some 600 bytes; a file with those of a whole team fits.
pub const SIGNATURE_BYTES_MAX: usize = 64 << 10;
/// The most signatures in one file. Each costs a pass of its digest over the image.
const SIGNATURES_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("the signature has {bytes} bytes; at most {SIGNATURE_BYTES_MAX} are read")]
    TooLong { bytes: usize },
    #[error("this is no detached OpenPGP signature, armored or binary: {why}")]
    Unreadable { why: String },
    #[error("the file has more than {SIGNATURES_MAX} signatures")]
    TooMany,
    #[error("the signature is not one of a file's bytes")]
    Kind,
    #[error("the signature's digest {algorithm} is too weak or not known")]
    Hash { algorithm: String },
    #[error("the signature's version is not 3 or 4")]
    Version,
    #[error("the signature was made by {issuer}, which is none of the keys that were given")]
    UnknownKey { issuer: String },
    #[error("the key {fingerprint} cannot have signed this: {fault}")]
    Key { fingerprint: String, fault: KeyFault },
    #[error("the signature had an end, and that has passed")]
    Expired,
    #[error("the signature by {fingerprint} is not one of these bytes")]
    Wrong { fingerprint: String },
}

impl SignatureError {
    /// What a person can do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::UnknownKey { .. } => "add the publisher's key to the keys, if you trust it",
            Self::Key { .. } | Self::Hash { .. } | Self::Version | Self::Expired => {
                "get the publisher's newer key or signature"
            }
            Self::TooLong { .. } | Self::Unreadable { .. } | Self::TooMany | Self::Kind => {
                "see that the signature's address is right"
            }
            Self::Wrong { .. } => "do not use this file: it is not what the publisher signed",
        }
    }
}

/// Who signed, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedSignature {
    /// The fingerprint of the key, or of the subkey, in hexadecimal digits.
    pub fingerprint: String,
    pub made_at_s: u64,
}

/// Takes the bytes in turn and says in the end whether one of the keys signed them.
pub struct Verifier {
    keyring: Arc<Keyring>,
    running: Vec<RunningSignatureCheck>,
}

struct RunningSignatureCheck {
    signature: Signature,
    hasher: Box<dyn DynDigest + Send>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({} signatures)", self.running.len())
    }
}

impl Verifier {
    /// Fails at once where no signature of the file can become good: gigabytes are not downloaded to find that the key
    /// is not there. `now_s` matters to signatures with an end only.
    pub fn new(keyring: &Arc<Keyring>, signature: &[u8], now_s: u64) -> Result<Self, SignatureError> {
        let mut running = Vec::new();
        let mut first_fault = None;
        for signature in parse(signature)? {
            match start(keyring, signature, now_s) {
                Ok(started) => running.push(started),
                Err(fault) => first_fault = first_fault.or(Some(fault)),
            }
        }
        match first_fault {
            Some(fault) if running.is_empty() => Err(fault),
            Some(_) | None => Ok(Self { keyring: keyring.clone(), running }),
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        for running in &mut self.running {
            running.hasher.update(bytes);
        }
    }

    /// Good when one of the signatures is: another of an unknown key says nothing about these bytes.
    pub fn finish(self) -> Result<VerifiedSignature, SignatureError> {
        let mut fault = None;
        for running in self.running {
            match finish(&self.keyring, running) {
                Ok(signed) => return Ok(signed),
                Err(found) => fault = fault.or(Some(found)),
            }
        }
        Err(fault.unwrap_or(SignatureError::Unreadable { why: "it is empty".to_owned() }))
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Signature>, SignatureError> {
    if bytes.len() > SIGNATURE_BYTES_MAX {
        return Err(SignatureError::TooLong { bytes: bytes.len() });
    }
    let unreadable = |error: pgp::errors::Error| SignatureError::Unreadable { why: shown(&error.to_string()) };
    let (found, _) = DetachedSignature::from_reader_many_buf(Cursor::new(bytes)).map_err(unreadable)?;
    let mut signatures = Vec::new();
    for signature in found {
        if signatures.len() == SIGNATURES_MAX {
            return Err(SignatureError::TooMany);
        }
        signatures.push(signature.map_err(unreadable)?.signature);
    }
    if signatures.is_empty() {
        return Err(SignatureError::Unreadable { why: "it is empty".to_owned() });
    }
    Ok(signatures)
}

fn start(keyring: &Keyring, signature: Signature, now_s: u64) -> Result<RunningSignatureCheck, SignatureError> {
    if !matches!(signature.version(), SignatureVersion::V3 | SignatureVersion::V4) {
        return Err(SignatureError::Version);
    }
    let config = signature.config().ok_or(SignatureError::Version)?;
    // A signature of a text lets line ends be changed.
    if config.typ() != SignatureType::Binary {
        return Err(SignatureError::Kind);
    }
    let algorithm = config.hash_alg;
    let weak = || SignatureError::Hash { algorithm: shown(&algorithm.to_string()) };
    if !is_strong(algorithm) {
        return Err(weak());
    }
    let made_at_s = made_at_s(&signature);
    let life_s = signature.signature_expiration_time().map_or(0, |life| u64::from(life.as_secs()));
    if life_s > 0 && made_at_s + life_s <= now_s {
        return Err(SignatureError::Expired);
    }
    let mut keys = keyring.keys.iter().filter(|key| key.may_have_made(&signature)).peekable();
    if keys.peek().is_none() {
        return Err(SignatureError::UnknownKey { issuer: issuer(&signature) });
    }
    let mut fault = None;
    for key in keys {
        match key.was_good_at(made_at_s) {
            Ok(()) => {
                let hasher = algorithm.new_hasher().map_err(|_| weak())?;
                return Ok(RunningSignatureCheck { signature, hasher });
            }
            Err(found) => fault = fault.or(Some(SignatureError::Key { fingerprint: key.fingerprint(), fault: found })),
        }
    }
    Err(fault.unwrap_or_else(|| SignatureError::UnknownKey { issuer: issuer(&signature) }))
}

fn finish(keyring: &Keyring, running: RunningSignatureCheck) -> Result<VerifiedSignature, SignatureError> {
    let RunningSignatureCheck { signature, mut hasher } = running;
    let (Some(config), Some(bytes)) = (signature.config(), signature.signature()) else {
        return Err(SignatureError::Version);
    };
    let unreadable = |error: pgp::errors::Error| SignatureError::Unreadable { why: shown(&error.to_string()) };
    let hashed = config.hash_signature_data(&mut hasher).map_err(unreadable)?;
    hasher.update(&config.trailer(hashed).map_err(unreadable)?);
    let digest = hasher.finalize();
    let made_at_s = made_at_s(&signature);
    let able = keyring.keys.iter().filter(|key| key.may_have_made(&signature) && key.was_good_at(made_at_s).is_ok());
    let mut fingerprint = String::new();
    for key in able {
        fingerprint = key.fingerprint();
        // The two bytes are there to fail early; they are compared because a library that does not may differ.
        let begins = signature.signed_hash_value().is_some_and(|start| digest.starts_with(&start));
        if begins && key.verify(config.hash_alg, &digest, bytes) {
            return Ok(VerifiedSignature { fingerprint, made_at_s });
        }
    }
    Err(SignatureError::Wrong { fingerprint })
}

fn made_at_s(signature: &Signature) -> u64 {
    signature.created().map_or(0, |created| u64::from(created.as_secs()))
}

fn issuer(signature: &Signature) -> String {
    let fingerprint = signature.issuer_fingerprint().first().map(|known| hex::encode(known.as_bytes()));
    let id = || signature.issuer_key_id().first().map(|known| hex::encode(known.as_ref()));
    fingerprint.or_else(id).unwrap_or_else(|| "no named key".to_owned())
}

fn is_strong(algorithm: HashAlgorithm) -> bool {
    matches!(
        algorithm,
        HashAlgorithm::Sha256
            | HashAlgorithm::Sha384
            | HashAlgorithm::Sha512
            | HashAlgorithm::Sha3_256
            | HashAlgorithm::Sha3_512
    )
}
