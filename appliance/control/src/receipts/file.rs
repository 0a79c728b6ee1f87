//! The file of a receipt: readable by people, checked by bytes.
//!
//! ```text
//! firesteel receipt 1\n
//! {"receipt":"firesteel.dev/receipt/v2",…}\n
//! signature 128 hexadecimal digits\n
//! ```
//!
//! Signed (Ed25519, RFC 8032) are the first two lines, byte by byte, with both line ends. There is one way to
//! write a receipt and no other: one encoding of the signature, one of the JSON, nothing before, between or behind.
//! No key is in it, so that no receipt is checked by what it says of itself.

use ring::digest;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use super::document::{FORM, FORM_WITHOUT_BOOT, ReceiptDocument};

/// How every receipt begins; a number that is not ours is a newer program's.
const FIRST: &str = "firesteel receipt 1\n";
const LAST: &str = "signature ";
const SIGNATURE_BYTES: usize = 64;
/// `signature `, its digits, the line's end.
const LAST_BYTES: usize = LAST.len() + 2 * SIGNATURE_BYTES + 1;
/// The most bytes of a file that is read: the lists of a document are bounded, and come to less than half.
pub const FILE_BYTES_MAX: usize = 256 << 10;
/// SubjectPublicKeyInfo of an Ed25519 key (RFC 8410), up to its 32 bytes.
const KEY_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The most bytes of a file with a public key.
pub const KEY_BYTES_MAX: usize = 4 << 10;

/// Why a file is not a receipt that was signed by the given key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptFileError {
    #[error("it has more than {FILE_BYTES_MAX} bytes, so it is no receipt")]
    TooLong,
    #[error("it is no receipt: it does not begin with {:?}", FIRST.trim_end())]
    NotOurs,
    #[error("it does not end with one line `signature` and 128 lower-case hexadecimal digits")]
    Signature,
    #[error("its signature is not that of this key over these bytes: it was altered, or signed by another key")]
    Forged,
    #[error("it was signed by this key, and its content is none that this program knows: {0}")]
    Content(ContentFlaw),
}

/// Why what was signed is no receipt that this program knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentFlaw {
    #[error("{0}")]
    NotJson(String),
    #[error("it is of the form {found:?}, not {known}")]
    Form { found: String, known: &'static str },
    #[error("it is not spelled as the appliance spells it")]
    Spelling,
}

/// Why a text is no public key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no Ed25519 public key in PEM, as `firesteel receipt key` writes it")]
pub struct PublicKeyError;

/// Writes and signs a receipt. `None` for one that could not be read again, which no document of ours is.
#[must_use]
pub fn sign(key: &Ed25519KeyPair, document: &ReceiptDocument) -> Option<String> {
    let json = serde_json::to_string(document).ok()?;
    let body = format!("{FIRST}{json}\n");
    let signature = hex::encode(key.sign(body.as_bytes()).as_ref());
    let file = format!("{body}{LAST}{signature}\n");
    (file.len() <= FILE_BYTES_MAX).then_some(file)
}

/// Checks a receipt against the public key (32 bytes) of the appliance that is trusted, and nothing else.
///
/// # Errors
/// See [`ReceiptFileError`].
pub fn verify(public_key: &[u8], file: &[u8]) -> Result<ReceiptDocument, ReceiptFileError> {
    let (body, signature) = parts(file)?;
    UnparsedPublicKey::new(&ED25519, public_key).verify(body, &signature).map_err(|_| ReceiptFileError::Forged)?;
    let json = &body[FIRST.len()..body.len() - 1];
    content(json).map_err(ReceiptFileError::Content)
}

/// Splits a file into what is signed and the signature.
fn parts(file: &[u8]) -> Result<(&[u8], [u8; SIGNATURE_BYTES]), ReceiptFileError> {
    if file.len() > FILE_BYTES_MAX {
        return Err(ReceiptFileError::TooLong);
    }
    if !file.starts_with(FIRST.as_bytes()) {
        return Err(ReceiptFileError::NotOurs);
    }
    let at = file.len().checked_sub(LAST_BYTES).filter(|at| *at > FIRST.len()).ok_or(ReceiptFileError::Signature)?;
    let (body, last) = file.split_at(at);
    let digits = last
        .strip_prefix(LAST.as_bytes())
        .and_then(|rest| rest.strip_suffix(b"\n"))
        .ok_or(ReceiptFileError::Signature)?;
    let signature = unhex(digits).ok_or(ReceiptFileError::Signature)?;
    let is_one_line = body.ends_with(b"\n") && !body[FIRST.len()..body.len() - 1].contains(&b'\n');
    if is_one_line { Ok((body, signature)) } else { Err(ReceiptFileError::Signature) }
}

/// Reads one spelling only: a second name for a member, another order or other spaces are not what was signed for.
fn content(json: &[u8]) -> Result<ReceiptDocument, ContentFlaw> {
    let not_json = |error: serde_json::Error| ContentFlaw::NotJson(error.to_string());
    let document: ReceiptDocument = serde_json::from_slice(json).map_err(not_json)?;
    let form = if document.boot.is_some() { FORM } else { FORM_WITHOUT_BOOT };
    if document.receipt != form {
        return Err(ContentFlaw::Form { found: document.receipt.chars().take(64).collect(), known: form });
    }
    let again = serde_json::to_vec(&document).map_err(not_json)?;
    if again == json { Ok(document) } else { Err(ContentFlaw::Spelling) }
}

/// sha256 of a public key, hexadecimal: what people compare.
#[must_use]
pub fn fingerprint(public_key: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, public_key).as_ref())
}

/// The public key in PEM (RFC 8410), as OpenSSL reads it.
#[must_use]
pub fn public_pem(key: &Ed25519KeyPair) -> String {
    use base64::Engine as _;
    let der = [&KEY_PREFIX[..], key.public_key().as_ref()].concat();
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
}

/// Reads a public key.
///
/// # Errors
/// When it is another kind of key, or something else, private keys among it.
pub fn read_public_pem(text: &[u8]) -> Result<[u8; 32], PublicKeyError> {
    use base64::Engine as _;
    let text =
        std::str::from_utf8(text.get(..KEY_BYTES_MAX.min(text.len())).unwrap_or(text)).map_err(|_| PublicKeyError)?;
    let inner = text
        .trim()
        .strip_prefix("-----BEGIN PUBLIC KEY-----")
        .and_then(|rest| rest.strip_suffix("-----END PUBLIC KEY-----"))
        .ok_or(PublicKeyError)?;
    let der = base64::engine::general_purpose::STANDARD.decode(inner.trim()).map_err(|_| PublicKeyError)?;
    der.strip_prefix(&KEY_PREFIX[..]).and_then(|key| key.try_into().ok()).ok_or(PublicKeyError)
}

/// Lower-case digits alone: `AB` and `ab` would be two signatures of one receipt.
fn unhex(digits: &[u8]) -> Option<[u8; SIGNATURE_BYTES]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; SIGNATURE_BYTES];
    if digits.len() != 2 * SIGNATURE_BYTES {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(*pair.first()?)? << 4 | value(*pair.last()?)?;
    }
    Some(bytes)
}

/// Entry for fuzzing: any bytes are judged without a panic, and what is taken is what was written.
pub fn check(bytes: &[u8]) {
    let Ok(key) = Ed25519KeyPair::from_seed_unchecked(&[7; 32]) else { return };
    let public = key.public_key().as_ref();
    if let Ok(document) = verify(public, bytes) {
        assert_eq!(sign(&key, &document).map(String::into_bytes).as_deref(), Some(bytes));
    }
    if let Ok(document) = content(bytes) {
        // The same content by our hand is a receipt.
        let file = sign(&key, &document);
        assert!(file.is_none_or(|file| verify(public, file.as_bytes()) == Ok(document)));
    }
    if let Ok(read) = read_public_pem(bytes) {
        assert_eq!(read.len(), 32);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_wire::erasure::{ErasureEvidence, ErasurePolicy, Grade, LeftOut, Samples, TriedMethod};
    use firesteel_wire::{self as wire, DiskIdentity, Evidence};
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::receipts::document::{ObservedBoot, ReceiptContext, ReceiptHost, document};

    fn key(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
    }

    fn erasure(text: &str) -> ErasureEvidence {
        ErasureEvidence {
            disk: DiskIdentity { serial: "S\u{202e}1".into(), size_bytes: 8 << 30, ..DiskIdentity::default() },
            device: "/dev/sda".into(),
            policy: ErasurePolicy::Full,
            method: "sanitize-block".into(),
            grade: Grade::Purge,
            drive_log: vec!["ff0201".into()],
            samples: Samples { canaries: 8, read_back: 512, ..Samples::default() },
            tried: vec![TriedMethod { method: "sanitize-crypto".into(), ended: text.into(), lied: true }],
            left_out: vec![LeftOut { method: "format".into(), why: "reaches other disks".into() }],
            overridden: vec!["partition 3: VMFS \"datastore1\"".into()],
            unverified: vec!["spare blocks".into()],
        }
    }

    fn boot() -> ObservedBoot {
        ObservedBoot { address: "10.77.0.100".into(), by: "lease".into(), ..ObservedBoot::default() }
    }

    fn made(text: &str) -> ReceiptDocument {
        document_of(erasure(text))
    }

    pub(crate) fn made_of(grade: Grade) -> ReceiptDocument {
        document_of(ErasureEvidence { grade, ..erasure("failed") })
    }

    fn document_of(erasure: ErasureEvidence) -> ReceiptDocument {
        let host = ReceiptHost {
            namespace: "default".into(),
            name: "a".into(),
            uid: "u".into(),
            smbios_uuid: String::new(),
            serial: "Ä\"".into(),
        };
        let received_at = Timestamp::from_second(1_800_000_000).unwrap();
        let public = key(7).public_key().as_ref().to_vec();
        let frame = ReceiptContext {
            host,
            attempt: 3,
            agent: None,
            boot: boot(),
            key_sha256: fingerprint(&public),
            received_at,
        };
        let evidence = Evidence::DiskErased(erasure);
        let receipt = wire::StepReceipt {
            plan: 2,
            index: 0,
            step: "erase-disk".into(),
            started_ms: 5,
            ended_ms: 9,
            span: None,
            evidence,
        };
        document(&frame, &receipt).unwrap()
    }

    #[test]
    fn a_true_receipt_verifies_and_says_what_was_proven() {
        let key = key(7);
        let file = sign(&key, &made("failed")).unwrap();
        let document = verify(key.public_key().as_ref(), file.as_bytes()).unwrap();
        assert_eq!(document, made("failed"));
        assert!(document.summary().contains("erased by sanitize-block"), "{}", document.summary());
        assert!(!document.disk.serial.contains('\u{202e}'), "what is not seen is not signed for");
    }

    #[test]
    fn what_was_overridden_is_signed_whatever_was_done() {
        let key = key(7);
        let disk = || erasure("").disk;
        for overridden in [Vec::new(), vec!["partition 3: VMFS".to_owned()]] {
            let cleared = Evidence::MetadataCleared {
                disk: disk(),
                device: "/dev/sda".into(),
                cleared: Vec::new(),
                verified_bytes: 1,
                overridden: overridden.clone(),
            };
            let written = Evidence::ImageWritten {
                disk: disk(),
                device: "/dev/sda".into(),
                stream_sha256: "a".into(),
                stream_bytes: 1,
                raw_sha256: "b".into(),
                raw_bytes: 2,
                written_bytes: 3,
                readback_sha256: "b".into(),
                readback_bytes: 2,
                disk_guid: "g".into(),
                last_usable_lba: 4,
                write_ms: 5,
                readback_ms: 6,
                overridden: overridden.clone(),
            };
            for evidence in [cleared, written] {
                let frame = ReceiptContext {
                    host: made("").host,
                    attempt: 1,
                    agent: None,
                    boot: boot(),
                    key_sha256: String::new(),
                    received_at: Timestamp::UNIX_EPOCH,
                };
                let receipt = wire::StepReceipt {
                    plan: 1,
                    index: 1,
                    step: String::new(),
                    started_ms: 0,
                    ended_ms: 1,
                    span: None,
                    evidence,
                };
                let file = sign(&key, &document(&frame, &receipt).unwrap()).unwrap();
                assert_eq!(file.contains("overridden"), !overridden.is_empty(), "as older receipts were: {file}");
                let read = verify(key.public_key().as_ref(), file.as_bytes()).unwrap();
                assert_eq!(read.overridden(), overridden);
            }
        }
    }

    /// Every byte of the file, each in several ways.
    #[test]
    fn with_any_byte_changed_it_does_not() {
        let key = key(7);
        let file = sign(&key, &made("failed")).unwrap().into_bytes();
        let public = key.public_key().as_ref();
        for at in 0..file.len() {
            for with in [1, 0x20, 0x80, 0xff] {
                let mut altered = file.clone();
                altered[at] ^= with;
                assert!(verify(public, &altered).is_err(), "byte {at} with {with:#x}");
            }
            let mut shorter = file.clone();
            shorter.remove(at);
            assert!(verify(public, &shorter).is_err(), "without byte {at}");
            let mut longer = file.clone();
            longer.insert(at, file[at]);
            assert!(verify(public, &longer).is_err(), "byte {at} twice");
            assert!(verify(public, &file[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn nothing_else_is_a_receipt_of_this_key() {
        let (ours, other) = (key(7), key(8));
        let file = sign(&ours, &made("failed")).unwrap();
        let public = ours.public_key().as_ref();
        let by_other = sign(&other, &made("failed")).unwrap();
        assert_eq!(verify(public, by_other.as_bytes()), Err(ReceiptFileError::Forged), "signed again by another key");
        assert!(verify(other.public_key().as_ref(), by_other.as_bytes()).is_ok());
        for behind in ["\n", " ", "x", "signature 00\n", "\0"] {
            assert!(verify(public, format!("{file}{behind}").as_bytes()).is_err(), "{behind:?} behind it");
        }
        let (body, signature) = file.split_at(file.len() - LAST_BYTES);
        let upper = format!("{body}{}", signature.to_uppercase().replace("SIGNATURE", "signature"));
        assert_eq!(
            verify(public, upper.as_bytes()),
            Err(ReceiptFileError::Signature),
            "another spelling of the signature"
        );
        let raw = [body.as_bytes(), b"signature ", ours.sign(body.as_bytes()).as_ref(), b"\n"].concat();
        assert_eq!(verify(public, &raw), Err(ReceiptFileError::Signature));
        assert_eq!(verify(&[], file.as_bytes()), Err(ReceiptFileError::Forged));
        assert_eq!(verify(public, &vec![b'x'; FILE_BYTES_MAX + 1]), Err(ReceiptFileError::TooLong));
        assert_eq!(verify(public, b""), Err(ReceiptFileError::NotOurs));
    }

    /// Content that the key did sign, and that is not in the one spelling.
    #[test]
    fn a_second_spelling_is_refused_although_it_is_signed() {
        let key = key(7);
        let json = serde_json::to_string(&made("failed")).unwrap();
        let signed = |json: &str| {
            let body = format!("{FIRST}{json}\n");
            let signature = hex::encode(key.sign(body.as_bytes()).as_ref());
            verify(key.public_key().as_ref(), format!("{body}{LAST}{signature}\n").as_bytes())
        };
        assert!(signed(&json).is_ok());
        let twice = json.replacen("\"attempt\":3", "\"attempt\":3,\"attempt\":3", 1);
        let inner = json.replacen("\"policy\":\"full\"", "\"policy\":\"full\",\"policy\":\"quick\"", 1);
        let added = json.replacen('{', "{\"more\":1,", 1);
        let spaced = json.replacen(':', ": ", 1);
        let escaped = json.replacen("purge", "\\u0070urge", 1);
        let number = json.replacen("\"attempt\":3", "\"attempt\":3.0", 1);
        let newer = json.replacen("receipt/v2", "receipt/v3", 1);
        let older = json.replacen("receipt/v2", "receipt/v1", 1);
        for other in
            [twice, inner, added, spaced, escaped, number, newer, older, format!("{json} "), format!("{json}{json}")]
        {
            assert_ne!(other, json, "the case is one");
            assert!(matches!(signed(&other), Err(ReceiptFileError::Content(_))), "{other}");
        }
    }

    /// As an appliance wrote it that did not look at boots.
    #[test]
    fn a_receipt_of_the_first_form_is_read_and_says_that_no_boot_was_seen() {
        let key = key(7);
        let first = ReceiptDocument { receipt: FORM_WITHOUT_BOOT.to_owned(), boot: None, ..made("failed") };
        let file = sign(&key, &first).unwrap();
        assert!(file.contains("receipt/v1") && !file.contains("notSeen"));
        let read = verify(key.public_key().as_ref(), file.as_bytes()).unwrap();
        assert_eq!(read, first);
        assert!(read.not_seen()[0].contains("anything of the boot"));
    }

    #[test]
    fn the_public_key_is_a_file_of_its_own() {
        let key = key(7);
        let pem = public_pem(&key);
        assert_eq!(read_public_pem(pem.as_bytes()).unwrap(), key.public_key().as_ref());
        let private = pem.replace("PUBLIC", "PRIVATE");
        for other in ["", "x", &private, &pem.replace("MCow", "MCox"), &pem.replace("=\n", "\n"), &pem[..40]] {
            assert!(read_public_pem(other.as_bytes()).is_err(), "{other}");
        }
    }

    #[test]
    fn the_longest_that_a_host_can_say_fits() {
        let long = "\"".repeat(4096);
        let mut erasure = erasure(&long);
        erasure.drive_log = vec![long.clone(); 1000];
        erasure.tried = vec![erasure.tried[0].clone(); 1000];
        erasure.left_out = vec![LeftOut { method: long.clone(), why: long.clone() }; 1000];
        (erasure.overridden, erasure.unverified) = (vec![long.clone(); 1000], vec![long.clone(); 1000]);
        let evidence = Evidence::DiskErased(erasure);
        let receipt = wire::StepReceipt {
            plan: 1,
            index: 1,
            step: long.clone(),
            started_ms: 0,
            ended_ms: u64::MAX,
            span: None,
            evidence,
        };
        let host = made("").host;
        let frame = ReceiptContext {
            host,
            attempt: 1,
            agent: None,
            boot: ObservedBoot { not_seen: vec![long.clone(); 8], ..boot() },
            key_sha256: String::new(),
            received_at: Timestamp::UNIX_EPOCH,
        };
        let file = sign(&key(7), &document(&frame, &receipt).unwrap()).unwrap();
        assert!(verify(key(7).public_key().as_ref(), file.as_bytes()).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(0_u8.., 0..400)) {
            check(&bytes);
            check(&[FIRST.as_bytes(), &bytes].concat());
        }
    }
}
