//! The objects of machines without an owner: made, changed, and forgotten where there are too many
//! ([`crate::strangers`] says which).

use std::sync::{Mutex, MutexGuard, PoisonError};

use firesteel_facts::Mac;
use firesteel_kube::{Change, Part, Status};
use firesteel_resources::{
    DiscoveredHost,
    discovered_host::{DiscoveredHostStatus, object_name},
};
use firesteel_wire::{Refusal, RefusalReason};
use jiff::Timestamp;

use crate::{
    Control,
    agents::{busy, refusal},
    boot::mac_with_colons,
    discovery::Named,
    strangers::RememberedStrangers,
};

impl Control {
    /// The table of machines that are remembered, for a few instructions.
    pub(crate) fn strangers(&self) -> MutexGuard<'_, RememberedStrangers> {
        self.inner.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has machines that were silent for longest forgotten until there is room for this one.
    async fn make_room_for(&self, mac: Mac) -> Result<(), Status> {
        if !self.strangers().is_read() {
            let _one = self.inner.strangers_reading.lock().await;
            let is_read = self.strangers().is_read();
            if !is_read {
                self.read_strangers().await?;
            }
        }
        loop {
            let Some(silent) = self.strangers().in_the_way_of(mac) else { return Ok(()) };
            self.forget_silent(silent).await?;
        }
    }

    /// Reads which machines the store remembers, one after the other.
    async fn read_strangers(&self) -> Result<(), Status> {
        // Where their list is damaged this says so, and a subscription would wait until it is not.
        self.inner.discovered.count(None).await?;
        let mut stored = self.inner.discovered.subscribe().await?;
        loop {
            match stored.next().await? {
                Change::Applied(machine) => {
                    let (bytes, is_kept) = (bytes_of(&machine), machine.status.uncleaned.is_some());
                    if let Ok(mac) = machine.metadata.name.parse() {
                        self.strangers().read(mac, machine.status.last_seen, bytes, is_kept);
                    }
                }
                Change::Synced => {
                    self.strangers().read_all();
                    return Ok(());
                }
                Change::Deleted(_) | Change::Undecodable { .. } => {}
            }
        }
    }

    async fn forget_silent(&self, mac: Mac) -> Result<(), Status> {
        let name = object_name(&mac.hyphenated());
        // One that cannot be read is not among those that are read the next time.
        let stored = self.inner.discovered.get("", &name).await.inspect_err(|_| self.strangers().outdate())?;
        match stored {
            // Marked since it was read.
            Some(machine) if machine.status.uncleaned.is_some() => {
                self.strangers().stored(mac, self.now(), bytes_of(&machine), true);
                return Ok(());
            }
            Some(machine) => {
                self.inner.discovered.delete_exact("", &name, &machine.metadata.uid).await?;
                tracing::info!(%mac, "an unknown machine was silent for longest and is forgotten: too many are there");
            }
            None => {}
        }
        self.views().discovered.remove(&mac);
        self.strangers().forgotten(mac);
        Ok(())
    }

    /// Takes in what was stored of a machine.
    fn note_remembered(&self, mac: Mac, machine: &DiscoveredHost) {
        let is_kept = machine.status.uncleaned.is_some();
        self.strangers().stored(mac, self.now(), bytes_of(machine), is_kept);
    }

    /// Refuses a write for a machine without an owner while there are too many of them.
    pub(crate) fn check_pace(&self) -> Result<(), Refusal> {
        if self.strangers().may_write(self.now()) {
            return Ok(());
        }
        Err(refusal(RefusalReason::Busy, "too much is written for unknown machines just now: try again"))
    }

    /// Changes the object of a discovered machine, making it first where it is missing; `None` where it was deleted
    /// meanwhile.
    pub(crate) async fn change_discovered(
        &self,
        mac: Mac,
        change: impl Fn(&mut DiscoveredHostStatus) + Send + Sync,
    ) -> Result<Option<DiscoveredHost>, Status> {
        let name = object_name(&mac.hyphenated());
        let objects = &self.inner.discovered;
        if objects.get("", &name).await?.is_none() {
            self.make_room_for(mac).await?;
            let mut machine = DiscoveredHost::default();
            machine.metadata.name.clone_from(&name);
            match objects.create(&machine).await {
                Ok(_) => tracing::info!(%mac, "a machine that nobody owns boots from the network"),
                Err(status) if status.is_already_exists() => {}
                Err(status) => return Err(status),
            }
        }
        let now = self.now();
        let stored = objects
            .modify("", &name, Part::Status, |machine| {
                machine.status.boot_mac = mac_with_colons(mac);
                if machine.status.first_seen == Timestamp::default() {
                    machine.status.first_seen = now;
                }
                change(&mut machine.status);
            })
            .await?;
        stored.iter().for_each(|machine| self.note_remembered(mac, machine));
        Ok(stored)
    }

    /// Changes the very object that a token is for, and returns what `change` said about what was stored. Where it
    /// changes nothing, nothing is written.
    pub(crate) async fn change_named<R: Send>(
        &self,
        named: &Named,
        change: impl Fn(&mut DiscoveredHostStatus) -> R + Send + Sync,
    ) -> Result<R, Refusal> {
        let forgotten = || refusal(RefusalReason::OldAttempt, "this machine was forgotten: boot again");
        let name = object_name(&named.mac.hyphenated());
        let before = self.inner.discovered.get("", &name).await.map_err(busy)?;
        let before = before.filter(|machine| named.is(machine)).ok_or_else(forgotten)?;
        let mut status = before.status.clone();
        let unchanged = change(&mut status);
        if status == before.status {
            return Ok(unchanged);
        }
        self.check_pace()?;
        let said = Mutex::new(None);
        let stored = self
            .inner
            .discovered
            .modify("", &name, Part::Status, |machine| {
                let is_named = named.is(machine);
                *said.lock().unwrap_or_else(PoisonError::into_inner) = is_named.then(|| change(&mut machine.status));
            })
            .await
            .map_err(busy)?;
        stored.iter().for_each(|machine| self.note_remembered(named.mac, machine));
        // A record that grew may need the room of another.
        self.make_room_for(named.mac).await.map_err(busy)?;
        let said = said.into_inner().unwrap_or_else(PoisonError::into_inner);
        stored.and(said).ok_or_else(forgotten)
    }
}

/// What a machine's object has in the store, but for its metadata.
fn bytes_of(machine: &DiscoveredHost) -> usize {
    serde_json::to_vec(&machine.status).map_or(0, |bytes| bytes.len())
}
