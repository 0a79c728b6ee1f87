//! Reads where the hosts of a group stand, and gives them images.

use firesteel_kube::{ObjectPart, Status};
use firesteel_plan::{HostMemory, journal::memory as memory_of};
use firesteel_resources::{BareMetalHost, Image, SecretReference, host_journal::HostJournalStatus};
use firesteel_runtime::HostKey;

use super::GroupCandidate;
use crate::RolloutController;

/// What is to stand in a host's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DesiredHostSpec {
    /// The image; `None` takes one back that a group gave.
    pub(super) image: Option<Image>,
    /// The Secret with its user data; `None` for the host's own.
    pub(super) user_data: Option<String>,
}

impl DesiredHostSpec {
    /// Whether the host has it already.
    pub(super) fn is_there(&self, image: Option<&Image>, user_data: &str) -> bool {
        let named = |image: &Image| (image.url.clone(), image.checksum.clone());
        let has_user_data = self.user_data.as_ref().is_none_or(|name| name == user_data);
        image.map(named) == self.image.as_ref().map(named) && (has_user_data || self.image.is_none())
    }

    fn put(&self, host: &mut BareMetalHost) {
        host.spec.image.clone_from(&self.image);
        if let (Some(name), Some(_)) = (&self.user_data, &self.image) {
            let namespace = host.metadata.namespace.clone();
            host.spec.user_data = Some(SecretReference { name: name.clone(), namespace });
        }
    }
}

/// A host's journal that was read again.
struct HostJournalSnapshot {
    memory: HostMemory,
    journal: HostJournalStatus,
}

/// Nothing can be said of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its memory cannot be read by this appliance")]
pub(crate) struct MemoryUnreadable;

impl RolloutController {
    pub(super) async fn read_place(&self, key: &HostKey, uid: &str) -> Result<GroupCandidate, Status> {
        let Some(host) = self.inner.hosts.get(&key.namespace, &key.name).await? else {
            return Ok(GroupCandidate::unreadable(uid, "it is gone".to_owned()));
        };
        Ok(match self.read_known(key).await? {
            Ok(known) => self.place_of(&host, &known.memory, &known.journal),
            Err(why) => GroupCandidate::unreadable(uid, why.to_string()),
        })
    }

    /// The inner error: why nothing can be said of it.
    async fn read_known(&self, key: &HostKey) -> Result<Result<HostJournalSnapshot, MemoryUnreadable>, Status> {
        let journal = self.handles().journals.read(key).await?.unwrap_or_default();
        Ok(match memory_of(&journal) {
            Ok(memory) => Ok(HostJournalSnapshot { memory, journal }),
            Err(_) => Err(MemoryUnreadable),
        })
    }

    /// Puts an image into a host's spec, or takes one away that a group gave, where nothing is lost by it. No step of
    /// the host comes between the look at its journal and the write. Whether it was written.
    ///
    /// `may`: whether it is the group's to write to such a host.
    pub(super) async fn give(
        &self,
        key: &HostKey,
        uid: &str,
        wanted: &DesiredHostSpec,
        may: &(dyn Fn(&GroupCandidate) -> bool + Sync),
    ) -> Result<bool, Status> {
        let _no_step = self.handles().steps.wait(key, &*self.handles().runtime).await;
        let Ok(known) = self.read_known(key).await? else { return Ok(false) };
        // The memory is older than a restore of the store, and no step has dealt with that yet: a paused host has none.
        if known.memory.timeline != self.handles().core.store().lineage().timeline() {
            return Ok(false);
        }
        // Judged for each try of the write: its owner writes to the same spec.
        let may = |host: &BareMetalHost| {
            let place = GroupCandidate::of(host, &known.memory, &known.journal);
            let is_due = place.open().is_some_and(|image| !wanted.is_there(image, &place.user_data));
            host.metadata.uid == uid && is_due && may(&place)
        };
        match self.inner.hosts.get(&key.namespace, &key.name).await? {
            Some(host) if may(&host) => {}
            Some(_) | None => return Ok(false),
        }
        let write = |host: &mut BareMetalHost| {
            if may(host) {
                wanted.put(host);
            }
        };
        let stored = self.inner.hosts.modify(&key.namespace, &key.name, ObjectPart::Main, write).await?;
        Ok(stored.is_some_and(|host| {
            let user_data = host.spec.user_data.as_ref().map_or("", |reference| reference.name.as_str());
            wanted.is_there(host.spec.wanted_image(), user_data)
        }))
    }
}
