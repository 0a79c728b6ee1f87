//! How much a tenant may have. 25 ConfigMaps of three megabytes filled the disk for all.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::people::{Person, Site, run};

const MAPS: &str = "/api/v1/namespaces/claims-a/configmaps";
const QUOTAS: &str = "/api/v1/namespaces/claims-a/resourcequotas";

fn map(name: &str, bytes: usize) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": "x".repeat(bytes) } })
}

/// Makes as many large ConfigMaps as it can, of 25; how many there are, and the last refusal.
async fn fill(person: &Person, path: &str, name: &str) -> (usize, String) {
    let (mut made, mut refusal) = (0, String::new());
    for number in 0..25 {
        let answer = person.ask(Method::POST, path, &map(&format!("{name}-{number}"), 2_900_000)).await;
        match answer.status() {
            StatusCode::CREATED => made += 1,
            StatusCode::FORBIDDEN => refusal = answer.text().await.unwrap(),
            other => panic!("{other}: {}", answer.text().await.unwrap()),
        }
    }
    (made, refusal)
}

#[test]
fn a_tenant_cannot_fill_the_disk_of_everybody() {
    run(async {
        let site = Site::new().await;
        let tim = site.person("tim", "tenant", Some("claims-a"));
        let (made, refusal) = fill(&tim, MAPS, "tim").await;
        assert_eq!(made, 5, "16 MiB: {refusal}");
        let status: Value = serde_json::from_str(&refusal).unwrap();
        let message = status["message"].as_str().unwrap();
        for part in [
            "exceeded quota: firesteel-default, requested: firesteel.dev/bytes=29",
            "limited: firesteel.dev/bytes=16777216",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(status["reason"], "Forbidden");

        // Again and again the same object: its past is bounded, too.
        for round in 0..20_usize {
            let large = map("tim-0", 2_900_000 - round);
            let answer = tim.ask(Method::PUT, &format!("{MAPS}/tim-0"), &large).await;
            assert_eq!(answer.status(), StatusCode::OK, "{round}");
        }
        let written = std::fs::metadata(site.appliance.data().join("resources.db")).unwrap().len();
        assert!(written < 48 << 20, "{written} bytes of database");

        // A tenant makes room for itself, and only its owner gives it more.
        let deleted = tim.ask(Method::DELETE, &format!("{MAPS}/tim-0"), &Value::Null).await;
        assert_eq!(deleted.status(), StatusCode::OK);
        assert_eq!(tim.ask(Method::POST, MAPS, &map("again", 2_900_000)).await.status(), StatusCode::CREATED);
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "more" },
            "spec": { "hard": { "firesteel.dev/bytes": "32Mi" } },
        });
        assert_eq!(tim.ask(Method::POST, QUOTAS, &quota).await.status(), StatusCode::FORBIDDEN);
        assert_eq!(site.admin.ask(Method::POST, QUOTAS, &quota).await.status(), StatusCode::CREATED);
        assert_eq!(tim.ask(Method::POST, MAPS, &map("more", 2_900_000)).await.status(), StatusCode::CREATED);
    });
}

#[test]
fn an_operator_has_no_quota_that_nobody_made() {
    run(async {
        let site = Site::new().await;
        let ann = site.person("ann", "operator", Some("hosts-a"));
        let path = "/api/v1/namespaces/hosts-a/configmaps";
        assert_eq!(fill(&ann, path, "ann").await.0, 25);
    });
}
