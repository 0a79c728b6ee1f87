//! `Receipt` (firesteel.dev/v1alpha1): signed evidence of one disk that was erased, cleared or written. In its
//! host's namespace, and not owned by the host: it outlives it. The appliance alone writes and removes them.

use firesteel_kube_types::ObjectMeta;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kind::{AGE, FIRESTEEL, Kind, STATUS_ONLY, V1ALPHA1, column};

/// Label with the name of the host.
pub const HOST_LABEL: &str = "firesteel.dev/host";
/// Receipts that are kept of every host; the oldest go first. Forty installations of a host with one disk.
const RECEIPTS_PER_HOST_MIN: usize = 128;
/// Most receipts of one host: two erasures of as many disks as an inventory may have (`DISKS_MAX` of the agents'
/// protocol), and a hundred for the rest. About 2.5 MB; their names, in the host's journal, are under 50 kB.
pub const RECEIPTS_PER_HOST_MAX: usize = 2 * 256 + 100;
/// Most receipts of hosts that are gone, in one namespace; the oldest go first. About 4 MB.
pub const RECEIPTS_OF_GONE_MAX: usize = 1000;

// Without a status of its own in the API's sense: a receipt is made whole, in one write; that of an erasure is
// written once more, when it is known how the erasure ended.
pub const KIND: Kind = Kind {
    columns: &[
        column("Host", ".status.host", "Host that the disk was in", 0),
        column("Kind", ".status.kind", "erased, metadata or image", 0),
        column("Grade", ".status.grade", "NIST SP 800-88 grade of an erasure, or unverified", 0),
        column("Disk", ".status.disk", "The disk by what it says of itself", 0),
        AGE,
    ],
    about: "Signed evidence of what was done to a disk. `firesteel receipt verify` checks it.",
    read_only: true,
    ..Kind::new(FIRESTEEL, V1ALPHA1, "Receipt", "receipts", "receipt", &STATUS_ONLY)
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Receipt {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub status: ReceiptStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReceiptStatus {
    pub host: String,
    pub host_uid: String,
    pub attempt: u64,
    pub plan: u32,
    pub step: u32,
    pub received_at: Timestamp,
    /// `erased`, `metadata` or `image`.
    pub kind: String,
    /// `purge`, `clear`, `none` or `unverified`; empty for what is no erasure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub grade: String,
    pub disk: String,
    /// The receipt in one line, for people.
    pub summary: String,
    /// What the appliance did not see of the boot in which it was done, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_seen: Vec<String>,
    /// The signed file, byte for byte. Everything above is read from it.
    pub file: String,
}

/// The receipt's name: unique to the step that it is of, so that it is made once.
#[must_use]
pub fn name(host_uid: &str, attempt: u64, plan: u32, step: u32) -> String {
    format!("{host_uid}-{attempt}-{plan}-{step}")
}

/// Most receipts of a host with so many disks.
#[must_use]
pub fn kept_of(disks: usize) -> usize {
    disks.saturating_mul(2).saturating_add(100).clamp(RECEIPTS_PER_HOST_MIN, RECEIPTS_PER_HOST_MAX)
}

/// Which of several receipts have to go so that at most `max` stay: the oldest.
#[must_use]
pub fn excess(mut receipts: Vec<&Receipt>, max: usize) -> Vec<&Receipt> {
    receipts.sort_by(|a, b| {
        let key = |receipt: &Receipt| (receipt.status.received_at, receipt.status.attempt, receipt.status.plan);
        (key(a), a.status.step).cmp(&(key(b), b.status.step))
    });
    let keep_from = receipts.len().saturating_sub(max);
    receipts.truncate(keep_from);
    receipts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first() {
        let receipt = |attempt| Receipt {
            status: ReceiptStatus { attempt, received_at: Timestamp::UNIX_EPOCH, ..ReceiptStatus::default() },
            ..Receipt::default()
        };
        let all = [receipt(3), receipt(1), receipt(2)];
        let gone: Vec<u64> = excess(all.iter().collect(), 1).iter().map(|receipt| receipt.status.attempt).collect();
        assert_eq!(gone, [1, 2]);
        assert!(excess(all.iter().collect(), 3).is_empty());
    }
}
