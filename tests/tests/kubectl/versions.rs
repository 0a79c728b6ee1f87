//! Kinds in two versions: objects of Cluster API, written in one version and read in the other.

use serde_json::{Value, json};

use crate::client::{Kubectl, NEW, Watching, text, with};

const DEPRECATED: &str =
    "Warning: cluster.x-k8s.io/v1beta1 MachineSet is deprecated; use cluster.x-k8s.io/v1beta2 MachineSet";

const CLUSTER: &str = "
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: c1}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.244.0.0/16]}}
  infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3Cluster, name: c1}
";
const SET: &str = "
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineSet
metadata: {name: ms1}
spec:
  clusterName: c1
  replicas: 1
  deletePolicy: Newest
  selector: {matchLabels: {set: ms1}}
  template:
    metadata: {labels: {set: ms1}}
    spec:
      clusterName: c1
      version: v1.34.0
      nodeDrainTimeout: 10m
      bootstrap: {dataSecretName: s1}
      infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha9, kind: Metal3MachineTemplate, name: t1}
";

const V1BETA1: &str = "machinesets.v1beta1.cluster.x-k8s.io";
const V1BETA2: &str = "machinesets.v1beta2.cluster.x-k8s.io";

fn get(kubectl: &Kubectl, arguments: &[&str]) -> Value {
    serde_json::from_str(&kubectl.ok(&[&["get"], arguments, &["-o", "json"]].concat())).unwrap()
}

#[test]
fn kubectl_writes_in_one_version_and_reads_in_the_other() {
    with(NEW, both_versions);
}

fn both_versions(kubectl: &Kubectl) {
    kubectl.file("c1.yaml", CLUSTER);
    kubectl.file("ms1.yaml", SET);
    assert_eq!(kubectl.ok(&["apply", "-f", "c1.yaml"]), "cluster.cluster.x-k8s.io/c1 created\n");
    let applied = kubectl.output(&["apply", "-f", "ms1.yaml"]);
    let said = text(&applied.stderr);
    assert!(said.contains(DEPRECATED), "{said}");
    assert!(said.contains("MachineSet is accepted but not acted on"), "{said}");
    assert!(kubectl.ok(&["apply", "-f", "ms1.yaml"]).contains("machineset.cluster.x-k8s.io/ms1 unchanged"));

    let new = get(kubectl, &[V1BETA2, "ms1"]);
    let template = &new["spec"]["template"]["spec"];
    assert_eq!(new["apiVersion"], "cluster.x-k8s.io/v1beta2");
    assert_eq!(new["spec"]["deletion"], json!({ "order": "Newest" }));
    assert_eq!(template["deletion"], json!({ "nodeDrainTimeoutSeconds": 600 }));
    assert_eq!(template["version"], "v1.34.0");
    let group = json!({ "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3MachineTemplate", "name": "t1" });
    assert_eq!(template["infrastructureRef"], group);
    assert_eq!(new["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "c1");
    let old = get(kubectl, &[V1BETA1, "ms1"]);
    assert_eq!(old["spec"]["template"]["spec"]["nodeDrainTimeout"], "10m", "as it was written");
    let version = &old["spec"]["template"]["spec"]["infrastructureRef"]["apiVersion"];
    assert_eq!(version, "infrastructure.cluster.x-k8s.io/v1alpha9");
    // Without a version it is the preferred one, which says nothing of age.
    let preferred = kubectl.output(&["get", "ms", "ms1", "-o", "jsonpath={.apiVersion}"]);
    assert_eq!(text(&preferred.stdout), "cluster.x-k8s.io/v1beta2");
    assert_eq!(text(&preferred.stderr), "");

    let table = kubectl.ok(&["get", V1BETA2]);
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["NAME", "CLUSTER", "DESIRED", "CURRENT", "READY", "AVAILABLE", "UP-TO-DATE", "AGE", "VERSION"]);
    assert!(kubectl.ok(&["get", V1BETA1]).lines().next().unwrap().contains("REPLICAS"));
    assert!(kubectl.ok(&["get", "cluster-api", "-o", "name"]).contains("cluster.cluster.x-k8s.io/c1"));

    // A condition shows in a column that looks for it by its type.
    let condition = r#"{"status":{"conditions":[{"type":"Available","status":"True","reason":"Up","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    kubectl.ok(&["patch", "cl", "c1", "--subresource=status", "--type=merge", "-p", condition]);
    let row = kubectl.ok(&["get", "cl", "c1", "--no-headers"]);
    assert_eq!(row.split_whitespace().nth(1), Some("True"), "{row}");
    kubectl.ok(&["wait", "cl/c1", "--for=condition=Available", "--timeout=110s"]);

    // Applied in the old version, then by the server and in the new one.
    let mut goes_on = get(kubectl, &[V1BETA2, "ms1"]);
    goes_on["metadata"] = json!({ "name": "ms1" });
    goes_on["spec"]["template"]["spec"]["minReadySeconds"] = json!(5);
    goes_on.as_object_mut().unwrap().remove("status");
    kubectl.file("ms1-new.json", &goes_on.to_string());
    let applied = kubectl.ok(&["apply", "--server-side", "--force-conflicts", "-f", "ms1-new.json"]);
    assert_eq!(applied, "machineset.cluster.x-k8s.io/ms1 serverside-applied\n");
    assert_eq!(get(kubectl, &[V1BETA1, "ms1"])["spec"]["minReadySeconds"], 5);
    let entries = get(kubectl, &[V1BETA2, "ms1", "--show-managed-fields"])["metadata"]["managedFields"].clone();
    let mine = entries.as_array().unwrap().iter().find(|entry| entry["operation"] == "Apply").unwrap();
    assert_eq!(mine["apiVersion"], "cluster.x-k8s.io/v1beta2");

    kubectl.file("bad.yaml", &SET.replace("version: v1.34.0", "version: latest").replace("ms1", "ms2"));
    let refused = kubectl.fails(&["apply", "-f", "bad.yaml"]);
    assert!(
        refused.contains("spec.template.spec.version: Invalid value: \"vlatest\": must be a valid semantic version"),
        "{refused}"
    );
    kubectl.file("typo.yaml", &SET.replace("deletePolicy", "deletePolice").replace("ms1", "ms2"));
    let refused = kubectl.fails(&["apply", "-f", "typo.yaml"]);
    assert!(refused.contains("unknown field \"spec.deletePolice\""), "{refused}");
}

#[test]
fn kubectl_watches_in_one_version_what_is_written_in_the_other() {
    with(NEW, watch_both);
}

fn watch_both(kubectl: &Kubectl) {
    kubectl.file("ms1.yaml", SET);
    kubectl.ok(&["apply", "-f", "ms1.yaml"]);
    let path = "jsonpath={.apiVersion} {.spec.replicas} {.spec.deletion.order}{.spec.deletePolicy}{'\\n'}";
    let watch = |resource: &str| kubectl.running(&["get", resource, "-w", "-o", path]);
    let (mut old, mut new) = (watch(V1BETA1), watch(V1BETA2));
    // What is found out about the object is told as well; it changes nothing of these words.
    let mut told = |before: &str, after: &str| {
        let tells = |watching: &mut Watching, version: &str| {
            let line = |words: &str| format!("cluster.x-k8s.io/{version} {words}");
            let mut found = watching.line();
            while found == line(before) {
                found = watching.line();
            }
            assert_eq!(found, line(after));
        };
        tells(&mut old, "v1beta1");
        tells(&mut new, "v1beta2");
    };
    told("nothing", "1 Newest");
    let later = r#"{"spec":{"replicas":2,"deletion":{"order":"Oldest"}}}"#;
    kubectl.ok(&["patch", V1BETA2, "ms1", "--type=merge", "-p", later]);
    told("1 Newest", "2 Oldest");
    kubectl.ok(&["patch", V1BETA1, "ms1", "--type=merge", "-p", r#"{"spec":{"deletePolicy":"Random"}}"#]);
    told("2 Oldest", "2 Random");
}

#[test]
fn kubectl_explains_both_versions() {
    with(NEW, explain);
}

fn explain(kubectl: &Kubectl) {
    let explain = |version: &str, path: &str| {
        kubectl.ok(&["explain", &format!("--api-version=cluster.x-k8s.io/{version}"), path])
    };
    assert!(explain("v1beta1", "machineset.spec").contains("deletePolicy\t<string>"));
    let new = explain("v1beta2", "machineset.spec");
    assert!(new.contains("deletion\t<Object>") && !new.contains("deletePolicy"), "{new}");
    assert!(explain("v1beta2", "machine.spec.infrastructureRef").contains("apiGroup\t<string> -required-"));
    assert!(explain("v1beta1", "cluster.status.failureDomains").contains("<map[string]Object>"));
    let group: Value = serde_json::from_str(&kubectl.ok(&["get", "--raw", "/apis/cluster.x-k8s.io"])).unwrap();
    assert_eq!(group["preferredVersion"]["version"], "v1beta2");
    let definition = get(kubectl, &["crd", "machinesets.cluster.x-k8s.io"]);
    assert_eq!(definition["metadata"]["labels"]["cluster.x-k8s.io/v1beta2"], "v1beta2");
    assert_eq!(definition["spec"]["versions"][1]["deprecated"], true);
    assert_eq!(definition["status"]["storedVersions"], json!(["v1beta2"]));
}

/// The scale of a version in which the set is not stored.
#[test]
fn kubectl_scales_in_the_older_version() {
    with(NEW, |kubectl| {
        kubectl.file("ms1.yaml", SET);
        kubectl.ok(&["create", "-f", "ms1.yaml"]);
        let patch = |patch: &str| {
            kubectl.output(&["patch", V1BETA1, "ms1", "--subresource=scale", "--type=merge", "-p", patch])
        };
        let refused = text(&patch(r#"{"spec":{"replicas":-1}}"#).stderr);
        assert!(refused.contains(".spec.replicas: Invalid value: -1: should be a non-negative integer"), "{refused}");
        assert!(patch(r#"{"spec":{"replicas":5}}"#).status.success());
        assert_eq!(kubectl.field(&format!("{V1BETA2}/ms1"), ".spec.replicas"), "5");
    });
}
