//! Compares what a timeline tells with what a scenario expects. Pure.

use super::file::Expect;
use crate::host_view::HostView;

/// What is not as it must be.
#[must_use]
pub(super) fn judge(expect: &Expect, view: &HostView) -> Vec<String> {
    let mut wrong = Vec::new();
    for key in &expect.once {
        let count = view.count(key);
        if count != 1 {
            wrong.push(format!("{key} happened {count} times, not once"));
        }
    }
    for key in &expect.never {
        if view.count(key) > 0 {
            wrong.push(format!("{key} happened, and must never"));
        }
    }
    if !expect.runs && view.state() == "provisioned" {
        wrong.push("the host is called provisioned".to_owned());
    }
    wrong
}

/// One line: how often what happened.
#[must_use]
pub(super) fn story(view: &HostView) -> String {
    let keys = [
        ("agent_hello", "hellos"),
        ("write_start", "writes begun"),
        ("write_end", "writes finished"),
        ("handoff", "hand-offs"),
        ("provisioning_complete", "provisioned"),
        ("running", "running"),
    ];
    let counts: Vec<_> = keys.iter().map(|(key, what)| format!("{what}: {}", view.count(key))).collect();
    let error = match view.error() {
        "" => String::new(),
        error => format!("; error: {error}"),
    };
    format!("{}{error}", counts.join(", "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn view(state: &str, events: &[&str]) -> HostView {
        let timeline: Vec<_> =
            events.iter().map(|event| serde_json::json!({"at": "2026-01-01T00:00:00Z", "event": event})).collect();
        let value = serde_json::json!({
            "host": {"status": {"provisioning": {"state": state}}},
            "journal": {"status": {"timeline": timeline}},
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn counts_are_exact_and_a_failed_host_is_not_provisioned() {
        let once = Expect { runs: true, once: vec!["write_end".to_owned()], ..Expect::default() };
        assert!(judge(&once, &view("provisioned", &["write_start", "write_end"])).is_empty());
        assert_eq!(judge(&once, &view("provisioned", &[])).len(), 1);
        assert_eq!(judge(&once, &view("provisioned", &["write_end", "write_end"])).len(), 1);
        let never = Expect {
            reason: Some("x".to_owned()),
            never: vec!["provisioning_complete".to_owned()],
            ..Expect::default()
        };
        assert!(judge(&never, &view("deprovisioning", &["write_start"])).is_empty());
        assert_eq!(judge(&never, &view("provisioned", &["ProvisioningComplete"])).len(), 2);
    }
}
