//! Signed receipts: what an auditor checks later, with the appliance's public key alone.
//!
//! - [`document`] is what one says, [`file`] how it is written, signed and checked;
//! - here they are kept: as objects of the API that outlive their host, made before the agent hears that its
//!   report was taken;
//! - [`grading`] says in those of an erasure whether its grade is proven, once its end is known;
//! - the journal's own records of all steps are signed too, as they are: the signature covers the JSON of the
//!   record with an empty `signature`, keys sorted as `serde_json` writes them.

pub mod document;
pub mod file;
pub mod grading;

use std::sync::Arc;

use firesteel_kube::{Objects, Status};
use firesteel_plan::evidence::{BootEvidence, DiskWork, asks, unseen};
use firesteel_plan::journal;
use firesteel_resources::Receipt;
use firesteel_resources::host_journal::{HostJournalStatus, ReceiptRecord};
use firesteel_resources::receipt::{HOST_LABEL, RECEIPTS_OF_GONE_MAX, ReceiptStatus, excess, name};
use firesteel_runtime::HostKey;
use firesteel_wire as wire;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde_json::Value;

use crate::{disk_identity::identity, shared::Shared};
use document::{ObservedBoot, ReceiptAction, ReceiptContext, ReceiptDocument, ReceiptHost};

/// Signs receipts, and keeps as many as a host may have.
#[derive(Clone)]
pub(crate) struct ReceiptKeeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) receipts: Objects<Receipt>,
    pub(crate) receipt_key: Arc<Ed25519KeyPair>,
}

impl ReceiptKeeper {
    /// Makes the signed receipts of a report, each once, and returns their names. What a host says of plans that
    /// it does not have, or of steps and disks that its plan does not have, makes none.
    pub(crate) async fn sign_receipts(
        &self,
        key: &HostKey,
        uid: &str,
        attempt: u64,
        reported: Vec<&wire::StepReceipt>,
        journal: &HostJournalStatus,
    ) -> Result<Vec<String>, Status> {
        let Some(issued) = journal::issued_plan(journal) else { return Ok(Vec::new()) };
        let signer = &*self.receipt_key;
        let frame = ReceiptContext {
            host: host(key, uid, journal),
            attempt,
            agent: journal.agent.as_ref().filter(|agent| agent.attempt == attempt),
            boot: observed_boot(attempt, journal),
            key_sha256: file::fingerprint(signer.public_key().as_ref()),
            received_at: self.shared.now(),
        };
        let is_asked = |receipt: &&wire::StepReceipt| {
            let done = work_of(&receipt.evidence);
            receipt.plan == issued.number
                && done.is_some_and(|(work, disk)| asks(&issued.plan, receipt.index, work, &identity(disk)))
        };
        let made: Vec<(ReceiptDocument, Receipt)> = reported
            .into_iter()
            .filter(is_asked)
            .filter_map(|receipt| {
                let document = document::document(&frame, receipt)?;
                let file = file::sign(signer, &document)?;
                let receipt = object(key, &document, file);
                Some((document, receipt))
            })
            .collect();
        let mut names = Vec::new();
        for (document, receipt) in made {
            let stored = self.receipts.create(&receipt).await;
            if let (Ok(_), ReceiptAction::MetadataCleared(cleared)) = (&stored, &document.done) {
                self.shared.metrics.erased("metadata", cleared.read_back_bytes.min(document.disk.size_bytes));
            }
            match stored {
                Err(status) if !status.is_already_exists() && status.code >= 500 => return Err(status),
                Err(status) if !status.is_already_exists() => {
                    // A namespace that is going takes nothing new; its hosts are cleaned all the same.
                    tracing::warn!(host = %key, error = %status.message, "a signed receipt is not kept");
                }
                Ok(_) | Err(_) => names.push(receipt.metadata.name.clone()),
            }
        }
        Ok(names)
    }

    /// Removes receipts that are too many of their host; nothing depends on it.
    pub(crate) async fn forget_receipts(&self, namespace: &str, names: &[String]) {
        for name in names {
            if let Err(status) = self.receipts.delete(namespace, name).await {
                tracing::warn!(%namespace, %name, error = %status.message, "could not remove an old receipt; it stays until the next one is removed");
            }
        }
    }

    /// A host is gone: its receipts stay, and the oldest of hosts that are gone make room.
    pub(crate) async fn tidy_receipts(&self, namespace: &str) {
        // One that cannot be read seems to be gone, and its receipts are evidence.
        if self.shared.views().unreadable_host().is_some() {
            return;
        }
        let (all, _) = match self.receipts.list(Some(namespace)).await {
            Ok(listed) => listed,
            Err(status) => {
                return tracing::warn!(%namespace, error = %status.message, "could not list receipts; those of hosts that are gone stay");
            }
        };
        let of_gone: Vec<&Receipt> = {
            let views = self.shared.views();
            all.iter().filter(|receipt| !views.by_uid.contains_key(&receipt.status.host_uid)).collect()
        };
        let names: Vec<String> =
            excess(of_gone, RECEIPTS_OF_GONE_MAX).iter().map(|receipt| receipt.metadata.name.clone()).collect();
        self.forget_receipts(namespace, &names).await;
    }
}

/// What is on record of the boot of an attempt.
fn observed_boot(attempt: u64, journal: &HostJournalStatus) -> ObservedBoot {
    let record = journal.boot.as_ref().filter(|boot| boot.attempt == attempt);
    let not_seen = unseen(&BootEvidence { attempt, record, agent: journal.agent.as_ref() });
    let record = record.cloned().unwrap_or_default();
    ObservedBoot {
        address: record.address,
        by: record.by,
        kernel_sha256: record.kernel_sha256,
        initramfs_sha256: record.initramfs_sha256,
        agent_sha256: record.agent_sha256,
        power: None,
        not_seen,
    }
}

/// What a step did to which disk.
fn work_of(evidence: &wire::Evidence) -> Option<(DiskWork, &wire::DiskIdentity)> {
    match evidence {
        wire::Evidence::DiskErased(erasure) => Some((DiskWork::Erased, &erasure.disk)),
        wire::Evidence::MetadataCleared { disk, .. } => Some((DiskWork::Cleared, disk)),
        wire::Evidence::ImageWritten { disk, .. } => Some((DiskWork::Written, disk)),
        wire::Evidence::Inspected { .. }
        | wire::Evidence::FilesHandedOff { .. }
        | wire::Evidence::BootEntrySet { .. }
        | wire::Evidence::Leaving { .. } => None,
    }
}

fn host(key: &HostKey, uid: &str, journal: &HostJournalStatus) -> ReceiptHost {
    let system = journal.hardware.as_ref().map(|record| record.system.clone()).unwrap_or_default();
    ReceiptHost {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: uid.to_owned(),
        smbios_uuid: system.uuid,
        serial: system.serial,
    }
}

fn object(key: &HostKey, document: &ReceiptDocument, file: String) -> Receipt {
    let mut receipt = Receipt::default();
    receipt.metadata.namespace.clone_from(&key.namespace);
    receipt.metadata.name = name(&document.host.uid, document.attempt, document.plan, document.step);
    // A label's value has 63 bytes; a host may have a longer name, and is found by its UID then.
    if key.name.len() <= 63 {
        receipt.metadata.labels.insert(HOST_LABEL.to_owned(), key.name.clone());
    }
    receipt.status = ReceiptStatus {
        host: key.name.clone(),
        host_uid: document.host.uid.clone(),
        attempt: document.attempt,
        plan: document.plan,
        step: document.step,
        received_at: document.received_at,
        kind: document.kind().to_owned(),
        grade: document.grade().to_owned(),
        disk: document.disk.describe(),
        summary: document.summary(),
        not_seen: document.not_seen(),
        file,
    };
    receipt
}

fn signed_bytes(receipt: &ReceiptRecord) -> Vec<u8> {
    let mut unsigned = receipt.clone();
    unsigned.signature.clear();
    // Through `Value`, whose maps are sorted: the same bytes whatever order the fields have in the type.
    serde_json::to_value(&unsigned).unwrap_or(Value::Null).to_string().into_bytes()
}

/// Signs a receipt.
pub(crate) fn sign(key: &Ed25519KeyPair, mut receipt: ReceiptRecord) -> ReceiptRecord {
    receipt.signature = hex::encode(key.sign(&signed_bytes(&receipt)).as_ref());
    receipt
}

/// Whether a receipt is one that the appliance with this Ed25519 public key signed, unaltered.
#[must_use]
pub fn verify(public_key: &[u8], receipt: &ReceiptRecord) -> bool {
    let Some(signature) = bytes_of(&receipt.signature) else { return false };
    UnparsedPublicKey::new(&ED25519, public_key).verify(&signed_bytes(receipt), &signature).is_ok()
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
