//! What a watch knows of a fleet, from events alone. Pure: the moment comes with each event.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use firesteel_resources::host_journal::JournalProgress;
use jiff::Zoned;
use serde_json::Value;

use super::host_facts::{HaltFacts, HostFacts, JournalFacts};

/// How long a reported rate is shown: an agent reports every two seconds.
const FRESH_MAX: Duration = Duration::from_secs(10);
/// The condition's reason for a host whose disks a halt of the fleet holds.
const FLEET_HALTED: &str = "FleetHalted";

/// A moment, by the clock of this machine and by the time since the start of the watch, which no clock moves.
#[derive(Clone, Debug)]
pub(super) struct WatchMoment {
    pub(super) at: Zoned,
    pub(super) elapsed: Duration,
}

/// The kinds of objects that a watch follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FleetKind {
    Hosts,
    Journals,
    Halts,
}

impl FleetKind {
    pub(super) const ALL: [Self; 3] = [Self::Hosts, Self::Journals, Self::Halts];

    /// The plural of the kind in the API.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Hosts => "baremetalhosts",
            Self::Journals => "hostjournals",
            Self::Halts => "halts",
        }
    }
}

/// An object, as far as a watch needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FleetObject {
    pub(super) name: String,
    pub(super) facts: FleetFacts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FleetFacts {
    Host(HostFacts),
    Journal(JournalFacts),
    Halt(HaltFacts),
}

impl FleetObject {
    pub(super) fn read(kind: FleetKind, object: Value) -> Self {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let facts = match kind {
            FleetKind::Hosts => FleetFacts::Host(HostFacts::read(object)),
            FleetKind::Journals => FleetFacts::Journal(JournalFacts::read(object)),
            FleetKind::Halts => FleetFacts::Halt(HaltFacts::read(object)),
        };
        Self { name, facts }
    }
}

/// What the appliance sent, or that it sends nothing.
#[derive(Clone, Debug)]
pub(super) enum FleetEvent {
    /// All that there is now, and for people what could not be had.
    Listed {
        objects: Vec<FleetObject>,
        notes: Vec<String>,
        /// Whether halts are among the objects, or may not be read.
        has_halts: bool,
    },
    Present(FleetObject),
    Gone {
        kind: FleetKind,
        name: String,
    },
    /// The connection is lost for this reason, and is tried again.
    Lost(String),
}

/// What an event changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FleetChange {
    /// Names of hosts; those that are not there any more are gone.
    pub(super) hosts: Vec<String>,
    /// Whether the connection or a halt changed.
    pub(super) is_fleet: bool,
}

/// The connection to the appliance.
#[derive(Clone, Debug, Default)]
pub(super) enum ApplianceLink {
    /// Nothing was received yet.
    #[default]
    Opening,
    Up,
    Lost {
        since: Zoned,
        why: String,
    },
    /// The connection was lost and is back.
    Back {
        lost: Zoned,
        back: Zoned,
        elapsed: Duration,
    },
}

/// What is known of one host.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchedHost {
    /// The host itself; `None` while only its journal is known.
    pub(super) facts: Option<HostFacts>,
    pub(super) journal: JournalFacts,
    /// When its progress last changed, since the start of the watch.
    progress_at: Option<Duration>,
    /// The time since which it needs a person.
    stuck_since: Option<Duration>,
}

impl WatchedHost {
    /// Takes a journal in. The age of the first progress is known by the clocks alone.
    fn take_journal(&mut self, journal: JournalFacts, moment: &WatchMoment) {
        let plain = |progress: &Option<JournalProgress>| {
            progress.clone().map(|progress| JournalProgress { at: jiff::Timestamp::UNIX_EPOCH, ..progress })
        };
        if plain(&self.journal.progress) != plain(&journal.progress) {
            let age = |progress: &JournalProgress| moment.at.timestamp().duration_since(progress.at);
            let is_new = |progress: &JournalProgress| {
                self.journal.progress.is_some() || age(progress).unsigned_abs() < FRESH_MAX
            };
            self.progress_at = journal.progress.as_ref().filter(|progress| is_new(progress)).map(|_| moment.elapsed);
        }
        self.journal = journal;
    }

    fn count_stuck(&mut self, moment: &WatchMoment) {
        let facts = self.facts.as_ref().filter(|facts| facts.is_current);
        let is_stuck = facts.is_some_and(|facts| facts.is_damaged || self.journal.needs_person);
        self.stuck_since = is_stuck.then(|| self.stuck_since.unwrap_or(moment.elapsed));
    }

    /// Returns whether the reported rate is that of now.
    pub(super) fn is_fresh(&self, moment: &WatchMoment) -> bool {
        self.progress_at.is_some_and(|at| moment.elapsed.saturating_sub(at) < FRESH_MAX)
    }

    /// The time for which the host has needed a person without a break.
    pub(super) fn stuck_for(&self, moment: &WatchMoment) -> Option<Duration> {
        self.stuck_since.map(|since| moment.elapsed.saturating_sub(since))
    }
}

/// What is known of the fleet.
#[derive(Debug, Default)]
pub(super) struct FleetModel {
    pub(super) namespace: String,
    /// The only hosts that are followed; empty: all.
    pub(super) only: BTreeSet<String>,
    pub(super) link: ApplianceLink,
    pub(super) notes: Vec<String>,
    hosts: BTreeMap<String, WatchedHost>,
    halts: BTreeMap<String, HaltFacts>,
    has_halts: bool,
    /// Hosts among the named ones that were there and are gone.
    gone: BTreeSet<String>,
    /// All names of the first list.
    first_names: Vec<String>,
}

impl FleetModel {
    pub(super) fn new(namespace: &str, only: &[String]) -> Self {
        Self { namespace: namespace.to_owned(), only: only.iter().cloned().collect(), ..Self::default() }
    }

    /// The hosts that are there, by name.
    pub(super) fn hosts(&self) -> impl Iterator<Item = FleetHost<'_>> {
        self.hosts.iter().filter_map(|(name, host)| Some(FleetHost { name, host, facts: host.facts.as_ref()? }))
    }

    pub(super) fn host(&self, name: &str) -> Option<FleetHost<'_>> {
        let (name, host) = self.hosts.get_key_value(name)?;
        Some(FleetHost { name, host, facts: host.facts.as_ref()? })
    }

    /// Named hosts that are gone.
    pub(super) fn gone(&self) -> &BTreeSet<String> {
        &self.gone
    }

    /// All hosts of the namespace when the watch began.
    pub(super) fn first_names(&self) -> &[String] {
        &self.first_names
    }

    /// Returns whether the fleet was listed once.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self.link, ApplianceLink::Opening)
    }

    /// Returns whether what is known is of now.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.link, ApplianceLink::Up | ApplianceLink::Back { .. })
    }

    /// The halts of the fleet, by name.
    pub(super) fn halts(&self) -> &BTreeMap<String, HaltFacts> {
        &self.halts
    }

    /// What hosts say of a halt, for users who may not read halts.
    pub(super) fn halt_by_hosts(&self) -> Option<&str> {
        let mut held = self.hosts().filter_map(|host| host.facts.held.as_ref()).filter(|_| !self.has_halts);
        held.find(|held| held.reason == FLEET_HALTED).map(|held| held.text.as_str())
    }

    /// Takes an event in.
    pub(super) fn take(&mut self, event: FleetEvent, moment: &WatchMoment) -> FleetChange {
        match event {
            FleetEvent::Listed { objects, notes, has_halts } => self.take_list(objects, notes, has_halts, moment),
            FleetEvent::Present(object) => self.take_object(object, moment),
            FleetEvent::Gone { kind, name } => self.take_gone(kind, name, moment),
            FleetEvent::Lost(why) => {
                let since = match &self.link {
                    ApplianceLink::Lost { since, .. } => since.clone(),
                    ApplianceLink::Opening | ApplianceLink::Up | ApplianceLink::Back { .. } => moment.at.clone(),
                };
                self.link = ApplianceLink::Lost { since, why };
                FleetChange { is_fleet: true, ..FleetChange::default() }
            }
        }
    }

    fn take_list(
        &mut self,
        objects: Vec<FleetObject>,
        notes: Vec<String>,
        has_halts: bool,
        moment: &WatchMoment,
    ) -> FleetChange {
        let (mut listed, mut with_journal) = (BTreeSet::new(), BTreeSet::new());
        for object in &objects {
            match object.facts {
                FleetFacts::Host(_) => drop(listed.insert(object.name.clone())),
                FleetFacts::Journal(_) => drop(with_journal.insert(object.name.clone())),
                FleetFacts::Halt(_) => {}
            }
        }
        if !self.is_known() {
            self.first_names = listed.iter().cloned().collect();
        }
        self.link = match std::mem::take(&mut self.link) {
            ApplianceLink::Lost { since, .. } => {
                ApplianceLink::Back { lost: since, back: moment.at.clone(), elapsed: moment.elapsed }
            }
            back @ ApplianceLink::Back { .. } => back,
            ApplianceLink::Opening | ApplianceLink::Up => ApplianceLink::Up,
        };
        let mut change = FleetChange { hosts: Vec::new(), is_fleet: true };
        for name in self.hosts.keys().cloned().collect::<Vec<_>>() {
            if !listed.contains(&name) {
                change.hosts.extend(self.take_gone(FleetKind::Hosts, name, moment).hosts);
            } else if !with_journal.contains(&name) {
                change.hosts.extend(self.take_gone(FleetKind::Journals, name, moment).hosts);
            }
        }
        self.halts.clear();
        (self.notes, self.has_halts) = (notes, has_halts);
        for object in objects {
            change.hosts.extend(self.take_object(object, moment).hosts);
        }
        change.hosts.sort_unstable();
        change.hosts.dedup();
        change
    }

    fn take_object(&mut self, FleetObject { name, facts }: FleetObject, moment: &WatchMoment) -> FleetChange {
        if let FleetFacts::Halt(halt) = facts {
            self.halts.insert(name, halt);
            return FleetChange { is_fleet: true, ..FleetChange::default() };
        }
        if !self.only.is_empty() && !self.only.contains(&name) {
            return FleetChange::default();
        }
        let host = self.hosts.entry(name.clone()).or_default();
        match facts {
            FleetFacts::Host(facts) => {
                self.gone.remove(&name);
                host.facts = Some(facts);
            }
            FleetFacts::Journal(journal) => host.take_journal(journal, moment),
            FleetFacts::Halt(_) => {}
        }
        host.count_stuck(moment);
        FleetChange { hosts: vec![name], is_fleet: false }
    }

    fn take_gone(&mut self, kind: FleetKind, name: String, moment: &WatchMoment) -> FleetChange {
        match kind {
            FleetKind::Halts => {
                self.halts.remove(&name);
                return FleetChange { is_fleet: true, ..FleetChange::default() };
            }
            FleetKind::Hosts => {
                let was_there = self.hosts.remove(&name).is_some_and(|host| host.facts.is_some());
                if was_there && self.only.contains(&name) {
                    self.gone.insert(name.clone());
                }
            }
            FleetKind::Journals => {
                if let Some(host) = self.hosts.get_mut(&name) {
                    host.take_journal(JournalFacts::default(), moment);
                    host.count_stuck(moment);
                }
            }
        }
        FleetChange { hosts: vec![name], is_fleet: false }
    }
}

/// A host with its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct FleetHost<'a> {
    pub(super) name: &'a str,
    pub(super) host: &'a WatchedHost,
    pub(super) facts: &'a HostFacts,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{after, fleet, host, journal, listed, writing};
    use super::*;

    fn names(fleet: &FleetModel) -> Vec<&str> {
        fleet.hosts().map(|host| host.name).collect()
    }

    #[test]
    fn a_new_list_replaces_what_was_known() {
        let mut fleet = fleet(&["a", "b"], vec![host("a", "available", json!({})), host("b", "available", json!({}))]);
        let all = vec![host("b", "provisioning", json!({})), host("c", "available", json!({}))];
        let change = fleet.take(listed(all), &after(5));
        assert_eq!(change, FleetChange { hosts: vec!["a".into(), "b".into()], is_fleet: true });
        assert_eq!((names(&fleet), fleet.gone().len()), (vec!["b"], 1), "c was not asked for");
        fleet.take(FleetEvent::Present(host("a", "registering", json!({}))), &after(6));
        assert!(fleet.gone().is_empty(), "a is there again");
        let gone = FleetEvent::Gone { kind: FleetKind::Hosts, name: "b".into() };
        assert_eq!(fleet.take(gone, &after(7)).hosts, ["b"]);
        assert_eq!(names(&fleet), ["a"]);
    }

    #[test]
    fn a_lost_connection_is_known_since_its_first_failure() {
        let mut fleet = fleet(&[], vec![host("a", "available", json!({}))]);
        for second in [1, 2, 3] {
            fleet.take(FleetEvent::Lost(format!("try {second}")), &after(second));
        }
        let is_of = |since: &Zoned, second: u64| *since == after(second).at;
        assert!(matches!(&fleet.link, ApplianceLink::Lost { since, why } if is_of(since, 1) && why == "try 3"));
        assert!(fleet.is_known() && !fleet.is_up());
        fleet.take(listed(Vec::new()), &after(4));
        assert!(matches!(&fleet.link, ApplianceLink::Back { lost, back, .. } if is_of(lost, 1) && is_of(back, 4)));
    }

    /// A rate went on during a halt.
    #[test]
    fn a_rate_is_that_of_now_while_the_progress_changes() {
        let mut fleet = fleet(&[], vec![host("a", "provisioning", json!({})), writing("a", 10)]);
        let is_fresh = |fleet: &FleetModel, second| fleet.host("a").is_some_and(|a| a.host.is_fresh(&after(second)));
        assert!(is_fresh(&fleet, 9) && !is_fresh(&fleet, 10));
        fleet.take(FleetEvent::Present(writing("a", 10)), &after(12));
        assert!(!is_fresh(&fleet, 12), "nothing changed");
        fleet.take(FleetEvent::Present(writing("a", 11)), &after(14));
        assert!(is_fresh(&fleet, 23) && !is_fresh(&fleet, 24));
        let old = FleetModel::new("default", &[]);
        let mut late = old;
        late.take(listed(vec![host("a", "provisioning", json!({})), writing("a", 10)]), &after(600));
        assert!(!is_fresh(&late, 600), "it was reported ten minutes before");
    }

    #[test]
    fn a_host_needs_a_person_from_its_last_word_that_says_so() {
        let stuck = || {
            journal(
                "a",
                json!({"memory": {"frozen": {"why": "Unread", "disk": "sda", "guid": "", "message": "m",
            "since": "2026-03-01T14:00:00Z"}}}),
            )
        };
        let mut fleet = fleet(&[], vec![host("a", "available", json!({})), stuck()]);
        let time =
            |fleet: &FleetModel| fleet.host("a").and_then(|a| a.host.stuck_for(&after(9))).map(|time| time.as_secs());
        assert_eq!(time(&fleet), Some(9));
        fleet.take(FleetEvent::Present(stuck()), &after(3));
        assert_eq!(time(&fleet), Some(9), "without a break");
        fleet.take(FleetEvent::Present(journal("a", json!({}))), &after(4));
        assert_eq!(time(&fleet), None);
        fleet.take(FleetEvent::Present(stuck()), &after(5));
        assert_eq!(time(&fleet), Some(4));
    }
}
