//! The boot image policy: which sets are kept at the golden image of their stream (S1-3.1, S1-3.2).
//!
//! ```text
//! MachineConfiguration "cluster" ──┐
//! streams (catalogue), stubs ──────┤                    ┌─► MachineConfiguration.status: setting in force, skew, names
//! HostGroups, MachineSets ─────────┼─► ring ─► pass ────┤      of what is left alone, conditions, memory
//! architectures of hosts, upgrade ─┘     plan::policy   └─► status.golden of groups, the image in a template, its stub
//!                                        plan::skew
//! ```
//!
//! A pass ([`pass`]) reads all of it again, decides, stores the status with the memory of writes and failures, and only
//! then changes sets: a process that dies in between counts a write too many, never one too few. The object is made
//! where there is none: its status is where people read what is managed.
//!
//! What triggers a pass is rung in [`PolicyController`]; the first trigger since the last pass is the conditions'
//! reason.

mod follow;
mod pass;
mod persisted_policy;
mod sets;
mod status;
pub(crate) mod stubs;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use firesteel_plan::policy::{PolicyStep, SetDecision, Trigger};
use firesteel_plan::skew::Upgradeable;
use firesteel_runtime::{ControllerError, lock};
use tokio::sync::Notify;

use crate::RolloutController;

/// The time from a change to the pass: what is applied together is one pass.
const SETTLE: Duration = Duration::from_millis(100);
/// The time from a pass in which the store failed to the next one, and between looks at what no event announces.
const AGAIN: Duration = Duration::from_secs(5);

/// What makes a pass due.
#[derive(Debug, Default)]
pub(crate) struct PolicyController {
    state: Mutex<PolicyWatchState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct PolicyWatchState {
    /// The first since the last pass.
    trigger: Option<Trigger>,
    /// Secrets that were looked at since the newest pass began: namespace and name.
    secrets: BTreeSet<(String, String)>,
    /// Those of earlier passes, until the newest one has come by all of its own.
    before: BTreeSet<(String, String)>,
    /// Sets by what the last pass decided.
    sets: BTreeMap<&'static str, u64>,
    new_enough: Option<bool>,
}

impl PolicyController {
    fn lock(&self) -> MutexGuard<'_, PolicyWatchState> {
        lock(&self.state)
    }

    /// Something changed that the policy looks at.
    pub(crate) fn ring(&self, trigger: Trigger) {
        self.lock().trigger.get_or_insert(trigger);
        self.changed.notify_one();
    }

    /// Whether a stub of a set is in this Secret.
    pub(crate) fn follows_secret(&self, namespace: &str, name: &str) -> bool {
        let (state, secret) = (self.lock(), (namespace.to_owned(), name.to_owned()));
        state.secrets.contains(&secret) || state.before.contains(&secret)
    }

    /// Follows a Secret from before it is read: a change that comes between is heard, also that it is made.
    fn follow_secret(&self, namespace: &str, name: &str) {
        self.lock().secrets.insert((namespace.to_owned(), name.to_owned()));
    }

    /// A pass begins to look at all Secrets that matter.
    fn begin(&self) {
        let mut state = self.lock();
        let known = std::mem::take(&mut state.secrets);
        state.before.extend(known);
    }

    /// It has looked at all of them; what it did not come by is of sets that are gone.
    fn end(&self) {
        self.lock().before.clear();
    }

    /// Notes what a pass found, for the survey.
    fn publish_result(&self, decided: &PolicyStep, upgradeable: &Upgradeable) {
        let mut sets = BTreeMap::new();
        for decision in decided.decisions.values() {
            let word = match decision {
                SetDecision::NotSelected => continue,
                SetDecision::Done => "done",
                SetDecision::Patch { .. } | SetDecision::Wait(_) => "waiting",
                SetDecision::Skip(_) => "skipped",
                SetDecision::Degraded(_) => "degraded",
            };
            *sets.entry(word).or_default() += 1;
        }
        let mut state = self.lock();
        state.sets = sets;
        state.new_enough = match upgradeable {
            Upgradeable::NotChecked(_) => None,
            Upgradeable::Yes(_) => Some(true),
            Upgradeable::No(_) => Some(false),
        };
    }

    /// Sets by what became of them, and whether their images are new enough for an upgrade, as far as something checks
    /// that.
    pub(crate) fn latest_result(&self) -> (BTreeMap<&'static str, u64>, Option<bool>) {
        let state = self.lock();
        (state.sets.clone(), state.new_enough)
    }
}

impl RolloutController {
    pub(crate) async fn run_policy(self) -> Result<(), ControllerError> {
        // A fleet that is half known would seem to be of one architecture.
        self.handles().hosts.hosts_read().await;
        self.config().index.read().await;
        self.inner.policy.ring(Trigger::Started);
        let mut keeper = pass::PolicyReconciler::new(self.clone());
        let mut wake: Option<Duration> = None;
        loop {
            let trigger = self.next_trigger(wake).await;
            let delay = match keeper.pass(trigger).await {
                Ok(delay) => delay,
                Err(status) => {
                    // What rang is still to be looked at.
                    self.inner.policy.ring(trigger);
                    if status.is_conflict() {
                        Some(Duration::ZERO)
                    } else {
                        tracing::warn!(error = %status.message, "could not look at the boot images of sets; it is tried again in five seconds");
                        self.handles().sleep(AGAIN).await;
                        None
                    }
                }
            };
            wake = delay.map(|delay| self.handles().runtime.uptime() + delay);
        }
    }

    /// Waits until something rings, or for the time of the next look.
    async fn next_trigger(&self, wake: Option<Duration>) -> Trigger {
        let (policy, runtime) = (&self.inner.policy, &self.handles().runtime);
        loop {
            let changed = policy.changed.notified();
            if policy.lock().trigger.is_some() {
                break;
            }
            match wake {
                Some(at) if at <= runtime.uptime() => break,
                Some(at) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = runtime.sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
        self.handles().sleep(SETTLE).await;
        policy.lock().trigger.take().unwrap_or(Trigger::Retried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_trigger_is_told_and_each_pass_takes_it() {
        let policy = PolicyController::default();
        let take = || policy.lock().trigger.take();
        assert_eq!(take(), None);
        policy.ring(Trigger::CatalogueChanged);
        policy.ring(Trigger::GroupChanged);
        assert_eq!((take(), take()), (Some(Trigger::CatalogueChanged), None));
        policy.follow_secret("a", "b");
        assert!(policy.follows_secret("a", "b") && !policy.follows_secret("b", "a"));
        policy.begin();
        policy.follow_secret("b", "c");
        assert!(policy.follows_secret("a", "b"), "until the pass has come by all");
        policy.end();
        assert!(!policy.follows_secret("a", "b") && policy.follows_secret("b", "c"));
    }
}
