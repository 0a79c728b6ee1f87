//! Groups of hosts and their boot images, from a stream to running systems: the appliance's own controllers, on the
//! world's clock.

use std::time::Duration;

use firesteel_resources::bare_metal_host::ProvisioningState as S;
use firesteel_resources::condition::{ConditionStatus, find_condition};
use firesteel_resources::host_group::{CANARY_HALTED, CanaryState, DEGRADED, HostGroupStatus, PROGRESSING, Restore};
use firesteel_resources::secret::SecretBytes;
use firesteel_resources::{BareMetalHost, BootImageStream, HostGroup, Secret};
use serde_json::{Value, json};

use crate::counts::Counts;
use crate::executor::lock;
use crate::objects::{digest, location, reference, release, release_at, world};
use crate::owner::{Birth, NAMESPACE, WRONG_IMAGE};
use crate::world::{Setup, World};

/// More than an installation with all its waits takes.
const PATIENCE: Duration = Duration::from_secs(3600);

impl World {
    fn group_with(&mut self, name: &str, spec: Value) {
        let metadata = json!({"name": name, "namespace": NAMESPACE});
        self.put("firesteel.dev", "HostGroup", json!({"metadata": metadata, "spec": spec}));
    }

    fn group(&mut self, rollout: Value) {
        self.group_with("workers", spec(rollout));
    }

    /// A host of the group, without an image of its own.
    fn member(&mut self, id: usize) {
        self.create(id, Birth::WithBmc);
        self.settle_tasks();
        let change = |host: &mut BareMetalHost| {
            host.spec.image = None;
            host.metadata.labels.insert("role".to_owned(), "worker".to_owned());
        };
        self.edit(&format!("host-{id}"), Box::new(change), false);
        self.settle_tasks();
    }

    fn group_object(&self, name: &str) -> HostGroup {
        self.stored("firesteel.dev", "hostgroups", NAMESPACE, name).unwrap_or_default()
    }

    fn status(&self) -> HostGroupStatus {
        self.group_object("workers").status
    }

    fn says_of_group(&self, name: &str, type_: &str) -> (ConditionStatus, String, String) {
        let status = self.group_object(name).status;
        let found = find_condition(&status.conditions, type_).cloned().unwrap_or_default();
        (found.status, found.reason, found.message)
    }

    fn current(&self) -> String {
        self.status().current.map(|image| image.release).unwrap_or_default()
    }

    /// The place of the image that a host's spec names.
    fn wants(&self, name: &str) -> String {
        let image = self.host_object(name).and_then(|host| host.spec.image);
        image.map(|image| image.url).unwrap_or_default()
    }

    fn runs(&self, name: &str) -> bool {
        let laws = lock(&self.laws);
        let Some(host) = laws.hosts.get(name) else { return false };
        let Some(applied) = &host.memory.applied else { return false };
        let instance = host.instance.as_ref();
        host.state() == S::Provisioned
            && instance.is_some_and(|one| one.attempt == applied.attempt && one.running_at.is_some())
    }

    pub(crate) fn wait_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = self.now() + PATIENCE;
        while !holds(self) {
            if self.now() >= end {
                let group = serde_json::to_string_pretty(&self.status()).unwrap_or_default();
                panic!("{what} did not happen\n{group}\n{}\n{}", self.policy_text(), self.story());
            }
            if let Err(violation) = self.run_for(Duration::from_secs(1)) {
                panic!("{violation}\n{}", self.story());
            }
        }
    }

    fn restore_group(&mut self, entry: Option<u32>) {
        let restore = entry.map(|entry| Restore { entry });
        self.alter("firesteel.dev", "HostGroup", json!({"name": "workers", "namespace": NAMESPACE}), move |group| {
            group["spec"]["restore"] = json!(restore);
            if restore.is_none() {
                group["spec"].as_object_mut().unwrap().remove("restore");
            }
        });
    }

    fn writes(&self) -> u64 {
        lock(&self.laws).counts.others.get("write").copied().unwrap_or(0)
    }
}

fn spec(rollout: Value) -> Value {
    json!({"selector": {"matchLabels": {"role": "worker"}}, "image": {"stream": "stable"}, "architecture": "x86_64",
           "rollout": rollout})
}

/// A group at release 1, with one host that runs it.
fn settled(machines: usize, rollout: Value) -> World {
    let mut world = world(machines);
    world.stream(vec![release("1")]);
    world.group(json!({"mode": "all"}));
    world.member(0);
    world.wait_until("the first host runs", |world| world.runs("host-0"));
    world.group(rollout);
    world
}

#[test]
fn hosts_get_the_groups_image_also_those_that_come_later_and_none_that_is_installed_is_touched() {
    let mut world = settled(2, json!({"mode": "all"}));
    assert_eq!((world.current().as_str(), world.wants("host-0")), ("1", location("1")));
    let before = world.host_object("host-0").unwrap();
    world.stream(vec![release("2"), release("1")]);
    world.wait_until("the group is at the new release", |world| world.current() == "2");
    world.pass_time(120);
    let after = world.host_object("host-0").unwrap();
    assert_eq!((after.metadata.generation, &after.spec), (before.metadata.generation, &before.spec), "untouched");
    assert!(world.runs("host-0") && world.writes() == 1);

    world.member(1);
    world.wait_until("the later host runs", |world| world.runs("host-1"));
    assert_eq!((world.wants("host-1"), world.wants("host-0")), (location("2"), location("1")));
    world.wait_until("both are counted", |world| world.status().hosts.running == 2);
    let status = world.status();
    assert_eq!((status.hosts.total, status.hosts.foreign, status.previous), (2, 0, Some(reference("1"))));
    let told: Vec<(String, String)> =
        status.history.iter().map(|entry| (entry.host.clone(), entry.image.release.clone())).collect();
    let entry = |host: &str, release: &str| (host.to_owned(), release.to_owned());
    assert_eq!(told, [entry("", "1"), entry("host-0", "1"), entry("", "2"), entry("host-1", "2")]);
    assert!(
        status.history.iter().all(|entry| !entry.by.is_empty() && entry.image.digest == digest(&entry.image.release))
    );
    assert_eq!(world.says_of_group("workers", PROGRESSING).1, "UpToDate");
}

#[test]
fn a_host_with_an_image_of_its_own_stays_as_it_is() {
    let mut world = world(1);
    world.stream(vec![release("1")]);
    world.create(0, Birth::WithBmc);
    let own = |host: &mut BareMetalHost| {
        host.spec.image = Some(crate::owner::image("http://images.example/own.raw"));
        host.metadata.labels.insert("role".to_owned(), "worker".to_owned());
    };
    world.settle_tasks();
    world.edit("host-0", Box::new(own), false);
    world.group(json!({"mode": "all"}));
    world.wait_until("it runs", |world| world.runs("host-0"));
    world.wait_until("it is counted", |world| world.status().hosts.foreign == 1);
    assert_eq!(world.wants("host-0"), "http://images.example/own.raw");
}

#[test]
fn a_host_gets_the_stub_of_the_groups_pool_and_waits_for_it() {
    let mut world = world(1);
    world.stream(vec![release("1")]);
    world.group_with("workers", {
        let mut spec = spec(json!({"mode": "all"}));
        spec["pool"] = json!("worker");
        spec
    });
    world.member(0);
    world.wait_until("it is told", |world| world.says_of_group("workers", DEGRADED).1 == "NoStub");
    let (_, _, why) = world.says_of_group("workers", DEGRADED);
    assert!(why.contains("worker-user-data-managed"), "{why}");
    world.pass_time(60);
    assert_eq!(world.wants("host-0"), "", "an image that nobody can configure is none");
    // The stub comes from elsewhere.
    let source: Secret = world.stored("", "secrets", NAMESPACE, "user-data-0").unwrap();
    let stub = SecretBytes(source.user_data().unwrap().to_vec());
    let metadata = json!({"name": "worker-user-data-managed", "namespace": NAMESPACE});
    world.put("", "Secret", json!({"metadata": metadata, "data": {"userData": stub}}));
    world.wait_until("it runs", |world| world.runs("host-0"));
    let host = world.host_object("host-0").unwrap();
    assert_eq!(host.spec.user_data.unwrap().name, "worker-user-data-managed");
    world.wait_until("all is well", |world| world.says_of_group("workers", DEGRADED).0 == ConditionStatus::False);
}

#[test]
fn a_groups_stub_of_spec_2_is_brought_to_the_current_one_before_its_image_is_golden() {
    let mut world = world(1);
    world.stream(vec![release("1")]);
    let name = "worker-user-data-managed";
    let text = r#"{"ignition":{"version":"2.2.0","config":{"append":[{"source":"https://192.0.2.1:22623/config/worker","verification":{}}]}}}"#;
    let stub = SecretBytes(text.as_bytes().to_vec());
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    world.put("", "Secret", json!({"metadata": metadata, "data": {"userData": stub}}));
    world.group_with("workers", {
        let mut spec = spec(json!({"mode": "all"}));
        spec["pool"] = json!("worker");
        spec
    });
    world.wait_until("the image is golden", |world| world.status().golden == Some(reference("1")));
    let stored: Secret = world.stored("", "secrets", NAMESPACE, name).unwrap();
    let stub: Value = serde_json::from_slice(stored.user_data().unwrap()).unwrap();
    assert!(stub["ignition"]["version"].as_str().is_some_and(|version| version.starts_with('3')), "{stub}");
}

#[test]
fn the_second_host_waits_for_the_canary_also_over_a_restart() {
    let mut world = settled(3, json!({"mode": "canary", "canaries": 1}));
    world.member(1);
    world.member(2);
    // Release 1 is known to boot: nobody waits for it.
    world.wait_until("both are registered", |world| world.status().hosts.total == 3);
    world.stream(vec![release("2"), release("1")]);
    world.wait_until("the trial begins", |world| world.status().canary.is_some());
    let canary = world.status().canary.unwrap();
    assert_eq!((canary.image, canary.state), (reference("2"), CanaryState::Trying));
    world.wait_until("the canary is installed", |world| {
        ["host-1", "host-2"]
            .iter()
            .any(|name| world.wants(name) == location("2") && world.state_of(name) == Some(S::Provisioning))
    });
    let (first, second) =
        if world.wants("host-1") == location("2") { ("host-1", "host-2") } else { ("host-2", "host-1") };
    assert_eq!(world.wants(second), "", "it waits");
    world.kill();
    let mut waited = 0;
    while !world.runs(first) {
        world.pass_time(1);
        waited += 1;
        assert!(waited < PATIENCE.as_secs(), "the canary does not run\n{}", world.story());
        let is_over = world.runs(first);
        assert!(is_over || world.wants(second) != location("2"), "it did not wait for the canary");
    }
    world.wait_until("the second host runs", |world| world.runs(second));
    assert_eq!((world.wants(second), world.wants("host-0")), (location("2"), location("1")));
    let status = world.status();
    assert_eq!(status.canary.map(|canary| canary.state), Some(CanaryState::Promoted));
    assert_eq!((status.current, status.previous), (Some(reference("2")), Some(reference("1"))));
    assert_eq!(world.says_of_group("workers", CANARY_HALTED).0, ConditionStatus::False);
    assert_eq!(world.writes(), 3, "each host once");
}

#[test]
fn a_canary_that_fails_halts_the_rollout_and_all_get_the_old_image() {
    let mut world = settled(3, json!({"mode": "canary"}));
    world.stream(vec![release_at("2", WRONG_IMAGE), release("1")]);
    world.member(1);
    world.wait_until("the rollout halts", |world| {
        world.says_of_group("workers", CANARY_HALTED).0 == ConditionStatus::True
    });
    let (_, reason, message) = world.says_of_group("workers", CANARY_HALTED);
    assert!(
        reason == "CanaryFailed" && message.contains("host-1 failed with it") && message.contains("checksum"),
        "{message}"
    );
    world.wait_until("the canary gets the old image", |world| world.runs("host-1"));
    world.member(2);
    world.wait_until("so does the next", |world| world.runs("host-2"));
    assert_eq!((world.wants("host-1"), world.wants("host-2")), (location("1"), location("1")));
    assert_eq!(world.current(), "1");
    // Another release begins another trial.
    world.stream(vec![release("3"), release("1")]);
    world.wait_until("it is tried", |world| {
        world
            .status()
            .canary
            .is_some_and(|canary| canary.image == reference("3") && canary.state == CanaryState::Trying)
    });
    assert_eq!(world.says_of_group("workers", CANARY_HALTED).0, ConditionStatus::False);
}

#[test]
fn a_canary_that_is_late_halts_the_rollout_and_a_higher_attempt_tries_again() {
    let mut world = settled(2, json!({"mode": "canary", "deadlineSeconds": 600}));
    world.member(1);
    // It cannot be installed, and is tried again and again.
    let nowhere = |host: &mut BareMetalHost| host.spec.user_data.as_mut().unwrap().name = "nowhere".to_owned();
    world.edit("host-1", Box::new(nowhere), false);
    world.stream(vec![release("2"), release("1")]);
    world.wait_until("the trial begins", |world| world.status().canary.is_some_and(|canary| !canary.hosts.is_empty()));
    let began = world.now();
    world.wait_until("the rollout halts", |world| {
        world.says_of_group("workers", CANARY_HALTED).0 == ConditionStatus::True
    });
    let took = (world.now() - began).as_secs();
    assert!((590..620).contains(&took), "{took} s");
    assert!(world.says_of_group("workers", CANARY_HALTED).2.contains("not running 10 minutes"));
    assert_eq!(world.current(), "1");
    let back = |host: &mut BareMetalHost| host.spec.user_data.as_mut().unwrap().name = "user-data-1".to_owned();
    world.edit("host-1", Box::new(back), false);
    world.settle_tasks();
    world.group(json!({"mode": "canary", "deadlineSeconds": 600, "attempt": 1}));
    // Whichever image it is being installed with, it gets one of the two, and whole.
    world.wait_until("it runs", |world| world.runs("host-1"));
    let had = world.wants("host-1");
    assert!(had == location("1") || had == location("2"), "{had}");
}

#[test]
fn a_restore_brings_the_old_image_back_until_it_is_taken_away() {
    let mut world = settled(3, json!({"mode": "canary"}));
    world.member(1);
    world.stream(vec![release("2"), release("1")]);
    world.wait_until("release 2 is promoted", |world| world.current() == "2");
    let old = world.status().history.iter().find(|entry| entry.host.is_empty()).map(|entry| entry.entry);
    world.restore_group(old);
    world.wait_until("release 1 is back", |world| world.current() == "1");
    assert_eq!(world.says_of_group("workers", PROGRESSING).1, "Restored");
    let newest = world.status().history.into_iter().rfind(|entry| entry.host.is_empty()).unwrap();
    assert!(
        newest.image == reference("1") && newest.by.starts_with("firesteel") && newest.by.contains("generation"),
        "{newest:?}"
    );
    world.member(2);
    world.wait_until("a new host runs it", |world| world.runs("host-2"));
    assert_eq!((world.wants("host-2"), world.wants("host-1")), (location("1"), location("2")));
    // A newer golden image does not move a group that was restored.
    world.stream(vec![release("3"), release("2"), release("1")]);
    world.pass_time(60);
    assert_eq!((world.current().as_str(), world.status().golden), ("1", Some(reference("2"))));
    world.restore_group(Some(99));
    world.wait_until("an entry that is not there is told", |world| {
        world.says_of_group("workers", DEGRADED).1 == "NoSuchImage"
    });
    world.restore_group(None);
    world.wait_until("the newest is tried", |world| {
        world.status().canary.is_some_and(|canary| canary.image == reference("3"))
    });
}

#[test]
fn two_groups_of_one_host_are_told_on_both_and_give_it_nothing() {
    let mut world = world(1);
    world.stream(vec![release("1")]);
    world.group(json!({"mode": "all"}));
    let mut other = spec(json!({"mode": "all"}));
    other["selector"] = json!({"matchExpressions": [{"key": "role", "operator": "Exists"}]});
    world.group_with("others", other);
    world.member(0);
    for (group, with) in [("workers", "others"), ("others", "workers")] {
        world.wait_until("the conflict is told", |world| world.says_of_group(group, DEGRADED).1 == "Conflict");
        let (_, _, message) = world.says_of_group(group, DEGRADED);
        assert!(message.contains("host-0") && message.contains(with), "{message}");
    }
    world.wait_until("it is available", |world| world.state_of("host-0") == Some(S::Available));
    world.pass_time(300);
    assert_eq!((world.wants("host-0").as_str(), world.writes()), ("", 0));
    // Whoever is left has it.
    world.alter("firesteel.dev", "HostGroup", json!({"name": "others", "namespace": NAMESPACE}), |group| {
        group["spec"]["selector"] = json!({"matchLabels": {"role": "other"}});
    });
    world.wait_until("it runs", |world| world.runs("host-0"));
    for group in ["workers", "others"] {
        assert_eq!(world.says_of_group(group, DEGRADED).0, ConditionStatus::False, "{group}");
    }
}

/// A store that refuses and forgets to answer, and an appliance that dies in the middle of it all.
#[test]
fn refused_writes_and_restarts_lose_nothing() {
    for seed in 0..4 {
        let mut world = World::new(Setup { seed, machines: 3, wild: false, bug: None, so_far: Counts::default() });
        world.settle_tasks();
        world.stream(vec![release("1")]);
        world.group(json!({"mode": "canary"}));
        (0..3).for_each(|id| world.member(id));
        world.pass_time(5);
        lock(&world.laws).refuses = 60;
        for _ in 0..6 {
            world.pass_time(45);
            world.kill();
        }
        world.pass_time(30);
        lock(&world.laws).refuses = 0;
        world.wait_until("all run", |world| (0..3).all(|id| world.runs(&format!("host-{id}"))));
        world.wait_until("the group says so", |world| world.status().hosts.running == 3);
        let status = world.status();
        assert_eq!(
            (status.current, status.canary.map(|canary| canary.state)),
            (Some(reference("1")), Some(CanaryState::Promoted))
        );
        let numbers: Vec<u32> = status.history.iter().map(|entry| entry.entry).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}: {numbers:?}");
    }
}

#[test]
fn a_custom_image_and_a_pinned_release_are_given_too() {
    let mut world = world(2);
    world.stream(vec![release("2"), release("1")]);
    let mut own = spec(json!({"mode": "all"}));
    own["image"] = json!({"url": "http://images.example/own.raw", "checksum": "ab".repeat(32)});
    own["selector"] = json!({"matchLabels": {"kubernetes.io/name": "one"}});
    world.group_with("own", own);
    let mut pinned = spec(json!({"mode": "all"}));
    pinned["image"] = json!({"stream": "stable", "track": "pinned", "release": "1"});
    world.group_with("workers", pinned);
    world.member(0);
    world.member(1);
    let label = |host: &mut BareMetalHost| {
        host.metadata.labels = [("kubernetes.io/name".to_owned(), "one".to_owned())].into();
    };
    world.edit("host-0", Box::new(label), false);
    world.wait_until("both run", |world| world.runs("host-0") && world.runs("host-1"));
    assert_eq!(
        (world.wants("host-0").as_str(), world.wants("host-1")),
        ("http://images.example/own.raw", location("1"))
    );
    let history = world.group_object("own").status.history;
    assert!(history.iter().any(|entry| entry.host == "host-0" && entry.image.stream.is_empty()), "{history:?}");
}

/// What the tests put into the store is what its kind says.
#[test]
fn a_stream_of_these_tests_has_its_shape() {
    let mut world = world(0);
    world.stream(vec![release("1")]);
    let stream: BootImageStream = world.stored("firesteel.dev", "bootimagestreams", "", "stable").unwrap();
    assert_eq!(stream.status.releases[0].artifacts[0].sha256, digest("1"));
}
