//! Kubernetes' own kinds, which kubectl sends in protobuf alone, and what one may do.

use crate::client::{Kubectl, NEW, OLD, with};

#[test]
fn kubectl_makes_kubernetes_own_kinds() {
    with(NEW, own_kinds);
}

#[test]
fn kubectl_1_20_makes_kubernetes_own_kinds() {
    with(OLD, own_kinds);
}

fn own_kinds(kubectl: &Kubectl) {
    assert_eq!(kubectl.ok(&["create", "namespace", "rack1"]), "namespace/rack1 created\n");
    let secret = ["create", "secret", "generic", "s", "-n", "rack1", "--from-literal=user=root"];
    assert_eq!(kubectl.ok(&secret), "secret/s created\n");
    let map = ["create", "configmap", "c", "-n", "rack1", "--from-literal=a=b"];
    assert_eq!(kubectl.ok(&map), "configmap/c created\n");
    assert_eq!(kubectl.ok(&["create", "serviceaccount", "a", "-n", "rack1"]), "serviceaccount/a created\n");
    let path = "jsonpath={.items[*].data.user}{.items[*].data.a}";
    assert_eq!(kubectl.ok(&["get", "secret,cm", "-n", "rack1", "-o", path]), "cm9vdA==b");
    assert_eq!(kubectl.ok(&["get", "sa", "a", "-n", "rack1", "-o", "name"]), "serviceaccount/a\n");
    let secret = kubectl.rows(&["get", "secrets", "s", "-n", "rack1"]);
    assert_eq!(secret[0], ["NAME", "TYPE", "DATA", "AGE"]);
    assert_eq!(secret[1][..3], ["s", "Opaque", "1"]);
    assert_eq!(kubectl.field("ns/rack1", ".status.phase"), "Active");
    kubectl.ok(&["delete", "secret", "s", "-n", "rack1"]);
    let quota = ["create", "quota", "q", "-n", "rack1", "--hard=count/secrets=1,firesteel.dev/bytes=1Mi"];
    assert_eq!(kubectl.ok(&quota), "resourcequota/q created\n");
    let secret = |name| ["create", "secret", "generic", name, "-n", "rack1", "--from-literal=user=root"];
    kubectl.ok(&secret("s"));
    let refused = kubectl.fails(&secret("t"));
    assert!(refused.contains("exceeded quota: q, requested: count/secrets=1, used: count/secrets=1"), "{refused}");
}

#[test]
fn kubectl_says_what_one_may_do() {
    with(NEW, may);
}

#[test]
fn kubectl_1_20_says_what_one_may_do() {
    with(OLD, may);
}

fn may(kubectl: &Kubectl) {
    assert_eq!(kubectl.ok(&["auth", "can-i", "create", "bmh"]).trim_end(), "yes");
    let rules = kubectl.ok(&["auth", "can-i", "--list"]);
    assert!(rules.lines().next().unwrap().starts_with("Resources "), "{rules}");
    let no = kubectl.output(&["auth", "can-i", "delete", "crd"]);
    assert!(no.status.code() == Some(1) && no.stdout.starts_with(b"no"), "{no:?}");
}

#[test]
fn kubectl_says_who_one_is() {
    with(NEW, |kubectl| {
        let who = kubectl.rows(&["auth", "whoami"]);
        assert!(who.iter().any(|row| row[0] == "Username" && row.len() == 2), "{who:?}");
    });
}

#[test]
fn kubectl_makes_tokens() {
    with(NEW, |kubectl| {
        kubectl.ok(&["create", "serviceaccount", "a"]);
        let token = kubectl.ok(&["create", "token", "a", "--duration=10m"]);
        let token = format!("--token={}", token.trim_end());
        let who = kubectl.rows(&["auth", "whoami", &token]);
        let name = ["Username", "system:serviceaccount:default:a"];
        assert!(who.iter().any(|row| *row == name), "{who:?}");
        let refused = kubectl.fails(&["get", "secrets", &token]);
        assert!(refused.contains("(Forbidden)") && refused.contains("system:serviceaccount:default:a"), "{refused}");
        let nobody = kubectl.fails(&["create", "token", "b"]);
        assert!(nobody.contains("serviceaccounts \"b\" not found"), "{nobody}");
    });
}
