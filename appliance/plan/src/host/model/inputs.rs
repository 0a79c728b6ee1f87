//! What a step may look at: the object, the planner's own memory and the newest observations.
//! The caller gathers them for each step; activations carry nothing.

use std::fmt;

use firesteel_facts::WorkHold;
use firesteel_resources::host_journal::{ClaimRecord, PromisedHandOff, RefusedIdentity, RequestAnswers};
use firesteel_resources::{BareMetalHost, HardwareRecord};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::admission::SlotOffer;
use crate::clock::ClockDoubt;
use crate::disk::CleaningProof;
use crate::host::model::health_inputs::{HealthInputs, SensorInputs};
use crate::host::model::limits::HostTimeouts;
use crate::host::model::memory::{HostMemory, Tombstone};
use crate::host::model::netboot::{DiscoveredMachine, NetbootInputs};
use crate::host::model::orders::ReadyImage;
use crate::host::model::receipts::ShownReceipt;
use crate::host::model::refused_hello::RefusedHello;

#[derive(Clone, Debug)]
pub struct HostInputs {
    pub host: BareMetalHost,
    pub memory: HostMemory,
    /// What became of the requests that were made so far.
    pub answers: RequestAnswers,
    /// The Secret that `spec.bmc.credentialsName` names.
    pub credentials: CredentialsInputs,
    pub user_data: UserDataInputs,
    /// How the host's agent is to get to the appliance.
    pub network_data: NetworkDataInputs,
    /// The image that the spec wants now; [`ImageInputs::Unknown`] where it wants none.
    pub image: ImageInputs,
    /// The newest inspection.
    pub hardware: Option<HardwareRecord>,
    /// The host's `HardwareData` shows that inspection; looked for while an agent has the plan to inspect.
    pub hardware_is_shown: bool,
    /// The host's `HardwareData` shows what the BMC said of its machine, or an agent's inspection; looked for while the
    /// host is inspected by its BMC. What the BMC said of drives is not here: no disk is chosen by it.
    pub bmc_record_is_shown: bool,
    pub bmc: BmcInputs,
    /// What the BMC said last of the health of its machine.
    pub health: Option<HealthInputs>,
    /// What the sensors of its machine say; absent while none are read.
    pub sensors: Option<SensorInputs>,
    /// The newest agent bound to this host, also after it left.
    pub agent: Option<AgentInputs>,
    /// The attempt that was over when the host asked for a boot script: its agent was gone, or had said a hello that
    /// did not count. The caller steps it, and so publishes the next attempt, before it answers that request.
    pub spent_attempt: Option<u64>,
    /// Another host, which was there first, has one of this host's MACs: the MAC and its name.
    pub mac_taken: Option<(String, String)>,
    /// An agent with a discovery token (no host yet) is alive on one of this host's MACs.
    pub discovery_agent: bool,
    pub instance: InstanceInputs,
    /// What the store is, and how much of its own past it has.
    pub lineage: LineageInputs,
    /// When this appliance process started: it has heard from no machine before.
    pub started_at: Timestamp,
    /// Fresh random bits for this step, for new GUIDs and for spreading retries.
    pub entropy: u128,
    pub limits: HostTimeouts,
    /// A tombstone that stands for the host's machine; looked for until the host was inspected, and while one is
    /// known.
    pub uncleaned: Option<Tombstone>,
    /// Another machine that wanted to speak for the host last, and was refused.
    pub refused_identity: Option<RefusedIdentity>,
    /// The last hello of an agent of this host that was refused, since the appliance started.
    pub refused_hello: Option<RefusedHello>,
    /// The newest attempt that more than one machine claimed.
    pub claim: Option<ClaimRecord>,
    /// When claimants were heard last, since the appliance started.
    pub claims_heard: Vec<ClaimInputs>,
    pub shared_uuid: Option<SharedUuid>,
    /// How far its last boot from the network came.
    pub netboot: NetbootInputs,
    /// Machines without a host that say the SMBIOS UUID of the system that this host's BMC drives, and no other BMC.
    pub discovered: Vec<DiscoveredMachine>,
    /// A person stopped all destruction, on every host.
    pub halt: Option<FleetHalt>,
    /// Why the appliance's clock is not believed.
    pub clock: Option<ClockDoubt>,
    /// Whether the host may take a slot in this step.
    pub slot: SlotOffer,
    /// Why no host begins work for which it boots into the agent.
    pub work_hold: Option<WorkHold>,
    /// The erasure whose receipts say what it came to, of those since the appliance started: attempt and plan.
    pub graded: Option<(u64, u32)>,
}

impl HostInputs {
    /// A host about which nothing is known yet.
    #[must_use]
    pub fn new(host: BareMetalHost, memory: HostMemory, started_at: Timestamp, entropy: u128) -> Self {
        Self {
            host,
            memory,
            answers: RequestAnswers::default(),
            credentials: CredentialsInputs::Missing,
            user_data: UserDataInputs::NotReferenced,
            network_data: NetworkDataInputs::NotReferenced,
            image: ImageInputs::Unknown,
            hardware: None,
            hardware_is_shown: false,
            bmc_record_is_shown: false,
            bmc: BmcInputs::default(),
            health: None,
            sensors: None,
            agent: None,
            spent_attempt: None,
            mac_taken: None,
            discovery_agent: false,
            instance: InstanceInputs::default(),
            lineage: LineageInputs::default(),
            started_at,
            entropy,
            limits: HostTimeouts::default(),
            uncleaned: None,
            refused_identity: None,
            refused_hello: None,
            claim: None,
            claims_heard: Vec::new(),
            shared_uuid: None,
            netboot: NetbootInputs::default(),
            discovered: Vec::new(),
            halt: None,
            clock: None,
            slot: SlotOffer::Free,
            work_hold: None,
            graded: None,
        }
    }
}

/// A machine that claims to be the host, as it was heard last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimInputs {
    /// Key of its agent, hexadecimal.
    pub key: String,
    /// When its newest message came.
    pub at: Timestamp,
    /// That message said that a drive of it is at something that nothing can interrupt.
    pub cannot_stop: bool,
}

/// The store's identity. A restored backup is another timeline; what was written after the backup is
/// not in it, but may be on disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageInputs {
    pub store: u32,
    /// The one that is written now.
    pub timeline: u32,
    /// The newest change that this step knows.
    pub revision: u64,
    /// Each timeline and the last revision of it that this store has; the current one comes last.
    pub known: Vec<(u32, u64)>,
}

impl Default for LineageInputs {
    /// A store that was never restored.
    fn default() -> Self {
        Self { store: 1, timeline: 1, revision: 0, known: vec![(1, 0)] }
    }
}

/// Another host was inspected as a machine of the same SMBIOS UUID. It stops nothing: the boot token decides which host
/// an agent speaks for, and plans name disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedUuid {
    pub uuid: String,
    /// The other host.
    pub with: String,
}

/// A stop of the whole fleet: no step that destroys begins, and those under way hold at their next safe point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetHalt {
    /// The person's name, as the API knows it.
    pub who: String,
    /// The reason in that person's words; may be empty.
    pub why: String,
    pub since: Timestamp,
}

impl fmt::Display for FleetHalt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, why, since } = self;
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        write!(f, "halted by {who} at {since:.0}{why}: no disk is changed until `firesteel resume`")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialsInputs {
    /// No such Secret.
    Missing,
    /// User name or password is missing or blank.
    Empty,
    /// `version` is the Secret's resourceVersion.
    Ready { version: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserDataInputs {
    NotReferenced,
    /// No such Secret, or it has no user data.
    Missing,
    /// Something of it cannot be handed over; the text names the Secret and each fault.
    Invalid(String),
    Ready {
        sha256: String,
        /// Configs of this appliance that it fetches; the OS then reports itself.
        configs: Vec<String>,
    },
}

/// The Secret that `spec.preprovisioningNetworkDataName` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkDataInputs {
    NotReferenced,
    Missing,
    /// The data cannot be read; the text names the key and the field.
    Invalid(String),
    /// `version` is the Secret's resourceVersion.
    Ready {
        version: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageInputs {
    /// It was not asked for yet.
    Unknown,
    /// The image waits: `ahead` others are fetched or imported before it.
    Waiting {
        ahead: u32,
        /// When `ahead` last changed.
        moved_at: Timestamp,
    },
    Fetching {
        done_bytes: u64,
        total_bytes: Option<u64>,
        /// When `done_bytes` last grew.
        progress_at: Timestamp,
    },
    Ready(ReadyImage),
    Failed {
        message: String,
        /// Trying again cannot help: a wrong checksum, an unknown format.
        permanent: bool,
        at: Timestamp,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostPower {
    On,
    Off,
    #[default]
    Unknown,
}

/// What the BMC said. Power and MACs are from any successful call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BmcInputs {
    pub power: HostPower,
    pub power_at: Option<Timestamp>,
    pub macs: Vec<String>,
    /// UUID of the system that it drives, by its newest answer to a probe.
    pub system_uuid: Option<String>,
    /// It had no place for a session at the newest call that went well, and took Basic authentication.
    pub no_session_free: bool,
    /// When the newest boot from the network was ordered, the host was off, and was switched on for it.
    pub was_off_at_boot: bool,
    /// Why the BMC has no override for the newest boot from the network that was ordered.
    pub no_override: Option<String>,
    /// Why the override of that boot is not known to be set for one boot alone.
    pub once_unset: Option<String>,
    /// Why the newest look at that override did not show that the boot has used it up.
    pub once_unread: Option<String>,
    /// Why the newest inspection by the BMC read no inventory.
    pub no_inventory: Option<String>,
    /// Why an override is still there after the newest try to take it back.
    pub override_left: Option<String>,
    /// When this BMC refused a login to the same account for another host.
    pub refused_elsewhere: Vec<Timestamp>,
    /// A call for this host is running in this process.
    pub in_flight: bool,
    /// How the newest call ended. Lost with the process; the step then asks again.
    pub last: Option<BmcOutcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BmcOutcome {
    /// Ticket of the [`crate::host::BmcCall`] that ended.
    pub ticket: u64,
    pub at: Timestamp,
    pub result: Result<(), BmcFault>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BmcFault {
    pub kind: BmcFaultKind,
    /// The fault in words, for people.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BmcFaultKind {
    Unreachable,
    /// User name or password refused.
    Credentials,
    /// The address cannot work: there is no driver for its scheme. Only an edit helps. Of a soft power-off also: the
    /// BMC does not offer it, or refuses it.
    Unsupported,
    /// The BMC answered with an error; it is asked again.
    Refused,
    /// No call was made: the Secret does not exist.
    NoSecret,
    /// No call was made: the Secret lacks user name or password.
    EmptySecret,
    /// No call was made: too many logins were refused of late.
    HeldBack {
        until: Timestamp,
    },
}

/// The agent that the newest boot's token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInputs {
    pub attempt: u64,
    pub bound_at: Timestamp,
    /// When it reported last; after a restart of the appliance, when it was restored or later.
    pub last_report_at: Timestamp,
    /// Number of the plan that `work` belongs to; 0 before the first.
    pub plan: u32,
    pub work: AgentWork,
    /// When step, state or bytes last moved.
    pub progress_at: Timestamp,
    /// Its last report said that it leaves the ramdisk, and was answered.
    pub left: bool,
    /// When it said so; absent where that was not kept.
    pub left_at: Option<Timestamp>,
    /// The host asked for a boot script after this agent had said hello: it booted again, so this
    /// agent is gone. The caller steps the host, and so publishes the next attempt, before it
    /// answers that request.
    pub rebooted: bool,
    /// The receipts of a plan to write, while it is the newest plan.
    pub shown: Vec<ShownReceipt>,
    /// What that plan promises.
    pub promised: Option<PromisedHandOff>,
    /// How it came to the appliance, where the host has network data.
    pub network: Option<AgentNetwork>,
    /// It understands plans that erase disks.
    pub can_erase: bool,
    /// What its receipts say of disks that were cleaned in this boot.
    pub cleaned: Vec<CleaningProof>,
    /// What was not seen of its boot, in words: see [`crate::evidence::unseen`].
    pub unseen: Vec<String>,
    /// What a drive is at by its newest report, if nothing can interrupt that; in its words. A reset or a cut of the
    /// power could lock or break that drive.
    pub cannot_stop: Option<String>,
}

/// The way of an agent to the appliance, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentNetwork {
    /// The way of the host's network data.
    ByData(String),
    /// Another way, since the data did not lead there.
    Another(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentWork {
    /// No plan, or the plan has not begun.
    Idle,
    Running {
        step: String,
        activity: String,
        percent: u8,
    },
    Done,
    Failed {
        step: String,
        message: String,
        /// The disk is not what it was before the plan.
        disk_changed: bool,
    },
}

/// What the installed OS said, of the installation of [`InstanceInputs::attempt`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceInputs {
    pub attempt: u64,
    pub config_fetched_at: Option<Timestamp>,
    pub running_at: Option<Timestamp>,
    /// When its first boot failed last, and the tail of its log.
    pub failed: Option<(Timestamp, String)>,
}
