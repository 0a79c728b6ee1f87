//! Hosts that rest, come and go: their power, their reboots, and what their BMC is asked.

use firesteel_plan::HostEffect;
use firesteel_plan::admission::SlotOffer;
use firesteel_plan::host::{
    BmcAction, BmcFault, BmcFaultKind, CredentialsInputs, CredentialsUsed, HostFailure, HostPower, InstalledSystem,
    PlanKind,
};
use firesteel_resources::bare_metal_host::{ErrorType, InspectionMode, ProvisioningState as S, annotations};
use jiff::SignedDuration;

use crate::world::{World, image, run_to_write, with_work};

const SOFT_OFF: BmcAction = BmcAction::PowerOff { hard: false };
const HARD_OFF: BmcAction = BmcAction::PowerOff { hard: true };

pub(crate) fn in_state(mut world: World, state: S) -> World {
    if world.seen.host.spec.bmc.is_none() {
        world.settle();
        world.hello();
    }
    if state == S::Available {
        world.edit(|host| host.spec.image = None);
    }
    world.run();
    assert_eq!(world.state(), state, "{}", world.reason());
    world.effects.clear();
    world.events.clear();
    world
}

/// Orders to the BMC that change the power, once each.
fn orders(world: &World) -> Vec<BmcAction> {
    let mut orders: Vec<(u64, BmcAction)> = Vec::new();
    for effect in &world.effects {
        if let HostEffect::Bmc(call) = effect
            && !matches!(call.action, BmcAction::Probe | BmcAction::TakeBootBack)
            && !orders.contains(&(call.ticket, call.action))
        {
            orders.push((call.ticket, call.action));
        }
    }
    orders.into_iter().map(|(_, action)| action).collect()
}

fn offs_by_agent(world: &World) -> usize {
    world.count(|effect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::PowerOff, .. }))
}

fn steps(world: &mut World, count: usize) {
    (0..count).for_each(|_| drop(world.step()));
}

pub(crate) fn failure(world: &World, kind: ErrorType, count: u32, retry_s: Option<i64>) -> Option<HostFailure> {
    let at = world.now;
    let retry_at = retry_s.map(|seconds| at + SignedDuration::from_secs(seconds));
    let (message, inputs) = ("it failed".into(), String::new());
    Some(HostFailure { kind, message, count, at, retry_at, until_edit: false, inputs })
}

/// How an available host is: it has a BMC, its agent is there, it is to be on, and its power may be cut.
struct Rest {
    bmc: bool,
    agent: bool,
    online: bool,
    may_go_off: bool,
}

#[test]
fn the_power_of_an_available_host_is_kept_by_its_agent_or_by_its_bmc() {
    let rest = |bmc, agent, online, may_go_off| Rest { bmc, agent, online, may_go_off };
    let by_hand = "available; the host is off or runs something else, and without a BMC a person must switch it on";
    for (Rest { bmc, agent, online, may_go_off }, text, ordered, by_agent) in [
        (rest(true, true, true, true), "available; the agent waits for a plan", vec![], 0),
        (rest(true, true, true, false), "available; the agent waits for a plan", vec![], 0),
        (rest(true, true, false, true), "available; the agent switches the host off", vec![], 1),
        (rest(true, true, false, false), "available; power-off is disabled", vec![], 0),
        (rest(true, false, true, true), "available, switched on", vec![BmcAction::PowerOn], 0),
        (rest(true, false, true, false), "available, switched on", vec![BmcAction::PowerOn], 0),
        (rest(true, false, false, true), "available, switched off", vec![HARD_OFF], 0),
        (rest(true, false, false, false), "available; power-off is disabled", vec![], 0),
        (rest(false, true, true, true), "available; the agent waits for a plan", vec![], 0),
        (rest(false, true, false, true), "available; the agent switches the host off", vec![], 1),
        (rest(false, true, false, false), "available", vec![], 0),
        (rest(false, false, true, true), by_hand, vec![], 0),
        (rest(false, false, false, true), "available", vec![], 0),
    ] {
        let mut world = in_state(if bmc { World::new() } else { World::without_bmc() }, S::Available);
        world.agent_works = false;
        if !agent {
            world.seen.agent = None;
        }
        world.seen.bmc.power = if online { HostPower::Off } else { HostPower::On };
        world.seen.bmc.power_at = Some(world.now);
        world.edit(|host| (host.spec.online, host.spec.disable_power_off) = (online, !may_go_off));
        let case = format!("BMC {bmc}, agent {agent}, online {online}, may go off {may_go_off}");
        world.step();
        let offs = offs_by_agent(&world);
        steps(&mut world, 4);
        assert_eq!((world.reason(), orders(&world), offs), (text, ordered, by_agent), "{case}");
    }
}

#[test]
fn a_host_that_is_to_be_off_is_not_installed() {
    let mut world = World::new();
    world.edit(|host| host.spec.online = false);
    world.run();
    assert_eq!((world.state(), world.memory().disk_dirty), (S::Available, false), "{}", world.reason());
}

/// That an installation failed is no error of a host that is to have none.
#[test]
fn a_failed_installation_is_over_when_its_image_is_not_wanted_any_more() {
    use firesteel_plan::host::AgentWork;
    let mut world = World::new();
    run_to_write(&mut world);
    let (step, message) = ("write-image".into(), "bad sector".into());
    with_work(&mut world, AgentWork::Failed { step, message, disk_changed: true });
    world.run();
    assert!(world.state() == S::Available && world.memory().failure.is_some(), "{}", world.reason());
    world.edit(|host| host.spec.image = None);
    world.step();
    assert_eq!((world.memory().failure.as_ref(), world.memory().provision_failures), (None, 0), "{}", world.reason());
}

/// A host that restarts by itself is waited for; one that did not come in its time is booted.
#[test]
fn a_host_that_came_back_by_itself_is_booted_for_an_image_only_when_it_is_late() {
    for (waited_s, ordered) in [(1200, vec![]), (1201, vec![BmcAction::NetBoot])] {
        let mut world = in_state(World::new(), S::Available);
        world.agent().rebooted = true;
        world.settle();
        assert!(world.memory().boot.is_some(), "{}", world.reason());
        world.effects.clear();
        world.pass(waited_s);
        world.edit(|host| host.spec.image = Some(image("one")));
        steps(&mut world, 4);
        assert_eq!((world.state(), orders(&world)), (S::Provisioning, ordered), "{waited_s}: {}", world.reason());
    }
}

/// A host that is available and to be deleted, on its way out.
fn going(world: World) -> World {
    let mut world = in_state(world, S::Available);
    world.agent_works = false;
    world.seen.bmc.power = HostPower::On;
    world.delete();
    world.step();
    assert_eq!(world.state(), S::PoweringOff, "{}", world.reason());
    world.effects.clear();
    world
}

#[test]
fn an_os_is_asked_to_shut_down_before_its_host_is_let_go_and_an_agent_is_not() {
    type Change = fn(&mut World);
    let rows: [(&str, Change, BmcAction); 3] = [
        ("nothing runs on it", |_| {}, HARD_OFF),
        ("it was installed elsewhere", |world| world.edit(|host| host.spec.externally_provisioned = true), SOFT_OFF),
        (
            "it was not cleaned",
            |world| {
                world.seen.memory.applied = serde_json::from_value::<InstalledSystem>(serde_json::json!({
                "image": {"url": "x"}, "ready": {}, "diskGuid": "", "attempt": 1, "at": world.now, "leftProperly": true
            })).ok();
                assert!(world.memory().applied.is_some());
            },
            SOFT_OFF,
        ),
    ];
    for (what, change, expected) in rows {
        let mut world = going(World::new());
        change(&mut world);
        steps(&mut world, 3);
        assert_eq!(orders(&world), [expected], "{what}: {}", world.reason());
    }
}

#[test]
fn a_power_off_is_given_up_after_the_failure_beyond_the_bound() {
    let max = World::new().seen.limits.delete_failures_max;
    for (failures, gives_up) in [(max - 1, false), (max, false), (max + 1, true)] {
        let mut world = going(World::new());
        world.seen.memory.failure = failure(&world, ErrorType::PowerManagement, failures, Some(0));
        world.step();
        let is_said = world.events.iter().any(|event| event.reason == "PowerOffGaveUp");
        assert_eq!((is_said, world.state() == S::Deleting), (gives_up, gives_up), "{failures}: {}", world.reason());
    }
}

#[test]
fn without_a_bmc_an_agent_has_two_minutes_to_switch_its_host_off() {
    let mut world = going(World::without_bmc());
    world.step();
    assert_eq!((world.reason(), offs_by_agent(&world)), ("the agent switches the host off", 1));
    for (passed, state) in [(120, S::PoweringOff), (1, S::Deleting)] {
        world.pass(passed);
        world.step();
        assert_eq!(world.state(), state, "{}", world.reason());
    }
    assert_eq!(world.reason(), "the agent did not switch the host off in time");
    let mut world = going(World::without_bmc());
    world.seen.agent = None;
    world.step();
    assert!(world.state() == S::Deleting && world.reason().contains("no BMC and no agent"), "{}", world.reason());
}

#[test]
fn a_host_that_may_hold_anything_leaves_a_tombstone_for_all_its_disks() {
    for (holds_unknown, is_named) in [(false, true), (true, false)] {
        let mut world = in_state(World::new(), S::Provisioned);
        world.seen.memory.holds_unknown = holds_unknown;
        world.annotate(annotations::RELEASE_FORCE, "");
        world.delete();
        world.run();
        let named =
            |effect: &HostEffect| matches!(effect, HostEffect::Tombstone { disk, .. } if disk.is_some() == is_named);
        assert!(world.gone && world.count(named) == 1, "{holds_unknown}: {:?}", world.effects);
    }
}

fn registering() -> World {
    let mut world = World::new();
    world.step();
    assert_eq!(world.state(), S::Registering);
    world
}

#[test]
fn a_bmc_is_asked_unless_it_took_these_very_credentials() {
    for (taken, given, is_asked) in
        [(None, Some("1"), true), (Some("1"), Some("1"), false), (Some("1"), Some("2"), true)]
    {
        let mut world = registering();
        world.seen.memory.bmc.good_credentials =
            taken.map(|version: &str| CredentialsUsed { secret: "s".into(), version: version.into() });
        if let Some(version) = given {
            world.seen.credentials = CredentialsInputs::Ready { version: version.into() };
        }
        let step = world.step();
        let asked = step.effects.iter().any(|effect| matches!(effect, HostEffect::Bmc(_)));
        let state = if is_asked { S::Registering } else { S::Inspecting };
        assert_eq!((asked, world.state()), (is_asked, state), "{taken:?} {given:?}: {}", world.reason());
    }
    let mut world = registering();
    world.seen.credentials = CredentialsInputs::Missing;
    world.step();
    assert_eq!(world.state(), S::Registering, "none are not accepted ones: {}", world.reason());
}

#[test]
fn only_a_host_that_is_inspected_waits_for_a_slot_when_it_is_registered() {
    type Change = fn(&mut World);
    let rows: [(Change, S); 3] = [
        (|_| {}, S::Registering),
        (|world| world.edit(|host| host.spec.externally_provisioned = true), S::ExternallyProvisioned),
        (|world| world.edit(|host| host.spec.inspection_mode = Some(InspectionMode::Disabled)), S::Preparing),
    ];
    for (change, expected) in rows {
        let mut world = registering();
        world.seen.slot = SlotOffer::Full { busy: 20, ahead: 0 };
        change(&mut world);
        while world.state() == S::Registering && !world.reason().contains("20 hosts") {
            world.step();
        }
        assert_eq!(world.state(), expected, "{}", world.reason());
    }
}

/// An error that only an edit ends is said once; one that is tried again stays until then.
#[test]
fn an_installed_host_forgets_only_that_another_image_could_not_be_had() {
    let mut world = in_state(World::new(), S::Provisioned);
    world.refuses = Some(BmcFault { kind: BmcFaultKind::Unsupported, message: "no driver".into() });
    world.seen.credentials = CredentialsInputs::Ready { version: "2".into() };
    for _ in 0..4 {
        world.settle();
        world.pass(61);
    }
    assert_eq!(world.events.iter().filter(|event| event.reason == "ProvisionedRegistrationError").count(), 1);
    for (until_edit, is_kept) in [(true, false), (false, true)] {
        let mut world = in_state(World::new(), S::Provisioned);
        let failed = failure(&world, ErrorType::Provisioning, 1, Some(600)).unwrap();
        // By what it was made with it is not out of date.
        world.bmc_works = false;
        world.pass(61);
        world.settle();
        let inputs = world.memory().failure.clone().unwrap().inputs;
        world.seen.memory.failure = Some(HostFailure { until_edit, inputs, at: world.now, ..failed });
        world.step();
        let kept = world.memory().failure.as_ref().is_some_and(|failure| failure.message == "it failed");
        assert_eq!(kept, is_kept, "{until_edit}: {}", world.reason());
    }
}

#[test]
fn credentials_that_changed_are_tried_and_the_registration_is_dated() {
    let mut world = in_state(World::new(), S::Provisioned);
    world.pass(30);
    world.seen.credentials = CredentialsInputs::Ready { version: "2".into() };
    world.settle();
    assert_eq!(world.events.iter().filter(|event| event.reason == "BMCAccessValidated").count(), 1);
    let register = &world.memory().history.register;
    assert_eq!((register.start, register.end), (Some(world.now), Some(world.now)));
}

/// The host is on with a plain power-off disabled, and says nothing of it.
#[test]
fn a_host_that_is_on_says_nothing_of_a_disabled_power_off() {
    let mut world = in_state(World::new(), S::Provisioned);
    world.edit(|host| host.spec.disable_power_off = true);
    world.settle();
    assert!(!world.reason().contains("power-off is disabled"), "{}", world.reason());
}
