//! The boot image policy after an upgrade of the appliance: nothing is changed before the new version has looked at all
//! hosts (S1.4). In the simulation whatever a host names can be read, so that nothing holds an upgrade up.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use firesteel_appliance::serve::controllers::{ControllersConfig, HostControllers};
use firesteel_appliance::serve::kinds;
use firesteel_boot::{
    AskerRule, BootFile, BootFileSet, Endpoints, HostNetwork, KernelArguments, Sealer, ServedBootFiles,
};
use firesteel_config_server::ConfigSettings;
use firesteel_control::{Acquiring, ImageFault, Images, SchemeDriver};
use firesteel_facts::Sha256;
use firesteel_images::import::{AcquisitionStage, ImageRequest};
use firesteel_kube::{Core, ObjectPart, Objects};
use firesteel_runtime::{Live, StoreClock, Tokio};
use firesteel_store::{GroupResource, MemoryMedium, ObjectKey, Op, Store};
use firesteel_tests::dialing::dialer;
use jiff::Timestamp;
use ring::{hmac, signature::Ed25519KeyPair};
use serde_json::{Value, json};

/// Longest wait for anything: a busy machine, and a look each five seconds.
const PATIENCE: Duration = Duration::from_secs(60);

struct NoImages;

impl Images for NoImages {
    fn acquire<'a>(&'a self, _: &'a ImageRequest, _: Arc<dyn Fn(AcquisitionStage) + Send + Sync>) -> Acquiring<'a> {
        Box::pin(async { Err(ImageFault { message: "there are none".into(), permanent: true, crowded: false }) })
    }
}

fn controllers(core: &Core) -> HostControllers {
    let runtime = Arc::new(Tokio::new());
    let config = ControllersConfig {
        core: core.clone(),
        clock: StoreClock::new(core, runtime.clone(), Timestamp::UNIX_EPOCH),
        runtime,
        images: Arc::new(NoImages),
        bmc: Arc::new(SchemeDriver::new(dialer())),
        host_network: Live::new(HostNetwork {
            endpoints: Endpoints { address: [10, 0, 0, 1].into(), http_port: 8080, agent_port: 8443 },
            asker_rule: AskerRule::FirstAsker,
            hosts_have_dns: false,
            work_hold: None,
        }),
        boot_files: ServedBootFiles {
            current: BootFileSet {
                kernel: BootFile { sha256: Sha256([1; 32]), bytes: 8 << 20 },
                initramfs: BootFile { sha256: Sha256([2; 32]), bytes: 12 << 20 },
                agent: None,
            },
            kept: None,
        },
        sealer: Sealer::new(&[7; 32]),
        nonce_key: hmac::Key::new(hmac::HMAC_SHA256, &[8; 32]),
        receipt_key: Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap(),
        trust: "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n".into(),
        configs: ConfigSettings::default(),
        pin_sha256: "ab".repeat(32),
        kernel_arguments: KernelArguments::default(),
        bmc_tls: firesteel_bmc::Tls::default(),
        hosts_at_once: 4,
        boot_image_minimum: firesteel_plan::skew::MinimumVersions::default(),
        tells_events: false,
    };
    HostControllers::new(config).unwrap()
}

struct World {
    core: Core,
}

impl World {
    fn objects(&self, group: &str, kind: &str) -> Objects<Value> {
        Objects::new(&self.core, group, kind).unwrap()
    }

    async fn create(&self, group: &str, kind: &str, object: Value) -> Value {
        let objects = self.objects(group, kind);
        let made = objects.create(&object).await.unwrap();
        let Some(status) = object.get("status") else { return made };
        let text = |key: &str| made["metadata"][key].as_str().unwrap_or_default().to_owned();
        let set = |stored: &mut Value| stored["status"] = status.clone();
        objects.modify(&text("namespace"), &text("name"), ObjectPart::Status, set).await.unwrap().unwrap()
    }

    async fn until(
        &self,
        (group, kind): (&str, &str),
        (namespace, name): (&str, &str),
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let objects = self.objects(group, kind);
        let begun = std::time::Instant::now();
        loop {
            let object = objects.get(namespace, name).await.unwrap();
            match object {
                Some(object) if is_so(&object) => return object,
                seen => assert!(begun.elapsed() < PATIENCE, "{kind} {name} stays {seen:#?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn release(name: &str) -> Value {
    json!({"release": name, "seenAt": "2026-01-01T00:00:00Z", "stampedAt": "2026-01-01T01:00:00Z", "withdrawn": false,
           "artifacts": [{"architecture": "x86_64", "platform": "metal", "format": "metal", "part": "disk", "sectorBytes": 512,
                          "location": format!("http://a.example/{name}"), "sha256": name.repeat(64), "signature": "none",
                          "state": "verified"}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_changed_before_a_new_version_has_looked_at_all_hosts() {
    const POLICY: (&str, &str) = ("operator.openshift.io", "MachineConfiguration");
    const SETS: (&str, &str) = ("machine.openshift.io", "MachineSet");
    let world = World { core: Core::new(Store::in_memory(&MemoryMedium::new()), kinds::registry()) };
    world.core.ensure_namespace("default").await.unwrap();
    // What each step of this host looks at cannot be read: nothing that the appliance has said of it holds yet.
    let secret = ObjectKey::new(&GroupResource::new("", "secrets"), "default", "bmc-h");
    let garbled = Op::Create { key: secret.clone(), value: "garbled".into() };
    let revision = world.core.store().commit(garbled, Vec::new()).await.unwrap();
    let bmc = json!({"address": "redfish://10.0.0.2/redfish/v1/Systems/1", "credentialsName": "bmc-h"});
    let host = json!({"metadata": {"name": "h", "namespace": "default"},
                      "spec": {"online": true, "bootMACAddress": "52:54:00:00:00:01", "bmc": bmc}});
    world.create("metal3.io", "BareMetalHost", host).await;
    // Of this one nothing can be known before somebody mends it: it holds nothing up.
    let host = json!({"metadata": {"name": "odd", "namespace": "default"},
                      "spec": {"online": true, "bootMACAddress": "52:54:00:00:00:02"}});
    let host = world.create("metal3.io", "BareMetalHost", host).await;
    let uid = &host["metadata"]["uid"];
    let owner = json!([{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": "odd", "uid": uid}]);
    world
        .create(
            "firesteel.dev",
            "HostJournal",
            json!({"metadata": {"name": "odd", "namespace": "default", "ownerReferences": owner},
                   "status": {"memory": {"state": "of a newer appliance"}}}),
        )
        .await;
    let status = json!({"stamped": true, "releases": [release("2"), release("1")]});
    let stream = json!({"metadata": {"name": "stable"}, "spec": {"source": {"file": "a"}}, "status": status});
    world.create("firesteel.dev", "BootImageStream", stream).await;
    let image = json!({"url": "http://a.example/1", "checksum": "1".repeat(64)});
    let set = json!({"metadata": {"name": "s", "namespace": "default", "annotations": {"firesteel.dev/architecture": "x86_64"}},
                     "spec": {"template": {"spec": {"providerSpec": {"value": {"image": image}}}}}});
    world.create(SETS.0, SETS.1, set).await;
    let memory = json!({"version": "0.0.1"});
    world
        .create(
            POLICY.0,
            POLICY.1,
            json!({"metadata": {"name": "cluster"}, "spec": {}, "status": {"bootImageMemory": memory}}),
        )
        .await;

    let controllers = controllers(&world.core);
    let running = tokio::spawn(async move { controllers.run().await });
    let says = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|one| one["type"] == "BootImageUpdateProgressing");
        found.and_then(|one| one["message"].as_str().map(str::to_owned)).unwrap_or_default()
    };
    let held = world
        .until(POLICY, ("", "cluster"), |object| says(object).contains("the upgrade of the appliance from 0.0.1"))
        .await;
    assert!(says(&held).contains("default/h") && !says(&held).contains("odd"), "{}", says(&held));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let checksum = |set: &Value| set["spec"]["template"]["spec"]["providerSpec"]["value"]["image"]["checksum"].clone();
    let set = world.until(SETS, ("default", "s"), |_| true).await;
    assert_eq!(checksum(&set), "1".repeat(64), "it is held");

    // The host can be looked at.
    world
        .core
        .store()
        .commit(Op::Delete { key: secret, expected: revision, value: "garbled".into() }, Vec::new())
        .await
        .unwrap();
    world.until(SETS, ("default", "s"), |set| checksum(set) == "2".repeat(64)).await;
    let version =
        |object: &Value| object["status"]["bootImageMemory"]["version"].as_str().unwrap_or_default().to_owned();
    let over = world.until(POLICY, ("", "cluster"), |object| version(object) != "0.0.1").await;
    assert_eq!(version(&over), env!("CARGO_PKG_VERSION"));
    running.abort();
}
