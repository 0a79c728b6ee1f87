//! How far disks are cleaned, for whom, and when a lock keeps them.

use firesteel_contents::DiskContents;
use firesteel_plan::disk::{CleaningMethod, Grade};
use firesteel_plan::host::{AgentWork, BmcAction, ErasePlan, ImageInputs, PlanKind};
use firesteel_plan::{DiskIdentity, HostEffect};
use firesteel_resources::bare_metal_host::{CleaningMode, ProvisioningState as S, annotations};
use firesteel_resources::condition::{ConditionStatus, find_condition};
use firesteel_resources::{ObjectReference, RootDeviceHints};

use crate::world::{World, disk, image, run_to_write, with_work};

pub(crate) fn book(world: &mut World, consumer: Option<&str>) {
    let reference = consumer.map(|name| ObjectReference {
        kind: "HostClaim".into(),
        namespace: "tenants".into(),
        name: name.into(),
        ..ObjectReference::default()
    });
    world.edit(|host| host.spec.consumer_ref = reference);
}

fn erasures(world: &World) -> Vec<ErasePlan> {
    let erase = |effect: &HostEffect| match effect {
        HostEffect::IssuePlan { plan: PlanKind::Erase(erase), .. } => Some(erase.clone()),
        _ => None,
    };
    let mut plans: Vec<ErasePlan> = world.effects.iter().filter_map(erase).collect();
    plans.dedup();
    plans
}

fn cleans(world: &World) -> usize {
    world.count(|effect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Clean { .. }, .. }))
}

pub(crate) fn serials(disks: &[DiskIdentity]) -> Vec<&str> {
    disks.iter().map(|disk| disk.serial.as_str()).collect()
}

fn condition(world: &World, name: &str) -> (ConditionStatus, String, String) {
    let status = world.seen.host.status.as_ref().unwrap();
    let found = find_condition(&status.conditions, name).unwrap();
    (found.status, found.reason.clone(), found.message.clone())
}

/// A host with a data disk, installed for the claim `one`.
pub(crate) fn installed_for_a_claim() -> World {
    let mut world = World::new();
    world.disks = vec![disk("sda", "A", 20), disk("sdb", "DATA", 500)];
    book(&mut world, Some("one"));
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
    world.pass(60);
    world
}

/// Runs until a plan to erase was issued, and undoes what the obedient agent did with it.
pub(crate) fn run_to_erase(world: &mut World) -> ErasePlan {
    for _ in 0..300 {
        if world.booting {
            world.hello();
        }
        let step = world.step();
        if step.effects.iter().any(|effect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Erase(_), .. })) {
            with_work(world, AgentWork::Running { step: "erase-disk".into(), activity: String::new(), percent: 5 });
            world.agent().cleaned.clear();
            return erasures(world).pop().unwrap();
        }
    }
    panic!("no plan to erase in {:?}: {}", world.state(), world.reason());
}

#[test]
fn the_same_claim_keeps_its_data_disks() {
    let mut world = installed_for_a_claim();
    world.edit(|host| host.spec.image = Some(image("two")));
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    assert_eq!((cleans(&world) > 0, erasures(&world).len()), (true, 0), "the metadata of the target alone");
    assert_eq!(world.memory().tenant.as_deref(), Some("HostClaim tenants/one"));
}

/// A claim is let go after its image is gone: only then is it known that somebody else comes.
#[test]
fn a_claim_that_leaves_an_available_host_has_all_its_disks_erased() {
    let mut world = installed_for_a_claim();
    world.edit(|host| {
        host.spec.image = None;
        // A tenant's word, which does not count for the next one.
        host.spec.automated_cleaning_mode = Some(CleaningMode::Disabled);
    });
    world.run();
    assert_eq!((world.state(), cleans(&world), erasures(&world).len()), (S::Available, 0, 0), "{}", world.reason());
    world.states.clear();
    book(&mut world, Some("two"));
    world.run();
    assert_eq!(world.states, [S::Preparing, S::Available], "{}", world.reason());
    let erased = erasures(&world);
    assert_eq!(erased.len(), 1);
    assert_eq!((erased[0].method, serials(&erased[0].disks)), (CleaningMethod::Full, vec!["A", "DATA"]));
    assert_eq!(erased[0].own_names, ["a", "one"]);
    assert_eq!(world.memory().tenant, None);
    let (status, reason, text) = condition(&world, "DisksErased");
    assert_eq!((status, reason.as_str()), (ConditionStatus::True, "Erased"));
    assert!(text.contains("2 disks") && text.contains("clear)") && !text.contains("purge"), "{text}");
}

/// The claim leaves later than the image, when the plan of the installation is gone: the hints still name the disk, and
/// the agent hears so.
#[test]
fn a_disk_on_usb_that_the_hints_name_is_erased_for_the_next_owner() {
    let mut world = World::new();
    world.disks = vec![disk("sda", "A", 20), disk("sdb", "DATA", 500)];
    let attached = vec!["it is on USB: a stick or a virtual medium to boot from".to_owned()];
    world.disks[0].contents = Some(Box::new(DiskContents { attached, ..DiskContents::default() }));
    let hints = RootDeviceHints { serial_number: "A".into(), ..RootDeviceHints::default() };
    world.edit(|host| host.spec.root_device_hints = Some(hints));
    book(&mut world, Some("one"));
    world.run();
    world.pass(60);
    world.edit(|host| {
        host.spec.image = None;
        host.spec.automated_cleaning_mode = Some(CleaningMode::Disabled);
    });
    world.run();
    assert_eq!((world.state(), world.memory().disk.is_some()), (S::Available, false), "{}", world.reason());
    book(&mut world, Some("two"));
    world.run();
    assert_eq!(world.state(), S::Available, "{}", world.reason());
    let erased = erasures(&world);
    assert_eq!((serials(&erased[0].disks), serials(&erased[0].named)), (vec!["A", "DATA"], vec!["A"]));
}

#[test]
fn a_claim_that_is_gone_with_its_image_is_followed_by_a_full_erasure() {
    let mut world = installed_for_a_claim();
    world.states.clear();
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!(world.states, [S::Deprovisioning, S::Available], "{}", world.reason());
    assert_eq!(erasures(&world)[0].method, CleaningMethod::Full);
    assert_eq!(cleans(&world), 0, "an erasure covers the metadata");
}

#[test]
fn the_owner_may_ask_for_less_and_the_status_says_so() {
    let mut world = installed_for_a_claim();
    world.annotate(annotations::CLEANING, r#"{"betweenOwners":{"method":"quick","scope":"target"}}"#);
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    world.run();
    let erased = erasures(&world);
    assert_eq!((erased[0].method, serials(&erased[0].disks)), (CleaningMethod::Quick, vec!["A"]));
    let (status, reason, text) = condition(&world, "DisksErased");
    assert_eq!((status, reason.as_str()), (ConditionStatus::False, "PartlyErased"));
    assert!(text.contains("asks for less"), "{text}");
}

/// An owner's own data disks are kept where the policy between installations erases the system's disk alone.
#[test]
fn disks_are_called_erased_only_where_none_was_kept() {
    for (disks, scope, expected) in [
        (vec![disk("sda", "A", 20)], "target", (ConditionStatus::True, "Erased")),
        (vec![disk("sda", "A", 20), disk("sdb", "DATA", 500)], "target", (ConditionStatus::False, "PartlyErased")),
        (vec![disk("sda", "A", 20), disk("sdb", "DATA", 500)], "all", (ConditionStatus::True, "Erased")),
    ] {
        let mut world = World::new();
        world.disks = disks;
        let policy = serde_json::json!({"betweenInstallations": {"method": "full", "scope": scope}});
        world.annotate(annotations::CLEANING, &policy.to_string());
        world.run();
        world.pass(60);
        world.edit(|host| host.spec.image = None);
        world.run();
        assert_eq!(world.state(), S::Available, "{}", world.reason());
        let (status, reason, text) = condition(&world, "DisksErased");
        assert_eq!((status, reason.as_str()), expected, "{text}");
        assert_eq!(text.contains("kept: /dev/sdb"), reason == "PartlyErased", "{text}");
    }
}

/// Done is what receipts prove.
#[test]
fn an_agent_that_calls_it_done_without_proof_is_not_believed() {
    for (grade, asked) in [(Grade::None, CleaningMethod::Full), (Grade::Purge, CleaningMethod::Quick)] {
        let mut world = installed_for_a_claim();
        book(&mut world, None);
        world.edit(|host| host.spec.image = None);
        let plan = run_to_erase(&mut world);
        let number = world.memory().plan_number;
        with_work(&mut world, AgentWork::Done);
        let shown = |disk: &DiskIdentity| firesteel_plan::disk::CleaningProof {
            grade,
            ..crate::world::cleaned(number, disk, asked)
        };
        world.agent().cleaned = plan.disks.iter().map(shown).collect();
        world.step();
        assert_eq!(world.state(), S::Deprovisioning);
        assert!(world.reason().contains("no receipt proves it"), "{}", world.reason());
        assert!(world.memory().tenant.is_some() && world.memory().cleaned.is_none());
    }
}

/// A receipt of before the write says nothing of what was written since.
#[test]
fn a_receipt_from_before_a_write_proves_nothing() {
    let mut world = World::new();
    run_to_write(&mut world);
    let target = world.memory().disk.clone().unwrap().identity().clone();
    let older = world.memory().plan_number - 1;
    with_work(&mut world, AgentWork::Failed { step: "write-image".into(), message: "I/O".into(), disk_changed: true });
    let receipt = crate::world::cleaned(older, &target, CleaningMethod::Metadata);
    world.agent().cleaned = vec![receipt];
    world.agent_works = false;
    for _ in 0..10 {
        world.step();
    }
    assert_eq!(world.state(), S::Deprovisioning, "{}", world.reason());
    assert!(world.memory().disk_dirty, "{}", world.reason());
}

#[test]
fn an_old_agent_is_not_sent_what_it_does_not_know() {
    let mut world = installed_for_a_claim();
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    for _ in 0..50 {
        world.step();
        if world.booting {
            world.hello();
            world.agent().can_erase = false;
        }
    }
    assert_eq!((world.state(), erasures(&world).len()), (S::Deprovisioning, 0));
    assert!(world.reason().contains("too old to erase"), "{}", world.reason());
}

#[test]
fn an_override_names_a_disk_and_is_used_once() {
    let mut world = installed_for_a_claim();
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    world.annotate(annotations::OVERRIDE_GUARD, r#"["data","other"]"#);
    world.run();
    let erased = erasures(&world);
    assert_eq!(serials(&erased[0].overridden), ["DATA"]);
    assert!(!world.seen.host.metadata.annotations.contains_key(annotations::OVERRIDE_GUARD), "one-shot");
}

#[test]
fn a_locked_host_stays_where_it_is_until_it_is_unlocked() {
    let mut world = installed_for_a_claim();
    let boots = world.net_boots();
    world.annotate(annotations::LOCK, "audit");
    world.edit(|host| host.spec.image = Some(image("two")));
    world.run();
    assert_eq!((world.state(), world.net_boots()), (S::Provisioned, boots), "its OS runs on");
    assert!(world.reason().contains("audit") && world.reason().contains("firesteel unlock a"), "{}", world.reason());
    assert_eq!(condition(&world, "DestructionHeld").0, ConditionStatus::True);
    world.delete();
    world.run();
    assert_eq!((world.state(), world.gone), (S::Provisioned, false), "a deletion waits as well");
    world.seen.host.metadata.annotations.remove(annotations::LOCK);
    world.run();
    assert!(world.gone, "{}", world.reason());
}

#[test]
fn a_locked_host_that_is_free_is_not_installed() {
    let mut world = World::new();
    world.annotate(annotations::LOCK, "");
    world.run();
    assert_eq!(world.state(), S::Available, "inspected all the same");
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::IssuePlan { plan: PlanKind::Write(_), .. })), 0);
    world.seen.host.metadata.annotations.remove(annotations::LOCK);
    world.pass(30);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

#[test]
fn a_lock_stops_a_write_that_is_under_way_and_the_disk_counts_as_changed() {
    let mut world = World::new();
    run_to_write(&mut world);
    let attempt = world.memory().attempt;
    world.annotate(annotations::LOCK, "wrong host");
    world.agent_works = false;
    let step = world.step();
    let stops = |effect: &HostEffect| matches!(effect, HostEffect::AbortAgent { attempt: old, .. } if *old == attempt);
    assert!(step.effects.iter().any(stops), "{:?}", step.effects);
    assert!(step.events.iter().any(|event| event.reason == "DestructionStopped"), "{:?}", step.events);
    world.settle();
    assert_eq!((world.state(), world.memory().disk_dirty), (S::Deprovisioning, true));
    assert!(world.memory().attempt > attempt && world.memory().plan.is_none() && world.memory().admitted.is_none());
    assert!(world.reason().contains("wrong host"), "{}", world.reason());
    let before = world.effects.len();
    world.pass(3600);
    world.settle();
    assert_eq!(world.effects.len(), before, "nothing is begun");
    world.seen.host.metadata.annotations.remove(annotations::LOCK);
    world.agent_works = true;
    world.pass(3600);
    world.run();
    assert_eq!(world.state(), S::Provisioned, "{}", world.reason());
}

#[test]
fn a_lock_stops_an_erasure_that_is_under_way() {
    let mut world = installed_for_a_claim();
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    run_to_erase(&mut world);
    world.agent_works = false;
    world.annotate(annotations::LOCK, "");
    let step = world.step();
    assert!(step.effects.iter().any(|effect| matches!(effect, HostEffect::AbortAgent { .. })), "{:?}", step.effects);
    world.agent().left = true;
    world.settle();
    assert_eq!((world.state(), world.memory().plan.is_none()), (S::Deprovisioning, true));
    assert!(world.memory().admitted.is_none(), "nobody else waits for it");
    assert!(world.memory().tenant.is_some(), "what was not proven is not forgotten");
}

#[test]
fn a_host_that_goes_with_data_of_a_claim_is_erased_first_and_else_leaves_a_tombstone() {
    let of_any = |effect: &HostEffect| matches!(effect, HostEffect::Tombstone { disk: None, .. });
    for fails in [false, true] {
        let mut world = installed_for_a_claim();
        world.edit(|host| host.spec.image = None);
        world.run();
        assert_eq!(world.state(), S::Available);
        world.delete();
        let plan = run_to_erase(&mut world);
        assert_eq!((world.state(), plan.method, plan.disks.len()), (S::Preparing, CleaningMethod::Full, 2));
        if fails {
            world.annotate(annotations::RELEASE_FORCE, "");
        } else {
            let number = world.memory().plan_number;
            let shown = |disk: &DiskIdentity| crate::world::cleaned(number, disk, CleaningMethod::Full);
            with_work(&mut world, AgentWork::Done);
            world.agent().cleaned = plan.disks.iter().map(shown).collect();
        }
        world.run();
        assert!(world.gone, "{:?}: {}", world.state(), world.reason());
        assert_eq!(world.count(of_any) > 0, fails, "the data disk is meant as well");
    }
}

/// A claim was unbooked by mistake and booked again: its data disks were erased to the end.
#[test]
fn an_erasure_stops_once_the_host_is_its_former_owners_again() {
    // Available with the tenant's data, and on the way out of its OS.
    for image_first in [true, false] {
        let mut world = installed_for_a_claim();
        let wanted = world.seen.host.spec.image.clone();
        world.edit(|host| host.spec.image = None);
        if image_first {
            world.run();
            assert_eq!(world.state(), S::Available, "{}", world.reason());
        }
        book(&mut world, None);
        let plan = run_to_erase(&mut world);
        let (attempt, number) = (world.memory().attempt, world.memory().plan_number);
        let first = crate::world::cleaned(number, &plan.disks[0], CleaningMethod::Full);
        world.agent().cleaned = vec![first];
        world.pass(10);
        book(&mut world, Some("one"));
        world.edit(|host| host.spec.image = wanted);
        let step = world.step();
        let stops =
            |effect: &HostEffect| matches!(effect, HostEffect::AbortAgent { attempt: old, .. } if *old == attempt);
        assert!(step.effects.iter().any(stops), "{:?}: {}", world.state(), world.reason());
        let told = step.events.iter().find(|event| event.reason == "CleaningStopped").unwrap();
        let (done, rest) = told.message.split_once("perhaps partly").unwrap();
        assert!(done.contains("serial A,") && !done.contains("DATA") && rest.contains("DATA"), "{}", told.message);
        assert!(world.memory().tenant.is_some() && firesteel_plan::current_plan(world.memory()).is_none());
        assert_eq!(condition(&world, "DisksErased").1, "PartlyErased");
        world.effects.clear();
        world.agent().left = true;
        world.pass(60);
        world.run();
        assert!(world.memory().attempt > attempt);
        assert_eq!(world.net_boots(), 0, "a reset would come before the agent's safe point: {}", world.reason());
        world.hello();
        world.run();
        assert_eq!((world.state(), erasures(&world).len()), (S::Provisioned, 0), "{}", world.reason());
    }
}

/// What an earlier version stored does not say for whom it erases.
#[test]
fn an_erasure_of_an_unknown_purpose_counts_as_one_for_another_owner() {
    let plan: ErasePlan = serde_json::from_str(r#"{"method":"full","disks":[]}"#).unwrap();
    assert_eq!(plan.next, firesteel_plan::disk::NextOwner::Another);
}

fn a_write_fails(world: &mut World, disk_changed: bool) {
    run_to_write(world);
    world.agent_works = false;
    with_work(world, AgentWork::Failed { step: "write-image".into(), message: "no key".into(), disk_changed });
    world.step();
}

/// The owner's data disks were erased when a claim left for which nothing had been written.
#[test]
fn a_claim_whose_installation_wrote_nothing_leaves_nothing() {
    for disk_changed in [false, true] {
        let mut world = World::new();
        book(&mut world, Some("one"));
        a_write_fails(&mut world, disk_changed);
        assert_eq!(world.memory().tenant.is_some(), disk_changed, "{}", world.reason());
        assert!(!world.memory().tenant_is_new);
        book(&mut world, None);
        world.edit(|host| host.spec.image = None);
        world.agent_works = true;
        for _ in 0..6 {
            world.pass(100);
            let now = world.now;
            world.agent().last_report_at = now;
            world.run();
        }
        assert_eq!((world.state(), !erasures(&world).is_empty()), (S::Available, disk_changed), "{}", world.reason());
    }
    // One for whom something was installed before stays, whatever the next write came to.
    let mut world = installed_for_a_claim();
    world.edit(|host| host.spec.image = Some(image("two")));
    a_write_fails(&mut world, false);
    assert!(world.memory().tenant.is_some(), "{}", world.reason());
}

/// Booked for another claim with the same image before anything was written: it was installed over the data of the
/// first one.
#[test]
fn nothing_is_installed_for_another_claim_before_the_disks_are_erased() {
    let mut world = installed_for_a_claim();
    world.edit(|host| host.spec.image = None);
    world.run();
    world.seen.image = ImageInputs::Fetching { done_bytes: 1, total_bytes: None, progress_at: world.now };
    world.edit(|host| host.spec.image = Some(image("two")));
    world.settle();
    assert_eq!((world.state(), world.memory().disk_dirty), (S::Provisioning, false), "{}", world.reason());
    world.effects.clear();
    world.states.clear();
    book(&mut world, Some("two"));
    world.seen.image = ImageInputs::Ready(crate::world::ready());
    world.run();
    let destroys = |effect: &&HostEffect| matches!(effect, HostEffect::IssuePlan { plan, .. } if plan.destroys());
    let first = world.effects.iter().find(destroys);
    assert!(matches!(first, Some(HostEffect::IssuePlan { plan: PlanKind::Erase(_), .. })), "{first:?}");
    assert_eq!(world.states, [S::Available, S::Preparing, S::Available, S::Provisioning, S::Provisioned]);
    assert_eq!(world.memory().tenant.as_deref(), Some("HostClaim tenants/two"));
}

#[test]
fn an_installed_host_that_is_booked_for_another_claim_says_so_and_keeps_its_disks() {
    let mut world = installed_for_a_claim();
    world.effects.clear();
    book(&mut world, Some("two"));
    world.run();
    assert_eq!((world.state(), world.net_boots()), (S::Provisioned, 0), "{}", world.reason());
    let (status, reason, text) = condition(&world, "ConsumerIsTenant");
    assert_eq!((status, reason.as_str()), (ConditionStatus::False, "AnotherTenant"));
    assert!(text.contains("tenants/one") && text.contains("tenants/two"), "{text}");
    book(&mut world, Some("one"));
    world.run();
    assert_eq!(condition(&world, "ConsumerIsTenant").0, ConditionStatus::True);
}

/// Time goes by while the agent reports and nothing else changes.
fn stands_still(world: &mut World, minutes: u32) {
    for _ in 0..minutes {
        world.pass(60);
        let now = world.now;
        world.agent().last_report_at = now;
        world.step();
    }
}

fn resets(world: &World) -> usize {
    let is_reset = |effect: &HostEffect| match effect {
        HostEffect::Bmc(call) => !matches!(
            call.action,
            BmcAction::Probe | BmcAction::ReadOnce | BmcAction::PowerOn | BmcAction::TakeBootBack
        ),
        HostEffect::AbortAgent { .. } => true,
        _ => false,
    };
    world.count(is_reset)
}

/// An agent that is cut off holds its work for half an hour; the host was reset after five minutes.
#[test]
fn an_agent_that_erases_is_not_reset_while_it_may_hold_its_work() {
    let quiet = || {
        let mut world = installed_for_a_claim();
        book(&mut world, None);
        world.edit(|host| host.spec.image = None);
        run_to_erase(&mut world);
        world.agent_works = false;
        world.effects.clear();
        for _ in 0..59 {
            world.pass(60);
            world.step();
        }
        assert_eq!((resets(&world), world.memory().clean_failures), (0, 0), "{}", world.reason());
        assert!(world.reason().contains("not heard since 2026"), "{}", world.reason());
        world
    };
    let mut world = quiet();
    world.pass(120);
    world.step();
    assert!(resets(&world) == 1 && world.memory().clean_failures == 1, "{}", world.reason());
    let mut world = quiet();
    world.annotate(annotations::RETRY, "");
    world.step();
    assert_eq!(resets(&world), 1, "a person knows better: {}", world.reason());
}

#[test]
fn a_deletion_waits_for_an_erasure_that_is_under_way() {
    let mut world = installed_for_a_claim();
    world.edit(|host| host.spec.image = None);
    world.run();
    book(&mut world, None);
    let plan = run_to_erase(&mut world);
    assert_eq!(world.state(), S::Preparing);
    let number = world.memory().plan_number;
    world.agent_works = false;
    world.effects.clear();
    world.delete();
    stands_still(&mut world, 100);
    assert_eq!((world.state(), resets(&world)), (S::Preparing, 0), "{}", world.reason());
    with_work(&mut world, AgentWork::Done);
    world.agent().cleaned =
        plan.disks.iter().map(|disk| crate::world::cleaned(number, disk, CleaningMethod::Full)).collect();
    world.agent_works = true;
    world.states.clear();
    world.run();
    assert!(world.gone, "{}", world.reason());
    assert_eq!(world.states, [S::Preparing, S::PoweringOff, S::Deleting]);
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::Tombstone { .. })), 0, "it was erased");
}

#[test]
fn a_deletion_gives_an_erasure_up_that_fails_again_and_again() {
    let mut world = installed_for_a_claim();
    world.edit(|host| host.spec.image = None);
    world.run();
    book(&mut world, None);
    run_to_erase(&mut world);
    world.delete();
    world.bmc_works = false;
    world.agent().rebooted = true;
    for _ in 0..40 {
        world.pass(1800);
        world.run();
    }
    assert!(world.gone, "{:?} {}", world.state(), world.reason());
    assert!(world.count(|effect| matches!(effect, HostEffect::Tombstone { .. })) > 0);
}

#[test]
fn a_release_by_force_tells_the_agent_to_stop() {
    let mut world = installed_for_a_claim();
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    run_to_erase(&mut world);
    let attempt = world.memory().attempt;
    world.annotate(annotations::RELEASE_FORCE, "");
    world.delete();
    let step = world.step();
    let stops = |effect: &HostEffect| matches!(effect, HostEffect::AbortAgent { attempt: old, .. } if *old == attempt);
    assert!(step.effects.iter().any(stops), "{:?}", step.effects);
    world.step();
    assert!(world.gone);
}

/// A drive that erases itself shows nothing for hours: each minute counted as a failure, and a deletion switched the
/// host off under it.
#[test]
fn an_erasure_that_shows_no_progress_is_waited_for() {
    let mut world = installed_for_a_claim();
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    run_to_erase(&mut world);
    world.agent_works = false;
    world.effects.clear();
    world.delete();
    stands_still(&mut world, 10 * 60);
    assert_eq!((world.state(), world.memory().clean_failures, resets(&world)), (S::Deprovisioning, 0, 0));
    assert!(world.memory().failure.is_none(), "{}", world.reason());
    assert!(world.reason().contains("no progress since 2026-01-01T00:01:00Z"), "{}", world.reason());
    let events = world.events.len();
    stands_still(&mut world, 5 * 60);
    assert!(world.memory().failure.is_some() && world.events.len() == events + 1, "an error then, once");
    assert_eq!((world.state(), world.memory().clean_failures, resets(&world)), (S::Deprovisioning, 0, 0));
}

#[test]
fn a_host_declared_externally_provisioned_keeps_its_disks() {
    for goes in [false, true] {
        let mut world = installed_for_a_claim();
        world.edit(|host| host.spec.image = None);
        world.run();
        book(&mut world, None);
        run_to_erase(&mut world);
        assert_eq!(world.state(), S::Preparing);
        let attempt = world.memory().attempt;
        world.effects.clear();
        world.edit(|host| host.spec.externally_provisioned = true);
        if goes {
            world.delete();
        }
        let step = world.step();
        let stops =
            |effect: &HostEffect| matches!(effect, HostEffect::AbortAgent { attempt: old, .. } if *old == attempt);
        assert!(step.effects.iter().any(stops), "{}", world.reason());
        world.agent().left = true;
        world.run();
        assert_eq!((erasures(&world).len(), world.memory().tenant.is_some()), (0, true));
        assert_eq!(world.state(), if goes { S::Deleting } else { S::ExternallyProvisioned }, "{}", world.reason());
        let off = BmcAction::PowerOff { hard: true };
        let hard = |effect: &HostEffect| matches!(effect, HostEffect::Bmc(call) if call.action == off);
        assert_eq!(world.count(hard), 0);
    }
}

/// The inspection of before the retry was believed, and failed in the same way again.
#[test]
fn a_retry_of_a_cleaning_looks_at_the_disks_again() {
    let mut world = installed_for_a_claim();
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    world.disks[1].read_only = true;
    world.settle();
    world.pass(1);
    world.run();
    assert!(world.reason().contains("cannot be cleaned"), "{:?} {}", world.state(), world.reason());
    let attempt = world.memory().attempt;
    world.pass(10);
    world.disks[1].read_only = false;
    world.annotate(annotations::RETRY, "");
    world.run();
    let erased_in = world.memory().clean_boot.as_ref().map(|boot| boot.attempt);
    assert_eq!((world.state(), erased_in), (S::Available, Some(attempt)), "{}", world.reason());
    assert_eq!(erasures(&world).len(), 1);
}

/// The inspection did not show a disk (a loose cable, a dead controller): the host was called erased.
#[test]
fn a_disk_that_the_claim_had_and_that_is_not_seen_any_more_is_not_erased() {
    let mut world = installed_for_a_claim();
    assert_eq!(serials(&world.memory().tenant_disks), ["A", "DATA"]);
    world.disks.truncate(1);
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    world.settle();
    world.pass(1);
    world.run();
    assert_eq!((world.state(), erasures(&world).len()), (S::Deprovisioning, 0), "{}", world.reason());
    for word in ["serial DATA", "firesteel.dev/cleaning", "firesteel release --force"] {
        assert!(world.reason().contains(word), "{word}: {}", world.reason());
    }
    world.pass(10);
    world.annotate(annotations::CLEANING, r#"{"betweenOwners":{"scope":{"named":["A"]}}}"#);
    world.annotate(annotations::RETRY, "");
    world.run();
    assert_eq!((world.state(), serials(&erasures(&world)[0].disks)), (S::Available, vec!["A"]), "{}", world.reason());
    assert!(world.memory().tenant_disks.is_empty() && world.memory().tenant_targets.is_empty());
    assert_eq!(condition(&world, "DisksErased").1, "PartlyErased");
}

/// The image goes first and the reference later, as CAPM3 does it: nothing was erased.
#[test]
fn the_disk_of_the_operating_system_is_known_until_it_is_erased() {
    let mut world = installed_for_a_claim();
    world.annotate(annotations::CLEANING, r#"{"betweenOwners":{"scope":"target"}}"#);
    world.edit(|host| host.spec.image = None);
    world.run();
    assert_eq!((world.state(), world.memory().disk_dirty), (S::Available, false), "{}", world.reason());
    book(&mut world, None);
    world.run();
    let erased = erasures(&world);
    assert_eq!((world.state(), erased.len()), (S::Available, 1), "{}", world.reason());
    assert_eq!((erased[0].method, serials(&erased[0].disks)), (CleaningMethod::Full, vec!["A"]));
}

/// Its data was kept for the next one: nothing had been written from here.
#[test]
fn an_adopted_installation_is_its_consumers() {
    let mut world = World::new();
    world.disks = vec![disk("sda", "A", 20), disk("sdb", "DATA", 500)];
    world.edit(|host| host.spec.externally_provisioned = true);
    world.run();
    book(&mut world, Some("one"));
    world.edit(|host| host.spec.externally_provisioned = false);
    world.run();
    assert_eq!((world.state(), erasures(&world).len()), (S::Provisioned, 0), "{}", world.reason());
    world.edit(|host| host.spec.image = None);
    book(&mut world, None);
    world.run();
    assert_eq!((world.state(), serials(&erasures(&world)[0].disks)), (S::Available, vec!["A", "DATA"]));
}

/// The appliance died between the plan and the removal of the annotation.
#[test]
fn an_override_whose_removal_was_lost_arms_no_other_plan() {
    let mut world = installed_for_a_claim();
    world.annotations_work = false;
    world.annotate(annotations::OVERRIDE_GUARD, "DATA");
    book(&mut world, None);
    world.edit(|host| host.spec.image = None);
    assert_eq!(serials(&run_to_erase(&mut world).overridden), ["DATA"]);
    world.agent_works = false;
    with_work(&mut world, AgentWork::Failed { step: "erase-disk".into(), message: "ceph".into(), disk_changed: false });
    world.step();
    world.effects.clear();
    world.agent_works = true;
    for _ in 0..4 {
        world.pass(100);
        let now = world.now;
        world.agent().last_report_at = now;
        world.step();
        world.step();
    }
    let again = erasures(&world);
    assert!(!again.is_empty() && again.iter().all(|plan| plan.overridden.is_empty()), "{again:?} {}", world.reason());
    let removes = |effect: &HostEffect| matches!(effect, HostEffect::RemoveAnnotation { .. });
    assert!(world.count(removes) > 0);
    // Removed at last, and set anew: that counts.
    world.seen.host.metadata.annotations.clear();
    world.step();
    assert!(world.memory().overridden.is_empty());
}
