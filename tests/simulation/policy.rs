//! The boot image policy over sets in the store: each rule with its reason in the status, fights, failures, opting out,
//! skew.

use std::cell::Cell;

use firesteel_resources::condition::{Condition, ConditionStatus, find_condition};
use firesteel_resources::machine_configuration::{MachineConfigurationStatus, SelectionMode, SkewMode};
use firesteel_resources::{MachineConfiguration, Secret};
use firesteel_store::{GroupResource, ObjectKey};
use serde_json::{Value, json};

use crate::executor::lock;
use crate::objects::{digest, location, release, release_at, world};
use crate::owner::{Birth, NAMESPACE};
use crate::world::World;

const SETS: &str = "machine.openshift.io";
const ARCHITECTURE: (&str, &str) = ("firesteel.dev/architecture", "x86_64");
const SPEC_2: &str =
    r#"{"ignition":{"version":"2.2.0","config":{"append":[{"source":"https://a:22623/config/worker"}]}}}"#;

/// A set of the Machine API whose template names this image and this Secret.
fn set(name: &str, image: (&str, &str), user_data: &str) -> Value {
    let value =
        json!({"image": {"url": image.0, "checksum": image.1}, "userData": {"name": user_data}, "hostSelector": {}});
    json!({"metadata": {"name": name, "namespace": NAMESPACE, "annotations": {ARCHITECTURE.0: ARCHITECTURE.1}},
           "spec": {"template": {"spec": {"providerSpec": {"value": value}}}}})
}

fn behind(name: &str) -> Value {
    let (url, sum) = (location("1"), digest("1"));
    set(name, (&url, &sum), "stub")
}

fn edited(name: &str, edit: impl Fn(&mut Value)) -> Value {
    let mut set = behind(name);
    edit(&mut set);
    set
}

impl World {
    fn put_set(&mut self, set: Value) {
        self.put(SETS, "MachineSet", set);
    }

    fn stub(&mut self, name: &str, text: &str) {
        let data = json!({"userData": firesteel_resources::secret::SecretBytes(text.as_bytes().to_vec())});
        self.put("", "Secret", json!({"metadata": {"name": name, "namespace": NAMESPACE}, "data": data}));
    }

    fn policy(&mut self, spec: Value) {
        self.alter("operator.openshift.io", "MachineConfiguration", json!({"name": "cluster"}), move |stored| {
            stored["spec"] = spec.clone();
        });
    }

    fn managers(&mut self, managers: Value) {
        self.policy(json!({"managedBootImages": {"machineManagers": managers}}));
    }

    fn configuration(&self) -> MachineConfiguration {
        self.stored("operator.openshift.io", "machineconfigurations", "", "cluster").unwrap_or_default()
    }

    /// When it was written last, in writes to the store.
    fn configuration_revision(&self) -> u64 {
        let key = ObjectKey::new(&GroupResource::new("operator.openshift.io", "machineconfigurations"), "", "cluster");
        self.memory.peek(&key).map_or(0, |object| object.revision.0)
    }

    fn policy_status(&self) -> MachineConfigurationStatus {
        self.configuration().status
    }

    pub(crate) fn policy_text(&self) -> String {
        serde_json::to_string_pretty(&self.policy_status()).unwrap_or_default()
    }

    fn policy_says(&self, type_: &str) -> Condition {
        find_condition(&self.policy_status().conditions, type_).cloned().unwrap_or_default()
    }

    fn set_object(&self, name: &str) -> Value {
        self.stored(SETS, "machinesets", NAMESPACE, name).unwrap()
    }

    /// The checksum that a template names.
    fn image_in(&self, name: &str) -> String {
        let image = &self.set_object(name)["spec"]["template"]["spec"]["providerSpec"]["value"]["image"];
        image["checksum"].as_str().unwrap_or_default().to_owned()
    }

    /// Why a set is left alone, as one word.
    fn skipped(&self, name: &str) -> String {
        let status = self.policy_status();
        let found = status.skipped_boot_images.iter().find(|set| set.name == name);
        found.map(|set| set.reason.clone()).unwrap_or_default()
    }

    fn degraded(&self) -> String {
        self.policy_says("BootImageUpdateDegraded").message
    }
}

/// Two releases, of which sets have the older one.
fn sets_world() -> World {
    let mut world = world(0);
    world.stream(vec![release("2"), release("1")]);
    world.stub("stub", r#"{"ignition":{"version":"3.2.0"}}"#);
    world
}

#[test]
fn each_rule_names_the_set_that_it_stops_and_the_others_go_on() {
    let mut world = sets_world();
    world.stub("spec-2", SPEC_2);
    world.stub("cloud-init", "#cloud-config\n");
    world.stub("broken", "{");
    let own =
        json!([{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineDeployment", "name": "d", "uid": "u"}]);
    let with =
        |key: &'static str, value: &'static str| move |set: &mut Value| set["metadata"]["labels"] = json!({key: value});
    let user_data = |name: &'static str| {
        move |set: &mut Value| {
            set["spec"]["template"]["spec"]["providerSpec"]["value"]["userData"]["name"] = json!(name)
        }
    };
    let annotated = |annotations: Value| move |set: &mut Value| set["metadata"]["annotations"] = annotations.clone();
    world.put_set(behind("plain"));
    world.put_set(edited("owned", move |set| set["metadata"]["ownerReferences"] = own.clone()));
    world.put_set(edited("opted-out", with("firesteel.dev/managed-boot-images", "false")));
    world.put_set(edited("migrated", |set| set["spec"]["authoritativeAPI"] = json!("ClusterAPI")));
    world.put_set(edited("windows", with("machine.openshift.io/os-id", "Windows")));
    world.put_set(edited("other-stream", with("machineconfiguration.openshift.io/osstream", "rhel-10")));
    world.put_set(edited("nowhere", annotated(json!({}))));
    world.put_set(edited("unreadable", annotated(json!({ARCHITECTURE.0: "vax"}))));
    world.put_set(set("custom", ("http://own.example/a.raw", &"ab".repeat(32)), "stub"));
    world.put_set(edited("lifted", user_data("spec-2")));
    world.put_set(edited("cloud", user_data("cloud-init")));
    world.put_set(edited("broken", user_data("broken")));
    world.put_set(edited("missing", user_data("missing")));
    let (url, sum) = (location("2"), digest("2"));
    world.put_set(set("done", (&url, &sum), "stub"));
    let metadata = json!({"name": "capi", "namespace": NAMESPACE, "annotations": {ARCHITECTURE.0: ARCHITECTURE.1}});
    let machine = json!({"clusterName": "c", "bootstrap": {"dataSecretName": "stub"},
                         "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3MachineTemplate", "name": "t"}});
    let spec = json!({"clusterName": "c", "selector": {"matchLabels": {"a": "b"}},
                      "template": {"metadata": {"labels": {"a": "b"}}, "spec": machine}});
    world.put("cluster.x-k8s.io", "MachineSet", json!({"metadata": metadata, "spec": spec}));

    world.wait_until("those that may are changed", |world| {
        ["plain", "lifted", "cloud"].iter().all(|name| world.image_in(name) == digest("2"))
    });
    world.wait_until("the status says the rest", |world| {
        world.policy_says("BootImageUpdateProgressing").message.contains("reconciled 4 of")
    });
    for (name, reason) in [
        ("owned", "Owned"),
        ("opted-out", "OptedOut"),
        ("migrated", "MigratedToClusterAPI"),
        ("windows", "OtherOperatingSystem"),
        ("other-stream", "OtherOSStream"),
        ("nowhere", "ArchitectureUnknown"),
        ("custom", "CustomImage"),
        ("capi", "TemplateNotHere"),
    ] {
        assert_eq!(world.skipped(name), reason, "{name}");
    }
    for name in
        ["owned", "opted-out", "migrated", "windows", "other-stream", "nowhere", "broken", "missing", "unreadable"]
    {
        assert_eq!(world.image_in(name), digest("1"), "{name} is as it was");
    }
    assert_eq!(world.image_in("custom"), "ab".repeat(32));
    let degraded = world.degraded();
    assert!(degraded.starts_with("3 degraded"), "{degraded}");
    for (name, word) in [("broken", "JSON"), ("missing", "Secret missing"), ("unreadable", "vax")] {
        assert!(degraded.contains(&format!("{NAMESPACE}/{name}: ")) && degraded.contains(word), "{name}: {degraded}");
    }
    let progress = world.policy_says("BootImageUpdateProgressing").message;
    assert!(progress.contains("machinesets.machine.openshift.io: reconciled 4 of 12, 5 skipped"), "{progress}");
    assert!(progress.contains("machinesets.cluster.x-k8s.io: reconciled 0 of 1, 1 skipped"), "{progress}");
    // What a template says besides stays, and the stub was brought to spec 3 in place.
    let template = &world.set_object("plain")["spec"]["template"]["spec"]["providerSpec"]["value"];
    assert_eq!((&template["hostSelector"], &template["image"]["url"]), (&json!({}), &json!(location("2"))));
    let lifted: Secret = world.stored("", "secrets", NAMESPACE, "spec-2").unwrap();
    let text = String::from_utf8(lifted.user_data().unwrap().to_vec()).unwrap();
    assert!(text.contains("\"3.2.0\"") && text.contains("https://a:22623/config/worker"), "{text}");
    assert!(lifted.metadata.annotations.keys().any(|key| key == "firesteel.dev/stub-upgraded"));

    // It is picked up as soon as it says what was missing.
    world.put_set(behind("nowhere"));
    world.wait_until("it is changed", |world| {
        world.image_in("nowhere") == digest("2") && world.skipped("nowhere").is_empty()
    });
}

#[test]
fn the_architecture_of_the_only_hosts_is_that_of_sets_that_do_not_say() {
    let mut world = world(1);
    world.stream(vec![release("2"), release("1")]);
    world.stub("stub", r#"{"ignition":{"version":"3.2.0"}}"#);
    world.put_set(edited("plain", |set| set["metadata"]["annotations"] = json!({})));
    world.wait_until("it is named", |world| world.skipped("plain") == "ArchitectureUnknown");
    world.create(0, Birth::WithBmc);
    world.settle_tasks();
    world.wait_until("the inspection tells", |world| world.image_in("plain") == digest("2"));
    world.wait_until("nothing is left", |world| world.policy_status().skipped_boot_images.is_empty());
}

#[test]
fn the_three_meanings_are_in_force_and_opting_out_leaves_everything() {
    let mut world = sets_world();
    world.put_set(behind("a"));
    world.wait_until("the default is in force", |world| world.image_in("a") == digest("2"));
    let modes = |world: &World| -> Vec<SelectionMode> {
        let managed = world.policy_status().managed_boot_images_status.unwrap_or_default();
        managed.machine_managers.unwrap_or_default().iter().map(|manager| manager.selection.mode).collect()
    };
    assert_eq!(modes(&world), [SelectionMode::All; 3]);
    world.managers(json!([]));
    world.wait_until("nothing is managed", |world| modes(world) == [SelectionMode::None; 3]);
    world.stream(vec![release("3"), release("2"), release("1")]);
    world.pass_time(30);
    assert_eq!(world.image_in("a"), digest("2"), "it is left as it is");
    assert!(
        world
            .policy_says("BootImageUpdateProgressing")
            .message
            .contains("machinesets.machine.openshift.io: reconciled 0 of 0")
    );
    let selector = json!({"machineResourceSelector": {"matchLabels": {"tier": "a"}}});
    let partial =
        json!({"resource": "machinesets", "apiGroup": SETS, "selection": {"mode": "Partial", "partial": selector}});
    world.managers(json!([partial]));
    world.wait_until("it is in the status", |world| modes(world).contains(&SelectionMode::Partial));
    world.pass_time(10);
    assert_eq!(world.image_in("a"), digest("2"), "not selected");
    world.put_set(edited("a", |set| {
        set["metadata"]["labels"] = json!({"tier": "a"});
        set["spec"]["template"]["spec"]["providerSpec"]["value"]["image"] =
            json!({"url": location("2"), "checksum": digest("2")});
    }));
    world.wait_until("it is selected", |world| world.image_in("a") == digest("3"));
    assert_eq!(world.configuration().status.observed_generation, world.configuration().metadata.generation);
}

#[test]
fn a_fight_ends_after_three_writes_with_the_remedy_and_a_new_start() {
    let mut world = sets_world();
    world.put_set(behind("fought"));
    world.put_set(behind("other"));
    // Somebody writes the old one back each time.
    let lost = Cell::new(0);
    while lost.get() < 3 {
        world.wait_until("it is changed", |world| world.image_in("fought") == digest("2"));
        lost.set(lost.get() + 1);
        world.put_set(behind("fought"));
    }
    world.wait_until("it stops", |world| world.degraded().contains("fought"));
    world.pass_time(300);
    assert_eq!((world.image_in("fought"), world.image_in("other")), (digest("1"), digest("2")));
    let told = world.degraded();
    assert!(told.starts_with("1 degraded") && told.contains("firesteel.dev/managed-boot-images=false"), "{told}");
    assert_eq!(world.policy_says("BootImageUpdateDegraded").status, ConditionStatus::True);
    // Also after a restart.
    world.kill();
    world.pass_time(60);
    assert_eq!(world.image_in("fought"), digest("1"));
    world.put_set(edited("fought", |set| {
        set["metadata"]["labels"] = json!({"firesteel.dev/managed-boot-images": "false"})
    }));
    world.wait_until("it is left alone", |world| world.skipped("fought") == "OptedOut");
    assert_eq!(world.image_in("fought"), digest("1"));
    world.put_set(edited("fought", |set| set["metadata"]["labels"] = json!({})));
    world.wait_until("it begins anew", |world| world.image_in("fought") == digest("2"));
    world.wait_until("all is well", |world| {
        world.policy_says("BootImageUpdateDegraded").status == ConditionStatus::False
    });
}

#[test]
fn what_fails_is_tried_fifteen_times_and_then_each_minute() {
    let mut world = sets_world();
    world.stub("frozen", SPEC_2);
    world.alter("", "Secret", json!({"name": "frozen", "namespace": NAMESPACE}), |secret| {
        secret["immutable"] = json!(true)
    });
    world.put_set(edited("a", |set| {
        set["spec"]["template"]["spec"]["providerSpec"]["value"]["userData"]["name"] = json!("frozen");
    }));
    world.put_set(behind("b"));
    let tries = |world: &World| -> u32 {
        let told = world.degraded();
        let number = told.split(" tries").next().and_then(|text| text.rsplit('(').next()).unwrap_or_default();
        number.parse().unwrap_or(0)
    };
    world.wait_until("it is tried some times", |world| tries(world) >= 5);
    world.wait_until("it is told when it is tried again", |world| {
        let told = world.degraded();
        told.contains("immutable") && told.contains("the next try is at")
    });
    assert_eq!((world.image_in("a"), world.image_in("b")), (digest("1"), digest("2")), "the others go on");
    world.wait_until("fifteen tries are over", |world| tries(world) >= 16);
    let (before, writes) = (tries(&world), world.configuration_revision());
    world.pass_time(600);
    let after = tries(&world);
    assert!((9..=10).contains(&(after - before)), "{before} and {after}: one a minute");
    // Each try is told, and nothing besides.
    let written = world.configuration_revision() - writes;
    assert!((9..40).contains(&written), "{written} writes in ten minutes");
    // A restart forgets nothing.
    world.kill();
    world.pass_time(30);
    assert!(tries(&world) >= after, "{}", world.degraded());
    // Whoever puts it right need not wait.
    world.put_set(behind("a"));
    world.wait_until("it is changed", |world| world.image_in("a") == digest("2"));
}

#[test]
fn a_store_that_refuses_delays_the_policy_and_changes_nothing_of_it() {
    let mut world = sets_world();
    for name in ["a", "b", "c", "d"] {
        world.put_set(behind(name));
    }
    world.wait_until("all are changed", |world| {
        ["a", "b", "c", "d"].iter().all(|name| world.image_in(name) == digest("2"))
    });
    lock(&world.laws).refuses = 150;
    world.pass_time(20);
    lock(&world.laws).refuses = 0;
    world.pass_time(10);
    world.stream(vec![release("3"), release("2"), release("1")]);
    lock(&world.laws).refuses = 150;
    world.pass_time(60);
    lock(&world.laws).refuses = 0;
    world.wait_until("all are changed again", |world| {
        ["a", "b", "c", "d"].iter().all(|name| world.image_in(name) == digest("3"))
    });
    world.wait_until("the status says so", |world| {
        let progress = world.policy_says("BootImageUpdateProgressing");
        progress.status == ConditionStatus::False && progress.message.contains("reconciled 4 of 4")
    });
}

#[test]
fn old_images_stand_against_an_upgrade_until_they_are_replaced_or_their_version_is_stated() {
    const OLD: &str = "48.84.202109241901-0";
    const NEW: &str = "9.6.20250701-0";
    let mut world = world(0);
    world.stub("stub", r#"{"ignition":{"version":"3.2.0"}}"#);
    world.stream(vec![release_at(OLD, &location(OLD))]);
    let (url, sum) = (location(OLD), digest(OLD));
    world.put_set(set("a", (&url, &sum), "stub"));
    let says = |world: &World| world.policy_says("Upgradeable");
    let mode = |world: &World| world.policy_status().boot_image_skew_enforcement_status.unwrap_or_default().mode;
    world.wait_until("it stands against it", |world| says(world).status == ConditionStatus::False);
    let told = says(&world);
    assert_eq!((told.reason.as_str(), mode(&world)), ("ClusterBootImageSkewError", SkewMode::Automatic));
    assert!(told.message.contains(OLD) && told.message.contains("4.13.0 (RHCOS 9.2)"), "{}", told.message);
    world.stream(vec![release_at(NEW, &location(NEW)), release_at(OLD, &location(OLD))]);
    world.wait_until("it does not any more", |world| says(world).status == ConditionStatus::True);
    let version = |world: &World| {
        let status = world.policy_status().boot_image_skew_enforcement_status.unwrap_or_default();
        status.automatic.and_then(|version| version.rhcos_version).unwrap_or_default()
    };
    assert_eq!(version(&world), NEW, "it advances with the sets");

    let manual = json!({"mode": "Manual", "manual": {"mode": "OCPVersion", "ocpVersion": "4.12.1"}});
    world.policy(json!({"bootImageSkewEnforcement": manual}));
    world.wait_until("what is stated counts", |world| mode(world) == SkewMode::Manual);
    assert!(says(&world).status == ConditionStatus::False && says(&world).message.contains("4.12.1"));
    world.policy(json!({"bootImageSkewEnforcement": {"mode": "None"}}));
    world.wait_until("nobody looks", |world| mode(world) == SkewMode::None);
    assert_eq!(says(&world).status, ConditionStatus::Unknown);
}

/// What is managed is read on the object, so that there is one.
#[test]
fn the_policy_is_there_where_nobody_made_it_and_is_written_only_when_it_changes() {
    let mut world = sets_world();
    world.put_set(behind("a"));
    world.wait_until("it is changed", |world| world.image_in("a") == digest("2"));
    world.pass_time(10);
    let before = world.configuration_revision();
    assert!(before > 0 && world.configuration().metadata.name == "cluster");
    // Neither time nor a restart is a change.
    world.pass_time(900);
    world.kill();
    world.pass_time(1000);
    assert_eq!(world.configuration_revision(), before);
}
