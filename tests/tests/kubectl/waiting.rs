//! The status by its own subresource, and `wait`.

use crate::client::{Kubectl, NEW, OLD, with};

const READY: &str = r#"{"status":{"provisioning":{"state":"provisioned","ID":"x"},"conditions":[{"type":"Ready",
    "status":"True","reason":"Ready","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;

#[test]
fn kubectl_changes_the_status_alone() {
    with(NEW, |kubectl| {
        kubectl.settled_host();
        let both = r#"{"spec":{"online":false},"status":{"errorMessage":"by hand"}}"#;
        kubectl.ok(&["patch", "bmh", "host-2", "--subresource=status", "--type=merge", "-p", both]);
        let seen = |path| kubectl.ok(&["get", "bmh", "host-2", "--subresource=status", "-o", path]);
        assert_eq!(seen("jsonpath={.status.errorMessage} {.spec.online}"), "by hand true");
        kubectl.ok(&["patch", "bmh", "host-2", "--type=merge", "-p", both]);
        assert_eq!(seen("jsonpath={.spec.online} {.metadata.generation}"), "false 2");
        let other = r#"{"status":{"errorMessage":"by the wrong door"}}"#;
        kubectl.ok(&["patch", "bmh", "host-2", "--type=merge", "-p", other]);
        assert_eq!(seen("jsonpath={.status.errorMessage} {.metadata.generation}"), "by hand 2");
    });
}

#[test]
fn kubectl_waits_for_what_comes_later() {
    with(NEW, |kubectl| {
        kubectl.settled_host();
        let met = "baremetalhost.metal3.io/host-2 condition met\n";
        let state = "--for=jsonpath={.status.provisioning.state}=provisioned";
        let mut condition = kubectl.watching(&["wait", "bmh/host-2", "--for=condition=Ready", "--timeout=110s"]);
        let mut field = kubectl.watching(&["wait", "bmh/host-2", state, "--timeout=110s"]);
        assert!(condition.is_waiting() && field.is_waiting());
        kubectl.ok(&["patch", "bmh", "host-2", "--subresource=status", "--type=merge", "-p", READY]);
        assert_eq!((condition.rest().as_str(), field.rest().as_str()), (met, met));
        assert_eq!(kubectl.ok(&["wait", "bmh/host-2", state]), met);
        let never = kubectl.fails(&["wait", "bmh/host-2", "--for=condition=Never", "--timeout=1s"]);
        assert!(never.contains("timed out waiting for the condition on baremetalhosts/host-2"), "{never}");
    });
}

/// It has no `--subresource`: the appliance's own word on the host is what it waits for.
#[test]
fn kubectl_1_20_waits() {
    with(OLD, wait_old);
}

fn wait_old(kubectl: &Kubectl) {
    kubectl.settled_host();
    let never = kubectl.fails(&["wait", "bmh/host-2", "--for=condition=Ready", "--timeout=1s"]);
    assert!(never.contains("timed out waiting for the condition on baremetalhosts/host-2"), "{never}");
    let gone = kubectl.watching(&["wait", "bmh/host-2", "--for=delete", "--timeout=110s"]);
    kubectl.ok(&["delete", "bmh", "host-2"]);
    assert_eq!(gone.rest(), "baremetalhost.metal3.io/host-2 condition met\n");
}
