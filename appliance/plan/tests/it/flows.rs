//! Whole lives of hosts.

use firesteel_plan::host::{
    BmcAction, HostPower, ImageInputs, InstanceInputs, NetbootStage, PlanKind, ReachedStage, UserDataInputs,
};
use firesteel_plan::{HostBootEntry, HostEffect, boot_entry};
use firesteel_resources::bare_metal_host::{BootMode, OperationMetric, OperationalStatus, ProvisioningState as S};
use firesteel_resources::condition::{ConditionStatus, find_condition};
use firesteel_resources::{Image, RootDeviceHints};
use jiff::SignedDuration;

use crate::world::{MAC, World, image, run_to_write};

fn condition(world: &World, name: &str) -> (ConditionStatus, String) {
    let status = world.seen.host.status.as_ref().unwrap();
    let found = find_condition(&status.conditions, name).unwrap();
    (found.status, found.reason.clone())
}

#[test]
fn with_a_bmc_from_new_to_running_to_another_image_to_gone() {
    let mut world = World::new();
    let hints = RootDeviceHints { min_size_gigabytes: 1, ..RootDeviceHints::default() };
    world.edit(|host| {
        (host.spec.boot_mode, host.spec.root_device_hints) = (Some(BootMode::Legacy), Some(hints.clone()))
    });
    world.run();
    let way = [S::New, S::Registering, S::Inspecting, S::Preparing, S::Available, S::Provisioning, S::Provisioned];
    assert_eq!(world.states, way, "{}", world.reason());
    assert_eq!(world.net_boots(), 1, "one boot: the agent of the inspection writes as well");
    assert_eq!(world.memory().macs, [MAC]);
    let applied = world.memory().applied.clone().unwrap();
    assert_eq!(boot_entry(world.memory()), HostBootEntry::LocalDisk { disk_guid: Some(applied.disk_guid.clone()) });
    assert_eq!(condition(&world, "Running").0, ConditionStatus::False);
    let status = world.seen.host.status.clone().unwrap().provisioning;
    assert_eq!((status.boot_mode, status.root_device_hints), (Some(BootMode::Legacy), Some(hints)));
    assert!(!status.id.is_empty() && status.id == world.memory().id, "{}", status.id);

    let (attempt, now) = (applied.attempt, world.now);
    world.seen.instance = InstanceInputs { attempt, config_fetched_at: Some(now), running_at: Some(now), failed: None };
    world.settle();
    assert_eq!(condition(&world, "Running").0, ConditionStatus::True);
    assert_eq!(condition(&world, "Provisioned").0, ConditionStatus::True);
    // What is off does not run, whatever it reported.
    world.seen.bmc.power = HostPower::Off;
    world.step();
    assert_eq!(condition(&world, "Running"), (ConditionStatus::False, "PoweredOff".into()));
    world.settle();

    world.states.clear();
    world.pass(86_400);
    world.edit(|host| host.spec.image = Some(image("two")));
    world.run();
    assert_eq!(world.states, [S::Deprovisioning, S::Available, S::Provisioning, S::Provisioned]);
    let again = world.memory().applied.clone().unwrap();
    assert_eq!((again.image, again.attempt), (image("two"), attempt + 1));
    assert_ne!(again.disk_guid, applied.disk_guid, "every installation has its own GUID");

    world.states.clear();
    world.delete();
    world.run();
    assert_eq!(world.states, [S::Deprovisioning, S::PoweringOff, S::Deleting]);
    assert!(world.gone && world.seen.bmc.power == HostPower::Off);
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::Tombstone { .. })), 0);
}

/// An owner corrects the checksum before anything is written; what is told of the disk is what was written.
#[test]
fn what_is_told_of_the_disk_is_what_the_plan_wrote() {
    let mut world = World::new();
    for _ in 0..300 {
        if world.state() == S::Provisioning {
            break;
        }
        if world.booting {
            world.hello();
        }
        world.step();
    }
    assert_eq!(world.state(), S::Provisioning, "{}", world.reason());
    let corrected = Image { checksum: "1".repeat(64), ..image("one") };
    world.edit(|host| host.spec.image = Some(corrected.clone()));
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert_eq!(world.memory().applied.as_ref().map(|applied| applied.image.clone()), Some(corrected));
}

#[test]
fn without_a_bmc_the_agent_stays_and_a_person_reboots_by_hand() {
    let mut world = World::without_bmc();
    world.settle();
    assert_eq!(world.state(), S::Unmanaged);
    assert_eq!(world.seen.host.status.as_ref().unwrap().operational_status, OperationalStatus::Discovered);
    assert_eq!(condition(&world, "PowerControl"), (ConditionStatus::False, "NoDriver".into()));
    assert!(world.reason().contains("by hand"), "{}", world.reason());
    assert_eq!(boot_entry(world.memory()), HostBootEntry::Agent { attempt: 1 });
    assert!(matches!(world.seen.image, ImageInputs::Ready(_)), "the image is fetched while the host is waited for");

    world.hello();
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());

    world.edit(|host| host.spec.image = None);
    world.settle();
    assert_eq!(world.state(), S::Deprovisioning);
    assert!(world.reason().contains("by hand"), "{}", world.reason());
    assert_eq!(boot_entry(world.memory()), HostBootEntry::Agent { attempt: 2 }, "published before the host comes");
    world.pass(7200);
    world.hello();
    world.run();
    assert_eq!((world.state(), world.memory().disk_dirty), (S::Available, false));
    assert!(!world.effects.iter().any(|effect| matches!(effect, HostEffect::Bmc(_))), "there is no BMC to call");
}

/// A person was asked to switch a host on that was booting.
#[test]
fn without_a_bmc_the_reason_follows_the_boot() {
    let mut world = World::without_bmc();
    world.settle();
    let reason = |world: &mut World, seconds_ago: i64| {
        let at = world.now - SignedDuration::from_secs(seconds_ago);
        world.seen.netboot.stage = "kernel fetched".into();
        world.seen.netboot.stages =
            vec![ReachedStage { stage: NetbootStage::Kernel, first_at: at, last_at: at, detail: String::new() }];
        world.settle();
        world.reason().to_owned()
    };
    let booting = "waiting for the host to boot from the network; last stage seen: kernel fetched";
    assert_eq!(reason(&mut world, 0), booting);
    assert!(reason(&mut world, 7200).contains("by hand"), "that boot came to nothing");

    world.hello();
    world.run();
    world.edit(|host| host.spec.image = None);
    world.settle();
    world.pass(30);
    assert!(reason(&mut world, 60).contains("by hand"), "the boot before");
    assert_eq!(reason(&mut world, 1), booting);
}

#[test]
fn an_adopted_host_gets_its_own_agent() {
    let mut world = World::without_bmc();
    world.seen.discovery_agent = true;
    let step = {
        world.step();
        world.step()
    };
    assert!(step.effects.iter().any(|effect| matches!(effect, HostEffect::RebootDiscoveryAgent { .. })));
    world.seen.discovery_agent = false;
    world.hello();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
}

#[test]
fn the_boot_entry_is_in_the_memory_before_the_bmc_hears_of_it() {
    let mut world = World::new();
    let mut booted = false;
    for _ in 0..30 {
        let step = world.step();
        for effect in &step.effects {
            if matches!(effect, HostEffect::Bmc(call) if call.action == BmcAction::NetBoot) {
                assert_eq!(
                    boot_entry(&step.memory),
                    HostBootEntry::Wait,
                    "the host waits until the BMC has carried it out"
                );
                booted = true;
            }
        }
    }
    assert!(booted);
}

#[test]
fn a_lost_effect_is_asked_for_again_under_the_same_ticket() {
    let mut world = World::new();
    let first = loop {
        let step = world.step();
        if let Some(HostEffect::Bmc(call)) = step.effects.iter().find(|effect| matches!(effect, HostEffect::Bmc(_))) {
            break call.clone();
        }
    };
    // The process died before it noted an outcome.
    world.seen.bmc = firesteel_plan::host::BmcInputs::default();
    let again = world.step();
    assert!(again.effects.contains(&HostEffect::Bmc(first)), "{:?}", again.effects);
}

#[test]
fn an_old_inspection_is_repeated_before_a_disk_is_written() {
    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!(world.state(), S::Available);
    world.pass(7200);
    world.agent().rebooted = true;
    world.settle();
    world.hello();
    world.edit(|host| host.spec.image = Some(image("one")));
    let before = world.effects.len();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    let plans: Vec<&str> = world.effects[before..]
        .iter()
        .filter_map(|effect| match effect {
            HostEffect::IssuePlan { plan, .. } => Some(plan.name()),
            _ => None,
        })
        .collect();
    assert_eq!(plans, ["inspect", "write"]);
    let disk = world.memory().disk.clone().unwrap();
    assert_eq!(disk.inspected_in, world.memory().applied.as_ref().unwrap().attempt);
}

#[test]
fn a_host_without_user_data_is_provisioned_and_says_that_running_is_unverified() {
    let mut world = World::new();
    world.seen.user_data = UserDataInputs::NotReferenced;
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert!(world.reason().contains("unverified"), "{}", world.reason());
    assert_eq!(condition(&world, "Running"), (ConditionStatus::Unknown, "Unverified".into()));
}

#[test]
fn an_os_that_never_reports_is_called_unverified_after_a_while() {
    let mut world = World::new();
    world.run();
    assert!(world.reason().contains("waiting for its report"), "{}", world.reason());
    world.pass(3600);
    world.run();
    assert!(world.reason().contains("unverified") && world.reason().contains("60 min"), "{}", world.reason());
}

#[test]
fn user_data_alone_changes_nothing_and_the_same_status_is_written_once() {
    let mut world = World::new();
    world.run();
    let status = world.seen.host.status.clone();
    world.seen.user_data = UserDataInputs::Ready { sha256: "other".into(), configs: vec!["worker".into()] };
    world.pass(30);
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    assert_eq!(world.seen.host.status, status, "nothing new, so nothing is written");
}

#[test]
fn an_externally_provisioned_host_is_never_touched() {
    let mut world = World::new();
    world.edit(|host| host.spec.externally_provisioned = true);
    world.run();
    assert_eq!(world.state(), S::ExternallyProvisioned);
    world.edit(|host| host.spec.externally_provisioned = false);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "the image that the spec names counts as installed");
    let plans = world.count(|effect| matches!(effect, HostEffect::IssuePlan { .. }));
    assert_eq!((plans, world.net_boots()), (0, 0));
    assert_eq!(boot_entry(world.memory()), HostBootEntry::LocalDisk { disk_guid: None });
}

#[test]
fn an_available_host_that_is_to_be_off_is_switched_off_by_its_agent() {
    let mut world = World::new();
    world.edit(|host| {
        host.spec.image = None;
        host.spec.online = false;
    });
    world.run();
    assert_eq!(world.state(), S::Available);
    assert_eq!(
        world.count(|effect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::PowerOff, .. })),
        1,
        "{}",
        world.reason()
    );
    let attempt = world.memory().attempt;
    assert!(attempt > 1, "the next boot has an identity of its own");
}

#[test]
fn the_history_says_when_each_operation_began_and_ended_however_it_ended() {
    let mut world = World::new();
    let begun = world.now;
    let status = |world: &World| world.seen.host.status.clone().unwrap().operation_history;
    for _ in 0..4 {
        world.step();
        world.pass(1);
    }
    let register = status(&world).register;
    assert!(register.start >= Some(begun) && register.end > register.start, "{register:?}");
    assert!(status(&world).inspect.start.is_some() && status(&world).inspect.end.is_none());
    run_to_write(&mut world);
    let history = status(&world);
    assert!(history.inspect.end >= history.inspect.start && history.provision.end.is_none(), "{history:?}");
    assert_eq!(history.deprovision, OperationMetric::default());
    // A failed installation has ended, too.
    world.pass(60);
    let failed_at = world.now;
    world.agent().rebooted = true;
    world.step();
    let history = status(&world);
    assert_eq!((history.provision.end, history.deprovision.start), (Some(failed_at), Some(failed_at)));
    assert_eq!(history.deprovision.end, None);
    let text = serde_json::to_string(&history).unwrap();
    assert!(text.contains("\"end\":null"), "as upstream writes it: {text}");
}

/// It was asked for in the first step alone: lost with the process, the host was never held on to, and a deletion
/// left its disk as it was.
#[test]
fn the_finalizer_comes_back() {
    let mut world = World::new();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world.edit(|host| host.metadata.finalizers.clear());
    world.step();
    assert_eq!(world.seen.host.metadata.finalizers, [firesteel_resources::bare_metal_host::FINALIZER]);
    world.edit(|host| host.metadata.finalizers.clear());
    world.delete();
    world.step();
    assert!(world.seen.host.metadata.finalizers.is_empty(), "none is added to what goes");
}
