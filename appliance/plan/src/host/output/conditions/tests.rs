//! Conditions that follow from the memory alone: what a cleaning proved, and what it did not.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use firesteel_resources::BareMetalHost;
use firesteel_resources::bare_metal_host::BmcDetails;

use super::*;
use crate::disk::DiskIdentity;
use crate::host::model::{CleanedNote, ErasureSummary, InstalledSystem, PendingErasure};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn note(method: CleaningMethod, is_erased: bool, is_partial: bool, unverified: &[&str]) -> CleanedNote {
    CleanedNote {
        at: at(0),
        attempt: 3,
        method,
        is_erased,
        is_partial,
        text: "sda".into(),
        unverified: unverified.iter().map(|text| (*text).to_owned()).collect(),
        accepted_at: None,
    }
}

/// Status, reason and message.
fn words(condition: Condition) -> (ConditionStatus, String, String) {
    (condition.status, condition.reason, condition.message)
}

fn said(is_so: bool, reason: &str, message: &str) -> Option<(ConditionStatus, String, String)> {
    Some((is_so.into(), reason.to_owned(), message.to_owned()))
}

#[test]
fn what_a_cleaning_came_to_has_a_reason_of_its_own() {
    use CleaningMethod::{Full, Metadata, Quick};
    let of_old = CleanedNote { attempt: 0, ..note(Full, true, false, &[]) };
    for (cleaned, is_erased, reason, over) in [
        (note(Full, true, false, &[]), true, "Erased", "Verified"),
        (note(Quick, true, false, &[]), true, "Erased", "Verified"),
        (of_old, false, "ErasedUnverified", "Verified"),
        (note(Full, false, false, &["its power"]), false, "ErasedUnverified", "NotErased"),
        (note(Full, false, true, &["its power"]), false, "PartlyErased", "PartlyErased"),
        (note(Quick, false, true, &[]), false, "PartlyErased", "PartlyErased"),
        (note(Full, false, false, &[]), false, "PartlyErased", "NotErased"),
        (note(Metadata, false, false, &[]), false, "MetadataCleared", "NotErased"),
        (note(Metadata, false, true, &["its power"]), false, "MetadataCleared", "NotErased"),
    ] {
        let mut memory = HostMemory { cleaned: Some(cleaned), ..HostMemory::default() };
        assert_eq!(erased(&memory).map(words), said(is_erased, reason, "sda"), "{memory:?}");
        assert_eq!(wipe_over_reason(&memory), over, "{memory:?}");
        memory.holds_unknown = true;
        assert_eq!(erased(&memory).map(words), said(is_erased, reason, &format!("sda; {UNKNOWN}")), "{memory:?}");
    }
    let mut memory = HostMemory::default();
    assert_eq!((erased(&memory), wipe_over_reason(&memory)), (None, "NotErased"));
    memory.holds_unknown = true;
    assert_eq!(erased(&memory).map(words), said(false, "NotCleaned", UNKNOWN));
}

#[test]
fn an_unverified_erasure_is_held_accepted_or_only_said() {
    let pending = |unverified: &[&str]| PendingErasure {
        attempt: 3,
        plan: 1,
        since: at(0),
        erased: ErasureSummary {
            method: CleaningMethod::Full,
            disks: vec![DiskIdentity::default()],
            is_all: true,
            is_whole: true,
            proven: String::new(),
            claimed: String::new(),
        },
        asked_at: None,
        unverified: unverified.iter().map(|text| (*text).to_owned()).collect(),
        accepted_at: None,
    };
    let unverified = note(CleaningMethod::Full, false, false, &["its power", "its boot"]);
    let accepted = CleanedNote { accepted_at: Some(at(60)), ..unverified.clone() };
    let proven = note(CleaningMethod::Full, true, false, &[]);
    let accepted_text = "its power; its boot; accepted at 1970-01-01T00:01:00Z";
    for (wipe, cleaned, expected) in [
        (None, None, None),
        (None, Some(proven.clone()), None),
        (None, Some(unverified.clone()), said(true, "Unverified", "its power; its boot")),
        (None, Some(accepted), said(true, "Accepted", accepted_text)),
        (Some(pending(&[])), Some(proven), None),
        (Some(pending(&["its end", "its off"])), Some(unverified), said(true, "Held", "its end; its off")),
    ] {
        let memory = HostMemory { wipe, cleaned, ..HostMemory::default() };
        assert_eq!(wipe_unverified(&memory).map(words), expected, "{memory:?}");
    }
}

#[test]
fn what_is_in_the_way_of_the_bmc_is_named_first_where_no_one_set_the_host_aside() {
    use ErrorType::{Inspection, PowerManagement, ProvisionedRegistration, Registration};
    use HostState as H;
    for (state, kind, is_detached, manageable, ready, progressing) in [
        (H::New, None, false, "-NotManaged", "-NotProvisioned", "-NotProgressing"),
        (H::Unmanaged, Some(Registration), false, "-NotManaged", "-Error", "-NotProgressing"),
        (H::Registering, None, false, "-Registering", "-NotProvisioned", "+Registering"),
        (H::Registering, Some(PowerManagement), false, "-RegistrationFailed", "-Error", "+Registering"),
        (H::Registering, Some(Registration), true, "-RegistrationFailed", "-Detached", "-Detached"),
        (H::Inspecting, Some(Inspection), false, "+Manageable", "-Error", "+Inspecting"),
        (H::Preparing, Some(PowerManagement), false, "-PowerFailure", "-Error", "+Preparing"),
        (H::Available, Some(Registration), false, "-RegistrationFailed", "-Error", "-NotProgressing"),
        (H::Provisioning, Some(PowerManagement), true, "+Manageable", "-Detached", "-Detached"),
        (H::Provisioned, None, false, "+Manageable", "+Provisioned", "-NotProgressing"),
        (H::Provisioned, None, true, "+Manageable", "-Detached", "-Detached"),
        (H::Provisioned, Some(ProvisionedRegistration), false, "-RegistrationFailed", "-Error", "-NotProgressing"),
        (H::ExternallyProvisioned, None, false, "+Manageable", "+Provisioned", "-NotProgressing"),
        (H::Deprovisioning, None, false, "+Manageable", "-NotProvisioned", "+Deprovisioning"),
        (H::PoweringOff, None, false, "+Manageable", "-NotProvisioned", "+PoweringOffBeforeDelete"),
        (H::Deleting, None, false, "+Manageable", "-NotProvisioned", "+Deleting"),
    ] {
        let failure = kind.map(|kind| HostFailure {
            kind,
            message: "it failed".into(),
            count: 1,
            at: at(0),
            retry_at: None,
            until_edit: false,
            inputs: String::new(),
        });
        let detached = is_detached.then(|| at(0));
        let memory = HostMemory { state: state.clone(), failure, detached, ..HostMemory::default() };
        let sign = |condition: &Condition| if condition.status == ConditionStatus::True { '+' } else { '-' };
        let word = |condition: Condition| format!("{}{}", sign(&condition), condition.reason);
        let found = [super::manageable(&memory, "text"), super::ready(&memory, "text")].map(word);
        assert_eq!(found, [manageable, ready], "{state:?} {kind:?} {is_detached}");
        assert_eq!(word(super::progressing(&memory, "text")), progressing, "{state:?} {kind:?} {is_detached}");
    }
}

/// What is seen of an installed OS: whether it can report, what it said and of which installation, and the power.
#[derive(Clone, Copy)]
struct Os {
    reports: bool,
    attempt: u64,
    fetched: bool,
    failed: bool,
    running: bool,
    power: HostPower,
}

#[test]
fn an_os_runs_where_it_says_so_and_is_not_off() {
    use ConditionStatus::{False, True, Unknown};
    let silent = Os { reports: true, attempt: 4, fetched: false, failed: false, running: false, power: HostPower::On };
    let running = Os { running: true, fetched: true, ..silent };
    for (state, os, status, reason) in [
        (HostState::Provisioned, silent, False, "Waiting"),
        (HostState::Provisioned, Os { fetched: true, ..silent }, False, "ConfigFetched"),
        (HostState::Provisioned, Os { failed: true, fetched: true, ..silent }, False, "FirstBootFailed"),
        (HostState::Provisioned, Os { failed: true, attempt: 3, ..silent }, False, "Waiting"),
        (HostState::Provisioned, running, True, "NonceReturned"),
        (HostState::Provisioned, Os { power: HostPower::Unknown, ..running }, True, "NonceReturned"),
        (HostState::Provisioned, Os { failed: true, ..running }, True, "NonceReturned"),
        (HostState::Provisioned, Os { power: HostPower::Off, ..running }, False, "PoweredOff"),
        (HostState::Provisioned, Os { attempt: 3, ..running }, False, "Waiting"),
        (HostState::Provisioned, Os { power: HostPower::Off, ..silent }, False, "Waiting"),
        (HostState::Provisioned, Os { reports: false, ..silent }, Unknown, "Unverified"),
        (HostState::Provisioned, Os { reports: false, failed: true, ..silent }, Unknown, "Unverified"),
        (HostState::Provisioned, Os { reports: false, ..running }, True, "NonceReturned"),
        (HostState::Deprovisioning, running, False, "NotProvisioned"),
    ] {
        let configs = if os.reports { vec!["worker".to_owned()] } else { Vec::new() };
        let applied = InstalledSystem::of_others(firesteel_resources::Image::default(), 4, at(0));
        let applied = Some(InstalledSystem { configs, ..applied });
        let mut seen = HostInputs::new(BareMetalHost::default(), HostMemory::default(), at(0), 0);
        seen.host.spec.bmc = Some(BmcDetails { address: "redfish://b/1".into(), ..BmcDetails::default() });
        seen.bmc.power = os.power;
        seen.instance.attempt = os.attempt;
        seen.instance.config_fetched_at = os.fetched.then(|| at(1));
        seen.instance.running_at = os.running.then(|| at(2));
        seen.instance.failed = os.failed.then(|| (at(1), "no such device".to_owned()));
        let memory = HostMemory { state, applied, ..HostMemory::default() };
        let found = super::running(&memory, &seen, at(3));
        assert_eq!((found.status, found.reason.as_str()), (status, reason), "{}", found.message);
    }
}
