//! What the stored receipts of a plan to write show, for the judge of evidence. Pure.

use firesteel_plan::HostMemory;
use firesteel_plan::host::{ReceiptFacts, ShownBootEntry, ShownHandOff, ShownReceipt, ShownWrite};
use firesteel_resources::host_journal::{HandedFile, HostJournalStatus, ReceiptRecord};
use firesteel_wire::{Evidence, hand_off::HandOffForm};
use serde::Deserialize as _;

use crate::{disk_identity::identity, receipts::verify};

/// Receipts of one plan that are looked at: more than a plan to write has steps, so that one too many is seen.
const SHOWN_MAX: usize = 16;

/// Reads the receipts of the host's newest plan, where that is one to write. `public_key` is the appliance's own.
pub(crate) fn shown_write(journal: &HostJournalStatus, memory: &HostMemory, public_key: &[u8]) -> Vec<ShownReceipt> {
    let Some(issued) = memory.plan.as_ref().filter(|issued| issued.write().is_some()) else { return Vec::new() };
    let is_of = |record: &&ReceiptRecord| (record.attempt, record.plan) == (memory.attempt, issued.number);
    let records = journal.receipts.iter().filter(is_of).take(SHOWN_MAX);
    records.map(|record| shown(record, public_key)).collect()
}

fn shown(record: &ReceiptRecord, public_key: &[u8]) -> ShownReceipt {
    ShownReceipt {
        plan: record.plan,
        index: record.index,
        step: record.step.clone(),
        span: record.began_uptime_ms.zip(record.ended_uptime_ms),
        is_signed: verify(public_key, record),
        shows: Evidence::deserialize(&record.evidence).map_or(ReceiptFacts::Other, shows),
    }
}

fn shows(evidence: Evidence) -> ReceiptFacts {
    match evidence {
        Evidence::MetadataCleared { disk, verified_bytes, .. } => {
            ReceiptFacts::Cleared { disk: identity(&disk), verified_bytes }
        }
        Evidence::ImageWritten {
            disk,
            device,
            stream_sha256,
            stream_bytes,
            raw_sha256,
            raw_bytes,
            written_bytes,
            readback_sha256,
            readback_bytes,
            disk_guid,
            write_ms,
            readback_ms,
            last_usable_lba: _,
            overridden: _,
        } => ReceiptFacts::Written(ShownWrite {
            disk: identity(&disk),
            device,
            stream_sha256,
            stream_bytes,
            raw_sha256,
            raw_bytes,
            written_bytes,
            readback_sha256,
            readback_bytes,
            disk_guid,
            write_ms,
            readback_ms,
        }),
        Evidence::FilesHandedOff { disk, files, form, loader, .. } => ReceiptFacts::HandedOff(ShownHandOff {
            disk: identity(&disk),
            // Older agents know no other form.
            form: form.unwrap_or(HandOffForm::BootPartition).name().to_owned(),
            files: files
                .into_iter()
                .map(|file| HandedFile { path: file.path, bytes: file.bytes, sha256: file.sha256 })
                .collect(),
            loader_files: loader.len(),
        }),
        Evidence::BootEntrySet { method, entry, order } => {
            ReceiptFacts::BootEntry(ShownBootEntry { method, entry, order })
        }
        Evidence::Leaving { .. } => ReceiptFacts::Leaving,
        Evidence::Inspected { .. } | Evidence::DiskErased(_) => ReceiptFacts::Other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use ring::signature::{Ed25519KeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;
    use crate::receipts::sign;

    /// A host whose second attempt has a plan to write.
    fn memory() -> HostMemory {
        let image = json!({"rawSha256": "1", "rawBytes": 1, "streamSha256": "2", "streamBytes": 1});
        let write = json!({"kind": "write", "disk": {}, "diskGuid": "g", "image": image});
        let plan = json!({"number": 3, "plan": write, "issuedAt": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({"attempt": 2, "planNumber": 3, "plan": plan})).unwrap()
    }

    #[test]
    fn receipts_of_the_newest_plan_to_write_are_shown_with_their_signature() {
        let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let record = |attempt, plan, index| {
            let evidence = json!({"kind": "leaving", "how": "reboot"});
            sign(&key, ReceiptRecord { attempt, plan, index, evidence, ..ReceiptRecord::default() })
        };
        let mut altered = record(2, 3, 1);
        altered.ended_uptime_ms = Some(5);
        let receipts = vec![record(1, 3, 0), record(2, 2, 0), record(2, 3, 0), altered];
        let journal = HostJournalStatus { receipts, ..HostJournalStatus::default() };
        let shown = shown_write(&journal, &memory(), key.public_key().as_ref());
        let of: Vec<_> = shown.iter().map(|shown| (shown.plan, shown.index, shown.is_signed)).collect();
        assert_eq!(of, [(3, 0, true), (3, 1, false)], "an altered record does not bear the signature");
        assert_eq!(shown[0].shows, ReceiptFacts::Leaving);
        assert!(shown_write(&journal, &HostMemory::default(), key.public_key().as_ref()).is_empty());
    }

    #[test]
    fn what_is_no_evidence_shows_nothing() {
        let record = ReceiptRecord { evidence: json!({"kind": "image_written"}), ..ReceiptRecord::default() };
        assert_eq!(shown(&record, &[0; 32]).shows, ReceiptFacts::Other);
    }
}
