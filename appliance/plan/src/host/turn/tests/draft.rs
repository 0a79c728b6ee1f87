//! Deadlines, the end of a step, plans, names and words.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::host_journal::{RequestAnswer, RequestOutcome};

use super::{at, draft, erase, in_state, issued, secs, seen};
use crate::host::model::{
    CredentialsInputs, Frozen, FrozenWhy, HeldPlan, HostEffect, HostMemory, HostReason, HostState, NetworkDataInputs,
    PlanKind, RebootWork, UserDataInputs,
};
use crate::host::turn::{format_duration, history};

#[test]
fn a_stored_deadline_moves_ahead_by_a_minute_at_least_and_back_at_once() {
    for (stored, wanted, expected) in [
        (None, 100, 100),
        (Some(100), 99, 99),
        (Some(100), 100, 100),
        (Some(100), 130, 100),
        (Some(100), 159, 100),
        (Some(100), 160, 160),
        (Some(100), 161, 161),
    ] {
        let memory = HostMemory { deadline: stored.map(at), ..in_state(HostState::Provisioning) };
        let seen = seen(memory);
        let mut turn = draft(&seen);
        turn.deadline(at(wanted));
        assert_eq!(turn.memory.deadline, Some(at(expected)), "{stored:?} {wanted}");
    }
}

/// What the handler asks for, as seconds from now: a look, and a deadline.
type Asked = (Option<i64>, Option<i64>);

#[test]
fn a_state_that_works_ends_its_step_with_a_deadline_and_looks_at_it() {
    use HostState::{Available, Deleting, Preparing};
    let stall = 1800;
    for (name, state, is_detached, stored, (wake, wanted), deadline, woken) in [
        ("at first", Preparing, false, None, (None, None) as Asked, Some(stall), Some(stall)),
        ("ahead", Preparing, false, Some(100), (None, None), Some(100), Some(100)),
        ("reached", Preparing, false, Some(0), (None, None), Some(stall), Some(stall)),
        ("past, and the handler says so", Preparing, false, None, (None, Some(-5)), Some(-5), Some(1)),
        ("a look before it", Preparing, false, Some(100), (Some(50), None), Some(100), Some(50)),
        ("a look after it", Preparing, false, Some(100), (Some(200), None), Some(100), Some(100)),
        ("a look when it is past", Preparing, false, None, (Some(30), Some(-5)), Some(-5), Some(1)),
        ("a look that is late", Preparing, false, Some(100), (Some(-3), None), Some(100), Some(0)),
        ("at rest", Available, false, Some(100), (None, None), None, None),
        ("at rest with a look", Available, false, Some(100), (Some(60), None), None, Some(60)),
        ("detached", Preparing, true, Some(100), (None, None), None, None),
        ("detached and deleted", Deleting, true, None, (None, None), Some(stall), Some(stall)),
        ("deleted", Deleting, false, None, (None, None), Some(stall), Some(stall)),
    ] {
        let detached = is_detached.then(|| at(-1));
        let seen = seen(HostMemory { deadline: stored.map(at), detached, ..in_state(state) });
        let mut turn = draft(&seen);
        if let Some(wanted) = wanted {
            turn.deadline(at(wanted));
        }
        let reason = match wake {
            Some(wake) => turn.wait_in_state(secs(wake), "it waits"),
            None => turn.rest("it rests"),
        };
        let step = turn.finish(reason);
        assert_eq!((step.memory.deadline, step.wake), (deadline.map(at), woken.map(secs)), "{name}");
    }
}

#[test]
fn a_paused_host_keeps_its_memory_and_wakes_for_nothing() {
    let mut seen = seen(HostMemory { deadline: Some(at(-9)), ..in_state(HostState::Preparing) });
    seen.host.metadata.annotations.insert(annotations::PAUSED.into(), "ann".into());
    let mut turn = draft(&seen);
    turn.effect(HostEffect::AddFinalizer);
    turn.event(EventReason::Registered, "an event");
    let _waits = turn.wait_in_state(secs(5), "it waits");
    let step = turn.finish(HostReason::new("paused"));
    assert_eq!((step.memory, step.wake), (seen.memory.clone(), None));
    assert!(step.effects.is_empty() && step.events.is_empty());
}

#[test]
fn a_look_is_the_earliest_that_was_asked_for() {
    for (before, by, woken) in [(None, 30, 30), (Some(60), 30, 30), (Some(10), 30, 10), (Some(10), -5, 0)] {
        let seen = seen(in_state(HostState::Available));
        let mut turn = draft(&seen);
        if let Some(before) = before {
            let _waits = turn.wait_in_state(secs(before), "it waits");
        }
        turn.wake_by(at(by));
        assert_eq!(turn.finish(HostReason::new("")).wake, Some(secs(woken)), "{before:?} {by}");
    }
}

#[test]
fn a_deletion_waits_for_a_host_that_was_detached_for_it() {
    let (plain, delay) = ("", r#"{"deleteAction":"delay"}"#);
    for (is_deleted, detached, state, expected) in [
        (false, None, HostState::Provisioned, false),
        (true, None, HostState::Provisioned, true),
        (true, Some(plain), HostState::Provisioned, true),
        (true, Some(delay), HostState::Provisioned, false),
        (true, Some(delay), HostState::PoweringOff, true),
        (true, Some(delay), HostState::Deleting, true),
        (false, Some(delay), HostState::Deleting, false),
    ] {
        let mut seen = seen(in_state(state.clone()));
        seen.host.metadata.deletion_timestamp = is_deleted.then(|| at(-1));
        if let Some(detached) = detached {
            seen.host.metadata.annotations.insert(annotations::DETACHED.into(), detached.into());
        }
        assert_eq!(draft(&seen).is_deleting(), expected, "{is_deleted} {detached:?} {state:?}");
    }
}

/// Stored failures are compared with it: the form stays.
#[test]
fn what_a_step_is_fed_with_is_one_line() {
    use CredentialsInputs as C;
    use NetworkDataInputs as N;
    use UserDataInputs as U;
    let ready = || C::Ready { version: "7".into() };
    let data = U::Ready { sha256: "digest".into(), configs: Vec::new() };
    for (credentials, user_data, network_data, expected) in [
        (C::Missing, U::NotReferenced, N::NotReferenced, "1/missing/none"),
        (C::Empty, U::Missing, N::NotReferenced, "1/empty/missing"),
        (ready(), U::Invalid("bad".into()), N::NotReferenced, "1/7/bad"),
        (ready(), data.clone(), N::Missing, "1/7/digest/missing"),
        (ready(), data.clone(), N::Invalid("wrong".into()), "1/7/digest/wrong"),
        (ready(), data, N::Ready { version: "9".into() }, "1/7/digest/9"),
    ] {
        let mut seen = seen(in_state(HostState::Available));
        (seen.credentials, seen.user_data, seen.network_data) = (credentials, user_data, network_data);
        assert_eq!(draft(&seen).inputs(), expected);
    }
}

#[test]
fn a_plan_is_numbered_when_it_is_new_and_said_once_a_step() {
    let held = Some(HeldPlan { since: at(-9), until: None });
    let mut seen = seen(HostMemory { plan_number: 3, held, ..in_state(HostState::Preparing) });
    let mut turn = draft(&seen);
    turn.issue_again();
    turn.issue(erase());
    turn.issue_again();
    let step = turn.finish(HostReason::new(""));
    let effect = |number, plan| HostEffect::IssuePlan { attempt: 5, number, plan };
    assert_eq!(step.effects, [effect(4, erase())]);
    assert_eq!((step.memory.plan_number, step.memory.held.clone()), (4, None));
    assert_eq!(step.memory.changed_disks.len(), 1, "its disk is not as it was inspected");

    seen.memory = step.memory;
    for number in [5, 5] {
        let mut turn = draft(&seen);
        turn.issue_power_off();
        let step = turn.finish(HostReason::new(""));
        assert_eq!(step.effects, [effect(number, PlanKind::PowerOff)]);
        seen.memory = step.memory;
    }
}

#[test]
fn a_new_guid_is_of_version_4_and_has_all_other_bits_of_the_entropy() {
    for (entropy, expected) in [
        (0, "00000000-0000-4000-8000-000000000000"),
        (u128::MAX, "ffffffff-ffff-4fff-bfff-ffffffffffff"),
        (0x0123_4567_89ab_cdef_0123_4567_89ab_cdef, "01234567-89ab-4def-8123-456789abcdef"),
    ] {
        let mut seen = seen(HostMemory::default());
        seen.entropy = entropy;
        assert_eq!(draft(&seen).guid(), expected);
    }
}

#[test]
fn durations_are_in_the_unit_that_people_use() {
    for (seconds, expected) in [
        (-1, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (149, "2 min"),
        (150, "3 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (8999, "2 h"),
        (9000, "3 h"),
    ] {
        assert_eq!(format_duration(secs(seconds)), expected);
    }
}

#[test]
fn a_reboot_that_was_accepted_is_refused_when_the_host_goes_elsewhere() {
    let reboot = Some(RebootWork { hard: true, down: false });
    let mut seen = seen(HostMemory { reboot, ..in_state(HostState::Provisioned) });
    let accepted = RequestAnswer::new(annotations::REBOOT, "v", RequestOutcome::Accepted, "on again", at(-5));
    seen.host.metadata.annotations.insert(annotations::REBOOT.into(), "v".into());
    seen.answers.record(RequestAnswer { pending_removal: true, ..accepted });
    let mut turn = draft(&seen);
    let reason = turn.go(HostState::Deprovisioning, "the image is gone");
    let step = turn.finish(reason);
    let answer = step.answers.of(annotations::REBOOT).unwrap();
    assert_eq!(answer.message, "the host was not rebooted: the host goes to deprovisioning");
    assert_eq!((answer.outcome, answer.number, step.memory.reboot), (RequestOutcome::Refused, 2, None));
    assert!(step.answers.is_pending(annotations::REBOOT, "v"), "what is still there is not taken again");
    // What is refused is settled: nothing more comes of it.
    seen.answers = step.answers;
    let mut turn = draft(&seen);
    turn.conclude(annotations::REBOOT, RequestOutcome::Done, "the host was rebooted");
    assert_eq!(turn.finish(HostReason::new("")).answers.newest_number(), 2);
}

#[test]
fn an_answer_names_what_is_in_the_way_of_the_disks() {
    let frozen = Frozen {
        why: FrozenWhy::Unread,
        disk: "sda".into(),
        guid: String::new(),
        message: "sda gives an error".into(),
        since: at(-1),
    };
    let lock = "locked by its owner (audit): no disk of the host is cleaned or written until `firesteel unlock a`";
    for (is_locked, is_frozen, expected) in [
        (false, false, "done".to_owned()),
        (true, false, format!("done; its disks wait: {lock}")),
        (false, true, "done; the host is frozen: sda gives an error".to_owned()),
        (true, true, format!("done; its disks wait: {lock}; the host is frozen: sda gives an error")),
    ] {
        let frozen = is_frozen.then(|| frozen.clone());
        let mut seen = seen(HostMemory { frozen, ..in_state(HostState::Available) });
        if is_locked {
            seen.host.metadata.annotations.insert(annotations::LOCK.into(), "audit".into());
        }
        assert_eq!(draft(&seen).with_obstacles("done"), expected);
    }
}

#[test]
fn an_operation_has_one_beginning_and_one_end() {
    let mut memory = in_state(HostState::Inspecting);
    let shown = |memory: &HostMemory| (memory.history.inspect.start, memory.history.inspect.end);
    history::end(&mut memory, at(1));
    assert_eq!(shown(&memory), (None, None), "what has not begun does not end");
    for (begins, second, start, end) in [
        (true, 2, 2, None),
        (true, 3, 2, None),
        (false, 4, 2, Some(4)),
        (false, 5, 2, Some(4)),
        (true, 6, 6, None),
        (false, 7, 6, Some(7)),
    ] {
        if begins {
            history::begin(&mut memory, at(second))
        } else {
            history::end(&mut memory, at(second))
        }
        assert_eq!(shown(&memory), (Some(at(start)), end.map(at)), "{second}");
    }
    memory.state = HostState::Available;
    let before = memory.history.clone();
    history::begin(&mut memory, at(8));
    history::end(&mut memory, at(9));
    assert_eq!(memory.history, before, "a host that rests is at no operation");
    assert!(issued(1, PlanKind::Inspect).disks().is_empty());
}
