//! Cluster API's kinds: from one version to the other and back, and what upstream's webhooks put in and
//! refuse.

use firesteel_kube::VersionConversion;
use firesteel_resources::kind::Kind;
use firesteel_resources::kinds::{
    CLUSTER, CLUSTER_V1BETA1, KINDS, MACHINE, MACHINE_SET, MACHINE_SET_V1BETA1, MACHINE_V1BETA1,
};
use firesteel_resources::{admit, shape};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::shapes;

const KEPT: &str = "cluster.x-k8s.io/conversion-data";
const OLDER: [&Kind; 3] = [&CLUSTER_V1BETA1, &MACHINE_V1BETA1, &MACHINE_SET_V1BETA1];

fn conversion(kind: &Kind) -> VersionConversion {
    let stored_as = kind.stored_as.unwrap();
    VersionConversion {
        to_stored: stored_as.conversion.to_stored,
        from_stored: stored_as.conversion.from_stored,
        annotation: stored_as.annotation,
        fits_stored: stored_as.fits_stored,
        fits: stored_as.fits,
    }
}

fn up(kind: &Kind, object: &Value) -> Value {
    conversion(kind).to_stored("cluster.x-k8s.io/v1beta2", object)
}

fn down(kind: &Kind, object: &Value) -> Value {
    conversion(kind).from_stored("cluster.x-k8s.io/v1beta1", object)
}

/// An object of a kind.
fn of(kind: &Kind, mut body: Value) -> Value {
    body["apiVersion"] = json!(kind.api_version());
    body["kind"] = json!(kind.kind);
    body["metadata"] = json!({ "name": "a", "namespace": "n" });
    body
}

/// Both forms of one object: neither needs anything besides.
fn same(kind: &Kind, old: Value, new: Value) {
    let (old, new) = (of(kind, old), of(kind.stored_as.unwrap().kind, new));
    assert_eq!(up(kind, &old), new, "from {old}");
    assert_eq!(down(kind, &new), old, "from {new}");
}

#[test]
fn a_machine_in_both_versions() {
    let old_condition = json!([{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    let new_condition = json!([{ "type": "Ready", "status": "True", "reason": "Up", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 3 }]);
    let reference =
        |kind: &str| json!({ "apiVersion": "x.cluster.x-k8s.io/v1beta1", "kind": kind, "name": "m", "namespace": "n" });
    let group = |kind: &str| json!({ "apiGroup": "x.cluster.x-k8s.io", "kind": kind, "name": "m" });
    same(
        &MACHINE_V1BETA1,
        json!({
            "spec": {
                "clusterName": "c", "bootstrap": { "configRef": reference("KubeadmConfig") },
                "infrastructureRef": reference("Metal3Machine"), "version": "v1.34.0",
                "nodeDrainTimeout": "10m0s", "nodeVolumeDetachTimeout": "1h0m0s", "nodeDeletionTimeout": "10s",
            },
            "status": {
                "bootstrapReady": true, "infrastructureReady": false, "conditions": old_condition,
                "failureReason": "r", "failureMessage": "m", "phase": "Running",
                "nodeRef": { "apiVersion": "v1", "kind": "Node", "name": "node-1" },
                "deletion": { "nodeDrainStartTime": "2026-01-01T00:00:00Z" },
                "v1beta2": { "conditions": new_condition },
            },
        }),
        json!({
            "spec": {
                "clusterName": "c", "bootstrap": { "configRef": group("KubeadmConfig") },
                "infrastructureRef": group("Metal3Machine"), "version": "v1.34.0",
                "deletion": {
                    "nodeDrainTimeoutSeconds": 600, "nodeVolumeDetachTimeoutSeconds": 3600,
                    "nodeDeletionTimeoutSeconds": 10,
                },
            },
            "status": {
                "initialization": { "bootstrapDataSecretCreated": true, "infrastructureProvisioned": false },
                "conditions": new_condition, "phase": "Running", "nodeRef": { "name": "node-1" },
                "deletion": { "nodeDrainStartTime": "2026-01-01T00:00:00Z" },
                "deprecated": { "v1beta1": { "conditions": old_condition, "failureReason": "r", "failureMessage": "m" } },
            },
        }),
    );
}

#[test]
fn a_machine_set_in_both_versions() {
    let counts = |ready: i64| json!({ "readyReplicas": ready, "availableReplicas": ready });
    let mut old_status = json!({ "replicas": 3, "selector": "a=b", "fullyLabeledReplicas": 3, "v1beta2": counts(2) });
    old_status["readyReplicas"] = json!(1);
    old_status["availableReplicas"] = json!(1);
    let mut deprecated = counts(1);
    deprecated["fullyLabeledReplicas"] = json!(3);
    let mut new_status = json!({ "replicas": 3, "selector": "a=b", "deprecated": { "v1beta1": deprecated } });
    new_status["readyReplicas"] = json!(2);
    new_status["availableReplicas"] = json!(2);
    same(
        &MACHINE_SET_V1BETA1,
        json!({
            "spec": {
                "clusterName": "c", "replicas": 3, "deletePolicy": "Newest", "minReadySeconds": 5,
                "machineNamingStrategy": { "template": "x-{{ .random }}" },
                "template": { "metadata": { "labels": { "a": "b" } }, "spec": {
                    "clusterName": "c", "bootstrap": { "dataSecretName": "s" }, "nodeDeletionTimeout": "10s",
                    "infrastructureRef": { "apiVersion": "x.io/v1beta1", "kind": "K", "name": "t", "namespace": "n" },
                } },
            },
            "status": old_status,
        }),
        json!({
            "spec": {
                "clusterName": "c", "replicas": 3, "deletion": { "order": "Newest" },
                "machineNaming": { "template": "x-{{ .random }}" },
                "template": { "metadata": { "labels": { "a": "b" } }, "spec": {
                    "clusterName": "c", "bootstrap": { "dataSecretName": "s" }, "minReadySeconds": 5,
                    "deletion": { "nodeDeletionTimeoutSeconds": 10 },
                    "infrastructureRef": { "apiGroup": "x.io", "kind": "K", "name": "t" },
                } },
            },
            "status": new_status,
        }),
    );
}

#[test]
fn a_cluster_in_both_versions() {
    let network = json!({ "apiServerPort": 6443, "pods": { "cidrBlocks": ["10.0.0.0/16"] }, "serviceDomain": "x" });
    let rolling = json!({ "maxSurge": 1, "maxUnavailable": "20%" });
    let mut old_rolling = rolling.clone();
    old_rolling["deletePolicy"] = json!("Oldest");
    let old_health = json!({
        "enable": true, "maxUnhealthy": "40%", "unhealthyRange": "[1-3]", "nodeStartupTimeout": "10m0s",
        "unhealthyConditions": [{ "type": "Ready", "status": "False", "timeout": "5m0s" }],
        "remediationTemplate": { "apiVersion": "x.io/v1", "kind": "R", "name": "r", "namespace": "n" },
    });
    let new_health = json!({
        "enabled": true,
        "checks": {
            "nodeStartupTimeoutSeconds": 600,
            "unhealthyNodeConditions": [{ "type": "Ready", "status": "False", "timeoutSeconds": 300 }],
        },
        "remediation": {
            "triggerIf": { "unhealthyLessThanOrEqualTo": "40%", "unhealthyInRange": "[1-3]" },
            "templateRef": { "apiVersion": "x.io/v1", "kind": "R", "name": "r" },
        },
    });
    let mut health_of_set = new_health.clone();
    health_of_set["remediation"]["maxInFlight"] = json!(2);
    same(
        &CLUSTER_V1BETA1,
        json!({
            "spec": {
                "paused": true, "clusterNetwork": network,
                "infrastructureRef": { "apiVersion": "x.io/v1beta1", "kind": "K", "name": "i", "namespace": "n" },
                "topology": {
                    "class": "quick", "classNamespace": "classes", "version": "v1.34.0",
                    "controlPlane": { "replicas": 3, "machineHealthCheck": old_health, "nodeDrainTimeout": "30s" },
                    "workers": { "machineDeployments": [{
                        "class": "w", "name": "md", "machineHealthCheck": old_health,
                        "strategy": { "type": "RollingUpdate", "rollingUpdate": old_rolling, "remediation": { "maxInFlight": 2 } },
                    }], "machinePools": [{ "class": "p", "name": "mp", "nodeDeletionTimeout": "10s" }] },
                },
            },
            "status": {
                "controlPlaneReady": true, "infrastructureReady": true, "phase": "Provisioned",
                "failureDomains": { "a": { "controlPlane": true }, "b": { "attributes": { "x": "y" } } },
                "v1beta2": { "workers": { "replicas": 3 } },
            },
        }),
        json!({
            "spec": {
                "paused": true, "clusterNetwork": network,
                "infrastructureRef": { "apiGroup": "x.io", "kind": "K", "name": "i" },
                "topology": {
                    "classRef": { "name": "quick", "namespace": "classes" }, "version": "v1.34.0",
                    "controlPlane": {
                        "replicas": 3, "healthCheck": new_health, "deletion": { "nodeDrainTimeoutSeconds": 30 },
                    },
                    "workers": { "machineDeployments": [{
                        "class": "w", "name": "md", "healthCheck": health_of_set, "deletion": { "order": "Oldest" },
                        "rollout": { "strategy": { "type": "RollingUpdate", "rollingUpdate": rolling } },
                    }], "machinePools": [{ "class": "p", "name": "mp", "deletion": { "nodeDeletionTimeoutSeconds": 10 } }] },
                },
            },
            "status": {
                "initialization": { "controlPlaneInitialized": true, "infrastructureProvisioned": true },
                "phase": "Provisioned", "workers": { "replicas": 3 },
                "failureDomains": [{ "name": "a", "controlPlane": true }, { "name": "b", "attributes": { "x": "y" } }],
            },
        }),
    );
}

/// What one version has alone stays while the other one is used.
#[test]
fn what_the_other_version_cannot_hold_is_kept_beside() {
    let reference = json!({ "apiVersion": "x.io/v1alpha9", "kind": "K", "name": "i", "uid": "u" });
    let old = of(&MACHINE_V1BETA1, json!({ "spec": { "infrastructureRef": reference, "nodeDrainTimeout": "90s" } }));
    let mut new = up(&MACHINE_V1BETA1, &old);
    assert_eq!(new["spec"]["infrastructureRef"], json!({ "apiGroup": "x.io", "kind": "K", "name": "i" }));
    assert!(new["metadata"]["annotations"][KEPT].is_string());
    // v1beta2 goes on with it: only what it changed is told anew.
    new["spec"]["deletion"]["nodeDrainTimeoutSeconds"] = json!(60);
    new["spec"]["minReadySeconds"] = json!(7);
    new["status"] = json!({ "phase": "Updating", "failureDomain": "f" });
    let back = down(&MACHINE_V1BETA1, &new);
    assert_eq!(back["spec"], json!({ "infrastructureRef": reference, "nodeDrainTimeout": "1m0s" }));
    assert_eq!(back["status"], json!({ "phase": "Running" }));
    let again = up(&MACHINE_V1BETA1, &back);
    assert_eq!((&again["spec"], &again["status"]), (&new["spec"], &new["status"]));
    // A whole other object does not become the first one by an annotation.
    let mut other = back.clone();
    other["spec"]["infrastructureRef"]["apiVersion"] = json!("y.io/v1");
    assert_eq!(up(&MACHINE_V1BETA1, &other)["spec"]["infrastructureRef"]["apiGroup"], "y.io");
    for junk in ["", "{", "[]", r#"{"spec":{"nonsense":1}}"#, r#"{"spec":{"deletion":7}}"#] {
        let mut spoilt = back.clone();
        spoilt["metadata"]["annotations"][KEPT] = json!(junk);
        let made = up(&MACHINE_V1BETA1, &spoilt);
        assert_eq!(made["spec"]["deletion"], json!({ "nodeDrainTimeoutSeconds": 60 }), "{junk}");
        assert!(made["spec"].get("nonsense").is_none(), "{junk}");
    }
}

/// As clients in Go write it: what is a struct there is always there, and v1beta2 has nothing of it.
#[test]
fn what_says_nothing_is_not_in_the_newer_version() {
    let old = of(
        &CLUSTER_V1BETA1,
        json!({
            "spec": {
                "clusterNetwork": { "pods": { "cidrBlocks": [] }, "services": {} },
                "controlPlaneEndpoint": { "host": "", "port": 0 },
                "infrastructureRef": { "apiVersion": "x.io/v1beta1", "kind": "K", "name": "i" },
                "topology": {
                    "class": "q", "version": "v1.34.0", "variables": [], "controlPlane": { "metadata": {} },
                    "workers": { "machineDeployments": [{ "class": "w", "name": "md", "metadata": {} }] },
                },
            },
            "status": {},
        }),
    );
    let mut new = up(&CLUSTER_V1BETA1, &old);
    let reference = json!({ "apiGroup": "x.io", "kind": "K", "name": "i" });
    let topology = json!({
        "classRef": { "name": "q" }, "version": "v1.34.0",
        "workers": { "machineDeployments": [{ "class": "w", "name": "md" }] },
    });
    assert_eq!(new["spec"], json!({ "infrastructureRef": reference, "topology": topology }));
    assert_eq!(new.get("status"), None);
    // Whoever goes on with it in the newer version is not told of faults that are none of his.
    assert_eq!(admit(&CLUSTER, &mut new, None).causes, Vec::new());
    assert_eq!(down(&CLUSTER_V1BETA1, &new), old);
}

/// The number of a kind, and an object of its shape.
fn any_of(shape: fn(&Kind) -> &'static shape::Shape) -> impl Strategy<Value = (usize, Value)> {
    (0..OLDER.len()).prop_flat_map(move |index| (Just(index), shapes::object(shape(OLDER[index]))))
}

fn stored(kind: &Kind) -> &'static Kind {
    kind.stored_as.unwrap().kind
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    #[test]
    fn an_object_of_v1beta1_comes_back_as_it_was((index, body) in any_of(|kind| kind.shape)) {
        let object = of(OLDER[index], body);
        let there = up(OLDER[index], &object);
        prop_assert_eq!(down(OLDER[index], &there), object);
    }

    #[test]
    fn an_object_of_v1beta2_comes_back_as_it_was((index, body) in any_of(|kind| stored(kind).shape)) {
        let object = of(stored(OLDER[index]), body);
        let there = down(OLDER[index], &object);
        prop_assert_eq!(up(OLDER[index], &there), object);
    }

    /// Nothing is where the other version has no field.
    #[test]
    fn a_converted_object_has_no_field_of_the_version_that_it_came_from(
        (index, body) in any_of(|kind| kind.shape)
    ) {
        let kind = OLDER[index];
        let there = up(kind, &of(kind, body));
        let mut conformed = there.clone();
        prop_assert_eq!(shape::conform(stored(kind).shape, &mut conformed), Vec::<String>::new());
        let mut bare = there;
        bare["metadata"]["annotations"] = Value::Null;
        let mut back = down(kind, &bare);
        prop_assert_eq!(shape::conform(kind.shape, &mut back), Vec::<String>::new());
    }

    #[test]
    fn no_object_makes_a_conversion_panic(body in "[\\[\\]{}:,\"a-c0-9]{0,40}") {
        let value: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        for kind in OLDER {
            for part in [json!({ "spec": value, "status": value }), json!({ "spec": { "topology": value, "bootstrap": value, "template": { "spec": value } } })] {
                up(kind, &of(kind, part.clone()));
                down(kind, &of(kind, part));
            }
        }
    }
}

fn machine() -> Value {
    of(
        &MACHINE,
        json!({ "spec": {
        "clusterName": "c", "bootstrap": { "dataSecretName": "s" },
        "infrastructureRef": { "apiGroup": "x.io", "kind": "K", "name": "i" },
    } }),
    )
}

fn machine_set() -> Value {
    let spec = machine()["spec"].clone();
    of(
        &MACHINE_SET,
        json!({ "spec": {
        "clusterName": "c", "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": spec },
    } }),
    )
}

fn cluster() -> Value {
    of(&CLUSTER, json!({ "spec": { "infrastructureRef": { "apiGroup": "x.io", "kind": "K", "name": "i" } } }))
}

#[test]
fn objects_are_completed_as_upstream_completes_them() {
    let mut new = machine();
    new["spec"]["version"] = json!("1.34.0");
    assert_eq!(admit(&MACHINE, &mut new, None).causes, Vec::new());
    assert_eq!(new["spec"]["deletion"], json!({ "nodeDeletionTimeoutSeconds": 10 }));
    assert_eq!(new["spec"]["version"], "v1.34.0");
    assert_eq!((MACHINE.labels)(&new), [("cluster.x-k8s.io/cluster-name", "c".to_owned())]);

    let mut set = machine_set();
    assert_eq!(admit(&MACHINE_SET, &mut set, None).causes, Vec::new());
    assert_eq!(set["spec"]["replicas"], 1);
    let mut bare = machine_set();
    bare["spec"]["selector"] = json!({});
    bare["spec"]["template"]["metadata"] = json!({});
    assert_eq!(admit(&MACHINE_SET, &mut bare, None).causes, Vec::new());
    let named = json!({ "cluster.x-k8s.io/set-name": "a" });
    assert_eq!(
        (&bare["spec"]["selector"]["matchLabels"], &bare["spec"]["template"]["metadata"]["labels"]),
        (&named, &named)
    );

    // The autoscaler's bounds, for a new set and for ones that were there.
    for (before, after) in [(None, 2), (Some(1), 2), (Some(3), 3), (Some(9), 5)] {
        let mut scaled = machine_set();
        scaled["metadata"]["annotations"] = json!({
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "2",
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5",
        });
        let old = before.map(|before: i64| {
            let mut old = machine_set();
            old["spec"]["replicas"] = json!(before);
            old
        });
        assert_eq!(admit(&MACHINE_SET, &mut scaled, old.as_ref()).causes, Vec::new());
        assert_eq!(scaled["spec"]["replicas"], after, "{before:?}");
    }
    let mut unnamed = of(
        &MACHINE_V1BETA1,
        json!({ "spec": {
        "clusterName": "c", "bootstrap": {}, "infrastructureRef": { "kind": "K", "name": "i" },
    } }),
    );
    assert_eq!(admit(&MACHINE_V1BETA1, &mut unnamed, None).causes, Vec::new());
    assert_eq!(unnamed["spec"]["infrastructureRef"]["namespace"], "n");
}

/// Changes an object at a path, and says what is then wrong with it.
fn causes(kind: &Kind, mut object: Value, path: &str, value: Value, old: Option<&Value>) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let (last, way) = parts.split_last().unwrap();
    let place = way.iter().fold(&mut object, |place, part| &mut place[*part]);
    place[*last] = value;
    let causes = admit(kind, &mut object, old).causes;
    causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn what_upstreams_webhooks_refuse_is_refused() {
    let taint = |key: &str| json!([{ "key": key, "effect": "NoSchedule", "propagation": "Always" }]);
    let old_set = down(&MACHINE_SET_V1BETA1, &machine_set());
    for (kind, object, path, value, found) in [
        (
            &MACHINE,
            machine(),
            "spec/bootstrap",
            json!({}),
            "spec.bootstrap: Required value: expected either spec.bootstrap.dataSecretName",
        ),
        (
            &MACHINE,
            machine(),
            "spec/version",
            json!("v1.34"),
            "spec.version: Invalid value: \"v1.34\": must be a valid semantic version",
        ),
        (
            &MACHINE,
            machine(),
            "spec/taints",
            taint("node.cluster.x-k8s.io/uninitialized"),
            "spec.taints[0].key: Invalid value",
        ),
        (
            &MACHINE,
            machine(),
            "spec/taints",
            taint("node.kubernetes.io/x"),
            "must not have the prefix node.kubernetes.io/",
        ),
        (
            &MACHINE,
            machine(),
            "spec/taints",
            taint("node-role.kubernetes.io/control-plane"),
            "not allowed for worker Machines",
        ),
        (&MACHINE, machine(), "spec/taints", taint("node.kubernetes.io/out-of-service"), ""),
        (&MACHINE, machine(), "spec/clusterName", json!(""), "spec.clusterName"),
        (
            &MACHINE_SET,
            machine_set(),
            "spec/selector",
            json!({ "matchLabels": { "a": "x" } }),
            "spec.template.metadata.labels: Invalid value: must match spec.selector \"a=x\"",
        ),
        (
            &MACHINE_SET,
            machine_set(),
            "spec/selector",
            json!({ "matchExpressions": [{ "key": "a", "operator": "Of" }] }),
            "spec.selector: Invalid value",
        ),
        (
            &MACHINE_SET,
            machine_set(),
            "spec/selector",
            json!({ "matchExpressions": [{ "key": "a", "operator": "Exists" }] }),
            "",
        ),
        (
            &MACHINE_SET,
            machine_set(),
            "spec/template/spec/clusterName",
            json!("d"),
            "spec.clusterName and spec.template.spec.clusterName must be set to the same value",
        ),
        (
            &MACHINE_SET,
            machine_set(),
            "spec/template/spec/bootstrap",
            json!({}),
            "spec.template.spec.bootstrap: Required value",
        ),
        (&MACHINE_SET, machine_set(), "spec/machineNaming", json!({ "template": "x" }), "{{ .random }} is missing"),
        (
            &MACHINE_SET,
            machine_set(),
            "spec/machineNaming",
            json!({ "template": "X{{ .random }}" }),
            "would not be valid Kubernetes object names",
        ),
        (
            &MACHINE_SET,
            machine_set(),
            "spec/machineNaming",
            json!({ "template": "{{ .machineSet.name }}-{{ .random }}" }),
            "",
        ),
        (
            &MACHINE_SET,
            machine_set(),
            "metadata/annotations",
            json!({ "machineset.cluster.x-k8s.io/skip-preflight-checks": "All, Some" }),
            "skipped preflight check(s) must be among",
        ),
        (
            &MACHINE_SET,
            machine_set(),
            "metadata/annotations",
            json!({ "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "x", "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "1" }),
            "must be a number",
        ),
        (
            &CLUSTER,
            cluster(),
            "spec",
            json!({ "paused": true }),
            "spec: Forbidden: one of spec.controlPlaneRef, spec.infrastructureRef or spec.topology must be set",
        ),
        (
            &CLUSTER,
            cluster(),
            "spec/clusterNetwork",
            json!({ "pods": { "cidrBlocks": ["10.0.0.0"] } }),
            "spec.clusterNetwork.pods.cidrBlocks[0]: Invalid value: \"10.0.0.0\": invalid CIDR address: 10.0.0.0",
        ),
        (&CLUSTER, cluster(), "metadata/name", json!("a".repeat(64)), "metadata.name: Invalid value"),
        (
            &CLUSTER,
            cluster(),
            "spec/topology",
            json!({ "classRef": { "name": "q" }, "version": "1.x" }),
            "spec.topology.version: Invalid value: \"v1.x\": version must be a valid semantic version",
        ),
        (
            &MACHINE_V1BETA1,
            of(&MACHINE_V1BETA1, json!({ "spec": { "clusterName": "c", "bootstrap": {}, "infrastructureRef": {} } })),
            "spec/nodeDrainTimeout",
            json!("soon"),
            "spec.nodeDrainTimeout: Invalid value: \"soon\": must be a duration",
        ),
        (
            &MACHINE_SET_V1BETA1,
            old_set.clone(),
            "spec/template/metadata/labels",
            json!({ "timeout": "long", "a": "b" }),
            "",
        ),
        (
            &MACHINE_SET,
            machine_set(),
            "spec/template/metadata",
            json!({ "labels": { "a": "b", "b c": "x y" } }),
            "spec.template.metadata.labels: Invalid value: \"b c\": name part must be",
        ),
        (
            &MACHINE_SET,
            machine_set(),
            "spec/template/metadata/annotations",
            json!({ "Example.com/good": "any text", "a/b/c": "" }),
            "spec.template.metadata.annotations: Invalid value: \"a/b/c\"",
        ),
        (
            &MACHINE_SET,
            machine_set(),
            "spec/selector",
            json!({ "matchExpressions": [{ "key": "a", "operator": "NotIn", "values": ["x y"] }] }),
            "spec.selector: Invalid value: values: Invalid value: \"x y\"",
        ),
        (&MACHINE, machine(), "spec/taints", taint(&"x".repeat(64)), "spec.taints[0].key: Invalid value"),
    ] {
        let text = causes(kind, object, path, value.clone(), None);
        assert!(if found.is_empty() { text.is_empty() } else { text.contains(found) }, "{path} = {value}: {text:?}");
    }
    let forbidden = "spec.clusterName: Forbidden: field is immutable";
    for (kind, object) in [(&MACHINE, machine()), (&MACHINE_SET, machine_set())] {
        let text = causes(kind, object.clone(), "spec/clusterName", json!("d"), Some(&object));
        assert!(text.contains(forbidden), "{text}");
    }
    let mut moved = cluster();
    moved["spec"]["controlPlaneRef"] = moved["spec"]["infrastructureRef"].clone();
    let text = causes(&CLUSTER, cluster(), "spec/paused", json!(true), Some(&moved));
    assert_eq!(text, "spec.controlPlaneRef: Forbidden: cannot be removed");
}

#[test]
fn what_a_topology_itself_says_wrong_is_refused() {
    let deployment = |more: Value| {
        let mut set = json!({ "class": "w", "name": "md" });
        set.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "workers": { "machineDeployments": [set] } })
    };
    let update = |update: Value| {
        deployment(json!({ "rollout": { "strategy": { "type": "RollingUpdate", "rollingUpdate": update } } }))
    };
    let annotated = json!({ "annotations": { "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "3" } });
    let set = "spec.topology.workers.machineDeployments[md]";
    for (topology, found) in [
        (
            json!({ "controlPlane": { "metadata": { "labels": { "a": "x y" } } } }),
            "spec.topology.controlPlane.metadata.labels: ",
        ),
        (deployment(json!({ "metadata": { "labels": { "timeout": "long" } } })), ""),
        (deployment(json!({ "metadata": { "annotations": { "a b": "" } } })), &format!("{set}.metadata.annotations: ")),
        (deployment(json!({ "metadata": annotated })), ""),
        (
            deployment(json!({ "metadata": annotated, "replicas": 2 })),
            &format!("{set}.replicas: Invalid value: 2: cannot be set"),
        ),
        (update(json!({ "maxSurge": "20%", "maxUnavailable": 0 })), ""),
        (update(json!({ "maxSurge": "some" })), &format!("{set}.rollout.strategy.rollingUpdate.maxSurge: ")),
        (update(json!({ "maxSurge": 0, "maxUnavailable": 0 })), "cannot both be 0"),
    ] {
        let mut whole = json!({ "classRef": { "name": "q" }, "version": "v1.34.0" });
        whole.as_object_mut().unwrap().extend(topology.as_object().unwrap().clone());
        let text = causes(&CLUSTER, cluster(), "spec/topology", whole, None);
        assert!(if found.is_empty() { text.is_empty() } else { text.contains(found) }, "{topology}: {text:?}");
    }
    let mut managed = cluster();
    managed["spec"]["topology"] = json!({ "classRef": { "name": "q" }, "version": "v1.34.0" });
    for (value, found) in [("1", ""), ("0", "value cannot be less than 1"), ("all", "could not parse")] {
        let annotations = json!({ "topology.cluster.x-k8s.io/upgrade-concurrency": value });
        let text = causes(&CLUSTER, managed.clone(), "metadata/annotations", annotations, None);
        assert!(if found.is_empty() { text.is_empty() } else { text.contains(found) }, "{value}: {text:?}");
    }
}

#[test]
fn a_condition_that_a_health_check_makes_itself_is_none_to_check() {
    let check = json!({ "checks": { "unhealthyMachineConditions": [{ "type": "Available", "status": "False", "timeoutSeconds": 1 }] } });
    let topology =
        json!({ "classRef": { "name": "q" }, "version": "v1.34.0", "controlPlane": { "healthCheck": check } });
    let text = causes(&CLUSTER, cluster(), "spec/topology", topology, None);
    assert!(text.contains("type must not be one of: Ready, Available, HealthCheckSucceeded"), "{text}");
}

#[test]
fn it_is_said_that_nothing_comes_of_them() {
    for kind in KINDS.iter().filter(|kind| kind.group == "cluster.x-k8s.io") {
        assert!(kind.without_controller.is_some(), "{}", kind.kind);
    }
    let mut object = cluster();
    object["spec"]["topology"] = json!({ "classRef": { "name": "q" }, "version": "v1.34.0" });
    let warnings = admit(&CLUSTER, &mut object, None).warnings;
    assert!(warnings.iter().any(|warning| warning.starts_with("Cluster is accepted but not acted on")), "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.starts_with("spec.topology has no effect")), "{warnings:?}");
}
