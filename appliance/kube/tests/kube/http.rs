//! The wire: discovery, Secrets, YAML, pages, watches, callers.

use bytes::Bytes;
use firesteel_kube::{BODY_BYTES_MAX, Caller, Core, KindInfo, Registry, builtin};
use firesteel_store::{ListRange, Store};
use http::Request;
use http_body_util::{BodyExt as _, Empty, Full};
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
        let groups = reply.json()["items"].clone();
        let named = |name: &str| {
            groups.as_array().unwrap().iter().find(|group| group["metadata"]["name"] == name).unwrap().clone()
        };
        let host = &named("metal3.io")["versions"][0]["resources"][0];
        assert_eq!(host["shortNames"], json!(["bmh"]));
        assert_eq!(host["subresources"][0]["subresource"], "status");
        let review = &named("authorization.k8s.io")["versions"][0]["resources"][0];
        assert_eq!((&review["verbs"], review.get("subresources")), (&json!(["create"]), None));
        let core = server.send("GET", "/api", &[("accept", aggregate)], "").await.json();
        assert_eq!(core["items"][0]["metadata"]["name"], "");
        let groups = server.get("/apis").await.json();
        let last = groups["groups"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&last["name"], &last["preferredVersion"]["version"]), (&json!("metal3.io"), &json!("v1alpha1")));
        assert_eq!(server.get("/version/").await.json()["major"], "1");
        assert_eq!(server.get("/apis/metal3.io").await.json()["kind"], "APIGroup");
        assert_eq!(server.get("/version").await.json()["major"], "1");
        assert_eq!(server.get("/readyz").await.text, "ok");
        assert_eq!(server.send("POST", "/apis", &[], "").await.code, 405);
    });
}

/// The Python client says of its own types neither kind nor version.
#[test]
fn what_the_url_says_of_kubernetes_own_kinds_need_not_be_said_again() {
    run(async {
        let server = Server::new().await;
        let maps = "/api/v1/namespaces/default/configmaps";
        let reply = server.send("POST", maps, &[], r#"{"metadata":{"name":"c"},"data":{"a":"b"}}"#).await;
        assert_eq!((reply.code, &reply.json()["kind"]), (201, &json!("ConfigMap")));
        let other = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"d"}}"#;
        assert_eq!(server.send("POST", maps, &[], other).await.code, 422);
        let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        assert_eq!(server.send("POST", review, &[], "{}").await.code, 201);
        let host = r#"{"metadata":{"name":"h"},"spec":{"online":true}}"#;
        assert_eq!(server.send("POST", HOSTS, &[], host).await.code, 400);
    });
}

#[test]
fn openapi_documents_are_kept_by_their_hashes() {
    run(async {
        let server = Server::new().await;
        let index = server.get("/openapi/v3").await.json();
        let url = index["paths"]["apis/metal3.io/v1alpha1"]["serverRelativeURL"].as_str().unwrap().to_owned();
        let document = server.get(&url).await.json();
        let host = &document["components"]["schemas"]["io.metal3.v1alpha1.BareMetalHost"];
        assert_eq!(host["properties"]["spec"]["required"], json!(["online"]));
        let (path, hash) = url.split_once("?hash=").unwrap();
        assert_eq!(server.get(path).await.json(), document);
        assert_eq!(server.get(&format!("{path}?hash=old")).await.code, 301);
        let etag = format!("\"{hash}\"");
        assert_eq!(server.send("GET", path, &[("if-none-match", &etag)], "").await.code, 304);
        assert_eq!(server.get("/openapi/v3/apis/nobody.example/v1").await.code, 404);

        let v2 = server.get("/openapi/v2").await;
        assert_eq!((v2.media_type.as_str(), &v2.json()["swagger"]), ("application/json", &json!("2.0")));
        let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        let request = Request::get("/openapi/v2").header("accept", protobuf).body(Empty::<Bytes>::new()).unwrap();
        let response = server.api.handle(request, &admin()).await;
        assert_eq!(response.headers()["content-type"], "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert!(bytes.starts_with(&[0x0a, 3, b'2', b'.', b'0']), "{:?}", &bytes[..8]);
        assert_eq!(server.send("GET", "/openapi/v2", &[("accept", "text/html")], "").await.code, 406);
    });
}

#[test]
fn the_served_kinds_can_be_seen_as_definitions() {
    run(async {
        let server = Server::new().await;
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let list = server.get(definitions).await.json();
        let names: Vec<&str> =
            list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["baremetalhosts.metal3.io"], "Kubernetes' own kinds are none");
        let path = format!("{definitions}/baremetalhosts.metal3.io");
        let host = server.get(&path).await.json();
        let version = &host["spec"]["versions"][0];
        assert_eq!((&version["name"], &version["subresources"]), (&json!("v1alpha1"), &json!({ "status": {} })));
        assert_eq!(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"], json!(["online"]));
        assert_eq!(version["additionalPrinterColumns"][1]["jsonPath"], ".status.provisioning.state");
        assert_eq!(host["spec"]["names"]["listKind"], "BareMetalHostList");
        let conditions = host["status"]["conditions"].as_array().unwrap();
        assert!(conditions.iter().any(|found| found["type"] == "Established" && found["status"] == "True"));
        assert_eq!(server.send("DELETE", &path, &[], "").await.code, 405);
        // Nothing changes when the server starts again with the same kinds.
        server.api.core().publish_kinds().await.unwrap();
        assert_eq!(server.get(&path).await.json(), host);
        // Clients keep labels here. What else they say does not count.
        let patch =
            json!({ "metadata": { "labels": { "x.io/v1": "a" } }, "spec": { "group": "other" }, "status": null });
        let labelled = server.merge(&path, &patch).await;
        assert_eq!(labelled.code, 200, "{}", labelled.text);
        server.api.core().publish_kinds().await.unwrap();
        let kept = server.get(&path).await.json();
        assert_eq!(kept["metadata"]["labels"]["x.io/v1"], "a");
        assert_eq!((&kept["spec"], &kept["status"]), (&host["spec"], &host["status"]));
    });
}

#[test]
fn a_kind_that_is_not_served_any_more_has_no_definition() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("store.db")).unwrap();
        let toy = |plural| KindInfo::namespaced("toys.example", "v1", "Toy", plural);
        let names = async |core: &Core| {
            let kind = core.registry().by_kind("apiextensions.k8s.io", "CustomResourceDefinition").unwrap();
            let page = core.store().list(ListRange::all(&kind.group_resource()), 10).await.unwrap();
            page.items.iter().map(|item| item.key.name.to_string()).collect::<Vec<_>>()
        };
        let first =
            Core::new(store.clone(), Registry::new(builtin::kinds().into_iter().chain([toy("toys"), toy("dolls")])));
        first.publish_kinds().await.unwrap();
        assert_eq!(names(&first).await, ["dolls.toys.example", "toys.toys.example"]);
        let next = Core::new(store, Registry::new(builtin::kinds().into_iter().chain([toy("toys")])));
        next.publish_kinds().await.unwrap();
        assert_eq!(names(&next).await, ["toys.toys.example"]);
    });
}

#[test]
fn callers_learn_who_they_are_and_what_they_may() {
    run(async {
        let server = Server::new().await;
        let ask = async |caller: &Caller, path: &str, kind: &str, spec: &Value| {
            let (group, _) = path.split_once('/').unwrap();
            let body = json!({ "apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec }).to_string();
            let request = Request::post(format!("/apis/{path}")).body(Full::new(Bytes::from(body))).unwrap();
            let response = server.api.handle(request, caller).await;
            assert_eq!(response.status(), 201);
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            serde_json::from_slice::<Value>(&bytes).unwrap()["status"].clone()
        };
        let nobody = Caller::new("nobody");
        let who = "authentication.k8s.io/v1/selfsubjectreviews";
        assert_eq!(ask(&nobody, who, "SelfSubjectReview", &Value::Null).await["userInfo"]["username"], "nobody");

        let access = "authorization.k8s.io/v1/selfsubjectaccessreviews";
        let may = async |caller: &Caller, spec: Value| {
            ask(caller, access, "SelfSubjectAccessReview", &spec).await["allowed"].as_bool().unwrap()
        };
        let on = |verb: &str, group: &str, resource: &str| json!({ "resourceAttributes": { "verb": verb, "group": group, "resource": resource } });
        assert!(may(&admin(), on("create", "metal3.io", "baremetalhosts")).await);
        assert!(!may(&nobody, on("get", "metal3.io", "baremetalhosts")).await);
        let definitions = "customresourcedefinitions";
        assert!(may(&admin(), on("get", "apiextensions.k8s.io", definitions)).await);
        assert!(!may(&admin(), on("delete", "apiextensions.k8s.io", definitions)).await, "nobody may");
        let version = |verb: &str| json!({ "nonResourceAttributes": { "verb": verb, "path": "/version" } });
        assert!(may(&nobody, version("get")).await && !may(&admin(), version("post")).await);

        let rules = "authorization.k8s.io/v1/selfsubjectrulesreviews";
        let spec = json!({ "namespace": "default" });
        let count = async |caller: &Caller| {
            let status = ask(caller, rules, "SelfSubjectRulesReview", &spec).await;
            let rules = status["resourceRules"].as_array().unwrap().clone();
            rules.iter().filter(|rule| rule["resources"] == json!(["*"])).count()
        };
        assert_eq!((count(&admin()).await, count(&nobody).await), (1, 0));
        assert_eq!(server.get(&format!("/apis/{access}")).await.code, 405);
        let both = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {} });
        assert_eq!(server.post(&format!("/apis/{access}"), &both).await.code, 422);
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
        assert_eq!(server.send("PATCH", &path, &strategic, &list).await.code, 200);
        let other = json!({"metadata": {"finalizers": ["x/z"], "$deleteFromPrimitiveList/finalizers": ["x/y"]}});
        let held = server.send("PATCH", &path, &strategic, &other.to_string()).await.json();
        assert_eq!(held["metadata"]["finalizers"], json!(["x/z"]));
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
        let cbor = [("content-type", "application/cbor")];
        assert_eq!(server.send("POST", HOSTS, &cbor, "").await.code, 415);
        let protobuf = [("content-type", "application/vnd.kubernetes.protobuf")];
        assert_eq!(server.send("POST", HOSTS, &protobuf, "k8s\0").await.code, 400, "no form for this kind");
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
    watch_at(server, &format!("{HOSTS}?watch=1&{query}")).await
}

pub(crate) async fn watch_at(server: &Server, path: &str) -> firesteel_kube::Body {
    let request = Request::get(path).body(Empty::<Bytes>::new()).unwrap();
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
        let nobody = Caller::new("nobody");
        for (path, code) in [(HOSTS, 403), ("/api/v1/secrets", 403), ("/version", 200), ("/apis", 200)] {
            let request = Request::get(path).body(Empty::<Bytes>::new()).unwrap();
            assert_eq!(server.api.handle(request, &nobody).await.status(), code, "{path}");
        }
    });
}
