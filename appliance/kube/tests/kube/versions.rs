//! A kind in two versions: an old one that goes away, and the one that is stored. Each has a field
//! that the other cannot hold.

use std::time::Duration;

use firesteel_kube::{KindInfo, Objects, ScaleSubresource, Timing, VersionConversion};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::toy::{Server, run};

const GROUP: &str = "toys.example.org";
const OLD: &str = "/apis/toys.example.org/v1beta1/namespaces/default/fleets";
const NEW: &str = "/apis/toys.example.org/v1/namespaces/default/fleets";
const KEPT: &str = "example.org/kept";
const SCALE: ScaleSubresource = ScaleSubresource {
    spec_replicas: ".spec.replicas",
    status_replicas: ".status.replicas",
    label_selector: ".status.selector",
};

/// `spec`: count, owner ("team/person"), color; the stored version: replicas, owner {team, person}, note.
pub(crate) fn kinds() -> [KindInfo; 2] {
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": "integer" });
    let schema = |spec: Value, replicas: &str| {
        json!({ "type": "object", "properties": {
            "spec": { "type": "object", "properties": spec },
            "status": { "type": "object", "properties": { replicas: number(), "selector": text() } },
        } })
    };
    let owner = json!({ "type": "object", "properties": { "team": text(), "person": text() } });
    let stored = KindInfo {
        short_names: &["fl"],
        scale: Some(SCALE),
        definition_labels: &[("example.org/v1", "v1")],
        ..KindInfo::namespaced(GROUP, "v1", "Fleet", "fleets")
            .with_schema(schema(json!({ "replicas": number(), "owner": owner, "note": text() }), "replicas"))
    };
    let old = KindInfo {
        short_names: &["fl"],
        scale: Some(ScaleSubresource { spec_replicas: ".spec.count", status_replicas: ".status.count", ..SCALE }),
        is_deprecated: true,
        conversion: Some(VersionConversion {
            to_stored: renewed,
            from_stored: aged,
            annotation: KEPT,
            fits_stored: |object| object["spec"].is_object(),
            fits: |object| object["spec"].is_object(),
        }),
        ..KindInfo::namespaced(GROUP, "v1beta1", "Fleet", "fleets")
            .with_schema(schema(json!({ "count": number(), "owner": text(), "color": text() }), "count"))
    };
    [old, stored]
}

fn renewed(object: &Value) -> Map<String, Value> {
    change(object, "count", "replicas", "color", |owner| {
        let (team, person) = owner.as_str()?.split_once('/')?;
        Some(json!({ "team": team, "person": person }))
    })
}

fn aged(object: &Value) -> Map<String, Value> {
    change(object, "replicas", "count", "note", |owner| {
        Some(json!(format!("{}/{}", owner["team"].as_str()?, owner["person"].as_str()?)))
    })
}

fn change(
    object: &Value,
    from: &str,
    to: &str,
    lost: &str,
    owner: impl Fn(&Value) -> Option<Value>,
) -> Map<String, Value> {
    let mut body = Map::new();
    for part in ["spec", "status"] {
        let Some(Value::Object(fields)) = object.get(part) else { continue };
        let mut fields = fields.clone();
        fields.remove(lost);
        if let Some(count) = fields.remove(from) {
            fields.insert(to.into(), count);
        }
        if let Some(new) = fields.remove("owner").as_ref().and_then(&owner) {
            fields.insert("owner".into(), new);
        }
        body.insert(part.into(), fields.into());
    }
    body
}

fn fleet(version: &str, spec: &Value) -> Value {
    json!({ "apiVersion": format!("{GROUP}/{version}"), "kind": "Fleet", "metadata": { "name": "a" }, "spec": spec })
}

fn old(spec: Value) -> Value {
    fleet("v1beta1", &spec)
}

fn new(spec: Value) -> Value {
    fleet("v1", &spec)
}

async fn spec(server: &Server, path: &str) -> Value {
    let reply = server.get(&format!("{path}/a")).await;
    assert_eq!(reply.code, 200, "{}", reply.text);
    reply.json()["spec"].clone()
}

#[test]
fn an_object_is_the_same_in_every_version() {
    run(async {
        let server = Server::of(kinds()).await;
        let made = server.post(OLD, &old(json!({ "count": 2, "owner": "red/ann", "color": "blue" }))).await;
        assert_eq!((made.code, &made.json()["apiVersion"]), (201, &json!("toys.example.org/v1beta1")), "{}", made.text);
        assert_eq!(made.json()["spec"], json!({ "count": 2, "owner": "red/ann", "color": "blue" }));
        let shown = server.get(&format!("{NEW}/a")).await.json();
        assert_eq!(shown["apiVersion"], "toys.example.org/v1");
        assert_eq!(shown["spec"], json!({ "replicas": 2, "owner": { "team": "red", "person": "ann" } }));
        assert_eq!(shown["metadata"]["resourceVersion"], made.json()["metadata"]["resourceVersion"]);

        // Each version changes what it knows; what the other alone has stays, through both.
        let patched = server.merge(&format!("{NEW}/a"), &json!({ "spec": { "note": "n", "replicas": 3 } })).await;
        assert_eq!(patched.json()["spec"]["note"], "n", "{}", patched.text);
        assert_eq!(spec(&server, OLD).await, json!({ "count": 3, "owner": "red/ann", "color": "blue" }));
        let patched = server.merge(&format!("{OLD}/a"), &json!({ "spec": { "owner": "red/bob" } })).await;
        assert_eq!(patched.json()["spec"], json!({ "count": 3, "owner": "red/bob", "color": "blue" }));
        let owner = json!({ "team": "red", "person": "bob" });
        assert_eq!(spec(&server, NEW).await, json!({ "replicas": 3, "owner": owner, "note": "n" }));
        // A whole object without the annotation says that there is nothing but what it has.
        let mut whole = server.get(&format!("{OLD}/a")).await.json();
        assert!(whole["metadata"]["annotations"][KEPT].as_str().unwrap().contains("\"note\":\"n\""), "{whole}");
        whole["metadata"]["annotations"] = Value::Null;
        assert_eq!(server.put(&format!("{OLD}/a"), &whole).await.code, 200);
        assert_eq!(spec(&server, NEW).await, json!({ "replicas": 3, "owner": owner }));
        assert_eq!(spec(&server, OLD).await["color"], "blue");

        // Of the process's own clients each sees the stored version.
        let objects = Objects::<Value>::new(server.api.core(), GROUP, "Fleet").unwrap();
        assert_eq!(objects.get("default", "a").await.unwrap().unwrap()["apiVersion"], "toys.example.org/v1");
        let status = server.merge(&format!("{OLD}/a/status"), &json!({ "status": { "count": 9 } })).await;
        assert_eq!(status.json()["status"]["count"], 9, "{}", status.text);
        assert_eq!(server.get(&format!("{NEW}/a")).await.json()["status"], json!({ "replicas": 9 }));
        let same = server.get(&format!("{OLD}/a")).await.json();
        let put = server.put(&format!("{OLD}/a"), &same).await.json();
        assert_eq!(put["metadata"]["resourceVersion"], same["metadata"]["resourceVersion"], "nothing changed");
        let gone = server.send("DELETE", &format!("{OLD}/a"), &[], "").await;
        assert_eq!(gone.code, 200, "{}", gone.text);
        assert_eq!(server.get(&format!("{NEW}/a")).await.code, 404);
    });
}

#[test]
fn lists_watches_and_tables_are_in_the_version_that_was_asked_for() {
    run(async {
        let long = Timing { watch: Duration::from_secs(1), ..Timing::default() };
        let server = Server::of(kinds()).await.timed(long);
        server.post(NEW, &new(json!({ "replicas": 1, "note": "n" }))).await;
        let list = server.get(OLD).await.json();
        assert_eq!(list["apiVersion"], "toys.example.org/v1beta1");
        assert_eq!(list["items"][0]["spec"], json!({ "count": 1 }));
        assert_eq!(list["items"][0]["metadata"]["resourceVersion"], list["metadata"]["resourceVersion"]);
        let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        server
            .merge(&format!("{OLD}/a"), &json!({ "metadata": { "labels": { "x": "y" } }, "spec": { "count": 5 } }))
            .await;
        server.merge(&format!("{NEW}/a"), &json!({ "metadata": { "labels": { "x": null } } })).await;
        let lines = |text: &str| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
        for (path, field, version) in [(OLD, "count", "v1beta1"), (NEW, "replicas", "v1"), (OLD, "count", "v1beta1")] {
            let all = lines(&server.get(&format!("{path}?watch=1&resourceVersion={from}")).await.text);
            let told: Vec<_> = all.iter().map(|line| (&line["type"], &line["object"]["spec"][field])).collect();
            assert_eq!(told, [(&json!("MODIFIED"), &json!(5)), (&json!("MODIFIED"), &json!(5))], "{path}");
            assert!(all.iter().all(|line| line["object"]["apiVersion"] == format!("{GROUP}/{version}")), "{all:?}");
            let selected = format!("{path}?watch=1&resourceVersion={from}&labelSelector=x%3Dy");
            let some = lines(&server.get(&selected).await.text);
            let told: Vec<_> = some.iter().map(|line| (&line["type"], &line["object"]["spec"][field])).collect();
            assert_eq!(told, [(&json!("ADDED"), &json!(5)), (&json!("DELETED"), &json!(5))], "{path}");
        }
        let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
        let rows = server.send("GET", &format!("{OLD}?includeObject=Object"), &table, "").await.json();
        assert_eq!(rows["rows"][0]["object"]["spec"]["count"], 5);
    });
}

#[test]
fn a_version_that_goes_away_says_so_and_the_other_does_not() {
    run(async {
        let server = Server::of(kinds()).await.timed(Timing { watch: Duration::from_millis(1), ..Timing::default() });
        let warning = "299 - \"toys.example.org/v1beta1 Fleet is deprecated; use toys.example.org/v1 Fleet\"";
        let made = server.post(OLD, &old(json!({ "count": 1 }))).await;
        assert_eq!(made.warnings, [warning], "{}", made.text);
        for path in [OLD.to_owned(), format!("{OLD}/a"), format!("{OLD}?watch=1"), format!("{OLD}/none")] {
            assert_eq!(server.get(&path).await.warnings, [warning], "{path}");
        }
        assert_eq!(server.get(NEW).await.warnings, [""; 0]);
    });
}

#[test]
fn both_versions_can_be_found() {
    run(async {
        let server = Server::of(kinds()).await;
        let group = server.get("/apis/toys.example.org").await.json();
        let versions = group["versions"].as_array().unwrap().iter().map(|version| version["version"].clone());
        assert_eq!(versions.collect::<Vec<_>>(), ["v1", "v1beta1"]);
        assert_eq!(group["preferredVersion"]["version"], "v1");
        for version in ["v1", "v1beta1"] {
            let resources = server.get(&format!("/apis/toys.example.org/{version}")).await.json();
            let scale = resources["resources"].as_array().unwrap().iter().find(|one| one["name"] == "fleets/scale");
            let scale = scale.unwrap();
            assert_eq!((&scale["group"], &scale["kind"]), (&json!("autoscaling"), &json!("Scale")));
        }
        let openapi = server.get("/openapi/v3/apis/toys.example.org/v1beta1").await.json();
        let schemas = &openapi["components"]["schemas"];
        assert!(schemas["org.example.toys.v1beta1.Fleet"]["properties"]["spec"]["properties"]["color"].is_object());
        assert!(schemas["io.k8s.api.autoscaling.v1.Scale"].is_object());
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let definition = server.get(&format!("{crds}/fleets.toys.example.org")).await.json();
        assert_eq!(definition["metadata"]["labels"], json!({ "example.org/v1": "v1" }));
        assert_eq!(definition["spec"]["conversion"]["strategy"], "Webhook");
        assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let stored: Vec<_> = versions.iter().map(|one| (&one["name"], &one["storage"], &one["deprecated"])).collect();
        let [v1, v1beta1] = [json!("v1"), json!("v1beta1")];
        assert_eq!(stored, [(&v1beta1, &json!(false), &json!(true)), (&v1, &json!(true), &Value::Null)]);
        assert_eq!(versions[1]["subresources"]["scale"]["labelSelectorPath"], ".status.selector");
    });
}

async fn apply(server: &Server, path: &str, manager: &str, object: &Value) -> (u16, Value) {
    let headers = [("content-type", "application/apply-patch+yaml")];
    let url = format!("{path}/a?fieldManager={manager}");
    let reply = server.send("PATCH", &url, &headers, &object.to_string()).await;
    (reply.code, reply.json())
}

/// Who owns what, as `manager apiVersion {fields}`.
async fn owners(server: &Server) -> Vec<(String, String, Value)> {
    let object = server.get(&format!("{NEW}/a")).await.json();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let mut all: Vec<_> = entries
        .iter()
        .map(|entry| (text(entry, "manager"), text(entry, "apiVersion"), entry["fieldsV1"]["f:spec"].clone()))
        .collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

#[test]
fn owners_keep_their_fields_in_the_version_in_which_they_wrote() {
    run(async {
        let server = Server::of(kinds()).await;
        let (code, made) =
            apply(&server, OLD, "ann", &old(json!({ "count": 1, "owner": "red/ann", "color": "b" }))).await;
        assert_eq!(code, 201, "{made}");
        assert_eq!(made["metadata"]["managedFields"][0]["apiVersion"], "toys.example.org/v1beta1");
        // The same value in other words: both own it.
        assert_eq!(apply(&server, NEW, "bob", &new(json!({ "replicas": 1, "note": "n" }))).await.0, 200);
        let entry = |manager: &str, version: &str, fields: Value| (manager.to_owned(), version.to_owned(), fields);
        let of_ann = json!({ "f:count": {}, "f:owner": {}, "f:color": {} });
        assert_eq!(
            owners(&server).await,
            [entry("ann", "v1beta1", of_ann.clone()), entry("bob", "v1", json!({ "f:replicas": {}, "f:note": {} }))]
        );
        // Another value is a conflict, named as its owner named it.
        let (code, refused) = apply(&server, NEW, "bob", &new(json!({ "replicas": 2, "note": "n" }))).await;
        assert_eq!((code, &refused["details"]["causes"][0]["field"]), (409, &json!(".spec.count")), "{refused}");
        assert_eq!(apply(&server, NEW, "bob&force=true", &new(json!({ "replicas": 2, "note": "n" }))).await.0, 200);
        let of_ann = json!({ "f:owner": {}, "f:color": {} });
        assert_eq!(owners(&server).await[0], entry("ann", "v1beta1", of_ann.clone()));
        // A plain write in one version takes fields from owners in the other one.
        let team = json!({ "spec": { "owner": { "team": "blue" } } });
        assert_eq!(server.merge(&format!("{NEW}/a?fieldManager=carl"), &team).await.code, 200);
        let all = owners(&server).await;
        assert_eq!(all[0], entry("ann", "v1beta1", json!({ "f:color": {} })));
        assert_eq!(all[2], entry("carl", "v1", json!({ "f:owner": { "f:team": {} } })));
        assert_eq!(spec(&server, OLD).await, json!({ "count": 2, "owner": "blue/ann", "color": "b" }));
    });
}

#[test]
fn what_is_no_longer_applied_goes_also_when_it_was_applied_in_another_version() {
    run(async {
        let server = Server::of(kinds()).await;
        apply(&server, OLD, "ann", &old(json!({ "count": 1, "owner": "red/ann", "color": "b" }))).await;
        apply(&server, OLD, "bob", &old(json!({ "count": 1 }))).await;
        server.merge(&format!("{NEW}/a?fieldManager=carl"), &json!({ "spec": { "note": "n" } })).await;
        // Ann goes on in the new version with her owner alone: her color goes; the count is also Bob's.
        let owner = json!({ "team": "red", "person": "ann" });
        let (code, applied) = apply(&server, NEW, "ann", &new(json!({ "owner": owner }))).await;
        assert_eq!(code, 200, "{applied}");
        assert_eq!(spec(&server, NEW).await, json!({ "replicas": 1, "owner": owner, "note": "n" }));
        assert_eq!(spec(&server, OLD).await, json!({ "count": 1, "owner": "red/ann" }));
        let nothing = json!({ "apiVersion": format!("{GROUP}/v1beta1"), "kind": "Fleet", "metadata": { "name": "a" } });
        let (_, applied) = apply(&server, OLD, "bob", &nothing).await;
        assert_eq!(applied["spec"], json!({ "owner": "red/ann" }), "nobody else owned the count");
        assert_eq!(spec(&server, NEW).await, json!({ "owner": owner, "note": "n" }));
        let names: Vec<_> = owners(&server).await.into_iter().map(|(manager, version, _)| (manager, version)).collect();
        assert_eq!(names, [("ann".to_owned(), "v1".to_owned()), ("carl".to_owned(), "v1".to_owned())]);
    });
}

#[test]
fn scale_reads_and_writes_one_number() {
    run(async {
        let server = Server::of(kinds()).await;
        let url = format!("{NEW}/a/scale");
        assert_eq!(server.get(&url).await.code, 404);
        server.post(NEW, &new(json!({ "note": "n" }))).await;
        assert_eq!(server.get(&url).await.code, 500, "there is no number yet");
        server.merge(&format!("{NEW}/a"), &json!({ "spec": { "replicas": 1 } })).await;
        let status = json!({ "status": { "replicas": 7, "selector": "a=b" } });
        server.merge(&format!("{NEW}/a/status"), &status).await;
        let shown = server.get(&url).await.json();
        let object = server.get(&format!("{NEW}/a")).await.json();
        let metadata: Map<String, Value> = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
            .map(|name| (name.to_owned(), object["metadata"][name].clone()))
            .into_iter()
            .collect();
        let expected = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata,
            "spec": { "replicas": 1 }, "status": { "replicas": 7, "selector": "a=b" },
        });
        assert_eq!(shown, expected);
        assert_eq!(server.get(&format!("{OLD}/a/scale")).await.json(), expected, "in every version");

        let scaled = server.merge(&format!("{url}?fieldManager=ann"), &json!({ "spec": { "replicas": 3 } })).await;
        assert_eq!((scaled.code, &scaled.json()["spec"]["replicas"]), (200, &json!(3)), "{}", scaled.text);
        let object = server.get(&format!("{NEW}/a")).await.json();
        assert_eq!((&object["spec"]["replicas"], &object["metadata"]["generation"]), (&json!(3), &json!(3)));
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        let mine = entries.iter().find(|entry| entry["manager"] == "ann").unwrap();
        assert_eq!(mine["subresource"], "scale");
        assert_eq!(mine["fieldsV1"], json!({ "f:spec": { "f:replicas": {} } }));
        let others = entries.iter().filter(|entry| entry["manager"] != "ann");
        assert!(others.clone().all(|entry| entry["fieldsV1"]["f:spec"].get("f:replicas").is_none()), "{entries:?}");

        let mut put = shown.clone();
        put["spec"]["replicas"] = json!(5);
        let stale = server.put(&url, &put).await;
        assert_eq!((stale.code, &stale.json()["reason"]), (409, &json!("Conflict")), "{}", stale.text);
        put["metadata"]["resourceVersion"] = Value::Null;
        put["status"]["replicas"] = json!(99);
        assert_eq!(server.put(&url, &put).await.json()["spec"]["replicas"], 5);
        assert_eq!(server.get(&url).await.json()["status"]["replicas"], 7, "it is not the client's to say");
        let negative = server.merge(&url, &json!({ "spec": { "replicas": -1 } })).await;
        assert_eq!(negative.code, 422, "{}", negative.text);
        let message = "Fleet.toys.example.org \"a\" is invalid: .spec.replicas: Invalid value: -1: should be a non-negative integer";
        assert_eq!(negative.json()["message"], message);
        assert_eq!(server.merge(&format!("{NEW}/a"), &json!({ "spec": { "replicas": -1 } })).await.code, 422);
        assert_eq!(server.merge(&url, &json!({ "spec": { "replicas": "x" } })).await.code, 422);
        assert_eq!(server.put(&url, &object).await.code, 400, "no Scale");
        assert_eq!(server.send("DELETE", &url, &[], "").await.code, 405);
        let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
        assert_eq!(server.send("GET", &url, &table, "").await.json()["rows"][0]["cells"][1], 5);
    });
}

fn old_spec() -> impl Strategy<Value = Value> {
    let owner = prop_oneof!["[a-c]/[a-c]", "[a-c]"];
    (any::<Option<u8>>(), proptest::option::of(owner), proptest::option::of("[a-c]")).prop_map(
        |(count, owner, color)| {
            let mut spec = json!({});
            if let Some(count) = count {
                spec["count"] = json!(count);
            }
            if let Some(owner) = owner {
                spec["owner"] = json!(owner);
            }
            if let Some(color) = color {
                spec["color"] = json!(color);
            }
            spec
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is written in one version is read again in it, and what the other one had is there.
    #[test]
    fn no_version_loses_what_another_one_wrote(first in old_spec(), second in old_spec(), note in "[a-c]{0,2}") {
        run(async {
            let server = Server::of(kinds()).await;
            server.post(OLD, &old(first.clone())).await;
            assert_eq!(spec(&server, OLD).await, first);
            server.merge(&format!("{NEW}/a"), &json!({ "spec": { "note": note } })).await;
            assert_eq!(spec(&server, OLD).await, first);
            let mut object = server.get(&format!("{OLD}/a")).await.json();
            object["spec"] = second.clone();
            assert_eq!(server.put(&format!("{OLD}/a"), &object).await.code, 200);
            assert_eq!(spec(&server, OLD).await, second);
            let stored = spec(&server, NEW).await;
            assert_eq!(stored["note"], json!(note), "{stored}");
            assert_eq!(stored["replicas"], second["count"], "{stored}");
        });
    }
}
