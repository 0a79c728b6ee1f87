//! Which of a host's receipts its journal keeps, and which make room.

use std::collections::HashMap;

use super::{HostJournalStatus, ReceiptRecord};
use crate::receipt::kept_of;

/// Most receipts kept per host: of each disk that an inventory may have (`DISKS_MAX` of the agents' protocol) one that
/// proves its erasure, since a host with an unproven disk is erased again and again; and a hundred for the rest, of
/// which one installation gives about six. At half a kilobyte each, under 200 kB.
pub const RECEIPTS_MAX: usize = 256 + 100;
/// Bytes of all evidence of a host as JSON; what is missed least makes room. An agent brings it, and the object,
/// of at most 4 MiB, has to be stored.
pub const EVIDENCE_BYTES_MAX: usize = 1 << 20;

/// How much a receipt is missed, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReceiptPriority {
    /// A receipt of an older boot.
    Old,
    Inspection,
    /// A receipt of this boot, and of no disk.
    NoDisk,
    /// A receipt of work that was done to its disk again in this boot.
    DoneAgain,
    /// The only receipt of its disk in this boot.
    Alone,
    /// A receipt of the newest plan, and of no disk: that plan is judged by all of its receipts.
    NewestPlan,
}

impl HostJournalStatus {
    /// Notes signed receipts, and returns the names of those that are too many now.
    pub fn note_signed(&mut self, names: &[String]) -> Vec<String> {
        let new = names.iter().filter(|name| !self.signed.contains(name)).cloned().collect::<Vec<_>>();
        self.signed.extend(new);
        let disks = self.hardware.as_ref().map_or(0, |hardware| hardware.disks.len());
        let excess = self.signed.len().saturating_sub(kept_of(disks));
        self.signed.drain(..excess).collect()
    }

    /// Adds a receipt unless it is known (receipts arrive again with every report). The answer is what was dropped
    /// although it was the only receipt of its disk; other receipts make room silently.
    pub fn keep(&mut self, receipt: ReceiptRecord) -> Vec<ReceiptRecord> {
        let same =
            |old: &ReceiptRecord| (old.attempt, old.plan, old.index) == (receipt.attempt, receipt.plan, receipt.index);
        if self.receipts.iter().any(same) {
            return Vec::new();
        }
        self.receipts.push(receipt);
        let sizes: Vec<usize> = self.receipts.iter().map(|receipt| receipt.evidence.to_string().len()).collect();
        let (mut count, mut bytes) = (sizes.len(), sizes.iter().sum::<usize>());
        // One receipt is never too much.
        let has_too_much =
            |count: usize, bytes: usize| count > RECEIPTS_MAX || (count > 1 && bytes > EVIDENCE_BYTES_MAX);
        if !has_too_much(count, bytes) {
            return Vec::new();
        }
        // What goes never changes the order of what stays: it is what others stand for, or nothing is so any more.
        let mut goes = vec![None; count];
        for (worth, at) in self.by_worth() {
            if !has_too_much(count, bytes) {
                break;
            }
            (count, bytes) = (count - 1, bytes - sizes[at]);
            goes[at] = Some(worth);
        }
        let (mut stay, mut lost) = (Vec::with_capacity(count), Vec::new());
        for (receipt, goes) in std::mem::take(&mut self.receipts).into_iter().zip(goes) {
            match goes {
                None => stay.push(receipt),
                Some(ReceiptPriority::Alone) => lost.push(receipt),
                Some(
                    ReceiptPriority::Old
                    | ReceiptPriority::Inspection
                    | ReceiptPriority::NoDisk
                    | ReceiptPriority::DoneAgain
                    | ReceiptPriority::NewestPlan,
                ) => {}
            }
        }
        self.receipts = stay;
        lost
    }

    /// The receipts' places in the list, those first that are missed least; of the same worth the oldest. By its
    /// number, not by when it came: one that was dropped and is brought again is dropped again.
    fn by_worth(&self) -> Vec<(ReceiptPriority, usize)> {
        let newest = self.receipts.iter().map(|receipt| receipt.attempt).max();
        let is_new = |receipt: &ReceiptRecord| Some(receipt.attempt) == newest;
        let newest_plan = self.receipts.iter().filter(|receipt| is_new(receipt)).map(|receipt| receipt.plan).max();
        let place = |receipt: &ReceiptRecord| (receipt.plan, receipt.index);
        let deed = |receipt: &ReceiptRecord| Some((receipt.step.clone(), receipt.evidence.get("disk")?.to_string()));
        let mut last = HashMap::new();
        for receipt in self.receipts.iter().filter(|receipt| is_new(receipt)) {
            let Some(deed) = deed(receipt) else { continue };
            let last = last.entry(deed).or_insert(place(receipt));
            *last = place(receipt).max(*last);
        }
        let worth = |receipt: &ReceiptRecord| match deed(receipt) {
            _ if !is_new(receipt) => ReceiptPriority::Old,
            None if receipt.step == "inspect" => ReceiptPriority::Inspection,
            None if Some(receipt.plan) == newest_plan => ReceiptPriority::NewestPlan,
            None => ReceiptPriority::NoDisk,
            Some(deed) if last.get(&deed).is_some_and(|last| *last > place(receipt)) => ReceiptPriority::DoneAgain,
            Some(_) => ReceiptPriority::Alone,
        };
        let mut all: Vec<_> = self.receipts.iter().enumerate().map(|(at, receipt)| (worth(receipt), at)).collect();
        all.sort_by_key(|&(worth, at)| (worth, self.receipts[at].attempt, place(&self.receipts[at])));
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::hardware::{DiskRecord, HardwareRecord};
    use crate::receipt::RECEIPTS_PER_HOST_MAX;

    #[test]
    fn a_receipt_is_kept_once_and_all_are_bounded_in_bytes() {
        let mut status = HostJournalStatus::default();
        for _ in 0..3 {
            assert!(
                status.keep(ReceiptRecord { attempt: 1, plan: 1, index: 2, ..ReceiptRecord::default() }).is_empty()
            );
        }
        assert_eq!(status.receipts.len(), 1);
        let mut status = HostJournalStatus::default();
        let large = |index| ReceiptRecord { index, evidence: "x".repeat(100 << 10).into(), ..ReceiptRecord::default() };
        (0..20).for_each(|index| assert!(status.keep(large(index)).is_empty(), "of no disk"));
        let kept: Vec<u32> = status.receipts.iter().map(|receipt| receipt.index).collect();
        assert_eq!(kept, (10..20).collect::<Vec<u32>>(), "together no more than {EVIDENCE_BYTES_MAX} bytes");
        status.keep(ReceiptRecord { evidence: "x".repeat(1 << 20).into(), ..large(20) });
        assert_eq!(status.receipts.len(), 1);
    }

    /// A host with more disks than kept receipts was erased again and again.
    #[test]
    fn erasures_of_this_boot_are_kept_until_they_are_superseded() {
        let receipt = |attempt: u64, plan: u32, index: u32, step: &str, disk: Option<u32>| ReceiptRecord {
            attempt,
            plan,
            index,
            step: step.to_owned(),
            evidence: disk.map_or(Value::Null, |disk| serde_json::json!({"disk": {"serial": disk.to_string()}})),
            ..ReceiptRecord::default()
        };
        let mut status = HostJournalStatus::default();
        for index in 0..90 {
            status.keep(receipt(1, 1, index, "erase-disk", Some(index)));
        }
        for disk in 0..256 {
            status.keep(receipt(2, 2 + disk / 60, disk % 60, "erase-disk", Some(disk)));
            status.keep(receipt(2, 100 + disk, 0, "inspect", None));
        }
        let erased = |status: &HostJournalStatus| {
            let of_this = status.receipts.iter().filter(|kept| kept.attempt == 2 && kept.step == "erase-disk");
            of_this.map(|kept| kept.evidence["disk"].to_string()).collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!((status.receipts.len(), erased(&status)), (RECEIPTS_MAX, 256));
        assert!(status.receipts.iter().all(|kept| kept.attempt == 2), "of older boots first");
        for disk in 0..256 {
            status.keep(receipt(2, 1000, disk, "erase-disk", Some(disk)));
        }
        assert_eq!((status.receipts.len(), erased(&status)), (RECEIPTS_MAX, 256), "the older of two of one disk goes");
        assert_eq!(status.receipts.iter().filter(|kept| kept.plan == 1000).count(), 256);
    }

    /// A judge finds no boot entry otherwise, and the host is installed again.
    #[test]
    fn what_the_newest_plan_shows_stays_however_many_disks_were_erased_before() {
        let mut status = HostJournalStatus::default();
        let erased = |index: u32| ReceiptRecord {
            attempt: 1,
            plan: 1,
            index,
            step: "erase-disk".into(),
            evidence: serde_json::json!({"disk": {"serial": index.to_string()}}),
            ..ReceiptRecord::default()
        };
        (0..RECEIPTS_MAX as u32).for_each(|index| drop(status.keep(erased(index))));
        let entry = ReceiptRecord { attempt: 1, plan: 2, index: 3, step: "set-boot-entry".into(), ..erased(0) };
        status.keep(ReceiptRecord { evidence: serde_json::json!({"kind": "boot_entry_set"}), ..entry });
        assert_eq!(status.receipts.len(), RECEIPTS_MAX);
        assert!(status.receipts.iter().any(|receipt| receipt.step == "set-boot-entry"));
    }

    /// Evidence that does not fit is reported, each of its receipts once.
    #[test]
    fn proof_of_a_disk_is_not_dropped_without_a_word() {
        let receipt = |index: u32, bytes: usize| ReceiptRecord {
            attempt: 2,
            index,
            step: "erase-disk".into(),
            evidence: serde_json::json!({"disk": {"serial": index.to_string()}, "x": "x".repeat(bytes)}),
            ..ReceiptRecord::default()
        };
        let mut status = HostJournalStatus::default();
        let lost: Vec<ReceiptRecord> = (0..256).flat_map(|index| status.keep(receipt(index, 2 << 10))).collect();
        assert!(lost.is_empty() && status.receipts.len() == 256, "twice of what an erasure says of a disk");
        let mut status = HostJournalStatus::default();
        let lost: Vec<u32> =
            (0..256).flat_map(|index| status.keep(receipt(index, 8 << 10))).map(|lost| lost.index).collect();
        let kept: Vec<u32> = status.receipts.iter().map(|kept| kept.index).collect();
        assert!(lost.len() > 100 && lost.iter().chain(&kept).copied().eq(0..256), "{lost:?} {kept:?}");
        let large = status.keep(receipt(256, EVIDENCE_BYTES_MAX));
        assert_eq!((large.len(), status.receipts.len()), (kept.len(), 1), "all that it takes goes at once");
    }

    #[test]
    fn names_of_signed_receipts_are_bounded_by_the_hosts_disks() {
        let names = |range: std::ops::Range<u32>| range.map(|number| number.to_string()).collect::<Vec<String>>();
        let mut status = HostJournalStatus::default();
        assert_eq!(status.note_signed(&names(0..130)), ["0", "1"]);
        assert!(status.note_signed(&names(5..6)).is_empty() && status.signed.len() == 128, "each once");
        // Every disk of the largest host is erased twice, and a system is written.
        let disks = vec![DiskRecord::default(); 256];
        let hardware = HardwareRecord { disks, ..HardwareRecord::default() };
        let mut status = HostJournalStatus { hardware: Some(hardware), ..HostJournalStatus::default() };
        for number in 0..2 * 256 + 1 {
            assert!(status.note_signed(&names(number..number + 1)).is_empty(), "{number}");
        }
        let all: usize = status.signed.iter().map(String::len).sum();
        assert_eq!(status.note_signed(&names(600..800)).len(), 2 * 256 + 1 + 200 - RECEIPTS_PER_HOST_MAX);
        assert!(all < 100 << 10);
    }
}
