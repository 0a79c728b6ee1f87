//! Detached OpenPGP signatures: by keys that the library makes, and by real GnuPG (S1.5).

use std::{path::Path, process::Command, sync::Arc};

use firesteel_images::openpgp::{KeyFault, Keyring, KeyringError, SignatureError, VerifiedSignature, Verifier, check};
use pgp::composed::{
    ArmorOptions, DetachedSignature, KeyType, SecretKeyParamsBuilder, SignedPublicKey, SignedSecretKey,
    SubkeyParamsBuilder,
};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{RevocationCode, SignatureConfig, SignatureType, Subpacket, SubpacketData};
use pgp::ser::Serialize as _;
use pgp::types::{Duration, KeyDetails as _, Password, Timestamp};
use proptest::prelude::*;
use rand::thread_rng;

const IMAGE: &[u8] = b"the bytes of an image, as they are published";
const NOW_S: u64 = 1_800_000_000;

/// A key that signs by itself, or by a subkey alone.
pub(crate) fn key(primary_signs: bool, created_at_s: u32) -> SignedSecretKey {
    let created_at = Timestamp::from_secs(created_at_s);
    let subkey = SubkeyParamsBuilder::default()
        .key_type(KeyType::Ed25519Legacy)
        .can_sign(true)
        .created_at(created_at)
        .build()
        .unwrap();
    let mut params = SecretKeyParamsBuilder::default();
    params
        .key_type(KeyType::Ed25519Legacy)
        .can_certify(true)
        .can_sign(primary_signs)
        .created_at(created_at)
        .primary_user_id("publisher <images@example.com>".to_owned());
    if !primary_signs {
        params.subkey(subkey);
    }
    params.build().unwrap().generate(thread_rng()).unwrap()
}

pub(crate) fn armored(key: &SignedPublicKey) -> Vec<u8> {
    key.to_armored_string(ArmorOptions::default()).unwrap().into_bytes()
}

pub(crate) fn sign(key: &SignedSecretKey, data: &[u8]) -> Vec<u8> {
    signature(key, HashAlgorithm::Sha512, data).to_bytes().unwrap()
}

fn signature(key: &SignedSecretKey, algorithm: HashAlgorithm, data: &[u8]) -> DetachedSignature {
    let no_password = Password::empty();
    match key.secret_subkeys.first() {
        Some(subkey) => {
            DetachedSignature::sign_binary_data(thread_rng(), &subkey.key, &no_password, algorithm, data).unwrap()
        }
        None => {
            DetachedSignature::sign_binary_data(thread_rng(), &key.primary_key, &no_password, algorithm, data).unwrap()
        }
    }
}

fn verify(keyring: &[u8], signature: &[u8], data: &[u8]) -> Result<VerifiedSignature, SignatureError> {
    let mut verifier = Verifier::new(&Arc::new(Keyring::parse(keyring).unwrap()), signature, NOW_S)?;
    // In pieces, as they come.
    data.chunks(7).for_each(|piece| verifier.update(piece));
    verifier.finish()
}

#[test]
fn good_signatures_are_good_and_changed_bytes_are_not() {
    for primary_signs in [true, false] {
        let key = key(primary_signs, 1_600_000_000);
        let public = key.to_public_key();
        let signature = sign(&key, IMAGE);
        let armored_signature =
            self::signature(&key, HashAlgorithm::Sha256, IMAGE).to_armored_string(ArmorOptions::default()).unwrap();
        for keyring in [armored(&public), public.to_bytes().unwrap()] {
            let signed = verify(&keyring, &signature, IMAGE).unwrap();
            let known = Keyring::parse(&keyring).unwrap().fingerprints();
            assert_eq!(known, std::slice::from_ref(&signed.fingerprint));
            assert!(signed.made_at_s > 1_600_000_000 && signed.fingerprint.len() == 40);
            assert!(verify(&keyring, armored_signature.as_bytes(), IMAGE).is_ok());
            let mut changed = IMAGE.to_vec();
            changed[20] ^= 1;
            for wrong in [&changed[..], &IMAGE[..IMAGE.len() - 1], b"", &[IMAGE, b"x"].concat()] {
                let error = verify(&keyring, &signature, wrong).unwrap_err();
                assert!(matches!(error, SignatureError::Wrong { .. }), "{error:?}");
            }
        }
    }
}

#[test]
fn only_keys_that_were_given_count_and_several_signatures_may_stand_in_a_file() {
    let (known, other) = (key(true, 1_600_000_000), key(true, 1_600_000_000));
    let keyring = armored(&known.to_public_key());
    let both = [armored(&other.to_public_key()), keyring.clone()].concat();
    let (good, foreign) = (sign(&known, IMAGE), sign(&other, IMAGE));
    let error = verify(&keyring, &foreign, IMAGE).unwrap_err();
    let fingerprint = hex::encode(other.fingerprint().as_bytes());
    assert_eq!(error, SignatureError::UnknownKey { issuer: fingerprint });
    assert!(verify(&both, &foreign, IMAGE).is_ok(), "armored keys in a row");
    assert!(verify(&keyring, &[foreign.clone(), good.clone()].concat(), IMAGE).is_ok());
    let many = std::iter::repeat_n(good.clone(), 9).collect::<Vec<_>>().concat();
    assert_eq!(verify(&keyring, &many, IMAGE).unwrap_err(), SignatureError::TooMany);
    for (bytes, wanted) in [(&b""[..], "empty"), (b"not a signature", ""), (&good[..good.len() - 3], "")] {
        let error = verify(&keyring, bytes, IMAGE).unwrap_err();
        assert!(matches!(error, SignatureError::Unreadable { .. } | SignatureError::Wrong { .. }), "{error:?}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
    assert!(matches!(verify(&keyring, &vec![0; 65 << 10], IMAGE), Err(SignatureError::TooLong { .. })));
}

#[test]
fn weak_digests_and_signatures_of_texts_are_refused() {
    let key = key(true, 1_600_000_000);
    let keyring = armored(&key.to_public_key());
    // Header, version, type and key algorithm come before it. MD5, SHA-1, RIPEMD-160, SHA-224, and one that is not known.
    for algorithm in [1, 2, 3, 11, 99] {
        let mut weak = sign(&key, IMAGE);
        weak[5] = algorithm;
        let error = verify(&keyring, &weak, IMAGE).unwrap_err();
        assert!(matches!(error, SignatureError::Hash { .. }), "{algorithm}: {error:?}");
    }
    let no_password = Password::empty();
    let text =
        DetachedSignature::sign_text_data(thread_rng(), &key.primary_key, &no_password, HashAlgorithm::Sha256, IMAGE);
    assert_eq!(verify(&keyring, &text.unwrap().to_bytes().unwrap(), IMAGE).unwrap_err(), SignatureError::Kind);
}

/// The key's owner says something more of it.
fn with_word(key: &SignedSecretKey, kind: SignatureType, words: Vec<SubpacketData>) -> SignedPublicKey {
    let mut public = key.to_public_key();
    let mut config = SignatureConfig::v4(kind, key.algorithm(), HashAlgorithm::Sha256);
    let base =
        [SubpacketData::SignatureCreationTime(Timestamp::now()), SubpacketData::IssuerFingerprint(key.fingerprint())];
    let all = base.into_iter().chain(words);
    config.hashed_subpackets = all.map(|data| Subpacket::regular(data).unwrap()).collect();
    let signature = config.sign_key(&key.primary_key, &Password::empty(), &public.primary_key).unwrap();
    if kind == SignatureType::KeyRevocation {
        public.details.revocation_signatures.push(signature);
    } else {
        public.details.direct_signatures.push(signature);
    }
    public
}

#[test]
fn keys_that_their_owner_limits_or_revokes_sign_nothing() {
    let old = key(true, 1_600_000_000);
    let life = |seconds| SubpacketData::KeyExpirationTime(Duration::from_secs(seconds));
    let expired = with_word(&old, SignatureType::Key, vec![life(1000)]);
    let error = verify(&armored(&expired), &sign(&old, IMAGE), IMAGE).unwrap_err();
    assert!(matches!(error, SignatureError::Key { fault: KeyFault::Expired, .. }), "{error:?}");
    let living = with_word(&old, SignatureType::Key, vec![life(u32::MAX)]);
    assert!(verify(&armored(&living), &sign(&old, IMAGE), IMAGE).is_ok());
    let reason = SubpacketData::RevocationReason(RevocationCode::KeyCompromised, "lost".into());
    let revoked = with_word(&old, SignatureType::KeyRevocation, vec![reason]);
    let error = Keyring::parse(&armored(&revoked)).unwrap_err();
    assert!(matches!(&error, KeyringError::NoneUsable { why } if why.contains("revoked")), "{error:?}");
    // A subkey falls with its primary key.
    let by_subkey = key(false, 1_600_000_000);
    let revoked = with_word(&by_subkey, SignatureType::KeyRevocation, Vec::new());
    assert!(Keyring::parse(&armored(&revoked)).is_err());
    // The primary of that one may certify only.
    let mut bare = by_subkey.to_public_key();
    bare.public_subkeys.clear();
    let error = Keyring::parse(&armored(&bare)).unwrap_err();
    assert!(matches!(&error, KeyringError::NoneUsable { why } if why.contains("for signing")), "{error:?}");
    // A key without its owner's word is anybody's.
    let mut anonymous = old.to_public_key();
    anonymous.details.users.clear();
    anonymous.details.direct_signatures.clear();
    assert!(Keyring::parse(&armored(&anonymous)).is_err());
    // Somebody else's subkey under an own key.
    let mut stolen = old.to_public_key();
    stolen.public_subkeys = by_subkey.to_public_key().public_subkeys;
    let error = verify(&armored(&stolen), &sign(&by_subkey, IMAGE), IMAGE).unwrap_err();
    assert!(matches!(error, SignatureError::Key { fault: KeyFault::NotSelfSigned, .. }), "{error:?}");
    // A key from the future signed nothing yet.
    let early = key(true, 4_000_000_000);
    let error = verify(&armored(&early.to_public_key()), &sign(&early, IMAGE), IMAGE).unwrap_err();
    assert!(matches!(error, SignatureError::Key { fault: KeyFault::TooEarly, .. }), "{error:?}");
}

#[test]
fn what_is_no_key_is_refused_with_a_reason() {
    let secret = key(true, 1_600_000_000);
    let armored_secret = secret.to_armored_string(ArmorOptions::default()).unwrap();
    assert_eq!(Keyring::parse(armored_secret.as_bytes()).unwrap_err(), KeyringError::Secret);
    for bad in [&b""[..], b"ssh-ed25519 AAAA", b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nzz\n", &[0x99, 1, 2, 3]] {
        let error = Keyring::parse(bad).unwrap_err();
        assert!(matches!(error, KeyringError::Unreadable { .. } | KeyringError::NoneUsable { .. }), "{error:?}");
        assert!(!error.to_string().chars().any(char::is_control), "{error}");
    }
    assert!(Keyring::parse(&secret.to_bytes().unwrap()).is_err(), "a binary secret key");
    assert!(matches!(Keyring::parse(&vec![b'x'; (1 << 20) + 1]), Err(KeyringError::TooLong { .. })));
}

/// Runs gpg in a home of its own; `None` and a message where it is not there.
fn gpg(home: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let common = ["--batch", "--no-tty", "--yes", "--pinentry-mode", "loopback", "--passphrase", ""];
    let output = Command::new("gpg").env("GNUPGHOME", home).args(common).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => Some(output.stdout),
        Ok(output) => panic!("gpg {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            println!("skipped: gpg does not run here ({error})");
            None
        }
    }
}

#[test]
fn real_gpg_signs_and_we_verify() {
    for kind in ["rsa2048", "ed25519", "nistp256"] {
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(home.path(), None, None).unwrap();
        let data = home.path().join("disk.raw.xz");
        std::fs::write(&data, IMAGE).unwrap();
        let user = format!("{kind} <x@example.com>");
        if gpg(home.path(), &["--quick-generate-key", &user, kind, "sign", "0"]).is_none() {
            return;
        }
        let keyring = gpg(home.path(), &["--export", "--armor"]).unwrap();
        let binary = gpg(home.path(), &["--export"]).unwrap();
        let data = data.to_str().unwrap();
        let signature = gpg(home.path(), &["--detach-sign", "--output", "-", data]).unwrap();
        let armored = gpg(home.path(), &["--detach-sign", "--armor", "--output", "-", data]).unwrap();
        for keyring in [&keyring, &binary] {
            for signature in [&signature, &armored] {
                verify(keyring, signature, IMAGE).unwrap_or_else(|error| panic!("{kind}: {error:?}"));
                let error = verify(keyring, signature, b"other").unwrap_err();
                assert!(matches!(error, SignatureError::Wrong { .. }), "{kind}: {error:?}");
            }
        }
        // A signature with an end.
        let limited = gpg(home.path(), &["--default-sig-expire", "1", "--detach-sign", "--output", "-", data]).unwrap();
        let keys = Arc::new(Keyring::parse(&keyring).unwrap());
        let far = Verifier::new(&keys, &limited, u64::from(u32::MAX)).map(drop);
        assert_eq!(far.unwrap_err(), SignatureError::Expired, "{kind}");
        // GnuPG writes a revocation for each key it makes, disabled by a colon.
        let revocation = std::fs::read_dir(home.path().join("openpgp-revocs.d")).unwrap().next().unwrap().unwrap();
        let text = std::fs::read_to_string(revocation.path()).unwrap().replace(":-----BEGIN", "-----BEGIN");
        std::fs::write(revocation.path(), text).unwrap();
        gpg(home.path(), &["--import", revocation.path().to_str().unwrap()]).unwrap();
        let revoked = gpg(home.path(), &["--export"]).unwrap();
        assert!(matches!(Keyring::parse(&revoked), Err(KeyringError::NoneUsable { .. })), "{kind}");
        // Its agent ends with its home.
        drop(Command::new("gpgconf").env("GNUPGHOME", home.path()).args(["--kill", "all"]).status());
    }
}

proptest! {
    #[test]
    fn never_panics(keys in prop::collection::vec(any::<u8>(), 0..500), signature in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&keys, &signature);
    }
}

#[test]
fn changed_keys_and_signatures_never_panic_and_never_pass() {
    let key = key(false, 1_600_000_000);
    let (keyring, signature) = (key.to_public_key().to_bytes().unwrap(), sign(&key, IMAGE));
    for at in 0..signature.len() {
        let mut changed = signature.clone();
        changed[at] ^= 0x41;
        // Bytes that are not signed themselves may change what does not matter, such as a hint at the key.
        drop(verify(&keyring, &changed, IMAGE));
        assert!(verify(&keyring, &changed, b"other").is_err(), "byte {at}");
    }
    for at in 0..keyring.len() {
        let mut changed = keyring.clone();
        changed[at] ^= 0x41;
        if let Ok(keys) = Keyring::parse(&changed)
            && let Ok(mut verifier) = Verifier::new(&Arc::new(keys), &signature, NOW_S)
        {
            verifier.update(b"other");
            assert!(verifier.finish().is_err(), "byte {at}");
        }
    }
}
