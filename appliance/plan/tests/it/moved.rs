//! Hosts that come with a past: moved here with their status, or described by their owner.

use firesteel_plan::{HostBootEntry, HostEffect, boot_entry, host::FrozenWhy};
use firesteel_resources::bare_metal_host::{InspectionMode, ProvisioningState as S, annotations};
use firesteel_resources::condition::{ConditionStatus, find_condition};
use firesteel_resources::hardware::{DiskRecord, TableRecord};

use crate::world::{World, disk, image};

const HARDWARE: &str = r#"{"ramMebibytes":4096,"cpu":{"arch":"x86_64","count":4}}"#;

fn moved(state: &str) -> World {
    let mut world = World::new();
    let status = serde_json::json!({
        "operationalStatus": "OK",
        "lastUpdated": "2025-05-13T15:03:45Z",
        "poweredOn": true,
        "hardware": {"ramMebibytes": 4096},
        "provisioning": {"state": state, "ID": "73c01ec4", "image": {"url": image("one").url}},
        "operationHistory": {
            "register": {"start": "2025-05-13T14:57:10Z", "end": "2025-05-13T14:57:11Z"},
            "provision": {"start": "2025-05-13T14:57:12Z", "end": "2025-05-13T15:03:45Z"},
            "deprovision": {"start": null, "end": null}
        }
    });
    world.annotate(annotations::STATUS_OF, &status.to_string());
    world
}

/// What is said of the disks.
fn erased(world: &World) -> Option<(bool, String)> {
    let status = world.seen.host.status.as_ref()?;
    let found = find_condition(&status.conditions, "DisksErased")?;
    Some((found.status == ConditionStatus::True, found.reason.clone()))
}

fn warnings(world: &World) -> Vec<String> {
    let events = &world.last.as_ref().unwrap().events;
    events.iter().map(|event| event.reason.word().to_owned()).collect()
}

#[test]
fn a_moved_host_goes_on_with_its_os() {
    let mut world = moved("provisioned");
    world.step();
    let status = world.seen.host.status.clone().unwrap();
    assert_eq!((world.state(), world.memory().id.as_str()), (S::Provisioned, "73c01ec4"));
    assert_eq!(status.hardware.unwrap().ram_mebibytes, 4096);
    assert!(status.operation_history.provision.end.is_some());
    world.seen.bmc.power = firesteel_plan::host::HostPower::On;
    for _ in 0..5 {
        world.run();
        world.pass(61);
    }
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert!(world.seen.host.metadata.annotations.is_empty());
    assert_eq!(world.seen.host.metadata.finalizers.len(), 1);
    assert_eq!(boot_entry(world.memory()), HostBootEntry::LocalDisk { disk_guid: None });
    let plans = world.count(|effect| matches!(effect, HostEffect::IssuePlan { .. }));
    assert_eq!((plans, world.net_boots()), (0, 0));
    assert!(world.seen.host.status.as_ref().unwrap().hardware.is_some());
}

#[test]
fn the_disk_of_a_moved_host_is_not_said_to_be_clean() {
    let mut world = moved("provisioned");
    world.run();
    world.edit(|host| host.spec.image = None);
    let mut warned = false;
    for _ in 0..20 {
        world.step();
        warned |= warnings(&world).contains(&"NotCleaned".to_owned());
    }
    assert!(warned && world.state() == S::Available, "{:?} {}", world.state(), world.reason());
    assert_eq!(erased(&world), Some((false, "NotCleaned".to_owned())));
    // Neither an installation on one of the disks nor time makes it unknown that others may hold something.
    world.edit(|host| host.spec.image = Some(image("two")));
    world.run();
    assert_eq!((world.state(), erased(&world)), (S::Provisioned, Some((false, "NotCleaned".to_owned()))));
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!((world.state(), erased(&world)), (S::Available, Some((false, "MetadataCleared".to_owned()))));
    world.delete();
    world.run();
    assert!(world.gone);
    let left = |effect: &HostEffect| matches!(effect, HostEffect::Tombstone { disk: None, of_tenant: false, .. });
    assert!(world.count(left) > 0, "the next host of the machine is told");

    let mut world = moved("provisioned");
    world.run();
    world.delete();
    world.run();
    assert!(world.gone);
    assert!(world.effects.iter().any(|effect| matches!(effect, HostEffect::Tombstone { disk: None, .. })));
    let cleans = |effect: &HostEffect| matches!(effect, HostEffect::IssuePlan { .. });
    assert_eq!(world.count(cleans), 0, "nothing names the disk");
}

/// A policy that asks for the disk of the installation alone was met where nobody knew that disk: the host was called
/// partly erased, with nothing erased.
#[test]
fn where_no_disk_is_known_nothing_is_said_to_be_erased() {
    let reference = serde_json::from_value(serde_json::json!({"kind": "M", "name": "tenant"})).unwrap();
    let reference = Some(reference);
    for method in ["full", "metadata"] {
        for image_first in [true, false] {
            let mut world = moved("provisioned");
            let policy = format!(r#"{{"betweenOwners":{{"method":"{method}","scope":"target"}}}}"#);
            world.annotate(annotations::CLEANING, &policy);
            world.edit(|host| host.spec.consumer_ref.clone_from(&reference));
            world.run();
            world.edit(|host| host.spec.image = None);
            if image_first {
                world.run();
                assert_eq!(world.state(), S::Available, "{}", world.reason());
            }
            world.edit(|host| host.spec.consumer_ref = None);
            world.run();
            assert_eq!((world.state(), world.memory().tenant.as_ref()), (S::Available, None), "{}", world.reason());
            assert_eq!(erased(&world), Some((false, "NotCleaned".to_owned())));
            let told = |reason: &str| world.events.iter().any(|event| event.reason == reason);
            assert!(told("NotCleaned") && !told("CleaningComplete"));
            // Whose it is, is not forgotten with the tenant.
            let mut released = world.clone();
            released.delete();
            released.run();
            let left =
                |effect: &HostEffect| matches!(effect, HostEffect::Tombstone { disk: None, of_tenant: true, .. });
            assert!(released.gone && released.count(left) > 0);
            // All of them, when the next one has gone.
            world.seen.host.metadata.annotations.clear();
            world.edit(|host| {
                host.spec.consumer_ref.clone_from(&reference);
                host.spec.image = Some(image("two"));
            });
            world.run();
            assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
            world.edit(|host| (host.spec.consumer_ref, host.spec.image) = (None, None));
            world.run();
            assert_eq!((world.state(), erased(&world)), (S::Available, Some((true, "Erased".to_owned()))));
            assert!(!world.memory().leaves_data());
        }
    }
}

/// What the condition said of the disks before an OS came on them, from here or from elsewhere.
#[test]
fn a_host_that_holds_an_os_is_not_said_to_be_erased() {
    for elsewhere in [false, true] {
        let mut world = World::new();
        let reference = serde_json::from_value(serde_json::json!({"kind": "M", "name": "tenant"})).unwrap();
        world.edit(|host| host.spec.consumer_ref = Some(reference));
        world.run();
        world.edit(|host| (host.spec.consumer_ref, host.spec.image) = (None, None));
        world.run();
        assert_eq!((world.state(), erased(&world)), (S::Available, Some((true, "Erased".to_owned()))));
        if elsewhere {
            world.edit(|host| host.spec.externally_provisioned = true);
            world.run();
        }
        world.edit(|host| (host.spec.externally_provisioned, host.spec.image) = (false, Some(image("two"))));
        world.run();
        assert_eq!((world.state(), erased(&world)), (S::Provisioned, Some((false, "NotErased".to_owned()))));
    }
}

#[test]
fn each_state_is_restored_and_leads_on() {
    let rows = [
        ("unmanaged", S::Provisioned),
        ("registering", S::Provisioned),
        ("inspecting", S::Provisioned),
        ("preparing", S::Provisioned),
        ("available", S::Provisioned),
        ("provisioning", S::Provisioned),
        ("provisioned", S::Provisioned),
        ("deprovisioning", S::Provisioned),
        ("externally provisioned", S::ExternallyProvisioned),
    ];
    for (state, end) in rows {
        let mut world = moved(state);
        world.edit(|host| host.spec.externally_provisioned = state == "externally provisioned");
        world.step();
        assert_eq!(world.state().word(), state);
        for _ in 0..10 {
            world.run();
            world.pass(6);
        }
        assert_eq!(world.state(), end, "from {state}: {}", world.reason());
    }
}

#[test]
fn a_status_is_restored_into_an_empty_one_only_and_a_bad_one_is_told() {
    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    world.run();
    let memory = world.memory().clone();
    world
        .annotate(annotations::STATUS_OF, &moved("provisioned").seen.host.metadata.annotations[annotations::STATUS_OF]);
    world.settle();
    assert_eq!((world.state(), &world.memory().id), (S::Available, &memory.id));
    assert!(world.seen.host.metadata.annotations.is_empty(), "it is outdated");

    // Begun anew, its OS would be lost.
    let mut world = World::new();
    world.annotate(annotations::STATUS_OF, r#"{"state":"provisioned"}"#);
    world.run();
    assert_eq!((world.state(), world.effects.len()), (S::New, 0), "{:?}", world.effects);
    assert!(world.reason().contains("unknown field") && world.reason().contains("correct it"), "{}", world.reason());
    assert!(world.memory().failure.is_some());
    world.annotate(annotations::STATUS_OF, r#"{"provisioning":{"state":"externally provisioned"},"conditions":null}"#);
    world.edit(|host| host.spec.externally_provisioned = true);
    world.run();
    assert_eq!((world.state(), world.memory().failure.as_ref()), (S::ExternallyProvisioned, None));
}

#[test]
fn hardware_is_supplied_where_nobody_inspects() {
    let mut world = World::new();
    world.edit(|host| {
        host.spec.inspection_mode = Some(InspectionMode::Disabled);
        host.spec.image = None;
    });
    world.annotate(annotations::HARDWARE_DETAILS, HARDWARE);
    world.run();
    assert_eq!(world.state(), S::Available);
    assert!(!world.states.contains(&S::Inspecting), "{:?}", world.states);
    let supplied = |effect: &HostEffect| matches!(effect, HostEffect::SupplyHardware { .. });
    assert_eq!(world.count(supplied), 1);
    let hardware = world.seen.host.status.as_ref().unwrap().hardware.clone().unwrap();
    assert_eq!((hardware.ram_mebibytes, hardware.cpu.count), (4096, 4));
    assert!(world.seen.host.metadata.annotations.is_empty());
    // It is no inspection: a disk is chosen from what the agent finds.
    world.edit(|host| host.spec.image = Some(image("one")));
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert!(world.seen.hardware.is_some());
}

#[test]
fn supplied_hardware_does_not_replace_an_inspection() {
    let mut world = World::new();
    world.run();
    world.effects.clear();
    world.annotate(annotations::HARDWARE_DETAILS, HARDWARE);
    world.step();
    assert!(warnings(&world).contains(&"RemoveAnnotation".to_owned()), "{:?}", warnings(&world));
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::SupplyHardware { .. })), 0);
    assert!(world.seen.host.metadata.annotations.is_empty());
}

#[test]
fn an_inspection_that_is_disabled_meanwhile_is_skipped() {
    for by_annotation in [true, false] {
        let mut world = World::new();
        world.edit(|host| host.spec.image = None);
        world.settle();
        assert_eq!(world.state(), S::Inspecting);
        if by_annotation {
            world.annotate(annotations::INSPECT, "disabled");
        } else {
            world.edit(|host| host.spec.inspection_mode = Some(InspectionMode::Disabled));
        }
        world.step();
        assert_eq!(world.state(), S::Preparing);
        world.settle();
        world.annotate(annotations::INSPECT, "disabled");
        world.settle();
        assert_eq!((world.state(), world.seen.hardware.as_ref()), (S::Available, None), "{}", world.reason());
    }
}

/// A status that says so had the host deleted, though nobody asked: its finalizer came and went for ever.
#[test]
fn a_host_that_was_on_its_way_out_elsewhere_is_not_deleted_here() {
    for state in ["deleting", "powering off before delete"] {
        let mut world = moved(state);
        world.step();
        assert_eq!(world.state(), S::Deprovisioning, "from {state}: its disk still has an OS");
        let mut empty = World::new();
        let status = serde_json::json!({"provisioning": {"state": state, "ID": "73c01ec4"}});
        empty.annotate(annotations::STATUS_OF, &status.to_string());
        for world in [&mut world, &mut empty] {
            for _ in 0..10 {
                world.run();
                world.pass(6);
            }
            assert_eq!(world.state(), S::Provisioned, "from {state}: {}", world.reason());
            assert!(!world.gone && world.seen.host.metadata.annotations.is_empty());
        }
    }
}

/// Its journal was taken away: the host began anew, and a deletion let it go with its tenant's data on it.
#[test]
fn a_host_whose_journal_is_lost_goes_on_from_its_status() {
    let lost = |world: &mut World| world.seen.memory = firesteel_plan::HostMemory::default();
    let mut world = World::new();
    world.run();
    lost(&mut world);
    world.step();
    assert_eq!((world.state(), world.memory().disk_dirty), (S::Provisioned, true));
    assert!(world.reason().contains("lost") && warnings(&world).contains(&"StatusRestored".to_owned()));
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::IssuePlan { plan, .. } if is_write(plan))), 1, "once");

    // While it is being deleted, from each state that it passes.
    for booked in [false, true] {
        let mut first = World::new();
        if booked {
            let reference = serde_json::from_value(serde_json::json!({"kind": "M", "name": "tenant"})).unwrap();
            first.edit(|host| host.spec.consumer_ref = Some(reference));
        }
        first.run();
        first.effects.clear();
        lost(&mut first);
        first.delete();
        for _ in 0..30 {
            first.run();
            if first.gone {
                break;
            }
            first.pass(6);
        }
        assert!(first.gone && first.states.contains(&S::Deprovisioning), "{:?}", first.states);
        let erased = first.count(|effect| matches!(effect, HostEffect::IssuePlan { plan, .. } if is_erasure(plan)));
        let tombstones = first.count(|effect| matches!(effect, HostEffect::Tombstone { .. }));
        assert_eq!((erased > 0, tombstones > 0), (booked, !booked), "{:?}", first.effects);
    }

    let mut world = World::new();
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!(world.state(), S::Available);
    lost(&mut world);
    world.delete();
    world.run();
    assert!(world.gone);
    assert_eq!(
        world.count(|effect| matches!(effect, HostEffect::Tombstone { .. })),
        1,
        "nobody knows what was written"
    );
}

fn is_write(plan: &firesteel_plan::host::PlanKind) -> bool {
    matches!(plan, firesteel_plan::host::PlanKind::Write(_))
}

fn is_erasure(plan: &firesteel_plan::host::PlanKind) -> bool {
    matches!(plan, firesteel_plan::host::PlanKind::Erase(_))
}

/// What another store installed before the host was moved froze it: it could neither be erased nor installed anew.
#[test]
fn the_marks_of_a_moved_host_are_its_own_until_its_disks_were_changed_here() {
    let foreign = |serial: &str| {
        let guid = firesteel_plan::InstallationMark { store: 9, timeline: 1, revision: 3 }.guid(serial.len() as u128);
        DiskRecord { table: Some(TableRecord::Gpt { guid }), ..disk("sda", serial, 20) }
    };
    let frozen = |world: &World| world.memory().frozen.clone().map(|frozen| frozen.why);
    let book = |world: &mut World, name: &str| {
        let reference = serde_json::from_value(serde_json::json!({"kind": "M", "name": name})).unwrap();
        world.edit(|host| host.spec.consumer_ref = Some(reference));
    };
    for is_moved in [true, false] {
        for booked in [true, false] {
            let mut world = moved("provisioned");
            if !is_moved {
                // The same status, and this appliance's own: its journal is lost.
                let status = annotations::moved_status(&world.seen.host.metadata);
                world.seen.host.status = Some(status.unwrap().unwrap());
                world.seen.host.metadata.annotations.clear();
            }
            world.disks = vec![foreign("OWN")];
            if booked {
                book(&mut world, "tenant");
            }
            world.run();
            assert_eq!((world.state(), world.memory().was_moved), (S::Provisioned, is_moved), "{}", world.reason());
            world.edit(|host| (host.spec.consumer_ref, host.spec.image) = (None, None));
            world.run();
            world.edit(|host| host.spec.image = Some(image("two")));
            world.run();
            let ends = if is_moved { (S::Provisioned, None) } else { (world.state(), Some(FrozenWhy::OfAnotherStore)) };
            assert_eq!((world.state(), frozen(&world)), ends, "{booked}: {}", world.reason());
            if !is_moved {
                continue;
            }
            assert!(!world.memory().was_moved, "another mark of another store is not its own from now on");
            let erased = world.count(|effect| matches!(effect, HostEffect::IssuePlan { plan, .. } if is_erasure(plan)));
            assert_eq!(erased > 0, booked);
        }
    }
}

/// It came from one store. A disk of a third one was put in, or is somebody else's.
#[test]
fn a_disk_of_a_third_store_freezes_a_moved_host_as_any_other() {
    let of_store = |store: u32| {
        let guid = firesteel_plan::InstallationMark { store, timeline: 1, revision: 3 }.guid(1);
        let name = format!("S{store}");
        DiskRecord { table: Some(TableRecord::Gpt { guid }), ..disk("sda", &name, 20) }
    };
    let reference = serde_json::from_value(serde_json::json!({"kind": "M", "name": "tenant"})).unwrap();
    let mut world = moved("provisioned");
    world.disks = vec![of_store(9), of_store(8)];
    world.edit(|host| host.spec.consumer_ref = Some(reference));
    world.run();
    world.edit(|host| (host.spec.consumer_ref, host.spec.image) = (None, None));
    world.run();
    let frozen = world.memory().frozen.clone().map(|frozen| frozen.why);
    assert_eq!(frozen, Some(FrozenWhy::OfAnotherStore), "{}", world.reason());
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::IssuePlan { plan, .. } if is_erasure(plan))), 0);
}

/// Its state is a plain string that any client may write.
#[test]
fn a_state_that_is_none_is_not_read_and_an_os_is_kept() {
    let mut world = World::new();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    let mut status = world.seen.host.status.clone().unwrap();
    status.provisioning.state = S::Foreign;
    world.seen.host.status = Some(status.clone());
    world.run();
    assert_eq!(world.state(), S::Provisioned, "the planner has its own memory");
    // Its journal is lost, and the word says nothing: an image that is named is on the disk.
    world.seen.memory = firesteel_plan::HostMemory::default();
    world.seen.host.status = Some(status);
    world.effects.clear();
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    let plans = |effect: &HostEffect| matches!(effect, HostEffect::IssuePlan { .. });
    assert_eq!(world.count(plans), 0, "{:?}", world.effects);
}
