//! Hosts of a site that drives them by their BMCs alone: what a BMC can do is done, and what needs an agent says so.

use firesteel_facts::WorkHold;
use firesteel_plan::HostEffect;
use firesteel_plan::disk::CleaningMethod;
use firesteel_plan::host::preview::preview;
use firesteel_plan::host::progress_outlook::{HostOutlook, Prospect, prospect};
use firesteel_plan::host::{BmcAction, ErasureSummary, HostPower, HostState, PendingErasure, PlanKind};
use firesteel_resources::bare_metal_host::{ErrorType, ProvisioningState as S, annotations};
use firesteel_resources::condition::find_condition;
use firesteel_resources::host_journal::RequestOutcome::{Done, Refused};

use crate::rests::{failure, in_state};
use crate::world::{World, image};

const WHY: &str = "hosts are driven by their BMCs alone: there are no boot files";
const SOFT_OFF: BmcAction = BmcAction::PowerOff { hard: false };

fn hold(world: &mut World) {
    world.seen.work_hold = Some(WorkHold::BmcOnly(WHY.to_owned()));
}

/// A new host where hosts are driven by their BMCs alone. It wants no image.
fn new_host() -> World {
    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    hold(&mut world);
    world
}

/// `TYPE=STATUS REASON`, or nothing where the host has no such condition.
fn condition(world: &World, name: &str) -> String {
    let status = world.seen.host.status.as_ref().unwrap();
    find_condition(&status.conditions, name)
        .map(|found| format!("{:?} {}", found.status, found.reason))
        .unwrap_or_default()
}

/// Orders that change the power, once each.
fn orders(world: &World) -> Vec<BmcAction> {
    let mut tickets = Vec::new();
    let calls = world.effects.iter().filter_map(|effect| match effect {
        HostEffect::Bmc(call) => Some(call),
        _ => None,
    });
    let orders = calls.filter(|call| {
        let is_order = !matches!(call.action, BmcAction::Probe | BmcAction::Inspect | BmcAction::TakeBootBack);
        let is_new = !tickets.contains(&call.ticket);
        tickets.push(call.ticket);
        is_order && is_new
    });
    orders.map(|call| call.action).collect()
}

fn events(world: &World, word: &str) -> usize {
    world.events.iter().filter(|event| event.reason.word() == word).count()
}

fn pass_minutes(world: &mut World, minutes: usize) {
    for _ in 0..minutes {
        world.pass(60);
        world.settle();
    }
}

#[test]
fn a_new_host_is_registered_inspected_by_its_bmc_and_switched_on() {
    let mut world = new_host();
    world.run();
    assert_eq!(world.states, [S::New, S::Registering, S::Inspecting, S::Preparing, S::Available]);
    assert_eq!((world.reason(), orders(&world)), ("available, switched on", vec![BmcAction::PowerOn]));
    assert_eq!((world.net_boots(), world.seen.hardware.is_none()), (0, true));
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::IssuePlan { .. })), 0);
    assert!(world.count(|effect| *effect == HostEffect::SaveBmcHardware) > 0);
    assert_eq!(condition(&world, "InspectedByAgent"), "False ReadFromBMC");
    assert_eq!(condition(&world, "AvailableForProvisioning"), "False BMCOnly");
    assert_eq!(condition(&world, "Manageable"), "True Manageable");
    assert_eq!(condition(&world, "NetworkBoot"), "", "nothing is asked for that needs the network");
    let shown = preview(&world.seen.host, world.memory(), None).closed;
    assert!(shown[0].contains("the BMC's word") && shown[0].contains("no disk is chosen"), "{shown:?}");
}

#[test]
fn a_bmc_without_an_inventory_says_so_and_the_host_goes_on() {
    let mut world = new_host();
    world.seen.bmc.no_inventory = Some("it is driven by IPMI, which has no inventory".to_owned());
    world.run();
    assert_eq!((world.state(), world.reason()), (S::Available, "available, switched on"));
    assert_eq!(world.count(|effect| *effect == HostEffect::SaveBmcHardware), 0);
    assert_eq!(condition(&world, "InspectedByAgent"), "False NoInventory");
    assert_eq!((events(&world, "InspectionSkipped"), events(&world, "InspectionComplete")), (1, 0));
    world.annotate(annotations::INSPECT, "");
    world.run();
    let (outcome, text) = world.answer(annotations::INSPECT).unwrap();
    assert!(outcome == Refused && text.contains("IPMI"), "{text}");
}

#[test]
fn an_inspection_that_is_asked_for_reads_the_inventory_again() {
    let mut world = new_host();
    world.run();
    let read_at = |world: &World| world.memory().bmc_inspection.as_ref().map(|inspection| inspection.at);
    let before = read_at(&world);
    world.pass(600);
    world.seen.bmc_record_is_shown = false;
    world.annotate(annotations::INSPECT, "");
    world.run();
    assert_eq!(world.answer(annotations::INSPECT).map(|(outcome, _)| outcome), Some(Done));
    assert!(read_at(&world) > before && world.seen.host.metadata.annotations.is_empty());
}

/// A BMC that is out of reach is tried again, and its host is not taken for inspected.
#[test]
fn an_inventory_that_cannot_be_asked_for_is_asked_for_again() {
    let mut world = new_host();
    while world.state() != S::Inspecting {
        world.step();
    }
    world.bmc_works = false;
    world.settle();
    assert_eq!(world.state(), S::Inspecting, "{}", world.reason());
    assert!(world.memory().failure.as_ref().is_some_and(|failure| failure.retry_at.is_some()), "{}", world.reason());
    world.bmc_works = true;
    pass_minutes(&mut world, 10);
    assert_eq!(world.state(), S::Available, "{}", world.reason());
}

/// No client is to see an error each minute for what the site has decided.
#[test]
fn a_host_that_wants_an_image_says_why_it_waits_and_its_power_is_kept() {
    let mut world = World::new();
    hold(&mut world);
    world.run();
    let text = format!("available, switched on; the installation of spec.image needs an agent on the host; {WHY}");
    assert_eq!((world.state(), world.reason()), (S::Available, text.as_str()));
    assert_eq!(condition(&world, "NetworkBoot"), "False BMCOnly");
    assert_eq!(prospect(world.memory(), &world.seen), Prospect::Is(HostOutlook::WillNotFinish));
    world.edit(|host| host.spec.online = false);
    world.run();
    assert_eq!(world.seen.bmc.power, HostPower::Off, "{}", world.reason());
    assert_eq!(condition(&world, "NetworkBoot"), "True NoStall", "it is to be off, so that nothing is to be installed");
    world.edit(|host| host.spec.online = true);
    pass_minutes(&mut world, 60);
    assert_eq!((events(&world, "NeedsAgent"), world.memory().failure.clone()), (1, None));
    assert_eq!(orders(&world), [BmcAction::PowerOn, SOFT_OFF, BmcAction::PowerOn]);
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::FetchImage { .. })), 0, "no image is of use");
    assert_eq!((world.net_boots(), world.memory().attempt), (0, 1));
}

/// What a BMC says of drives is no ground to write to one.
#[test]
fn no_disk_is_chosen_by_the_bmcs_record() {
    let mut world = World::new();
    hold(&mut world);
    world.run();
    assert!(world.memory().disk.is_none() && world.memory().bmc_inspection.is_some());
    world.seen.work_hold = None;
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    let plans: Vec<&str> = world
        .effects
        .iter()
        .filter_map(|effect| match effect {
            HostEffect::IssuePlan { plan, .. } => Some(plan.name()),
            _ => None,
        })
        .collect();
    let (inspect, write) =
        (plans.iter().position(|plan| *plan == "inspect"), plans.iter().position(|plan| *plan == "write"));
    assert!(inspect.is_some() && inspect < write, "{plans:?}");
    assert_eq!(condition(&world, "InspectedByAgent"), "True Inspected");
}

#[test]
fn reboots_and_holders_work_on_a_host_whose_os_is_not_known() {
    for (value, ordered) in [
        (r#"{"mode":"soft"}"#, vec![SOFT_OFF, BmcAction::PowerOn]),
        (r#"{"mode":"hard"}"#, vec![BmcAction::Cycle]),
        ("", vec![SOFT_OFF, BmcAction::PowerOn]),
    ] {
        let mut world = new_host();
        world.run();
        world.effects.clear();
        world.annotate(annotations::REBOOT, value);
        pass_minutes(&mut world, 3);
        assert_eq!((orders(&world), world.seen.bmc.power), (ordered, HostPower::On), "{value} {}", world.reason());
        assert_eq!(world.answer(annotations::REBOOT).map(|(outcome, _)| outcome), Some(Done), "{value}");
        assert_eq!(world.reason(), "available, switched on");
    }
    let mut world = new_host();
    world.run();
    world.effects.clear();
    let holder = format!("{}/remediation", annotations::REBOOT);
    world.annotate(&holder, "");
    pass_minutes(&mut world, 3);
    assert_eq!((orders(&world), world.seen.bmc.power), (vec![SOFT_OFF], HostPower::Off));
    assert!(world.reason().contains("held off by remediation"), "{}", world.reason());
    assert!(!world.seen.host.status.as_ref().unwrap().powered_on, "what fences waits for this");
    world.seen.host.metadata.annotations.remove(&holder);
    pass_minutes(&mut world, 3);
    assert_eq!(world.seen.bmc.power, HostPower::On, "{}", world.reason());
}

/// The BMC took the order and the host runs on: no client may take it for fenced.
#[test]
fn a_host_that_does_not_go_off_does_not_count_as_off() {
    let mut world = new_host();
    world.run();
    world.power_works = false;
    world.annotate(&format!("{}/remediation", annotations::REBOOT), r#"{"mode":"hard"}"#);
    pass_minutes(&mut world, 30);
    assert!(world.seen.host.status.as_ref().unwrap().powered_on);
    let failure = world.memory().failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
    assert!(failure.contains("still on"), "{failure}");
    world.power_works = true;
    pass_minutes(&mut world, 60);
    assert!(!world.seen.host.status.as_ref().unwrap().powered_on, "{}", world.reason());
}

/// What was installed before the site gave its network up keeps its OS, and is fenced as any other.
#[test]
fn an_installed_host_keeps_its_os_and_its_power_where_another_image_is_wanted() {
    for wanted in [None, Some(image("two"))] {
        let mut world = in_state(World::new(), S::Provisioned);
        hold(&mut world);
        world.edit(|host| host.spec.image = wanted.clone());
        pass_minutes(&mut world, 5);
        assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
        assert!(world.reason().contains("needs an agent on the host"), "{}", world.reason());
        assert_eq!((condition(&world, "NetworkBoot").as_str(), world.net_boots()), ("False BMCOnly", 0));
        world.annotate(annotations::REBOOT, r#"{"mode":"hard"}"#);
        pass_minutes(&mut world, 3);
        assert_eq!(orders(&world), [BmcAction::Cycle]);
        world.seen.work_hold = None;
        world.run();
        assert!(world.states.contains(&S::Deprovisioning), "it goes on by itself: {}", world.reason());
    }
}

/// A host at whose work the site gave its network up, and whose agent is gone.
fn interrupted(state: S) -> World {
    let mut world = World::new();
    if state == S::Deprovisioning {
        world = in_state(world, S::Provisioned);
        world.edit(|host| host.spec.image = None);
    }
    for _ in 0..200 {
        if world.state() == state {
            break;
        }
        world.step();
        if world.booting {
            world.hello();
        }
    }
    assert_eq!(world.state(), state, "{}", world.reason());
    (world.seen.agent, world.booting) = (None, false);
    hold(&mut world);
    // Errors of the work that waits delay no order to the BMC, and stay.
    world.seen.memory.failure = failure(&world, ErrorType::Provisioning, 3, None);
    world.seen.memory.failure.iter_mut().for_each(|failure| failure.until_edit = true);
    pass_minutes(&mut world, 3);
    world.effects.clear();
    world
}

/// It may be this very host that a cluster wants to be off.
#[test]
fn a_host_whose_work_waits_for_an_agent_is_switched_rebooted_and_fenced() {
    for (state, what) in [(S::Provisioning, "the installation that was begun"), (S::Deprovisioning, "the cleaning of")]
    {
        let mut world = interrupted(state);
        let waits = |world: &World, power: &str| {
            let is_so = world.reason().contains(power) && world.reason().contains(what) && world.state() == state;
            assert!(is_so, "{power} {:?} {}", world.state(), world.reason());
        };
        waits(&world, "switched on");
        assert_eq!(world.seen.bmc.power, HostPower::On);
        let holder = format!("{}/remediation", annotations::REBOOT);
        world.annotate(&holder, r#"{"mode":"hard"}"#);
        pass_minutes(&mut world, 3);
        waits(&world, "held off by remediation");
        assert!(!world.seen.host.status.as_ref().unwrap().powered_on, "what fences waits for this");
        world.seen.host.metadata.annotations.remove(&holder);
        pass_minutes(&mut world, 3);
        world.annotate(annotations::REBOOT, "");
        pass_minutes(&mut world, 3);
        assert_eq!(world.answer(annotations::REBOOT).map(|(outcome, _)| outcome), Some(Done), "{}", world.reason());
        world.edit(|host| host.spec.online = false);
        pass_minutes(&mut world, 5);
        waits(&world, "switched off");
        let hard = BmcAction::PowerOff { hard: true };
        assert_eq!(orders(&world), [hard, BmcAction::PowerOn, SOFT_OFF, BmcAction::PowerOn, SOFT_OFF]);
        let failure = world.memory().failure.as_ref().map(|failure| (failure.kind, failure.count));
        assert_eq!(failure, Some((ErrorType::Provisioning, 3)), "what the work came to is not forgotten");
        world.edit(|host| host.spec.online = true);
        world.seen.work_hold = None;
        pass_minutes(&mut world, 5);
        world.run();
        let end = if state == S::Provisioning { S::Provisioned } else { S::Available };
        assert_eq!(world.state(), end, "it goes on by itself: {}", world.reason());
    }
}

/// A BMC that fails meanwhile is no try to clean: a deletion that follows gives up no sooner.
#[test]
fn a_power_change_that_fails_while_the_cleaning_waits_is_no_failure_to_clean() {
    let mut world = interrupted(S::Deprovisioning);
    world.power_works = false;
    world.edit(|host| host.spec.online = false);
    pass_minutes(&mut world, 120);
    assert!(world.memory().failure.as_ref().is_some_and(|failure| failure.kind == ErrorType::PowerManagement));
    assert!(world.memory().clean_failures <= 1, "{}", world.memory().clean_failures);
}

/// A person may take days to say whether an erasure is enough.
#[test]
fn the_power_of_a_host_whose_erasure_is_held_is_kept() {
    let mut world = new_host();
    world.run();
    world.annotate(annotations::CLEANING, r#"{"whenUnverified":"hold"}"#);
    let erased = ErasureSummary {
        method: CleaningMethod::Full,
        disks: Vec::new(),
        is_all: true,
        is_whole: true,
        proven: String::new(),
        claimed: "erased".to_owned(),
    };
    let (since, unverified) = (world.now, vec!["it booted again".to_owned()]);
    let (asked_at, accepted_at) = (None, None);
    let wipe = PendingErasure { attempt: 1, plan: 1, since, erased, asked_at, unverified, accepted_at };
    (world.seen.memory.state, world.seen.memory.wipe) = (HostState::Preparing, Some(wipe));
    world.edit(|host| host.spec.online = false);
    pass_minutes(&mut world, 5);
    assert!(world.reason().starts_with("held, because the erasure is unverified"), "{}", world.reason());
    assert_eq!((world.state(), world.seen.bmc.power), (S::Preparing, HostPower::Off));
    assert!(world.memory().failure.as_ref().is_some_and(|failure| failure.kind == ErrorType::Preparation));
}

/// No agent will clean its disk: the deletion ends, and what is left is not forgotten.
#[test]
fn a_deletion_that_needs_an_agent_ends_with_a_tombstone() {
    let mut world = in_state(World::new(), S::Provisioned);
    hold(&mut world);
    world.delete();
    pass_minutes(&mut world, 10);
    assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
    assert!(world.reason().contains("the cleaning of its disk needs an agent"), "{}", world.reason());
    for _ in 0..60 {
        if !world.gone {
            world.pass(60);
            world.settle();
        }
    }
    assert!(world.gone, "{:?} {}", world.state(), world.reason());
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::Tombstone { .. })), 1);
    assert_eq!((events(&world, "DeprovisioningGaveUp"), world.net_boots()), (1, 0));
}

#[test]
fn a_host_needs_no_boot_mac_until_it_boots() {
    let mut world = new_host();
    world.edit(|host| host.spec.boot_mac_address = String::new());
    world.seen.bmc.macs = vec!["52:54:00:00:00:01".into(), "52:54:00:00:00:02".into()];
    world.run();
    assert_eq!((world.state(), world.reason()), (S::Available, "available, switched on"));
    world.edit(|host| host.spec.image = Some(image("one")));
    world.seen.work_hold = None;
    world.run();
    assert!(world.reason().starts_with("spec.bootMACAddress must say which interface boots"), "{}", world.reason());
    assert_eq!(world.net_boots(), 0);
}

#[test]
fn a_host_without_a_bmc_says_that_nothing_can_be_done() {
    let mut world = World::without_bmc();
    hold(&mut world);
    world.settle();
    assert!(world.reason().starts_with("the host has no BMC"), "{}", world.reason());
    assert_eq!((world.state(), condition(&world, "NetworkBoot").as_str()), (S::Unmanaged, "False BMCOnly"));
}

/// An agent that is there when the site gives its network up ends what it was at.
#[test]
fn an_agent_at_work_is_not_disturbed() {
    let mut world = World::new();
    world.agent_works = false;
    while world.memory().plan.as_ref().is_none_or(|issued| issued.plan != PlanKind::Inspect) {
        world.step();
        if world.booting {
            world.hello();
        }
    }
    hold(&mut world);
    world.agent_works = true;
    world.seen.agent.as_mut().unwrap().plan = 0;
    world.settle();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}
