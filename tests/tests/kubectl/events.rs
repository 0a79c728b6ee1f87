//! Events of an object, in the ways in which people look at them.

use crate::client::{Kubectl, NEW, OLD, with};

fn event(name: &str, host: &str, uid: &str, reason: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Event\nmetadata: {{name: {name}}}\n\
         involvedObject: {{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, name: {host}, namespace: default, \
         uid: {uid}}}\n\
         reason: {reason}\nmessage: by the hands of a person\ntype: Normal\ncount: 3\nsource: {{component: tester}}\n\
         firstTimestamp: 2026-01-01T00:00:00Z\nlastTimestamp: 2026-01-01T00:13:00Z\n---\n"
    )
}

/// Two hosts, and an event of each.
fn two_hosts(kubectl: &Kubectl) {
    kubectl.ok(&["apply", "-f", "h1.yaml", "-f", "h2.yaml"]);
    let uid = |host: &str| kubectl.field(&format!("bmh/{host}"), ".metadata.uid");
    let first = event("host-1.racked", "host-1", &uid("host-1"), "Racked");
    let second = event("host-2.cabled", "host-2", &uid("host-2"), "Cabled");
    kubectl.file("events.yaml", &[first, second].concat());
    let created = "event/host-1.racked created\nevent/host-2.cabled created\n";
    assert_eq!(kubectl.ok(&["create", "-f", "events.yaml"]), created);
}

#[test]
fn kubectl_shows_events() {
    with(NEW, |kubectl| {
        show(kubectl);
        let of_host = kubectl.ok(&["events", "--for", "bmh/host-1"]);
        let mut lines = of_host.lines();
        let header: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!(header, ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
        let row: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        let told = "Normal Racked BareMetalHost/host-1 by the hands of a person";
        assert!(row.join(" ").ends_with(told) && lines.next().is_none(), "{of_host}");
        let none = kubectl.warns(&["events", "--for", "bmh/host-3"]);
        assert!(none.contains("No events found in default namespace"), "{none}");
    });
}

#[test]
fn kubectl_1_20_shows_events() {
    with(OLD, show);
}

fn show(kubectl: &Kubectl) {
    two_hosts(kubectl);
    let all = kubectl.rows(&["get", "events"]);
    assert_eq!(all[0].join(" "), "LAST SEEN TYPE REASON OBJECT MESSAGE");
    let wide = kubectl.rows(&["get", "events", "-o", "wide"]);
    assert_eq!(wide[0].join(" "), "LAST SEEN TYPE REASON OBJECT SUBOBJECT SOURCE MESSAGE FIRST SEEN COUNT NAME");
    assert!(wide.iter().any(|row| row.ends_with(&["3", "host-1.racked"].map(str::to_owned))), "{wide:?}");
    let told = |reason: &str, host: &str| {
        let end = format!("Normal {reason} baremetalhost/{host} by the hands of a person");
        all.iter().any(|row| row.join(" ").ends_with(&end))
    };
    assert!(all.len() == 3 && told("Racked", "host-1") && told("Cabled", "host-2"), "{all:?}");
    // It asks for the events of this object's uid.
    let page = kubectl.ok(&["describe", "bmh", "host-1"]);
    let (_, table) = page.split_once("\nEvents:").unwrap();
    for part in ["Racked", "x3 over", "tester", "by the hands of a person"] {
        assert!(table.contains(part), "{part:?} is not in {page}");
    }
    assert!(!table.contains("Cabled"), "{page}");
    let named = |selector: &str| kubectl.ok(&["get", "events", "-o", "name", "--field-selector", selector]);
    assert_eq!(named("involvedObject.name=host-2,reason=Cabled,type!=Warning"), "event/host-2.cabled\n");
    assert_eq!(named("involvedObject.name=host-2,type=Warning"), "");
}

/// Who watches one object's events hears of no other's.
#[test]
fn kubectl_watches_what_happens_to_an_object() {
    with(NEW, |kubectl| {
        kubectl.ok(&["apply", "-f", "h1.yaml", "-f", "h2.yaml"]);
        let mut watching = kubectl.watching(&["get", "events", "-w", "--field-selector", "involvedObject.name=host-2"]);
        two_hosts(kubectl);
        assert_eq!(watching.words().join(" "), "LAST SEEN TYPE REASON OBJECT MESSAGE");
        let row = watching.words().join(" ");
        assert!(row.ends_with("Normal Cabled baremetalhost/host-2 by the hands of a person"), "{row}");
    });
}
