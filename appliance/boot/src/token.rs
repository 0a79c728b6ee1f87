//! Sealed tokens: the identity of one boot. Only the client keeps it.
//!
//! A token is `version ‖ nonce ‖ AES-256-GCM(claims)` in base64url. Only the appliance's key opens it, so the server
//! needs no session, and a client can neither read nor change what it carries. Time is the caller's: seconds of the age
//! of the store, which no clock moves. Neither key nor token has a `Debug` that shows it.
//!
//! ```text
//! byte  0      version (2; 1 is opened, too); also authenticated
//!       1..13  nonce, random
//!      13..    encrypted: purpose (1) ‖ attempt (8, big endian) ‖ expiry (8, seconds)
//!              ‖ length of the boot's seal (1; not in version 1) ‖ seal ‖ subject (UTF-8)
//!      last 16 authentication tag
//!
//! seal: grant (8) ‖ asker (1: 0 by lease, 1 first) ‖ address (16, IPv4 mapped) ‖ SHA-256 of kernel, initramfs and,
//! where it is known, agent (32 each)
//! ```
//!
//! Earlier programs sealed an expiry in Unix seconds, which is older than any store: such a token of a boot ends with
//! its attempt. The expiry of an installation's token says nothing ([`NO_EXPIRY`]): its deadline is in the host's
//! journal.

use std::{fmt, net::IpAddr};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firesteel_facts::Sha256;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

use crate::observation::{BootAsker, BootSeal};

/// The length of the sealing key.
pub const KEY_BYTES: usize = 32;
/// A host's uid is 36 characters, a MAC 17; the rest is room for names.
pub const SUBJECT_BYTES_MAX: usize = 128;
/// The expiry of a token whose deadline is kept elsewhere.
pub const NO_EXPIRY: u64 = u64::MAX;
/// What a token of the longest subject takes; anything longer is refused before it is decoded.
pub const TOKEN_CHARS_MAX: usize = TOKEN_BYTES_MAX.div_ceil(3) * 4;

const VERSION: u8 = 2;
/// The version without seals of boots.
const OLD_VERSION: u8 = 1;
const FIXED_BYTES: usize = 1 + 8 + 8 + 1;
const SEAL_BYTES_MAX: usize = 8 + 1 + 16 + 3 * 32;
const TAG_BYTES: usize = 16;
const TOKEN_BYTES_MAX: usize = 1 + NONCE_LEN + FIXED_BYTES + SEAL_BYTES_MAX + SUBJECT_BYTES_MAX + TAG_BYTES;

/// What the bearer may do. A token of one purpose opens nothing of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// An unknown machine's agent: may introduce itself and be inspected.
    Discovery,
    /// The agent of one attempt of one host.
    Agent,
    /// An installed operating system: may fetch its config and report that it runs.
    Instance,
}

impl Purpose {
    fn code(self) -> u8 {
        match self {
            Self::Discovery => 1,
            Self::Agent => 2,
            Self::Instance => 3,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Discovery),
            2 => Some(Self::Agent),
            3 => Some(Self::Instance),
            _ => None,
        }
    }
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootTokenClaims {
    pub purpose: Purpose,
    /// A host's uid, or MAC and object of a machine without one.
    pub subject: String,
    /// The number of this boot of it.
    pub attempt: u64,
    /// The age of the store at which the token expires.
    pub expires_s: u64,
    /// What belongs to the boot, where it is one.
    pub boot: Option<BootSeal>,
}

/// A token on its way to the one client that it is for.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedToken(String);

impl SealedToken {
    /// The text as it goes into a URL or a header. Not to be logged.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Debug for SealedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedToken(…)")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenSealError {
    #[error("a token's subject has 1 to {SUBJECT_BYTES_MAX} bytes")]
    Subject,
    #[error("the system gave no random numbers")]
    Random,
    #[error("sealing a token")]
    Seal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootTokenError {
    #[error("this is not a token")]
    Malformed,
    #[error("this token was not made by this appliance, or was changed")]
    Altered,
    #[error("this token has expired")]
    Expired,
    #[error("this token is for another purpose")]
    WrongPurpose,
}

/// Makes and opens tokens with the appliance's key.
pub struct Sealer {
    key: LessSafeKey,
    random: SystemRandom,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        let unbound = UnboundKey::new(&AES_256_GCM, key).expect("the key has AES-256's length by its type");
        Self { key: LessSafeKey::new(unbound), random: SystemRandom::new() }
    }

    pub fn seal(&self, claims: &BootTokenClaims) -> Result<SealedToken, TokenSealError> {
        if claims.subject.is_empty() || claims.subject.len() > SUBJECT_BYTES_MAX {
            return Err(TokenSealError::Subject);
        }
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| TokenSealError::Random)?;
        let boot = claims.boot.as_ref().map(seal_bytes).unwrap_or_default();
        let mut body = Vec::with_capacity(FIXED_BYTES + boot.len() + claims.subject.len() + TAG_BYTES);
        body.push(claims.purpose.code());
        body.extend_from_slice(&claims.attempt.to_be_bytes());
        body.extend_from_slice(&claims.expires_s.to_be_bytes());
        body.push(u8::try_from(boot.len()).map_err(|_| TokenSealError::Seal)?);
        body.extend_from_slice(&boot);
        body.extend_from_slice(claims.subject.as_bytes());
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from([VERSION]), &mut body)
            .map_err(|_| TokenSealError::Seal)?;
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&body);
        Ok(SealedToken(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The claims of `token`, if it was sealed here, has not expired at `age_s` and is for `purpose`.
    pub fn open(&self, token: &str, age_s: u64, purpose: Purpose) -> Result<BootTokenClaims, BootTokenError> {
        let claims = self.read(token, purpose)?;
        if age_s >= claims.expires_s {
            return Err(BootTokenError::Expired);
        }
        Ok(claims)
    }

    /// The claims of a token of ours for `purpose`, whatever its expiry: for those whose deadline is kept elsewhere.
    pub fn read(&self, token: &str, purpose: Purpose) -> Result<BootTokenClaims, BootTokenError> {
        let claims = self.unseal(token)?;
        if claims.purpose == purpose { Ok(claims) } else { Err(BootTokenError::WrongPurpose) }
    }

    /// The claims of a token of either boot purpose: the boot URLs serve both.
    pub fn open_boot(&self, token: &str, age_s: u64) -> Result<BootTokenClaims, BootTokenError> {
        match self.open(token, age_s, Purpose::Agent) {
            Err(BootTokenError::WrongPurpose) => self.open(token, age_s, Purpose::Discovery),
            result => result,
        }
    }

    fn unseal(&self, token: &str) -> Result<BootTokenClaims, BootTokenError> {
        if token.len() > TOKEN_CHARS_MAX {
            return Err(BootTokenError::Malformed);
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| BootTokenError::Malformed)?;
        let Some((&version @ (VERSION | OLD_VERSION), rest)) = bytes.split_first() else {
            return Err(BootTokenError::Malformed);
        };
        let Some((nonce, sealed)) = rest.split_first_chunk::<NONCE_LEN>() else {
            return Err(BootTokenError::Malformed);
        };
        let mut sealed = sealed.to_vec();
        let body = self
            .key
            .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from([version]), &mut sealed)
            .map_err(|_| BootTokenError::Altered)?;
        parse_claims(body, version).ok_or(BootTokenError::Malformed)
    }
}

fn seal_bytes(seal: &BootSeal) -> Vec<u8> {
    let (code, address) = match seal.asker {
        BootAsker::Leased(address) => (0, address),
        BootAsker::First(address) => (1, address),
    };
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let mut bytes = seal.grant.to_be_bytes().to_vec();
    bytes.push(code);
    bytes.extend_from_slice(&address.octets());
    for digest in [Some(seal.kernel), Some(seal.initramfs), seal.agent].into_iter().flatten() {
        bytes.extend_from_slice(&digest.0);
    }
    bytes
}

fn parse_seal(bytes: &[u8]) -> Option<BootSeal> {
    let (grant, rest) = bytes.split_first_chunk::<8>()?;
    let (&code, rest) = rest.split_first()?;
    let (address, rest) = rest.split_first_chunk::<16>()?;
    let address = IpAddr::from(*address).to_canonical();
    let (kernel, rest) = rest.split_first_chunk::<32>()?;
    let (initramfs, rest) = rest.split_first_chunk::<32>()?;
    let agent = match rest {
        [] => None,
        rest => Some(Sha256(rest.try_into().ok()?)),
    };
    Some(BootSeal {
        grant: u64::from_be_bytes(*grant),
        asker: if code == 0 { BootAsker::Leased(address) } else { BootAsker::First(address) },
        kernel: Sha256(*kernel),
        initramfs: Sha256(*initramfs),
        agent,
    })
}

fn parse_claims(body: &[u8], version: u8) -> Option<BootTokenClaims> {
    let (&purpose, rest) = body.split_first()?;
    let (attempt, rest) = rest.split_first_chunk::<8>()?;
    let (expires, rest) = rest.split_first_chunk::<8>()?;
    let (boot, subject) = if version == OLD_VERSION {
        (None, rest)
    } else {
        let (&length, rest) = rest.split_first()?;
        let (seal, subject) = rest.split_at_checked(length.into())?;
        (if length == 0 { None } else { Some(parse_seal(seal)?) }, subject)
    };
    Some(BootTokenClaims {
        boot,
        purpose: Purpose::from_code(purpose)?,
        subject: std::str::from_utf8(subject).ok()?.to_owned(),
        attempt: u64::from_be_bytes(*attempt),
        expires_s: u64::from_be_bytes(*expires),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealer() -> Sealer {
        Sealer::new(&[7; KEY_BYTES])
    }

    fn claims() -> BootTokenClaims {
        BootTokenClaims {
            purpose: Purpose::Agent,
            subject: "6f1d3a52-uid".into(),
            attempt: 3,
            expires_s: 1_000,
            boot: None,
        }
    }

    fn seal(asker: BootAsker) -> BootSeal {
        let digest = |byte| Sha256([byte; 32]);
        BootSeal { grant: 7, asker, kernel: digest(1), initramfs: digest(2), agent: Some(digest(3)) }
    }

    #[test]
    fn what_belongs_to_a_boot_is_carried() {
        let four = IpAddr::from([10, 77, 0, 100]);
        let six = "fd00::1".parse().unwrap();
        for asker in [BootAsker::Leased(four), BootAsker::First(four), BootAsker::Leased(six), BootAsker::First(six)] {
            for seal in [seal(asker), BootSeal { agent: None, ..seal(asker) }] {
                let claims = BootTokenClaims { boot: Some(seal), ..claims() };
                let token = sealer().seal(&claims).unwrap();
                assert_eq!(sealer().open(token.as_str(), 1, Purpose::Agent), Ok(claims));
            }
        }
    }

    /// An OS that was installed before the upgrade has one.
    #[test]
    fn a_token_of_version_1_is_opened() {
        let mut body = vec![Purpose::Instance.code()];
        body.extend_from_slice(&[3_u64.to_be_bytes(), 1_000_u64.to_be_bytes()].concat());
        body.extend_from_slice(b"6f1d3a52-uid");
        let nonce = || Nonce::assume_unique_for_key([5; NONCE_LEN]);
        sealer().key.seal_in_place_append_tag(nonce(), Aad::from([OLD_VERSION]), &mut body).unwrap();
        let token = URL_SAFE_NO_PAD.encode([&[OLD_VERSION][..], &[5; NONCE_LEN], &body].concat());
        let wanted = BootTokenClaims { purpose: Purpose::Instance, ..claims() };
        assert_eq!(sealer().open(&token, 1, Purpose::Instance), Ok(wanted));
    }

    #[test]
    fn opens_what_it_sealed_until_it_expires() {
        let token = sealer().seal(&claims()).unwrap();
        assert_eq!(sealer().open(token.as_str(), 999, Purpose::Agent), Ok(claims()));
        assert_eq!(sealer().open(token.as_str(), 1_000, Purpose::Agent), Err(BootTokenError::Expired));
        assert_eq!(sealer().open(token.as_str(), 999, Purpose::Instance), Err(BootTokenError::WrongPurpose));
        assert_eq!(sealer().open_boot(token.as_str(), 999), Ok(claims()));
        assert_eq!(sealer().read(token.as_str(), Purpose::Agent), Ok(claims()), "at any time");
        assert_eq!(sealer().read(token.as_str(), Purpose::Instance), Err(BootTokenError::WrongPurpose));
    }

    #[test]
    fn a_token_opens_what_is_of_its_purpose_and_boot_urls_take_no_instance_token() {
        use Purpose::{Agent, Discovery, Instance};
        for purpose in [Discovery, Agent, Instance] {
            let claims = BootTokenClaims { purpose, ..claims() };
            let token = sealer().seal(&claims).unwrap();
            for asked in [Discovery, Agent, Instance] {
                let wanted = if asked == purpose { Ok(claims.clone()) } else { Err(BootTokenError::WrongPurpose) };
                assert_eq!(sealer().open(token.as_str(), 1, asked), wanted, "{purpose:?} {asked:?}");
            }
            let wanted = if purpose == Instance { Err(BootTokenError::WrongPurpose) } else { Ok(claims) };
            assert_eq!(sealer().open_boot(token.as_str(), 1), wanted, "{purpose:?}");
        }
    }

    #[test]
    fn what_is_longer_than_any_token_is_not_decoded() {
        for (characters, error) in [
            (TOKEN_CHARS_MAX, BootTokenError::Altered),
            (TOKEN_CHARS_MAX + 2, BootTokenError::Malformed),
            (TOKEN_CHARS_MAX + 4, BootTokenError::Malformed),
        ] {
            // Base64url of the version and of zeros.
            let text = format!("Ag{}", "A".repeat(characters - 2));
            assert_eq!(sealer().read(&text, Purpose::Agent), Err(error), "{characters}");
        }
    }

    #[test]
    fn another_key_opens_nothing() {
        let token = sealer().seal(&claims()).unwrap();
        let other = Sealer::new(&[8; KEY_BYTES]);
        assert_eq!(other.open(token.as_str(), 1, Purpose::Agent), Err(BootTokenError::Altered));
    }

    #[test]
    fn two_tokens_for_the_same_claims_differ_and_debug_shows_neither() {
        let (one, two) = (sealer().seal(&claims()).unwrap(), sealer().seal(&claims()).unwrap());
        assert_ne!(one.as_str(), two.as_str());
        assert_eq!(format!("{one:?}"), "SealedToken(…)");
        assert_eq!(format!("{:?}", sealer()), "Sealer");
    }

    #[test]
    fn subjects_have_bounds_and_the_longest_fits() {
        let boot = Some(seal(BootAsker::First("fd00::1".parse().unwrap())));
        let subject = |bytes: usize| BootTokenClaims { subject: "a".repeat(bytes), boot, ..claims() };
        assert_eq!(sealer().seal(&subject(0)), Err(TokenSealError::Subject));
        assert_eq!(sealer().seal(&subject(SUBJECT_BYTES_MAX + 1)), Err(TokenSealError::Subject));
        let token = sealer().seal(&subject(SUBJECT_BYTES_MAX)).unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(token.as_str()).unwrap().len(), TOKEN_BYTES_MAX);
        assert_eq!(token.as_str().len().div_ceil(4) * 4, TOKEN_CHARS_MAX);
        assert!(sealer().open(token.as_str(), 1, Purpose::Agent).is_ok());
    }

    proptest! {
        #[test]
        fn any_change_of_any_character_is_noticed(position in 0usize..60, replacement in "[A-Za-z0-9_-]") {
            let token = sealer().seal(&claims()).unwrap().into_string();
            let mut changed = token.clone();
            changed.replace_range(position..=position, &replacement);
            prop_assume!(changed != token);
            prop_assert!(sealer().open(&changed, 1, Purpose::Agent).is_err());
        }

        #[test]
        fn no_text_panics(text in ".{0,300}") {
            prop_assert!(sealer().open(&text, 1, Purpose::Agent).is_err());
        }
    }
}
