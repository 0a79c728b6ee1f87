//! The notice board: how far the plan is, with its receipts, and the neighbours on the cables. The step and the
//! listener write, the reporter reads.
//!
//! Kept in memory, and in a file on the ramdisk's own tmpfs, so that a worker that takes over from
//! a dead one knows which plan was started, and can report how it ended.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use firesteel_lldp::{self as lldp, neighbours::Neighbours};
use firesteel_wire::{AgentPlan, Evidence, Neighbour, StepReceipt, StepReport, StepState, receipt::UptimeSpan};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Notices {
    pub plan: u32,
    pub steps: Vec<StepReport>,
    pub receipts: Vec<StepReceipt>,
    /// Uptime in milliseconds at which each step of the plan began.
    pub began: BTreeMap<u32, u64>,
}

#[derive(Debug)]
pub struct ReportBoard {
    notices: Mutex<Notices>,
    /// Appliance's Unix time minus uptime, in milliseconds.
    time_offset_ms: AtomicU64,
    file: Option<PathBuf>,
    /// Why the file does not hold what the notices say.
    unkept: Mutex<Option<String>>,
    /// The neighbours that this worker heard; a later worker hears them again.
    neighbours: Mutex<Neighbours>,
    news: Notify,
}

/// A later worker would not learn what this one began.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "what is done cannot be noted in the ramdisk ({0}), and a worker that takes over would do it again, so it is not \
     begun: boot the host again, and give it more memory if it happens again"
)]
pub struct UnsavedBoard(String);

impl ReportBoard {
    /// A board that goes on from what an earlier worker left in `file`, if anything.
    #[must_use]
    pub fn new(file: Option<PathBuf>) -> Self {
        let left = file.as_ref().and_then(|file| serde_json::from_slice(&fs::read(file).ok()?).ok());
        Self {
            notices: Mutex::new(left.unwrap_or_default()),
            time_offset_ms: AtomicU64::new(0),
            file,
            unkept: Mutex::default(),
            neighbours: Mutex::default(),
            news: Notify::new(),
        }
    }

    /// Whether the file holds all that a later worker must know; asked before a disk is changed.
    pub fn check_kept(&self) -> Result<(), UnsavedBoard> {
        match self.unkept.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            Some(why) => Err(UnsavedBoard(why)),
            None => Ok(()),
        }
    }

    /// Waits for a change that the appliance should hear of at once.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    #[must_use]
    pub fn read(&self) -> Notices {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Somebody spoke on the cable of this NIC.
    pub fn record_neighbour(&self, nic: &str, mac: &str, said: lldp::LldpNeighbour, uptime: Duration) {
        let news = self.neighbours.lock().unwrap_or_else(PoisonError::into_inner).record_frame(nic, mac, said, uptime);
        if let Some(news) = news {
            tracing::info!("{nic} is plugged into {news}");
            self.news.notify_one();
        }
    }

    /// Who was heard up to now, as a report has room for it.
    #[must_use]
    pub fn neighbours(&self) -> Vec<Neighbour> {
        self.neighbours.lock().unwrap_or_else(PoisonError::into_inner).neighbours()
    }

    /// Learns the appliance's time; receipts carry it whatever the host's own clock says.
    pub fn set_time(&self, unix_ms: u64, uptime: Duration) {
        self.time_offset_ms.store(unix_ms.saturating_sub(millis(uptime)), Ordering::Relaxed);
    }

    #[must_use]
    pub fn unix_ms(&self, uptime: Duration) -> u64 {
        self.time_offset_ms.load(Ordering::Relaxed).saturating_add(millis(uptime))
    }

    pub fn plan_started(&self, plan: &AgentPlan) {
        let steps = plan.steps.iter().zip(0..).map(|(step, index)| pending(index, step.name())).collect();
        self.change(true, |notices| {
            notices.plan = plan.number;
            notices.steps = steps;
            notices.began.clear();
        });
    }

    /// A plan that is not even begun: its first step failed.
    pub fn plan_rejected(&self, plan: &AgentPlan, why: &str, now_ms: u64) {
        let mut first = pending(0, plan.steps.first().map_or("plan", |step| step.name()));
        (first.started_ms, first.ended_ms) = (now_ms, now_ms);
        (first.state, first.error) = (StepState::Failed, why.to_owned());
        self.change(true, |notices| {
            notices.plan = plan.number;
            notices.steps = vec![first];
            notices.began.clear();
        });
    }

    pub fn step_started(&self, index: u32, uptime: Duration) {
        let now_ms = self.unix_ms(uptime);
        self.change(true, |notices| {
            let Some(step) = step_at(notices, index) else { return };
            step.state = StepState::Running;
            step.started_ms = now_ms;
            notices.began.insert(index, millis(uptime));
        });
    }

    /// Records that the disk changes from here on; recorded before it is true.
    pub fn disk_changes(&self, index: u32) {
        self.change_step(true, index, |step| step.disk_changed = true);
    }

    pub fn progress(&self, index: u32, activity: &str, done_bytes: u64, total_bytes: u64, bytes_per_second: u64) {
        self.change_step(false, index, |step| {
            if step.activity != activity {
                activity.clone_into(&mut step.activity);
            }
            (step.done_bytes, step.total_bytes) = (done_bytes, total_bytes);
            step.bytes_per_second = bytes_per_second;
        });
    }

    pub fn activity(&self, index: u32, activity: &str) {
        self.change_step(false, index, |step| activity.clone_into(&mut step.activity));
    }

    pub fn step_done(&self, index: u32, evidence: Evidence, uptime: Duration) {
        let now_ms = self.unix_ms(uptime);
        self.change(true, |notices| {
            let plan = notices.plan;
            let span = notices.began.get(&index).map(|began| UptimeSpan { began_ms: *began, ended_ms: millis(uptime) });
            let Some(step) = step_at(notices, index) else { return };
            step.state = StepState::Done;
            step.ended_ms = now_ms;
            step.activity.clear();
            step.bytes_per_second = 0;
            let (name, started_ms) = (step.step.clone(), step.started_ms);
            notices.receipts.push(StepReceipt {
                plan,
                index,
                step: name,
                started_ms,
                ended_ms: now_ms,
                span,
                evidence,
            });
        });
    }

    pub fn step_failed(&self, index: u32, error: &str, disk_changed: bool, now_ms: u64) {
        self.change_step(true, index, |step| {
            step.state = StepState::Failed;
            step.ended_ms = now_ms;
            step.bytes_per_second = 0;
            error.clone_into(&mut step.error);
            step.disk_changed |= disk_changed;
        });
    }

    /// Ends what a dead worker left running; says whether there was something.
    pub fn fail_interrupted(&self, error: &str, now_ms: u64) -> bool {
        let steps = self.read().steps;
        let in_state = |state: StepState| steps.iter().filter(move |step| step.state == state).map(|step| step.index);
        // Several may have run at once.
        let mut left: Vec<u32> = in_state(StepState::Running).collect();
        if left.is_empty() && in_state(StepState::Failed).next().is_none() {
            // It died between two steps: the next one will not come either.
            left.extend(in_state(StepState::Pending).next());
        }
        left.iter().for_each(|index| self.step_failed(*index, error, false, now_ms));
        !left.is_empty()
    }

    fn change_step(&self, keep: bool, index: u32, change: impl FnOnce(&mut StepReport)) {
        self.change(keep, |notices| {
            if let Some(step) = step_at(notices, index) {
                change(step);
            }
        });
    }

    fn change(&self, keep: bool, change: impl FnOnce(&mut Notices)) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut notices);
        if keep {
            let kept = self.keep(&notices).map_err(|error| error.to_string());
            if let Err(error) = &kept {
                tracing::warn!("the plan's progress could not be kept for a later worker: {error}");
            }
            *self.unkept.lock().unwrap_or_else(PoisonError::into_inner) = kept.err();
            self.news.notify_one();
        }
    }

    fn keep(&self, notices: &Notices) -> std::io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let new = file.with_extension("new");
        let mut opened = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        opened.write_all(&serde_json::to_vec(notices)?)?;
        fs::rename(new, file)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn pending(index: u32, name: &str) -> StepReport {
    StepReport {
        index,
        step: name.to_owned(),
        state: StepState::Pending,
        activity: String::new(),
        done_bytes: 0,
        total_bytes: 0,
        bytes_per_second: 0,
        started_ms: 0,
        ended_ms: 0,
        error: String::new(),
        disk_changed: false,
    }
}

fn step_at(notices: &mut Notices, index: u32) -> Option<&mut StepReport> {
    notices.steps.get_mut(usize::try_from(index).ok()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_wire::PlanStep;

    use super::*;

    fn plan() -> AgentPlan {
        AgentPlan { number: 4, attempt: 1, steps: vec![PlanStep::Inspect, PlanStep::Reboot] }
    }

    #[test]
    fn a_later_worker_learns_what_was_going_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("board.json");
        let board = ReportBoard::new(Some(file.clone()));
        board.set_time(1_000_000, Duration::from_secs(10));
        board.plan_started(&plan());
        board.step_started(0, Duration::from_secs(11));
        board.disk_changes(0);
        drop(board);
        let later = ReportBoard::new(Some(file));
        assert!(later.fail_interrupted("the worker died", 1_002_000));
        let notices = later.read();
        assert_eq!((notices.plan, notices.steps[0].state), (4, StepState::Failed));
        assert_eq!((notices.steps[0].started_ms, notices.steps[0].disk_changed), (1_001_000, true));
        assert!(!later.fail_interrupted("again", 0), "a plan fails once");
    }

    #[test]
    fn all_steps_that_ran_at_once_fail_with_their_worker() {
        let board = ReportBoard::new(None);
        board.plan_started(&AgentPlan {
            number: 4,
            attempt: 1,
            steps: vec![PlanStep::Inspect, PlanStep::Inspect, PlanStep::Reboot],
        });
        board.step_started(0, Duration::from_millis(1));
        board.step_started(1, Duration::from_millis(1));
        assert!(board.fail_interrupted("died", 3));
        let states: Vec<_> = board.read().steps.iter().map(|step| step.state).collect();
        assert_eq!(states, [StepState::Failed, StepState::Failed, StepState::Pending]);
        assert!(!board.fail_interrupted("again", 4));
    }

    #[test]
    fn a_worker_that_dies_between_steps_fails_the_next() {
        let board = ReportBoard::new(None);
        assert!(!board.fail_interrupted("nothing was running", 0));
        board.plan_started(&plan());
        board.step_started(0, Duration::from_millis(1));
        board.step_done(0, Evidence::Leaving { how: "x".into() }, Duration::from_millis(2));
        let receipt = board.read().receipts[0].clone();
        assert_eq!((receipt.plan, receipt.span), (4, Some(UptimeSpan { began_ms: 1, ended_ms: 2 })));
        assert!(board.fail_interrupted("died", 3));
        assert_eq!(board.read().steps[1].state, StepState::Failed);
    }
}
