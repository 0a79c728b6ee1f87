//! Receipts and public keys, as somebody hands them to an auditor.

use firesteel_control::receipts::document::{
    Agent, FORM, ObservedBoot, ObservedPower, ReceiptAction, ReceiptDisk, ReceiptDocument, ReceiptErasure, ReceiptHost,
    ReceiptSamples, ReceiptTriedMethod,
};
use firesteel_control::receipts::file::{self, public_pem, sign};
use jiff::Timestamp;
use ring::signature::Ed25519KeyPair;

pub(super) fn check(bytes: &[u8]) {
    file::check(bytes);
}

/// A true one by the key that the check trusts, its content alone, its key, and near misses.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let key = |seed: u8| Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
    let file = sign(&key(7), &document()).unwrap();
    let json = file.lines().nth(1).unwrap().to_owned();
    let twice = json.replacen("\"attempt\":3", "\"attempt\":3,\"attempt\":3", 1);
    let texts = [
        file.clone(),
        sign(&key(8), &document()).unwrap(),
        file.to_uppercase(),
        file.replacen("receipt 1", "receipt 2", 1),
        format!("{file}\n"),
        public_pem(&key(7)),
        json,
        twice,
    ];
    texts.into_iter().map(String::into_bytes).collect()
}

fn document() -> ReceiptDocument {
    let text = str::to_owned;
    let at = Timestamp::from_second(1_800_000_000).unwrap();
    ReceiptDocument {
        receipt: text(FORM),
        key_sha256: text("00"),
        host: ReceiptHost {
            namespace: text("n"),
            name: text("h"),
            uid: text("u"),
            smbios_uuid: text(""),
            serial: text(""),
        },
        attempt: 3,
        plan: 2,
        step: 0,
        started_at: at,
        ended_at: at,
        received_at: at,
        agent: Agent { version: text("1"), sha256: text(""), key: text(""), kernel: text(""), boot_id: text("") },
        boot: Some(ObservedBoot {
            power: Some(ObservedPower { off_before: Some(at), off_after: None }),
            not_seen: vec![text("the lease")],
            ..ObservedBoot::default()
        }),
        disk: ReceiptDisk {
            model: text("M"),
            serial: text("S"),
            wwn: text(""),
            size_bytes: 9,
            by_path: text(""),
            device: text(""),
        },
        done: ReceiptAction::Erased(ReceiptErasure {
            policy: text("full"),
            method: text("overwrite"),
            grade: text("unverified"),
            claimed: Some(text("clear")),
            drive_log: vec![text("ff")],
            samples: ReceiptSamples { told_before: 1, blank_before: 2, canaries: 3, read_back: 4, blank_after: 5 },
            tried: vec![ReceiptTriedMethod { method: text("m"), why: text("w"), lied: true }],
            left_out: Vec::new(),
            overridden: Vec::new(),
        }),
        unverified: vec![text("spare blocks")],
    }
}
