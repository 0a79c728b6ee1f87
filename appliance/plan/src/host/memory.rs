//! The planner's durable memory of one host: the truth about its state, stored in the host's
//! journal. Failure is not a state; it sits beside it, so that a retry resumes.

use std::fmt;

use firesteel_resources::{
    Image, RootDeviceHints,
    bare_metal_host::{ErrorType, OperationHistory, ProvisioningState},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    disk::{DiskChoice, DiskIdentity, Method},
    host::identity::KnownIdentity,
    host::{
        changed::ChangedDisk,
        claimants::{Claimants, Intruder, Settled},
        cut::{CleanBoot, Cut},
        effect::{BmcCall, PlanKind, WritePlan},
        seen::ReadyImage,
        verdict::WipeVerdict,
        wiped::Wipe,
    },
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostMemory {
    /// Made once; `status.provisioning.ID`.
    pub id: String,
    pub state: State,
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
    /// A plan that destroys was held up, issued or not: see [`crate::host::gate`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// MACs that the host may boot from; lower case with colons.
    pub macs: Vec<String>,
    pub failure: Option<Failure>,
    /// Since when the host is let alone, because its owner detached it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detached: Option<Timestamp>,
    /// The host has one of the slots for hosts that are worked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted: Option<Admitted>,
    /// Since when it waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed: Option<Timestamp>,
    pub bmc: BmcMemory,
    /// A change of power that is under way.
    pub power: Option<PowerWork>,
    /// A reboot that was asked for and taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reboot: Option<RebootWork>,
    /// The disk that the next installation will write, or the last one wrote.
    pub disk: Option<DiskPlan>,
    /// A plan that changes the disk was issued since it was last clean.
    pub disk_dirty: bool,
    /// The newest plan that wrote to a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<WrittenBy>,
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
    pub refused: Option<Refused>,
    /// Names that the host had under its last installation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// What the last cleaning left behind, by its receipts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleaned: Option<CleanedNote>,
    /// An erasure whose end is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wipe: Option<Wipe>,
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
    pub applied: Option<Applied>,
    pub last_attempted_image: Option<Image>,
    /// Failed installations of this image in a row.
    pub provision_failures: u32,
    /// Failures to clean since the host came into its state, or its former owner came back.
    pub clean_failures: u32,
    /// What the host is known as, since its last inspection or by a person's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<KnownIdentity>,
    /// More than one machine claims to be the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimants: Option<Claimants>,
    /// Machines that claimed to be the host, and are not; the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intruders: Vec<Intruder>,
    /// How the newest claim ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
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
    pub restored: Option<Restored>,
    /// Nothing is done to the host's disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Frozen>,
    /// An earlier owner of the machine let it go before a disk was cleaned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncleaned: Option<Uncleaned>,
    /// Since when the owner keeps the host's disks from being changed.
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
    pub given_up: Vec<GivenUp>,
    /// Hints in force when the host was last prepared.
    pub prepared_hints: Option<RootDeviceHints>,
    pub history: OperationHistory,
}

/// Where the host is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "camelCase")]
pub enum State {
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
    /// Somebody's data may be on the host's disks: let go like this, it leaves a tombstone. Who was detached with an
    /// OS keeps it on purpose. What a consumer left is data of somebody, also where the metadata is gone.
    #[must_use]
    pub fn leaves_data(&self) -> bool {
        let keeps_its_os = self.detached.is_some() && self.applied.is_some();
        (self.disk_dirty || self.tenant.is_some() || self.holds_unknown) && !keeps_its_os
    }
}

impl State {
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Admitted {
    pub since: Timestamp,
    /// It was at work already, so that it was not held up although all slots were taken.
    #[serde(default)]
    pub resumed: bool,
}

/// A machine that was let go before a disk was cleaned: its tombstone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Uncleaned {
    /// `namespace/name` of the host that was.
    pub host: String,
    /// The disk, as it is told to people; empty where it may be any, or several.
    pub disk: String,
    pub at: Timestamp,
    /// A tenant left it, so that disks may be erased for it; one of before this was kept does not say so.
    #[serde(default)]
    pub of_tenant: bool,
    /// The disk was cleaned since, as far as is due to whose data it had.
    #[serde(default)]
    pub is_settled: bool,
    /// Something was installed for this host before or since: its disks hold what is its owner's, and are not erased
    /// for what was there before.
    #[serde(default)]
    pub is_told_only: bool,
}

impl fmt::Display for Uncleaned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, disk, at, .. } = self;
        if disk.is_empty() {
            return write!(
                f,
                "any disk of this machine may hold what host {host} left, which was let go uncleaned at {at:.0}, until \
                 all of them are erased (annotation firesteel.dev/cleaning, scope all)"
            );
        }
        let until = if self.of_tenant { ", until it is erased (annotation firesteel.dev/cleaning)" } else { "" };
        write!(f, "the disk {disk} may hold what host {host} left on it, which was let go uncleaned at {at:.0}{until}")
    }
}

/// A plan that was held up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    pub since: Timestamp,
    /// Absent while it is.
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
    /// At every look since then the host was off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_since: Option<Timestamp>,
    /// Looks in a row that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unseen: u32,
    /// The host is switched off before it boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

impl BootWait {
    pub(super) fn new(since: Timestamp, powered: bool) -> Self {
        Self { since, powered, looked_at: None, off_since: None, unseen: 0, cut: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuedPlan {
    pub number: u32,
    pub plan: PlanKind,
    pub issued_at: Timestamp,
    /// The agent is told to stop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    pub since: Timestamp,
    pub why: String,
}

impl IssuedPlan {
    #[must_use]
    pub fn write(&self) -> Option<&WritePlan> {
        match &self.plan {
            PlanKind::Write(write) => Some(write),
            PlanKind::Inspect | PlanKind::Clean { .. } | PlanKind::Erase(_) | PlanKind::Reboot | PlanKind::PowerOff => {
                None
            }
        }
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
    pub fn cleans(&self) -> Option<(Method, Vec<DiskIdentity>)> {
        match &self.plan {
            PlanKind::Clean { disk } => Some((Method::Metadata, vec![disk.clone()])),
            PlanKind::Erase(erase) => Some((erase.method, erase.disks.clone())),
            PlanKind::Inspect | PlanKind::Write(_) | PlanKind::Reboot | PlanKind::PowerOff => None,
        }
    }
}

/// What went wrong last, beside the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub kind: ErrorType,
    pub message: String,
    pub count: u32,
    pub at: Timestamp,
    /// Not before; absent: not before an edit, or as soon as the cause is gone.
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
    /// Not tried again before.
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
    /// What it was made with, as [`Failure::inputs`].
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
pub struct PowerWork {
    pub want_on: bool,
    pub hard: bool,
    /// Since it was asked for in this strength.
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

/// The disk that an installation writes, named before anything runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskPlan {
    #[serde(flatten)]
    pub choice: DiskChoice,
    /// The boot whose inspection the choice was made from.
    pub inspected_in: u64,
    pub hints: RootDeviceHints,
    pub chosen_at: Timestamp,
}

impl DiskPlan {
    #[must_use]
    pub fn identity(&self) -> &DiskIdentity {
        &self.choice.disk
    }
}

/// A plan, by its boot and number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenBy {
    pub attempt: u64,
    pub plan: u32,
    /// The mark that it gave the disk, done or not; empty where an earlier version stored it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub disk_guid: String,
}

/// A try that ended because of how the disks are, and the newest plan of that moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    pub at: Timestamp,
    pub attempt: u64,
    pub plan: u32,
}

/// What a cleaning proved, or claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanedNote {
    pub at: Timestamp,
    /// The boot that cleaned; zero where an earlier version stored it.
    #[serde(default)]
    pub attempt: u64,
    pub method: Method,
    /// All data of all disks that Firesteel would clean, by proof; otherwise less was asked, or not all was seen, and
    /// `text` says what.
    pub is_erased: bool,
    /// Less was asked than all data of all disks; of an erasure that is unverified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
    pub text: String,
    /// What was not seen of an erasure that claims a grade, so that it is unverified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
    /// When a person said that it is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    pub at: Timestamp,
    /// GUID of an installation that was under way when the backup was made: nobody knows its end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unfinished: String,
}

/// Why nothing is done to the host's disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frozen {
    pub why: FrozenWhy,
    /// The disk, by name and identity.
    pub disk: String,
    /// By what it is given up: its mark, or the disk's own name where no mark could be read; empty where it
    /// cannot be given up.
    pub guid: String,
    pub message: String,
    pub since: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrozenWhy {
    /// The disk was installed after the backup that the store was restored from.
    NewerThanStore,
    /// The disk was installed by another appliance, and not cleaned by it.
    OfAnotherStore,
    /// The disk has no name of its own, and bears the mark of an installation that is not this host's.
    OfAnotherHost,
    /// After a restore: the agent does not tell what is on the disk.
    MarkUnknown,
    /// The disk gave an error where its mark would be.
    Unread,
}

impl FrozenWhy {
    /// As a condition's reason.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NewerThanStore => "NewerThanStore",
            Self::OfAnotherStore => "OfAnotherStore",
            Self::OfAnotherHost => "OfAnotherHost",
            Self::MarkUnknown => "MarkUnknown",
            Self::Unread => "Unread",
        }
    }
}

/// An installation that may be overwritten, by a person's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenUp {
    pub guid: String,
    pub disk: String,
    pub at: Timestamp,
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

/// What the appliance put on the disk, as the receipts prove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    pub image: Image,
    pub ready: ReadyImage,
    pub disk_guid: String,
    pub attempt: u64,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data_sha256: Option<String>,
    /// Configs of this appliance that the OS was handed over to fetch. With one it is expected to report itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configs: Vec<String>,
    /// The agent said goodbye; false where it went quiet after the hand-off.
    pub left_properly: bool,
}

impl Applied {
    #[must_use]
    pub fn reports_running(&self) -> bool {
        !self.configs.is_empty()
    }
}
