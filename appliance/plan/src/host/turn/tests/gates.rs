//! What keeps a host's disks from being changed: a lock, a freeze, and what a shut gate leaves behind.

use firesteel_facts::EventReason;
use firesteel_resources::HardwareRecord;
use firesteel_resources::bare_metal_host::{ErrorType, annotations};

use super::{at, draft, erase, in_state, issued, secs, seen};
use crate::host::model::{
    Frozen, FrozenWhy, HeldPlan, HostFailure, HostInputs, HostMemory, HostReason, HostState, PlanKind, StepEvent,
};
use crate::host::turn::{StepDraft, frozen, gate};

fn locked(memory: HostMemory) -> HostInputs {
    let mut seen = seen(memory);
    seen.host.metadata.annotations.insert(annotations::LOCK.into(), "audit".into());
    seen
}

fn events(turn: StepDraft<'_>) -> Vec<EventReason> {
    let reason = |event: &StepEvent| event.reason;
    turn.finish(HostReason::new("")).events.iter().map(reason).collect()
}

const LOCKED: &str =
    "locked by its owner (audit): no disk of the host is cleaned or written until `firesteel unlock a`";

#[test]
fn a_lock_holds_back_plans_that_destroy_and_no_others() {
    for (plan, is_held) in [(Some(erase()), true), (Some(PlanKind::Inspect), false), (None, false)] {
        let memory = HostMemory { plan: plan.map(|plan| issued(1, plan)), ..in_state(HostState::Preparing) };
        assert_eq!(gate::holds_back(&locked(memory.clone()), &memory), is_held, "{:?}", memory.plan);
        assert!(!gate::holds_back(&seen(memory.clone()), &memory), "{:?}", memory.plan);
    }
}

#[test]
fn an_obstacle_behind_a_shut_gate_is_looked_at_again_unless_the_host_rests() {
    for (state, is_deleted, retry_at, is_kept) in [
        (HostState::Provisioning, false, None, false),
        (HostState::Provisioning, false, Some(60), true),
        (HostState::Provisioning, true, Some(60), true),
        (HostState::Available, false, None, true),
        (HostState::Available, true, None, false),
        (HostState::Available, true, Some(60), true),
    ] {
        let failure = HostFailure {
            kind: ErrorType::Provisioning,
            message: "no disk matches".into(),
            count: 1,
            at: at(-9),
            retry_at: retry_at.map(at),
            until_edit: false,
            inputs: String::new(),
        };
        let mut seen = locked(HostMemory { failure: Some(failure), ..in_state(state.clone()) });
        seen.host.metadata.deletion_timestamp = is_deleted.then(|| at(-1));
        let mut turn = draft(&seen);
        let reason = gate::may_destroy(&mut turn, ErrorType::Provisioning).unwrap_err();
        assert_eq!((reason.text.as_str(), turn.is_shut), (LOCKED, true));
        assert_eq!(turn.memory.failure.is_some(), is_kept, "{state:?} {is_deleted} {retry_at:?}");
        assert_eq!((turn.memory.deadline, turn.memory.held.clone()), (Some(at(1800)), held(0, None)));
        assert_eq!(turn.finish(reason).wake, Some(secs(60)));
    }
}

type May = fn(&mut StepDraft<'_>) -> Result<(), HostReason>;

#[test]
fn a_host_is_not_taken_towards_a_change_that_is_not_made() {
    let frozen = Frozen {
        why: FrozenWhy::Unread,
        disk: "sda".into(),
        guid: String::new(),
        message: "sda gives an error".into(),
        since: at(-1),
    };
    for (is_locked, is_frozen, towards, from_rest, change) in [
        (false, false, None, None, None),
        (true, false, Some(LOCKED), Some(LOCKED), Some(LOCKED)),
        (false, true, Some("sda gives an error"), None, Some("sda gives an error")),
        (true, true, Some(LOCKED), Some(LOCKED), Some("sda gives an error")),
    ] {
        let frozen = is_frozen.then(|| frozen.clone());
        let memory = HostMemory { frozen, ..in_state(HostState::Provisioning) };
        let mut seen = if is_locked { locked(memory) } else { seen(memory) };
        seen.hardware = Some(HardwareRecord::default());
        let asked: [May; 3] = [
            |turn| gate::may_go_on(turn, ErrorType::Provisioning),
            gate::wait_while_locked,
            |turn| gate::may_destroy(turn, ErrorType::Provisioning),
        ];
        let said = asked.map(|may| may(&mut draft(&seen)).err().map(|reason| reason.text));
        let expected = [towards, from_rest, change].map(|text| text.map(str::to_owned));
        assert_eq!(said, expected, "{is_locked} {is_frozen}");
    }
}

/// A machine that is slower than others has limits of its own.
#[test]
fn the_limits_of_a_step_are_those_in_force() {
    let mut seen = locked(in_state(HostState::Provisioning));
    (seen.limits.stall, seen.limits.slot_poll) = (secs(7000), secs(90));
    let mut turn = draft(&seen);
    let reason = gate::wait_while_locked(&mut turn).unwrap_err();
    let step = turn.finish(reason);
    assert_eq!((step.memory.deadline, step.wake), (Some(at(7000)), Some(secs(90))));
}

fn held(since: i64, until: Option<i64>) -> Option<HeldPlan> {
    Some(HeldPlan { since: at(since), until: until.map(at) })
}

#[test]
fn a_hold_and_its_end_are_said_once_each() {
    use EventReason::{Locked, Released};
    for (is_locked, plan, before, after, said) in [
        (true, erase(), None, held(0, None), vec![Locked]),
        (true, erase(), held(-9, None), held(-9, None), vec![]),
        (true, erase(), held(-9, Some(-5)), held(0, None), vec![Locked]),
        (false, erase(), held(-9, None), held(-9, Some(0)), vec![Released]),
        (false, erase(), held(-9, Some(-5)), held(-9, Some(-5)), vec![]),
        (false, erase(), None, None, vec![]),
        (true, PlanKind::Inspect, None, None, vec![]),
    ] {
        let is_shut = is_locked && plan.destroys();
        let plan = Some(issued(1, plan));
        let memory = HostMemory { plan, held: before.clone(), ..in_state(HostState::Preparing) };
        let seen = if is_locked { locked(memory) } else { seen(memory) };
        let mut turn = draft(&seen);
        let found = gate::holds(&mut turn).map(|shut| (shut.by, shut.text));
        assert_eq!(found, is_shut.then(|| (gate::GateCloser::Lock, LOCKED.to_owned())), "{is_locked} {before:?}");
        assert_eq!(turn.memory.held, after, "{is_locked} {before:?}");
        assert_eq!(events(turn), said, "{is_locked} {before:?}");
    }
}

#[test]
fn progress_is_missed_from_the_plan_on_or_from_the_end_of_a_hold() {
    let plan = issued(1, erase());
    for (issued, held, since) in [
        (Some(&plan), None, -50),
        (Some(&plan), held(-40, None), -50),
        (Some(&plan), held(-40, Some(-20)), -20),
        (Some(&plan), held(-90, Some(-80)), -50),
        (None, None, 0),
        (None, held(-90, Some(-80)), 0),
    ] {
        let seen = seen(HostMemory { held: held.clone(), ..in_state(HostState::Preparing) });
        assert_eq!(gate::free_since(&draft(&seen), issued), at(since), "{held:?}");
    }
}

#[test]
fn a_frozen_host_goes_on_to_its_next_inspection_alone() {
    let frozen = Frozen {
        why: FrozenWhy::NewerThanStore,
        disk: "sda".into(),
        guid: "g".into(),
        message: "sda is newer".into(),
        since: at(-100),
    };
    for (inspected, retried, is_retried) in [
        (None, None, true),
        (Some(-100), None, false),
        (Some(-100), Some(-101), false),
        (Some(-100), Some(-100), false),
        (Some(-100), Some(-99), true),
    ] {
        let memory = HostMemory { retried_at: retried.map(at), ..in_state(HostState::Deprovisioning) };
        let mut seen = seen(HostMemory { frozen: Some(frozen.clone()), ..memory });
        let record = |second| HardwareRecord { inspected_at: at(second), ..HardwareRecord::default() };
        seen.hardware = inspected.map(record);
        for is_deleted in [false, true] {
            seen.host.metadata.deletion_timestamp = is_deleted.then(|| at(-1));
            let release = "; `firesteel release a --force` lets the host go and its disks as they are";
            let text = if is_deleted { format!("sda is newer{release}") } else { "sda is newer".to_owned() };
            let mut turn = draft(&seen);
            assert_eq!(frozen::is_retried(&turn), is_retried, "{inspected:?} {retried:?}");
            let said = frozen::may_go_on(&mut turn, ErrorType::Provisioning).err().map(|reason| reason.text);
            assert_eq!(said, (!is_retried).then(|| text.clone()), "{inspected:?} {retried:?}");
            let said = gate::may_destroy(&mut turn, ErrorType::Provisioning).err().map(|reason| reason.text);
            assert_eq!(said, Some(text));
        }
    }
}
