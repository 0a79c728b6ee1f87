//! What a host's agent and kernel said, as the log of a Pod with the host's name.

use firesteel_wire::LogSource::{Agent as OfAgent, Kernel as OfKernel};

use crate::agent::{Agent, MAC, with_machines};
use crate::client::{H2, Kubectl, NEW, OLD, with};

#[test]
fn kubectl_shows_the_log_of_a_host() {
    with_machines(NEW, logs);
}

#[test]
fn kubectl_1_20_shows_the_log_of_a_host() {
    with_machines(OLD, logs);
}

fn logs(kubectl: &Kubectl) {
    // Its agent speaks from the appliance's own address, which no lease is of.
    let annotated = H2.replace("labels:", "annotations: {firesteel.dev/boot-address: any}, labels:");
    kubectl.file("h2.yaml", &annotated.replace("online: true", &format!("online: true, bootMACAddress: '{MAC}'")));
    kubectl.ok(&["apply", "-f", "h2.yaml"]);
    let mut agent = Agent::boot(kubectl);
    agent.report(&[(OfAgent, "looking around"), (OfKernel, "Linux version 6"), (OfAgent, "nothing to do")]);
    assert_eq!(kubectl.ok(&["logs", "host-2"]), "looking around\nnothing to do\n", "the agent is meant");
    assert_eq!(kubectl.ok(&["logs", "host-2", "--tail=1"]), "nothing to do\n");
    assert_eq!(kubectl.ok(&["logs", "host-2", "-c", "kernel"]), "Linux version 6\n");
    let stamped = kubectl.ok(&["logs", "host-2", "-c", "kernel", "--timestamps"]);
    let (time, text) = stamped.split_once(' ').unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok() && text == "Linux version 6\n", "{stamped}");
    let whole = ["logs", "host-2", "--all-containers", "--prefix"];
    let whole = kubectl.ok(&whole);
    for line in ["[pod/host-2/agent] nothing to do\n", "[pod/host-2/kernel] Linux version 6\n"] {
        assert!(whole.contains(line), "{whole}");
    }
    // Who follows gets what is said later.
    let mut following = kubectl.running(&["logs", "host-2", "-f", "--tail=1"]);
    assert_eq!(following.line(), "nothing to do");
    agent.report(&[(OfKernel, "a disk came"), (OfAgent, "a plan came")]);
    assert_eq!(following.line(), "a plan came");
    assert!(following.is_waiting());
    assert_eq!(kubectl.ok(&["logs", "host-2", "-c", "kernel", "--tail=1"]), "a disk came\n");
}

/// Where no agent speaks a log is empty, and one that does not exist is a mistake.
#[test]
fn kubectl_shows_hosts_as_pods() {
    with(NEW, pods);
}

#[test]
fn kubectl_1_20_shows_hosts_as_pods() {
    with(OLD, pods);
}

fn pods(kubectl: &Kubectl) {
    kubectl.settled_host();
    assert_eq!(kubectl.ok(&["logs", "host-2"]), "");
    assert_eq!(kubectl.ok(&["logs", "host-2", "-c", "kernel", "-f"]), "", "nobody will ever speak");
    let nobody = kubectl.fails(&["logs", "nobody"]);
    assert!(nobody.contains("(NotFound)") && nobody.contains("\"nobody\" not found"), "{nobody}");
    assert_eq!(kubectl.ok(&["logs", "host-2", "-c", "console"]), "", "it has no BMC");
    let other = kubectl.fails(&["logs", "host-2", "-c", "other"]);
    assert!(other.contains("container other is not valid for pod host-2"), "{other}");
    let pods = kubectl.rows(&["get", "pods"]);
    assert_eq!(
        (pods[0].join(" "), &pods[1][..2]),
        ("NAME STATUS AGE".to_owned(), &["host-2", "Pending"].map(str::to_owned)[..])
    );
    let refused = kubectl.fails(&["delete", "pod", "host-2"]);
    assert!(refused.contains("(MethodNotAllowed)"), "{refused}");
    // Whether there are any is all that these want to know.
    kubectl.ok(&["cluster-info"]);
    assert_eq!(kubectl.ok(&["get", "nodes,services", "-o", "name"]), "");
}
