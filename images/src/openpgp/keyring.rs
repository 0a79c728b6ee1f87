//! Public keys that may sign images (S1.5), each judged once when it is read.

use std::{cmp::Reverse, io::Cursor};

use pgp::composed::{Deserializable as _, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::crypto::public_key::PublicKeyAlgorithm;
use pgp::packet::{PublicKey, PublicSubkey, Signature, SignatureType};
use pgp::ser::Serialize as _;
use pgp::types::{Duration, KeyDetails, KeyVersion, PublicParams, SignatureBytes, Tag, VerifyingKey};

use crate::catalogue::shown;

/// Fedora's file of all its keys has 25 kB.
pub const KEYRING_BYTES_MAX: usize = 1 << 20;
/// Keys with their subkeys; Fedora's file has some 20. Each is tried where a signature names none.
const KEYS_MAX: usize = 256;
/// Self signatures that are looked at for one key: each costs an operation with it.
const SELF_SIGNATURES_MAX: usize = 64;
const ARMOR_START: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
/// RSA parameters: two bytes of length and 256 of a modulus of 2048 bits, then two of length and one of the exponent.
const RSA_PARAMETER_BYTES_MIN: usize = 2 + 256 + 2 + 1;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    #[error("the keys have {bytes} bytes; at most {KEYRING_BYTES_MAX} are read")]
    TooLong { bytes: usize },
    #[error("this is no OpenPGP public key, armored or binary: {why}")]
    Unreadable { why: String },
    #[error("this is a secret key: give the public one alone, and take this one away from here")]
    Secret,
    #[error("there are more than {KEYS_MAX} keys")]
    TooMany,
    #[error("no key here can be used: {why}")]
    NoneUsable { why: String },
}

/// Why a key signs nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    #[error("it has no valid signature of its owner")]
    NotSelfSigned,
    #[error("its owner revoked it")]
    Revoked,
    #[error("its owner did not make it for signing")]
    NotForSigning,
    #[error("its kind is too weak or not known: RSA from 2048 bits, ECDSA and EdDSA count")]
    Algorithm,
    #[error("it had expired when it signed")]
    Expired,
    #[error("it signed before it was made")]
    TooEarly,
}

/// Keys of an operator's choice.
#[derive(Debug)]
pub struct Keyring {
    pub(super) keys: Vec<OpenPgpKey>,
}

#[derive(Debug)]
pub(super) struct OpenPgpKey {
    public: Public,
    state: Result<(), KeyFault>,
    expires_at_s: Option<u64>,
}

#[derive(Debug)]
enum Public {
    Primary(Box<PublicKey>),
    Subkey(Box<PublicSubkey>),
}

impl Keyring {
    /// Armored keys, several in a row too, or binary ones.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyringError> {
        if bytes.len() > KEYRING_BYTES_MAX {
            return Err(KeyringError::TooLong { bytes: bytes.len() });
        }
        let mut keys = Vec::new();
        for block in blocks(bytes)? {
            let unreadable = |error: pgp::errors::Error| KeyringError::Unreadable { why: shown(&error.to_string()) };
            let (found, _) = SignedPublicKey::from_reader_many_buf(Cursor::new(block)).map_err(unreadable)?;
            for key in found {
                add(&mut keys, key.map_err(unreadable)?);
                if keys.len() > KEYS_MAX {
                    return Err(KeyringError::TooMany);
                }
            }
        }
        let fault = |key: &OpenPgpKey| Some(format!("{}: {}", key.fingerprint(), key.state.as_ref().err()?));
        if keys.iter().all(|key| key.state.is_err()) {
            let faults: Vec<String> = keys.iter().filter_map(fault).take(4).collect();
            let why = if faults.is_empty() { "it holds none".to_owned() } else { faults.join("; ") };
            return Err(KeyringError::NoneUsable { why });
        }
        Ok(Self { keys })
    }

    /// Fingerprints of the keys that can sign, in the order of the file.
    #[must_use]
    pub fn fingerprints(&self) -> Vec<String> {
        self.keys.iter().filter(|key| key.state.is_ok()).map(OpenPgpKey::fingerprint).collect()
    }
}

/// Each armored block for itself: the library reads the first one only.
fn blocks(bytes: &[u8]) -> Result<Vec<&[u8]>, KeyringError> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(vec![bytes]) };
    if text.contains("-----BEGIN PGP PRIVATE KEY BLOCK-----") {
        return Err(KeyringError::Secret);
    }
    let starts: Vec<usize> = text.match_indices(ARMOR_START).map(|(at, _)| at).collect();
    if starts.len() > KEYS_MAX {
        return Err(KeyringError::TooMany);
    }
    if starts.is_empty() {
        return Ok(vec![bytes]);
    }
    let ends = starts.iter().copied().skip(1).chain([text.len()]);
    Ok(starts.iter().zip(ends).map(|(&start, end)| &bytes[start..end]).collect())
}

fn add(keys: &mut Vec<OpenPgpKey>, key: SignedPublicKey) {
    let primary = &key.primary_key;
    let claims = own_claims(&key);
    let revoked = key.details.revocation_signatures.iter().take(SELF_SIGNATURES_MAX).any(|signature| {
        signature.typ() == Some(SignatureType::KeyRevocation) && signature.verify_key(primary).is_ok()
    });
    let expires_at_s = claims.and_then(|signature| expiry(signature, primary));
    let certified = if revoked { Err(KeyFault::Revoked) } else { claims.ok_or(KeyFault::NotSelfSigned).map(drop) };
    // A key of old without flags may do everything.
    let flags = claims.map(Signature::key_flags).filter(|flags| *flags != pgp::packet::KeyFlags::default());
    let may_sign = flags.is_none_or(|flags| flags.sign());
    let purpose = if may_sign { Ok(()) } else { Err(KeyFault::NotForSigning) };
    let state = certified.clone().and_then(|()| usable(primary)).and(purpose);
    for subkey in &key.public_subkeys {
        let (state, own_expiry) = match subkey_binding(primary, subkey) {
            Ok(binding) => (certified.clone().and_then(|()| usable(&subkey.key)), expiry(binding, &subkey.key)),
            Err(fault) => (Err(fault), None),
        };
        let expires_at_s = [expires_at_s, own_expiry].into_iter().flatten().min();
        keys.push(OpenPgpKey { public: Public::Subkey(Box::new(subkey.key.clone())), state, expires_at_s });
    }
    keys.push(OpenPgpKey { public: Public::Primary(Box::new(key.primary_key)), state, expires_at_s });
}

/// The owner's latest valid word on the key; of two in one second the one that lets it live shorter.
fn own_claims(key: &SignedPublicKey) -> Option<&Signature> {
    let primary = &key.primary_key;
    let direct = key.details.direct_signatures.iter().filter(|signature| signature.typ() == Some(SignatureType::Key));
    let direct = direct.take(SELF_SIGNATURES_MAX).filter(|signature| signature.verify_key(primary).is_ok());
    let by_user = key.details.users.iter().flat_map(|user| {
        let signatures = user.signatures.iter().filter(|signature| signature.is_certification());
        signatures.take(SELF_SIGNATURES_MAX).filter(|signature| {
            signature.typ() != Some(SignatureType::CertRevocation)
                && signature.verify_certification(primary, Tag::UserId, &user.id).is_ok()
        })
    });
    let life_s =
        |signature: &Signature| signature.key_expiration_time().map(Duration::as_secs).filter(|&life| life > 0);
    direct
        .chain(by_user.take(SELF_SIGNATURES_MAX))
        .max_by_key(|signature| (signature.created(), Reverse(life_s(signature).unwrap_or(u32::MAX))))
}

/// The latest valid binding of a subkey that signs.
fn subkey_binding<'a>(primary: &PublicKey, subkey: &'a SignedPublicSubKey) -> Result<&'a Signature, KeyFault> {
    let own = || subkey.signatures.iter().take(SELF_SIGNATURES_MAX);
    let valid = |signature: &&Signature| signature.verify_subkey_binding(primary, &subkey.key).is_ok();
    let of = |kind| move |signature: &&Signature| signature.typ() == Some(kind);
    if own().filter(of(SignatureType::SubkeyRevocation)).any(|signature| valid(&signature)) {
        return Err(KeyFault::Revoked);
    }
    let latest = own().filter(of(SignatureType::SubkeyBinding)).filter(valid).max_by_key(|found| found.created());
    let binding = latest.ok_or(KeyFault::NotSelfSigned)?;
    if !binding.key_flags().sign() {
        return Err(KeyFault::NotForSigning);
    }
    // Without the subkey's own word, any key could claim another's signatures (RFC 9580 section 10.1.5).
    let back = binding.embedded_signature().ok_or(KeyFault::NotSelfSigned)?;
    back.verify_primary_key_binding(&subkey.key, primary).map_err(|_| KeyFault::NotSelfSigned)?;
    Ok(binding)
}

fn expiry(claims: &Signature, key: &impl KeyDetails) -> Option<u64> {
    let life_s = claims.key_expiration_time().map(|life| u64::from(life.as_secs())).filter(|&life_s| life_s > 0)?;
    Some(u64::from(key.created_at().as_secs()) + life_s)
}

fn usable(key: &impl KeyDetails) -> Result<(), KeyFault> {
    let is_rsa = matches!(key.algorithm(), PublicKeyAlgorithm::RSA | PublicKeyAlgorithm::RSASign);
    let is_curve = matches!(
        key.algorithm(),
        PublicKeyAlgorithm::ECDSA
            | PublicKeyAlgorithm::EdDSALegacy
            | PublicKeyAlgorithm::Ed25519
            | PublicKeyAlgorithm::Ed448
    );
    let strong = if let PublicParams::RSA(parameters) = key.public_params() {
        is_rsa && parameters.write_len() >= RSA_PARAMETER_BYTES_MIN
    } else {
        is_curve
    };
    if strong { Ok(()) } else { Err(KeyFault::Algorithm) }
}

impl OpenPgpKey {
    pub(super) fn fingerprint(&self) -> String {
        match &self.public {
            Public::Primary(key) => hex::encode(key.fingerprint().as_bytes()),
            Public::Subkey(key) => hex::encode(key.fingerprint().as_bytes()),
        }
    }

    /// Whether a signature names this key, or none at all.
    pub(super) fn may_have_made(&self, signature: &Signature) -> bool {
        let (id, fingerprint) = match &self.public {
            Public::Primary(key) => (key.legacy_key_id(), key.fingerprint()),
            Public::Subkey(key) => (key.legacy_key_id(), key.fingerprint()),
        };
        let (ids, fingerprints) = (signature.issuer_key_id(), signature.issuer_fingerprint());
        (ids.is_empty() && fingerprints.is_empty())
            || ids.iter().any(|known| **known == id)
            || fingerprints.iter().any(|known| **known == fingerprint)
    }

    /// Whether the key could sign at this time.
    pub(super) fn was_good_at(&self, made_at_s: u64) -> Result<(), KeyFault> {
        self.state.clone()?;
        let (created, version) = match &self.public {
            Public::Primary(key) => (key.created_at(), key.version()),
            Public::Subkey(key) => (key.created_at(), key.version()),
        };
        if version == KeyVersion::V6 {
            return Err(KeyFault::Algorithm);
        }
        if made_at_s < u64::from(created.as_secs()) {
            return Err(KeyFault::TooEarly);
        }
        match self.expires_at_s {
            Some(expires_at_s) if expires_at_s <= made_at_s => Err(KeyFault::Expired),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn verify(&self, algorithm: HashAlgorithm, digest: &[u8], signature: &SignatureBytes) -> bool {
        match &self.public {
            Public::Primary(key) => key.verify(algorithm, digest, signature),
            Public::Subkey(key) => key.verify(algorithm, digest, signature),
        }
        .is_ok()
    }
}
