//! The network's controller against real objects in a store, with services that only note what is done to them: which
//! edit starts and stops what, and what the object then says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firesteel_appliance::serve::kinds;
use firesteel_facts::{Mac, WorkHold};
use firesteel_kube::{Core, ObjectChange, ObjectPart, Objects};
use firesteel_network::{
    AddressState, InterfaceFacts, NetworkController, NetworkControllerConfig, NetworkServices, NetworkSettings,
    NetworkSurroundings, ServiceFailure, ServiceName, ServicePlan,
};
use firesteel_runtime::{Tokio, lock};
use firesteel_store::{MemoryMedium, Store};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

const NAME: &str = "provisioning-configuration";
/// Longest wait for anything: a busy machine, and a turn each five seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Services that note what is done to them.
struct RecordedServices {
    done: Mutex<Vec<String>>,
    /// Why a service does not start.
    faults: Mutex<BTreeMap<ServiceName, String>>,
    ends: mpsc::UnboundedSender<(ServiceName, String)>,
    ended: tokio::sync::Mutex<mpsc::UnboundedReceiver<(ServiceName, String)>>,
    is_paused: Mutex<bool>,
    work_hold: Mutex<Option<WorkHold>>,
    /// Whether DHCP is ours, as the services heard it last.
    leases: Mutex<Option<bool>>,
}

impl RecordedServices {
    fn new() -> Self {
        let (ends, ended) = mpsc::unbounded_channel();
        Self {
            done: Mutex::default(),
            faults: Mutex::default(),
            ends,
            ended: tokio::sync::Mutex::new(ended),
            is_paused: Mutex::new(false),
            work_hold: Mutex::default(),
            leases: Mutex::default(),
        }
    }

    fn note(&self, what: &str, name: ServiceName) -> Result<(), ServiceFailure> {
        if let Some(why) = lock(&self.faults).get(&name) {
            return Err(ServiceFailure(why.clone()));
        }
        lock(&self.done).push(format!("{what} {}", name.word()));
        Ok(())
    }

    /// Returns what was done since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.done))
    }
}

impl NetworkServices for RecordedServices {
    fn start<'a>(&'a self, name: ServiceName, _: &'a ServicePlan) -> BoxFuture<'a, Result<(), ServiceFailure>> {
        Box::pin(async move { self.note("start", name) })
    }

    fn adjust<'a>(&'a self, name: ServiceName, _: &'a ServicePlan) -> BoxFuture<'a, Result<(), ServiceFailure>> {
        Box::pin(async move { self.note("adjust", name) })
    }

    fn stop(&self, name: ServiceName) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.note("stop", name).unwrap() })
    }

    fn planned<'a>(&'a self, plan: &'a ServicePlan) -> BoxFuture<'a, ()> {
        Box::pin(async move { *lock(&self.leases) = Some(plan.leases_addresses()) })
    }

    fn ended(&self) -> BoxFuture<'_, (ServiceName, String)> {
        Box::pin(async move { self.ended.lock().await.recv().await.unwrap() })
    }

    fn pause_address(&self, is_paused: bool) {
        *lock(&self.is_paused) = is_paused;
    }

    fn hold_work(&self, hold: Option<WorkHold>) {
        *lock(&self.work_hold) = hold;
    }

    fn address(&self) -> Option<AddressState> {
        Some(AddressState::Held { contested_by: None })
    }
}

/// A machine with the interfaces that a test gives it.
#[derive(Default)]
struct TestSurroundings {
    interfaces: Mutex<Vec<InterfaceFacts>>,
    hosts_in_work: Mutex<Vec<String>>,
}

impl NetworkSurroundings for TestSurroundings {
    fn interfaces(&self) -> std::io::Result<Vec<InterfaceFacts>> {
        Ok(lock(&self.interfaces).clone())
    }

    fn time_servers(&self, names: &[String]) -> Vec<Ipv4Addr> {
        names.iter().map(|_| Ipv4Addr::new(192, 0, 2, 9)).collect()
    }

    fn may_put_addresses(&self) -> bool {
        true
    }

    fn hosts_in_work(&self) -> Option<Vec<String>> {
        Some(lock(&self.hosts_in_work).clone())
    }
}

struct Bench {
    core: Core,
    objects: Objects<Value>,
    operators: Objects<Value>,
    services: Arc<RecordedServices>,
    surroundings: Arc<TestSurroundings>,
    controller: Mutex<Option<AbortHandle>>,
}

fn interface(name: &str, index: u32) -> InterfaceFacts {
    let last = u8::try_from(index).unwrap();
    InterfaceFacts { name: name.to_owned(), index, mac: Some(Mac([2, 0, 0, 0, 0, last])), addresses: Vec::new() }
}

impl Bench {
    fn new() -> Self {
        let core = Core::new(Store::in_memory(&MemoryMedium::new()), kinds::registry());
        let surroundings = TestSurroundings::default();
        lock(&surroundings.interfaces).push(interface("s0", 3));
        let bench = Self {
            objects: Objects::new(&core, "metal3.io", "Provisioning").unwrap(),
            operators: Objects::new(&core, "config.openshift.io", "ClusterOperator").unwrap(),
            core,
            services: Arc::new(RecordedServices::new()),
            surroundings: Arc::new(surroundings),
            controller: Mutex::default(),
        };
        bench.begin("1.0.0");
        bench
    }

    /// Runs a controller of this version beside the test, in place of the one before.
    fn begin(&self, version: &str) {
        let controller = NetworkController::new(NetworkControllerConfig {
            core: self.core.clone(),
            runtime: Arc::new(Tokio::new()),
            services: Arc::clone(&self.services) as Arc<dyn NetworkServices>,
            surroundings: Arc::clone(&self.surroundings) as Arc<dyn NetworkSurroundings>,
            settings: NetworkSettings {
                interface: None,
                api_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                has_boot_files: true,
            },
            is_enabled: true,
            version: version.to_owned(),
        });
        let controller = controller.unwrap();
        let task = tokio::spawn(async move { controller.run().await }).abort_handle();
        if let Some(before) = lock(&self.controller).replace(task) {
            before.abort();
        }
    }

    async fn create(&self) {
        let object = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning", "metadata": {"name": NAME},
            "spec": {"provisioningIP": "10.77.0.1", "provisioningNetworkCIDR": "10.77.0.0/24",
                "provisioningDHCPRange": "10.77.0.10,10.77.0.20", "provisioningInterface": "s0"},
        });
        self.objects.create(&object).await.unwrap();
        self.until(is_complete).await;
    }

    async fn edit(&self, edit: impl Fn(&mut Value)) {
        self.objects.modify("", NAME, ObjectPart::Main, |object| edit(object)).await.unwrap();
    }

    async fn edit_spec(&self, fields: &Value) {
        self.edit(|object| {
            let spec = object["spec"].as_object_mut().unwrap();
            spec.extend(fields.as_object().unwrap().clone());
            spec.retain(|_, value| !value.is_null());
        })
        .await;
    }

    /// Waits until the object is so.
    async fn until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let object = self.objects.get("", NAME).await.unwrap().unwrap_or_default();
            if is_so(&object) {
                return object;
            }
            assert!(begun.elapsed() < PATIENCE, "the object stays {object:#}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn until_operator(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let operator = self.operators.get("", "baremetal").await.unwrap().unwrap_or_default();
            if is_so(&operator) {
                return operator;
            }
            assert!(begun.elapsed() < PATIENCE, "the operator stays {operator:#}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

/// The newest spec is served, and says so.
fn is_complete(object: &Value) -> bool {
    let available = condition(object, "Available");
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
        && available["reason"] == "DeployComplete"
        && condition(object, "Degraded")["status"] == "False"
}

#[tokio::test]
async fn each_edit_starts_and_stops_what_it_says_and_nothing_else() {
    let bench = Bench::new();
    bench.create().await;
    assert_eq!(bench.services.take(), ["start address", "start http", "start tftp", "start dhcp"]);
    for (edit, steps) in [
        (json!({"provisioningDHCPRange": "10.77.0.10,10.77.0.30"}), vec!["adjust dhcp"]),
        (json!({"provisioningNetworkGateway": "10.77.0.254"}), vec!["adjust dhcp"]),
        (json!({"provisioningDNS": true}), vec!["adjust dhcp"]),
        (json!({"additionalNTPServers": ["10.77.0.3", "ntp.example.com"]}), vec!["adjust dhcp"]),
        (json!({"bootIsoSource": "http"}), vec![]),
        (json!({"prometheusExporter": {"enabled": true}}), vec!["start sensors"]),
        (
            json!({"prometheusExporter": {"enabled": true, "disableDefaultPrometheusRules": true}}),
            vec!["adjust sensors"],
        ),
        (json!({"prometheusExporter": {"enabled": false}}), vec!["stop sensors"]),
        (json!({"provisioningNetwork": "Unmanaged", "provisioningNetworkGateway": null}), vec!["stop dhcp"]),
        (json!({"provisioningNetwork": "Disabled"}), vec!["stop tftp"]),
        (json!({"provisioningNetwork": "Managed"}), vec!["start tftp", "start dhcp"]),
        (
            json!({"provisioningIP": "10.77.0.2"}),
            vec![
                "stop dhcp",
                "stop tftp",
                "stop http",
                "stop address",
                "start address",
                "start http",
                "start tftp",
                "start dhcp",
            ],
        ),
        (json!({"provisioningInterface": null, "provisioningMacAddresses": ["02:00:00:00:00:03"]}), vec![]),
    ] {
        bench.edit_spec(&edit).await;
        bench.until(is_complete).await;
        assert_eq!(bench.services.take(), steps, "{edit}");
        let leases = bench.objects.get("", NAME).await.unwrap().unwrap()["spec"]["provisioningNetwork"] != "Unmanaged";
        let is_disabled = edit["provisioningNetwork"] == "Disabled";
        assert_eq!(*lock(&bench.services.leases), Some(leases && !is_disabled), "{edit}");
    }
}

/// The second edit comes while the first one may be under way.
#[tokio::test]
async fn of_two_edits_at_once_the_later_one_is_served_and_no_step_is_done_twice() {
    let bench = Bench::new();
    bench.create().await;
    bench.services.take();
    bench.edit_spec(&json!({"provisioningNetwork": "Unmanaged"})).await;
    bench.edit_spec(&json!({"provisioningNetwork": "Disabled"})).await;
    bench.until(is_complete).await;
    assert_eq!(bench.services.take(), ["stop dhcp", "stop tftp"]);
    bench.edit_spec(&json!({"provisioningNetwork": "Managed"})).await;
    bench.edit_spec(&json!({"provisioningInterface": "s9"})).await;
    let is_said = |object: &Value| {
        let degraded = condition(object, "Degraded");
        object["status"]["observedGeneration"] == object["metadata"]["generation"]
            && degraded["message"].as_str().is_some_and(|text| text.contains("s9"))
    };
    bench.until(is_said).await;
    let done = bench.services.take();
    assert!(done.is_empty() || done == ["start tftp", "start dhcp"], "{done:?}");
}

#[tokio::test]
async fn an_edit_that_cannot_be_served_changes_nothing_and_is_said() {
    let bench = Bench::new();
    bench.create().await;
    bench.services.take();
    bench.edit_spec(&json!({"provisioningInterface": "s9"})).await;
    let object = bench.until(|object| condition(object, "Degraded")["status"] == "True").await;
    let degraded = condition(&object, "Degraded");
    assert_eq!(degraded["reason"], "InvalidConfiguration");
    assert!(degraded["message"].as_str().unwrap().contains("s9"), "{degraded}");
    assert_eq!(condition(&object, "Available")["status"], "True");
    assert_eq!(bench.services.take(), Vec::<String>::new());
    let operator = bench.until_operator(|operator| condition(operator, "Degraded")["status"] == "True").await;
    assert_eq!(condition(&operator, "Degraded")["reason"], "InvalidConfiguration");
    bench.edit_spec(&json!({"provisioningInterface": "s0"})).await;
    bench.until(is_complete).await;
    assert_eq!(bench.services.take(), Vec::<String>::new());
}

#[tokio::test]
async fn a_service_that_does_not_start_or_ends_is_said_and_started_again() {
    let bench = Bench::new();
    lock(&bench.services.faults).insert(ServiceName::Tftp, "port 69 is taken".to_owned());
    let object = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning", "metadata": {"name": NAME},
        "spec": {"provisioningNetwork": "Unmanaged", "provisioningIP": "10.77.0.1",
            "provisioningNetworkCIDR": "10.77.0.0/24", "provisioningInterface": "s0"},
    });
    bench.objects.create(&object).await.unwrap();
    let has_text = |object: &Value| {
        let progressing = condition(object, "Progressing");
        progressing["message"].as_str().is_some_and(|text| text.contains("tftp yet: port 69 is taken"))
    };
    bench.until(has_text).await;
    lock(&bench.services.faults).clear();
    bench.until(is_complete).await;
    assert_eq!(bench.services.take(), ["start address", "start http", "start tftp"]);
    lock(&bench.services.faults).insert(ServiceName::Http, "the listener panicked again".to_owned());
    bench.services.ends.send((ServiceName::Http, "the listener panicked".to_owned())).unwrap();
    bench
        .until(|object| {
            condition(object, "Progressing")["message"].as_str().is_some_and(|text| text.contains("panicked"))
        })
        .await;
    lock(&bench.services.faults).clear();
    bench.until(is_complete).await;
    assert_eq!(bench.services.take(), ["start http"]);
}

#[tokio::test]
async fn a_paused_object_changes_nothing_until_the_pause_ends() {
    let bench = Bench::new();
    bench.create().await;
    bench.services.take();
    let paused = "provisioning.metal3.io/paused";
    bench.edit(|object| object["metadata"]["annotations"] = json!({paused: ""})).await;
    let begun = Instant::now();
    while !*lock(&bench.services.is_paused) {
        assert!(begun.elapsed() < PATIENCE, "the keeper of the address is not paused");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let before = bench.objects.get("", NAME).await.unwrap().unwrap()["status"].clone();
    bench.edit_spec(&json!({"provisioningNetwork": "Disabled", "provisioningDHCPRange": null})).await;
    // Several turns.
    for second in 0..3 {
        bench.surroundings.interfaces.lock().unwrap()[0].addresses = vec![Ipv4Addr::new(10, 77, 0, second)];
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let object = bench.objects.get("", NAME).await.unwrap().unwrap();
    assert_eq!((&object["status"], bench.services.take()), (&before, Vec::new()));
    bench.edit(|object| object["metadata"]["annotations"] = json!({})).await;
    bench.until(is_complete).await;
    assert_eq!(bench.services.take(), ["stop dhcp", "stop tftp"]);
}

#[tokio::test]
async fn a_deleted_object_waits_for_hosts_in_work_and_goes_with_its_services() {
    let bench = Bench::new();
    bench.create().await;
    bench.services.take();
    bench.until(|object| object["metadata"]["finalizers"] == json!(["provisioning.metal3.io"])).await;
    lock(&bench.surroundings.hosts_in_work).push("rack1/h1".to_owned());
    bench.objects.delete("", NAME).await.unwrap();
    let waits = |object: &Value| {
        condition(object, "Progressing")["message"].as_str().is_some_and(|text| text.contains("rack1/h1"))
    };
    bench.until(waits).await;
    assert_eq!(bench.services.take(), Vec::<String>::new());
    assert!(lock(&bench.services.work_hold).as_ref().is_some_and(|hold| hold.text().contains("is deleted")));
    lock(&bench.surroundings.hosts_in_work).clear();
    bench.until(Value::is_null).await;
    assert_eq!(bench.services.take(), ["stop dhcp", "stop tftp", "stop http", "stop address"]);
    let waiting = |operator: &Value| condition(operator, "Available")["reason"] == "WaitingForProvisioningCR";
    bench.until_operator(waiting).await;
    bench.objects.delete("", NAME).await.unwrap();
    bench.until_operator(waiting).await;
    assert_eq!(bench.services.take(), Vec::<String>::new(), "a second deletion is harmless");
}

#[tokio::test]
async fn an_upgrade_is_said_once() {
    let bench = Bench::new();
    bench.create().await;
    let object = bench.until(|object| object["status"]["version"] == "1.0.0").await;
    assert_eq!(condition(&object, "Progressing")["status"], "False");
    let mut changes = bench.objects.subscribe().await.unwrap();
    bench.begin("1.1.0");
    let upgraded = |object: &Value| {
        condition(object, "Progressing")["message"].as_str().is_some_and(|text| text.contains("from 1.0.0 to 1.1.0"))
    };
    let said =
        async { while !matches!(changes.next().await.unwrap(), ObjectChange::Applied(object) if upgraded(&object)) {} };
    tokio::time::timeout(PATIENCE, said).await.unwrap();
    bench.until(|object| is_complete(object) && object["status"]["version"] == "1.1.0").await;
}
