//! What is refused and what is told of the kinds that keep boot images current, as far as they are upstream's.

use firesteel_resources::condition::Condition;
use firesteel_resources::kinds::{MACHINE_API_SET, MACHINE_CONFIG, MACHINE_CONFIG_POOL, MACHINE_CONFIGURATION};
use firesteel_resources::machine_configuration::{
    BootImageVersion, ManagedBootImages, SkewEnforcement, SkewMode, SkippedBootImage, VersionMode,
};
use firesteel_resources::{MachineConfiguration, admit};
use serde_json::{Value, json};

use crate::fixture;

fn object(spec: Value) -> Value {
    json!({"apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration",
           "metadata": {"name": "cluster"}, "spec": spec})
}

/// The fields that are wrong, each once: what is too short may break a rule besides, and where rules could not speak a
/// cause of no field says so.
fn wrong(mut object: Value) -> Vec<String> {
    let admission = admit(&MACHINE_CONFIGURATION, &mut object, None);
    assert_eq!(admission.unknown_fields, Vec::<String>::new());
    let mut fields: Vec<String> = admission.causes.into_iter().map(|cause| cause.field).collect();
    fields.retain(|field| field != "<nil>");
    fields.dedup();
    fields
}

fn managers(list: Value) -> Value {
    object(json!({"managedBootImages": {"machineManagers": list}}))
}

fn manager(resource: &str, group: &str, selection: Value) -> Value {
    json!({"resource": resource, "apiGroup": group, "selection": selection})
}

const MACHINE_API: &str = "machine.openshift.io";
const FIRST: &str = "spec.managedBootImages.machineManagers[0]";

#[test]
fn partial_and_its_selector_go_together() {
    let one = |selection: Value| wrong(managers(json!([manager("machinesets", MACHINE_API, selection)])));
    let partial = json!({"machineResourceSelector": {"matchLabels": {"update": "yes"}}});
    let none = Vec::<String>::new();
    assert_eq!(one(json!({"mode": "All"})), none);
    assert_eq!(one(json!({"mode": "None"})), none);
    assert_eq!(one(json!({"mode": "Partial", "partial": partial})), none);
    let selection = [format!("{FIRST}.selection")];
    assert_eq!(one(json!({"mode": "Partial"})), selection);
    assert_eq!(one(json!({"mode": "All", "partial": partial})), selection);
    assert_eq!(one(json!({"mode": "None", "partial": partial})), selection);
    assert_eq!(one(json!({"mode": "Some"})), [format!("{FIRST}.selection.mode")]);
    assert_eq!(one(json!({})), [format!("{FIRST}.selection.mode")]);
    let required = [format!("{FIRST}.selection.partial.machineResourceSelector")];
    assert_eq!(one(json!({"mode": "Partial", "partial": {}})), required);
    let bad = json!({"machineResourceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}});
    assert_eq!(one(json!({"mode": "Partial", "partial": bad})), required);
}

#[test]
fn a_kind_of_set_is_named_once_and_there_are_five_at_most() {
    let all = || json!({"mode": "All"});
    let sets = manager("machinesets", MACHINE_API, all());
    let others = [
        manager("machinesets", "cluster.x-k8s.io", all()),
        manager("hostgroups", "firesteel.dev", all()),
        manager("controlplanemachinesets", MACHINE_API, all()),
    ];
    let list: Vec<Value> = [sets.clone()].into_iter().chain(others).collect();
    assert_eq!(wrong(managers(json!(list))), Vec::<String>::new(), "all that there are");
    assert_eq!(wrong(managers(json!([]))), Vec::<String>::new());
    assert_eq!(wrong(managers(json!([sets, sets]))), ["spec.managedBootImages.machineManagers[1]"]);
    let six = vec![sets; 6];
    assert!(wrong(managers(json!(six))).contains(&"spec.managedBootImages.machineManagers".to_owned()));
}

#[test]
fn a_kind_of_set_is_of_its_group() {
    for (resource, group, field) in [
        ("machinesets", MACHINE_API, None),
        ("machinesets", "cluster.x-k8s.io", None),
        ("hostgroups", "firesteel.dev", None),
        ("machinesets", "firesteel.dev", Some("apiGroup")),
        ("hostgroups", MACHINE_API, Some("apiGroup")),
        ("controlplanemachinesets", "cluster.x-k8s.io", Some("apiGroup")),
        ("machinesets", "apps", Some("apiGroup")),
        ("deployments", MACHINE_API, Some("resource")),
    ] {
        let found = wrong(managers(json!([manager(resource, group, json!({"mode": "All"}))])));
        let wanted: Vec<String> = field.map(|field| format!("{FIRST}.{field}")).into_iter().collect();
        assert_eq!(found, wanted, "{resource} {group}");
    }
    let partial = json!({"mode": "Partial", "partial": {"machineResourceSelector": {}}});
    assert_eq!(wrong(managers(json!([manager("controlplanemachinesets", MACHINE_API, partial)]))), [FIRST]);
    let mut other = object(json!({}));
    other["metadata"]["name"] = json!("second");
    assert_eq!(wrong(other), ["metadata.name"]);
}

#[test]
fn a_stated_version_is_the_one_that_its_mode_names() {
    let skew = |skew: Value| wrong(object(json!({"bootImageSkewEnforcement": skew})));
    let manual = |manual: Value| skew(json!({"mode": "Manual", "manual": manual}));
    let (field, path) = ("spec.bootImageSkewEnforcement", "spec.bootImageSkewEnforcement.manual");
    let none = Vec::<String>::new();
    assert_eq!(skew(json!({"mode": "None"})), none);
    assert_eq!(skew(json!({"mode": "Manual"})), [field]);
    assert_eq!(skew(json!({"mode": "Automatic"})), [format!("{field}.mode")]);
    for good in ["4.13.0", "4.20.100"] {
        assert_eq!(manual(json!({"mode": "OCPVersion", "ocpVersion": good})), none, "{good}");
    }
    for good in ["9.6.20250701-0", "48.84.202109241901-0", "418.94.202501221327-0"] {
        assert_eq!(manual(json!({"mode": "RHCOSVersion", "rhcosVersion": good})), none, "{good}");
    }
    assert!(
        skew(json!({"mode": "None", "manual": {"mode": "OCPVersion", "ocpVersion": "4.13.0"}})).contains(&field.into())
    );
    assert_eq!(manual(json!({"mode": "OCPVersion"})), [path]);
    assert!(manual(json!({"mode": "OCPVersion", "rhcosVersion": "9.6.20250701-0"})).contains(&path.into()));
    for bad in ["4.13", "4.13.x", "4.13.00000000", "v4.13.0"] {
        assert_eq!(manual(json!({"mode": "OCPVersion", "ocpVersion": bad})), [format!("{path}.ocpVersion")], "{bad}");
    }
    for bad in ["9.6.2025070112-0", "9.6.20250701", "9.6.20250701-x", "9.6.20250701-000000000"] {
        let found = manual(json!({"mode": "RHCOSVersion", "rhcosVersion": bad}));
        assert_eq!(found, [format!("{path}.rhcosVersion")], "{bad}");
    }
}

#[test]
fn who_gives_up_management_says_first_how_the_age_is_known() {
    let automatic = |spec: Value, effective: Value| {
        let mut object = object(spec);
        object["status"] = json!({
            "managedBootImagesStatus": effective,
            "bootImageSkewEnforcementStatus": {"mode": "Automatic", "automatic": {"rhcosVersion": "9.6.20250701-0"}},
        });
        wrong(object)
    };
    let sets = |mode: &str| json!({"machineManagers": [manager("machinesets", MACHINE_API, json!({"mode": mode}))]});
    assert_eq!(automatic(json!({}), sets("All")), Vec::<String>::new());
    assert_eq!(automatic(json!({"managedBootImages": sets("All")}), sets("All")), Vec::<String>::new());
    assert_eq!(automatic(json!({"managedBootImages": {"machineManagers": []}}), sets("All")), [""]);
    assert_eq!(automatic(json!({"managedBootImages": sets("None")}), sets("All")), [""]);
    assert_eq!(automatic(json!({}), sets("None")), [""]);
}

/// A status that did not have its own shape could not be stored.
#[test]
fn a_full_status_has_its_shape() {
    let mut configuration = MachineConfiguration::default();
    configuration.metadata.name = "cluster".into();
    let status = &mut configuration.status;
    status.observed_generation = 3;
    status.managed_boot_images_status = Some(ManagedBootImages::effective(None));
    let version = |mode| BootImageVersion { mode, rhcos_version: Some("9.6.20250701-0".into()), ocp_version: None };
    status.conditions = vec![Condition::new("BootImageUpdateProgressing", false, "Started", "m")];
    status.skipped_boot_images = vec![SkippedBootImage { name: "a".into(), ..SkippedBootImage::default() }];
    status.boot_image_memory = json!({"version": "1", "sets": {}});
    for skew in [
        SkewEnforcement { mode: SkewMode::Automatic, automatic: Some(version(None)), manual: None },
        SkewEnforcement { mode: SkewMode::Manual, automatic: None, manual: Some(version(Some(VersionMode::Rhcos))) },
        SkewEnforcement::default(),
    ] {
        configuration.status.boot_image_skew_enforcement_status = Some(skew);
        let mut object = serde_json::to_value(&configuration).unwrap();
        let admission = admit(&MACHINE_CONFIGURATION, &mut object, None);
        assert!(admission.causes.is_empty() && admission.unknown_fields.is_empty(), "{admission:?}");
        let read: MachineConfiguration = serde_json::from_value(object).unwrap();
        assert_eq!(read.status, configuration.status);
    }
}

#[test]
fn what_has_no_effect_is_told() {
    let warnings = |kind, spec: Value| {
        let mut object = json!({"metadata": {"name": "cluster"}, "spec": spec});
        let admission = admit(kind, &mut object, None);
        assert!(admission.causes.is_empty(), "{admission:?}");
        admission.warnings.into_iter().filter(|line| line.starts_with("spec.")).collect()
    };
    let named = |warnings: Vec<String>, fields: &[&str]| {
        let found: Vec<&str> = warnings.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(found, fields);
    };
    named(warnings(&MACHINE_CONFIGURATION, json!({"logLevel": "Normal", "managementState": "Managed"})), &[]);
    let idle = json!({
        "logLevel": "Debug", "managementState": "Unmanaged", "failedRevisionLimit": 3,
        "nodeDisruptionPolicy": {"files": [{"path": "/a", "actions": [{"type": "Reboot"}]}]},
    });
    named(
        warnings(&MACHINE_CONFIGURATION, idle),
        &["spec.nodeDisruptionPolicy", "spec.failedRevisionLimit", "spec.logLevel", "spec.managementState"],
    );
    let control_plane = manager("controlplanemachinesets", MACHINE_API, json!({"mode": "All"}));
    named(
        warnings(&MACHINE_CONFIGURATION, json!({"managedBootImages": {"machineManagers": [control_plane]}})),
        &[FIRST],
    );
    named(
        warnings(&MACHINE_CONFIG, json!({"kernelArguments": ["a"], "fips": false, "kernelType": "realtime"})),
        &["spec.kernelArguments", "spec.kernelType"],
    );
    named(
        warnings(&MACHINE_CONFIG_POOL, json!({"paused": false, "maxUnavailable": 1, "machineConfigSelector": {}})),
        &["spec.maxUnavailable"],
    );
    named(warnings(&MACHINE_API_SET, json!({"replicas": 2})), &["spec.replicas"]);
}

#[test]
fn node_disruption_follows_upstreams_rules() {
    let policy = |actions: Value| {
        wrong(object(json!({"nodeDisruptionPolicy": {"units": [{"name": "a.service", "actions": actions}]}})))
    };
    let path = "spec.nodeDisruptionPolicy.units[0].actions";
    let reload = |name: &str| json!([{"type": "Reload", "reload": {"serviceName": name}}]);
    assert_eq!(policy(reload("crio.service")), Vec::<String>::new());
    assert_eq!(policy(json!([{"type": "Reboot"}, {"type": "Drain"}])), [path]);
    assert_eq!(policy(json!([{"type": "Reload"}])), [format!("{path}[0]")]);
    assert_eq!(policy(json!([{"type": "Drain", "restart": {"serviceName": "a.service"}}])), [format!("{path}[0]")]);
    for bad in ["crio", "crio.exe", ".service", "a b.service"] {
        let found = policy(reload(bad));
        assert!(
            !found.is_empty() && found.iter().all(|field| *field == format!("{path}[0].reload.serviceName")),
            "{bad}"
        );
    }
}

#[test]
fn upstreams_own_pools_and_configs_are_taken() {
    for (file, kind) in
        [("master", &MACHINE_CONFIG_POOL), ("test-pool", &MACHINE_CONFIG_POOL), ("test-config", &MACHINE_CONFIG)]
    {
        let Some(text) = fixture(&format!("mco/server-testdata/{file}.yaml")) else { return };
        let mut object: Value = serde_saphyr::from_str(&text).unwrap();
        let admission = admit(kind, &mut object, None);
        assert!(admission.causes.is_empty() && admission.unknown_fields.is_empty(), "{file}: {admission:?}");
    }
    let mut pool = json!({"metadata": {"name": "a"}, "spec": {"osImageStream": {"name": "Rhel"}}});
    assert_eq!(admit(&MACHINE_CONFIG_POOL, &mut pool, None).causes[0].field, "spec.osImageStream.name");
}
