//! The planner's durable memory of one host: the truth about its state, stored in the host's
//! journal. Failure is not a state; it sits beside it, so that a retry resumes.

mod disks;
mod work;

pub use disks::*;
pub use work::*;

use firesteel_resources::bare_metal_host::{OperationHistory, ProvisioningState};
use firesteel_resources::{Image, RootDeviceHints};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::disk::DiskIdentity;
use crate::host::model::claims::{Claimants, Intruder, ResolvedClaim};
use crate::host::model::erasure::{PendingErasure, WipeVerdict};
use crate::host::model::known_identity::KnownIdentity;
use crate::host::model::netboot::AnnouncedHints;
use crate::host::model::power_cut::CleanBoot;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostMemory {
    /// Is made once; `status.provisioning.ID`.
    pub id: String,
    pub state: HostState,
    pub since: Timestamp,
    /// When a working state that shows no progress is given up; absent in states that rest.
    pub deadline: Option<Timestamp>,
    /// Counts boots: every boot of the host that may say hello has its own number.
    pub attempt: u64,
    /// An agent said hello with this attempt, or a boot with it was given up: the next boot gets
    /// the next number.
    pub attempt_spent: bool,
    /// A boot into the agent that was asked for and has not said hello yet.
    pub boot: Option<BootWait>,
    /// The token of this attempt may be given out: without a BMC always, else once the boot was carried out that was
    /// ordered for it, or the host came by itself.
    #[serde(default = "yes", skip_serializing_if = "is_so")]
    pub opened: bool,
    /// How the host was last booted for an erasure that claims a grade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clean_boot: Option<CleanBoot>,
    /// What the newest erasure came to, until its receipts say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<WipeVerdict>,
    /// Number of the newest plan of this attempt; 0 before the first.
    pub plan_number: u32,
    /// The plan that the agent of this attempt is to run or has run.
    pub plan: Option<IssuedPlan>,
    /// A plan that destroys was held up, issued or not: see [`crate::host::turn::gate`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldPlan>,
    /// MACs that the host may boot from; lower case with colons.
    pub macs: Vec<String>,
    pub failure: Option<HostFailure>,
    /// When the owner detached the host: it is let alone since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detached: Option<Timestamp>,
    /// The host has one of the slots for hosts that are worked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted: Option<HeldSlot>,
    /// When it began to wait for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed: Option<Timestamp>,
    pub bmc: BmcMemory,
    /// A change of power that is under way.
    pub power: Option<PowerTask>,
    /// A reboot that was asked for and taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reboot: Option<RebootWork>,
    /// The disk that the next installation will write, or the last one wrote.
    pub disk: Option<DiskPlan>,
    /// A plan that changes the disk was issued since it was last clean.
    pub disk_dirty: bool,
    /// The newest plan that wrote to a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<WritePlanRef>,
    /// The consumer whose data the disks may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// It counts as that only since the write that is under way, which may end without having written anything.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tenant_is_new: bool,
    /// The disks that the host had when something was installed for the tenant: one that is not seen any more was
    /// not erased.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenant_disks: Vec<DiskIdentity>,
    /// Those of them that the tenant's systems were installed on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenant_targets: Vec<DiskIdentity>,
    /// Disks that were blank or this host's own when its present owner got them ([`crate::host::was_vacant`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vacant_disks: Vec<DiskIdentity>,
    /// Disks that a plan may have changed since the newest inspection.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed_disks: Vec<ChangedDisk>,
    /// A try ended because of how the disks are: the next one has them looked at again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedAttempt>,
    /// Names that the host had under its last installation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// What the last cleaning left behind, by its receipts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleaned: Option<CleanedNote>,
    /// An erasure whose end is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wipe: Option<PendingErasure>,
    /// Data may be on the host's disks, and on which is not known: none was cleaned, or not all of them since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub holds_unknown: bool,
    /// A tenant's is among it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown_of_tenant: bool,
    /// Names of disks whose guards were overridden for a plan, until the request is seen to be gone: it counts once,
    /// also where its removal was lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<String>,
    /// What is installed.
    pub applied: Option<InstalledSystem>,
    pub last_attempted_image: Option<Image>,
    /// Failed installations of this image in a row.
    pub provision_failures: u32,
    /// Failures to clean since the host came into its state, or its former owner came back.
    pub clean_failures: u32,
    /// What the host is known as, since its last inspection or by a person's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<KnownIdentity>,
    /// The newest inspection by the BMC's inventory, in place of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bmc_inspection: Option<BmcInspection>,
    /// More than one machine claims to be the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimants: Option<Claimants>,
    /// Machines that claimed to be the host, and are not; the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intruders: Vec<Intruder>,
    /// How the newest claim ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_claim: Option<ResolvedClaim>,
    /// Hints about its boot that events were recorded for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<AnnouncedHints>,
    /// When the host was first seen on with its installed OS, as its BMC says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_since: Option<Timestamp>,
    /// A person asked to try again then: an inspection from before may show what was repaired since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried_at: Option<Timestamp>,
    /// A person asked then to bind the paths of disks without a name to what is there; until that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebind_paths: Option<Timestamp>,
    /// The store's timeline in which this was last written; zero: before there were any.
    #[serde(skip_serializing_if = "is_zero")]
    pub timeline: u32,
    /// The store was restored from a backup, and the host's disks have not been settled since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoreMark>,
    /// Nothing is done to the host's disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Frozen>,
    /// An earlier owner of the machine let it go before a disk was cleaned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncleaned: Option<Tombstone>,
    /// When the owner locked the host's disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked: Option<Timestamp>,
    /// It was moved here, and its disks were neither cleaned nor written since: what another store installed on them is
    /// this host's own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub was_moved: bool,
    /// Marks of installations that the store knew as done, before the one in `applied`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<String>,
    /// Marks of installations that a person gave up, the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub given_up: Vec<UnfrozenInstallation>,
    /// Hints in force when the host was last prepared.
    pub prepared_hints: Option<RootDeviceHints>,
    pub history: OperationHistory,
}

/// The state of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "camelCase")]
pub enum HostState {
    #[default]
    New,
    Unmanaged,
    Registering,
    Inspecting,
    Preparing,
    Available,
    Provisioning,
    Provisioned,
    ExternallyProvisioned,
    Deprovisioning,
    PoweringOff,
    Deleting,
}

impl HostMemory {
    /// Whether an owner's data may be on the host's disks, so that it leaves a tombstone when it is let go. A host that
    /// was detached with an OS keeps it on purpose. What a consumer left counts even if the metadata is gone.
    #[must_use]
    pub fn leaves_data(&self) -> bool {
        let keeps_its_os = self.detached.is_some() && self.applied.is_some();
        (self.disk_dirty || self.tenant.is_some() || self.holds_unknown) && !keeps_its_os
    }
}

impl HostState {
    /// Upstream's word for it.
    #[must_use]
    pub fn word(&self) -> ProvisioningState {
        match self {
            Self::New => ProvisioningState::New,
            Self::Unmanaged => ProvisioningState::Unmanaged,
            Self::Registering => ProvisioningState::Registering,
            Self::Inspecting => ProvisioningState::Inspecting,
            Self::Preparing => ProvisioningState::Preparing,
            Self::Available => ProvisioningState::Available,
            Self::Provisioning => ProvisioningState::Provisioning,
            Self::Provisioned => ProvisioningState::Provisioned,
            Self::ExternallyProvisioned => ProvisioningState::ExternallyProvisioned,
            Self::Deprovisioning => ProvisioningState::Deprovisioning,
            Self::PoweringOff => ProvisioningState::PoweringOff,
            Self::Deleting => ProvisioningState::Deleting,
        }
    }

    /// Whether machines with the host's MACs get an agent.
    pub(crate) fn gets_agent(&self) -> bool {
        match self {
            Self::Unmanaged
            | Self::Registering
            | Self::Inspecting
            | Self::Preparing
            | Self::Available
            | Self::Provisioning
            | Self::Deprovisioning => true,
            Self::New | Self::Provisioned | Self::ExternallyProvisioned | Self::PoweringOff | Self::Deleting => false,
        }
    }

    /// Whether an OS of the owner's is on the host.
    pub(crate) fn has_os(&self) -> bool {
        matches!(self, Self::Provisioned | Self::ExternallyProvisioned)
    }

    /// Whether something is to happen by itself: such a state has a deadline.
    #[must_use]
    pub fn is_working(&self) -> bool {
        match self {
            Self::Registering
            | Self::Inspecting
            | Self::Preparing
            | Self::Provisioning
            | Self::Deprovisioning
            | Self::PoweringOff
            | Self::Deleting => true,
            Self::New | Self::Unmanaged | Self::Available | Self::Provisioned | Self::ExternallyProvisioned => false,
        }
    }
}

/// Stands for a value that an earlier version did not store.
fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_so(value: &bool) -> bool {
    *value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn each_state_has_its_word_and_what_it_means_for_the_host() {
        use HostState as H;
        use ProvisioningState as P;
        for (state, word, gets_agent, has_os, works) in [
            (H::New, P::New, false, false, false),
            (H::Unmanaged, P::Unmanaged, true, false, false),
            (H::Registering, P::Registering, true, false, true),
            (H::Inspecting, P::Inspecting, true, false, true),
            (H::Preparing, P::Preparing, true, false, true),
            (H::Available, P::Available, true, false, false),
            (H::Provisioning, P::Provisioning, true, false, true),
            (H::Provisioned, P::Provisioned, false, true, false),
            (H::ExternallyProvisioned, P::ExternallyProvisioned, false, true, false),
            (H::Deprovisioning, P::Deprovisioning, true, false, true),
            (H::PoweringOff, P::PoweringOff, false, false, true),
            (H::Deleting, P::Deleting, false, false, true),
        ] {
            let found = (state.word(), state.gets_agent(), state.has_os(), state.is_working());
            assert_eq!(found, (word, gets_agent, has_os, works), "{state:?}");
        }
    }

    #[test]
    fn a_host_that_goes_leaves_data_unless_it_was_detached_with_its_os() {
        let applied = InstalledSystem::of_others(Image::default(), 1, Timestamp::UNIX_EPOCH);
        for (is_dirty, has_tenant, holds_unknown, is_detached, has_os, leaves) in [
            (false, false, false, false, false, false),
            (true, false, false, false, false, true),
            (false, true, false, false, false, true),
            (false, false, true, false, false, true),
            (true, true, true, false, true, true),
            (true, true, true, true, false, true),
            (true, true, true, true, true, false),
            (false, false, false, true, true, false),
            (false, false, false, false, true, false),
        ] {
            let memory = HostMemory {
                disk_dirty: is_dirty,
                tenant: has_tenant.then(|| "HostClaim /x".to_owned()),
                holds_unknown,
                detached: is_detached.then_some(Timestamp::UNIX_EPOCH),
                applied: has_os.then(|| applied.clone()),
                ..HostMemory::default()
            };
            assert_eq!(memory.leaves_data(), leaves, "{memory:?}");
        }
    }

    /// What an earlier version did not store has the value that it stood for.
    #[test]
    fn what_is_as_it_was_before_is_not_stored() {
        for (opened, timeline, keys) in [(true, 0, ""), (false, 0, "opened"), (true, 2, "timeline"), (false, 2, "both")]
        {
            let memory = HostMemory { opened, timeline, ..HostMemory::default() };
            let stored = serde_json::to_value(&memory).unwrap();
            let has = |key: &str| stored.get(key).is_some();
            assert_eq!(has("opened"), ["opened", "both"].contains(&keys), "{stored}");
            assert_eq!(has("timeline"), ["timeline", "both"].contains(&keys), "{stored}");
            assert_eq!(serde_json::from_value::<HostMemory>(stored).unwrap(), memory);
        }
        let boot = serde_json::to_value(BootWait::new(Timestamp::UNIX_EPOCH, true)).unwrap();
        assert_eq!(boot, serde_json::json!({"since": "1970-01-01T00:00:00Z", "powered": true}));
    }
}
