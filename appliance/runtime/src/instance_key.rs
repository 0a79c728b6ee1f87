//! The nonce with which a new OS says that it runs.

use ring::hmac;

/// Makes nonces that only this appliance can make, and that only who fetched the config of an installation knows.
#[derive(Clone)]
pub struct InstanceKey(hmac::Key);

crate::opaque_debug!(InstanceKey);

impl InstanceKey {
    #[must_use]
    pub fn new(key: hmac::Key) -> Self {
        Self(key)
    }

    /// Returns the nonce of a host's installation.
    #[must_use]
    pub fn nonce(&self, uid: &str, attempt: u64) -> String {
        let tag = hmac::sign(&self.0, text(uid, attempt).as_bytes());
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Says whether this is the nonce of a host's installation.
    #[must_use]
    pub fn is_nonce(&self, uid: &str, attempt: u64, nonce: &str) -> bool {
        let given: Vec<u8> = (0..nonce.len() / 2)
            .filter_map(|at| nonce.get(at * 2..at * 2 + 2))
            .filter_map(|pair| u8::from_str_radix(pair, 16).ok())
            .collect();
        hmac::verify(&self.0, text(uid, attempt).as_bytes(), &given).is_ok()
    }
}

fn text(uid: &str, attempt: u64) -> String {
    format!("running\n{uid}\n{attempt}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_of_one_installation_of_one_host() {
        let key = InstanceKey::new(hmac::Key::new(hmac::HMAC_SHA256, &[8; 32]));
        let nonce = key.nonce("u", 3);
        assert!(key.is_nonce("u", 3, &nonce));
        assert!(!key.is_nonce("u", 4, &nonce) && !key.is_nonce("v", 3, &nonce) && !key.is_nonce("u", 3, ""));
        let other = InstanceKey::new(hmac::Key::new(hmac::HMAC_SHA256, &[9; 32]));
        assert!(!other.is_nonce("u", 3, &nonce));
    }
}
