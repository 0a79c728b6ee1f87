//! The secrets of the test: what an admin gives to the appliance, and by which way.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_tests::agent_line::client;
use firesteel_tests::canary::planted;
use firesteel_tests::field::{Field, mac};
use flate2::{Compression, write::GzEncoder};
use reqwest::Method;
use serde_json::{Value, json};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const METAL3: &str = "/apis/metal3.io/v1alpha1/namespaces/default";
pub(super) const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const POOLS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools";
const STREAMS: &str = "/apis/firesteel.dev/v1alpha1/bootimagestreams";

/// The admin, by the API.
pub(super) struct Admin<'a> {
    field: &'a Field,
    runtime: tokio::runtime::Runtime,
    /// How many secrets it has given away.
    pub(super) given: std::cell::Cell<usize>,
}

impl<'a> Admin<'a> {
    pub(super) fn of(field: &'a Field) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { field, runtime, given: std::cell::Cell::new(0) }
    }

    fn ask(&self, method: Method, path: &str, body: &Value) -> (u16, String) {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let client = client(&self.field.appliance.ca_pem());
        let request = client
            .request(method, format!("{}{path}", self.field.appliance.url()))
            .bearer_auth(self.field.appliance.token());
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.header("content-type", kind).body(body);
        self.runtime.block_on(async {
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        })
    }

    pub(super) fn does(&self, method: Method, path: &str, body: &Value) {
        let (status, text) = self.ask(method, path, body);
        assert!(status < 300, "{path}: {status} {text}");
    }

    /// A secret that is nowhere else.
    fn secret(&self, way: &str) -> String {
        self.given.set(self.given.get() + 1);
        planted(way)
    }

    /// Gives a secret away in a URL that is refused.
    fn is_refused(&self, path: &str, body: &Value) {
        let (status, text) = self.ask(Method::POST, path, body);
        assert_eq!(status, 422, "{path}: {text}");
    }
}

pub(super) fn gzip(text: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

pub(super) fn machine_config(name: &str, ignition: &Value) -> Value {
    let mut config = json!({"ignition": {"version": "3.2.0"}});
    config.as_object_mut().unwrap().extend(ignition.as_object().unwrap().clone());
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}},
        "spec": {"config": config},
    })
}

pub(super) fn file(contents: &Value) -> Value {
    json!({"storage": {"files": [{"path": "/etc/join", "contents": contents}]}})
}

/// Passwords, user data and configs, in Secrets: as text, in base64, packed, changed and deleted since.
pub(super) fn give_secrets(admin: &Admin<'_>) {
    let make = |name: &str, fields: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        admin.does(Method::POST, SECRETS, &object);
    };
    make("bmc", json!({"stringData": {"username": "root", "password": admin.secret("bmc")}}));
    let cloud = format!("#cloud-config\npassword: {}\n", admin.secret("userdata"));
    make("user-data", json!({"stringData": {"userData": cloud}}));
    let packed = gzip(&format!("#cloud-config\npassword: {}\n", admin.secret("packeduserdata")));
    make("packed", json!({"data": {"userData": STANDARD.encode(packed)}}));
    let header = json!({"name": "Authorization", "value": format!("Bearer {}", admin.secret("header"))});
    let merged = json!([{"source": "https://192.0.2.7/config", "httpHeaders": [header]}]);
    let ignition = json!({"ignition": {"version": "3.2.0", "config": {"merge": merged}}});
    make("ignition", json!({"stringData": {"userData": ignition.to_string()}}));
    make("meta-data", json!({"stringData": {"metaData": format!("token: {}\n", admin.secret("metadata"))}}));
    let token = json!({"path": "/etc/token", "contents": {"source": format!("data:,{}", admin.secret("config"))}});
    let config = json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [token]}}).to_string();
    make("config", json!({"type": "firesteel.dev/config", "stringData": {"config.ign": config}}));
    make("immutable", json!({"immutable": true, "stringData": {"key": admin.secret("immutable")}}));
    make("changed", json!({"stringData": {"key": admin.secret("before")}}));
    let after = json!({"stringData": {"key": admin.secret("after")}});
    admin.does(Method::PATCH, &format!("{SECRETS}/changed"), &after);
    make("gone", json!({"stringData": {"key": admin.secret("gone")}}));
    admin.does(Method::DELETE, &format!("{SECRETS}/gone"), &Value::Null);
}

/// The same in the configs of a pool, which is rendered of them.
pub(super) fn give_configs(admin: &Admin<'_>) {
    let make = |name: &str, ignition: Value| admin.does(Method::POST, CONFIGS, &machine_config(name, &ignition));
    make("01-text", file(&json!({"source": format!("data:,{}", admin.secret("text"))})));
    let encoded = STANDARD.encode(admin.secret("encoded"));
    make(
        "02-encoded",
        json!({"storage": {"files": [{
            "path": "/etc/encoded", "contents": {"source": format!("data:;base64,{encoded}")},
        }]}}),
    );
    let packed = STANDARD.encode(gzip(&admin.secret("packed")));
    make(
        "03-packed",
        json!({"storage": {"files": [{
            "path": "/etc/packed", "contents": {"compression": "gzip", "source": format!("data:;base64,{packed}")},
        }]}}),
    );
    make("04-user", json!({"passwd": {"users": [{"name": "core", "passwordHash": admin.secret("hash")}]}}));
    make("05-changed", file(&json!({"source": format!("data:,{}", admin.secret("configbefore"))})));
    let after =
        machine_config("05-changed", &file(&json!({"source": format!("data:,{}", admin.secret("configafter"))})));
    admin.does(Method::PATCH, &format!("{CONFIGS}/05-changed"), &after);
    make("06-gone", file(&json!({"source": format!("data:,{}", admin.secret("configgone"))})));
    admin.does(Method::DELETE, &format!("{CONFIGS}/06-gone"), &Value::Null);
    let selector = json!({"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}});
    admin.does(
        Method::POST,
        POOLS,
        &json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "worker"}, "spec": {"machineConfigSelector": selector},
        }),
    );
}

/// In URLs that are refused, each by a rule of its kind.
pub(super) fn give_urls(admin: &Admin<'_>) {
    let object = |kind: &str, spec: Value| {
        let group = if kind == "BootImageStream" { "firesteel.dev" } else { "metal3.io" };
        json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind, "metadata": {"name": "refused"}, "spec": spec})
    };
    let url = |scheme: &str, way: &str| format!("{scheme}://root:{}@10.77.0.9/x", admin.secret(way));
    admin.is_refused(&format!("{METAL3}/dataimages"), &object("DataImage", json!({"url": url("file", "dataimage")})));
    let image = json!({"url": url("file", "claim"), "checksum": "a"});
    admin.is_refused(&format!("{METAL3}/hostclaims"), &object("HostClaim", json!({"image": image})));
    let bmc = json!({"address": url("gopher", "bmcaddress"), "credentialsName": "bmc"});
    admin
        .is_refused(&format!("{METAL3}/baremetalhosts"), &object("BareMetalHost", json!({"online": true, "bmc": bmc})));
    admin.is_refused(STREAMS, &object("BootImageStream", json!({"source": {"url": url("http", "stream")}})));
    let image = json!({"url": url("http", "image"), "checksum": "a".repeat(32)});
    let host = object("BareMetalHost", json!({"online": true, "bootMACAddress": mac(9).to_string(), "image": image}));
    admin.is_refused(&format!("{METAL3}/baremetalhosts"), &host);
}
