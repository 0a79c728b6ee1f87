//! What a report says that the one before did not, into the journal. Pure.

use firesteel_plan::journal;
use firesteel_resources::hardware::{changes::changes, neighbour::NicNeighbour as Spoken};
use firesteel_resources::host_journal::{HostJournalStatus, JournalProgress, ReceiptRecord, TimelineEvent};
use firesteel_runtime::event;
use firesteel_wire::{AgentReport, Evidence, StepReceipt, StepReport, StepState, limits};
use jiff::Timestamp;
use serde_json::Value;

use crate::{map, receipts, step_speed::percent};

/// The most bytes of one receipt's evidence as JSON, the inventory apart. What agents send has less than a tenth of it.
pub(crate) const EVIDENCE_BYTES_MAX: usize = 16 << 10;
/// Stands in the place of evidence that has more.
const TOO_LARGE: &str = "too_large";

/// What a report says that the one before did not.
#[derive(Debug, Default)]
pub(crate) struct ReportChanges {
    attempt: u64,
    sequence: u64,
    /// When it was heard.
    at: Timestamp,
    events: Vec<TimelineEvent>,
    receipts: Vec<(StepReceipt, Timestamp)>,
    spoken: Vec<Spoken>,
    /// The running step; none runs where this is empty.
    pub(crate) progress: Option<JournalProgress>,
    left: bool,
}

impl ReportChanges {
    pub(crate) fn between(before: Option<&AgentReport>, report: &AgentReport, attempt: u64, now: Timestamp) -> Self {
        let mut changes = Self { attempt, sequence: report.sequence, at: now, left: report.leaving, ..Self::default() };
        let same_plan = before.filter(|before| before.plan == report.plan);
        for step in report.steps.iter().take(limits::STEPS_MAX) {
            let old = same_plan.and_then(|before| before.steps.iter().find(|old| old.index == step.index));
            changes.step(old, step, written_bytes(report, step), now);
        }
        // Of disks that are erased at once the one that must not lose its power is shown, also after a restart.
        let running = || report.steps.iter().filter(|step| step.state == StepState::Running);
        let told = running().find(|step| firesteel_wire::erasure::cannot_stop(&step.activity)).or(running().next());
        changes.progress = told.map(|step| progress(step, report.plan, attempt, now));
        // By name and not by count: a host that leaves one out must not hide another behind it.
        let place = |receipt: &StepReceipt| (receipt.plan, receipt.index);
        let is_known = |receipt: &&StepReceipt| {
            before.is_some_and(|before| before.receipts.iter().any(|old| place(old) == place(receipt)))
        };
        let new = report.receipts.iter().filter(|receipt| !is_known(receipt));
        changes.receipts = new.map(|receipt| (receipt.clone(), now)).collect();
        changes.spoken = map::neighbours(&report.neighbours, attempt);
        if report.leaving && !before.is_some_and(|before| before.leaving) {
            changes.events.push(event(now, attempt, "leaving", "the agent leaves the ramdisk"));
        }
        changes
    }

    fn step(&mut self, old: Option<&StepReport>, step: &StepReport, bytes: u64, now: Timestamp) {
        let state = old.map_or(StepState::Pending, |old| old.state);
        let (start, end) = names(&step.step);
        let at = |milliseconds: u64| match i64::try_from(milliseconds).ok().filter(|ms| *ms > 0) {
            Some(ms) => Timestamp::from_millisecond(ms).map_or(now, |at| at.min(now)),
            None => now,
        };
        let mut push = |name: &str, at: Timestamp, detail: String, bytes: u64| {
            if name.is_empty() {
                return;
            }
            let bytes = Some(bytes).filter(|bytes| *bytes > 0);
            self.events.push(TimelineEvent { bytes, ..event(at, self.attempt, name, detail) });
        };
        if state == StepState::Pending && step.state != StepState::Pending {
            push(start, at(step.started_ms), String::new(), 0);
        }
        if state != step.state {
            match step.state {
                StepState::Done => push(end, at(step.ended_ms), String::new(), bytes),
                StepState::Failed => {
                    push(
                        "step_failed",
                        at(step.ended_ms),
                        format!("{}: {}", map::field(&step.step), map::line(&step.error)),
                        0,
                    );
                }
                StepState::Pending | StepState::Running => {}
            }
        }
    }

    /// Whether the journal lacks anything of this.
    pub(crate) fn are_news_to(&self, status: &HostJournalStatus) -> bool {
        if self.new_receipts(status).next().is_some() || (self.left && !has_left(status)) {
            return true;
        }
        let is_heard = || status.hardware.as_ref().is_some_and(|hardware| hardware.is_news(&self.spoken));
        !self.is_overtaken(status) && (is_heard() || self.moves(status) || self.new_events(status).next().is_some())
    }

    /// A later report was stored: what this one says about the work is over. Its receipts still count.
    fn is_overtaken(&self, status: &HostJournalStatus) -> bool {
        status.agent.as_ref().is_some_and(|agent| agent.attempt == self.attempt && agent.sequence > self.sequence)
    }

    /// The progress that is shown is another one. Its time alone is no news.
    fn moves(&self, status: &HostJournalStatus) -> bool {
        match (&status.progress, &self.progress) {
            (Some(old), Some(new)) => *old != JournalProgress { at: old.at, ..new.clone() },
            (old, new) => old.is_some() != new.is_some(),
        }
    }

    fn new_events<'a>(&'a self, status: &'a HostJournalStatus) -> impl Iterator<Item = &'a TimelineEvent> {
        self.events.iter().filter(|event| {
            let same =
                |old: &TimelineEvent| (old.attempt, &old.event, old.at) == (event.attempt, &event.event, event.at);
            !(event.event == "leaving" && has_left(status) || status.timeline.iter().any(same))
        })
    }

    pub(crate) fn new_receipts<'a>(
        &'a self,
        status: &'a HostJournalStatus,
    ) -> impl Iterator<Item = &'a (StepReceipt, Timestamp)> {
        self.receipts.iter().filter(|(receipt, _)| {
            let place = (self.attempt, receipt.plan, receipt.index);
            !status.receipts.iter().any(|kept| (kept.attempt, kept.plan, kept.index) == place)
        })
    }

    pub(crate) fn apply(&self, status: &mut HostJournalStatus, key: &ring::signature::Ed25519KeyPair) {
        let receipts: Vec<_> = self.new_receipts(status).cloned().collect();
        let mut lost = Vec::new();
        for (receipt, now) in &receipts {
            if let Evidence::Inspected { inventory } = &receipt.evidence {
                let newer =
                    status.hardware.as_ref().is_none_or(|old| (old.attempt, old.plan) < (self.attempt, receipt.plan));
                if newer {
                    let timeline = journal::timeline(status);
                    let mut record = map::hardware_record(inventory, self.attempt, receipt.plan, timeline, *now);
                    if let Some(old) = &status.hardware {
                        record.changes = changes(old, &record);
                        record.keep_neighbours(old);
                    }
                    status.hardware = Some(record);
                }
            }
            let record = record(receipt, self.attempt, *now);
            if record.evidence["kind"] == TOO_LARGE {
                let (step, bytes) = (&record.step, &record.evidence["bytes"]);
                let detail = format!("the evidence of {step} has {bytes} bytes, and none of it is kept");
                tracing::warn!(attempt = self.attempt, plan = receipt.plan, index = receipt.index, "{detail}");
                status.note(event(*now, self.attempt, "evidence_refused", detail));
            }
            lost.extend(status.keep(receipts::sign(key, record)));
        }
        if let Some((_, now)) = receipts.last().filter(|_| !lost.is_empty()) {
            let detail = lost_receipts_text(&lost);
            tracing::warn!(attempt = self.attempt, "{detail}");
            status.note(event(*now, self.attempt, "evidence_dropped", detail));
        }
        if !self.is_overtaken(status) {
            if let Some(hardware) = &mut status.hardware {
                hardware.merge_neighbours(&self.spoken);
            }
            let events: Vec<_> = self.new_events(status).cloned().collect();
            events.into_iter().for_each(|event| status.note(event));
            if self.moves(status) {
                status.progress.clone_from(&self.progress);
            }
        }
        if let Some(agent) = status.agent.as_mut().filter(|agent| agent.attempt == self.attempt) {
            if self.left && !agent.left {
                (agent.left, agent.left_at) = (true, Some(self.at));
            }
            agent.sequence = agent.sequence.max(self.sequence);
        }
    }
}

/// Describes evidence for which the journal has no room.
fn lost_receipts_text(lost: &[ReceiptRecord]) -> String {
    let each: Vec<String> = lost
        .iter()
        .map(|lost| {
            let device = lost.evidence["device"].as_str().map(map::field).unwrap_or_default();
            format!("{} {} of plan {} ({device})", lost.step, lost.index, lost.plan)
        })
        .collect();
    format!("this boot brought more evidence than is kept: not kept any more is that of {}", each.join(", "))
}

/// Describes signed receipts that made room for new ones.
pub(crate) fn dropped(names: &[String], status: &HostJournalStatus) -> String {
    let (count, kept) = (names.len(), status.signed.len());
    let first = names.first().map(String::as_str).unwrap_or_default();
    format!("{count} signed receipts, the oldest {first}, made room for newer ones: this host keeps its last {kept}")
}

fn has_left(status: &HostJournalStatus) -> bool {
    status.agent.as_ref().is_some_and(|agent| agent.left)
}

/// How much a finished step wrote, by its receipt; what it reported last where no receipt says so.
fn written_bytes(report: &AgentReport, step: &StepReport) -> u64 {
    let receipt = report.receipts.iter().find(|receipt| (receipt.plan, receipt.index) == (report.plan, step.index));
    match receipt.map(|receipt| &receipt.evidence) {
        Some(Evidence::ImageWritten { written_bytes, .. }) => *written_bytes,
        Some(Evidence::MetadataCleared { verified_bytes, .. }) => *verified_bytes,
        Some(Evidence::DiskErased(erasure)) => erasure.disk.size_bytes,
        Some(_) => 0,
        None => step.done_bytes,
    }
}

/// The names of a step's start and end in the timeline.
fn names(step: &str) -> (&'static str, &'static str) {
    match step {
        // The leave is one event, when the agent says goodbye.
        "reboot" | "power-off" => ("", ""),
        "inspect" => ("inspect_start", "inspect_end"),
        "clear-metadata" => ("clear_start", "clear_end"),
        "erase-disk" => ("erase_start", "erase_end"),
        "write-image" => ("write_start", "write_end"),
        "hand-off" => ("handoff_start", "handoff"),
        "set-boot-entry" => ("boot_entry_start", "boot_entry"),
        _ => ("step_start", "step_end"),
    }
}

fn progress(step: &StepReport, plan: u32, attempt: u64, now: Timestamp) -> JournalProgress {
    JournalProgress {
        attempt,
        plan,
        step: map::field(&step.step),
        activity: map::field(&step.activity),
        done_bytes: step.done_bytes,
        total_bytes: step.total_bytes,
        percent: percent(step),
        at: now,
        ..JournalProgress::default()
    }
}

/// The inventory of an inspection is kept once, as the host's hardware; its receipt names it.
fn record(receipt: &StepReceipt, attempt: u64, now: Timestamp) -> ReceiptRecord {
    let at = |milliseconds: u64| {
        i64::try_from(milliseconds).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or(now)
    };
    let mut evidence = receipt_json(receipt);
    let bytes = bytes_of(&evidence);
    if bytes > EVIDENCE_BYTES_MAX {
        // That it was brought is known, so that it is not brought again; it proves nothing.
        evidence = serde_json::json!({ "kind": TOO_LARGE, "bytes": bytes });
    }
    ReceiptRecord {
        attempt,
        plan: receipt.plan,
        index: receipt.index,
        step: map::field(&receipt.step),
        started_at: at(receipt.started_ms),
        ended_at: at(receipt.ended_ms),
        began_uptime_ms: receipt.span.map(|span| span.began_ms),
        ended_uptime_ms: receipt.span.map(|span| span.ended_ms),
        evidence,
        signature: String::new(),
    }
}

/// Evidence as it is kept: an inventory is named by its sum alone.
pub(crate) fn receipt_json(receipt: &StepReceipt) -> Value {
    let mut evidence = serde_json::to_value(&receipt.evidence).unwrap_or_default();
    if let Some(map) = evidence.as_object_mut()
        && let Some(inventory) = map.remove("inventory")
    {
        let digest = ring::digest::digest(&ring::digest::SHA256, inventory.to_string().as_bytes());
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        map.insert("inventory_sha256".to_owned(), hex.into());
    }
    evidence
}

pub(crate) fn bytes_of(evidence: &Value) -> usize {
    evidence.to_string().len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_resources::hardware::{HardwareRecord, NicRecord};
    use firesteel_wire::{Neighbour, PublicKey};

    use super::*;
    use crate::binding::bind;
    use crate::binding::examples::{facts, hello, journal};

    fn report(plan: u32, state: StepState, done_bytes: u64, leaving: bool) -> AgentReport {
        AgentReport {
            token: "t".into(),
            key: PublicKey([1; 32]),
            boot_id: "b".into(),
            sequence: 1,
            uptime_ms: 1,
            plan,
            steps: vec![StepReport {
                index: 0,
                step: "write-image".into(),
                state,
                activity: "writing".into(),
                done_bytes,
                total_bytes: 200,
                bytes_per_second: 0,
                started_ms: 5,
                ended_ms: 9,
                error: String::new(),
                disk_changed: true,
            }],
            receipts: Vec::new(),
            neighbours: Vec::new(),
            idle: false,
            leaving,
            log: Vec::new(),
        }
    }

    /// Receipts were compared by their count: one that replaced a hidden one was acknowledged and not kept.
    #[test]
    fn a_receipt_that_was_left_out_hides_no_other() {
        let receipt = |index| StepReceipt {
            plan: 1,
            index,
            step: "clear-metadata".into(),
            started_ms: 1,
            ended_ms: 2,
            span: None,
            evidence: Evidence::Leaving { how: String::new() },
        };
        let with = |indices: &[u32]| AgentReport {
            receipts: indices.iter().map(|index| receipt(*index)).collect(),
            ..report(1, StepState::Done, 0, false)
        };
        let changes = ReportChanges::between(Some(&with(&[0, 1])), &with(&[0, 2]), 1, Timestamp::UNIX_EPOCH);
        let new: Vec<u32> = changes.receipts.iter().map(|(receipt, _)| receipt.index).collect();
        assert_eq!(new, [2]);
    }

    /// A hundred receipts of a MiB each were an object that the store does not take: nothing of the host was stored
    /// any more.
    #[test]
    fn an_agent_cannot_fill_its_hosts_journal() {
        let key = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let now = Timestamp::from_second(1).unwrap();
        let mut status = journal(1);
        bind(&mut status, 1, &hello(1), &facts(now));
        for index in 0..150 {
            let how = "x".repeat(if index % 2 == 0 { 1 << 20 } else { 15 << 10 });
            let receipt = StepReceipt {
                plan: 1,
                index,
                step: "y".repeat(1 << 16),
                started_ms: 1,
                ended_ms: 2,
                span: None,
                evidence: Evidence::Leaving { how },
            };
            let mut report = AgentReport { receipts: vec![receipt], ..report(1, StepState::Failed, 0, false) };
            report.steps[0].error = "ü".repeat(1 << 20);
            report.steps[0].started_ms = u64::from(index) + 1;
            report.steps[0].ended_ms = u64::from(index) + 1;
            ReportChanges::between(None, &report, 1, now).apply(&mut status, &key);
        }
        let bytes = serde_json::to_string(&status).unwrap().len();
        assert!(bytes < 2 << 20, "{bytes}");
        let refused = status.timeline.iter().filter(|event| event.event == "evidence_refused");
        assert!(refused.count() > 50, "and it is told");
        let last = status.receipts.last().unwrap();
        assert_eq!(last.evidence["how"].as_str().map(str::len), Some(15 << 10), "what is no more is kept whole");
        assert_eq!(status.receipts[status.receipts.len() - 2].evidence["kind"], TOO_LARGE);
    }

    #[test]
    fn evidence_of_disks_that_does_not_fit_is_told_of() {
        let key = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let now = Timestamp::from_second(1).unwrap();
        let mut status = journal(1);
        bind(&mut status, 1, &hello(1), &facts(now));
        let receipt = |index: u32| StepReceipt {
            plan: 2,
            index,
            step: "erase-disk".into(),
            started_ms: 1,
            ended_ms: 2,
            span: None,
            evidence: Evidence::MetadataCleared {
                disk: firesteel_wire::DiskIdentity { serial: index.to_string(), ..Default::default() },
                device: format!("/dev/sd{index}"),
                cleared: Vec::new(),
                verified_bytes: 1,
                overridden: vec!["x".repeat(15 << 10)],
            },
        };
        for plan in 0..70 {
            let report = AgentReport { receipts: vec![receipt(plan)], ..report(2, StepState::Running, 1, false) };
            ReportChanges::between(None, &report, 1, now).apply(&mut status, &key);
        }
        let told: Vec<&TimelineEvent> =
            status.timeline.iter().filter(|event| event.event == "evidence_dropped").collect();
        assert_eq!(told.len() + status.receipts.len(), 70, "none went without a word");
        assert!(told[0].detail.ends_with("that of erase-disk 0 of plan 2 (/dev/sd0)"), "{}", told[0].detail);
    }

    /// A report that came late took the progress back, and began steps again that had ended.
    #[test]
    fn a_report_that_was_overtaken_changes_nothing_but_its_receipts() {
        let key = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let now = Timestamp::from_second(1).unwrap();
        let mut status = journal(1);
        bind(&mut status, 1, &hello(1), &facts(now));
        let early = AgentReport {
            receipts: vec![StepReceipt {
                plan: 1,
                index: 0,
                step: "inspect".into(),
                started_ms: 1,
                ended_ms: 2,
                span: None,
                evidence: Evidence::Leaving { how: String::new() },
            }],
            ..report(2, StepState::Running, 50, false)
        };
        let late = AgentReport { sequence: 2, ..report(2, StepState::Running, 150, false) };
        let changes = ReportChanges::between(None, &late, 1, now);
        assert!(changes.are_news_to(&status));
        changes.apply(&mut status, &key);
        assert!(!changes.are_news_to(&status), "said twice is stored once");
        let (progress, timeline) = (status.progress.clone(), status.timeline.clone());
        // The appliance restarted in between: no view remembers that the first was overtaken.
        ReportChanges::between(None, &early, 1, now).apply(&mut status, &key);
        assert_eq!((&status.progress, &status.timeline), (&progress, &timeline));
        assert_eq!(status.receipts.len(), 1, "evidence is never thrown away");
        assert!(!ReportChanges::between(None, &early, 1, now).are_news_to(&status));
        let next = AgentReport { sequence: 3, ..report(2, StepState::Running, 160, false) };
        assert!(ReportChanges::between(Some(&late), &next, 1, now).are_news_to(&status));
    }

    /// What moves is stored with the report that says so, and the agent reports more often than that.
    #[test]
    fn what_comes_on_is_told_at_least_each_ten_seconds() {
        const { assert!(limits::REPORT_INTERVAL.as_secs() * 2 <= 10) };
        let key = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        for (step, activity) in [("erase-disk", "overwrite"), ("write-image", "writing")] {
            let mut status = journal(1);
            bind(&mut status, 1, &hello(1), &facts(Timestamp::UNIX_EPOCH));
            let mut last: Option<AgentReport> = None;
            for second in (2..=180).step_by(2) {
                let now = Timestamp::from_second(second).unwrap();
                let sequence = second.cast_unsigned();
                let mut report = AgentReport { sequence, ..report(2, StepState::Running, sequence, false) };
                (report.steps[0].step, report.steps[0].activity) = (step.into(), activity.into());
                let changes = ReportChanges::between(last.as_ref(), &report, 1, now);
                assert!(changes.are_news_to(&status), "{step} {second}");
                changes.apply(&mut status, &key);
                let told = status.progress.as_ref().unwrap();
                assert_eq!((told.step.as_str(), told.activity.as_str()), (step, activity));
                assert_eq!((told.at, told.done_bytes), (now, sequence));
                assert_eq!(u64::from(told.percent), sequence * 100 / 200);
                last = Some(report);
            }
        }
    }

    #[test]
    fn a_switch_is_news_once_and_a_report_that_was_overtaken_takes_none_back() {
        let key = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let now = Timestamp::from_second(1).unwrap();
        let mut status = journal(1);
        bind(&mut status, 1, &hello(1), &facts(now));
        let nic = NicRecord { mac: "a".into(), ..NicRecord::default() };
        status.hardware = Some(HardwareRecord { nics: vec![nic], attempt: 1, ..HardwareRecord::default() });
        let spoke = |sequence, port: &str| {
            let neighbour = Neighbour { mac: "a".into(), port_id: port.into(), ..Neighbour::default() };
            let report =
                AgentReport { sequence, neighbours: vec![neighbour], ..report(1, StepState::Running, 0, false) };
            ReportChanges::between(None, &report, 1, now)
        };
        let first = spoke(1, "1");
        assert!(first.are_news_to(&status));
        first.apply(&mut status, &key);
        assert!(!first.are_news_to(&status));
        spoke(3, "2").apply(&mut status, &key);
        spoke(2, "1").apply(&mut status, &key);
        let hardware = status.hardware.unwrap();
        assert_eq!(hardware.nics[0].neighbour.as_ref().map(|one| one.port_id.as_str()), Some("2"));
        assert_eq!(hardware.changes.len(), 1, "{:?}", hardware.changes);
    }

    #[test]
    fn of_steps_that_run_at_once_the_one_that_cannot_be_interrupted_is_stored() {
        let mut running = report(2, StepState::Running, 100, false);
        let mut drive = running.steps[0].clone();
        (drive.index, drive.activity) = (drive.index + 1, "secure-erase for 5 min".to_owned());
        running.steps.push(drive);
        let changes = ReportChanges::between(None, &running, 1, Timestamp::UNIX_EPOCH);
        assert_eq!(changes.progress.unwrap().activity, "secure-erase for 5 min");
    }

    #[test]
    fn the_timeline_has_each_start_and_end_once_also_after_a_restart() {
        let key = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let now = Timestamp::from_second(1).unwrap();
        let mut status = journal(1);
        let running = report(2, StepState::Running, 100, false);
        let done = report(2, StepState::Done, 200, true);
        ReportChanges::between(None, &running, 1, now).apply(&mut status, &key);
        assert_eq!(status.progress.as_ref().unwrap().percent, 50);
        ReportChanges::between(Some(&running), &running, 1, now).apply(&mut status, &key);
        ReportChanges::between(Some(&running), &done, 1, now).apply(&mut status, &key);
        // The appliance restarted: it has seen no report before.
        ReportChanges::between(None, &done, 1, now).apply(&mut status, &key);
        let names: Vec<&str> = status.timeline.iter().map(|event| event.event.as_str()).collect();
        assert_eq!(names.iter().filter(|name| **name == "write_start").count(), 1, "{names:?}");
        assert_eq!(names.iter().filter(|name| **name == "write_end").count(), 1, "{names:?}");
        assert!(status.progress.is_none());
    }
}
