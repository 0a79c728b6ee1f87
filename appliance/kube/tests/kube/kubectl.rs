//! The real kubectl against a server on the loopback interface.

use std::process::{Command, Output};

use firesteel_kube::Api;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use crate::toy::{Server, admin};

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
    server: String,
    home: tempfile::TempDir,
}

impl Kubectl {
    fn output(&self, arguments: &[&str]) -> Output {
        Command::new("kubectl")
            .arg(format!("--server={}", self.server))
            .args(arguments)
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("none"))
            .output()
            .unwrap()
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

#[test]
fn kubectl_manages_objects() {
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        println!("skipped: no kubectl here");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, listener) =
        runtime.block_on(async { (Server::new().await, TcpListener::bind("127.0.0.1:0").await.unwrap()) });
    let kubectl =
        Kubectl { server: format!("http://{}", listener.local_addr().unwrap()), home: tempfile::tempdir().unwrap() };
    runtime.spawn(serve(server.api.clone(), listener));
    std::fs::write(kubectl.home.path().join("h1.yaml"), MANIFEST).unwrap();
    manage(&kubectl);
    patch_and_apply(&kubectl);
}

fn manage(kubectl: &Kubectl) {
    let resources = kubectl.ok(&["api-resources"]);
    assert!(resources.lines().any(|line| line.starts_with("baremetalhosts") && line.contains("bmh")), "{resources}");
    assert_eq!(kubectl.ok(&["get", "--raw", "/readyz"]), "ok");
    let apply = ["apply", "--validate=false", "-f", "h1.yaml"];
    assert_eq!(kubectl.ok(&apply), "secret/h1-bmc created\nbaremetalhost.metal3.io/h1 created\n");
    let again = kubectl.ok(&apply);
    assert!(again.contains("baremetalhost.metal3.io/h1 unchanged"), "{again}");
    std::fs::write(kubectl.home.path().join("h1.yaml"), MANIFEST.replace("root", "admin").replace("true", "false"))
        .unwrap();
    assert_eq!(kubectl.ok(&apply), "secret/h1-bmc configured\nbaremetalhost.metal3.io/h1 configured\n");
    let password = kubectl.ok(&["get", "secret", "h1-bmc", "-o", "jsonpath={.data.username}"]);
    assert_eq!(password, "YWRtaW4=");

    let table = kubectl.ok(&["get", "bmh", "-A"]);
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words, ["NAMESPACE", "NAME", "STATE", "ONLINE", "default", "h1", "false"], "{table}");
    assert_eq!(kubectl.ok(&["get", "bmh", "-l", "rack in (r1,r2),!x", "-o", "name"]), "baremetalhost.metal3.io/h1\n");
    assert_eq!(kubectl.ok(&["get", "bmh", "--field-selector", "metadata.name=x", "-o", "name"]), "");
    let missing = kubectl.fails(&["get", "bmh", "nope"]);
    assert_eq!(missing, "Error from server (NotFound): baremetalhosts.metal3.io \"nope\" not found\n");
    kubectl.ok(&["patch", "bmh", "h1", "--type=merge", "-p", r#"{"spec":{"description":"x"}}"#]);
    kubectl.ok(&["label", "bmh", "h1", "rack=r2", "--overwrite"]);
    let description = kubectl.ok(&["get", "bmh", "h1", "-o", "jsonpath={.spec.description} {.metadata.labels.rack}"]);
    assert_eq!(description, "x r2");
    let twice = kubectl.fails(&["create", "--validate=false", "-f", "h1.yaml"]);
    assert!(twice.contains("(AlreadyExists)"), "{twice}");
    let wrong = kubectl.fails(&["patch", "bmh", "h1", "--type=merge", "-p", r#"{"spec":{"online":"maybe"}}"#]);
    assert!(wrong.contains("must be of type boolean"), "{wrong}");
    kubectl.ok(&["delete", "bmh", "h1"]);
    assert_eq!(kubectl.ok(&["get", "bmh", "-o", "name"]), "");
}

/// Every type of patch, and the way from kubectl's own apply to the server's.
fn patch_and_apply(kubectl: &Kubectl) {
    let host = MANIFEST.split("---").nth(1).unwrap().replace("h1", "h2");
    let write = |text: &str| std::fs::write(kubectl.home.path().join("h2.yaml"), text).unwrap();
    write(&host);
    kubectl.ok(&["apply", "--validate=false", "-f", "h2.yaml"]);
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
    let apply = ["apply", "--server-side", "--validate=false", "-f", "h2.yaml"];
    assert_eq!(kubectl.ok(&apply), "baremetalhost.metal3.io/h2 serverside-applied\n");
    let after = kubectl.ok(&managers);
    assert!(!after.contains("kubectl-client-side-apply") && after.contains("kubectl"), "{after}");
    write(&host.replace("online: true", "online: false"));
    let conflict = kubectl.fails(&[&apply[..], &["--field-manager=other"]].concat());
    assert!(conflict.contains(r#"Apply failed with 1 conflict: conflict with "kubectl": .spec.online"#), "{conflict}");
    kubectl.ok(&[&apply[..], &["--field-manager=other", "--force-conflicts"]].concat());
    assert_eq!(kubectl.ok(&["get", "bmh", "h2", "-o", "jsonpath={.spec.online}"]), "false");
}
