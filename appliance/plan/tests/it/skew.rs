//! How old boot images may be.

use std::collections::BTreeMap;

use firesteel_plan::{
    policy::{Decision, SetKey, SetKind, Skip, SkipReason},
    skew::{Decided, Minimum, Recorded, Rhel, Seen, Upgradeable, decide, ocp, rhcos},
};
use firesteel_resources::{
    machine_configuration::{KIND, ManagedBootImages, SkewEnforcement, SkewMode},
    shape::check,
};
use serde_json::{Value, json};

const OLD: &str = "48.84.202109241901-0";
const NEW: &str = "9.6.20250701-0";

fn key(name: &str) -> SetKey {
    SetKey::new(SetKind::HostGroup, "rack", name)
}

struct World {
    wanted: Option<SkewEnforcement>,
    effective: ManagedBootImages,
    sets: Vec<(&'static str, Decision, &'static str)>,
    recorded: Recorded,
}

impl World {
    fn new(sets: &[(&'static str, Decision, &'static str)]) -> Self {
        let effective = ManagedBootImages::effective(None);
        Self { wanted: None, effective, sets: sets.to_vec(), recorded: Recorded::default() }
    }

    fn look(&mut self) -> Decided {
        let decisions = self.sets.iter().map(|(name, decision, _)| (key(name), decision.clone())).collect();
        let known = self.sets.iter().filter(|(_, _, release)| !release.is_empty());
        let releases: BTreeMap<SetKey, String> =
            known.map(|(name, _, release)| (key(name), (*release).to_owned())).collect();
        let decided = decide(
            &Seen {
                wanted: self.wanted.as_ref(),
                effective: &self.effective,
                decisions: &decisions,
                releases: &releases,
                minimum: Minimum::default(),
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

fn skipped() -> Decision {
    Decision::Skip(Skip { reason: SkipReason::Owned, message: "m".into() })
}

fn refusal(decided: &Decided) -> &str {
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
    let mut world = World { wanted: wanted(json!({"mode": "None"})), ..World::new(&[("a", Decision::Done, OLD)]) };
    let decided = world.look();
    assert_eq!(decided.status.mode, SkewMode::None);
    assert!(matches!(decided.upgradeable, Upgradeable::NotChecked(_)));
    // Releases of a stream that has no minimum cannot be held against one.
    let decided = World::new(&[("a", Decision::Done, "44.20260705.3.0")]).look();
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
    let behind = Decision::Patch { reference: None, stub: true };
    let mut world = World::new(&[("a", behind.clone(), OLD), ("b", Decision::Done, NEW)]);
    let decided = world.look();
    let version = |decided: &Decided| decided.status.automatic.as_ref().unwrap().rhcos_version.clone().unwrap();
    assert_eq!((decided.status.mode, version(&decided).as_str()), (SkewMode::Automatic, OLD));
    let message = refusal(&decided);
    assert!(message.contains("hostgroups.firesteel.dev/rack/a at 48.84.202109241901-0"), "{message}");
    assert!(message.contains("4.13.0 (RHCOS 9.2)") && !message.contains("rack/b"), "{message}");
    world.sets = vec![("a", Decision::Done, NEW), ("b", Decision::Done, NEW)];
    let decided = world.look();
    assert_eq!(version(&decided), NEW);
    assert!(matches!(&decided.upgradeable, Upgradeable::Yes(message) if message.contains(NEW)));
    // One that is behind again, or wrong, takes nothing back.
    world.sets[0].1 = Decision::Degraded("x".into());
    assert_eq!(version(&world.look()), NEW);
    world.sets[0].1 = skipped();
    let decided = world.look();
    assert_eq!(version(&decided), OLD);
    assert!(refusal(&decided).contains("status.skippedBootImages"));
    // A deliberate exclusion is none.
    world.sets[0].1 = Decision::Skip(Skip { reason: SkipReason::OtherSystem, message: "m".into() });
    assert_eq!(version(&world.look()), NEW);
}

#[test]
fn where_not_all_is_managed_the_version_of_the_installation_counts() {
    let mut world = World::new(&[("a", Decision::Done, OLD)]);
    world.look();
    world.sets = vec![("a", Decision::Done, NEW)];
    assert_eq!(world.look().recorded.reached, NEW);
    world.effective = ManagedBootImages::effective(Some(&ManagedBootImages { machine_managers: Some(Vec::new()) }));
    let decided = world.look();
    assert_eq!(decided.status.mode, SkewMode::Manual);
    assert_eq!(decided.status.manual.as_ref().unwrap().rhcos_version.as_deref(), Some(OLD));
    assert!(refusal(&decided).contains("state their version"));
}
