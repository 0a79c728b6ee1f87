//! Hello and report: what agents say, and what they get as an answer.
//!
//! The first hello of an attempt binds its token to the agent's key, in the journal, before it is
//! answered. From then on only that key is heard. A second one is held and has both stop ([`crate::claimants`]).

use std::{net::IpAddr, sync::Arc};

use firesteel_boot::{BootEntry, BootTokenClaims, Purpose, Sealer};
use firesteel_plan::host::{KnownIdentity, identity::compare};
use firesteel_plan::journal;
use firesteel_resources::host_journal::{AgentBinding, HostJournalStatus, RECEIPTS_MAX};
use firesteel_runtime::{HostKey, event};
use firesteel_wire::{
    AgentInstruction, AgentReport, Evidence, Hello, HelloReply, ReceiptPlace, RefusalReason, RefusalReply, ReportReply,
    StepReceipt, limits,
};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

use crate::binding::{HelloBinding, HelloFacts, bind};
use crate::boot_observations::BootObserver;
use crate::discovery::UnownedMachines;
use crate::hardware_store::HardwareStore;
use crate::map;
use crate::receipts::ReceiptKeeper;
use crate::refusals::{busy, refusal};
use crate::report_changes::{EVIDENCE_BYTES_MAX, ReportChanges, bytes_of, dropped, receipt_json};
use crate::second_agents::HeardClaimant;
use crate::shared::{Shared, unix_milliseconds};
use crate::step_speed::StepSpeed;
use crate::views::ReportOrder;

/// Speaks with the agents of hosts.
#[derive(Clone)]
pub struct AgentConversations {
    pub(crate) shared: Arc<Shared>,
    pub(crate) machines: UnownedMachines,
    pub(crate) observations: BootObserver,
    pub(crate) receipts: ReceiptKeeper,
    pub(crate) hardware: HardwareStore,
    pub(crate) sealer: Arc<Sealer>,
}

impl AgentConversations {
    /// Answers the first message of a boot.
    ///
    /// # Errors
    /// A refusal with its reason; see [`RefusalReason`].
    pub fn hello(&self, hello: Hello, remote: IpAddr) -> BoxFuture<'_, Result<HelloReply, RefusalReply>> {
        Box::pin(async move {
            let claims = match self.claims(&hello.token) {
                Ok(claims) => claims,
                Err(refused) => return Err(self.refuse_token(&hello.token, refused, remote)),
            };
            self.started().await?;
            match claims.purpose {
                Purpose::Discovery => self.machines.discovery_hello(&claims, &hello, remote).await,
                Purpose::Agent => self.host_hello(&claims, &hello, remote).await,
                Purpose::Instance => Err(refusal(RefusalReason::BadToken, "this token is not for agents")),
            }
        })
    }

    /// Takes a report and says what is next; holds the answer to an idle agent.
    ///
    /// # Errors
    /// A refusal with its reason; see [`RefusalReason`].
    pub fn report(&self, report: AgentReport, remote: IpAddr) -> BoxFuture<'_, Result<ReportReply, RefusalReply>> {
        Box::pin(async move {
            let claims = self.claims(&report.token)?;
            self.started().await?;
            match claims.purpose {
                Purpose::Discovery => self.machines.discovery_report(&claims, report).await,
                Purpose::Agent => self.host_report(&claims, report, remote).await,
                Purpose::Instance => Err(refusal(RefusalReason::BadToken, "this token is not for agents")),
            }
        })
    }

    async fn started(&self) -> Result<(), RefusalReply> {
        if self.shared.knows_hosts().await {
            return Ok(());
        }
        Err(refusal(RefusalReason::Busy, "the appliance is starting: try again"))
    }

    fn claims(&self, token: &str) -> Result<BootTokenClaims, RefusalReply> {
        self.sealer
            .open_boot(token, self.shared.clock.age_s())
            .map_err(|error| refusal(RefusalReason::BadToken, &format!("{error}: boot again from the network")))
    }

    pub(crate) fn host_of(&self, claims: &BootTokenClaims) -> Result<HostKey, RefusalReply> {
        let views = self.shared.views();
        let key = views.by_uid.get(&claims.subject).cloned();
        key.ok_or_else(|| match views.unreadable_host() {
            Some(why) => refusal(RefusalReason::Busy, &why),
            None => refusal(RefusalReason::OldAttempt, "the host of this token is gone: boot again"),
        })
    }

    /// The boot of this host's MACs is over: its agent is there. The step that follows looks at it.
    fn boot_registered(&self, key: &HostKey, now: Timestamp) {
        let macs = self.shared.views().hosts.get(key).map(|view| view.macs.clone()).unwrap_or_default();
        for mac in macs {
            self.shared.boot_watch.registered(mac, true, now);
        }
    }

    async fn host_hello(
        &self,
        claims: &BootTokenClaims,
        hello: &Hello,
        remote: IpAddr,
    ) -> Result<HelloReply, RefusalReply> {
        let key = self.host_of(claims)?;
        let now = self.shared.now();
        // After a restart what is written counts.
        if let Some(journal) = self.shared.journals.read(&key).await.map_err(busy)? {
            self.observations.recall_boot(claims, &journal);
        }
        let facts = HelloFacts {
            boot: claims.boot,
            seen: self.observations.hello_counts(claims, hello),
            is_uuid_shared: self.shared.views().shared_uuid(&key).is_some(),
            remote,
            now,
        };
        let binding = self
            .shared
            .journals
            .change(&key, |status| bind(status, claims.attempt, hello, &facts))
            .await
            .map_err(busy)?
            .ok_or_else(|| refusal(RefusalReason::Busy, "this host has no journal yet: try again"))?;
        match binding {
            HelloBinding::New => {
                tracing::info!(host = %key, attempt = claims.attempt, mac = %hello.identity.boot_mac, "agent says hello");
                self.begin_agent(&key, claims.attempt, hello);
                self.boot_registered(&key, now);
                self.shared.queue.wake(&key);
            }
            HelloBinding::Unseen(why) => return Err(self.refuse_unseen(&key, claims.attempt, &why, remote)),
            HelloBinding::IdentityChanged { why } => {
                self.shared.metrics.agent_refused();
                self.warn_of_refusal(&key, claims.attempt, Some(remote), &why);
                self.shared.queue.wake(&key);
                // It waits: a reboot would only bring it back, and a person may say that it is the host.
                return Err(refusal(RefusalReason::Held, &why));
            }
            HelloBinding::Known => self.begin_agent(&key, claims.attempt, hello),
            HelloBinding::Claimant { is_new } => {
                let heard = HeardClaimant { at: now, cannot_stop: None };
                return Err(self.hold_claimant(&key, &hello.key.to_string(), is_new, heard));
            }
            HelloBinding::Intruder => return Err(self.send_away(&key, claims.attempt)),
            HelloBinding::OldAttempt { current } => {
                let text = format!("attempt {} is over, the host is at attempt {current}: boot again", claims.attempt);
                return Err(refusal(RefusalReason::OldAttempt, &text));
            }
        }
        self.shared.views().note_agent_address(&claims.subject, remote, claims.attempt);
        let hold = self.shared.hold_of(&key);
        let verdict = self.verdict_of(&key, 0, hold.is_some());
        Ok(HelloReply { host: key.name, attempt: claims.attempt, time_ms: unix_milliseconds(now), verdict, hold })
    }

    fn verdict_of(&self, key: &HostKey, plan: u32, is_shut: bool) -> AgentInstruction {
        self.shared.views().hosts.get(key).map_or(AgentInstruction::Continue, |view| view.agent.verdict(plan, is_shut))
    }

    /// Takes the agent into the views, unless it is there (a repeated hello).
    fn begin_agent(&self, key: &HostKey, attempt: u64, hello: &Hello) {
        let mut views = self.shared.views();
        let Some(view) = views.hosts.get_mut(key) else { return };
        if view.agent.key != Some(hello.key) || view.agent.attempt != attempt {
            view.agent.begin(attempt, hello.key);
        }
        view.refused_hello = None;
        view.agent.last_report_at = Some(self.shared.now());
    }

    async fn host_report(
        &self,
        claims: &BootTokenClaims,
        report: AgentReport,
        remote: IpAddr,
    ) -> Result<ReportReply, RefusalReply> {
        let key = self.host_of(claims)?;
        self.note_arrival(&key, &report);
        // An agent that says the same again has everything on disk: it was stored before it was heard.
        if !self.has_reported(&key, claims, &report) {
            let journal = self.check_binding(&key, claims, &report, remote).await?;
            self.keep_report(&key, claims, &report, journal).await?;
        }
        let now = self.shared.now();
        let (plan, idle, leaving) = (report.plan, report.idle, report.leaving);
        // After a restart of the appliance, too, which an agent says no second hello for.
        self.shared.views().note_agent_address(&claims.subject, remote, claims.attempt);
        self.log(&key, claims, &report);
        let (changed, acknowledged, stored, heard) = {
            let mut views = self.shared.views();
            let Some(view) = views.host_of(&claims.subject) else {
                return Err(refusal(RefusalReason::OldAttempt, "the host of this token is gone: boot again"));
            };
            let heard = view.agent.take_report(report, now);
            let agent = &view.agent;
            (std::sync::Arc::clone(&agent.changed), agent.log_sequence, agent.stored.clone(), heard)
        };
        if heard == ReportOrder::News {
            self.shared.queue.wake(&key);
        }
        let verdict = || self.verdict_of(&key, plan, self.shared.hold_of(&key).is_some());
        // A report that came late is answered at once, and so is each where it counts which machines still report.
        if idle && !leaving && heard != ReportOrder::Overtaken && !self.is_claimed(&key) {
            self.shared.hold(&changed, &verdict).await;
            if let Some(view) = self.shared.views().hosts.get_mut(&key) {
                view.agent.last_report_at = Some(self.shared.now());
            }
        }
        let hold = self.shared.hold_of(&key);
        let verdict = if leaving { AgentInstruction::Continue } else { self.verdict_of(&key, plan, hold.is_some()) };
        let time_ms = unix_milliseconds(self.shared.now());
        Ok(ReportReply { time_ms, log_acknowledged: acknowledged, stored, verdict, hold })
    }

    /// The bound agent of the published attempt says what it said before.
    fn has_reported(&self, key: &HostKey, claims: &BootTokenClaims, report: &AgentReport) -> bool {
        self.shared.views().hosts.get(key).is_some_and(|view| {
            let published = match &view.boot_entry {
                Some(BootEntry::Agent { attempt, .. }) => *attempt == claims.attempt,
                Some(_) | None => false,
            };
            published && view.agent.attempt == claims.attempt && view.agent.has_reported(report)
        })
    }

    /// Stores receipts and the leave before the agent hears that we have them.
    async fn keep_report(
        &self,
        key: &HostKey,
        claims: &BootTokenClaims,
        report: &AgentReport,
        mut journal: HostJournalStatus,
    ) -> Result<(), RefusalReply> {
        let now = self.shared.now();
        let (before, speed) = match self.shared.views().hosts.get_mut(key) {
            Some(view) => (view.agent.last_report.clone(), view.agent.speed_of(report, now)),
            None => (None, StepSpeed::default()),
        };
        let mut changes = ReportChanges::between(before.as_ref(), report, claims.attempt, now);
        if let Some(progress) = &mut changes.progress {
            (progress.bytes_per_second, progress.seconds_left) = (speed.bytes_per_second, speed.seconds_left);
        }
        if changes.are_news_to(&journal) {
            let signer = &self.receipts.receipt_key;
            let new: Vec<StepReceipt> = changes.new_receipts(&journal).map(|(receipt, _)| receipt.clone()).collect();
            let named = new.iter().filter(|receipt| bytes_of(&receipt_json(receipt)) <= EVIDENCE_BYTES_MAX).collect();
            let signed = self
                .receipts
                .sign_receipts(key, &claims.subject, claims.attempt, named, &journal)
                .await
                .map_err(busy)?;
            let apply = |status: &mut HostJournalStatus| {
                changes.apply(status, signer);
                let excess = status.note_signed(&signed);
                if !excess.is_empty() {
                    status.note_again(event(now, claims.attempt, "receipts_dropped", dropped(&excess, status)));
                }
                (status.clone(), excess)
            };
            let changed = self.shared.journals.change(key, apply).await.map_err(busy)?;
            let excess;
            (journal, excess) = changed.ok_or_else(no_journal)?;
            self.receipts.forget_receipts(&key.namespace, &excess).await;
        }
        // The same words again change nothing: a restart of the appliance in between is made good here.
        let is_first = before.is_none_or(|before| before.neighbours != report.neighbours);
        if is_first && !report.neighbours.is_empty() {
            self.hardware.show_neighbours(key, &journal).await.map_err(busy)?;
        }
        if let Some(view) = self.shared.views().hosts.get_mut(key).filter(|view| view.agent.attempt == claims.attempt) {
            // A journal that is full dropped the oldest: brought again, they would drive out others.
            if journal.receipts.len() < RECEIPTS_MAX {
                view.agent.stored.clear();
            }
            view.agent
                .note_stored(stored(&journal, claims.attempt).chain(report.receipts.iter().map(StepReceipt::place)));
        }
        Ok(())
    }

    /// Checks that a report comes by the key that the attempt's token is bound to. After a restart of the appliance
    /// the journal says which that is.
    async fn check_binding(
        &self,
        key: &HostKey,
        claims: &BootTokenClaims,
        report: &AgentReport,
        remote: IpAddr,
    ) -> Result<HostJournalStatus, RefusalReply> {
        let journal = self.shared.journals.read(key).await.map_err(busy)?.ok_or_else(no_journal)?;
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
        let mut views = self.shared.views();
        if let Some(view) = views.hosts.get_mut(key)
            && view.agent.key != Some(report.key)
        {
            view.agent.begin(current, report.key);
        }
        Ok(journal)
    }

    /// The host's own and its kernel's lines go into the host's log and the appliance's, each once.
    fn log(&self, key: &HostKey, claims: &BootTokenClaims, report: &AgentReport) {
        // Held while they are kept: a host that is removed leaves the views first, and then the lines, so that none
        // stays for the next host of its name.
        let mut views = self.shared.views();
        let Some(known) = views.host_of(&claims.subject).map(|view| view.agent.log_sequence) else { return };
        let lines = || report.log.iter().take(limits::LOG_LINES_MAX).filter(|line| line.sequence > known);
        let now = self.shared.now();
        let at = |uptime_ms: u64| {
            let ago = i64::try_from(report.uptime_ms.saturating_sub(uptime_ms)).unwrap_or(0);
            now.checked_sub(SignedDuration::from_millis(ago)).unwrap_or(now)
        };
        self.shared.logs.keep(key, lines().map(|line| (line.source, at(line.uptime_ms), map::line(&line.text))));
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
fn speaks_of_itself(agent: Option<&AgentBinding>, report: &AgentReport) -> Result<(), RefusalReply> {
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

/// The receipts of an attempt that the journal has.
fn stored(journal: &HostJournalStatus, attempt: u64) -> impl Iterator<Item = ReceiptPlace> {
    let of_attempt = journal.receipts.iter().filter(move |kept| kept.attempt == attempt);
    of_attempt.map(|kept| ReceiptPlace { plan: kept.plan, index: kept.index })
}

fn no_journal() -> RefusalReply {
    refusal(RefusalReason::OldAttempt, "this host has no journal any more: boot again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_resources::host_journal::ReceiptRecord;

    #[test]
    fn receipts_of_this_attempt_are_named() {
        let kept = |attempt, plan, index| ReceiptRecord { attempt, plan, index, ..ReceiptRecord::default() };
        let journal =
            HostJournalStatus { receipts: vec![kept(1, 1, 0), kept(2, 1, 1), kept(2, 3, 0)], ..Default::default() };
        let places: Vec<_> = stored(&journal, 2).collect();
        assert_eq!(places, [ReceiptPlace { plan: 1, index: 1 }, ReceiptPlace { plan: 3, index: 0 }]);
    }
}
