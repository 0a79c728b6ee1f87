//! `delete` in its ways.

use crate::client::{H2, Kubectl, NEW, OLD, with};

const HOLD: &str = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
const LET_GO: &str = r#"{"metadata":{"finalizers":null}}"#;

#[test]
fn kubectl_deletes() {
    with(NEW, delete);
}

#[test]
fn kubectl_1_20_deletes() {
    with(OLD, delete);
}

fn delete(kubectl: &Kubectl) {
    let none = || assert_eq!(kubectl.ok(&["get", "bmh", "-o", "name"]), "");
    kubectl.ok(&["apply", "-f", "h1.yaml", "-f", "h2.yaml"]);
    let deleted = kubectl.ok(&["delete", "bmh", "host-2"]);
    assert!(deleted.starts_with("baremetalhost.metal3.io \"host-2\" deleted"), "{deleted}");
    let missing = kubectl.fails(&["delete", "bmh", "host-2"]);
    assert!(missing.ends_with("(NotFound): baremetalhosts.metal3.io \"host-2\" not found\n"), "{missing}");
    kubectl.ok(&["delete", "-f", "h2.yaml", "--ignore-not-found"]);
    kubectl.fails(&["delete", "-f", "h2.yaml"]);
    assert!(kubectl.ok(&["delete", "bmh", "-l", "rack=r1"]).contains("\"host-1\" deleted"));
    none();
    kubectl.ok(&["apply", "-f", "h1.yaml", "-f", "h2.yaml"]);
    assert_eq!(kubectl.ok(&["delete", "bmh", "--all"]).lines().count(), 2);
    none();
    kubectl.ok(&["delete", "-f", "h1.yaml", "--ignore-not-found"]);
    let secret = kubectl.fails(&["get", "secret", "host-1-bmc"]);
    assert!(secret.contains("secrets \"host-1-bmc\" not found"), "{secret}");
}

/// A finalizer holds the object; whoever deletes it waits until it is taken off.
#[test]
fn kubectl_waits_for_finalizers() {
    with(NEW, finalizers);
}

#[test]
fn kubectl_1_20_waits_for_finalizers() {
    with(OLD, finalizers);
}

fn finalizers(kubectl: &Kubectl) {
    let hold = || {
        kubectl.ok(&["apply", "-f", "h2.yaml"]);
        kubectl.ok(&["patch", "bmh", "host-2", "--type=merge", "-p", HOLD]);
    };
    let let_go = || kubectl.ok(&["patch", "bmh", "host-2", "--type=merge", "-p", LET_GO]);
    hold();
    kubectl.ok(&["delete", "bmh", "host-2", "--wait=false"]);
    assert_ne!(kubectl.field("bmh/host-2", ".metadata.deletionTimestamp"), "");
    let_go();
    kubectl.fails(&["get", "bmh", "host-2"]);
    hold();
    let mut deleting = kubectl.watching(&["delete", "bmh", "host-2"]);
    assert!(deleting.is_waiting());
    let_go();
    assert!(deleting.rest().starts_with("baremetalhost.metal3.io \"host-2\" deleted"));
    kubectl.fails(&["get", "bmh", "host-2"]);
}

#[test]
fn kubectl_deletes_with_dependents_and_without() {
    with(NEW, dependents);
}

#[test]
fn kubectl_1_20_deletes_with_dependents_and_without() {
    with(OLD, dependents);
}

fn dependents(kubectl: &Kubectl) {
    let owned_map = |name: &str| {
        kubectl.file("h2.yaml", &H2.replace("host-2", name));
        kubectl.ok(&["apply", "-f", "h2.yaml"]);
        let uid = kubectl.field(&format!("bmh/{name}"), ".metadata.uid");
        let owner = format!(
            "{{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, name: {name}, uid: {uid}, blockOwnerDeletion: true}}"
        );
        let map =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: of-{name}, ownerReferences: [{owner}]}}\n");
        kubectl.file("map.yaml", &map);
        kubectl.ok(&["create", "-f", "map.yaml"]);
    };
    owned_map("a");
    kubectl.ok(&["delete", "bmh", "a", "--cascade=foreground"]);
    let missing = kubectl.fails(&["get", "cm", "of-a"]);
    assert!(missing.contains("configmaps \"of-a\" not found"), "{missing}");
    owned_map("b");
    kubectl.ok(&["delete", "bmh", "b", "--cascade=orphan"]);
    assert_eq!(kubectl.field("cm/of-b", ".metadata.ownerReferences"), "");
    owned_map("c");
    kubectl.ok(&["delete", "bmh", "c"]);
    kubectl.wait_until_gone("cm/of-c", "default");
    kubectl.fails(&["get", "cm", "of-c"]);
}

#[test]
fn kubectl_empties_namespaces() {
    with(NEW, namespaces);
}

#[test]
fn kubectl_1_20_empties_namespaces() {
    with(OLD, namespaces);
}

/// It comes back when all is gone.
fn namespaces(kubectl: &Kubectl) {
    kubectl.ok(&["create", "namespace", "rack1"]);
    kubectl.file("h2.yaml", &H2.replace("name: host-2", "name: host-2, namespace: rack1"));
    kubectl.ok(&["apply", "-f", "h2.yaml"]);
    kubectl.ok(&["create", "configmap", "c", "-n", "rack1", "--from-literal=a=b"]);
    kubectl.ok(&["patch", "bmh", "host-2", "-n", "rack1", "--type=merge", "-p", HOLD]);
    let mut deleting = kubectl.watching(&["delete", "namespace", "rack1"]);
    assert!(deleting.is_waiting(), "the host is held");
    assert_eq!(kubectl.field("ns/rack1", ".status.phase"), "Terminating");
    let late = kubectl.fails(&["create", "configmap", "d", "-n", "rack1"]);
    assert!(late.contains("because it is being terminated"), "{late}");
    kubectl.ok(&["patch", "bmh", "host-2", "-n", "rack1", "--type=merge", "-p", LET_GO]);
    assert_eq!(deleting.rest(), "namespace \"rack1\" deleted\n");
    assert_eq!(kubectl.ok(&["get", "bmh,cm", "-n", "rack1", "-o", "name"]), "");
    let gone = kubectl.fails(&["get", "namespace", "rack1"]);
    assert!(gone.contains("namespaces \"rack1\" not found"), "{gone}");
}
