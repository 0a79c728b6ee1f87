//! Hello and report: what agents say, and what they are told.
//!
//! The first hello of an attempt binds its token to the agent's key, in the journal, before it is
//! answered. From then on only that key is heard. A second one is held and has both stop ([`crate::claimants`]).

use std::net::IpAddr;

use firesteel_boot::{BootEntry, BootSeal, Claims, Purpose, UnseenBoot};
use firesteel_kube::Status;
use firesteel_plan::{
    host::identity::{IdentityChange, KnownIdentity, compare, is_comparable},
    journal,
};
use firesteel_resources::{
    hardware::{changes::changes, neighbour::Heard as Spoken},
    host_journal::{
        AgentBinding, Claimant, HostJournalStatus, Progress, RECEIPTS_MAX, ReceiptRecord, RefusedIdentity,
        TimelineEvent,
    },
};
use firesteel_runtime::{HostKey, event, timeout};
use firesteel_wire::{
    Evidence, Hello, HelloReply, Receipt, ReceiptPlace, Refusal, RefusalReason, Report, ReportReply, StepReport,
    StepState, Verdict, limits,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{Control, boot_record, claimants, control::unix_milliseconds, map, pace::Speed, receipts, views::Heard};

/// Of one receipt's evidence as JSON, the inventory apart. What agents send has less than a tenth of it.
const EVIDENCE_BYTES_MAX: usize = 16 << 10;
/// In the place of evidence that has more.
const TOO_LARGE: &str = "too_large";

/// Outcome of comparing a hello with the journal.
enum Binding {
    New,
    Known,
    /// Another machine is bound, or was before. `is_new`: nothing was known of this one.
    Claimant {
        is_new: bool,
    },
    /// It is known not to be the host.
    Intruder,
    OldAttempt {
        current: u64,
    },
    IdentityChanged {
        why: String,
    },
    /// The boot that the token is of was not seen.
    Unseen(UnseenBoot),
}

impl Control {
    /// Answers the first message of a boot.
    ///
    /// # Errors
    /// A refusal with its reason; see [`RefusalReason`].
    pub async fn hello(&self, hello: Hello, remote: IpAddr) -> Result<HelloReply, Refusal> {
        let claims = self.claims(&hello.token)?;
        self.started().await?;
        match claims.purpose {
            Purpose::Discovery => self.discovery_hello(&claims, &hello, remote).await,
            Purpose::Agent => self.host_hello(&claims, &hello, remote).await,
            Purpose::Instance => Err(refusal(RefusalReason::BadToken, "this token is not for agents")),
        }
    }

    /// Takes a report and says what is next; holds the answer to an idle agent.
    ///
    /// # Errors
    /// A refusal with its reason; see [`RefusalReason`].
    pub async fn report(&self, report: Report, remote: IpAddr) -> Result<ReportReply, Refusal> {
        let claims = self.claims(&report.token)?;
        self.started().await?;
        match claims.purpose {
            Purpose::Discovery => self.discovery_report(&claims, report).await,
            Purpose::Agent => self.host_report(&claims, report, remote).await,
            Purpose::Instance => Err(refusal(RefusalReason::BadToken, "this token is not for agents")),
        }
    }

    async fn started(&self) -> Result<(), Refusal> {
        if self.knows_hosts().await {
            return Ok(());
        }
        Err(refusal(RefusalReason::Busy, "the appliance is starting: try again"))
    }

    fn claims(&self, token: &str) -> Result<Claims, Refusal> {
        self.config()
            .sealer
            .open_boot(token, self.age_s())
            .map_err(|error| refusal(RefusalReason::BadToken, &format!("{error}: boot again from the network")))
    }

    fn host_of(&self, claims: &Claims) -> Result<HostKey, Refusal> {
        let views = self.views();
        let key = views.by_uid.get(&claims.subject).cloned();
        key.ok_or_else(|| match views.unreadable_host() {
            Some(why) => refusal(RefusalReason::Busy, &why),
            None => refusal(RefusalReason::OldAttempt, "the host of this token is gone: boot again"),
        })
    }

    /// The boot of this host's MACs is over: its agent is there. The step that follows looks at it.
    fn boot_registered(&self, key: &HostKey, now: Timestamp) {
        let macs = self.views().hosts.get(key).map(|view| view.macs.clone()).unwrap_or_default();
        for mac in macs {
            self.inner.boot_watch.registered(mac, true, now);
        }
    }

    async fn host_hello(&self, claims: &Claims, hello: &Hello, remote: IpAddr) -> Result<HelloReply, Refusal> {
        let key = self.host_of(claims)?;
        let now = self.now();
        // After a restart what is written counts.
        if let Some(journal) = self.inner.journals.read(&key).await.map_err(busy)? {
            self.recall_boot(claims, &journal);
        }
        let facts = HelloFacts {
            boot: claims.boot,
            seen: self.hello_counts(claims, hello),
            is_uuid_shared: self.views().shared_uuid(&key).is_some(),
            remote,
            now,
        };
        let binding = self
            .inner
            .journals
            .change(&key, |status| bind(status, claims.attempt, hello, &facts))
            .await
            .map_err(busy)?
            .ok_or_else(|| refusal(RefusalReason::Busy, "this host has no journal yet: try again"))?;
        match binding {
            Binding::New => {
                tracing::info!(host = %key, attempt = claims.attempt, mac = %hello.identity.boot_mac, "agent says hello");
                self.begin_agent(&key, claims.attempt, hello);
                self.boot_registered(&key, now);
                self.inner.queue.wake(&key);
            }
            Binding::Unseen(why) => return Err(self.refuse_unseen(&key, claims.attempt, &why, remote)),
            Binding::IdentityChanged { why } => {
                self.inner.metrics.agent_refused();
                self.warn_of_refusal(&key, claims.attempt, Some(remote), &why);
                self.inner.queue.wake(&key);
                // It waits: a reboot would only bring it back, and a person may say that it is the host.
                return Err(refusal(RefusalReason::Held, &why));
            }
            Binding::Known => self.begin_agent(&key, claims.attempt, hello),
            Binding::Claimant { is_new } => {
                return Err(self.hold_claimant(&key, &hello.key.to_string(), is_new, (now, None)));
            }
            Binding::Intruder => return Err(self.send_away(&key, claims.attempt)),
            Binding::OldAttempt { current } => {
                let text = format!("attempt {} is over, the host is at attempt {current}: boot again", claims.attempt);
                return Err(refusal(RefusalReason::OldAttempt, &text));
            }
        }
        self.views().note_agent_address(&claims.subject, remote, claims.attempt);
        let hold = self.hold_of(&key);
        let verdict = self.verdict_of(&key, 0, hold.is_some());
        Ok(HelloReply { host: key.name, attempt: claims.attempt, time_ms: unix_milliseconds(now), verdict, hold })
    }

    /// Nothing is bound, and the next boot of the host gets another number.
    fn refuse_unseen(&self, key: &HostKey, attempt: u64, why: &UnseenBoot, remote: IpAddr) -> Refusal {
        self.inner.metrics.agent_refused();
        self.warn_of_refusal(key, attempt, Some(remote), &format!("could not take a hello: {why}"));
        if let Some(view) = self.views().hosts.get_mut(key) {
            view.unseen_attempt = Some(attempt);
        }
        refusal(RefusalReason::BadToken, &format!("this boot was not seen: {why}; boot again from the network"))
    }

    fn verdict_of(&self, key: &HostKey, plan: u32, is_shut: bool) -> Verdict {
        self.views().hosts.get(key).map_or(Verdict::Continue, |view| view.agent.verdict(plan, is_shut))
    }

    /// Takes the agent into the views, unless it is there (a repeated hello).
    fn begin_agent(&self, key: &HostKey, attempt: u64, hello: &Hello) {
        let mut views = self.views();
        let Some(view) = views.hosts.get_mut(key) else { return };
        if view.agent.key != Some(hello.key) || view.agent.attempt != attempt {
            view.agent.begin(attempt, hello.key);
        }
        view.agent.last_report_at = Some(self.now());
    }

    async fn host_report(&self, claims: &Claims, report: Report, remote: IpAddr) -> Result<ReportReply, Refusal> {
        let key = self.host_of(claims)?;
        self.note_arrival(&key, &report);
        // An agent that says the same again has everything on disk: it was stored before it was heard.
        if !self.has_heard(&key, claims, &report) {
            let journal = self.check_binding(&key, claims, &report, remote).await?;
            self.keep_report(&key, claims, &report, journal).await?;
        }
        let now = self.now();
        let (plan, idle, leaving) = (report.plan, report.idle, report.leaving);
        // After a restart of the appliance, too, which an agent says no second hello for.
        self.views().note_agent_address(&claims.subject, remote, claims.attempt);
        self.log(&key, claims, &report);
        let (changed, acknowledged, stored, heard) = {
            let mut views = self.views();
            let Some(view) = views.host_of(&claims.subject) else {
                return Err(refusal(RefusalReason::OldAttempt, "the host of this token is gone: boot again"));
            };
            let heard = view.agent.take_report(report, now);
            let agent = &view.agent;
            (std::sync::Arc::clone(&agent.changed), agent.log_sequence, agent.stored.clone(), heard)
        };
        if heard == Heard::News {
            self.inner.queue.wake(&key);
        }
        let verdict = || self.verdict_of(&key, plan, self.hold_of(&key).is_some());
        // A report that came late is answered at once, and so is each where it counts which machines still report.
        if idle && !leaving && heard != Heard::Overtaken && !self.is_claimed(&key) {
            self.hold(&changed, &verdict).await;
            if let Some(view) = self.views().hosts.get_mut(&key) {
                view.agent.last_report_at = Some(self.now());
            }
        }
        let hold = self.hold_of(&key);
        let verdict = if leaving { Verdict::Continue } else { self.verdict_of(&key, plan, hold.is_some()) };
        let time_ms = unix_milliseconds(self.now());
        Ok(ReportReply { time_ms, log_acknowledged: acknowledged, stored, verdict, hold })
    }

    /// The bound agent of the published attempt says what it said before.
    fn has_heard(&self, key: &HostKey, claims: &Claims, report: &Report) -> bool {
        self.views().hosts.get(key).is_some_and(|view| {
            let published = match &view.boot_entry {
                Some(BootEntry::Agent { attempt, .. }) => *attempt == claims.attempt,
                Some(_) | None => false,
            };
            published && view.agent.attempt == claims.attempt && view.agent.has_heard(report)
        })
    }

    /// Receipts and the leave are on disk before the agent is told that we have them.
    async fn keep_report(
        &self,
        key: &HostKey,
        claims: &Claims,
        report: &Report,
        mut journal: HostJournalStatus,
    ) -> Result<(), Refusal> {
        let now = self.now();
        let (before, speed) = match self.views().hosts.get_mut(key) {
            Some(view) => (view.agent.last_report.clone(), view.agent.speed_of(report, now)),
            None => (None, Speed::default()),
        };
        let mut changes = Changes::between(before.as_ref(), report, claims.attempt, now);
        if let Some(progress) = &mut changes.progress {
            (progress.bytes_per_second, progress.seconds_left) = (speed.bytes_per_second, speed.seconds_left);
        }
        if changes.are_news_to(&journal) {
            let signer = &self.config().receipt_key;
            let new: Vec<Receipt> = changes.new_receipts(&journal).map(|(receipt, _)| receipt.clone()).collect();
            let named = new.iter().filter(|receipt| bytes_of(&told(receipt)) <= EVIDENCE_BYTES_MAX).collect();
            let signed =
                self.sign_receipts(key, &claims.subject, claims.attempt, named, &journal).await.map_err(busy)?;
            let apply = |status: &mut HostJournalStatus| {
                changes.apply(status, signer);
                let excess = status.note_signed(&signed);
                if !excess.is_empty() {
                    status.note_again(event(now, claims.attempt, "receipts_dropped", dropped(&excess, status)));
                }
                (status.clone(), excess)
            };
            let changed = self.inner.journals.change(key, apply).await.map_err(busy)?;
            let excess;
            (journal, excess) = changed.ok_or_else(no_journal)?;
            self.forget_receipts(&key.namespace, &excess).await;
        }
        // The same words again change nothing: a restart of the appliance in between is made good here.
        let is_first = before.is_none_or(|before| before.neighbours != report.neighbours);
        if is_first && !report.neighbours.is_empty() {
            self.show_neighbours(key, &journal).await.map_err(busy)?;
        }
        if let Some(view) = self.views().hosts.get_mut(key).filter(|view| view.agent.attempt == claims.attempt) {
            // A journal that is full dropped the oldest: brought again, they would drive out others.
            if journal.receipts.len() < RECEIPTS_MAX {
                view.agent.stored.clear();
            }
            view.agent.note_stored(stored(&journal, claims.attempt).chain(report.receipts.iter().map(Receipt::place)));
        }
        Ok(())
    }

    /// Only the key that the attempt's token is bound to is heard. After a restart of the appliance
    /// the journal says which that is.
    async fn check_binding(
        &self,
        key: &HostKey,
        claims: &Claims,
        report: &Report,
        remote: IpAddr,
    ) -> Result<HostJournalStatus, Refusal> {
        let journal = self.inner.journals.read(key).await.map_err(busy)?.ok_or_else(no_journal)?;
        let current = journal::attempt(&journal);
        if current != claims.attempt {
            return Err(self.late_report(key, claims, report, &journal, remote).await);
        }
        match &journal.agent {
            Some(agent) if agent.attempt == current && agent.key == report.key.to_string() => {}
            Some(agent) if agent.attempt == current => {
                return Err(self.second_report(key, claims, report, &journal, remote).await);
            }
            Some(_) | None => {
                return Err(refusal(RefusalReason::BadRequest, "say hello before the first report"));
            }
        }
        speaks_of_itself(journal.agent.as_ref(), report)?;
        let mut views = self.views();
        if let Some(view) = views.hosts.get_mut(key)
            && view.agent.key != Some(report.key)
        {
            view.agent.begin(current, report.key);
        }
        Ok(journal)
    }

    /// Waits until there is something to tell, at most as long as a report may be held.
    pub(crate) async fn hold(&self, changed: &tokio::sync::Notify, verdict: &(impl Fn() -> Verdict + Sync)) {
        let notified = changed.notified();
        tokio::pin!(notified);
        // Registered before the check, so that what is told in between wakes us.
        notified.as_mut().enable();
        if verdict() == Verdict::Continue {
            let held = timeout(&*self.handles().runtime, limits::LONG_POLL, notified).await;
            tracing::trace!(told = held.is_some(), "answering a held report");
        }
    }

    /// The host's own and its kernel's lines go into the host's log and the appliance's, each once.
    fn log(&self, key: &HostKey, claims: &Claims, report: &Report) {
        // Held while they are kept: whoever removes the host takes it from the views first, and then the
        // lines, so that none stays for the next host of its name.
        let mut views = self.views();
        let Some(known) = views.host_of(&claims.subject).map(|view| view.agent.log_sequence) else { return };
        let lines = || report.log.iter().take(limits::LOG_LINES_MAX).filter(|line| line.sequence > known);
        let now = self.now();
        let at = |uptime_ms: u64| {
            let ago = i64::try_from(report.uptime_ms.saturating_sub(uptime_ms)).unwrap_or(0);
            now.checked_sub(SignedDuration::from_millis(ago)).unwrap_or(now)
        };
        self.inner.logs.keep(key, lines().map(|line| (line.source, at(line.uptime_ms), map::line(&line.text))));
        drop(views);
        let attempt = claims.attempt;
        for line in lines() {
            let text = map::line(&line.text);
            match line.severity {
                0..=3 => tracing::warn!(host = %key, attempt, source = ?line.source, "{text}"),
                4..=5 => tracing::info!(host = %key, attempt, source = ?line.source, "{text}"),
                _ => tracing::debug!(host = %key, attempt, source = ?line.source, "{text}"),
            }
        }
    }
}

/// An inspection that shows another machine than the agent's hello named is not taken.
fn speaks_of_itself(agent: Option<&AgentBinding>, report: &Report) -> Result<(), Refusal> {
    let Some(agent) = agent else { return Ok(()) };
    let said = KnownIdentity::of(&agent.uuid, &agent.serial, agent.bound_at);
    let shown = report.receipts.iter().filter_map(|receipt| match &receipt.evidence {
        Evidence::Inspected { inventory } => Some(&inventory.system),
        Evidence::MetadataCleared { .. }
        | Evidence::DiskErased(_)
        | Evidence::ImageWritten { .. }
        | Evidence::FilesHandedOff { .. }
        | Evidence::BootEntrySet { .. }
        | Evidence::Leaving { .. } => None,
    });
    for system in shown {
        if compare(&said, &system.uuid, &system.serial, false).is_err() {
            let text = "the inspection shows another machine than the agent's hello: nothing of it is kept";
            return Err(refusal(RefusalReason::BadRequest, text));
        }
    }
    Ok(())
}

pub(crate) fn refusal(reason: RefusalReason, message: &str) -> Refusal {
    Refusal { reason, message: message.to_owned() }
}

pub(crate) fn busy(status: Status) -> Refusal {
    tracing::error!(error = %status.message, "storing what an agent said");
    refusal(RefusalReason::Busy, "the appliance could not store this: try again")
}

/// What else is known when a hello comes.
struct HelloFacts {
    /// What its token seals of the boot.
    boot: Option<BootSeal>,
    /// Whether the token's boot was seen.
    seen: Result<(), UnseenBoot>,
    /// Another host is known by the same UUID.
    is_uuid_shared: bool,
    remote: IpAddr,
    now: Timestamp,
}

/// Between two writes of one machine that is refused: it shows that it is still there.
const REFUSED_AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// Binds a token to the key of the first hello; pure.
fn bind(status: &mut HostJournalStatus, attempt: u64, hello: &Hello, facts: &HelloFacts) -> Binding {
    let (remote, now) = (facts.remote, facts.now);
    let current = journal::attempt(status);
    let key = hello.key.to_string();
    if journal::is_intruder(status, &key) {
        return Binding::Intruder;
    }
    if current != attempt {
        let is_held = claimants::is_claimant(status, &key);
        return if is_held { Binding::Claimant { is_new: false } } else { Binding::OldAttempt { current } };
    }
    if let Some(agent) = &status.agent
        && agent.attempt == attempt
    {
        if agent.key == key {
            return Binding::Known;
        }
        // What the host is known as may be the word of the bound agent itself. Where it was known before, another machine
        // is no claimant; one that claimed it stays one, whatever it says now.
        if agent.identity_compared
            && !claimants::is_claimant(status, &key)
            && let Err(change) = is_known_machine(status, attempt, hello, facts)
        {
            return Binding::IdentityChanged { why: change.to_string() };
        }
        let other = claimants::claimant_of(attempt, hello, remote, now);
        return Binding::Claimant { is_new: claimants::claim(status, &other, now) };
    }
    if let Err(why) = &facts.seen {
        let detail = format!("from {remote}, MAC {}: {why}", map::field(&hello.identity.boot_mac));
        status.note_again(event(now, attempt, "unseen_boot", detail));
        return Binding::Unseen(why.clone());
    }
    if let Err(change) = is_known_machine(status, attempt, hello, facts) {
        return Binding::IdentityChanged { why: change.to_string() };
    }
    status.refused_identity = None;
    let known = journal::known_identity(status);
    let identity = &hello.identity;
    let identity_compared = is_comparable(&known, &identity.uuid, &identity.serial, facts.is_uuid_shared);
    status.former_agent = status.agent.as_ref().map(Claimant::of);
    status.agent = Some(AgentBinding { identity_compared, ..bound(attempt, hello, remote, now) });
    if let Some(seal) = &facts.boot {
        boot_record::note_hello(status, attempt, seal, now);
    }
    status.progress = None;
    #[allow(clippy::cast_precision_loss, reason = "seconds for people")]
    let detail = format!("{:.1} s after the kernel's start", hello.uptime_ms as f64 / 1000.0);
    status.note(event(now, attempt, "agent_hello", detail));
    if let Some(way) = &hello.network {
        let name = if way.by_plan { "agent_network" } else { "agent_network_failed" };
        status.note(event(now, attempt, name, map::field(&way.text)));
    }
    Binding::New
}

/// Compares the machine of a hello with what the host is known as, and keeps one that is another; `Err` says both.
fn is_known_machine(
    status: &mut HostJournalStatus,
    attempt: u64,
    hello: &Hello,
    facts: &HelloFacts,
) -> Result<(), IdentityChange> {
    let now = facts.now;
    let (uuid, serial) = (map::field(&hello.identity.uuid).to_ascii_lowercase(), map::field(&hello.identity.serial));
    let known = journal::known_identity(status);
    let Err(change) = compare(&known, &uuid, &serial, facts.is_uuid_shared) else { return Ok(()) };
    let (address, mac) = (facts.remote.to_string(), map::field(&hello.identity.boot_mac));
    status.note_again(event(now, attempt, "identity_changed", format!("from {address}, MAC {mac}: {change}")));
    let refused = RefusedIdentity { uuid, serial, address, mac, at: now, attempt };
    // The same machine asks again and again.
    let is_known = |known: &RefusedIdentity| {
        (known.mark(), known.attempt) == (refused.mark(), attempt) && now.duration_since(known.at) < REFUSED_AGAIN
    };
    if !status.refused_identity.as_ref().is_some_and(is_known) {
        status.refused_identity = Some(refused);
    }
    Err(change)
}

/// Describes the agent that this hello is of.
fn bound(attempt: u64, hello: &Hello, remote: IpAddr, now: Timestamp) -> AgentBinding {
    AgentBinding {
        attempt,
        key: hello.key.to_string(),
        boot_id: map::field(&hello.boot_id),
        bound_at: now,
        mac: map::field(&hello.identity.boot_mac),
        uuid: map::field(&hello.identity.uuid).to_ascii_lowercase(),
        serial: map::field(&hello.identity.serial),
        address: remote.to_string(),
        agent_version: map::field(&hello.agent_version),
        kernel_version: map::field(&hello.kernel_version),
        network: hello.network.as_ref().map(|way| map::field(&way.text)).unwrap_or_default(),
        network_failed: hello.network.as_ref().is_some_and(|way| !way.by_plan),
        program_sha256: map::field(&hello.program.sha256),
        abilities: hello.program.abilities.iter().take(limits::ABILITIES_MAX).map(|own| map::field(own)).collect(),
        ..AgentBinding::default()
    }
}

/// The receipts of an attempt that the journal has.
fn stored(journal: &HostJournalStatus, attempt: u64) -> impl Iterator<Item = ReceiptPlace> {
    let of_attempt = journal.receipts.iter().filter(move |kept| kept.attempt == attempt);
    of_attempt.map(|kept| ReceiptPlace { plan: kept.plan, index: kept.index })
}

fn no_journal() -> Refusal {
    refusal(RefusalReason::OldAttempt, "this host has no journal any more: boot again")
}

/// What a report says that the one before did not.
#[derive(Debug, Default)]
struct Changes {
    attempt: u64,
    sequence: u64,
    /// When it was heard.
    at: Timestamp,
    events: Vec<TimelineEvent>,
    receipts: Vec<(Receipt, Timestamp)>,
    spoken: Vec<Spoken>,
    /// The running step; none runs where this is empty.
    progress: Option<Progress>,
    left: bool,
}

impl Changes {
    fn between(before: Option<&Report>, report: &Report, attempt: u64, now: Timestamp) -> Self {
        let mut changes = Self { attempt, sequence: report.sequence, at: now, left: report.leaving, ..Self::default() };
        let same_plan = before.filter(|before| before.plan == report.plan);
        for step in report.steps.iter().take(limits::STEPS_MAX) {
            let old = same_plan.and_then(|before| before.steps.iter().find(|old| old.index == step.index));
            changes.step(old, step, written_bytes(report, step), now);
        }
        // Of disks that are erased at once the one that must not lose its power is told, also after a restart.
        let running = || report.steps.iter().filter(|step| step.state == StepState::Running);
        let told = running().find(|step| firesteel_wire::erasure::cannot_stop(&step.activity)).or(running().next());
        changes.progress = told.map(|step| progress(step, report.plan, attempt, now));
        // By name and not by count: a host that leaves one out must not hide another behind it.
        let place = |receipt: &Receipt| (receipt.plan, receipt.index);
        let is_known = |receipt: &&Receipt| {
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
    fn are_news_to(&self, status: &HostJournalStatus) -> bool {
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
            (Some(old), Some(new)) => *old != Progress { at: old.at, ..new.clone() },
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

    fn new_receipts<'a>(&'a self, status: &'a HostJournalStatus) -> impl Iterator<Item = &'a (Receipt, Timestamp)> {
        self.receipts.iter().filter(|(receipt, _)| {
            let place = (self.attempt, receipt.plan, receipt.index);
            !status.receipts.iter().any(|kept| (kept.attempt, kept.plan, kept.index) == place)
        })
    }

    fn apply(&self, status: &mut HostJournalStatus, key: &ring::signature::Ed25519KeyPair) {
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
            let detail = unkept(&lost);
            tracing::warn!(attempt = self.attempt, "{detail}");
            status.note(event(*now, self.attempt, "evidence_dropped", detail));
        }
        if !self.is_overtaken(status) {
            if let Some(hardware) = &mut status.hardware {
                hardware.hear(&self.spoken);
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

/// Tells of evidence for which the journal has no room.
fn unkept(lost: &[ReceiptRecord]) -> String {
    let each: Vec<String> = lost
        .iter()
        .map(|lost| {
            let device = lost.evidence["device"].as_str().map(map::field).unwrap_or_default();
            format!("{} {} of plan {} ({device})", lost.step, lost.index, lost.plan)
        })
        .collect();
    format!("this boot brought more evidence than is kept: not kept any more is that of {}", each.join(", "))
}

/// Tells of signed receipts that made room for new ones.
fn dropped(names: &[String], status: &HostJournalStatus) -> String {
    let (count, kept) = (names.len(), status.signed.len());
    let first = names.first().map(String::as_str).unwrap_or_default();
    format!("{count} signed receipts, the oldest {first}, made room for newer ones: this host keeps its last {kept}")
}

fn has_left(status: &HostJournalStatus) -> bool {
    status.agent.as_ref().is_some_and(|agent| agent.left)
}

/// How much a finished step wrote, by its receipt; what it reported last where no receipt says so.
fn written_bytes(report: &Report, step: &StepReport) -> u64 {
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

fn progress(step: &StepReport, plan: u32, attempt: u64, now: Timestamp) -> Progress {
    let percent = match step.total_bytes {
        0 => 0,
        total => u8::try_from(u128::from(step.done_bytes.min(total)) * 100 / u128::from(total)).unwrap_or(100),
    };
    Progress {
        attempt,
        plan,
        step: map::field(&step.step),
        activity: map::field(&step.activity),
        done_bytes: step.done_bytes,
        total_bytes: step.total_bytes,
        percent,
        at: now,
        ..Progress::default()
    }
}

/// The inventory of an inspection is kept once, as the host's hardware; its receipt names it.
fn record(receipt: &Receipt, attempt: u64, now: Timestamp) -> ReceiptRecord {
    let at = |milliseconds: u64| {
        i64::try_from(milliseconds).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or(now)
    };
    let mut evidence = told(receipt);
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
fn told(receipt: &Receipt) -> Value {
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

fn bytes_of(evidence: &Value) -> usize {
    evidence.to_string().len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use firesteel_resources::hardware::{HardwareRecord, NicRecord, SystemRecord};
    use firesteel_wire::{Identity, Neighbour, PublicKey};

    fn hello(key: u8) -> Hello {
        Hello {
            token: "t".into(),
            key: PublicKey([key; 32]),
            identity: Identity { boot_mac: "52:54:00:00:00:01".into(), ..Identity::default() },
            agent_version: "0.1.0".into(),
            kernel_version: "6.1".into(),
            uptime_ms: 2500,
            boot_id: "b".into(),
            network: None,
            program: firesteel_wire::Program::default(),
        }
    }

    fn facts(now: Timestamp) -> HelloFacts {
        HelloFacts { boot: None, seen: Ok(()), is_uuid_shared: false, remote: "192.0.2.9".parse().unwrap(), now }
    }

    fn unseen(now: Timestamp) -> HelloFacts {
        HelloFacts { seen: Err(UnseenBoot::Unsealed), ..facts(now) }
    }

    fn journal(attempt: u64) -> HostJournalStatus {
        HostJournalStatus { memory: serde_json::json!({"attempt": attempt}), ..HostJournalStatus::default() }
    }

    #[test]
    fn the_first_key_of_an_attempt_takes_its_token() {
        let now = Timestamp::UNIX_EPOCH;
        let mut status = journal(4);
        for _ in 0..2 {
            let refused = bind(&mut status, 4, &hello(1), &unseen(now));
            assert!(matches!(refused, Binding::Unseen(UnseenBoot::Unsealed)));
        }
        assert_eq!(status.agent, None, "nothing is bound");
        assert_eq!(status.timeline.iter().filter(|event| event.event == "unseen_boot").count(), 1);
        assert!(matches!(bind(&mut status, 4, &hello(1), &facts(now)), Binding::New));
        assert!(matches!(bind(&mut status, 4, &hello(1), &unseen(now)), Binding::Known), "it was seen before");
        let bound = status.agent.clone();
        assert!(matches!(bind(&mut status, 4, &hello(2), &facts(now)), Binding::Claimant { is_new: true }));
        assert!(matches!(bind(&mut status, 4, &hello(2), &facts(now)), Binding::Claimant { is_new: false }));
        assert_eq!(status.agent, bound, "the second key is not bound");
        let claim = status.claim.clone().unwrap();
        assert_eq!((claim.first.key.as_str(), claim.others[0].key.as_str()), (&*"01".repeat(32), &*"02".repeat(32)));
        let second: Vec<_> = status.timeline.iter().filter(|event| event.event == "second_claimant").collect();
        assert_eq!(second.len(), 1, "reported once, not at each try");
        assert!(second[0].detail.contains("192.0.2.9") && second[0].detail.contains("52:54:00:00:00:01"));
        assert!(matches!(bind(&mut status, 3, &hello(1), &facts(now)), Binding::OldAttempt { current: 4 }));
        status.memory = serde_json::json!({"attempt": 5});
        assert!(matches!(bind(&mut status, 5, &hello(3), &facts(now)), Binding::New), "a new attempt, a new key");
        assert_eq!(status.former_agent.as_ref().unwrap().key, "01".repeat(32), "it may report on");
        status.memory = serde_json::json!({"attempt": 6, "intruders": [{"key": "02".repeat(32)}]});
        assert!(matches!(bind(&mut status, 6, &hello(2), &facts(now)), Binding::Intruder));
    }

    /// A machine with a stolen token may be inspected before the host's own agent comes.
    #[test]
    fn what_the_bound_agent_alone_said_makes_no_other_machine_a_stranger() {
        let now = Timestamp::UNIX_EPOCH;
        let uuid = |last: char| format!("4c4c4544-0046-3310-8051-b4c04f56443{last}");
        let says = |key: u8, last: char| {
            let mut hello = hello(key);
            hello.identity.uuid = uuid(last);
            hello
        };
        for is_accepted in [false, true] {
            let mut status = journal(4);
            assert!(matches!(bind(&mut status, 4, &says(1, '1'), &facts(now)), Binding::New));
            let inspected = |attempt| HardwareRecord {
                attempt,
                system: SystemRecord { uuid: uuid('1'), ..SystemRecord::default() },
                ..HardwareRecord::default()
            };
            status.hardware = Some(inspected(4));
            if is_accepted {
                status.memory["identity"] = serde_json::json!({"uuid": uuid('1')});
            }
            assert!(matches!(bind(&mut status, 4, &says(2, '2'), &facts(now)), Binding::Claimant { is_new: true }));
            assert_eq!(status.refused_identity, None);

            // The power settled it, and the planner forgot what was accepted.
            status.memory = serde_json::json!({"attempt": 5});
            assert!(
                matches!(bind(&mut status.clone(), 5, &says(3, '2'), &facts(now)), Binding::New),
                "the host is back"
            );
            // Who was compared with an earlier inspection is held against it.
            status.hardware = Some(inspected(3));
            assert!(matches!(bind(&mut status, 5, &says(4, '1'), &facts(now)), Binding::New));
            let stranger = bind(&mut status, 5, &says(5, '2'), &facts(now));
            assert!(matches!(stranger, Binding::IdentityChanged { .. }));
            // What claimed it once stays a claimant, whatever it says of itself later.
            assert!(matches!(bind(&mut status, 5, &says(6, '1'), &facts(now)), Binding::Claimant { is_new: true }));
            assert!(matches!(bind(&mut status, 5, &says(6, '2'), &facts(now)), Binding::Claimant { is_new: false }));
        }
    }

    /// A second machine with the host's MAC, as after a swap of boards or of cables; in each state of the host.
    #[test]
    fn another_machine_is_refused_and_reported_and_changes_nothing() {
        let now = Timestamp::UNIX_EPOCH;
        for state in ["registering", "inspecting", "available", "provisioned"] {
            let mut status = journal(4);
            let known = serde_json::json!({"uuid": "4c4c4544-0046-3310-8051-b4c04f564432", "serial": "S1"});
            status.memory = serde_json::json!({"attempt": 4, "state": {"name": state}, "identity": known});
            let says = |uuid: &str| {
                let mut other = hello(2);
                uuid.clone_into(&mut other.identity.uuid);
                other
            };
            for uuid in ["4c4c4544-0046-3310-8051-b4c04f564433", "", "00000000-0000-0000-0000-000000000000"] {
                for _ in 0..2 {
                    let refused = bind(&mut status, 4, &says(uuid), &facts(now));
                    assert!(matches!(refused, Binding::IdentityChanged { .. }), "{state} {uuid}");
                }
                assert_eq!(status.refused_identity.as_ref().unwrap().uuid, uuid);
                let shared = HelloFacts { is_uuid_shared: true, ..facts(now) };
                assert!(matches!(bind(&mut status.clone(), 4, &says(uuid), &shared), Binding::New));
            }
            assert_eq!(status.agent, None, "the token is not taken");
            let noted: Vec<_> = status.timeline.iter().filter(|event| event.event == "identity_changed").collect();
            assert!(noted.len() == 1 && noted[0].detail.contains("192.0.2.9"), "{noted:?}");
            let mut accepted = status.clone();
            accepted.memory["identity"] = serde_json::json!({"uuid": "", "serial": ""});
            assert!(matches!(bind(&mut accepted, 4, &says(""), &facts(now)), Binding::New), "a person said so");
            // Its bytes are swapped by other firmware of the same board.
            for right in ["4C4C4544-0046-3310-8051-B4C04F564432", "44454c4c-4600-1033-8051-b4c04f564432"] {
                assert!(matches!(bind(&mut status.clone(), 4, &says(right), &facts(now)), Binding::New), "{right}");
            }
            bind(&mut status, 4, &says("4c4c4544-0046-3310-8051-b4c04f564432"), &facts(now));
            assert_eq!(status.refused_identity, None, "the host is back");
        }
    }

    fn report(plan: u32, state: StepState, done_bytes: u64, leaving: bool) -> Report {
        Report {
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

    /// Receipts were told by their count: one that replaced a hidden one was acknowledged and not kept.
    #[test]
    fn a_receipt_that_was_left_out_hides_no_other() {
        let receipt = |index| Receipt {
            plan: 1,
            index,
            step: "clear-metadata".into(),
            started_ms: 1,
            ended_ms: 2,
            span: None,
            evidence: Evidence::Leaving { how: String::new() },
        };
        let with = |indices: &[u32]| Report {
            receipts: indices.iter().map(|index| receipt(*index)).collect(),
            ..report(1, StepState::Done, 0, false)
        };
        let changes = Changes::between(Some(&with(&[0, 1])), &with(&[0, 2]), 1, Timestamp::UNIX_EPOCH);
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
            let receipt = Receipt {
                plan: 1,
                index,
                step: "y".repeat(1 << 16),
                started_ms: 1,
                ended_ms: 2,
                span: None,
                evidence: Evidence::Leaving { how },
            };
            let mut report = Report { receipts: vec![receipt], ..report(1, StepState::Failed, 0, false) };
            report.steps[0].error = "ü".repeat(1 << 20);
            report.steps[0].started_ms = u64::from(index) + 1;
            report.steps[0].ended_ms = u64::from(index) + 1;
            Changes::between(None, &report, 1, now).apply(&mut status, &key);
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
        let receipt = |index: u32| Receipt {
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
            let report = Report { receipts: vec![receipt(plan)], ..report(2, StepState::Running, 1, false) };
            Changes::between(None, &report, 1, now).apply(&mut status, &key);
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
        let early = Report {
            receipts: vec![Receipt {
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
        let late = Report { sequence: 2, ..report(2, StepState::Running, 150, false) };
        let changes = Changes::between(None, &late, 1, now);
        assert!(changes.are_news_to(&status));
        changes.apply(&mut status, &key);
        assert!(!changes.are_news_to(&status), "said twice is stored once");
        let (progress, timeline) = (status.progress.clone(), status.timeline.clone());
        // The appliance restarted in between: no view remembers that the first was overtaken.
        Changes::between(None, &early, 1, now).apply(&mut status, &key);
        assert_eq!((&status.progress, &status.timeline), (&progress, &timeline));
        assert_eq!(status.receipts.len(), 1, "evidence is never thrown away");
        assert!(!Changes::between(None, &early, 1, now).are_news_to(&status));
        let next = Report { sequence: 3, ..report(2, StepState::Running, 160, false) };
        assert!(Changes::between(Some(&late), &next, 1, now).are_news_to(&status));
    }

    /// What moves is stored with the report that says so, and the agent reports more often than that.
    #[test]
    fn what_comes_on_is_told_at_least_each_ten_seconds() {
        const { assert!(limits::REPORT_INTERVAL.as_secs() * 2 <= 10) };
        let key = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        for (step, activity) in [("erase-disk", "overwrite"), ("write-image", "writing")] {
            let mut status = journal(1);
            bind(&mut status, 1, &hello(1), &facts(Timestamp::UNIX_EPOCH));
            let mut last: Option<Report> = None;
            for second in (2..=180).step_by(2) {
                let now = Timestamp::from_second(second).unwrap();
                let sequence = second.cast_unsigned();
                let mut report = Report { sequence, ..report(2, StepState::Running, sequence, false) };
                (report.steps[0].step, report.steps[0].activity) = (step.into(), activity.into());
                let changes = Changes::between(last.as_ref(), &report, 1, now);
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
            let report = Report { sequence, neighbours: vec![neighbour], ..report(1, StepState::Running, 0, false) };
            Changes::between(None, &report, 1, now)
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
    fn receipts_of_this_attempt_are_named() {
        let kept = |attempt, plan, index| ReceiptRecord { attempt, plan, index, ..ReceiptRecord::default() };
        let journal =
            HostJournalStatus { receipts: vec![kept(1, 1, 0), kept(2, 1, 1), kept(2, 3, 0)], ..Default::default() };
        let places: Vec<_> = stored(&journal, 2).collect();
        assert_eq!(places, [ReceiptPlace { plan: 1, index: 1 }, ReceiptPlace { plan: 3, index: 0 }]);
    }

    #[test]
    fn of_steps_that_run_at_once_the_one_that_cannot_be_interrupted_is_stored() {
        let mut running = report(2, StepState::Running, 100, false);
        let mut drive = running.steps[0].clone();
        (drive.index, drive.activity) = (drive.index + 1, "secure-erase for 5 min".to_owned());
        running.steps.push(drive);
        let changes = Changes::between(None, &running, 1, Timestamp::UNIX_EPOCH);
        assert_eq!(changes.progress.unwrap().activity, "secure-erase for 5 min");
    }

    #[test]
    fn the_timeline_has_each_start_and_end_once_also_after_a_restart() {
        let key = ring::signature::Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let now = Timestamp::from_second(1).unwrap();
        let mut status = journal(1);
        let running = report(2, StepState::Running, 100, false);
        let done = report(2, StepState::Done, 200, true);
        Changes::between(None, &running, 1, now).apply(&mut status, &key);
        assert_eq!(status.progress.as_ref().unwrap().percent, 50);
        Changes::between(Some(&running), &running, 1, now).apply(&mut status, &key);
        Changes::between(Some(&running), &done, 1, now).apply(&mut status, &key);
        // The appliance restarted: it has seen no report before.
        Changes::between(None, &done, 1, now).apply(&mut status, &key);
        let names: Vec<&str> = status.timeline.iter().map(|event| event.event.as_str()).collect();
        assert_eq!(names.iter().filter(|name| **name == "write_start").count(), 1, "{names:?}");
        assert_eq!(names.iter().filter(|name| **name == "write_end").count(), 1, "{names:?}");
        assert!(status.progress.is_none());
    }
}
