//! Server-side apply and field ownership, beyond what the recorded answers show.

use firesteel_kube::{ObjectPart, Objects};
use serde_json::{Value, json};

use crate::toy::{HOSTS, Server, object, run};

fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or("").to_owned();
    entries
        .map(|entry| format!("{} {} {}", text(entry, "manager"), text(entry, "operation"), text(entry, "subresource")))
        .map(|name| name.trim().to_owned())
        .collect()
}

fn host(spec: Value) -> Value {
    let mut host = object("h");
    host["spec"] = spec;
    host
}

#[test]
fn controllers_in_the_process_own_what_they_write() {
    run(async {
        let server = Server::new().await;
        server.apply("h", "user", &host(json!({"online": true}))).await;
        let hosts: Objects<Value> = Objects::new(server.api.core(), "metal3.io", "BareMetalHost").unwrap();
        let seen = hosts.get("default", "h").await.unwrap().unwrap();
        assert_eq!(seen["metadata"].get("managedFields"), None, "they do not carry it around");
        let status =
            json!({"errorMessage": "", "operationalStatus": "OK", "poweredOn": true, "provisioning": {"state": "x"}});
        let set = |host: &mut Value| host["status"] = status.clone();
        hosts.modify("default", "h", ObjectPart::Status, set).await.unwrap();
        let annotate = |host: &mut Value| host["metadata"]["annotations"] = json!({"a/b": "c"});
        hosts.modify("default", "h", ObjectPart::Main, annotate).await.unwrap();
        let shown = server.get(&format!("{HOSTS}/h")).await.json();
        assert_eq!(managers(&shown), ["user Apply", "firesteel Update", "firesteel Update status"]);
        let revision = &shown["metadata"]["resourceVersion"];
        hosts.modify("default", "h", ObjectPart::Status, set).await.unwrap();
        server.tick();
        let same = server.apply("h", "user", &host(json!({"online": true}))).await.json();
        assert_eq!(&same["metadata"]["resourceVersion"], revision, "nothing changed, nothing was written");
        let taken = server.apply("h", "other", &host(json!({"online": false}))).await;
        assert_eq!(taken.code, 409, "{}", taken.text);
    });
}

#[test]
fn who_owned_alone_and_applies_less_removes() {
    run(async {
        let server = Server::new().await;
        let bmc = json!({"address": "a", "credentialsName": "c"});
        let made = server.apply("h", "one", &host(json!({"online": true, "description": "x", "bmc": bmc}))).await;
        assert_eq!(made.code, 201);
        server.apply("h", "two", &host(json!({"online": true, "description": "x"}))).await;
        let less = server.apply("h", "one", &host(json!({"online": true}))).await.json();
        assert_eq!(less["spec"], json!({"automatedCleaningMode": "metadata", "online": true, "description": "x"}));
        // A plain write takes a field from those who applied it.
        server.merge(&format!("{HOSTS}/h?fieldManager=edit"), &json!({"spec": {"description": "y"}})).await;
        let conflict = server.apply("h", "two", &host(json!({"online": true, "description": "x"}))).await.json();
        let message =
            "Apply failed with 1 conflict: conflict with \"edit\" using metal3.io/v1alpha1: .spec.description";
        assert_eq!(conflict["message"], message);
        let forced =
            server.apply("h", "two&force=true", &host(json!({"online": true, "description": "x"}))).await.json();
        assert_eq!(
            (&forced["spec"]["description"], managers(&forced)),
            (&json!("x"), vec!["one Apply".into(), "two Apply".into()])
        );
    });
}

#[test]
fn an_apply_is_checked_as_every_write_and_can_be_dry() {
    run(async {
        let server = Server::new().await;
        let dry = server.apply("h", "one&dryRun=All", &host(json!({"online": true}))).await;
        assert_eq!((dry.code, server.get(&format!("{HOSTS}/h")).await.code), (201, 404));
        assert_eq!(server.apply("h", "one", &host(json!({"online": true, "bootMode": "melt"}))).await.code, 422);
        let path = format!("{HOSTS}/h?fieldManager=one");
        let yaml = "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: h}\nspec:\n  online: true\n";
        let apply = [("content-type", "application/apply-patch+yaml")];
        assert_eq!(server.send("PATCH", &path, &apply, yaml).await.code, 201);
        let nameless = yaml.replace("{name: h}", "{}");
        assert_eq!(server.send("PATCH", &path, &apply, &nameless).await.code, 200, "the path names it");
        let absent = server.send("PATCH", &path.replace("/h?", "/i?"), &apply, &nameless).await;
        assert_eq!((absent.code, absent.json()["message"].clone()), (400, json!("name must be provided")));
        assert_eq!(server.send("PATCH", &path, &apply, &yaml.replace("name: h", "name: x")).await.code, 400);
        assert_eq!(server.send("PATCH", &path, &apply, "a: [").await.code, 400);
        let status = format!("{HOSTS}/i/status?fieldManager=one");
        assert_eq!(server.send("PATCH", &status, &apply, &yaml.replace("name: h", "name: i")).await.code, 404);
        let merge = [("content-type", "application/merge-patch+json")];
        assert_eq!(server.send("PATCH", &format!("{path}&force=true"), &merge, "{}").await.code, 422);
        let long = format!("{HOSTS}/h?fieldManager={}", "x".repeat(129));
        assert_eq!(server.send("PATCH", &long, &merge, "{}").await.code, 422);
    });
}

#[test]
fn entries_that_clients_send_are_kept_if_they_are_some() {
    run(async {
        let server = Server::new().await;
        let path = format!("{HOSTS}/h");
        server.apply("h", "one", &host(json!({"online": true}))).await;
        let entries = |object: &Value| object["metadata"]["managedFields"].clone();
        let before = entries(&server.get(&path).await.json());
        for spoiled in [json!(null), json!([]), json!([{"operation": "Melt"}])] {
            let kept = server.merge(&path, &json!({"metadata": {"managedFields": spoiled}})).await.json();
            assert_eq!(entries(&kept), before, "{spoiled}");
        }
        // As kubectl does when it changes over to server-side apply.
        let mut renamed = before.clone();
        renamed[0]["manager"] = json!("kubectl-last-applied");
        let patch = json!([{"op": "replace", "path": "/metadata/managedFields", "value": renamed}]).to_string();
        let json_patch = [("content-type", "application/json-patch+json")];
        let moved = server.send("PATCH", &path, &json_patch, &patch).await.json();
        assert_eq!(managers(&moved), ["kubectl-last-applied Apply"]);
        let status = json!({"metadata": {"managedFields": [{}]}, "status": null});
        let same = server.merge(&format!("{path}/status"), &status).await.json();
        assert_eq!(managers(&same), ["kubectl-last-applied Apply"], "a subresource does not write them");
    });
}

#[test]
fn kubectl_goes_over_from_its_own_way_of_applying() {
    run(async {
        let server = Server::new().await;
        let mut old = host(json!({"online": true, "description": "x"}));
        let record = format!("{old}\n");
        old["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": record});
        server.post(&format!("{HOSTS}?fieldManager=kubectl-client-side-apply"), &old).await;
        let new = host(json!({"online": false, "description": "y"}));
        assert_eq!(server.apply("h", "other", &new).await.code, 409, "only kubectl knows what the annotation is");
        let applied = server.apply("h", "kubectl", &new).await;
        assert_eq!(applied.code, 200, "{}", applied.text);
        let applied = applied.json();
        let record = applied["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"].as_str();
        assert!(record.unwrap().contains(r#""description":"y""#), "{record:?}");
        // What another manager changed since is no longer kubectl's to take.
        server.merge(&format!("{HOSTS}/h?fieldManager=edit"), &json!({"spec": {"description": "z"}})).await;
        let conflict = server.apply("h", "kubectl", &host(json!({"online": true, "description": "y"}))).await;
        assert_eq!(conflict.code, 409);
        assert!(conflict.text.contains(r#"conflict with \"edit\""#), "{}", conflict.text);
    });
}

#[test]
fn secrets_are_applied_too() {
    run(async {
        let server = Server::new().await;
        let path = "/api/v1/namespaces/default/secrets/s?fieldManager=one";
        let apply = [("content-type", "application/apply-patch+yaml")];
        let secret = |data: Value| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data}).to_string()
        };
        let made = server.send("PATCH", path, &apply, &secret(json!({"a": "eA==", "b": "eA=="}))).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let less = server.send("PATCH", path, &apply, &secret(json!({"a": "eA=="}))).await.json();
        assert_eq!(less["data"], json!({"a": "eA=="}));
        let wrong = server.send("PATCH", path, &apply, &secret(json!({"a": 1}))).await;
        assert_eq!(wrong.code, 500);
        assert!(wrong.text.contains(".data.a: expected string"), "{}", wrong.text);
    });
}
