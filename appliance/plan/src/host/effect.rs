//! What a step wants done. Effects are idempotent and may be carried out more than once; their
//! results come back as observations, never as transitions.

use std::panic::Location;

use firesteel_resources::{HardwareDetails, Image};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::{
    disk::{DiskIdentity, Method, NextOwner},
    host::{memory::HostMemory, seen::ReadyImage, verdict::WipeVerdict},
};

/// The outcome of one step. The caller stores `memory`, publishes the boot entry and the plan
/// that follow from it ([`crate::boot_entry`], [`crate::current_plan`]), and only then runs the
/// effects.
#[derive(Clone, Debug)]
pub struct Step {
    pub memory: HostMemory,
    pub effects: Vec<Effect>,
    /// Step again after this long at the latest; zero means at once. `None`: when something changes.
    pub wake: Option<SignedDuration>,
    pub reason: Reason,
    pub events: Vec<Event>,
}

/// Why the host is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub text: String,
    /// The source line that decided.
    pub location: &'static Location<'static>,
}

impl Reason {
    #[track_caller]
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: bounded(text.into()), location: Location::caller() }
    }
}

/// Of a text that is kept with a host: parts of it may come from a Secret, a BMC or an agent.
pub(super) const TEXT_BYTES_MAX: usize = 2048;

/// The text, or its beginning and `…`.
pub(super) fn bounded(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX - '…'.len_utf8()));
        text.push('…');
    }
    text
}

/// For the object's event list and the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    /// Upstream's word: `InspectionStarted`, `ProvisioningComplete`, `RegistrationError`.
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Normal,
    Warning,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    AddFinalizer,
    /// Lets the object go.
    RemoveFinalizer,
    /// A one-shot request was taken over into the memory.
    RemoveAnnotation {
        key: String,
    },
    Bmc(BmcCall),
    /// Import the image unless it is there or being fetched; a failed import starts again.
    FetchImage {
        image: Image,
    },
    /// Wake the agent's long poll; the plan itself is [`crate::current_plan`] of the memory.
    IssuePlan {
        attempt: u64,
        number: u32,
        plan: PlanKind,
    },
    /// Tell an agent of this attempt, if one reports, to stop at its next safe point and reboot.
    AbortAgent {
        attempt: u64,
        reason: String,
    },
    /// Tell the discovery agent on this host's MACs to reboot: it comes back with the host's token.
    RebootDiscoveryAgent {
        reason: String,
    },
    /// Store the inspection of this plan as the host's hardware record and its HardwareData.
    SaveHardware {
        attempt: u64,
        plan: u32,
    },
    /// Store what the owner says of the hardware as HardwareData, unless there is one.
    SupplyHardware {
        details: Box<HardwareDetails>,
    },
    /// Let the signed receipts of an erasure say what it came to.
    GradeReceipts(WipeVerdict),
    /// The disk that a tombstone of this machine names was cleaned: remove it.
    ForgetTombstone,
    /// Keep the hardware's identity: its disk was not cleaned and must be before its next owner.
    Tombstone {
        disk: Option<DiskIdentity>,
        /// What is left there is a tenant's.
        of_tenant: bool,
        reason: String,
    },
}

/// One call to the BMC. The ticket names it: an outcome is of the call with the same ticket, and a
/// ticket that ran or runs in this process is not run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BmcCall {
    pub ticket: u64,
    pub action: BmcAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BmcAction {
    /// Log in; read power and MACs.
    Probe,
    /// Boot once from the network, then switch on, or cycle hard where it is on.
    NetBoot,
    PowerOn,
    PowerOff {
        hard: bool,
    },
    /// Hard reset without a change of the boot order.
    Cycle,
    /// Read whether the boot that an override was set for has used it up; change nothing.
    ReadOnce,
    /// Take back the override of a boot from the network that is over, where the BMC still has one.
    TakeBootBack,
}

/// What an agent is asked to do. The caller turns it into the agent's own steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum PlanKind {
    Inspect,
    /// Clear metadata, write, read back, hand off, set the boot entry, reboot.
    Write(WritePlan),
    /// Clear the metadata of the installation's own disk; stay.
    Clean {
        disk: DiskIdentity,
    },
    /// Clean disks as far as a policy asks, unless a guard refuses; stay.
    Erase(ErasePlan),
    Reboot,
    PowerOff,
}

impl PlanKind {
    /// It changes disks: see [`crate::host::gate`].
    #[must_use]
    pub fn destroys(&self) -> bool {
        match self {
            Self::Write(_) | Self::Clean { .. } | Self::Erase(_) => true,
            Self::Inspect | Self::Reboot | Self::PowerOff => false,
        }
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::Write(_) => "write",
            Self::Clean { .. } => "clean",
            Self::Erase(_) => "erase",
            Self::Reboot => "reboot",
            Self::PowerOff => "power off",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErasePlan {
    pub method: Method,
    pub disks: Vec<DiskIdentity>,
    /// For whom it is: what is erased for another owner is not erased any more once the host stays its owner's.
    /// A plan that does not say counts as one for another owner, so that it is rather stopped than finished.
    #[serde(default = "another")]
    pub next: NextOwner,
    /// Volumes and arrays that bear these names are the host's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_names: Vec<String>,
    /// Those of the disks that are erased whatever they hold, by their owner's word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<DiskIdentity>,
    /// Those of the disks that the hints name: how they are attached is no reason to leave them alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<DiskIdentity>,
}

fn another() -> NextOwner {
    NextOwner::Another
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WritePlan {
    pub disk: DiskIdentity,
    /// New for each installation; the GPT gets it, so that later boots find exactly this disk.
    pub disk_guid: String,
    pub image: ReadyImage,
    /// Digest of the user data that was checked; absent without user data. Content with another
    /// digest must not be handed off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data_sha256: Option<String>,
    /// Configs of this appliance that the user data fetches: the host's token opens them, whatever becomes of the Secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configs: Vec<String>,
    /// The owner named this disk as one that is written whatever it holds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub override_guards: bool,
}
