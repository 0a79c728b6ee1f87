//! What a watch needs to know of an object. A journal may have some 100 kB, and a fleet thousands of them.

use firesteel_plan::host::DAMAGED;
use firesteel_plan::journal;
use firesteel_resources::bare_metal_host::{OperationalStatus, ProvisioningState, annotations};
use firesteel_resources::condition::find_condition;
use firesteel_resources::host_journal::JournalProgress;
use firesteel_resources::{BareMetalHost, BareMetalHostStatus, Condition, ConditionStatus, Halt, HostJournal};
use jiff::Timestamp;
use serde_json::Value;

/// The condition that says what keeps the disks of a host as they are.
const HELD: &str = "DestructionHeld";

/// A condition that says that a person is needed.
struct TroubleCondition {
    type_: &'static str,
    status: ConditionStatus,
    /// The only reason that counts; empty: each.
    reason: &'static str,
    words: &'static str,
}

const fn trouble(
    type_: &'static str,
    status: ConditionStatus,
    reason: &'static str,
    words: &'static str,
) -> TroubleCondition {
    TroubleCondition { type_, status, reason, words }
}

/// What is wrong with a host beside its error, the worst first.
const TROUBLES: [TroubleCondition; 4] = [
    trouble("Frozen", ConditionStatus::True, "", "FROZEN"),
    trouble("SecondClaimant", ConditionStatus::True, "PersonDecides", "TWO MACHINES"),
    trouble("IdentityChanged", ConditionStatus::True, "", "ANOTHER MACHINE"),
    trouble("Running", ConditionStatus::False, "FirstBootFailed", "FIRST BOOT FAILED"),
];

/// What is wrong with a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostTrouble {
    pub(crate) words: &'static str,
    pub(crate) text: String,
}

/// What keeps the disks of a host as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DisksHeld {
    /// The reason of the condition.
    pub(crate) reason: String,
    pub(crate) text: String,
}

/// What a watch knows of a host by its own object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostFacts {
    pub(crate) state: ProvisioningState,
    pub(crate) trouble: Option<HostTrouble>,
    /// The reason of its owner's lock, which may be empty.
    pub(crate) lock: Option<String>,
    pub(crate) held: Option<DisksHeld>,
    /// Whether it waits for a slot to be worked on.
    pub(crate) is_delayed: bool,
    pub(crate) is_damaged: bool,
    /// Whether the planner knows the newest spec, and no request to try again is open.
    pub(crate) is_current: bool,
    /// Whether no other image than the installed one is wanted.
    pub(crate) has_its_image: bool,
}

impl HostFacts {
    /// Reads a host. One that cannot be read is shown as that.
    pub(super) fn read(object: Value) -> Self {
        match serde_json::from_value::<BareMetalHost>(object) {
            Ok(host) => Self::of(&host),
            Err(error) => {
                let text = format!("this version of the command cannot read the host: {error}");
                Self { trouble: Some(HostTrouble { words: "UNREADABLE", text }), ..Self::default() }
            }
        }
    }

    /// Reads a host.
    pub(crate) fn of(host: &BareMetalHost) -> Self {
        let default = BareMetalHostStatus::default();
        let status = host.status.as_ref().unwrap_or(&default);
        let is_true = |condition: &&Condition| condition.status == ConditionStatus::True;
        let damaged = find_condition(&status.conditions, DAMAGED).filter(is_true);
        let damage = damaged.map(|found| HostTrouble { words: "DAMAGED", text: found.message.clone() });
        let held = find_condition(&status.conditions, HELD).filter(is_true);
        Self {
            state: status.provisioning.state,
            is_damaged: damage.is_some(),
            trouble: damage.or_else(|| error(status)).or_else(|| condition_trouble(&status.conditions)),
            lock: host.metadata.annotation(annotations::LOCK).map(str::to_owned),
            held: held.map(|found| DisksHeld { reason: found.reason.clone(), text: found.message.clone() }),
            is_delayed: status.operational_status == OperationalStatus::Delayed,
            is_current: is_current(host, status),
            has_its_image: has_its_image(host, status),
        }
    }
}

/// The error that the planner shows.
fn error(status: &BareMetalHostStatus) -> Option<HostTrouble> {
    if status.error_message.is_empty() && status.error_type.is_none() {
        return None;
    }
    let text = if status.error_message.is_empty() { "its status has no message" } else { &status.error_message };
    Some(HostTrouble { words: "ERROR", text: text.to_owned() })
}

fn condition_trouble(conditions: &[Condition]) -> Option<HostTrouble> {
    TROUBLES.iter().find_map(|trouble| {
        let found = find_condition(conditions, trouble.type_)?;
        let is_meant = trouble.reason.is_empty() || trouble.reason == found.reason;
        (found.status == trouble.status && is_meant)
            .then(|| HostTrouble { words: trouble.words, text: found.message.clone() })
    })
}

/// Returns whether the status is about the newest spec. A status without generations is another program's, and taken as
/// it is.
fn is_current(host: &BareMetalHost, status: &BareMetalHostStatus) -> bool {
    let seen = status.conditions.iter().map(|condition| condition.observed_generation).max().unwrap_or_default();
    let is_asked_again = host.metadata.annotation(annotations::RETRY).is_some();
    !is_asked_again && (seen == 0 || seen >= host.metadata.generation)
}

fn has_its_image(host: &BareMetalHost, status: &BareMetalHostStatus) -> bool {
    match (host.spec.wanted_image(), &status.provisioning.image) {
        (Some(wanted), Some(installed)) => wanted.url == installed.url,
        (None, _) | (Some(_), None) => true,
    }
}

/// What a watch knows of a host by its journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JournalFacts {
    pub(super) reason: String,
    pub(super) progress: Option<JournalProgress>,
    /// Whether a step that changes disks is held up.
    pub(super) is_held: bool,
    /// Whether nothing happens until a person edits something or decides.
    pub(super) needs_person: bool,
}

impl JournalFacts {
    /// Reads a journal; nothing of one that cannot be read is shown.
    pub(super) fn read(object: Value) -> Self {
        serde_json::from_value::<HostJournal>(object).map(|journal| Self::of(&journal)).unwrap_or_default()
    }

    fn of(HostJournal { status, .. }: &HostJournal) -> Self {
        // The memory of another version has less to say.
        let memory = journal::memory(status).unwrap_or_default();
        let is_stuck = memory.failure.as_ref().is_some_and(|failure| failure.until_edit);
        let progress = status.progress.clone().filter(|progress| progress.attempt >= memory.attempt);
        Self {
            reason: status.reason.as_ref().map(|reason| reason.text.clone()).unwrap_or_default(),
            progress,
            is_held: memory.held.as_ref().is_some_and(|held| held.until.is_none()),
            needs_person: is_stuck || memory.frozen.is_some() || memory.bmc.refused_credentials.is_some(),
        }
    }
}

/// A stop of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HaltFacts {
    pub(super) by: String,
    pub(super) reason: String,
    pub(super) since: Option<Timestamp>,
}

impl HaltFacts {
    /// Reads a halt; one that cannot be read still stops the fleet.
    pub(super) fn read(object: Value) -> Self {
        let halt = serde_json::from_value::<Halt>(object).unwrap_or_default();
        Self { by: halt.spec.by, reason: halt.spec.reason, since: halt.metadata.creation_timestamp }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn host(spec: &Value, status: &Value) -> HostFacts {
        HostFacts::read(json!({"metadata": {"name": "a", "generation": 2}, "spec": spec, "status": status}))
    }

    fn condition(type_: &str, status: &str, reason: &str) -> Value {
        let message = format!("because of {type_}");
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn what_is_wrong_is_found_where_the_status_says_it() {
        let words = |status: Value| host(&json!({}), &status).trouble.map(|trouble| trouble.words);
        let conditions = |condition: Value| json!({"conditions": [condition]});
        assert_eq!(words(json!({})), None);
        assert_eq!(words(json!({"errorMessage": "no power"})), Some("ERROR"));
        assert_eq!(words(json!({"errorType": "inspection error"})), Some("ERROR"));
        assert_eq!(words(json!({"errorType": "unheard of"})), Some("UNREADABLE"));
        assert_eq!(words(conditions(condition("Frozen", "True", "Unread"))), Some("FROZEN"));
        assert_eq!(words(conditions(condition("Frozen", "False", "NotFrozen"))), None);
        assert_eq!(words(conditions(condition("SecondClaimant", "True", "PersonDecides"))), Some("TWO MACHINES"));
        assert_eq!(words(conditions(condition("SecondClaimant", "True", "PowerDecides"))), None);
        assert_eq!(words(conditions(condition("Running", "False", "FirstBootFailed"))), Some("FIRST BOOT FAILED"));
        assert_eq!(words(conditions(condition("Running", "False", "Waiting"))), None);
        let damaged = json!({"errorMessage": "x", "conditions": [condition(DAMAGED, "True", "StorageReadError")]});
        assert_eq!(words(damaged), Some("DAMAGED"));
    }

    #[test]
    fn a_status_of_an_older_spec_is_known() {
        let seen = |generation: i64| {
            let mut ready = condition("Ready", "True", "Provisioned");
            ready["observedGeneration"] = generation.into();
            host(&json!({}), &json!({"conditions": [ready]})).is_current
        };
        assert_eq!((seen(1), seen(2), seen(0)), (false, true, true));
        let retried = json!({"metadata": {"name": "a", "annotations": {annotations::RETRY: "now"}}});
        assert!(!HostFacts::read(retried).is_current);
    }

    #[test]
    fn another_image_that_is_wanted_is_known() {
        let with = |wanted: Value, installed: Value| {
            host(&json!({"image": wanted}), &json!({"provisioning": {"image": installed}})).has_its_image
        };
        let image = |name: &str| json!({"url": format!("http://images/{name}"), "checksum": "", "format": null});
        assert!(with(image("a"), image("a")) && with(Value::Null, image("a")));
        assert!(!with(image("a"), image("b")));
    }

    #[test]
    fn a_journal_says_what_goes_on_in_this_boot_and_who_is_needed() {
        let facts = |memory: Value| {
            let progress = json!({"attempt": 3, "step": "write-image"});
            JournalFacts::read(json!({"status": {"memory": memory, "progress": progress}}))
        };
        assert!(facts(json!({"attempt": 3})).progress.is_some());
        assert!(facts(json!({"attempt": 4})).progress.is_none(), "of an earlier boot");
        assert!(!facts(json!({})).needs_person && !facts(json!({})).is_held);
        assert!(facts(json!({"held": {"since": "2026-01-01T00:00:00Z", "until": null}})).is_held);
        let failure = |until_edit: bool| {
            json!({"failure": {"kind": "inspection error", "message": "m", "count": 1,
                "at": "2026-01-01T00:00:00Z", "untilEdit": until_edit, "inputs": ""}})
        };
        assert!(facts(failure(true)).needs_person && !facts(failure(false)).needs_person);
    }
}
