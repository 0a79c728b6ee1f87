//! `/metrics` as Prometheus gets it: read by kubectl, judged by promtool, Prometheus' own reader. And the alert
//! rules, judged by the same. `./qemu/lab test` brings promtool; a test says so where it is not there.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use firesteel_tests::appliance::Appliance;

use crate::client::{Kubectl, NEW, OLD, with};

/// Runs promtool; nothing where it is not there.
fn promtool(arguments: &[&str], input: &str) -> Option<Output> {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        println!("skipped: no promtool here; `./qemu/lab test` fetches it");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

#[test]
fn kubectl_reads_the_metrics_and_they_count_what_it_did() {
    with(NEW, metrics);
}

#[test]
fn kubectl_1_20_reads_the_metrics_and_they_count_what_it_did() {
    with(OLD, metrics);
}

fn metrics(kubectl: &Kubectl) {
    let read = || kubectl.ok(&["get", "--raw", "/metrics"]);
    let before = read();
    kubectl.ok(&["apply", "-f", "h1.yaml"]);
    kubectl.fails(&["get", "bmh", "none"]);
    let after = read();
    let grew = |series: &str| value(&after, series) - value(&before, series);
    assert!(grew(r#"firesteel_http_requests_total{listener="API",code="2xx"}"#) >= 3.0, "{after}");
    assert!(grew(r#"firesteel_http_requests_total{listener="API",code="4xx"}"#) >= 1.0, "{after}");
    // The Secret and the host, each in a flush of its own or both in one.
    assert!(grew("firesteel_store_revision") >= 2.0 && grew("firesteel_store_flush_duration_seconds_count") >= 1.0);
    assert!(value(&after, "firesteel_api_requests_under_way") >= 1.0, "this one: {after}");
    assert!(!after.contains("host-1"), "nothing is told of one host");
    if let Some(judged) = promtool(&["check", "metrics"], &after) {
        let said = String::from_utf8_lossy(&judged.stderr);
        assert!(judged.status.success(), "{said}");
    }
}

/// The scrape token opens this one path. Who has none, or another one, is nobody.
#[test]
fn the_scrape_token_opens_the_metrics_and_nothing_else() {
    if !NEW.is_here() {
        return;
    }
    let token = "0123456789abcdef0123456789abcdef";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), token).unwrap();
    let arguments = ["--api-only", "--metrics-token", "token"];
    let appliance = Appliance::start_whole(env!("CARGO_BIN_EXE_firesteel-tested"), "127.0.0.1:0", &arguments, folder);
    let kubectl = Kubectl::new(NEW, appliance);
    let config = std::fs::read_to_string(kubectl.appliance.kubeconfig()).unwrap();
    let admin: serde_json::Value = serde_json::from_str(&config).unwrap();
    let admin = admin.pointer("/users/0/user/token").unwrap().as_str().unwrap();
    kubectl.file("scraper", &config.replace(admin, token));
    kubectl.file("stranger", &config.replace(admin, &token.replace('f', "e")));
    let as_one = |who: &str, path: &str| kubectl.output(&["--kubeconfig", who, "get", "--raw", path]);
    let told = as_one("scraper", "/metrics");
    assert!(told.status.success() && told.stdout.starts_with(b"# HELP "), "{told:?}");
    for path in ["/version", "/api/v1/secrets", "/firesteel.dev/audit", "/metrics/"] {
        assert!(!as_one("scraper", path).status.success(), "{path}");
    }
    assert!(!as_one("stranger", "/metrics").status.success());
    assert!(kubectl.ok(&["get", "--raw", "/metrics"]).contains("process_resident_memory_bytes "));
}

#[test]
fn the_alert_rules_say_what_they_are_for() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../appliance/alerts");
    let [rules, tests] = ["firesteel.yaml", "firesteel.test.yaml"].map(|name| folder.join(name));
    for arguments in [["check", "rules", rules.to_str().unwrap()], ["test", "rules", tests.to_str().unwrap()]] {
        if let Some(judged) = promtool(&arguments, "") {
            let said = String::from_utf8_lossy(&judged.stdout);
            assert!(judged.status.success(), "{said} {}", String::from_utf8_lossy(&judged.stderr));
        }
    }
}
