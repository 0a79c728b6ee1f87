//! Bodies that are too deep, or say something twice; parameters that are too many; a store that is full.

use http::Request;
use serde_json::{Value, json};

use crate::toy::{HOSTS, Server, object, run};

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

#[test]
fn what_is_nested_too_deep_is_a_bad_request_in_every_form() {
    run(async {
        let server = Server::in_memory().await;
        assert_eq!(server.post(HOSTS, &object("h")).await.code, 201);
        let host = format!("{HOSTS}/h");
        for levels in [120, 200_000] {
            let deep = nested(levels);
            let operation = format!("[{{\"op\":\"add\",\"path\":\"/metadata/annotations\",\"value\":{deep}}}]");
            let yaml = "[".repeat(levels.min(10_000));
            for (method, path, media_type, body) in [
                ("POST", HOSTS, "application/json", &deep),
                ("PUT", &host, "application/json", &deep),
                ("POST", HOSTS, "application/yaml", &yaml),
                ("PATCH", &host, MERGE, &deep),
                ("PATCH", &host, JSON_PATCH, &operation),
                ("PATCH", &format!("{host}?fieldManager=m"), APPLY, &deep),
                ("DELETE", &host, "application/json", &deep),
            ] {
                let reply = server.send(method, path, &[("content-type", media_type)], body).await;
                assert_eq!(reply.code, 400, "{method} {media_type} {levels}: {}", reply.text);
                assert_eq!(reply.json()["reason"], "BadRequest");
                assert!(reply.text.len() < 2000, "{}", reply.text);
            }
        }
        assert_eq!(server.get(&host).await.code, 200);
    });
}

/// Duplicates are as in Kubernetes: reported by default, refused on demand, and the last value counts.
#[test]
fn what_is_said_twice_is_told_or_refused() {
    run(async {
        let server = Server::in_memory().await;
        let twice = |name: &str| {
            let object = object(name).to_string();
            object.replace("{\"online\":true}", "{\"online\":true,\"online\":false}")
        };
        assert!(twice("h").contains("false"), "{}", twice("h"));
        let told = [r#"299 - "duplicate field \"spec.online\"""#.to_owned()];
        let strict = "fieldValidation=Strict";
        let json = [("content-type", "application/json")];
        let refused = server.send("POST", &format!("{HOSTS}?{strict}"), &json, &twice("h")).await;
        assert_eq!(
            (refused.code, refused.json()["message"].as_str().unwrap()),
            (
                400,
                "BareMetalHost in version \"v1alpha1\" cannot be handled as a BareMetalHost: strict decoding error: \
                 duplicate field \"spec.online\""
            )
        );
        let made = server.send("POST", HOSTS, &json, &twice("h")).await;
        assert_eq!((made.code, made.warnings.as_slice()), (201, told.as_slice()), "{}", made.text);
        assert_eq!(made.json()["spec"]["online"], false);
        let quiet = server.send("POST", &format!("{HOSTS}?fieldValidation=Ignore"), &json, &twice("i")).await;
        assert_eq!((quiet.code, quiet.warnings.len()), (201, 0));

        let host = format!("{HOSTS}/h");
        let patch = r#"{"spec":{"online":false,"online":true}}"#;
        let merge = [("content-type", MERGE)];
        let refused = server.send("PATCH", &format!("{host}?{strict}"), &merge, patch).await;
        assert_eq!(refused.code, 422, "{}", refused.text);
        assert!(refused.text.contains("strict decoding error: duplicate field"), "{}", refused.text);
        let patched = server.send("PATCH", &host, &merge, patch).await;
        assert_eq!((patched.code, patched.warnings.as_slice()), (200, told.as_slice()), "{}", patched.text);
        let apply = [("content-type", APPLY)];
        let applied = server.send("PATCH", &format!("{HOSTS}/j?fieldManager=m"), &apply, &twice("j")).await;
        assert_eq!((applied.code, applied.warnings.as_slice()), (201, told.as_slice()), "{}", applied.text);
        let refused = server.send("PATCH", &format!("{HOSTS}/j?fieldManager=m&{strict}"), &apply, &twice("j")).await;
        assert_eq!(refused.code, 400, "{}", refused.text);
        // A document in which the second could hide behind the first is none.
        let yaml = [("content-type", "application/yaml")];
        assert_eq!(server.send("POST", HOSTS, &yaml, "kind: A\nkind: B\n").await.code, 400);
    });
}

/// What is beyond the limit is not left out: it could be what keeps something from being deleted.
#[test]
fn nothing_of_a_query_is_left_out() {
    run(async {
        let server = Server::in_memory().await;
        assert_eq!(server.post(HOSTS, &object("kept")).await.code, 201);
        let many = "x=1&".repeat(100);
        let terms = "metadata.name!%3Dother,".repeat(300);
        for query in [format!("{many}dryRun=All"), format!("fieldSelector={terms}metadata.name!%3Dkept")] {
            assert_eq!(server.send("DELETE", &format!("{HOSTS}?{query}"), &[], "").await.code, 400);
        }
        assert_eq!(server.get(&format!("{HOSTS}/kept")).await.code, 200);
    });
}

/// An error of a secret says what is wrong, and nothing of what is in it.
#[test]
fn a_refusal_about_a_secret_shows_nothing_of_it() {
    run(async {
        let server = Server::in_memory().await;
        let secrets = "/api/v1/namespaces/default/secrets";
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": "hunter2"},
        });
        assert_eq!(server.post(secrets, &secret).await.code, 201);
        let patch = json!({"unknown": 1});
        let refused = server.merge(&format!("{secrets}/s?fieldValidation=Strict"), &patch).await;
        assert_eq!(refused.code, 422, "{}", refused.text);
        assert!(refused.text.contains("unknown field"), "{}", refused.text);
        assert!(!refused.text.contains("aHVudGVyMg"), "{}", refused.text);
        let cut = server.send("POST", secrets, &[], r#"{"stringData": {"p": "hunter2""#).await;
        assert_eq!((cut.code, cut.text.contains("hunter2")), (400, false), "{}", cut.text);
    });
}

/// The answer names the cause and says when to come back; what can be read is read.
#[test]
fn a_store_that_takes_nothing_is_unavailable_for_writes_alone() {
    use std::sync::Arc;

    use firesteel_store::memory::{InjectedOutcome, StoreFaults, Wait};
    use firesteel_store::{MemoryMedium, Op, Store, StoreEvent};

    #[derive(Debug)]
    struct Full;

    impl StoreFaults for Full {
        fn before_read(&self) -> Wait<()> {
            Box::pin(async {})
        }

        fn before_commit(&self, op: &Op) -> Wait<InjectedOutcome> {
            let fate = if op.key().name == "refused" { InjectedOutcome::Refused } else { InjectedOutcome::Stored };
            Box::pin(async move { fate })
        }

        fn after_commit(&self, _: &StoreEvent) -> Wait<()> {
            Box::pin(async {})
        }
    }

    run(async {
        let server = Server::on(Store::in_memory(&MemoryMedium::new().with_faults(Arc::new(Full)))).await;
        assert_eq!(server.post(HOSTS, &object("kept")).await.code, 201);
        let refused = server.post(HOSTS, &object("refused")).await;
        assert_eq!((refused.code, refused.retry_after.as_deref()), (503, Some("1")), "{}", refused.text);
        let status: Value = refused.json();
        assert_eq!(
            (&status["reason"], &status["details"]),
            (&json!("ServiceUnavailable"), &json!({"retryAfterSeconds": 1}))
        );
        assert!(status["message"].as_str().unwrap().contains("cannot write to the database"), "{status}");
        assert_eq!(server.get(&format!("{HOSTS}/kept")).await.code, 200);
        let request = Request::get("/readyz").body(String::new()).unwrap();
        assert_eq!(server.api.handle(request, &crate::toy::admin()).await.status(), 200);
    });
}
