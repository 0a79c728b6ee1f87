//! What is done is on record, also when nobody waits for the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::people::{Person, Site, run, succeeded};

const PATH: &str = "/api/v1/namespaces/claims-a/configmaps";
const COUNT: u64 = 48;
/// Some go away before their request is read, some while it is done, some after the answer.
const STEPS: u64 = 8;
/// In which the appliance notices that a client is gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names and codes of the deletions in the audit log.
fn deletions(site: &Site) -> BTreeMap<String, u64> {
    let log = succeeded(&site.appliance.command().arg("audit").output().unwrap());
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let deletions = lines.filter(|line| line["verb"] == "delete" && line["resource"] == "configmaps");
    deletions.map(|line| (line["name"].as_str().unwrap().to_owned(), line["code"].as_u64().unwrap())).collect()
}

#[test]
fn a_change_whose_client_went_away_is_on_record() {
    run(async {
        let site = Site::new().await;
        for number in 0..COUNT {
            let object =
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("c{number}") } });
            assert_eq!(site.admin.ask(Method::POST, PATH, &object).await.status().as_u16(), 201);
        }
        for number in 0..COUNT {
            // On a connection of its own that is there already, and is closed with the request.
            let going = Person::of(&site.appliance.kubeconfig());
            assert_eq!(going.get("/version").await, 200);
            let path = format!("{PATH}/c{number}");
            let asking = going.ask(Method::DELETE, &path, &Value::Null);
            drop(timeout(Duration::from_millis(number % STEPS), asking).await);
        }
        let ends_at = Instant::now() + PATIENCE;
        loop {
            let listed: Value = site.admin.ask(Method::GET, PATH, &Value::Null).await.json().await.unwrap();
            let items = listed["items"].as_array().unwrap().iter();
            let left: BTreeSet<&str> = items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
            let on_record = deletions(&site);
            let names = (0..COUNT).map(|number| format!("c{number}"));
            let gone: Vec<String> = names.filter(|name| !left.contains(name.as_str())).collect();
            let codes: Vec<Option<&u64>> = gone.iter().map(|name| on_record.get(name)).collect();
            if codes.iter().all(Option::is_some) {
                let unanswered = codes.iter().filter(|code| **code == Some(&0)).count();
                println!("{} of {COUNT} were deleted, {unanswered} of them without an answer", gone.len());
                return;
            }
            assert!(Instant::now() < ends_at, "deleted, and not on record: {gone:?} {codes:?}");
            sleep(Duration::from_millis(100)).await;
        }
    });
}
