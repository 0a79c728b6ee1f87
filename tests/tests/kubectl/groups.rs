//! Groups of hosts, as `docs/guide/groups.md` shows them. The simulation tests what becomes of hosts; here is none.

use crate::client::{Kubectl, NEW, OLD, with};

const GROUP: &str = "\
apiVersion: firesteel.dev/v1alpha1
kind: HostGroup
metadata: {name: workers}
spec:
  selector: {matchLabels: {role: worker}}
  image: {stream: stable}
  pool: worker
  rollout: {mode: canary, canaries: 1, deadlineSeconds: 7200}
";

#[test]
fn kubectl_shows_groups_and_restores_one() {
    with(NEW, groups);
}

#[test]
fn kubectl_1_20_shows_groups_and_restores_one() {
    with(OLD, groups);
}

fn groups(kubectl: &Kubectl) {
    kubectl.file("group.yaml", GROUP);
    assert!(kubectl.ok(&["apply", "-f", "group.yaml"]).contains("hostgroup.firesteel.dev/workers created"));
    let rows = kubectl.rows(&["get", "hostgroups"]);
    assert_eq!(rows[0], ["NAME", "STREAM", "CURRENT", "GOLDEN", "CANARY", "HOSTS", "RUNNING", "AGE"]);
    assert_eq!(rows[1][..2], ["workers", "stable"]);
    kubectl.ok(&["patch", "hostgroup", "workers", "--type=merge", "-p", r#"{"spec": {"restore": {"entry": 1}}}"#]);
    assert_eq!(kubectl.field("hostgroup/workers", ".spec.restore.entry"), "1");
    kubectl.ok(&["patch", "hostgroup", "workers", "--type=merge", "-p", r#"{"spec": {"restore": null}}"#]);
    assert_eq!(kubectl.field("hostgroup/workers", ".spec.restore"), "");
    kubectl.ok(&["label", "hostgroup", "workers", "firesteel.dev/managed-boot-images=false"]);
    let refused = kubectl.fails(&["patch", "hg", "workers", "--type=merge", "-p", r#"{"spec": {"selector": null}}"#]);
    assert!(refused.contains("spec.selector"), "{refused}");
}
