//! `edit`, `patch`, `label`, `annotate`, `replace`.

use crate::client::{H2, Kubectl, NEW, OLD, text, with};

#[test]
fn kubectl_edits() {
    with(NEW, edit);
}

#[test]
fn kubectl_1_20_edits() {
    with(OLD, edit);
}

fn edit(kubectl: &Kubectl) {
    kubectl.settled_host();
    let edited = kubectl.edit("sed -i s/online:.*/online:\\ false/", &["edit", "bmh", "host-2"]);
    assert_eq!(text(&edited.stdout), "baremetalhost.metal3.io/host-2 edited\n", "{}", text(&edited.stderr));
    assert_eq!(kubectl.field("bmh/host-2", ".spec.online"), "false");
    let nothing = kubectl.edit("true", &["edit", "bmh", "host-2"]);
    assert!(nothing.status.success() && text(&nothing.stderr).contains("Edit cancelled, no changes made."));
    // It opens the editor again with what the server said, and gives up when nothing changes.
    let wrong = kubectl.edit("sed -i s/online:.*/online:\\ maybe/", &["edit", "bmh", "host-2"]);
    let said = text(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(1), "{said}");
    assert!(said.contains("no valid changes were saved") || said.contains("is invalid"), "{said}");
    assert_eq!(kubectl.field("bmh/host-2", ".spec.online"), "false");
    // It leaves a copy, outside of the folder that goes.
    for copy in said.split('"').filter(|part| part.starts_with("/tmp/kubectl-edit-")) {
        std::fs::remove_file(copy).unwrap();
    }
}

#[test]
fn kubectl_patches() {
    with(NEW, patch);
}

#[test]
fn kubectl_1_20_patches() {
    with(OLD, patch);
}

fn patch(kubectl: &Kubectl) {
    kubectl.ok(&["apply", "-f", "h1.yaml", "-f", "h2.yaml"]);
    let patch = |kind: &str, patch: &str| kubectl.ok(&["patch", "bmh", "host-2", kind, "-p", patch]);
    let patched = "baremetalhost.metal3.io/host-2 patched\n";
    // Without a type it tries the one that only Kubernetes' own kinds have.
    let refused = kubectl.fails(&["patch", "bmh", "host-2", "-p", r#"{"spec":{"online":true}}"#]);
    let accepted = "accepted media types include: application/json-patch+json, application/merge-patch+json, \
                    application/apply-patch+yaml";
    assert!(refused.contains(accepted), "{refused}");
    assert_eq!(patch("--type=merge", r#"{"spec":{"description":"a"}}"#), patched);
    let again = patch("--type=merge", r#"{"spec":{"description":"a"}}"#);
    assert_eq!(again, "baremetalhost.metal3.io/host-2 patched (no change)\n");
    let replace = r#"[{"op":"test","path":"/spec/description","value":"a"},
                      {"op":"replace","path":"/spec/description","value":"b"}]"#;
    assert_eq!(patch("--type=json", replace), patched);
    assert_eq!(kubectl.field("bmh/host-2", ".spec.description"), "b");
    let twice = kubectl.fails(&["patch", "bmh", "host-2", "--type=json", "-p", replace]);
    assert!(twice.contains("The request is invalid"), "{twice}");
    // What is not there is null.
    let finalizer = r#"[{"op":"test","path":"/metadata/finalizers","value":null},
                        {"op":"add","path":"/metadata/finalizers","value":["example.com/f"]}]"#;
    assert_eq!(patch("--type=json", finalizer), patched);
    kubectl.fails(&["patch", "bmh", "host-2", "--type=json", "-p", finalizer]);
    let wrong = kubectl.fails(&["patch", "bmh", "host-2", "--type=merge", "-p", r#"{"spec":{"online":"maybe"}}"#]);
    assert!(wrong.contains("must be of type boolean"), "{wrong}");
    let strategic = r#"{"stringData":{"username":"z"},"metadata":{"finalizers":["example.com/f"]}}"#;
    assert_eq!(kubectl.ok(&["patch", "secret", "host-1-bmc", "-p", strategic]), "secret/host-1-bmc patched\n");
    assert_eq!(kubectl.field("secret/host-1-bmc", ".data.username"), "eg==");
    let less = r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/f"]}}"#;
    kubectl.ok(&["patch", "secret", "host-1-bmc", "-p", less]);
    assert_eq!(kubectl.field("secret/host-1-bmc", ".metadata.finalizers"), "");
}

#[test]
fn kubectl_labels_and_annotates() {
    with(NEW, label);
}

#[test]
fn kubectl_1_20_labels_and_annotates() {
    with(OLD, label);
}

fn label(kubectl: &Kubectl) {
    kubectl.ok(&["apply", "-f", "h1.yaml", "-f", "h2.yaml"]);
    let all = |change: &str| kubectl.ok(&["label", "bmh", "--all", change]);
    let both = "baremetalhost.metal3.io/host-1 labeled\nbaremetalhost.metal3.io/host-2 labeled\n";
    assert_eq!(all("hall=a"), both);
    assert_eq!(kubectl.ok(&["get", "bmh", "-l", "hall=a", "-o", "name"]).lines().count(), 2);
    all("hall-");
    assert_eq!(kubectl.ok(&["get", "bmh", "-l", "hall", "-o", "name"]), "");
    let kept = kubectl.fails(&["label", "bmh", "host-2", "rack=r9"]);
    assert!(kept.contains("--overwrite is false"), "{kept}");
    kubectl.ok(&["label", "bmh", "host-2", "rack=r9", "--overwrite"]);
    assert_eq!(kubectl.field("bmh/host-2", ".metadata.labels.rack"), "r9");
    let wrong = kubectl.fails(&["label", "bmh", "host-2", "rack=not a label", "--overwrite"]);
    assert!(wrong.contains("a valid label must be") || wrong.contains("a valid label value must"), "{wrong}");
    let annotate = ["annotate", "bmh", "host-2", "example.com/note=some text"];
    assert_eq!(kubectl.ok(&annotate), "baremetalhost.metal3.io/host-2 annotated\n");
    assert_eq!(kubectl.field("bmh/host-2", r".metadata.annotations.example\.com/note"), "some text");
}

#[test]
fn kubectl_replaces() {
    with(NEW, replace);
}

#[test]
fn kubectl_1_20_replaces() {
    with(OLD, replace);
}

fn replace(kubectl: &Kubectl) {
    kubectl.settled_host();
    let stored = kubectl.ok(&["get", "bmh", "host-2", "-o", "yaml"]);
    kubectl.file("stored.yaml", &stored.replace("online: true", "online: false"));
    let replace = ["replace", "-f", "stored.yaml"];
    assert_eq!(kubectl.ok(&replace), "baremetalhost.metal3.io/host-2 replaced\n");
    assert_eq!(kubectl.field("bmh/host-2", ".spec.online"), "false");
    // The file has the revision from before.
    kubectl.file("stored.yaml", &stored.replace("online: true", "online: true\n  description: x"));
    let late = kubectl.fails(&replace);
    let modified = "the object has been modified; please apply your changes to the latest version and try again";
    assert!(late.contains("(Conflict)") && late.contains(modified), "{late}");
    // Without a revision it takes the newest.
    kubectl.file("h2.yaml", &H2.replace("online: true", "online: true, description: second"));
    kubectl.ok(&["replace", "-f", "h2.yaml"]);
    assert_eq!(kubectl.field("bmh/host-2", ".spec.description"), "second");
    let uid = kubectl.field("bmh/host-2", ".metadata.uid");
    let forced = kubectl.ok(&["replace", "--force", "-f", "h2.yaml"]);
    assert!(forced.ends_with("baremetalhost.metal3.io/host-2 replaced\n"), "{forced}");
    assert_ne!(kubectl.field("bmh/host-2", ".metadata.uid"), uid, "it is another object");
}
