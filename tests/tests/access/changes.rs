//! Who changed a group last: the person, and not the program. No client can say it of itself, or of another.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::people::{Person, Site, run};

const GROUPS: &str = "/apis/firesteel.dev/v1alpha1/namespaces/hosts-a/hostgroups";
const GROUP: &str = "/apis/firesteel.dev/v1alpha1/namespaces/hosts-a/hostgroups/workers";
const BY: &str = "/metadata/annotations/firesteel.dev~1changed-by";

async fn said(person: &Person, method: Method, headers: &[(&str, &str)], body: &Value) -> Option<String> {
    let path = if method == Method::POST { GROUPS } else { GROUP };
    let answer = person.ask_as(method, path, headers, body).await;
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(matches!(status, StatusCode::OK | StatusCode::CREATED), "{status}: {text}");
    let object: Value = serde_json::from_str(&text).unwrap();
    object.pointer(BY).and_then(Value::as_str).map(str::to_owned)
}

#[test]
fn a_group_says_which_person_changed_it_last() {
    run(async {
        let site = Site::new().await;
        let ann = site.person("ann", "operator", Some("hosts-a"));
        let bob = site.person("bob", "operator", Some("hosts-a"));
        let merge = [("content-type", "application/merge-patch+json")];
        let group = json!({
            "apiVersion": "firesteel.dev/v1alpha1", "kind": "HostGroup",
            "metadata": { "name": "workers", "annotations": { "firesteel.dev/changed-by": "bob" } },
            "spec": {
                "selector": { "matchLabels": { "role": "worker" } },
                "image": { "url": "https://a.example/disk.raw", "checksum": "https://a.example/SUMS" },
            },
        });
        assert_eq!(said(&ann, Method::POST, &[], &group).await.as_deref(), Some("ann"));
        let forged = json!({ "metadata": { "annotations": { "firesteel.dev/changed-by": "tim" } } });
        assert_eq!(said(&bob, Method::PATCH, &merge, &forged).await.as_deref(), Some("ann"));
        let removed = json!({ "metadata": { "annotations": { "firesteel.dev/changed-by": null } } });
        assert_eq!(said(&bob, Method::PATCH, &merge, &removed).await.as_deref(), Some("ann"));
        let changed = json!({ "spec": { "image": { "checksum": "https://a.example/OTHER" } } });
        assert_eq!(said(&bob, Method::PATCH, &merge, &changed).await.as_deref(), Some("bob"));
    });
}
