//! An appliance with two namespaces of hosts and two of claims, and people who got their credentials from it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firesteel_tests::appliance::Appliance;
use reqwest::{Method, Response};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");

/// Namespaces, each with an object of every kind that matters.
const NAMESPACES: [&str; 4] = ["hosts-a", "hosts-b", "claims-a", "claims-b"];

pub(crate) struct Site {
    pub(crate) appliance: Appliance,
    pub(crate) admin: Person,
}

/// Somebody with a credential, on a connection of his own that is kept.
#[derive(Clone)]
pub(crate) struct Person {
    url: String,
    token: String,
    /// In PEM, with its key.
    certificate: Option<(Vec<u8>, Vec<u8>)>,
    http: reqwest::Client,
}

impl Site {
    pub(crate) async fn new() -> Self {
        let appliance = Appliance::start(PROGRAM);
        let admin = Person::of(&appliance.kubeconfig());
        let site = Self { appliance, admin };
        for namespace in NAMESPACES {
            let made = json!({ "metadata": { "name": namespace } });
            site.make("/api/v1/namespaces", "v1", "Namespace", made).await;
            let core = format!("/api/v1/namespaces/{namespace}");
            for (plural, kind) in
                [("secrets", "Secret"), ("configmaps", "ConfigMap"), ("serviceaccounts", "ServiceAccount")]
            {
                site.make(&format!("{core}/{plural}"), "v1", kind, json!({ "metadata": { "name": "x" } })).await;
            }
            let about = json!({ "kind": "BareMetalHost", "name": "x", "namespace": namespace });
            let event = json!({ "metadata": { "name": "x" }, "involvedObject": about, "reason": "Seen" });
            site.make(&format!("{core}/events"), "v1", "Event", event).await;
            let hosts = format!("/apis/metal3.io/v1alpha1/namespaces/{namespace}/baremetalhosts");
            let host = json!({ "metadata": { "name": "x" }, "spec": { "online": true } });
            site.make(&hosts, "metal3.io/v1alpha1", "BareMetalHost", host).await;
        }
        site
    }

    async fn make(&self, path: &str, api_version: &str, kind: &str, mut object: Value) {
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        let response = self.admin.ask(Method::POST, path, &object).await;
        assert!(response.status().is_success(), "{path}: {}", response.text().await.unwrap());
    }

    /// Lets a user in as a person would, and returns where his kubeconfig is.
    pub(crate) fn let_in(&self, user: &str, role: &str, namespace: Option<&str>) -> PathBuf {
        let file = self.appliance.folder().join(format!("{user}.kubeconfig"));
        let mut command = self.appliance.command();
        command.args(["kubeconfig", "--user", user, "--role", role, "--file"]).arg(&file);
        if let Some(namespace) = namespace {
            command.args(["--namespace", namespace]);
        }
        succeeded(&command.output().unwrap());
        file
    }

    pub(crate) fn person(&self, user: &str, role: &str, namespace: Option<&str>) -> Person {
        Person::of(&self.let_in(user, role, namespace))
    }

    /// A program with an account of its own.
    pub(crate) async fn program(&self, namespace: &str, name: &str) -> Person {
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        self.make(&accounts, "v1", "ServiceAccount", json!({ "metadata": { "name": name } })).await;
        let request = json!({ "spec": { "expirationSeconds": 600 } });
        let made = self.admin.ask(Method::POST, &format!("{accounts}/{name}/token"), &request).await;
        let made: Value = made.json().await.unwrap();
        Person { token: made["status"]["token"].as_str().unwrap().to_owned(), ..self.nobody() }
    }

    pub(crate) async fn grant(&self, name: &str, subject: Value, role: &str, namespace: &str) {
        let grant = json!({ "metadata": { "name": name }, "spec": { "subject": subject, "role": role, "namespace": namespace } });
        self.make(GRANTS, "firesteel.dev/v1alpha1", "AccessGrant", grant).await;
    }

    /// Somebody without a credential.
    pub(crate) fn nobody(&self) -> Person {
        let http = client(&self.appliance.ca_pem(), None);
        Person { url: self.appliance.url(), token: String::new(), certificate: None, http }
    }
}

pub(crate) const GRANTS: &str = "/apis/firesteel.dev/v1alpha1/accessgrants";

impl Person {
    /// Whom a kubeconfig is for.
    pub(crate) fn of(kubeconfig: &Path) -> Self {
        let config: Value = serde_json::from_slice(&std::fs::read(kubeconfig).unwrap()).unwrap();
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let pem = |value: &Value| value.as_str().map(|text| STANDARD.decode(text).unwrap());
        let certificate = pem(&user["client-certificate-data"]).zip(pem(&user["client-key-data"]));
        Self {
            url: cluster["server"].as_str().unwrap().to_owned(),
            token: user["token"].as_str().unwrap_or_default().to_owned(),
            http: client(&pem(&cluster["certificate-authority-data"]).unwrap(), certificate.clone()),
            certificate,
        }
    }

    /// The same credential, shown to the server of somebody else, whom this one takes for its own.
    pub(crate) fn at(&self, other: &Self, ca_pem: &[u8]) -> Self {
        Self { url: other.url.clone(), http: client(ca_pem, self.certificate.clone()), ..self.clone() }
    }

    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: &Value) -> Response {
        self.ask_as(method, path, &[], body).await
    }

    pub(crate) async fn ask_as(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &Value) -> Response {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        if !body.is_null() {
            request = request.body(body.to_string());
        }
        request.send().await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> u16 {
        self.ask(Method::GET, path, &Value::Null).await.status().as_u16()
    }
}

fn client(ca_pem: &[u8], certificate: Option<(Vec<u8>, Vec<u8>)>) -> reqwest::Client {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let tls = match certificate {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = CertificateDer::pem_slice_iter(&chain).map(Result::unwrap).collect();
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key).unwrap()).unwrap()
        }
    };
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}

pub(crate) fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// kubectl with somebody's kubeconfig, or `None` where there is no kubectl.
pub(crate) fn kubectl(site: &Site, kubeconfig: &Path) -> Option<Command> {
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        println!("skipped: no kubectl here; `./qemu/lab test` fetches it");
        return None;
    }
    let mut command = Command::new("kubectl");
    command.env("HOME", site.appliance.folder()).env("KUBECONFIG", kubeconfig).current_dir(site.appliance.folder());
    Some(command)
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}
