//! Upstream's conditions and reasons, and ours about power, proof and frozen hosts.
//!
//! | condition | true in | false with |
//! |---|---|---|
//! | Manageable | all states from inspecting on | NotManaged, Registering, RegistrationFailed, PowerFailure |
//! | AvailableForProvisioning | available | NotAvailable; BMCOnly: the site boots no agent |
//! | Provisioned | provisioned, externally provisioned | NotProvisioned |
//! | Ready | the same, without error | NotProvisioned, Error, Detached |
//! | Progressing | states that work, by their word | NotProgressing, Detached |
//! | DestructionHeld | all states, while the [gate] is shut | NotHeld, after that |
//! | ClockDoubtful | all states, while the appliance's clock may be wrong: BeforeBuild, BehindStore | ClockRight, after that |
//! | Uncleaned | all states, from a tombstone's sight to the cleaning of its disk | Cleaned, after that |
//! | UniqueIdentity | after it was false | SharedUUID |
//! | IdentityChanged | another machine boots as the host, and is refused | SameMachine, after that |
//! | SecondClaimant | more than one machine claims to be the host: PowerDecides, PersonDecides | IntruderNamed, Resolved, after that |
//! | AgentNetwork | the newest agent came by the host's network data | NetworkDataFailed; absent without network data |
//! | DisksErased | the last cleaning proved it | PartlyErased, MetadataCleared; ErasedUnverified: by the agent's word; NotCleaned: which disks to clean was not known; NotErased: written since |
//! | WipeUnverified | not all was seen that tells the host's erasure from another machine's: Unverified, Held, Accepted | Verified; PartlyErased; NotErased: written since |
//! | ConsumerIsTenant | after it was false | AnotherTenant, while the host is provisioned for another one than its consumer |
//! | BootOverride | after it was false | NotOffered: the host boots by its own order; NotTakenBack: it stays set |
//! | NetworkBoot | after it was false | what keeps the host from its agent, by the word of its [hint](crate::host::rules::boot_hint); BMCOnly: the site boots no agent |
//! | InspectedByAgent | after it was false | ReadFromBMC: the hardware record is the BMC's word; NoInventory: the BMC names no hardware |
//! | BMCSession | after it was false | NoneFree: the BMC is driven by Basic authentication |
//! | StoredObjectDamaged | something stored of the host is damaged: no step is made ([`crate::host::DAMAGED`]); absent else | – |
//! | Healthy | the BMC says OK, and so do its sensors while they are read: `health.rs` | Warning, Critical by the BMC's word; Unknown where it says nothing, or nothing new |
//!
//! Messages are ours: each says in words why the host is where it is.

use firesteel_resources::{Condition, ConditionStatus, bare_metal_host::ErrorType};
use jiff::Timestamp;

use super::health::healthy;
use super::project::is_installed;
use crate::clock::ClockDoubt;
use crate::disk::CleaningMethod;
use crate::host::model::{
    AgentNetwork, Frozen, HostFailure, HostInputs, HostMemory, HostPower, HostReason, HostState, SharedUuid, Tombstone,
};
use crate::host::rules::{bmc_only, boot_hint, consumer_data, identity, overrides};
use crate::host::turn::gate::{self, ClosedGate};

/// The disks of the host stay as they are until a person decides.
const FROZEN: &str = "Frozen";
/// Nothing is destroyed on the host for now.
const HELD: &str = "DestructionHeld";

/// The appliance's clock may be wrong.
const CLOCK: &str = "ClockDoubtful";
/// An earlier host of the machine left a disk as it was.
const UNCLEANED: &str = "Uncleaned";
/// Nothing speaks against its being one machine, and the one that it was.
const IDENTITY: &str = "UniqueIdentity";
/// Another machine boots as the host.
const IDENTITY_CHANGED: &str = "IdentityChanged";
/// More than one machine claims to be the host.
const CLAIMED: &str = "SecondClaimant";
/// The last owner of the host's disks left nothing on them.
const ERASED: &str = "DisksErased";
/// The last erasure was not seen in full.
const WIPE: &str = "WipeUnverified";
const UNKNOWN: &str =
    "data may be on any of the disks until all of them are erased: which ones were written is not known";
const CHANGED: &str = "disks were written, or may have been, since they were last cleaned";
/// Nothing keeps the host from its agent.
pub const NETWORK_BOOT: &str = "NetworkBoot";
/// What is known of the hardware was found by an agent.
const INSPECTED: &str = "InspectedByAgent";
/// The host's consumer is the one for whom it was installed.
const TENANT: &str = "ConsumerIsTenant";
/// The BMC had a place for our session.
const SESSION: &str = "BMCSession";
const NONE_FREE: &str = "the BMC has no session free, so it is driven by Basic authentication, which shows the password \
                         with each request: end sessions of others, or wait until they end by themselves";

pub(crate) fn conditions(
    memory: &HostMemory,
    seen: &HostInputs,
    reason: &HostReason,
    now: Timestamp,
) -> Vec<Condition> {
    let was = |name: &str| {
        seen.host.status.as_ref().is_some_and(|status| status.conditions.iter().any(|known| known.type_ == name))
    };
    // Each is shown while it is so, and since.
    let shown = |now: Option<Condition>, over: Condition| now.or_else(|| was(&over.type_).then_some(over));
    let condition = |type_: &str, is_so: bool, reason: &str| Condition::new(type_, is_so, reason, "");
    let left = memory.uncleaned.as_ref().filter(|left| !left.is_settled);
    let wipe_over = wipe_over_reason(memory);
    let some = [
        shown(memory.frozen.as_ref().map(frozen), condition(FROZEN, false, "NotFrozen")),
        shown(gate::closed_gate(memory, seen).map(held), condition(HELD, false, "NotHeld")),
        shown(left.map(uncleaned), condition(UNCLEANED, false, "Cleaned")),
        shown(seen.shared_uuid.as_ref().map(shared_uuid), condition(IDENTITY, true, "Unique")),
        shown(another_tenant(memory, seen), condition(TENANT, true, "SameTenant")),
        shown(seen.clock.map(clock_doubtful), condition(CLOCK, false, "ClockRight")),
        agent_network(seen),
        shown(overrides::condition(memory), condition(overrides::TYPE, true, "Offered")),
        shown(session(memory), condition(SESSION, true, "Free")),
        shown(network_boot(memory, seen, now), condition(NETWORK_BOOT, true, "NoStall")),
        shown(read_from_bmc(memory, seen), condition(INSPECTED, true, "Inspected")),
        shown(identity_changed(memory, seen), condition(IDENTITY_CHANGED, false, "SameMachine")),
        shown(second_claimant(memory), claim_over(memory)),
        shown(wipe_unverified(memory), condition(WIPE, false, wipe_over)),
        shown(erased(memory), Condition::new(ERASED, false, "NotErased", CHANGED)),
    ];
    let always = always(memory, seen, reason.text.as_str(), now);
    always.into_iter().chain(some.into_iter().flatten()).collect()
}

/// The conditions that each host has.
fn always(memory: &HostMemory, seen: &HostInputs, text: &str, now: Timestamp) -> [Condition; 8] {
    let has_os = memory.state.has_os();
    let condition = |type_: &str, is_so: bool, word: &str, otherwise: &str| {
        let (reason, text) = if is_so { (word, "") } else { (otherwise, text) };
        Condition::new(type_, is_so, reason, text)
    };
    [
        manageable(memory, text),
        available(memory, seen, text, now),
        condition("Provisioned", has_os, "Provisioned", "NotProvisioned"),
        ready(memory, text),
        progressing(memory, text),
        healthy(seen),
        power_control(seen),
        running(memory, seen, now),
    ]
}

/// Whether the host can be provisioned now. Where the site boots no agent, none can.
fn available(memory: &HostMemory, seen: &HostInputs, text: &str, now: Timestamp) -> Condition {
    let available = |is_so, reason: &str, text: &str| Condition::new("AvailableForProvisioning", is_so, reason, text);
    match bmc_only::cause(memory, seen, now) {
        _ if memory.state != HostState::Available => available(false, "NotAvailable", text),
        Some(why) => available(false, bmc_only::REASON, why),
        None => available(true, "Available", ""),
    }
}

/// Says that no agent found what is known of the hardware.
fn read_from_bmc(memory: &HostMemory, seen: &HostInputs) -> Option<Condition> {
    let inspection = memory.bmc_inspection.as_ref().filter(|_| seen.hardware.is_none())?;
    let (reason, text) = match &inspection.not_read {
        None => {
            let at = inspection.at;
            let text = format!(
                "the hardware record is the BMC's word of {at:.0}, and no agent looked: no disk is chosen, erased or \
                 written by it"
            );
            ("ReadFromBMC", text)
        }
        Some(why) => ("NoInventory", format!("no agent looked at the hardware, and the BMC names none: {why}")),
    };
    Some(Condition::new(INSPECTED, false, reason, text))
}

fn frozen(frozen: &Frozen) -> Condition {
    Condition::new(FROZEN, true, frozen.why.word(), &frozen.message)
}

fn held(shut: ClosedGate) -> Condition {
    Condition::new(HELD, true, shut.by.word(), shut.text)
}

fn uncleaned(left: &Tombstone) -> Condition {
    Condition::new(UNCLEANED, true, "LeftByEarlierHost", left.to_string())
}

/// What keeps the host from its agent.
fn network_boot(memory: &HostMemory, seen: &HostInputs, now: Timestamp) -> Option<Condition> {
    let hint = boot_hint::of_boot(memory, seen, now)?;
    Some(Condition::new(NETWORK_BOOT, false, hint.cause.word(), hint.text))
}

/// What the last cleaning left behind, and what was never cleaned.
fn erased(memory: &HostMemory) -> Option<Condition> {
    let Some(cleaned) = &memory.cleaned else {
        return memory.holds_unknown.then(|| Condition::new(ERASED, false, "NotCleaned", UNKNOWN));
    };
    // What an earlier version stored names no boot: the power was not looked at.
    let is_erased = cleaned.is_erased && cleaned.attempt > 0;
    let is_claimed = !cleaned.is_partial && (cleaned.is_erased || !cleaned.unverified.is_empty());
    let reason = match (is_erased, cleaned.method) {
        (true, _) => "Erased",
        (false, CleaningMethod::Metadata) => "MetadataCleared",
        (false, CleaningMethod::Quick | CleaningMethod::Full) if is_claimed => "ErasedUnverified",
        (false, CleaningMethod::Quick | CleaningMethod::Full) => "PartlyErased",
    };
    let text = if memory.holds_unknown { format!("{}; {UNKNOWN}", cleaned.text) } else { cleaned.text.clone() };
    Some(Condition::new(ERASED, is_erased, reason, text))
}

/// Whether the last erasure is unverified.
fn wipe_unverified(memory: &HostMemory) -> Option<Condition> {
    if let Some(held) = memory.wipe.as_ref().filter(|wipe| wipe.is_held()) {
        return Some(Condition::new(WIPE, true, "Held", held.unverified.join("; ")));
    }
    let cleaned = memory.cleaned.as_ref().filter(|cleaned| !cleaned.unverified.is_empty())?;
    let text = cleaned.unverified.join("; ");
    Some(match cleaned.accepted_at {
        Some(at) => Condition::new(WIPE, true, "Accepted", format!("{text}; accepted at {at:.0}")),
        None => Condition::new(WIPE, true, "Unverified", text),
    })
}

/// Why no erasure is unverified any more.
fn wipe_over_reason(memory: &HostMemory) -> &'static str {
    match &memory.cleaned {
        Some(cleaned) if cleaned.is_erased => "Verified",
        Some(cleaned) if cleaned.is_partial && cleaned.method > CleaningMethod::Metadata => "PartlyErased",
        Some(_) | None => "NotErased",
    }
}

/// Reports a host that is booked by another consumer than the one whose data is on it, with that one's image in place:
/// its disks stay as they are.
fn another_tenant(memory: &HostMemory, seen: &HostInputs) -> Option<Condition> {
    let is_installed = memory.state == HostState::Provisioned;
    let (tenant, consumer) =
        consumer_data::different_consumer(&seen.host.spec, memory.tenant.as_deref()).filter(|_| is_installed)?;
    let text = format!(
        "installed for {tenant} and booked for {consumer}: the disks hold data of {tenant}; without spec.image all of \
         them are erased before {consumer} gets the host"
    );
    Some(Condition::new(TENANT, false, "AnotherTenant", text))
}

fn shared_uuid(SharedUuid { uuid, with }: &SharedUuid) -> Condition {
    let text = format!(
        "host {with} has the SMBIOS UUID {uuid} as well: the two are told apart by their MACs; is one machine entered twice?"
    );
    Condition::new(IDENTITY, false, "SharedUUID", text)
}

/// Whether another machine boots as the host.
fn identity_changed(memory: &HostMemory, seen: &HostInputs) -> Option<Condition> {
    let change = identity::change(memory, seen)?;
    Some(Condition::new(IDENTITY_CHANGED, true, "AnotherMachine", change.to_string()))
}

/// Whether more than one machine claims to be the host.
fn second_claimant(memory: &HostMemory) -> Option<Condition> {
    let claims = memory.claimants.as_ref()?;
    let all: Vec<String> = claims.all().map(ToString::to_string).collect();
    let (reason, how) = match &claims.person {
        Some(why) => ("PersonDecides", format!("a person decides until {:.0}: {why}", claims.until)),
        None => ("PowerDecides", "the BMC switches the host off, which tells them apart".to_owned()),
    };
    let text = format!("more than one machine claims to be this host: {}; {how}", all.join("; and "));
    Some(Condition::new(CLAIMED, true, reason, text))
}

fn claim_over(memory: &HostMemory) -> Condition {
    match memory.intruders.last() {
        Some(named) => {
            let text = format!("the machine with {} is not this host: {}", named.machine, named.why);
            Condition::new(CLAIMED, false, "IntruderNamed", text)
        }
        None => Condition::new(CLAIMED, false, "Resolved", ""),
    }
}

/// Whether the host's network data led its newest agent to the appliance.
fn agent_network(seen: &HostInputs) -> Option<Condition> {
    Some(match seen.agent.as_ref()?.network.as_ref()? {
        AgentNetwork::ByData(text) => Condition::new("AgentNetwork", true, "NetworkData", text),
        AgentNetwork::Another(text) => Condition::new("AgentNetwork", false, "NetworkDataFailed", text),
    })
}

/// Whether the BMC has a place for our session.
fn session(memory: &HostMemory) -> Option<Condition> {
    memory.bmc.no_session_free.then(|| Condition::new(SESSION, false, "NoneFree", NONE_FREE))
}

fn clock_doubtful(doubt: ClockDoubt) -> Condition {
    Condition::new(CLOCK, true, doubt.word(), doubt.to_string())
}

fn manageable(memory: &HostMemory, text: &str) -> Condition {
    let no = |reason: &str, message: &str| Condition::new("Manageable", false, reason, message);
    let of_kind = |kinds: &[ErrorType]| memory.failure.as_ref().filter(|failure| kinds.contains(&failure.kind));
    let access = [ErrorType::Registration, ErrorType::ProvisionedRegistration];
    match (&memory.state, &memory.failure) {
        (HostState::New | HostState::Unmanaged, _) => no("NotManaged", text),
        (HostState::Registering, Some(HostFailure { message, .. })) => no("RegistrationFailed", message),
        (HostState::Registering, None) => no("Registering", text),
        _ if memory.detached.is_some() => Condition::new("Manageable", true, "Manageable", ""),
        _ => match (of_kind(&access), of_kind(&[ErrorType::PowerManagement])) {
            (Some(failure), _) => no("RegistrationFailed", &failure.message),
            (None, Some(failure)) => no("PowerFailure", &failure.message),
            (None, None) => Condition::new("Manageable", true, "Manageable", ""),
        },
    }
}

fn ready(memory: &HostMemory, text: &str) -> Condition {
    match &memory.failure {
        _ if memory.detached.is_some() => Condition::new("Ready", false, "Detached", text),
        Some(failure) => Condition::new("Ready", false, "Error", &failure.message),
        None if memory.state.has_os() => Condition::new("Ready", true, "Provisioned", ""),
        None => Condition::new("Ready", false, "NotProvisioned", text),
    }
}

fn progressing(memory: &HostMemory, text: &str) -> Condition {
    let (is_so, reason) = match memory.state {
        _ if memory.detached.is_some() => (false, "Detached"),
        HostState::New
        | HostState::Unmanaged
        | HostState::Available
        | HostState::Provisioned
        | HostState::ExternallyProvisioned => (false, "NotProgressing"),
        HostState::Registering => (true, "Registering"),
        HostState::Inspecting => (true, "Inspecting"),
        HostState::Preparing => (true, "Preparing"),
        HostState::Provisioning => (true, "Provisioning"),
        HostState::Deprovisioning => (true, "Deprovisioning"),
        HostState::PoweringOff => (true, "PoweringOffBeforeDelete"),
        HostState::Deleting => (true, "Deleting"),
    };
    Condition::new("Progressing", is_so, reason, text)
}

fn power_control(seen: &HostInputs) -> Condition {
    if seen.host.spec.usable_bmc().is_some() {
        Condition::new("PowerControl", true, "Driver", "")
    } else {
        let text = "the host has no BMC: it is switched on, off and restarted by hand";
        Condition::new("PowerControl", false, "NoDriver", text)
    }
}

/// Whether the OS itself said that it is up. Nothing else counts.
fn running(memory: &HostMemory, seen: &HostInputs, now: Timestamp) -> Condition {
    let Some(applied) = memory.applied.as_ref().filter(|_| is_installed(memory)) else {
        return Condition::new("Running", false, "NotProvisioned", "");
    };
    let of_this = seen.instance.attempt == applied.attempt;
    match (seen.instance.running_at.filter(|_| of_this), seen.instance.config_fetched_at.filter(|_| of_this)) {
        (Some(at), _) if seen.bmc.power == HostPower::Off => {
            Condition::new("Running", false, "PoweredOff", format!("the host is off; its OS reported last at {at:.0}"))
        }
        (Some(at), _) => Condition::new("Running", true, "NonceReturned", format!("the OS reported at {at:.0}")),
        (None, _) if !applied.reports_running() => {
            let mut condition = Condition::new(
                "Running",
                false,
                "Unverified",
                "unverified: the user data fetches nothing from this appliance, so the OS cannot report that it runs",
            );
            condition.status = ConditionStatus::Unknown;
            condition
        }
        (None, _) if of_this && seen.instance.failed.is_some() => {
            let (at, log) = seen.instance.failed.clone().unwrap_or_default();
            Condition::new("Running", false, "FirstBootFailed", format!("the first boot failed at {at:.0}:\n{log}"))
        }
        (None, fetched_at) => {
            let (reason, text) = match fetched_at {
                Some(at) => {
                    ("ConfigFetched", format!("the OS fetched its config at {at:.0} and has not reported that it runs"))
                }
                None => ("Waiting", "the OS has not fetched its config yet".to_owned()),
            };
            let text = boot_hint::of_first_boot(memory, seen, now).map_or(text, |hint| hint.text);
            Condition::new("Running", false, reason, text)
        }
    }
}

#[cfg(test)]
mod tests;
