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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_was_admitted_has_a_slot() {
        let with = |memory: Value| has_slot(&HostJournalStatus { memory, ..HostJournalStatus::default() });
        assert!(with(json!({"admitted": "2026-01-02T03:04:05Z"})));
        assert!(!with(json!({"admitted": null})) && !with(json!({})) && !with(Value::Null));
    }
}
