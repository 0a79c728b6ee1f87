//! Where a host goes on of which only its status is known, and what counts as written then.

use firesteel_plan::{HostEffect, HostMemory};
use firesteel_resources::bare_metal_host::{FINALIZER, ProvisioningState as S, annotations};

use crate::world::{World, image};

/// A status of a host in this state, which names an image or none.
fn status(state: S, has_image: bool) -> serde_json::Value {
    let image = if has_image { image("one").url } else { String::new() };
    // The word of none is not read from an annotation.
    let state = if state == S::Foreign { S::Provisioned } else { state };
    let mut provisioning = serde_json::json!({"state": state.word(), "ID": "73c01ec4"});
    if has_image {
        provisioning["image"] = serde_json::json!({"url": image});
    }
    serde_json::json!({"provisioning": provisioning})
}

/// A host that nothing is known of but this status: it was moved here, or its journal is lost.
fn host(state: S, has_image: bool, is_moved: bool) -> World {
    let mut world = World::new();
    let text = status(state, has_image).to_string();
    world.annotate(annotations::STATUS_OF, &text);
    if !is_moved {
        world.seen.host.status = Some(annotations::moved_status(&world.seen.host.metadata).unwrap().unwrap());
        world.seen.host.metadata.annotations.clear();
    }
    if state == S::Foreign {
        world.seen.host.status.as_mut().unwrap().provisioning.state = S::Foreign;
    }
    world
}

#[test]
fn a_status_says_where_a_host_goes_on_and_what_counts_as_written() {
    // State, image, deletion; where it goes on, and whether a disk counts as written: moved here, and forgotten here.
    let rows = [
        (S::Unmanaged, true, false, S::Unmanaged, false, true),
        (S::Registering, true, false, S::Registering, false, true),
        (S::Inspecting, true, false, S::Inspecting, false, true),
        (S::Preparing, true, false, S::Preparing, false, true),
        (S::Available, true, false, S::Available, false, true),
        (S::Provisioning, true, false, S::Provisioning, true, true),
        (S::Provisioned, true, false, S::Provisioned, true, true),
        (S::ExternallyProvisioned, true, false, S::ExternallyProvisioned, false, false),
        (S::Deprovisioning, true, false, S::Deprovisioning, true, true),
        (S::PoweringOff, true, false, S::Deprovisioning, true, true),
        (S::PoweringOff, true, true, S::Deprovisioning, true, true),
        (S::PoweringOff, false, true, S::PoweringOff, false, true),
        (S::Deleting, true, false, S::Deprovisioning, true, true),
        (S::Deleting, false, true, S::Deleting, false, true),
        // It begins here.
        (S::PoweringOff, false, false, S::Registering, false, false),
        (S::Deleting, false, false, S::Registering, false, false),
        (S::New, false, false, S::Registering, false, false),
    ];
    for (state, has_image, is_deleted, expected, moved_dirty, forgotten_dirty) in rows {
        for (is_moved, is_dirty) in [(true, moved_dirty), (false, forgotten_dirty)] {
            let mut world = host(state, has_image, is_moved);
            if is_deleted {
                world.delete();
            }
            world.step();
            let case = format!("{state:?}, image {has_image}, deletion {is_deleted}, moved {is_moved}");
            let memory = world.memory();
            assert_eq!((world.state(), memory.disk_dirty), (expected, is_dirty), "{case}: {}", world.reason());
            let goes_on = world.reason().contains("as its status says");
            assert_eq!(memory.was_moved, is_moved && goes_on, "{case}");
            assert_eq!(memory.id == "73c01ec4", goes_on, "{case}: {}", memory.id);
        }
    }
    for (has_image, expected) in [(true, S::Provisioned), (false, S::Registering)] {
        let mut world = host(S::Foreign, has_image, false);
        world.step();
        assert_eq!(world.state(), expected, "a word that is none, with an image: {has_image}");
    }
}

/// Without it a deletion would leave the disks as they are; what goes already gets none.
#[test]
fn a_host_that_goes_on_is_held_on_to_unless_it_is_or_goes() {
    for (finalizers, is_deleted, is_added) in [
        (vec![], false, true),
        (vec![FINALIZER], false, false),
        (vec!["example.com/hold"], false, true),
        (vec!["example.com/hold", FINALIZER], false, false),
        (vec![], true, false),
        (vec!["example.com/hold"], true, false),
    ] {
        let mut world = host(S::Provisioned, true, true);
        world.seen.host.metadata.finalizers = finalizers.iter().map(|name| (*name).to_owned()).collect();
        if is_deleted {
            world.delete();
        }
        let step = world.step();
        let added = step.effects.iter().filter(|effect| **effect == HostEffect::AddFinalizer).count();
        assert_eq!(added, usize::from(is_added), "{finalizers:?} {is_deleted}");
    }
}

/// A memory counts as soon as it has an identity or a state.
#[test]
fn a_host_with_a_past_of_its_own_takes_no_status_over() {
    for (id, state) in [("own", "new"), ("", "available")] {
        let mut world = host(S::Provisioned, true, true);
        let memory = serde_json::json!({"id": id, "state": {"name": state}, "attempt": 1});
        world.seen.memory = serde_json::from_value::<HostMemory>(memory).unwrap();
        world.step();
        assert!(world.state() != S::Provisioned, "{id:?} {state}: {}", world.reason());
        let (_, text) = world.answer(annotations::STATUS_OF).unwrap();
        assert!(text.contains("a past of its own"), "{text}");
    }
}

/// What the status said may have been an OS: the machine is remembered, and the deletion is not held up.
#[test]
fn a_status_that_cannot_be_read_does_not_hold_a_deletion_up() {
    let mut world = World::new();
    world.annotate(annotations::STATUS_OF, "no status");
    world.delete();
    world.run();
    assert!(world.gone, "{:?} {}", world.state(), world.reason());
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::Tombstone { .. })), 1);
}
