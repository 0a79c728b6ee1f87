//! The real kubectl and a kind of which it sees two versions, one of them going away. What it does with real
//! kinds is tested where there are some.

use std::process::{Command, Output};

use firesteel_kube::Api;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use crate::toy::{Server, admin};
use crate::versions;

const NEW: &str = "kubectl";
const OLD: &str = "kubectl-1.20";

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

/// Runs a test with a kubectl, and a server with toys in two versions.
fn with(program: &'static str, test: fn(&Kubectl)) {
    if Command::new(program).args(["version", "--client"]).output().is_err() {
        println!("skipped: no {program} here; `./qemu/lab test` fetches it");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, listener) = runtime
        .block_on(async { (Server::of(versions::kinds()).await, TcpListener::bind("127.0.0.1:0").await.unwrap()) });
    let server_url = format!("http://{}", listener.local_addr().unwrap());
    let kubectl = Kubectl { program, server: server_url, home: tempfile::tempdir().unwrap() };
    runtime.spawn(serve(server.api.clone(), listener));
    test(&kubectl);
}

const FLEET: &str = "
apiVersion: toys.example.org/v1beta1
kind: Fleet
metadata: {name: f1}
spec: {count: 1, owner: red/ann, color: blue}
";

#[test]
fn kubectl_uses_both_versions_of_a_kind() {
    with(NEW, both_versions);
}

#[test]
fn kubectl_1_20_uses_both_versions_of_a_kind() {
    with(OLD, both_versions);
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
