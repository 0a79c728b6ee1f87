//! Why the newest step of a host found that its disks may not be changed.

use firesteel_plan::host::{contest, gate, progress_outlook};
use firesteel_plan::{HostInputs, HostMemory};

use crate::views::LiveHost;

impl LiveHost {
    /// Shuts and opens what the agent may do, as a step that saw this left it. A claim that the step did not see yet
    /// holds until one has.
    pub(crate) fn take_gate(&mut self, memory: &HostMemory, seen: &HostInputs, shut: Option<String>) {
        let is_in = |key: &String| {
            seen.claim.as_ref().is_some_and(|record| record.others.iter().any(|other| other.key == *key))
        };
        self.unseen_claimant = self.unseen_claimant.take().filter(|key| !is_in(key));
        let is_unseen = self.unseen_claimant.is_some();
        self.is_claimed = is_unseen || contest(memory, seen).is_some();
        let is_held = is_unseen || gate::holds_back(seen, memory);
        self.agent.hold(is_held || progress_outlook::is_set_aside(memory, seen));
        if self.shut != shut && !(is_unseen && shut.is_none()) {
            self.shut = shut;
            self.agent.changed.notify_waiters();
        }
    }
}
