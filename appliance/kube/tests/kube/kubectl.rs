//! The real kubectl against a server on the loopback interface: a new one, and the oldest that has
//! to work (1.20, which reads OpenAPI v2 alone and checks objects itself).

use std::process::{Command, Output};
use std::sync::Arc;

use firesteel_kube::Api;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use crate::facades::Spoken;
use crate::toy::{Server, admin};

const NEW: &str = "kubectl";
const OLD: &str = "kubectl-1.20";

const MANIFEST: &str = "
apiVersion: v1
kind: Secret
metadata: {name: h1-bmc}
stringData: {username: root}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: h1, labels: {rack: r1}}
spec: {online: true}
";

async fn serve(api: Api, listener: TcpListener) {
    while let Ok((socket, _)) = listener.accept().await {
        let api = api.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let api = api.clone();
                async move { Ok::<_, std::convert::Infallible>(api.handle(request, &admin()).await) }
            });
            // kubectl closes its connections as it likes.
            drop(auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await);
        });
    }
}

struct Kubectl {
    program: &'static str,
    server: String,
    home: tempfile::TempDir,
}

impl Kubectl {
    fn output(&self, arguments: &[&str]) -> Output {
        Command::new(self.program)
            .arg(format!("--server={}", self.server))
            .args(arguments)
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("none"))
            .output()
            .unwrap()
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.home.path().join(name), text).unwrap();
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(!output.status.success(), "kubectl {arguments:?} should fail");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Runs a test with a kubectl and a server of its own.
fn with(program: &'static str, test: fn(&Kubectl)) {
    if Command::new(program).args(["version", "--client"]).output().is_err() {
        println!("skipped: no {program} here; `./qemu/lab test` fetches it");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, listener) =
        runtime.block_on(async { (Server::new().await, TcpListener::bind("127.0.0.1:0").await.unwrap()) });
    let server = server.with(|api| api.logging(Arc::new(Spoken)));
    let server_url = format!("http://{}", listener.local_addr().unwrap());
    let kubectl = Kubectl { program, server: server_url, home: tempfile::tempdir().unwrap() };
    runtime.spawn(serve(server.api.clone(), listener));
    kubectl.file("h1.yaml", MANIFEST);
    test(&kubectl);
}

#[test]
fn kubectl_manages_objects() {
    with(NEW, manage);
}

#[test]
fn kubectl_1_20_manages_objects() {
    with(OLD, manage);
}

#[test]
fn kubectl_explains_kinds() {
    with(NEW, |kubectl| {
        let text = kubectl.ok(&["explain", "bmh.spec.bmc"]);
        for part in ["KIND:       BareMetalHost", "How to reach the controller.", "address\t<string> -required-"] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        let words = kubectl.ok(&["explain", "bmh.spec.bootMode"]);
        assert!(words.contains("ENUM:\n    UEFI\n    legacy\n"), "{words}");
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
        for part in ["KIND:     BareMetalHost", "How to reach the controller.", "address\t<string> -required-"] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        let tree = kubectl.ok(&["explain", "bmh", "--recursive"]);
        assert!(tree.contains("      address\t<string>") && tree.contains("ownerReferences\t<[]Object>"), "{tree}");
        assert!(kubectl.ok(&["explain", "secret.stringData"]).contains("<map[string]string>"));
    });
}

/// kubectl sends these in protobuf alone.
#[test]
fn kubectl_makes_kubernetes_own_kinds() {
    with(NEW, own_kinds);
}

#[test]
fn kubectl_1_20_makes_kubernetes_own_kinds() {
    with(OLD, own_kinds);
}

fn own_kinds(kubectl: &Kubectl) {
    kubectl.ok(&["create", "namespace", "rack1"]);
    let secret = ["create", "secret", "generic", "s", "-n", "rack1", "--from-literal=user=root"];
    assert_eq!(kubectl.ok(&secret), "secret/s created\n");
    kubectl.ok(&["create", "configmap", "c", "-n", "rack1", "--from-literal=a=b"]);
    kubectl.ok(&["create", "serviceaccount", "a", "-n", "rack1"]);
    let path = "jsonpath={.items[*].data.user}{.items[*].data.a}";
    assert_eq!(kubectl.ok(&["get", "secret,cm", "-n", "rack1", "-o", path]), "cm9vdA==b");
    assert_eq!(kubectl.ok(&["get", "sa", "-n", "rack1", "-o", "name"]), "serviceaccount/a\n");
    assert_eq!(kubectl.ok(&["auth", "can-i", "create", "bmh"]).trim_end(), "yes");
    let rules = kubectl.ok(&["auth", "can-i", "--list"]);
    assert!(
        rules.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == ["*.*", "[]", "[]", "[*]"]),
        "{rules}"
    );
    let no = kubectl.output(&["auth", "can-i", "delete", "crd"]);
    assert!(!no.status.success() && no.stdout.starts_with(b"no"), "{no:?}");
    let kinds = kubectl.ok(&["get", "crd", "-o", "name"]);
    assert_eq!(kinds, "customresourcedefinition.apiextensions.k8s.io/baremetalhosts.metal3.io\n");
    kubectl.ok(&["delete", "secret", "s", "-n", "rack1"]);
    kubectl.ok(&["delete", "ns", "rack1"]);
    assert_eq!(kubectl.ok(&["get", "ns", "-o", "name"]), "namespace/default\n");
}

#[test]
fn kubectl_says_who_one_is() {
    with(NEW, |kubectl| {
        let who = kubectl.ok(&["auth", "whoami"]);
        assert!(who.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == ["Username", "admin"]), "{who}");
    });
}

/// The server names the mistakes: kubectl sends what it was given and lets the server be strict.
#[test]
fn kubectl_shows_mistakes() {
    with(NEW, |kubectl| {
        kubectl.file("typo.yaml", &MANIFEST.replace("online: true", "online: true, onlin: true"));
        let strict = kubectl.fails(&["apply", "-f", "typo.yaml"]);
        assert!(strict.contains("strict decoding error: unknown field \"spec.onlin\""), "{strict}");
        let warned = kubectl.output(&["apply", "--validate=warn", "-f", "typo.yaml"]);
        assert!(warned.status.success());
        let warning = String::from_utf8_lossy(&warned.stderr);
        assert!(warning.contains("Warning: unknown field \"spec.onlin\""), "{warning}");
        kubectl.file("secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndat: {a: YQ==}\n");
        let secret = kubectl.fails(&["create", "-f", "secret.yaml"]);
        assert!(secret.contains("strict decoding error: unknown field \"dat\""), "{secret}");
        kubectl.file("type.yaml", &MANIFEST.replace("online: true", "online: maybe"));
        let wrong = kubectl.fails(&["apply", "-f", "type.yaml"]);
        assert!(wrong.contains("spec.online: Invalid value") && wrong.contains("must be of type boolean"), "{wrong}");
    });
}

/// It reads the document in protobuf and refuses mistakes before anything is sent.
#[test]
fn kubectl_1_20_shows_mistakes() {
    with(OLD, |kubectl| {
        kubectl.file("typo.yaml", &MANIFEST.replace("online: true", "online: true, onlin: true"));
        let typo = kubectl.fails(&["apply", "-f", "typo.yaml"]);
        assert!(typo.contains("unknown field \"onlin\" in io.metal3.v1alpha1.BareMetalHost.spec"), "{typo}");
        kubectl.file("type.yaml", &MANIFEST.replace("online: true", "online: maybe"));
        let wrong = kubectl.fails(&["apply", "-f", "type.yaml"]);
        assert!(wrong.contains("invalid type for io.metal3.v1alpha1.BareMetalHost.spec.online"), "{wrong}");
    });
}

fn manage(kubectl: &Kubectl) {
    let resources = kubectl.ok(&["api-resources"]);
    assert!(resources.lines().any(|line| line.starts_with("baremetalhosts") && line.contains("bmh")), "{resources}");
    assert_eq!(kubectl.ok(&["get", "--raw", "/readyz"]), "ok");
    let apply = ["apply", "-f", "h1.yaml"];
    assert_eq!(kubectl.ok(&apply), "secret/h1-bmc created\nbaremetalhost.metal3.io/h1 created\n");
    let again = kubectl.ok(&apply);
    assert!(again.contains("baremetalhost.metal3.io/h1 unchanged"), "{again}");
    assert_eq!(kubectl.ok(&["diff", "-f", "h1.yaml"]), "");
    kubectl.ok(&["apply", "--dry-run=server", "-f", "h1.yaml"]);
    kubectl.ok(&["apply", "--dry-run=client", "-f", "h1.yaml"]);
    kubectl.file("h1.yaml", &MANIFEST.replace("root", "admin").replace("true", "false"));
    assert_eq!(kubectl.ok(&apply), "secret/h1-bmc configured\nbaremetalhost.metal3.io/h1 configured\n");
    let password = kubectl.ok(&["get", "secret", "h1-bmc", "-o", "jsonpath={.data.username}"]);
    assert_eq!(password, "YWRtaW4=");

    let table = kubectl.ok(&["get", "bmh", "-A"]);
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words, ["NAMESPACE", "NAME", "STATE", "ONLINE", "default", "h1", "false"], "{table}");
    assert_eq!(kubectl.ok(&["get", "bmh", "-l", "rack in (r1,r2),!x", "-o", "name"]), "baremetalhost.metal3.io/h1\n");
    assert_eq!(kubectl.ok(&["get", "bmh", "--field-selector", "metadata.name=x", "-o", "name"]), "");
    let missing = kubectl.fails(&["get", "bmh", "nope"]);
    // kubectl 1.20 also says which files it looked for.
    let found = missing.ends_with("Error from server (NotFound): baremetalhosts.metal3.io \"nope\" not found\n");
    assert!(found, "{missing}");
    kubectl.ok(&["patch", "bmh", "h1", "--type=merge", "-p", r#"{"spec":{"description":"x"}}"#]);
    kubectl.ok(&["label", "bmh", "h1", "rack=r2", "--overwrite"]);
    let description = kubectl.ok(&["get", "bmh", "h1", "-o", "jsonpath={.spec.description} {.metadata.labels.rack}"]);
    assert_eq!(description, "x r2");
    let twice = kubectl.fails(&["create", "-f", "h1.yaml"]);
    assert!(twice.contains("(AlreadyExists)"), "{twice}");
    let wrong = kubectl.fails(&["patch", "bmh", "h1", "--type=merge", "-p", r#"{"spec":{"online":"maybe"}}"#]);
    assert!(wrong.contains("must be of type boolean"), "{wrong}");
    kubectl.ok(&["delete", "bmh", "h1"]);
    assert_eq!(kubectl.ok(&["get", "bmh", "-o", "name"]), "");
}

#[test]
fn kubectl_shows_what_happened_to_an_object() {
    with(NEW, |kubectl| {
        kubectl.ok(&["apply", "-f", "h1.yaml"]);
        let uid = kubectl.ok(&["get", "bmh", "h1", "-o", "jsonpath={.metadata.uid}"]);
        let event = |name: &str, reason: &str, host: &str| {
            let involved = format!(
                "{{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, name: {host}, namespace: default, uid: {uid}}}"
            );
            let rest = "type: Normal\nsource: {component: tester}\ncount: 3\nmessage: all is well";
            let time = "firstTimestamp: 2026-09-21T14:00:00Z\nlastTimestamp: 2026-09-21T14:13:00Z";
            format!(
                "apiVersion: v1\nkind: Event\nmetadata: {{name: {name}}}\ninvolvedObject: {involved}\nreason: {reason}\n{rest}\n{time}\n---\n"
            )
        };
        kubectl.file("events.yaml", &[event("h1.1", "Inspected", "h1"), event("h2.1", "Other", "h2")].concat());
        kubectl.ok(&["create", "-f", "events.yaml"]);
        let described = kubectl.ok(&["describe", "bmh", "h1"]);
        let (_, table) = described.split_once("Events:").unwrap();
        assert!(table.contains("Inspected") && table.contains("tester") && table.contains("x3 over"), "{described}");
        assert!(!table.contains("Other"), "{described}");
        let events = kubectl.ok(&["events", "--for", "bmh/h1"]);
        assert!(events.contains("BareMetalHost/h1") && !events.contains("Other"), "{events}");
        let all = kubectl.ok(&["get", "events"]);
        assert!(all.contains("baremetalhost/h1") && all.contains("Other"), "{all}");
        let some =
            ["get", "events", "-o", "name", "--field-selector", "involvedObject.name=h2,reason=Other,type!=Warning"];
        assert_eq!(kubectl.ok(&some), "event/h2.1\n");
    });
}

#[test]
fn kubectl_shows_the_log_of_a_host() {
    with(NEW, logs);
}

#[test]
fn kubectl_1_20_shows_the_log_of_a_host() {
    with(OLD, logs);
}

fn logs(kubectl: &Kubectl) {
    kubectl.ok(&["apply", "-f", "h1.yaml"]);
    assert_eq!(kubectl.ok(&["logs", "h1", "-c", "agent"]), "inspecting\nwriting\n");
    assert_eq!(kubectl.ok(&["logs", "h1", "-c", "kernel", "--tail=1"]), "Linux version 6\n");
    // Followed, it would not end.
    assert_eq!(kubectl.ok(&["logs", "h1", "-c", "agent", "-f", "--limit-bytes=19"]), "inspecting\nwriting\n");
    assert!(kubectl.fails(&["logs", "nope"]).contains("(NotFound)"));
    let pods = kubectl.ok(&["get", "pods"]);
    assert!(pods.contains("h1") && pods.contains("Running"), "{pods}");
    // Whether there are any is all that it wants to know.
    kubectl.ok(&["cluster-info"]);
    assert_eq!(kubectl.ok(&["get", "nodes", "-o", "name"]), "");
}

#[test]
fn kubectl_deletes_with_dependents_and_without() {
    with(NEW, delete);
}

#[test]
fn kubectl_1_20_deletes_with_dependents_and_without() {
    with(OLD, delete);
}

fn delete(kubectl: &Kubectl) {
    let map = |name: &str, owner: &str| {
        let uid = kubectl.ok(&["get", "bmh", owner, "-o", "jsonpath={.metadata.uid}"]);
        let reference = format!(
            "{{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, name: {owner}, uid: {uid}, blockOwnerDeletion: true}}"
        );
        let text =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, ownerReferences: [{reference}]}}\n");
        kubectl.file("map.yaml", &text);
        kubectl.ok(&["create", "-f", "map.yaml"]);
    };
    let host = MANIFEST.split("---").nth(1).unwrap();
    let make = |name: &str| {
        kubectl.file("host.yaml", &host.replace("h1", name));
        kubectl.ok(&["create", "-f", "host.yaml"]);
    };
    for name in ["a", "b", "c", "d"] {
        make(name);
    }
    map("of-a", "a");
    kubectl.ok(&["delete", "bmh", "a", "--cascade=foreground"]);
    let missing = kubectl.fails(&["get", "cm", "of-a"]);
    assert!(missing.contains("(NotFound)"), "{missing}");
    map("of-b", "b");
    kubectl.ok(&["delete", "bmh", "b", "--cascade=orphan"]);
    let owners = ["get", "cm", "of-b", "-o", "jsonpath={.metadata.ownerReferences}"];
    assert_eq!(kubectl.ok(&owners), "");
    map("of-c", "c");
    kubectl.ok(&["delete", "bmh", "c"]);
    kubectl.ok(&["wait", "--for=delete", "cm/of-c", "--timeout=60s"]);

    kubectl.ok(&["patch", "bmh", "d", "--type=merge", "-p", r#"{"metadata":{"finalizers":["x.io/f"]}}"#]);
    kubectl.ok(&["delete", "bmh", "d", "--wait=false"]);
    assert_eq!(kubectl.ok(&["get", "bmh", "d", "-o", "jsonpath={.metadata.finalizers[0]}"]), "x.io/f");
    kubectl.ok(&["patch", "bmh", "d", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    kubectl.ok(&["delete", "bmh", "d", "--ignore-not-found"]);

    kubectl.ok(&["create", "namespace", "rack1"]);
    kubectl.file("host.yaml", &host.replace("name: h1", "name: e, namespace: rack1"));
    kubectl.ok(&["create", "-f", "host.yaml"]);
    kubectl.ok(&["create", "configmap", "m", "-n", "rack1"]);
    kubectl.ok(&["delete", "ns", "rack1"]);
    assert_eq!(kubectl.ok(&["get", "bmh,cm", "-n", "rack1", "-o", "name"]), "");
    make("f");
    kubectl.ok(&["delete", "bmh", "-l", "rack=r1"]);
    assert_eq!(kubectl.ok(&["get", "bmh", "-o", "name"]), "");
}

/// Every type of patch, and the way from kubectl's own apply to the server's.

#[test]
fn kubectl_patches_and_applies() {
    with(NEW, patch_and_apply);
}

fn patch_and_apply(kubectl: &Kubectl) {
    kubectl.ok(&["apply", "-f", "h1.yaml"]);
    let host = MANIFEST.split("---").nth(1).unwrap().replace("h1", "h2");
    let write = |text: &str| kubectl.file("h2.yaml", text);
    write(&host);
    kubectl.ok(&["apply", "-f", "h2.yaml"]);
    let refused = kubectl.fails(&["patch", "bmh", "h2", "-p", r#"{"spec":{"online":true}}"#]);
    let accepted = "accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    assert!(refused.contains(accepted), "{refused}");
    let finalizer = r#"[{"op":"test","path":"/metadata/finalizers","value":null},{"op":"add","path":"/metadata/finalizers","value":["x.io/f"]}]"#;
    kubectl.ok(&["patch", "bmh", "h2", "--type=json", "-p", finalizer]);
    kubectl.fails(&["patch", "bmh", "h2", "--type=json", "-p", finalizer]);
    kubectl.ok(&["patch", "bmh", "h2", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    kubectl.ok(&[
        "patch",
        "secret",
        "h1-bmc",
        "-p",
        r#"{"stringData":{"username":"z"},"metadata":{"finalizers":["x.io/f"]}}"#,
    ]);
    let secret = ["get", "secret", "h1-bmc", "-o", "jsonpath={.data.username} {.metadata.finalizers[0]}"];
    assert_eq!(kubectl.ok(&secret), "eg== x.io/f");

    let managers = ["get", "bmh", "h2", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager}"];
    assert!(kubectl.ok(&managers).contains("kubectl-client-side-apply"));
    let apply = ["apply", "--server-side", "-f", "h2.yaml"];
    assert_eq!(kubectl.ok(&apply), "baremetalhost.metal3.io/h2 serverside-applied\n");
    let after = kubectl.ok(&managers);
    assert!(!after.contains("kubectl-client-side-apply") && after.contains("kubectl"), "{after}");
    write(&host.replace("online: true", "online: false"));
    let conflict = kubectl.fails(&[&apply[..], &["--field-manager=other"]].concat());
    assert!(conflict.contains(r#"Apply failed with 1 conflict: conflict with "kubectl": .spec.online"#), "{conflict}");
    kubectl.ok(&[&apply[..], &["--field-manager=other", "--force-conflicts"]].concat());
    assert_eq!(kubectl.ok(&["get", "bmh", "h2", "-o", "jsonpath={.spec.online}"]), "false");
}
