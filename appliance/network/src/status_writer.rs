//! Writes how the network is: the conditions, version and finalizer of the Provisioning object, and the ClusterOperator
//! `baremetal` with the same conditions (S0.13).

use firesteel_kube::{Core, ObjectPart, Objects, Status};
use firesteel_resources::{Condition, Provisioning, cluster_operator, no_controller, set_condition};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::conditions::sync_conditions;
use crate::sync::{FINALIZER, FinalizerStep, SyncReport};
use crate::version_change::{StoredVersion, report_version};

/// The name of the ClusterOperator, in upstream's word.
const OPERATOR: &str = "baremetal";

/// The name of the version in the ClusterOperator, in upstream's word.
const VERSION_NAME: &str = "operator";

/// Types of objects that a support bundle collects, by group and resource, as upstream names them.
const RELATED: [(&str, &str); 10] = [
    ("metal3.io", "provisionings"),
    ("metal3.io", "baremetalhosts"),
    ("metal3.io", "hardwaredata"),
    ("metal3.io", "hostfirmwaresettings"),
    ("metal3.io", "hostfirmwarecomponents"),
    ("metal3.io", "firmwareschemas"),
    ("metal3.io", "preprovisioningimages"),
    ("metal3.io", "bmceventsubscriptions"),
    ("metal3.io", "dataimages"),
    ("metal3.io", "hostupdatepolicies"),
];

/// Writes what changed, and nothing that is there already.
#[derive(Debug)]
pub(crate) struct StatusWriter {
    objects: Objects<Provisioning>,
    operators: Objects<Value>,
    version: String,
}

impl StatusWriter {
    pub(crate) fn new(core: &Core, version: &str) -> Result<Self, Status> {
        Ok(Self {
            objects: Objects::new(core, "metal3.io", "Provisioning")?,
            operators: Objects::new(core, "config.openshift.io", "ClusterOperator")?,
            version: version.to_owned(),
        })
    }

    /// Writes a report.
    ///
    /// # Errors
    /// When the store refuses.
    pub(crate) async fn write(
        &self,
        object: Option<&Provisioning>,
        report: &SyncReport,
        now: Timestamp,
    ) -> Result<(), Status> {
        let Some(reason) = report.reason else { return Ok(()) };
        // Kubernetes' times have whole seconds.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let operator = self.operator().await;
        let versioned = match object {
            Some(object) => {
                let status = object.status.as_ref();
                let stored = StoredVersion {
                    version: status.map(|status| status.version.as_str()).unwrap_or_default(),
                    conditions: status.map(|status| status.conditions.as_slice()).unwrap_or_default(),
                };
                report_version(stored, &self.version, reason, &report.message)
            }
            None => {
                let shown = operator.as_ref().unwrap_or(&Value::Null);
                let conditions = conditions_of(shown);
                let stored = StoredVersion { version: version_of(shown), conditions: &conditions };
                report_version(stored, &self.version, reason, &report.message)
            }
        };
        let shown = ShownStatus {
            conditions: sync_conditions(versioned.reason, &versioned.message, None),
            version: versioned.version,
            now,
        };
        if let Some(object) = object {
            self.write_object(object, &shown, report.finalizer).await?;
        }
        // The object says how the network is even where the ClusterOperator cannot be read.
        self.write_operator(operator?, &shown).await
    }

    async fn write_object(
        &self,
        object: &Provisioning,
        shown: &ShownStatus,
        finalizer: FinalizerStep,
    ) -> Result<(), Status> {
        let mut wanted = object.clone();
        // An edit that came since was not acted on.
        let generation = object.metadata.generation;
        set_status(&mut wanted, shown, generation);
        if wanted.status != object.status {
            let set = |stored: &mut Provisioning| set_status(stored, shown, generation);
            self.objects.modify("", &object.metadata.name, ObjectPart::Status, set).await?;
        }
        match finalizer {
            FinalizerStep::Keep => Ok(()),
            FinalizerStep::Add => self.edit_finalizers(object, add_finalizer).await,
            FinalizerStep::Remove => self.edit_finalizers(object, |names| names.retain(|name| name != FINALIZER)).await,
        }
    }

    async fn edit_finalizers(&self, object: &Provisioning, edit: impl Fn(&mut Vec<String>)) -> Result<(), Status> {
        let edit = |object: &mut Provisioning| edit(&mut object.metadata.finalizers);
        match self.objects.modify("", &object.metadata.name, ObjectPart::Main, edit).await {
            Err(status) if status.code == 404 => Ok(()),
            done => done.map(drop),
        }
    }

    /// Returns the ClusterOperator, which is made where it is not there.
    async fn operator(&self) -> Result<Value, Status> {
        if let Some(stored) = self.operators.get("", OPERATOR).await? {
            return Ok(stored);
        }
        let new = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
            "metadata": {"name": OPERATOR}, "spec": {}});
        self.operators.create(&new).await
    }

    async fn write_operator(&self, stored: Value, shown: &ShownStatus) -> Result<(), Status> {
        let set = |operator: &mut Value| set_operator(operator, shown);
        let mut wanted = stored.clone();
        set(&mut wanted);
        if wanted == stored {
            return Ok(());
        }
        self.operators.modify("", OPERATOR, ObjectPart::Status, set).await.map(drop)
    }
}

fn add_finalizer(names: &mut Vec<String>) {
    if !names.iter().any(|name| name == FINALIZER) {
        names.push(FINALIZER.to_owned());
    }
}

/// What is written of the network, on the object and on the ClusterOperator.
#[derive(Clone, Debug)]
struct ShownStatus {
    conditions: [Condition; 5],
    version: String,
    now: Timestamp,
}

/// Returns the version that a ClusterOperator has; empty if it has none.
fn version_of(operator: &Value) -> &str {
    let versions = operator["status"]["versions"].as_array().into_iter().flatten();
    let own = versions.into_iter().find(|version| version["name"] == VERSION_NAME);
    own.and_then(|version| version["version"].as_str()).unwrap_or_default()
}

/// Returns the conditions of a ClusterOperator, as far as they can be read.
fn conditions_of(operator: &Value) -> Vec<Condition> {
    let conditions = operator["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter_map(|condition| serde_json::from_value(condition.clone()).ok()).collect()
}

/// Shows how the network is by the spec of this generation.
fn set_status(object: &mut Provisioning, shown: &ShownStatus, generation: i64) {
    let status = object.status.get_or_insert_default();
    for condition in &shown.conditions {
        set_condition(&mut status.conditions, condition.clone(), shown.now);
    }
    status.observed_generation = generation;
    shown.version.clone_into(&mut status.version);
}

fn set_operator(operator: &mut Value, shown: &ShownStatus) {
    for condition in &shown.conditions {
        let kind = &cluster_operator::KIND;
        no_controller::put(kind, operator, &condition.type_, Some(condition.clone()), shown.now);
    }
    operator["status"]["versions"] = json!([{"name": VERSION_NAME, "version": shown.version}]);
    let related = RELATED.map(|(group, resource)| json!({"group": group, "resource": resource, "name": ""}));
    operator["status"]["relatedObjects"] = json!(related);
}
