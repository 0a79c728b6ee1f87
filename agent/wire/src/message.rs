//! The messages themselves.

use serde::{Deserialize, Serialize};

use crate::auth::PublicKey;
use crate::neighbour::Neighbour;
use crate::network::NetworkPath;
use crate::plan::AgentPlan;
use crate::receipt::{ReceiptPlace, StepReceipt};

/// First message of one boot. Repeats with the same key are answered alike.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Sealed token from the seed, as it came.
    pub token: String,
    pub key: PublicKey,
    pub identity: SmbiosIdentity,
    pub agent_version: String,
    pub kernel_version: String,
    /// Milliseconds since the kernel's start.
    pub uptime_ms: u64,
    /// The kernel's boot id (`/proc/sys/kernel/random/boot_id`), which proves a reboot.
    pub boot_id: String,
    /// How the agent came to the appliance, where the seed had a [`NetworkPlan`](crate::NetworkPlan).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkPath>,
    /// What the agent is and can do; empty from an older agent.
    #[serde(default, skip_serializing_if = "Program::is_empty")]
    pub program: Program,
}

/// The program that says hello. What it says of itself is a claim, as everything from a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// sha256 of the running binary, hexadecimal; empty where it could not be read.
    pub sha256: String,
    /// What it can do beyond the first steps of this version, such as [`Program::ERASE_DISK`]. An unknown one
    /// means nothing.
    pub abilities: Vec<String>,
}

impl Program {
    /// Understands [`crate::PlanStep::EraseDisk`]; others would refuse the whole reply that has it.
    pub const ERASE_DISK: &'static str = "erase-disk";
    /// Understands [`crate::hand_off::Forms`]; others would refuse the whole reply that has them.
    pub const HAND_OFF_FORMS: &'static str = "hand-off-forms";

    #[must_use]
    pub fn can(&self, ability: &str) -> bool {
        self.abilities.iter().any(|own| own == ability)
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hello")
            .field("key", &self.key)
            .field("identity", &self.identity)
            .field("uptime_ms", &self.uptime_ms)
            .finish_non_exhaustive()
    }
}

/// Who the host says it is. A claim, not a proof: the token decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmbiosIdentity {
    /// The SMBIOS UUID in lower case, or empty.
    #[serde(default)]
    pub uuid: String,
    #[serde(default)]
    pub serial: String,
    #[serde(default)]
    pub manufacturer: String,
    #[serde(default)]
    pub product: String,
    /// MAC of the interface that booted.
    #[serde(default)]
    pub boot_mac: String,
    #[serde(default)]
    pub macs: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HelloReply {
    /// Name for logs; the object's name, or the MAC of a discovered host.
    pub host: String,
    pub attempt: u64,
    /// The appliance's Unix time in milliseconds; the agent sets its clocks by it.
    pub time_ms: u64,
    pub verdict: AgentInstruction,
    /// See [`ReportReply::hold`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
}

/// The whole state of the agent. Cumulative: the latest one says everything that is not stored already.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    pub token: String,
    pub key: PublicKey,
    pub boot_id: String,
    /// Grows by one with each report of this boot.
    pub sequence: u64,
    pub uptime_ms: u64,
    /// Number of the plan that `steps` belongs to; 0 before the first.
    pub plan: u32,
    #[serde(default)]
    pub steps: Vec<StepReport>,
    /// Receipts of all plans of this boot, without those that the last reply named as stored.
    #[serde(default)]
    pub receipts: Vec<StepReceipt>,
    /// Who was heard at the other ends of the host's cables up to now, in the order of their NICs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Neighbour>,
    /// Whether the agent has nothing to do; the appliance may then hold the reply.
    #[serde(default)]
    pub idle: bool,
    /// Whether this is the last report before the agent leaves the ramdisk; it leaves only after the reply.
    #[serde(default)]
    pub leaving: bool,
    #[serde(default)]
    pub log: Vec<LogLine>,
}

impl std::fmt::Debug for AgentReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentReport")
            .field("sequence", &self.sequence)
            .field("plan", &self.plan)
            .field("steps", &self.steps)
            .field("idle", &self.idle)
            .field("leaving", &self.leaving)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    pub index: u32,
    pub step: String,
    pub state: StepState,
    /// What is going on inside the step, such as `writing`, `reading back`, `paused: …`.
    #[serde(default)]
    pub activity: String,
    #[serde(default)]
    pub done_bytes: u64,
    #[serde(default)]
    pub total_bytes: u64,
    /// How fast `done_bytes` grew lately; 0 where it is not known yet. What is left takes `(total_bytes - done_bytes) /
    /// bytes_per_second`.
    #[serde(default, skip_serializing_if = "crate::parts::is_zero")]
    pub bytes_per_second: u64,
    /// Unix milliseconds; 0 before the start.
    #[serde(default)]
    pub started_ms: u64,
    #[serde(default)]
    pub ended_ms: u64,
    /// Why it failed and what to do, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Whether the step had begun to change the disk when it failed.
    #[serde(default)]
    pub disk_changed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    #[default]
    Pending,
    Running,
    Done,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportReply {
    pub time_ms: u64,
    /// Highest log sequence number that the appliance has; the agent drops what it covers.
    pub log_acknowledged: u64,
    /// Receipts of this boot that are stored as this is answered: the next report need not bring them. What
    /// a reply does not name any more (an older store was restored) is brought again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored: Vec<ReceiptPlace>,
    pub verdict: AgentInstruction,
    /// Why nothing may be destroyed now, for people; absent: it may. A step that destroys does not begin, and
    /// one that runs waits at its next safe point, until a reply without it comes. All else goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
}

/// What the agent does next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum AgentInstruction {
    /// Go on with what you do; nothing to do means: wait.
    Continue,
    /// Stop at the next safe point and reboot; the reason is for people.
    Abort { reason: String },
    /// Asks for a run of this plan, unless its number was run already.
    Plan { plan: AgentPlan },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogSource {
    Kernel,
    Agent,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    pub sequence: u64,
    /// Milliseconds since the kernel's start.
    pub uptime_ms: u64,
    pub source: LogSource,
    /// Syslog severity, 0 to 7 (RFC 5424 section 6.2.1).
    pub severity: u8,
    pub text: String,
}

/// Body of every answer that is not 200.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalReply {
    pub reason: RefusalReason,
    /// What happened and what to do, for people.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// The token is altered, expired, or of another appliance. Final: reboot.
    BadToken,
    /// The token is bound to another key. Appliances before [`RefusalReason::Held`] send it; it means the same.
    SecondKey,
    /// The token's attempt is over. Final: reboot.
    OldAttempt,
    /// The signature does not fit the key. Final.
    BadSignature,
    /// The body could not be understood. Final.
    BadRequest,
    /// Try again later.
    Busy,
    /// Nothing is given to this agent until it is settled which machine is the host. Destroy nothing, wait, ask again,
    /// and do not leave the host.
    Held,
}
