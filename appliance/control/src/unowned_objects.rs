//! The objects of machines without an owner: made, changed, and forgotten where there are too many
//! ([`crate::unowned_machines`] says which).

use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_facts::Mac;
use firesteel_kube::{ObjectChange, ObjectPart, Objects, Status};
use firesteel_plan::{HostMemory, host};
use firesteel_resources::discovered_host::{DiscoveredHostStatus, TombstoneStatus, object_name};
use firesteel_resources::{DiscoveredHost, set_condition};
use firesteel_runtime::lock;
use firesteel_wire::{RefusalReason, RefusalReply};
use jiff::Timestamp;
use tokio::sync::Mutex as AsyncMutex;

use crate::discovered_table::UnmarkedMachine;
use crate::refusals::{busy, refusal};
use crate::{discovery_token::DiscoverySubject, shared::Shared, unowned_machines::RememberedStrangers};

/// Keeps the objects of machines without an owner.
#[derive(Clone)]
pub(crate) struct UnownedObjects {
    pub(crate) shared: Arc<Shared>,
    pub(crate) discovered: Objects<DiscoveredHost>,
    strangers: Arc<Mutex<RememberedStrangers>>,
    /// One reads which machines are remembered, and the others wait for that.
    strangers_reading: Arc<AsyncMutex<()>>,
}

impl UnownedObjects {
    pub(crate) fn new(shared: Arc<Shared>, discovered: Objects<DiscoveredHost>) -> Self {
        Self { shared, discovered, strangers: Arc::default(), strangers_reading: Arc::default() }
    }

    /// The table of machines that are remembered, for a few instructions.
    pub(crate) fn lock_unowned(&self) -> MutexGuard<'_, RememberedStrangers> {
        lock(&self.strangers)
    }

    /// Has machines that were silent for longest forgotten until there is room for this one.
    async fn make_room_for(&self, mac: Mac) -> Result<(), Status> {
        if !self.lock_unowned().is_read() {
            let _one = self.strangers_reading.lock().await;
            let is_read = self.lock_unowned().is_read();
            if !is_read {
                self.read_unowned().await?;
            }
        }
        loop {
            let Some(silent) = self.lock_unowned().in_the_way_of(mac) else { return Ok(()) };
            self.forget_silent(silent).await?;
        }
    }

    /// Reads which machines the store remembers, one after the other.
    async fn read_unowned(&self) -> Result<(), Status> {
        // Where their list is damaged this says so, and a subscription would wait until it is not.
        self.discovered.count(None).await?;
        let mut stored = self.discovered.subscribe().await?;
        loop {
            match stored.next().await? {
                ObjectChange::Applied(machine) => {
                    let (bytes, is_kept) = (bytes_of(&machine), machine.status.uncleaned.is_some());
                    if let Ok(mac) = machine.metadata.name.parse() {
                        self.lock_unowned().read(mac, machine.status.last_seen, bytes, is_kept);
                    }
                }
                ObjectChange::Synced => {
                    self.lock_unowned().read_all();
                    return Ok(());
                }
                ObjectChange::Deleted(_) | ObjectChange::Undecodable { .. } => {}
            }
        }
    }

    async fn forget_silent(&self, mac: Mac) -> Result<(), Status> {
        let name = object_name(&mac.hyphenated());
        // One that cannot be read is not among those that are read the next time.
        let stored = self.discovered.get("", &name).await.inspect_err(|_| self.lock_unowned().mark_stale())?;
        match stored {
            // Marked since it was read.
            Some(machine) if machine.status.uncleaned.is_some() => {
                self.lock_unowned().stored(mac, self.shared.now(), bytes_of(&machine), true);
                return Ok(());
            }
            Some(machine) => {
                self.discovered.delete_exact("", &name, &machine.metadata.uid).await?;
                tracing::info!(%mac, "an unknown machine was silent for longest and is forgotten: too many are there");
            }
            None => {}
        }
        self.shared.views().discovered.remove(&mac);
        self.lock_unowned().forgotten(mac);
        Ok(())
    }

    /// Takes in what was stored of a machine.
    fn note_remembered(&self, mac: Mac, machine: &DiscoveredHost) {
        let is_kept = machine.status.uncleaned.is_some();
        self.lock_unowned().stored(mac, self.shared.now(), bytes_of(machine), is_kept);
    }

    /// Refuses a write for a machine without an owner while there are too many of them.
    pub(crate) fn check_pace(&self) -> Result<(), RefusalReply> {
        if self.lock_unowned().may_write(self.shared.now()) {
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
        let objects = &self.discovered;
        if objects.get("", &name).await?.is_none() {
            self.make_room_for(mac).await?;
            let mut machine = DiscoveredHost::default();
            machine.metadata.name.clone_from(&name);
            match objects.create(&machine).await {
                Ok(_) => tracing::info!(%mac, "a machine without an owner boots from the network"),
                Err(status) if status.is_already_exists() => {}
                Err(status) => return Err(status),
            }
        }
        let now = self.shared.now();
        let stored = objects
            .modify("", &name, ObjectPart::Status, |machine| {
                machine.status.boot_mac = mac.to_string();
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
        named: &DiscoverySubject,
        change: impl Fn(&mut DiscoveredHostStatus) -> R + Send + Sync,
    ) -> Result<R, RefusalReply> {
        let forgotten = || refusal(RefusalReason::OldAttempt, "this machine was forgotten: boot again");
        let name = object_name(&named.mac.hyphenated());
        let before = self.discovered.get("", &name).await.map_err(busy)?;
        let before = before.filter(|machine| named.is(machine)).ok_or_else(forgotten)?;
        let mut status = before.status.clone();
        let unchanged = change(&mut status);
        if status == before.status {
            return Ok(unchanged);
        }
        self.check_pace()?;
        let said = Mutex::new(None);
        let keep = |machine: &mut DiscoveredHost| {
            *lock(&said) = named.is(machine).then(|| change(&mut machine.status));
        };
        let stored = self.discovered.modify("", &name, ObjectPart::Status, keep).await.map_err(busy)?;
        stored.iter().for_each(|machine| self.note_remembered(named.mac, machine));
        // A record that grew may need the room of another.
        self.make_room_for(named.mac).await.map_err(busy)?;
        let said = lock(&said).take();
        stored.and(said).ok_or_else(forgotten)
    }

    /// Has the object of a machine say whose machine it is; whether that could be written now.
    pub(crate) async fn mark(&self, mac: Mac, machine: &UnmarkedMachine) -> Result<bool, Status> {
        let now = self.shared.now();
        if !self.lock_unowned().may_write(now) {
            return Ok(false);
        }
        let say = |object: &mut DiscoveredHost| {
            set_condition(&mut object.status.conditions, machine.condition.clone(), now);
        };
        let stored = self.discovered.modify("", &machine.name, ObjectPart::Status, say).await?;
        if let Some(stored) = stored {
            self.note_remembered(mac, &stored);
            tracing::info!(%mac, hint = %machine.condition.message, "a discovered machine says whose it is now");
        }
        Ok(true)
    }

    /// Machines that became hosts are no longer discovered.
    pub(crate) fn forget_discovered(&self, macs: &[Mac]) {
        for mac in macs {
            let (objects, mac) = (self.clone(), *mac);
            self.shared.tasks.spawn(async move {
                let name = object_name(&mac.hyphenated());
                // What was let go uncleaned stays named until its disk was written again.
                let result = match objects.discovered.get("", &name).await {
                    Ok(Some(machine)) if machine.status.uncleaned.is_none() => {
                        objects.lock_unowned().forgotten(mac);
                        objects.discovered.delete("", &name).await
                    }
                    Ok(_) => Ok(()),
                    Err(status) => Err(status),
                };
                if let Err(status) = result {
                    tracing::warn!(%mac, error = %status.message, "could not forget a discovered machine; it is shown beside its host");
                }
            });
        }
    }

    /// A host that was let go uncleaned stays visible as a discovered machine that says so.
    pub(crate) async fn tombstone(&self, memory: &HostMemory, left: &TombstoneStatus) -> Result<(), Status> {
        for mac in memory.macs.iter().filter_map(|mac| mac.parse().ok()) {
            let unite = |machine: &mut DiscoveredHostStatus| {
                machine.uncleaned = Some(united(machine.uncleaned.as_ref(), left));
            };
            self.change_discovered(mac, unite).await?;
        }
        tracing::warn!(host = %left.host, reason = %left.reason, "released without cleaning");
        Ok(())
    }

    pub(crate) async fn forget_tombstone(&self, memory: &HostMemory) -> Result<(), Status> {
        for mac in &memory.macs {
            let name = object_name(mac);
            let stored = self.discovered.get("", &name).await?;
            if stored.is_some_and(|machine| machine.status.uncleaned.is_some()) {
                self.discovered.delete("", &name).await?;
                mac.parse().into_iter().for_each(|mac| self.lock_unowned().forgotten(mac));
            }
        }
        Ok(())
    }

    /// The tombstone that stands for one of these MACs.
    pub(crate) async fn tombstone_of(&self, macs: &[String]) -> Result<Option<host::Tombstone>, Status> {
        for mac in macs {
            let stored = self.discovered.get("", &object_name(mac)).await?;
            if let Some(left) = stored.and_then(|machine| machine.status.uncleaned) {
                let TombstoneStatus { host, disk, of_tenant, at, .. } = left;
                let (is_settled, is_told_only) = (false, false);
                return Ok(Some(host::Tombstone { host, disk, at, of_tenant, is_settled, is_told_only }));
            }
        }
        Ok(None)
    }
}

/// What a machine's object has in the store, but for its metadata.
fn bytes_of(machine: &DiscoveredHost) -> usize {
    serde_json::to_vec(&machine.status).map_or(0, |bytes| bytes.len())
}

/// What a machine's tombstone says after one more release without cleaning. One that stands already is not settled, so
/// both are meant: no disk is named where they differ, and a tenant's data is there if either says so. The same release
/// again changes nothing.
fn united(old: Option<&TombstoneStatus>, new: &TombstoneStatus) -> TombstoneStatus {
    let of_tenant = new.of_tenant || old.is_some_and(|old| old.of_tenant);
    let both = match old {
        Some(old) if old.host == new.host && (old.disk == new.disk || old.disk.is_empty()) => old.clone(),
        Some(old) if old.disk != new.disk => TombstoneStatus { disk: String::new(), ..new.clone() },
        Some(_) | None => new.clone(),
    };
    TombstoneStatus { of_tenant, ..both }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_forgets_no_disk() {
        let left = |host: &str, disk: &str, second: i64| TombstoneStatus {
            host: host.to_owned(),
            disk: disk.to_owned(),
            of_tenant: false,
            reason: String::new(),
            at: jiff::Timestamp::from_second(second).unwrap_or_default(),
        };
        let first = left("default/a", "A", 1);
        for (old, new, expected) in [
            (None, left("default/a", "A", 2), left("default/a", "A", 2)),
            (Some(&first), left("default/a", "A", 2), first.clone()),
            // A second life under the same name, with another disk.
            (Some(&first), left("default/a", "B", 2), left("default/a", "", 2)),
            (Some(&first), left("default/a", "", 2), left("default/a", "", 2)),
            (Some(&first), left("default/b", "A", 2), left("default/b", "A", 2)),
            (Some(&first), left("default/b", "B", 2), left("default/b", "", 2)),
        ] {
            let united = super::united(old, &new);
            assert_eq!(united, expected, "{old:?} and {new:?}");
            assert_eq!(super::united(Some(&united), &new), united, "the effect may run again");
        }
        // Whichever of them a tenant left.
        let of_tenant = |left: TombstoneStatus| TombstoneStatus { of_tenant: true, ..left };
        for new in [left("default/a", "A", 2), left("default/b", "B", 2)] {
            assert!(super::united(Some(&of_tenant(first.clone())), &new).of_tenant);
            assert!(super::united(Some(&first), &of_tenant(new)).of_tenant);
        }
        assert!(!super::united(Some(&first), &left("default/b", "B", 2)).of_tenant);
    }
}
