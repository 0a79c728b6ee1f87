//! Each count by itself, read off a step that changes one thing.

use firesteel_facts::EventReason;
use firesteel_resources::BareMetalHost;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::host_journal::Claimant;

use super::*;
use crate::host::model::{
    AgentInputs, BmcCall, BmcFault, BmcOutcome, Claimants, CredentialsUsed, EventSeverity, HostReason, PendingCall,
    ReceiptFacts, ShownReceipt, ShownWrite, StepEvent,
};
use crate::host::turn::tests::{agent, at};

/// What was seen of a host in this state, and a step that changes nothing.
fn still(state: HostState) -> (HostInputs, HostStep) {
    let memory = HostMemory { state, attempt: 5, ..HostMemory::default() };
    let mut seen = HostInputs::new(BareMetalHost::default(), memory.clone(), at(-9), 0);
    let (plan, index, step) = (1, 1, "write-image".to_owned());
    let shows = ReceiptFacts::Written(ShownWrite { written_bytes: 2000, ..ShownWrite::default() });
    let written = ShownReceipt { plan, index, step, span: None, is_signed: true, shows };
    let other = ShownReceipt { shows: ReceiptFacts::Other, ..written.clone() };
    seen.agent = Some(AgentInputs { shown: vec![other, written], ..agent(0) });
    let (answers, reason) = (seen.answers.clone(), HostReason::new("it is so"));
    let step = HostStep { memory, answers, effects: Vec::new(), wake: None, reason, events: Vec::new() };
    (seen, step)
}

type Change = fn(&mut HostInputs, &mut HostStep);

fn check(state: &HostState, rows: &[(&str, Change, &[HostCount])]) {
    for (name, change, expected) in rows {
        let (mut seen, mut step) = still(state.clone());
        change(&mut seen, &mut step);
        assert_eq!(counted(&seen, &step), *expected, "{name}");
    }
}

fn claimed() -> Option<Claimants> {
    let first = Claimant::default();
    let (since, until) = (at(0), at(9));
    Some(Claimants { since, attempt: 5, first, others: Vec::new(), until, cut: None, person: None })
}

fn used(version: &str) -> Option<CredentialsUsed> {
    Some(CredentialsUsed { secret: "s".into(), version: version.into() })
}

fn failed(step: &mut HostStep, kind: ErrorType, count: u32) {
    let (message, inputs) = ("it failed".to_owned(), String::new());
    let failure = HostFailure { kind, message, count, at: at(0), retry_at: None, until_edit: false, inputs };
    step.memory.failure = Some(failure);
}

#[test]
fn what_begins_is_counted_once() {
    let rows: [(&str, Change, &[HostCount]); 13] = [
        ("nothing", |_, _| {}, &[]),
        ("the next boot", |_, step| step.memory.attempt = 6, &[HostCount::AttemptBegun]),
        ("an earlier boot", |_, step| step.memory.attempt = 4, &[]),
        ("a claim", |_, step| step.memory.claimants = claimed(), &[HostCount::SecondClaimant]),
        ("the same claim", |seen, step| (seen.memory.claimants, step.memory.claimants) = (claimed(), claimed()), &[]),
        ("the end of a claim", |seen, _| seen.memory.claimants = claimed(), &[]),
        ("a wait", |_, step| step.memory.delayed = Some(at(0)), &[HostCount::Delayed { deprovisioning: false }]),
        ("the same wait", |seen, step| (seen.memory.delayed, step.memory.delayed) = (Some(at(0)), Some(at(0))), &[]),
        ("the end of a wait", |seen, _| seen.memory.delayed = Some(at(0)), &[]),
        ("credentials", |_, step| step.memory.bmc.good_credentials = used("1"), &[]),
        ("none any more", |seen, _| seen.memory.bmc.good_credentials = used("1"), &[]),
        (
            "others",
            |seen, step| {
                (seen.memory.bmc.good_credentials, step.memory.bmc.good_credentials) = (used("1"), used("2"));
            },
            &[HostCount::CredentialsUpdated],
        ),
        (
            "the same",
            |seen, step| {
                (seen.memory.bmc.good_credentials, step.memory.bmc.good_credentials) = (used("1"), used("1"));
            },
            &[],
        ),
    ];
    check(&HostState::Provisioning, &rows);
}

#[test]
fn user_data_is_counted_where_it_is_what_an_installation_failed_for() {
    let rows: [(&str, Change, &[HostCount]); 3] = [
        (
            "a failure",
            |_, step| failed(step, ErrorType::Provisioning, 1),
            &[HostCount::Failed(ErrorType::Provisioning)],
        ),
        (
            "a failure for want of user data",
            |seen, step| {
                seen.user_data = UserDataInputs::Missing;
                failed(step, ErrorType::Provisioning, 1);
            },
            &[HostCount::Failed(ErrorType::Provisioning), HostCount::UserDataUnusable],
        ),
        (
            "another failure beside that",
            |seen, step| {
                seen.user_data = UserDataInputs::Invalid("bad".into());
                failed(step, ErrorType::PowerManagement, 1);
            },
            &[HostCount::Failed(ErrorType::PowerManagement)],
        ),
    ];
    check(&HostState::Provisioning, &rows);
}

#[test]
fn a_wait_to_be_cleaned_and_a_failure_once_more_are_counted() {
    let wait: Change = |_, step| step.memory.delayed = Some(at(0));
    check(&HostState::Deprovisioning, &[("a wait", wait, &[HostCount::Delayed { deprovisioning: true }])]);
    let again: Change = |seen, step| {
        failed(step, ErrorType::Inspection, 1);
        seen.memory.failure = step.memory.failure.clone();
        failed(step, ErrorType::Inspection, 2);
    };
    let same: Change = |seen, step| {
        failed(step, ErrorType::Inspection, 1);
        seen.memory.failure = step.memory.failure.clone();
    };
    let failure = &[HostCount::Failed(ErrorType::Inspection)][..];
    check(&HostState::Inspecting, &[("once more", again, failure), ("the same", same, &[])]);
}

#[test]
fn an_image_is_counted_when_its_host_is_provisioned() {
    use ProvisioningState as P;
    let written = HostCount::Written { bytes: 2000 };
    for (before, after, word, expected) in [
        (HostState::Provisioning, HostState::Provisioned, (P::Provisioning, P::Provisioned), Some(written)),
        (HostState::Provisioning, HostState::Deprovisioning, (P::Provisioning, P::Deprovisioning), None),
        (HostState::ExternallyProvisioned, HostState::Provisioned, (P::ExternallyProvisioned, P::Provisioned), None),
    ] {
        let (seen, mut step) = still(before);
        step.memory.state = after;
        let changed = HostCount::StateChanged { from: word.0, to: word.1 };
        let counts: Vec<HostCount> = std::iter::once(changed).chain(expected).collect();
        assert_eq!(counted(&seen, &step), counts);
    }
}

#[test]
fn an_outcome_is_counted_by_the_step_that_takes_it() {
    let (on, off) = (HostCount::PowerOrdered { on: true }, HostCount::PowerOrdered { on: false });
    let (no_access, refused) = (HostCount::NoManagementAccess, HostCount::LoginRefused);
    let fault = |kind| Err(BmcFault { kind, message: "no".into() });
    for (action, ended, awaited, result, expected) in [
        (BmcAction::NetBoot, 7, None, Ok(()), vec![on.clone()]),
        (BmcAction::NetBoot, 7, Some(8), Ok(()), vec![on.clone()]),
        (BmcAction::NetBoot, 7, Some(7), Ok(()), vec![]),
        (BmcAction::NetBoot, 6, None, Ok(()), vec![]),
        (BmcAction::NetBoot, 6, Some(7), Ok(()), vec![]),
        (BmcAction::PowerOn, 7, None, Ok(()), vec![on.clone()]),
        (BmcAction::Cycle, 7, None, Ok(()), vec![on]),
        (BmcAction::PowerOff { hard: true }, 7, None, Ok(()), vec![off.clone()]),
        (BmcAction::PowerOff { hard: false }, 7, None, Ok(()), vec![off]),
        (BmcAction::Probe, 7, None, Ok(()), vec![]),
        (BmcAction::Probe, 7, None, fault(BmcFaultKind::Unreachable), vec![no_access.clone()]),
        (BmcAction::Probe, 7, None, fault(BmcFaultKind::Credentials), vec![no_access, refused]),
        (BmcAction::Probe, 7, None, fault(BmcFaultKind::Refused), vec![]),
    ] {
        let (mut seen, mut step) = still(HostState::Available);
        let call = |ticket| PendingCall { call: BmcCall { ticket, action }, asked_at: at(-9), inputs: String::new() };
        seen.memory.bmc.call = Some(call(7));
        step.memory.bmc.call = awaited.map(call);
        seen.bmc.last = Some(BmcOutcome { ticket: ended, at: at(-1), result });
        assert_eq!(counted(&seen, &step), expected, "{action:?} {ended} {awaited:?}");
    }
}

#[test]
fn a_deletion_is_counted_by_what_it_goes_without_and_while_it_is_held_up() {
    let changed = |from: &HostState, to: &HostState| HostCount::StateChanged { from: from.word(), to: to.word() };
    for (before, after, is_dirty, is_released) in [
        (HostState::Available, HostState::Deleting, true, true),
        (HostState::Available, HostState::Deleting, false, false),
        (HostState::Available, HostState::PoweringOff, true, false),
        (HostState::Deleting, HostState::Deleting, true, false),
    ] {
        let (seen, mut step) = still(before.clone());
        (step.memory.state, step.memory.disk_dirty) = (after.clone(), is_dirty);
        let expected: Vec<HostCount> =
            [(before != after).then(|| changed(&before, &after)), is_released.then_some(HostCount::ReleasedUncleaned)]
                .into_iter()
                .flatten()
                .collect();
        assert_eq!(counted(&seen, &step), expected, "{before:?} {after:?}");
    }
    let (plain, delay) = ("", r#"{"deleteAction":"delay"}"#);
    for (is_deleted, detached, state, is_delayed) in [
        (true, Some(delay), HostState::Provisioned, true),
        (true, Some(delay), HostState::PoweringOff, false),
        (true, Some(delay), HostState::Deleting, false),
        (true, Some(plain), HostState::Provisioned, false),
        (true, None, HostState::Provisioned, false),
        (false, Some(delay), HostState::Provisioned, false),
    ] {
        let (mut seen, step) = still(state.clone());
        seen.host.metadata.deletion_timestamp = is_deleted.then(|| at(-1));
        if let Some(detached) = detached {
            seen.host.metadata.annotations.insert(annotations::DETACHED.into(), detached.into());
        }
        let expected = if is_delayed { vec![HostCount::DeletionDelayed] } else { Vec::new() };
        assert_eq!(counted(&seen, &step), expected, "{is_deleted} {detached:?} {state:?}");
    }
    let event = |reason| StepEvent { kind: EventSeverity::Warning, reason, message: String::new() };
    for (reason, expected) in [
        (EventReason::DeprovisioningGaveUp, vec![HostCount::GaveUpCleaning]),
        (EventReason::PowerOffGaveUp, vec![HostCount::GaveUpPowerOff]),
        (EventReason::Registered, vec![]),
    ] {
        let (seen, mut step) = still(HostState::PoweringOff);
        step.events = vec![event(reason)];
        assert_eq!(counted(&seen, &step), expected, "{reason:?}");
    }
}
