//! Upstream's conditions and reasons, and ours about power, proof and frozen hosts.
//!
//! | condition | true in | false with |
//! |---|---|---|
//! | Manageable | all states from inspecting on | NotManaged, Registering, RegistrationFailed, PowerFailure |
//! | AvailableForProvisioning | available | NotAvailable |
//! | Provisioned | provisioned, externally provisioned | NotProvisioned |
//! | Ready | the same, without error | NotProvisioned, Error, Detached |
//! | Progressing | states that work, by their word | NotProgressing, Detached |
//! | DestructionHeld | all states, while the [gate] is shut | NotHeld, after that |
//! | ClockDoubtful | all states, while the appliance's clock may be wrong: BeforeBuild, BehindStore | ClockRight, after that |
//! | Uncleaned | all states, from a tombstone's sight to the cleaning of its disk | Cleaned, after that |
//! | UniqueIdentity | after it was false | SharedUUID |
//! | IdentityChanged | another machine boots as the host, and is refused | SameMachine, after that |
//! | SecondClaimant | more than one machine claims to be the host: SettledByPower, PersonDecides | IntruderNamed, Settled, after that |
//! | AgentNetwork | the newest agent came by the host's network data | NetworkDataFailed; absent without network data |
//! | DisksErased | the last cleaning proved it | PartlyErased, MetadataCleared; ErasedUnverified: by the agent's word; NotCleaned: which disks to clean was not known; NotErased: written since |
//! | WipeUnverified | not all was seen that tells the host's erasure from another machine's: Unverified, Held, Accepted | Verified; PartlyErased; NotErased: written since |
//! | ConsumerIsTenant | after it was false | AnotherTenant, while the host is provisioned for somebody else than its consumer |
//! | BootOverride | after it was false | NotOffered: the host boots by its own order; NotTakenBack: it stays set |
//! | NetworkBoot | after it was false | BootStalled: what was fetched was not started; AddressMismatch: asked for from another address |
//! | BMCSession | after it was false | NoneFree: the BMC is driven by Basic authentication |
//! | StoredObjectDamaged | something stored of the host is damaged: no step is made ([`crate::host::DAMAGED`]); absent else | – |
//! | Healthy | the BMC says OK | Warning, Critical by the BMC's word; Unknown where it says nothing |
//!
//! Messages are ours: each says in words why the host is where it is.

use firesteel_resources::{Condition, ConditionStatus, bare_metal_host::ErrorType};

use super::project::is_installed;
use crate::{
    disk::CleaningMethod,
    host::{
        model::{
            effect::HostReason,
            inputs::{HealthInputs, HostInputs, NetbootInputs, SharedUuid},
            memory::{HostMemory, HostState, work::HostFailure},
        },
        rules::{consumer_data, identity, overrides},
        turn::gate,
    },
};

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
/// Whoever had the host's disks left nothing on them.
const ERASED: &str = "DisksErased";
/// Not all was seen of the last erasure.
const WIPE: &str = "WipeUnverified";
const UNKNOWN: &str =
    "data may be on any of the disks until all of them are erased: which ones were written is not known";
const CHANGED: &str = "disks were written, or may have been, since they were last cleaned";
/// The loader that was fetched last came back.
const NETWORK_BOOT: &str = "NetworkBoot";
/// The host's consumer is the one for whom it was installed.
const TENANT: &str = "ConsumerIsTenant";
/// The BMC had a place for our session.
const SESSION: &str = "BMCSession";
const NONE_FREE: &str = "the BMC has no session free, so it is driven by Basic authentication, which shows the password \
                         with each request: end sessions of others, or wait until they end by themselves";

pub(crate) fn conditions(memory: &HostMemory, seen: &HostInputs, reason: &HostReason) -> Vec<Condition> {
    let text = reason.text.as_str();
    let is_available = memory.state == HostState::Available;
    let has_os = has_os(memory);
    let yes_or = |is_so: bool| if is_so { "" } else { text };
    let mut conditions = vec![
        manageable(memory, text),
        Condition::new(
            "AvailableForProvisioning",
            is_available,
            if is_available { "Available" } else { "NotAvailable" },
            yes_or(is_available),
        ),
        Condition::new("Provisioned", has_os, if has_os { "Provisioned" } else { "NotProvisioned" }, yes_or(has_os)),
        ready(memory, text),
        progressing(memory, text),
        healthy(seen),
        power_control(seen),
        running(memory, seen),
    ];
    let was = |name: &str| {
        seen.host.status.as_ref().is_some_and(|status| status.conditions.iter().any(|known| known.type_ == name))
    };
    if let Some(frozen) = &memory.frozen {
        conditions.push(Condition::new("Frozen", true, frozen.why.word(), &frozen.message));
    } else if was("Frozen") {
        conditions.push(Condition::new("Frozen", false, "NotFrozen", ""));
    }
    match gate::closed_gate(memory, seen) {
        Some(shut) => conditions.push(Condition::new(HELD, true, shut.by.word(), shut.text)),
        None if was(HELD) => conditions.push(Condition::new(HELD, false, "NotHeld", "")),
        None => {}
    }
    match memory.uncleaned.as_ref().filter(|left| !left.is_settled) {
        Some(left) => conditions.push(Condition::new(UNCLEANED, true, "LeftByEarlierHost", left.to_string())),
        None if was(UNCLEANED) => conditions.push(Condition::new(UNCLEANED, false, "Cleaned", "")),
        None => {}
    }
    match &seen.shared_uuid {
        Some(shared) => conditions.push(shared_uuid(shared)),
        None if was(IDENTITY) => conditions.push(Condition::new(IDENTITY, true, "Unique", "")),
        None => {}
    }
    match foreign_consumer_problem(memory, seen) {
        Some(text) => conditions.push(Condition::new(TENANT, false, "AnotherTenant", text)),
        None if was(TENANT) => conditions.push(Condition::new(TENANT, true, "SameTenant", "")),
        None => {}
    }
    conditions.extend(clock_doubtful(seen, was(CLOCK)));
    conditions.extend(agent_network(seen));
    conditions.extend(overrides::condition(memory, was(overrides::TYPE)));
    conditions.extend(session(memory, was(SESSION)));
    conditions.extend(network_boot(seen, was(NETWORK_BOOT)));
    conditions.extend(identity_changed(memory, seen, was(IDENTITY_CHANGED)));
    conditions.extend(second_claimant(memory, was(CLAIMED)));
    conditions.extend(wipe_unverified(memory, was(WIPE)));
    match erased(memory) {
        Some(condition) => conditions.push(condition),
        None if was(ERASED) => conditions.push(Condition::new(ERASED, false, "NotErased", CHANGED)),
        None => {}
    }
    conditions
}

/// Whether what the host fetched last was started; not shown before something was not.
fn network_boot(seen: &HostInputs, was_shown: bool) -> Option<Condition> {
    let NetbootInputs { stalled, mismatch, .. } = &seen.netboot;
    match (stalled, mismatch) {
        (Some(text), _) => Some(Condition::new(NETWORK_BOOT, false, "BootStalled", text)),
        (None, Some(text)) => Some(Condition::new(NETWORK_BOOT, false, "AddressMismatch", text)),
        (None, None) => was_shown.then(|| Condition::new(NETWORK_BOOT, true, "NoStall", "")),
    }
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

/// Whether the last erasure is unverified; not shown before one was.
fn wipe_unverified(memory: &HostMemory, was_shown: bool) -> Option<Condition> {
    if let Some(held) = memory.wipe.as_ref().filter(|wipe| wipe.is_held()) {
        return Some(Condition::new(WIPE, true, "Held", held.unverified.join("; ")));
    }
    let cleaned = memory.cleaned.as_ref();
    match cleaned.filter(|cleaned| !cleaned.unverified.is_empty()) {
        Some(cleaned) => {
            let text = cleaned.unverified.join("; ");
            Some(match cleaned.accepted_at {
                Some(at) => Condition::new(WIPE, true, "Accepted", format!("{text}; accepted at {at:.0}")),
                None => Condition::new(WIPE, true, "Unverified", text),
            })
        }
        None => {
            let reason = match cleaned {
                Some(cleaned) if cleaned.is_erased => "Verified",
                Some(cleaned) if cleaned.is_partial && cleaned.method > CleaningMethod::Metadata => "PartlyErased",
                Some(_) | None => "NotErased",
            };
            was_shown.then(|| Condition::new(WIPE, false, reason, ""))
        }
    }
}

/// Booked by another consumer than the one whose data is on it, with that one's image in place: its disks stay as
/// they are, and people see it.
fn foreign_consumer_problem(memory: &HostMemory, seen: &HostInputs) -> Option<String> {
    let is_installed = memory.state == HostState::Provisioned;
    let (tenant, consumer) =
        consumer_data::different_consumer(&seen.host.spec, memory.tenant.as_deref()).filter(|_| is_installed)?;
    Some(format!(
        "installed for {tenant} and booked for {consumer}: the disks hold data of {tenant}; without spec.image all of \
         them are erased before {consumer} gets the host"
    ))
}

fn shared_uuid(SharedUuid { uuid, with }: &SharedUuid) -> Condition {
    let text = format!(
        "host {with} has the SMBIOS UUID {uuid} as well: the two are told apart by their MACs; is one machine entered twice?"
    );
    Condition::new(IDENTITY, false, "SharedUUID", text)
}

/// Whether another machine boots as the host; not shown before one did.
fn identity_changed(memory: &HostMemory, seen: &HostInputs, was_shown: bool) -> Option<Condition> {
    match identity::change(memory, seen) {
        Some(change) => Some(Condition::new(IDENTITY_CHANGED, true, "AnotherMachine", change.to_string())),
        None => was_shown.then(|| Condition::new(IDENTITY_CHANGED, false, "SameMachine", "")),
    }
}

/// Whether more than one machine claims to be the host; not shown before one did.
fn second_claimant(memory: &HostMemory, was_shown: bool) -> Option<Condition> {
    if let Some(claims) = &memory.claimants {
        let all: Vec<String> = claims.all().map(ToString::to_string).collect();
        let (reason, how) = match &claims.person {
            Some(why) => ("PersonDecides", format!("a person decides until {:.0}: {why}", claims.until)),
            None => ("SettledByPower", "the BMC switches the host off, which tells them apart".to_owned()),
        };
        let text = format!("more than one machine claims to be this host: {}; {how}", all.join("; and "));
        return Some(Condition::new(CLAIMED, true, reason, text));
    }
    let named = memory.intruders.last();
    was_shown.then(|| match named {
        Some(named) => {
            let text = format!("the machine with {} is not this host: {}", named.machine, named.why);
            Condition::new(CLAIMED, false, "IntruderNamed", text)
        }
        None => Condition::new(CLAIMED, false, "Settled", ""),
    })
}

/// Whether the host's network data led its newest agent to the appliance.
fn agent_network(seen: &HostInputs) -> Option<Condition> {
    Some(match seen.agent.as_ref()?.network.as_ref()? {
        Ok(text) => Condition::new("AgentNetwork", true, "NetworkData", text),
        Err(text) => Condition::new("AgentNetwork", false, "NetworkDataFailed", text),
    })
}

/// Whether the BMC has a place for our session; `was`: there is such a condition.
fn session(memory: &HostMemory, was: bool) -> Option<Condition> {
    if memory.bmc.no_session_free {
        return Some(Condition::new(SESSION, false, "NoneFree", NONE_FREE));
    }
    was.then(|| Condition::new(SESSION, true, "Free", ""))
}

fn clock_doubtful(seen: &HostInputs, was: bool) -> Option<Condition> {
    if let Some(doubt) = seen.clock {
        return Some(Condition::new(CLOCK, true, doubt.word(), doubt.to_string()));
    }
    was.then(|| Condition::new(CLOCK, false, "ClockRight", ""))
}

fn has_os(memory: &HostMemory) -> bool {
    matches!(memory.state, HostState::Provisioned | HostState::ExternallyProvisioned)
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
        None if has_os(memory) => Condition::new("Ready", true, "Provisioned", ""),
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

/// Upstream's words for what the BMC says, by the BMC's own.
fn healthy(seen: &HostInputs) -> Condition {
    let said = |health: &HealthInputs| format!("the BMC said {} at {:.0}", health.word, health.at);
    match seen.health.as_ref().map(|health| (health.word.as_str(), said(health))) {
        Some(("OK", text)) => Condition::new("Healthy", true, "OK", text),
        Some(("Warning", text)) => Condition::new("Healthy", false, "Warning", text),
        Some(("Critical", text)) => Condition::new("Healthy", false, "Critical", text),
        Some(_) | None => {
            let mut condition = Condition::new("Healthy", false, "Unknown", "");
            condition.status = ConditionStatus::Unknown;
            condition
        }
    }
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
fn running(memory: &HostMemory, seen: &HostInputs) -> Condition {
    let Some(applied) = memory.applied.as_ref().filter(|_| is_installed(memory)) else {
        return Condition::new("Running", false, "NotProvisioned", "");
    };
    let of_this = seen.instance.attempt == applied.attempt;
    match (seen.instance.running_at.filter(|_| of_this), seen.instance.config_fetched_at.filter(|_| of_this)) {
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
        (None, Some(at)) => {
            let text = format!("the OS fetched its config at {at:.0} and has not reported that it runs");
            Condition::new("Running", false, "ConfigFetched", text)
        }
        (None, None) => Condition::new("Running", false, "Waiting", "the OS has not fetched its config yet"),
    }
}
