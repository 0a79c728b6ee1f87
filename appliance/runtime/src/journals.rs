//! The hosts' journals: read, and changed by compare-and-swap.

use std::sync::Mutex;

use firesteel_kube::{ObjectPart, Objects, Status};
use firesteel_resources::host_journal::{HostJournalStatus, TimelineEvent};
use firesteel_resources::{BareMetalHost, HostJournal, OwnerReference};
use jiff::Timestamp;

use crate::{HostKey, lock};

/// The store of the hosts' journals. Clones share it.
#[derive(Clone, Debug)]
pub struct Journals {
    objects: Objects<HostJournal>,
}

impl Journals {
    #[must_use]
    pub fn new(objects: Objects<HostJournal>) -> Self {
        Self { objects }
    }

    /// Reads a host's journal; `None` when it has none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn read(&self, key: &HostKey) -> Result<Option<HostJournalStatus>, Status> {
        Ok(self.objects.get(&key.namespace, &key.name).await?.map(|journal| journal.status))
    }

    /// Reads the journal of a host, or makes it (owned by the host), and says whether it was made. A journal of an
    /// earlier host with the same name is replaced: it speaks of another object.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn open(&self, key: &HostKey, host: &BareMetalHost) -> Result<(HostJournal, bool), Status> {
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

    /// Stores a journal that was read before.
    ///
    /// # Errors
    /// When the store fails; with a conflict when the journal changed since.
    pub async fn store(&self, journal: &HostJournal) -> Result<HostJournal, Status> {
        self.objects.update_status(journal).await
    }

    /// Changes the journal as it stands and returns what `change` said about the state that was
    /// stored. `change` may run several times. `None` when the host has no journal.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn change<R: Send>(
        &self,
        key: &HostKey,
        change: impl Fn(&mut HostJournalStatus) -> R + Send + Sync,
    ) -> Result<Option<R>, Status> {
        let said = Mutex::new(None);
        let keep = |journal: &mut HostJournal| *lock(&said) = Some(change(&mut journal.status));
        let stored = self.objects.modify(&key.namespace, &key.name, ObjectPart::Status, keep).await?;
        Ok(stored.and_then(|_| lock(&said).take()))
    }

    /// Adds an event to the timeline.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn note(&self, key: &HostKey, event: &TimelineEvent) -> Result<(), Status> {
        self.change(key, |status| status.note(event.clone())).await.map(|_| ())
    }

    /// Adds an event to the timeline unless the last one says the same. A failure is logged, since nothing depends on
    /// it.
    pub async fn note_again(&self, key: &HostKey, event: &TimelineEvent) {
        if let Err(status) = self.change(key, |status| status.note_again(event.clone())).await {
            tracing::warn!(host = %key, error = %status.message, event = event.event, "could not write the timeline; the log has the event");
        }
    }

    /// Removes the journal of a host that is gone. Another host of its name may have come since, whose
    /// journal stays.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remove(&self, key: &HostKey, uid: &str) -> Result<(), Status> {
        let Some(journal) = self.objects.get(&key.namespace, &key.name).await? else { return Ok(()) };
        if journal.metadata.owner_references.iter().any(|owner| owner.uid == uid) {
            self.objects.delete_exact(&key.namespace, &key.name, &journal.metadata.uid).await?;
        }
        Ok(())
    }
}

/// Makes an event of a host's timeline.
#[must_use]
pub fn event(at: Timestamp, attempt: u64, name: &str, detail: impl Into<String>) -> TimelineEvent {
    TimelineEvent { at, attempt, event: name.to_owned(), detail: detail.into(), bytes: None }
}
