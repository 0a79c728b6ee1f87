//! Random histories: whatever happens in whatever order, some things never do.

use firesteel_contents::{ContentKind, ContentOwner, DiskContents, ProtectedContent};
use firesteel_plan::admission::SlotOffer;
use firesteel_plan::host::transitions::is_legal;
use firesteel_plan::host::{
    AgentWork, BmcAction, ClaimInputs, HostPower, HostState, ImageInputs, PlanKind, UserDataInputs, contest, objections,
};
use firesteel_plan::{HostBootEntry, HostEffect, HostInputs, HostMemory, HostStep, boot_entry};
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::hardware::DiskRecord;
use firesteel_resources::host_journal::{ClaimRecord, Claimant};
use firesteel_resources::{HardwareRecord, ObjectReference, RootDeviceHints};
use proptest::prelude::*;

use crate::world::{World, disk, image, ready};

/// Something that happens between two steps.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Pass(u32),
    Hello,
    Report,
    Idle,
    Running,
    Done,
    Failed(bool),
    Left,
    Rebooted,
    Restart,
    BmcBreaks(bool),
    AgentWorks(bool),
    Power(bool),
    Image(u8),
    WantImage(u8),
    UserData(u8),
    Online(bool),
    Hints(u8),
    Disks(u8),
    Annotate(u8),
    Consumer(u8),
    Clear,
    External(bool),
    Slots(bool),
    Halt(bool),
    /// The appliance's clock is doubted.
    Clock(bool),
    /// Another machine claims the attempt of the bound agent.
    Claim,
    /// A claimant is heard.
    ClaimHeard(u8),
    Delete,
}

pub(crate) fn happening() -> impl Strategy<Value = Happening> {
    use Happening as H;
    prop_oneof![
        6 => (0_u32..2000).prop_map(H::Pass),
        6 => Just(H::Hello),
        4 => Just(H::Report),
        1 => Just(H::Idle),
        2 => Just(H::Running),
        2 => Just(H::Done),
        2 => any::<bool>().prop_map(H::Failed),
        1 => Just(H::Left),
        1 => Just(H::Rebooted),
        1 => Just(H::Restart),
        1 => any::<bool>().prop_map(H::BmcBreaks),
        2 => any::<bool>().prop_map(H::AgentWorks),
        1 => any::<bool>().prop_map(H::Power),
        2 => (0_u8..4).prop_map(H::Image),
        2 => (0_u8..3).prop_map(H::WantImage),
        1 => (0_u8..4).prop_map(H::UserData),
        1 => any::<bool>().prop_map(H::Online),
        1 => (0_u8..3).prop_map(H::Hints),
        1 => (0_u8..3).prop_map(H::Disks),
        1 => (0_u8..15).prop_map(H::Annotate),
        1 => (0_u8..3).prop_map(H::Consumer),
        1 => Just(H::Clear),
        1 => any::<bool>().prop_map(H::External),
        1 => any::<bool>().prop_map(H::Slots),
        1 => any::<bool>().prop_map(H::Halt),
        1 => any::<bool>().prop_map(H::Clock),
        1 => Just(H::Claim),
        1 => (0_u8..2).prop_map(H::ClaimHeard),
        1 => Just(H::Delete),
    ]
}

pub(crate) fn happen(world: &mut World, what: &Happening) {
    let now = world.now;
    if let Some(agent) = world.seen.agent.as_mut() {
        match what {
            Happening::Report => agent.last_report_at = now,
            Happening::Idle => agent.work = AgentWork::Idle,
            Happening::Running => {
                agent.work = AgentWork::Running { step: "write-image".into(), activity: String::new(), percent: 3 };
                (agent.last_report_at, agent.progress_at) = (now, now);
            }
            Happening::Done => agent.work = AgentWork::Done,
            Happening::Failed(disk_changed) => {
                let disk_changed = *disk_changed;
                agent.work = AgentWork::Failed { step: "s".into(), message: "m".into(), disk_changed };
            }
            Happening::Left => agent.left = true,
            Happening::Rebooted => agent.rebooted = true,
            _ => {}
        }
    }
    match what {
        Happening::Pass(secs) => world.pass(i64::from(*secs)),
        Happening::Hello => world.hello(),
        Happening::Restart => {
            world.seen.started_at = now;
            world.seen.bmc = firesteel_plan::host::BmcInputs::default();
        }
        Happening::BmcBreaks(broken) => world.bmc_works = !broken,
        Happening::AgentWorks(works) => world.agent_works = *works,
        Happening::Power(on) => world.seen.bmc.power = if *on { HostPower::On } else { HostPower::Off },
        Happening::Image(0) => world.seen.image = ImageInputs::Unknown,
        Happening::Image(1) => world.seen.image = ImageInputs::Ready(ready()),
        Happening::Image(which) => {
            world.seen.image = ImageInputs::Failed { message: "no".into(), permanent: *which == 2, at: now };
        }
        Happening::WantImage(0) => world.edit(|host| host.spec.image = None),
        Happening::WantImage(which) => world.edit(|host| host.spec.image = Some(image(&which.to_string()))),
        Happening::UserData(which) => {
            world.seen.user_data = match which {
                0 => UserDataInputs::NotReferenced,
                1 => UserDataInputs::Missing,
                2 => UserDataInputs::Invalid("bad".into()),
                _ => UserDataInputs::Ready { sha256: "user".into(), configs: vec!["worker".into()] },
            }
        }
        Happening::Online(online) => world.edit(|host| host.spec.online = *online),
        Happening::Hints(which) => {
            let model = ["", "DISK", "NONE"][usize::from(*which)].to_owned();
            world.edit(|host| host.spec.root_device_hints = Some(RootDeviceHints { model, ..Default::default() }));
        }
        Happening::Disks(count) => {
            let disks =
                (0..*count).map(|n| holding(n + 1 == *count, disk(&format!("sd{n}"), &format!("S{n}"), 20))).collect();
            let attempt = world.memory().attempt;
            world.seen.hardware =
                Some(HardwareRecord { disks, attempt, inspected_at: now, ..HardwareRecord::default() });
        }
        Happening::Annotate(which) => {
            let (key, value) = [
                (annotations::PAUSED, ""),
                (annotations::DETACHED, ""),
                (annotations::DETACHED, r#"{"force":true}"#),
                (annotations::DETACHED, r#"{"deleteAction":"delay"}"#),
                (annotations::INSPECT, ""),
                (annotations::INSPECT, "disabled"),
                (annotations::REBOOT, ""),
                (annotations::REBOOT, r#"{"mode":"hard","force":true}"#),
                ("reboot.metal3.io/a", ""),
                ("reboot.metal3.io/b", r#"{"force":true}"#),
                (annotations::RETRY, ""),
                (annotations::RELEASE_FORCE, ""),
                (annotations::LOCK, "somebody"),
                (annotations::OVERRIDE_GUARD, r#"["S0","S1"]"#),
                (annotations::CHOOSE_AGENT, annotations::NO_CLAIMANT),
            ][usize::from(*which)];
            world.annotate(key, value);
        }
        Happening::Consumer(which) => world.edit(|host| {
            let name = ["", "one", "two"][usize::from(*which)].to_owned();
            host.spec.consumer_ref = Some(ObjectReference { name, ..ObjectReference::default() });
        }),
        Happening::Clear => world.seen.host.metadata.annotations.clear(),
        Happening::External(value) => world.edit(|host| host.spec.externally_provisioned = *value),
        Happening::Slots(true) => world.seen.slot = SlotOffer::Free,
        Happening::Slots(false) => world.seen.slot = SlotOffer::Full { busy: 20, ahead: 1 },
        Happening::Halt(true) => world.halt(),
        Happening::Halt(false) => world.seen.halt = None,
        Happening::Clock(true) => world.doubt_clock(),
        Happening::Clock(false) => world.seen.clock = None,
        Happening::Claim => claim(world),
        Happening::ClaimHeard(which) => {
            let key = ["aa", "bb"][usize::from(*which)].to_owned();
            world.seen.claims_heard = vec![ClaimInputs { key, at: now, cannot_stop: false }];
        }
        Happening::Delete => world.delete(),
        _ => {}
    }
}

/// Another machine claims the attempt, where an agent is bound.
fn claim(world: &mut World) {
    let attempt = world.memory().attempt;
    if world.seen.agent.as_ref().is_some_and(|agent| agent.attempt == attempt) {
        let machine = |key: &str| Claimant { key: key.into(), attempt, ..Claimant::default() };
        world.seen.claim = Some(ClaimRecord { attempt, first: machine("aa"), others: vec![machine("bb")] });
    }
}

/// The last disk is a cluster's, every other one empty.
fn holding(is_last: bool, mut disk: DiskRecord) -> DiskRecord {
    let vmfs = ProtectedContent {
        place: "the disk".into(),
        kind: ContentKind::Vmfs,
        name: String::new(),
        owner: ContentOwner::Unnamed,
    };
    let findings = if is_last { vec![vmfs] } else { Vec::new() };
    disk.contents = Some(Box::new(DiskContents { findings, ..DiskContents::default() }));
    disk
}

/// A plan that begins names no disk that a guard keeps, as far as this boot's inspection tells, but by its owner's word.
fn check_guards(before: &HostInputs, step: &HostStep) -> Result<(), TestCaseError> {
    let (memory, host) = (&step.memory, &before.host);
    let is_new = (memory.attempt, memory.plan_number) != (before.memory.attempt, before.memory.plan_number);
    let Some(issued) = memory.plan.as_ref().filter(|issued| is_new && issued.plan.destroys()) else { return Ok(()) };
    let Some(record) = before.hardware.as_ref().filter(|record| record.attempt == memory.attempt) else {
        return Ok(());
    };
    let overridden = match &issued.plan {
        PlanKind::Write(write) if write.override_guards => vec![write.disk.clone()],
        PlanKind::Erase(erase) => erase.overridden.clone(),
        _ => Vec::new(),
    };
    for disk in issued.disks().iter().filter(|disk| !overridden.contains(disk)) {
        let found = record.disks.iter().find(|record| record.serial == disk.serial);
        let reasons = found.map(|found| objections(host, &before.memory, record, found)).unwrap_or_default();
        prop_assert!(reasons.is_empty(), "{} of a guarded disk: {reasons:?}", issued.plan.name());
    }
    Ok(())
}

/// The invariants of one step.
fn check(before: &HostMemory, step: &HostStep, paused: bool, shut: bool) -> Result<(), TestCaseError> {
    let memory = &step.memory;
    prop_assert!(!step.reason.text.is_empty());
    prop_assert!(is_legal(before.state.word(), memory.state.word()), "{:?} -> {:?}", before.state, memory.state);
    let works = memory.state.is_working() && (memory.detached.is_none() || memory.state == HostState::Deleting);
    prop_assert!(!works || paused || memory.deadline.is_some(), "{:?} has no deadline", memory.state);
    prop_assert!(!paused || memory == before, "a paused host was changed");
    let let_alone = before.detached.is_some() && memory.detached.is_some();
    let touches = |effect: &HostEffect| matches!(effect, HostEffect::Bmc(_) | HostEffect::IssuePlan { .. });
    prop_assert!(!let_alone || !step.effects.iter().any(touches), "work on a detached host: {:?}", step.effects);
    prop_assert!(memory.attempt >= before.attempt && memory.bmc.ticket >= before.bmc.ticket);
    prop_assert!(step.wake.is_none_or(|wake| !wake.is_negative()));
    let stored = serde_json::to_string(memory).unwrap();
    prop_assert_eq!(&serde_json::from_str::<HostMemory>(&stored).unwrap(), memory);
    if let Some(write) = memory.plan.as_ref().and_then(|plan| plan.write()) {
        let named = memory.disk.as_ref().map(|disk| disk.identity().clone());
        prop_assert_eq!(named.as_ref(), Some(&write.disk), "a write without its disk named");
        prop_assert!(memory.disk_dirty, "a write that nobody would clean");
    }
    let is_new = |memory: &HostMemory| (memory.attempt, memory.plan_number) != (before.attempt, before.plan_number);
    let destroys = memory.plan.as_ref().is_some_and(|issued| issued.plan.destroys());
    prop_assert!(!shut || !destroys || !is_new(memory), "destruction begins behind a shut gate: {:?}", memory.plan);
    prop_assert!(!paused || step.effects.is_empty(), "work on a paused host: {:?}", step.effects);
    if shut && !paused {
        let was_there = |plan: &PlanKind| before.plan.as_ref().is_some_and(|old| old.plan == *plan);
        let is_new = |plan: &PlanKind| plan.destroys() && !was_there(plan);
        let begins = |effect: &HostEffect| matches!(effect, HostEffect::IssuePlan { plan, .. } if is_new(plan));
        prop_assert!(!step.effects.iter().any(begins), "a host behind a shut gate is changed: {:?}", step.effects);
    }
    let has_slot = memory.admitted.is_some()
        || !matches!(memory.state, HostState::Inspecting | HostState::Provisioning | HostState::Deprovisioning);
    let begins = |effect: &HostEffect| match effect {
        HostEffect::Bmc(call) => call.action == BmcAction::NetBoot,
        effect => matches!(effect, HostEffect::IssuePlan { .. }),
    };
    prop_assert!(has_slot || !step.effects.iter().any(begins), "work without a slot: {:?}", step.effects);
    for effect in &step.effects {
        match effect {
            HostEffect::IssuePlan { attempt, number, plan } => {
                let current = memory.plan.as_ref().map(|plan| (plan.number, &plan.plan));
                prop_assert_eq!((*attempt, current), (memory.attempt, Some((*number, plan))));
            }
            HostEffect::Bmc(call) if call.action == BmcAction::NetBoot => {
                let entry = boot_entry(memory);
                let is_published =
                    entry == HostBootEntry::Wait || entry == HostBootEntry::Agent { attempt: memory.attempt };
                prop_assert!(is_published, "the BMC is asked before the host's boot entry is there: {entry:?}");
                let writes = memory.plan.as_ref().is_some_and(|plan| plan.write().is_some());
                prop_assert!(!writes, "a host is booted away under a write");
            }
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(400), ..ProptestConfig::default() })]

    #[test]
    fn some_things_never_happen(bmc in any::<bool>(), story in prop::collection::vec(happening(), 0..120)) {
        let mut world = if bmc { World::new() } else { World::without_bmc() };
        for what in &story {
            happen(&mut world, what);
            for _ in 0..3 {
                let before = world.memory().clone();
                let again = world.seen.clone();
                let paused = world.seen.host.metadata.annotations.contains_key(annotations::PAUSED);
                let locked = world.seen.host.metadata.annotations.contains_key(annotations::LOCK);
                let step = world.step();
                let stopped = again.halt.is_some() || again.clock.is_some();
                let shut = stopped || locked || contest(&before, &again).is_some();
                check(&before, &step, paused, shut)?;
                check_guards(&again, &step)?;
                let mut same = again;
                same.entropy = world.seen.entropy;
                prop_assert_eq!(firesteel_plan::step(&same, world.now).memory, step.memory, "a step is a function");
                if world.gone {
                    return Ok(());
                }
            }
        }
        // Whatever happened, a host is not lost: all well again, it can be released.
        world.bmc_works = true;
        world.agent_works = true;
        world.seen.slot = SlotOffer::Free;
        world.seen.halt = None;
        world.seen.clock = None;
        world.seen.host.metadata.annotations.clear();
        world.delete();
        if let Some(agent) = world.seen.agent.as_mut() {
            agent.rebooted = true;
        }
        for _ in 0..200 {
            if world.gone {
                break;
            }
            world.step();
            world.pass(61);
            let (now, attempt) = (world.now, world.memory().attempt);
            match world.seen.agent.as_mut().filter(|agent| agent.attempt == attempt) {
                Some(agent) => agent.last_report_at = now,
                None if world.booting || !bmc => world.hello(),
                None => {}
            }
        }
        prop_assert!(world.gone, "stuck in {:?}: {}", world.state(), world.reason());
    }
}
