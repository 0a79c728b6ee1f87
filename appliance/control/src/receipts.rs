//! Signed receipts: what an auditor checks later, with the appliance's public key alone.
//!
//! The signature covers the JSON of the record with an empty `signature`, keys sorted as
//! `serde_json` writes them.

use firesteel_resources::host_journal::ReceiptRecord;
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use serde_json::Value;

fn signed_bytes(receipt: &ReceiptRecord) -> Vec<u8> {
    let mut unsigned = receipt.clone();
    unsigned.signature.clear();
    // Through `Value`, whose maps are sorted: the same bytes whatever order the fields have in the type.
    serde_json::to_value(&unsigned).unwrap_or(Value::Null).to_string().into_bytes()
}

/// Signs a receipt.
pub(crate) fn sign(key: &Ed25519KeyPair, mut receipt: ReceiptRecord) -> ReceiptRecord {
    receipt.signature = hex_of(key.sign(&signed_bytes(&receipt)).as_ref());
    receipt
}

/// Whether a receipt is one that the appliance with this Ed25519 public key signed, unaltered.
#[must_use]
pub fn verify(public_key: &[u8], receipt: &ReceiptRecord) -> bool {
    let Some(signature) = bytes_of(&receipt.signature) else { return false };
    UnparsedPublicKey::new(&ED25519, public_key).verify(&signed_bytes(receipt), &signature).is_ok()
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use ring::signature::KeyPair as _;

    #[test]
    fn an_altered_receipt_does_not_verify_and_one_that_was_stored_does() {
        let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let evidence = serde_json::json!({"kind": "image_written", "raw_bytes": 5, "a": [1, {"z": 1, "b": 2}]});
        let receipt =
            sign(&key, ReceiptRecord { attempt: 3, step: "write-image".into(), evidence, ..Default::default() });
        let stored: ReceiptRecord = serde_json::from_str(&serde_json::to_string(&receipt).unwrap()).unwrap();
        let public = key.public_key().as_ref();
        assert!(verify(public, &stored));
        let mut altered = stored.clone();
        altered.evidence["raw_bytes"] = 6.into();
        assert!(!verify(public, &altered));
        assert!(!verify(&[0; 32], &stored));
        for signature in ["", "zz", "abc", "é0"] {
            assert!(!verify(public, &ReceiptRecord { signature: signature.into(), ..stored.clone() }));
        }
    }
}
