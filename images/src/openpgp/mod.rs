//! Detached OpenPGP signatures of published images (RFC 9580 sections 5.2 and 10.4; S1.5): checked while the bytes
//! stream by, against public keys that the operator named.
//!
//! ```text
//! key file --Keyring::parse--> Keyring --+
//! .sig file -----------------------------+--Verifier::new--> update(bytes)…
//!                                                                --finish--> VerifiedSignature | SignatureError
//! ```
//!
//! The packets are read by the `pgp` crate; what counts as good is decided here. The key must be in the keyring (there
//! is no web of trust), made for signing by its owner's own word, not revoked, and not expired when it signed; the
//! digest must be of the SHA-2 or SHA-3 families with 256 bits or more. Pure: the time is given.

mod keyring;
mod verify;

pub use keyring::{KEYRING_BYTES_MAX, KeyFault, Keyring, KeyringError};
pub use verify::{SIGNATURE_BYTES_MAX, SignatureError, VerifiedSignature, Verifier};

use std::sync::Arc;

/// Reads any bytes as keys and as a signature, for fuzzing: never panics, and no signature is good by chance.
pub fn check(keys: &[u8], signature: &[u8]) {
    let Ok(keyring) = Keyring::parse(keys) else { return };
    let Ok(mut verifier) = Verifier::new(&Arc::new(keyring), signature, 0) else { return };
    verifier.update(b"not what was signed");
    assert!(verifier.finish().is_err(), "nobody signs by chance");
}
