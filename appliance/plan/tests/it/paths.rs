//! A disk without WWN and serial number, as libvirt makes it by default: its owner names its path, and its whole life
//! works; another disk in its place stops whatever is to be done.

use firesteel_plan::host::{FrozenWhy, LineageInputs, PlanKind};
use firesteel_plan::{DiskIdentity, HostEffect, InstallationMark};
use firesteel_resources::bare_metal_host::{CleaningMode, ProvisioningState as S, annotations};
use firesteel_resources::hardware::{DiskRecord, TableRecord};
use firesteel_resources::{ObjectReference, RootDeviceHints};

use crate::world::{World, disk, image};

const PLACE: &str = "/dev/disk/by-path/pci-0000:04:00.0";
const LINEAGE: (u32, u32) = (5, 11);

fn nameless(gb: u64) -> DiskRecord {
    DiskRecord { by_path: PLACE.into(), model: String::new(), table: Some(TableRecord::None), ..disk("vda", "", gb) }
}

/// A host whose only disk has no name; its hints name the place.
fn world() -> World {
    let mut world = World::new();
    let (store, timeline) = LINEAGE;
    world.seen.lineage = LineageInputs { store, timeline, revision: 500, known: vec![(timeline, 500)] };
    world.disks = vec![nameless(20)];
    world.edit(|host| {
        let hints = RootDeviceHints { device_name: PLACE.into(), ..RootDeviceHints::default() };
        host.spec.root_device_hints = Some(hints);
    });
    world
}

/// The disk after an installation that the world's host had.
fn with_own_mark(world: &World) -> Vec<DiskRecord> {
    let guid = world.memory().applied.as_ref().unwrap().disk_guid.clone();
    vec![DiskRecord { table: Some(TableRecord::Gpt { guid }), ..nameless(20) }]
}

fn installed() -> World {
    let mut world = world();
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    world.disks = with_own_mark(&world);
    world.pass(60);
    world.effects.clear();
    world
}

fn destroyed(world: &World) -> Vec<DiskIdentity> {
    let disks = |effect: &HostEffect| match effect {
        HostEffect::IssuePlan { plan: PlanKind::Write(write), .. } => vec![write.disk.clone()],
        HostEffect::IssuePlan { plan: PlanKind::Clean { disk }, .. } => vec![disk.clone()],
        HostEffect::IssuePlan { plan: PlanKind::Erase(erase), .. } => erase.disks.clone(),
        _ => Vec::new(),
    };
    let mut all: Vec<DiskIdentity> = world.effects.iter().flat_map(disks).collect();
    all.dedup();
    all
}

fn at_place(gb: u64) -> DiskIdentity {
    DiskIdentity { by_path: PLACE.into(), size_bytes: gb * 1_000_000_000, ..DiskIdentity::default() }
}

fn reinstall(world: &mut World) {
    world.edit(|host| host.spec.image = Some(image("two")));
    world.run();
}

fn retry(world: &mut World) {
    world.pass(10);
    world.annotate(annotations::RETRY, "");
    world.run();
}

#[test]
fn its_whole_life_works() {
    let mut world = installed();
    assert_eq!(world.memory().disk.as_ref().unwrap().identity(), &at_place(20));
    reinstall(&mut world);
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert_eq!(destroyed(&world), [at_place(20)]);
    world.disks = with_own_mark(&world);
    world.effects.clear();
    world.delete();
    world.run();
    assert!(world.gone, "{}", world.reason());
    assert_eq!(destroyed(&world), [at_place(20)], "its metadata is cleared");
}

/// Between owners all disks are erased, and the hints may be gone by then.
#[test]
fn it_is_erased_for_another_owner_also_without_the_hints() {
    let mut world = world();
    let consumer = |name: &str| {
        Some(ObjectReference { kind: "HostClaim".into(), name: name.into(), ..ObjectReference::default() })
    };
    world.edit(|host| host.spec.consumer_ref = consumer("one"));
    world.run();
    world.disks = with_own_mark(&world);
    world.pass(60);
    world.effects.clear();
    world.edit(|host| (host.spec.consumer_ref, host.spec.image, host.spec.root_device_hints) = (None, None, None));
    world.run();
    assert_eq!((world.state(), destroyed(&world)), (S::Available, vec![at_place(20)]), "{}", world.reason());
    assert_eq!(world.memory().tenant, None);
}

#[test]
fn without_a_hint_the_error_says_what_to_set() {
    let mut world = world();
    world.edit(|host| host.spec.root_device_hints = None);
    world.run();
    let error = world.seen.host.status.as_ref().unwrap().error_message.clone();
    for part in [
        "/dev/vda (20.0 GB) has neither WWN nor serial number",
        r#"set spec: {rootDeviceHints: {deviceName: "/dev/disk/by-path/pci-0000:04:00.0"}}"#,
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("no disk of at least"), "{error}");
}

/// Another size, a serial number or a WWN that appeared: it is another disk, until a person says that it is meant.
#[test]
fn another_disk_in_its_place_stops_the_work_until_a_retry() {
    let named = DiskRecord { serial: "S1".into(), ..nameless(20) };
    let wide = DiskRecord { wwn: "0x5000c500a1b2c3d4".into(), ..nameless(20) };
    for (other, cleans) in [(nameless(30), true), (named, true), (wide, true), (nameless(30), false)] {
        let mut world = installed();
        if !cleans {
            world.edit(|host| host.spec.automated_cleaning_mode = Some(CleaningMode::Disabled));
        }
        world.disks = vec![other.clone()];
        reinstall(&mut world);
        assert!(destroyed(&world).is_empty(), "{other:?}: {:?}", destroyed(&world));
        let error = world.seen.host.status.as_ref().unwrap().error_message.clone();
        assert!(error.contains("firesteel retry") && error.contains(PLACE), "{error}");
        // Time alone changes nothing.
        world.pass(3600);
        world.run();
        assert!(destroyed(&world).is_empty(), "{other:?}: {:?}", destroyed(&world));
        retry(&mut world);
        assert_eq!(world.state(), S::Provisioned, "{other:?}: {}", world.reason());
        let there = DiskIdentity {
            wwn: other.wwn.clone(),
            serial: other.serial.clone(),
            size_bytes: other.size_bytes,
            by_path: if other.serial.is_empty() && other.wwn.is_empty() { PLACE.into() } else { String::new() },
            ..DiskIdentity::default()
        };
        assert!(destroyed(&world).iter().all(|disk| *disk == there), "{:?}", destroyed(&world));
    }
}

/// The mark of an installation that is not this host's: another disk is in its place, of the same size.
#[test]
fn a_foreign_mark_in_its_place_freezes_the_host() {
    let (store, timeline) = LINEAGE;
    let other = InstallationMark { store, timeline, revision: 400 }.guid(9);
    let mut world = installed();
    world.disks = vec![DiskRecord { table: Some(TableRecord::Gpt { guid: other.clone() }), ..nameless(20) }];
    reinstall(&mut world);
    let frozen = world.memory().frozen.clone().unwrap();
    assert_eq!((frozen.why, frozen.guid.as_str()), (FrozenWhy::OfAnotherHost, other.as_str()));
    assert!(
        destroyed(&world).is_empty() && frozen.message.contains(&format!("unfreeze a --disk {other}")),
        "{frozen:?}"
    );
    world.annotate(annotations::UNFREEZE_DISK, &other);
    world.pass(10);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    assert!(!destroyed(&world).is_empty());

    // Before the first installation, too.
    let mut world = self::world();
    world.disks = vec![DiskRecord { table: Some(TableRecord::Gpt { guid: other }), ..nameless(20) }];
    world.run();
    assert!(world.memory().frozen.is_some() && destroyed(&world).is_empty(), "{}", world.reason());
}

#[test]
fn what_the_tenant_made_of_it_does_not_freeze_it() {
    for table in [TableRecord::None, TableRecord::Gpt { guid: "6f1c2a3e-0b5d-4c7e-9a10-2f3b4c5d6e7f".into() }] {
        let mut world = installed();
        world.disks = vec![DiskRecord { table: Some(table.clone()), ..nameless(20) }];
        reinstall(&mut world);
        assert_eq!(world.state(), S::Provisioned, "{table:?}: {}", world.reason());
    }
}
