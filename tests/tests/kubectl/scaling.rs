//! The scale of what has replicas.

use crate::client::{Kubectl, NEW, OLD, text, with};

const SET: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: ms1}
spec:
  clusterName: c1
  replicas: 1
  selector: {matchLabels: {set: ms1}}
  template:
    metadata: {labels: {set: ms1}}
    spec:
      clusterName: c1
      bootstrap: {dataSecretName: s}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: t}
";

#[test]
fn kubectl_scales() {
    with(NEW, |kubectl| {
        scale(kubectl);
        let shown = kubectl.rows(&["get", "machineset", "ms1", "--subresource=scale"]);
        assert_eq!(shown[0][..3], ["NAME", "DESIRED", "AVAILABLE"]);
        assert_eq!(shown[1][..3], ["ms1", "5", "0"]);
        let path = "jsonpath={.kind} {.spec.replicas} {.status.replicas}";
        assert_eq!(kubectl.ok(&["get", "machineset", "ms1", "--subresource=scale", "-o", path]), "Scale 5 0");
        let patch = |replicas: &str| {
            let patch = format!("{{\"spec\":{{\"replicas\":{replicas}}}}}");
            kubectl.output(&["patch", "machineset", "ms1", "--subresource=scale", "--type=merge", "-p", &patch])
        };
        let refused = text(&patch("-1").stderr);
        assert!(refused.contains("Invalid value: -1: should be a non-negative integer"), "{refused}");
        assert!(patch("2").status.success());
        assert_eq!(kubectl.field("machineset/ms1", ".spec.replicas"), "2");
    });
}

#[test]
fn kubectl_1_20_scales() {
    with(OLD, scale);
}

fn scale(kubectl: &Kubectl) {
    kubectl.file("ms.yaml", SET);
    assert_eq!(kubectl.ok(&["create", "-f", "ms.yaml"]), "machineset.cluster.x-k8s.io/ms1 created\n");
    let scaled = "machineset.cluster.x-k8s.io/ms1 scaled\n";
    assert_eq!(kubectl.ok(&["scale", "machineset", "ms1", "--replicas=3"]), scaled);
    assert_eq!(kubectl.ok(&["scale", "machineset", "ms1", "--current-replicas=3", "--replicas=5"]), scaled);
    assert_eq!(kubectl.field("machineset/ms1", ".spec.replicas"), "5");
    let other = kubectl.fails(&["scale", "machineset", "ms1", "--current-replicas=3", "--replicas=7"]);
    assert!(other.to_lowercase().contains("expected replicas to be 3, was 5"), "{other}");
    kubectl.ok(&["apply", "-f", "h2.yaml"]);
    let unscalable = kubectl.fails(&["scale", "bmh", "host-2", "--replicas=3"]);
    assert!(unscalable.contains("(NotFound)"), "{unscalable}");
}
