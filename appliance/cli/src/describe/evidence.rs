//! What the receipts of a host's steps say, a line each.

use firesteel_plan::{HostMemory, disk::CleaningMethod, host::CleanedNote, journal::memory};
use firesteel_resources::HostJournal;
use firesteel_resources::host_journal::ReceiptRecord;
use serde_json::Value;

use super::{TextPage, bytes};

pub(super) fn render(page: &mut TextPage, journal: &HostJournal) {
    if journal.status.receipts.is_empty() {
        return;
    }
    page.title("Receipts");
    let proven = memory(&journal.status).ok().and_then(|memory| proven_in(&memory));
    for receipt in &journal.status.receipts {
        let start = format!("  attempt {} plan {} {}: ", receipt.attempt, receipt.plan, receipt.step);
        page.item(&start, &evidence(receipt, proven == Some(receipt.attempt)), 6);
    }
}

/// The boot whose erasure grades are proven; the signed receipts prove those of older boots.
fn proven_in(memory: &HostMemory) -> Option<u64> {
    let is_open = memory.wipe.is_some();
    let is_proven =
        |cleaned: &&CleanedNote| cleaned.method > CleaningMethod::Metadata && cleaned.unverified.is_empty() && !is_open;
    memory.cleaned.as_ref().filter(is_proven).map(|cleaned| cleaned.attempt)
}

/// Summarises a receipt in one line; names the grade of an erasure only if it is proven.
fn evidence(receipt: &ReceiptRecord, is_proven: bool) -> String {
    let text = |name: &str| receipt.evidence.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |name: &str| receipt.evidence.get(name).and_then(Value::as_u64).unwrap_or_default();
    let short = |digest: String| digest.chars().take(12).collect::<String>();
    let list = |name: &str| {
        let texts = receipt.evidence.get(name).and_then(Value::as_array).into_iter().flatten();
        let texts: Vec<&str> = texts.filter_map(Value::as_str).collect();
        if texts.is_empty() { String::new() } else { format!("; {name}: {}", texts.join(", ")) }
    };
    match text("kind").as_str() {
        "inspected" => "hardware recorded".to_owned(),
        "metadata_cleared" => {
            format!("{} cleared, {} read back as zero", text("device"), bytes(number("verified_bytes")))
        }
        "disk_erased" => format!(
            "{} by {}, {}, {} read back{}",
            text("device"),
            text("method"),
            match text("grade").as_str() {
                "none" => "NIST SP 800-88 neither clear nor purge".to_owned(),
                _ if !is_proven => "by its agent's word: `firesteel receipt list` has the grade".to_owned(),
                grade => format!("NIST SP 800-88 {grade}"),
            },
            bytes(receipt.evidence["samples"]["read_back"].as_u64().unwrap_or_default().saturating_mul(512)),
            list("unverified"),
        ),
        "image_written" => format!(
            "{} written, {} read back, sha256 {}…",
            text("device"),
            bytes(number("readback_bytes")),
            short(text("readback_sha256"))
        ),
        "files_handed_off" => {
            let count = receipt.evidence.get("files").and_then(Value::as_array).map_or(0, Vec::len);
            let loader = receipt.evidence.get("loader").and_then(Value::as_array).map_or(0, Vec::len);
            let loader = if loader == 0 { String::new() } else { format!(", and {loader} of the boot loader") };
            format!(
                "{count} files on {} {}{loader}, read back{}{}",
                text("device"),
                text("filesystem"),
                list("recognised"),
                list("warnings")
            )
        }
        "boot_entry_set" => format!("{} {}", text("method"), text("entry")),
        "leaving" => text("how"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use firesteel_resources::BareMetalHost;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::describe;

    #[test]
    fn a_grade_is_shown_only_where_it_is_proven() {
        let evidence =
            json!({"kind": "disk_erased", "device": "/dev/sda", "method": "sanitize-crypto", "grade": "purge"});
        let receipt = ReceiptRecord { attempt: 3, evidence, ..ReceiptRecord::default() };
        let mut journal = HostJournal::default();
        journal.status.receipts = vec![receipt];
        let shown =
            |journal: &HostJournal| describe::render(&BareMetalHost::default(), journal, Timestamp::UNIX_EPOCH, 200);
        let note = |attempt: u64, unverified: &[&str]| {
            let at = Timestamp::UNIX_EPOCH;
            json!({"cleaned": {
                "at": at, "attempt": attempt, "method": "full", "isErased": false, "text": "", "unverified": unverified,
            }})
        };
        // Not verified yet, unverified, and of another boot than the proven one.
        for memory in [json!({}), note(3, &["there is no BMC"]), note(4, &[])] {
            journal.status.memory = memory;
            let page = shown(&journal);
            assert!(page.contains("by its agent's word") && !page.contains("purge"), "{page}");
        }
        journal.status.memory = note(3, &[]);
        assert!(shown(&journal).contains("sanitize-crypto, NIST SP 800-88 purge"), "{}", shown(&journal));
    }
}
