//! How a message proves that it comes from the agent that first used a token.
//!
//! The agent makes an Ed25519 key pair (RFC 8032) at start and never stores it. `hello` carries
//! the public key; this and every later request carries, in the header [`SIGNATURE_HEADER`], the
//! hexadecimal signature of [`signing_input`].

use serde::{Deserialize, Serialize};

/// Header that carries the hexadecimal Ed25519 signature of the request.
pub const SIGNATURE_HEADER: &str = "firesteel-signature";

/// The bytes that an agent signs for one request: a domain separator, the path and the body.
#[must_use]
pub fn signing_input(path: &str, body: &[u8]) -> Vec<u8> {
    let mut input = Vec::with_capacity(path.len() + body.len() + 32);
    input.extend_from_slice(b"firesteel-agent-v1\n");
    input.extend_from_slice(path.as_bytes());
    input.push(b'\n');
    input.extend_from_slice(body);
    input
}

/// An Ed25519 public key, in JSON as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; 32]);

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublicKey({})", hex::encode(self.0))
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl Serialize for PublicKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(self.0))
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(&text, &mut bytes)
            .map_err(|_| serde::de::Error::custom("key: expected 64 hexadecimal digits (an Ed25519 public key)"))?;
        Ok(Self(bytes))
    }
}
