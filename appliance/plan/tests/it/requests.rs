//! Requests by annotation, power, and deletion.

use firesteel_plan::host::{BmcAction, BmcFault, BmcFaultKind, HostPower};
use firesteel_plan::{HostBootEntry, HostEffect, boot_entry};
use firesteel_resources::bare_metal_host::{OperationalStatus, ProvisioningState as S, annotations};
use jiff::Timestamp;

use crate::world::{World, run_to_write};

fn actions(world: &World) -> Vec<BmcAction> {
    world
        .effects
        .iter()
        .filter_map(|effect| match effect {
            HostEffect::Bmc(call) => Some(call.action),
            _ => None,
        })
        .collect()
}

fn provisioned() -> World {
    let mut world = World::new();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world.effects.clear();
    world
}

#[test]
fn a_paused_host_is_left_alone_and_goes_on_after() {
    let mut world = World::new();
    world.annotate(annotations::PAUSED, "metal3.io/capm3");
    world.run();
    assert_eq!((world.state(), world.effects.len()), (S::New, 0));
    assert!(world.reason().contains("metal3.io/capm3"));
    world.seen.host.metadata.annotations.clear();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
}

#[test]
fn a_detached_host_keeps_its_os_also_when_deleted() {
    let mut world = provisioned();
    world.annotate(annotations::DETACHED, r#"{"deleteAction":"delay"}"#);
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    assert_eq!(world.seen.host.status.as_ref().unwrap().operational_status, OperationalStatus::Detached);
    world.delete();
    world.run();
    assert!(!world.gone, "deletion is delayed");
    world.annotate(annotations::DETACHED, "");
    world.run();
    assert!(world.gone);
    assert_eq!(world.count(|effect| !matches!(effect, HostEffect::RemoveFinalizer)), 0, "{:?}", world.effects);
}

fn status(world: &World) -> firesteel_resources::BareMetalHostStatus {
    world.seen.host.status.clone().unwrap()
}

#[test]
fn whoever_paused_is_named_and_a_deletion_waits_for_the_pause_to_end() {
    let mut world = provisioned();
    let memory = world.memory().clone();
    world.annotate(annotations::PAUSED, "");
    world.annotate(annotations::RELEASE_FORCE, "");
    world.annotate(annotations::REBOOT, "");
    world.delete();
    for _ in 0..3 {
        world.pass(86_400);
        world.settle();
    }
    assert_eq!((world.effects.len(), world.memory()), (0, &memory), "{:?}", world.effects);
    assert!(world.reason().contains("paused"), "{}", world.reason());
    world.seen.host.metadata.annotations.clear();
    world.run();
    assert!(world.gone);
}

#[test]
fn a_detached_host_rests_and_is_asked_anew_when_it_is_attached() {
    let mut world = provisioned();
    world.annotate(annotations::DETACHED, "");
    world.edit(|host| host.spec.online = false);
    world.run();
    assert_eq!((world.effects.len(), world.memory().deadline), (0, None), "{:?}", world.effects);
    assert_eq!(status(&world).operational_status, OperationalStatus::Detached);
    let reason = |world: &World, name: &str| {
        let status = status(world);
        let found = firesteel_resources::condition::find_condition(&status.conditions, name).unwrap();
        (found.status, found.reason.clone())
    };
    use firesteel_resources::ConditionStatus::False;
    assert_eq!(reason(&world, "Ready"), (False, "Detached".to_owned()));
    assert_eq!(reason(&world, "Progressing"), (False, "Detached".to_owned()));
    world.seen.host.metadata.annotations.clear();
    world.pass(61);
    world.run();
    assert_eq!((world.state(), world.seen.bmc.power), (S::Provisioned, HostPower::Off));
    assert_eq!(status(&world).operational_status, OperationalStatus::Ok);
    assert!(world.memory().bmc.good_credentials.is_some());
    assert!(actions(&world).contains(&BmcAction::Probe));
}

#[test]
fn detaching_waits_for_the_work_under_way_unless_it_is_forced() {
    let mut world = World::new();
    run_to_write(&mut world);
    let attempt = world.memory().attempt;
    world.annotate(annotations::DETACHED, "");
    world.settle();
    assert_eq!((world.state(), world.memory().detached), (S::Provisioning, None));
    assert_eq!(status(&world).operational_status, OperationalStatus::Ok);
    world.effects.clear();
    world.annotate(annotations::DETACHED, r#"{"force":true}"#);
    world.settle();
    assert_eq!(status(&world).operational_status, OperationalStatus::Detached);
    let aborts = |effect: &HostEffect| matches!(effect, HostEffect::AbortAgent { attempt: old, .. } if *old == attempt);
    assert_eq!((world.count(aborts), world.effects.len()), (1, 1), "{:?}", world.effects);
    assert_eq!((boot_entry(world.memory()), world.memory().deadline), (HostBootEntry::Nothing, None));
    // Attached again, the half-written disk is cleaned first.
    world.seen.host.metadata.annotations.clear();
    world.run();
    assert!(world.states.contains(&S::Deprovisioning), "{:?}", world.states);
    world.pass(1800);
    let now = world.now;
    world.agent().last_report_at = now;
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

/// Upstream deletes a host with the annotation from any state without touching it.
#[test]
fn a_deletion_while_detached_touches_nothing_in_any_state() {
    for steps in 0..40 {
        let mut world = World::new();
        for _ in 0..steps {
            if world.booting {
                world.hello();
            }
            world.step();
        }
        let (from, has_os) = (world.state(), world.memory().applied.is_some());
        let dirty = world.memory().disk_dirty;
        world.effects.clear();
        world.annotate(annotations::DETACHED, r#"{"deleteAction":"delete"}"#);
        world.delete();
        world.settle();
        assert!(world.gone, "from {from:?}: {}", world.reason());
        let touches = |effect: &HostEffect| matches!(effect, HostEffect::Bmc(_) | HostEffect::IssuePlan { .. });
        assert_eq!(world.count(touches), 0, "from {from:?}: {:?}", world.effects);
        let tombs = world.count(|effect| matches!(effect, HostEffect::Tombstone { .. }));
        assert_eq!(tombs > 0, dirty && !has_os, "from {from:?}: a disk that holds no whole installation");
    }
}

#[test]
fn a_deletion_that_is_to_wait_waits_in_every_state_and_is_carried_out_after() {
    for steps in 0..40 {
        let mut world = World::new();
        for _ in 0..steps {
            if world.booting {
                world.hello();
            }
            world.step();
        }
        let from = world.state();
        world.annotate(annotations::DETACHED, r#"{"deleteAction":"delay"}"#);
        world.delete();
        for _ in 0..5 {
            world.run();
            world.pass(61);
        }
        assert!(!world.gone, "from {from:?}");
        let rests = matches!(world.state(), S::Available | S::Provisioned);
        assert!(rests && world.memory().detached.is_some(), "from {from:?}: {:?} {}", world.state(), world.reason());
        world.seen.host.metadata.annotations.clear();
        for _ in 0..20 {
            world.run();
            world.pass(6);
        }
        assert!(world.gone, "from {from:?}: {:?} {}", world.state(), world.reason());
    }
}

#[test]
fn release_by_force_needs_a_deletion_and_leaves_a_tombstone() {
    let mut world = provisioned();
    world.annotate(annotations::RELEASE_FORCE, "true");
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world.delete();
    world.run();
    assert!(world.gone);
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::Tombstone { disk: Some(_), .. })), 1);
    assert!(!world.effects.iter().any(|effect| matches!(effect, HostEffect::Bmc(_) | HostEffect::IssuePlan { .. })));
}

#[test]
fn a_soft_reboot_goes_off_and_on_and_is_consumed() {
    let mut world = provisioned();
    world.annotate(annotations::REBOOT, "");
    for _ in 0..10 {
        world.run();
        world.pass(6);
    }
    let wanted = [BmcAction::PowerOff { hard: false }, BmcAction::PowerOn];
    let done: Vec<BmcAction> = actions(&world).into_iter().filter(|action| *action != BmcAction::Probe).collect();
    assert_eq!(done, wanted);
    assert!(!world.seen.host.metadata.annotations.contains_key(annotations::REBOOT));
    assert_eq!(world.seen.bmc.power, HostPower::On);
}

#[test]
fn a_hard_reboot_is_one_reset() {
    let mut world = provisioned();
    world.annotate(annotations::REBOOT, r#"{"mode":"hard"}"#);
    world.run();
    let done: Vec<BmcAction> = actions(&world).into_iter().filter(|action| *action != BmcAction::Probe).collect();
    assert_eq!(done, [BmcAction::Cycle]);
}

#[test]
fn an_os_that_does_not_shut_down_is_cut_off_after_three_minutes() {
    let mut world = provisioned();
    world.edit(|host| host.spec.online = false);
    let mut hard_after = None;
    let mut shown = Vec::new();
    for second in 0..400 {
        world.step();
        shown.push(world.reason().to_owned());
        shown.dedup();
        // The OS ignores the soft one.
        let cut = actions(&world).contains(&BmcAction::PowerOff { hard: true });
        if cut && hard_after.is_none() {
            hard_after = Some(second);
        }
        if !cut {
            world.seen.bmc.power = HostPower::On;
        }
        world.pass(1);
    }
    let hard_after = hard_after.unwrap();
    assert!((180..200).contains(&hard_after), "{hard_after}");
    assert!(world.reason().contains("switched off"), "{}", world.reason());
    // Who looks on knows how long it may take.
    let mut asked: Vec<&String> = shown.iter().filter(|text| text.starts_with("the OS was asked at ")).collect();
    asked.dedup();
    let [asked] = asked[..] else { panic!("{asked:?}") };
    let times: Vec<Timestamp> = asked.split([' ', ';']).filter_map(|word| word.parse().ok()).collect();
    assert_eq!(times[1].duration_since(times[0]).as_secs(), 180, "{asked}");
    assert!(asked.contains("to shut down; if it does not, the power is cut at"), "{asked}");
}

#[test]
fn a_soft_reboot_that_the_os_ignores_is_a_hard_one_after_three_minutes() {
    for text in ["", r#"{"mode":"soft"}"#] {
        let mut world = provisioned();
        world.annotate(annotations::REBOOT, text);
        let mut hard_after = None;
        for second in 0..400 {
            world.step();
            let cut = actions(&world).contains(&BmcAction::PowerOff { hard: true });
            if cut && hard_after.is_none() {
                hard_after = Some(second);
            }
            if !cut {
                world.seen.bmc.power = HostPower::On;
            }
            world.pass(1);
        }
        let hard_after = hard_after.unwrap();
        assert!((180..200).contains(&hard_after), "{hard_after}");
        let last = actions(&world).into_iter().rfind(|action| *action != BmcAction::Probe);
        assert_eq!(last, Some(BmcAction::PowerOn));
        assert_eq!((world.state(), world.seen.bmc.power), (S::Provisioned, HostPower::On), "{}", world.reason());
        assert!(!world.seen.host.metadata.annotations.contains_key(annotations::REBOOT));
    }
}

/// It was tried again and again, and the host stayed on.
#[test]
fn where_a_bmc_has_no_soft_power_off_the_power_is_cut_at_once() {
    let mut world = provisioned();
    world.soft_off_works = false;
    world.edit(|host| host.spec.online = false);
    for _ in 0..10 {
        world.run();
        world.pass(1);
    }
    let done: Vec<BmcAction> = actions(&world).into_iter().filter(|action| *action != BmcAction::Probe).collect();
    assert_eq!(done, [BmcAction::PowerOff { hard: false }, BmcAction::PowerOff { hard: true }]);
    assert_eq!((world.seen.bmc.power, world.memory().failure.as_ref()), (HostPower::Off, None), "{}", world.reason());
}

/// The BMC may be restarting: the OS is not cut off because of that.
#[test]
fn a_bmc_that_answers_with_errors_is_asked_again_for_a_soft_power_off() {
    let mut world = provisioned();
    world.refuses = Some(BmcFault { kind: BmcFaultKind::Refused, message: "404".into() });
    world.edit(|host| host.spec.online = false);
    for _ in 0..30 {
        world.settle();
        world.pass(6);
    }
    assert!(!actions(&world).contains(&BmcAction::PowerOff { hard: true }));
    world.refuses = None;
    for _ in 0..60 {
        world.run();
        world.pass(60);
    }
    let done: Vec<BmcAction> = actions(&world).into_iter().filter(|action| *action != BmcAction::Probe).collect();
    assert!(!done.contains(&BmcAction::PowerOff { hard: true }), "{done:?}");
    assert_eq!(world.seen.bmc.power, HostPower::Off, "{}", world.reason());
}

#[test]
fn holders_keep_the_host_off_until_the_last_lets_go() {
    let mut world = provisioned();
    world.annotate("reboot.metal3.io/a", "");
    for _ in 0..5 {
        world.run();
        world.pass(61);
    }
    assert_eq!(world.seen.bmc.power, HostPower::Off);
    assert!(world.reason().contains("held off by a"), "{}", world.reason());
    world.seen.host.metadata.annotations.clear();
    world.run();
    assert_eq!(world.seen.bmc.power, HostPower::On);
}

fn orders(world: &World) -> Vec<BmcAction> {
    actions(world).into_iter().filter(|action| *action != BmcAction::Probe).collect()
}

/// The appliance died between the reboot and the removal of its annotation: the host was rebooted again.
#[test]
fn a_reboot_whose_annotation_stays_is_carried_out_once_and_only_after_its_removal() {
    let mut world = provisioned();
    world.annotations_work = false;
    world.annotate(annotations::REBOOT, r#"{"mode":"hard"}"#);
    for _ in 0..5 {
        world.step();
        world.pass(10);
    }
    assert!(orders(&world).is_empty());
    assert!(world.memory().reboot.is_some());
    world.annotations_work = true;
    for _ in 0..5 {
        world.run();
        world.pass(10);
    }
    assert_eq!(orders(&world), [BmcAction::Cycle]);
    assert_eq!(world.memory().reboot, None);
}

#[test]
fn an_externally_provisioned_host_is_rebooted_and_held_off_as_well() {
    let mut world = World::new();
    world.edit(|host| host.spec.externally_provisioned = true);
    world.run();
    world.seen.bmc.power = HostPower::On;
    world.effects.clear();
    world.annotate(annotations::REBOOT, "");
    for _ in 0..10 {
        world.run();
        world.pass(6);
    }
    assert_eq!(orders(&world), [BmcAction::PowerOff { hard: false }, BmcAction::PowerOn]);
    world.effects.clear();
    world.annotate("reboot.metal3.io/remediation", r#"{"mode":"hard"}"#);
    for _ in 0..3 {
        world.run();
        world.pass(61);
    }
    assert_eq!(orders(&world), [BmcAction::PowerOff { hard: true }]);
    assert!(world.reason().contains("held off by remediation"), "{}", world.reason());
    assert!(world.seen.host.metadata.annotations.contains_key("reboot.metal3.io/remediation"), "nobody let go");
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::IssuePlan { .. })), 0);
}

/// A reboot of a host that is to be off switched it on.
#[test]
fn a_reboot_of_a_host_that_is_to_be_off_leaves_it_off() {
    let mut world = provisioned();
    world.edit(|host| host.spec.online = false);
    for _ in 0..3 {
        world.run();
        world.pass(61);
    }
    assert_eq!(world.seen.bmc.power, HostPower::Off);
    world.effects.clear();
    world.annotate(annotations::REBOOT, r#"{"mode":"hard"}"#);
    for _ in 0..3 {
        world.run();
        world.pass(61);
    }
    assert_eq!((orders(&world), world.seen.bmc.power), (vec![], HostPower::Off));
    assert!(world.seen.host.metadata.annotations.is_empty());
}

#[test]
fn where_power_off_is_disabled_a_reboot_is_a_reset_and_holders_hold_nothing() {
    let mut world = provisioned();
    world.edit(|host| host.spec.disable_power_off = true);
    world.annotate(annotations::REBOOT, "");
    world.run();
    assert_eq!(orders(&world), [BmcAction::Cycle]);
    world.effects.clear();
    world.annotate("reboot.metal3.io/a", "");
    for _ in 0..3 {
        world.run();
        world.pass(61);
    }
    assert_eq!((orders(&world), world.seen.bmc.power), (vec![], HostPower::On));
    assert!(world.reason().contains("power-off is disabled"), "{}", world.reason());
}

#[test]
fn without_an_os_only_requests_by_force_are_carried_out() {
    let available = || {
        let mut world = World::new();
        world.edit(|host| host.spec.image = None);
        world.run();
        assert_eq!(world.state(), S::Available);
        world.effects.clear();
        world
    };
    let mut world = available();
    let attempt = world.memory().attempt;
    world.annotate(annotations::REBOOT, r#"{"mode":"hard"}"#);
    world.annotate("reboot.metal3.io/a", "");
    world.run();
    assert_eq!((orders(&world), world.memory().attempt), (vec![], attempt));
    assert!(!world.seen.host.metadata.annotations.contains_key(annotations::REBOOT), "it does not wait for the OS");
    world.annotate(annotations::REBOOT, r#"{"force":true}"#);
    world.settle();
    let aborted =
        world.count(|effect| matches!(effect, HostEffect::AbortAgent { attempt: old, .. } if *old == attempt));
    assert_eq!((aborted, world.memory().attempt), (1, attempt + 1), "its agent starts again under another number");
    world.annotate("reboot.metal3.io/a", r#"{"force":true}"#);
    for _ in 0..5 {
        world.run();
        world.pass(61);
    }
    assert_eq!(world.seen.bmc.power, HostPower::Off);
}

#[test]
fn a_reboot_by_force_boots_an_inspected_host_again_and_never_interrupts_a_write() {
    let mut world = World::new();
    world.settle();
    assert_eq!((world.state(), world.net_boots()), (S::Inspecting, 1));
    world.annotate(annotations::REBOOT, r#"{"force":true}"#);
    world.settle();
    assert_eq!(world.net_boots(), 2);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());

    let mut world = World::new();
    run_to_write(&mut world);
    let before = (world.memory().clone(), world.net_boots());
    world.effects.clear();
    world.annotate(annotations::REBOOT, r#"{"mode":"hard","force":true}"#);
    world.settle();
    assert_eq!((world.memory(), world.net_boots()), (&before.0, 0));
    assert!(world.seen.host.metadata.annotations.is_empty());
}

#[test]
fn retry_forgets_delay_and_count_and_is_consumed() {
    let mut world = World::new();
    world.bmc_works = false;
    world.run();
    assert!(world.memory().failure.is_some());
    world.bmc_works = true;
    world.annotate(annotations::RETRY, "true");
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert!(world.seen.host.metadata.annotations.is_empty());
}

#[test]
fn an_inspection_that_is_asked_for_replaces_the_record_and_is_consumed() {
    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    world.run();
    world.states.clear();
    world.pass(60);
    world.annotate(annotations::INSPECT, "");
    world.run();
    assert_eq!(world.states, [S::Inspecting, S::Preparing, S::Available]);
    assert_eq!(world.seen.hardware.as_ref().unwrap().inspected_at, world.now);
    assert!(world.seen.host.metadata.annotations.is_empty());
}

#[test]
fn deletion_finds_its_way_out_of_every_state() {
    for steps in 0..40 {
        let mut world = World::new();
        for _ in 0..steps {
            if world.booting {
                world.hello();
            }
            world.step();
        }
        let from = world.state();
        world.delete();
        for _ in 0..20 {
            world.run();
            world.pass(6);
        }
        assert!(world.gone, "from {from:?}: {:?} {}", world.state(), world.reason());
        assert!(!world.memory().disk_dirty, "from {from:?}");
    }
}

/// What was let go uncleaned is told by the next host of the machine, until its disk was cleaned.
#[test]
fn a_tombstone_is_told_by_the_next_host_until_its_disk_is_cleaned() {
    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    let left = |disk: &str| firesteel_plan::host::Tombstone {
        host: "default/old".into(),
        disk: disk.into(),
        at: world_start(),
        of_tenant: true,
        is_settled: false,
        is_told_only: false,
    };
    let said = |world: &World| {
        let conditions = world.seen.host.status.clone().unwrap_or_default().conditions;
        firesteel_resources::condition::find_condition(&conditions, "Uncleaned")
            .map(|found| (found.status == firesteel_resources::ConditionStatus::True, found.message.clone()))
    };
    world.seen.uncleaned = Some(left("somewhere else"));
    world.run();
    assert!(said(&world).is_some_and(|(is_so, text)| is_so && text.contains("default/old")), "{:?}", said(&world));
    world.edit(|host| host.spec.image = Some(crate::world::image("one")));
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    assert!(said(&world).is_some_and(|(is_so, _)| is_so), "another disk was written");
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::ForgetTombstone)), 0);

    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    world.run();
    world.seen.uncleaned = Some(left(""));
    world.step();
    assert!(said(&world).is_some_and(|(is_so, _)| is_so));
    let erasures = |world: &World| {
        world.count(|effect| {
            matches!(effect, HostEffect::IssuePlan { plan: firesteel_plan::host::PlanKind::Erase(_), .. })
        })
    };
    assert_eq!(erasures(&world), 0);
    world.edit(|host| host.spec.image = Some(crate::world::image("one")));
    world.run();
    assert_eq!((world.state(), erasures(&world)), (S::Provisioned, 1), "{}", world.reason());
    assert!(world.count(|effect| matches!(effect, HostEffect::ForgetTombstone)) > 0);
    assert_eq!(said(&world), Some((false, String::new())));

    // What the policy leaves is not called cleaned.
    let mut world = World::new();
    world.annotate(annotations::CLEANING, r#"{"betweenOwners":{"method":"metadata","scope":"target"}}"#);
    world.seen.uncleaned = Some(left(""));
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert!(said(&world).is_some_and(|(is_so, _)| is_so), "{:?}", said(&world));
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::ForgetTombstone)), 0);

    // What is installed already is not erased for what somebody left before.
    let mut world = World::new();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world.seen.uncleaned = Some(left(""));
    world.pass(600);
    world.edit(|host| host.spec.image = Some(crate::world::image("two")));
    world.run();
    assert_eq!((world.state(), erasures(&world)), (S::Provisioned, 0), "{}", world.reason());
    assert!(said(&world).is_some_and(|(is_so, _)| is_so), "one disk is written, and any may be meant");

    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    world.run();
    world.seen.uncleaned = Some(left("model DISK, serial A, 20.0 GB"));
    world.step();
    world.edit(|host| host.spec.image = Some(crate::world::image("one")));
    world.run();
    assert!(world.memory().uncleaned.is_none(), "the only disk of the machine was erased");
    assert_eq!(erasures(&world), 1);

    // Of several disks the named one is written: a tenant's data may be where the image has nothing.
    for of_tenant in [false, true] {
        let mut world = World::new();
        world.disks = vec![crate::world::disk("sda", "A", 20), crate::world::disk("sdb", "B", 40)];
        world.seen.uncleaned =
            Some(firesteel_plan::host::Tombstone { of_tenant, ..left("model DISK, serial A, 20.0 GB") });
        world.run();
        assert_eq!((world.state(), erasures(&world)), (S::Provisioned, 0), "{}", world.reason());
        assert_eq!(world.memory().disk.as_ref().map(|disk| disk.identity().serial.as_str()), Some("A"));
        assert_eq!(said(&world).is_some_and(|(is_so, _)| is_so), of_tenant, "{:?}", said(&world));
    }
}

/// An owner who deleted a host and made it anew had its data disks erased: the tombstone of a host without a consumer
/// stood for all disks of the machine.
#[test]
fn a_tombstone_that_no_tenant_left_has_no_disk_erased() {
    let erases = |effect: &HostEffect| {
        matches!(effect, HostEffect::IssuePlan { plan: firesteel_plan::host::PlanKind::Erase(_), .. })
    };
    for (disk, of_tenant, erased) in [("", false, 0), ("", true, 1), ("model DISK, serial A, 20.0 GB", false, 0)] {
        let mut world = World::new();
        let left = serde_json::json!({"host": "default/old", "disk": disk, "at": world_start()});
        let mut left: firesteel_plan::host::Tombstone = serde_json::from_value(left).unwrap();
        assert!(!left.of_tenant, "what was stored before this was kept is told only");
        left.of_tenant = of_tenant;
        world.seen.uncleaned = Some(left);
        world.run();
        assert_eq!((world.state(), world.count(erases)), (S::Provisioned, erased), "{disk:?} {}", world.reason());
        assert!(world.events.iter().any(|event| event.reason == "Uncleaned"));
    }
}

/// Whose data a tombstone is about.
#[test]
fn a_tombstone_says_whether_a_tenant_left_it() {
    for booked in [false, true] {
        let mut world = World::new();
        if booked {
            let reference = serde_json::from_value(serde_json::json!({"kind": "M", "name": "tenant"})).unwrap();
            world.edit(|host| host.spec.consumer_ref = Some(reference));
        }
        world.run();
        world.annotate(annotations::RELEASE_FORCE, "");
        world.delete();
        world.run();
        assert!(world.gone);
        let left =
            |effect: &HostEffect| matches!(effect, HostEffect::Tombstone { of_tenant, .. } if *of_tenant == booked);
        assert_eq!(world.count(left), 1, "{:?}", world.effects);
    }
}

fn world_start() -> jiff::Timestamp {
    "2025-12-31T00:00:00Z".parse().unwrap()
}
