//! One step of one host: read, decide, store, publish, act. In this order, always.

use firesteel_boot::{BootEntry, DiskProbe};
use firesteel_facts::Mac;
use firesteel_handoff::promised_by;
use firesteel_kube::{ObjectPart, Status};
use firesteel_plan::host::{HostState, IssuedPlan};
use firesteel_plan::{self as plan, HostEffect, HostMemory, HostStep, instance::count_token, journal};
use firesteel_resources::bare_metal_host::annotations::{ANY_ADDRESS, BOOT_ADDRESS};
use firesteel_resources::host_journal::{HostJournalStatus, JournalReason};
use firesteel_resources::{BareMetalHost, HostJournal};
use firesteel_runtime::{HostKey, SteppedHost, event, key_of};
use firesteel_wire as wire;
use jiff::Timestamp;

use crate::views::{NetworkView, StoredHostIdentity};
use crate::{effects::PlanError, reconciler::HostReconciler, standing::SurveyedHost};

impl HostReconciler {
    /// Steps a host once.
    pub(crate) async fn step(&self, key: &HostKey) -> Result<(), Status> {
        let known = self.shared.views().hosts.get(key).map(|view| view.uid.clone());
        let Some(host) = self.hosts.get(&key.namespace, &key.name).await? else {
            self.forget_gone(key, known.as_deref());
            return Ok(());
        };
        let (journal, made) = self.shared.journals.open(key, &host).await?;
        if made && !self.is_there(key, &host).await? {
            // Deleted since it was read, and its journal removed before this one was made.
            return self.shared.journals.remove(key, &host.metadata.uid).await;
        }
        let Some(memory) = memory_of(key, &journal) else {
            // Nothing is done with it.
            self.free_slot(key);
            self.shared.views().offer_unreadable(key, &host.metadata.uid);
            return Ok(());
        };
        let now = self.shared.now();
        let (has_slot, deletes) = (memory.admitted.is_some(), host.metadata.is_deleting());
        let (inspected, claim) = (journal.status.hardware.as_ref(), journal.status.claim.as_ref());
        let known = plan::host::identity::known(memory.identity.as_ref(), inspected, claim);
        let twins = self.shared.views().learn_machine(key, &known.uuid);
        twins.iter().for_each(|twin| self.shared.queue.wake(twin));
        let (network_data, network) = self.network_data(key, &host).await?;
        let mut seen = self.seen(host, memory, &journal.status, now, network_data).await?;
        seen.slot = self.shared.views().slots.offer(key, has_slot, deletes);
        seen.work_hold.clone_from(&self.host_network.now().work_hold);
        let step = plan::step(&seen, now);
        tracing::debug!(host = %key, state = ?step.memory.state, reason = %step.reason.text, effects = ?step.effects, "step");
        let journal = self.keep(journal, &seen.memory, &step, now).await?;
        self.shared.metrics.step(key, &seen, &step);
        let standing = plan::host::standing(&step.memory, &seen);
        let next = self.shared.views().slots.update_slot(key, standing, deletes);
        next.iter().for_each(|key| self.shared.queue.wake(key));
        self.shared.events.announce(&seen.host.metadata, &step.events, now);
        let shut = plan::host::gate::closed_gate(&step.memory, &seen).map(|shut| shut.text);
        self.publish(&seen, &step.memory, network, shut).await;
        self.learn_system(key, &seen, &step.memory);
        let stepped =
            SteppedHost { host: seen.host.clone(), memory: step.memory.clone(), journal: journal.status.clone() };
        self.shared.views().offer_step(key, stepped);
        self.consoles.update_console(&seen, &step.memory, journal.status.instance.as_ref());
        // Without its finalizer a host goes as soon as it is deleted: the finalizer comes before the status shows it.
        let is_first = |effect: &&HostEffect| matches!(effect, HostEffect::AddFinalizer);
        let (first, then): (Vec<_>, Vec<_>) = step.effects.iter().partition(is_first);
        for effect in first {
            self.act(&seen.host, &step.memory, &journal.status, effect).await?;
        }
        self.project(&seen, &step, now).await?;
        for effect in then {
            self.act(&seen.host, &step.memory, &journal.status, effect).await?;
        }
        self.instances.answer_token_extension(&seen.host).await?;
        if let Some(delay) = step.wake {
            let delay = delay.max(jiff::SignedDuration::from_millis(10));
            self.shared.queue.wake_in(key, delay.unsigned_abs());
        }
        Ok(())
    }

    /// Takes in which system the host's BMC drives, and has the hosts stepped again that it concerns.
    fn learn_system(&self, key: &HostKey, seen: &plan::HostInputs, memory: &HostMemory) {
        let system = plan::host::wrong_boot_mac::driven_system(memory, seen);
        let is_first = self.shared.views().hosts.get(key).is_some_and(|view| !view.is_system_known);
        let concerned = self.shared.views().learn_system(key, system);
        if is_first || !concerned.is_empty() {
            self.shared.discovered_changed.notify_one();
        }
        concerned.iter().for_each(|key| self.shared.queue.wake(key));
    }

    fn forget_gone(&self, key: &HostKey, known: Option<&str>) {
        self.free_slot(key);
        self.shared.views().consoles.end(key);
        if let Some(uid) = known {
            self.shared.views().forget_host(key, uid);
            self.shared.discovered_changed.notify_one();
            // One of them may have waited for its MAC.
            self.shared.wake_hosts(|_| true);
        }
    }

    async fn is_there(&self, key: &HostKey, host: &BareMetalHost) -> Result<bool, Status> {
        let now = self.hosts.get(&key.namespace, &key.name).await?;
        Ok(now.is_some_and(|now| now.metadata.uid == host.metadata.uid))
    }

    /// 1. The truth, on disk before anything follows from it.
    async fn keep(
        &self,
        mut journal: HostJournal,
        before: &HostMemory,
        step: &HostStep,
        now: Timestamp,
    ) -> Result<HostJournal, Status> {
        let old = journal.status.clone();
        let key = HostKey { namespace: journal.metadata.namespace.clone(), name: journal.metadata.name.clone() };
        let status = &mut journal.status;
        journal::set_memory(status, &step.memory)
            .map_err(|error| Status::internal(format!("encoding a host's memory: {error}")))?;
        status.answers.clone_from(&step.answers);
        if let Some(view) = self.shared.views().hosts.get(&key).filter(|view| !view.warned.is_empty()) {
            status.hand_off_warned.clone_from(&view.warned);
        }
        let reason = JournalReason {
            text: step.reason.text.clone(),
            location: format!("{}:{}", short(step.reason.location.file()), step.reason.location.line()),
            since: now,
        };
        let same =
            status.reason.as_ref().is_some_and(|old| (&old.text, &old.location) == (&reason.text, &reason.location));
        if !same {
            status.reason = Some(reason);
        }
        for happened in &step.events {
            let text = happened.message.clone();
            status.note(event(now, step.memory.attempt, happened.reason.word(), text));
        }
        let (from, to) = (before.state.word(), step.memory.state.word());
        if from != to {
            let name = if to.to_string() == "provisioned" { "provisioned" } else { "state" };
            let detail =
                format!("{} to {to}", if from.to_string().is_empty() { "new".to_owned() } else { from.to_string() });
            status.note(event(now, step.memory.attempt, name, detail));
            tracing::info!(host = %journal.metadata.name, attempt = step.memory.attempt, from = %from, to = %to, reason = %step.reason.text, "state");
        }
        let is_just_done = before.state == HostState::Provisioning && step.memory.state == HostState::Provisioned;
        count_token(&mut journal.status, is_just_done, self.shared.clock.age_s());
        if journal.status == old { Ok(journal) } else { self.shared.journals.store(&journal).await }
    }

    /// 2. What the host gets when it boots, and what its agent gets when it asks.
    async fn publish(&self, seen: &plan::HostInputs, memory: &HostMemory, network: NetworkView, shut: Option<String>) {
        let host = &seen.host;
        let key = key_of(host);
        let entry = entry_of(host, plan::boot_entry(memory));
        let mut macs: Vec<Mac> = Vec::new();
        for mac in host.spec.boot_mac().iter().chain(&memory.macs).filter_map(|mac| mac.parse().ok()) {
            if !macs.contains(&mac) {
                macs.push(mac);
            }
        }
        let wanted = {
            let mut views = self.shared.views();
            views.learn_host(&key, Some(StoredHostIdentity::of(&host.metadata, &macs)));
            let Some(view) = views.hosts.get_mut(&key) else { return };
            view.network = network;
            view.boots_from_any_address = host.metadata.annotation(BOOT_ADDRESS) == Some(ANY_ADDRESS);
            view.standing = Some(SurveyedHost::of(memory, seen));
            view.take_gate(memory, seen, shut);
            if view.boot_entry.as_ref() != Some(&entry) {
                tracing::debug!(host = %key, ?entry, "boot entry");
                view.boot_entry = Some(entry);
            }
            let agent = &view.agent;
            plan::current_plan(memory).cloned().filter(|issued| {
                agent.attempt == memory.attempt
                    && agent.key.is_some()
                    && agent.plan.as_ref().is_none_or(|known| known.number < issued.number)
                    && agent.last_report.as_ref().is_none_or(|report| report.plan < issued.number)
            })
        };
        let Some(issued) = wanted else { return };
        match self.promised_plan(host, memory, &issued).await {
            // The agent has it already, as it was composed before a restart.
            Ok(None) => {}
            Ok(Some(plan)) => self.with_agent(&key, memory.attempt, |agent| agent.set_plan(plan)),
            Err(error) => {
                tracing::error!(host = %key, %error, "could not make a plan for the agent; it is tried again in ten seconds");
                let failed = event(self.shared.now(), memory.attempt, "plan_failed", error.to_string());
                self.shared.journals.note_again(&key, &failed).await;
                self.shared.queue.wake_in(&key, std::time::Duration::from_secs(10));
            }
        }
    }

    /// The agent's plan, once it is on record what it promises; nothing where the agent has begun it.
    async fn promised_plan(
        &self,
        host: &BareMetalHost,
        memory: &HostMemory,
        issued: &IssuedPlan,
    ) -> Result<Option<wire::AgentPlan>, PlanError> {
        let plan = self.wire_plan(host, memory, issued).await?;
        let Some(forms) = promised_by(&plan) else { return Ok(Some(plan)) };
        let keep = |status: &mut HostJournalStatus| {
            let has_begun = journal::has_begun(status, memory.attempt, issued.number);
            if !has_begun {
                status.promise(memory.attempt, issued.number, forms.clone());
            }
            has_begun
        };
        let has_begun = self.shared.journals.change(&key_of(host), keep).await?;
        Ok((!has_begun.ok_or(PlanError::NoJournal)?).then_some(plan))
    }

    /// 3. Upstream's status, computed from the truth.
    async fn project(&self, seen: &plan::HostInputs, step: &HostStep, now: Timestamp) -> Result<(), Status> {
        let status = plan::project(&step.memory, seen, &step.reason, now);
        if seen.host.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let key = key_of(&seen.host);
        let write = |host: &mut BareMetalHost| host.status = Some(status.clone());
        let stored = self.hosts.modify(&key.namespace, &key.name, ObjectPart::Status, write).await?;
        if stored.is_none() {
            tracing::debug!(host = %key, "the host went while its status was written");
        }
        Ok(())
    }
}

/// A memory that cannot be read is never overwritten: the host is left alone.
fn memory_of(key: &HostKey, journal: &HostJournal) -> Option<HostMemory> {
    match journal::memory(&journal.status) {
        Ok(memory) => Some(memory),
        Err(error) => {
            tracing::error!(host = %key, %error, "this host's memory cannot be read, so nothing is done with it; was it written by a newer appliance?");
            None
        }
    }
}

fn entry_of(host: &BareMetalHost, entry: plan::HostBootEntry) -> BootEntry {
    let name = host.metadata.name.clone();
    match entry {
        plan::HostBootEntry::Agent { attempt } => BootEntry::Agent { host: name, attempt },
        plan::HostBootEntry::Wait => {
            let why = "its BMC has not switched it on for this boot yet".to_owned();
            BootEntry::Wait { host: name, why }
        }
        plan::HostBootEntry::LocalDisk { disk_guid } => {
            let probe = disk_guid.and_then(|guid| DiskProbe::gpt_disk_guid_text(&guid).ok());
            BootEntry::LocalDisk { host: name, probe }
        }
        plan::HostBootEntry::Discovery => BootEntry::Discovery,
        plan::HostBootEntry::Nothing => BootEntry::Exit { reason: format!("host {name} is being let go") },
    }
}

/// `host/provisioning.rs` of a whole source path.
fn short(path: &str) -> &str {
    path.rsplit_once("/src/").map_or(path, |(_, file)| file)
}
