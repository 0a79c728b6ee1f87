//! What a host's owner is warned of, by the events of the API.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::network::{Field, judge, mac, with_field};

const PATIENCE: Duration = Duration::from_secs(300);

/// How often each warning about what an OS is handed was told, by all events about them.
fn told(field: &Field) -> Vec<u64> {
    let events: Value = serde_json::from_str(&field.firesteel(&["get", "events", "-o", "json"])).unwrap();
    let all = events["items"].as_array().unwrap().iter();
    let warnings = all.filter(|event| event["reason"] == "HandOffWarning");
    warnings.map(|event| event["count"].as_u64().unwrap_or(1)).collect()
}

/// Waits until one more kind of warning was told than before.
fn until_told(field: &Field, kinds: usize) -> Vec<u64> {
    let ends_at = Instant::now() + PATIENCE;
    loop {
        let told = told(field);
        if told.len() >= kinds {
            return told;
        }
        assert!(Instant::now() < ends_at, "no warning is told: {told:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn user_data(field: &Field, key: &str) {
    let config = json!({ "ignition": { "version": "3.2.0" }, key: 1 });
    field.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "user-data" },
        "stringData": { "userData": config.to_string() },
    }));
}

fn host(field: &Field, metadata: &Value) {
    field.apply(&json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": metadata,
        "spec": { "online": true, "bootMACAddress": mac(1).to_string(), "userData": { "name": "user-data" } },
    }));
}

/// Sets the annotation that pauses the host, or removes it.
fn pause(field: &Field, value: &Value) {
    let mut metadata = json!({ "name": "a" });
    if !value.is_null() {
        metadata["annotations"] = json!({ "baremetalhost.metal3.io/paused": value });
    }
    host(field, &metadata);
}

fn log_lines(field: &Field) -> usize {
    field.appliance.log().matches("what the OS is to be handed").count()
}

/// Each restart told it again, for as long as the host waited.
#[test]
fn a_restart_tells_no_warning_a_second_time() {
    with_field(|field| {
        user_data(field, "odd-key-1");
        host(field, &json!({ "name": "a" }));
        assert_eq!(until_told(field, 1), [1]);
        field.until(&["get", "hostjournals", "a", "-o", "json"], |page| page.contains("handOffWarned"));
        for _ in 0..2 {
            field.appliance.kill_and_start_again();
            // Each of these is shown by a step of the process that was started.
            pause(field, &json!(""));
            field.until(&["describe", "host", "a"], |page| page.contains("paused: nothing happens"));
            pause(field, &Value::Null);
            field.until(&["describe", "host", "a"], |page| page.contains("waiting for the host to boot"));
        }
        user_data(field, "odd-key-2");
        let told = until_told(field, 2);
        field.appliance.wait_for_log("odd-key-2");
        judge(
            "hand-off warnings, two restarts between",
            "told [1, 1], 2 in the log",
            &format!("told {told:?}, {} in the log", log_lines(field)),
        );
    });
}
