//! What is remembered of the work under way: boots, plans, calls to the BMC, changes of power and failures.

use firesteel_resources::bare_metal_host::ErrorType;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::disk::{CleaningMethod, DiskIdentity};
use crate::host::model::orders::{BmcCall, PlanKind, WritePlan};
use crate::host::model::power_cut::PowerCut;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldSlot {
    pub since: Timestamp,
    /// It was at work already, so that it was not held up although all slots were taken.
    #[serde(default)]
    pub resumed: bool,
}

/// An inspection by the BMC's inventory, in place of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BmcInspection {
    /// When the BMC answered.
    pub at: Timestamp,
    /// Why nothing was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_read: Option<String>,
}

/// A plan that was held up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldPlan {
    pub since: Timestamp,
    /// Is absent while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootWait {
    pub since: Timestamp,
    /// The BMC has carried the boot out, or the host came by itself.
    pub powered: bool,
    /// When the BMC was last asked whether the host is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<Timestamp>,
    /// When the host was first seen off; it was off at every look since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_since: Option<Timestamp>,
    /// Looks in a row that failed.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub unseen: u32,
    /// The host is switched off before it boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<PowerCut>,
}

impl BootWait {
    pub(crate) fn new(since: Timestamp, powered: bool) -> Self {
        Self { since, powered, looked_at: None, off_since: None, unseen: 0, cut: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuedPlan {
    pub number: u32,
    pub plan: PlanKind,
    pub issued_at: Timestamp,
    /// The agent is asked to stop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StoppedPlan>,
}

impl IssuedPlan {
    #[must_use]
    pub fn write(&self) -> Option<&WritePlan> {
        if let PlanKind::Write(write) = &self.plan { Some(write) } else { None }
    }

    /// The disks that it changes.
    #[must_use]
    pub fn disks(&self) -> Vec<DiskIdentity> {
        match (self.write(), self.cleans()) {
            (Some(write), _) => vec![write.disk.clone()],
            (None, Some((_, disks))) => disks,
            (None, None) => Vec::new(),
        }
    }

    /// How far it cleans, and which disks.
    #[must_use]
    pub fn cleans(&self) -> Option<(CleaningMethod, Vec<DiskIdentity>)> {
        match &self.plan {
            PlanKind::Clean { disk } => Some((CleaningMethod::Metadata, vec![disk.clone()])),
            PlanKind::Erase(erase) => Some((erase.method, erase.disks.clone())),
            PlanKind::Inspect | PlanKind::Write(_) | PlanKind::Reboot | PlanKind::PowerOff => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoppedPlan {
    pub since: Timestamp,
    pub why: String,
}

/// What went wrong last, beside the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostFailure {
    pub kind: ErrorType,
    pub message: String,
    pub count: u32,
    pub at: Timestamp,
    /// Time of the next try; absent if an edit or the end of the cause has to come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Nothing is tried until the inputs change.
    #[serde(default)]
    pub until_edit: bool,
    /// What the failed step was fed with; a change of it retries at once.
    pub inputs: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcMemory {
    /// Number of the newest call.
    pub ticket: u64,
    /// The call whose outcome is awaited.
    pub call: Option<PendingCall>,
    /// Secret and version that the BMC accepted.
    pub good_credentials: Option<CredentialsUsed>,
    pub tried_credentials: Option<CredentialsUsed>,
    /// Those that the BMC refused last, until it takes some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_credentials: Option<CredentialsUsed>,
    /// When it refused a login, within the time that counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Timestamp>,
    /// UUID of the system that it drives, by its newest answer to a probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_uuid: Option<String>,
    /// It had no place for a session, and is driven by Basic authentication.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_session_free: bool,
    /// Why it has no override for a boot from the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_override: Option<String>,
    /// An override for a boot from the network was ordered, and it is not known to be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordered: Option<OrderedOverride>,
}

/// An override that is to be gone once its boot is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OrderedOverride {
    /// Times that taking it back failed.
    pub failures: u32,
    /// Time of the next try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Why it is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingCall {
    #[serde(flatten)]
    pub call: BmcCall,
    pub asked_at: Timestamp,
    /// What it was made with, as [`HostFailure::inputs`].
    #[serde(default)]
    pub inputs: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsUsed {
    pub secret: String,
    pub version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PowerTask {
    pub want_on: bool,
    pub hard: bool,
    /// When it was asked for in this strength.
    pub since: Timestamp,
    /// The BMC took the order; the change is awaited.
    pub ordered: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RebootWork {
    pub hard: bool,
    /// The host was off, or its reset was carried out.
    pub down: bool,
}
