//! The planner's memory as a host's journal holds it. Its form is the planner's own, so it is read and written here
//! alone; what else stands in the journal, others read by its fields.
//!
//! What asks for one word of the memory takes it without the rest: a memory that a newer appliance wrote may be
//! understood in part.

use firesteel_resources::host_journal::HostJournalStatus;
use serde::Deserialize as _;
use serde_json::Value;

use crate::host::{HostMemory, HostState, IssuedPlan, KnownIdentity, NetbootStage, ReachedStage, identity::known};

/// Why a memory cannot be read or stored.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct MemoryError(#[from] serde_json::Error);

/// Reads the memory; that of a host that was never stepped is empty.
///
/// # Errors
/// When it is none that this version understands.
pub fn memory(status: &HostJournalStatus) -> Result<HostMemory, MemoryError> {
    Ok(stored_memory(status)?.unwrap_or_default())
}

/// Reads the memory; `None` where there is none yet.
///
/// # Errors
/// When it is none that this version understands.
pub fn stored_memory(status: &HostJournalStatus) -> Result<Option<HostMemory>, MemoryError> {
    if status.memory == Value::Null {
        return Ok(None);
    }
    Ok(Some(HostMemory::deserialize(&status.memory)?))
}

/// Puts the memory into the journal.
///
/// # Errors
/// When it is no JSON, which a memory always is.
pub fn set_memory(status: &mut HostJournalStatus, memory: &HostMemory) -> Result<(), MemoryError> {
    status.memory = serde_json::to_value(memory)?;
    Ok(())
}

/// Returns the store's timeline that the planner has taken note of: what agents bring before it took note of a restore
/// may be older than the restore. 0 before the first step.
#[must_use]
pub fn timeline(status: &HostJournalStatus) -> u32 {
    let timeline = status.memory.get("timeline").and_then(Value::as_u64);
    timeline.and_then(|timeline| u32::try_from(timeline).ok()).unwrap_or(0)
}

/// Returns the state of the host; the first one where it cannot be read.
#[must_use]
pub fn state(status: &HostJournalStatus) -> HostState {
    HostState::deserialize(&status.memory["state"]).unwrap_or_default()
}

/// Returns the attempt that the planner is at; 0 before the first.
#[must_use]
pub fn attempt(status: &HostJournalStatus) -> u64 {
    status.memory.get("attempt").and_then(Value::as_u64).unwrap_or(0)
}

/// Says whether the host is one of those that are worked on at a time.
#[must_use]
pub fn has_slot(status: &HostJournalStatus) -> bool {
    !status.memory["admitted"].is_null()
}

/// Returns the attempt whose installation is complete.
#[must_use]
pub fn installed(status: &HostJournalStatus) -> Option<u64> {
    status.memory["applied"]["attempt"].as_u64().filter(|_| state(status) == HostState::Provisioned)
}

/// Returns the attempt whose installation is on the disk, or is being put there.
#[must_use]
pub fn installation(status: &HostJournalStatus) -> Option<u64> {
    if state(status) == HostState::Provisioned {
        return installed(status);
    }
    let writes = state(status) == HostState::Provisioning && status.memory["plan"]["plan"]["kind"] == "write";
    writes.then(|| attempt(status))
}

/// Returns the configs that what this attempt installed was handed over to fetch; `None` where that is not on the disk, nor
/// being put there. Attempts of later boots that left the disk alone end nothing.
#[must_use]
pub fn configs_of(status: &HostJournalStatus, installed: u64) -> Option<Vec<String>> {
    if installation(status) != Some(installed) {
        return None;
    }
    let is_done = state(status) == HostState::Provisioned;
    let installs = if is_done { &status.memory["applied"] } else { &status.memory["plan"]["plan"] };
    let names = &installs["configs"];
    Some(names.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect())
}

/// Returns what the host is known as.
#[must_use]
pub fn known_identity(status: &HostJournalStatus) -> KnownIdentity {
    let remembered = KnownIdentity::deserialize(&status.memory["identity"]).ok();
    known(remembered.as_ref(), status.hardware.as_ref(), status.claim.as_ref())
}

/// Says whether this key is one of a machine that is known not to be the host.
#[must_use]
pub fn is_intruder(status: &HostJournalStatus, key: &str) -> bool {
    let intruders = status.memory["intruders"].as_array().into_iter().flatten();
    intruders.filter_map(|known| known["key"].as_str()).any(|known| known == key)
}

/// Returns the newest plan that the planner issued, if it can be read.
#[must_use]
pub fn issued_plan(status: &HostJournalStatus) -> Option<IssuedPlan> {
    status.memory.get("plan").and_then(|plan| IssuedPlan::deserialize(plan).ok())
}

/// Says whether the agent of an attempt has reported work on this plan.
#[must_use]
pub fn has_begun(status: &HostJournalStatus, attempt: u64, plan: u32) -> bool {
    let at = status.progress.as_ref().map(|progress| (progress.attempt, progress.plan));
    let has_receipt = || status.receipts.iter().any(|receipt| (receipt.attempt, receipt.plan) == (attempt, plan));
    at == Some((attempt, plan)) || has_receipt()
}

/// Lists the stages that the boot of the current attempt came to, as the journal knows them.
#[must_use]
pub fn boot_stages(status: &HostJournalStatus) -> Vec<ReachedStage> {
    let attempt = attempt(status);
    let noted = status.network.iter().filter(|note| note.attempt == attempt).filter_map(|note| {
        let stage = NetbootStage::of_entry(&note.event, &note.detail)?;
        Some(ReachedStage { stage, first_at: note.first_at, last_at: note.last_at, detail: note.detail.clone() })
    });
    let written = status.timeline.iter().filter(|event| event.attempt == attempt).filter_map(|event| {
        let stage = NetbootStage::of_entry(&event.event, &event.detail)?;
        Some(ReachedStage { stage, first_at: event.at, last_at: event.at, detail: String::new() })
    });
    noted.chain(written).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use firesteel_resources::HardwareRecord;
    use firesteel_resources::host_journal::{JournalProgress, ReceiptRecord};
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::host::PlanKind;

    const UUID: &str = "4c4c4544-0046-3310-8051-b4c04f564432";

    fn with(memory: Value) -> HostJournalStatus {
        HostJournalStatus { memory, ..HostJournalStatus::default() }
    }

    #[test]
    fn who_was_admitted_has_a_slot() {
        let with = |memory: Value| has_slot(&with(memory));
        assert!(with(json!({"admitted": "2026-01-02T03:04:05Z"})));
        assert!(!with(json!({"admitted": null})) && !with(json!({})) && !with(Value::Null));
    }

    #[test]
    fn a_memory_is_read_as_it_was_stored() {
        let mut status = HostJournalStatus::default();
        assert_eq!(stored_memory(&status).unwrap(), None);
        assert_eq!(memory(&status).unwrap(), HostMemory::default(), "that of a host that was never stepped");
        let plan = IssuedPlan { number: 7, plan: PlanKind::Inspect, issued_at: Timestamp::UNIX_EPOCH, stopped: None };
        let stored = HostMemory {
            state: HostState::Inspecting,
            attempt: 5,
            timeline: 3,
            plan: Some(plan.clone()),
            ..HostMemory::default()
        };
        set_memory(&mut status, &stored).unwrap();
        assert_eq!(stored_memory(&status).unwrap().as_ref(), Some(&stored));
        assert_eq!(memory(&status).unwrap(), stored);
        assert_eq!((state(&status), attempt(&status), timeline(&status)), (HostState::Inspecting, 5, 3));
        assert_eq!(issued_plan(&status), Some(plan));
    }

    /// A newer appliance may have written it.
    #[test]
    fn of_a_memory_that_is_not_understood_each_word_that_is_understood_is_read() {
        let newer = with(json!({"state": {"name": "resting"}, "attempt": 5, "timeline": 3, "plan": {"number": "x"}}));
        assert!(memory(&newer).is_err() && stored_memory(&newer).is_err());
        assert_eq!((state(&newer), attempt(&newer), timeline(&newer)), (HostState::New, 5, 3));
        assert_eq!(issued_plan(&newer), None);
        for (text, wanted) in
            [(json!({}), 0), (json!({"timeline": u32::MAX}), u32::MAX), (json!({"timeline": 1_u64 << 32}), 0)]
        {
            assert_eq!(timeline(&with(text.clone())), wanted, "{text}");
        }
    }

    #[test]
    fn a_host_is_known_as_what_is_remembered_and_else_as_it_was_inspected() {
        let mut hardware = HardwareRecord::default();
        (hardware.system.uuid, hardware.system.serial) = (UUID.into(), "SN-1".into());
        let named = |status: &HostJournalStatus| {
            let KnownIdentity { uuid, serial, .. } = known_identity(status);
            (uuid, serial)
        };
        let mut status = with(json!({"identity": {"uuid": UUID, "serial": "SN-2"}}));
        assert_eq!(named(&status), (UUID.to_owned(), "SN-2".to_owned()));
        status.hardware = Some(hardware);
        assert_eq!(named(&status), (UUID.to_owned(), "SN-2".to_owned()), "a person may have said it");
        status.memory = Value::Null;
        assert_eq!(named(&status), (UUID.to_owned(), "SN-1".to_owned()));
        status.hardware = None;
        assert_eq!(named(&status), (String::new(), String::new()));
    }

    #[test]
    fn the_key_of_another_machine_is_known_by_itself() {
        let status = with(json!({"intruders": [{"key": "aa"}, {"mac": "no key"}, {"key": "bb"}]}));
        for (key, is_known) in [("aa", true), ("bb", true), ("cc", false), ("", false)] {
            assert_eq!(is_intruder(&status, key), is_known, "{key}");
        }
        assert!(!is_intruder(&with(Value::Null), "aa"));
    }

    #[test]
    fn work_on_a_plan_has_begun_with_its_first_report_or_receipt() {
        let progress = |attempt, plan| Some(JournalProgress { attempt, plan, ..JournalProgress::default() });
        let receipt = |attempt, plan| ReceiptRecord { attempt, plan, ..ReceiptRecord::default() };
        for (progress, receipts, has) in [
            (None, vec![], false),
            (progress(4, 2), vec![], true),
            (None, vec![receipt(4, 1), receipt(4, 2)], true),
            (progress(4, 3), vec![receipt(4, 2)], true),
            (progress(4, 3), vec![receipt(4, 1)], false),
            (progress(3, 2), vec![receipt(3, 2)], false),
        ] {
            let status = HostJournalStatus { progress, receipts, ..HostJournalStatus::default() };
            assert_eq!(has_begun(&status, 4, 2), has, "{status:?}");
        }
    }
}
