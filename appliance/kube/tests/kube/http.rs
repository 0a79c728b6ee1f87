//! The wire: discovery, Secrets, YAML, pages, watches, callers.

use bytes::Bytes;
use firesteel_kube::{BODY_BYTES_MAX, Caller};
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use serde_json::{Value, json};

use crate::toy::{HOSTS, Server, admin, object, run};

#[test]
fn discovery_names_every_kind_in_both_forms() {
    run(async {
        let server = Server::new().await;
        let list = server.get("/apis/metal3.io/v1alpha1").await.json();
        let names: Vec<&str> =
            list["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["baremetalhosts", "baremetalhosts/status"]);
        let aggregate = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let reply = server.send("GET", "/apis", &[("accept", aggregate)], "").await;
        assert_eq!(reply.media_type, aggregate);
        assert_eq!(reply.json()["items"][0]["versions"][0]["resources"][0]["shortNames"], json!(["bmh"]));
        let core = server.send("GET", "/api", &[("accept", aggregate)], "").await.json();
        assert_eq!(core["items"][0]["metadata"]["name"], "");
        assert_eq!(server.get("/apis").await.json()["groups"][0]["preferredVersion"]["version"], "v1alpha1");
        assert_eq!(server.get("/apis/metal3.io").await.json()["kind"], "APIGroup");
        assert_eq!(server.get("/version").await.json()["major"], "1");
        assert_eq!(server.get("/readyz").await.text, "ok");
        assert_eq!(server.get("/openapi/v2").await.code, 404);
        assert_eq!(server.send("POST", "/apis", &[], "").await.code, 405);
    });
}

#[test]
fn secrets_hide_their_string_data() {
    run(async {
        let server = Server::new().await;
        let secrets = "/api/v1/namespaces/default/secrets";
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"user": "root"}});
        let made = server.post(secrets, &secret).await.json();
        assert_eq!((&made["data"], &made["type"]), (&json!({"user": "cm9vdA=="}), &json!("Opaque")));
        assert_eq!((made.get("stringData"), made["metadata"].get("generation")), (None, None));
        // What kubectl apply sends for a kind that it knows.
        let patch = json!({"stringData": {"password": "x"}}).to_string();
        let strategic = [("content-type", "application/strategic-merge-patch+json")];
        let path = format!("{secrets}/s");
        let patched = server.send("PATCH", &path, &strategic, &patch).await.json();
        assert_eq!(patched["data"], json!({"user": "cm9vdA==", "password": "eA=="}));
        let list = json!({"metadata": {"finalizers": ["x/y"]}}).to_string();
        assert_eq!(server.send("PATCH", &path, &strategic, &list).await.code, 415);
        let bad = server.merge(&path, &json!({"data": {"user": "not base64!"}})).await;
        assert_eq!(bad.code, 422);
        assert!(!bad.text.contains("not base64!"), "an error does not repeat a secret");
        let replaced = server.put(&path, &secret).await;
        assert_eq!(replaced.code, 200, "a PUT of this kind needs no revision");
    });
}

#[test]
fn yaml_bodies_and_warnings() {
    run(async {
        let server = Server::new().await;
        let yaml = "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {generateName: h-}\nspec: {online: true, typo: 1}\n";
        let reply = server.send("POST", HOSTS, &[("content-type", "application/yaml")], yaml).await;
        assert_eq!(
            (reply.code, reply.warnings.as_slice()),
            (201, [r#"299 - "unknown field \"spec.typo\"""#.to_owned()].as_slice())
        );
        let name = reply.json()["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("h-") && name.len() == 7, "{name}");
        let protobuf = [("content-type", "application/vnd.kubernetes.protobuf")];
        assert_eq!(server.send("POST", HOSTS, &protobuf, "k8s\0").await.code, 415);
        assert_eq!(server.send("POST", HOSTS, &[], &" ".repeat(BODY_BYTES_MAX + 1)).await.code, 413);
    });
}

#[test]
fn pages_continue_at_their_revision() {
    run(async {
        let server = Server::new().await;
        for name in ["a", "b", "c"] {
            server.post(HOSTS, &object(name)).await;
        }
        let first = server.get(&format!("{HOSTS}?limit=2")).await.json();
        assert_eq!(
            (first["items"].as_array().unwrap().len(), &first["metadata"]["remainingItemCount"]),
            (2, &json!(1))
        );
        let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
        server.send("DELETE", &format!("{HOSTS}/c"), &[], "").await;
        let rest = server.get(&format!("{HOSTS}?limit=2&continue={token}")).await.json();
        assert_eq!(rest["items"][0]["metadata"]["name"], "c", "it was there when the list began");
        assert_eq!(rest["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        let store = server.api.core().store();
        store.compact(store.current()).await.unwrap();
        let gone = server.get(&format!("{HOSTS}?limit=2&continue={token}")).await;
        assert_eq!((gone.code, gone.json()["reason"].clone()), (410, json!("Expired")));
        let token = gone.json()["metadata"]["continue"].as_str().unwrap().to_owned();
        assert_eq!(server.get(&format!("{HOSTS}?continue={token}")).await.json()["items"], json!([]));
    });
}

/// The next line of a watch.
pub(crate) async fn line(body: &mut firesteel_kube::Body) -> Option<Value> {
    let frame = body.frame().await?.unwrap();
    Some(serde_json::from_slice(&frame.into_data().unwrap()).unwrap())
}

pub(crate) async fn watch(server: &Server, query: &str) -> firesteel_kube::Body {
    let request = Request::get(format!("{HOSTS}?watch=1&{query}")).body(Empty::<Bytes>::new()).unwrap();
    let response = server.api.handle(request, &admin()).await;
    assert_eq!(response.status(), 200);
    response.into_body()
}

pub(crate) fn told(event: &Value) -> (&str, &str) {
    (event["type"].as_str().unwrap(), event["object"]["metadata"]["name"].as_str().unwrap_or(""))
}

#[test]
fn watches_follow_selectors_and_end_in_time() {
    run(async {
        let server = Server::new().await;
        let made = server.post(HOSTS, &object("a")).await.json();
        let from = made["metadata"]["resourceVersion"].as_str().unwrap();
        let mut all = watch(&server, "").await;
        let mut after = watch(&server, &format!("resourceVersion={from}&timeoutSeconds=1")).await;
        let mut racked = watch(&server, &format!("resourceVersion={from}&labelSelector=rack=r1")).await;
        let mut synced =
            watch(&server, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true").await;
        assert_eq!(told(&line(&mut all).await.unwrap()), ("ADDED", "a"));
        assert_eq!(told(&line(&mut synced).await.unwrap()), ("ADDED", "a"));
        let end = line(&mut synced).await.unwrap();
        assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        server.merge(&format!("{HOSTS}/a"), &json!({"metadata": {"labels": {"rack": "r1"}}})).await;
        server.merge(&format!("{HOSTS}/a"), &json!({"metadata": {"labels": {"rack": "r2"}}})).await;
        server.send("DELETE", &format!("{HOSTS}/a"), &[], "").await;
        for body in [&mut all, &mut after] {
            for kind in ["MODIFIED", "MODIFIED", "DELETED"] {
                assert_eq!(told(&line(body).await.unwrap()), (kind, "a"));
            }
        }
        assert_eq!(line(&mut after).await, None, "its time is over");
        assert_eq!(told(&line(&mut racked).await.unwrap()), ("ADDED", "a"));
        assert_eq!(told(&line(&mut racked).await.unwrap()), ("DELETED", "a"));

        let store = server.api.core().store();
        store.compact(store.current()).await.unwrap();
        let mut old = watch(&server, &format!("resourceVersion={from}")).await;
        let error = line(&mut old).await.unwrap();
        assert_eq!(
            (&error["type"], &error["object"]["code"], &error["object"]["reason"]),
            (&json!("ERROR"), &json!(410), &json!("Expired"))
        );
        assert_eq!(line(&mut old).await, None);
    });
}

#[test]
fn callers_without_rights_see_no_objects() {
    run(async {
        let server = Server::new().await;
        let nobody = Caller { name: "nobody".into(), admin: false };
        for (path, code) in [(HOSTS, 403), ("/api/v1/secrets", 403), ("/version", 200), ("/apis", 200)] {
            let request = Request::get(path).body(Empty::<Bytes>::new()).unwrap();
            assert_eq!(server.api.handle(request, &nobody).await.status(), code, "{path}");
        }
    });
}
