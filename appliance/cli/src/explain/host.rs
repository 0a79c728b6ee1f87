//! `firesteel explain host NAME`: the state of a host, what it waits for and since when, what is typical on this appliance,
//! and what to do. The words are those of the planner; here they are put together.

use std::collections::BTreeMap;

use firesteel_plan::host::NETWORK_BOOT;
use firesteel_plan::journal;
use firesteel_plan::phase::{self, HostPhase, PhaseSpan, TYPICAL_SAMPLES_MIN, TypicalDuration};
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::condition::find_condition;
use firesteel_resources::{BareMetalHost, Condition, ConditionStatus, HostJournal};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::describe::TextPage;
use crate::get;
use crate::table::{duration, time};
use crate::watch::HostFacts;

/// Reasons of the condition `Running` while the new OS is awaited.
const FIRST_BOOT_REASONS: [&str; 3] = ["Waiting", "ConfigFetched", "FirstBootFailed"];

/// How long each phase took on this appliance, by its hosts' journals.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhaseHistory {
    durations: BTreeMap<HostPhase, Vec<SignedDuration>>,
    /// How many journals were read.
    hosts: usize,
    /// Why not all journals were read; empty if they were.
    pub(super) limits: String,
}

impl PhaseHistory {
    /// Adds what a journal knows.
    pub(crate) fn add(&mut self, journal: &HostJournal) {
        self.hosts += 1;
        for span in phase::spans(&journal.status) {
            if let Some(took) = span.sample() {
                self.durations.entry(span.phase).or_default().push(took);
            }
        }
    }

    fn samples(&self, phase: HostPhase) -> usize {
        self.durations.get(&phase).map_or(0, Vec::len)
    }

    fn typical(&self, phase: HostPhase) -> Option<TypicalDuration> {
        phase::typical(self.durations.get(&phase).cloned().unwrap_or_default())
    }
}

/// Everything that is known of a host that it depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExplainedHost<'a> {
    pub(crate) host: &'a BareMetalHost,
    pub(crate) journal: &'a HostJournal,
    pub(crate) history: &'a PhaseHistory,
    /// What stops the fleet, each in words with the command that ends it.
    pub(crate) halts: &'a [String],
}

/// A host, explained. This is also its form in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostExplanation {
    name: String,
    namespace: String,
    state: String,
    state_since: Option<Timestamp>,
    waits_for: Option<ExplainedWait>,
    phases: Vec<ExplainedPhase>,
    /// When a working state without progress is given up.
    deadline: Option<Timestamp>,
    /// When a step that failed is tried again.
    retry_at: Option<Timestamp>,
    /// Journals that the durations are from.
    history_hosts: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    history_limits: String,
    what_to_do: Vec<String>,
}

/// What the host waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainedWait {
    text: String,
    since: Timestamp,
    seconds: i64,
}

/// A phase that the host is in.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainedPhase {
    phase: &'static str,
    since: Timestamp,
    seconds: i64,
    /// Earlier ones that came to their end without an error.
    samples: usize,
    /// Is absent if there are too few.
    typical: Option<ExplainedTypical>,
    /// Nine of ten took no longer than this one takes by now.
    is_longer_than_usual: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainedTypical {
    median_seconds: i64,
    p90_seconds: i64,
}

impl HostExplanation {
    /// Puts together what is known.
    pub(crate) fn of(known: ExplainedHost<'_>, now: Timestamp) -> Self {
        let ExplainedHost { host, journal, history, .. } = known;
        // The memory of another version has less to say.
        let memory = journal::memory(&journal.status).unwrap_or_default();
        let waits_for = journal.status.reason.as_ref().map(|reason| ExplainedWait {
            text: reason.text.clone(),
            since: reason.since,
            seconds: now.duration_since(reason.since).as_secs(),
        });
        let spans = phase::current(&phase::spans(&journal.status), &memory.state);
        let awaits_os = awaits_os(host);
        let spans = spans.into_iter().filter(|span| span.phase != HostPhase::FirstBoot || awaits_os);
        let phases: Vec<ExplainedPhase> = spans.map(|span| explained(&span, history, now)).collect();
        let is_never_stepped = journal.status.memory.is_null();
        Self {
            name: host.metadata.name.clone(),
            namespace: host.metadata.namespace.clone(),
            state: get::state(host),
            state_since: (!is_never_stepped).then_some(memory.since),
            waits_for,
            deadline: memory.deadline.filter(|_| memory.state.is_working()),
            retry_at: memory.failure.as_ref().and_then(|failure| failure.retry_at),
            history_hosts: history.hosts,
            history_limits: history.limits.clone(),
            what_to_do: to_do(known, &phases, memory.state.is_working()),
            phases,
        }
    }

    /// Renders the page for a person, as wide as the terminal.
    pub(crate) fn render(&self, now: Timestamp, width: usize) -> String {
        let mut page = TextPage::new(width);
        let since = |at: Timestamp| format!("for {}, since {}", duration(now.duration_since(at).as_secs()), time(at));
        page.field("Name", &self.name);
        page.field("State", &self.state);
        if let Some(at) = self.state_since {
            page.field("", &since(at));
        }
        if let Some(wait) = &self.waits_for {
            page.field("Waits for", &wait.text);
            page.field("", &since(wait.since));
        }
        if let Some(at) = self.retry_at {
            page.field("Tried again", &format!("at {}", time(at)));
        }
        if let Some(at) = self.deadline {
            page.field("Given up", &format!("at {}, unless it makes progress before", time(at)));
        }
        if !self.phases.is_empty() {
            page.title("How long");
            let rows = self.phases.iter().map(|phase| {
                vec![format!("  {}", phase.phase), duration(phase.seconds), phase.typical_text(self.history_hosts)]
            });
            page.table(&["  PHASE", "FOR", "TYPICAL HERE"], rows.collect(), &[]);
            if !self.history_limits.is_empty() {
                page.line(&format!("  {}", self.history_limits));
            }
        }
        page.title("What to do");
        for text in &self.what_to_do {
            page.item("  - ", text, 4);
        }
        page.text()
    }
}

impl ExplainedPhase {
    fn typical_text(&self, hosts: usize) -> String {
        let of_hosts = if hosts == 1 { "of 1 host".to_owned() } else { format!("of {hosts} hosts") };
        let Some(typical) = &self.typical else {
            let samples = self.samples;
            return format!("unknown: {samples} earlier {of_hosts}, and it takes {TYPICAL_SAMPLES_MIN}");
        };
        let longer = if self.is_longer_than_usual { "; LONGER THAN USUAL" } else { "" };
        format!(
            "{}, and 9 of 10 within {} ({} earlier {of_hosts}){longer}",
            duration(typical.median_seconds),
            duration(typical.p90_seconds),
            self.samples
        )
    }
}

fn explained(span: &PhaseSpan, history: &PhaseHistory, now: Timestamp) -> ExplainedPhase {
    let seconds = now.duration_since(span.begun);
    let typical = history.typical(span.phase);
    ExplainedPhase {
        phase: span.phase.word(),
        since: span.begun,
        seconds: seconds.as_secs(),
        samples: history.samples(span.phase),
        is_longer_than_usual: typical.is_some_and(|typical| seconds > typical.p90),
        typical: typical.map(|typical| ExplainedTypical {
            median_seconds: typical.median.as_secs(),
            p90_seconds: typical.p90.as_secs(),
        }),
    }
}

/// Says whether the new OS has not reported yet that it runs, and is expected to.
fn awaits_os(host: &BareMetalHost) -> bool {
    let running = find_condition(conditions(host), "Running").filter(|found| found.status == ConditionStatus::False);
    running.is_some_and(|found| FIRST_BOOT_REASONS.contains(&found.reason.as_str()))
}

fn conditions(host: &BareMetalHost) -> &[Condition] {
    host.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
}

/// Collects what the planner says is to be done. Where it says nothing is wrong, nothing is to be done.
fn to_do(known: ExplainedHost<'_>, phases: &[ExplainedPhase], is_working: bool) -> Vec<String> {
    let ExplainedHost { host, journal, halts, .. } = known;
    let name = &host.metadata.name;
    let facts = HostFacts::of(host);
    let mut texts: Vec<String> = Vec::new();
    let mut add = |text: String| {
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    };
    facts.trouble.into_iter().for_each(|trouble| add(trouble.text));
    if let Some(lock) = facts.lock {
        let why = if lock.is_empty() { String::new() } else { format!(" ({lock})") };
        add(format!("its disks are locked{why}: `firesteel unlock {name}` ends that"));
    }
    halts.iter().cloned().for_each(&mut add);
    facts.held.into_iter().for_each(|held| add(held.text));
    let hint = |type_: &str| {
        let found = find_condition(conditions(host), type_).filter(|found| found.status == ConditionStatus::False);
        found.map(|found| found.message.clone()).unwrap_or_default()
    };
    add(hint(NETWORK_BOOT));
    if awaits_os(host) {
        add(hint("Running"));
    }
    // A pause is no error, and its reason says what ends it.
    let is_paused = host.metadata.annotation(annotations::PAUSED).is_some();
    if is_paused {
        add(journal.status.reason.as_ref().map(|reason| reason.text.clone()).unwrap_or_default());
    }
    if facts.is_delayed {
        add("nothing: as many hosts are worked on as `serve --hosts-at-once` allows, and this one is next in line"
            .to_owned());
    }
    if !texts.is_empty() {
        return texts;
    }
    let is_late = phases.iter().any(|phase| phase.is_longer_than_usual);
    vec![match (is_working, is_late) {
        (true, true) => format!(
            "nothing has failed, and it takes longer than usual: `firesteel logs {name}` shows what the agent does, and \
             `firesteel logs {name} -c console` the screen of the host"
        ),
        (true, false) => format!("nothing: the appliance works on it; `firesteel watch {name}` follows it"),
        (false, _) => "nothing: the host is where its spec wants it".to_owned(),
    }]
}
