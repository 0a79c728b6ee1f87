//! The host's status in upstream's words, computed from the memory and what was seen. Nothing
//! reads it back where there is a memory: that is the truth, this is what people and upstream's clients see.

use firesteel_resources::bare_metal_host::status::{CredentialsStatus, OperationalStatus, ProvisionStatus};
use firesteel_resources::bare_metal_host::{annotations, insecure_bmc, unacted};
use firesteel_resources::{
    BareMetalHostStatus, Condition, HardwareDetails, SecretReference, no_controller, set_condition,
};
use jiff::Timestamp;

use crate::host::model::{CredentialsUsed, HostInputs, HostMemory, HostPower, HostReason, HostState};
use crate::host::output::conditions;
use crate::host::rules::owner_hardware;

/// The status of a host whose step ended with `memory` for `reason`.
#[must_use]
pub fn project(memory: &HostMemory, seen: &HostInputs, reason: &HostReason, now: Timestamp) -> BareMetalHostStatus {
    let old = seen.host.status.clone().unwrap_or_default();
    let mut status = BareMetalHostStatus {
        operational_status: operational(memory),
        error_type: memory.failure.as_ref().map(|failure| failure.kind),
        error_message: memory.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default(),
        error_count: memory.failure.as_ref().map_or(0, |failure| failure.count),
        provisioning_fail_count: memory.provision_failures,
        last_attempted_image: memory.last_attempted_image.clone(),
        powered_on: powered_on(memory, seen),
        provisioning: provisioning(memory, seen),
        good_credentials: credentials(memory.bmc.good_credentials.as_ref(), seen),
        tried_credentials: credentials(memory.bmc.tried_credentials.as_ref(), seen),
        operation_history: memory.history.clone(),
        conditions: conditions_to_keep(&old.conditions),
        hardware: owner_hardware::shown(seen).or_else(|| old.hardware.clone()).or_else(|| moved_hardware(seen, &old)),
        hardware_profile: old.hardware_profile.clone(),
        last_updated: old.last_updated,
    };
    let generation = seen.host.metadata.generation;
    for condition in conditions::conditions(memory, seen, reason, now) {
        set_condition(&mut status.conditions, condition.observed(generation), now);
    }
    // What was accepted without effect is said here as well as at admission.
    let idle = unacted(&seen.host);
    if idle.is_empty() {
        status.conditions.retain(|condition| condition.type_ != no_controller::TYPE);
    } else {
        let condition = no_controller::condition(no_controller::OF_FIELDS, &idle);
        set_condition(&mut status.conditions, condition.observed(generation), now);
    }
    match insecure_bmc::condition(&seen.host.spec) {
        Some(lack) => set_condition(&mut status.conditions, lack.observed(generation), now),
        None => status.conditions.retain(|condition| condition.type_ != insecure_bmc::TYPE),
    }
    if status != old {
        status.last_updated = Some(now);
    }
    status
}

/// What a host that was moved here brought along, where it has no status yet.
fn moved_hardware(seen: &HostInputs, old: &BareMetalHostStatus) -> Option<HardwareDetails> {
    let is_new = old.last_updated.is_none();
    annotations::moved_status(&seen.host.metadata).filter(|_| is_new)?.ok()?.hardware
}

/// Something that is stored of the host is damaged, and work on the host stops: set where no step can be made, and gone
/// with the next one that is.
pub const DAMAGED: &str = "StoredObjectDamaged";

/// The old conditions, but for one that earlier versions set and `NoController` took the place of, and one that says
/// that there was no step.
fn conditions_to_keep(conditions: &[Condition]) -> Vec<Condition> {
    let is_over = |condition: &&Condition| ["FieldsActedOn", DAMAGED].contains(&condition.type_.as_str());
    conditions.iter().filter(|condition| !is_over(condition)).cloned().collect()
}

fn operational(memory: &HostMemory) -> OperationalStatus {
    if memory.detached.is_some() {
        OperationalStatus::Detached
    } else if memory.delayed.is_some() {
        OperationalStatus::Delayed
    } else if memory.failure.is_some() {
        OperationalStatus::Error
    } else if memory.state == HostState::New {
        OperationalStatus::Empty
    } else if memory.state == HostState::Unmanaged {
        OperationalStatus::Discovered
    } else {
        OperationalStatus::Ok
    }
}

/// Whether the host is on, by its BMC if there is one; otherwise a host that reports is on.
fn powered_on(memory: &HostMemory, seen: &HostInputs) -> bool {
    match seen.bmc.power {
        HostPower::On => true,
        HostPower::Off => false,
        HostPower::Unknown => {
            let alive = seen.agent.as_ref().is_some_and(|agent| agent.attempt == memory.attempt && !agent.left);
            let runs = seen.instance.running_at.is_some() && is_installed(memory);
            if seen.host.spec.usable_bmc().is_none() {
                alive || runs
            } else {
                // Not asked yet in this process: what was known stays.
                seen.host.status.as_ref().is_some_and(|status| status.powered_on)
            }
        }
    }
}

/// An OS of ours is on the disk.
pub(crate) fn is_installed(memory: &HostMemory) -> bool {
    memory.state == HostState::Provisioned
}

fn provisioning(memory: &HostMemory, seen: &HostInputs) -> ProvisionStatus {
    ProvisionStatus {
        state: memory.state.word(),
        id: memory.id.clone(),
        image: memory.applied.as_ref().map(|applied| applied.image.clone()),
        root_device_hints: memory
            .disk
            .as_ref()
            .map(|plan| plan.hints.clone())
            .or_else(|| memory.prepared_hints.clone())
            .filter(|hints| !hints.is_empty()),
        boot_mode: seen.host.spec.boot_mode,
        ..ProvisionStatus::default()
    }
}

fn credentials(used: Option<&CredentialsUsed>, seen: &HostInputs) -> CredentialsStatus {
    used.map_or_else(CredentialsStatus::default, |used| CredentialsStatus {
        credentials: Some(SecretReference {
            name: used.secret.clone(),
            namespace: seen.host.metadata.namespace.clone(),
        }),
        credentials_version: used.version.clone(),
    })
}
