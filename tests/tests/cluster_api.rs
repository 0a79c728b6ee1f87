//! Cluster API's kinds in a real `firesteel serve --api-only`, by the real kubectl: one object in two
//! versions, and the number of machines of a set.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use firesteel_tests::appliance::Appliance;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
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

struct Kubectl {
    appliance: Appliance,
}

impl Kubectl {
    fn new() -> Option<Self> {
        if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
            println!("skipped: no kubectl here; `./qemu/lab test` fetches it");
            return None;
        }
        Some(Self { appliance: Appliance::start(PROGRAM) })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.env("KUBECONFIG", self.appliance.kubeconfig()).env("HOME", self.appliance.folder());
        command.current_dir(self.appliance.folder()).args(arguments);
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(!output.status.success(), "kubectl {arguments:?} should fail");
        String::from_utf8(output.stderr).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["-o", "json"]].concat())).unwrap()
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.appliance.folder().join(name), text).unwrap();
    }
}

const OLD: &str = "machinesets.v1beta1.cluster.x-k8s.io";
const NEW: &str = "machinesets.v1beta2.cluster.x-k8s.io";

#[test]
fn a_set_is_written_in_one_version_and_read_in_the_other() {
    let Some(kubectl) = Kubectl::new() else { return };
    kubectl.file("c1.yaml", CLUSTER);
    kubectl.file("ms1.yaml", SET);
    assert_eq!(kubectl.ok(&["apply", "-f", "c1.yaml"]), "cluster.cluster.x-k8s.io/c1 created\n");
    let applied = kubectl.output(&["apply", "-f", "ms1.yaml"]);
    let said = String::from_utf8_lossy(&applied.stderr);
    assert!(said.contains(DEPRECATED), "{said}");
    assert!(said.contains("MachineSet is accepted but not acted on"), "{said}");
    assert!(kubectl.ok(&["apply", "-f", "ms1.yaml"]).contains("machineset.cluster.x-k8s.io/ms1 unchanged"));

    let new = kubectl.json(&["get", NEW, "ms1"]);
    let template = &new["spec"]["template"]["spec"];
    assert_eq!(new["apiVersion"], "cluster.x-k8s.io/v1beta2");
    assert_eq!(new["spec"]["deletion"], json!({ "order": "Newest" }));
    assert_eq!(template["deletion"], json!({ "nodeDrainTimeoutSeconds": 600 }));
    assert_eq!(template["version"], "v1.34.0");
    let group = json!({ "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3MachineTemplate", "name": "t1" });
    assert_eq!(template["infrastructureRef"], group);
    assert_eq!(new["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "c1");
    let old = kubectl.json(&["get", OLD, "ms1"]);
    assert_eq!(old["spec"]["template"]["spec"]["nodeDrainTimeout"], "10m", "as it was written");
    let version = &old["spec"]["template"]["spec"]["infrastructureRef"]["apiVersion"];
    assert_eq!(version, "infrastructure.cluster.x-k8s.io/v1alpha9");
    // Without a version it is the preferred one, which says nothing of age.
    let preferred = kubectl.output(&["get", "ms", "ms1", "-o", "jsonpath={.apiVersion}"]);
    assert_eq!(String::from_utf8_lossy(&preferred.stdout), "cluster.x-k8s.io/v1beta2");
    assert_eq!(String::from_utf8_lossy(&preferred.stderr), "");

    let table = kubectl.ok(&["get", NEW]);
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["NAME", "CLUSTER", "DESIRED", "CURRENT", "READY", "AVAILABLE", "UP-TO-DATE", "AGE", "VERSION"]);
    assert!(kubectl.ok(&["get", OLD]).lines().next().unwrap().contains("REPLICAS"));
    assert!(kubectl.ok(&["get", "cluster-api", "-o", "name"]).contains("cluster.cluster.x-k8s.io/c1"));

    // A condition shows in a column that looks for it by its type.
    let condition = r#"{"status":{"conditions":[{"type":"Available","status":"True","reason":"Up","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    kubectl.ok(&["patch", "cl", "c1", "--subresource=status", "--type=merge", "-p", condition]);
    let row = kubectl.ok(&["get", "cl", "c1", "--no-headers"]);
    assert_eq!(row.split_whitespace().nth(1), Some("True"), "{row}");
    kubectl.ok(&["wait", "cl/c1", "--for=condition=Available", "--timeout=10s"]);

    // Applied in the old version, then by the server and in the new one.
    let mut goes_on = kubectl.json(&["get", NEW, "ms1"]);
    goes_on["metadata"] = json!({ "name": "ms1" });
    goes_on["spec"]["template"]["spec"]["minReadySeconds"] = json!(5);
    goes_on.as_object_mut().unwrap().remove("status");
    kubectl.file("ms1-new.json", &goes_on.to_string());
    let applied = kubectl.ok(&["apply", "--server-side", "--force-conflicts", "-f", "ms1-new.json"]);
    assert_eq!(applied, "machineset.cluster.x-k8s.io/ms1 serverside-applied\n");
    assert_eq!(kubectl.json(&["get", OLD, "ms1"])["spec"]["minReadySeconds"], 5);
    let entries = kubectl.json(&["get", NEW, "ms1", "--show-managed-fields"])["metadata"]["managedFields"].clone();
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
fn a_watch_of_one_version_tells_what_is_written_in_the_other() {
    let Some(kubectl) = Kubectl::new() else { return };
    kubectl.file("ms1.yaml", SET);
    kubectl.ok(&["apply", "-f", "ms1.yaml"]);
    let path = "jsonpath={.apiVersion} {.spec.replicas} {.spec.deletion.order}{.spec.deletePolicy}{'\\n'}";
    let watch = |resource: &str| {
        let mut child = kubectl.command(&["get", resource, "-w", "-o", path]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    let (mut old, mut old_lines) = watch(OLD);
    let (mut new, mut new_lines) = watch(NEW);
    // What is found out about the object is told as well; it changes nothing of these words.
    let mut told = |before: &str, after: &str| {
        for (version, lines) in [("v1beta1", &mut old_lines), ("v1beta2", &mut new_lines)] {
            let line = |words: &str| format!("cluster.x-k8s.io/{version} {words}");
            let found = lines.map(Result::unwrap).find(|found| *found != line(before));
            assert_eq!(found, Some(line(after)));
        }
    };
    told("nothing", "1 Newest");
    kubectl.ok(&[
        "patch",
        NEW,
        "ms1",
        "--type=merge",
        "-p",
        r#"{"spec":{"replicas":2,"deletion":{"order":"Oldest"}}}"#,
    ]);
    told("1 Newest", "2 Oldest");
    kubectl.ok(&["patch", OLD, "ms1", "--type=merge", "-p", r#"{"spec":{"deletePolicy":"Random"}}"#]);
    told("2 Oldest", "2 Random");
    for child in [&mut old, &mut new] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn both_versions_are_explained() {
    let Some(kubectl) = Kubectl::new() else { return };
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
    let definition = kubectl.json(&["get", "crd", "machinesets.cluster.x-k8s.io"]);
    assert_eq!(definition["metadata"]["labels"]["cluster.x-k8s.io/v1beta2"], "v1beta2");
    assert_eq!(definition["spec"]["versions"][1]["deprecated"], true);
    assert_eq!(definition["status"]["storedVersions"], json!(["v1beta2"]));
}

#[test]
fn kubectl_scales_a_set() {
    let Some(kubectl) = Kubectl::new() else { return };
    kubectl.file("ms1.yaml", SET);
    kubectl.ok(&["create", "-f", "ms1.yaml"]);
    let replicas = || kubectl.ok(&["get", "ms", "ms1", "-o", "jsonpath={.spec.replicas}"]);
    assert_eq!(kubectl.ok(&["scale", "machineset", "ms1", "--replicas=3"]), "machineset.cluster.x-k8s.io/ms1 scaled\n");
    assert_eq!(replicas(), "3");
    let scale = ["scale", "ms", "ms1", "--current-replicas=3", "--replicas=5"];
    assert_eq!(kubectl.ok(&scale), "machineset.cluster.x-k8s.io/ms1 scaled\n");
    assert_eq!(replicas(), "5");
    let refused = kubectl.fails(&scale);
    assert!(refused.contains("Expected replicas to be 3, was 5"), "{refused}");
    let shown = kubectl.json(&["get", "ms", "ms1", "--subresource=scale"]);
    assert_eq!((&shown["kind"], &shown["spec"]["replicas"]), (&json!("Scale"), &json!(5)));
    let table = kubectl.ok(&["get", "ms", "ms1", "--subresource=scale"]);
    assert!(table.lines().nth(1).unwrap().split_whitespace().take(3).eq(["ms1", "5", "0"]), "{table}");
    let patched = ["patch", OLD, "ms1", "--subresource=scale", "--type=merge", "-p", r#"{"spec":{"replicas":-1}}"#];
    let refused = kubectl.fails(&patched);
    assert!(refused.contains(".spec.replicas: Invalid value: -1: should be a non-negative integer"), "{refused}");
    assert_eq!(replicas(), "5");
}
