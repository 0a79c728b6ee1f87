//! The hosts' journals: read, and changed by compare-and-swap.

use std::sync::{Mutex, PoisonError};

use firesteel_kube::{Objects, Part, Status};
use firesteel_plan::host::{KnownIdentity, State, identity::known};
use firesteel_resources::{
    BareMetalHost, HostJournal, OwnerReference,
    host_journal::{HostJournalStatus, TimelineEvent},
};
use jiff::Timestamp;
use serde::Deserialize as _;

use crate::HostKey;

#[derive(Clone, Debug)]
pub(crate) struct Journals {
    objects: Objects<HostJournal>,
}

impl Journals {
    pub(crate) fn new(objects: Objects<HostJournal>) -> Self {
        Self { objects }
    }

    pub(crate) async fn read(&self, key: &HostKey) -> Result<Option<HostJournalStatus>, Status> {
        Ok(self.objects.get(&key.namespace, &key.name).await?.map(|journal| journal.status))
    }

    /// The journal of a host, made (owned by the host) where it is missing, and whether it was made. A
    /// journal of an earlier host with the same name is replaced: it speaks of another object.
    pub(crate) async fn open(&self, key: &HostKey, host: &BareMetalHost) -> Result<(HostJournal, bool), Status> {
        if let Some(journal) = self.objects.get(&key.namespace, &key.name).await? {
            if journal.metadata.owner_references.iter().any(|owner| owner.uid == host.metadata.uid) {
                return Ok((journal, false));
            }
            self.objects.delete_exact(&key.namespace, &key.name, &journal.metadata.uid).await?;
        }
        let mut journal = HostJournal::default();
        journal.metadata.namespace.clone_from(&key.namespace);
        journal.metadata.name.clone_from(&key.name);
        journal.metadata.owner_references.push(OwnerReference {
            api_version: "metal3.io/v1alpha1".to_owned(),
            kind: "BareMetalHost".to_owned(),
            name: key.name.clone(),
            uid: host.metadata.uid.clone(),
            controller: Some(true),
            ..OwnerReference::default()
        });
        Ok((self.objects.create(&journal).await?, true))
    }

    /// Stores a journal that was read before; fails with a conflict when it changed since.
    pub(crate) async fn store(&self, journal: &HostJournal) -> Result<HostJournal, Status> {
        self.objects.update_status(journal).await
    }

    /// Changes the journal as it stands and returns what `change` said about the state that was
    /// stored. `change` may run several times. `None` when the host has no journal.
    pub(crate) async fn change<R: Send>(
        &self,
        key: &HostKey,
        change: impl Fn(&mut HostJournalStatus) -> R + Send + Sync,
    ) -> Result<Option<R>, Status> {
        let said = Mutex::new(None);
        let stored = self
            .objects
            .modify(&key.namespace, &key.name, Part::Status, |journal| {
                *said.lock().unwrap_or_else(PoisonError::into_inner) = Some(change(&mut journal.status));
            })
            .await?;
        Ok(stored.and_then(|_| said.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Adds an event to the timeline.
    pub(crate) async fn note(&self, key: &HostKey, event: &TimelineEvent) -> Result<(), Status> {
        self.change(key, |status| status.note(event.clone())).await.map(|_| ())
    }

    /// Removes the journal of a host that is gone. Another host of its name may have come since, whose
    /// journal stays.
    pub(crate) async fn remove(&self, key: &HostKey, uid: &str) -> Result<(), Status> {
        let Some(journal) = self.objects.get(&key.namespace, &key.name).await? else { return Ok(()) };
        if journal.metadata.owner_references.iter().any(|owner| owner.uid == uid) {
            self.objects.delete_exact(&key.namespace, &key.name, &journal.metadata.uid).await?;
        }
        Ok(())
    }
}

pub(crate) fn event(at: Timestamp, attempt: u64, name: &str, detail: impl Into<String>) -> TimelineEvent {
    TimelineEvent { at, attempt, event: name.to_owned(), detail: detail.into(), bytes: None }
}

/// The store's timeline that the planner has taken note of: what agents bring before it took note of a
/// restore may be of before the restore. 0 before the first step.
pub(crate) fn timeline(status: &HostJournalStatus) -> u32 {
    let timeline = status.memory.get("timeline").and_then(serde_json::Value::as_u64);
    timeline.and_then(|timeline| u32::try_from(timeline).ok()).unwrap_or(0)
}

/// The state of the host, as its journal has it; the first one where it cannot be read.
pub(crate) fn state(status: &HostJournalStatus) -> State {
    State::deserialize(&status.memory["state"]).unwrap_or_default()
}

/// The attempt whose installation is on the disk, or is being put there.
pub(crate) fn installation(status: &HostJournalStatus) -> Option<u64> {
    let state = state(status);
    if state == State::Provisioned {
        return status.memory["applied"]["attempt"].as_u64();
    }
    let writes = state == State::Provisioning && status.memory["plan"]["plan"]["kind"] == "write";
    writes.then(|| attempt(status))
}

/// The configs that what this attempt installed was handed over to fetch; `None` where that is not on the disk, nor being
/// put there. Attempts of later boots that left the disk alone end nothing.
pub(crate) fn configs_of(status: &HostJournalStatus, installed: u64) -> Option<Vec<String>> {
    if installation(status) != Some(installed) {
        return None;
    }
    let is_done = state(status) == State::Provisioned;
    let installs = if is_done { &status.memory["applied"] } else { &status.memory["plan"]["plan"] };
    let names = &installs["configs"];
    Some(names.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect())
}

/// What the host is known as, by its journal.
pub(crate) fn known_identity(status: &HostJournalStatus) -> KnownIdentity {
    let remembered = KnownIdentity::deserialize(&status.memory["identity"]).ok();
    known(remembered.as_ref(), status.hardware.as_ref(), status.claim.as_ref())
}

/// Whether the agent of an attempt has reported work on this plan.
pub(crate) fn has_begun(status: &HostJournalStatus, attempt: u64, plan: u32) -> bool {
    let at = status.progress.as_ref().map(|progress| (progress.attempt, progress.plan));
    let has_receipt = || status.receipts.iter().any(|receipt| (receipt.attempt, receipt.plan) == (attempt, plan));
    at == Some((attempt, plan)) || has_receipt()
}

/// The attempt that the planner is at; 0 before the first.
pub(crate) fn attempt(status: &HostJournalStatus) -> u64 {
    status.memory.get("attempt").and_then(serde_json::Value::as_u64).unwrap_or(0)
}
