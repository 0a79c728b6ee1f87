//! The trial of an image by a few hosts: who counts as a canary, what a halt outlasts, and what people read of it.

use firesteel_facts::Architecture::X86_64;
use firesteel_plan::group::{GroupHostStage, POLICY};
use firesteel_resources::condition::ConditionStatus;
use firesteel_resources::host_group::{
    CANARY_HALTED, CanaryState, DEGRADED, HOST_HISTORY_MAX, PROGRESSING, Restore, RolloutMode,
};

use crate::policy::at;
use crate::rollout::{World, failed, given, halted, release, to_install};

fn canaries(world: &World) -> Vec<(&str, bool)> {
    let hosts = world.group.status.canary.iter().flat_map(|canary| &canary.hosts);
    hosts.map(|host| (host.name.as_str(), host.running)).collect()
}

/// A host that got another image from another writer shows nothing of the one that is tried.
#[test]
fn a_canary_with_another_image_leaves_its_place() {
    let on_disk = |is_on_disk| GroupHostStage::Failed {
        image: release("3"),
        message: "no disk".into(),
        at: at(2000),
        is_on_disk,
    };
    for (stage, canary) in [
        (GroupHostStage::Running(release("3")), "b"),
        (GroupHostStage::Installing(release("3")), "b"),
        (GroupHostStage::Provisioned(release("3")), "b"),
        (on_disk(true), "b"),
        (on_disk(false), "a"),
        (GroupHostStage::Installing(release("2")), "a"),
        (GroupHostStage::Provisioned(release("2")), "a"),
    ] {
        let mut world = World::new(Some(1), &["a", "b"]);
        world.golden("2");
        let step = world.stage("a", stage.clone());
        assert_eq!((canaries(&world), world.canary_state()), (vec![(canary, false)], Some(CanaryState::Trying)));
        assert_eq!(given(&step, "b").is_some(), canary == "b", "{stage:?}");
    }
}

#[test]
fn a_trial_that_halted_wakes_no_one_and_shows_nothing_more() {
    let mut world = World::new(Some(1), &["a", "b"]);
    world.golden("2");
    let step = world.stage("a", failed("2", 1002));
    assert_eq!((world.canary_state(), step.wake), (Some(CanaryState::Halted), None));
    // It comes up while the group is held: the trial is over all the same.
    world.held = Some("an upgrade is under way");
    world.stage("a", GroupHostStage::Running(release("2")));
    assert_eq!((world.canary_state(), canaries(&world)), (Some(CanaryState::Halted), vec![("a", false)]));
}

#[test]
fn a_halt_outlasts_another_image_and_ends_with_its_own() {
    let mut world = halted();
    world.group.spec.rollout.mode = RolloutMode::All;
    assert_eq!(given(&world.golden("3"), "b"), Some(release("3")));
    assert_eq!(world.canary_state(), Some(CanaryState::Halted), "it is remembered");
    world.group.spec.rollout.mode = RolloutMode::Canary;
    assert_eq!(given(&world.golden("2"), "b"), Some(release("3")));
    assert_eq!((world.canary_state(), world.condition(CANARY_HALTED).0), (Some(CanaryState::Halted), true.into()));
    // The group comes to the image without a trial.
    world.group.spec.rollout.mode = RolloutMode::All;
    assert_eq!(given(&world.step(), "b"), Some(release("2")));
    assert_eq!((world.canary_state(), world.condition(CANARY_HALTED).0), (None, false.into()));
}

#[test]
fn progress_is_shown_after_each_end_of_a_trial() {
    let shows = |world: &World, reason: &str, message: &str| {
        let wanted = (ConditionStatus::False, reason.to_owned(), message.to_owned());
        assert_eq!(world.condition(PROGRESSING), wanted);
    };
    shows(&halted(), "Halted", "see the condition CanaryHalted");
    let mut world = World::new(Some(1), &["a", "b"]);
    world.golden("2");
    world.stage("a", GroupHostStage::Running(release("2")));
    assert_eq!(world.canary_state(), Some(CanaryState::Promoted));
    shows(&world, "UpToDate", "hosts that are installed get 2 of stable");
}

/// Twenty hosts are named, and the others are counted.
#[test]
fn a_message_names_twenty_hosts_and_counts_the_others() {
    for (count, more) in [(1, ""), (20, ""), (21, " and 1 more"), (23, " and 3 more")] {
        let names: Vec<String> = (0..count).map(|number| format!("h{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let list =
            |form: fn(&str) -> String| names.iter().take(20).map(|name| form(name)).collect::<Vec<_>>().join(", ");
        let mut world = World::new(None, &names);
        for name in &names {
            world.host(name).is_fought = true;
        }
        world.step();
        let (_, reason, message) = world.condition(DEGRADED);
        let wanted = format!(
            "something else sets back what the group writes to {}{more}: find and stop the other writer, then change the \
             group's spec",
            list(str::to_owned)
        );
        assert_eq!((reason.as_str(), message), ("Fought", wanted));
        for name in &names {
            world.contested.insert((*name).to_owned(), vec!["one".to_owned(), "two".to_owned()]);
        }
        world.step();
        let (_, reason, message) = world.condition(DEGRADED);
        let wanted = format!(
            "other groups select hosts of this one, which get nothing from either: {}{more}; change a selector or labels",
            list(|name| format!("{name} (also of one, two)"))
        );
        assert_eq!((reason.as_str(), message), ("Conflict", wanted));
    }
}

#[test]
fn a_host_that_is_not_ready_is_shown_with_what_keeps_it_from_the_image_first() {
    let mut world = World::new(Some(1), &["a", "broken", "contested", "off"]);
    for name in ["broken", "contested", "off"] {
        world.host(name).not_ready = Some("its spec.online is false".into());
    }
    world.host("broken").stage = failed("1", 900);
    world.contested.insert("contested".into(), vec!["others".into()]);
    world.golden("2");
    let shown = |world: &World| -> Vec<(String, String, String)> {
        let all = world.group.status.skipped_hosts.iter();
        all.map(|host| (host.name.clone(), host.reason.clone(), host.message.clone())).collect()
    };
    let row = |name: &str, reason: &str, message: &str| (name.to_owned(), reason.to_owned(), message.to_owned());
    let contested = row(
        "contested",
        "Contested",
        "the selectors of workers and of others both select it: change one of them or the host's labels",
    );
    let trial = "2 of stable is tried by a first: it waits until that is running";
    let off = row("off", "NotReady", &format!("its spec.online is false; {trial}"));
    assert_eq!(shown(&world), [contested.clone(), off, row("broken", "CanaryFirst", trial)]);
    // What failed is cleaned before it is installed again: it is counted as failed, and gets the image.
    let step = world.stage("a", GroupHostStage::Running(release("2")));
    assert_eq!(shown(&world), [contested, row("off", "NotReady", "its spec.online is false")]);
    assert_eq!((given(&step, "broken"), world.group.status.hosts.failed), (Some(release("2")), 1));
}

/// An image that the group never came to was given by another one, unless a trial of just this image is wanted.
#[test]
fn history_says_who_brought_an_image() {
    let found = |mut world: World| {
        world.stage("b", GroupHostStage::Provisioned(release("2")));
        let entries = world.group.status.history.iter().filter(|entry| entry.host == "b");
        entries.map(|entry| entry.by.clone()).collect::<Vec<_>>()
    };
    let trial = |held: Option<&'static str>| {
        let mut world = World::new(Some(2), &["a", "b"]);
        world.held = held;
        world.golden("2");
        world
    };
    assert_eq!(found(trial(None)), ["boot image policy, as a canary"]);
    assert_eq!(found(trial(Some("an upgrade is under way"))), ["found with it"], "no trial began");
    let mut other = halted();
    other.group.spec.rollout.mode = RolloutMode::All;
    other.golden("3");
    assert_eq!(found(other), ["found with it"], "its trial is remembered, and not wanted");
    let mut promoted = World::new(None, &["a", "b"]);
    promoted.golden("2");
    assert_eq!(found(promoted), [POLICY]);
}

#[test]
fn entries_of_hosts_that_are_gone_make_room_first() {
    let mut world = World::new(None, &[]);
    let running = |letter: char| {
        let host = |number| to_install(format!("{letter}{number:03}"), Some(X86_64));
        let mut hosts: Vec<_> = (0..400).map(host).collect();
        hosts.iter_mut().for_each(|host| host.stage = GroupHostStage::Running(release("1")));
        hosts
    };
    for letter in ['a', 'b'] {
        world.hosts = running(letter);
        world.step();
    }
    let of = |letter: char| world.group.status.history.iter().filter(|entry| entry.host.starts_with(letter)).count();
    assert_eq!((of('a'), of('b')), (HOST_HISTORY_MAX - 400, 400));
}

/// The entry that a group is restored to takes a place beside the newest ones of all hosts.
#[test]
fn a_group_is_restored_to_the_entry_of_a_host_though_history_is_full() {
    let mut world = World::new(None, &[]);
    world.hosts = (0..600).map(|number| to_install(format!("h{number:03}"), Some(X86_64))).collect();
    let run = |world: &mut World, name: &str| {
        world.hosts.iter_mut().for_each(|host| host.stage = GroupHostStage::Running(release(name)));
        world.step();
    };
    run(&mut world, "1");
    let oldest = world.group.status.history.iter().find(|entry| !entry.host.is_empty()).unwrap().clone();
    world.group.spec.restore = Some(Restore { entry: oldest.entry });
    run(&mut world, "2");
    let of_hosts: Vec<_> = world.group.status.history.iter().filter(|entry| !entry.host.is_empty()).collect();
    assert_eq!((of_hosts.len(), of_hosts[0]), (HOST_HISTORY_MAX, &oldest));
    assert!(of_hosts[1..].iter().all(|entry| entry.image == release("2")), "the newest of each");
}
