//! Hosts that were installed before a rotation of the CA began, and whose OS has not run yet. Their disks may trust the
//! old CA alone: once it is gone, they ask for their config without end, and the appliance does not notice.

use firesteel_kube::{Api, ObjectChange, Objects, Status};
use firesteel_plan::host::{HostState, IssuedPlan};
use firesteel_plan::journal::stored_memory;
use firesteel_resources::{HostJournal, host_journal::HostJournalStatus};
use jiff::Timestamp;

use crate::serve::renewal::Certificates;

/// How many hosts are named; the others are counted.
const TOLD_MAX: usize = 20;

/// Returns the hosts that wait, by namespace and name; none if no rotation is under way.
pub(super) async fn of_old_ca(api: &Api, certificates: &Certificates, now: Timestamp) -> Result<Vec<String>, Status> {
    let certificates = certificates.clone();
    // This makes keys and writes files.
    let state = tokio::task::spawn_blocking(move || certificates.state(now)).await;
    let state = state.map_err(anyhow::Error::from).and_then(|state| state);
    let state = state.map_err(|error| Status::internal(format!("could not read the state of the CA: {error:#}")))?;
    let Some(begun) = state.begun else { return Ok(Vec::new()) };
    let journals: Objects<HostJournal> = Objects::new(api.core(), "firesteel.dev", "HostJournal")?;
    // If their list is damaged, this fails, while a subscription would wait until it is repaired.
    journals.count(None).await?;
    // They are read one at a time: a journal may be large, and there may be thousands.
    let mut journals = journals.subscribe().await?;
    let mut hosts = Vec::new();
    loop {
        match journals.next().await? {
            ObjectChange::Applied(journal) => {
                if may_wait(&journal.status, begun) {
                    hosts.push(format!("{}/{}", journal.metadata.namespace, journal.metadata.name));
                }
            }
            ObjectChange::Undecodable { name, .. } => hosts.push(format!("{}/{}", name.namespace, name.name)),
            ObjectChange::Deleted(_) => {}
            ObjectChange::Synced => return Ok(hosts),
        }
    }
}

/// The refusal to end an overlap, with the hosts that wait.
pub(super) fn waiting_hosts_text(hosts: &[String]) -> String {
    let (shown, more) = (&hosts[..hosts.len().min(TOLD_MAX)], hosts.len().saturating_sub(TOLD_MAX));
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "these hosts were installed before the rotation began, and have not been seen to run yet: {}{more}. Their \
         disks may trust the old CA alone, and they could never fetch their config: let them boot, install them again, \
         or give up on them with `firesteel rotate-ca --finish --force`",
        shown.join(", ")
    )
}

/// Tells whether the host's disk has, or will soon get, a stub that was made before `begun` and leads here, and whose
/// OS has not reported that it runs. An unreadable entry counts as such a stub. Pure.
fn may_wait(status: &HostJournalStatus, begun: Timestamp) -> bool {
    let memory = match stored_memory(status) {
        Ok(Some(memory)) => memory,
        Ok(None) => return false,
        Err(_) => return true,
    };
    match memory.state {
        HostState::Provisioned => memory.applied.is_some_and(|applied| {
            let runs = status
                .instance
                .as_ref()
                .is_some_and(|instance| instance.attempt == applied.attempt && instance.running_at.is_some());
            // The stub was made during this boot, at whose end the host was installed.
            let of_it = status.timeline.iter().filter(|event| event.attempt == applied.attempt);
            let made = of_it.map(|event| event.at).fold(applied.at, Timestamp::min);
            applied.reports_running() && !runs && made < begun
        }),
        HostState::Provisioning => {
            let leads_here = |issued: &IssuedPlan| issued.write().is_some_and(|write| !write.configs.is_empty());
            memory.plan.is_some_and(|issued| leads_here(&issued) && issued.issued_at < begun)
        }
        HostState::New
        | HostState::Unmanaged
        | HostState::Registering
        | HostState::Inspecting
        | HostState::Preparing
        | HostState::Available
        | HostState::ExternallyProvisioned
        | HostState::Deprovisioning
        | HostState::PoweringOff
        | HostState::Deleting => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_plan::{HostMemory, host::InstalledSystem};
    use firesteel_resources::host_journal::{InstanceRecord, TimelineEvent};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn installed(state: HostState, configs: &[&str]) -> HostJournalStatus {
        let applied = InstalledSystem {
            attempt: 3,
            at: at(100),
            configs: configs.iter().map(|&name| name.to_owned()).collect(),
            ..serde_json::from_value(serde_json::json!({
                "image": {"url": ""}, "ready": {"rawSha256": "", "rawBytes": 0, "streamSha256": "", "streamBytes": 0},
                "diskGuid": "", "attempt": 0, "at": "1970-01-01T00:00:00Z", "leftProperly": true,
            }))
            .unwrap()
        };
        let memory = HostMemory { state, applied: Some(applied), attempt: 4, ..HostMemory::default() };
        HostJournalStatus { memory: serde_json::to_value(memory).unwrap(), ..HostJournalStatus::default() }
    }

    #[test]
    fn who_was_installed_before_the_rotation_and_has_not_run_may_wait_for_the_old_ca() {
        let mut waits = installed(HostState::Provisioned, &["worker"]);
        assert!(may_wait(&waits, at(101)));
        assert!(!may_wait(&waits, at(100)), "installed in the overlap: it has both");
        assert!(!may_wait(&installed(HostState::Provisioned, &[]), at(101)), "it fetches nothing");
        assert!(!may_wait(&installed(HostState::Deprovisioning, &["worker"]), at(101)), "it is not to stay");
        assert!(!may_wait(&HostJournalStatus::default(), at(101)), "never worked on");

        waits.note(TimelineEvent { at: at(50), attempt: 2, ..TimelineEvent::default() });
        assert!(!may_wait(&waits, at(60)), "that was an earlier boot");
        waits.note(TimelineEvent { at: at(50), attempt: 3, ..TimelineEvent::default() });
        assert!(may_wait(&waits, at(60)), "the rotation began while it was written");

        waits.instance =
            Some(InstanceRecord { attempt: 3, config_fetched_at: Some(at(110)), ..InstanceRecord::default() });
        assert!(may_wait(&waits, at(101)), "its report may still be to come");
        waits.instance = Some(InstanceRecord { attempt: 2, running_at: Some(at(90)), ..InstanceRecord::default() });
        assert!(may_wait(&waits, at(101)), "another installation ran");
        waits.instance = Some(InstanceRecord { attempt: 3, running_at: Some(at(120)), ..InstanceRecord::default() });
        assert!(!may_wait(&waits, at(101)));
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let hosts: Vec<String> = (0..TOLD_MAX + 3).map(|number| format!("default/h{number}")).collect();
        let text = waiting_hosts_text(&hosts);
        assert!(text.contains("default/h19 and 3 more") && !text.contains("h20") && text.contains("--force"), "{text}");
        assert!(waiting_hosts_text(&hosts[..1]).contains("default/h0. Their disks"));
    }
}
