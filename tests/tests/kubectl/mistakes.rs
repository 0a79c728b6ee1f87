//! What a person sees of mistakes.

use crate::client::{H2, Kubectl, NEW, OLD, with};

/// It sends what it was given and lets the server be strict.
#[test]
fn kubectl_shows_mistakes() {
    with(NEW, |kubectl| {
        kubectl.file("typo.yaml", &H2.replace("online", "onlin"));
        let strict = kubectl.fails(&["apply", "-f", "typo.yaml"]);
        assert!(strict.contains("(BadRequest)"), "{strict}");
        assert!(strict.contains("strict decoding error: unknown field \"spec.onlin\""), "{strict}");
        kubectl.file("typo.yaml", &H2.replace("online: true", "online: true, onlin: true"));
        let warning = kubectl.warns(&["apply", "--validate=warn", "-f", "typo.yaml"]);
        assert!(warning.contains("Warning: unknown field \"spec.onlin\""), "{warning}");
        assert_eq!(kubectl.field("bmh/host-2", ".spec.onlin"), "", "what is not known is dropped");
        let ignored = kubectl.warns(&["apply", "--validate=ignore", "-f", "typo.yaml"]);
        assert!(!ignored.contains("Warning: unknown field"), "{ignored}");
        kubectl.file("secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndat: {a: YQ==}\n");
        let secret = kubectl.fails(&["create", "-f", "secret.yaml"]);
        assert!(secret.contains("strict decoding error: unknown field \"dat\""), "{secret}");
        kubectl.file("type.yaml", &H2.replace("true", "maybe"));
        let wrong = kubectl.fails(&["apply", "-f", "type.yaml"]);
        assert!(wrong.contains("spec.online: Invalid value: \"string\": "), "{wrong}");
        assert!(wrong.contains("must be of type boolean"), "{wrong}");
    });
}

/// It reads the document in protobuf and refuses mistakes before anything is sent.
#[test]
fn kubectl_1_20_shows_mistakes() {
    with(OLD, |kubectl| {
        kubectl.file("typo.yaml", &H2.replace("online: true", "online: true, onlin: true"));
        let typo = kubectl.fails(&["apply", "-f", "typo.yaml"]);
        assert!(typo.contains("unknown field \"onlin\" in io.metal3.v1alpha1.BareMetalHost.spec"), "{typo}");
        kubectl.file("type.yaml", &H2.replace("true", "maybe"));
        let wrong = kubectl.fails(&["apply", "-f", "type.yaml"]);
        assert!(wrong.contains("invalid type for io.metal3.v1alpha1.BareMetalHost.spec.online"), "{wrong}");
    });
}

#[test]
fn kubectl_creates_once() {
    with(NEW, create_once);
}

#[test]
fn kubectl_1_20_creates_once() {
    with(OLD, create_once);
}

fn create_once(kubectl: &Kubectl) {
    assert_eq!(kubectl.ok(&["create", "-f", "h2.yaml"]), "baremetalhost.metal3.io/host-2 created\n");
    let twice = kubectl.fails(&["create", "-f", "h2.yaml"]);
    assert!(twice.contains("(AlreadyExists)") && twice.contains("\"host-2\" already exists"), "{twice}");
    kubectl.file("nowhere.yaml", &H2.replace("name: host-2", "name: host-3, namespace: nowhere"));
    let nowhere = kubectl.fails(&["create", "-f", "nowhere.yaml"]);
    assert!(nowhere.contains("(NotFound)") && nowhere.contains("namespaces \"nowhere\" not found"), "{nowhere}");
}
