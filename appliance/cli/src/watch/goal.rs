//! What `firesteel watch --until` waits for, and whether that is reached or cannot be. Pure.

use std::time::Duration;

use anyhow::Context as _;
use firesteel_resources::bare_metal_host::ProvisioningState;

use super::super::table::{clean, duration};
use super::fleet::{FleetHost, FleetModel, WatchMoment};
use super::fleet_view::{HostRow, row};
use super::nearest::{nearest, question};

/// How long a host must need a person before the wait is given up: an edit that was just made is taken in by then.
const STUCK_MIN: Duration = Duration::from_secs(5);
/// How many hosts an error names.
const NAMED_MAX: usize = 10;

/// The state that all hosts are to be in at one moment, and how long that may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WatchGoal {
    pub(super) state: ProvisioningState,
    pub(super) timeout: Option<Duration>,
}

/// Whether a watch is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchVerdict {
    GoesOn,
    /// The watch reached its end; the text says it.
    Reached(String),
    Failed(WatchFailure),
}

/// Why a watch ends without success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WatchFailure {
    #[error(
        "could not watch {names}: there is no such host in namespace {namespace}{question}; `firesteel get hosts` lists \
         all"
    )]
    Unknown { names: String, namespace: String, question: String },
    #[error("could not wait until hosts are {state}: there are none in namespace {namespace}")]
    NoHosts { state: ProvisioningState, namespace: String },
    #[error("could not wait until all hosts are {state}: {names} is gone; `firesteel get hosts` lists the others")]
    Gone { state: ProvisioningState, names: String },
    #[error(
        "could not wait until all hosts are {state}: a person has to help: {hosts}; `firesteel describe \
         host NAME` says more"
    )]
    Stuck { state: ProvisioningState, hosts: String },
    #[error(
        "could not wait until all hosts are {state}: {passed} passed, and the appliance does not answer; see its log"
    )]
    NoAnswer { state: ProvisioningState, passed: String },
    #[error(
        "could not wait until all hosts are {state}: {passed} passed, and {reached} of {total} are there; not there: \
         {hosts}; `firesteel describe host NAME` says more"
    )]
    TimedOut { state: ProvisioningState, passed: String, reached: usize, total: usize, hosts: String },
}

impl WatchGoal {
    /// Returns whether a host is where it is to be: also by the newest edit of it.
    fn is_reached(&self, FleetHost { facts, .. }: FleetHost<'_>) -> bool {
        let has_image = self.state != ProvisioningState::Provisioned || facts.has_its_image;
        facts.state == self.state && facts.is_current && has_image
    }

    /// Says how far the wait is.
    pub(super) fn describe(&self, fleet: &FleetModel, moment: &WatchMoment) -> String {
        let (reached, total) = (fleet.hosts().filter(|host| self.is_reached(*host)).count(), fleet.hosts().count());
        let left = self.timeout.map(|timeout| timeout.saturating_sub(moment.elapsed));
        let left = left.map(|left| format!("; the wait ends in {}", seconds(left))).unwrap_or_default();
        format!("waiting until all hosts are {}: {reached} of {total} are{left}", self.state)
    }
}

/// Parses a state that a host can have, as the list of hosts shows it. Another state would never be reached.
///
/// # Errors
/// When no host can have this state; the message lists those that there are.
pub(super) fn state(text: &str) -> anyhow::Result<ProvisioningState> {
    let words = ProvisioningState::ALL.map(|state| state.to_string());
    let found = words.iter().position(|word| word == text);
    found.map(|index| ProvisioningState::ALL[index]).with_context(|| {
        let meant = question(&nearest(text, words.iter().map(String::as_str)));
        // These words mean the OS.
        let running = if ["running", "ready", "booted", "up"].contains(&text.to_ascii_lowercase().as_str()) {
            "; `firesteel wait host/NAME --for condition=Running` waits until the OS reports that it runs"
        } else {
            ""
        };
        format!("no host has this state{meant}{running}; the states are: {}", words.join(", "))
    })
}

/// Decides whether a watch goes on. Without a goal it ends when all hosts that were named are gone.
pub(super) fn verdict(fleet: &FleetModel, goal: Option<&WatchGoal>, moment: &WatchMoment) -> WatchVerdict {
    let Some(goal) = goal else { return without_goal(fleet) };
    if fleet.is_up() {
        let total = fleet.hosts().count();
        if let Some(failure) = hopeless(fleet, goal, moment) {
            return WatchVerdict::Failed(failure);
        }
        if fleet.hosts().all(|host| goal.is_reached(host)) {
            let hosts = if total == 1 { "the host is".to_owned() } else { format!("all {total} hosts are") };
            return WatchVerdict::Reached(format!("{hosts} {}", goal.state));
        }
    }
    match goal.timeout.filter(|timeout| moment.elapsed >= *timeout) {
        Some(timeout) => WatchVerdict::Failed(timed_out(fleet, goal, timeout, moment)),
        None => WatchVerdict::GoesOn,
    }
}

/// Finds names that no host had when the watch began.
pub(super) fn unknown(fleet: &FleetModel) -> Option<WatchFailure> {
    let is_unknown = |name: &&String| !fleet.first_names().contains(name) && fleet.host(name).is_none();
    let mut names = fleet.only.iter().filter(|_| fleet.is_known()).filter(is_unknown).peekable();
    let first = *names.peek()?;
    let meant = nearest(first, fleet.first_names().iter().map(String::as_str));
    let names: Vec<String> = names.map(|name| clean(name)).collect();
    Some(WatchFailure::Unknown {
        names: listed(&names),
        namespace: clean(&fleet.namespace),
        question: clean(&question(&meant)),
    })
}

fn without_goal(fleet: &FleetModel) -> WatchVerdict {
    let are_gone = !fleet.only.is_empty() && fleet.gone().len() == fleet.only.len();
    if !are_gone {
        return WatchVerdict::GoesOn;
    }
    let names: Vec<String> = fleet.gone().iter().map(|name| clean(name)).collect();
    WatchVerdict::Reached(format!("gone: {}", listed(&names)))
}

/// Finds what keeps the goal from being reached at all.
fn hopeless(fleet: &FleetModel, goal: &WatchGoal, moment: &WatchMoment) -> Option<WatchFailure> {
    let state = goal.state;
    if !fleet.gone().is_empty() {
        let names: Vec<String> = fleet.gone().iter().map(|name| clean(name)).collect();
        return Some(WatchFailure::Gone { state, names: listed(&names) });
    }
    if fleet.hosts().next().is_none() {
        return Some(WatchFailure::NoHosts { state, namespace: clean(&fleet.namespace) });
    }
    let is_stuck = |host: &FleetHost<'_>| host.host.stuck_for(moment).is_some_and(|time| time >= STUCK_MIN);
    let stuck = fleet.hosts().filter(|host| !goal.is_reached(*host)).filter(is_stuck);
    let stuck: Vec<String> = stuck.map(|host| with_text(&row(host, true, moment))).collect();
    (!stuck.is_empty()).then(|| WatchFailure::Stuck { state, hosts: listed(&stuck) })
}

fn timed_out(fleet: &FleetModel, goal: &WatchGoal, timeout: Duration, moment: &WatchMoment) -> WatchFailure {
    let (state, passed) = (goal.state, seconds(timeout));
    if !fleet.is_up() {
        return WatchFailure::NoAnswer { state, passed };
    }
    let others = fleet.hosts().filter(|host| !goal.is_reached(*host));
    let others: Vec<String> = others.map(|host| with_text(&row(host, true, moment))).collect();
    let total = fleet.hosts().count();
    WatchFailure::TimedOut { state, passed, reached: total - others.len(), total, hosts: listed(&others) }
}

fn with_text(HostRow { name, state, text, .. }: &HostRow) -> String {
    if text.is_empty() { format!("{name} ({state})") } else { format!("{name} ({state}: {text})") }
}

/// Joins names, and counts those beyond the first ones.
fn listed(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMED_MAX)].join(", ");
    if names.len() > NAMED_MAX { format!("{shown} and {} more", names.len() - NAMED_MAX) } else { shown }
}

fn seconds(time: Duration) -> String {
    duration(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::super::fleet::{FleetEvent, FleetKind};
    use super::super::testing::{after, fleet, host, journal, listed, writing};
    use super::*;

    fn until(word: &str) -> WatchGoal {
        WatchGoal { state: state(word).unwrap(), timeout: Some(Duration::from_secs(60)) }
    }

    fn failure(fleet: &FleetModel, seconds: u64) -> String {
        match verdict(fleet, Some(&until("provisioned")), &after(seconds)) {
            WatchVerdict::Failed(failure) => failure.to_string(),
            other @ (WatchVerdict::GoesOn | WatchVerdict::Reached(_)) => format!("{other:?}"),
        }
    }

    /// `watch --until ready` never ended.
    #[test]
    fn only_a_state_that_hosts_have_is_waited_for() {
        for known in ["new", "provisioned", "externally provisioned", "powering off before delete"] {
            assert_eq!(state(known).map(|state| state.to_string()).ok().as_deref(), Some(known));
        }
        for unknown in ["", "ready", "Provisioned", "error", "foreign"] {
            let refusal = state(unknown).map(|_| ()).unwrap_err().to_string();
            assert!(refusal.contains("available, provisioning, provisioned"), "{refusal}");
        }
        let refusal = state("Provisoned").map(|_| ()).unwrap_err().to_string();
        assert!(refusal.starts_with("no host has this state (did you mean provisioned"), "{refusal}");
    }

    #[test]
    fn all_hosts_are_waited_for() {
        let mut fleet = fleet(&[], vec![host("a", "provisioned", json!({})), host("b", "provisioning", json!({}))]);
        let goal = until("provisioned");
        assert_eq!(verdict(&fleet, Some(&goal), &after(1)), WatchVerdict::GoesOn);
        assert_eq!(
            goal.describe(&fleet, &after(1)),
            "waiting until all hosts are provisioned: 1 of 2 are; the wait ends in 59s"
        );
        fleet.take(FleetEvent::Present(host("b", "provisioned", json!({}))), &after(2));
        let reached = WatchVerdict::Reached("all 2 hosts are provisioned".into());
        assert_eq!(verdict(&fleet, Some(&goal), &after(2)), reached);
        fleet.take(FleetEvent::Lost("no answer".into()), &after(3));
        assert_eq!(verdict(&fleet, Some(&goal), &after(3)), WatchVerdict::GoesOn, "who knows");
        assert_eq!(
            failure(&fleet, 60),
            "could not wait until all hosts are provisioned: 1m00s passed, and the appliance \
            does not answer; see its log"
        );
    }

    #[test]
    fn a_status_before_the_last_edit_is_not_the_goal() {
        let edited = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "provisioning": {"state": "provisioned"}});
        let object = json!({"metadata": {"name": "a", "generation": 2}, "status": edited});
        let object = super::super::fleet::FleetObject::read(FleetKind::Hosts, object);
        assert_eq!(failure(&fleet(&[], vec![object]), 1), "GoesOn");
    }

    #[test]
    fn a_wait_that_cannot_end_is_given_up() {
        let there = |name: &str| host(name, "provisioning", json!({"errorMessage": "no root disk"}));
        let stuck = |name: &str| {
            journal(
                name,
                json!({"memory": {"failure": {"kind": "provisioning error", "message": "no root disk", "count": 1,
                "at": "2026-01-01T00:00:00Z", "untilEdit": true, "inputs": ""}}}),
            )
        };
        let mut model = fleet(&["a", "b"], vec![there("a"), stuck("a"), there("b")]);
        assert_eq!(failure(&model, 4), "GoesOn", "an edit may be on its way");
        assert_eq!(
            failure(&model, 5),
            "could not wait until all hosts are provisioned: a person has to \
             help: a (provisioning: ERROR: no root disk); `firesteel describe host NAME` says more"
        );
        model.take(FleetEvent::Gone { kind: FleetKind::Hosts, name: "b".into() }, &after(6));
        assert!(failure(&model, 6).contains("b is gone"), "{}", failure(&model, 6));
        assert_eq!(verdict(&model, None, &after(6)), WatchVerdict::GoesOn, "a is still shown");
        model.take(FleetEvent::Gone { kind: FleetKind::Hosts, name: "a".into() }, &after(7));
        assert_eq!(verdict(&model, None, &after(7)), WatchVerdict::Reached("gone: a, b".into()));
        assert!(failure(&fleet(&[], Vec::new()), 1).contains("there are none in namespace default"));
    }

    #[test]
    fn what_is_not_there_in_time_is_named() {
        let objects = (0..13).flat_map(|number| {
            let name = format!("h{number:02}");
            [host(&name, if number == 0 { "provisioned" } else { "provisioning" }, json!({})), writing(&name, 40)]
        });
        let text = failure(&fleet(&[], objects.collect()), 60);
        assert!(
            text.contains("1m00s passed, and 1 of 13 are there; not there: h01 (provisioning: write-image: writing)"),
            "{text}"
        );
        assert!(text.contains("h10 (provisioning: write-image: writing) and 2 more;"), "{text}");
        let silent = FleetModel::new("default", &[]);
        assert!(failure(&silent, 60).contains("does not answer"));
    }

    #[test]
    fn unknown_names_are_found_at_once_with_what_was_probably_meant() {
        let all = || vec![host("rack1-07", "available", json!({})), host("rack1-08", "available", json!({}))];
        let unknown = |only: &[&str]| super::unknown(&fleet(only, all())).map(|failure| failure.to_string());
        assert_eq!(unknown(&[]), None);
        assert_eq!(unknown(&["rack1-07"]), None);
        assert_eq!(
            unknown(&["rack1-7", "rack1-08"]).as_deref(),
            Some(
                "could not watch rack1-7: there is no such host in \
            namespace default (did you mean rack1-07 or rack1-08?); `firesteel get hosts` lists all"
            )
        );
        let mut departed = fleet(&["rack1-07"], all());
        departed.take(listed(Vec::new()), &after(1));
        assert_eq!(super::unknown(&departed), None, "it was there");
    }
}
