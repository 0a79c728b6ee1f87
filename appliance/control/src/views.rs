//! What is known right now and comes again by itself: agents, BMCs, images, addresses.
//!
//! Lost at a restart on purpose: agents report within two seconds, BMCs are asked again, images
//! are looked up in their store.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use firesteel_boot::{BootEntry, Mac};
use firesteel_wire as wire;
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::{HostKey, images::ImageView, network::Addresses, power::PowerView};

/// Everything in memory, behind one short lock.
#[derive(Debug, Default)]
pub(crate) struct Views {
    pub(crate) hosts: HashMap<HostKey, HostView>,
    pub(crate) by_uid: HashMap<String, HostKey>,
    pub(crate) by_mac: HashMap<Mac, HostKey>,
    pub(crate) discovered: HashMap<Mac, AgentView>,
    pub(crate) images: HashMap<ImageKey, ImageView>,
    pub(crate) addresses: Addresses,
    /// Effects under way, so that one that is asked for again is not started twice.
    pub(crate) running: HashSet<(HostKey, &'static str)>,
}

/// What an image is asked for by: `(url, checksum, checksum type)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ImageKey {
    pub(crate) url: String,
    pub(crate) checksum: String,
    pub(crate) checksum_type: String,
}

/// One host.
#[derive(Debug, Default)]
pub(crate) struct HostView {
    pub(crate) uid: String,
    pub(crate) macs: Vec<Mac>,
    /// Published before any effect of the step that decided it; absent until the first step.
    pub(crate) boot_entry: Option<BootEntry>,
    pub(crate) agent: AgentView,
    /// The attempt whose agent had said hello when the host asked for a boot script again.
    pub(crate) rebooted_attempt: Option<u64>,
    pub(crate) power: PowerView,
}

/// The agent of one boot.
#[derive(Debug, Default)]
pub(crate) struct AgentView {
    pub(crate) attempt: u64,
    /// The key that the token is bound to, as this process has seen it in the journal.
    pub(crate) key: Option<wire::PublicKey>,
    pub(crate) boot_id: String,
    pub(crate) last_report: Option<wire::Report>,
    pub(crate) last_report_at: Option<Timestamp>,
    /// Of an agent without host, how many receipts were seen: its reports are not kept.
    pub(crate) receipts: usize,
    /// When step, state or bytes last moved.
    pub(crate) progress_at: Option<Timestamp>,
    /// What the planner wants it to do: the highest-numbered plan.
    pub(crate) plan: Option<wire::Plan>,
    pub(crate) abort: Option<String>,
    pub(crate) log_sequence: u64,
    /// Wakes a held report.
    pub(crate) changed: Arc<Notify>,
}

impl AgentView {
    /// Starts afresh for another boot, keeping who waits.
    pub(crate) fn begin(&mut self, attempt: u64, key: wire::PublicKey, boot_id: &str) {
        let changed = Arc::clone(&self.changed);
        *self = Self { attempt, key: Some(key), boot_id: boot_id.to_owned(), changed, ..Self::default() };
    }

    /// What the agent, which is at `plan`, does next.
    pub(crate) fn verdict(&self, plan: u32) -> wire::Verdict {
        if let Some(reason) = &self.abort {
            return wire::Verdict::Abort { reason: reason.clone() };
        }
        match &self.plan {
            Some(next) if next.number > plan => wire::Verdict::Plan { plan: next.clone() },
            Some(_) | None => wire::Verdict::Continue,
        }
    }

    pub(crate) fn set_plan(&mut self, plan: wire::Plan) {
        if self.plan.as_ref().is_none_or(|current| current.number < plan.number) {
            self.plan = Some(plan);
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn set_abort(&mut self, reason: &str) {
        self.abort = Some(reason.to_owned());
        self.changed.notify_waiters();
    }
}

impl Views {
    /// Forgets a host that is gone, unless another one of its name is known already.
    pub(crate) fn forget_host(&mut self, key: &HostKey, uid: &str) {
        if self.hosts.get(key).is_some_and(|view| view.uid == uid) {
            self.learn_host(key, None);
        }
    }

    /// Takes a host's identity in; `None` for a host that is gone.
    pub(crate) fn learn_host(&mut self, key: &HostKey, known: Option<(&str, &[Mac])>) {
        if let Some(view) = self.hosts.get(key) {
            let uid = view.uid.clone();
            self.by_uid.remove(&uid);
            self.by_mac.retain(|_, owner| owner != key);
            if known.is_none_or(|(new_uid, _)| new_uid != uid) {
                self.hosts.remove(key);
            }
        }
        let Some((uid, macs)) = known else { return };
        let view = self.hosts.entry(key.clone()).or_default();
        uid.clone_into(&mut view.uid);
        macs.clone_into(&mut view.macs);
        self.by_uid.insert(uid.to_owned(), key.clone());
        for mac in macs {
            // The first host with a MAC keeps it: two hosts with one MAC is an error that the second one shows.
            self.by_mac.entry(*mac).or_insert_with(|| key.clone());
            if let Some(machine) = self.discovered.get_mut(mac) {
                machine.set_abort(&format!("adopted as {key}: starting again as this host"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> HostKey {
        HostKey { namespace: "default".into(), name: name.into() }
    }

    #[test]
    fn the_first_host_with_a_mac_keeps_it_until_it_goes() {
        let mut views = Views::default();
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        views.learn_host(&key("a"), Some(("ua", &[mac])));
        views.learn_host(&key("b"), Some(("ub", &[mac])));
        assert_eq!(views.by_mac[&mac], key("a"));
        views.learn_host(&key("a"), None);
        assert!(!views.by_uid.contains_key("ua"));
        views.learn_host(&key("b"), Some(("ub", &[mac])));
        assert_eq!(views.by_mac[&mac], key("b"));
    }

    #[test]
    fn a_host_that_was_made_anew_forgets_its_namesakes_agent() {
        let mut views = Views::default();
        views.learn_host(&key("a"), Some(("one", &[])));
        views.hosts.get_mut(&key("a")).expect("learnt").agent.attempt = 7;
        views.learn_host(&key("a"), Some(("one", &[])));
        assert_eq!(views.hosts[&key("a")].agent.attempt, 7);
        views.learn_host(&key("a"), Some(("two", &[])));
        assert_eq!(views.hosts[&key("a")].agent.attempt, 0);
    }

    /// The news of a deletion came late, and took the next host of the name with it.
    #[test]
    fn a_host_that_went_does_not_take_its_namesake_along() {
        let mut views = Views::default();
        views.learn_host(&key("a"), Some(("two", &[])));
        views.forget_host(&key("a"), "one");
        assert!(views.hosts.contains_key(&key("a")));
        views.forget_host(&key("a"), "two");
        assert!(views.hosts.is_empty() && views.by_uid.is_empty());
    }

    #[test]
    fn a_plan_never_goes_back() {
        let mut agent = AgentView::default();
        let plan = |number| wire::Plan { number, attempt: 1, steps: vec![wire::Step::Inspect] };
        agent.set_plan(plan(2));
        agent.set_plan(plan(1));
        assert!(matches!(agent.verdict(1), wire::Verdict::Plan { plan } if plan.number == 2));
        assert_eq!(agent.verdict(2), wire::Verdict::Continue);
        agent.set_abort("old");
        assert!(matches!(agent.verdict(1), wire::Verdict::Abort { .. }));
    }
}
