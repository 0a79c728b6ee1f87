//! `get`: tables, selectors, pages, order, watches.

use crate::client::{Kubectl, NEW, OLD, with};

#[test]
fn kubectl_lists_and_selects() {
    with(NEW, list_and_select);
}

#[test]
fn kubectl_1_20_lists_and_selects() {
    with(OLD, list_and_select);
}

fn list_and_select(kubectl: &Kubectl) {
    kubectl.ok(&["apply", "-f", "h1.yaml", "-f", "h2.yaml"]);
    let table = kubectl.rows(&["get", "bmh", "-A"]);
    assert_eq!(table[0], ["NAMESPACE", "NAME", "STATE", "CONSUMER", "ONLINE", "ERROR", "AGE"]);
    assert_eq!(table[1][..3], ["default", "host-1", "true"]);
    assert_eq!(table.len(), 3);
    let wide = kubectl.rows(&["get", "bmh", "host-1", "-o", "wide"]);
    assert_eq!(wide[0], ["NAME", "STATUS", "STATE", "CONSUMER", "BMC", "ONLINE", "ERROR", "AGE"]);
    assert_eq!(wide[1][1], "redfish://10.0.0.7/redfish/v1/Systems/1");
    let names = |selection: &[&str]| kubectl.ok(&[&["get", "bmh", "-o", "name"], selection].concat());
    let both = "baremetalhost.metal3.io/host-1\nbaremetalhost.metal3.io/host-2\n";
    assert_eq!(names(&["-l", "rack in (r1,r2),!foo"]), both);
    assert_eq!(names(&["-l", "rack!=r1"]), "baremetalhost.metal3.io/host-2\n");
    assert_eq!(names(&["-l", "rack,rack notin (r2)"]), "baremetalhost.metal3.io/host-1\n");
    assert_eq!(names(&["-l", "foo"]), "");
    assert_eq!(names(&["--field-selector", "metadata.name=host-2"]), "baremetalhost.metal3.io/host-2\n");
    let unknown = kubectl.fails(&["get", "bmh", "--field-selector", "spec.online=true"]);
    assert!(
        unknown.contains("(BadRequest)") && unknown.contains("field label not supported: spec.online"),
        "{unknown}"
    );
    let missing = kubectl.fails(&["get", "bmh", "nope"]);
    // kubectl 1.20 also says which files it looked for.
    let found = missing.ends_with("Error from server (NotFound): baremetalhosts.metal3.io \"nope\" not found\n");
    assert!(found, "{missing}");
    let columns = kubectl.rows(&["get", "bmh", "-o", "custom-columns=WHO:.metadata.name,WHERE:.metadata.labels.rack"]);
    assert_eq!(columns, [["WHO", "WHERE"], ["host-1", "r1"], ["host-2", "r2"]]);
}

/// `--sort-by` asks for whole objects in the table.
#[test]
fn kubectl_sorts() {
    with(NEW, sort);
}

#[test]
fn kubectl_1_20_sorts() {
    with(OLD, sort);
}

fn sort(kubectl: &Kubectl) {
    kubectl.ok(&["apply", "-f", "h1.yaml", "-f", "h2.yaml"]);
    kubectl.ok(&["label", "bmh", "host-1", "rack=z", "--overwrite"]);
    let names: Vec<String> =
        kubectl.rows(&["get", "bmh", "--sort-by=.metadata.labels.rack", "--no-headers"]).concat().into_iter().collect();
    let of_hosts: Vec<&String> = names.iter().filter(|word| word.starts_with("host-")).collect();
    assert_eq!(of_hosts, ["host-2", "host-1"]);
}

/// Pages of one object: each but the first names where the last one ended.
#[test]
fn kubectl_reads_page_by_page() {
    with(NEW, page_by_page);
}

#[test]
fn kubectl_1_20_reads_page_by_page() {
    with(OLD, page_by_page);
}

fn page_by_page(kubectl: &Kubectl) {
    kubectl.ok(&["apply", "-f", "h1.yaml", "-f", "h2.yaml"]);
    let pages = kubectl.output(&["get", "bmh", "--chunk-size=1", "-v=6"]);
    assert!(pages.status.success());
    assert_eq!(String::from_utf8_lossy(&pages.stdout).lines().count(), 3);
    let log = String::from_utf8_lossy(&pages.stderr);
    let requests: Vec<&str> = log.lines().filter(|line| line.contains("limit=1") && line.contains("200 OK")).collect();
    assert_eq!(requests.len(), 2, "{log}");
    assert!(requests[1].contains("continue=") && !requests[0].contains("continue="), "{log}");
}

#[test]
fn kubectl_watches_row_by_row() {
    with(NEW, watch_rows);
}

#[test]
fn kubectl_1_20_watches_row_by_row() {
    with(OLD, watch_rows);
}

fn watch_rows(kubectl: &Kubectl) {
    kubectl.ok(&["apply", "-f", "h2.yaml"]);
    kubectl.ok(&["wait", "bmh/host-2", "--for=condition=Ready=false", "--timeout=110s"]);
    let mut watching = kubectl.watching(&["get", "bmh", "-w", "--show-labels"]);
    assert_eq!(watching.words()[0], "NAME");
    assert_eq!(watching.words().last().unwrap(), "rack=r2");
    for rack in ["r3", "r4"] {
        kubectl.ok(&["label", "bmh", "host-2", &format!("rack={rack}"), "--overwrite"]);
        let row = watching.words();
        assert_eq!((row[0].as_str(), row.last().unwrap()), ("host-2", &format!("rack={rack}")));
    }
    assert!(watching.is_waiting());
}

#[test]
fn kubectl_watches_events() {
    with(NEW, watch_events);
}

#[test]
fn kubectl_1_20_watches_events() {
    with(OLD, watch_events);
}

fn watch_events(kubectl: &Kubectl) {
    kubectl.settled_host();
    let mut watching = kubectl.watching(&["get", "bmh", "host-2", "-w", "-o", "yaml", "--output-watch-events"]);
    let mut event = || loop {
        let line = watching.line();
        // The type of an event stands at the margin, after its object.
        if let Some(kind) = line.strip_prefix("type: ") {
            break kind.to_owned();
        }
    };
    assert_eq!(event(), "ADDED");
    kubectl.ok(&["label", "bmh", "host-2", "rack=r3", "--overwrite"]);
    assert_eq!(event(), "MODIFIED");
    kubectl.ok(&["delete", "bmh", "host-2"]);
    assert_eq!(event(), "DELETED");
}
