//! The grade of an erasure in its signed receipt: lowered until it is known how the erasure ended, and then what that
//! proves. Which it is, [`firesteel_plan`] judges; here it gets into the document.
//!
//! ```text
//!   report of an erasure ──► lower: grade "unverified", `claimed` says what the agent says, `notSeen` has NO_END
//!   verdict of the planner ► judge ──┬─ proven ────► grade as claimed; `boot` says when the BMC showed the host off
//!                                    └─ unverified ► `notSeen` says what was not seen
//! ```
//!
//! A receipt is judged once.

use firesteel_kube::{ObjectPart, Status};
use firesteel_plan::host::WipeVerdict;
use firesteel_resources::{Receipt, host_journal::HostJournalStatus, receipt::name};
use firesteel_runtime::HostKey;
use ring::signature::KeyPair as _;

use super::document::{ObservedPower, ReceiptAction, ReceiptDocument};
use super::file;
use crate::{map, receipts::ReceiptKeeper};

impl ReceiptKeeper {
    /// Has the signed receipts of an erasure say what it came to, and counts what is proven.
    pub(crate) async fn grade_receipts(
        &self,
        key: &HostKey,
        uid: &str,
        journal: &HostJournalStatus,
        verdict: &WipeVerdict,
    ) -> Result<(), Status> {
        let of_it = |attempt: u64, plan: u32| attempt == verdict.attempt && plan <= verdict.plan;
        for record in journal.receipts.iter().filter(|record| of_it(record.attempt, record.plan)) {
            let name = name(uid, record.attempt, record.plan, record.index);
            self.grade_receipt(key, &name, verdict).await?;
        }
        if let Some(view) = self.shared.views().hosts.get_mut(key) {
            view.graded = Some(verdict.mark());
        }
        self.shared.queue.wake(key);
        Ok(())
    }

    async fn grade_receipt(&self, key: &HostKey, name: &str, verdict: &WipeVerdict) -> Result<(), Status> {
        let Some(receipt) = self.receipts.get(&key.namespace, name).await? else { return Ok(()) };
        let signer = &*self.receipt_key;
        let read = file::verify(signer.public_key().as_ref(), receipt.status.file.as_bytes());
        // What another key signed stays as it is.
        let Ok(mut document) = read else { return Ok(()) };
        if !judge(&mut document, verdict) {
            return Ok(());
        }
        let Some(file) = file::sign(signer, &document) else { return Ok(()) };
        let show = |receipt: &mut Receipt| {
            let status = &mut receipt.status;
            document.grade().clone_into(&mut status.grade);
            status.summary = document.summary();
            status.not_seen = document.not_seen();
            status.file.clone_from(&file);
        };
        match self.receipts.modify(&key.namespace, name, ObjectPart::Main, show).await {
            Ok(shown) => {
                if let (Some(_), ReceiptAction::Erased(erased)) = (shown, &document.done)
                    && erased.grade != UNVERIFIED
                {
                    self.shared.metrics.erased(&erased.method, document.disk.size_bytes);
                }
                Ok(())
            }
            // What the API takes of no one stops no other work on the host.
            Err(status) if status.code < 500 && !status.is_conflict() => {
                tracing::warn!(host = %key, receipt = name, error = %status.message, "could not grade a signed receipt");
                Ok(())
            }
            Err(status) => Err(status),
        }
    }
}

/// The grade of an erasure that may be another machine's.
pub const UNVERIFIED: &str = "unverified";
/// The grade of what is no erasure: nothing is to be lowered.
const NONE: &str = "none";
/// What is not seen before the end of an erasure is known.
const NO_END: &str = "how the erasure ended: the host has not been seen to switch itself off after it";

/// Lowers the grade of a receipt that was just reported.
pub(crate) fn lower(document: &mut ReceiptDocument) {
    let ReceiptAction::Erased(erased) = &mut document.done else { return };
    if erased.grade == NONE {
        return;
    }
    erased.claimed = Some(std::mem::replace(&mut erased.grade, UNVERIFIED.to_owned()));
    if let Some(boot) = &mut document.boot {
        boot.not_seen.push(NO_END.to_owned());
    }
}

/// Says in a receipt what its erasure came to; `false` where it is no receipt that waits for that.
fn judge(document: &mut ReceiptDocument, verdict: &WipeVerdict) -> bool {
    let (ReceiptAction::Erased(erased), Some(boot)) = (&mut document.done, &mut document.boot) else { return false };
    let Some(place) = boot.not_seen.iter().position(|what| what == NO_END) else { return false };
    boot.not_seen.remove(place);
    boot.power = Some(ObservedPower { off_before: verdict.off_before, off_after: verdict.off_after });
    if verdict.unverified.is_empty() && boot.not_seen.is_empty() {
        if let Some(claimed) = erased.claimed.take() {
            erased.grade = claimed;
        }
        return true;
    }
    for what in verdict.unverified.iter().map(|what| map::line(what)) {
        // The planner's words for what is there already.
        if !boot.not_seen.iter().any(|known| what.ends_with(known.as_str())) {
            boot.not_seen.push(what);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use firesteel_wire::erasure::Grade;
    use jiff::Timestamp;

    use super::*;
    use crate::receipts::file::tests::made_of;

    fn verdict(unverified: &[&str]) -> WipeVerdict {
        let off_before = Some(Timestamp::UNIX_EPOCH);
        WipeVerdict {
            attempt: 3,
            plan: 2,
            unverified: unverified.iter().map(|what| (*what).to_owned()).collect(),
            off_before,
            off_after: unverified.is_empty().then_some(Timestamp::UNIX_EPOCH),
        }
    }

    #[test]
    fn a_grade_is_lowered_until_the_end_is_known() {
        let reported = made_of(Grade::Purge);
        assert_eq!((reported.grade(), reported.not_seen()), (UNVERIFIED, vec![NO_END.to_owned()]));
        let summary = reported.summary();
        assert!(summary.contains("unverified") && !summary.contains("purge"), "{summary}");

        let mut proven = reported.clone();
        assert!(judge(&mut proven, &verdict(&[])));
        assert_eq!((proven.grade(), proven.not_seen()), ("purge", Vec::new()));
        let power = proven.boot.as_ref().and_then(|boot| boot.power.clone());
        assert!(power.is_some_and(|power| power.off_before.is_some() && power.off_after.is_some()));
        let before = proven.clone();
        assert!(!judge(&mut proven, &verdict(&["there is no BMC"])) && proven == before, "it is judged once");

        let mut unverified = reported;
        assert!(judge(&mut unverified, &verdict(&["there is no BMC", "not seen: the lease"])));
        assert_eq!(unverified.grade(), UNVERIFIED);
        assert_eq!(unverified.not_seen(), ["there is no BMC", "not seen: the lease"]);
        assert!(!judge(&mut unverified, &verdict(&[])), "nor is it raised after that");
    }

    #[test]
    fn what_is_no_erasure_has_no_grade_to_lower() {
        let mut none = made_of(Grade::None);
        assert_eq!((none.grade(), none.not_seen()), ("none", Vec::new()));
        assert!(!judge(&mut none, &verdict(&[])));
    }
}
