//! A server with one kind, shaped like the one of the recorded answers as far as they need it.

use bytes::Bytes;
use firesteel_kube::{Admitted, Api, Caller, Cause, Cell, Column, Core, KindInfo, Registry, Timing, builtin};
use firesteel_store::{Memory, Store};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

pub(crate) const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts";

pub(crate) struct Server {
    pub(crate) api: Api,
    _directory: Option<tempfile::TempDir>,
}

pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) media_type: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) retry_after: Option<String>,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Server {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("store.db")).unwrap();
        Self { _directory: Some(directory), ..Self::on(store).await }
    }

    /// On a store without a file.
    pub(crate) async fn in_memory() -> Self {
        Self::on(Store::in_memory(&Memory::new())).await
    }

    /// The same server, with other times.
    pub(crate) fn timed(self, timing: Timing) -> Self {
        Self { api: Api::with_timing(self.api.core().clone(), timing), ..self }
    }

    async fn on(store: Store) -> Self {
        let core = Core::new(store, Registry::new(builtin::kinds().into_iter().chain([host()])));
        core.ensure_namespace("default").await.unwrap();
        Self { api: Api::new(core), _directory: None }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
        let response = self.api.handle(request, &admin()).await;
        let (parts, body) = response.into_parts();
        let header = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
        Reply {
            code: parts.status.as_u16(),
            media_type: parts.headers.get("content-type").map(header).unwrap_or_default(),
            warnings: parts.headers.get_all("warning").iter().map(header).collect(),
            retry_after: parts.headers.get("retry-after").map(header),
            text: String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Reply {
        self.send("PATCH", path, &[("content-type", "application/merge-patch+json")], &patch.to_string()).await
    }
}

pub(crate) fn admin() -> Caller {
    Caller { name: "admin".into(), admin: true }
}

/// A host that is on.
pub(crate) fn object(name: &str) -> Value {
    json!({ "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": { "name": name }, "spec": { "online": true } })
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn host() -> KindInfo {
    let column =
        |name, path| Column { name, column_type: "string", description: "", priority: 0, cell: Cell::Path(path) };
    KindInfo {
        short_names: &["bmh"],
        columns: vec![column("State", ".status.provisioning.state"), column("Online", ".spec.online")],
        ..KindInfo::namespaced("metal3.io", "v1alpha1", "BareMetalHost", "baremetalhosts")
    }
    .admitting(|value, _| admit(value))
}

fn admit(value: &mut Value) -> Result<Admitted, Vec<Cause>> {
    let mut causes = Vec::new();
    let mut unknown_fields = Vec::new();
    prune(value, "", &["apiVersion", "kind", "metadata", "spec", "status"], &mut unknown_fields);
    let known = ["online", "bootMode", "bootMACAddress", "bmc", "description", "automatedCleaningMode"];
    prune(&mut value["spec"], "spec.", &known, &mut unknown_fields);
    if value["spec"].get("bmc").is_some() {
        prune(&mut value["spec"]["bmc"], "spec.bmc.", &["address", "credentialsName"], &mut unknown_fields);
    }
    match &value["spec"]["online"] {
        Value::Bool(_) => {}
        Value::Null => causes.push(Cause::required("spec.online", "")),
        _ => causes.push(Cause {
            reason: "FieldValueTypeInvalid".into(),
            message: "Invalid value: \"string\": spec.online in body must be of type boolean: \"string\"".into(),
            field: "spec.online".into(),
        }),
    }
    if let Some(mode) =
        value["spec"].get("bootMode").filter(|mode| !["UEFI", "legacy"].contains(&mode.as_str().unwrap()))
    {
        causes.push(Cause::not_supported("spec.bootMode", mode, &["UEFI", "UEFISecureBoot", "legacy"]));
    }
    if let Some(mac) = value["spec"].get("bootMACAddress").filter(|mac| mac.as_str().unwrap().len() != 17) {
        let text = "spec.bootMACAddress in body should match '[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}'";
        causes.push(Cause::invalid("spec.bootMACAddress", mac, text));
    }
    if let Some(status) = value.get("status") {
        if status["errorCount"].is_string() {
            causes.push(Cause {
                reason: "FieldValueTypeInvalid".into(),
                message: "Invalid value: \"string\": errorCount in body must be of type integer: \"string\"".into(),
                field: "status.errorCount".into(),
            });
        }
        for field in ["errorMessage", "operationalStatus", "poweredOn", "provisioning"] {
            if status.get(field).is_none() {
                causes.push(Cause::required(&format!("status.{field}"), ""));
            }
        }
    }
    if value["spec"].get("automatedCleaningMode").is_none() {
        value["spec"]["automatedCleaningMode"] = json!("metadata");
    }
    if causes.is_empty() { Ok(Admitted { warnings: Vec::new(), unknown_fields }) } else { Err(causes) }
}

fn prune(value: &mut Value, at: &str, known: &[&str], unknown: &mut Vec<String>) {
    if let Value::Object(object) = value {
        object.retain(|key, _| {
            let keep = known.contains(&key.as_str());
            if !keep {
                unknown.push(format!("{at}{key}"));
            }
            keep
        });
    }
}
