//! What `firesteel describe host NAME -o json` says, as far as the lab reads it. Everything else in
//! the answer is none of its business, and passes by.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HostView {
    host: HostObject,
    journal: Option<JournalObject>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct HostObject {
    status: HostStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HostStatus {
    error_message: String,
    provisioning: ProvisioningView,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ProvisioningView {
    state: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct JournalObject {
    status: Journal,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Journal {
    reason: ReasonView,
    progress: Option<StepProgress>,
    timeline: Vec<TimelineLine>,
    network: Vec<NetworkNoteView>,
    receipts: Vec<Value>,
}

/// What was seen on the network under the host's MACs, counted.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetworkNoteView {
    event: String,
    first_at: Timestamp,
    #[serde(default)]
    attempt: u64,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    bytes: Option<u64>,
}

impl From<NetworkNoteView> for TimelineLine {
    fn from(note: NetworkNoteView) -> Self {
        let NetworkNoteView { event, first_at, attempt, detail, bytes } = note;
        Self { at: first_at, attempt, event, detail, bytes }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ReasonView {
    text: String,
}

/// Where the current step stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StepProgress {
    pub step: String,
    pub activity: String,
    pub done_bytes: u64,
    pub total_bytes: u64,
    pub percent: u8,
}

/// One line of the host's timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineLine {
    pub at: Timestamp,
    #[serde(default)]
    pub attempt: u64,
    pub event: String,
    #[serde(default)]
    pub detail: String,
    #[serde(default)]
    pub bytes: Option<u64>,
}

impl HostView {
    #[must_use]
    pub fn state(&self) -> &str {
        &self.host.status.provisioning.state
    }

    #[must_use]
    pub fn error(&self) -> &str {
        &self.host.status.error_message
    }

    #[must_use]
    pub fn reason(&self) -> &str {
        self.journal.as_ref().map_or("", |journal| &journal.status.reason.text)
    }

    #[must_use]
    pub fn progress(&self) -> Option<&StepProgress> {
        self.journal.as_ref()?.status.progress.as_ref()
    }

    /// The timeline, and between its events what was seen on the network, in the order of time.
    #[must_use]
    pub fn timeline(&self) -> Vec<TimelineLine> {
        let Some(Journal { timeline, network, .. }) = self.journal.as_ref().map(|journal| &journal.status) else {
            return Vec::new();
        };
        let mut all: Vec<TimelineLine> =
            timeline.iter().cloned().chain(network.iter().cloned().map(TimelineLine::from)).collect();
        all.sort_by_key(|event| event.at);
        all
    }

    #[must_use]
    pub fn receipts(&self) -> &[Value] {
        self.journal.as_ref().map_or(&[], |journal| &journal.status.receipts)
    }

    /// How often something happened.
    #[must_use]
    pub fn count(&self, key: &str) -> usize {
        self.timeline().iter().filter(|event| event.key() == key).count()
    }

    /// Changes whenever anything moves on: what a wait looks at before it gives up.
    #[must_use]
    pub fn pulse(&self) -> (String, usize, Option<StepProgress>) {
        (self.state().to_owned(), self.timeline().len(), self.progress().cloned())
    }
}

impl TimelineLine {
    /// The event's name in reports: `agent_hello`, `write_start`, `handoff`.
    #[must_use]
    pub fn key(&self) -> String {
        match snake_case(&self.event).as_str() {
            "hello" => "agent_hello",
            "write_image_start" => "write_start",
            "write_image_end" => "write_end",
            "hand_off_start" | "handoff_start" => "handoff_start",
            "hand_off_end" | "hand_off" | "handoff_end" => "handoff",
            other => other,
        }
        .to_owned()
    }
}

/// The planner's own events are named `LikeThis`, the others `like-this`; reports have `like_this`.
fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    let mut before_is_small = false;
    for character in name.chars() {
        if character.is_uppercase() && before_is_small {
            out.push('_');
        }
        before_is_small = character.is_lowercase() || character.is_ascii_digit();
        out.extend(if character == '-' { vec!['_'] } else { character.to_lowercase().collect() });
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_have_one_form() {
        let names = ["dhcp-ack", "NetBoot", "BMCAccessValidated", "running"].map(snake_case);
        assert_eq!(names, ["dhcp_ack", "net_boot", "bmcaccess_validated", "running"]);
    }

    #[test]
    fn reads_what_is_there_and_bears_what_is_not() {
        let empty: HostView = serde_json::from_str(r#"{"host": {"spec": {}}, "journal": null}"#).unwrap();
        assert_eq!((empty.state(), empty.timeline().len(), empty.progress()), ("", 0, None));
        let text = r#"{
            "host": {"status": {"provisioning": {"state": "provisioning", "ID": "x"}, "errorMessage": "no disk"}},
            "journal": {"status": {
                "reason": {"text": "waiting", "location": "a:1", "since": "2026-01-01T00:00:00Z"},
                "progress": {"step": "write-image", "doneBytes": 5, "totalBytes": 10, "percent": 50, "attempt": 1},
                "timeline": [
                    {"at": "2026-01-01T00:00:00Z", "attempt": 1, "event": "dhcp-ack", "detail": "10.0.0.1"},
                    {"at": "2026-01-01T00:00:01Z", "attempt": 1, "event": "hello"},
                    {"at": "2026-01-01T00:00:02Z", "attempt": 1, "event": "write-image-end", "bytes": 7},
                    {"at": "2026-01-01T00:00:03Z", "attempt": 1, "event": "hand-off-end"}],
                "network": [{"mac": "x", "event": "loader", "attempt": 1, "count": 3, "bytes": 4,
                    "firstAt": "2026-01-01T00:00:00.5Z", "lastAt": "2026-01-01T00:00:09Z"}],
                "receipts": [{"step": "inspect"}]}}}"#;
        let view: HostView = serde_json::from_str(text).unwrap();
        assert_eq!((view.state(), view.error(), view.reason()), ("provisioning", "no disk", "waiting"));
        let keys: Vec<_> = view.timeline().iter().map(TimelineLine::key).collect();
        assert_eq!(keys, ["dhcp_ack", "loader", "agent_hello", "write_end", "handoff"]);
        assert_eq!((view.count("write_end"), view.receipts().len()), (1, 1));
        assert_eq!(view.progress().unwrap().percent, 50);
    }
}
