//! A store that was restored from a backup: what it does not know is not destroyed.

use firesteel_plan::host::{LineageInputs, PlanKind};
use firesteel_plan::{HostEffect, InstallationMark};
use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};
use firesteel_resources::hardware::{DiskRecord, TableRecord};
use firesteel_resources::host_journal::RequestOutcome;
use firesteel_resources::{ConditionStatus, ObjectReference};

use crate::world::{World, disk, image, run_to_write};

const STORE: u32 = 5;
const OLD: u32 = 11;
const NEW: u32 = 22;
/// The revision of the backup.
const LAST: u64 = 50_000;

fn before() -> LineageInputs {
    LineageInputs { store: STORE, timeline: OLD, revision: LAST, known: vec![(OLD, LAST)] }
}

fn after() -> LineageInputs {
    let revision = LAST + 1_000_000;
    LineageInputs { store: STORE, timeline: NEW, revision, known: vec![(OLD, LAST), (NEW, revision)] }
}

fn marked(mut disk: DiskRecord, mark: InstallationMark) -> (DiskRecord, String) {
    let guid = mark.guid(7);
    disk.table = Some(TableRecord::Gpt { guid: guid.clone() });
    (disk, guid)
}

fn unmarked(mut disk: DiskRecord) -> DiskRecord {
    disk.table = Some(TableRecord::None);
    disk
}

fn mark(store: u32, timeline: u32, revision: u64) -> InstallationMark {
    InstallationMark { store, timeline, revision }
}

/// Ten seconds later somebody asks for another try.
fn try_again(world: &mut World) {
    world.pass(10);
    world.annotate(annotations::RETRY, "");
    world.run();
}

fn destroys(effect: &HostEffect) -> bool {
    matches!(
        effect,
        HostEffect::IssuePlan { plan: PlanKind::Write(_) | PlanKind::Clean { .. } | PlanKind::Erase(_), .. }
    )
}

/// A host that was available in the backup, whose store was restored. `disks` is what an inspection finds.
fn restored_available(disks: Vec<DiskRecord>) -> World {
    let mut world = World::new();
    world.seen.lineage = before();
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!(world.state(), S::Available, "{}", world.reason());
    restore(&mut world, disks);
    world
}

/// What the appliance and its agents remember is gone, too: another process starts.
fn restore(world: &mut World, disks: Vec<DiskRecord>) {
    world.seen.lineage = after();
    world.seen.started_at = world.now;
    world.disks = disks;
    world.effects.clear();
    world.settle();
}

fn want(world: &mut World) {
    world.edit(|host| host.spec.image = Some(image("two")));
    world.run();
}

fn frozen(world: &World) -> (ConditionStatus, String) {
    let status = world.seen.host.status.as_ref().unwrap();
    let found = status.conditions.iter().find(|condition| condition.type_ == "Frozen");
    found.map_or((ConditionStatus::False, String::new()), |condition| (condition.status, condition.reason.clone()))
}

#[test]
fn a_disk_that_is_newer_than_the_store_freezes_the_host() {
    for newer in [
        mark(STORE, OLD, LAST + 1),
        // Stepped before the backup, stored after it.
        mark(STORE, OLD, LAST - 1),
        // Another restore of the same backup, which was replaced by this one.
        mark(STORE, 33, LAST + 1_000_001),
        // The file was put back by hand in this life.
        mark(STORE, NEW, LAST + 9_000_000),
    ] {
        let (newer_disk, guid) = marked(disk("sda", "A", 20), newer);
        let mut world = restored_available(vec![newer_disk]);
        want(&mut world);
        assert!(!world.effects.iter().any(destroys), "{newer}");
        assert_eq!(frozen(&world), (ConditionStatus::True, "NewerThanStore".to_owned()), "{newer}: {}", world.reason());
        for word in ["frozen", "sda", "serial A", &guid, "firesteel unfreeze a --disk"] {
            assert!(world.reason().contains(word), "{word}: {}", world.reason());
        }
        let status = world.seen.host.status.clone().unwrap();
        assert!(status.error_message.contains("frozen"), "{}", status.error_message);
        world.pass(100_000);
        world.run();
        assert!(!world.effects.iter().any(destroys), "time thaws nothing");
    }
}

#[test]
fn a_second_disk_that_is_newer_freezes_the_host_as_well() {
    let (newer, _) = marked(disk("sdb", "B", 900), mark(STORE, OLD, LAST + 1));
    let mut world = restored_available(vec![unmarked(disk("sda", "A", 20)), newer]);
    want(&mut world);
    assert_eq!(frozen(&world).1, "NewerThanStore");
    assert!(!world.effects.iter().any(destroys));
}

#[test]
fn what_the_store_knows_is_no_obstacle() {
    for known in [
        unmarked(disk("sda", "A", 20)),
        marked(disk("sda", "A", 20), mark(STORE, OLD, 7)).0,
        DiskRecord {
            table: Some(TableRecord::Unreadable { why: "checksum".into(), damaged: true }),
            ..disk("sda", "A", 20)
        },
        DiskRecord {
            table: Some(TableRecord::Gpt { guid: "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f".into() }),
            ..disk("sda", "A", 20)
        },
    ] {
        let table = known.table.clone();
        let mut world = restored_available(vec![known]);
        want(&mut world);
        assert_eq!(world.state(), S::Provisioned, "{table:?}: {}", world.reason());
        let looked = world
            .effects
            .iter()
            .position(|effect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Inspect, .. }));
        let written = world.effects.iter().position(destroys);
        assert!(looked.is_some() && looked < written, "the disks are looked at in this life before one is written");
    }
}

#[test]
fn a_host_is_thawed_by_the_name_of_what_is_given_up_once_and_on_record() {
    let (newer, guid) = marked(disk("sda", "A", 20), mark(STORE, OLD, LAST + 1));
    let mut world = restored_available(vec![newer]);
    want(&mut world);
    world.annotate(annotations::UNFREEZE_DISK, "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f");
    world.run();
    assert_eq!(frozen(&world).0, ConditionStatus::True, "another one's name thaws nothing");
    assert!(!world.seen.host.metadata.annotations.contains_key(annotations::UNFREEZE_DISK), "one-shot");
    let (outcome, why) = world.answer(annotations::UNFREEZE_DISK).unwrap();
    assert!(outcome == RequestOutcome::Refused && why.contains(&guid), "the mark that is meant is named: {why}");
    world.annotate(annotations::UNFREEZE_DISK, &guid);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert_eq!(frozen(&world).0, ConditionStatus::False);
    let (outcome, text) = world.answer(annotations::UNFREEZE_DISK).unwrap();
    assert!(outcome == RequestOutcome::Done && text.contains("may be overwritten"), "{text}");
    assert!(!text.contains("stays frozen") && !text.contains("for now"), "{text}");
    let given_up = &world.memory().given_up;
    assert_eq!((given_up.len(), given_up[0].guid.as_str()), (1, guid.as_str()));
    assert!(given_up[0].disk.contains("serial A"));
}

#[test]
fn an_owner_may_keep_what_is_newer() {
    let (newer, _) = marked(disk("sda", "A", 20), mark(STORE, OLD, LAST + 1));
    let mut world = restored_available(vec![newer]);
    want(&mut world);
    world.edit(|host| host.spec.externally_provisioned = true);
    world.run();
    assert_eq!(world.state(), S::ExternallyProvisioned, "{}", world.reason());
    assert!(!world.effects.iter().any(destroys));
}

#[test]
fn other_disks_are_looked_at_after_a_retry() {
    let (newer, _) = marked(disk("sda", "A", 20), mark(STORE, OLD, LAST + 1));
    let mut world = restored_available(vec![newer]);
    want(&mut world);
    try_again(&mut world);
    assert!(!world.effects.iter().any(destroys), "the same disk is there: {}", world.reason());
    world.disks = vec![unmarked(disk("sda", "B", 100))];
    try_again(&mut world);
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

/// The backup was made in the middle of an installation, which went on after it.
#[test]
fn an_installation_whose_end_the_store_does_not_know_is_not_cleaned_away() {
    let mut world = World::new();
    world.seen.lineage = before();
    run_to_write(&mut world);
    let attempt = world.memory().attempt;
    let guid = world.memory().plan.as_ref().unwrap().write().unwrap().disk_guid.clone();
    let mut installed = disk("sda", "A", 20);
    installed.table = Some(TableRecord::Gpt { guid: guid.clone() });
    // Long ago, in changes: that alone would make it known.
    let mut later = after();
    later.known[0].1 = LAST + 100_000;
    world.seen.lineage = later.clone();
    world.seen.started_at = world.now;
    world.disks = vec![installed];
    world.effects.clear();
    world.run();
    assert!(!world.effects.iter().any(destroys), "{}", world.reason());
    assert_eq!(frozen(&world).1, "NewerThanStore", "{}", world.reason());
    assert!(world.memory().attempt >= attempt + 1000, "tokens of the lost past are of other attempts");

    // The same write that did not get to its end left no table: there is nothing to lose.
    world.disks = vec![unmarked(disk("sda", "A", 20))];
    try_again(&mut world);
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

#[test]
fn the_installation_that_the_store_knows_as_done_may_be_cleaned() {
    let mut world = World::new();
    world.seen.lineage = before();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    let guid = world.memory().applied.as_ref().unwrap().disk_guid.clone();
    let known = DiskRecord { table: Some(TableRecord::Gpt { guid }), ..disk("sda", "A", 20) };
    restore(&mut world, vec![known]);
    assert_eq!(world.state(), S::Provisioned, "a restore alone changes nothing: {}", world.reason());
    assert!(world.effects.iter().all(|effect| matches!(effect, HostEffect::AbortAgent { .. })), "{:?}", world.effects);
    want(&mut world);
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert!(world.memory().applied.as_ref().unwrap().image == image("two"));
}

#[test]
fn a_provisioned_host_that_was_installed_anew_since_is_not_cleaned() {
    let mut world = World::new();
    world.seen.lineage = before();
    world.run();
    let (newer, _) = marked(disk("sda", "A", 20), mark(STORE, OLD, LAST + 40));
    restore(&mut world, vec![newer]);
    want(&mut world);
    assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
    assert_eq!(frozen(&world).1, "NewerThanStore");
    assert!(!world.effects.iter().any(destroys));
    world.delete();
    world.run();
    assert!(!world.gone && !world.effects.iter().any(destroys), "a deletion waits, too: {}", world.reason());
}

#[test]
fn a_disk_of_another_appliance_is_not_overwritten_without_a_word() {
    let (foreign, guid) = marked(disk("sda", "A", 100), mark(STORE + 1, 3, 9));
    let mut world = World::new();
    world.seen.lineage = before();
    world.disks = vec![foreign.clone()];
    world.run();
    assert_eq!(frozen(&world).1, "OfAnotherStore", "{}", world.reason());
    assert!(!world.effects.iter().any(destroys));
    world.annotate(annotations::UNFREEZE_DISK, &guid);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());

    let mut world = World::new();
    world.seen.lineage = before();
    // The smallest disk is the planned one; the other's is none of our business.
    world.disks = vec![unmarked(disk("sdb", "B", 50)), foreign];
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

#[test]
fn after_a_restore_an_agent_must_say_what_stands_on_the_disk() {
    let mut world = restored_available(vec![disk("sda", "A", 20)]);
    want(&mut world);
    assert_eq!(frozen(&world).1, "MarkUnknown", "{}", world.reason());
    assert!(!world.effects.iter().any(destroys));
    world.annotate(annotations::UNFREEZE_DISK, "");
    world.run();
    assert!(!world.effects.iter().any(destroys), "an empty name names nothing");
}

fn unread(disk: DiskRecord) -> DiskRecord {
    DiskRecord { table: Some(TableRecord::Unreadable { why: "I/O error".into(), damaged: false }), ..disk }
}

#[test]
fn a_disk_that_could_not_be_read_freezes_the_host_until_it_can_be() {
    for disks in
        [vec![unread(disk("sda", "A", 20))], vec![unmarked(disk("sdb", "B", 50)), unread(disk("sda", "A", 20))]]
    {
        let mut world = restored_available(disks);
        want(&mut world);
        assert!(!world.effects.iter().any(destroys), "{}", world.reason());
        assert_eq!(frozen(&world), (ConditionStatus::True, "Unread".to_owned()), "{}", world.reason());
        for word in ["sda", "serial A", "I/O error", "firesteel retry a", "firesteel unfreeze a --disk "] {
            assert!(world.reason().contains(word), "{word}: {}", world.reason());
        }
        // The error passed, and what it hid is newer.
        let (newer, _) = marked(disk("sda", "A", 20), mark(STORE, OLD, LAST + 1));
        world.disks = vec![newer];
        try_again(&mut world);
        assert_eq!(frozen(&world).1, "NewerThanStore", "{}", world.reason());
        world.disks = vec![unmarked(disk("sda", "A", 20))];
        try_again(&mut world);
        assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    }
}

#[test]
fn a_disk_that_could_not_be_read_is_given_up_by_its_own_name() {
    let mut world = restored_available(vec![unread(disk("sda", "A", 20))]);
    want(&mut world);
    let name = world.memory().frozen.as_ref().unwrap().guid.clone();
    assert!(!name.is_empty() && world.reason().contains(&format!("--disk {name}`")), "{}", world.reason());
    world.annotate(annotations::UNFREEZE_DISK, &name);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());

    // What is readable again, and newer, was not given up by that.
    let mut world = restored_available(vec![unread(disk("sda", "A", 20))]);
    world.edit(|host| host.spec.image = Some(image("two")));
    world.settle();
    world.annotate(annotations::UNFREEZE_DISK, &name);
    world.disks = vec![marked(disk("sda", "A", 20), mark(STORE, OLD, LAST + 1)).0];
    world.run();
    assert!(!world.effects.iter().any(destroys), "{}", world.reason());
}

#[test]
fn without_a_restore_only_the_planned_disk_must_be_readable() {
    let mut world = World::new();
    world.seen.lineage = before();
    world.disks = vec![unmarked(disk("sda", "A", 20)), unread(disk("sdb", "B", 900))];
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());

    let mut world = World::new();
    world.seen.lineage = before();
    world.disks = vec![unread(disk("sda", "A", 20))];
    world.run();
    assert_eq!(frozen(&world).1, "Unread", "{}", world.reason());
    assert!(!world.effects.iter().any(destroys));
}

#[test]
fn a_restored_store_leaves_the_power_of_idle_hosts_alone() {
    let mut world = World::new();
    world.seen.lineage = before();
    world.edit(|host| {
        host.spec.image = None;
        host.spec.online = false;
    });
    world.run();
    assert_eq!(world.state(), S::Available);
    world.seen.bmc.power = firesteel_plan::host::HostPower::On;
    restore(&mut world, vec![unmarked(disk("sda", "A", 20))]);
    world.pass(1000);
    world.run();
    assert!(!world.effects.iter().any(|effect| matches!(effect, HostEffect::Bmc(_))), "{:?}", world.effects);
    assert!(world.reason().contains("restored"), "{}", world.reason());
}

#[test]
fn a_disk_of_another_appliance_is_not_erased_with_the_others_without_a_word() {
    let (foreign, guid) = marked(disk("sdb", "B", 100), mark(STORE + 1, 3, 9));
    let mut world = World::new();
    world.seen.lineage = before();
    world.disks = vec![unmarked(disk("sda", "A", 20)), foreign];
    let one = ObjectReference { kind: "HostClaim".into(), name: "one".into(), ..ObjectReference::default() };
    world.edit(|host| host.spec.consumer_ref = Some(one));
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    world.effects.clear();
    world.edit(|host| {
        host.spec.consumer_ref = None;
        host.spec.image = None;
    });
    world.run();
    assert_eq!(frozen(&world).1, "OfAnotherStore", "{}", world.reason());
    assert!(!world.effects.iter().any(destroys));
    world.annotate(annotations::UNFREEZE_DISK, &guid);
    world.run();
    assert!(world.effects.iter().any(destroys) && world.state() == S::Available, "{}", world.reason());
}
