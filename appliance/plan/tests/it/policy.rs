//! Which sets are kept current: each rule in its order, what people are told, and what never happens whatever is edited.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_facts::Architecture;
use firesteel_plan::policy::{
    Catalogue, CatalogueImage, CurrentImage, DEGRADED, FormerImage, PROGRESSING, PolicyInputs, PolicyMemory, PolicySet,
    PolicyStep, SetDecision, SetIntent, SetKey, SetKind, SkipReason, StubOutcome, TRIES_WITH_BACKOFF, Trigger,
    WRITES_MAX, decide, delay, leaves_alone,
};
use firesteel_resources::condition::{Condition, ConditionStatus, find_condition};
use firesteel_resources::host_group::ImageReference;
use firesteel_resources::{HostGroup, MachineConfiguration, ObjectMeta};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(crate) fn image(stream: &str, release: &str, architecture: Architecture) -> ImageReference {
    let digest = format!("{stream}-{release}-{architecture}");
    ImageReference { stream: stream.into(), release: release.into(), url: format!("store://{digest}"), digest }
}

pub(crate) fn entry(stream: &str, release: &str, architecture: Architecture) -> CatalogueImage {
    CatalogueImage {
        image: image(stream, release, architecture),
        architecture,
        format: "metal".into(),
        sector_bytes: 512,
        is_verified: true,
        is_stamped: true,
        is_withdrawn: false,
    }
}

use Architecture::{Aarch64, X86_64};

/// Two releases of one stream for two architectures, the newest first.
fn catalogue() -> Catalogue {
    let both = |release| [entry("stable", release, X86_64), entry("stable", release, Aarch64)];
    Catalogue::new(vec!["stable".into()], [both("2"), both("1")].concat(), Vec::new())
}

fn group(name: &str) -> PolicySet {
    PolicySet {
        key: SetKey::new(SetKind::HostGroup, "rack", name),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        owners: Vec::new(),
        is_migrated: false,
        is_deleting: false,
        architecture: String::new(),
        wants: SetIntent::Stream("stable".into()),
        current: CurrentImage::Nothing,
        followed: None,
        stub: StubOutcome::Unchanged,
    }
}

fn machine_set(name: &str, release: &str) -> PolicySet {
    let current = CurrentImage::from(&image("stable", release, X86_64));
    let key = SetKey::new(SetKind::MachineApiSet, "machines", name);
    PolicySet { key, wants: SetIntent::SameStream, current, ..group(name) }
}

fn policy(managers: Value) -> MachineConfiguration {
    let spec = json!({"managedBootImages": {"machineManagers": managers}});
    serde_json::from_value(json!({"metadata": {"name": "cluster", "generation": 7}, "spec": spec})).unwrap()
}

struct World {
    policy: Option<MachineConfiguration>,
    catalogue: Catalogue,
    fleet: BTreeSet<Architecture>,
    upgrade: Option<String>,
    memory: PolicyMemory,
    now: i64,
}

impl World {
    fn new() -> Self {
        let fleet = BTreeSet::from([X86_64]);
        Self { policy: None, catalogue: catalogue(), fleet, upgrade: None, memory: PolicyMemory::default(), now: 1000 }
    }

    fn look(&mut self, sets: &[PolicySet]) -> PolicyStep {
        let seen = PolicyInputs {
            policy: self.policy.as_ref(),
            catalogue: &self.catalogue,
            sets,
            fleet: &self.fleet,
            upgrade: self.upgrade.as_deref(),
            trigger: Trigger::PolicyChanged,
            now: at(self.now),
        };
        let decided = decide(&seen, &self.memory);
        // As it is stored and read again.
        let text = serde_json::to_string(&decided.memory).unwrap();
        self.memory = serde_json::from_str(&text).unwrap();
        assert_eq!(self.memory, decided.memory);
        decided
    }

    fn one(&mut self, set: &PolicySet) -> SetDecision {
        self.look(std::slice::from_ref(set)).decisions.remove(&set.key).unwrap()
    }
}

fn patch(release: &str, architecture: Architecture, stub: bool) -> SetDecision {
    SetDecision::Patch { reference: Some(image("stable", release, architecture)), stub }
}

fn skipped(decision: SetDecision) -> Option<SkipReason> {
    match decision {
        SetDecision::Skip(skip) => {
            assert!(!skip.message.is_empty());
            Some(skip.reason)
        }
        _ => None,
    }
}

fn degraded(decision: SetDecision) -> String {
    match decision {
        SetDecision::Degraded(message) => message,
        other => panic!("{other:?}"),
    }
}

fn told(decided: &PolicyStep, type_: &str) -> Condition {
    find_condition(&decided.conditions, type_).unwrap().clone()
}

#[test]
fn a_new_golden_image_goes_to_each_set_that_is_behind() {
    let mut world = World::new();
    assert_eq!(world.one(&group("a")), patch("2", X86_64, false));
    assert_eq!(world.one(&machine_set("a", "1")), patch("2", X86_64, false));
    assert_eq!(world.one(&machine_set("a", "2")), SetDecision::Done);
    // The same bytes from elsewhere are ours, and come from here then.
    let mut elsewhere = machine_set("a", "2");
    elsewhere.current = CurrentImage::Image { url: "http://mirror/a".into(), digest: "STABLE-2-X86_64".into() };
    assert_eq!(world.one(&elsewhere), patch("2", X86_64, false));
}

#[test]
fn the_three_meanings_decide_who_is_selected() {
    let sets = [group("a"), machine_set("b", "1")];
    let selected = |policy: Option<MachineConfiguration>| {
        let mut world = World { policy, ..World::new() };
        let decided = world.look(&sets);
        let modes: Vec<_> =
            decided.effective.machine_managers.unwrap().iter().map(|manager| manager.selection.mode).collect();
        assert_eq!(modes.len(), 3, "each kind of set is shown");
        sets.each_ref().map(|set| decided.decisions[&set.key] != SetDecision::NotSelected)
    };
    assert_eq!(selected(None), [true, true]);
    assert_eq!(selected(Some(MachineConfiguration::default())), [true, true]);
    assert_eq!(selected(Some(policy(json!([])))), [false, false]);
    let groups = |selection: Value| {
        policy(json!([{"resource": "hostgroups", "apiGroup": "firesteel.dev", "selection": selection}]))
    };
    assert_eq!(selected(Some(groups(json!({"mode": "All"})))), [true, false]);
    assert_eq!(selected(Some(groups(json!({"mode": "None"})))), [false, false]);
    let labels =
        |labels: Value| json!({"mode": "Partial", "partial": {"machineResourceSelector": {"matchLabels": labels}}});
    assert_eq!(selected(Some(groups(labels(json!({}))))), [true, false]);
    assert_eq!(selected(Some(groups(labels(json!({"a": "b"}))))), [false, false]);
}

#[test]
fn since_when_the_default_holds_is_remembered() {
    let mut world = World::new();
    world.look(&[]);
    world.now += 5;
    assert_eq!(world.look(&[]).memory.default_since, Some(at(1000)));
    world.policy = Some(policy(json!([])));
    assert_eq!(world.look(&[]).memory.default_since, None);
}

#[test]
fn each_set_that_is_somebody_elses_is_skipped_with_its_reason() {
    type Edit = fn(&mut PolicySet);
    let cases: [(Edit, SkipReason); 11] = [
        (|set| set.owners = vec!["MachineDeployment workers".into()], SkipReason::Owned),
        (|set| set.is_migrated = true, SkipReason::Migrated),
        (
            |set| drop(set.labels.insert("firesteel.dev/managed-boot-images".into(), "false".into())),
            SkipReason::OptedOut,
        ),
        (|set| drop(set.labels.insert("firesteel.dev/os-stream".into(), "rhel-10".into())), SkipReason::OtherStream),
        (
            |set| drop(set.labels.insert("machineconfiguration.openshift.io/osstream".into(), "rhel-10".into())),
            SkipReason::OtherStream,
        ),
        (|set| drop(set.labels.insert("machine.openshift.io/os-id".into(), "Windows".into())), SkipReason::OtherSystem),
        (
            |set| set.current = CurrentImage::Image { url: "http://own/image".into(), digest: "own".into() },
            SkipReason::CustomImage,
        ),
        // Our URL with somebody's digest is somebody's image.
        (
            |set| set.current = CurrentImage::Image { url: image("stable", "1", X86_64).url, digest: "own".into() },
            SkipReason::CustomImage,
        ),
        (|set| set.current = CurrentImage::Nothing, SkipReason::NoImage),
        (|set| set.current = CurrentImage::Elsewhere("Metal3MachineTemplate a".into()), SkipReason::TemplateNotHere),
        (|set| set.wants = SetIntent::Restored(3), SkipReason::Restored),
    ];
    for (edit, reason) in cases {
        let mut set = machine_set("a", "1");
        edit(&mut set);
        let mut world = World::new();
        let decided = world.look(&[set.clone(), group("z")]);
        assert_eq!(skipped(decided.decisions[&set.key].clone()), Some(reason));
        assert!(matches!(decided.decisions[&group("z").key], SetDecision::Patch { .. }), "the others go on");
        let named = &decided.skipped[0];
        assert_eq!((named.name.as_str(), named.reason.as_str()), ("a", reason.word()));
        let progress = told(&decided, PROGRESSING).message;
        assert!(progress.contains("machinesets.machine.openshift.io/machines/a"), "{progress}");
        let counted = if reason.is_counted() { "reconciled 0 of 1, 1 skipped" } else { "reconciled 0 of 0, 0 skipped" };
        assert!(progress.contains(&format!("machinesets.machine.openshift.io: {counted}")), "{progress}");
    }
    // Of several reasons the first of S1-3.2 is told: who owns it, then who has authority over it, then its label.
    let mut set = machine_set("a", "1");
    set.labels.insert("firesteel.dev/managed-boot-images".into(), "false".into());
    (set.owners, set.is_migrated) = (vec!["MachineDeployment workers".into()], true);
    assert_eq!(skipped(World::new().one(&set)), Some(SkipReason::Owned));
    set.owners.clear();
    assert_eq!(skipped(World::new().one(&set)), Some(SkipReason::Migrated));
    set.is_migrated = false;
    assert_eq!(skipped(World::new().one(&set)), Some(SkipReason::OptedOut));
    for (wants, reason) in [(SetIntent::Pinned, SkipReason::Pinned), (SetIntent::Own, SkipReason::CustomImage)] {
        assert_eq!(skipped(World::new().one(&PolicySet { wants, ..group("a") })), Some(reason));
    }
    let mut named = machine_set("a", "1");
    named.labels.insert("firesteel.dev/os-stream".into(), "stable".into());
    assert_eq!(World::new().one(&named), patch("2", X86_64, false), "its own stream is no other");
    // The label of an image that is of no stream names one that is here, or none.
    for (stream, reason) in [("stable", SkipReason::CustomImage), ("rhel-10", SkipReason::OtherStream)] {
        named.current = CurrentImage::Image { url: "http://own/image".into(), digest: "own".into() };
        named.labels.insert("firesteel.dev/os-stream".into(), stream.into());
        assert_eq!(skipped(World::new().one(&named)), Some(reason), "{stream}");
    }
}

#[test]
fn a_set_without_architecture_is_of_the_only_one_or_waits_for_it() {
    let mut world = World::new();
    assert_eq!(world.one(&group("a")), patch("2", X86_64, false));
    world.fleet = BTreeSet::from([Aarch64]);
    assert_eq!(world.one(&group("a")), patch("2", Aarch64, false));
    world.fleet = BTreeSet::from([X86_64, Aarch64]);
    assert_eq!(skipped(world.one(&group("a"))), Some(SkipReason::ArchitectureUnknown));
    world.fleet = BTreeSet::new();
    assert_eq!(skipped(world.one(&group("a"))), Some(SkipReason::ArchitectureUnknown));
    // It goes on by itself once somebody says it, in either way.
    let annotated = |key: &str, value: &str| {
        let mut set = group("a");
        set.annotations.insert(key.into(), value.into());
        set
    };
    const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";
    let autoscaler = annotated(CAPACITY, "topology.kubernetes.io/zone=a,kubernetes.io/arch=arm64");
    assert_eq!(world.one(&autoscaler), patch("2", Aarch64, false));
    assert_eq!(world.one(&annotated("firesteel.dev/architecture", "x86_64")), patch("2", X86_64, false));
    assert_eq!(world.one(&PolicySet { architecture: "arm64".into(), ..group("a") }), patch("2", Aarch64, false));
    assert_eq!(skipped(world.one(&annotated(CAPACITY, "a=b"))), Some(SkipReason::ArchitectureUnknown));
    // What cannot be read is an error of this set alone.
    let wrong = annotated("firesteel.dev/architecture", "vax");
    let decided = world.look(&[wrong.clone(), PolicySet { architecture: "amd64".into(), ..group("b") }]);
    assert!(degraded(decided.decisions[&wrong.key].clone()).contains("vax"));
    assert_eq!(decided.decisions[&group("b").key], patch("2", X86_64, false));
    let agreed = PolicySet { architecture: "aarch64".into(), ..annotated("firesteel.dev/architecture", "arm64") };
    assert_eq!(world.one(&agreed), patch("2", Aarch64, false), "two words for the same");
    let torn = PolicySet { architecture: "amd64".into(), ..annotated("firesteel.dev/architecture", "arm64") };
    assert!(degraded(world.one(&torn)).contains("agree"));
}

/// The stream got an image for another architecture: the release is not whole until that is here.
#[test]
fn nobody_goes_back_because_something_is_added_to_his_release() {
    let with = |edit: fn(&mut CatalogueImage)| {
        let mut entries = vec![entry("stable", "2", X86_64), entry("stable", "1", X86_64)];
        entries[0].is_stamped = false;
        edit(&mut entries[0]);
        World { catalogue: Catalogue::new(vec!["stable".into()], entries, Vec::new()), ..World::new() }
    };
    assert_eq!(with(|_| {}).one(&machine_set("a", "2")), SetDecision::Done);
    assert_eq!(with(|entry| entry.is_verified = false).one(&machine_set("a", "2")), patch("1", X86_64, false));
    assert_eq!(with(|entry| entry.is_withdrawn = true).one(&machine_set("a", "2")), patch("1", X86_64, false));
    let catalogue = with(|_| {}).catalogue;
    assert!(catalogue.stored(&image("stable", "2", X86_64)).is_some(), "hosts may have it all the same");
}

#[test]
fn golden_is_what_is_stamped_and_not_withdrawn() {
    let with = |edit: fn(&mut Vec<CatalogueImage>)| {
        let mut entries = vec![entry("stable", "2", X86_64), entry("stable", "1", X86_64)];
        edit(&mut entries);
        World { catalogue: Catalogue::new(vec!["stable".into()], entries, Vec::new()), ..World::new() }
    };
    let mut unstamped = with(|entries| entries[0].is_stamped = false);
    assert_eq!(unstamped.one(&group("a")), patch("1", X86_64, false));
    let mut withdrawn = with(|entries| entries[0].is_withdrawn = true);
    assert_eq!(withdrawn.one(&machine_set("a", "2")), patch("1", X86_64, false), "a withdrawn release is left again");
    let mut none = with(|entries| entries.iter_mut().for_each(|entry| entry.is_stamped = false));
    assert!(matches!(none.one(&group("a")), SetDecision::Wait(_)));
    let mut all_withdrawn = with(|entries| entries.iter_mut().for_each(|entry| entry.is_withdrawn = true));
    assert!(matches!(all_withdrawn.one(&machine_set("a", "2")), SetDecision::Wait(_)));
    let other = PolicySet { wants: SetIntent::Stream("gone".into()), ..group("a") };
    assert!(degraded(with(|_| {}).one(&other)).contains("no BootImageStream gone"));
    let mut arm = World { fleet: BTreeSet::from([Aarch64]), ..with(|_| {}) };
    assert!(degraded(arm.one(&group("a"))).contains("aarch64"));
    let mut iso = with(|entries| {
        entries.push(CatalogueImage {
            format: "iso".into(),
            sector_bytes: 0,
            image: image("stable", "2i", X86_64),
            ..entries[0].clone()
        });
        entries.push(CatalogueImage {
            format: "iso".into(),
            sector_bytes: 0,
            image: image("stable", "1i", X86_64),
            ..entries[0].clone()
        });
    });
    assert_eq!(iso.one(&machine_set("a", "1i")), patch("2i", X86_64, false), "an ISO is followed by an ISO");
    let former = Catalogue::new(
        vec!["stable".into()],
        vec![entry("stable", "2", X86_64)],
        vec![FormerImage::disk(image("stable", "0", X86_64))],
    );
    let mut world = World { catalogue: former, ..World::new() };
    assert_eq!(world.one(&machine_set("a", "0")), patch("2", X86_64, false), "what was ours is ours");
}

/// Streams may have releases with the same bytes: a set must not wander from one to the other.
#[test]
fn a_set_stays_with_its_stream_though_another_has_its_image() {
    let same = |stream: &str, release: &str| CatalogueImage {
        image: ImageReference { digest: "same".into(), url: "store://same".into(), ..image(stream, release, X86_64) },
        ..entry(stream, release, X86_64)
    };
    let streams = || vec!["next".to_owned(), "stable".to_owned()];
    let entries =
        vec![entry("next", "9", X86_64), same("next", "8"), entry("stable", "2", X86_64), same("stable", "1")];
    let mut world = World { catalogue: Catalogue::new(streams(), entries, Vec::new()), ..World::new() };
    let set = PolicySet { current: CurrentImage::from(&same("stable", "1").image), ..machine_set("a", "1") };
    assert_eq!(skipped(world.one(&set)), Some(SkipReason::StreamUnclear));
    let mut labelled = set.clone();
    labelled.labels.insert("firesteel.dev/os-stream".into(), "stable".into());
    assert_eq!(world.one(&labelled), patch("2", X86_64, false));
    let followed = PolicySet { followed: Some("stable".into()), ..set.clone() };
    assert_eq!(world.one(&followed), patch("2", X86_64, false));
    // Of a stream that is gone nothing more is to come; the other one has the image, too.
    let orphaned = PolicySet {
        followed: Some("gone".into()),
        current: CurrentImage::from(&entry("next", "9", X86_64).image),
        ..set.clone()
    };
    let gone = ImageReference { stream: "gone".into(), ..entry("next", "9", X86_64).image };
    let here = world.catalogue.clone();
    let entries = vec![entry("next", "10", X86_64), entry("next", "9", X86_64)];
    world.catalogue = Catalogue::new(streams(), entries, vec![FormerImage::disk(gone)]);
    assert_eq!(world.one(&orphaned), SetDecision::Patch { reference: Some(image("next", "10", X86_64)), stub: false });
    world.catalogue = here;
    // Its own stream forgot the release; the other did not.
    let entries = vec![entry("next", "9", X86_64), same("next", "8"), entry("stable", "2", X86_64)];
    let former = FormerImage { sector_bytes: 4096, ..FormerImage::disk(same("stable", "1").image) };
    world.catalogue = Catalogue::new(streams(), entries.clone(), vec![former.clone()]);
    assert!(degraded(world.one(&followed)).contains("4096"), "its form is known all the same");
    let fitting = CatalogueImage { sector_bytes: 4096, ..entry("stable", "2", X86_64) };
    world.catalogue = Catalogue::new(streams(), [entries, vec![fitting]].concat(), vec![former]);
    assert_eq!(world.one(&followed), patch("2", X86_64, false));
}

#[test]
fn an_image_that_is_at_another_place_each_time_is_no_fight() {
    let mut world = World::new();
    let set = machine_set("a", "1");
    for place in 0..2 * WRITES_MAX {
        let moved = ImageReference { url: format!("store://{place}"), ..image("stable", "2", X86_64) };
        let entries =
            vec![CatalogueImage { image: moved.clone(), ..entry("stable", "2", X86_64) }, entry("stable", "1", X86_64)];
        world.catalogue = Catalogue::new(vec!["stable".into()], entries, Vec::new());
        assert_eq!(world.one(&set), SetDecision::Patch { reference: Some(moved), stub: false });
    }
}

#[test]
fn who_is_left_alone_is_told_why() {
    let alone = |policy: Option<&MachineConfiguration>, set: &PolicySet| leaves_alone(policy, set).unwrap_or_default();
    assert_eq!(alone(None, &group("a")), "");
    assert!(alone(Some(&policy(json!([]))), &group("a")).contains("does not select"));
    let mut out = group("a");
    out.labels.insert("firesteel.dev/managed-boot-images".into(), "false".into());
    assert!(alone(None, &out).contains("managed-boot-images=false"));
}

#[test]
fn a_set_moves_only_with_a_stub_that_is_well() {
    let with = |stub: StubOutcome, release: &str| World::new().one(&PolicySet { stub, ..machine_set("a", release) });
    let changed = || StubOutcome::Changed { digest: "new".into() };
    assert_eq!(with(StubOutcome::Ignored, "1"), patch("2", X86_64, false));
    assert_eq!(with(StubOutcome::NotReferenced, "2"), SetDecision::Done);
    assert_eq!(with(changed(), "1"), patch("2", X86_64, true));
    assert_eq!(with(changed(), "2"), SetDecision::Patch { reference: None, stub: true });
    for release in ["1", "2"] {
        assert!(
            degraded(with(StubOutcome::Refused("ignition.version is missing".into()), release))
                .contains("ignition.version")
        );
        assert!(degraded(with(StubOutcome::Missing("worker-user-data".into()), release)).contains("worker-user-data"));
    }
}

#[test]
fn nothing_is_written_while_an_upgrade_runs() {
    let mut world = World { upgrade: Some("the upgrade to 2.0".into()), ..World::new() };
    let decided = world.look(&[group("a"), machine_set("b", "2")]);
    assert!(matches!(&decided.decisions[&group("a").key], SetDecision::Wait(why) if why.contains("2.0")));
    assert_eq!(decided.decisions[&machine_set("b", "2").key], SetDecision::Done, "what is well is not held");
    assert_eq!(told(&decided, PROGRESSING).status, ConditionStatus::True);
    world.upgrade = None;
    assert_eq!(world.one(&group("a")), patch("2", X86_64, false));
}

#[test]
fn a_fight_ends_after_three_writes_with_the_remedy() {
    let mut world = World::new();
    let fought = machine_set("a", "1");
    for _ in 0..WRITES_MAX {
        assert_eq!(world.one(&fought), patch("2", X86_64, false));
    }
    let decided = world.look(&[fought.clone(), machine_set("b", "1")]);
    let message = degraded(decided.decisions[&fought.key].clone());
    assert!(message.contains("other writer") && message.contains("machines/a"), "{message}");
    assert_eq!(decided.decisions[&machine_set("b", "1").key], patch("2", X86_64, false), "the others go on");
    assert_eq!(told(&decided, DEGRADED).status, ConditionStatus::True);
    assert_eq!(decided.wake, None, "no time helps");
    // Another image is another matter.
    let newer = Catalogue::new(
        vec!["stable".into()],
        vec![entry("stable", "3", X86_64), entry("stable", "2", X86_64), entry("stable", "1", X86_64)],
        Vec::new(),
    );
    let mut next = World { catalogue: newer, memory: world.memory.clone(), ..World::new() };
    assert_eq!(next.one(&fought), patch("3", X86_64, false));
    // Opting out leaves the image and forgets; in again goes on.
    for label in ["false", "False"] {
        let mut out = World { memory: world.memory.clone(), ..World::new() };
        let mut opted = fought.clone();
        opted.labels.insert("firesteel.dev/managed-boot-images".into(), label.into());
        assert_eq!(skipped(out.one(&opted)), Some(SkipReason::OptedOut));
        assert_eq!(out.one(&fought), patch("2", X86_64, false));
    }
    let mut out = World { memory: world.memory.clone(), policy: Some(policy(json!([]))), ..World::new() };
    assert_eq!(out.one(&fought), SetDecision::NotSelected);
    out.policy = None;
    assert_eq!(out.one(&fought), patch("2", X86_64, false));
}

#[test]
fn a_stub_that_is_set_back_is_a_fight_too() {
    let mut world = World::new();
    let set = PolicySet { stub: StubOutcome::Changed { digest: "x".into() }, ..machine_set("a", "2") };
    for _ in 0..WRITES_MAX {
        assert_eq!(world.one(&set), SetDecision::Patch { reference: None, stub: true });
    }
    assert!(degraded(world.one(&set)).contains("its stub was set"));
}

#[test]
fn fifteen_tries_and_then_one_a_minute() {
    let mut world = World::new();
    let set = machine_set("a", "1");
    let mut last = SignedDuration::ZERO;
    for failure in 1..=40 {
        assert_eq!(world.one(&set), patch("2", X86_64, false), "{failure}: what failed was not written");
        world.memory.failed(&set.key, "the store is away", at(world.now));
        let decided = world.look(std::slice::from_ref(&set));
        let message = degraded(decided.decisions[&set.key].clone());
        assert!(message.contains("the store is away") && message.contains(&format!("({failure} tries)")), "{message}");
        let wait = decided.wake.unwrap().duration_since(at(world.now));
        assert!(
            wait >= last && wait > SignedDuration::ZERO && wait <= SignedDuration::from_mins(1),
            "{failure}: {wait}"
        );
        assert!(failure <= TRIES_WITH_BACKOFF || wait == SignedDuration::from_mins(1), "{failure}: {wait}");
        assert_eq!(wait, delay(failure));
        last = wait;
        world.now += 61;
    }
    // A set that is tried again is not well before it is changed.
    let decided = world.look(std::slice::from_ref(&set));
    assert_eq!(decided.decisions[&set.key], patch("2", X86_64, false));
    let condition = told(&decided, DEGRADED);
    assert_eq!(condition.status, ConditionStatus::True);
    assert!(condition.message.contains("(40 tries): the store is away; it is tried now"), "{}", condition.message);
    world.memory.failed(&set.key, "the store is away", at(world.now));
    // An aim that is new is tried at once.
    let decision = world.one(&PolicySet { stub: StubOutcome::Changed { digest: "x".into() }, ..set.clone() });
    assert_eq!(decision, patch("2", X86_64, true));
    world.memory.failed(&set.key, "again", at(world.now));
    assert_eq!(world.one(&machine_set("a", "2")), SetDecision::Done);
    assert_eq!(world.one(&set), patch("2", X86_64, false), "what came right is forgotten");
}

#[test]
fn failures_are_forgotten_when_a_set_is_well_and_not_before() {
    let mut world = World::new();
    let set = machine_set("a", "1");
    assert_eq!(world.one(&set), patch("2", X86_64, false));
    world.memory.failed(&set.key, "the store is away", at(world.now));
    let without_stub = PolicySet { stub: StubOutcome::Missing("worker-user-data".into()), ..set.clone() };
    assert!(degraded(world.one(&without_stub)).contains("worker-user-data"));
    assert!(degraded(world.one(&set)).contains("the store is away"), "it is not well yet");
    assert_eq!(world.one(&machine_set("a", "2")), SetDecision::Done);
    assert_eq!(world.one(&set), patch("2", X86_64, false), "at once");
}

#[test]
fn the_conditions_count_and_name_and_tell_the_trigger() {
    let mut owned = machine_set("owned", "1");
    owned.owners = vec!["MachineDeployment a".into()];
    let refused = PolicySet { stub: StubOutcome::Refused("no version".into()), ..group("refused") };
    let mut world = World { policy: Some(MachineConfiguration::default()), ..World::new() };
    world.policy.as_mut().unwrap().metadata.generation = 4;
    let sets = [
        owned,
        machine_set("done", "2"),
        machine_set("behind", "1"),
        refused,
        PolicySet { stub: StubOutcome::Missing("s".into()), ..group("missing") },
    ];
    let decided = world.look(&sets);
    let (progressing, degraded) = (told(&decided, PROGRESSING), told(&decided, DEGRADED));
    for condition in [&progressing, &degraded] {
        assert_eq!((condition.reason.as_str(), condition.observed_generation), ("MachineConfigurationChanged", 4));
        assert_eq!(condition.status, ConditionStatus::True);
    }
    for part in [
        "hostgroups.firesteel.dev: reconciled 0 of 2, 0 skipped",
        "machinesets.machine.openshift.io: reconciled 1 of 3, 1 skipped",
        "machinesets.cluster.x-k8s.io: reconciled 0 of 0, 0 skipped",
        "controlplanemachinesets.machine.openshift.io: reconciled 0 of 0, 0 skipped",
        "machinesets.machine.openshift.io/machines/owned (Owned: it belongs to MachineDeployment a",
    ] {
        assert!(progressing.message.contains(part), "{part}: {}", progressing.message);
    }
    assert!(degraded.message.starts_with("2 degraded: "), "{}", degraded.message);
    assert!(
        degraded.message.contains("no version") && degraded.message.contains("rack/missing"),
        "{}",
        degraded.message
    );
    let well = World::new().look(&[machine_set("done", "2")]);
    assert!(well.conditions.iter().all(|condition| condition.status == ConditionStatus::False));
}

#[test]
fn a_thousand_sets_fit_into_what_is_told() {
    let sets: Vec<PolicySet> = (0..2000)
        .map(|number| PolicySet { owners: vec!["A b".into()], ..machine_set(&format!("{number:060}"), "1") })
        .collect();
    let decided = World::new().look(&sets);
    let message = told(&decided, PROGRESSING).message;
    assert!(
        message.len() < 32 << 10 && message.contains("0 of 2000, 2000 skipped") && message.contains("and 1950 more")
    );
    assert_eq!(decided.skipped.len(), 500);
}

#[test]
fn sets_are_made_of_the_objects() {
    let group: HostGroup = serde_json::from_value(json!({
        "metadata": {"name": "a", "namespace": "b", "labels": {"x": "y"}, "ownerReferences": [{"kind": "Rack", "name": "r"}]},
        "spec": {"image": {"stream": "stable"}, "architecture": "arm64"},
        "status": {"golden": {"stream": "stable", "release": "1", "digest": "d", "url": "u"}},
    }))
    .unwrap();
    let set = PolicySet::of_group(&group, StubOutcome::Unchanged);
    assert_eq!(
        (set.key.to_string().as_str(), set.owners.as_slice()),
        ("hostgroups.firesteel.dev/b/a", &["Rack r".to_owned()][..])
    );
    assert_eq!(set.current, CurrentImage::Image { url: "u".into(), digest: "d".into() });
    assert_eq!((set.wants, set.architecture.as_str()), (SetIntent::Stream("stable".into()), "arm64"));
    let wants = |spec: Value| {
        PolicySet::of_group(&serde_json::from_value(json!({ "spec": spec })).unwrap(), StubOutcome::Unchanged).wants
    };
    assert_eq!(wants(json!({"image": {"stream": "a", "track": "pinned"}})), SetIntent::Pinned);
    assert_eq!(wants(json!({"image": {"url": "a"}})), SetIntent::Own);
    assert_eq!(wants(json!({"image": {"stream": "a"}, "restore": {"entry": 2}})), SetIntent::Restored(2));
    let metadata = ObjectMeta { name: "a".into(), namespace: "b".into(), ..ObjectMeta::default() };
    let template = json!({"spec": {"template": {"spec": {
        "providerSpec": {"value": {"image": {"url": "u", "checksum": "c"}}},
        "infrastructureRef": {"kind": "Metal3MachineTemplate", "name": "t"}}}, "authoritativeAPI": "ClusterAPI"}});
    let of = |kind| PolicySet::of_machine_set(kind, &metadata, &template, StubOutcome::Unchanged);
    assert_eq!(of(SetKind::MachineApiSet).current, CurrentImage::Image { url: "u".into(), digest: "c".into() });
    assert_eq!(of(SetKind::ClusterApiSet).current, CurrentImage::Elsewhere("Metal3MachineTemplate t".into()));
    assert!(of(SetKind::MachineApiSet).is_migrated && !of(SetKind::ClusterApiSet).is_migrated);
    for kind in SetKind::ALL {
        let key = SetKey::new(kind, "a", "b");
        assert_eq!(SetKey::try_from(key.to_string()), Ok(key));
    }
    assert!(SetKey::try_from("machinesets/a/b".to_owned()).is_err());
}

/// One edit of a fleet of sets.
#[derive(Clone, Debug)]
enum Edit {
    OptOut(usize, bool),
    Own(usize, bool),
    SetBack(usize),
    Custom(usize),
    Stub(usize, u8),
    Architecture(usize, Option<&'static str>),
    Release(bool),
    Withdraw,
    Policy(u8),
    Upgrade(bool),
    Mixed(bool),
    Fail(usize),
    Time(i64),
}

const SETS: usize = 4;

fn edit() -> impl Strategy<Value = Edit> {
    let set = || 0..SETS;
    prop_oneof![
        1 => (set(), any::<bool>()).prop_map(|(set, out)| Edit::OptOut(set, out)),
        1 => (set(), any::<bool>()).prop_map(|(set, owned)| Edit::Own(set, owned)),
        4 => set().prop_map(Edit::SetBack),
        1 => set().prop_map(Edit::Custom),
        1 => (set(), 0_u8..6).prop_map(|(set, stub)| Edit::Stub(set, stub)),
        1 => (set(), prop::sample::select(vec![None, Some("arm64"), Some("x86_64"), Some("vax")]))
            .prop_map(|(set, architecture)| Edit::Architecture(set, architecture)),
        1 => any::<bool>().prop_map(Edit::Release),
        1 => Just(Edit::Withdraw),
        1 => (0_u8..4).prop_map(Edit::Policy),
        1 => any::<bool>().prop_map(Edit::Upgrade),
        1 => any::<bool>().prop_map(Edit::Mixed),
        1 => set().prop_map(Edit::Fail),
        1 => (0_i64..90).prop_map(Edit::Time),
    ]
}

struct Model {
    world: World,
    sets: Vec<PolicySet>,
    entries: Vec<CatalogueImage>,
    releases: u32,
    /// Consecutive writes of one value, by set.
    written: BTreeMap<SetKey, (String, u32)>,
}

impl Model {
    fn new() -> Self {
        let entries = vec![entry("stable", "1", X86_64), entry("stable", "1", Aarch64)];
        let sets = vec![group("a"), group("b"), machine_set("c", "1"), machine_set("d", "1")];
        let catalogue = Catalogue::new(vec!["stable".into()], entries.clone(), Vec::new());
        let world = World { catalogue, ..World::new() };
        Self { world, sets, entries, releases: 1, written: BTreeMap::new() }
    }

    fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::OptOut(set, true) => {
                drop(self.sets[*set].labels.insert("firesteel.dev/managed-boot-images".into(), "false".into()));
            }
            Edit::OptOut(set, false) => self.sets[*set].labels.clear(),
            Edit::Own(set, owned) => self.sets[*set].owners = owned.then(|| "A b".to_owned()).into_iter().collect(),
            Edit::SetBack(set) => self.sets[*set].current = CurrentImage::from(&image("stable", "1", X86_64)),
            Edit::Custom(set) => {
                self.sets[*set].current = CurrentImage::Image { url: "http://own".into(), digest: "own".into() };
            }
            Edit::Stub(set, stub) => {
                self.sets[*set].stub = match stub {
                    0 => StubOutcome::NotReferenced,
                    1 => StubOutcome::Changed { digest: "x".into() },
                    2 => StubOutcome::Refused("r".into()),
                    3 => StubOutcome::Ignored,
                    4 => StubOutcome::Missing("s".into()),
                    _ => StubOutcome::Unchanged,
                };
            }
            Edit::Architecture(set, word) => {
                self.sets[*set].architecture = word.unwrap_or_default().into();
            }
            Edit::Release(stamped) => {
                self.releases += 1;
                for architecture in [X86_64, Aarch64] {
                    let new = entry("stable", &self.releases.to_string(), architecture);
                    self.entries.insert(0, CatalogueImage { is_stamped: *stamped, ..new });
                }
            }
            Edit::Withdraw => self.entries[..2].iter_mut().for_each(|entry| entry.is_withdrawn = true),
            Edit::Policy(which) => {
                let all =
                    |resource, group| json!({"resource": resource, "apiGroup": group, "selection": {"mode": "All"}});
                self.world.policy = match which {
                    0 => None,
                    1 => Some(policy(json!([]))),
                    2 => Some(policy(json!([all("hostgroups", "firesteel.dev")]))),
                    _ => Some(policy(json!([all("machinesets", "machine.openshift.io")]))),
                };
            }
            Edit::Upgrade(runs) => self.world.upgrade = runs.then(|| "an upgrade".to_owned()),
            Edit::Mixed(mixed) => {
                self.world.fleet = if *mixed { BTreeSet::from([X86_64, Aarch64]) } else { BTreeSet::from([X86_64]) };
            }
            Edit::Fail(set) => {
                let now = at(self.world.now);
                self.world.memory.failed(&self.sets[*set].key, "no", now);
                // It counts as not written; the model does not follow that, and begins anew.
                self.written.remove(&self.sets[*set].key);
            }
            Edit::Time(seconds) => self.world.now += seconds,
        }
        self.world.catalogue = Catalogue::new(vec!["stable".into()], self.entries.clone(), Vec::new());
    }

    fn look(&mut self) {
        let decided = self.world.look(&self.sets);
        assert_eq!(decided.decisions.len(), self.sets.len(), "each set has its decision");
        for set in &mut self.sets {
            let decision = &decided.decisions[&set.key];
            let is_out = set.labels.contains_key("firesteel.dev/managed-boot-images");
            match decision {
                SetDecision::Patch { reference, stub } => {
                    assert!(!is_out && set.owners.is_empty(), "never what is another's");
                    assert!(self.world.upgrade.is_none(), "never while an upgrade runs");
                    assert!(reference.is_some() || *stub, "never for nothing");
                    if let Some(image) = reference {
                        let entry = self.entries.iter().find(|entry| entry.image == *image).unwrap();
                        assert!(entry.is_stamped && !entry.is_withdrawn, "{image:?}");
                        if set.wants == SetIntent::SameStream {
                            assert!(!matches!(&set.current, CurrentImage::Image { digest, .. } if digest == "own"));
                        }
                        let written = self.written.entry(set.key.clone()).or_default();
                        if written.0 != image.digest {
                            *written = (image.digest.clone(), 0);
                        }
                        written.1 += 1;
                        assert!(written.1 <= WRITES_MAX, "the same value {} times", written.1);
                        set.current = CurrentImage::from(image);
                    }
                    if *stub {
                        set.stub = StubOutcome::Unchanged;
                    }
                }
                SetDecision::Skip(skip) => {
                    assert!(!skip.message.is_empty());
                    assert!(decided.skipped.iter().any(|named| named.name == set.key.name && !named.reason.is_empty()));
                }
                SetDecision::Degraded(why) | SetDecision::Wait(why) => assert!(!why.is_empty()),
                SetDecision::NotSelected | SetDecision::Done => {}
            }
            // Who is out, in either way, begins anew.
            if is_out || !set.owners.is_empty() || *decision == SetDecision::NotSelected {
                self.written.remove(&set.key);
            }
        }
        assert!(decided.wake.is_none_or(|wake| wake > at(self.world.now)), "never a busy loop");
    }
}

proptest! {
    #[test]
    fn some_things_never_happen_to_sets(edits in prop::collection::vec(edit(), 1..80)) {
        let mut model = Model::new();
        model.look();
        for edit in &edits {
            model.apply(edit);
            model.look();
        }
    }
}
