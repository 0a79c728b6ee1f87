//! The two cipher suites in use: their numbers, the codes of RAKP, and the keys of a session.
//!
//! Suite 17 is RAKP-HMAC-SHA256 with HMAC-SHA256-128, suite 3 RAKP-HMAC-SHA1 with HMAC-SHA1-96; both
//! encrypt by AES-CBC-128 (sections 13.28 to 13.33, 22.15.2). The others leave something out, and
//! among them is suite 0, which needs no password: they are not offered.

use aes::Aes128;
use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{BlockDecryptMut as _, BlockEncryptMut as _, KeyIvInit as _};
use ring::hmac;

const AES_BLOCK: usize = 16;
/// What K1 and K2 are made from: this many times 01 and 02, whatever the digest (section 13.32).
const CONSTANT_BYTES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// Number 3.
    Sha1,
    /// Number 17.
    Sha256,
}

impl Suite {
    /// Best first.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha1];

    /// Numbers of the algorithms for authentication, integrity and confidentiality, as in Open Session.
    #[must_use]
    pub fn algorithms(self) -> [u8; 3] {
        match self {
            Self::Sha1 => [1, 1, 1],
            Self::Sha256 => [3, 4, 1],
        }
    }

    /// Length of an integrity code in a packet, and of RAKP 4's.
    #[must_use]
    pub fn code_bytes(self) -> usize {
        match self {
            Self::Sha1 => 12,
            Self::Sha256 => 16,
        }
    }

    /// Length of a code in RAKP 2 and 3.
    #[must_use]
    pub fn digest_bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    fn key(self, value: &[u8]) -> hmac::Key {
        let algorithm = match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
        };
        hmac::Key::new(algorithm, value)
    }
}

/// What both sides of a set-up know in the end, besides the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    pub suite: Suite,
    /// Session numbers: ours, and the BMC's.
    pub console_id: u32,
    pub bmc_id: u32,
    pub console_random: [u8; 16],
    pub bmc_random: [u8; 16],
    pub bmc_guid: [u8; 16],
    /// The privilege level, with the bit for finding the user by name alone.
    pub role: u8,
    pub name: Vec<u8>,
}

impl Numbers {
    /// The end of most texts: role, length of the name, name.
    fn who(&self) -> Vec<u8> {
        let length = u8::try_from(self.name.len()).unwrap_or(u8::MAX);
        [&[self.role, length], &self.name[..]].concat()
    }

    /// The BMC's proof in RAKP 2.
    #[must_use]
    pub fn rakp2(&self, password: &[u8]) -> Vec<u8> {
        let (console_id, bmc_id) = (self.console_id.to_le_bytes(), self.bmc_id.to_le_bytes());
        let text = [&console_id[..], &bmc_id, &self.console_random, &self.bmc_random, &self.bmc_guid, &self.who()];
        hmac::sign(&self.suite.key(password), &text.concat()).as_ref().to_vec()
    }

    /// Our proof in RAKP 3.
    #[must_use]
    pub fn rakp3(&self, password: &[u8]) -> Vec<u8> {
        let text = [&self.bmc_random[..], &self.console_id.to_le_bytes(), &self.who()].concat();
        hmac::sign(&self.suite.key(password), &text).as_ref().to_vec()
    }

    /// The keys, and the BMC's proof of them in RAKP 4.
    #[must_use]
    pub fn keys(&self, password: &[u8]) -> (IpmiSessionKeys, Vec<u8>) {
        let suite = self.suite;
        let text = [&self.console_random[..], &self.bmc_random, &self.who()].concat();
        let sik = suite.key(hmac::sign(&suite.key(password), &text).as_ref());
        let k1 = hmac::sign(&sik, &[1; CONSTANT_BYTES]);
        let k2 = hmac::sign(&sik, &[2; CONSTANT_BYTES]);
        let mut aes = [0; AES_BLOCK];
        aes.copy_from_slice(&k2.as_ref()[..AES_BLOCK]);
        let text = [&self.console_random[..], &self.bmc_id.to_le_bytes(), &self.bmc_guid].concat();
        let mut rakp4 = hmac::sign(&sik, &text).as_ref().to_vec();
        rakp4.truncate(suite.code_bytes());
        (IpmiSessionKeys { suite, integrity: suite.key(k1.as_ref()), aes }, rakp4)
    }
}

/// Keys of one session.
#[derive(Clone)]
pub struct IpmiSessionKeys {
    suite: Suite,
    /// K1.
    integrity: hmac::Key,
    /// K2.
    aes: [u8; AES_BLOCK],
}

impl std::fmt::Debug for IpmiSessionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IpmiSessionKeys").field("suite", &self.suite).finish_non_exhaustive()
    }
}

impl IpmiSessionKeys {
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The integrity code of a packet.
    #[must_use]
    pub fn code(&self, signed: &[u8]) -> Vec<u8> {
        let mut code = hmac::sign(&self.integrity, signed).as_ref().to_vec();
        code.truncate(self.suite.code_bytes());
        code
    }

    /// `iv`, which must be fresh, then the encrypted payload with its padding 01, 02, … and their number.
    #[must_use]
    pub fn encrypt(&self, payload: &[u8], iv: [u8; AES_BLOCK]) -> Vec<u8> {
        let padding = AES_BLOCK - 1 - payload.len() % AES_BLOCK;
        let mut text = payload.to_vec();
        text.extend((1..=padding).map(|number| number.to_le_bytes()[0]));
        text.push(padding.to_le_bytes()[0]);
        let length = text.len();
        let cipher = cbc::Encryptor::<Aes128>::new(&self.aes.into(), &iv.into());
        // Whole blocks always: there is no way to fail.
        let encrypted = cipher.encrypt_padded_mut::<NoPadding>(&mut text, length).unwrap_or_default();
        [&iv[..], encrypted].concat()
    }

    /// The payload; none where this is nothing that [`IpmiSessionKeys::encrypt`] makes.
    #[must_use]
    pub fn decrypt(&self, encrypted: &[u8]) -> Option<Vec<u8>> {
        let (iv, blocks) = encrypted.split_first_chunk::<AES_BLOCK>()?;
        if blocks.is_empty() || !blocks.len().is_multiple_of(AES_BLOCK) {
            return None;
        }
        let mut text = blocks.to_vec();
        let cipher = cbc::Decryptor::<Aes128>::new(&self.aes.into(), &(*iv).into());
        cipher.decrypt_padded_mut::<NoPadding>(&mut text).ok()?;
        // What the padding holds is not looked at: some fill it with other bytes, and the code covers it.
        let padding = usize::from(text.pop()?);
        let length = text.len().checked_sub(padding).filter(|_| padding < AES_BLOCK)?;
        text.truncate(length);
        Some(text)
    }
}

/// Unpredictable numbers from one secret seed: HMAC-SHA256 of their count.
#[derive(Clone)]
pub struct SessionRandom {
    key: hmac::Key,
    count: u64,
}

impl std::fmt::Debug for SessionRandom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionRandom(…)")
    }
}

impl SessionRandom {
    /// A seed serves one session: the same one gives the same numbers.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, seed), count: 0 }
    }

    pub fn draw(&mut self) -> [u8; 16] {
        self.count += 1;
        let mut drawn = [0; 16];
        drawn.copy_from_slice(&hmac::sign(&self.key, &self.count.to_le_bytes()).as_ref()[..16]);
        drawn
    }
}

/// Equality that takes the same time wherever the difference is.
#[must_use]
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(suite: Suite) -> Numbers {
        Numbers {
            suite,
            console_id: 1,
            bmc_id: 2,
            console_random: [3; 16],
            bmc_random: [4; 16],
            bmc_guid: [5; 16],
            role: 0x14,
            name: b"admin".to_vec(),
        }
    }

    #[test]
    fn codes_have_the_lengths_of_their_suite() {
        for suite in Suite::ALL {
            let numbers = numbers(suite);
            let (keys, rakp4) = numbers.keys(b"secret");
            assert_eq!(numbers.rakp2(b"secret").len(), suite.digest_bytes());
            assert_eq!(numbers.rakp3(b"secret").len(), suite.digest_bytes());
            assert_eq!((rakp4.len(), keys.code(b"x").len()), (suite.code_bytes(), suite.code_bytes()));
            assert_ne!(numbers.rakp2(b"secret"), numbers.rakp2(b"Secret"));
            // Passwords are zero-filled fields: HMAC takes both for the same key.
            assert_eq!(numbers.rakp2(b"secret"), numbers.rakp2(b"secret\0\0\0\0"));
        }
    }

    /// Codes that Python's `hmac` and `openssl enc` have made.
    #[test]
    fn codes_are_those_of_others() {
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
        for (suite, rakp2, rakp3, rakp4, code, encrypted) in [
            (
                Suite::Sha1,
                "497cadc33cf87875f3a7157c369f8a276931b9af",
                "43d6d8cc1594757e5ecb256c65b4f84576715d77",
                "ac108808c5c3b255b5a626de",
                "d9f2c9409634bd52dc451dad",
                "8c8b3306475ff1732067b9feda06c959",
            ),
            (
                Suite::Sha256,
                "ae5051bedb698ebf6bb65c9dfc712b782b8dcc72821bd5a56e6de1daaab60f00",
                "dbee3e91b63475f492fbc621b8e25f0d1df9d56f8d9742699e089f8c453a6ae6",
                "f5262169280ceb40082ccfb7b39f9a22",
                "03eb4dd00c0433c54751a53408def9cb",
                "cfaa4eaa311ea3bb48081e166912faff",
            ),
        ] {
            let numbers = numbers(suite);
            let (keys, fourth) = numbers.keys(b"secret");
            assert_eq!(hex(&numbers.rakp2(b"secret")), rakp2);
            assert_eq!(hex(&numbers.rakp3(b"secret")), rakp3);
            assert_eq!(hex(&fourth), rakp4);
            assert_eq!(hex(&keys.code(b"signed")), code);
            assert_eq!(hex(&keys.encrypt(b"hello", [6; 16])[AES_BLOCK..]), encrypted);
        }
    }

    #[test]
    fn what_is_not_encrypted_here_is_nothing() {
        let (keys, _) = numbers(Suite::Sha256).keys(b"secret");
        for bytes in [&[][..], &[0; 15], &[0; 16], &[0; 31], &[0; 33]] {
            assert_eq!(keys.decrypt(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn payloads_come_back(payload in prop::collection::vec(any::<u8>(), 0..80), iv in any::<[u8; 16]>()) {
            let (keys, _) = numbers(Suite::Sha1).keys(b"secret");
            let encrypted = keys.encrypt(&payload, iv);
            prop_assert_eq!(encrypted.len() % AES_BLOCK, 0);
            prop_assert_eq!(keys.decrypt(&encrypted), Some(payload));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let (keys, _) = numbers(Suite::Sha1).keys(b"secret");
            drop(keys.decrypt(&bytes));
        }
    }
}
