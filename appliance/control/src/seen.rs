//! Gathering what a step may look at.

use firesteel_kube::Status;
use firesteel_plan::{
    HostMemory,
    host::{AgentSeen, CredentialsSeen, InstanceSeen, LineageSeen, Seen, UserDataSeen, Work, WriteEvidence},
};
use firesteel_resources::{
    BareMetalHost,
    host_journal::{AgentBinding, HostJournalStatus},
    ignition,
};
use firesteel_wire::{Report, StepState};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{Control, HostKey, boot::mac_with_colons, control::key_of};

/// A discovery agent that has not reported for this long is gone.
const DISCOVERY_QUIET: SignedDuration = SignedDuration::from_secs(60);

impl Control {
    pub(crate) async fn seen(
        &self,
        host: BareMetalHost,
        memory: HostMemory,
        journal: &HostJournalStatus,
        now: Timestamp,
    ) -> Result<Seen, Status> {
        let key = key_of(&host);
        let credentials = self.credentials_seen(&key, &host).await?;
        let user_data = self.user_data_seen(&key, &host).await?;
        let mut seen = Seen::new(host, memory, self.inner.started_at, self.config().runtime.entropy());
        seen.credentials = credentials;
        seen.user_data = user_data;
        if let Some(image) = seen.host.spec.wanted_image() {
            seen.image = self.image_seen(image);
        }
        seen.lineage = self.lineage_seen();
        seen.hardware.clone_from(&journal.hardware);
        if let Some(record) = &journal.instance {
            seen.instance = InstanceSeen {
                attempt: record.attempt,
                config_fetched_at: record.config_fetched_at,
                running_at: record.running_at,
            };
        }
        let views = self.views();
        if let Some(view) = views.hosts.get(&key) {
            seen.bmc = view.power.seen();
            seen.agent = journal.agent.as_ref().map(|binding| {
                let rebooted = view.rebooted_attempt == Some(binding.attempt);
                AgentSeen { rebooted, ..agent(binding, &view.agent, journal, self.inner.started_at) }
            });
            seen.mac_taken = view.macs.iter().find_map(|mac| {
                let owner = views.by_mac.get(mac).filter(|owner| **owner != key)?;
                Some((mac_with_colons(*mac), owner.to_string()))
            });
            seen.discovery_agent = view.macs.iter().any(|mac| {
                views.discovered.get(mac).is_some_and(|machine| {
                    machine.last_report_at.is_some_and(|at| now.duration_since(at) < DISCOVERY_QUIET)
                })
            });
        }
        Ok(seen)
    }

    fn lineage_seen(&self) -> LineageSeen {
        let store = self.config().core.store();
        let (lineage, current) = (store.lineage(), store.current());
        LineageSeen {
            store: lineage.store,
            timeline: lineage.timeline(),
            revision: current.0,
            known: lineage.known(current).map(|(timeline, last)| (timeline, last.0)).collect(),
        }
    }

    async fn credentials_seen(&self, key: &HostKey, host: &BareMetalHost) -> Result<CredentialsSeen, Status> {
        let Some(bmc) = host.spec.usable_bmc() else { return Ok(CredentialsSeen::Missing) };
        let secret = self.inner.secrets.get(&key.namespace, &bmc.credentials_name).await?;
        Ok(match secret {
            None => CredentialsSeen::Missing,
            Some(secret) if secret.credentials().is_none() => CredentialsSeen::Empty,
            Some(secret) => CredentialsSeen::Ready { version: secret.metadata.resource_version },
        })
    }

    async fn user_data_seen(&self, key: &HostKey, host: &BareMetalHost) -> Result<UserDataSeen, Status> {
        let Some(reference) = &host.spec.user_data else { return Ok(UserDataSeen::NotReferenced) };
        let secret = self.inner.secrets.get(&key.namespace, &reference.name).await?;
        let Some(secret) = secret else { return Ok(UserDataSeen::Missing) };
        let Some(config) = secret.user_data() else { return Ok(UserDataSeen::Missing) };
        let findings = ignition::validate(config);
        if !findings.errors.is_empty() {
            return Ok(UserDataSeen::Invalid(findings.errors.join("; ")));
        }
        Ok(UserDataSeen::Ready {
            sha256: sha256_hex(config),
            reports_running: ignition::fetches_from(config, &self.config_origin()),
        })
    }

    /// What a stub's config source begins with when this appliance serves it.
    pub(crate) fn config_origin(&self) -> String {
        format!("{}/config/", self.config().endpoints.agent_base())
    }
}

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The agent of the newest binding, with what this process heard from it.
fn agent(
    binding: &AgentBinding,
    view: &crate::views::AgentView,
    journal: &HostJournalStatus,
    started_at: Timestamp,
) -> AgentSeen {
    let heard = view.attempt == binding.attempt && view.key.is_some();
    let restored = binding.bound_at.max(started_at);
    let report = view.last_report.as_ref().filter(|_| heard);
    AgentSeen {
        attempt: binding.attempt,
        bound_at: binding.bound_at,
        last_report_at: view.last_report_at.filter(|_| heard).unwrap_or(restored),
        plan: report.map_or(0, |report| report.plan),
        work: report.map_or(Work::Idle, work),
        progress_at: view.progress_at.filter(|_| heard).unwrap_or(restored),
        left: binding.left,
        rebooted: false,
        evidence: evidence(binding.attempt, journal),
    }
}

fn work(report: &Report) -> Work {
    if let Some(step) = report.steps.iter().find(|step| step.state == StepState::Failed) {
        return Work::Failed {
            step: step.step.clone(),
            message: crate::map::line(&step.error),
            disk_changed: report.steps.iter().any(|step| step.disk_changed),
        };
    }
    if let Some(step) = report.steps.iter().find(|step| step.state == StepState::Running) {
        let percent = match step.total_bytes {
            0 => 0,
            total => u8::try_from(u128::from(step.done_bytes.min(total)) * 100 / u128::from(total)).unwrap_or(100),
        };
        return Work::Running { step: step.step.clone(), activity: step.activity.clone(), percent };
    }
    // The last step of a plan that leaves is not done before the agent has left.
    let open = report.steps.iter().any(|step| step.state == StepState::Pending && !is_leave(&step.step));
    if report.plan == 0 || report.steps.is_empty() || (open && !report.leaving) { Work::Idle } else { Work::Done }
}

fn is_leave(step: &str) -> bool {
    matches!(step, "reboot" | "power-off")
}

/// What the receipts of the newest write of this attempt prove.
fn evidence(attempt: u64, journal: &HostJournalStatus) -> Option<WriteEvidence> {
    let of_kind = |kind: &str, plan: Option<u32>| {
        journal.receipts.iter().rev().find(|receipt| {
            receipt.attempt == attempt
                && receipt.evidence["kind"] == kind
                && plan.is_none_or(|plan| receipt.plan == plan)
        })
    };
    let written = of_kind("image_written", None)?;
    let text = |name: &str| written.evidence.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(WriteEvidence {
        plan: written.plan,
        raw_sha256: text("raw_sha256"),
        readback_sha256: text("readback_sha256"),
        disk_guid: text("disk_guid"),
        handed_off: of_kind("files_handed_off", Some(written.plan)).is_some(),
        boot_entry_set: of_kind("boot_entry_set", Some(written.plan)).is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_resources::host_journal::ReceiptRecord;

    #[test]
    fn only_the_receipts_of_one_write_count_together() {
        let receipt = |attempt, plan, kind: &str| ReceiptRecord {
            attempt,
            plan,
            evidence: serde_json::json!({"kind": kind, "raw_sha256": "aa", "readback_sha256": "aa", "disk_guid": "g"}),
            ..ReceiptRecord::default()
        };
        let journal = HostJournalStatus {
            receipts: vec![
                receipt(1, 2, "image_written"),
                receipt(1, 2, "files_handed_off"),
                receipt(2, 2, "files_handed_off"),
                receipt(2, 3, "image_written"),
            ],
            ..HostJournalStatus::default()
        };
        let first = evidence(1, &journal).expect("attempt 1 wrote");
        assert!(first.handed_off && !first.boot_entry_set && first.raw_sha256 == "aa");
        let second = evidence(2, &journal).expect("attempt 2 wrote");
        assert!(!second.handed_off, "the hand-off of plan 2 does not belong to the write of plan 3");
        assert_eq!(evidence(3, &journal), None);
    }
}
