//! Secrets that must be found nowhere: put in by every way that there is, while everything is logged and
//! requests are refused; then every byte that the appliance has written is looked at, backups and folders that
//! are restored from them included, before and after the key is changed. What a secret is for still works: it
//! can be read by who may.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use firesteel_store::{GroupResource, ObjectKey, SealingKeys, Store};
use firesteel_tests::appliance::Appliance;
use firesteel_tests::canary::{canary, files_under, forms, found_in, holds};
use reqwest::{Client, Method};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const NOTHING: [String; 0] = [];

/// Everything that the appliance wrote.
fn written(appliance: &Appliance) -> Vec<PathBuf> {
    files_under(appliance.folder())
}

struct Api {
    client: Client,
    url: String,
    token: String,
}

impl Api {
    fn of(appliance: &Appliance) -> Self {
        use rustls::pki_types::{CertificateDer, pem::PemObject as _};
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&appliance.ca_pem()).unwrap()).unwrap();
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config: Value = serde_json::from_slice(&fs::read(appliance.kubeconfig()).unwrap()).unwrap();
        let token = config.pointer("/users/0/user/token").unwrap().as_str().unwrap().to_owned();
        let client = Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
        Self { client, url: appliance.url(), token }
    }

    async fn ask(&self, method: Method, path: &str, (kind, body): (&str, String)) -> (u16, String) {
        let request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        let answer = request.header("content-type", kind).body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    async fn done(&self, method: Method, path: &str, kind: &str, body: String) {
        let (code, text) = self.ask(method, path, (kind, body)).await;
        assert!(code < 300, "{path}: {code} {text}");
    }

    /// What is wrong with a refusal, which shows nothing of what was sent.
    async fn refused(&self, method: Method, path: &str, kind: &str, body: String, code: u16) -> Vec<String> {
        let asked = format!("{method} {path} {kind} {body}");
        let (found, text) = self.ask(method, path, (kind, body)).await;
        let mut wrong = Vec::new();
        if found != code {
            wrong.push(format!("{asked}: {found} instead of {code}: {text}"));
        }
        let shown = forms().into_iter().filter(|(_, wanted)| holds(text.as_bytes(), wanted));
        wrong.extend(shown.map(|(form, _)| format!("{asked}: the refusal shows the secret {form}: {text}")));
        wrong
    }
}

fn secret(name: &str, fields: Value) -> Value {
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    secret.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    secret
}

fn data(way: &str) -> Value {
    json!({"data": {"password": STANDARD.encode(canary(way))}})
}

fn plain(way: &str) -> Value {
    json!({"stringData": {"password": canary(way)}})
}

/// Every way in.
async fn put_in(api: &Api) {
    let post = Method::POST;
    for (name, body) in [("a", data("create")), ("b", plain("stringData")), ("immutable", plain("immutable"))] {
        api.done(post.clone(), SECRETS, JSON, secret(name, body).to_string()).await;
    }
    let yaml = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: from-yaml}}\nstringData: {{p: {}}}\n",
        json!(canary("yaml"))
    );
    api.done(post.clone(), SECRETS, YAML, yaml).await;
    // What kubectl keeps of an applied object, on the object itself.
    let mut applied = secret("last-applied", plain("last-applied"));
    let record = applied.to_string();
    applied["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": record});
    api.done(post.clone(), SECRETS, JSON, applied.to_string()).await;

    let a = &format!("{SECRETS}/a");
    api.done(Method::PUT, a, JSON, secret("a", data("update")).to_string()).await;
    api.done(Method::PATCH, a, MERGE, plain("merge").to_string()).await;
    api.done(Method::PATCH, a, STRATEGIC, data("strategic").to_string()).await;
    let replace = json!([{"op": "replace", "path": "/data/password", "value": STANDARD.encode(canary("json-patch"))}]);
    api.done(Method::PATCH, a, JSON_PATCH, replace.to_string()).await;
    let applied = secret("applied", plain("apply")).to_string();
    for path in
        [format!("{SECRETS}/applied?fieldManager=one"), format!("{SECRETS}/applied?fieldManager=two&force=true")]
    {
        api.done(Method::PATCH, &path, APPLY, applied.clone()).await;
    }
    api.done(Method::PATCH, &format!("{SECRETS}/immutable"), MERGE, json!({"immutable": true}).to_string()).await;
    api.done(post.clone(), &format!("{SECRETS}?dryRun=All"), JSON, secret("dry", plain("dry-run")).to_string()).await;
    // Deleted, so that it is in the history and in free pages alone.
    api.done(post.clone(), SECRETS, JSON, secret("gone", data("gone")).to_string()).await;
    api.done(Method::DELETE, &format!("{SECRETS}/gone"), JSON, String::new()).await;

    let host = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "h1"},
        "spec": {
            "online": true, "bootMACAddress": "52:54:00:77:01:01", "userData": {"name": "b"},
            "bmc": {"address": "redfish://127.0.0.1:9/redfish/v1/Systems/1", "credentialsName": "a"},
        },
    });
    api.done(post.clone(), HOSTS, JSON, host.to_string()).await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e1"}, "reason": "Seen", "message": "of a secret",
        "involvedObject": {"kind": "Secret", "namespace": "default", "name": "a"},
    });
    api.done(post, "/api/v1/namespaces/default/events", JSON, event.to_string()).await;
}

/// Every kind of refusal that has the value before its eyes.
async fn be_refused(api: &Api) {
    let post = Method::POST;
    let a = &format!("{SECRETS}/a");
    let strict = "fieldValidation=Strict";
    let mut wrong = Vec::new();
    for (method, path, kind, body, code) in [
        // No base64.
        (post.clone(), SECRETS, JSON, secret("x", json!({"data": {"p": canary("not-base64")}})).to_string(), 422),
        (Method::PATCH, a, MERGE, json!({"data": {"p": canary("not-base64")}}).to_string(), 422),
        // Wrong types.
        (post.clone(), SECRETS, JSON, secret("x", json!({"data": [canary("list")]})).to_string(), 422),
        (post.clone(), SECRETS, JSON, secret("x", json!({"data": canary("text")})).to_string(), 422),
        (post.clone(), SECRETS, JSON, secret("x", json!({"stringData": {"p": [canary("nested")]}})).to_string(), 422),
        (post.clone(), SECRETS, JSON, json!(canary("no object")).to_string(), 400),
        (post.clone(), SECRETS, JSON, format!("{{\"stringData\": {{\"p\": {}", json!(canary("cut"))), 400),
        (post.clone(), SECRETS, YAML, format!("stringData: {{p: {}", json!(canary("cut"))), 400),
        (post.clone(), SECRETS, YAML, format!("stringData: {}\n", json!(canary("yaml"))), 422),
        (post.clone(), SECRETS, "application/vnd.kubernetes.protobuf", canary("protobuf"), 400),
        (Method::PATCH, a, MERGE, json!(canary("no patch")).to_string(), 400),
        (
            Method::PATCH,
            a,
            JSON_PATCH,
            json!([{"op": "test", "path": "/data/password", "value": canary("test")}]).to_string(),
            422,
        ),
        (
            Method::PATCH,
            a,
            JSON_PATCH,
            json!([{"op": "add", "path": "/no/such", "value": canary("path")}]).to_string(),
            422,
        ),
        // What must not change.
        (Method::PATCH, &format!("{SECRETS}/immutable"), MERGE, data("other").to_string(), 422),
        // What is unknown or said twice, by one who wants to be told.
        (
            Method::PATCH,
            &format!("{a}?{strict}"),
            MERGE,
            json!({"unknown": 1, "data": {"p": STANDARD.encode(canary("strict"))}}).to_string(),
            422,
        ),
        (
            Method::PATCH,
            &format!("{a}?{strict}"),
            MERGE,
            format!("{{\"stringData\": {{\"p\": 1, \"p\": {}}}}}", json!(canary("twice"))),
            422,
        ),
        (
            post.clone(),
            &format!("{SECRETS}?{strict}"),
            JSON,
            secret("x", json!({"unknown": canary("strict")})).to_string(),
            400,
        ),
        (post.clone(), SECRETS, JSON, secret("a", plain("exists")).to_string(), 409),
        (
            Method::PATCH,
            &format!("{SECRETS}/applied?fieldManager=three"),
            APPLY,
            secret("applied", plain("conflict")).to_string(),
            409,
        ),
        (
            Method::PATCH,
            &format!("{SECRETS}/applied?fieldManager=three"),
            APPLY,
            secret("applied", json!({"data": [canary("list")]})).to_string(),
            500,
        ),
        (post.clone(), SECRETS, "application/cbor", canary("cbor"), 415),
    ] {
        wrong.extend(api.refused(method, path, kind, body, code).await);
    }
    assert_eq!(wrong, NOTHING);
}

async fn is_readable(api: &Api) {
    let (_, text) = api.ask(Method::GET, &format!("{SECRETS}/a"), (JSON, String::new())).await;
    let a: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(a["data"]["password"], STANDARD.encode(canary("json-patch")), "{a}");
}

/// Rows are for people's eyes, and lists of hosts are seen by those who may not see secrets.
async fn lists_show_nothing(api: &Api) {
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for path in [SECRETS, HOSTS, "/api/v1/namespaces/default/events", "/apis/firesteel.dev/v1alpha1/hostjournals"] {
        let request = api.client.get(format!("{}{path}?includeObject=None", api.url)).bearer_auth(&api.token);
        let text = request.header("accept", table).send().await.unwrap().text().await.unwrap();
        assert!(text.contains("\"Table\""), "{text}");
        for (form, wanted) in forms() {
            assert!(!holds(text.as_bytes(), &wanted), "{path}: {form}");
        }
    }
}

/// What can be found of the key that secrets are sealed by.
struct KeyInForce {
    /// The key itself, which is in its file alone.
    key: Vec<(&'static str, Vec<u8>)>,
    /// What tells values that are sealed by it.
    id: Vec<(&'static str, Vec<u8>)>,
}

impl KeyInForce {
    fn of(data: &Path) -> Self {
        let digits = fs::read_to_string(data.join("secrets/at-rest.key")).unwrap().trim().to_owned();
        let bytes = hex::decode(&digits).unwrap();
        let ring = SealingKeys::new(Vec::new(), &[bytes.clone().try_into().unwrap()]).unwrap();
        let id = hex::decode(ring.ids()[0].to_string()).unwrap();
        Self {
            key: vec![("the key", digits.into_bytes()), ("the key's bytes", bytes)],
            id: vec![("a value sealed by the key", id)],
        }
    }

    /// Nothing was ever sealed by it.
    fn assert_forgotten(&self, files: &[PathBuf]) {
        assert_eq!(found_in(files, &self.key), NOTHING);
        assert_eq!(found_in(files, &self.id), NOTHING);
    }
}

fn succeeds(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    for (form, wanted) in forms() {
        assert!(!holds(&output.stdout, &wanted) && !holds(&output.stderr, &wanted), "{command:?} prints it {form}");
    }
    String::from_utf8(output.stdout).unwrap()
}

/// `firesteel backup`: the Secrets are in it, sealed by the key in force, which is not.
fn back_up(appliance: &Appliance, into: &Path) {
    let mut command = appliance.command();
    command.arg("backup").arg(into);
    succeeds(command);
    let (file, key) = ([into.to_owned()], KeyInForce::of(&appliance.data()));
    assert!(!found_in(&file, &key.id).is_empty(), "no Secret is in the backup");
    assert_eq!(found_in(&file, &key.key), NOTHING);
    assert_eq!(found_in(&file, &forms()), NOTHING);
}

/// `firesteel restore` into a folder that is not there yet.
fn restore(mut command: Command, backup: &Path, keys: &Path, into: &Path) {
    command.arg("restore").arg(backup).arg("--data").arg(into).arg("--keys").arg(keys);
    succeeds(command);
    assert_eq!(found_in(&files_under(into), &forms()), NOTHING);
}

/// Whoever has lost the key has lost the Secrets, and nothing else.
fn restore_without_keys(appliance: &Appliance, backup: &Path, into: &Path) {
    let mut command = appliance.command();
    command.arg("restore").arg(backup).arg("--data").arg(into).arg("--new-keys");
    let told = succeeds(command);
    assert!(told.contains("6 Secrets are lost with their key: make Secrets and configs again"), "{told}");
    let database = into.join("resources.db");
    assert_eq!(Store::needs_key(&database).unwrap(), None);
    let store = Store::open(&database).unwrap();
    let host = ObjectKey::new(&GroupResource::new("metal3.io", "baremetalhosts"), "default", "h1");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime.block_on(store.get(&host)).unwrap().is_some());
}

/// The folders with the private keys, as whoever makes backups keeps them.
fn keep_keys(data: &Path, into: &Path) {
    for folder in ["pki", "secrets"] {
        fs::create_dir_all(into.join(folder)).unwrap();
        for file in files_under(&data.join(folder)) {
            fs::copy(&file, into.join(folder).join(file.file_name().unwrap())).unwrap();
        }
    }
}

#[test]
fn a_canary_is_found_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let value = canary("x");
    for padding in ["", "a", "ab"] {
        let longer = format!("{padding}{value}{padding}");
        let encoded = STANDARD.encode(&longer);
        let [twice, in_urls] = [STANDARD.encode(&encoded), URL_SAFE.encode(&longer)];
        for text in [&longer, &encoded, &twice, &in_urls, &json!(longer).to_string(), &hex::encode(&longer)] {
            fs::write(folder.path().join("f"), text).unwrap();
            assert!(!found_in(&files_under(folder.path()), &forms()).is_empty(), "{text}");
        }
    }
}

#[test]
fn a_secret_is_in_no_byte_that_is_written() {
    let mut appliance = Appliance::start_with(PROGRAM, &["--log", "trace"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let api = Api::of(&appliance);
    runtime.block_on(async {
        put_in(&api).await;
        be_refused(&api).await;
        lists_show_nothing(&api).await;
        is_readable(&api).await;
    });
    assert!(appliance.log().contains("TRACE"), "the log is at its most talkative");
    let audit = fs::read_to_string(appliance.data().join("audit/audit.jsonl")).unwrap();
    assert!(audit.contains("\"secrets\""), "{audit}");
    assert_eq!(found_in(&written(&appliance), &forms()), NOTHING);
    let token = [("the admin's token", api.token.clone().into_bytes())];
    let logs = [appliance.folder().join("appliance.log"), appliance.data().join("audit/audit.jsonl")];
    assert_eq!(found_in(&logs, &token), NOTHING);

    let aside = tempfile::tempdir().unwrap();
    let [before, after, kept, folder] = ["before", "after", "kept", "of-before"].map(|name| aside.path().join(name));
    back_up(&appliance, &before);
    keep_keys(&appliance.data(), &kept);
    let old = KeyInForce::of(&appliance.data());
    for in_force in [&old.key, &old.id] {
        assert!(!found_in(&written(&appliance), in_force).is_empty());
    }

    let mut rekey = appliance.command();
    rekey.arg("rekey");
    succeeds(rekey);
    old.assert_forgotten(&written(&appliance));
    assert_eq!(found_in(&written(&appliance), &forms()), NOTHING);
    back_up(&appliance, &after);
    old.assert_forgotten(std::slice::from_ref(&after));
    restore(appliance.command(), &before, &kept, &folder);
    restore_without_keys(&appliance, &before, &aside.path().join("without-keys"));

    // It goes on from the newer backup.
    let (data, former) = (appliance.data(), aside.path().join("former"));
    let program = appliance.command();
    appliance.kill_and_start_again_after(|| {
        fs::rename(&data, &former).unwrap();
        restore(program, &after, &former, &data);
    });
    runtime.block_on(is_readable(&Api::of(&appliance)));
    for files in [written(&appliance), files_under(aside.path())] {
        assert_eq!(found_in(&files, &forms()), NOTHING);
    }
    old.assert_forgotten(&written(&appliance));
    old.assert_forgotten(&files_under(&former));
}
