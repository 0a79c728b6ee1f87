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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use firesteel_resources::bare_metal_host::{BmcDetails, BootMode, ErrorType, ProvisioningState};
    use firesteel_resources::{BareMetalHost, Image, RootDeviceHints};

    use super::*;
    use crate::disk::DiskChoice;
    use crate::host::model::{DiskPlan, HostFailure, InstalledSystem};
    use crate::host::turn::tests::{agent, at};

    fn seen(memory: HostMemory, has_bmc: bool) -> HostInputs {
        let mut host = BareMetalHost::default();
        host.metadata.namespace = "default".into();
        let bmc = BmcDetails { address: "redfish://b/1".into(), credentials_name: "s".into(), ..BmcDetails::default() };
        host.spec.bmc = has_bmc.then_some(bmc);
        HostInputs::new(host, memory, at(-9), 0)
    }

    fn shown(seen: &HostInputs, now: i64) -> BareMetalHostStatus {
        project(&seen.memory, seen, &HostReason::new("it is so"), at(now))
    }

    #[test]
    fn the_first_that_holds_is_the_operational_status() {
        use HostState::{Available, New, Unmanaged};
        let failure = HostFailure {
            kind: ErrorType::Inspection,
            message: "no sysfs".into(),
            count: 3,
            at: at(-1),
            retry_at: None,
            until_edit: false,
            inputs: String::new(),
        };
        for (is_detached, is_delayed, has_failed, state, expected) in [
            (true, true, true, Available, OperationalStatus::Detached),
            (false, true, true, Available, OperationalStatus::Delayed),
            (false, false, true, New, OperationalStatus::Error),
            (false, false, false, New, OperationalStatus::Empty),
            (false, false, false, Unmanaged, OperationalStatus::Discovered),
            (false, false, false, Available, OperationalStatus::Ok),
        ] {
            let memory = HostMemory {
                state,
                detached: is_detached.then(|| at(-1)),
                delayed: is_delayed.then(|| at(-1)),
                failure: has_failed.then(|| failure.clone()),
                ..HostMemory::default()
            };
            let status = shown(&seen(memory, true), 0);
            assert_eq!(status.operational_status, expected);
            let error = (status.error_type, status.error_message.as_str(), status.error_count);
            let none = (None, "", 0);
            assert_eq!(error, if has_failed { (Some(ErrorType::Inspection), "no sysfs", 3) } else { none });
        }
    }

    #[test]
    fn a_host_is_on_by_its_bmc_or_else_by_what_is_heard_of_it() {
        use HostState::{Available, Provisioned};
        for (name, power, has_bmc, agent_of, left, runs, state, was_on, expected) in [
            ("the BMC says on", HostPower::On, true, None, false, false, Available, false, true),
            ("the BMC says off", HostPower::Off, true, Some(5), false, true, Provisioned, true, false),
            ("it was on", HostPower::Unknown, true, None, false, false, Available, true, true),
            ("it was off", HostPower::Unknown, true, Some(5), false, true, Provisioned, false, false),
            ("its agent reports", HostPower::Unknown, false, Some(5), false, false, Available, false, true),
            ("its agent left", HostPower::Unknown, false, Some(5), true, false, Available, true, false),
            ("the agent of another boot", HostPower::Unknown, false, Some(4), false, false, Available, true, false),
            ("its OS reported", HostPower::Unknown, false, None, false, true, Provisioned, false, true),
            ("an OS that is gone reported", HostPower::Unknown, false, None, false, true, Available, true, false),
            ("its OS is silent", HostPower::Unknown, false, None, false, false, Provisioned, true, false),
        ] {
            let mut seen = seen(HostMemory { state, attempt: 5, ..HostMemory::default() }, has_bmc);
            seen.bmc.power = power;
            seen.agent = agent_of.map(|attempt| crate::host::AgentInputs { attempt, left, ..agent(0) });
            seen.instance.running_at = runs.then(|| at(-1));
            seen.host.status = Some(BareMetalHostStatus { powered_on: was_on, ..BareMetalHostStatus::default() });
            assert_eq!(shown(&seen, 0).powered_on, expected, "{name}");
        }
    }

    #[test]
    fn the_status_names_what_is_installed_and_how() {
        let hinted = |model: &str| RootDeviceHints { model: model.into(), ..RootDeviceHints::default() };
        let plan = |hints| DiskPlan { choice: DiskChoice::default(), inspected_in: 1, hints, chosen_at: at(-1) };
        for (disk, prepared, expected) in [
            (None, None, None),
            (None, Some(hinted("P")), Some(hinted("P"))),
            (Some(plan(hinted("D"))), Some(hinted("P")), Some(hinted("D"))),
            (Some(plan(hinted(""))), Some(hinted("P")), None),
        ] {
            let image = Image { url: "http://images/one".into(), ..Image::default() };
            let used = |version: &str| Some(CredentialsUsed { secret: "s".into(), version: version.into() });
            let mut memory = HostMemory { id: "x".into(), disk, prepared_hints: prepared, ..HostMemory::default() };
            memory.state = HostState::Deprovisioning;
            memory.applied = Some(InstalledSystem::of_others(image.clone(), 1, at(-1)));
            (memory.bmc.good_credentials, memory.bmc.tried_credentials) = (used("1"), used("2"));
            let mut seen = seen(memory, true);
            seen.host.spec.boot_mode = Some(BootMode::Legacy);
            let status = shown(&seen, 0);
            let shown = status.provisioning;
            assert_eq!((shown.state, shown.id.as_str()), (ProvisioningState::Deprovisioning, "x"));
            assert_eq!((shown.image, shown.root_device_hints), (Some(image), expected));
            assert_eq!(shown.boot_mode, Some(BootMode::Legacy));
            let secret = Some(SecretReference { name: "s".into(), namespace: "default".into() });
            for (credentials, version) in [(status.good_credentials, "1"), (status.tried_credentials, "2")] {
                assert_eq!(
                    (credentials.credentials, credentials.credentials_version.as_str()),
                    (secret.clone(), version)
                );
            }
        }
    }

    #[test]
    fn conditions_of_others_stay_and_those_that_are_over_go() {
        let mut seen = seen(HostMemory::default(), true);
        let condition = |type_: &str| Condition::new(type_, true, "So", "");
        let conditions = ["FieldsActedOn", DAMAGED, "example.com/Foreign"].map(condition).to_vec();
        seen.host.status = Some(BareMetalHostStatus { conditions, ..BareMetalHostStatus::default() });
        let first = shown(&seen, 0);
        let has = |name: &str| first.conditions.iter().any(|condition| condition.type_ == name);
        assert!(has("example.com/Foreign") && has("Ready") && !has("FieldsActedOn") && !has(DAMAGED));
        assert_eq!(first.last_updated, Some(at(0)));
        seen.host.status = Some(first.clone());
        assert_eq!(shown(&seen, 60), first, "nothing new, so nothing is written");
        seen.memory.state = HostState::Registering;
        assert_eq!(shown(&seen, 60).last_updated, Some(at(60)));
    }

    #[test]
    fn a_moved_host_brings_its_hardware_along_once() {
        let mut seen = seen(HostMemory::default(), true);
        let moved = r#"{"provisioning":{"state":"available","ID":"x"},"operationHistory":{"inspect":{},"register":{},
                        "provision":{},"deprovision":{}},"poweredOn":true,"errorMessage":"","hardwareProfile":"",
                        "hardware":{"ramMebibytes":4096}}"#;
        let ram = |seen: &HostInputs| shown(seen, 0).hardware.map(|hardware| hardware.ram_mebibytes);
        assert_eq!(ram(&seen), None);
        seen.host.metadata.annotations.insert(annotations::STATUS_OF.into(), moved.into());
        assert_eq!(ram(&seen), Some(4096));
        let last_updated = Some(at(-1));
        seen.host.status = Some(BareMetalHostStatus { last_updated, ..BareMetalHostStatus::default() });
        assert_eq!(ram(&seen), None, "it has a status of its own");
    }
}
