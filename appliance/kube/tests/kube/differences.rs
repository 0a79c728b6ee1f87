//! Where answers differed last from those of Kubernetes 1.36: a table of what is asked and what is answered.
//!
//! The recorded answers have none of these; each row says what the sources of `k8s.io/apiserver` and
//! `k8s.io/apiextensions-apiserver` 0.36 answer.

use std::cell::RefCell;

use serde_json::{Value, json};

use crate::toy::{HOSTS, Reply, Server, object, run};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

thread_local! {
    /// The rows of a test's thread that are wrong.
    static WRONG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Prints a row, and notes one whose answer is another one.
fn judge(asked: &str, answered: &Value, wanted: &Value) {
    println!("{asked} | {answered}");
    if answered != wanted {
        WRONG.with_borrow_mut(|wrong| wrong.push(format!("{asked} | {answered}, and not {wanted}")));
    }
}

/// Runs a test's rows, and fails where one is wrong: each is judged, whatever became of those before.
fn table(rows: impl Future<Output = ()>) {
    run(rows);
    let wrong = WRONG.take();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `null` sends no body.
async fn delete(server: &Server, path: &str, options: &Value) -> Reply {
    let body = if options.is_null() { String::new() } else { options.to_string() };
    server.send("DELETE", path, &[("content-type", "application/json")], &body).await
}

fn held(name: &str) -> Value {
    let mut held = object(name);
    held["metadata"]["finalizers"] = json!(["x.io/f"]);
    held
}

/// Fields and reasons of a refusal, in their order.
fn causes(reply: &Reply) -> Value {
    // A stream of events is none.
    let status: Value = serde_json::from_str(&reply.text).unwrap_or_default();
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let told: Vec<Value> = causes.map(|cause| json!([cause["field"], cause["reason"]])).collect();
    json!([reply.code, told])
}

#[test]
fn a_deletion_that_waits_is_answered_with_the_object() {
    table(async {
        let server = Server::in_memory().await;
        for (name, options, code) in [
            ("a", json!({ "propagationPolicy": "Foreground" }), 200),
            ("b", json!({ "propagationPolicy": "Background" }), 200),
            // The old word for it, which Kubernetes answers as it did then.
            ("c", json!({ "orphanDependents": false }), 202),
        ] {
            server.post(HOSTS, &held(name)).await;
            let reply = delete(&server, &format!("{HOSTS}/{name}"), &options).await;
            let answered = json!([reply.code, reply.json()["kind"], reply.json()["metadata"]["name"]]);
            judge(&format!("DELETE with {options}"), &answered, &json!([code, "BareMetalHost", name]));
        }
        server.post(HOSTS, &object("d")).await;
        let reply = delete(&server, &format!("{HOSTS}/d?propagationPolicy=Foreground"), &Value::Null).await;
        judge(
            "DELETE ?propagationPolicy=Foreground",
            &json!([reply.code, reply.json()["kind"]]),
            &json!([200, "BareMetalHost"]),
        );
    });
}

#[test]
fn a_precondition_that_does_not_hold_names_the_kind() {
    table(async {
        let server = Server::in_memory().await;
        let host = server.post(HOSTS, &object("a")).await.json();
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } });
        let map = server.post(MAPS, &map).await.json();
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "n" } });
        let namespace = server.post("/api/v1/namespaces", &namespace).await.json();
        let (a, c) = (format!("{HOSTS}/a"), format!("{MAPS}/c"));
        let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap().to_owned();
        let differs = |what: &str, found: String, why: &str| {
            format!(
                "the {what} in the precondition (x) does not match the {what} in record ({found}). \
                 The object might have been {why}"
            )
        };
        let other_uid = |object: &Value| differs("UID", text(object, "uid"), "deleted and then recreated");
        let host_changed = differs("ResourceVersion", text(&host, "resourceVersion"), "modified");
        let of_namespace =
            format!("Precondition failed: UID in precondition: x, UID in object meta: {}", text(&namespace, "uid"));
        for (path, field, named, kind, detail) in [
            (a.as_str(), "uid", "BareMetalHost.metal3.io \"a\"", "BareMetalHost", other_uid(&host)),
            (a.as_str(), "resourceVersion", "BareMetalHost.metal3.io \"a\"", "BareMetalHost", host_changed),
            (c.as_str(), "uid", "ConfigMap \"c\"", "ConfigMap", other_uid(&map)),
            ("/api/v1/namespaces/n", "uid", "namespaces \"n\"", "namespaces", of_namespace),
        ] {
            let reply = delete(&server, path, &json!({ "preconditions": { field: "x" } })).await;
            let status = reply.json();
            let answered = json!([reply.code, status["details"]["kind"], status["message"]]);
            let wanted = json!([409, kind, format!("Operation cannot be fulfilled on {named}: {detail}")]);
            judge(&format!("DELETE of {named} with another {field}"), &answered, &wanted);
        }
        // No precondition, but a change of what cannot change.
        let reply = server.merge(&a, &json!({ "metadata": { "uid": "x" } })).await;
        let answered = json!([reply.code, reply.json()["details"]["kind"], reply.json()["message"]]);
        let text = "BareMetalHost.metal3.io \"a\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable";
        judge("PATCH with another uid", &answered, &json!([422, "BareMetalHost", text]));
    });
}

#[test]
fn a_watch_from_now_goes_on_from_no_list() {
    table(async {
        let server = Server::in_memory().await;
        for name in ["a", "b"] {
            server.post(HOSTS, &object(name)).await;
        }
        let list = server.get(&format!("{HOSTS}?limit=1")).await.json();
        let token = list["metadata"]["continue"].as_str().unwrap();
        let refused = json!([422, [["resourceVersionMatch", "FieldValueForbidden"]]]);
        for query in ["", "&resourceVersion=0"] {
            let reply = server.get(&format!("{HOSTS}?watch=1&timeoutSeconds=1&continue={token}{query}")).await;
            judge(&format!("watch with continue{query}"), &causes(&reply), &refused);
        }
        // Not looked at there: what is before a revision is not listed.
        let reply = server.get(&format!("{HOSTS}?watch=1&timeoutSeconds=1&continue={token}&resourceVersion=1")).await;
        judge("watch with continue after a revision", &json!(reply.code), &json!(200));
        let reply = server.get(&format!("{HOSTS}?resourceVersionMatch=Some&resourceVersion=1&continue={token}")).await;
        let both =
            [["resourceVersionMatch", "FieldValueForbidden"], ["resourceVersionMatch", "FieldValueNotSupported"]];
        judge("list with a wrong match and continue", &causes(&reply), &json!([422, both]));
    });
}

#[test]
fn all_causes_of_a_refusal_are_listed() {
    table(async {
        let server = Server::in_memory().await;
        server.post(HOSTS, &object("a")).await;
        let path = format!("{HOSTS}/a");
        let unnamed = json!({ "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": { "labels": { "k": "bad value!" } }, "spec": { "bootMode": "weird" } });
        let invalid = "FieldValueInvalid";
        let unsupported = "FieldValueNotSupported";
        let wanted = json!([
            422,
            [
                ["metadata.name", "FieldValueRequired"],
                ["metadata.labels", invalid],
                ["spec.online", "FieldValueRequired"],
                ["spec.bootMode", unsupported]
            ]
        ]);
        judge("POST without name, label and mode wrong", &causes(&server.post(HOSTS, &unnamed).await), &wanted);

        let mut long = object(&"A".repeat(300));
        long["metadata"]["annotations"] = json!({ "a b/c d": "" });
        let of = |field: &str| json!([field, invalid]);
        let name = of("metadata.name");
        let wanted = json!([422, [name, name, of("metadata.annotations"), of("metadata.annotations")]]);
        judge("POST with a long name of capitals", &causes(&server.post(HOSTS, &long).await), &wanted);

        let options = "fieldManager=a%0A&dryRun=Some&fieldValidation=X";
        let wanted = json!([422, [of("fieldManager"), ["dryRun", unsupported], ["fieldValidation", unsupported]]]);
        judge(
            "POST with wrong options",
            &causes(&server.post(&format!("{HOSTS}?{options}"), &object("b")).await),
            &wanted,
        );
        let wanted = json!([
            422,
            [
                ["force", "FieldValueForbidden"],
                of("fieldManager"),
                ["dryRun", unsupported],
                ["fieldValidation", unsupported]
            ]
        ]);
        let patched = server.merge(&format!("{path}?force=true&{options}"), &json!({})).await;
        judge("PATCH with wrong options", &causes(&patched), &wanted);
        let wrong = json!({ "propagationPolicy": "Sideways", "orphanDependents": true, "dryRun": ["Some"] });
        let wanted =
            json!([422, [of("propagationPolicy"), ["propagationPolicy", unsupported], ["dryRun", unsupported]]]);
        judge("DELETE with wrong options", &causes(&delete(&server, &path, &wrong).await), &wanted);
        judge("GET afterwards: nothing was done", &json!(server.get(&path).await.code), &json!(200));
    });
}

#[test]
fn a_finalizer_is_warned_of_when_it_comes() {
    table(async {
        let server = Server::in_memory().await;
        let mut host = object("a");
        host["metadata"]["finalizers"] = json!(["plain"]);
        let path = format!("{HOSTS}/a");
        let warned = |reply: &Reply| json!([reply.code, reply.warnings.len()]);
        judge("POST with a finalizer without domain", &warned(&server.post(HOSTS, &host).await), &json!([201, 1]));
        let labelled = server.merge(&path, &json!({ "metadata": { "labels": { "a": "b" } } })).await;
        judge("PATCH of a label afterwards", &warned(&labelled), &json!([200, 0]));
        let replaced = server.put(&path, &labelled.json()).await;
        judge("PUT of the same", &warned(&replaced), &json!([200, 0]));
        let more = json!({ "metadata": { "finalizers": ["plain", "a.example.com", "x.io/f", "orphan"] } });
        let reply = server.merge(&path, &more).await;
        judge("PATCH with more of them", &warned(&reply), &json!([200, 1]));
        let begins = r#"299 - "metadata.finalizers: \"a.example.com\": prefer a domain-qualified finalizer name including a path (/)"#;
        let begins_so = reply.warnings.first().is_some_and(|text| text.starts_with(begins));
        judge("and its words", &json!(begins_so), &json!(true));
    });
}

#[test]
fn a_deletion_of_many_says_where_its_list_goes_on() {
    table(async {
        let server = Server::in_memory().await;
        for number in 0..5 {
            server.post(HOSTS, &object(&format!("h{number}"))).await;
        }
        let listed = server.get(HOSTS).await.json()["metadata"]["resourceVersion"].clone();
        let names = |reply: &Reply| {
            let list = reply.json();
            let items = list["items"].as_array().into_iter().flatten();
            items.map(|item| item["metadata"]["name"].clone()).collect::<Vec<_>>()
        };
        let first = delete(&server, &format!("{HOSTS}?limit=2"), &Value::Null).await;
        let metadata = first.json()["metadata"].clone();
        let token = metadata["continue"].as_str().unwrap_or_default().to_owned();
        let answered = json!([
            names(&first),
            metadata["resourceVersion"] == listed,
            metadata["remainingItemCount"],
            token.is_empty()
        ]);
        judge("DELETE of many, limit=2", &answered, &json!([["h0", "h1"], true, 3, false]));
        // What was made meanwhile is none of that list.
        server.post(HOSTS, &object("h2a")).await;
        let second = delete(&server, &format!("{HOSTS}?limit=1&continue={token}"), &Value::Null).await;
        judge("DELETE of many, its token, limit=1", &json!(names(&second)), &json!(["h2"]));
        let token = second.json()["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        let third = delete(&server, &format!("{HOSTS}?continue={token}"), &Value::Null).await;
        let answered = json!([names(&third), third.json()["metadata"]["continue"]]);
        judge("DELETE of many, its token, to the end", &answered, &json!([["h3", "h4"], ""]));
        let rest = delete(&server, HOSTS, &Value::Null).await;
        judge("DELETE of all", &json!([names(&rest), rest.json()["metadata"]["continue"]]), &json!([["h2a"], ""]));
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } });
        server.post(MAPS, &map).await;
        let maps = delete(&server, MAPS, &Value::Null).await;
        judge(
            "DELETE of all, of Kubernetes' own",
            &json!([names(&maps), maps.json()["metadata"]["continue"]]),
            &json!([["c"], null]),
        );
        let future = delete(&server, &format!("{HOSTS}?resourceVersion=999999"), &Value::Null).await;
        judge("DELETE of many as of the future", &json!(future.code), &json!(504));
    });
}
