//! Deletions over HTTP: what is asked for, what is refused, what is answered.

use serde_json::{Value, json};

use crate::toy::{HOSTS, Reply, Server, object, run};

async fn delete(server: &Server, path: &str, options: &Value) -> Reply {
    server.send("DELETE", path, &[("content-type", "application/json")], &options.to_string()).await
}

fn options(fields: &Value) -> Value {
    let mut options = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
    options.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    options
}

/// Waits until the server has done what follows from a deletion.
pub(crate) async fn gone_soon(server: &Server, path: &str) {
    while server.get(path).await.code != 404 {
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[test]
fn preconditions_and_dry_runs_delete_nothing() {
    run(async {
        let server = Server::new().await;
        let made = server.post(HOSTS, &object("a")).await.json();
        let path = format!("{HOSTS}/a");
        for wrong in [json!({ "uid": "other" }), json!({ "resourceVersion": "1" })] {
            let reply = delete(&server, &path, &options(&json!({ "preconditions": wrong }))).await;
            assert_eq!((reply.code, &reply.json()["reason"]), (409, &json!("Conflict")));
        }
        let dry = delete(&server, &path, &options(&json!({ "dryRun": ["All"] }))).await;
        assert_eq!((dry.code, &dry.json()["status"]), (200, &json!("Success")));
        assert_eq!(delete(&server, &path, &options(&json!({ "dryRun": ["Some"] }))).await.code, 422);
        assert_eq!(delete(&server, &format!("{path}?dryRun=All"), &options(&json!({}))).await.code, 200);
        assert_eq!(server.get(&path).await.json(), made, "nothing happened to it");
        let right = json!({ "uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"] });
        let all = options(&json!({ "preconditions": right, "gracePeriodSeconds": 30 }));
        let reply = delete(&server, &path, &all).await;
        assert_eq!((reply.code, &reply.json()["details"]["uid"]), (200, &made["metadata"]["uid"]));
        assert_eq!(delete(&server, &path, &all).await.code, 404);
    });
}

#[test]
fn what_waits_is_shown_and_what_makes_no_sense_refused() {
    run(async {
        let server = Server::new().await;
        let owner = server.post(HOSTS, &object("a")).await.json();
        let mut held = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } });
        held["metadata"]["finalizers"] = json!(["x.io/f"]);
        held["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": "a",
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
        }]);
        let maps = "/api/v1/namespaces/default/configmaps";
        assert_eq!(server.post(maps, &held).await.code, 201);
        let path = format!("{HOSTS}/a");
        let bad = delete(&server, &path, &options(&json!({ "propagationPolicy": "Sideways" }))).await;
        let text = r#"propagationPolicy: Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil""#;
        assert!(bad.code == 422 && bad.text.contains(&text.replace('"', "\\\"")), "{}", bad.text);
        let reply = delete(&server, &path, &options(&json!({ "propagationPolicy": "Foreground" }))).await;
        assert_eq!((reply.code, &reply.json()["metadata"]["finalizers"]), (200, &json!(["foregroundDeletion"])));
        let again = delete(&server, &path, &options(&json!({}))).await;
        assert_eq!((again.code, &again.json()["metadata"]), (200, &reply.json()["metadata"]), "no change");
        let added = json!({ "metadata": { "finalizers": ["foregroundDeletion", "x.io/new"] } });
        let more = server.merge(&path, &added).await;
        let words = r#"found new finalizers []string{"x.io/new"}"#;
        assert_eq!(more.code, 422);
        assert!(more.json()["message"].as_str().unwrap().contains(words), "{}", more.text);
        server.merge(&format!("{maps}/c"), &json!({ "metadata": { "finalizers": null } })).await;
        gone_soon(&server, &path).await;
        assert_eq!(server.get(&format!("{maps}/c")).await.code, 404);
    });
}

#[test]
fn many_are_deleted_by_selectors_and_page_by_page() {
    run(async {
        let server = Server::in_memory().await;
        for number in 0..1_100 {
            let mut host = object(&format!("h{number:04}"));
            host["metadata"]["labels"] = json!({ "rack": if number < 1_050 { "a" } else { "b" } });
            assert_eq!(server.post(HOSTS, &host).await.code, 201);
        }
        let dry = options(&json!({ "dryRun": ["All"] }));
        assert_eq!(delete(&server, &format!("{HOSTS}?labelSelector=rack=a"), &dry).await.code, 200);
        let few = delete(&server, &format!("{HOSTS}?labelSelector=rack=a&limit=30"), &options(&json!({}))).await;
        assert_eq!(few.json()["items"].as_array().unwrap().len(), 30);
        let many = delete(&server, &format!("{HOSTS}?labelSelector=rack=a"), &options(&json!({}))).await;
        assert_eq!((many.code, &many.json()["status"]), (200, &json!("Success")), "too many to be shown");
        let left = server.get(&format!("{HOSTS}?limit=500")).await.json();
        assert_eq!(left["items"].as_array().unwrap().len(), 50);
        assert_eq!(left["items"][0]["metadata"]["labels"]["rack"], "b");
        let one = delete(&server, &format!("{HOSTS}?fieldSelector=metadata.name=h1070"), &options(&json!({}))).await;
        assert_eq!(one.json()["items"][0]["metadata"]["name"], "h1070");
    });
}

#[test]
fn nothing_is_made_in_a_namespace_that_goes() {
    run(async {
        let server = Server::new().await;
        let name = |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        server.post("/api/v1/namespaces", &name("lab")).await;
        let mut secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } });
        secret["metadata"]["finalizers"] = json!(["x.io/f"]);
        server.post("/api/v1/namespaces/lab/secrets", &secret).await;
        let reply = delete(&server, "/api/v1/namespaces/lab", &options(&json!({}))).await;
        assert_eq!(reply.json()["status"]["phase"], "Terminating");
        secret["metadata"]["name"] = json!("t");
        let refused = server.post("/api/v1/namespaces/lab/secrets", &secret).await;
        assert_eq!(
            (refused.code, &refused.json()["details"]["causes"][0]["reason"]),
            (403, &json!("NamespaceTerminating"))
        );
        assert_eq!(delete(&server, "/api/v1/namespaces/default", &options(&json!({}))).await.code, 403);
        // By force: the namespace goes, whatever is left in it.
        let mut namespace = server.get("/api/v1/namespaces/lab").await.json();
        namespace["spec"]["finalizers"] = json!([]);
        assert_eq!(server.put("/api/v1/namespaces/lab/finalize", &namespace).await.code, 200);
        assert_eq!(server.get("/api/v1/namespaces/lab").await.code, 404);
        assert_eq!(server.put("/api/v1/namespaces/lab/finalize", &namespace).await.code, 404);
    });
}

/// What cannot be read could be what keeps the object.
#[test]
fn options_that_are_not_understood_delete_nothing() {
    run(async {
        let server = Server::in_memory().await;
        assert_eq!(server.post(HOSTS, &object("a")).await.code, 201);
        let path = format!("{HOSTS}/a");
        for wrong in [
            json!({ "dryRun": "All" }),
            json!({ "dryRun": [true] }),
            json!({ "preconditions": { "uid": 1 } }),
            json!({ "preconditions": "x" }),
            json!({ "propagationPolicy": 1 }),
            json!({ "orphanDependents": "true" }),
            json!({ "kind": "Secret" }),
            json!([]),
            json!("x"),
        ] {
            for path in [path.as_str(), HOSTS] {
                let reply = delete(&server, path, &wrong).await;
                assert_eq!(reply.code, 400, "{wrong}: {}", reply.text);
            }
        }
        assert_eq!(delete(&server, &format!("{path}?dryRun="), &json!({})).await.code, 422);
        assert_eq!(server.get(&path).await.code, 200);
        let nulls = json!({ "kind": "DeleteOptions", "apiVersion": "metal3.io/v1alpha1", "dryRun": null,
            "preconditions": null, "gracePeriodSeconds": 0, "orphanDependents": null });
        assert_eq!(delete(&server, &path, &nulls).await.code, 200);
    });
}

#[test]
fn objects_of_all_namespaces_are_not_deleted_at_once() {
    run(async {
        let server = Server::in_memory().await;
        assert_eq!(server.post(HOSTS, &object("a")).await.code, 201);
        let all = server.send("DELETE", "/apis/metal3.io/v1alpha1/baremetalhosts", &[], "").await;
        assert_eq!(all.code, 405, "{}", all.text);
        assert_eq!(server.get(&format!("{HOSTS}/a")).await.code, 200);
        let namespaces = "/api/v1/namespaces";
        assert_eq!(server.post(namespaces, &json!({ "metadata": { "name": "lab" } })).await.code, 201);
        assert_eq!(
            server.send("DELETE", &format!("{namespaces}?fieldSelector=metadata.name!%3Ddefault"), &[], "").await.code,
            405
        );
        assert_eq!(server.get(&format!("{namespaces}/lab")).await.json()["status"]["phase"], "Active");
        let core = server.get("/api/v1").await.json();
        let listed = core["resources"].as_array().unwrap().iter().find(|found| found["name"] == "namespaces").unwrap();
        assert!(!listed["verbs"].as_array().unwrap().contains(&json!("deletecollection")));
    });
}

#[test]
fn a_namespace_is_let_go_by_a_body_that_is_of_it() {
    run(async {
        let server = Server::in_memory().await;
        let namespaces = "/api/v1/namespaces";
        let made = server.post(namespaces, &json!({ "metadata": { "name": "lab" } })).await.json();
        assert_eq!(made["metadata"]["labels"], json!({ "kubernetes.io/metadata.name": "lab" }));
        let finalize = format!("{namespaces}/lab/finalize");
        let mut other = made.clone();
        other["metadata"] = json!({ "name": "other" });
        other["spec"]["finalizers"] = json!([]);
        for wrong in [json!({}), json!({ "kind": "Secret", "metadata": { "name": "lab" } }), other] {
            let reply = server.put(&finalize, &wrong).await;
            assert!(matches!(reply.code, 400 | 422), "{wrong}: {}", reply.text);
        }
        assert_eq!(server.get(&format!("{namespaces}/lab")).await.json()["spec"]["finalizers"], json!(["kubernetes"]));
        let mut stale = made.clone();
        stale["metadata"]["resourceVersion"] = json!("1");
        assert_eq!(server.put(&finalize, &stale).await.code, 409);
        let mut free = made;
        free["spec"]["finalizers"] = json!([]);
        assert_eq!(server.put(&finalize, &free).await.json()["spec"]["finalizers"], json!([]));
    });
}
