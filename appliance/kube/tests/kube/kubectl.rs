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
use crate::versions;

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
    with_server(program, Server::new(), test);
}

fn with_server(program: &'static str, server: impl Future<Output = Server>, test: fn(&Kubectl)) {
    if Command::new(program).args(["version", "--client"]).output().is_err() {
        println!("skipped: no {program} here; `./qemu/lab test` fetches it");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, listener) =
        runtime.block_on(async { (server.await, TcpListener::bind("127.0.0.1:0").await.unwrap()) });
    let server = server.with(|api| api.logging(Arc::new(Spoken)));
    let server_url = format!("http://{}", listener.local_addr().unwrap());
    let kubectl = Kubectl { program, server: server_url, home: tempfile::tempdir().unwrap() };
    runtime.spawn(serve(server.api.clone(), listener));
    kubectl.file("h1.yaml", MANIFEST);
    test(&kubectl);
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

const FLEET: &str = "
apiVersion: toys.example.org/v1beta1
kind: Fleet
metadata: {name: f1}
spec: {count: 1, owner: red/ann, color: blue}
";

#[test]
fn kubectl_uses_both_versions_of_a_kind() {
    with_server(NEW, Server::of(versions::kinds()), both_versions);
}

#[test]
fn kubectl_1_20_uses_both_versions_of_a_kind() {
    with_server(OLD, Server::of(versions::kinds()), both_versions);
}

fn both_versions(kubectl: &Kubectl) {
    let (old, new) = ("fleets.v1beta1.toys.example.org", "fleets.v1.toys.example.org");
    kubectl.file("f1.yaml", FLEET);
    let applied = kubectl.output(&["apply", "-f", "f1.yaml"]);
    let said = String::from_utf8_lossy(&applied.stderr);
    let warning = "Warning: toys.example.org/v1beta1 Fleet is deprecated; use toys.example.org/v1 Fleet";
    assert!(applied.status.success() && said.contains(warning), "{said}");
    assert_eq!(kubectl.ok(&["apply", "-f", "f1.yaml"]), "fleet.toys.example.org/f1 unchanged\n");
    let spec = |resource: &str| kubectl.ok(&["get", resource, "f1", "-o", "jsonpath={.apiVersion} {.spec}"]);
    assert_eq!(spec(new), r#"toys.example.org/v1 {"owner":{"person":"ann","team":"red"},"replicas":1}"#);
    assert_eq!(spec(old), r#"toys.example.org/v1beta1 {"color":"blue","count":1,"owner":"red/ann"}"#);
    // Without a version it is the preferred one, which says nothing of age.
    // kubectl 1.20 also says which files it looked for.
    let said = kubectl.output(&["get", "fl"]).stderr;
    assert!(!String::from_utf8_lossy(&said).contains("deprecated"));
    kubectl.ok(&["patch", new, "f1", "--type=merge", "-p", r#"{"spec":{"replicas":2,"note":"n"}}"#]);
    kubectl.file("f1.yaml", &FLEET.replace("count: 1", "count: 2").replace("ann", "bob"));
    kubectl.ok(&["apply", "-f", "f1.yaml"]);
    assert_eq!(spec(new), r#"toys.example.org/v1 {"note":"n","owner":{"person":"bob","team":"red"},"replicas":2}"#);
    let explain =
        |version: &str| kubectl.ok(&["explain", &format!("--api-version=toys.example.org/{version}"), "fleets.spec"]);
    assert!(explain("v1beta1").contains("color\t<string>") && explain("v1").contains("owner\t<Object>"));

    assert_eq!(kubectl.ok(&["scale", "fleet", "f1", "--replicas=3"]), "fleet.toys.example.org/f1 scaled\n");
    let scale = ["scale", "fleet", "f1", "--current-replicas=3", "--replicas=5"];
    assert_eq!(kubectl.ok(&scale), "fleet.toys.example.org/f1 scaled\n");
    assert!(kubectl.fails(&scale).contains("replicas to be 3, was 5"));
    assert!(spec(old).contains(r#""count":5"#), "{}", spec(old));
}

#[test]
fn kubectl_shows_the_scale_of_an_object() {
    with_server(NEW, Server::of(versions::kinds()), |kubectl| {
        kubectl.file("f1.yaml", FLEET);
        kubectl.ok(&["create", "-f", "f1.yaml"]);
        let path = "jsonpath={.kind} {.spec.replicas} {.status.replicas}";
        assert_eq!(kubectl.ok(&["get", "fleet", "f1", "--subresource=scale", "-o", path]), "Scale 1 0");
        let table = kubectl.ok(&["get", "fleet", "f1", "--subresource=scale"]);
        assert!(table.lines().nth(1).unwrap().split_whitespace().take(3).eq(["f1", "1", "0"]), "{table}");
        let patch =
            ["patch", "fleet", "f1", "--subresource=scale", "--type=merge", "-p", r#"{"spec":{"replicas":-1}}"#];
        let refused = kubectl.fails(&patch);
        assert!(refused.contains(".spec.replicas: Invalid value: -1: should be a non-negative integer"), "{refused}");
    });
}
