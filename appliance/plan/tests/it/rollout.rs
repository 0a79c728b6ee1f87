//! How a group comes to a new image, and which one its hosts get.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_facts::Architecture;
use firesteel_plan::group::{
    Contested, GroupHostInputs, GroupHostStage, GroupInputs, GroupMember, GroupStep, GroupWait, GroupWaitReason,
    ImageAssignment, POLICY, contested, step,
};
use firesteel_plan::policy::{Catalogue, CatalogueImage};
use firesteel_resources::condition::{ConditionStatus, find_condition};
use firesteel_resources::host_group::{
    CANARY_HALTED, Canary, CanaryState, DEGRADED, HISTORY_MAX, HOST_HISTORY_MAX, HostGroupStatus, ImageReference,
    PROGRESSING, ReleaseTrack, Restore, RolloutMode, SKIPPED_CHARS_MAX, SKIPPED_HOSTS_MAX,
};
use firesteel_resources::{HostGroup, Selector};
use proptest::prelude::*;
use serde_json::json;

use crate::policy::{at, entry, image};
use Architecture::{Aarch64, X86_64};

pub(crate) fn release(name: &str) -> ImageReference {
    image("stable", name, X86_64)
}

pub(crate) fn to_install(name: String, architecture: Option<Architecture>) -> GroupHostInputs {
    GroupHostInputs {
        name,
        architecture,
        sector_bytes: None,
        stage: GroupHostStage::ToInstall,
        not_ready: None,
        is_fought: false,
    }
}

pub(crate) struct World {
    pub(crate) group: HostGroup,
    pub(crate) hosts: Vec<GroupHostInputs>,
    pub(crate) entries: Vec<CatalogueImage>,
    pub(crate) contested: Contested,
    pub(crate) held: Option<&'static str>,
    stub_fault: Option<&'static str>,
    by: &'static str,
    now: i64,
}

impl World {
    /// A group that is at release 1, with hosts that are to be installed.
    pub(crate) fn new(canaries: Option<u32>, hosts: &[&str]) -> Self {
        let mut group: HostGroup = serde_json::from_value(json!({
            "metadata": {"name": "workers", "namespace": "rack", "generation": 3},
            "spec": {"selector": {"matchLabels": {"role": "worker"}}, "image": {"stream": "stable"}},
        }))
        .unwrap();
        group.status.golden = Some(release("1"));
        let host = |name: &&str| to_install((*name).to_owned(), Some(X86_64));
        let entries = ["3", "2", "1"].map(|name| entry("stable", name, X86_64)).into();
        let hosts = hosts.iter().map(host).collect();
        let mut world = Self {
            group,
            hosts,
            entries,
            contested: Contested::new(),
            held: None,
            stub_fault: None,
            by: "ann",
            now: 1000,
        };
        world.step();
        if let Some(canaries) = canaries {
            world.group.spec.rollout.mode = RolloutMode::Canary;
            world.group.spec.rollout.canaries = Some(canaries);
        }
        world
    }

    pub(crate) fn step(&mut self) -> GroupStep {
        let step = self.once();
        self.group.status = step.status.clone();
        let again = self.once();
        assert_eq!((&again.status, &again.gives), (&step.status, &step.gives), "the same again changes nothing");
        step
    }

    fn once(&self) -> GroupStep {
        let catalogue = Catalogue::new(vec!["stable".into()], self.entries.clone(), Vec::new());
        step(&GroupInputs {
            group: &self.group,
            hosts: &self.hosts,
            catalogue: &catalogue,
            architecture: Some(X86_64),
            contested: &self.contested,
            held: self.held,
            stub_fault: self.stub_fault,
            by: self.by,
            now: at(self.now),
        })
    }

    pub(crate) fn golden(&mut self, name: &str) -> GroupStep {
        self.group.status.golden = Some(release(name));
        self.step()
    }

    pub(crate) fn stage(&mut self, name: &str, stage: GroupHostStage) -> GroupStep {
        self.host(name).stage = stage;
        self.now += 1;
        self.step()
    }

    pub(crate) fn host(&mut self, name: &str) -> &mut GroupHostInputs {
        self.hosts.iter_mut().find(|host| host.name == name).unwrap()
    }

    pub(crate) fn condition(&self, type_: &str) -> (ConditionStatus, String, String) {
        let found = find_condition(&self.group.status.conditions, type_).unwrap();
        assert_eq!(found.observed_generation, 3);
        (found.status, found.reason.clone(), found.message.clone())
    }

    pub(crate) fn current(&self) -> Option<ImageReference> {
        self.group.status.current.clone()
    }

    pub(crate) fn canary_state(&self) -> Option<CanaryState> {
        self.group.status.canary.as_ref().map(|canary| canary.state)
    }
}

pub(crate) fn given(step: &GroupStep, host: &str) -> Option<ImageReference> {
    match &step.gives[host] {
        ImageAssignment::Image(image) => Some(image.clone()),
        ImageAssignment::Wait(why) => {
            assert!(!why.message.is_empty());
            None
        }
    }
}

fn why(step: &GroupStep, host: &str) -> String {
    match &step.gives[host] {
        ImageAssignment::Wait(why) => why.message.clone(),
        ImageAssignment::Image(image) => panic!("{image:?}"),
    }
}

pub(crate) fn failed(name: &str, at_second: i64) -> GroupHostStage {
    GroupHostStage::Failed { image: release(name), message: "no disk".into(), at: at(at_second), is_on_disk: false }
}

#[test]
fn a_new_image_goes_to_those_that_are_installed_next_and_to_no_other() {
    let mut world = World::new(None, &["a", "b", "c"]);
    world.stage("a", GroupHostStage::Running(release("1")));
    world.stage("b", GroupHostStage::Installing(release("1")));
    let step = world.golden("2");
    assert_eq!(step.gives.keys().collect::<Vec<_>>(), ["c"], "who is provisioned is not named");
    assert_eq!(given(&step, "c"), Some(release("2")));
    assert_eq!((world.current(), world.group.status.previous.clone()), (Some(release("2")), Some(release("1"))));
    assert_eq!(world.condition(PROGRESSING).1, "UpToDate");
    let counts = world.group.status.hosts;
    assert_eq!((counts.total, counts.running, counts.installing, counts.waiting), (3, 1, 2, 0));
}

#[test]
fn the_second_host_waits_until_the_first_is_running() {
    let mut world = World::new(Some(1), &["a", "b"]);
    let step = world.golden("2");
    assert_eq!(given(&step, "a"), Some(release("2")));
    assert!(why(&step, "b").contains("tried by a first"), "{}", why(&step, "b"));
    assert_eq!(world.current(), Some(release("1")));
    assert_eq!(world.condition(PROGRESSING).1, "Canary");
    assert_eq!(step.wake, Some(at(1000 + 7200)));
    for stage in [GroupHostStage::Installing(release("2")), GroupHostStage::Provisioned(release("2"))] {
        let step = world.stage("a", stage);
        assert!(given(&step, "b").is_none() && !step.gives.contains_key("a"));
    }
    let step = world.stage("a", GroupHostStage::Running(release("2")));
    assert_eq!((given(&step, "b"), step.wake), (Some(release("2")), None));
    assert_eq!((world.current(), world.canary_state()), (Some(release("2")), Some(CanaryState::Promoted)));
    let last = world.group.status.history.iter().rfind(|entry| entry.host.is_empty()).unwrap();
    assert_eq!((&last.image, last.by.as_str()), (&release("2"), POLICY));
}

#[test]
fn a_canary_that_fails_halts_the_rollout_and_the_others_get_the_old_image() {
    let mut world = World::new(Some(1), &["a", "b"]);
    world.golden("2");
    world.stage("a", GroupHostStage::Installing(release("2")));
    let step = world.stage("a", failed("2", 1002));
    assert_eq!(world.canary_state(), Some(CanaryState::Halted));
    let (status, _, message) = world.condition(CANARY_HALTED);
    assert_eq!(status, ConditionStatus::True);
    assert!(message.contains("a failed with it: no disk") && message.contains("attempt"), "{message}");
    assert_eq!((given(&step, "a"), given(&step, "b")), (Some(release("1")), Some(release("1"))));
    assert_eq!(world.current(), Some(release("1")));
    // Tried again by its owner's word; what failed before does not count.
    world.group.spec.rollout.attempt = 1;
    let step = world.step();
    assert_eq!((given(&step, "a"), given(&step, "b")), (Some(release("2")), None));
    assert_eq!(world.condition(CANARY_HALTED).0, ConditionStatus::False);
    // Another release begins its own trial.
    world.stage("a", failed("2", 2000));
    assert_eq!(world.canary_state(), Some(CanaryState::Halted));
    let step = world.golden("3");
    assert_eq!((given(&step, "a"), world.canary_state()), (Some(release("3")), Some(CanaryState::Trying)));
}

/// A group of two hosts whose trial of release 2 failed on the first one.
pub(crate) fn halted() -> World {
    let mut world = World::new(Some(1), &["a", "b"]);
    world.golden("2");
    world.stage("a", GroupHostStage::Installing(release("2")));
    world.stage("a", failed("2", 1002));
    world
}

/// While the stream's image is not to be had, the halt of that image stands, and the halt of another one does not.
#[test]
fn the_halt_of_the_image_that_is_waited_for_stands() {
    let mut world = halted();
    world.entries.retain(|entry| entry.image == release("1"));
    world.step();
    assert_eq!(world.condition(CANARY_HALTED).0, ConditionStatus::True);
    world.golden("3");
    assert_eq!(world.canary_state(), Some(CanaryState::Halted), "it is remembered");
    assert_eq!(world.condition(CANARY_HALTED).0, ConditionStatus::False);
}

/// A host that is switched off would be waited for until the deadline.
#[test]
fn who_cannot_be_installed_now_is_no_canary() {
    let mut world = World::new(Some(1), &["a", "b"]);
    world.host("a").not_ready = Some("it is off".into());
    let step = world.golden("2");
    assert_eq!((given(&step, "a"), given(&step, "b")), (None, Some(release("2"))));
    world.stage("b", GroupHostStage::Running(release("2")));
    let step = world.step();
    assert_eq!(given(&step, "a"), Some(release("2")), "it gets it when it comes");
}

/// Its disk is its owner's: another image would be an erasure that nobody asked for.
#[test]
fn an_os_that_failed_on_its_first_boot_halts_the_rollout_and_keeps_its_disk() {
    let mut world = World::new(Some(1), &["a", "b"]);
    world.golden("2");
    world.stage("a", GroupHostStage::Provisioned(release("2")));
    let failed =
        GroupHostStage::Failed { image: release("2"), message: "Ignition".into(), at: at(1002), is_on_disk: true };
    // Nobody looked while it was installed.
    world.group.status.history.retain(|entry| entry.host.is_empty());
    let step = world.stage("a", failed);
    assert!(world.group.status.history.iter().any(|entry| entry.host == "a" && entry.image == release("2")));
    assert_eq!(world.canary_state(), Some(CanaryState::Halted));
    assert!(!step.gives.contains_key("a"), "nothing is given to it");
    assert_eq!((given(&step, "b"), world.group.status.hosts.failed), (Some(release("1")), 1));
    // The next trial goes on with another host.
    world.group.spec.rollout.attempt = 1;
    let step = world.step();
    assert_eq!(given(&step, "b"), Some(release("2")));
    assert!(!step.gives.contains_key("a"));
}

#[test]
fn without_its_stub_nobody_gets_anything_and_no_canary_is_chosen() {
    let mut world = World::new(Some(1), &["a"]);
    world.stub_fault = Some("the Secret worker-user-data-managed is missing");
    let step = world.golden("2");
    assert!(why(&step, "a").contains("worker-user-data-managed"));
    assert!(world.group.status.canary.as_ref().is_some_and(|canary| canary.hosts.is_empty()));
    assert_eq!(world.condition(DEGRADED).1, "NoStub");
    world.stub_fault = None;
    assert_eq!(given(&world.step(), "a"), Some(release("2")));
}

/// Stubs are made where hosts are: before the first one nothing is wrong.
#[test]
fn a_group_without_hosts_misses_no_stub() {
    let mut world = World::new(None, &[]);
    world.stub_fault = Some("the Secret worker-user-data-managed is missing");
    world.golden("2");
    assert_eq!(world.condition(DEGRADED).1, "AsWanted");
}

#[test]
fn a_canary_that_is_late_halts_the_rollout() {
    let mut world = World::new(Some(1), &["a", "b"]);
    world.group.spec.rollout.deadline_seconds = Some(600);
    let step = world.golden("2");
    assert_eq!(step.wake, Some(at(1600)));
    assert_eq!(world.group.status.canary.as_ref().unwrap().since, at(1000));
    world.stage("a", GroupHostStage::Provisioned(release("2")));
    world.now = 1599;
    assert!(given(&world.step(), "b").is_none());
    world.now = 1600;
    assert_eq!(given(&world.step(), "b"), Some(release("1")));
    assert!(world.condition(CANARY_HALTED).2.contains("not running 10 minutes"));
    // An attempt that was asked for during the trial was this one.
    assert!(world.group.status.canary.as_ref().unwrap().attempt == 0);
    // It comes up after all: a person decides.
    world.stage("a", GroupHostStage::Running(release("2")));
    assert_eq!(world.canary_state(), Some(CanaryState::Halted));
    world.group.spec.rollout.attempt = 1;
    world.step();
    assert_eq!((world.canary_state(), world.current()), (Some(CanaryState::Promoted), Some(release("2"))));
}

#[test]
fn without_an_old_image_the_others_wait_on_after_a_halt() {
    let mut world = World::new(Some(1), &["a", "b"]);
    world.group.status = HostGroupStatus { golden: Some(release("1")), ..HostGroupStatus::default() };
    assert_eq!(given(&world.step(), "a"), Some(release("1")), "the first image of all is tried, too");
    let step = world.stage("a", failed("1", 1001));
    assert!(why(&step, "b").contains("was tried, and the host a failed"), "{}", why(&step, "b"));
}

#[test]
fn a_place_of_a_canary_that_is_gone_is_free() {
    let mut world = World::new(Some(2), &["a", "b", "c", "d"]);
    let step = world.golden("2");
    let tries = |step: &GroupStep| {
        ["a", "b", "c", "d"].map(|host| step.gives.contains_key(host) && given(step, host) == Some(release("2")))
    };
    assert_eq!(tries(&step), [true, true, false, false]);
    world.hosts.retain(|host| host.name != "a");
    assert_eq!(tries(&world.step()), [false, true, true, false]);
    let step = world
        .stage("b", GroupHostStage::Foreign(GroupWait::new(GroupWaitReason::OwnImage, "spec.image is somebody's own")));
    assert_eq!(tries(&step), [false, false, true, true]);
    // One that was running has shown what it was to show.
    world.stage("c", GroupHostStage::Running(release("2")));
    world.hosts.retain(|host| host.name != "c");
    let step = world.stage("d", GroupHostStage::Running(release("2")));
    assert_eq!((world.canary_state(), step.gives.len()), (Some(CanaryState::Promoted), 0));
}

#[test]
fn a_withdrawn_release_is_given_to_nobody_who_follows_the_stream() {
    let mut world = World::new(None, &["a"]);
    world.golden("2");
    world.entries[1].is_withdrawn = true;
    assert!(why(&world.step(), "a").contains("withdrawn"), "before the policy has chosen another");
    assert_eq!(given(&world.golden("1"), "a"), Some(release("1")));
    // Also where it is on trial; and the old one needs no trial.
    let mut world = World::new(Some(1), &["a", "b"]);
    world.golden("2");
    world.entries[1].is_withdrawn = true;
    let step = world.step();
    assert_eq!((world.canary_state(), given(&step, "a")), (None, Some(release("1"))), "what the group has is no other");
    assert_eq!(given(&world.golden("1"), "a"), Some(release("1")));
    // Who names it may have it.
    world.group.spec.image.track = ReleaseTrack::Pinned;
    world.group.spec.image.release = "2".into();
    world.group.spec.rollout.mode = RolloutMode::All;
    assert_eq!(given(&world.step(), "a"), Some(release("2")));
    assert_eq!(world.group.status.history.last().unwrap().by, "ann");
}

#[test]
fn restore_goes_back_and_stays_until_it_is_taken_away() {
    let mut world = World::new(Some(1), &["a", "b"]);
    world.golden("2");
    world.stage("a", GroupHostStage::Running(release("2")));
    let entry = world.group.status.history.iter().find(|entry| entry.image == release("1")).unwrap().entry;
    world.by = "bob";
    world.group.spec.restore = Some(Restore { entry });
    assert_eq!(given(&world.step(), "b"), Some(release("1")), "at once, for it was here before");
    assert_eq!(world.condition(PROGRESSING).1, "Restored");
    let last = world.group.status.history.last().unwrap();
    assert_eq!((&last.image, last.by.as_str(), last.host.as_str()), (&release("1"), "bob", ""));
    assert_eq!(given(&world.golden("3"), "b"), Some(release("1")), "whatever becomes golden");
    world.group.spec.restore = None;
    let step = world.golden("2");
    assert_eq!(given(&step, "b"), Some(release("2")), "what was promoted is not tried anew");
    world.group.spec.restore = Some(Restore { entry: 99 });
    assert!(why(&world.step(), "b").contains("no entry 99"));
    assert_eq!(world.condition(DEGRADED).1, "NoSuchImage");
    assert_eq!(world.current(), Some(release("2")), "nothing changes by a mistake");
    world.group.spec.restore = Some(Restore { entry });
    world.entries.retain(|known| known.image != release("1"));
    assert!(why(&world.step(), "b").contains("not in the store any more"));
}

/// Who took the group back, pinned it or let it be at another image has not said that the halted one is well.
#[test]
fn a_halt_outlasts_a_restore() {
    let mut world = halted();
    let entry = world.group.status.history[0].entry;
    world.group.spec.restore = Some(Restore { entry });
    assert_eq!(given(&world.step(), "b"), Some(release("1")));
    assert_eq!(world.condition(CANARY_HALTED).0, ConditionStatus::False, "nobody wants it meanwhile");
    world.group.spec.restore = None;
    assert_eq!(given(&world.step(), "b"), Some(release("1")));
    assert_eq!((world.canary_state(), world.condition(CANARY_HALTED).0), (Some(CanaryState::Halted), true.into()));
    world.group.spec.rollout.attempt = 1;
    world.step();
    assert_eq!(world.canary_state(), Some(CanaryState::Trying));
}

/// Hosts that were late once, or never say that they run, would fill the places of all canaries.
#[test]
fn hosts_that_are_silent_are_no_canaries_and_those_that_run_are() {
    let mut world = World::new(Some(2), &["a", "b", "c", "d", "e"]);
    for name in ["a", "b"] {
        world.host(name).stage = GroupHostStage::Provisioned(release("2"));
    }
    world.host("c").stage = GroupHostStage::Installing(release("2"));
    let step = world.golden("2");
    assert_eq!((given(&step, "d"), given(&step, "e")), (Some(release("2")), None), "one place is left");
    let canaries = |world: &World| -> Vec<String> {
        world.group.status.canary.iter().flat_map(|canary| &canary.hosts).map(|host| host.name.clone()).collect()
    };
    assert_eq!(canaries(&world), ["c", "d"]);
    world.stage("a", GroupHostStage::Running(release("2")));
    assert_eq!(canaries(&world), ["c", "d", "a"]);
    world.stage("c", GroupHostStage::Running(release("2")));
    assert_eq!(world.canary_state(), Some(CanaryState::Promoted));
    let by =
        |host: &str| world.group.status.history.iter().find(|entry| entry.host == host).map(|entry| entry.by.clone());
    assert_eq!(by("c").as_deref(), Some("boot image policy, as a canary"));
    world.host("e").stage = GroupHostStage::Running(release("3"));
    world.step();
    let entry = world.group.status.history.iter().find(|entry| entry.host == "e").unwrap();
    assert_eq!(entry.by, "found with it", "nobody here gave it");
}

#[test]
fn what_is_held_stands_still_and_hosts_get_what_the_group_has() {
    for canaries in [None, Some(1)] {
        let mut world = World::new(canaries, &["a", "b"]);
        world.held = Some("it has the label firesteel.dev/managed-boot-images=false");
        let step = world.golden("2");
        assert_eq!((given(&step, "a"), given(&step, "b")), (Some(release("1")), Some(release("1"))));
        assert_eq!((world.current(), world.canary_state()), (Some(release("1")), None));
        let (status, reason, message) = world.condition(PROGRESSING);
        assert_eq!((status, reason.as_str()), (ConditionStatus::False, "Held"));
        assert!(message.contains("managed-boot-images=false"), "{message}");
        // Who names an image himself has it.
        world.group.spec.image.track = ReleaseTrack::Pinned;
        world.group.spec.image.release = "3".into();
        assert_eq!(given(&world.step(), "a"), Some(release("3")));
    }
    // A trial that is under way goes no further, and nobody waits for it.
    let mut world = World::new(Some(1), &["a", "b"]);
    world.golden("2");
    world.held = Some("an upgrade is under way");
    let step = world.stage("a", GroupHostStage::Running(release("2")));
    assert_eq!((given(&step, "b"), world.canary_state()), (Some(release("1")), Some(CanaryState::Trying)));
    world.held = None;
    assert_eq!(given(&world.step(), "b"), Some(release("2")));
    // A canary that is not installed yet, or failed, gets what the group has.
    let mut world = World::new(Some(1), &["a", "b"]);
    world.golden("2");
    world.stage("a", GroupHostStage::Installing(release("2")));
    world.held = Some("it has the label firesteel.dev/managed-boot-images=false");
    for stage in [failed("2", 1002), GroupHostStage::ToInstall] {
        let step = world.stage("a", stage);
        assert_eq!((given(&step, "a"), given(&step, "b")), (Some(release("1")), Some(release("1"))));
    }
    assert_eq!(world.canary_state(), Some(CanaryState::Trying));
    // Of a group that has nothing yet, the reason is told.
    let mut world = World::new(None, &["a"]);
    world.group.status = HostGroupStatus { golden: Some(release("2")), ..HostGroupStatus::default() };
    world.held = Some("an upgrade is under way");
    assert!(why(&world.step(), "a").contains("upgrade"));
}

/// Nobody is late with what stood still; what came up, or failed, meanwhile counts.
#[test]
fn a_trial_goes_on_where_it_was_held() {
    let held = |name: &str, next: GroupHostStage| {
        let mut world = World::new(Some(2), &["a", "b"]);
        world.golden("2");
        for host in ["a", "b"] {
            world.stage(host, GroupHostStage::Installing(release("2")));
        }
        world.held = Some("an upgrade is under way");
        world.stage(name, next);
        world.now += 2 * 7200;
        world.step();
        world.held = None;
        world
    };
    let mut world = held("a", GroupHostStage::Running(release("2")));
    world.host("a").stage = GroupHostStage::ToInstall;
    let step = world.step();
    let canary = world.group.status.canary.clone().unwrap();
    let running: Vec<bool> = canary.hosts.iter().map(|host| host.running).collect();
    assert_eq!((canary.state, running), (CanaryState::Trying, vec![true, false]), "a has shown it");
    assert!(step.wake.is_some_and(|wake| wake > at(world.now)));
    world.now += 2 * 7200;
    world.step();
    assert_eq!(world.canary_state(), Some(CanaryState::Halted), "from now on b may be late");
    let mut world = held("a", failed("2", 1003));
    world.step();
    assert_eq!(world.canary_state(), Some(CanaryState::Halted));
}

/// The halt of an image that nobody wants is no reason for what becomes of another one.
#[test]
fn a_pin_that_is_wrong_is_told_and_not_an_older_halt() {
    let mut world = halted();
    assert!(world.condition(CANARY_HALTED).0 == true.into());
    world.group.spec.image.track = ReleaseTrack::Pinned;
    world.group.spec.image.release = "7".into();
    let step = world.step();
    assert!(why(&step, "b").contains("no verified disk image 7"), "{}", why(&step, "b"));
    assert_eq!(world.condition(CANARY_HALTED).0, ConditionStatus::False);
}

#[test]
fn a_host_that_something_else_sets_back_is_named_and_is_no_canary() {
    let mut world = World::new(Some(1), &["a", "b"]);
    world.host("a").is_fought = true;
    let step = world.golden("2");
    assert_eq!(given(&step, "b"), Some(release("2")));
    let (status, reason, message) = world.condition(DEGRADED);
    assert_eq!((status, reason.as_str()), (ConditionStatus::True, "Fought"));
    assert!(message.contains("to a:"), "{message}");
    assert_eq!(world.group.status.hosts.waiting, 1);
}

/// Who is left out in silence is looked for by hand.
#[test]
fn each_host_that_gets_nothing_is_named_with_its_reason() {
    let mut world = World::new(Some(1), &["a", "arm", "big", "contested", "fought", "off", "theirs", "z"]);
    let told = |world: &World| -> Vec<(String, String, String)> {
        let all = world.group.status.skipped_hosts.iter();
        all.map(|host| (host.name.clone(), host.reason.clone(), host.message.clone())).collect()
    };
    assert!(told(&world).is_empty(), "all get release 1");
    world.host("arm").architecture = Some(Aarch64);
    world.host("big").sector_bytes = Some(4096);
    world.host("fought").is_fought = true;
    world.host("off").not_ready = Some("its spec.online is false".into());
    world.host("theirs").stage =
        GroupHostStage::Foreign(GroupWait::new(GroupWaitReason::NotToInstall, "it belongs to Metal3Machine m"));
    world.contested.insert("contested".into(), vec!["others".into()]);
    let wait = [
        ("arm", "OtherArchitecture", "it is aarch64"),
        ("big", "NoImageForSectors", "sectors of 4096 bytes"),
        ("contested", "Contested", "others"),
    ];
    let off = ("off", "NotReady", "spec.online is false");
    let theirs = ("theirs", "NotToInstall", "belongs to Metal3Machine m");
    let check = |world: &World, wanted: &[(&str, &str, &str)]| {
        let told = told(world);
        assert_eq!(told.len(), wanted.len(), "{told:?}");
        for (found, (name, reason, text)) in told.iter().zip(wanted) {
            assert_eq!((found.0.as_str(), found.1.as_str()), (*name, *reason));
            assert!(found.2.contains(text), "{found:?}");
        }
    };
    world.step();
    let fought = ("fought", "Fought", "find and stop the other writer");
    check(&world, &[&wait[..], &[fought, off, theirs]].concat());
    let counts = world.group.status.hosts;
    assert_eq!((counts.total, counts.waiting, counts.foreign, counts.installing), (8, 5, 1, 2));
    // While others try it first, who is kept from it by more than that is told so; the others come last.
    world.golden("2");
    let canary = "2 of stable is tried by a first";
    check(
        &world,
        &[&wait[..], &[off, theirs, ("fought", "CanaryFirst", canary), ("z", "CanaryFirst", canary)]].concat(),
    );
    // Nobody is ready to be a canary: each says why.
    world.hosts.retain(|host| host.name == "off");
    world.group.status.canary = None;
    world.step();
    check(&world, &[("off", "NotReady", "its spec.online is false; 2 of stable is tried by canaries first")]);
    world.host("off").not_ready = None;
    world.step();
    check(&world, &[]);
}

#[test]
fn of_thousands_of_hosts_those_are_named_that_need_somebody() {
    let names: Vec<String> = (0..2000).map(|number| format!("h{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(Some(1), &names);
    let url = format!("http://theirs/{}", "x".repeat(5000));
    world.host("h1999").stage = GroupHostStage::Foreign(GroupWait::new(GroupWaitReason::OwnImage, url));
    world.golden("2");
    let told = &world.group.status.skipped_hosts;
    assert_eq!((told.len(), told[0].name.as_str()), (SKIPPED_HOSTS_MAX, "h1999"));
    assert_eq!(told[0].message.chars().count(), SKIPPED_CHARS_MAX);
    assert_eq!((told[1].name.as_str(), told[1].reason.as_str()), ("h0001", "CanaryFirst"));
}

/// The stream forgets releases; disks with sectors of another size keep theirs.
#[test]
fn the_forms_of_images_are_remembered_as_long_as_the_images() {
    let mut world = World::new(Some(1), &["a"]);
    let form = CatalogueImage {
        sector_bytes: 4096,
        image: ImageReference { digest: "2-4K".into(), ..release("2") },
        ..entry("stable", "2", X86_64)
    };
    world.entries.push(form);
    assert!(world.group.status.other_forms.is_empty());
    world.golden("2");
    let forms = BTreeMap::from([("2-4k".to_owned(), release("2").digest)]);
    assert_eq!(world.group.status.other_forms, forms, "of the canary's image");
    world.stage("a", GroupHostStage::Running(release("2")));
    world.entries.retain(|known| known.image.release != "2");
    world.golden("3");
    assert_eq!(world.group.status.other_forms, forms, "history names it");
    world.group.status.history.retain(|entry| entry.image.release != "2");
    (world.group.status.previous, world.group.status.current) = (None, Some(release("1")));
    world.hosts.clear();
    world.step();
    assert!(world.group.status.other_forms.is_empty());
}

#[test]
fn a_group_may_have_an_image_of_its_own() {
    let mut world = World::new(None, &["a"]);
    let spec = &mut world.group.spec.image;
    (spec.stream, spec.url, spec.checksum) = (String::new(), "http://own/a.raw".into(), "d".into());
    let own = ImageReference { url: "http://own/a.raw".into(), digest: "d".into(), ..ImageReference::default() };
    assert_eq!(given(&world.step(), "a"), Some(own));
    assert_eq!(world.group.status.history.last().unwrap().by, "ann");
}

#[test]
fn a_group_waits_for_its_streams_image_and_a_host_for_its_architecture() {
    let mut world = World::new(None, &["a", "b"]);
    world.host("b").architecture = Some(Aarch64);
    assert!(why(&world.step(), "b").contains("it is aarch64"));
    world.group.spec.image.stream = "next".into();
    let step = world.step();
    assert!(why(&step, "a").contains("the stream next"), "the golden image is of another stream: {}", why(&step, "a"));
    assert_eq!(world.condition(PROGRESSING).1, "WaitingForImage");
    world.group.spec.image.stream = "stable".into();
    world.entries.clear();
    assert!(why(&world.step(), "a").contains("not in the store"));
    assert_eq!(world.condition(DEGRADED).1, "ImageGone");
}

#[test]
fn a_host_waits_for_an_image_that_suits_the_sectors_of_its_disk() {
    let mut world = World::new(None, &["a", "b", "c"]);
    world.host("a").sector_bytes = Some(4096);
    world.host("b").sector_bytes = Some(512);
    world.host("c").sector_bytes = Some(520);
    let step = world.step();
    assert!(why(&step, "a").contains("4096"), "{}", why(&step, "a"));
    assert_eq!((given(&step, "b"), given(&step, "c")), (Some(release("1")), Some(release("1"))));
    let form = CatalogueImage {
        sector_bytes: 4096,
        image: ImageReference { digest: "1-4k".into(), ..release("1") },
        ..entry("stable", "1", X86_64)
    };
    world.entries.push(CatalogueImage { is_verified: false, ..form.clone() });
    assert!(why(&world.step(), "a").contains("4096"), "it is not here yet");
    world.entries.pop();
    world.entries.push(form);
    assert_eq!(given(&world.step(), "a"), Some(release("1")), "who writes it takes the form that fits");
}

#[test]
fn groups_that_select_the_same_hosts_name_each_other_and_give_them_nothing() {
    let selector = |labels: serde_json::Value| Selector::read(&json!({ "matchLabels": labels })).unwrap();
    let (one, two, three) =
        (selector(json!({"role": "worker"})), selector(json!({"rack": "1"})), selector(json!({"role": "infra"})));
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let (both, only) = (labels(&[("role", "worker"), ("rack", "1")]), labels(&[("role", "worker")]));
    let hosts = [GroupMember { name: "a", labels: &both }, GroupMember { name: "b", labels: &only }];
    let mut found = contested(&[("workers", &one), ("rack1", &two), ("infra", &three)], &hosts);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["rack1", "workers"]);
    assert_eq!(found["rack1"], Contested::from([("a".to_owned(), vec!["workers".to_owned()])]));
    let mut world = World::new(Some(1), &["a", "b"]);
    world.contested = found.remove("workers").unwrap();
    let step = world.golden("2");
    assert!(why(&step, "a").contains("rack1"));
    assert_eq!(given(&step, "b"), Some(release("2")), "a host that is contested is no canary");
    let (status, reason, message) = world.condition(DEGRADED);
    assert_eq!((status, reason.as_str()), (ConditionStatus::True, "Conflict"));
    assert!(message.contains("a (also of rack1)"), "{message}");
}

#[test]
fn history_tells_of_group_and_hosts_and_is_bounded() {
    let mut world = World::new(None, &["a"]);
    world.stage("a", GroupHostStage::Running(release("1")));
    let entries: Vec<_> =
        world.group.status.history.iter().map(|entry| (entry.host.as_str(), entry.by.as_str(), entry.entry)).collect();
    assert_eq!(entries, [("", POLICY, 1), ("a", POLICY, 2)]);
    // More hosts than there is room for, and images for years.
    world.hosts = (0..600).map(|number| to_install(format!("h{number}"), None)).collect();
    for round in 0..50 {
        let name = ["1", "2", "3"][round % 3];
        for host in &mut world.hosts {
            host.stage = GroupHostStage::Running(release(name));
        }
        world.now += 1;
        world.golden(name);
    }
    let history = world.group.status.history.clone();
    let (hosts, group): (Vec<_>, Vec<_>) = history.iter().partition(|entry| !entry.host.is_empty());
    assert!(hosts.len() <= HOST_HISTORY_MAX && group.len() <= HISTORY_MAX);
    let newest = hosts.iter().filter(|entry| entry.image == release("2")).map(|entry| &entry.host);
    assert!(
        newest.collect::<BTreeSet<_>>().len() >= HOST_HISTORY_MAX - 1,
        "each has its newest, as far as there is room"
    );
    let numbers: BTreeSet<u32> = world.group.status.history.iter().map(|entry| entry.entry).collect();
    assert_eq!(numbers.len(), world.group.status.history.len(), "no number twice");
    // To go back to the oldest drops another one.
    assert_eq!(group.len(), HISTORY_MAX);
    let oldest = group[0].clone();
    world.group.spec.restore = Some(Restore { entry: oldest.entry });
    world.step();
    assert_eq!(world.current(), Some(oldest.image.clone()));
    assert!(world.group.status.history.contains(&oldest));
}

/// One edit of a group and its hosts.
#[derive(Clone, Debug)]
enum Edit {
    Golden(usize),
    /// A host goes on: what it was given is installed, comes up, or fails.
    Go(usize),
    Fail(usize),
    Reinstall(usize),
    Leave(usize),
    Join(usize),
    Canaries(Option<u32>),
    Attempt,
    Restore(bool),
    Withdraw(usize),
    Contest(usize, bool),
    Hold(bool),
    Time(i64),
}

const HOSTS: usize = 6;

fn edit() -> impl Strategy<Value = Edit> {
    let host = || 0..HOSTS;
    prop_oneof![
        2 => (0_usize..3).prop_map(Edit::Golden),
        6 => host().prop_map(Edit::Go),
        1 => host().prop_map(Edit::Fail),
        1 => host().prop_map(Edit::Reinstall),
        1 => host().prop_map(Edit::Leave),
        1 => host().prop_map(Edit::Join),
        1 => prop::option::of(1_u32..4).prop_map(Edit::Canaries),
        1 => Just(Edit::Attempt),
        1 => any::<bool>().prop_map(Edit::Restore),
        1 => (0_usize..3).prop_map(Edit::Withdraw),
        1 => (host(), any::<bool>()).prop_map(|(host, is)| Edit::Contest(host, is)),
        1 => any::<bool>().prop_map(Edit::Hold),
        1 => (1_i64..4000).prop_map(Edit::Time),
    ]
}

struct Model {
    world: World,
    away: Vec<GroupHostInputs>,
    gives: BTreeMap<String, ImageAssignment>,
    /// The trial that halted last.
    halted: Option<Canary>,
}

impl Model {
    fn new() -> Self {
        let mut world = World::new(Some(1), &["a", "b", "c", "d", "e", "f"]);
        let gives = world.step().gives;
        Self { world, away: Vec::new(), gives, halted: None }
    }

    fn apply(&mut self, edit: &Edit) {
        let world = &mut self.world;
        world.now += 1;
        let now = at(world.now);
        let name = |host: usize| ["a", "b", "c", "d", "e", "f"][host];
        let mut on_host =
            |host: usize, next: &dyn Fn(&GroupHostStage, Option<&ImageReference>) -> Option<GroupHostStage>| {
                let given = match self.gives.get(name(host)) {
                    Some(ImageAssignment::Image(image)) => Some(image),
                    _ => None,
                };
                if let Some(host) = world.hosts.iter_mut().find(|known| known.name == name(host))
                    && let Some(stage) = next(&host.stage, given)
                {
                    host.stage = stage;
                }
            };
        match edit {
            Edit::Golden(which) => world.group.status.golden = Some(world.entries[*which].image.clone()),
            Edit::Go(host) => on_host(*host, &|stage, given| match stage {
                GroupHostStage::ToInstall | GroupHostStage::Failed { .. } => {
                    given.cloned().map(GroupHostStage::Installing)
                }
                GroupHostStage::Installing(image) => Some(GroupHostStage::Provisioned(image.clone())),
                GroupHostStage::Provisioned(image) => Some(GroupHostStage::Running(image.clone())),
                GroupHostStage::Running(_) | GroupHostStage::Foreign(_) => None,
            }),
            Edit::Fail(host) => on_host(*host, &|stage, _| match stage {
                GroupHostStage::Installing(image) => Some(GroupHostStage::Failed {
                    image: image.clone(),
                    message: "no".into(),
                    at: now,
                    is_on_disk: false,
                }),
                _ => None,
            }),
            Edit::Reinstall(host) => on_host(*host, &|stage, _| {
                matches!(stage, GroupHostStage::Running(_) | GroupHostStage::Provisioned(_))
                    .then_some(GroupHostStage::ToInstall)
            }),
            Edit::Leave(host) => {
                if let Some(index) = world.hosts.iter().position(|known| known.name == name(*host)) {
                    self.away.push(world.hosts.remove(index));
                }
            }
            Edit::Join(host) => {
                if let Some(index) = self.away.iter().position(|known| known.name == name(*host)) {
                    world.hosts.push(self.away.remove(index));
                }
            }
            Edit::Canaries(canaries) => {
                let rollout = &mut world.group.spec.rollout;
                rollout.mode = if canaries.is_some() { RolloutMode::Canary } else { RolloutMode::All };
                rollout.canaries = *canaries;
            }
            Edit::Attempt => world.group.spec.rollout.attempt += 1,
            Edit::Restore(true) => {
                let entry = world.group.status.history.iter().find(|entry| entry.host.is_empty()).unwrap().entry;
                world.group.spec.restore = Some(Restore { entry });
            }
            Edit::Restore(false) => world.group.spec.restore = None,
            Edit::Withdraw(which) => world.entries[*which].is_withdrawn = !world.entries[*which].is_withdrawn,
            Edit::Contest(host, true) => {
                drop(world.contested.insert(name(*host).to_owned(), vec!["other".to_owned()]));
            }
            Edit::Contest(host, false) => drop(world.contested.remove(name(*host))),
            Edit::Hold(is_held) => world.held = is_held.then_some("an upgrade is under way"),
            Edit::Time(seconds) => world.now += seconds,
        }
    }

    fn look(&mut self) {
        let before = self.world.current();
        let promoted_before = |image: &ImageReference, status: &HostGroupStatus| {
            status.history.iter().any(|entry| entry.host.is_empty() && entry.image == *image)
        };
        let had: Vec<ImageReference> = self.world.entries.iter().map(|entry| entry.image.clone()).collect();
        let was_promoted: Vec<bool> =
            had.iter().map(|image| promoted_before(image, &self.world.group.status)).collect();
        let listed = self.world.group.status.canary.as_ref().map(|canary| {
            let names: Vec<String> = canary.hosts.iter().map(|host| host.name.clone()).collect();
            (canary.image.clone(), names)
        });
        let step = self.world.step();
        let world = &self.world;
        let canary = step.status.canary.as_ref();
        if let (Some(halted), Some(now)) = (&self.halted, canary) {
            let is_same = now.image == halted.image && now.attempt == halted.attempt;
            assert!(!is_same || now.state != CanaryState::Trying, "a halt is not forgotten");
        }
        match canary {
            Some(canary) if canary.state == CanaryState::Halted => self.halted = Some(canary.clone()),
            // Another trial takes its place.
            Some(_) => self.halted = None,
            // The group came to the image all the same: nobody has it tried first any more.
            None => drop(self.halted.take_if(|halted| Some(&halted.image) == world.current().as_ref())),
        }
        let is_restored = world.group.spec.restore.is_some();
        assert!(world.held.is_none() || is_restored || world.current() == before, "what is held stands still");
        let rollout = &world.group.spec.rollout;
        for host in &world.hosts {
            assert_eq!(step.gives.contains_key(&host.name), host.stage.is_open(), "who is provisioned is never named");
            match step.gives.get(&host.name) {
                Some(ImageAssignment::Wait(why)) => assert!(!why.message.is_empty()),
                Some(ImageAssignment::Image(given)) => {
                    assert!(!world.contested.contains_key(&host.name), "nothing for who is contested");
                    let entry = world.entries.iter().find(|entry| entry.image == *given).unwrap();
                    assert!(
                        !entry.is_withdrawn || world.group.spec.restore.is_some(),
                        "what is withdrawn goes to nobody"
                    );
                }
                None => {}
            }
        }
        // No more hosts are given an image that the group is not at than there are canaries; those that brought it along
        // count.
        let trial = step.status.canary.as_ref().filter(|canary| canary.state == CanaryState::Trying);
        if let Some(canary) = trial {
            let tried =
                |name: &String| listed.as_ref().is_some_and(|old| old.0 == canary.image && old.1.contains(name));
            let is_open = |name: &String| step.gives.contains_key(name);
            let chosen = canary.hosts.iter().map(|host| &host.name).any(|name| is_open(name) && !tried(name));
            assert!(!chosen || canary.hosts.len() <= rollout.canaries(), "{canary:?}");
            for (name, give) in &step.gives {
                let gets = *give == ImageAssignment::Image(canary.image.clone());
                assert!(!gets || canary.hosts.iter().any(|host| host.name == *name), "{name} is no canary");
            }
        }
        // A restored group stays.
        if let Some(restore) = &world.group.spec.restore
            && let Some(entry) = world.group.status.history.iter().find(|entry| entry.entry == restore.entry)
        {
            assert_eq!(world.current().as_ref(), Some(&entry.image));
        }
        // A new image is not promoted in mode canary before so many have run it.
        let current = world.current();
        if current != before && rollout.mode == RolloutMode::Canary && world.group.spec.restore.is_none() {
            let known = had.iter().position(|image| Some(image) == current.as_ref());
            let ran =
                step.status.canary.as_ref().map_or(0, |canary| canary.hosts.iter().filter(|host| host.running).count());
            assert!(known.is_some_and(|index| was_promoted[index]) || ran >= rollout.canaries(), "{ran}");
        }
        assert!(step.wake.is_none_or(|wake| wake > at(world.now)), "never a busy loop");
        self.gives = step.gives;
    }
}

proptest! {
    #[test]
    fn some_things_never_happen_to_groups(edits in prop::collection::vec(edit(), 1..120)) {
        let mut model = Model::new();
        for edit in &edits {
            model.apply(edit);
            model.look();
        }
    }
}
