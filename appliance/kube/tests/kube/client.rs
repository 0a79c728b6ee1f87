//! The typed client: what controllers rely on.

use firesteel_kube::{ObjectChange, ObjectPart, Objects};
use firesteel_store::Revision;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::life::gone_soon;
use crate::toy::{HOSTS, Server, object, run};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Host {
    metadata: Value,
    #[serde(default)]
    spec: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
}

impl Host {
    fn new(name: &str) -> Self {
        Self {
            metadata: json!({ "name": name, "namespace": "default" }),
            spec: json!({ "online": true }),
            status: None,
        }
    }

    fn name(&self) -> &str {
        self.metadata["name"].as_str().unwrap()
    }
}

fn status(state: &str) -> Option<Value> {
    let provisioning = json!({ "state": state });
    Some(json!({ "errorMessage": "", "operationalStatus": "OK", "poweredOn": true, "provisioning": provisioning }))
}

fn hosts(server: &Server) -> Objects<Host> {
    Objects::new(server.api.core(), "metal3.io", "BareMetalHost").unwrap()
}

#[test]
fn typed_objects_follow_the_rules_of_the_api() {
    run(async {
        let server = Server::new().await;
        let hosts = hosts(&server);
        assert_eq!(hosts.get("default", "a").await.unwrap(), None);
        let first = hosts.create(&Host::new("a")).await.unwrap();
        assert!(hosts.create(&Host::new("a")).await.unwrap_err().is_already_exists());

        let mut second = first.clone();
        second.spec["online"] = json!(false);
        let second = hosts.update(&second).await.unwrap();
        assert_eq!(second.metadata["generation"], 2);
        assert!(hosts.update(&first).await.unwrap_err().is_conflict(), "the first is stale");

        let mut third = second.clone();
        third.status = status("ready");
        third.spec["online"] = json!(true);
        let third = hosts.update_status(&third).await.unwrap();
        assert_eq!((&third.spec["online"], third.status.is_some()), (&json!(false), true), "the status alone");
        assert_eq!(hosts.update_status(&third).await.unwrap(), third, "nothing changed, not even the revision");

        let modified =
            hosts.modify("default", "a", ObjectPart::Main, |host| host.spec["description"] = json!("x")).await;
        assert_eq!(modified.unwrap().unwrap().spec["description"], "x");
        assert_eq!(hosts.modify("default", "b", ObjectPart::Main, |_| {}).await.unwrap(), None);
        assert_eq!(hosts.list(Some("default")).await.unwrap().0.len(), 1);
        assert_eq!(hosts.count(Some("default")).await.unwrap(), 1);
        assert_eq!(hosts.count(Some("elsewhere")).await.unwrap(), 0);
        hosts.delete("default", "a").await.unwrap();
        hosts.delete("default", "a").await.unwrap();
        assert_eq!(hosts.list(None).await.unwrap().0, []);
        assert_eq!(hosts.count(None).await.unwrap(), 0);
    });
}

#[test]
fn concurrent_modifications_are_all_kept() {
    run(async {
        let server = Server::new().await;
        let hosts = hosts(&server);
        hosts.create(&Host::new("a")).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..8 {
            let hosts = hosts.clone();
            tasks.spawn(async move {
                let change = |host: &mut Host| host.metadata["labels"][format!("l{number}")] = json!("x");
                hosts.modify("default", "a", ObjectPart::Main, change).await.unwrap().unwrap();
            });
        }
        tasks.join_all().await;
        let host = hosts.get("default", "a").await.unwrap().unwrap();
        assert_eq!(host.metadata["labels"].as_object().unwrap().len(), 8);
    });
}

#[test]
fn a_subscription_tells_everything_once_also_over_a_gap() {
    run(async {
        let server = Server::new().await;
        let hosts = hosts(&server);
        hosts.create(&Host::new("a")).await.unwrap();
        let mut changes = hosts.subscribe().await.unwrap();
        assert!(matches!(changes.next().await.unwrap(), ObjectChange::Applied(host) if host.name() == "a"));
        assert_eq!(changes.next().await.unwrap(), ObjectChange::Synced);
        hosts.create(&Host::new("b")).await.unwrap();
        assert!(matches!(changes.next().await.unwrap(), ObjectChange::Applied(host) if host.name() == "b"));

        // More changes than a watch's queue holds: the subscription is cut off below and lists again.
        for number in 0..1100 {
            let change = |host: &mut Host| host.spec["description"] = json!(number.to_string());
            hosts.modify("default", "b", ObjectPart::Main, change).await.unwrap();
        }
        hosts.delete("default", "a").await.unwrap();
        let end = server.api.core().store().current();
        server.api.core().store().compact(end).await.unwrap();
        let (mut gone, mut last) = (false, Value::Null);
        while !gone || last != "1099" {
            match changes.next().await.unwrap() {
                ObjectChange::Applied(host) => last = host.spec["description"].clone(),
                ObjectChange::Deleted(host) => gone = host.name() == "a",
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn deletion_waits_for_finalizers() {
    run(async {
        let server = Server::new().await;
        let hosts = hosts(&server);
        let mut host = Host::new("a");
        host.metadata["finalizers"] = json!(["example.org/x"]);
        hosts.create(&host).await.unwrap();
        hosts.delete("default", "a").await.unwrap();
        let mut marked = hosts.get("default", "a").await.unwrap().unwrap();
        assert!(marked.metadata["deletionTimestamp"].is_string());
        assert_eq!(marked.metadata["generation"], 2);
        let again = server.send("DELETE", &format!("{HOSTS}/a"), &[], "").await;
        let mut again = (again.code, again.json()["metadata"].clone());
        // The client does not show who owns what.
        again.1.as_object_mut().unwrap().remove("managedFields").unwrap();
        assert_eq!(again, (200, marked.metadata.clone()));

        let mut more = marked.clone();
        more.metadata["finalizers"] = json!(["example.org/x", "example.org/y"]);
        assert_eq!(hosts.update(&more).await.unwrap_err().code, 422);
        marked.metadata["finalizers"] = json!([]);
        hosts.update(&marked).await.unwrap();
        assert_eq!(hosts.get("default", "a").await.unwrap(), None);
    });
}

#[test]
fn a_namespace_takes_its_objects_with_it() {
    run(async {
        let server = Server::new().await;
        let core = server.api.core();
        core.ensure_namespace("lab").await.unwrap();
        core.ensure_namespace("lab").await.unwrap();
        let inside = HOSTS.replace("/default/", "/lab/");
        assert_eq!(server.post(&inside, &object("a")).await.code, 201);
        let mut held = object("b");
        held["metadata"]["finalizers"] = json!(["example.org/x"]);
        assert_eq!(server.post(&inside, &held).await.code, 201);
        let gone = server.send("DELETE", "/api/v1/namespaces/lab", &[], "").await.json();
        assert_eq!(gone["status"]["phase"], "Terminating");
        gone_soon(&server, &format!("{inside}/a")).await;
        let refused = server.post(&inside, &object("c")).await;
        assert_eq!(
            (refused.code, refused.json()["details"]["causes"][0]["reason"].clone()),
            (403, json!("NamespaceTerminating"))
        );
        assert_eq!(server.merge(&format!("{inside}/b"), &json!({"metadata": {"finalizers": null}})).await.code, 200);
        gone_soon(&server, "/api/v1/namespaces/lab").await;
        assert_eq!(server.post(&inside, &object("c")).await.code, 404);
        assert_eq!(server.send("DELETE", "/api/v1/namespaces/default", &[], "").await.code, 403);
        assert!(core.store().current() > Revision(0));
    });
}

/// A subscriber who learns that an object is gone must be able to rely on it.
#[test]
fn a_deletion_that_others_are_always_faster_than_is_no_success() {
    use std::sync::Arc;

    use firesteel_store::memory::{InjectedOutcome, StoreFaults, Wait};
    use firesteel_store::{MemoryMedium, Op, Store, StoreEvent};

    /// Writes each object just before it is deleted.
    #[derive(Debug)]
    struct Faster(MemoryMedium);

    impl StoreFaults for Faster {
        fn before_read(&self) -> Wait<()> {
            Box::pin(async {})
        }

        fn before_commit(&self, op: &Op) -> Wait<InjectedOutcome> {
            let object = matches!(op, Op::Delete { .. }).then(|| self.0.peek(op.key())).flatten();
            let other = Store::in_memory(&self.0);
            Box::pin(async move {
                if let Some(object) = object {
                    let op = Op::Update { key: object.key, expected: object.revision, value: object.value };
                    other.commit(op, Vec::new()).await.unwrap();
                }
                InjectedOutcome::Stored
            })
        }

        fn after_commit(&self, _: &StoreEvent) -> Wait<()> {
            Box::pin(async {})
        }
    }

    run(async {
        let memory = MemoryMedium::new();
        let server = Server::on(Store::in_memory(&memory.with_faults(Arc::new(Faster(memory.clone()))))).await;
        let hosts = hosts(&server);
        let uid = hosts.create(&Host::new("a")).await.unwrap().metadata["uid"].as_str().unwrap().to_owned();
        assert!(hosts.delete_exact("default", "a", &uid).await.unwrap_err().is_conflict());
        assert_eq!(server.send("DELETE", HOSTS, &[], "").await.code, 409);
        assert!(hosts.get("default", "a").await.unwrap().is_some());
        hosts.delete_exact("default", "a", "another").await.unwrap();
        hosts.delete_exact("default", "b", &uid).await.unwrap();
    });
}
