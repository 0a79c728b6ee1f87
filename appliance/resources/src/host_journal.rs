//! `HostJournal` (firesteel.dev/v1alpha1): the planner's own durable memory of one host and the
//! host's history. Named as its host, in its namespace. People read it; only the appliance
//! writes it.
//!
//! The memory is opaque here: its shape belongs to the planner, which is built on this crate.

mod answers;
mod bmc_parts;
mod boot;
mod claim;
mod promised_hand_off;
mod receipts;

use firesteel_kube_types::ObjectMeta;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hardware::HardwareRecord;
use crate::kind::{AGE, FIRESTEEL, Kind, STATUS_ONLY, V1ALPHA1, column};
use crate::zero::is_zero;

pub use answers::{DELETION, RequestAnswer, RequestAnswers, RequestOutcome};
pub use bmc_parts::{BmcDriveRecord, BmcInterfaceRecord, BmcVolumeRecord};
pub use boot::{BootRecord, NETWORK_NOTES_MAX, NetworkNote, RefusedIdentity, SentFileRecord};
pub use claim::{CLAIMANTS_MAX, ClaimRecord, Claimant};
pub use promised_hand_off::{HandedFile, PROMISES_MAX, PromisedForm, PromisedForms, PromisedHandOff};
pub use receipts::{EVIDENCE_BYTES_MAX, RECEIPTS_MAX};

/// Most timeline events kept per host; the oldest go first. About ten boots of a busy host, and
/// under 100 kB.
pub const EVENTS_MAX: usize = 400;
/// Time between two writes of an event that repeats.
const AGAIN: SignedDuration = SignedDuration::from_secs(9);
/// Longest detail of one event.
pub const DETAIL_BYTES_MAX: usize = 2048;

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
    /// What became of the newest request of each sort that was made of this host.
    #[serde(skip_serializing_if = "RequestAnswers::is_empty")]
    pub answers: RequestAnswers,
    /// The agent of the newest boot that said hello.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentBinding>,
    /// The hardware as last inspected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareRecord>,
    /// What the BMC says of its machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bmc: Option<BmcRecord>,
    /// What the running OS said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceRecord>,
    /// The installation whose token is counted, and since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_count: Option<TokenCount>,
    /// What became of the last wish to put the deadline of its token off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_extension: Option<TokenExtension>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<JournalProgress>,
    /// What was seen of the newest boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootRecord>,
    /// What the OS is to be handed by the newest plan to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promised: Option<PromisedHandOff>,
    /// Digest of what its owner was warned of last about what its OS is to be handed, so that a restart tells it no
    /// second time.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hand_off_warned: String,
    /// Another machine that wanted to speak for the host last, and was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_identity: Option<RefusedIdentity>,
    /// The newest attempt that more than one machine claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimRecord>,
    /// The agent that was bound before the newest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former_agent: Option<Claimant>,
    /// Evidence: what the appliance did, and what came from who holds the host's token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<TimelineEvent>,
    /// What was seen on the network under the host's MACs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkNote>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<ReceiptRecord>,
    /// Names of the host's signed receipts ([`crate::receipt`]), the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signed: Vec<String>,
}

impl HostJournalStatus {
    /// Adds an event, its detail cut where it is too long, and drops the oldest beyond the bound.
    pub fn note(&mut self, mut event: TimelineEvent) {
        if event.detail.len() > DETAIL_BYTES_MAX {
            event.detail.truncate(event.detail.floor_char_boundary(DETAIL_BYTES_MAX - '…'.len_utf8()));
            event.detail.push('…');
        }
        self.timeline.push(event);
        let excess = self.timeline.len().saturating_sub(EVENTS_MAX);
        self.timeline.drain(..excess);
    }

    /// Notes an event that a client can repeat at will: once for an attempt, as it was last, and not more often
    /// than each [`AGAIN`].
    pub fn note_again(&mut self, event: TimelineEvent) {
        let same = |old: &TimelineEvent| (old.attempt, &old.event) == (event.attempt, &event.event);
        if let Some(place) = self.timeline.iter().rposition(same) {
            let old = &self.timeline[place];
            if old.detail == event.detail || event.at.duration_since(old.at) < AGAIN {
                return;
            }
            self.timeline.remove(place);
        }
        self.note(event);
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

/// What a BMC says of its machine; empty and absent fields were not said. Words are the BMC's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcRecord {
    pub at: Timestamp,
    pub vendor: String,
    pub product: String,
    pub redfish_version: String,
    pub manager_model: String,
    pub manager_firmware: String,
    pub manager_health: String,
    pub manufacturer: String,
    pub model: String,
    pub serial: String,
    pub uuid: String,
    pub sku: String,
    pub asset_tag: String,
    pub bios_version: String,
    /// Health of the machine and all in it: `OK`, `Warning`, `Critical`.
    pub health: String,
    /// `UEFI` or `Legacy`.
    pub boot_mode: String,
    /// Secure Boot at the next boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
    /// Secure Boot in the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_boot_last: Option<bool>,
    pub secure_boot_mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_count: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<BmcModule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<BmcProcessor>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<BmcInterfaceRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<BmcDriveRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<BmcVolumeRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub firmware: Vec<BmcVersion>,
    /// What is not in here, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcModule {
    pub slot: String,
    pub mib: u64,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mhz: Option<u32>,
    pub manufacturer: String,
    pub part: String,
    pub serial: String,
    pub health: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcProcessor {
    pub socket: String,
    /// `CPU`, `GPU`, `FPGA` and others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// `x86_64` or `aarch64`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arch: String,
    pub manufacturer: String,
    pub model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mhz: Option<u32>,
    pub health: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcVersion {
    pub name: String,
    pub version: String,
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
    /// What it said of its machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    pub address: String,
    pub agent_version: String,
    pub kernel_version: String,
    /// The way by which it came and what it waited for, if the host has network data.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub network: String,
    /// The network data did not lead to the appliance; [`Self::network`] says why.
    #[serde(skip_serializing_if = "is_zero")]
    pub network_failed: bool,
    /// sha256 of its binary by its own word, hexadecimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub program_sha256: String,
    /// What it can do beyond the first steps of the protocol.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub abilities: Vec<String>,
    /// Its machine was compared with what the host was known as before: both said a UUID or a serial number.
    #[serde(skip_serializing_if = "is_zero")]
    pub identity_compared: bool,
    /// Number of the newest report that this journal knows something from: an older one comes late.
    #[serde(skip_serializing_if = "is_zero")]
    pub sequence: u64,
    /// The agent's last report said that it leaves the ramdisk, and was answered.
    #[serde(skip_serializing_if = "is_zero")]
    pub left: bool,
    /// When it first said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_at: Option<Timestamp>,
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
    /// The config that it fetched last: a pool's name, or a Secret's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// What was rendered of each pool that it fetched, at the last time: names with blanks between.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rendered: String,
    /// Its first boot failed, by its own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<FirstBootFailure>,
}

/// The token with which an installation fetches its config is honoured for a time from here on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenCount {
    /// The attempt that installed it.
    pub attempt: u64,
    /// The age of the store at that moment, in seconds: no clock moves it.
    pub since_s: u64,
}

/// The answer to one wish.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenExtension {
    /// The wish, as it was written.
    pub asked: String,
    pub at: Timestamp,
    /// The new deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why it was refused; empty where it was granted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refused: String,
}

/// What a host reported whose first boot failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FirstBootFailure {
    pub at: Timestamp,
    /// The last lines of its log, made plain.
    pub log: Vec<String>,
}

/// Progress of the current plan; it is replaced often, so it is small.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JournalProgress {
    pub attempt: u64,
    pub plan: u32,
    pub step: String,
    pub activity: String,
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// 0 to 100.
    pub percent: u8,
    /// Is smoothed; absent while it is not known, and of work that is not counted in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// What the activity under way may still take; absent while that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
    pub at: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TimelineEvent {
    pub at: Timestamp,
    pub attempt: u64,
    /// `script`, `kernel`, `agent_hello`, `write_start`, `running`; or the reason of a Kubernetes event.
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
    /// Uptime of the host at both, in milliseconds, where the agent says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_uptime_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_uptime_ms: Option<u64>,
    pub evidence: Value,
    /// Ed25519 signature of the appliance over the record without it, hexadecimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub signature: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second agent that came 400 times drove all that had happened to the host out.
    #[test]
    fn what_comes_again_and_again_is_one_event_of_its_attempt() {
        let mut status = HostJournalStatus::default();
        let event = |attempt, second, event: &str, detail: &str| TimelineEvent {
            at: Timestamp::from_second(second).unwrap_or_default(),
            attempt,
            event: event.into(),
            detail: detail.into(),
            ..TimelineEvent::default()
        };
        status.note(event(1, 0, "agent_hello", ""));
        for second in 0..1000 {
            let from = if second % 2 == 0 { "a" } else { "b" };
            status.note_again(event(1, second, "second_agent", from));
            status.note_again(event(1, second, "another_machine", from));
        }
        let told = |event: &TimelineEvent| (event.event.clone(), event.at.as_second());
        let all: Vec<_> = status.timeline.iter().map(told).collect();
        let last = |name: &str| (name.to_owned(), 999);
        assert_eq!(all, [("agent_hello".to_owned(), 0), last("second_agent"), last("another_machine")]);
        status.note_again(event(1, 2000, "second_agent", "b"));
        assert_eq!(status.timeline.len(), 3);
        assert_eq!(told(&status.timeline[1]), last("second_agent"), "nothing new");
        status.note_again(event(2, 2000, "second_agent", "b"));
        assert_eq!(status.timeline.len(), 4, "another attempt");
    }

    #[test]
    fn history_is_bounded() {
        let mut status = HostJournalStatus::default();
        for attempt in 0..(EVENTS_MAX as u64 + 5) {
            status.note(TimelineEvent { attempt, ..TimelineEvent::default() });
        }
        assert_eq!((status.timeline.len(), status.timeline[0].attempt), (EVENTS_MAX, 5));
        status.note(TimelineEvent { detail: "ä".repeat(1 << 20), ..TimelineEvent::default() });
        let detail = status.timeline.last().map(|event| event.detail.as_str()).unwrap_or_default();
        assert!(detail.len() <= DETAIL_BYTES_MAX && detail.ends_with("ä…"));
    }
}
