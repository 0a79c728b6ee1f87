//! What is known right now and comes again by itself: agents, BMCs, images.
//!
//! Lost at a restart on purpose: agents report within two seconds, BMCs are asked again, images
//! are looked up in their store.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use firesteel_boot::{BootEntry, Observation};
use firesteel_facts::Mac;
use firesteel_images::import::ImportFormat;
use firesteel_plan::admission::Slots;
use firesteel_plan::host::{ImageInputs, RefusedHello, wrong_boot_mac::DrivenSystem};
use firesteel_resources::ObjectMeta;
use firesteel_runtime::{HostEvent, HostEvents, HostKey, SteppedHost, undecodable_host};
use firesteel_wire as wire;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use crate::agent_addresses::AgentAddresses;
use crate::claimants::ClaimTimes;
use crate::console::Consoles;
use crate::discovered_table::DiscoveredTable;
use crate::halts::Halts;
use crate::logged_refusals::LoggedRefusals;
use crate::logins::Logins;
use crate::observations::StrangerBoots;
use crate::power::PowerView;
use crate::removed_images::RemovedImages;
use crate::standing::SurveyedHost;
use crate::step_speed::{ActivityPace, StepSpeed};

/// After so long a silence the planner looks, whatever the agent says: it may have taken it for lost.
const SILENCE: SignedDuration = SignedDuration::from_secs(30);

/// Receipts of one boot that are remembered as stored: more than a host keeps of all its boots.
const STORED_MAX: usize = 4 * firesteel_resources::host_journal::RECEIPTS_MAX;

/// Everything in memory, behind one short lock.
#[derive(Debug)]
pub(crate) struct Views {
    pub(crate) hosts: HashMap<HostKey, LiveHost>,
    pub(crate) by_uid: HashMap<String, HostKey>,
    pub(crate) by_mac: HashMap<Mac, HostKey>,
    pub(crate) agent_addresses: AgentAddresses,
    /// Stored hosts that cannot be read, and why.
    pub(crate) unreadable: BTreeMap<HostKey, String>,
    pub(crate) discovered: HashMap<Mac, AgentView>,
    pub(crate) discovered_table: DiscoveredTable,
    pub(crate) stranger_boots: StrangerBoots,
    pub(crate) images: HashMap<ImageKey, ImageInputs>,
    pub(crate) removed_images: RemovedImages,
    pub(crate) logins: Logins,
    pub(crate) consoles: Consoles,
    pub(crate) halts: Halts,
    pub(crate) slots: Slots<HostKey>,
    /// Other controllers hear from here which hosts there are, in the order in which the views know it.
    host_events: HostEvents,
}

/// What an image is asked for by, and with which login: without it a host does not learn that the image is here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ImageKey {
    pub(crate) url: String,
    pub(crate) checksum: String,
    pub(crate) checksum_type: String,
    /// An image that was refused without it may be taken with it.
    pub(crate) declared: Option<ImportFormat>,
    pub(crate) login: Option<LoginSecret>,
}

/// The Secret with the login for an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LoginSecret {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One host.
#[derive(Debug, Default)]
pub(crate) struct LiveHost {
    pub(crate) uid: String,
    /// When the object was made; of two hosts with one MAC the older one has it.
    pub(crate) made: Timestamp,
    /// The store's revision of the newest that is known of it.
    revision: u64,
    pub(crate) macs: Vec<Mac>,
    /// Is published before any effect of the step that decided it; absent until the first step.
    pub(crate) boot_entry: Option<BootEntry>,
    /// What was seen of the boot of its newest attempt.
    pub(crate) observation: Observation,
    /// Its owner lets it boot from any address: who asks first is the host.
    pub(crate) boots_from_any_address: bool,
    /// SMBIOS UUID of the machine that it is known as, if that tells machines apart.
    pub(crate) machine: Option<String>,
    /// The system that its BMC drives.
    pub(crate) system: Option<DrivenSystem>,
    /// A step found out which system that is, or that none is known.
    pub(crate) is_system_known: bool,
    /// Why the newest step found that its disks may not be changed.
    pub(crate) shut: Option<String>,
    /// What is stored of it and damaged: nothing is done with it, or given to it.
    pub(crate) damage: Option<String>,
    pub(crate) agent: AgentView,
    /// More than one machine claims to be this host.
    pub(crate) is_claimed: bool,
    /// When each of them was heard last.
    pub(crate) claims: ClaimTimes,
    /// The key of one that no step has looked at yet.
    pub(crate) unseen_claimant: Option<String>,
    /// The attempt that was over when the host asked for a boot script again: its agent had said hello, or was not
    /// heard because its boot was not seen.
    pub(crate) rebooted_attempt: Option<u64>,
    /// The erasure whose signed receipts say what it came to: attempt and plan.
    pub(crate) graded: Option<(u64, u32)>,
    /// The last hello that did not count.
    pub(crate) refused_hello: Option<RefusedHello>,
    pub(crate) power: PowerView,
    /// The host as its newest step left it.
    pub(crate) standing: Option<SurveyedHost>,
    /// What the log has said of refused agents.
    pub(crate) said_refusals: LoggedRefusals,
    /// The ramdisk's network, published together with the boot entry.
    pub(crate) network: NetworkView,
    /// The last warning about what its OS is to be handed, as the digest that its journal keeps.
    pub(crate) warned: String,
}

/// How the agent of a host's next boot gets to the appliance.
#[derive(Clone, Debug, Default)]
pub(crate) enum NetworkView {
    /// It gets there by DHCP on the booting NIC.
    #[default]
    Dhcp,
    Plan(Arc<wire::NetworkPlan>),
    /// It does not get there: the ramdisk is refused, in these words.
    Unusable(String),
}

/// What a stored host is known by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredHostIdentity<'a> {
    pub(crate) uid: &'a str,
    pub(crate) made: Timestamp,
    pub(crate) revision: u64,
    pub(crate) macs: &'a [Mac],
}

impl<'a> StoredHostIdentity<'a> {
    /// Reads the identity out of a stored object; each has a revision and says when it was made.
    pub(crate) fn of(metadata: &'a ObjectMeta, macs: &'a [Mac]) -> Self {
        let made = metadata.creation_timestamp.unwrap_or(Timestamp::MAX);
        Self { uid: &metadata.uid, made, revision: metadata.resource_version.parse().unwrap_or(0), macs }
    }
}

/// The agent of one boot.
#[derive(Debug, Default)]
pub(crate) struct AgentView {
    pub(crate) attempt: u64,
    /// The key that the token is bound to, as this process has seen it in the journal.
    pub(crate) key: Option<wire::PublicKey>,
    pub(crate) last_report: Option<wire::AgentReport>,
    pub(crate) last_report_at: Option<Timestamp>,
    /// When step, state or bytes last moved.
    pub(crate) progress_at: Option<Timestamp>,
    pace: ActivityPace,
    /// How fast the running step goes.
    pub(crate) speed: StepSpeed,
    /// What the planner wants it to do: the highest-numbered plan.
    pub(crate) plan: Option<wire::AgentPlan>,
    pub(crate) abort: Option<String>,
    /// The host is paused or let alone: the agent goes on with what it has, and gets nothing new.
    held: bool,
    pub(crate) log_sequence: u64,
    /// Receipts of this boot that this process saw in the store, the last ones.
    pub(crate) stored: Vec<wire::ReceiptPlace>,
    /// Wakes a held report.
    pub(crate) changed: Arc<Notify>,
}

/// A rate of so long ago is none of now: the step stands still, or its agent is not heard.
const SPEED_FRESH: SignedDuration = SignedDuration::from_secs(10);

/// What a report is against those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportOrder {
    News,
    /// It says what the one before said: no step is needed.
    Again,
    /// A later one was here first, whose words stand.
    Overtaken,
}

impl AgentView {
    /// Starts afresh for another boot, keeping who waits.
    pub(crate) fn begin(&mut self, attempt: u64, key: wire::PublicKey) {
        let (changed, held) = (Arc::clone(&self.changed), self.held);
        *self = Self { attempt, key: Some(key), changed, held, ..Self::default() };
    }

    /// Whether the newest report said the same, but for its log.
    pub(crate) fn has_reported(&self, report: &wire::AgentReport) -> bool {
        let same = |before: &wire::AgentReport| {
            (before.plan, before.idle, before.leaving) == (report.plan, report.idle, report.leaving)
                && before.steps == report.steps
                && before.receipts == report.receipts
                && before.neighbours == report.neighbours
        };
        self.key == Some(report.key) && self.last_report.as_ref().is_some_and(same)
    }

    /// Takes a report in.
    pub(crate) fn take_report(&mut self, report: wire::AgentReport, now: Timestamp) -> ReportOrder {
        let last = report.log.iter().map(|line| line.sequence).max().unwrap_or(0);
        self.log_sequence = self.log_sequence.max(last);
        let before = self.last_report.as_ref();
        if before.is_some_and(|before| before.sequence >= report.sequence) {
            return ReportOrder::Overtaken;
        }
        let was_silent = self.last_report_at.is_none_or(|at| now.duration_since(at) >= SILENCE);
        let heard = if self.has_reported(&report) && !was_silent { ReportOrder::Again } else { ReportOrder::News };
        if !before.is_some_and(|before| before.plan == report.plan && before.steps == report.steps) {
            self.progress_at = Some(now);
        }
        self.last_report = Some(wire::AgentReport { log: Vec::new(), ..report });
        self.last_report_at = Some(now);
        heard
    }

    /// Returns how fast the step goes that a report says is running. For a report that came late it is what is known.
    pub(crate) fn speed_of(&mut self, report: &wire::AgentReport, now: Timestamp) -> StepSpeed {
        if self.last_report.as_ref().is_none_or(|before| before.sequence < report.sequence) {
            let running = report.steps.iter().find(|step| step.state == wire::StepState::Running);
            self.speed = running.map_or_else(StepSpeed::default, |step| self.pace.observe(report.plan, step, now));
        }
        self.speed
    }

    /// How fast the running step goes now, as far as that is known.
    pub(crate) fn speed_now(&self, now: Timestamp) -> StepSpeed {
        let is_fresh = self.progress_at.is_some_and(|at| now.duration_since(at) < SPEED_FRESH);
        if is_fresh { self.speed } else { StepSpeed::default() }
    }

    /// These receipts are in the store, or were and had to make room for newer ones.
    pub(crate) fn note_stored(&mut self, places: impl Iterator<Item = wire::ReceiptPlace>) {
        for place in places {
            if !self.stored.contains(&place) {
                self.stored.push(place);
            }
        }
        let excess = self.stored.len().saturating_sub(STORED_MAX);
        self.stored.drain(..excess);
    }

    /// What the agent, which is at `plan`, does next. `is_shut`: nothing that destroys is begun.
    pub(crate) fn verdict(&self, plan: u32, is_shut: bool) -> wire::AgentInstruction {
        if let Some(reason) = &self.abort {
            return wire::AgentInstruction::Abort { reason: reason.clone() };
        }
        let waits = |next: &wire::AgentPlan| is_shut && next.steps.iter().any(wire::PlanStep::is_destructive);
        match &self.plan {
            Some(next) if next.number > plan && !self.held && !waits(next) => {
                wire::AgentInstruction::Plan { plan: next.clone() }
            }
            Some(_) | None => wire::AgentInstruction::Continue,
        }
    }

    pub(crate) fn set_plan(&mut self, plan: wire::AgentPlan) {
        if self.plan.as_ref().is_none_or(|current| current.number < plan.number) {
            self.plan = Some(plan);
            self.changed.notify_waiters();
        }
    }

    /// Keeps plans back, or lets them go.
    pub(crate) fn hold(&mut self, held: bool) {
        let lets_go = self.held && !held;
        self.held = held;
        if lets_go {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn set_abort(&mut self, reason: &str) {
        self.abort = Some(reason.to_owned());
        self.changed.notify_waiters();
    }
}

impl Views {
    /// Makes views without a host. `at_once`: hosts that are worked on at a time.
    pub(crate) fn new(at_once: usize, host_events: HostEvents) -> Self {
        Self {
            hosts: HashMap::new(),
            by_uid: HashMap::new(),
            by_mac: HashMap::new(),
            agent_addresses: AgentAddresses::default(),
            unreadable: BTreeMap::new(),
            discovered: HashMap::new(),
            discovered_table: DiscoveredTable::default(),
            stranger_boots: StrangerBoots::default(),
            images: HashMap::new(),
            removed_images: RemovedImages::default(),
            logins: Logins::default(),
            consoles: Consoles::default(),
            halts: Halts::default(),
            slots: Slots::new(at_once),
            host_events,
        }
    }

    /// Takes a host out that is gone. Which orders its BMC was given is known until a step finds that it is gone, since
    /// one that is under way must not give them again.
    pub(crate) fn remove_host(&mut self, key: &HostKey, uid: &str) {
        let Some(view) = self.hosts.get_mut(key).filter(|view| view.uid == uid) else { return };
        let LiveHost { uid, made, revision, power, .. } = std::mem::take(view);
        self.logins.forget_host(key);
        self.by_uid.remove(&uid);
        self.by_mac.retain(|_, owner| owner != key);
        *view = LiveHost { uid, made, revision, power, ..LiveHost::default() };
        self.host_events.publish(key, &HostEvent::Gone);
    }

    /// Whether the host of this name is there, and is the one with this UID.
    pub(crate) fn is_current(&self, key: &HostKey, uid: &str) -> bool {
        self.hosts.get(key).is_some_and(|view| view.uid == uid)
    }

    /// Offers a host to the other controllers as a step left it.
    pub(crate) fn offer_step(&self, key: &HostKey, stepped: SteppedHost) {
        // Another host of its name may have come since.
        if self.is_current(key, &stepped.host.metadata.uid) {
            self.host_events.publish(key, &HostEvent::Stepped(Arc::new(stepped)));
        }
    }

    /// Tells the other controllers that nothing can be said of a host, for its memory cannot be read.
    pub(crate) fn offer_unreadable(&self, key: &HostKey, uid: &str) {
        if self.is_current(key, uid) {
            self.host_events.publish(key, &HostEvent::MemoryUnreadable { uid: uid.to_owned() });
        }
    }

    /// Why a machine, a token or a UID that belongs to no host that is known may be a host's all the same.
    pub(crate) fn unreadable_host(&self) -> Option<String> {
        undecodable_host(&self.unreadable)
    }

    /// Takes in that a stored host cannot be decoded, and why.
    pub(crate) fn cannot_decode(&mut self, key: &HostKey, why: &str) {
        self.unreadable.insert(key.clone(), why.to_owned());
        self.host_events.publish(key, &HostEvent::Undecodable { why: why.to_owned() });
    }

    /// Takes in that a stored host can be decoded, or is gone; whether it could not be before.
    pub(crate) fn can_decode(&mut self, key: &HostKey) -> bool {
        let could_not = self.unreadable.remove(key).is_some();
        if could_not {
            self.host_events.publish(key, &HostEvent::Decodable);
        }
        could_not
    }

    /// The host of this UID, while it is there: no other one of its name.
    pub(crate) fn host_of(&mut self, uid: &str) -> Option<&mut LiveHost> {
        let key = self.by_uid.get(uid)?;
        self.hosts.get_mut(key)
    }

    /// Forgets a host that is gone, unless another one of its name is known already.
    pub(crate) fn forget_host(&mut self, key: &HostKey, uid: &str) {
        if self.hosts.get(key).is_some_and(|view| view.uid == uid) {
            self.learn_host(key, None);
        }
    }

    /// Takes a host's identity in; `None` for a host that is gone. Late news of an earlier host of the same
    /// name is passed over: this one's orders to its BMC would be forgotten, and given again.
    pub(crate) fn learn_host(&mut self, key: &HostKey, known: Option<StoredHostIdentity<'_>>) {
        let present = self.hosts.get(key).filter(|view| self.by_uid.get(&view.uid) == Some(key));
        let present = present.map(|view| view.uid.clone());
        if let Some(view) = self.hosts.get(key) {
            if known.as_ref().is_some_and(|known| known.uid != view.uid && known.revision < view.revision) {
                return;
            }
            let uid = view.uid.clone();
            self.by_uid.remove(&uid);
            self.by_mac.retain(|_, owner| owner != key);
            if known.as_ref().is_none_or(|known| known.uid != uid) {
                self.hosts.remove(key);
            }
        }
        let Some(StoredHostIdentity { uid, made, revision, macs }) = known else {
            self.host_events.publish(key, &HostEvent::Gone);
            return;
        };
        if present.as_deref() != Some(uid) {
            self.host_events.publish(key, &HostEvent::Present { uid: uid.to_owned() });
        }
        let view = self.hosts.entry(key.clone()).or_default();
        uid.clone_into(&mut view.uid);
        view.made = made;
        view.revision = view.revision.max(revision);
        macs.clone_into(&mut view.macs);
        self.by_uid.insert(uid.to_owned(), key.clone());
        for mac in macs {
            // The older host has it, in whatever order they are learnt after a restart; the younger one shows
            // the error.
            let older = self
                .by_mac
                .get(mac)
                .filter(|owner| self.hosts.get(*owner).is_some_and(|view| (view.made, *owner) < (made, key)));
            if older.is_none() {
                self.by_mac.insert(*mac, key.clone());
            }
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

    fn known<'a>(uid: &'a str, made: Timestamp, revision: u64, macs: &'a [Mac]) -> Option<StoredHostIdentity<'a>> {
        Some(StoredHostIdentity { uid, made, revision, macs })
    }

    #[test]
    fn what_an_agent_of_a_host_that_went_says_is_not_its_namesakes() {
        let mut views = Views::new(1, HostEvents::default());
        views.learn_host(&key("a"), known("one", Timestamp::UNIX_EPOCH, 1, &[]));
        assert!(views.host_of("one").is_some());
        views.remove_host(&key("a"), "one");
        assert!(views.host_of("one").is_none());
        views.learn_host(&key("a"), known("two", Timestamp::UNIX_EPOCH, 2, &[]));
        assert!(views.host_of("one").is_none() && views.host_of("two").is_some());
    }

    #[test]
    fn the_older_host_with_a_mac_has_it_until_it_goes() {
        let mut views = Views::new(1, HostEvents::default());
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let at = |second| Timestamp::from_second(second).expect("in range");
        views.learn_host(&key("b"), known("ub", at(1), 1, &[mac]));
        views.learn_host(&key("a"), known("ua", at(2), 2, &[mac]));
        assert_eq!(views.by_mac[&mac], key("b"));
        views.learn_host(&key("b"), None);
        assert!(!views.by_uid.contains_key("ub"));
        views.learn_host(&key("a"), known("ua", at(2), 2, &[mac]));
        assert_eq!(views.by_mac[&mac], key("a"));
    }

    /// After a restart the hosts are learnt by name: a younger host took the MAC, and so the machine, of an
    /// older one.
    #[test]
    fn the_order_of_learning_decides_nothing() {
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let hosts = [("a", 3), ("b", 1), ("c", 2)];
        for first in 0..hosts.len() {
            let mut views = Views::new(1, HostEvents::default());
            for (name, second) in hosts.iter().cycle().skip(first).take(hosts.len()) {
                let made = Timestamp::from_second(*second).expect("in range");
                views.learn_host(&key(name), known(name, made, 1, &[mac]));
            }
            assert_eq!(views.by_mac[&mac], key("b"));
        }
    }

    #[test]
    fn a_host_that_was_made_anew_forgets_its_namesakes_agent() {
        let mut views = Views::new(1, HostEvents::default());
        views.learn_host(&key("a"), known("one", Timestamp::UNIX_EPOCH, 1, &[]));
        views.hosts.get_mut(&key("a")).expect("learnt").agent.attempt = 7;
        views.learn_host(&key("a"), known("one", Timestamp::UNIX_EPOCH, 1, &[]));
        assert_eq!(views.hosts[&key("a")].agent.attempt, 7);
        views.learn_host(&key("a"), known("two", Timestamp::UNIX_EPOCH, 2, &[]));
        assert_eq!(views.hosts[&key("a")].agent.attempt, 0);
    }

    /// The news of a deletion came late, and took the next host of the name with it.
    #[test]
    fn a_host_that_went_does_not_take_its_namesake_along() {
        let mut views = Views::new(1, HostEvents::default());
        views.learn_host(&key("a"), known("two", Timestamp::UNIX_EPOCH, 2, &[]));
        views.forget_host(&key("a"), "one");
        assert!(views.hosts.contains_key(&key("a")));
        views.forget_host(&key("a"), "two");
        assert!(views.hosts.is_empty() && views.by_uid.is_empty());
    }

    /// A step that was under way when its host was deleted made it known again, and its BMC was reset twice.
    #[test]
    fn a_host_that_went_is_not_reset_again_by_a_step_under_way() {
        let (mut views, mac) = (Views::new(1, HostEvents::default()), Mac([2, 0, 0, 0, 0, 1]));
        let orders = |views: &mut Views| views.hosts.get_mut(&key("a")).is_some_and(|view| view.power.take_on(3));
        views.learn_host(&key("a"), known("one", Timestamp::UNIX_EPOCH, 2, &[mac]));
        assert!(orders(&mut views));
        views.remove_host(&key("a"), "one");
        assert!(views.by_uid.is_empty() && views.by_mac.is_empty());
        views.learn_host(&key("a"), known("one", Timestamp::UNIX_EPOCH, 2, &[mac]));
        assert!(views.hosts.contains_key(&key("a")) && !orders(&mut views));
        views.learn_host(&key("a"), known("two", Timestamp::UNIX_EPOCH, 9, &[mac]));
        assert!(orders(&mut views), "the orders of another host");
    }

    #[test]
    fn what_was_stored_is_remembered_as_far_as_it_is_of_use() {
        let mut agent = AgentView::default();
        let place = |index| wire::ReceiptPlace { plan: 1, index };
        agent.note_stored([place(0), place(1), place(0)].into_iter());
        assert_eq!(agent.stored, [place(0), place(1)]);
        agent.note_stored((0..).map(place).take(2 * STORED_MAX));
        assert_eq!(agent.stored.len(), STORED_MAX);
        assert_eq!(agent.stored[0].index, u32::try_from(STORED_MAX).unwrap_or(0), "the last ones");
    }

    fn report(sequence: u64, plan: u32) -> wire::AgentReport {
        wire::AgentReport {
            token: String::new(),
            key: wire::PublicKey([1; 32]),
            boot_id: String::new(),
            sequence,
            uptime_ms: 0,
            plan,
            steps: Vec::new(),
            receipts: Vec::new(),
            neighbours: Vec::new(),
            idle: true,
            leaving: false,
            log: Vec::new(),
        }
    }

    #[test]
    fn only_news_are_looked_at_and_late_reports_are_not() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let mut agent = AgentView::default();
        agent.begin(1, wire::PublicKey([1; 32]));
        assert_eq!(agent.take_report(report(1, 1), at(0)), ReportOrder::News);
        assert_eq!(agent.take_report(report(2, 1), at(2)), ReportOrder::Again);
        assert_eq!(agent.take_report(report(4, 2), at(4)), ReportOrder::News);
        assert_eq!(agent.take_report(report(3, 1), at(5)), ReportOrder::Overtaken);
        assert_eq!(agent.take_report(report(4, 2), at(5)), ReportOrder::Overtaken, "a double");
        assert_eq!(agent.last_report.as_ref().map(|report| report.plan), Some(2));
        assert_eq!(agent.take_report(report(5, 2), at(100)), ReportOrder::News, "it was taken for lost");
        assert_eq!(agent.progress_at, Some(at(4)), "and gets nowhere all the same");
    }

    #[test]
    fn a_held_agent_gets_no_plan_and_is_still_told_to_stop() {
        let mut agent = AgentView::default();
        agent.hold(true);
        agent.begin(1, wire::PublicKey([1; 32]));
        agent.set_plan(wire::AgentPlan { number: 1, attempt: 1, steps: vec![wire::PlanStep::Inspect] });
        assert_eq!(agent.verdict(0, false), wire::AgentInstruction::Continue);
        agent.hold(false);
        assert!(matches!(agent.verdict(0, false), wire::AgentInstruction::Plan { .. }));
        agent.hold(true);
        agent.set_abort("stop");
        assert!(matches!(agent.verdict(0, false), wire::AgentInstruction::Abort { .. }));
    }

    #[test]
    fn behind_a_shut_gate_only_plans_that_destroy_wait() {
        let mut agent = AgentView::default();
        let plan = |number, steps| wire::AgentPlan { number, attempt: 1, steps };
        agent.set_plan(plan(1, vec![wire::PlanStep::Inspect]));
        assert!(matches!(agent.verdict(0, true), wire::AgentInstruction::Plan { .. }));
        let disk = wire::DiskIdentity::default();
        agent.set_plan(plan(
            2,
            vec![
                wire::PlanStep::ClearMetadata {
                    disk,
                    own_names: Vec::new(),
                    override_guards: false,
                    was_vacant: false,
                    is_named: false,
                },
                wire::PlanStep::Reboot,
            ],
        ));
        assert_eq!(agent.verdict(1, true), wire::AgentInstruction::Continue);
        assert!(matches!(agent.verdict(1, false), wire::AgentInstruction::Plan { .. }));
        agent.set_abort("stop");
        assert!(matches!(agent.verdict(1, true), wire::AgentInstruction::Abort { .. }));
    }

    #[test]
    fn a_plan_never_goes_back() {
        let mut agent = AgentView::default();
        let plan = |number| wire::AgentPlan { number, attempt: 1, steps: vec![wire::PlanStep::Inspect] };
        agent.set_plan(plan(2));
        agent.set_plan(plan(1));
        assert!(matches!(agent.verdict(1, false), wire::AgentInstruction::Plan { plan } if plan.number == 2));
        assert_eq!(agent.verdict(2, false), wire::AgentInstruction::Continue);
        agent.set_abort("old");
        assert!(matches!(agent.verdict(1, false), wire::AgentInstruction::Abort { .. }));
    }

    /// A watch may bring the earlier host after a step has read the later one from the store.
    #[test]
    fn late_news_of_an_earlier_namesake_is_passed_over() {
        let mut views = Views::new(1, HostEvents::default());
        views.learn_host(&key("a"), known("two", Timestamp::UNIX_EPOCH, 9, &[]));
        views.hosts.get_mut(&key("a")).expect("learnt").agent.attempt = 7;
        views.learn_host(&key("a"), known("one", Timestamp::UNIX_EPOCH, 5, &[]));
        assert_eq!((views.hosts[&key("a")].uid.as_str(), views.hosts[&key("a")].agent.attempt), ("two", 7));
        assert!(views.by_uid.contains_key("two"));
    }
}
