//! What clients may have in a namespace, in Kubernetes' words, and what an object may be.

use std::sync::Arc;

use firesteel_kube::access::{AccessDecision, AccessRequest, AccessRule};
use firesteel_kube::quota::{BYTES, NamespaceQuota, OBJECTS, usage};
use firesteel_kube::{Authorizer, Caller, Objects};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::toy::{Reply, Server, run};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

fn map(name: &str, bytes: usize) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": "x".repeat(bytes) } })
}

fn quota(hard: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q" }, "spec": { "hard": hard } })
}

fn refusal(reply: &Reply) -> String {
    let status = reply.json();
    assert_eq!((reply.code, &status["reason"]), (403, &json!("Forbidden")), "{}", reply.text);
    status["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_quota_refuses_what_adds_to_it_in_kubernetes_words() {
    run(async {
        let server = Server::new().await;
        let made = server.post(QUOTAS, &quota(&json!({ "count/configmaps": 1, "pods": "5" }))).await;
        assert_eq!((made.code, made.warnings.len()), (201, 1), "{} {:?}", made.text, made.warnings);
        assert!(made.warnings[0].contains("spec.hard[pods]"), "{:?}", made.warnings);
        assert_eq!(server.post(MAPS, &map("a", 1)).await.code, 201);
        let expected = "configmaps \"b\" is forbidden: exceeded quota: q, requested: count/configmaps=1, \
                        used: count/configmaps=1, limited: count/configmaps=1";
        let refused = server.post(MAPS, &map("b", 1)).await;
        assert_eq!(refusal(&refused), expected);
        assert_eq!(refused.json()["details"], json!({ "name": "b", "kind": "configmaps" }));
        assert_eq!(refusal(&server.post(&format!("{MAPS}?dryRun=All"), &map("b", 1)).await), expected);
        let apply = [("content-type", "application/apply-patch+yaml")];
        let path = format!("{MAPS}/b?fieldManager=m");
        assert_eq!(refusal(&server.send("PATCH", &path, &apply, &map("b", 1).to_string()).await), expected);
        // What is there may be changed, other kinds may be made, and this process is not held up.
        assert_eq!(server.merge(&format!("{MAPS}/a"), &json!({ "data": { "k": "y" } })).await.code, 200);
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } });
        assert_eq!(server.post("/api/v1/namespaces/default/secrets", &secret).await.code, 201);
        let own = Objects::<Value>::new(server.api.core(), "", "ConfigMap").unwrap();
        let mut body = map("own", 1);
        body["metadata"]["namespace"] = json!("default");
        own.create(&body).await.unwrap();
        for name in ["own", "a"] {
            assert_eq!(server.send("DELETE", &format!("{MAPS}/{name}"), &[], "").await.code, 200);
        }
        assert_eq!(server.post(MAPS, &map("b", 1)).await.code, 201);
    });
}

#[test]
fn bytes_are_limited_and_a_quota_that_is_full_can_be_raised() {
    run(async {
        let server = Server::in_memory().await;
        assert_eq!(server.post(MAPS, &map("a", 1000)).await.code, 201);
        assert_eq!(server.post(QUOTAS, &quota(&json!({ BYTES: "2k" }))).await.code, 201);
        assert!(
            refusal(&server.post(MAPS, &map("b", 1500)).await)
                .contains("exceeded quota: q, requested: firesteel.dev/bytes=")
        );
        let path = format!("{MAPS}/a");
        let grown = json!({ "data": { "k": "x".repeat(5000) } });
        assert!(refusal(&server.merge(&path, &grown).await).contains("limited: firesteel.dev/bytes=2000"));
        assert!(refusal(&server.merge(&format!("{path}?dryRun=All"), &grown).await).contains("exceeded quota"));
        assert_eq!(server.merge(&path, &json!({ "data": { "k": "x" } })).await.code, 200);

        usage::show(server.api.core()).await.unwrap();
        let shown = server.get(&format!("{QUOTAS}/q")).await.json();
        assert_eq!(shown["status"]["hard"], json!({ BYTES: "2k" }));
        let used: u64 = shown["status"]["used"][BYTES].as_str().unwrap().parse().unwrap();
        assert!((100..2000).contains(&used), "{shown}");
        let before = server.api.core().store().current();
        usage::show(server.api.core()).await.unwrap();
        assert_eq!(server.api.core().store().current(), before, "what is the same is not written");

        // Nothing fits any more, but a larger quota.
        for hard in ["1", "20k"] {
            let patch = json!({ "spec": { "hard": { BYTES: hard } } });
            assert_eq!(server.merge(&format!("{QUOTAS}/q"), &patch).await.code, 200);
        }
        assert_eq!(server.merge(&path, &grown).await.code, 200);
    });
}

/// Allows everything, and has a quota for each caller.
#[derive(Debug)]
struct Tenants(watch::Sender<u64>);

impl Authorizer for Tenants {
    fn decide(&self, _: &Caller, _: AccessRequest<'_>) -> AccessDecision {
        AccessDecision::allow("")
    }

    fn rules(&self, _: &Caller, _: &str) -> Vec<AccessRule> {
        Vec::new()
    }

    fn default_quota(&self, _: &Caller, namespace: &str) -> Option<Arc<NamespaceQuota>> {
        let hard = [(OBJECTS.to_owned(), 1), (BYTES.to_owned(), 1 << 20)].into();
        (namespace == "default").then(|| Arc::new(NamespaceQuota { name: "of-tenants".into(), hard }))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

#[test]
fn a_default_holds_until_an_owner_says_otherwise() {
    run(async {
        let server = Server::in_memory().await.with(|api| api.guarded(Arc::new(Tenants(watch::Sender::new(0)))));
        assert_eq!(server.post(MAPS, &map("a", 1)).await.code, 201);
        let refused = refusal(&server.post(MAPS, &map("b", 1)).await);
        assert!(refused.contains("exceeded quota: of-tenants, requested: firesteel.dev/objects=1"), "{refused}");
        assert_eq!(server.post(QUOTAS, &quota(&json!({ OBJECTS: "2" }))).await.code, 201, "it counts for none");
        assert_eq!(server.post(MAPS, &map("b", 1)).await.code, 201);
        let refused = refusal(&server.post(MAPS, &map("c", 1)).await);
        assert!(refused.contains("exceeded quota: q, "), "{refused}");
        let large =
            refusal(&server.merge(&format!("{MAPS}/a"), &json!({ "data": { "k": "x".repeat(1 << 20) } })).await);
        assert!(large.contains("exceeded quota: of-tenants, requested: firesteel.dev/bytes="), "{large}");
        assert_eq!(server.send("DELETE", &format!("{QUOTAS}/q"), &[], "").await.code, 200);
        assert!(refusal(&server.post(MAPS, &map("c", 1)).await).contains("of-tenants"));
    });
}

/// 200,000 keys held every other request up for two seconds.
#[test]
fn a_wide_object_is_refused_in_every_form() {
    run(async {
        let server = Server::in_memory().await;
        assert_eq!(server.post(MAPS, &map("a", 1)).await.code, 201);
        let data = |prefix: &str, keys: usize| -> Value {
            (0..keys).map(|key| (format!("{prefix}{key}"), json!("v"))).collect::<serde_json::Map<_, _>>().into()
        };
        let mut wide = map("wide", 1);
        wide["data"] = data("k", 200_000);
        let (path, text) = (format!("{MAPS}/a"), wide.to_string());
        let operations = json!([{ "op": "add", "path": "/data", "value": wide["data"] }]).to_string();
        for (method, path, media_type, body) in [
            ("POST", MAPS, "application/json", &text),
            ("POST", MAPS, "application/yaml", &text),
            ("PUT", &path, "application/json", &text),
            ("PATCH", &path, "application/merge-patch+json", &text),
            ("PATCH", &path, "application/strategic-merge-patch+json", &text),
            ("PATCH", &path, "application/json-patch+json", &operations),
            ("PATCH", &format!("{MAPS}/wide?fieldManager=m"), "application/apply-patch+yaml", &text),
        ] {
            let reply = server.send(method, path, &[("content-type", media_type)], body).await;
            assert_eq!(reply.code, 400, "{method} {media_type}: {}", reply.text);
        }
        // What is put together of several requests is no wider.
        let apply = |manager: usize| {
            let mut part = map("a", 1);
            part["data"] = data(&format!("m{manager}-"), 9_000);
            part.to_string()
        };
        let mut codes = Vec::new();
        for manager in 0..3 {
            let path = format!("{path}?fieldManager=m{manager}");
            let headers = [("content-type", "application/apply-patch+yaml")];
            codes.push(server.send("PATCH", &path, &headers, &apply(manager)).await.code);
        }
        assert_eq!(codes.last(), Some(&413), "{codes:?}");
        let patch = json!({ "data": data("p", 15_000) });
        assert_eq!(server.merge(&path, &patch).await.code, 413);
    });
}
