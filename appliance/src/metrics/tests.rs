#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use firesteel_store::{Durability, GroupResource, ObjectKey, Op};
use http_body_util::BodyExt as _;

use super::*;
use text::{CLASSIC, OPENMETRICS};

struct Site {
    metrics: Metrics,
    store: Store,
    _folder: tempfile::TempDir,
}

fn site(token: Option<&str>) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open_with(&folder.path().join("resources.db"), Durability::Nothing).unwrap();
    let audit = Audit::open(&folder.path().join("audit")).unwrap();
    let file = folder.path().join("token");
    if let Some(token) = token {
        std::fs::write(&file, token).unwrap();
    }
    let metrics = Metrics::open(&store, folder.path(), &audit, token.map(|_| file.as_path())).unwrap();
    metrics.with_certificate("server", Timestamp::from_second(1_900_000_000).unwrap());
    Site { metrics, store, _folder: folder }
}

async fn read(metrics: &Metrics, accept: &'static str) -> (String, String) {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    let response = metrics.answer(&headers).await;
    assert_eq!(response.status(), StatusCode::OK);
    let kind = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (kind, String::from_utf8(body.to_vec()).unwrap())
}

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

#[tokio::test]
async fn both_formats_have_the_same_samples_under_their_own_descriptions() {
    let Site { metrics, store, _folder } = site(None);
    let key = ObjectKey::new(&GroupResource::new("", "things"), "default", "a");
    store.commit(Op::Create { key, value: b"x".to_vec().into() }, Vec::new()).await.unwrap();
    let answer = async { Response::builder().status(404).body(()).unwrap() };
    metrics.requests().clone().counted("API", answer).await;
    let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let (kind, open) = read(&metrics, prometheus).await;
    assert_eq!(kind, OPENMETRICS);
    assert!(open.ends_with("# EOF\n") && open.contains("# TYPE firesteel_http_requests counter\n"), "{open}");
    for accept in ["*/*", "text/plain", "application/openmetrics-text;q=0, text/plain", ""] {
        let (kind, classic) = read(&metrics, accept).await;
        assert_eq!(kind, CLASSIC, "{accept}");
        assert!(!classic.contains("# EOF") && !classic.contains("# UNIT"), "{classic}");
        let described = "# HELP firesteel_http_requests_total Requests answered, by listener and class of the answer.\n\
                         # TYPE firesteel_http_requests_total counter\n";
        assert!(classic.contains(described), "{classic}");
        assert_eq!(value(&classic, r#"firesteel_http_requests_total{listener="API",code="4xx"}"#), 1.0);
        assert_eq!(value(&classic, "firesteel_store_flush_duration_seconds_count"), 1.0);
        assert_eq!(value(&classic, r#"firesteel_store_flush_duration_seconds_bucket{le="+Inf"}"#), 1.0);
        assert_eq!(value(&classic, "firesteel_store_revision"), 1.0);
        assert_eq!(value(&classic, "firesteel_store_damaged_objects"), 0.0);
        assert_eq!(value(&classic, "firesteel_audit_lost_total"), 0.0);
        let end = r#"firesteel_certificate_end_timestamp_seconds{certificate="server"}"#;
        assert_eq!(value(&classic, end), 1_900_000_000.0);
        assert!(value(&classic, "process_resident_memory_bytes") > 1e6);
        assert!(value(&classic, "firesteel_data_folder_free_bytes") > 0.0);
        assert!(value(&classic, "firesteel_store_bytes") > 0.0);
        let samples = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(samples(&classic), samples(&open), "one is as long as the other");
    }
}

#[test]
fn the_scrape_token_is_one_long_word() {
    let shows = |metrics: &Metrics, token: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
        metrics.knows(&headers)
    };
    let Site { metrics, .. } = site(Some("0123456789abcdef\n"));
    assert!(shows(&metrics, "0123456789abcdef") && !shows(&metrics, "0123456789abcdeg"));
    assert!(!metrics.knows(&HeaderMap::new()));
    let Site { metrics, .. } = site(None);
    assert!(!shows(&metrics, ""));
    for bad in ["", "short", "two words of sixteen letters", "0123456789abcd\u{e4}f"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, bad).unwrap();
        let error = read_token(&file).unwrap_err().to_string();
        assert!(error.contains("--metrics-token"), "{bad}: {error}");
    }
}

/// A rule about a metric that does not exist would never fire.
#[test]
fn each_metric_of_the_alert_rules_is_counted() {
    let rules = include_str!("../../alerts/firesteel.yaml");
    let sources = [
        include_str!("scrape.rs"),
        include_str!("requests.rs"),
        include_str!("sensors.rs"),
        include_str!("../../control/src/metrics.rs"),
    ];
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let expressions = rules.lines().filter(|line| line.contains("expr:") || line.trim().starts_with("histogram_"));
    let words = expressions.flat_map(|line| line.split(|letter| !is_name(letter)));
    let names: std::collections::BTreeSet<&str> = words
        .filter(|word| ["firesteel_", "metal3_", "baremetal_"].iter().any(|prefix| word.starts_with(prefix)))
        .collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let base = name.trim_end_matches("_total").trim_end_matches("_bucket");
        assert!(sources.iter().any(|source| source.contains(&format!("\"{base}\""))), "{name} is counted nowhere");
    }
}
