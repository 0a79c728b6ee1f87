//! The key in a certificate of any kind, and whether a handshake was signed with it. Pure.
//!
//! Where certificates are not verified, only the key in one counts. BMCs have certificates that no verifier takes:
//! of X.509 version 1, with RSA keys of 1024 bits, with dates that are none. So only the way to the key is read
//! (RFC 5280, section 4.1), and signatures are checked by ring where it takes such a key, else by `rsa`.

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use rsa::pkcs1::DecodeRsaPublicKey as _;
use rsa::pkcs8::AssociatedOid;
use rsa::sha2::digest::{DynDigest, FixedOutputReset};
use rsa::sha2::{Digest, Sha256, Sha384, Sha512};
use rsa::{Pkcs1v15Sign, Pss, RsaPublicKey};
use rustls::{Error, SignatureScheme};

/// Keys with fewer bits can be broken by anybody; with more, checking takes too long.
const RSA_BITS: std::ops::RangeInclusive<usize> = 512..=8192;
/// ring takes no shorter ones.
const RING_RSA_BITS_MIN: usize = 2048;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
/// The version of a certificate: `[0]`, left out in version 1.
const VERSION: u8 = 0xa0;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const RSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CertificateKeyKind {
    Rsa { bits: usize },
    P256,
    P384,
    Ed25519,
}

/// A public key, as ring and `rsa` read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CertificateKey<'a> {
    kind: CertificateKeyKind,
    bytes: &'a [u8],
}

/// One value after another, in DER.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value's tag and content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x0f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The next value's content, if it has this tag.
    fn want(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

fn fault(text: impl Into<String>) -> Error {
    Error::General(text.into())
}

/// Finds the key with which handshakes are checked.
pub(super) fn of_certificate(der: &[u8]) -> Result<CertificateKey<'_>, Error> {
    let no_info = || fault("the BMC's certificate could not be read: it has no public key where one belongs");
    let mut info = Der(key_info(der).ok_or_else(no_info)?);
    let mut read = || {
        let mut algorithm = Der(info.want(SEQUENCE)?);
        let name = algorithm.want(OBJECT_ID)?;
        let curve = algorithm.want(OBJECT_ID);
        let (unused, bytes) = info.want(BIT_STRING)?.split_first()?;
        (*unused == 0).then_some((name, curve, bytes))
    };
    let no_key = || fault("the public key in the BMC's certificate could not be read");
    let (name, curve, bytes) = read().ok_or_else(no_key)?;
    let kind = match (name, curve) {
        (RSA | RSA_PSS, _) => {
            let bits = rsa_bits(bytes).ok_or_else(|| fault("the RSA key of the BMC could not be read"))?;
            CertificateKeyKind::Rsa { bits }
        }
        (EC, Some(P256)) => CertificateKeyKind::P256,
        (EC, Some(P384)) => CertificateKeyKind::P384,
        (ED25519, _) => CertificateKeyKind::Ed25519,
        (EC, _) => return Err(fault("the key in the BMC's certificate is of a curve other than P-256 and P-384")),
        _ => return Err(fault("the key in the BMC's certificate is neither RSA, ECDSA nor Ed25519")),
    };
    match kind {
        CertificateKeyKind::Rsa { bits } if !RSA_BITS.contains(&bits) => {
            let (least, most) = (RSA_BITS.start(), RSA_BITS.end());
            Err(fault(format!("the BMC's RSA key has {bits} bits: those with {least} to {most} are taken")))
        }
        CertificateKeyKind::Rsa { .. }
        | CertificateKeyKind::P256
        | CertificateKeyKind::P384
        | CertificateKeyKind::Ed25519 => Ok(CertificateKey { kind, bytes }),
    }
}

/// The content of a certificate's `SubjectPublicKeyInfo`.
fn key_info(der: &[u8]) -> Option<&[u8]> {
    let mut signed = Der(Der(Der(der).want(SEQUENCE)?).want(SEQUENCE)?);
    let after_version = Der(signed.0).next().filter(|(tag, _)| *tag == VERSION).is_some();
    if after_version {
        signed.next()?;
    }
    // Serial number, signature algorithm, issuer, validity, subject.
    for _ in 0..5 {
        signed.next()?;
    }
    signed.want(SEQUENCE)
}

fn rsa_bits(key: &[u8]) -> Option<usize> {
    let modulus = Der(Der(key).want(SEQUENCE)?).want(INTEGER)?;
    let zeros = modulus.iter().position(|byte| *byte != 0)?;
    let bytes = modulus.get(zeros..)?;
    let unused = usize::try_from(bytes.first()?.leading_zeros()).ok()?;
    Some(bytes.len() * 8 - unused)
}

impl CertificateKey<'_> {
    /// Checks that the peer holds the key.
    pub(super) fn verify(&self, scheme: SignatureScheme, message: &[u8], signature: &[u8]) -> Result<(), Error> {
        let is_good = match self.kind {
            CertificateKeyKind::Rsa { bits } if bits < RING_RSA_BITS_MIN => {
                short_rsa(self.bytes, scheme, message, signature)
            }
            CertificateKeyKind::Rsa { .. }
            | CertificateKeyKind::P256
            | CertificateKeyKind::P384
            | CertificateKeyKind::Ed25519 => algorithm(self.kind, scheme)
                .map(|algorithm| UnparsedPublicKey::new(algorithm, self.bytes).verify(message, signature).is_ok()),
        };
        match is_good {
            Some(true) => Ok(()),
            Some(false) => Err(fault("the BMC does not hold the key of its own certificate: the signature is wrong")),
            None => {
                Err(fault(format!("the BMC signs with {scheme:?}, which does not go with the key in its certificate")))
            }
        }
    }
}

/// How ring checks this scheme with such a key. TLS 1.2 ties no curve to a digest.
fn algorithm(kind: CertificateKeyKind, scheme: SignatureScheme) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match (kind, scheme) {
        (CertificateKeyKind::Rsa { .. }, SignatureScheme::RSA_PKCS1_SHA256) => &signature::RSA_PKCS1_2048_8192_SHA256,
        (CertificateKeyKind::Rsa { .. }, SignatureScheme::RSA_PKCS1_SHA384) => &signature::RSA_PKCS1_2048_8192_SHA384,
        (CertificateKeyKind::Rsa { .. }, SignatureScheme::RSA_PKCS1_SHA512) => &signature::RSA_PKCS1_2048_8192_SHA512,
        (CertificateKeyKind::Rsa { .. }, SignatureScheme::RSA_PSS_SHA256) => &signature::RSA_PSS_2048_8192_SHA256,
        (CertificateKeyKind::Rsa { .. }, SignatureScheme::RSA_PSS_SHA384) => &signature::RSA_PSS_2048_8192_SHA384,
        (CertificateKeyKind::Rsa { .. }, SignatureScheme::RSA_PSS_SHA512) => &signature::RSA_PSS_2048_8192_SHA512,
        (CertificateKeyKind::P256, SignatureScheme::ECDSA_NISTP256_SHA256) => &signature::ECDSA_P256_SHA256_ASN1,
        (CertificateKeyKind::P256, SignatureScheme::ECDSA_NISTP384_SHA384) => &signature::ECDSA_P256_SHA384_ASN1,
        (CertificateKeyKind::P384, SignatureScheme::ECDSA_NISTP256_SHA256) => &signature::ECDSA_P384_SHA256_ASN1,
        (CertificateKeyKind::P384, SignatureScheme::ECDSA_NISTP384_SHA384) => &signature::ECDSA_P384_SHA384_ASN1,
        (CertificateKeyKind::Ed25519, SignatureScheme::ED25519) => &signature::ED25519,
        _ => return None,
    })
}

/// Checks a signature with a key that ring finds too short.
fn short_rsa(key: &[u8], scheme: SignatureScheme, message: &[u8], signature: &[u8]) -> Option<bool> {
    use SignatureScheme as Scheme;
    let key = RsaPublicKey::from_pkcs1_der(key).ok()?;
    let is_pss = [Scheme::RSA_PSS_SHA256, Scheme::RSA_PSS_SHA384, Scheme::RSA_PSS_SHA512].contains(&scheme);
    let is_good = if [Scheme::RSA_PKCS1_SHA256, Scheme::RSA_PSS_SHA256].contains(&scheme) {
        short_rsa_with::<Sha256>(&key, is_pss, message, signature)
    } else if [Scheme::RSA_PKCS1_SHA384, Scheme::RSA_PSS_SHA384].contains(&scheme) {
        short_rsa_with::<Sha384>(&key, is_pss, message, signature)
    } else if [Scheme::RSA_PKCS1_SHA512, Scheme::RSA_PSS_SHA512].contains(&scheme) {
        short_rsa_with::<Sha512>(&key, is_pss, message, signature)
    } else {
        return None;
    };
    Some(is_good)
}

fn short_rsa_with<D>(key: &RsaPublicKey, is_pss: bool, message: &[u8], signature: &[u8]) -> bool
where
    D: 'static + Digest + DynDigest + AssociatedOid + FixedOutputReset + Send + Sync,
{
    let digest = D::digest(message);
    if is_pss {
        key.verify(Pss::new::<D>(), &digest, signature).is_ok()
    } else {
        key.verify(Pkcs1v15Sign::new::<D>(), &digest, signature).is_ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use rcgen::{
        KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData as _, SigningKey as _,
    };

    use super::*;

    /// A value in DER.
    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        let head = if content.len() < 0x80 { vec![tag, length[1]] } else { vec![tag, 0x82, length[0], length[1]] };
        [head, content].concat()
    }

    /// A certificate that only holds a key: its other parts are of the wrong kinds.
    fn certificate(is_v1: bool, info: &[u8]) -> Vec<u8> {
        let version: &[u8] = if is_v1 { &[] } else { &[VERSION, 3, 2, 1, 2] };
        let null: &[u8] = &[5, 0];
        let signed = der(SEQUENCE, &[version, null, null, null, null, null, info]);
        der(SEQUENCE, &[&signed, null, null])
    }

    fn rsa_info(key: &[u8]) -> Vec<u8> {
        let algorithm = der(SEQUENCE, &[&der(OBJECT_ID, &[RSA]), &[5, 0]]);
        der(SEQUENCE, &[&algorithm, &der(BIT_STRING, &[&[0], key])])
    }

    #[test]
    fn keys_are_found_in_certificates_of_each_version() {
        let message = b"a handshake";
        for (algorithm, kind, scheme) in [
            (&PKCS_ECDSA_P256_SHA256, CertificateKeyKind::P256, SignatureScheme::ECDSA_NISTP256_SHA256),
            (&PKCS_ECDSA_P384_SHA384, CertificateKeyKind::P384, SignatureScheme::ECDSA_NISTP384_SHA384),
            (&PKCS_ED25519, CertificateKeyKind::Ed25519, SignatureScheme::ED25519),
        ] {
            let pair = KeyPair::generate_for(algorithm).unwrap();
            let signature = pair.sign(message).unwrap();
            for is_v1 in [true, false] {
                let certificate = certificate(is_v1, &pair.subject_public_key_info());
                let key = of_certificate(&certificate).unwrap();
                assert_eq!(key.kind, kind);
                assert_eq!(key.verify(scheme, message, &signature), Ok(()), "{kind:?}");
                let forged = key.verify(scheme, b"another", &signature).unwrap_err().to_string();
                assert!(forged.contains("does not hold the key"), "{forged}");
                let other = key.verify(SignatureScheme::RSA_PSS_SHA256, message, &signature).unwrap_err().to_string();
                assert!(other.contains("RSA_PSS_SHA256, which does not go with the key"), "{other}");
            }
        }
    }

    #[test]
    fn rsa_keys_are_taken_by_their_length() {
        let key = |bits: usize| der(SEQUENCE, &[&der(INTEGER, &[&vec![0xff; bits / 8]]), &[INTEGER, 3, 1, 0, 1]]);
        for bits in [512, 1024, 2048, 4096, 8192] {
            let certificate = certificate(true, &rsa_info(&key(bits)));
            assert_eq!(of_certificate(&certificate).unwrap().kind, CertificateKeyKind::Rsa { bits });
        }
        for bits in [256, 16384] {
            let error = of_certificate(&certificate(true, &rsa_info(&key(bits)))).unwrap_err();
            let text = format!("the BMC's RSA key has {bits} bits: those with 512 to 8192 are taken");
            assert_eq!(error, Error::General(text));
        }
    }

    #[test]
    fn what_is_no_certificate_is_an_error() {
        let whole = certificate(true, &KeyPair::generate().unwrap().subject_public_key_info());
        let key_ends = whole.len() - 4;
        for end in 0..key_ends {
            assert!(of_certificate(&whole[..end]).is_err(), "{end}");
        }
        let mut odd = whole;
        for at in 0..odd.len() {
            odd[at] ^= 0xff;
            drop(of_certificate(&odd));
            odd[at] ^= 0xff;
        }
        assert!(of_certificate(&certificate(true, &rsa_info(&[]))).is_err());
    }
}
