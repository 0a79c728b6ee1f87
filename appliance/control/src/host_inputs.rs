//! Gathering what a step may look at.

use firesteel_boot::AskerRule;
use firesteel_handoff::{HandOffReading, network_data};
use firesteel_kube::Status;
use firesteel_plan::HostMemory;
use firesteel_plan::disk::{CleaningMethod, CleaningProof, Grade};
use firesteel_plan::evidence::{BootEvidence, unseen};
use firesteel_plan::host::{
    AgentInputs, AgentNetwork, AgentWork, CredentialsInputs, HealthInputs, HostInputs, HostState, InstanceInputs,
    LineageInputs, NetworkDataInputs, PlanKind, UserDataInputs,
};
use firesteel_plan::journal::boot_stages;
use firesteel_resources::BareMetalHost;
use firesteel_resources::host_journal::{AgentBinding, HostJournalStatus};
use firesteel_runtime::{HostKey, key_of};
use firesteel_wire::{self as wire, AgentReport, StepState};
use jiff::{SignedDuration, Timestamp};
use ring::signature::KeyPair as _;
use serde::Deserialize as _;
use serde_json::Value;

use crate::disk_identity::identity;
use crate::logins::BmcAccount;
use crate::reconciler::HostReconciler;
use crate::views::{AgentView, NetworkView};
use crate::write_receipts::shown_write;
use crate::{map, step_speed};

/// A discovery agent that has not reported for this long is gone.
const DISCOVERY_QUIET: SignedDuration = SignedDuration::from_secs(60);

impl HostReconciler {
    pub(crate) async fn seen(
        &self,
        host: BareMetalHost,
        memory: HostMemory,
        journal: &HostJournalStatus,
        now: Timestamp,
        network_data: NetworkDataInputs,
    ) -> Result<HostInputs, Status> {
        let key = key_of(&host);
        let (credentials, account) = self.credentials_seen(&key, &host).await?;
        let user_data = self.user_data_seen(&host, &memory.state, &journal.hand_off_warned).await?;
        let is_early = matches!(
            memory.state,
            HostState::New | HostState::Unmanaged | HostState::Registering | HostState::Inspecting
        );
        let looks = is_early || memory.uncleaned.is_some();
        let uncleaned = if looks { self.unowned.tombstone_of(&memory.macs).await? } else { None };
        let inspects = memory.plan.as_ref().is_some_and(|issued| issued.plan == PlanKind::Inspect);
        // Of a host that is to go nothing is shown any more: in a namespace that is going it could not be.
        let goes = host.metadata.is_deleting() && journal.hardware.is_some();
        let hardware_is_shown = inspects && (goes || self.hardware.shows_hardware(&key, journal).await?);
        let is_bmc_inspected = memory.state == HostState::Inspecting && memory.bmc_inspection.is_some();
        let bmc_record_is_shown =
            is_bmc_inspected && (host.metadata.is_deleting() || self.hardware.shows_bmc_record(&key, journal).await?);
        let mut seen = HostInputs::new(host, memory, self.shared.started_at, self.shared.runtime.entropy());
        if let Some(image) = seen.host.spec.wanted_image() {
            seen.image = self.images.image_seen(&seen.host, image);
        }
        (seen.uncleaned, seen.credentials) = (uncleaned, credentials);
        (seen.user_data, seen.network_data) = (user_data, network_data);
        seen.lineage = self.lineage_seen();
        (seen.hardware_is_shown, seen.bmc_record_is_shown) = (hardware_is_shown, bmc_record_is_shown);
        take_journal(&mut seen, journal);
        seen.sensors = self.shared.sensors.of(&key, &seen.host.metadata.uid);
        self.take_views(&mut seen, &key, journal, account.as_ref(), now);
        Ok(seen)
    }

    /// Takes in what this process knows of the host and of the others.
    fn take_views(
        &self,
        seen: &mut HostInputs,
        key: &HostKey,
        journal: &HostJournalStatus,
        account: Option<&BmcAccount>,
        now: Timestamp,
    ) {
        let shown = shown_write(journal, &seen.memory, self.receipts.receipt_key.public_key().as_ref());
        let mut views = self.shared.views();
        if let Some(account) = account {
            views.logins.recall(account, key, &seen.memory.bmc.refused);
        }
        seen.shared_uuid = views.shared_uuid(key);
        seen.halt = views.halts.oldest().cloned();
        seen.clock = self.shared.clock.doubt();
        let Some(view) = views.hosts.get(key) else { return };
        seen.netboot = self.shared.boot_watch.seen(&view.macs, now);
        let boot = Some(&view.observation).filter(|boot| boot.attempt() == seen.memory.attempt);
        seen.netboot.stages.extend(boot_stages(journal));
        seen.netboot.is_dhcp_elsewhere = self.host_network.now().asker_rule == AskerRule::FirstAsker;
        seen.discovered = views.discovered_of(key);
        seen.netboot.mismatch = boot.and_then(|boot| boot.mismatch()).map(ToString::to_string);
        seen.claims_heard = view.claims.all().to_vec();
        seen.bmc = view.power.seen.clone();
        seen.bmc.refused_elsewhere = account.map(|account| views.logins.elsewhere(account, key)).unwrap_or_default();
        seen.spent_attempt = view.rebooted_attempt;
        seen.graded = view.graded;
        seen.refused_hello.clone_from(&view.refused_hello);
        seen.agent = journal.agent.as_ref().map(|binding| {
            let rebooted = view.rebooted_attempt == Some(binding.attempt);
            let mut seen =
                AgentInputs { rebooted, ..bound_agent(binding, &view.agent, journal, self.shared.started_at) };
            (seen.shown, seen.promised) = (shown, journal.promised.clone());
            if let AgentWork::Running { activity, .. } = &mut seen.work {
                *activity = step_speed::describe_speed(activity, view.agent.speed_now(now));
            }
            seen
        });
        seen.mac_taken = view.macs.iter().find_map(|mac| {
            let owner = views.by_mac.get(mac).filter(|owner| *owner != key)?;
            Some((mac.to_string(), owner.to_string()))
        });
        let is_heard =
            |machine: &AgentView| machine.last_report_at.is_some_and(|at| now.duration_since(at) < DISCOVERY_QUIET);
        seen.discovery_agent = view.macs.iter().any(|mac| views.discovered.get(mac).is_some_and(is_heard));
    }

    fn lineage_seen(&self) -> LineageInputs {
        let store = self.shared.core.store();
        let (lineage, current) = (store.lineage(), store.current());
        LineageInputs {
            store: lineage.store,
            timeline: lineage.timeline(),
            revision: current.0,
            known: lineage.known(current).map(|(timeline, last)| (timeline, last.0)).collect(),
        }
    }

    async fn credentials_seen(
        &self,
        key: &HostKey,
        host: &BareMetalHost,
    ) -> Result<(CredentialsInputs, Option<BmcAccount>), Status> {
        let Some(bmc) = host.spec.usable_bmc() else { return Ok((CredentialsInputs::Missing, None)) };
        let secret = self.secrets.get(&key.namespace, &bmc.credentials_name).await?;
        let Some(secret) = secret else { return Ok((CredentialsInputs::Missing, None)) };
        Ok(match secret.credentials() {
            None => (CredentialsInputs::Empty, None),
            Some((username, _)) => {
                let version = secret.metadata.resource_version;
                (CredentialsInputs::Ready { version }, Some(BmcAccount::new(&bmc.address, &username)))
            }
        })
    }

    async fn user_data_seen(
        &self,
        host: &BareMetalHost,
        state: &HostState,
        warned: &str,
    ) -> Result<UserDataInputs, Status> {
        let given = match self.reader.hand_off_inputs(host).await? {
            HandOffReading::Nothing => return Ok(UserDataInputs::NotReferenced),
            HandOffReading::Missing => return Ok(UserDataInputs::Missing),
            HandOffReading::Invalid(why) => return Ok(UserDataInputs::Invalid(why.to_string())),
            HandOffReading::Ready(given) => given,
        };
        // In every other state it is still to be written.
        let is_written_or_never_will_be = matches!(
            state,
            HostState::Provisioned
                | HostState::ExternallyProvisioned
                | HostState::Deprovisioning
                | HostState::PoweringOff
                | HostState::Deleting
        );
        if !is_written_or_never_will_be {
            self.reader.warn_of(host, &given, warned);
        }
        Ok(UserDataInputs::Ready { sha256: given.sha256, configs: given.configs })
    }

    /// The network of the host's ramdisk, as it is now in the Secret: what the planner looks at, and what the next
    /// boot gets.
    pub(crate) async fn network_data(
        &self,
        key: &HostKey,
        host: &BareMetalHost,
    ) -> Result<(NetworkDataInputs, NetworkView), Status> {
        let name = &host.spec.preprovisioning_network_data_name;
        if name.is_empty() {
            return Ok((NetworkDataInputs::NotReferenced, NetworkView::Dhcp));
        }
        let Some(secret) = self.secrets.get(&key.namespace, name).await? else {
            let text = format!("Secret {name} with the network of the ramdisk does not exist");
            return Ok((NetworkDataInputs::Missing, NetworkView::Unusable(text)));
        };
        Ok(match network_data::read(&secret) {
            Ok(plan) => {
                let version = secret.metadata.resource_version;
                (NetworkDataInputs::Ready { version }, NetworkView::Plan(std::sync::Arc::new(plan)))
            }
            Err(error) => {
                let error = error.reason();
                let text = format!("the network data in Secret {name} cannot be used: {error}");
                (NetworkDataInputs::Invalid(error), NetworkView::Unusable(text))
            }
        })
    }
}

/// Takes in what the host's journal says beside its memory.
fn take_journal(seen: &mut HostInputs, journal: &HostJournalStatus) {
    seen.answers.clone_from(&journal.answers);
    seen.hardware.clone_from(&journal.hardware);
    seen.refused_identity.clone_from(&journal.refused_identity);
    seen.claim.clone_from(&journal.claim);
    let health = journal.bmc.as_ref().filter(|record| !record.health.is_empty());
    seen.health = health.map(|record| HealthInputs { word: record.health.clone(), at: record.at });
    if let Some(record) = &journal.instance {
        seen.instance = InstanceInputs {
            attempt: record.attempt,
            config_fetched_at: record.config_fetched_at,
            running_at: record.running_at,
            failed: record.failed.as_ref().map(|failed| (failed.at, failed.log.join("\n"))),
        };
    }
}

/// The agent of the newest binding, with what this process heard from it.
pub(crate) fn bound_agent(
    binding: &AgentBinding,
    view: &AgentView,
    journal: &HostJournalStatus,
    started_at: Timestamp,
) -> AgentInputs {
    let heard = view.attempt == binding.attempt && view.key.is_some();
    let restored = binding.bound_at.max(started_at);
    let report = view.last_report.as_ref().filter(|_| heard);
    let network = Some(binding.network.clone()).filter(|text| !text.is_empty());
    AgentInputs {
        attempt: binding.attempt,
        bound_at: binding.bound_at,
        last_report_at: view.last_report_at.filter(|_| heard).unwrap_or(restored),
        plan: report.map_or(0, |report| report.plan),
        work: report.map_or(AgentWork::Idle, work),
        progress_at: view.progress_at.filter(|_| heard).unwrap_or(restored),
        left: binding.left,
        left_at: binding.left_at,
        rebooted: false,
        shown: Vec::new(),
        promised: None,
        network: network
            .map(|text| if binding.network_failed { AgentNetwork::Another(text) } else { AgentNetwork::ByData(text) }),
        can_erase: binding.abilities.iter().any(|own| own == wire::Program::ERASE_DISK),
        cleaned: cleaned(binding.attempt, journal),
        unseen: unseen(&BootEvidence { attempt: binding.attempt, record: journal.boot.as_ref(), agent: Some(binding) }),
        cannot_stop: match report {
            Some(report) => cannot_stop(report),
            // Not heard since this process began: its last word is in the journal.
            None => uninterrupted(binding.attempt, journal),
        },
    }
}

/// What a drive was at, by the last word that was stored of this attempt.
fn uninterrupted(attempt: u64, journal: &HostJournalStatus) -> Option<String> {
    let progress = journal.progress.as_ref().filter(|progress| progress.attempt == attempt)?;
    wire::erasure::cannot_stop(&progress.activity).then(|| progress.activity.clone())
}

/// What the receipts of this attempt show of disks that were cleaned.
fn cleaned(attempt: u64, journal: &HostJournalStatus) -> Vec<CleaningProof> {
    let of_attempt = journal.receipts.iter().filter(|receipt| receipt.attempt == attempt);
    of_attempt.filter_map(|receipt| shown(receipt.plan, &receipt.evidence)).collect()
}

fn shown(plan: u32, evidence: &Value) -> Option<CleaningProof> {
    if !matches!(evidence["kind"].as_str()?, "disk_erased" | "metadata_cleared") {
        return None;
    }
    let fields = |texts: &[String]| texts.iter().take(8).map(|text| map::field(text)).collect();
    match wire::Evidence::deserialize(evidence).ok()? {
        wire::Evidence::DiskErased(erasure) => Some(CleaningProof {
            plan,
            disk: identity(&erasure.disk),
            device: map::field(&erasure.device),
            asked: match erasure.policy {
                wire::erasure::ErasurePolicy::Metadata => CleaningMethod::Metadata,
                wire::erasure::ErasurePolicy::Quick => CleaningMethod::Quick,
                wire::erasure::ErasurePolicy::Full => CleaningMethod::Full,
            },
            by: map::field(&erasure.method),
            grade: erasure.grade,
            read_back_bytes: erasure.samples.read_back.saturating_mul(512),
            overridden: fields(&erasure.overridden),
            unverified: fields(&erasure.unverified),
        }),
        wire::Evidence::MetadataCleared { disk, device, verified_bytes, overridden, .. } if verified_bytes > 0 => {
            Some(CleaningProof {
                plan,
                disk: identity(&disk),
                device: map::field(&device),
                asked: CleaningMethod::Metadata,
                by: "metadata".to_owned(),
                grade: Grade::None,
                read_back_bytes: verified_bytes,
                overridden: fields(&overridden),
                unverified: Vec::new(),
            })
        }
        wire::Evidence::Inspected { .. }
        | wire::Evidence::MetadataCleared { .. }
        | wire::Evidence::ImageWritten { .. }
        | wire::Evidence::FilesHandedOff { .. }
        | wire::Evidence::BootEntrySet { .. }
        | wire::Evidence::Leaving { .. } => None,
    }
}

fn work(report: &AgentReport) -> AgentWork {
    // A step may have failed beside others that still run: the plan is not over before they are.
    if let Some(step) = report.steps.iter().find(|step| step.state == StepState::Running) {
        let percent = step_speed::percent(step);
        return AgentWork::Running { step: step.step.clone(), activity: step.activity.clone(), percent };
    }
    if let Some(step) = due_beside_failed(report) {
        return AgentWork::Running { step: step.step.clone(), activity: String::new(), percent: 0 };
    }
    let failed = || report.steps.iter().filter(|step| step.state == StepState::Failed);
    if let Some(step) = failed().next() {
        let messages: Vec<&str> = failed().map(|step| step.error.as_str()).collect();
        return AgentWork::Failed {
            step: step.step.clone(),
            message: map::line(&messages.join("; ")),
            disk_changed: report.steps.iter().any(|step| step.disk_changed),
        };
    }
    // The last step of a plan that leaves is not done before the agent has left.
    let open = report.steps.iter().any(|step| step.state == StepState::Pending && !is_leave(&step.step));
    if report.plan == 0 || report.steps.is_empty() || (open && !report.leaving) {
        AgentWork::Idle
    } else {
        AgentWork::Done
    }
}

/// A step among those that run whose drive cannot be interrupted.
pub(crate) fn cannot_stop(report: &AgentReport) -> Option<String> {
    let mut running = report.steps.iter().filter(|step| step.state == StepState::Running);
    running.find(|step| wire::erasure::cannot_stop(&step.activity)).map(|step| map::field(&step.activity))
}

/// The step that begins yet although another failed: erasures that follow one another run at once, so many at a time,
/// and each reaches its end. Whatever stands behind them is never begun; nor is anything once the agent is idle,
/// whose worker may have died.
fn due_beside_failed(report: &AgentReport) -> Option<&wire::StepReport> {
    if report.idle || report.leaving {
        return None;
    }
    let is_erasure = |step: &wire::StepReport| step.step == "erase-disk";
    let at_once = report.steps.chunk_by(|one, next| is_erasure(one) && is_erasure(next));
    let failed = at_once.into_iter().find(|steps| steps.iter().any(|step| step.state == StepState::Failed))?;
    failed.iter().find(|step| step.state == StepState::Pending)
}

fn is_leave(step: &str) -> bool {
    matches!(step, "reboot" | "power-off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_resources::host_journal::JournalProgress;

    /// A restart of the appliance forgot it, and the host was reset in the middle.
    #[test]
    fn what_a_drive_is_at_is_known_after_a_restart() {
        let at = |activity: &str, attempt: u64| {
            let progress = JournalProgress { attempt, activity: activity.to_owned(), ..JournalProgress::default() };
            uninterrupted(2, &HostJournalStatus { progress: Some(progress), ..HostJournalStatus::default() })
        };
        assert_eq!(at("secure-erase for 5 min", 2).as_deref(), Some("secure-erase for 5 min"));
        assert_eq!(at("overwriting", 2), None);
        assert_eq!(at("secure-erase for 5 min", 1), None, "of an earlier boot");
    }

    #[test]
    fn what_was_overridden_for_cleared_metadata_is_shown() {
        let cleared = wire::Evidence::MetadataCleared {
            disk: wire::DiskIdentity::default(),
            device: "/dev/sda".to_owned(),
            cleared: Vec::new(),
            verified_bytes: 1,
            overridden: Vec::new(),
        };
        let mut evidence = serde_json::to_value(cleared).expect("an evidence");
        let overridden = |evidence: &Value| shown(1, evidence).expect("a cleaned disk").overridden;
        assert!(overridden(&evidence).is_empty(), "as older agents say it");
        evidence["overridden"] = serde_json::json!(["partition 3: VMFS"]);
        assert_eq!(overridden(&evidence), ["partition 3: VMFS"]);
    }

    /// Steps as `f`ailed, `r`unning, `p`ending or `d`one; `w` is one that is pending and no erasure.
    fn report(steps: &str, idle: bool, leaving: bool) -> AgentReport {
        let step = |(index, state): (usize, char)| {
            let name = if state == 'w' { "reboot" } else { "erase-disk" };
            let state = match state {
                'f' => "failed",
                'r' => "running",
                'd' => "done",
                _ => "pending",
            };
            serde_json::json!({"index": index, "step": name, "state": state, "error": format!("disk {index}")})
        };
        let steps: Vec<Value> = steps.chars().enumerate().map(step).collect();
        let report = serde_json::json!({
            "token": "t", "key": "00".repeat(32), "boot_id": "b", "sequence": 1, "uptime_ms": 1, "plan": 2,
            "steps": steps, "idle": idle, "leaving": leaving,
        });
        serde_json::from_value(report).expect("a report")
    }

    #[test]
    fn a_plan_has_failed_when_none_of_its_steps_will_run_any_more() {
        let is_over = |steps: &str, idle, leaving| match work(&report(steps, idle, leaving)) {
            AgentWork::Failed { .. } => true,
            AgentWork::Running { step, .. } => {
                assert_eq!(step, "erase-disk");
                false
            }
            other @ (AgentWork::Idle | AgentWork::Done) => panic!("{steps}: {other:?}"),
        };
        for (steps, expected) in [
            ("f", true),
            ("fr", false),
            ("rfw", false),
            // One of more drives than are erased at once failed, and the next was not begun yet.
            ("fp", false),
            ("pdfp", false),
            ("fdf", true),
            // What comes after a failure is never begun.
            ("fdw", true),
            ("dfwpp", true),
        ] {
            assert_eq!(is_over(steps, false, false), expected, "{steps}");
        }
        // The agent's worker died, or it leaves: the steps that it did not begin hold nothing up.
        assert!(is_over("fp", true, false) && is_over("fp", false, true));
        let AgentWork::Failed { message, .. } = work(&report("fdfw", false, false)) else { panic!("it is over") };
        assert_eq!(message, "disk 0; disk 2");
    }
}
