//! `apply`, `diff`, and who owns which field.

use crate::client::{H1, H2, Kubectl, NEW, OLD, with};

#[test]
fn kubectl_applies_again_and_again() {
    with(NEW, apply_again);
}

#[test]
fn kubectl_1_20_applies_again_and_again() {
    with(OLD, apply_again);
}

fn apply_again(kubectl: &Kubectl) {
    let apply = ["apply", "-f", "h1.yaml"];
    assert_eq!(kubectl.ok(&apply), "secret/host-1-bmc created\nbaremetalhost.metal3.io/host-1 created\n");
    // A Secret with stringData is never what was applied, as upstream.
    let same = "secret/host-1-bmc configured\nbaremetalhost.metal3.io/host-1 unchanged\n";
    assert_eq!(kubectl.ok(&apply), same);
    assert_eq!(kubectl.ok(&["diff", "-f", "h1.yaml"]), "");
    let dry = kubectl.ok(&["apply", "--dry-run=server", "-f", "h1.yaml"]);
    assert!(dry.ends_with("baremetalhost.metal3.io/host-1 unchanged (server dry run)\n"), "{dry}");
    let dry = kubectl.ok(&["apply", "--dry-run=client", "-f", "h1.yaml"]);
    assert!(dry.contains("baremetalhost.metal3.io/host-1 ") && dry.contains("(dry run)"), "{dry}");

    kubectl.file("h1.yaml", &H1.replace("root", "admin").replace("online: true", "online: false"));
    // Exit code 1 says that there are differences.
    let output = kubectl.output(&["diff", "-f", "h1.yaml"]);
    let difference = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(difference.contains("\n-  online: true\n+  online: false\n"), "{difference}");
    let dry = kubectl.ok(&["apply", "--dry-run=server", "-f", "h1.yaml"]);
    assert!(dry.contains("baremetalhost.metal3.io/host-1 configured (server dry run)"), "{dry}");
    assert_eq!(kubectl.field("bmh/host-1", ".spec.online"), "true", "a dry run changes nothing");
    assert_eq!(kubectl.ok(&apply), same.replace("unchanged", "configured"));
    assert_eq!(kubectl.field("bmh/host-1", ".spec.online"), "false");
    assert_eq!(kubectl.field("secret/host-1-bmc", ".data.username"), "YWRtaW4=");
    // What was applied and is not any more goes.
    kubectl.file("h1.yaml", &H1.replace(", labels: {rack: r1}", ""));
    kubectl.ok(&apply);
    assert_eq!(kubectl.field("bmh/host-1", ".metadata.labels"), "");
}

#[test]
fn kubectl_applies_on_the_server() {
    with(NEW, server_side);
}

#[test]
fn kubectl_1_20_applies_on_the_server() {
    with(OLD, server_side);
}

fn server_side(kubectl: &Kubectl) {
    let apply = ["apply", "--server-side", "-f", "h2.yaml"];
    let applied = "baremetalhost.metal3.io/host-2 serverside-applied\n";
    assert_eq!(kubectl.ok(&apply), applied);
    assert_eq!(kubectl.ok(&apply), applied);
    kubectl.file("h2.yaml", &H2.replace("true", "false"));
    let other = [&apply[..], &["--field-manager=other"]].concat();
    let conflict = kubectl.fails(&other);
    let expected = "Apply failed with 1 conflict: conflict with \"kubectl\": .spec.online";
    assert!(conflict.contains(expected), "{conflict}");
    assert_eq!(kubectl.field("bmh/host-2", ".spec.online"), "true");
    assert_eq!(kubectl.ok(&[&other[..], &["--force-conflicts"]].concat()), applied);
    assert_eq!(kubectl.field("bmh/host-2", ".spec.online"), "false");
    let owners = "jsonpath={.metadata.managedFields[?(@.operation==\"Apply\")].manager}";
    let shown: &[&str] = if kubectl.is_old() { &[] } else { &["--show-managed-fields"] };
    let owners = kubectl.ok(&[&["get", "bmh", "host-2", "-o", owners], shown].concat());
    assert_eq!(owners, "kubectl other");
}

/// Who applied from the client before keeps no field of it: four patches, one of which rewrites the owners.
#[test]
fn kubectl_goes_over_to_the_servers_apply() {
    with(NEW, |kubectl| {
        kubectl.ok(&["apply", "-f", "h2.yaml"]);
        let owners =
            ["get", "bmh", "host-2", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager}"];
        assert!(kubectl.ok(&owners).contains("kubectl-client-side-apply"));
        let hidden = kubectl.ok(&["get", "bmh", "host-2", "-o", "yaml"]);
        assert!(!hidden.contains("managedFields"), "{hidden}");
        let log = kubectl.warns(&["apply", "--server-side", "-f", "h2.yaml", "-v=6"]);
        let patches = log.lines().filter(|line| line.contains("verb=\"PATCH\"") && line.contains("200 OK"));
        assert_eq!(patches.count(), 4, "{log}");
        let after = kubectl.ok(&owners);
        assert!(!after.contains("kubectl-client-side-apply") && after.contains("kubectl"), "{after}");
        // What it applies no more goes, though the other way of applying made it.
        kubectl.file("h2.yaml", &H2.replace(", labels: {rack: r2}", ""));
        kubectl.ok(&["apply", "--server-side", "-f", "h2.yaml"]);
        assert_eq!(kubectl.field("bmh/host-2", ".metadata.labels"), "");
    });
}
