//! What is ordered of an agent and of a BMC.

use serde::{Deserialize, Serialize};

use crate::disk::{CleaningMethod, DiskIdentity, NextOwner};

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
    /// Log in; read power, MACs and what the BMC knows of its machine.
    Inspect,
}

/// What an agent is asked to do. The caller turns it into the agent's own steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum PlanKind {
    Inspect,
    /// Clear metadata, write, read back, hand off, set the boot entry, reboot.
    Write(WritePlan),
    /// Clears the metadata of the installation's own disk and keeps the agent running.
    Clean {
        disk: DiskIdentity,
    },
    /// Clean disks as far as a policy asks, unless a guard refuses; stay.
    Erase(ErasePlan),
    Reboot,
    PowerOff,
}

impl PlanKind {
    /// It changes disks: see [`crate::host::turn::gate`].
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
    pub method: CleaningMethod,
    pub disks: Vec<DiskIdentity>,
    /// The owner that it is for: what is erased for another owner is not erased any more once the host stays its
    /// owner's. A plan that does not say counts as one for another owner, so that it is rather stopped than finished.
    #[serde(default = "default_next_owner")]
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

fn default_next_owner() -> NextOwner {
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
    /// Configs of this appliance that the user data fetches: the host's token opens them, whatever becomes of the
    /// Secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configs: Vec<String>,
    /// The owner named this disk as one that is written whatever it holds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub override_guards: bool,
}

/// An image in the appliance's store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadyImage {
    pub raw_sha256: String,
    pub raw_bytes: u64,
    pub stream_sha256: String,
    pub stream_bytes: u64,
}
