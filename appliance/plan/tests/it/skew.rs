//! How old boot images may be.

use std::collections::BTreeMap;

use firesteel_plan::policy::{SetDecision, SetKey, SetKind, SkipReason, SkippedSet};
use firesteel_plan::skew::{
    MinimumVersions, Recorded, Rhel, SkewDecision, SkewInputs, Upgradeable, decide, ocp, rhcos,
};
use firesteel_resources::machine_configuration::{KIND, ManagedBootImages, SkewEnforcement, SkewMode};
use firesteel_resources::shape::check;
use serde_json::{Value, json};

const OLD: &str = "48.84.202109241901-0";
const NEW: &str = "9.6.20250701-0";

fn key(name: &str) -> SetKey {
    SetKey::new(SetKind::HostGroup, "rack", name)
}

struct World {
    wanted: Option<SkewEnforcement>,
    effective: ManagedBootImages,
    sets: Vec<(&'static str, SetDecision, &'static str)>,
    recorded: Recorded,
    minimum: MinimumVersions,
    /// A set of Cluster API.
    of_cluster_api: Option<SetDecision>,
}

impl World {
    fn new(sets: &[(&'static str, SetDecision, &'static str)]) -> Self {
        let effective = ManagedBootImages::effective(None);
        Self {
            wanted: None,
            effective,
            sets: sets.to_vec(),
            recorded: Recorded::default(),
            minimum: MinimumVersions::default(),
            of_cluster_api: None,
        }
    }

    fn look(&mut self) -> SkewDecision {
        let own = self.sets.iter().map(|(name, decision, _)| (key(name), decision.clone()));
        let of_cluster_api = self.of_cluster_api.clone();
        let others =
            of_cluster_api.map(|decision| (SetKey::new(SetKind::ClusterApiSet, "machines", "workers"), decision));
        let decisions = own.chain(others).collect();
        let known = self.sets.iter().filter(|(_, _, release)| !release.is_empty());
        let releases: BTreeMap<SetKey, String> =
            known.map(|(name, _, release)| (key(name), (*release).to_owned())).collect();
        let decided = decide(
            &SkewInputs {
                wanted: self.wanted.as_ref(),
                effective: &self.effective,
                decisions: &decisions,
                releases: &releases,
                minimum: self.minimum,
            },
            &self.recorded,
        );
        self.recorded = decided.recorded.clone();
        decided
    }
}

fn wanted(value: Value) -> Option<SkewEnforcement> {
    Some(serde_json::from_value(value).unwrap())
}

fn skipped() -> SetDecision {
    SetDecision::Skip(SkippedSet { reason: SkipReason::Owned, message: "m".into() })
}

fn refusal(decided: &SkewDecision) -> &str {
    match &decided.upgradeable {
        Upgradeable::No(message) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn versions_are_read_in_both_styles() {
    let rhel = |major, minor| Some(Rhel { major, minor });
    for (release, version) in [
        (OLD, rhel(8, 4)),
        ("418.94.202501221327-0", rhel(9, 4)),
        ("410.84.202210061459-0", rhel(8, 4)),
        ("20.810.202601010101-3", rhel(8, 10)),
        ("420.810.202601010101-3", None),
        (NEW, rhel(9, 6)),
        ("9.10.20270101-12", rhel(9, 10)),
        ("44.20260705.3.0", None),
        ("9.6.2025070-0", None),
        ("9.6.20250701", None),
        ("9.6.20250701-", None),
        ("9.x.20250701-0", None),
        ("48.8.202109241901-0", None),
        ("", None),
        ("99999999999.6.20250701-0", None),
        ("9.6.20250701-012345678", None),
        ("9.6.20250701-01234567", rhel(9, 6)),
        ("+9.6.20250701-0", None),
        ("9.6.20250701.5-0", None),
        ("9.6.2025070x-0", None),
        ("9.6.20250701-x", None),
        ("48..202109241901-0", None),
        ("48.é4.202109241901-0", None),
    ] {
        assert_eq!(rhcos(release), version, "{release}");
        // What is told of a version must be storable: a status that is refused would stop all.
        let status = json!({"bootImageSkewEnforcementStatus":
            {"mode": "Automatic", "automatic": {"rhcosVersion": release}}});
        let object = json!({"metadata": {"name": "cluster"}, "spec": {}, "status": status});
        let causes = check(KIND.shape, &object, None);
        let is_refused = causes.iter().any(|cause| cause.field.contains("rhcosVersion"));
        assert!(version.is_none() || !is_refused, "{release}: {causes:?}");
    }
    assert!(rhcos("9.10.20270101-0") > rhcos("9.6.20250701-0"), "numbers, not letters");
    assert_eq!(ocp("4.13.0"), Some([4, 13, 0]));
    for bad in ["", "4", "4.13", "4.13.0.1", "4.13.x"] {
        assert_eq!(ocp(bad), None, "{bad}");
    }
}

#[test]
fn none_is_no_check() {
    let mut world = World { wanted: wanted(json!({"mode": "None"})), ..World::new(&[("a", SetDecision::Done, OLD)]) };
    let decided = world.look();
    assert_eq!(decided.status.mode, SkewMode::None);
    assert!(matches!(decided.upgradeable, Upgradeable::NotChecked(_)));
    // Releases of a stream that has no minimum cannot be held against one.
    let decided = World::new(&[("a", SetDecision::Done, "44.20260705.3.0")]).look();
    assert!(decided.status.mode == SkewMode::None && matches!(decided.upgradeable, Upgradeable::NotChecked(_)));
}

#[test]
fn a_person_states_a_version_that_is_held_against_the_minimum() {
    let manual = |manual: Value| {
        let mut world = World { wanted: wanted(json!({"mode": "Manual", "manual": manual})), ..World::new(&[]) };
        let decided = world.look();
        assert_eq!(decided.status.mode, SkewMode::Manual);
        decided
    };
    for version in ["4.12.99", "3.99.0"] {
        let decided = manual(json!({"mode": "OCPVersion", "ocpVersion": version}));
        assert!(refusal(&decided).contains(version) && refusal(&decided).contains("4.13.0 (RHCOS 9.2)"));
    }
    assert!(refusal(&manual(json!({"mode": "RHCOSVersion", "rhcosVersion": OLD}))).contains(OLD));
    for good in [
        json!({"mode": "OCPVersion", "ocpVersion": "4.13.0"}),
        json!({"mode": "RHCOSVersion", "rhcosVersion": NEW}),
        json!({"mode": "RHCOSVersion", "rhcosVersion": "413.92.202305021736-0"}),
    ] {
        assert!(matches!(manual(good).upgradeable, Upgradeable::Yes(_)));
    }
}

#[test]
fn automatically_the_version_advances_when_all_are_done_and_goes_back_for_a_skip() {
    let behind = SetDecision::Patch { reference: None, stub: true };
    let mut world = World::new(&[("a", behind.clone(), OLD), ("b", SetDecision::Done, NEW)]);
    let decided = world.look();
    let version = |decided: &SkewDecision| decided.status.automatic.as_ref().unwrap().rhcos_version.clone().unwrap();
    assert_eq!((decided.status.mode, version(&decided).as_str()), (SkewMode::Automatic, OLD));
    let message = refusal(&decided);
    assert!(message.contains("hostgroups.firesteel.dev/rack/a at 48.84.202109241901-0"), "{message}");
    assert!(message.contains("4.13.0 (RHCOS 9.2)") && !message.contains("rack/b"), "{message}");
    world.sets = vec![("a", SetDecision::Done, NEW), ("b", SetDecision::Done, NEW)];
    let decided = world.look();
    assert_eq!(version(&decided), NEW);
    assert!(matches!(&decided.upgradeable, Upgradeable::Yes(message) if message.contains(NEW)));
    // One that is behind again, or wrong, takes nothing back.
    world.sets[0].1 = SetDecision::Degraded("x".into());
    assert_eq!(version(&world.look()), NEW);
    world.sets[0].1 = skipped();
    let decided = world.look();
    assert_eq!(version(&decided), OLD);
    assert!(refusal(&decided).contains("status.skippedBootImages"));
    // A deliberate exclusion is none.
    world.sets[0].1 = SetDecision::Skip(SkippedSet { reason: SkipReason::OtherSystem, message: "m".into() });
    assert_eq!(version(&world.look()), NEW);
}

/// Its image stands in a template of a kind that is not here: nobody could ever bring the version on again.
#[test]
fn a_set_of_cluster_api_pins_no_version() {
    for reason in [SkipReason::TemplateNotHere, SkipReason::Owned, SkipReason::OptedOut] {
        let mut world = World::new(&[("a", SetDecision::Done, OLD)]);
        world.of_cluster_api = Some(SetDecision::Skip(SkippedSet { reason, message: "m".into() }));
        assert_eq!(world.look().recorded.reached, OLD);
        world.sets = vec![("a", SetDecision::Done, NEW)];
        let decided = world.look();
        assert_eq!(decided.recorded.reached, NEW);
        assert!(matches!(decided.upgradeable, Upgradeable::Yes(_)), "{:?}", decided.upgradeable);
        // Whether such sets are selected or not: what is managed is all that can be.
        let all = ManagedBootImages::effective(None).machine_managers.unwrap();
        let ours = all.into_iter().filter(|manager| manager.api_group != "cluster.x-k8s.io").collect();
        world.effective = ManagedBootImages::effective(Some(&ManagedBootImages { machine_managers: Some(ours) }));
        assert_eq!(world.look().status.mode, SkewMode::Automatic);
    }
}

#[test]
fn the_minimum_is_the_operators_to_set() {
    let of = |text: &str| text.parse::<MinimumVersions>();
    let default = MinimumVersions::default();
    for (text, minimum) in [
        ("4.16.1", MinimumVersions { ocp: [4, 16, 1], ..default }),
        ("9.4", MinimumVersions { rhcos: Rhel { major: 9, minor: 4 }, ..default }),
        (NEW, MinimumVersions { rhcos: Rhel { major: 9, minor: 6 }, ..default }),
        (OLD, MinimumVersions { rhcos: Rhel { major: 8, minor: 4 }, ..default }),
        ("4.16.1, 9.4", MinimumVersions { ocp: [4, 16, 1], rhcos: Rhel { major: 9, minor: 4 } }),
    ] {
        assert_eq!(of(text), Ok(minimum), "{text}");
        assert_eq!(of(&String::from(minimum)), Ok(minimum), "{text}");
    }
    for bad in ["", "4", "4.16", "4.16.x", "v4.16.0", "9.4,", "44.20260705.3.0", "9.4.1.2"] {
        assert!(of(bad).is_err_and(|error| error.to_string().contains("such as 4.13.0")), "{bad}");
    }
    for twice in ["4.16.0,4.17.0", "9.4,9.6"] {
        assert!(of(twice).is_err_and(|error| error.to_string().contains("give one")), "{twice}");
    }
    // It decides, whoever states the version.
    let mut world = World { minimum: of("9.8").unwrap(), ..World::new(&[("a", SetDecision::Done, NEW)]) };
    assert!(refusal(&world.look()).contains("4.13.0 (RHCOS 9.8)"));
    world.minimum = of("9.6").unwrap();
    assert!(matches!(world.look().upgradeable, Upgradeable::Yes(_)), "the minimum itself is no older");
    world.wanted = wanted(json!({"mode": "Manual", "manual": {"mode": "OCPVersion", "ocpVersion": "4.16.0"}}));
    assert!(matches!(world.look().upgradeable, Upgradeable::Yes(_)));
    world.minimum = of("4.17.0").unwrap();
    assert!(refusal(&world.look()).contains("4.17.0 (RHCOS 9.2)"));
}

#[test]
fn where_not_all_is_managed_the_version_of_the_installation_counts() {
    let mut world = World::new(&[("a", SetDecision::Done, OLD)]);
    world.look();
    world.sets = vec![("a", SetDecision::Done, NEW)];
    assert_eq!(world.look().recorded.reached, NEW);
    world.effective = ManagedBootImages::effective(Some(&ManagedBootImages { machine_managers: Some(Vec::new()) }));
    let decided = world.look();
    assert_eq!(decided.status.mode, SkewMode::Manual);
    assert_eq!(decided.status.manual.as_ref().unwrap().rhcos_version.as_deref(), Some(OLD));
    assert!(refusal(&decided).contains("state their version"));
}
