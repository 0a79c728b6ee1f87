//! What is noted of a failure, and when the next try may be.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::ErrorType;

use super::{at, draft, in_state, secs, seen};
use crate::host::model::{EventSeverity, HostFailure, HostMemory, HostReason, HostState};

fn failure(message: &str, count: u32) -> HostFailure {
    HostFailure {
        kind: ErrorType::Inspection,
        message: message.into(),
        count,
        at: at(-10),
        retry_at: None,
        until_edit: false,
        inputs: "1/1/none".into(),
    }
}

fn failed(failure: HostFailure) -> HostMemory {
    HostMemory { failure: Some(failure), ..in_state(HostState::Inspecting) }
}

#[test]
fn each_failure_of_a_kind_counts_and_waits_longer() {
    for (kind, before, count, delay) in [
        (ErrorType::Inspection, None, 1, 120),
        (ErrorType::Inspection, Some(1), 2, 240),
        (ErrorType::Inspection, Some(3), 4, 960),
        (ErrorType::Provisioning, Some(3), 1, 120),
    ] {
        let memory = before.map_or_else(|| in_state(HostState::Inspecting), |count| failed(failure("old", count)));
        let seen = seen(memory);
        let mut turn = draft(&seen);
        let reason = turn.fail(kind, "no sysfs");
        let step = turn.finish(reason);
        let noted = HostFailure { kind, at: at(0), retry_at: Some(at(delay)), ..failure("no sysfs", count) };
        assert_eq!((step.memory.failure, step.wake), (Some(noted), Some(secs(delay))));
        assert_eq!(step.reason.text, format!("no sysfs; trying again at {:.0}", at(delay)));
        let said: Vec<_> = step.events.iter().map(|event| (event.kind, event.message.as_str())).collect();
        assert_eq!(said, [(EventSeverity::Warning, "no sysfs")]);
    }
}

#[test]
fn an_obstacle_counts_once_for_as_long_as_it_is_the_same() {
    use ErrorType::{Inspection, Provisioning};
    for (kind, message, before, is_new, count) in [
        (Inspection, "a lock", None, true, 1),
        (Inspection, "a lock", Some(("a lock", 3)), false, 3),
        (Inspection, "a lock", Some(("a key", 3)), true, 3),
        (Inspection, "a lock", Some(("a key", 0)), true, 1),
        (Provisioning, "a lock", Some(("a lock", 3)), true, 1),
        (Provisioning, "a lock", Some(("a key", 3)), true, 1),
    ] {
        let memory = match before {
            None => in_state(HostState::Inspecting),
            Some((message, count)) => failed(failure(message, count)),
        };
        let seen = seen(memory);
        for wake in [None, Some(secs(10))] {
            let mut turn = draft(&seen);
            let reason = match wake {
                None => turn.stuck(kind, message),
                Some(wake) => turn.blocked(kind, wake, message),
            };
            let step = turn.finish(reason);
            let old = seen.memory.failure.clone();
            let noted = HostFailure { kind, at: at(0), until_edit: wake.is_none(), ..failure(message, count) };
            let expected = if is_new { Some(noted) } else { old };
            assert_eq!(step.memory.failure, expected, "{message} after {before:?}");
            assert_eq!(step.events.len(), usize::from(is_new), "{message} after {before:?}");
            assert_eq!((step.memory.deadline, step.wake), (Some(at(1800)), wake.or(Some(secs(1800)))));
            assert_eq!(step.reason.text, message);
        }
    }
}

#[test]
fn missing_credentials_have_upstreams_event_whatever_the_state() {
    let seen = seen(in_state(HostState::Registering));
    let mut turn = draft(&seen);
    let reason = turn.no_credentials(ErrorType::Registration, "no Secret", Some(secs(10)));
    let step = turn.finish(reason);
    assert_eq!(step.events[0].reason, EventReason::BmcCredentialError);
    assert_eq!((step.memory.failure.unwrap().until_edit, step.wake), (false, Some(secs(10))));
}

#[test]
fn a_step_is_tried_again_at_its_time_or_after_an_edit() {
    let retried = |second| HostFailure { retry_at: Some(at(second)), ..failure("no sysfs", 1) };
    let edited = HostFailure { inputs: "0/1/none".into(), until_edit: true, ..failure("no sysfs", 1) };
    let awaited = HostFailure { until_edit: true, ..failure("no sysfs", 1) };
    let again = format!("no sysfs; trying again at {:.0}", at(60));
    for (name, before, waits, is_kept) in [
        ("no failure", None, None, false),
        ("an edit", Some(edited), None, false),
        ("an edit is awaited", Some(awaited), Some("no sysfs".to_owned()), true),
        ("later", Some(retried(60)), Some(again), true),
        ("now", Some(retried(0)), None, true),
        ("by a clock that was ahead", Some(retried(1801)), None, true),
        ("an obstacle", Some(failure("a lock", 1)), None, true),
    ] {
        let seen = seen(HostMemory { failure: before, ..in_state(HostState::Inspecting) });
        let mut turn = draft(&seen);
        let said = turn.may_try().err().map(|reason| reason.text);
        assert_eq!((said, turn.memory.failure.is_some()), (waits, is_kept), "{name}");
    }
}

#[test]
fn an_obstacle_that_stays_for_more_than_half_an_hour_is_in_the_way_of_a_deletion() {
    type Change = fn(&mut HostMemory, &mut Option<jiff::Timestamp>);
    let rows: [(&str, Change, bool); 7] = [
        ("for 1801 s", |_, _| {}, true),
        ("for 1800 s", |memory, _| memory.failure.as_mut().unwrap().at = at(-1800), false),
        ("the deletion is younger", |_, deleted| *deleted = Some(at(-1800)), false),
        ("the state is younger", |memory, _| memory.since = at(-1800), false),
        ("it is tried again", |memory, _| memory.failure.as_mut().unwrap().retry_at = Some(at(9)), false),
        ("it is another one", |memory, _| memory.failure.as_mut().unwrap().message = "a key".into(), false),
        ("the host stays", |_, deleted| *deleted = None, false),
    ];
    for (name, change, expected) in rows {
        let mut memory = failed(HostFailure { at: at(-1801), ..failure("a lock", 1) });
        memory.since = at(-9000);
        let mut deleted = Some(at(-9000));
        change(&mut memory, &mut deleted);
        let mut seen = seen(memory);
        seen.host.metadata.deletion_timestamp = deleted;
        assert_eq!(draft(&seen).is_obstructed(&HostReason::new("a lock")), expected, "{name}");
    }
    let mut seen = seen(in_state(HostState::Inspecting));
    seen.host.metadata.deletion_timestamp = Some(at(-9000));
    assert!(!draft(&seen).is_obstructed(&HostReason::new("a lock")), "nothing failed");
}
