//! What is there: versions, kinds, fields.

use crate::client::{Kubectl, NEW, OLD, with};

#[test]
fn kubectl_sees_server_and_kinds() {
    with(NEW, server_and_kinds);
}

#[test]
fn kubectl_1_20_sees_server_and_kinds() {
    with(OLD, server_and_kinds);
}

fn server_and_kinds(kubectl: &Kubectl) {
    let version = kubectl.ok(&["version"]);
    assert!(version.lines().any(|line| line.starts_with("Server Version: ") && line.contains("v1.")), "{version}");
    let kinds = kubectl.rows(&["api-resources", "--no-headers"]);
    let row = |plural: &str| kinds.iter().find(|row| row[0] == plural).unwrap().join(" ");
    assert_eq!(row("baremetalhosts"), "baremetalhosts bmh,bmhost metal3.io/v1alpha1 true BareMetalHost");
    assert_eq!(row("secrets"), "secrets v1 true Secret");
    assert_eq!(row("leases"), "leases coordination.k8s.io/v1 true Lease");
    let versions = kubectl.ok(&["api-versions"]);
    for version in ["metal3.io/v1alpha1", "coordination.k8s.io/v1", "v1"] {
        assert!(versions.lines().any(|line| line == version), "{version} is not in {versions}");
    }
    for probe in ["/readyz", "/livez", "/healthz"] {
        assert_eq!(kubectl.ok(&["get", "--raw", probe]), "ok", "{probe}");
    }
    let definitions = kubectl.ok(&["get", "crd", "-o", "name"]);
    let of_hosts = "customresourcedefinition.apiextensions.k8s.io/baremetalhosts.metal3.io";
    assert!(definitions.lines().any(|line| line == of_hosts), "{definitions}");
}

#[test]
fn kubectl_explains_kinds() {
    with(NEW, |kubectl| {
        let text = kubectl.ok(&["explain", "bmh.spec.bmc"]);
        for part in ["KIND:       BareMetalHost", "FIELDS:", "address\t<string> -required-"] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        let words = kubectl.ok(&["explain", "bmh.spec.bootMode"]);
        assert!(words.contains("ENUM:\n    UEFI\n"), "{words}");
        assert!(kubectl.ok(&["explain", "secret.stringData"]).contains("<map[string]string>"));
        let owners = kubectl.ok(&["explain", "event.metadata.ownerReferences"]);
        assert!(owners.contains("uid\t<string> -required-"), "{owners}");
        let typo = kubectl.fails(&["explain", "bmh.spec.bcm"]);
        assert!(typo.contains("\"bcm\" does not exist"), "{typo}");
    });
}

#[test]
fn kubectl_1_20_explains_kinds() {
    with(OLD, |kubectl| {
        let text = kubectl.ok(&["explain", "bmh.spec.bmc"]);
        for part in ["KIND:     BareMetalHost", "FIELDS:", "address\t<string> -required-"] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        let tree = kubectl.ok(&["explain", "bmh", "--recursive"]);
        assert!(tree.contains("      address\t<string>") && tree.contains("ownerReferences\t<[]Object>"), "{tree}");
        assert!(kubectl.ok(&["explain", "secret.stringData"]).contains("<map[string]string>"));
    });
}
