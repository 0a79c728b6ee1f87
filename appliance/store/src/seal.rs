//! Values that no file holds in the clear: the store seals those of chosen kinds on their way to the
//! disk, and opens them on their way back. In memory, watches included, they are plain.
//!
//! ```text
//!   sealed value:  form (1 byte) | key id (8) | nonce (12) | AES-256-GCM of the value | tag (16)
//! ```
//!
//! What is authenticated beside the value is the object's key, so that a sealed value that is put in
//! another object's row does not open. Each value has a random nonce of its own; one key may seal 2³²
//! of them (NIST SP 800-38D), which is a change of a secret every second for 136 years.
//!
//! A [`SealingKeys`] has one key that seals, and may have older ones that only open: that is how a
//! database goes from one key to the next ([`crate::Store::reseal`]).

use std::fmt;
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::types::{GroupResource, ObjectKey};

pub const KEY_BYTES: usize = 32;
/// The only form of a sealed value so far.
const FORM: u8 = 1;
const ID_BYTES: usize = 8;
const HEAD_BYTES: usize = 1 + ID_BYTES + NONCE_LEN;

/// Tells keys apart without telling anything about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId(pub(crate) [u8; ID_BYTES]);

impl KeyId {
    fn of(key: &[u8; KEY_BYTES]) -> Self {
        let digest = digest(&SHA256, &[b"firesteel: the id of a key\0".as_slice(), key].concat());
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&digest.as_ref()[..ID_BYTES]);
        Self(id)
    }

    /// The key by which this value was sealed, by the value's own word.
    pub(crate) fn named_in(sealed: &[u8]) -> Option<Self> {
        Some(Self(*sealed.get(1..)?.first_chunk()?))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The keys, and the kinds whose values they seal.
pub struct SealingKeys {
    kinds: Vec<GroupResource>,
    /// The first one seals.
    keys: RwLock<Vec<(KeyId, LessSafeKey)>>,
    random: SystemRandom,
}

impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealingKeys").field("kinds", &self.kinds).field("ids", &self.ids()).finish_non_exhaustive()
    }
}

/// Nothing is said about why: it would help who tries.
#[derive(Debug, thiserror::Error)]
pub enum ValueSealError {
    #[error("the system gives no random bytes")]
    Random,
    #[error("a keyring needs a key")]
    Empty,
    #[error("the value cannot be sealed")]
    Failed,
}

/// The value is altered, of another object, or sealed by a key that the keyring does not have.
#[derive(Debug)]
pub(crate) struct DoesNotOpen;

impl SealingKeys {
    /// `keys`: the one that seals first.
    pub fn new(kinds: Vec<GroupResource>, keys: &[[u8; KEY_BYTES]]) -> Result<Self, ValueSealError> {
        if keys.is_empty() {
            return Err(ValueSealError::Empty);
        }
        let keys = keys.iter().map(usable).collect::<Result<_, _>>()?;
        Ok(Self { kinds, keys: RwLock::new(keys), random: SystemRandom::new() })
    }

    /// A new key.
    pub fn generate() -> Result<[u8; KEY_BYTES], ValueSealError> {
        let mut key = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut key).map_err(|_| ValueSealError::Random)?;
        Ok(key)
    }

    /// Seals with this key from now on, and opens with the others as before.
    pub fn seal_with(&self, key: &[u8; KEY_BYTES]) -> Result<KeyId, ValueSealError> {
        let (id, key) = usable(key)?;
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|(known, _)| *known != id);
        keys.insert(0, (id, key));
        Ok(id)
    }

    /// Forgets all keys but the one that seals.
    pub fn forget_others(&self) {
        self.keys.write().unwrap_or_else(PoisonError::into_inner).truncate(1);
    }

    /// The ids of all keys, beginning with the one that seals.
    pub fn ids(&self) -> Vec<KeyId> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).iter().map(|(id, _)| *id).collect()
    }

    pub(crate) fn kinds(&self) -> &[GroupResource] {
        &self.kinds
    }

    pub(crate) fn seals(&self, key: &ObjectKey) -> bool {
        self.kinds.contains(&key.kind)
    }

    pub(crate) fn seal(&self, key: &ObjectKey, value: &[u8]) -> Result<Vec<u8>, ValueSealError> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let (id, aead) = keys.first().ok_or(ValueSealError::Empty)?;
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| ValueSealError::Random)?;
        let mut sealed = Vec::with_capacity(HEAD_BYTES + value.len() + MAX_TAG_LEN);
        sealed.push(FORM);
        sealed.extend(id.0);
        sealed.extend(nonce);
        let mut text = value.to_vec();
        aead.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(name(key)), &mut text)
            .map_err(|_| ValueSealError::Failed)?;
        sealed.append(&mut text);
        Ok(sealed)
    }

    pub(crate) fn open(&self, key: &ObjectKey, sealed: &[u8]) -> Result<Bytes, DoesNotOpen> {
        let (head, text) = sealed.split_at_checked(HEAD_BYTES).ok_or(DoesNotOpen)?;
        let (id, nonce) = head[1..].split_at(ID_BYTES);
        if head[0] != FORM {
            return Err(DoesNotOpen);
        }
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let (_, aead) = keys.iter().find(|(known, _)| known.0 == id).ok_or(DoesNotOpen)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| DoesNotOpen)?;
        let mut text = text.to_vec();
        let length = aead.open_in_place(nonce, Aad::from(name(key)), &mut text).map_err(|_| DoesNotOpen)?.len();
        text.truncate(length);
        Ok(text.into())
    }
}

fn usable(key: &[u8; KEY_BYTES]) -> Result<(KeyId, LessSafeKey), ValueSealError> {
    let unbound = UnboundKey::new(&AES_256_GCM, key).map_err(|_| ValueSealError::Failed)?;
    Ok((KeyId::of(key), LessSafeKey::new(unbound)))
}

/// An object's key as bytes, of which no two keys have the same.
fn name(key: &ObjectKey) -> Vec<u8> {
    let mut name = Vec::new();
    for part in [&*key.kind.group, &*key.kind.resource, &key.namespace, &key.name] {
        name.extend((part.len() as u64).to_be_bytes());
        name.extend(part.as_bytes());
    }
    name
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_value_opens_for_its_object_and_its_key_alone() {
        let kind = GroupResource::new("", "secrets");
        let ring = SealingKeys::new(vec![kind.clone()], &[[1; 32]]).unwrap();
        let key = ObjectKey::new(&kind, "default", "a");
        let sealed = ring.seal(&key, b"hunter2").unwrap();
        assert_eq!(ring.open(&key, &sealed).unwrap(), &b"hunter2"[..]);
        assert_eq!((KeyId::named_in(&sealed), KeyId::named_in(&sealed[..8])), (Some(ring.ids()[0]), None));
        assert_ne!(ring.seal(&key, b"hunter2").unwrap(), sealed, "a nonce of its own each time");

        // The same letters, cut elsewhere.
        for other in [
            ObjectKey::new(&kind, "defaul", "ta"),
            ObjectKey::new(&kind, "default", "b"),
            ObjectKey::new(&GroupResource::new("s", "ecrets"), "default", "a"),
        ] {
            assert!(ring.open(&other, &sealed).is_err(), "{other}");
        }
        for at in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 1;
            assert!(ring.open(&key, &altered).is_err(), "byte {at} was altered");
            assert!(ring.open(&key, &sealed[..at]).is_err(), "cut at {at}");
        }

        let id = ring.seal_with(&[2; 32]).unwrap();
        assert_eq!(ring.ids()[0], id);
        let newer = ring.seal(&key, b"hunter3").unwrap();
        assert_eq!(ring.open(&key, &sealed).unwrap(), &b"hunter2"[..], "the older key still opens");
        ring.forget_others();
        assert!(ring.open(&key, &sealed).is_err());
        assert_eq!(ring.open(&key, &newer).unwrap(), &b"hunter3"[..]);
        assert!(!format!("{ring:?} {id}").contains("02, 02"), "a key is not shown");
    }
}
