//! The phases of a host's work, read from the timeline in its journal: how long each took before, and what is typical.
//!
//! | phase | begins | ends |
//! |---|---|---|
//! | registration | in the host's history of operations | there |
//! | boot into the agent | `NetBoot` | `agent_hello` |
//! | inspection | `InspectionStarted` | `InspectionComplete` |
//! | cleaning | `CleaningStarted` | `CleaningComplete`, `DeprovisioningComplete` |
//! | installation | `ProvisioningStarted` | `ProvisioningComplete` |
//! | writing the image | `write_start` | `write_end` |
//! | first boot of the OS | `ProvisioningComplete` | `running` |
//! | deprovisioning | `DeprovisioningStarted` | `DeprovisioningComplete` |
//!
//! A phase in which something failed says nothing about what is typical, and neither does one that began again.

use firesteel_resources::bare_metal_host::OperationHistory;
use firesteel_resources::host_journal::{HostJournalStatus, TimelineEvent};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize as _;

use crate::host::HostState;

/// The fewest earlier durations of which something is typical.
pub const TYPICAL_SAMPLES_MIN: usize = 5;

/// A part of a host's work that begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostPhase {
    Registration,
    Boot,
    Inspection,
    Cleaning,
    Installation,
    Writing,
    FirstBoot,
    Deprovisioning,
}

/// The entries of a timeline that begin, end and spoil a phase.
struct PhaseMarks {
    begins: EntryWords,
    ends: EntryWords,
    /// What is tried again: the phase goes on.
    fails: EntryWords,
    /// The phase is over without its end.
    breaks_off: EntryWords,
}

/// Words of a timeline.
type EntryWords = &'static [&'static str];

const fn marks(begins: EntryWords, ends: EntryWords, fails: EntryWords, breaks_off: EntryWords) -> PhaseMarks {
    PhaseMarks { begins, ends, fails, breaks_off }
}

const DEPROVISIONED: &str = "DeprovisioningComplete";
const DEPROVISIONING: &str = "DeprovisioningStarted";
const PROVISIONED: &str = "ProvisioningComplete";

impl HostPhase {
    /// All phases, the outer ones before those within them.
    pub const ALL: [Self; 8] = [
        Self::Registration,
        Self::Inspection,
        Self::Installation,
        Self::Deprovisioning,
        Self::Cleaning,
        Self::Boot,
        Self::Writing,
        Self::FirstBoot,
    ];

    /// The words for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Registration => "registration",
            Self::Boot => "boot into the agent",
            Self::Inspection => "inspection",
            Self::Cleaning => "cleaning",
            Self::Installation => "installation",
            Self::Writing => "writing the image",
            Self::FirstBoot => "first boot of the OS",
            Self::Deprovisioning => "deprovisioning",
        }
    }

    /// Whether a host in this state can be in the phase.
    #[must_use]
    pub fn is_in(self, state: &HostState) -> bool {
        match self {
            Self::Registration => *state == HostState::Registering,
            Self::Boot => state.gets_agent(),
            Self::Inspection => *state == HostState::Inspecting,
            Self::Cleaning => matches!(state, HostState::Preparing | HostState::Deprovisioning),
            Self::Installation | Self::Writing => *state == HostState::Provisioning,
            Self::FirstBoot => *state == HostState::Provisioned,
            Self::Deprovisioning => *state == HostState::Deprovisioning,
        }
    }

    fn marks(self) -> PhaseMarks {
        match self {
            // The history of operations has it.
            Self::Registration => marks(&[], &[], &[], &[]),
            Self::Boot => marks(&["NetBoot"], &["agent_hello"], &[], &[PROVISIONED, DEPROVISIONED]),
            Self::Inspection => marks(&["InspectionStarted"], &["InspectionComplete"], &["InspectionError"], &[]),
            Self::Cleaning => marks(
                &["CleaningStarted"],
                &["CleaningComplete", DEPROVISIONED],
                &["PreparationError", "ProvisioningError"],
                &["CleaningStopped", "DeprovisioningGaveUp"],
            ),
            Self::Installation => {
                marks(&["ProvisioningStarted"], &[PROVISIONED], &["ProvisioningError"], &[DEPROVISIONING])
            }
            Self::Writing => marks(&["write_start"], &["write_end"], &[], &["step_failed", "ProvisioningError"]),
            Self::FirstBoot => marks(&[PROVISIONED], &["running"], &["first_boot_failed"], &[DEPROVISIONING]),
            Self::Deprovisioning => {
                marks(&[DEPROVISIONING], &[DEPROVISIONED], &["ProvisioningError"], &["DeprovisioningGaveUp"])
            }
        }
    }
}

/// A phase of one host, from its begin on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseSpan {
    pub phase: HostPhase,
    pub begun: Timestamp,
    /// Is absent while it lasts.
    pub ended: Option<Timestamp>,
    /// How often something failed in it.
    pub failures: u32,
}

impl PhaseSpan {
    /// How long it took, if it came to its end and nothing failed meanwhile.
    #[must_use]
    pub fn sample(&self) -> Option<SignedDuration> {
        let took = self.ended?.duration_since(self.begun);
        (self.failures == 0 && !took.is_negative()).then_some(took)
    }
}

/// Reads all phases that a journal knows of, those of one kind in the order of their begins.
#[must_use]
pub fn spans(status: &HostJournalStatus) -> Vec<PhaseSpan> {
    let of_timeline = HostPhase::ALL.into_iter().flat_map(|phase| of_timeline(phase, &status.timeline));
    registration(status).into_iter().chain(of_timeline).collect()
}

/// Finds the phases that a host in this state is in: each with its last begin.
#[must_use]
pub fn current(spans: &[PhaseSpan], state: &HostState) -> Vec<PhaseSpan> {
    let last = |phase: HostPhase| spans.iter().rfind(|span| span.phase == phase).copied();
    let open = HostPhase::ALL.into_iter().filter(|phase| phase.is_in(state)).filter_map(last);
    open.filter(|span| span.ended.is_none()).collect()
}

fn registration(status: &HostJournalStatus) -> Option<PhaseSpan> {
    let register = OperationHistory::deserialize(&status.memory["history"]).ok()?.register;
    Some(PhaseSpan { phase: HostPhase::Registration, begun: register.start?, ended: register.end, failures: 0 })
}

fn of_timeline(phase: HostPhase, timeline: &[TimelineEvent]) -> Vec<PhaseSpan> {
    let marks = phase.marks();
    let (mut found, mut open): (Vec<PhaseSpan>, Option<PhaseSpan>) = (Vec::new(), None);
    for event in timeline {
        let is = |words: &[&str]| words.contains(&event.event.as_str());
        if is(marks.ends) {
            found.extend(open.take().map(|span| PhaseSpan { ended: Some(event.at), ..span }));
        }
        if is(marks.breaks_off) {
            open = None;
        }
        if is(marks.fails)
            && let Some(span) = &mut open
        {
            span.failures += 1;
        }
        // What begins again was not ended: the host was booted once more, for example.
        if is(marks.begins) {
            open = Some(PhaseSpan { phase, begun: event.at, ended: None, failures: 0 });
        }
    }
    found.extend(open);
    found
}

/// How long a phase usually takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypicalDuration {
    /// Counts the earlier ones that it is from.
    pub samples: usize,
    /// Half of them took no longer.
    pub median: SignedDuration,
    /// Nine of ten took no longer.
    pub p90: SignedDuration,
}

/// Says what is typical of these durations; `None` if they are fewer than [`TYPICAL_SAMPLES_MIN`]. Both figures are
/// durations that were measured: the smallest one that so many do not exceed.
#[must_use]
pub fn typical(mut durations: Vec<SignedDuration>) -> Option<TypicalDuration> {
    let samples = durations.len();
    if samples < TYPICAL_SAMPLES_MIN {
        return None;
    }
    durations.sort_unstable();
    let rank = |percent: usize| durations[(samples * percent).div_ceil(100).saturating_sub(1)];
    Some(TypicalDuration { samples, median: rank(50), p90: rank(90) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_facts::EventReason;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn timeline(events: &[(&str, i64)]) -> HostJournalStatus {
        let event = |(event, second): &(&str, i64)| TimelineEvent {
            at: at(*second),
            event: (*event).to_owned(),
            ..TimelineEvent::default()
        };
        HostJournalStatus { timeline: events.iter().map(event).collect(), ..HostJournalStatus::default() }
    }

    fn samples(status: &HostJournalStatus, phase: HostPhase) -> Vec<i64> {
        let spans = spans(status);
        spans
            .iter()
            .filter(|span| span.phase == phase)
            .filter_map(PhaseSpan::sample)
            .map(|took| took.as_secs())
            .collect()
    }

    #[test]
    fn phases_are_read_from_the_timeline() {
        let status = timeline(&[
            ("InspectionStarted", 0),
            ("NetBoot", 1),
            ("agent_hello", 61),
            ("InspectionComplete", 100),
            ("ProvisioningStarted", 200),
            ("NetBoot", 201),
            ("agent_hello", 251),
            ("write_start", 260),
            ("write_end", 300),
            ("ProvisioningComplete", 310),
            ("running", 400),
        ]);
        for (phase, expected) in [
            (HostPhase::Boot, &[60, 50][..]),
            (HostPhase::Inspection, &[100]),
            (HostPhase::Installation, &[110]),
            (HostPhase::Writing, &[40]),
            (HostPhase::FirstBoot, &[90]),
            (HostPhase::Cleaning, &[]),
        ] {
            assert_eq!(samples(&status, phase), expected, "{phase:?}");
        }
        assert_eq!(current(&spans(&status), &HostState::Provisioned), Vec::new());
    }

    #[test]
    fn what_failed_or_began_again_is_no_sample() {
        let status = timeline(&[
            ("InspectionStarted", 0),
            ("NetBoot", 1),
            ("InspectionError", 50),
            ("NetBoot", 60),
            ("agent_hello", 90),
            ("InspectionComplete", 100),
            ("CleaningStarted", 110),
            ("CleaningStopped", 120),
        ]);
        assert_eq!(samples(&status, HostPhase::Inspection), [0; 0]);
        assert_eq!(samples(&status, HostPhase::Boot), [30], "the second boot alone");
        assert_eq!(samples(&status, HostPhase::Cleaning), [0; 0]);
        assert_eq!(current(&spans(&status), &HostState::Preparing), Vec::new(), "it was stopped");
    }

    #[test]
    fn a_host_is_in_the_phases_of_its_state_that_have_not_ended() {
        let mut status =
            timeline(&[("ProvisioningStarted", 0), ("NetBoot", 5), ("agent_hello", 9), ("write_start", 10)]);
        let phases = |status: &HostJournalStatus, state: &HostState| {
            current(&spans(status), state).iter().map(|span| (span.phase, span.begun)).collect::<Vec<_>>()
        };
        let expected = [(HostPhase::Installation, at(0)), (HostPhase::Writing, at(10))];
        assert_eq!(phases(&status, &HostState::Provisioning), expected);
        assert_eq!(phases(&status, &HostState::Available), Vec::new());
        status.memory = json!({"history": {"register": {"start": at(0).to_string(), "end": null}}});
        assert_eq!(phases(&status, &HostState::Registering), [(HostPhase::Registration, at(0))]);
        status.memory = json!({"history": {"register": {"start": at(0).to_string(), "end": at(7).to_string()}}});
        assert_eq!(samples(&status, HostPhase::Registration), [7]);
    }

    #[test]
    fn typical_are_the_middle_and_what_nine_of_ten_do_not_exceed() {
        let seconds =
            |range: std::ops::RangeInclusive<i64>| range.rev().map(SignedDuration::from_secs).collect::<Vec<_>>();
        assert_eq!(typical(seconds(1..=4)), None, "too few");
        let found = typical(seconds(1..=10)).unwrap();
        assert_eq!((found.samples, found.median.as_secs(), found.p90.as_secs()), (10, 5, 9));
        let found = typical(seconds(1..=5)).unwrap();
        assert_eq!((found.median.as_secs(), found.p90.as_secs()), (3, 5));
        let found = typical(seconds(1..=101)).unwrap();
        assert_eq!((found.median.as_secs(), found.p90.as_secs()), (51, 91));
    }

    /// A word that no one writes any more would never end a phase.
    #[test]
    fn reasons_are_those_of_events() {
        let words = HostPhase::ALL.map(HostPhase::marks);
        let words = words.iter().flat_map(|marks| [marks.begins, marks.ends, marks.fails, marks.breaks_off].concat());
        for word in words.filter(|word| word.starts_with(char::is_uppercase)) {
            assert!(EventReason::ALL.iter().any(|reason| reason.word() == word), "{word}");
        }
    }
}
