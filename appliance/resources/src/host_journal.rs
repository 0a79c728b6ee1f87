//! `HostJournal` (firesteel.dev/v1alpha1): the planner's own durable memory of one host and the
//! host's history. Named as its host, in its namespace. People read it; only the appliance
//! writes it.
//!
//! The memory is opaque here: its shape belongs to the planner, which is built on this crate.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    hardware::HardwareRecord,
    kinds::{AGE, FIRESTEEL, Kind, STATUS_ONLY, V1ALPHA1, column},
    meta::{ObjectMeta, is_zero},
};

/// Most timeline events kept per host; the oldest go first. About ten boots of a busy host, and
/// under 100 kB.
pub const EVENTS_MAX: usize = 400;
/// Most receipts kept per host, for the same reason; one installation gives about six.
pub const RECEIPTS_MAX: usize = 100;

pub const KIND: Kind = Kind {
    short_names: &["hj"],
    has_status: true,
    columns: &[
        column("Attempt", ".status.memory.attempt", "Boots asked for so far", 0),
        column("Step", ".status.progress.step", "Step that the agent works on", 0),
        column("Reason", ".status.reason.text", "Why the host is where it is", 0),
        AGE,
    ],
    about: "What the appliance remembers of its work on the host of the same name.",
    read_only: true,
    ..Kind::new(FIRESTEEL, V1ALPHA1, "HostJournal", "hostjournals", "hostjournal", &STATUS_ONLY)
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostJournal {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub status: HostJournalStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostJournalStatus {
    /// The planner's state of this host; `null` for a host that it has not seen yet.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub memory: Value,
    /// Why the host is where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<JournalReason>,
    /// The agent of the newest boot that said hello.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentBinding>,
    /// The hardware as last inspected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareRecord>,
    /// What the running OS said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<TimelineEvent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<ReceiptRecord>,
}

impl HostJournalStatus {
    /// Adds an event and drops the oldest beyond the bound.
    pub fn note(&mut self, event: TimelineEvent) {
        self.timeline.push(event);
        let excess = self.timeline.len().saturating_sub(EVENTS_MAX);
        self.timeline.drain(..excess);
    }

    /// Adds a receipt unless it is known (receipts arrive again with every report).
    pub fn keep(&mut self, receipt: ReceiptRecord) {
        let same =
            |old: &ReceiptRecord| (old.attempt, old.plan, old.index) == (receipt.attempt, receipt.plan, receipt.index);
        if self.receipts.iter().any(same) {
            return;
        }
        self.receipts.push(receipt);
        let excess = self.receipts.len().saturating_sub(RECEIPTS_MAX);
        self.receipts.drain(..excess);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JournalReason {
    pub text: String,
    /// Source line that decided, `host/provisioning.rs:120`.
    pub location: String,
    pub since: Timestamp,
}

/// The agent that a boot's token is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentBinding {
    pub attempt: u64,
    /// Ed25519 public key, hexadecimal.
    pub key: String,
    pub boot_id: String,
    pub bound_at: Timestamp,
    pub mac: String,
    pub address: String,
    pub agent_version: String,
    pub kernel_version: String,
    /// Number of the newest report that this journal knows something from: an older one comes late.
    #[serde(skip_serializing_if = "is_zero")]
    pub sequence: u64,
    /// The agent's last report said that it leaves the ramdisk, and was answered.
    #[serde(skip_serializing_if = "is_zero")]
    pub left: bool,
}

/// What became of an installation after the hand-over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceRecord {
    /// The attempt that installed it.
    pub attempt: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_fetched_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_at: Option<Timestamp>,
}

/// Where the current plan stands; replaced often, so it is small.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    pub attempt: u64,
    pub plan: u32,
    pub step: String,
    pub activity: String,
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// 0 to 100.
    pub percent: u8,
    pub at: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TimelineEvent {
    pub at: Timestamp,
    pub attempt: u64,
    /// `dhcp_ack`, `loader`, `kernel`, `agent_hello`, `write_start`, `running`; or the reason of a Kubernetes event.
    pub event: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Evidence of one finished step. The evidence itself is what the agent sent, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReceiptRecord {
    pub attempt: u64,
    pub plan: u32,
    pub index: u32,
    pub step: String,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub evidence: Value,
    /// Ed25519 signature of the appliance over the record without it, hexadecimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub signature: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_bounded_and_receipts_are_kept_once() {
        let mut status = HostJournalStatus::default();
        for attempt in 0..(EVENTS_MAX as u64 + 5) {
            status.note(TimelineEvent { attempt, ..TimelineEvent::default() });
        }
        assert_eq!((status.timeline.len(), status.timeline[0].attempt), (EVENTS_MAX, 5));
        for _ in 0..3 {
            status.keep(ReceiptRecord { attempt: 1, plan: 1, index: 2, ..ReceiptRecord::default() });
        }
        assert_eq!(status.receipts.len(), 1);
    }
}
