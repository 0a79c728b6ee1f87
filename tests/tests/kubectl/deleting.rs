//! `delete` in its ways.

use crate::client::{Kubectl, NEW, OLD, with};

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
