//! What guards keep is refused before anything is erased, and which disks were vacant when their owner got them.

use firesteel_contents::{ContentKind, ContentOwner, DiskContents, OrdinaryContent, ProtectedContent, Unread};
use firesteel_plan::disk::CleaningMethod;
use firesteel_plan::host::{AgentWork, ErasePlan, PlanKind};
use firesteel_plan::{DiskIdentity, HostEffect};
use firesteel_resources::ObjectReference;
use firesteel_resources::bare_metal_host::{ProvisioningState as S, annotations};
use firesteel_resources::hardware::DiskRecord;

use crate::world::{World, cleaned, disk, image, run_to_write, with_work};

fn holds(kind: ContentKind, owner: ContentOwner) -> DiskContents {
    let finding = ProtectedContent { place: "partition 1".into(), kind, name: "v".into(), owner };
    DiskContents { findings: vec![finding], ..DiskContents::default() }
}

fn vmfs() -> DiskContents {
    holds(ContentKind::Vmfs, ContentOwner::Unnamed)
}

fn lvm_of(host: &str) -> DiskContents {
    holds(ContentKind::Lvm, ContentOwner::Host(host.into()))
}

fn unread() -> DiskContents {
    let unread = Unread { place: "the disk".into(), why: "a GPT whose checksum is wrong".into(), failed: false };
    DiskContents { unread: vec![unread], ..DiskContents::default() }
}

fn ext4() -> DiskContents {
    DiskContents {
        plain: vec![OrdinaryContent { place: "the disk".into(), name: "ext4".into() }],
        ..DiskContents::default()
    }
}

fn with(mut disk: DiskRecord, contents: DiskContents) -> DiskRecord {
    disk.contents = Some(Box::new(contents));
    disk
}

fn set(world: &mut World, serial: &str, contents: DiskContents) {
    let disk = world.disks.iter_mut().find(|disk| disk.serial == serial).unwrap();
    disk.contents = Some(Box::new(contents));
}

fn book(world: &mut World, consumer: Option<&str>) {
    let reference = consumer.map(|name| ObjectReference { name: name.into(), ..ObjectReference::default() });
    world.edit(|host| host.spec.consumer_ref = reference);
}

fn plans(world: &World) -> Vec<PlanKind> {
    let mut plans: Vec<(u64, u32, PlanKind)> = Vec::new();
    for effect in &world.effects {
        if let HostEffect::IssuePlan { attempt, number, plan } = effect
            && !plans.iter().any(|(a, n, _)| (a, n) == (attempt, number))
        {
            plans.push((*attempt, *number, plan.clone()));
        }
    }
    plans.into_iter().map(|(_, _, plan)| plan).collect()
}

fn erasures(world: &World) -> Vec<ErasePlan> {
    let erase = |plan| match plan {
        PlanKind::Erase(erase) => Some(erase),
        _ => None,
    };
    plans(world).into_iter().filter_map(erase).collect()
}

fn inspections(world: &World) -> usize {
    plans(world).iter().filter(|plan| **plan == PlanKind::Inspect).count()
}

fn serials(disks: &[DiskIdentity]) -> Vec<&str> {
    disks.iter().map(|disk| disk.serial.as_str()).collect()
}

fn vacant(world: &World) -> Vec<&str> {
    serials(&world.memory().vacant_disks)
}

/// A host with data disks, installed for the claim `one`.
fn installed(data: Vec<DiskRecord>) -> World {
    let mut world = World::new();
    world.disks = vec![with(disk("sda", "A", 20), DiskContents::default())];
    world.disks.extend(data);
    book(&mut world, Some("one"));
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    world.pass(60);
    world.effects.clear();
    world
}

/// The claim leaves, and the host goes as far as it gets.
fn leave(world: &mut World) {
    book(world, None);
    world.edit(|host| host.spec.image = None);
    world.run();
}

fn events(world: &World, reason: &str) -> usize {
    world.events.iter().filter(|event| event.reason == reason).count()
}

#[test]
fn nothing_is_erased_while_a_guard_keeps_a_disk_and_each_one_is_named() {
    let mut world = installed(vec![
        with(disk("sdb", "DATA", 500), vmfs()),
        with(disk("sdc", "PLAIN", 500), ext4()),
        with(disk("sdd", "LVM", 500), lvm_of("nas")),
        disk("sde", "UNTOLD", 500),
    ]);
    leave(&mut world);
    assert_eq!((world.state(), erasures(&world).len()), (S::Deprovisioning, 0), "{}", world.reason());
    for word in [
        "guards keep 2 of 5",
        "/dev/sdb (model DISK, serial DATA, 500.0 GB) because of partition 1: it holds VMFS \"v\";",
        "/dev/sdd (model DISK, serial LVM, 500.0 GB) because of partition 1: it holds LVM \"v\" of host \"nas\";",
        "firesteel.dev/override-guard",
        "firesteel.dev/cleaning",
        "firesteel release --force",
    ] {
        assert!(world.reason().contains(word), "{word}: {}", world.reason());
    }
    assert!(!world.reason().contains("PLAIN") && !world.reason().contains("UNTOLD"), "{}", world.reason());
    assert!(world.memory().tenant.is_some() && world.memory().failure.is_some());
}

#[test]
fn an_override_lets_its_disk_go_at_once_and_the_rest_waits() {
    let mut world =
        installed(vec![with(disk("sdb", "DATA", 500), vmfs()), with(disk("sdc", "LVM", 500), lvm_of("nas"))]);
    leave(&mut world);
    world.pass(10);
    let before = inspections(&world);
    world.annotate(annotations::OVERRIDE_GUARD, "data");
    world.run();
    let erased = erasures(&world);
    assert_eq!(erased.len(), 1, "{}", world.reason());
    assert_eq!((serials(&erased[0].disks), serials(&erased[0].overridden)), (vec!["DATA"], vec!["DATA"]));
    assert_eq!(inspections(&world), before + 1, "the disks were looked at again first");
    assert!(world.reason().contains("serial LVM") && !world.reason().contains("serial DATA"), "{}", world.reason());
    assert!(!world.seen.host.metadata.annotations.contains_key(annotations::OVERRIDE_GUARD), "it counts once");
    assert_eq!(world.state(), S::Deprovisioning);
    world.pass(10);
    world.annotate(annotations::OVERRIDE_GUARD, "LVM");
    world.run();
    let last = erasures(&world).pop().unwrap();
    assert_eq!((serials(&last.disks), serials(&last.overridden)), (vec!["LVM", "A"], vec!["LVM"]));
    assert_eq!((world.state(), erasures(&world).len()), (S::Available, 2), "{}", world.reason());
}

#[test]
fn an_override_of_all_that_is_kept_erases_all_in_one_plan() {
    let mut world =
        installed(vec![with(disk("sdb", "DATA", 500), vmfs()), with(disk("sdc", "LVM", 500), lvm_of("nas"))]);
    world.annotate(annotations::OVERRIDE_GUARD, r#"["DATA","LVM"]"#);
    leave(&mut world);
    let erased = erasures(&world);
    assert_eq!((world.state(), erased.len()), (S::Available, 1), "{}", world.reason());
    assert_eq!((erased[0].disks.len(), serials(&erased[0].overridden)), (3, vec!["DATA", "LVM"]));
}

#[test]
fn an_override_that_names_no_kept_disk_is_over_and_erases_nothing() {
    let mut world = installed(vec![with(disk("sdb", "DATA", 500), vmfs())]);
    leave(&mut world);
    for name in ["A", "other"] {
        world.pass(10);
        world.annotate(annotations::OVERRIDE_GUARD, name);
        world.run();
        assert_eq!(erasures(&world).len(), 0, "{}", world.reason());
        assert!(!world.seen.host.metadata.annotations.contains_key(annotations::OVERRIDE_GUARD), "{name}");
    }
    assert_eq!(events(&world, "GuardNotOverridden"), 2);
}

#[test]
fn a_refused_cleaning_looks_at_the_disks_again_by_itself_and_when_asked() {
    for asked in [false, true] {
        let mut world = installed(vec![with(disk("sdb", "DATA", 500), vmfs())]);
        leave(&mut world);
        let (attempt, before) = (world.memory().attempt, inspections(&world));
        set(&mut world, "DATA", DiskContents::default());
        world.run();
        assert_eq!(inspections(&world), before, "not before the delay is over");
        world.pass(if asked { 5 } else { 600 });
        let now = world.now;
        world.agent().last_report_at = now;
        if asked {
            world.annotate(annotations::RETRY, "");
        }
        world.run();
        assert_eq!((world.state(), erasures(&world).len()), (S::Available, 1), "{asked}: {}", world.reason());
        let erased_in = world.memory().clean_boot.as_ref().map(|boot| boot.attempt);
        assert_eq!((erased_in, inspections(&world)), (Some(attempt), before + 1));
    }
}

#[test]
fn a_host_without_a_proof_against_its_disks_is_cleaned_as_before() {
    let marked = |world: &World| {
        let guid = world.memory().applied.as_ref().unwrap().disk_guid.to_ascii_uppercase();
        let pool = holds(ContentKind::Zfs, ContentOwner::Host("x".into()));
        DiskContents { guid: guid.to_ascii_lowercase(), unread: unread().unread, ..pool }
    };
    let mut world = installed(vec![with(disk("sdb", "DATA", 500), ext4()), disk("sdc", "UNTOLD", 500)]);
    let own = marked(&world);
    set(&mut world, "A", own);
    leave(&mut world);
    assert_eq!((world.state(), erasures(&world)[0].disks.len()), (S::Available, 3), "{}", world.reason());
}

/// What a tenant broke or planted on a disk that it got blank; what is a cluster's is kept all the same.
#[test]
fn what_an_owner_made_on_a_vacant_disk_is_erased() {
    for (contents, is_erased) in [(lvm_of("nas"), true), (unread(), true), (vmfs(), false)] {
        let mut world = installed(vec![with(disk("sdb", "DATA", 500), DiskContents::default())]);
        assert_eq!(vacant(&world), ["A", "DATA"]);
        set(&mut world, "DATA", contents.clone());
        leave(&mut world);
        assert_eq!(!erasures(&world).is_empty(), is_erased, "{contents:?}: {}", world.reason());
        // The same on a disk that came with something on it.
        let mut world = installed(vec![with(disk("sdb", "DATA", 500), ext4())]);
        set(&mut world, "DATA", contents.clone());
        leave(&mut world);
        assert_eq!(erasures(&world).len(), 0, "{contents:?}: {}", world.reason());
    }
}

#[test]
fn a_disk_that_was_gone_at_an_inspection_is_not_vacant_when_it_comes_back() {
    let mut world = World::new();
    world.disks = vec![
        with(disk("sda", "A", 20), DiskContents::default()),
        with(disk("sdb", "DATA", 500), DiskContents::default()),
    ];
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!((world.state(), vacant(&world)), (S::Available, vec!["A", "DATA"]));
    let look = |world: &mut World| {
        world.pass(60);
        world.annotate(annotations::INSPECT, "");
        world.run();
        assert_eq!(world.state(), S::Available, "{}", world.reason());
    };
    let pulled = world.disks.pop().unwrap();
    look(&mut world);
    assert_eq!(vacant(&world), ["A"]);
    world.disks.push(with(pulled, lvm_of("nas")));
    look(&mut world);
    assert_eq!(vacant(&world), ["A"]);
}

#[test]
fn a_proven_cleaning_makes_a_disk_vacant_by_whatever_method() {
    for method in ["metadata", "quick", "full"] {
        let mut world = installed(vec![with(disk("sdb", "DATA", 500), ext4()), disk("sdc", "UNTOLD", 500)]);
        assert_eq!(vacant(&world), ["A"]);
        world.annotate(annotations::CLEANING, &format!(r#"{{"betweenOwners":{{"method":"{method}"}}}}"#));
        leave(&mut world);
        assert_eq!((world.state(), vacant(&world)), (S::Available, vec!["A", "DATA", "UNTOLD"]), "{method}");
    }
}

/// Without a proof, what was asked of the agent says nothing.
#[test]
fn an_erasure_that_failed_makes_only_those_disks_vacant_that_have_receipts() {
    let mut world = installed(vec![with(disk("sdb", "DATA", 500), ext4()), with(disk("sdc", "REST", 500), ext4())]);
    world.agent_works = false;
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    for _ in 0..20 {
        if world.booting {
            world.hello();
        }
        world.step();
        let number = world.memory().plan_number;
        match world.memory().plan.as_ref().map(|issued| issued.plan.clone()) {
            Some(PlanKind::Inspect) => with_work(&mut world, AgentWork::Done),
            Some(PlanKind::Erase(erase)) => {
                let is_data = |disk: &&DiskIdentity| disk.serial == "DATA";
                let data = erase.disks.iter().find(is_data).unwrap();
                world.agent().cleaned = vec![cleaned(number, data, CleaningMethod::Full)];
                let message = "I/O error".into();
                with_work(&mut world, AgentWork::Failed { step: "erase-disk".into(), message, disk_changed: true });
                break;
            }
            _ => {}
        }
    }
    world.step();
    assert_eq!((world.state(), vacant(&world)), (S::Deprovisioning, vec!["A", "DATA"]), "{}", world.reason());
}

#[test]
fn an_installation_makes_its_disk_vacant_once_it_wrote() {
    for (disk_changed, expected) in [(true, vec!["A"]), (false, vec![])] {
        let mut world = World::new();
        world.disks = vec![with(disk("sda", "A", 20), ext4())];
        run_to_write(&mut world);
        assert_eq!(vacant(&world), [""; 0], "the write itself is judged by what stood there before");
        world.agent_works = false;
        with_work(&mut world, AgentWork::Failed { step: "write-image".into(), message: "no".into(), disk_changed });
        world.step();
        assert_eq!(vacant(&world), expected, "{disk_changed}");
    }
    let world = {
        let mut world = World::new();
        world.disks = vec![with(disk("sda", "A", 20), ext4())];
        world.run();
        world
    };
    assert_eq!((world.state(), vacant(&world)), (S::Provisioned, vec!["A"]));
}

/// A disk that was not erased between two owners is the last one's for all that is known.
/// The power goes while the first blocks are written: what stands there is understood by no reader.
#[test]
fn what_an_installation_cleared_before_it_broke_off_is_vacant() {
    for is_cleared in [true, false] {
        let mut world = World::new();
        world.disks = vec![with(disk("sda", "A", 20), ext4())];
        run_to_write(&mut world);
        world.agent_works = false;
        let number = world.memory().plan_number;
        let target = world.memory().disk.as_ref().unwrap().identity().clone();
        with_work(&mut world, AgentWork::Running { step: "write-image".into(), activity: String::new(), percent: 99 });
        world.agent().cleaned =
            if is_cleared { vec![cleaned(number, &target, CleaningMethod::Metadata)] } else { Vec::new() };
        (world.agent().left, world.agent().rebooted) = (true, true);
        world.step();
        assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
        assert_eq!(vacant(&world), if is_cleared { vec!["A"] } else { Vec::new() });
    }
}

#[test]
fn the_next_owner_gets_only_clean_disks_as_vacant() {
    let blank = || with(disk("sdb", "BLANK", 500), DiskContents::default());
    let mut world = installed(vec![blank(), with(disk("sdc", "USED", 500), DiskContents::default())]);
    assert_eq!(vacant(&world), ["A", "BLANK", "USED"]);
    set(&mut world, "USED", ext4());
    world.annotate(annotations::CLEANING, r#"{"betweenOwners":{"method":"quick","scope":"target"}}"#);
    leave(&mut world);
    assert_eq!((world.state(), vacant(&world)), (S::Available, vec!["A", "BLANK"]), "{}", world.reason());
    assert_eq!(serials(&erasures(&world)[0].disks), ["A"]);
}

#[test]
fn a_restored_store_knows_of_no_vacant_disk() {
    let mut world = installed(vec![with(disk("sdb", "DATA", 500), DiskContents::default())]);
    assert_eq!(vacant(&world), ["A", "DATA"]);
    world.seen.lineage.timeline = 2;
    world.seen.lineage.known = vec![(1, 5), (2, 5)];
    world.step();
    world.step();
    assert_eq!((vacant(&world).len(), world.memory().restored.is_some()), (0, true), "{}", world.reason());
}

#[test]
fn a_write_is_refused_before_its_plan_is_issued() {
    let writes = |world: &World| plans(world).iter().filter(|plan| matches!(plan, PlanKind::Write(_))).count();
    let mut world = World::new();
    world.disks = vec![with(disk("sda", "A", 20), vmfs())];
    world.run();
    assert_eq!((world.state(), writes(&world)), (S::Provisioning, 0), "{}", world.reason());
    for word in ["could not write the image", "/dev/sda", "it holds VMFS \"v\"", "override-guard", "rootDeviceHints"] {
        assert!(world.reason().contains(word), "{word}: {}", world.reason());
    }
    assert!(!world.memory().disk_dirty && world.memory().provision_failures == 0);
    let before = inspections(&world);
    world.pass(10);
    world.annotate(annotations::OVERRIDE_GUARD, "a");
    world.run();
    assert_eq!((world.state(), inspections(&world)), (S::Provisioned, before + 1), "{}", world.reason());
    let overrides = |plan: &PlanKind| matches!(plan, PlanKind::Write(write) if write.override_guards);
    assert!(plans(&world).iter().any(overrides) && writes(&world) == 1);
    assert!(!world.seen.host.metadata.annotations.contains_key(annotations::OVERRIDE_GUARD));
}

#[test]
fn a_refused_write_looks_at_the_disk_again() {
    let mut world = World::new();
    world.disks = vec![with(disk("sda", "A", 20), vmfs())];
    world.run();
    assert_eq!(world.state(), S::Provisioning);
    set(&mut world, "A", ext4());
    world.pass(600);
    let now = world.now;
    world.agent().last_report_at = now;
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

/// The inspection that precedes the write shows what was overridden then.
#[test]
fn what_an_inspection_showed_before_a_write_says_nothing_against_cleaning_it_up() {
    let mut world = World::new();
    world.disks = vec![with(disk("sda", "A", 20), vmfs())];
    world.annotate(annotations::OVERRIDE_GUARD, "A");
    run_to_write(&mut world);
    world.effects.clear();
    with_work(&mut world, AgentWork::Failed { step: "write-image".into(), message: "no".into(), disk_changed: true });
    for _ in 0..4 {
        world.step();
    }
    let cleans = |plan: &PlanKind| matches!(plan, PlanKind::Clean { .. });
    assert!(plans(&world).iter().any(cleans), "{:?}: {}", world.state(), world.reason());
}

#[test]
fn what_is_asked_between_installations_is_judged_as_well() {
    let mut world = installed(vec![with(disk("sdb", "DATA", 500), vmfs())]);
    world.annotate(annotations::CLEANING, r#"{"betweenInstallations":{"method":"quick","scope":"all"}}"#);
    world.edit(|host| host.spec.image = Some(image("two")));
    world.run();
    assert_eq!((world.state(), erasures(&world).len()), (S::Deprovisioning, 0), "{}", world.reason());
    assert!(world.reason().contains("serial DATA") && world.reason().contains("automatedCleaningMode"));
    world.pass(10);
    world.annotate(annotations::OVERRIDE_GUARD, "DATA");
    world.run();
    assert_eq!((world.state(), erasures(&world).len()), (S::Provisioned, 1), "{}", world.reason());
}
