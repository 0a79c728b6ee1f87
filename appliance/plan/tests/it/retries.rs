//! What a retry may be asked for: work under way, or anything that holds a host up.

use firesteel_plan::disk::CleaningMethod;
use firesteel_plan::host::{
    BootWait, Claimants, CredentialsUsed, ErasureSummary, Frozen, FrozenWhy, HostFailure, ImageInputs, KnownIdentity,
    PendingErasure, RestoreMark,
};
use firesteel_plan::{DiskIdentity, HostEffect};
use firesteel_resources::bare_metal_host::{ErrorType, ProvisioningState as S, annotations};
use firesteel_resources::host_journal::{Claimant, RefusedIdentity, RequestOutcome};

use crate::world::{World, disk, run_to_write};

fn provisioned() -> World {
    let mut world = World::new();
    world.run();
    assert_eq!(world.state(), S::Provisioned);
    world
}

fn fail(world: &mut World) {
    let (at, kind) = (world.now, ErrorType::PowerManagement);
    let (message, inputs) = ("no route".into(), String::new());
    world.seen.memory.failure =
        Some(HostFailure { kind, message, count: 1, at, retry_at: None, until_edit: false, inputs });
}

fn claim(world: &mut World) {
    let (since, until) = (world.now, world.now);
    let (attempt, first) = (world.memory().attempt, Claimant::default());
    world.seen.memory.claimants =
        Some(Claimants { since, attempt, first, others: Vec::new(), until, cut: None, person: None });
}

fn freeze(world: &mut World) {
    let (why, since) = (FrozenWhy::Unread, world.now);
    world.seen.memory.frozen =
        Some(Frozen { why, disk: "sda".into(), guid: "a".into(), message: "it is".into(), since });
}

fn boot(world: &mut World) {
    let since = world.now;
    world.seen.memory.boot =
        Some(BootWait { since, powered: true, looked_at: None, off_since: None, unseen: 0, cut: None });
}

fn hold(world: &mut World) {
    let erased = ErasureSummary {
        method: CleaningMethod::Full,
        disks: Vec::new(),
        is_all: true,
        is_whole: true,
        proven: String::new(),
        claimed: String::new(),
    };
    let (attempt, since, unverified) = (world.memory().attempt, world.now, vec!["it was not seen off".to_owned()]);
    world.seen.memory.wipe =
        Some(PendingErasure { attempt, plan: 1, since, erased, asked_at: None, unverified, accepted_at: None });
}

/// Another machine said hello as the host.
fn refuse(world: &mut World) {
    world.seen.memory.identity = Some(KnownIdentity::of("", "S1", world.now));
    let (attempt, at) = (world.memory().attempt, world.now);
    world.seen.refused_identity =
        Some(RefusedIdentity { serial: "S2".into(), attempt, at, ..RefusedIdentity::default() });
}

fn quieten(world: &mut World) {
    world.agent().left = false;
    world.pass(301);
}

/// Another disk is in a place that an installation bound.
fn drift(world: &mut World) {
    let by_path = world.seen.hardware.as_ref().unwrap().disks[0].by_path.clone();
    world.seen.hardware.as_mut().unwrap().disks = vec![disk("sda", "", 30)];
    let bound = DiskIdentity { by_path, size_bytes: 20_000_000_000, ..DiskIdentity::default() };
    world.seen.memory.tenant_targets = vec![bound];
}

#[test]
fn each_thing_that_holds_a_host_up_is_enough_for_a_retry() {
    type Row = (&'static str, fn(&mut World));
    let rows: [Row; 13] = [
        ("an error", fail),
        ("a failed installation", |world| world.seen.memory.provision_failures = 1),
        ("two machines that claim to be the host", claim),
        ("a freeze", freeze),
        ("a restore", |world| {
            world.seen.memory.restored = Some(RestoreMark { at: world.now, unfinished: String::new() });
        }),
        ("a boot that is awaited", boot),
        ("credentials that were refused", |world| {
            let (secret, version) = ("s".into(), "0".into());
            world.seen.memory.bmc.refused_credentials = Some(CredentialsUsed { secret, version });
        }),
        ("an erasure that is held", hold),
        ("another machine", refuse),
        ("an image that could not be had", |world| {
            let (message, at) = ("404".into(), world.now);
            world.seen.image = ImageInputs::Failed { message, permanent: false, at };
        }),
        ("a quiet agent", quieten),
        ("another disk in its place", drift),
        ("nothing", |_| {}),
    ];
    for (what, change) in rows {
        let mut world = provisioned();
        change(&mut world);
        world.annotate(annotations::RETRY, "now");
        world.step();
        let (outcome, text) = world.answer(annotations::RETRY).unwrap();
        let expected = if what == "nothing" { RequestOutcome::Refused } else { RequestOutcome::Accepted };
        assert_eq!(outcome, expected, "{what}: {text}");
    }
}

/// A step that reports goes on, and the person has an answer.
#[test]
fn a_retry_of_a_host_at_work_is_taken_and_keeps_its_plan() {
    let mut world = World::new();
    run_to_write(&mut world);
    let plan = world.memory().plan.clone();
    world.annotate(annotations::RETRY, "now");
    world.step();
    assert_eq!(world.answer(annotations::RETRY).map(|(outcome, _)| outcome), Some(RequestOutcome::Accepted));
    assert_eq!((world.state(), &world.memory().plan), (S::Provisioning, &plan), "{}", world.reason());
    assert_eq!(world.count(|effect| matches!(effect, HostEffect::AbortAgent { .. })), 0);
}

/// The place means the disk that is there when the host is looked at after the retry, not the one that was seen before.
#[test]
fn a_place_is_bound_to_what_the_next_inspection_finds() {
    let mut world = provisioned();
    drift(&mut world);
    world.pass(10);
    world.annotate(annotations::RETRY, "now");
    world.step();
    world.step();
    assert!(world.memory().rebind_paths.is_some(), "the old inspection binds nothing");
    assert_eq!(world.memory().tenant_targets[0].size_bytes, 20_000_000_000);
    let record = world.seen.hardware.as_mut().unwrap();
    record.disks[0].size_bytes = 40_000_000_000;
    record.inspected_at = world.now;
    world.step();
    assert_eq!((world.memory().rebind_paths, world.memory().tenant_targets[0].size_bytes), (None, 40_000_000_000));
    assert_eq!(world.events.iter().filter(|event| event.reason == "PathRebound").count(), 1);
}
