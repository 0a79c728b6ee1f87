//! Whose data the disks of a host may hold, and what is remembered of it.

use firesteel_plan::{HostEffect, disk::CleaningMethod};
use firesteel_resources::RootDeviceHints;
use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};

use crate::cleaning::{book, installed_for_a_claim, run_to_erase, serials};
use crate::world::{World, disk, run_to_write};

/// Who counts as tenant by the write under way alone is forgotten when that write came to nothing, and no other one.
#[test]
fn a_tenant_is_new_only_while_something_is_installed_for_it() {
    let mut booked = World::new();
    book(&mut booked, Some("one"));
    run_to_write(&mut booked);
    assert!(booked.memory().tenant.is_some() && booked.memory().tenant_is_new);
    let mut unbooked = World::new();
    run_to_write(&mut unbooked);
    assert!(unbooked.memory().tenant.is_none() && !unbooked.memory().tenant_is_new, "there is no tenant");
    let mut adopted = World::new();
    adopted.edit(|host| host.spec.externally_provisioned = true);
    adopted.run();
    book(&mut adopted, Some("one"));
    adopted.edit(|host| host.spec.externally_provisioned = false);
    adopted.run();
    assert_eq!(adopted.state(), S::Provisioned, "{}", adopted.reason());
    assert!(adopted.memory().tenant.is_some() && !adopted.memory().tenant_is_new, "nothing is written for it");
}

/// A memory of an earlier version names no disk of the tenant: the one that was written counts. Nothing is added to what
/// a newer one names, for another disk may be chosen by now, and the data on that one is not the tenant's.
#[test]
fn the_disk_of_a_tenant_is_taken_over_from_a_memory_that_names_none() {
    let mut other = World::new();
    other.disks = vec![disk("sda", "A", 20), disk("sdb", "DATA", 500)];
    let hints = RootDeviceHints { serial_number: "DATA".into(), ..RootDeviceHints::default() };
    other.edit(|host| host.spec.root_device_hints = Some(hints));
    other.run();
    assert_eq!((other.state(), other.memory().tenant.is_some()), (S::Provisioned, false), "{}", other.reason());
    let chosen = other.memory().disk.clone();
    assert_eq!(chosen.as_ref().unwrap().identity().serial, "DATA");

    let mut world = installed_for_a_claim();
    world.seen.memory.tenant_targets.clear();
    world.step();
    assert_eq!(serials(&world.memory().tenant_targets), ["A"]);
    world.seen.memory.disk = chosen;
    world.step();
    assert_eq!(serials(&world.memory().tenant_targets), ["A"]);
    other.seen.memory.tenant_targets.clear();
    other.step();
    assert!(other.memory().tenant_targets.is_empty(), "there is no tenant");
}

#[test]
fn a_tombstone_names_the_disk_where_a_tenant_can_have_left_data_on_that_one_alone() {
    let other = installed_for_a_claim().memory().tenant_disks[1].clone();
    for (more, expected) in [(Vec::new(), Some("A")), (vec![other], None)] {
        let mut world = World::new();
        book(&mut world, Some("one"));
        world.run();
        assert_eq!(serials(&world.memory().tenant_disks), ["A"], "{}", world.reason());
        // A memory of an earlier version has targets that it does not have among the disks.
        world.seen.memory.tenant_targets.extend(more);
        world.annotate(annotations::RELEASE_FORCE, "");
        world.delete();
        world.run();
        assert!(world.gone, "{}", world.reason());
        let named = world.effects.iter().rev().find_map(|effect| match effect {
            HostEffect::Tombstone { disk, of_tenant: true, .. } => Some(disk.as_ref().map(|disk| disk.serial.as_str())),
            _ => None,
        });
        assert_eq!(named, Some(expected));
    }
}

/// A note of it would read as if data had been erased.
#[test]
fn a_clearing_of_metadata_that_is_stopped_leaves_no_note_of_an_erasure() {
    let mut world = installed_for_a_claim();
    let wanted = world.seen.host.spec.image.clone();
    world.annotate(annotations::CLEANING, r#"{"betweenOwners":{"method":"metadata"}}"#);
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    let plan = run_to_erase(&mut world);
    assert_eq!((plan.method, serials(&plan.disks)), (CleaningMethod::Metadata, vec!["A", "DATA"]));
    world.pass(10);
    book(&mut world, Some("one"));
    world.edit(|host| host.spec.image = wanted);
    let step = world.step();
    assert!(step.events.iter().any(|event| event.reason == "CleaningStopped"), "{}", world.reason());
    assert!(world.memory().cleaned.is_none(), "{:?}", world.memory().cleaned);
}
