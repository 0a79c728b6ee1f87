//! The kinds of requests that the recorded answers are about, for kinds of Kubernetes' own (which differ from
//! custom ones where these rows say so), and deletes, which the recording lacks.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::toy::{HOSTS, Reply, Server, object, run};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const STEPS: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// What is asked, and the code and some of the answer's fields.
struct Row {
    what: &'static str,
    method: &'static str,
    path: String,
    media_type: &'static str,
    body: Value,
    code: u16,
    fields: Vec<(&'static str, Value)>,
}

fn row(what: &'static str, method: &'static str, path: &str, body: Value, code: u16) -> Row {
    let media_type = if method == "PATCH" { MERGE } else { "application/json" };
    Row { what, method, path: path.to_owned(), media_type, body, code, fields: Vec::new() }
}

impl Row {
    fn of_type(self, media_type: &'static str) -> Self {
        Self { media_type, ..self }
    }

    fn with(mut self, pointer: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((pointer, value.into()));
        self
    }

    fn saying(self, message: &str) -> Self {
        self.with("/message", message)
    }
}

async fn ask(server: &Server, rows: Vec<Row>) {
    for row in rows {
        let body = if row.body.is_null() { String::new() } else { row.body.to_string() };
        let reply = server.send(row.method, &row.path, &[("content-type", row.media_type)], &body).await;
        assert_eq!(reply.code, row.code, "{}: {}", row.what, reply.text);
        for (pointer, value) in row.fields {
            let have = reply.json().pointer(pointer).cloned().unwrap_or_default();
            assert_eq!(have, value, "{}: {pointer} of {}", row.what, reply.text);
        }
    }
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

fn changed(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key] = value;
    object
}

fn path(query: &str) -> String {
    format!("{MAPS}{query}")
}

#[test]
fn a_config_map_is_created_as_in_kubernetes() {
    run(async {
        let server = Server::new().await;
        let generated = json!({"metadata": {"generateName": "c-"}});
        let elsewhere = changed(map("c"), "/metadata/namespace", json!("other"));
        let typo = changed(map("typo"), "/dat", json!({}));
        let reply = server.post(MAPS, &generated).await.json();
        let name = reply["metadata"]["name"].as_str().unwrap();
        assert!(name.len() == 7 && name.starts_with("c-"), "{name}");
        let rows = vec![
            row("create", "POST", MAPS, map("c"), 201)
                .with("/metadata/generation", Value::Null)
                .with("/kind", "ConfigMap"),
            row("again", "POST", MAPS, map("c"), 409)
                .saying("configmaps \"c\" already exists")
                .with("/reason", "AlreadyExists")
                .with("/details", json!({"name": "c", "kind": "configmaps"})),
            row("no name", "POST", MAPS, json!({}), 422)
                .saying("ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"),
            row("bad name", "POST", MAPS, map("C_"), 422)
                .with("/details/causes/0/field", "metadata.name")
                .with("/details/kind", "ConfigMap"),
            row("of another namespace", "POST", MAPS, elsewhere, 400)
                .saying("the namespace of the provided object does not match the namespace sent on the request"),
            row("of no namespace", "POST", "/api/v1/namespaces/no/configmaps", map("c"), 404)
                .saying("namespaces \"no\" not found"),
            row("with a revision", "POST", MAPS, changed(map("r"), "/metadata/resourceVersion", json!("1")), 500)
                .saying("resourceVersion should not be set on objects to be created"),
            row("dry run", "POST", &path("?dryRun=All"), map("dry"), 201).with("/data/a", "b"),
            row("left nothing", "GET", &path("/dry"), Value::Null, 404).saying("configmaps \"dry\" not found"),
            row("wrong dry run", "POST", &path("?dryRun=Some"), map("dry"), 422)
                .with("/details/causes/0/field", "dryRun"),
            row("strict", "POST", &path("?fieldValidation=Strict"), typo.clone(), 400).saying(
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \
                 \"dat\"",
            ),
            row("not strict", "POST", &path("?fieldValidation=Ignore"), typo, 201).with("/dat", Value::Null),
            row("no object", "POST", MAPS, json!([]), 400),
        ];
        ask(&server, rows).await;
    });
}

#[test]
fn a_config_map_is_replaced_and_patched_as_in_kubernetes() {
    run(async {
        let server = Server::new().await;
        let made = server.post(MAPS, &map("c")).await.json();
        let rev = |reply: &Reply| reply.json()["metadata"]["resourceVersion"].clone();
        let one = &path("/c");
        let other_uid = changed(map("c"), "/metadata/uid", json!("x"));
        let rows = vec![
            row("without a revision", "PUT", one, changed(map("c"), "/data/a", json!("1")), 200).with("/data/a", "1"),
            row("of an old revision", "PUT", one, made.clone(), 409)
                .saying(
                    "Operation cannot be fulfilled on configmaps \"c\": the object has been modified; please apply \
                     your changes to the latest version and try again",
                )
                .with("/details", json!({"name": "c", "kind": "configmaps"})),
            row("of another identity", "PUT", one, other_uid, 409).with("/reason", "Conflict"),
            row("another", "POST", MAPS, map("e"), 201),
            row("by another name", "PUT", &path("/e"), map("c"), 400)
                .saying("the name of the object (c) does not match the name on the URL (e)"),
            row("of nothing", "PUT", &path("/d"), map("d"), 404),
            row("merge", "PATCH", one, json!({"data": {"a": null, "b": "2"}}), 200).with("/data", json!({"b": "2"})),
            row("strategic", "PATCH", one, json!({"data": {"c": "3"}}), 200)
                .of_type(STRATEGIC)
                .with("/data", json!({"b": "2", "c": "3"})),
            row("steps", "PATCH", one, json!([{"op": "remove", "path": "/data/b"}]), 200)
                .of_type(STEPS)
                .with("/data", json!({"c": "3"})),
            row("a step that fails", "PATCH", one, json!([{"op": "remove", "path": "/data/b"}]), 422).of_type(STEPS),
            row("an old revision in a patch", "PATCH", one, json!({"metadata": {"resourceVersion": "1"}}), 409),
            row("of nothing", "PATCH", &path("/d"), json!({}), 404),
            row("unknown type", "PATCH", one, json!({}), 415).of_type("text/plain"),
            row("no status", "PUT", &path("/c/status"), map("c"), 404),
        ];
        ask(&server, rows).await;
        let before = server.get(one).await;
        let again = server.put(one, &before.json()).await;
        assert_eq!(rev(&again), rev(&before), "what changes nothing is not written");
        // A Lease is one that is compared and swapped.
        let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
        let rows = vec![
            row("lease", "POST", LEASES, lease.clone(), 201).with("/spec/holderIdentity", "a"),
            row("without a revision", "PUT", &format!("{LEASES}/l"), lease, 422)
                .with("/details/causes/0/message", "Invalid value: 0: must be specified for an update"),
        ];
        ask(&server, rows).await;
    });
}

#[test]
fn a_config_map_is_applied_as_in_kubernetes() {
    run(async {
        let server = Server::new().await;
        let one = path("/c?fieldManager=m1");
        let by = |manager: &str| path(&format!("/c?fieldManager={manager}"));
        let with = |value: &str| changed(map("c"), "/data/a", json!(value));
        let rows = vec![
            row("made", "PATCH", &one, map("c"), 201).with("/metadata/managedFields/0/operation", "Apply"),
            row("same", "PATCH", &one, map("c"), 200),
            row("conflict", "PATCH", &by("m2"), with("x"), 409)
                .saying("Apply failed with 1 conflict: conflict with \"m1\": .data.a")
                .with("/details/causes/0/reason", "FieldManagerConflict"),
            row("forced", "PATCH", &by("m2&force=true"), with("x"), 200).with("/data/a", "x"),
            row("no manager", "PATCH", &path("/c"), map("c"), 422),
            row("no kind", "PATCH", &one, json!({"metadata": {"name": "c"}}), 400),
            row("left out by its owner", "PATCH", &by("m2"), json!({"apiVersion": "v1", "kind": "ConfigMap"}), 200)
                .with("/data", Value::Null),
        ];
        ask(&server, rows.into_iter().map(|row| row.of_type(APPLY)).collect()).await;
    });
}

#[test]
fn config_maps_are_listed_as_in_kubernetes() {
    run(async {
        let server = Server::new().await;
        for name in ["a", "b", "c"] {
            server.post(MAPS, &changed(map(name), "/metadata/labels", json!({ "n": name }))).await;
        }
        let all = server.get(MAPS).await.json();
        let keys: Vec<&String> = all["metadata"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["resourceVersion"], "of a kind of Kubernetes' own a whole list has no `continue`");
        assert!(all["items"].as_array().unwrap().iter().all(|item| item.get("kind").is_some()));
        let first = server.get(&path("?limit=2")).await.json();
        assert_eq!(first["metadata"]["remainingItemCount"], 1);
        let rest = format!("?limit=2&continue={}", first["metadata"]["continue"].as_str().unwrap());
        let rev = all["metadata"]["resourceVersion"].as_str().unwrap();
        server.post(MAPS, &map("d")).await;
        let get = |what, query: &str, code| row(what, "GET", &path(query), Value::Null, code);
        let rows = vec![
            get("the rest", &rest, 200).with("/items/0/metadata/name", "c").with("/items/1", Value::Null),
            get("then", &format!("?resourceVersion={rev}&resourceVersionMatch=Exact"), 200)
                .with("/items/3", Value::Null)
                .with("/metadata/resourceVersion", rev),
            get("at least then", &format!("?resourceVersion={rev}&resourceVersionMatch=NotOlderThan"), 200)
                .with("/items/3/metadata/name", "d"),
            get("by label", "?labelSelector=n%20in%20(b,c),!x", 200).with("/items/1/metadata/name", "c"),
            get("by name", "?fieldSelector=metadata.name%3Db", 200).with("/items/0/metadata/name", "b"),
            get("by anything", "?fieldSelector=data.a%3Db", 400),
            get("wrong label", "?labelSelector=n%20in", 400),
            get("wrong token", "?continue=abc", 400),
            get("no number", "?resourceVersion=x", 400),
            get("too new", "?resourceVersion=99999999&timeoutSeconds=1", 504).with("/details/retryAfterSeconds", 1),
            row("all namespaces", "GET", "/api/v1/configmaps", Value::Null, 200).with("/kind", "ConfigMapList"),
            row("no namespace", "GET", "/api/v1/namespaces/no/configmaps", Value::Null, 200).with("/items", json!([])),
        ];
        ask(&server, rows).await;
        let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
        let shown = server.send("GET", MAPS, &table, "").await.json();
        let names: Vec<&Value> = shown["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
        assert_eq!(names, ["Name", "Data", "Age"]);
        assert_eq!(shown["rows"][0]["cells"], json!(["a", 1, "0s"]));
        assert_eq!(shown["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        let yaml = server.send("GET", &path("/a"), &[("accept", "application/yaml")], "").await;
        assert!(yaml.media_type == "application/yaml" && yaml.text.contains("kind: ConfigMap\n"), "{}", yaml.text);
    });
}

/// For both kinds of kinds.
#[test]
fn deletes_are_those_of_kubernetes() {
    run(async {
        let server = Server::new().await;
        let kinds =
            [(MAPS, map as fn(&str) -> Value, "", "configmaps"), (HOSTS, object, "metal3.io", "baremetalhosts")];
        for (all, made, group, plural) in kinds {
            let finalizers = json!(["example.com/f"]);
            let held = server.post(all, &changed(made("held"), "/metadata/finalizers", finalizers)).await.json();
            let free = server.post(all, &made("free")).await.json();
            let one = |name: &str| format!("{all}/{name}");
            let preconditions = |key: &str, value: &Value| json!({"preconditions": {key: value}});
            let delete = |what, name: &str, body, code| row(what, "DELETE", &one(name), body, code);
            let mut details = json!({"name": "free", "kind": plural, "uid": free["metadata"]["uid"]});
            if !group.is_empty() {
                details["group"] = json!(group);
            }
            let rows = vec![
                delete("of nothing", "no", Value::Null, 404),
                delete("another one", "free", preconditions("uid", &json!("x")), 409),
                delete("another revision", "free", preconditions("resourceVersion", &json!("1")), 409),
                delete("in an unknown way", "free", json!({"propagationPolicy": "Sideways"}), 422),
                row("dry run", "DELETE", &one("free?dryRun=All"), Value::Null, 200),
                row("is there", "GET", &one("free"), Value::Null, 200),
                delete("that one", "free", preconditions("uid", &free["metadata"]["uid"]), 200)
                    .with("/kind", "Status")
                    .with("/status", "Success")
                    .with("/details", details),
                delete("held", "held", Value::Null, 200)
                    .with("/metadata/name", "held")
                    .with("/metadata/deletionGracePeriodSeconds", 0),
            ];
            ask(&server, rows).await;
            let marked = server.get(&one("held")).await.json();
            assert!(marked["metadata"]["deletionTimestamp"].is_string());
            let generations = [&held, &marked].map(|object| object["metadata"]["generation"].as_i64());
            assert_eq!(generations, if group.is_empty() { [None, None] } else { [Some(1), Some(2)] });
            let again = server.send("DELETE", &one("held"), &[], "").await.json();
            assert_eq!(again, marked, "once is enough");
            let more = json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"]}});
            let refused = server.merge(&one("held"), &more).await;
            assert!(refused.code == 422 && refused.text.contains("no new finalizers can be added"), "{}", refused.text);
            let none = json!({"metadata": {"finalizers": null}});
            assert_eq!(server.merge(&one("held"), &none).await.code, 200);
            assert_eq!(server.get(&one("held")).await.code, 404, "the last finalizer went");
            for name in ["x", "y", "z"] {
                server.post(all, &changed(made(name), "/metadata/labels", json!({ "n": name }))).await;
            }
            let collected = server.send("DELETE", &format!("{all}?labelSelector=n!%3Dz"), &[], "").await.json();
            let names: Vec<&Value> =
                collected["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
            assert_eq!(names, ["x", "y"]);
            assert_eq!(server.get(all).await.json()["items"][0]["metadata"]["name"], "z");
        }
    });
}

/// What one watch sends until it ends.
async fn told(server: &Server, query: &str, accept: &str) -> Vec<(String, Value)> {
    let path = format!("{query}&watch=true&timeoutSeconds=1");
    let reply = server.send("GET", &path, &[("accept", accept)], "").await;
    assert_eq!((reply.code, reply.media_type.as_str()), (200, "application/json"));
    let events = reply.text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.map(|event| (event["type"].as_str().unwrap().to_owned(), event["object"].clone())).collect()
}

/// For all three kinds of kinds.
#[test]
fn watches_are_those_of_kubernetes() {
    run(async {
        let server = Server::new().await;
        let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": "a"}});
        let kinds = [(MAPS, map as fn(&str) -> Value), (HOSTS, object), (LEASES, lease)];
        // Beside each other: a watch ends after a second.
        join_all(kinds.map(|(all, made)| watch_kind(&server, all, made))).await;
    });
}

async fn watch_kind(server: &Server, all: &str, made: fn(&str) -> Value) {
    let labelled = |label: &str| changed(made("w"), "/metadata/labels", json!({ "n": label }));
    let since = server.get(all).await.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    server.post(all, &labelled("1")).await;
    let relabel = json!({"metadata": {"labels": {"n": "2"}}});
    server.merge(&format!("{all}/w"), &relabel).await;
    let gone = server.send("DELETE", &format!("{all}/w"), &[], "").await;
    assert_eq!(gone.code, 200);
    let path = |query: &str| format!("{all}?resourceVersion={since}{query}");
    let types = |events: &[(String, Value)]| events.iter().map(|(kind, _)| kind.clone()).collect::<Vec<_>>();
    let everything = told(server, &path(""), "application/json").await;
    assert_eq!(types(&everything), ["ADDED", "MODIFIED", "DELETED"], "{all}");
    let revisions: Vec<u64> = everything
        .iter()
        .map(|(_, object)| object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(revisions.is_sorted() && revisions[0] > since.parse().unwrap(), "{revisions:?}");
    assert_eq!(everything[2].1["metadata"]["labels"]["n"], "2", "the last state");
    // Who leaves the selection is deleted from it, and was as it was.
    let left = told(server, &path("&labelSelector=n%3D1"), "application/json").await;
    assert_eq!(types(&left), ["ADDED", "DELETED"]);
    assert_eq!(left[1].1["metadata"]["resourceVersion"], json!(revisions[1].to_string()));
    let entered = told(server, &path("&labelSelector=n%3D2"), "application/json").await;
    assert_eq!(types(&entered), ["ADDED", "DELETED"]);
    let other = told(server, &path("&fieldSelector=metadata.name%3Dx"), "application/json").await;
    assert_eq!(types(&other), Vec::<String>::new());
    let media_type = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let metadata = told(server, &path(""), media_type).await;
    assert_eq!(metadata[0].1["kind"], "PartialObjectMetadata");
    assert_eq!(metadata[0].1["metadata"], everything[0].1["metadata"]);
    // Of one object that is not there, and of one that is: no watch, but the object.
    server.post(all, &made("w")).await;
    let one = server.get(&format!("{all}/w?watch=true")).await.json();
    assert_eq!((&one["metadata"]["name"], one.get("type")), (&json!("w"), None));
    let stream = format!("{all}?sendInitialEvents=true&allowWatchBookmarks=true");
    assert_eq!(server.get(&format!("{stream}&watch=true")).await.code, 422, "it has to say NotOlderThan");
    let stream = format!("{stream}&resourceVersionMatch=NotOlderThan");
    let initial = told(server, &stream, "application/json").await;
    assert_eq!(types(&initial), ["ADDED", "BOOKMARK"]);
    assert_eq!(initial[1].1["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}
