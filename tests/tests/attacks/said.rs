//! What people and programs read of an erasure: conditions, pages, receipts and metrics.

use firesteel_tests::{agent_line::client, field::Field};
use serde_json::Value;

/// Each of them claims a grade.
const CLAIMS: [&str; 5] = ["purge", "grade clear", "cleared by", "800-88 clear", "(clear)"];
/// Bytes that the metrics call proven to be erased, by this method.
const ERASED: &str = "firesteel_erased_bytes_total";

/// A condition in a host's JSON, where the host has it.
fn condition(host: &str, kind: &str) -> Option<Value> {
    let object: Value = serde_json::from_str(host).unwrap();
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind).cloned()
}

/// The host's state.
pub(crate) fn state(field: &Field, host: &str) -> String {
    let object: Value = serde_json::from_str(&field.firesteel(&["get", "hosts", host, "-o", "json"])).unwrap();
    object["status"]["provisioning"]["state"].as_str().unwrap_or_default().to_owned()
}

/// Waits until a condition has this reason; its text.
pub(crate) fn until_condition(field: &Field, host: &str, kind: &str, reason: &str) -> String {
    let is_so = |page: &str| condition(page, kind).is_some_and(|found| found["reason"] == reason);
    let page = field.until(&["get", "hosts", host, "-o", "json"], is_so);
    condition(&page, kind).unwrap()["message"].as_str().unwrap().to_owned()
}

/// Waits for the end of an erasure; what the host is called then, and why.
pub(crate) fn called(field: &Field, host: &str) -> (&'static str, String) {
    let page = field.until(&["get", "hosts", host, "-o", "json"], |page| condition(page, "DisksErased").is_some());
    let (erased, wipe) = (condition(&page, "DisksErased").unwrap(), condition(&page, "WipeUnverified"));
    let is_unverified = wipe.as_ref().is_some_and(|wipe| wipe["status"] == "True");
    match (erased["status"].as_str(), erased["reason"].as_str()) {
        (Some("True"), Some("Erased")) if !is_unverified => ("erased, by proof", String::new()),
        (Some("False"), Some("ErasedUnverified")) if is_unverified => {
            ("unverified", wipe.unwrap()["message"].as_str().unwrap().to_owned())
        }
        _ => panic!("{host} is called {erased} and {wipe:?}"),
    }
}

/// Everything that is read of a host's erasures, each with its name.
fn pages(field: &Field, host: &str) -> Vec<(&'static str, String)> {
    let object: Value = serde_json::from_str(&field.firesteel(&["get", "hosts", host, "-o", "json"])).unwrap();
    vec![
        ("describe", field.firesteel(&["describe", "host", host])),
        ("status", object["status"].to_string()),
        ("receipt list", field.firesteel(&["receipt", "list", host])),
        ("get receipts", field.firesteel(&["get", "receipts"])),
        ("metrics", metrics(field)),
    ]
}

/// No page claims a grade for what is unverified, nor does a signed receipt or a metric count it as proven.
pub(crate) fn claims_nothing(field: &Field, host: &str, method: &str) {
    for (name, page) in pages(field, host) {
        // Without line breaks, which may stand in the middle of a claim.
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let claim = CLAIMS.iter().find(|claim| page.contains(**claim));
        assert!(claim.is_none(), "{name} of {host} claims {claim:?}: {page}");
    }
    for grade in grades(field, host) {
        assert!(!["purge", "clear"].contains(&grade.as_str()), "a signed receipt of {host} has the grade {grade}");
    }
    let series = format!("{ERASED}{{method=\"{method}\"}}");
    assert!(!metrics(field).contains(&series), "{series} counts what is unverified");
}

/// The grades of the host's signed receipts, of those that say that a disk was erased.
pub(crate) fn grades(field: &Field, host: &str) -> Vec<String> {
    let receipts: Value = serde_json::from_str(&field.firesteel(&["receipt", "list", host, "-o", "json"])).unwrap();
    let erased = receipts.as_array().unwrap().iter().filter(|receipt| receipt["status"]["kind"] == "erased");
    erased.map(|receipt| receipt["status"]["grade"].as_str().unwrap_or_default().to_owned()).collect()
}

/// What Prometheus reads.
fn metrics(field: &Field) -> String {
    let config: Value = serde_json::from_slice(&std::fs::read(field.appliance.kubeconfig()).unwrap()).unwrap();
    let token = config.pointer("/users/0/user/token").and_then(Value::as_str).unwrap();
    let request = client(&field.appliance.ca_pem()).get(format!("{}/metrics", field.appliance.url()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let answer = request.bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap()
    })
}
