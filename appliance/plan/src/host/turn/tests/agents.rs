//! The agent of the current attempt, its receipts, and the slot that its host takes and gives back.

use firesteel_resources::bare_metal_host::ErrorType;

use super::{agent, at, draft, erase, in_state, issued, seen};
use crate::admission::SlotOffer;
use crate::disk::{CleaningMethod, CleaningProof, DiskIdentity, Grade};
use crate::host::model::{
    AgentInputs, AgentWork, BootWait, HeldSlot, HostFailure, HostInputs, HostMemory, HostState, PlanKind, WritePlanRef,
};
use crate::host::turn::{AgentPresence, slot};

fn with_plan(plan: Option<PlanKind>) -> HostInputs {
    let plan = plan.map(|plan| issued(1, plan));
    seen(HostMemory { plan, ..in_state(HostState::Provisioning) })
}

#[test]
fn an_agent_is_there_for_as_long_as_its_plan_lets_it_be_silent() {
    use AgentPresence::{Absent, Alive, Gone, Quiet};
    let busy = |heard| AgentInputs { cannot_stop: Some("sanitize".into()), ..agent(heard) };
    let retried = Some(at(-301));
    let (inspect, erase) = (Some(PlanKind::Inspect), Some(erase()));
    for (name, agent, plan, retried_at, expected) in [
        ("at the limit", Some(agent(300)), inspect.clone(), None, Alive),
        ("beyond it", Some(agent(301)), inspect.clone(), None, Quiet),
        ("without a plan", Some(agent(301)), None, None, Quiet),
        ("erasing", Some(agent(301)), erase.clone(), None, Alive),
        ("erasing, at the limit", Some(agent(3600)), erase.clone(), None, Alive),
        ("erasing, beyond it", Some(agent(3601)), erase.clone(), None, Quiet),
        ("erasing, and a person tries again later", Some(agent(302)), erase.clone(), retried, Quiet),
        ("erasing, and a person tried again as it was heard", Some(agent(301)), erase.clone(), retried, Alive),
        ("erasing, and a person tried again before", Some(agent(300)), erase.clone(), Some(at(-9000)), Alive),
        ("a drive is at work", Some(busy(301)), inspect.clone(), None, Alive),
        ("left", Some(AgentInputs { left: true, ..agent(0) }), inspect.clone(), None, Gone),
        ("booted again", Some(AgentInputs { rebooted: true, ..agent(0) }), inspect.clone(), None, Gone),
        ("of another attempt", Some(AgentInputs { attempt: 4, ..agent(0) }), inspect.clone(), None, Absent),
        ("none", None, inspect, None, Absent),
    ] {
        let mut seen = with_plan(plan);
        seen.memory.retried_at = retried_at;
        seen.agent = agent;
        assert!(draft(&seen).presence() == expected, "{name}");
    }
}

#[test]
fn an_appliance_that_starts_hears_its_agents_from_then_on() {
    for (started, expected) in [(300, AgentPresence::Alive), (301, AgentPresence::Quiet)] {
        let mut seen = with_plan(Some(PlanKind::Inspect));
        (seen.agent, seen.started_at) = (Some(agent(9000)), at(-started));
        assert!(draft(&seen).presence() == expected, "{started}");
    }
}

#[test]
fn an_attempt_that_is_over_without_a_hello_is_gone() {
    for (spent, is_spent) in [(None, false), (Some(4), false), (Some(5), true)] {
        let mut seen = with_plan(None);
        seen.spent_attempt = spent;
        let turn = draft(&seen);
        let expected = if is_spent { AgentPresence::Gone } else { AgentPresence::Absent };
        assert!(turn.is_spent() == is_spent && turn.presence() == expected, "{spent:?}");
    }
}

#[test]
fn a_wait_for_a_drive_says_when_its_agent_is_not_heard_any_more() {
    let text = "the host is neither reset nor switched off, because a drive cannot be interrupted without harm: sanitize; \
                waiting for its end";
    let silent = |heard: i64| {
        format!("{text}; its agent was not heard since {:.0}: `firesteel retry` ends the wait", at(-heard))
    };
    let longest = 762 * 60;
    for (heard, expected) in
        [(300, Some(text.to_owned())), (301, Some(silent(301))), (longest, Some(silent(longest))), (longest + 1, None)]
    {
        let mut seen = with_plan(None);
        // It counts whatever its attempt.
        seen.agent = Some(AgentInputs { attempt: 3, cannot_stop: Some("sanitize".into()), ..agent(heard) });
        let mut turn = draft(&seen);
        assert_eq!(turn.spare_drive().err().map(|reason| reason.text), expected, "{heard}");
        assert_eq!(turn.memory.deadline, expected.map(|_| at(1800)));
    }
    let seen = with_plan(None);
    assert!(draft(&seen).spare_drive().is_ok(), "there is no agent");
}

#[test]
fn a_plan_is_over_when_it_ended_or_its_agent_is_gone() {
    let running = AgentWork::Running { step: "erase-disk".into(), activity: String::new(), percent: 1 };
    let failed = AgentWork::Failed { step: "erase-disk".into(), message: "bad".into(), disk_changed: true };
    for (name, plan, work, left, is_over) in [
        ("done", 1, AgentWork::Done, false, true),
        ("failed", 1, failed, false, true),
        ("running", 1, running.clone(), false, false),
        ("running when it left", 1, running, true, true),
        ("not begun", 1, AgentWork::Idle, false, false),
        ("the plan before is done", 0, AgentWork::Done, false, false),
    ] {
        let mut seen = with_plan(Some(erase()));
        seen.agent = Some(AgentInputs { plan, work, left, ..agent(0) });
        assert_eq!(draft(&seen).is_plan_over(), is_over, "{name}");
    }
    let seen = with_plan(Some(erase()));
    assert!(!draft(&seen).is_plan_over(), "its agent has not said hello");
}

#[test]
fn receipts_from_before_a_write_prove_nothing() {
    let shown = |plan| CleaningProof {
        plan,
        disk: DiskIdentity::default(),
        device: "/dev/sda".into(),
        asked: CleaningMethod::Full,
        by: "overwrite".into(),
        grade: Grade::Clear,
        read_back_bytes: 1,
        overridden: Vec::new(),
        unverified: Vec::new(),
    };
    for (written, attempt, plans) in [
        (None, 5, vec![1, 2, 3]),
        (Some((5, 2)), 5, vec![3]),
        (Some((5, 3)), 5, vec![]),
        (Some((4, 2)), 5, vec![1, 2, 3]),
        (None, 4, vec![]),
    ] {
        let mut seen = with_plan(None);
        seen.memory.written = written.map(|(attempt, plan)| WritePlanRef { attempt, plan, disk_guid: String::new() });
        seen.agent = Some(AgentInputs { attempt, cleaned: vec![shown(1), shown(2), shown(3)], ..agent(0) });
        let left: Vec<u32> = draft(&seen).receipts().into_iter().map(|shown| shown.plan).collect();
        assert_eq!(left, plans, "{written:?} {attempt}");
    }
}

#[test]
fn the_next_attempt_begins_with_nothing_of_the_last_one() {
    for (has_bmc, is_opened) in [(true, false), (false, true)] {
        let boot = Some(BootWait::new(at(-9), true));
        let memory =
            HostMemory { plan: Some(issued(7, erase())), plan_number: 7, boot, ..in_state(HostState::Preparing) };
        let mut seen = seen(HostMemory { attempt_spent: true, ..memory });
        if !has_bmc {
            seen.host.spec.bmc = None;
        }
        let mut turn = draft(&seen);
        turn.open_attempt();
        let memory = turn.memory;
        assert_eq!((memory.attempt, memory.attempt_spent, memory.opened), (6, false, is_opened));
        assert_eq!((memory.plan, memory.plan_number, memory.boot), (None, 0, None));
    }
}

#[test]
fn a_slot_is_taken_where_one_is_free_or_the_host_is_at_work() {
    let full = SlotOffer::Full { busy: 20, ahead: 0 };
    let waiting = Some("20 hosts are inspected, provisioned or cleaned at the moment: waiting");
    let behind =
        Some("20 hosts are inspected, provisioned or cleaned at the moment, and 2 wait before this one: waiting");
    let uncounted = Some("waiting until the hosts at work are counted after a start");
    for (name, offer, has_bmc, has_plan, has_agent, text, resumed) in [
        ("free", SlotOffer::Free, true, false, false, None, Some(false)),
        ("free, and at work", SlotOffer::Free, true, true, true, None, Some(true)),
        ("full", full, true, false, false, waiting, None),
        ("full, and others wait", SlotOffer::Full { busy: 20, ahead: 2 }, true, false, false, behind, None),
        ("full, and at work", full, true, true, true, None, Some(true)),
        ("full, and a plan without its agent", full, true, true, false, waiting, None),
        ("full, and an agent without a plan", full, true, false, true, waiting, None),
        ("not counted", SlotOffer::NotCounted, true, false, false, uncounted, None),
        ("not counted, and at work", SlotOffer::NotCounted, true, true, true, None, Some(true)),
        ("a person boots it", full, false, false, false, None, None),
        ("a person booted it", full, false, false, true, waiting, None),
    ] {
        let mut seen = with_plan(has_plan.then_some(PlanKind::Inspect));
        seen.slot = offer;
        seen.agent = has_agent.then(|| agent(0));
        if !has_bmc {
            seen.host.spec.bmc = None;
        }
        let mut turn = draft(&seen);
        assert_eq!(turn.take_slot().err().map(|reason| reason.text).as_deref(), text, "{name}");
        let slot = turn.memory.admitted.as_ref().map(|slot| (slot.since, slot.resumed));
        assert_eq!(slot, resumed.map(|resumed| (at(0), resumed)), "{name}");
        assert_eq!((turn.is_delayed, turn.memory.delayed), (text.is_some(), text.map(|_| at(0))), "{name}");
    }
    let mut seen = with_plan(None);
    seen.memory.admitted = Some(HeldSlot { since: at(-9), resumed: false });
    seen.slot = full;
    let mut turn = draft(&seen);
    assert!(turn.take_slot().is_ok() && turn.memory.admitted == seen.memory.admitted, "it has one");
}

fn failure(retry_at: Option<i64>, until_edit: bool) -> HostFailure {
    HostFailure {
        kind: ErrorType::Provisioning,
        message: "it failed".into(),
        count: 1,
        at: at(-1),
        retry_at: retry_at.map(at),
        until_edit,
        inputs: String::new(),
    }
}

/// What there is beside a slot: a plan, its agent, a boot that is waited for, a BMC, a shut gate.
#[derive(Clone, Copy)]
struct Around {
    plan: bool,
    agent: bool,
    boot: bool,
    bmc: bool,
    shut: bool,
}

const ALONE: Around = Around { plan: false, agent: false, boot: false, bmc: true, shut: false };
const AT_WORK: Around = Around { plan: true, agent: true, ..ALONE };

#[test]
fn a_slot_is_given_back_where_the_host_rests_or_waits() {
    use HostState::{Available, Deprovisioning, Inspecting, Preparing, Provisioned, Provisioning};
    let (later, due) = (Some(failure(Some(60), false)), Some(failure(Some(0), false)));
    let by_hand = Around { bmc: false, ..ALONE };
    for (name, state, failure, around, is_kept) in [
        ("it goes on by itself", Provisioning, None, ALONE, true),
        ("so does an inspection", Inspecting, None, ALONE, true),
        ("and a preparation", Preparing, None, ALONE, true),
        ("and a cleaning", Deprovisioning, None, ALONE, true),
        ("it rests", Available, None, AT_WORK, false),
        ("it has an OS", Provisioned, None, AT_WORK, false),
        ("its next try is later", Provisioning, later.clone(), ALONE, false),
        ("its next try is now", Provisioning, due, ALONE, true),
        ("an edit is awaited", Provisioning, Some(failure(Some(0), true)), ALONE, false),
        ("an obstacle stays", Provisioning, Some(failure(None, false)), ALONE, false),
        ("it failed and is at work", Provisioning, later.clone(), AT_WORK, true),
        ("it failed, with a plan alone", Provisioning, later.clone(), Around { plan: true, ..ALONE }, false),
        ("it failed, with an agent alone", Provisioning, later.clone(), Around { agent: true, ..ALONE }, false),
        ("it failed and boots", Provisioning, later.clone(), Around { boot: true, ..ALONE }, true),
        ("it failed and a person boots it", Provisioning, later, Around { boot: true, ..by_hand }, false),
        ("a person boots it", Provisioning, None, by_hand, false),
        ("a person booted it", Provisioning, None, Around { agent: true, ..by_hand }, true),
        ("the gate is shut", Provisioning, None, Around { shut: true, ..ALONE }, false),
        ("the gate is shut and it is at work", Provisioning, None, Around { shut: true, ..AT_WORK }, true),
    ] {
        let admitted = Some(HeldSlot { since: at(-9), resumed: false });
        let mut seen = seen(HostMemory { failure, admitted, delayed: Some(at(-9)), ..in_state(state) });
        seen.memory.plan = around.plan.then(|| issued(1, PlanKind::Inspect));
        seen.memory.boot = around.boot.then(|| BootWait::new(at(-9), false));
        seen.agent = around.agent.then(|| agent(0));
        if !around.bmc {
            seen.host.spec.bmc = None;
        }
        for is_delayed in [false, true] {
            let mut turn = draft(&seen);
            (turn.is_shut, turn.is_delayed) = (around.shut, is_delayed);
            slot::release_slot(&mut turn);
            assert_eq!(turn.memory.admitted.is_some(), is_kept, "{name}");
            assert_eq!(turn.memory.delayed.is_some(), is_delayed, "{name}");
        }
        seen.memory.detached = Some(at(-1));
        let mut turn = draft(&seen);
        slot::release_slot(&mut turn);
        assert!(turn.memory.admitted.is_none(), "{name}, and it is detached");
    }
}
