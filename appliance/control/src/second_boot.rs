//! Whether a request for a boot script is another boot of a host whose agent has said hello.
//!
//! ```text
//!   asked, and the attempt's agent is bound
//!     ├─ the asker may not be the host ──────► Mismatch: nothing changes
//!     ├─ the agent may still be at work ─────► Live: nothing changes, the asker waits and asks again
//!     └─ it left, or was silent for a minute ► Spent: the planner opens the next attempt before the answer
//! ```
//!
//! So it is where no agent is bound and a hello of the attempt did not count, or where the host was switched off and on
//! for this attempt and asks for its script once more: the boot came to nothing, so the disk may have been next. Where
//! any address will do, each request counts as another boot: a machine may get another address each time.

use firesteel_boot::{AskerMismatch, AskerRule, BootEntry, BootScriptRequest, Observation};
use firesteel_facts::Mac;
use firesteel_plan::HostMemory;
use firesteel_plan::host::{HostTimeouts, live_until};
use firesteel_resources::host_journal::BootRecord;
use firesteel_runtime::HostKey;
use jiff::SignedDuration;
use serde::Deserialize as _;

use crate::{boot::BootDecisions, host_inputs::bound_agent};

impl BootDecisions {
    /// Judges a request, and has the planner open the next attempt where the host booted again.
    pub(crate) async fn boot_again(&self, mac: Mac, asked: &BootScriptRequest) -> BootAgain {
        let Some((key, entry, attempt)) = self.agent_entry(mac) else { return BootAgain::First };
        if asked.rule == AskerRule::Lease
            && let Err(mismatch) = self.admit(mac, &entry, asked)
        {
            return BootAgain::Mismatch(mismatch);
        }
        let bound = self.bound_and_live(&key, attempt).await;
        match bound {
            // Whose hello did not count boots again, with a number that no hello was refused for.
            None if self.was_refused(&key, attempt) => {}
            // A boot that was to prove an erasure came to nothing: what asks now may be the system on the disk.
            None if self.brought_no_agent(&key, attempt).await && self.admit(mac, &entry, asked).is_ok() => {}
            None => return BootAgain::First,
            Some(Some(why)) => return BootAgain::Live { host: key.name, why },
            Some(None) => {}
        }
        if let Some(view) = self.shared.views().hosts.get_mut(&key) {
            view.rebooted_attempt = Some(attempt);
        }
        if let Err(status) = self.reconciler.step_now(&key).await {
            tracing::error!(host = %key, error = %status.message, "could not step a host that booted again");
        }
        BootAgain::Spent(attempt)
    }

    /// Whether a token of this attempt was given a while ago, after the host was seen off, and no agent came by it. A
    /// loader that tries again is faster.
    async fn brought_no_agent(&self, key: &HostKey, attempt: u64) -> bool {
        let Ok(Some(journal)) = self.shared.journals.read(key).await else { return false };
        let memory = HostMemory::deserialize(&journal.memory).unwrap_or_default();
        let is_cut = memory.clean_boot.is_some_and(|boot| boot.attempt == attempt && boot.is_cut_again());
        let given_at = journal.boot.filter(|boot| boot.attempt == attempt).and_then(|boot| boot.script_at);
        is_cut && given_at.is_some_and(|at| self.shared.now().duration_since(at) > LOADER_TRIES_AGAIN)
    }

    /// Takes in which address asked first, by the journal: the appliance may have restarted.
    fn remember_first(&self, key: &HostKey, attempt: u64, boot: Option<&BootRecord>) {
        let mut views = self.shared.views();
        let Some(view) = views.hosts.get_mut(key) else { return };
        if view.observation.attempt() != attempt {
            view.observation = Observation::of(attempt);
        }
        // A lease that it had counts for the address as well: no other one comes after it.
        let address = boot.filter(|boot| boot.attempt == attempt).and_then(|boot| boot.address.parse().ok());
        if let Some(first) = address {
            view.observation.remember_first(first);
        }
    }

    fn was_refused(&self, key: &HostKey, attempt: u64) -> bool {
        let views = self.shared.views();
        let refused = views.hosts.get(key).and_then(|view| view.refused_hello.as_ref());
        refused.is_some_and(|refused| refused.attempt == attempt)
    }

    /// Host, entry and attempt of a MAC whose entry is the agent.
    fn agent_entry(&self, mac: Mac) -> Option<(HostKey, BootEntry, u64)> {
        let views = self.shared.views();
        let key = views.by_mac.get(&mac)?;
        let entry = views.hosts.get(key)?.boot_entry.clone()?;
        let BootEntry::Agent { attempt, .. } = entry else { return None };
        Some((key.clone(), entry, attempt))
    }

    /// Whether the attempt's agent has said hello, and if so why it counts as live.
    async fn bound_and_live(&self, key: &HostKey, attempt: u64) -> Option<Option<String>> {
        let journal = match self.shared.journals.read(key).await {
            Ok(journal) => journal?,
            Err(status) => {
                tracing::error!(host = %key, error = %status.message, "could not read a journal");
                return None;
            }
        };
        self.remember_first(key, attempt, journal.boot.as_ref());
        let binding = journal.agent.as_ref().filter(|agent| agent.attempt == attempt)?;
        let memory = HostMemory::deserialize(&journal.memory).unwrap_or_default();
        let agent = {
            let views = self.shared.views();
            let view = views.hosts.get(key)?;
            bound_agent(binding, &view.agent, &journal, self.shared.started_at)
        };
        let until = live_until(&agent, &memory, self.shared.started_at, &HostTimeouts::default(), self.shared.now());
        Some(until.map(|until| {
            format!("its agent may still be at work; another boot begins when it leaves, or is silent until {until:.0}")
        }))
    }
}

/// The time within which another request for the script is the same boot.
const LOADER_TRIES_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// What a request for a boot script is.
#[derive(Debug)]
pub(crate) enum BootAgain {
    /// No agent of the current attempt has said hello.
    First,
    /// That attempt is over.
    Spent(u64),
    /// The agent may still be at work.
    Live { host: String, why: String },
    /// The asker may not be the host.
    Mismatch(AskerMismatch),
}
