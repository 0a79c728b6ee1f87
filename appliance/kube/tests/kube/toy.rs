//! A server with one kind, shaped like the one of the recorded answers as far as they need it, and
//! with a clock that stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use firesteel_kube::{
    AdmittedObject, Api, Caller, Cause, CauseReason, Cell, Core, KindInfo, PrinterColumn, Registry, Timing, builtin,
};
use firesteel_store::{MemoryMedium, Store};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts";

pub(crate) struct Server {
    pub(crate) api: Api,
    seconds: Arc<AtomicI64>,
    _life: Life,
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
        Self::on(Store::in_memory(&MemoryMedium::new())).await
    }

    /// The same server, with other times.
    pub(crate) fn timed(self, timing: Timing) -> Self {
        Self { api: Api::with_timing(self.api.core().clone(), timing), ..self }
    }

    /// Without a file, and with these kinds beside Kubernetes' own.
    pub(crate) async fn of(kinds: impl IntoIterator<Item = KindInfo>) -> Self {
        Self::serving(Store::in_memory(&MemoryMedium::new()), kinds).await
    }

    /// The same server behind another door.
    pub(crate) fn with(self, change: impl FnOnce(Api) -> Api) -> Self {
        Self { api: change(self.api.clone()), ..self }
    }

    pub(crate) async fn on(store: Store) -> Self {
        Self::serving(store, [host(), pod()]).await
    }

    async fn serving(store: Store, kinds: impl IntoIterator<Item = KindInfo>) -> Self {
        let seconds = Arc::new(AtomicI64::new(1_790_000_000));
        let clock = Arc::clone(&seconds);
        let core = Core::with_clock(
            store,
            Registry::new(builtin::kinds().into_iter().chain(kinds)),
            Arc::new(move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap()),
        );
        core.ensure_namespace("default").await.unwrap();
        core.publish_kinds().await.unwrap();
        let _life = Life(tokio::spawn(firesteel_kube::lifecycle::run(core.clone())).abort_handle());
        Self { api: Api::new(core), seconds, _life, _directory: None }
    }

    pub(crate) fn tick(&self) {
        self.seconds.fetch_add(1, Ordering::Relaxed);
    }

    /// Server-side apply to the objects of the kind; `query` begins with the manager.
    pub(crate) async fn apply(&self, name: &str, query: &str, object: &Value) -> Reply {
        let headers = [("content-type", "application/apply-patch+yaml")];
        self.send("PATCH", &format!("{HOSTS}/{name}?fieldManager={query}"), &headers, &object.to_string()).await
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

/// What follows from deletions is done as long as the server is there.
struct Life(tokio::task::AbortHandle);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn admin() -> Caller {
    Caller::admin()
}

/// A host that is on.
pub(crate) fn object(name: &str) -> Value {
    json!({ "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": { "name": name }, "spec": { "online": true } })
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

/// Hosts as pods.
fn pod() -> KindInfo {
    builtin::pod("metal3.io", "baremetalhosts", |_| builtin::pod_body(&["agent", "kernel"], "Running"))
}

fn host() -> KindInfo {
    let column = |name, column_type, priority, path, description| PrinterColumn {
        name,
        column_type,
        description,
        priority,
        cell: Cell::Path(path),
    };
    let online = "Whether the host is online or not";
    let age = "Time duration since creation of BaremetalHost";
    KindInfo {
        short_names: &["bmh"],
        description: "A server.",
        columns: vec![
            column("Status", "string", 1, ".status.operationalStatus", "Operational status"),
            column("State", "string", 0, ".status.provisioning.state", "Provisioning status"),
            column("Consumer", "string", 0, ".spec.consumerRef.name", "Consumer using this host"),
            column("BMC", "string", 1, ".spec.bmc.address", "Address of management controller"),
            column("Online", "string", 0, ".spec.online", online),
            column("Error", "string", 0, ".status.errorType", "Type of the most recent error"),
            column("Age", "date", 0, ".metadata.creationTimestamp", age),
        ],
        ..KindInfo::namespaced("metal3.io", "v1alpha1", "BareMetalHost", "baremetalhosts").with_schema(schema())
    }
    .admitting(|value, _| admit(value))
}

/// What [`admit`] takes.
fn schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let bmc = json!({
        "type": "object", "description": "How to reach the controller.", "required": ["address", "credentialsName"],
        "properties": { "address": text("Its URL."), "credentialsName": text("The Secret with its password.") },
    });
    let spec = json!({
        "type": "object", "required": ["online"],
        "properties": {
            "online": { "type": "boolean" },
            "bootMode": { "type": "string", "enum": ["UEFI", "legacy"] },
            "bootMACAddress": { "type": "string", "pattern": "[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}" },
            "bmc": bmc,
            "description": text("For people."),
            "automatedCleaningMode": { "type": "string", "default": "metadata" },
        },
    });
    let condition: serde_json::Map<String, Value> = ["type", "status", "reason", "message", "lastTransitionTime"]
        .map(|name| (name.to_owned(), json!({ "type": "string" })))
        .into_iter()
        .collect();
    let image =
        json!({ "type": "object", "properties": { "url": { "type": "string" }, "checksum": { "type": "string" } } });
    let provisioning = json!({ "state": { "type": "string" }, "ID": { "type": "string" }, "image": image });
    let status = json!({
        "type": "object",
        "properties": {
            "errorMessage": { "type": "string" },
            "operationalStatus": { "type": "string" },
            "errorCount": { "type": "integer" },
            "provisioningFailCount": { "type": "integer" },
            "poweredOn": { "type": "boolean" },
            "provisioning": { "type": "object", "properties": provisioning },
            "conditions": {
                "type": "array", "items": { "type": "object", "properties": condition },
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            },
        },
    });
    json!({ "type": "object", "properties": { "spec": spec, "status": status } })
}

fn admit(value: &mut Value) -> Result<AdmittedObject, Vec<Cause>> {
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
            reason: CauseReason::FieldValueTypeInvalid,
            message: "Invalid value: \"string\": spec.online in body must be of type boolean: \"string\"".into(),
            field: "spec.online".into(),
        }),
    }
    if let Some(mode) =
        value["spec"].get("bootMode").filter(|mode| !["UEFI", "legacy"].contains(&mode.as_str().unwrap()))
    {
        causes.push(Cause::not_supported_json("spec.bootMode", mode, &["UEFI", "UEFISecureBoot", "legacy"]));
    }
    if let Some(mac) = value["spec"].get("bootMACAddress").filter(|mac| mac.as_str().unwrap().len() != 17) {
        let text = "spec.bootMACAddress in body should match '[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}'";
        causes.push(Cause::invalid_json("spec.bootMACAddress", mac, text));
    }
    if let Some(status) = value.get_mut("status") {
        if status.get("provisioningFailCount").is_none() {
            status["provisioningFailCount"] = json!(0);
        }
        if status["errorCount"].is_string() {
            causes.push(Cause {
                reason: CauseReason::FieldValueTypeInvalid,
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
    if causes.is_empty() { Ok(AdmittedObject { warnings: Vec::new(), unknown_fields }) } else { Err(causes) }
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
