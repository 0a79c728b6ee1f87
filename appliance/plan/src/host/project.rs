//! The host's status in upstream's words, computed from the memory and what was seen. Nothing
//! reads it back: the memory is the truth, this is what people and upstream's clients see.

use firesteel_resources::{
    BareMetalHostStatus, Condition, SecretReference,
    bare_metal_host::{
        Requests, requests,
        status::{CredentialsStatus, OperationalStatus, ProvisionStatus},
        unacted,
    },
    no_controller, set_condition,
};
use jiff::Timestamp;

use crate::host::{
    effect::Reason,
    memory::{CredentialsUsed, HostMemory, State},
    seen::{Power, Seen},
};

/// The status of a host whose step ended with `memory` for `reason`.
#[must_use]
pub fn project(memory: &HostMemory, seen: &Seen, reason: &Reason, now: Timestamp) -> BareMetalHostStatus {
    let old = seen.host.status.clone().unwrap_or_default();
    let requests = requests(&seen.host.metadata);
    let mut status = BareMetalHostStatus {
        operational_status: operational(memory, &requests),
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
        conditions: kept(&old.conditions),
        hardware: old.hardware.clone(),
        hardware_profile: old.hardware_profile.clone(),
        last_updated: old.last_updated,
    };
    let generation = seen.host.metadata.generation;
    for condition in conditions(memory, seen, reason) {
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
    if status != old {
        status.last_updated = Some(now);
    }
    status
}

/// The old conditions, but for one that earlier versions set and `NoController` took the place of.
fn kept(conditions: &[Condition]) -> Vec<Condition> {
    conditions.iter().filter(|condition| condition.type_ != "FieldsActedOn").cloned().collect()
}

fn operational(memory: &HostMemory, requests: &Requests) -> OperationalStatus {
    if requests.detached.is_some() {
        return OperationalStatus::Detached;
    }
    if memory.failure.is_some() {
        return OperationalStatus::Error;
    }
    match memory.state {
        State::New => OperationalStatus::Empty,
        State::Unmanaged => OperationalStatus::Discovered,
        State::Registering
        | State::Inspecting
        | State::Preparing
        | State::Available
        | State::Provisioning
        | State::Provisioned { .. }
        | State::ExternallyProvisioned
        | State::Deprovisioning
        | State::PoweringOff
        | State::Deleting => OperationalStatus::Ok,
    }
}

/// By the BMC where there is one; else a host that reports is on.
fn powered_on(memory: &HostMemory, seen: &Seen) -> bool {
    match seen.bmc.power {
        Power::On => true,
        Power::Off => false,
        Power::Unknown => {
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

fn is_installed(memory: &HostMemory) -> bool {
    matches!(memory.state, State::Provisioned { .. })
}

fn provisioning(memory: &HostMemory, seen: &Seen) -> ProvisionStatus {
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

fn credentials(used: Option<&CredentialsUsed>, seen: &Seen) -> CredentialsStatus {
    used.map_or_else(CredentialsStatus::default, |used| CredentialsStatus {
        credentials: Some(SecretReference {
            name: used.secret.clone(),
            namespace: seen.host.metadata.namespace.clone(),
        }),
        credentials_version: used.version.clone(),
    })
}

/// Upstream's conditions and reasons (systems.md S3-8), and ours about power and proof.
fn conditions(memory: &HostMemory, seen: &Seen, reason: &Reason) -> Vec<Condition> {
    let text = reason.text.as_str();
    let word = word(memory);
    let failed = memory.failure.as_ref().map(|failure| failure.message.as_str());
    let managed = !matches!(memory.state, State::New | State::Unmanaged | State::Registering);
    let available = matches!(memory.state, State::Available) && failed.is_none();
    let working = memory.state.is_working();
    let manageable = match (managed, failed) {
        (true, _) => Condition::new("Manageable", true, "Managed", ""),
        (false, Some(message)) => Condition::new("Manageable", false, "RegistrationFailed", message),
        (false, None) => Condition::new("Manageable", false, word, text),
    };
    let healthy = match failed {
        None => Condition::new("Healthy", true, "Healthy", ""),
        Some(message) => Condition::new("Healthy", false, "Error", message),
    };
    let mut conditions = vec![
        manageable,
        Condition::new(
            "AvailableForProvisioning",
            available,
            if available { "Available" } else { "NotAvailable" },
            if available { "" } else { text },
        ),
        Condition::new(
            "Provisioned",
            is_installed(memory),
            if is_installed(memory) { "Provisioned" } else { "NotProvisioned" },
            if is_installed(memory) { "" } else { text },
        ),
        ready(memory, failed, text),
        Condition::new("Progressing", working, if working { word } else { "NotProgressing" }, text),
        healthy,
        power_control(seen),
        running(memory, seen),
    ];
    let was_frozen =
        seen.host.status.as_ref().is_some_and(|status| status.conditions.iter().any(|c| c.type_ == "Frozen"));
    if let Some(frozen) = &memory.frozen {
        conditions.push(Condition::new("Frozen", true, frozen.why.word(), &frozen.message));
    } else if was_frozen {
        conditions.push(Condition::new("Frozen", false, "NotFrozen", ""));
    }
    conditions
}

fn ready(memory: &HostMemory, failed: Option<&str>, text: &str) -> Condition {
    let rests = matches!(memory.state, State::Available | State::Provisioned { .. } | State::ExternallyProvisioned);
    match failed {
        Some(message) => Condition::new("Ready", false, "Error", message),
        None if rests => Condition::new("Ready", true, "Ready", ""),
        None => Condition::new("Ready", false, word(memory), text),
    }
}

fn power_control(seen: &Seen) -> Condition {
    if seen.host.spec.usable_bmc().is_some() {
        Condition::new("PowerControl", true, "Driver", "")
    } else {
        let text = "the host has no BMC: it is switched on, off and restarted by hand";
        Condition::new("PowerControl", false, "NoDriver", text)
    }
}

/// Whether the OS itself said that it is up. Nothing else counts.
fn running(memory: &HostMemory, seen: &Seen) -> Condition {
    let Some(applied) = memory.applied.as_ref().filter(|_| is_installed(memory)) else {
        return Condition::new("Running", false, "NotProvisioned", "");
    };
    let of_this = seen.instance.attempt == applied.attempt;
    match (seen.instance.running_at.filter(|_| of_this), seen.instance.config_fetched_at.filter(|_| of_this)) {
        (Some(at), _) => Condition::new("Running", true, "NonceReturned", format!("the OS reported at {at:.0}")),
        (None, _) if !applied.reports_running => {
            let mut condition = Condition::new(
                "Running",
                false,
                "Unverified",
                "unverified: the user data fetches nothing from this appliance, so the OS cannot report that it runs",
            );
            condition.status = firesteel_resources::ConditionStatus::Unknown;
            condition
        }
        (None, Some(at)) => {
            let text = format!("the OS fetched its config at {at:.0} and has not reported that it runs");
            Condition::new("Running", false, "ConfigFetched", text)
        }
        (None, None) => Condition::new("Running", false, "Waiting", "the OS has not fetched its config yet"),
    }
}

/// The CamelCase word for a state, as upstream's condition reasons have it.
fn word(memory: &HostMemory) -> &'static str {
    match memory.state {
        State::New => "Unknown",
        State::Unmanaged => "NotManaged",
        State::Registering => "Registering",
        State::Inspecting => "Inspecting",
        State::Preparing => "Preparing",
        State::Available => "Available",
        State::Provisioning => "Provisioning",
        State::Provisioned { .. } => "Provisioned",
        State::ExternallyProvisioned => "ExternallyProvisioned",
        State::Deprovisioning => "Deprovisioning",
        State::PoweringOff => "PoweringOffBeforeDelete",
        State::Deleting => "Deleting",
    }
}
